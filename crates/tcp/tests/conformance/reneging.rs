//! Receivers that drop what they reported by SACK (RFC 2018, section 8).

use super::lone::{Lone, MSS, config, seg};
use tcp::control::LossState;
use tcp::{Config, Event, Profile, RttRules};

const RECOVERIES: [&str; 2] = ["sack", "rack"];

fn with(recovery: &str, profile: Profile) -> Config {
    Config { profile, rtt: Config::new(profile).rtt, ..config(recovery) }
}

/// Ten segments out, of which the first was lost and the peer reports the others; that one is sent again.
fn all_but_the_first_reported(config: Config) -> Lone {
    let mut end = Lone::connected(config);
    end.write(10_000);
    end.at(200);
    for number in 1..10 {
        end.sack(seg(0), &[(seg(1), seg(number + 1))]);
    }
    assert!(end.data().contains(&seg(0)), "sent again");
    end
}

/// The peer has one segment now and has dropped the nine behind it: the sender must send them again after a timeout, though they
/// were reported.
#[test]
fn what_was_reported_and_dropped_is_sent_again_after_a_timeout() {
    for profile in [Profile::Rfc, Profile::Linux] {
        for recovery in RECOVERIES {
            let name = format!("{recovery} {profile:?}");
            let mut end = all_but_the_first_reported(with(recovery, profile));
            end.at(300);
            end.ack(seg(1));
            assert!(end.data().is_empty(), "{name}: reported segments are not sent again before");
            end.at(3_000);
            let counters = end.end.metrics().counters;
            assert!(counters.timeouts >= 1, "{name}");
            assert_eq!(end.data().first(), Some(&seg(1)), "{name}: the left edge, reported or not");
            // The peer takes what comes, and acknowledges.
            let mut una = 1;
            while una < 10 {
                una += 1;
                end.ack(seg(una));
                let again = end.data();
                assert!(again.iter().all(|at| *at >= seg(una)), "{name}: {again:?}");
                end.at(end.ms() + 10);
            }
            assert_eq!(end.end.metrics().acknowledged, 10_000, "{name}");
            assert_eq!((end.end.metrics().flight, end.end.metrics().in_flight), (0, 0), "{name}");
            assert!(end.events().iter().all(|event| !matches!(event, Event::Failed(_))), "{name}");
        }
    }
}

/// A receiver that keeps what it reported has its first hole at the left edge: then the reports hold after a timeout, too.
#[test]
fn reports_hold_after_a_timeout_while_the_left_edge_is_a_hole() {
    for recovery in RECOVERIES {
        let mut end = Lone::connected(config(recovery));
        end.write(10_000);
        end.at(200);
        end.sack(seg(0), &[(seg(2), seg(10))]);
        end.take();
        // What was sent again is lost, too.
        end.at(5_000);
        assert!(end.end.metrics().counters.timeouts >= 1, "{recovery}");
        end.take();
        end.sack(seg(1), &[(seg(2), seg(10))]);
        end.at(5_100);
        end.ack(seg(10));
        let again = end.data();
        assert!(again.iter().all(|at| *at == seg(1)), "{recovery}: {again:?}");
        assert_eq!(end.end.metrics().flight, 0, "{recovery}");
    }
}

/// The peer reports the same again later: it counts once as delivered in what follows, and the connection ends as any.
#[test]
fn what_was_dropped_may_be_reported_again() {
    for recovery in RECOVERIES {
        let mut end = all_but_the_first_reported(config(recovery));
        end.at(300);
        end.ack(seg(1));
        end.at(3_000);
        end.take();
        assert_eq!(end.end.metrics().state, LossState::Timeout, "{recovery}");
        end.sack(seg(2), &[(seg(5), seg(10))]);
        let metrics = end.end.metrics();
        assert!(metrics.in_flight <= 3 * u64::from(MSS), "{recovery}: {metrics:?}");
        end.at(3_100);
        end.ack(seg(5));
        end.at(3_200);
        end.ack(seg(10));
        assert_eq!((end.end.metrics().flight, end.end.metrics().state), (0, LossState::Open), "{recovery}");
        end.take();
        end.write(1_000);
        assert_eq!(end.data(), [seg(10)], "{recovery}");
    }
}

/// A peer that goes on dropping costs timeouts, and no failure while the left edge moves.
#[test]
fn a_peer_that_drops_its_reports_again_and_again_is_served() {
    for recovery in RECOVERIES {
        let rtt = RttRules::linux();
        let mut end = Lone::connected(Config { rtt, ..config(recovery) });
        end.write(12_000);
        end.take();
        for una in 0..12 {
            end.at(end.ms() + 20);
            let reported = [(seg(una + 1), seg(12))];
            end.sack(seg(una), if una < 11 { &reported } else { &[] });
            end.at(end.ms() + 130_000);
            let sent = end.data();
            assert!(sent.contains(&seg(una)), "{recovery}: {una} {sent:?}");
        }
        end.ack(seg(12));
        assert_eq!(end.end.metrics().acknowledged, 12_000, "{recovery}");
        assert!(end.events().iter().all(|event| !matches!(event, Event::Failed(_))), "{recovery}");
    }
}
