//! Links that change with time: schedules, traces, handovers.

use crate::packets::{Numbered, at_ms, delivered, drain, dropped};
use link::{DropReason, Handover, Link, LinkConfig, LossModel, Opportunities, QueueLimit, Steps};
use units::{Duration, Instant, Rate};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn link(config: LinkConfig) -> Link<Numbered> {
    Link::new(LinkConfig { queue: QueueLimit::Unlimited, ..config }).expect("valid")
}

/// 1500 bytes each millisecond.
fn fast() -> LinkConfig {
    LinkConfig::new(Rate::from_bps(12_000_000), ms(10))
}

#[test]
fn a_fade_in_the_middle_of_a_packet_neither_duplicates_nor_loses() {
    // A tenth of the rate from 2.5 ms to 12.5 ms: time for one packet.
    let steps = Steps::parse("2.5ms 1.2Mbit/s\n12.5ms 12Mbit/s").expect("valid");
    let mut link = link(LinkConfig { rate_steps: Some(steps), ..fast() });
    (0..6).for_each(|number| link.enqueue(Instant::ZERO, Numbered::full(number)));
    assert_eq!(link.queued_packets(at_ms(3)), 3);
    // Half of packet 2 goes before the fade, half within it, where it takes 5 ms; and packet 3 the other way round.
    let times = [11_000, 12_000, 17_500, 23_000, 24_000, 25_000];
    let expected: Vec<_> = (0..).zip(times.map(|micros| Instant::ZERO + Duration::from_micros(micros))).collect();
    assert_eq!(delivered(&drain(&mut link)), expected);
    assert_eq!(link.counters().delivered.packets, 6);
}

#[test]
fn packets_wait_through_an_outage() {
    let steps = Steps { repeat: Some(ms(100)), ..Steps::parse("50ms 0bit/s").expect("valid") };
    let mut link = link(LinkConfig { rate_steps: Some(steps), ..fast() });
    for number in 0..100 {
        link.enqueue(at_ms(0), Numbered::full(number));
    }
    let arrivals = delivered(&drain(&mut link));
    let expected: Vec<_> = (0..100).map(|k| (k, at_ms(11 + k + 50 * (k / 50)))).collect();
    assert_eq!(arrivals, expected);
}

/// Numbers and times of packets of 1 ms each, sent through a delay that falls from 30 ms to 5 ms after 3 ms.
fn across_a_fall(keep_order: bool) -> Vec<(u64, Instant)> {
    let steps = Steps::parse("3.5ms 5ms").expect("valid");
    let mut link = link(LinkConfig { delay: ms(30), delay_steps: Some(steps), keep_order, ..fast() });
    (0..6).for_each(|number| link.enqueue(Instant::ZERO, Numbered::full(number)));
    delivered(&drain(&mut link))
}

#[test]
fn a_modem_knows_how_long_the_way_is_now() {
    let steps = Steps::new(vec![(ms(1_000), ms(30))]);
    let start = at_ms(500);
    let config = LinkConfig { delay_steps: Some(steps), delay: ms(20), ..fast() };
    let link = Link::<Numbered>::starting_at(start, config).expect("a link");
    assert_eq!([0, 1_499, 1_500].map(|at| link.delay(at_ms(at))), [ms(20), ms(20), ms(30)]);
    assert_eq!(Link::<Numbered>::new(fast()).expect("a link").delay(at_ms(9)), fast().delay);
}

#[test]
fn a_delay_that_falls_keeps_order_or_not_as_configured() {
    assert_eq!(
        across_a_fall(true),
        [(0, 31), (1, 32), (2, 33), (3, 33), (4, 33), (5, 33)].map(|(k, at)| (k, at_ms(at)))
    );
    assert_eq!(
        across_a_fall(false),
        [(3, 9), (4, 10), (5, 11), (0, 31), (1, 32), (2, 33)].map(|(k, at)| (k, at_ms(at)))
    );
}

#[test]
fn recorded_opportunities_deliver_as_recorded() {
    let opportunities = Opportunities::parse("1\n1\n4\n").expect("valid");
    let mut link = link(LinkConfig { rate: None, opportunities: Some(opportunities), ..fast() });
    (0..5).for_each(|number| link.enqueue(Instant::ZERO, Numbered::full(number)));
    let expected: Vec<_> = (0..).zip([11, 11, 14, 15, 15].map(at_ms)).collect();
    assert_eq!(delivered(&drain(&mut link)), expected);
}

#[test]
fn schedules_count_from_the_start_of_the_link() {
    let steps = Steps::parse("3.5ms 5ms").expect("valid");
    let config = LinkConfig { delay_steps: Some(steps), ..fast() };
    let start = at_ms(1_000_000);
    let mut link = Link::starting_at(start, config).expect("valid");
    link.enqueue(start, Numbered::full(0));
    assert_eq!(delivered(&drain(&mut link)), [(0, start + ms(11))]);
}

#[test]
fn a_handover_draws_a_delay_for_each_period_and_loses_in_its_outage() {
    let (period, longest) = (ms(100), ms(20));
    let handover = Handover { period, delay: [ms(10), ms(30)], rate: None, outage: longest };
    let mut link = link(LinkConfig { handover: Some(handover), ..LinkConfig { rate: None, ..fast() } });
    let packets = 200_000;
    (0..packets).for_each(|number| link.enqueue(at_ms(number), Numbered::full(number)));
    let outcomes = drain(&mut link);
    let arrivals = delivered(&outcomes);
    assert!(arrivals.windows(2).all(|pair| pair[0].0 < pair[1].0), "order is kept");
    // Within a period every delay is the same, unless those of the period before still hold it up.
    let delay = |(number, at): &(u64, Instant)| at.since(at_ms(*number));
    for pair in arrivals.windows(2).filter(|pair| pair[0].0 / 100 == pair[1].0 / 100 && pair[0].0 % 100 >= 20) {
        assert_eq!(delay(&pair[0]), delay(&pair[1]), "{pair:?}");
    }
    assert!(arrivals.iter().all(|arrival| delay(arrival) >= ms(10) && delay(arrival) <= ms(50)));
    // Outages are uniform from 0 to 20 ms: the mean share is a tenth of each period.
    let share = dropped(&outcomes, DropReason::Loss).len() as f64 / packets as f64;
    let sigma = 0.2 / 12f64.sqrt() / (packets as f64 / 100.0).sqrt();
    assert!((share - 0.1).abs() < 4.0 * sigma + 0.005, "{share}");
}

#[test]
fn a_drop_list_counts_what_was_sent_not_what_came() {
    let config = LinkConfig { loss: LossModel::DropList(vec![1, 2]), queue: QueueLimit::Packets(1), ..fast() };
    let mut link = Link::new(config).expect("valid");
    // 0 is being sent, 1 waits, 2 and 3 find the queue full; 4 and 5 come later, as the third and fourth sent.
    (0..4).for_each(|number| link.enqueue(Instant::ZERO, Numbered::full(number)));
    (4..6).for_each(|number| link.enqueue(at_ms(2), Numbered::full(number)));
    let outcomes = drain(&mut link);
    assert_eq!(dropped(&outcomes, DropReason::QueueFull), [2, 3]);
    assert_eq!(dropped(&outcomes, DropReason::Loss), [1, 4]);
    assert_eq!(delivered(&outcomes), [(0, at_ms(11)), (5, at_ms(14))]);
}

#[test]
fn files_are_read_by_the_caller_and_errors_name_file_and_line() {
    let text = r#"
        rate = "6Mbit/s"
        delay = "275ms"
        rate_steps = { file = "rain.trace", repeat = "1min" }
        loss = { drop_file = "drops" }
    "#;
    let config: LinkConfig = toml::from_str(text).expect("valid");
    let unread = config.validate().expect_err("unread").to_string();
    assert!(unread.contains("rain.trace"), "{unread}");

    let mut read = config.clone();
    let file = |name: &str| Ok(if name == "drops" { "3\n17\n" } else { "10s 3Mbit/s\n20s 6Mbit/s" }.to_owned());
    read.read_files(file).expect("readable");
    assert_eq!(read.validate(), Ok(()));
    assert_eq!(read.loss, LossModel::DropList(vec![3, 17]));
    let again: LinkConfig = toml::from_str(&toml::to_string(&read).expect("text")).expect("valid");
    assert_eq!(again, read);

    let broken = config.clone().read_files(|_| Ok("10s 3Mbit/s\n5".to_owned())).expect_err("line 2").to_string();
    assert!(broken.contains("rate_steps.file") && broken.contains("rain.trace: line 2"), "{broken}");
    let missing = config.clone().read_files(|_| Err("no such file".to_owned())).expect_err("missing").to_string();
    assert!(missing.contains("rain.trace: no such file"), "{missing}");
    let mut both = config.clone();
    both.rate_steps.as_mut().expect("it has some").steps = vec![(Duration::ZERO, Rate::from_bps(1))];
    let both = both.read_files(|_| panic!("it is not read")).expect_err("twice").to_string();
    assert!(both.contains("rate_steps.file") && both.contains("rain.trace: there are values beside"), "{both}");
}

#[test]
fn a_delay_may_be_given_as_geometry() {
    let read = |delay: &str| toml::from_str::<LinkConfig>(&format!("delay = {delay}"));
    let palermo_houston = "{ geo = { satellite_longitude = -34.5, stations = [
        { latitude = 38.1157, longitude = 13.3615 }, { latitude = 29.7604, longitude = -95.3698 }] } }";
    let delay = read(palermo_houston).expect("valid").delay;
    assert!((delay.as_millis_f64() - 263.728).abs() < 0.001, "{delay}");
    let leo = "{ leo = { altitude_km = 550, elevations = [25, 90] } }";
    assert!((read(leo).expect("valid").delay.as_millis_f64() - 5.582).abs() < 0.001);
    for (text, hint) in [
        ("{ leo = { altitude_km = 550, elevations = [-1, 90] } }", "from 0 to 90"),
        ("{ heo = {} }", "heo"),
        ("{ leo = { altitude_km = 550, elevations = [25, 90], satellites = 3 } }", "satellites"),
        ("275", "275ms"),
    ] {
        let error = read(text).expect_err(text).to_string();
        assert!(error.contains(hint), "{error}");
    }
}

#[test]
fn schedules_that_make_no_link_are_refused_by_name() {
    let steps = |text: &str| Some(Steps::<Rate>::parse(text).expect("valid"));
    let handover =
        |period, outage| Some(Handover { period: ms(period), delay: [ms(1), ms(2)], rate: None, outage: ms(outage) });
    let hasty = handover(1, 0).map(|handover| Handover { period: Duration::from_micros(999), ..handover });
    let opportunities = Some(Opportunities { millis: vec![1], file: None });
    for (key, config) in [
        ("rate_steps", LinkConfig { rate_steps: steps("1s 0bit/s"), ..fast() }),
        ("rate_steps", LinkConfig { rate_steps: Some(Steps::new(vec![])), ..fast() }),
        ("rate", LinkConfig { rate: None, rate_steps: steps("1s 1Mbit/s"), ..fast() }),
        ("opportunities", LinkConfig { opportunities, ..fast() }),
        ("delay_steps", LinkConfig { delay_steps: Some(Steps::new(vec![(ms(1), Duration::MAX)])), ..fast() }),
        ("handover.period", LinkConfig { handover: handover(0, 0), ..fast() }),
        ("handover.period", LinkConfig { handover: hasty, ..fast() }),
        ("handover.outage", LinkConfig { handover: handover(10, 11), ..fast() }),
    ] {
        assert_eq!(config.validate().expect_err(key).key(), key);
    }
    assert_eq!(LinkConfig { rate: Some(Rate::from_bps(1)), ..fast() }.validate(), Ok(()));
}

#[test]
fn the_highest_rate_is_that_of_all_steps_and_handovers() {
    let mbit = |n| Rate::from_bps(n * 1_000_000);
    let config = LinkConfig { rate: Some(mbit(2)), ..fast() };
    assert_eq!(config.highest_rate(), Some(mbit(2)));
    assert_eq!(LinkConfig { rate: None, ..fast() }.highest_rate(), None);
    let steps = [1, 5, 3].map(|n| (Duration::from_secs(n), mbit(n)));
    let steps = Steps { steps: steps.to_vec(), file: None, repeat: None };
    assert_eq!(LinkConfig { rate_steps: Some(steps), ..config.clone() }.highest_rate(), Some(mbit(5)));
    // The handovers' rates stand in the place of the link's.
    let rates = Some([mbit(1), mbit(4)]);
    let handover = Some(Handover { period: ms(100), delay: [ms(10), ms(30)], rate: rates, outage: Duration::ZERO });
    for rate in [None, Some(mbit(2)), Some(mbit(9))] {
        assert_eq!(LinkConfig { rate, handover, ..config.clone() }.highest_rate(), Some(mbit(4)));
    }
    let opportunities = Some(Opportunities::parse("2\n").expect("valid"));
    let recorded = LinkConfig { rate: None, opportunities, ..fast() };
    assert_eq!(recorded.highest_rate(), Some(mbit(6)), "1500 bytes each 2 ms");
}
