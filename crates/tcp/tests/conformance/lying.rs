//! A peer that lies: acknowledgements of what was never sent, blocks anywhere, windows that come and go, resets and
//! segments out of nowhere. Nothing of that may panic, spin, or make the accounts negative.

use super::lone::{Lone, bare, config};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use tcp::recovery::RECOVERIES;
use tcp::{Config, Event, Flags, Options, Profile, Segment, Timestamps};

#[derive(Debug, Clone)]
enum Step {
    Segment { seq: i64, ack: i64, len: u32, window: u32, flags: u16, blocks: Vec<(i64, i64)>, echo: u32 },
    Wait(u64),
    Write(u64),
    Read(u64),
    Finish,
}

/// Offsets near what is outstanding, and now and then far off.
fn offset() -> impl Strategy<Value = i64> {
    prop_oneof![10 => -3_000i64..40_000, 1 => any::<i32>().prop_map(i64::from), 1 => Just(i64::MAX), 1 => Just(0)]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let flags = prop_oneof![
        12 => Just(Flags::ACK.0),
        2 => Just(Flags::ACK.with(Flags::FIN).0),
        2 => Just(Flags::ACK.with(Flags::DSACK).0),
        2 => Just(Flags::ACK.with(Flags::TIMESTAMPS).0),
        1 => Just(Flags::ACK.with(Flags::NACK).0),
        1 => Just(Flags::ACK.with(Flags::SYN).0),
        1 => any::<u16>().prop_map(|bits| bits & !Flags::RST.0),
    ];
    let window = prop_oneof![8 => 20_000u32..200_000, 1 => Just(0), 2 => 0u32..3_000, 1 => any::<u32>()];
    let blocks = prop::collection::vec((offset(), -100i64..6_000), 0..5);
    let len = prop_oneof![4 => Just(0u32), 2 => 0u32..3_000, 1 => any::<u32>()];
    let segment = (offset(), offset(), len, window, flags, blocks, any::<u32>()).prop_map(
        |(seq, ack, len, window, flags, blocks, echo)| Step::Segment { seq, ack, len, window, flags, blocks, echo },
    );
    let step = prop_oneof![
        8 => segment,
        3 => (0u64..3_000).prop_map(Step::Wait),
        2 => (0u64..30_000).prop_map(Step::Write),
        1 => (0u64..30_000).prop_map(Step::Read),
        1 => Just(Step::Finish),
    ];
    prop::collection::vec(step, 1..150)
}

fn play(end: &mut Lone, step: &Step) {
    match step {
        Step::Segment { seq, ack, len, window, flags, blocks, echo } => {
            let una = end.end.metrics().acknowledged as i64;
            let rcv_nxt = end.end.received() as i64 + 1;
            let at = |base: i64, offset: i64| base.saturating_add(offset).max(0) as u64;
            let ack = at(una, *ack);
            let mut segment = Segment {
                len: *len,
                window: *window,
                timestamps: Timestamps { value: *echo, echo: *echo },
                ..bare(Flags(*flags), at(rcv_nxt, *seq / 4), ack)
            };
            for (start, length) in blocks {
                segment.sack.push(ack, at(una, *start)..at(una, start.saturating_add(*length)));
            }
            end.give(segment);
        }
        Step::Wait(ms) => end.at(end.ms() + ms),
        Step::Write(bytes) => {
            end.end.write(*bytes);
            end.at(end.ms());
        }
        Step::Read(bytes) => {
            end.read(*bytes);
        }
        Step::Finish => end.finish(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, rng_seed: RngSeed::Fixed(793), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_lie_breaks_the_accounts(steps in steps(), timestamps in any::<bool>(), linux in any::<bool>()) {
        for recovery in RECOVERIES {
            let base = config(recovery.name);
            let profile = if linux { Profile::Linux } else { Profile::Rfc };
            let options = Options { timestamps, ..base.options };
            let mut end = Lone::connected(Config { options, profile, proportional_rate_reduction: linux, ..base });
            let mut received = 0;
            for step in &steps {
                play(&mut end, step);
                let metrics = end.end.metrics();
                prop_assert!(metrics.in_flight <= metrics.flight, "{} {step:?}: {metrics:?}", recovery.name);
                prop_assert!(metrics.window.cwnd.is_finite() && metrics.window.cwnd >= 1.0, "{metrics:?}");
                prop_assert!(metrics.received >= received, "{}: what was received is lost", recovery.name);
                received = metrics.received;
                for event in end.events() {
                    prop_assert!(event != Event::Failed(tcp::Failure::Reset), "nobody sent a reset");
                }
            }
        }
    }
}
