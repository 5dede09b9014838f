//! Single losses in awkward places, with each recovery: what each costs, by the schedule of the segments.

use crate::network::{DELAY, Fate, Network, judge};
use tcp::control::CONTROLS;
use tcp::{Config, ControlKind, Options, Profile, RecoveryKind};
use units::{Duration, Instant};

const RECOVERIES: [&str; 5] = ["tahoe", "reno", "newreno", "sack", "rack"];
const ROUND_TRIP: u64 = 80;
/// From the SYN to the last byte of a window of data: a round trip and a half.
const WINDOW: u64 = ROUND_TRIP * 3 / 2;
/// Ten segments, which are the first window.
const TEN: u64 = 10 * 1_000;

fn config(recovery: &str) -> Config {
    let rfc = Config::new(Profile::Rfc);
    Config {
        mss: 1_000,
        recovery: RecoveryKind::by_name(recovery).expect("known"),
        initial_window: 10.0,
        options: Options { timestamps: false, ..rfc.options },
        acks: tcp::AckPolicy { every: 1, ..rfc.acks },
        ..rfc
    }
}

/// Everything arrives but for segments with these numbers; the SYN is 0. Of the client, its data are 1 to 10, of which the first
/// ends the handshake and the last has the FIN.
fn losing(numbers: &[usize]) -> Vec<Fate> {
    let last = numbers.iter().max().copied().unwrap_or_default();
    (0..=last).map(|number| if numbers.contains(&number) { Fate::Lost } else { Fate::Arrives }).collect()
}

/// A transfer of `bytes`, and how many milliseconds it took to the last byte.
fn transfer(config: Config, forth: Vec<Fate>, back: Vec<Fate>, bytes: u64) -> (Network, u64) {
    let name = format!("{} {}", config.recovery.name, config.control.name);
    let mut network = Network::new(config, [forth, back], [bytes, 0]);
    assert_eq!(network.run(), Ok(()), "{name}");
    assert_eq!(judge(&network, [bytes, 0]), Ok(()), "{name}");
    assert_eq!(network.ends.each_ref().map(|end| end.failure), [None, None], "{name}");
    let took = network.took().as_nanos() / 1_000_000;
    (network, took)
}

#[test]
fn without_losses_a_window_takes_a_round_trip_behind_the_handshake() {
    for recovery in RECOVERIES {
        let (network, took) = transfer(config(recovery), Vec::new(), Vec::new(), TEN);
        assert_eq!(took, WINDOW, "{recovery}");
        let counters = network.counters();
        assert_eq!((counters.data_segments, counters.retransmissions, counters.timeouts), (10, 0, 0), "{recovery}");
    }
}

/// A loss that more than three segments follow costs a round trip and one segment, whatever the recovery. SACK's rule 4 sends the
/// last one again, too, once in a recovery (RFC 6675, section 4).
#[test]
fn a_loss_at_the_beginning_of_a_window_costs_a_round_trip() {
    for recovery in RECOVERIES {
        let (network, took) = transfer(config(recovery), losing(&[1]), Vec::new(), TEN);
        assert_eq!(took, WINDOW + ROUND_TRIP, "{recovery}");
        let counters = network.counters();
        let again = if recovery == "sack" { 2 } else { 1 };
        assert_eq!((counters.retransmissions, counters.timeouts), (again, 0), "{recovery}");
    }
}

/// Nothing follows the last segment: only the timer finds its loss, or the probe after two round trips and 200 ms, as it is the only one
/// out (RFC 8985, section 7).
#[test]
fn a_loss_at_the_end_costs_a_timeout_or_a_probe() {
    for recovery in RECOVERIES {
        let (network, took) = transfer(config(recovery), losing(&[10]), Vec::new(), TEN);
        let counters = network.counters();
        let wait = took - WINDOW;
        if recovery == "rack" {
            assert_eq!(counters.timeouts, 0);
            assert!((2 * ROUND_TRIP + 200..=3 * ROUND_TRIP + 200).contains(&wait), "{wait} ms");
        } else {
            assert_eq!(counters.timeouts, 1, "{recovery}");
            assert_eq!(wait, 1_000 + ROUND_TRIP, "{recovery}: from the last acknowledgement");
        }
        assert_eq!(counters.retransmissions, 1, "{recovery}");
    }
}

/// Two losses in a window: NewReno repairs one each round trip, what SACK reports both in one, and Reno waits for the timer for the
/// second where too little follows (RFC 6582, section 1).
#[test]
fn two_losses_of_a_window_cost_what_the_recovery_knows() {
    let took = |recovery: &str| {
        let (network, took) = transfer(config(recovery), losing(&[2, 4]), Vec::new(), TEN);
        (network.counters().timeouts, (took - WINDOW) / ROUND_TRIP)
    };
    assert_eq!(took("sack"), (0, 1), "both at once");
    assert_eq!(took("rack"), (0, 1), "both at once");
    assert_eq!(took("newreno"), (0, 2), "one after another");
    assert_eq!(took("reno").0, 1, "the first ended the recovery");
}

/// A retransmission that is lost, too: RACK finds it by what was sent later, the others by the timer.
#[test]
fn a_lost_retransmission_costs_a_timeout_unless_time_tells() {
    for recovery in RECOVERIES {
        let lost_twice = |nth: usize| {
            let (network, took) = transfer(config(recovery), losing(&[1, nth]), Vec::new(), 40_000);
            (network.counters(), took)
        };
        let once = transfer(config(recovery), losing(&[1]), Vec::new(), 40_000).1;
        // The worst of these is the retransmission, behind what limited transmit sends.
        let found = (11..17).map(lost_twice).max_by_key(|(_, took)| *took).expect("some");
        let (counters, took) = found;
        if recovery == "rack" {
            assert_eq!(counters.timeouts, 0, "{took}");
            assert!(took < once + 500, "{took}, {once}");
        } else {
            assert!(counters.timeouts >= 1 && took >= once + 500, "{recovery}: {took}, {once}");
        }
    }
}

/// Lost acknowledgements cost nothing while later ones come: each says all that the ones before did (RFC 9293, section 3.4).
#[test]
fn lost_acknowledgements_cost_no_retransmission_while_others_come() {
    for recovery in RECOVERIES {
        // The server's SYN is its segment 0; of the ten acknowledgements behind it only the last arrives.
        let back = losing(&[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let (network, _) = transfer(config(recovery), Vec::new(), back, TEN);
        let counters = network.counters();
        assert_eq!((counters.retransmissions, counters.timeouts), (0, 0), "{recovery}");
    }
}

/// All acknowledgements of a window lost: the timer sends the first again, and one acknowledgement tells that all has arrived.
#[test]
fn if_all_acknowledgements_of_a_window_are_lost_one_segment_is_sent_again() {
    for recovery in RECOVERIES {
        let back = losing(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        let (network, took) = transfer(config(recovery), Vec::new(), back, TEN);
        assert_eq!(network.counters().retransmissions, 1, "{recovery}");
        assert!(took <= 2 * ROUND_TRIP + 1_100, "{recovery}: {took}");
        assert_eq!(
            network.ends[1].connection.metrics().duplicate_bytes.min(1_001),
            network.ends[1].connection.metrics().duplicate_bytes,
            "{recovery}"
        );
    }
}

/// Each part of the handshake lost once costs its timer's second, and nothing else (RFC 6298, section 2.1).
#[test]
fn a_lost_segment_of_the_handshake_costs_its_timer() {
    for recovery in RECOVERIES {
        for (forth, back) in [(losing(&[0]), Vec::new()), (Vec::new(), losing(&[0]))] {
            let (network, took) = transfer(config(recovery), forth, back, 1_000);
            assert_eq!(took, 1_000 + WINDOW, "{recovery}");
            assert_eq!(network.counters().timeouts, 1, "{recovery}");
        }
    }
}

/// A whole window lost is sent again from its beginning, in slow start (RFC 5681, section 3.1); a probe of its tail finds that all
/// before it is lost, too (RFC 8985, section 7).
#[test]
fn a_lost_window_is_sent_again_in_slow_start() {
    for recovery in RECOVERIES {
        let all: Vec<usize> = (1..11).collect();
        let (network, took) = transfer(config(recovery), losing(&all), Vec::new(), TEN);
        let counters = network.counters();
        assert!((10..=11).contains(&counters.retransmissions), "{recovery}: {counters:?}");
        if recovery == "rack" {
            assert!(counters.timeouts == 0 && took < 1_000, "{counters:?}, {took}");
        } else {
            // One, two, four and three segments: four round trips behind the timeout of a second.
            let least = WINDOW + 1_000;
            assert!(counters.timeouts >= 1 && (least..=least + 5 * ROUND_TRIP).contains(&took), "{recovery}: {took}");
        }
    }
}

/// When a transfer takes place makes no difference: an hour after the beginning of time, or while the clock of the timestamps
/// wraps (RFC 7323, section 5.4).
#[test]
fn a_transfer_is_the_same_at_any_time() {
    let faults = || {
        let mut fates = vec![Fate::Arrives; 90];
        for lost in [0, 5, 6, 17, 30, 31, 32, 33, 60, 85] {
            fates[lost] = Fate::Lost;
        }
        for (late, millis) in [(9, 130), (20, 45), (41, 300), (70, 90)] {
            fates[late] = Fate::Late(millis);
        }
        fates[50] = Fate::Repeated(120);
        fates
    };
    let wrap = Instant::ZERO + Duration::from_millis(1 << 32);
    for profile in [Profile::Rfc, Profile::Linux] {
        for recovery in RECOVERIES {
            for control in CONTROLS {
                let config = Config {
                    recovery: RecoveryKind::by_name(recovery).expect("known"),
                    control: ControlKind::by_name(control.name).expect("known"),
                    ..Config::new(profile)
                };
                if config.validate().is_err() {
                    continue;
                }
                let run = |start: Instant| {
                    let mut network =
                        Network::starting_at(start, config.clone(), [faults(), faults()], [150_000, 5_000]);
                    let end = network.run().map(|()| network.took());
                    (end, network.counters(), network.ends[0].read, network.ends[1].read)
                };
                // An echo of 0 means none, so that the first millisecond is special.
                let usual = run(Instant::ZERO + Duration::from_secs(1));
                assert!(usual.0.is_ok() && usual.3 == 150_000, "{recovery} {} {profile:?}: {usual:?}", control.name);
                for start in
                    [Instant::ZERO + Duration::from_secs(3_600), wrap.before(DELAY * 5), wrap.before(DELAY * 31)]
                {
                    assert_eq!(run(start), usual, "{recovery} {} {profile:?} from {start:?}", control.name);
                }
            }
        }
    }
}
