//! More accurate ECN feedback (RFC 9768): negotiation with its fall-backs, the counter, and what Prague and DCTCP make of it.

use crate::conformance::lone::{Lone, MSS, bare, config, seg};
use crate::path::Path;
use link::{Discipline, DualPi2, LinkConfig, QueueLimit};
use tcp::{AckPolicy, Config, ControlKind, Fault, Flags, Profile, RecoveryKind, Segment};
use units::{Duration, Ecn, Instant, Rate};

const SYN: Flags = Flags::SYN;
const ANSWER: Flags = Flags::SYN.with(Flags::ACK);
const NONE: Flags = Flags(0);

fn accurate() -> Config {
    Config { ecn: Ecn::Ect1, accurate_ecn: true, ..config("newreno") }
}

/// The bits AE, CWR and ECE of a segment, as a number.
fn bits(segment: &Segment) -> u8 {
    [Flags::AE, Flags::CWR, Flags::ECE].iter().fold(0, |bits, flag| bits << 1 | u8::from(segment.has(*flag)))
}

/// The flags of such a number.
fn flags(bits: u8) -> Flags {
    let of = |bit: u8, flag| if bits & bit != 0 { flag } else { NONE };
    of(4, Flags::AE).with(of(2, Flags::CWR)).with(of(1, Flags::ECE))
}

fn client(answer: u8) -> Lone {
    let mut client = Lone::connecting(accurate());
    assert_eq!(bits(&client.take()[0]), 0b111);
    client.at(100);
    client.give(bare(ANSWER.with(flags(answer)), 0, 1));
    client
}

fn server(config: Config) -> Lone {
    let mut server = Lone::listening(config);
    server.give(bare(SYN.with(flags(0b111)), 0, 0));
    assert_eq!(bits(&server.take()[0]), 0b010);
    server.give(bare(Flags::ACK.with(flags(0b010)), 1, 1));
    server.take();
    server
}

fn data(number: u64, ecn: Ecn) -> Segment {
    Segment { len: MSS, ecn, ..bare(Flags::ACK, seg(number), 1) }
}

#[test]
fn a_server_answers_by_what_it_was_asked_and_can() {
    // (what it can, what it is asked, what it answers): RFC 9768, table 2, and RFC 3168.
    let rows = [
        (accurate(), 0b111, 0b010),
        (accurate(), 0b011, 0b001),
        (accurate(), 0b000, 0b000),
        // Combinations of the future.
        (accurate(), 0b100, 0b010),
        (Config { accurate_ecn: false, ..accurate() }, 0b111, 0b001),
        (config("newreno"), 0b111, 0b000),
    ];
    for (config, asked, answered) in rows {
        let mut server = Lone::listening(config);
        server.give(bare(SYN.with(flags(asked)), 0, 0));
        assert_eq!(bits(&server.take()[0]), answered, "{asked:03b}");
    }
    for (ecn, answered) in [(Ecn::Ect0, 0b100), (Ecn::Ect1, 0b011), (Ecn::CongestionExperienced, 0b110)] {
        let mut server = Lone::listening(accurate());
        server.give(Segment { ecn, ..bare(SYN.with(flags(0b111)), 0, 0) });
        assert_eq!(bits(&server.take()[0]), answered, "{ecn:?}");
    }
}

#[test]
fn a_client_counts_echoes_or_gives_up_by_the_answer() {
    // (the answer, the bits of its first acknowledgement, whether data are capable): RFC 9768, tables 2 and 3.
    for (answer, first, is_capable) in
        [(0b010, 0b010, true), (0b011, 0b010, true), (0b001, 0b000, true), (0b000, 0b000, false), (0b111, 0b000, false)]
    {
        let mut client = client(answer);
        assert_eq!(bits(&client.take()[0]), first, "{answer:03b}");
        client.end.write(u64::from(MSS));
        client.at(101);
        let sent = client.take();
        assert_eq!(sent[0].ecn.is_capable(), is_capable, "{answer:03b}");
        let counts = matches!(answer, 0b010 | 0b011);
        assert_eq!(bits(&sent[0]), if counts { 0b101 } else { 0b000 }, "the counter begins at 5: {answer:03b}");
    }
}

#[test]
fn the_receiver_counts_marked_packets_and_acknowledges_the_first_and_each_second_at_once() {
    let delayed = AckPolicy { every: 2, delay: Duration::from_millis(200), quick: 0 };
    let mut server = server(Config { acks: delayed, ..accurate() });
    let mut reports = Vec::new();
    let marked = Ecn::CongestionExperienced;
    for (number, ecn) in (0..).zip([Ecn::Ect1, Ecn::Ect1, marked, marked, marked, Ecn::Ect1, marked]) {
        server.give(data(number, ecn));
        reports.push(server.take().iter().map(bits).collect::<Vec<_>>());
    }
    // 5 marks before the first; the third packet, the first that is marked, does not wait.
    let expected: [&[u8]; 7] = [&[], &[0b101], &[0b110], &[], &[0b000], &[], &[0b001]];
    assert_eq!(reports, expected);
}

#[test]
fn a_count_lowers_the_window_once_for_each_window_of_data_without_cwr() {
    let mut client = client(0b010);
    client.take();
    client.end.write(100 * u64::from(MSS));
    client.at(101);
    assert_eq!(client.take().len(), 10);
    client.at(200);
    let ack = |number, count: u8| bare(Flags::ACK.with(flags(count & 7)), 1, seg(number));
    client.give(ack(1, 5));
    assert_eq!(client.end.window().cwnd, 11.0, "no mark");
    client.give(ack(2, 6));
    let lowered = client.end.window().cwnd;
    assert!(lowered < 6.0, "{lowered}");
    client.give(ack(3, 7));
    assert_eq!(client.end.window().cwnd, lowered, "of the same window of data");
    for number in 4..=10 {
        client.give(ack(number, 7));
    }
    let sent = client.take();
    assert!(!sent.is_empty() && sent.iter().all(|segment| bits(segment) == 0b101), "{sent:?}");
}

#[test]
fn an_old_acknowledgement_changes_no_count() {
    let mut client = client(0b010);
    client.take();
    client.end.write(100 * u64::from(MSS));
    client.at(101);
    client.take();
    client.at(200);
    client.give(bare(Flags::ACK.with(flags(0b101)), 1, seg(2)));
    let before = client.end.window().cwnd;
    // What was sent first arrives last.
    client.give(bare(Flags::ACK.with(flags(0b100)), 1, seg(2)));
    client.give(bare(Flags::ACK.with(flags(0b101)), 1, seg(3)));
    assert_eq!(client.end.window().cwnd, before + 1.0);
}

#[test]
fn what_prague_needs_is_said() {
    let prague = Config { control: ControlKind::by_name("prague").expect("known"), ..accurate() };
    assert_eq!(prague.validate(), Ok(()));
    for spoilt in [
        Config { accurate_ecn: false, ..prague.clone() },
        Config { ecn: Ecn::Ect0, ..prague.clone() },
        Config { ecn: Ecn::NotCapable, ..prague.clone() },
    ] {
        let error = spoilt.validate().expect_err("refused");
        assert_eq!(error.faults, [Fault::NeedsL4s { control: "prague" }]);
        assert!(["`ect1`", "`accurate_ecn`"].iter().all(|part| error.to_string().contains(part)), "{error}");
    }
}

/// The part of 50 Mbit/s that 100 MB fill, and the smoothed queueing delay at the end in ms, over a round-trip time of `rtt` ms.
fn over_dual_pi2(control: &str, rtt: u64) -> (f64, f64, u64) {
    let rate = Rate::from_bps(50_000_000);
    let forward = LinkConfig {
        discipline: Discipline::DualPi2(DualPi2::default()),
        queue: QueueLimit::Packets(1_000),
        ..LinkConfig::new(rate, Duration::from_millis(rtt) / 2)
    };
    let backward = LinkConfig { discipline: Discipline::DropTail, ..forward.clone() };
    let config = Config {
        ecn: Ecn::Ect1,
        accurate_ecn: true,
        control: ControlKind::by_name(control).expect("known"),
        recovery: RecoveryKind::by_name("rack").expect("known"),
        ..Config::new(Profile::Rfc)
    };
    let mut path = Path::new(config, vec![forward], vec![backward]);
    let bytes = 100_000_000;
    let end = path.transfer(bytes).expect("it arrives");
    let goodput = bytes as f64 * 8.0 / end.since(Instant::ZERO).as_secs_f64() / 50e6;
    let metrics = path.metrics();
    (goodput, metrics.srtt.as_millis_f64() - rtt as f64, metrics.counters.retransmissions)
}

#[test]
fn prague_fills_the_link_behind_a_queue_of_two_milliseconds() {
    for rtt in [10, 20, 50] {
        let (goodput, queueing, again) = over_dual_pi2("prague", rtt);
        // Behind the first mark a window grows as over 25 ms.
        assert!(goodput > 0.7, "{rtt} ms: {goodput}");
        assert!(queueing < 2.0, "{rtt} ms: {queueing} ms");
        assert_eq!(again, 0);
    }
}

#[test]
fn dctcp_counts_as_well() {
    let (goodput, queueing, again) = over_dual_pi2("dctcp", 20);
    assert!(goodput > 0.7 && queueing < 3.0 && again == 0, "{goodput} {queueing} ms {again}");
}
