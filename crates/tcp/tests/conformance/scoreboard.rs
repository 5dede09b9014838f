//! The scoreboard beside a plain model of it that looks at every byte range again each time, over random histories in
//! which the peer also lies.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use tcp::{Change, Scoreboard};
use units::{Duration, Instant};

const MSS: u32 = 10;

#[derive(Debug, Clone, Copy)]
enum Step {
    /// New segments of these spans.
    Send { count: u8, span: u8 },
    /// A cumulative acknowledgement so far into what is outstanding (per mille, beyond 1000 a lie).
    Acknowledge(u16),
    /// Blocks (per mille of what is outstanding, with lengths in bytes).
    Report([(u16, u8); 3]),
    /// The lowest lost segment leaves again.
    Retransmit,
    /// The timer expires.
    Timeout,
    /// The loss was none.
    Undo,
    /// The peer has dropped what it had reported.
    Renege,
    /// Detection by position.
    Detect,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let block = || (0u16..1_300, 0u8..80);
    let step = prop_oneof![
        3 => (1u8..12, 1u8..15).prop_map(|(count, span)| Step::Send { count, span }),
        2 => (0u16..1_200).prop_map(Step::Acknowledge),
        4 => [block(), block(), block()].prop_map(Step::Report),
        3 => Just(Step::Retransmit),
        1 => Just(Step::Timeout),
        1 => Just(Step::Undo),
        1 => Just(Step::Renege),
        4 => Just(Step::Detect),
    ];
    prop::collection::vec(step, 1..120)
}

/// One segment of the model.
#[derive(Debug, Clone)]
struct Outstanding {
    start: u64,
    end: u64,
    sacked: bool,
    lost: bool,
    retransmitted: bool,
}

#[derive(Debug)]
struct Model {
    segments: Vec<Outstanding>,
    una: u64,
    nxt: u64,
    delivered: u64,
}

impl Model {
    fn acknowledge(&mut self, ack: u64) {
        for segment in &mut self.segments {
            let gone = ack.min(segment.end).saturating_sub(segment.start);
            self.delivered += if segment.sacked { 0 } else { gone };
            segment.start += gone;
        }
        self.segments.retain(|segment| segment.start < segment.end);
        self.una = self.una.max(ack);
    }

    /// RFC 6675 counts a segment as arrived only when the whole of it is reported.
    fn report(&mut self, start: u64, end: u64) {
        for segment in self.segments.iter_mut().filter(|segment| start <= segment.start && segment.end <= end) {
            self.delivered += if segment.sacked { 0 } else { segment.end - segment.start };
            (segment.sacked, segment.lost) = (true, false);
        }
    }

    /// IsLost of RFC 6675, section 4, for every segment by itself.
    fn detect(&mut self) {
        let snapshot = self.segments.clone();
        for (at, segment) in self.segments.iter_mut().enumerate() {
            let above = &snapshot[at + 1..];
            let bytes: u64 = above.iter().filter(|other| other.sacked).map(|other| other.end - other.start).sum();
            let starts = above.iter().zip(&snapshot[at..]).filter(|(other, before)| other.sacked && !before.sacked);
            let is_lost = starts.count() >= 3 || bytes > 2 * u64::from(MSS);
            segment.lost |= is_lost && !segment.sacked && !segment.retransmitted;
        }
    }

    fn retransmit(&mut self) -> Option<u64> {
        let segment = self.segments.iter_mut().find(|segment| segment.lost)?;
        (segment.lost, segment.retransmitted) = (false, true);
        Some(segment.start)
    }

    fn bytes(&self, which: impl Fn(&Outstanding) -> bool) -> u64 {
        self.segments.iter().filter(|segment| which(segment)).map(|segment| segment.end - segment.start).sum()
    }
}

fn apply(step: Step, now: Instant, board: &mut Scoreboard, model: &mut Model) {
    let position = |share: u16, model: &Model| model.una + (model.nxt - model.una) * u64::from(share) / 1_000;
    let mut change = Change::default();
    let before = model.delivered;
    match step {
        Step::Send { count, span } => {
            for _ in 0..count {
                let start = model.nxt;
                model.nxt += u64::from(span);
                let segment = Outstanding { start, end: model.nxt, sacked: false, lost: false, retransmitted: false };
                model.segments.push(segment);
                board.on_sent(now, u32::from(span));
            }
        }
        Step::Acknowledge(share) => {
            // The sender refuses what acknowledges more than was sent.
            let ack = position(share, model).min(model.nxt);
            board.on_cumulative(now, ack, &mut change);
            model.acknowledge(ack);
        }
        Step::Report(blocks) => {
            for (share, length) in blocks {
                let start = position(share, model).saturating_sub(u64::from(length) / 3);
                let end = start + u64::from(length);
                board.on_sack(now, start..end, &mut change);
                model.report(start, end);
            }
        }
        Step::Retransmit => {
            let found = board.first_lost().map(|(seq, _)| seq);
            assert_eq!(found, model.retransmit());
            if let Some(seq) = found {
                board.on_retransmitted(now, seq);
            }
        }
        Step::Timeout => {
            board.mark_all_lost();
            model.segments.iter_mut().for_each(|segment| segment.lost = !segment.sacked);
        }
        Step::Undo => {
            board.unmark_lost();
            model.segments.iter_mut().for_each(|segment| segment.lost = false);
        }
        Step::Renege => {
            assert_eq!(board.has_reneged(), model.segments.first().is_some_and(|segment| segment.sacked));
            board.forget_sacks();
            model.segments.iter_mut().for_each(|segment| segment.sacked = false);
        }
        Step::Detect => {
            board.mark_lost_by_position(MSS, 3);
            model.detect();
        }
    }
    assert_eq!(change.delivered, model.delivered - before);
    board.rate_sample(now, &change, Duration::ZERO);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, rng_seed: RngSeed::Fixed(6675), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_model(steps in steps(), by_time in any::<bool>()) {
        let mut board = Scoreboard::new(1, by_time);
        let mut model = Model { segments: Vec::new(), una: 1, nxt: 1, delivered: 0 };
        let mut now = Instant::ZERO;
        for step in steps {
            now += Duration::from_millis(10);
            apply(step, now, &mut board, &mut model);
            prop_assert_eq!((board.una(), board.nxt()), (model.una, model.nxt));
            prop_assert_eq!(board.sacked(), model.bytes(|segment| segment.sacked), "sacked after {:?}", step);
            prop_assert_eq!(board.lost(), model.bytes(|segment| segment.lost), "lost after {:?}", step);
            prop_assert_eq!(board.pipe(), model.bytes(|segment| !segment.sacked && !segment.lost), "pipe");
            let again = model.bytes(|segment| segment.retransmitted && !segment.sacked && !segment.lost);
            prop_assert_eq!(board.retransmitted(), again, "retransmitted after {:?}", step);
            prop_assert_eq!(board.delivered(), model.delivered);
            let last = model.segments.iter().rev().find(|segment| !segment.sacked).map(|segment| segment.start);
            prop_assert_eq!(board.last_outstanding().map(|(seq, _)| seq), last);
            let highest = model.segments.iter().rev().find(|segment| segment.sacked).map_or(model.una, |s| s.end);
            prop_assert_eq!(board.highest_sacked(), highest);
        }
    }
}
