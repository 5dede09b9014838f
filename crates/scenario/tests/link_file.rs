//! Link files: what is read, every fault at once at its place, and the reference in the documentation.

use ::link::{LinkConfig, LossModel, QueueLimit};
use ::scenario::link_file::{InPlace, LinkFile, UpLink, load, reference};
use document::RateLimit;
use std::path::Path;
use units::{Bytes, Duration, Probability, Rate};

const CARRIER: &str = "[carrier.return]\nrate = \"4Mbit/s\"\n[down]\nrate = \"20Mbit/s\"\ndelay = \"260ms\"\n";
const TERMINAL: &str = "[[terminal]]\nname = \"one\"\nnetworks = [\"198.18.1.0/24\"]\n\
    up = { delay = \"260ms\", dama = { carrier = \"return\", rbdc = \"4Mbit/s\" } }\n";

fn read(text: &str) -> Result<LinkFile, Vec<String>> {
    read_with(text, [InPlace::default(); 2])
}

fn read_with(text: &str, in_place: [InPlace; 2]) -> Result<LinkFile, Vec<String>> {
    let file = |name: &str| match name {
        "rain" => Ok("10s 3Mbit/s\n20s 6Mbit/s\n".to_owned()),
        _ => Err("it is not there".to_owned()),
    };
    load(text, "link.toml", &file, in_place).map_err(|faults| faults.0)
}

fn links(text: &str) -> (LinkConfig, LinkConfig) {
    match read(text).unwrap_or_else(|faults| panic!("{faults:#?}")) {
        LinkFile { up: UpLink::Link(up), down } => (*up, down),
        other => panic!("{other:?}"),
    }
}

#[test]
fn both_directions_have_the_settings_of_both() {
    let (up, down) =
        links("[both]\nrate = \"6Mbit/s\"\ndelay = \"275ms\"\nseed = 4\nrate_steps = { file = \"rain\" }\n");
    assert_eq!((up.rate, up.delay, up.seed), (Some(Rate::from_bps(6_000_000)), Duration::from_millis(275), 4));
    assert_eq!(up.rate_steps.as_ref().unwrap().steps.len(), 2);
    assert_ne!(up.stream, down.stream, "links with one stream would lose the same packets");
    assert_eq!(LinkConfig { stream: down.stream, ..up }, down);
}

#[test]
fn settings_are_written_as_in_scenarios() {
    let (up, down) = links(
        "[up]\nrate = \"2Mbit/s\"\ndelay = \"100ms\"\nqueue = \"1BDP\"\nloss = 0.01\n\
        [down]\nrate = \"unlimited\"\ndelay = \"400ms\"\nqueue = \"50packets\"\nloss = { bernoulli = 0.01 }\n",
    );
    let loss = LossModel::Bernoulli(Probability::new(0.01).unwrap());
    assert_eq!((up.queue, up.loss), (QueueLimit::Bytes(Bytes::new(125_000)), loss.clone()));
    assert_eq!((down.rate, down.queue, down.loss), (None, QueueLimit::Packets(50), loss));
    assert_eq!(links("[both]\nrate = \"1Mbit/s\"\n").0.queue, QueueLimit::Unlimited);
}

#[test]
fn a_queue_of_products_follows_the_nominal_delays() {
    let (up, down) = links(
        "[up]\nrate = \"2Mbit/s\"\nqueue = \"1BDP\"\nhandover = { period = \"15s\", delay = [\"80ms\", \"120ms\"] }\n\
        [down]\nrate = \"8Mbit/s\"\nqueue = \"1BDP\"\ndelay_steps = { steps = [[\"0s\", \"400ms\"]] }\n",
    );
    assert_eq!(
        (up.queue, down.queue),
        (QueueLimit::Bytes(Bytes::new(125_000)), QueueLimit::Bytes(Bytes::new(500_000)))
    );
}

#[test]
fn terminals_share_a_carrier() {
    let file = read(&format!("{CARRIER}{TERMINAL}{}dlep = \"ns:mgmt0\"\n", TERMINAL.replace("one", "two"))).unwrap();
    let UpLink::Carrier { carrier, terminal } = &file.up else { panic!("{file:?}") };
    assert_eq!(carrier.rate, Rate::from_bps(4_000_000));
    assert_eq!(terminal.iter().map(|terminal| &terminal.name[..]).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(terminal.iter().map(|terminal| terminal.dlep.as_deref()).collect::<Vec<_>>(), [None, Some("ns:mgmt0")]);
    assert_ne!(terminal[0].up.stream, terminal[1].up.stream);
}

/// The streams of the links down and up.
fn streams(text: &str) -> Vec<u64> {
    let mut file = read(text).unwrap_or_else(|faults| panic!("{faults:#?}"));
    std::iter::once(file.down.stream).chain(file.up.links_mut().map(|link| link.stream)).collect()
}

/// The carrier's terminals, and of some links the streams.
fn with_streams(down: Option<u64>, terminals: &[Option<u64>]) -> String {
    let set = |stream: Option<u64>| stream.map_or(String::new(), |stream| format!("stream = {stream}"));
    let terminals = terminals.iter().enumerate().map(|(number, stream)| {
        let comma = stream.map_or(String::new(), |_| format!("{}, ", set(*stream)));
        TERMINAL.replace("one", &format!("t{number}")).replace("up = { ", &format!("up = {{ {comma}"))
    });
    format!("{CARRIER}{}\n{}", set(down), terminals.collect::<String>())
}

#[test]
fn links_for_which_no_stream_is_set_have_numbers_in_order() {
    assert_eq!(streams("[both]\ndelay = \"1ms\"\n"), [0, 1]);
    assert_eq!(streams("[up]\ndelay = \"1ms\"\n[down]\ndelay = \"1ms\"\n"), [0, 1]);
    assert_eq!(streams(&with_streams(None, &[None; 4])), [0, 1, 2, 3, 4]);
    assert_eq!(streams("[both]\ndelay = \"1ms\"\nstream = 5\n"), [5, 6], "one setting for two links");
}

#[test]
fn streams_that_are_set_are_kept_and_the_others_differ_from_them() {
    assert_eq!(streams(&with_streams(None, &[Some(2), None, None])), [0, 2, 1, 3]);
    assert_eq!(streams(&with_streams(Some(1), &[None, None, Some(0)])), [1, 2, 3, 0]);
    assert_eq!(streams("[up]\nstream = 0\n[down]\ndelay = \"1ms\"\n"), [1, 0]);
    assert_eq!(streams("[up]\ndelay = \"1ms\"\n[down]\nstream = 7\n"), [7, 0]);
    let last = (1 << 56) - 1;
    assert_eq!(streams(&with_streams(Some(last), &[None, None])), [last, 0, 1]);
    assert_eq!(streams(&format!("[both]\nstream = {last}\n")), [last, 0]);
}

#[test]
fn two_links_for_which_one_stream_is_set_are_a_fault_that_names_both() {
    let faults = read(&with_streams(None, &[Some(3), None, Some(3)])).unwrap_err();
    assert_eq!(faults.len(), 1, "{faults:#?}");
    assert!(faults[0].contains("terminal.t2.up.stream = 3: terminal.t0.up has the same"), "{faults:#?}");
    let faults = read("[up]\nstream = 4\n[down]\nstream = 4\n").unwrap_err();
    assert!(faults[0].starts_with("link.toml:2:10: up.stream = 4: down has the same"), "{faults:#?}");
}

#[test]
fn every_fault_is_reported_at_once_with_place_key_and_what_would_fit() {
    let text = "[up]\nrate = \"6 parsecs\"\nlatency = \"1ms\"\n[down]\ndelay = \"2h\"\nloss = 1.5\n\
        [[terminal]]\nname = \"one\"\nnetworks = [\"198.18.1.0/33\"]\nup = { delay = \"1ms\" }\ndlep = \":\"\n";
    let faults = read(text).unwrap_err();
    for (fault, start) in [
        (0, "link.toml:2:8: up.rate = \"6 parsecs\": "),
        (1, "link.toml:3:1: up.latency: unknown key"),
        (2, "link.toml:6:8: down.loss = 1.5: expected a number from 0 to 1"),
        (4, "link.toml:9:13: terminal.one.networks.0 = \"198.18.1.0/33\": expected a network such as"),
        (5, "link.toml:11:8: terminal.one.dlep = \":\": write IF or NAMESPACE:IF"),
    ] {
        assert!(faults.get(fault).is_some_and(|fault| fault.starts_with(start)), "{start}: {faults:#?}");
    }
    assert!(faults[3].contains("they share no [carrier.NAME]"), "{faults:#?}");
    assert_eq!(faults.len(), 6, "{faults:#?}");
}

#[test]
fn what_is_wrong_beyond_single_keys_has_its_place() {
    for (text, says) in [
        ("", "link.toml:1:1: write [up] and [down], or [both]"),
        ("[up]\ndelay = \"1ms\"\n", "write [up] and [down], or [both]"),
        ("[both]\ndelay = \"2h\"\n", "link.toml:2:9: both: `delay`: 7200s is more than 1h"),
        ("[both]\ndelay = \"1ms\"\nqueue = \"1BDP\"\n", "link.toml:3:9: both: without a `rate` there is no"),
        ("[both]\nrate_steps = { file = \"sun\" }\n", "link.toml:2:14: both: `rate_steps.file`: sun: it is not there"),
        (&format!("{CARRIER}{TERMINAL}[up]\ndelay = \"1ms\""), "link.toml:10:1: up: write each [[terminal]]'s own"),
        (
            &format!("{CARRIER}{}", TERMINAL.replace("\"return\"", "\"returm\"")),
            "link.toml:9:44: terminal.one.up.dama.carrier: there is no [carrier.returm]; did you mean return?",
        ),
        (
            &format!("{CARRIER}{TERMINAL}[carrier.second]\nrate = \"1Mbit/s\"\n"),
            "link.toml:10:10: carrier.second: terminals share one carrier",
        ),
    ] {
        let faults = read(text).unwrap_err();
        assert!(faults.iter().any(|fault| fault.contains(says)), "{says}: {faults:#?}");
    }
}

#[test]
fn the_documentation_holds_the_reference_that_the_types_make() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/emulate.md");
    testkit::made::section(&page, "reference", &reference(), "bentpipe-scenario");
}

/// Every TOML example of the page that has links up and down is a link file.
#[test]
fn the_documentation_shows_sound_link_files() {
    for name in ["emulate.md", "links.md"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
        let page = std::fs::read_to_string(path).unwrap();
        let blocks = page.split("```toml\n").skip(1).map(|block| block.split("```").next().unwrap());
        let whole: Vec<_> = blocks.filter(|block| block.contains("[down]")).collect();
        assert!(!whole.is_empty(), "{name}");
        for block in whole {
            read(block).unwrap_or_else(|faults| panic!("{name}: {faults:#?}"));
        }
    }
}

#[test]
fn what_holds_in_place_of_the_files_reaches_all_that_follows_from_it() {
    let text = "[both]\nrate = \"6Mbit/s\"\ndelay = \"275ms\"\nqueue = \"1BDP\"\n";
    let rate = |rate: &str| Some(RateLimit(Some(rate.parse().unwrap())));
    let up = InPlace { rate: rate("60Mbit/s"), delay: None };
    let down = InPlace { rate: None, delay: Some(Duration::from_millis(25)) };
    let LinkFile { up: UpLink::Link(up), down } = read_with(text, [up, down]).unwrap() else { panic!("a link") };
    let round_trip = Duration::from_millis(300);
    let product = |rate: &str| QueueLimit::bandwidth_delay_product(rate.parse().unwrap(), round_trip);
    assert_eq!((up.rate, up.delay), (Some("60Mbit/s".parse().unwrap()), Duration::from_millis(275)));
    assert_eq!((down.rate, down.delay), (Some("6Mbit/s".parse().unwrap()), Duration::from_millis(25)));
    assert_eq!((up.queue, down.queue), (product("60Mbit/s"), product("6Mbit/s")));
    let unlimited = InPlace { rate: Some(RateLimit(None)), delay: None };
    let faults = read_with(text, [unlimited; 2]).unwrap_err();
    assert!(faults[0].contains("without a `rate` there is no bandwidth-delay product"), "{faults:?}");
}

#[test]
fn what_nothing_can_replace_is_a_fault_at_its_place() {
    let in_place = InPlace { rate: Some(RateLimit(None)), delay: Some(Duration::ZERO) };
    let (rate, delay) = (InPlace { delay: None, ..in_place }, InPlace { rate: None, ..in_place });
    let steps = "rate_steps = { file = \"rain\" }";
    let handover = "handover = { period = \"15s\", delay = [\"10ms\", \"30ms\"] }";
    for (line, in_place, expected) in [
        (steps, rate, Some("up.rate_steps: it sets the rate, which an option cannot replace")),
        (steps, delay, None),
        (handover, delay, Some("up.handover: it sets the delay, which an option cannot replace")),
        (handover, rate, None),
    ] {
        let text = format!("[up]\nrate = \"6Mbit/s\"\n{line}\n[down]\nrate = \"6Mbit/s\"\n");
        let read = read_with(&text, [in_place, InPlace::default()]);
        match expected {
            None => drop(read.unwrap()),
            Some(expected) => {
                let faults = read.unwrap_err();
                assert!(faults.len() == 1 && faults[0].contains(expected), "{faults:?}");
                assert!(faults[0].starts_with("link.toml:3:"), "{faults:?}");
            }
        }
    }
}
