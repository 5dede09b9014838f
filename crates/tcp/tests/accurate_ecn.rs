//! More accurate ECN feedback (RFC 9768): negotiation with its fall-backs, the counter, and what Prague and DCTCP make of it.

use crate::conformance::lone::{Lone, MSS, bare, config, seg};
use crate::path::Path;
use link::{Discipline, DualPi2, LinkConfig, QueueLimit};
use tcp::{AckPolicy, Config, ControlKind, EcnBytes, Fault, Flags, Profile, RecoveryKind, Segment};
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

/// A client whose first ten segments have left, a tenth of a second later.
fn sending_client() -> Lone {
    let mut client = client(0b010);
    client.take();
    client.end.write(200 * u64::from(MSS));
    client.at(101);
    assert_eq!(client.take().len(), 10);
    client.at(200);
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

/// The codepoint of a client's data, and its windows while some of its acknowledgements echo marks.
fn under_echoes(config: Config, answer: u8) -> (Ecn, Vec<f64>) {
    let mut client = Lone::connecting(config);
    client.take();
    client.at(100);
    client.give(bare(ANSWER.with(flags(answer)), 0, 1));
    client.write(2_000 * u64::from(MSS));
    let codepoint = client.take().last().expect("data").ecn;
    let mut acked = 0;
    let windows = (0..200).map(|number| {
        client.at(client.ms() + 20);
        acked = (acked + 2).min(client.end.metrics().flight / u64::from(MSS) + acked);
        let echo = if number % 20 == 19 { Flags::ECE } else { NONE };
        client.give(bare(Flags::ACK.with(echo), 1, seg(acked)));
        client.end.metrics().window.cwnd
    });
    (codepoint, windows.collect())
}

/// RFC 9331, section 4.2: ECT(1) is for senders that are told of each mark.
#[test]
fn prague_gives_way_to_reno_and_ect0_where_the_peer_counts_no_marks() {
    let of = |name| Config { control: ControlKind::by_name(name).expect("its name"), ..accurate() };
    let (reno, prague) = (Config { ecn: Ecn::Ect0, accurate_ecn: false, ..of("reno") }, of("prague"));
    assert_eq!(under_echoes(prague.clone(), 0b010).0, Ecn::Ect1);
    let (codepoint, windows) = under_echoes(prague, 0b001);
    assert_eq!(codepoint, Ecn::Ect0);
    assert_eq!(windows, under_echoes(reno, 0b001).1);
    assert!(windows.iter().any(|window| *window < 0.6 * windows[0]), "{windows:?}");
}

/// The flags are those of the counter.
#[test]
fn a_reduction_for_a_loss_leaves_the_counter_alone() {
    let mut client = sending_client();
    (0..9).for_each(|_| client.give(bare(Flags::ACK.with(flags(0b101)), 1, seg(0))));
    client.at(5_000);
    assert!(client.end.metrics().counters.recoveries > 0 && client.end.metrics().counters.timeouts > 0);
    let sent = client.take();
    assert!(sent.iter().any(|segment| segment.seq >= seg(10)), "new data");
    assert!(sent.iter().all(|segment| bits(segment) == 0b101), "{sent:?}");
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
    let mut client = sending_client();
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
    let mut client = sending_client();
    client.give(bare(Flags::ACK.with(flags(0b101)), 1, seg(2)));
    let before = client.end.window().cwnd;
    // What was sent first arrives last.
    client.give(bare(Flags::ACK.with(flags(0b100)), 1, seg(2)));
    client.give(bare(Flags::ACK.with(flags(0b101)), 1, seg(3)));
    assert_eq!(client.end.window().cwnd, before + 1.0);
}

fn with_option() -> Config {
    let options = tcp::Options { timestamps: true, ..accurate().options };
    Config { accurate_ecn_option: true, options, recovery: RecoveryKind::by_name("rack").expect("known"), ..accurate() }
}

/// RFC 9768, section 3.2.3: from the answer to the SYN on, in the order of the sender's codepoint, beside two SACK blocks.
#[test]
fn the_receiver_counts_bytes_in_the_option() {
    let delayed = AckPolicy { every: 2, delay: Duration::from_millis(200), quick: 0 };
    let mut server = Lone::listening(Config { acks: delayed, ..with_option() });
    let asks = SYN.with(flags(0b111)).with(Flags::TIMESTAMPS).with(Flags::SACK_PERMITTED);
    server.give(bare(asks, 0, 0));
    let answer = server.take().remove(0);
    assert_eq!(answer.accurate_ecn(), Some(EcnBytes { capable: 1, marked: 0 }));
    assert!(answer.has(Flags::ACCECN1) && !answer.has(Flags::ACCECN0));
    // MSS, SACK, timestamps, and eight bytes.
    assert_eq!(answer.header, 40 + 24);
    server.give(bare(Flags::ACK.with(flags(0b010)), 1, 1));
    let [ect, ce, none] = [Ecn::Ect1, Ecn::CongestionExperienced, Ecn::NotCapable];
    let arrivals = [(0, ect), (1, ce), (2, ect), (4, ect), (6, ect), (8, none)];
    let mut reports = Vec::new();
    for (number, ecn) in arrivals {
        server.give(data(number, ecn));
        for ack in server.take() {
            let EcnBytes { capable, marked } = ack.accurate_ecn().expect("in each");
            reports.push((capable, marked, ack.sack.len(), ack.header - 40));
        }
    }
    // The first that is marked and the first that is not, at once; then out of order. What is not capable counts as nothing.
    let expected = [
        (1_001, 1_000, 0, 20),
        (2_001, 1_000, 0, 20),
        (3_001, 1_000, 1, 32),
        (4_001, 1_000, 2, 40),
        (4_001, 1_000, 2, 40),
    ];
    assert_eq!(reports, expected);
}

#[test]
fn the_option_has_the_order_of_the_codepoint_and_gives_way_to_data() {
    let mut server = server(Config { ecn: Ecn::Ect0, ..with_option() });
    server.give(data(0, Ecn::Ect0));
    let ack = server.take().remove(0);
    assert!(ack.has(Flags::ACCECN0) && !ack.has(Flags::ACCECN1));
    server.end.write(u64::from(MSS) + 100);
    server.at(10);
    let sent = server.take();
    let options: Vec<_> = sent.iter().map(|segment| (segment.len, segment.accurate_ecn().is_some())).collect();
    assert_eq!(options, [(MSS, false), (100, true)]);
    assert_eq!(sent[0].header + 8, sent[1].header);
}

/// A counter of bytes is right however much an acknowledgement covers, and one that was lost is made up for.
#[test]
fn the_sender_takes_marked_bytes_as_they_are_counted() {
    let mut client = sending_client();
    let report = |number, count: u8, marked| {
        let ecn_bytes = EcnBytes { capable: 1, marked };
        Segment { ecn_bytes, ..bare(Flags::ACK.with(flags(count & 7)).with(Flags::ACCECN1), 1, seg(number)) }
    };
    // Ten are acknowledged: the counter of packets may have gone round, that of bytes says that none was marked.
    client.give(report(10, 5, 0));
    let grown = client.end.window().cwnd;
    assert!(grown > 10.0, "{grown}");
    client.take();
    client.give(report(11, 6, 1_000));
    let lowered = client.end.window().cwnd;
    assert!(lowered < 0.7 * grown, "{lowered} after {grown}");
    // The same count once more is no news.
    client.give(report(12, 6, 1_000));
    assert!(client.end.window().cwnd >= lowered);
}

#[test]
fn few_acknowledgements_tell_prague_more_with_the_option_and_without_it_are_no_marks() {
    let acks = AckPolicy { every: 32, delay: Duration::from_millis(40), quick: 0 };
    let goodput = |accurate_ecn_option| {
        let config = Config { acks, accurate_ecn_option, ..l4s("prague") };
        over_dual_pi2(config, 20).0
    };
    let (packets, bytes) = (goodput(false), goodput(true));
    assert!(bytes > 0.6 && (0.4..0.9 * bytes).contains(&packets), "{bytes} with it, {packets} without");
}

#[test]
fn the_option_without_counters_is_refused() {
    let config = Config { accurate_ecn: false, ..with_option() };
    let error = config.validate().expect_err("refused");
    assert_eq!(error.faults, [Fault::OptionWithoutCounts]);
    assert!(error.to_string().contains("`accurate_ecn`"), "{error}");
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

fn l4s(control: &str) -> Config {
    Config {
        ecn: Ecn::Ect1,
        accurate_ecn: true,
        control: ControlKind::by_name(control).expect("known"),
        recovery: RecoveryKind::by_name("rack").expect("known"),
        ..Config::new(Profile::Rfc)
    }
}

/// The part of 50 Mbit/s that 100 MB fill, and the smoothed queueing delay at the end in ms, over a round-trip time of `rtt` ms.
fn over_dual_pi2(config: Config, rtt: u64) -> (f64, f64, u64) {
    let rate = Rate::from_bps(50_000_000);
    let forward = LinkConfig {
        discipline: Discipline::DualPi2(DualPi2::default()),
        queue: QueueLimit::Packets(1_000),
        ..LinkConfig::new(rate, Duration::from_millis(rtt) / 2)
    };
    let backward = LinkConfig { discipline: Discipline::DropTail, ..forward.clone() };
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
        let (goodput, queueing, again) = over_dual_pi2(l4s("prague"), rtt);
        // Behind the first mark a window grows as over 25 ms.
        assert!(goodput > 0.7, "{rtt} ms: {goodput}");
        assert!(queueing < 2.0, "{rtt} ms: {queueing} ms");
        assert_eq!(again, 0);
    }
}

#[test]
fn dctcp_counts_as_well() {
    let (goodput, queueing, again) = over_dual_pi2(l4s("dctcp"), 20);
    assert!(goodput > 0.7 && queueing < 3.0 && again == 0, "{goodput} {queueing} ms {again}");
}
