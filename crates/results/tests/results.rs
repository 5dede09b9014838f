//! What is written can be read back, and is what happened.
#![allow(clippy::unwrap_used, reason = "a test")]

use etherparse::{IpNumber, Ipv4Header, TcpHeader, TcpOptionElement};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use pcap_file::pcapng::{Block, PcapNgReader};
use results::{Capture, Comparison, Format, Label, Run, RunDocument, Summary, TABLES, TableWriter, Values, tables};
use scenario::load;
use sim::Simulation;
use std::collections::BTreeMap;
use std::sync::Arc;

const LOSSY: &str = r#"
version = 1
nodes = ["client", "gateway", "server"]
[[link]]
name = "sat"
between = ["client", "gateway"]
rate = "2Mbit/s"
delay = "275ms"
queue = "1BDP"
loss = 1e-2
[[link]]
name = "ground"
between = ["gateway", "server"]
rate = "10Mbit/s"
delay = "5ms"
queue = "1BDP"
[[flow]]
name = "file"
from = "client"
to = "server"
count = 2
start = { spread = "1s" }
tcp = "sack"
bulk = { size = "300kB" }
[[flow]]
name = "voice"
from = "client"
to = "server"
udp = { rate = "64kbit/s", packet_size = "201B" }
[[flow]]
name = "ping"
from = "server"
to = "client"
ping = { requests = 5 }
[stop]
time = "60s"
[record]
interval = "500ms"
queue_interval = "1s"
packets = ["client", "server"]
"#;

/// One more terminal, which sends on a carrier shared on demand.
fn with_a_carrier() -> String {
    const CARRIER: &str = r#"
[[carrier]]
name = "return"
rate = "1Mbit/s"
[[link]]
name = "up"
between = ["terminal", "gateway"]
delay = "250ms"
forward = { dama = { carrier = "return", rbdc = "1Mbit/s" }, queue = "100packets" }
reverse = { rate = "1Mbit/s", queue = "1BDP" }
"#;
    let nodes = "nodes = [\"client\", \"gateway\", \"server\"]";
    let text = LOSSY.replace(nodes, "nodes = [\"client\", \"gateway\", \"server\", \"terminal\"]");
    text.replace("[record]", &format!("{CARRIER}[record]\ncapacity = true"))
}

/// A run, and its capture.
fn run(text: &str, seed: u64) -> (Run, Vec<u8>) {
    let scenario = load(text, "lossy.toml", &[], &|_| Err(String::new())).unwrap().scenarios.remove(0);
    let mut simulation = Simulation::of(&scenario, seed, true).unwrap();
    simulation.run();
    let nodes = &scenario.settings.record.packets_at;
    let mut capture = Capture::new(Vec::new(), &simulation, &scenario.gateways, nodes).unwrap();
    for packet in simulation.take_packets() {
        capture.append(&packet).unwrap();
    }
    let run = Run {
        label: Label { variant: Some("a, \"b\"".into()), seed },
        report: simulation.report(),
        groups: Arc::clone(&scenario.groups),
        network: Arc::clone(&scenario.network),
        flow_samples: simulation.take_flow_samples(),
        queue_samples: simulation.take_queue_samples(),
        capacity_samples: simulation.take_capacity_samples(),
        not_captured: None,
    };
    (run, capture.into_inner())
}

fn written(run: &Run, table: usize, format: Format) -> Vec<u8> {
    let mut writer = TableWriter::new(Vec::new(), format, "test");
    writer.append(&tables(run)[table]).unwrap();
    writer.finish().unwrap()
}

#[test]
fn samples_add_up_to_what_was_delivered() {
    let (run, _) = run(LOSSY, 1);
    let [flows, links, samples, queues, _] = tables(&run);
    let (Some(Values::Integer(delivered)), Some(Values::Number(goodput)), Some(Values::Text(flow))) =
        (samples.column("delivered_bytes"), samples.column("goodput_bps"), samples.column("flow"))
    else {
        panic!("the columns of samples")
    };
    let of = |name: &str| -> (f64, u64) {
        let rows: Vec<_> = (0..samples.rows()).filter(|row| flow[*row].as_deref() == Some(name)).collect();
        // Every sample stands for half a second.
        let sum = rows.iter().map(|row| goodput[*row].unwrap_or(0.0) * 0.5 / 8.0).sum();
        (sum, rows.iter().filter_map(|row| delivered[*row]).max().unwrap())
    };
    for name in ["file-1", "file-2"] {
        let (sum, last) = of(name);
        assert!((100_000..=300_000).contains(&last), "{name}: {last}");
        assert!((sum - last as f64).abs() < 1.0, "{name}: windows of goodput add up to {sum}, not {last}");
    }
    assert_eq!((flows.rows(), links.rows()), (4, 4));
    // Four directions, once a second.
    assert_eq!(queues.rows(), 4 * run.report.end_s as usize);
    let Some(Values::Integer(queued)) = queues.column("queued_bytes") else { panic!("a column of queues") };
    assert!(queued.iter().flatten().any(|bytes| *bytes > 10_000), "a file fills the queue of the satellite");
}

#[test]
fn the_three_formats_hold_the_same_rows() {
    // The largest seed: integers have no sign.
    let (run, _) = run(&with_a_carrier(), u64::MAX);
    for (number, name) in TABLES.iter().enumerate() {
        let csv = written(&run, number, Format::Csv);
        let rows: Vec<csv::StringRecord> = csv::Reader::from_reader(&csv[..]).records().map(Result::unwrap).collect();
        let names = csv::Reader::from_reader(&csv[..]).headers().unwrap().clone();
        let json = String::from_utf8(written(&run, number, Format::JsonLines)).unwrap();
        let objects: Vec<BTreeMap<String, serde_json::Value>> =
            json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let parquet = bytes(written(&run, number, Format::Parquet));
        let records: Vec<_> =
            SerializedFileReader::new(parquet).unwrap().get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert!(!rows.is_empty() && rows.len() == objects.len() && rows.len() == records.len(), "{name}");
        for ((row, object), record) in rows.iter().zip(&objects).zip(&records) {
            for (at, (column, field)) in record.get_column_iter().enumerate() {
                assert_eq!(column, &names[at]);
                let json = match &object[column] {
                    serde_json::Value::Null => String::new(),
                    serde_json::Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                let parquet = match field {
                    Field::Null => String::new(),
                    Field::Str(text) => text.clone(),
                    Field::ULong(value) => value.to_string(),
                    Field::Double(value) => value.to_string(),
                    Field::Bool(value) => value.to_string(),
                    other => panic!("{other:?}"),
                };
                assert_eq!(&row[at], parquet, "{name}.{column}");
                // serde_json reads the last digit only nearly.
                let number = |text: &str| text.parse::<f64>().unwrap_or(f64::NAN);
                let (a, b) = (number(&json), number(&parquet));
                let same = json == parquet || (a - b).abs() <= 1e-12 * a.abs();
                assert!(same, "{name}.{column}: {json} and {parquet}");
            }
        }
    }
}

/// The fields of a JSON object; one within another has both names, joined by `_`.
fn flat(object: &serde_json::Value) -> BTreeMap<String, serde_json::Value> {
    let mut fields = BTreeMap::new();
    for (name, value) in object.as_object().unwrap() {
        match value.as_object() {
            Some(_) => fields.extend(flat(value).into_iter().map(|(inner, value)| (format!("{name}_{inner}"), value))),
            None => drop(fields.insert(name.clone(), value.clone())),
        }
    }
    fields
}

#[test]
fn a_field_has_one_name_in_tables_and_documents() {
    let (run, _) = run(LOSSY, 2);
    let document = serde_json::to_value(RunDocument::from(&run)).unwrap();
    for (table, name) in ["flows", "links"].into_iter().enumerate() {
        let rows = String::from_utf8(written(&run, table, Format::JsonLines)).unwrap();
        let rows: Vec<_> = rows.lines().map(|line| flat(&serde_json::from_str(line).unwrap())).collect();
        let objects: Vec<_> = document[name].as_array().unwrap().iter().map(flat).collect();
        assert_eq!(rows.len(), objects.len());
        for (mut row, object) in rows.into_iter().zip(objects) {
            for label in ["variant", "seed"] {
                assert_eq!(row.remove(label).unwrap(), document[label], "what identifies the run");
            }
            for (field, value) in object {
                // Documents count drops in packets without saying so, and flows without pings have no `rtt` to take apart.
                let column = if field.starts_with("dropped_") { format!("{field}_packets") } else { field };
                let Some(there) = row.remove(&column) else {
                    assert!(column == "rtt" && row["rtt_min_s"].is_null(), "{name} has no column {column}");
                    continue;
                };
                // serde_json reads the last digit only nearly.
                let near = |a: f64, b: f64| (a - b).abs() <= 1e-12 * a.abs();
                let same = there.as_f64().zip(value.as_f64()).is_some_and(|(a, b)| near(a, b));
                assert!(same || there == value, "{name}.{column}: {there} and {value}");
            }
            let rest: Vec<_> =
                row.keys().filter(|column| !column.ends_with("_bytes") && !column.starts_with("rtt_")).collect();
            assert!(rest.is_empty(), "{name} has columns that no document has: {rest:?}");
        }
    }
}

/// What the reader of Parquet takes.
fn bytes(bytes: Vec<u8>) -> bytes::Bytes {
    bytes::Bytes::from(bytes)
}

/// Every packet of a capture: interface, time in nanoseconds, length on the wire, headers.
fn packets(capture: &[u8]) -> Vec<(u32, u128, u32, Vec<u8>)> {
    let mut reader = PcapNgReader::new(capture).unwrap();
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.unwrap() {
            let time = packet.timestamp.as_nanos();
            packets.push((packet.interface_id, time, packet.original_len, packet.data.into_owned()));
        }
    }
    packets
}

/// The headers of a TCP packet. The payload behind them is cut off.
fn tcp(data: &[u8]) -> Option<(Ipv4Header, TcpHeader)> {
    let (ip, rest) = Ipv4Header::from_slice(data).unwrap();
    (ip.protocol == IpNumber::TCP).then(|| (ip, TcpHeader::from_slice(rest).unwrap().0))
}

#[test]
fn a_capture_is_a_valid_tcp_conversation() {
    let (_, capture) = run(LOSSY, 3);
    let packets = packets(&capture);
    assert!(packets.len() > 1000, "{}", packets.len());
    assert!(packets.windows(2).all(|pair| pair[0].1 <= pair[1].1), "times do not fall");
    let (mut syns, mut fins, mut sacks, mut next) = (0, 0, 0, BTreeMap::new());
    for (interface, _, length, data) in &packets {
        let Some((ip, tcp)) = tcp(data) else { continue };
        assert_eq!(u32::from(ip.total_len), *length);
        assert_eq!(ip.header_checksum, ip.calc_header_checksum());
        let payload = vec![0; *length as usize - data.len()];
        assert_eq!(tcp.checksum, tcp.calc_checksum_ipv4(&ip, &payload).unwrap());
        let options: Vec<_> = tcp.options_iterator().map(Result::unwrap).collect();
        if tcp.syn {
            syns += 1;
            assert!(options.contains(&TcpOptionElement::MaximumSegmentSize(1460)), "{options:?}");
            assert!(options.contains(&TcpOptionElement::SelectiveAcknowledgementPermitted), "{options:?}");
            assert!(options.iter().any(|option| matches!(option, TcpOptionElement::WindowScale(_))), "{options:?}");
        }
        assert!(options.iter().any(|option| matches!(option, TcpOptionElement::Timestamp(..))), "{options:?}");
        sacks +=
            usize::from(options.iter().any(|option| matches!(option, TcpOptionElement::SelectiveAcknowledgement(..))));
        fins += usize::from(tcp.fin);
        // The client's own interface sees its segments in the order in which they were sent: no byte is skipped.
        if *interface == 0 && ip.destination[3] == 3 {
            let expected = next.entry(tcp.source_port).or_insert(tcp.sequence_number);
            assert!(tcp.sequence_number <= *expected, "{} after {expected}", tcp.sequence_number);
            let end = tcp.sequence_number + payload.len() as u32 + u32::from(tcp.syn) + u32::from(tcp.fin);
            *expected = end.max(*expected);
        }
    }
    // Two connections, seen at both ends; a lost SYN is seen again.
    assert!(syns >= 8 && fins >= 8 && sacks > 0, "{syns} SYNs, {fins} FINs, {sacks} SACKs");
    // SYN, data and FIN.
    assert!(next.values().all(|end| *end == 300_002), "{next:?}");
}

/// RFC 7323, section 2.2, and RFC 2018: what the other end has not offered is not answered with.
#[test]
fn a_handshake_in_a_capture_has_the_options_of_its_segments_and_no_payload() {
    let with = |tables: &str, ends: &str| {
        let text = LOSSY.replace("tcp = \"sack\"", ends).replace("[stop]", &format!("{tables}\n[stop]"));
        let mut handshakes = BTreeMap::new();
        for (_, _, _, data) in packets(&run(&text, 3).1) {
            let Some((ip, tcp)) = tcp(&data).filter(|(_, tcp)| tcp.syn) else { continue };
            assert_eq!(usize::from(ip.total_len), 20 + tcp.header_len(), "{tcp:?}");
            let options: Vec<_> = tcp.options_iterator().map_while(Result::ok).collect();
            assert!(options.contains(&TcpOptionElement::MaximumSegmentSize(1460)), "{tcp:?}");
            let sack = options.contains(&TcpOptionElement::SelectiveAcknowledgementPermitted);
            let scale = options.iter().any(|option| matches!(option, TcpOptionElement::WindowScale(_)));
            handshakes.insert(tcp.ack, (sack, scale));
        }
        [false, true].map(|is_answer| handshakes[&is_answer])
    };
    let (both, scale, none) = ((true, true), (false, true), (false, false));
    let reno = "[tcp.reno_only]\npreset = \"newreno\"\nmss = \"1460B\"\ntimestamps = false";
    assert_eq!(with(reno, "tcp = \"reno_only\""), [scale, scale]);
    assert_eq!(with("", "tcp = \"newreno\""), [scale, scale]);
    let narrow = "[tcp.narrow]\npreset = \"sack\"\nwindow_scaling = false\nsack = true";
    assert_eq!(with(narrow, "tcp = \"narrow\"\nserver_tcp = \"sack\""), [(true, false), (true, false)]);
    assert_eq!(with(narrow, "tcp = \"sack\"\nserver_tcp = \"narrow\""), [both, (true, false)]);
    let counts = "[tcp.counts]\npreset = \"westwood\"\nmss = \"1460B\"\ntimestamps = false\nwindow_scaling = false\necn = \"ect0\"\n\
                  accurate_ecn = true\naccurate_ecn_option = true";
    assert_eq!(with(counts, "tcp = \"counts\""), [none, none]);
}

/// Kind, length 8, and two counters of three bytes.
#[test]
fn a_capture_has_the_accurate_ecn_option() {
    let tcp_table = "[tcp.l4s]\npreset = \"prague\"\naccurate_ecn_option = true\n[stop]";
    let text = LOSSY.replace("tcp = \"sack\"", "tcp = \"l4s\"").replace("[stop]", tcp_table);
    let text = text.replacen("queue = \"1BDP\"", "queue = \"1BDP\"\ndiscipline = { dual_pi2 = {} }", 1);
    let (_, capture) = run(&text, 3);
    let (mut answers, mut acknowledgements, mut marked) = (0, 0, 0);
    for (_, _, length, data) in packets(&capture) {
        let Some((ip, tcp)) = tcp(&data) else { continue };
        assert_eq!(u32::from(ip.total_len), length);
        let options = tcp.options.as_slice();
        let Some(at) = (0..options.len()).find(|at| options[*at..].starts_with(&[174, 8])) else {
            assert!(!tcp.ack || length > 1_400, "only full segments have none: {tcp:?}");
            continue;
        };
        let counter = |from: usize| options[from..from + 3].iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
        let (capable, ce) = (counter(at + 2), counter(at + 5));
        answers += u32::from(tcp.syn && (capable, ce) == (1, 0));
        acknowledgements += u32::from(!tcp.syn);
        marked = marked.max(ce);
    }
    assert!(answers >= 2 && acknowledgements > 100 && marked > 0, "{answers} {acknowledgements} {marked}");
}

/// Two gateways over a satellite, whose TCP has segments of other sizes and other windows than that of the hosts.
fn with_gateways(transport: &str) -> String {
    let ground =
        "[[link]]\nname = \"lan\"\nbetween = [\"host\", \"client\"]\ndelay = \"1ms\"\n[[link]]\nname = \"ground\"";
    let text = LOSSY.replacen("[[link]]\nname = \"ground\"", ground, 1);
    let text = text.replace("[\"client\", \"gateway\", \"server\"]", "[\"client\", \"gateway\", \"server\", \"host\"]");
    let text = text.replace("from = \"client\"", "from = \"host\"").replace("to = \"client\"", "to = \"host\"");
    let tables = format!(
        "[[gateway]]\nname = \"pair\"\nnodes = [\"client\", \"gateway\"]\ntransport = \"{transport}\"\n\
         [tcp.inner]\npreset = \"sack\"\nmss = \"1000B\"\nreceive_buffer = \"60kB\"\n[stop]"
    );
    let tables =
        if transport == "tcp" { tables.replace("\n[tcp.inner]", "\ntcp = \"inner\"\n[tcp.inner]") } else { tables };
    text.replace("packets = [\"client\", \"server\"]", "packets = [\"client\", \"gateway\"]").replace("[stop]", &tables)
}

/// RFC 6994: kind 253, a length of 12, an identifier and the hole. It is part of the header, so that no acknowledgement has payload.
#[test]
fn a_nack_in_a_capture_is_an_option_and_no_payload() {
    let mut nacks = 0;
    for (_, _, length, data) in packets(&run(&with_gateways("satpep-2003"), 3).1) {
        let Some((ip, tcp)) = tcp(&data) else { continue };
        assert_eq!(u32::from(ip.total_len), length);
        let options = tcp.options.as_slice();
        let Some(at) = (0..options.len()).find(|at| options[*at..].starts_with(&[253, 12, b'S', b'P'])) else {
            continue;
        };
        let edge = |from: usize| u32::from_be_bytes(options[from..from + 4].try_into().unwrap());
        assert!(edge(at + 4) >= tcp.acknowledgment_number && edge(at + 8) > edge(at + 4), "{tcp:?}");
        assert_eq!(length as usize, data.len(), "no payload: {tcp:?}");
        nacks += 1;
    }
    assert!(nacks > 0);
}

/// A gateway keeps the hosts' addresses towards them, and has a connection of its own to the other gateway.
#[test]
fn a_capture_at_a_gateway_tells_the_connections_of_a_flow_apart() {
    let [terminal, far] = [[198, 18, 0, 1], [198, 18, 0, 2]];
    let (mut syns, mut inner_windows) = (BTreeMap::new(), Vec::new());
    for (interface, _, _, data) in packets(&run(&with_gateways("tcp"), 3).1) {
        let Some((ip, tcp)) = tcp(&data).filter(|_| interface == 0) else { continue };
        let is_inner = ip.source == terminal || ip.source == far;
        assert_eq!(is_inner, ip.destination == terminal || ip.destination == far);
        let scales = tcp.options_iterator().any(|option| matches!(option, Ok(TcpOptionElement::WindowScale(_))));
        if tcp.syn && !tcp.ack {
            let mss = tcp.options_iterator().find_map(|option| match option {
                Ok(TcpOptionElement::MaximumSegmentSize(mss)) => Some(mss),
                _ => None,
            });
            let tuple = (ip.source, ip.destination, tcp.source_port, tcp.destination_port);
            let (seen, scaled) = syns.entry((is_inner, tuple)).or_insert((mss, scales));
            assert_eq!((*seen, *scaled), (mss, scales), "one connection, one SYN");
        } else if is_inner && tcp.ack && !tcp.syn {
            inner_windows.push(tcp.window_size);
        }
    }
    let of = |inner: bool| syns.iter().filter(|(key, _)| key.0 == inner).map(|(_, syn)| syn.0).collect::<Vec<_>>();
    assert_eq!((of(false), of(true)), (vec![Some(1460); 2], vec![Some(1012); 2]), "two flows, two connections each");
    // A buffer of 60 kB needs no scale: the field has the window itself.
    assert!(inner_windows.iter().max().is_some_and(|window| (50_000..=60_000).contains(window)), "{inner_windows:?}");
}

#[test]
fn equal_runs_give_equal_bytes_and_other_seeds_others() {
    let (one, again, other) = (run(LOSSY, 4), run(LOSSY, 4), run(LOSSY, 5));
    assert!(one.1 == again.1 && one.1 != other.1);
    for table in 0..TABLES.len() {
        for format in [Format::Csv, Format::JsonLines, Format::Parquet] {
            assert!(written(&one.0, table, format) == written(&again.0, table, format));
        }
    }
    assert_ne!(written(&one.0, 0, Format::Csv), written(&other.0, 0, Format::Csv));
}

/// Of flows that overlap.
fn goodput_side_by_side(flows: &[sim::FlowReport]) -> f64 {
    let bytes: u64 = flows.iter().map(|flow| flow.bytes).sum();
    let start = flows.iter().filter_map(|flow| flow.start_s).fold(f64::INFINITY, f64::min);
    let end = flows.iter().filter_map(|flow| flow.end_s).fold(0.0, f64::max);
    bytes as f64 * 8.0 / (end - start)
}

#[test]
fn summaries_are_means_over_seeds() {
    let runs: Vec<Run> = (1..=4).map(|seed| run(LOSSY, seed).0).collect();
    let [summary] = &Summary::of(&runs)[..] else { panic!("one variant") };
    let file = &summary.flows[0];
    assert_eq!((summary.runs, file.group.as_str(), file.flows, file.complete, file.failed), (4, "file", 2, 8, 0));
    let sums: Vec<f64> = runs.iter().map(|run| goodput_side_by_side(&run.report.flows[..2])).collect();
    let mean = sums.iter().sum::<f64>() / 4.0;
    let goodput = file.goodput_bps.unwrap();
    assert!((goodput.mean - mean).abs() < 1e-6 * mean);
    let variance = sums.iter().map(|sum| (sum - mean).powi(2)).sum::<f64>() / 3.0;
    assert!((goodput.stddev.unwrap() - variance.sqrt()).abs() < 1e-6 * mean);
    let document = serde_json::to_value(RunDocument::from(&runs[0])).unwrap();
    for key in ["seed", "flows", "links", "events", "data_packets"] {
        assert!(document.get(key).is_some(), "{key}");
    }
    assert!(document["links"][0]["dropped"]["loss"].as_u64().unwrap() > 0);
}

/// A flow that the end of the run cut short has no time: the mean would be shorter the more are cut.
#[test]
fn times_are_those_of_flows_that_completed() {
    let mut run = run(LOSSY, 1).0;
    let time = |run: &Run| Summary::of(std::slice::from_ref(run))[0].flows[0].time_s.map(|time| time.mean);
    let second = run.report.flows[1].end_s.unwrap() - run.report.flows[1].start_s.unwrap();
    run.report.flows[0].complete = false;
    assert_eq!(time(&run), Some(second));
    run.report.flows[1].complete = false;
    assert_eq!(time(&run), None);
}

#[test]
fn means_are_without_runs_that_stopped_at_a_limit() {
    let mut runs: Vec<Run> = (1..=2).map(|seed| run(LOSSY, seed).0).collect();
    let alone = Summary::of(&runs[..1]).remove(0);
    runs[1].report.stopped = sim::Stopped::EventLimit;
    let both = Summary::of(&runs).remove(0);
    assert_eq!((alone.runs, alone.limited, both.runs, both.limited), (1, 0, 2, 1));
    assert_eq!(both.links, alone.links);
    let (of_both, of_one) = (&both.flows[0], &alone.flows[0]);
    assert_eq!((of_both.goodput_bps, of_both.time_s, of_both.rtos), (of_one.goodput_bps, of_one.time_s, of_one.rtos));
    assert_eq!((of_both.flows, of_both.complete), (2, 4), "all runs count");
    let limited = &Summary::of(&runs[1..])[0];
    assert!(limited.flows[0].goodput_bps.is_none() && limited.links[0].delivered_bps.is_none());
}

#[test]
fn pictures_that_compare_are_without_runs_that_stopped_at_a_limit() {
    let runs: Vec<Run> = (1..=3).map(|seed| run(LOSSY, seed).0).collect();
    let pictures = |runs: &[Run]| {
        let mut comparison = Comparison::default();
        runs.iter().for_each(|run| comparison.take(run));
        comparison.pictures().into_iter().map(|(_, picture)| picture.unwrap()).collect::<Vec<_>>()
    };
    let whole = pictures(&runs[..2]);
    assert!(whole.len() == 2 && whole.iter().all(|picture| picture.contains("2 seeds")));
    let mut limited = runs;
    limited[2].report.stopped = sim::Stopped::EventLimit;
    assert!(pictures(&limited) == whole);
}
