//! Explicit congestion notification: the handshake, echoes and answers of RFC 3168, and DCTCP's (RFC 8257).

use crate::conformance::lone::{Lone, MSS, bare, config, seg};
use crate::path::Path;
use link::{Codel, Discipline, DualPi2, LinkConfig, QueueLimit};
use std::cell::Cell;
use std::rc::Rc;
use tcp::{AckPolicy, Config, ControlKind, Fault, Flags, Profile, Segment};
use units::{Duration, Ecn, Instant, Rate};

const ASKS: Flags = Flags::SYN.with(Flags::ECE).with(Flags::CWR);
const AGREES: Flags = Flags::SYN.with(Flags::ACK).with(Flags::ECE);

fn with_ecn() -> Config {
    Config { ecn: Ecn::Ect0, ..config("newreno") }
}

fn dctcp() -> Config {
    Config { control: ControlKind::by_name("dctcp").expect("known"), ..with_ecn() }
}

/// A client that has agreed on ECN, and has not sent any data.
fn client(config: Config) -> Lone {
    let mut client = Lone::connecting(config);
    let offer = client.take()[0];
    assert!(offer.has(ASKS) && offer.ecn == Ecn::NotCapable, "{offer:?}");
    client.at(100);
    client.give(bare(AGREES, 0, 1));
    client.take();
    client
}

/// A server that has agreed on ECN.
fn server(config: Config) -> Lone {
    let mut server = Lone::listening(config);
    server.give(bare(ASKS, 0, 0));
    let answer = server.take()[0];
    assert!(answer.has(AGREES) && !answer.has(Flags::CWR), "{answer:?}");
    server.give(bare(Flags::ACK, 1, 1));
    server.take();
    server
}

fn data(number: u64, ecn: Ecn, flags: Flags) -> Segment {
    Segment { len: MSS, ecn, ..bare(Flags::ACK.with(flags), seg(number), 1) }
}

/// Linux acknowledges the first mark, the segment after it, and what says that the window was reduced, at once: its sender may have a
/// window of one segment (`__tcp_ecn_check_ce`, `tcp_ecn_accept_cwr`).
#[test]
fn in_linux_a_first_mark_and_a_reduction_are_acknowledged_at_once() {
    for (profile, expected) in
        [(Profile::Linux, [0, 1, 1, 1, 0, 1, 1, 0, 1]), (Profile::Rfc, [0, 1, 0, 1, 0, 1, 0, 1, 0])]
    {
        let delay = Duration::from_millis(40);
        let mut server = server(Config { profile, acks: AckPolicy { every: 2, delay, quick: 2 }, ..with_ecn() });
        // The first two are acknowledged at once in any case.
        (0..2).for_each(|number| server.give(data(number, Ecn::Ect0, Flags::default())));
        server.take();
        let marked = Ecn::CongestionExperienced;
        let arrivals = [
            (Ecn::Ect0, Flags::default()),
            (Ecn::Ect0, Flags::default()),
            (marked, Flags::default()),
            (marked, Flags::default()),
            (Ecn::Ect0, Flags::default()),
            (Ecn::Ect0, Flags::default()),
            (Ecn::Ect0, Flags::CWR),
            (Ecn::Ect0, Flags::default()),
            (Ecn::Ect0, Flags::default()),
        ];
        let mut answers = [0; 9];
        for (number, (ecn, flags)) in arrivals.into_iter().enumerate() {
            server.give(data(number as u64 + 2, ecn, flags));
            answers[number] = server.take().len();
        }
        assert_eq!(answers, expected, "{profile:?}");
    }
}

#[test]
fn ends_use_it_only_when_both_want_it() {
    let mut unwilling = Lone::listening(config("newreno"));
    unwilling.give(bare(ASKS, 0, 0));
    assert!(!unwilling.take()[0].has(Flags::ECE));

    let mut unasked = Lone::listening(with_ecn());
    unasked.give(bare(Flags::SYN, 0, 0));
    assert!(!unasked.take()[0].has(Flags::ECE));

    // A peer that reflects both flags does not know what they mean (RFC 3168, section 6.1.1.1).
    for answer in [Flags::SYN.with(Flags::ACK), AGREES.with(Flags::CWR)] {
        let mut client = Lone::connecting(with_ecn());
        client.take();
        client.give(bare(answer, 0, 1));
        client.take();
        client.end.write(10_000);
        client.at(1);
        assert!(client.take().iter().all(|segment| segment.ecn == Ecn::NotCapable), "{answer:?}");
    }
}

#[test]
fn new_data_is_capable_and_what_is_sent_again_or_empty_is_not() {
    let mut client = client(with_ecn());
    client.end.write(10 * u64::from(MSS));
    client.at(101);
    let sent = client.take();
    assert_eq!(sent.len(), 10);
    assert!(sent.iter().all(|segment| segment.ecn == Ecn::Ect0));
    // No answer: the timer sends the first again.
    client.at(3_000);
    let again = client.take();
    assert!(!again.is_empty() && again.iter().all(|segment| segment.ecn == Ecn::NotCapable), "{again:?}");

    let mut server = server(with_ecn());
    server.give(data(0, Ecn::Ect0, Flags::default()));
    let acknowledgement = server.take()[0];
    assert_eq!((acknowledgement.ecn, acknowledgement.len), (Ecn::NotCapable, 0));
}

#[test]
fn echoes_last_until_the_sender_says_that_it_has_acted() {
    let mut server = server(with_ecn());
    let mut echoes = Vec::new();
    let steps = [
        (Ecn::Ect0, Flags::default()),
        (Ecn::CongestionExperienced, Flags::default()),
        (Ecn::Ect0, Flags::default()),
        (Ecn::Ect0, Flags::CWR),
        (Ecn::Ect0, Flags::default()),
    ];
    for (number, (ecn, flags)) in (0..).zip(steps) {
        server.give(data(number, ecn, flags));
        echoes.push(server.take()[0].has(Flags::ECE));
    }
    assert_eq!(echoes, [false, true, true, false, false]);
}

#[test]
fn an_echo_halves_the_window_once_for_each_window_of_data() {
    let mut client = client(with_ecn());
    client.end.write(100 * u64::from(MSS));
    client.at(101);
    assert_eq!(client.take().len(), 10);
    client.at(200);
    let echo = |number| bare(Flags::ACK.with(Flags::ECE), 1, seg(number));
    client.give(echo(1));
    assert_eq!(client.end.metrics().window.cwnd, 4.5, "half of the nine in flight");
    // The same window of data: nothing more, and no growth.
    for number in 2..=5 {
        client.give(echo(number));
    }
    assert_eq!((client.end.metrics().window.cwnd, client.end.metrics().window.ssthresh), (4.5, 4.5));
    assert_eq!(client.end.metrics().counters.retransmissions, 0);
    (6..=7).for_each(|number| client.give(echo(number)));
    let next = client.take();
    assert!(next[0].has(Flags::CWR), "the first new segment says so");
    assert!(next[1..].iter().all(|segment| !segment.has(Flags::CWR)));
    // What was sent after the reduction is another window.
    (8..=10).for_each(|number| client.give(bare(Flags::ACK, 1, seg(number))));
    let before = client.end.metrics().window.cwnd;
    client.give(echo(11));
    assert!(client.end.metrics().window.cwnd < before * 0.75, "{before}");
}

#[test]
fn a_loss_in_a_window_that_was_lowered_for_marks_does_not_lower_it_again() {
    let mut client = client(with_ecn());
    client.end.write(100 * u64::from(MSS));
    client.at(101);
    client.take();
    client.at(200);
    client.give(bare(Flags::ACK.with(Flags::ECE), 1, seg(2)));
    let lowered = client.end.metrics().window.ssthresh;
    (0..3).for_each(|_| client.give(bare(Flags::ACK, 1, seg(2))));
    assert_eq!(client.end.metrics().counters.recoveries, 1);
    assert_eq!(client.end.metrics().window.ssthresh, lowered);
}

/// RFC 3168, section 6.1.2: whatever reduced the window, the first new segment says so, and the marks of that window are answered.
#[test]
fn the_first_new_segment_after_a_loss_says_that_the_window_was_reduced() {
    let mut client = client(with_ecn());
    client.end.write(100 * u64::from(MSS));
    client.at(101);
    client.take();
    client.at(200);
    let echo = |number| bare(Flags::ACK.with(Flags::ECE), 1, seg(number));
    (0..9).for_each(|_| client.give(echo(0)));
    assert_eq!(client.end.metrics().counters.recoveries, 1);
    let sent = client.take();
    // Limited transmit has sent two segments before.
    let (earlier, new): (Vec<&Segment>, Vec<_>) = sent.iter().partition(|segment| segment.seq < seg(12));
    assert!(earlier.iter().all(|segment| !segment.has(Flags::CWR)), "{earlier:?}");
    assert!(new[0].has(Flags::CWR) && new[1..].iter().all(|segment| !segment.has(Flags::CWR)), "{new:?}");
    // The recovery ends: what is echoed of its window lowers nothing again.
    client.give(echo(12));
    let after = client.end.metrics().window;
    client.give(bare(Flags::ACK, 1, seg(13)));
    assert!(client.end.metrics().window.cwnd > after.cwnd, "{after:?}");
    assert_eq!(client.end.metrics().window.ssthresh, after.ssthresh);
}

#[test]
fn echoes_do_not_hold_the_window_at_one_segment_after_a_timeout() {
    for recovery in ["newreno", "sack", "rack"] {
        let of_recovery = tcp::RecoveryKind::by_name(recovery).expect("known");
        let mut client = client(Config { recovery: of_recovery, ..with_ecn() });
        client.end.write(100 * u64::from(MSS));
        client.at(101);
        client.take();
        client.at(4_000);
        assert!(client.end.metrics().counters.timeouts > 0);
        client.take();
        let mut windows = Vec::new();
        for number in 1..=10 {
            client.give(bare(Flags::ACK.with(Flags::ECE), 1, seg(number)));
            windows.push(client.end.metrics().window.cwnd);
        }
        assert!(windows[..3].windows(2).all(|pair| pair[0] < pair[1]), "{recovery}: {windows:?}");
        let sent = client.take();
        let new: Vec<&Segment> = sent.iter().filter(|segment| segment.seq >= seg(10)).collect();
        assert!(new[0].has(Flags::CWR), "{recovery}");
        assert!(new[1..].iter().all(|segment| !segment.has(Flags::CWR)), "{recovery}");
    }
}

#[test]
fn who_does_not_use_it_says_nothing_of_a_reduced_window() {
    let mut client = Lone::connected(config("newreno"));
    client.write(100 * u64::from(MSS));
    (0..9).for_each(|_| client.ack(seg(0)));
    client.at(20_000);
    assert!(client.end.metrics().counters.recoveries > 0 && client.end.metrics().counters.timeouts > 0);
    assert!(client.take().iter().all(|segment| !segment.has(Flags::CWR)));
}

#[test]
fn dctcp_receivers_report_each_change_of_marks_at_once() {
    let delayed = AckPolicy { every: 2, delay: Duration::from_millis(200), quick: 0 };
    let mut server = server(Config { acks: delayed, ..dctcp() });
    server.give(data(0, Ecn::Ect0, Flags::default()));
    assert!(server.take().is_empty(), "it waits for another");
    server.give(data(1, Ecn::CongestionExperienced, Flags::default()));
    let reports = server.take();
    let said: Vec<_> = reports.iter().map(|report| (report.ack, report.has(Flags::ECE))).collect();
    assert_eq!(said, [(seg(1), false), (seg(2), true)], "what arrived before, unmarked, and the change");
    server.give(data(2, Ecn::CongestionExperienced, Flags::default()));
    assert!(server.take().is_empty(), "the same as before");
    server.give(data(3, Ecn::Ect0, Flags::default()));
    let said: Vec<_> = server.take().iter().map(|report| (report.ack, report.has(Flags::ECE))).collect();
    assert_eq!(said, [(seg(3), true), (seg(4), false)]);
}

/// One that could report counts echoes marks to a peer that cannot read counts as DCTCP does, not one for each window.
#[test]
fn dctcp_echoes_each_mark_where_counts_are_not_agreed_on() {
    let mut server = server(Config { accurate_ecn: true, ..dctcp() });
    let echoes: Vec<bool> = (0..10)
        .map(|number| {
            let ecn = if number == 2 { Ecn::CongestionExperienced } else { Ecn::Ect0 };
            server.give(data(number, ecn, Flags::default()));
            server.take().last().expect("it is acknowledged").has(Flags::ECE)
        })
        .collect();
    assert_eq!(echoes.iter().position(|echo| *echo), Some(2));
    assert_eq!(echoes.iter().filter(|echo| **echo).count(), 1, "{echoes:?}");
}

#[test]
fn what_cannot_use_marks_is_refused() {
    let faults = |config: Config| config.validate().expect_err("refused").faults;
    let lone = Config { control: ControlKind::by_name("dctcp").expect("known"), ..config("newreno") };
    assert_eq!(faults(lone), [Fault::NeedsEcn { control: "dctcp" }]);
    assert_eq!(faults(Config { ecn: Ecn::CongestionExperienced, ..config("sack") }), [Fault::Ecn { is_bare: false }]);
    assert_eq!(faults(Config { ecn: Ecn::Ect0, ..Config::new(Profile::Ns2) }), [Fault::Ecn { is_bare: true }]);
}

/// What a transfer of 20 MB over 50 Mbit/s and 20 ms met, by discipline.
struct Met {
    goodput: f64,
    retransmissions: u64,
    marks: u64,
    /// The mean time that segments took beyond the path's own, in ms.
    queueing: f64,
}

fn transfer(config: Config, discipline: Discipline) -> Met {
    let rate = Rate::from_bps(50_000_000);
    let forward = LinkConfig {
        discipline,
        queue: QueueLimit::Packets(1_000),
        ..LinkConfig::new(rate, Duration::from_millis(10))
    };
    let mut path =
        Path::new(config, vec![forward.clone()], vec![LinkConfig { discipline: Discipline::DropTail, ..forward }]);
    let echoes = Rc::new(Cell::new(0));
    let seen = Rc::clone(&echoes);
    path.set_tap(move |_, from_client, segment| {
        seen.set(seen.get() + u64::from(!from_client && segment.has(Flags::ECE)));
    });
    let bytes = 20_000_000;
    let end = path.transfer(bytes).expect("it arrives");
    let seconds = end.since(Instant::ZERO).as_secs_f64();
    let metrics = path.metrics();
    Met {
        goodput: bytes as f64 * 8.0 / seconds / 50e6,
        retransmissions: metrics.counters.retransmissions,
        marks: echoes.get(),
        queueing: metrics.srtt.as_millis_f64() - 20.0,
    }
}

fn usual(control: &str, ecn: Ecn) -> Config {
    Config { ecn, control: ControlKind::by_name(control).expect("known"), ..Config::new(Profile::Rfc) }
}

#[test]
fn marks_replace_losses_over_a_queue_that_sets_them() {
    let codel = Discipline::Codel(Codel { ecn: true, ..Codel::default() });
    for control in ["reno", "cubic"] {
        let marked = transfer(usual(control, Ecn::Ect0), codel);
        let dropped = transfer(usual(control, Ecn::NotCapable), codel);
        assert!(marked.marks > 0 && marked.retransmissions == 0, "{control}: {} again", marked.retransmissions);
        assert!(dropped.marks == 0 && dropped.retransmissions > 0, "{control}");
        assert!(marked.goodput > 0.8, "{control}: {}", marked.goodput);
    }
}

#[test]
fn dctcp_fills_the_link_with_a_shorter_queue_than_reno_needs() {
    let dual = Discipline::DualPi2(DualPi2 { threshold: Duration::from_millis(1), ..DualPi2::default() });
    let scalable = transfer(usual("dctcp", Ecn::Ect1), dual);
    let classic = transfer(usual("reno", Ecn::Ect0), dual);
    assert_eq!(scalable.retransmissions, 0);
    assert!(scalable.goodput > 0.7, "{}", scalable.goodput);
    assert!(scalable.queueing < 3.0, "{} ms", scalable.queueing);
    assert!(scalable.queueing < classic.queueing, "{} and {} ms", scalable.queueing, classic.queueing);
}

/// No window is lowered by a mark that a control does not read.
#[test]
fn bbr_runs_with_ecn() {
    let codel = Discipline::Codel(Codel { ecn: true, ..Codel::default() });
    let met = transfer(
        Config { recovery: tcp::RecoveryKind::by_name("rack").expect("known"), ..usual("bbr3", Ecn::Ect0) },
        codel,
    );
    assert!(met.goodput > 0.8, "{}", met.goodput);
}
