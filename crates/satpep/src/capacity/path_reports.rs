//! One peer's reports: read into delays and points on its clock alone.

use super::delays::{Counts, Delays, Point, Sample};
use super::frames::Frames;
use super::quantities::Sent;
use super::report::{Report, Stamp};
use std::collections::VecDeque;

/// What is known of the path to a peer.
#[derive(Debug, Default)]
pub(super) struct PathReports {
    pub(super) delays: Delays,
    frames: Frames,
    /// Bytes that the peer has received, and that were lost on the path to it.
    received: u64,
    lost: u64,
    /// Bytes that were counted as lost and have arrived after all.
    late: u64,
    /// The share of bytes that is lost on the path, of late.
    loss: f64,
    /// The newest packet whose arrival was reported, and how many bytes had been sent to this peer with it.
    newest: Option<(Sent, f64)>,
    /// What the latest points saw, the newest last.
    seen: VecDeque<SeenQueue>,
}

/// The queue that a point saw, and when the point was sent, in seconds.
#[derive(Debug, Clone, Copy)]
struct SeenQueue {
    sent: f64,
    queue: f64,
}

/// How points are made of stamps.
#[derive(Debug, Clone, Copy)]
pub(super) struct PointRule {
    /// Seconds of stamps that a point needs.
    pub(super) length: f64,
    /// The queue is not known to change.
    pub(super) is_steady: bool,
}

/// What the bytes of a report are added to.
#[derive(Debug)]
pub(super) struct Account<'a> {
    /// The sums over all peers.
    pub(super) totals: &'a mut Counts,
    /// Whose clock times the arrivals: the peer's place.
    pub(super) clock: usize,
    /// The peer loses alone: the sums do not have its losses.
    pub(super) loses_alone: bool,
}

/// A report in the light of those before it.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) newest: Sent,
    /// Bytes that had been sent to this peer with it.
    pub(super) newest_own: f64,
    pub(super) point: Option<Point>,
}

/// How far delays differ that no queue explains, in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wander {
    /// From point to point.
    pub(super) noise: f64,
    /// Between packets that arrive together.
    pub(super) frame: f64,
}

fn sample(stamp: &Stamp) -> Sample {
    Sample {
        sent: stamp.sent.as_secs_f64(),
        arrived: stamp.arrived.as_secs_f64(),
        position: stamp.position as f64,
        own: stamp.own as f64,
    }
}

impl PathReports {
    /// Points that are remembered: a peer with a queue of its own reports a second later than others what was sent at the same time.
    pub(super) const SEEN: usize = 64;
    /// Bytes that the share of losses remembers.
    const LOSS_MEMORY: f64 = 100e3;

    /// Takes in a report, all but its trains; `None` as long as nothing was ever stamped. What the peer has received and lost is added to
    /// `account`. `is_first` says whether a stamp of a train is its first packet, which alone of them queued behind nothing of its own.
    pub(super) fn read(
        &mut self,
        report: &Report,
        account: Account<'_>,
        rule: PointRule,
        mut is_first: impl FnMut(&Stamp) -> bool,
    ) -> Option<Reading> {
        let Account { totals, clock, loses_alone } = account;
        let mut latest = f64::NEG_INFINITY;
        for stamp in &report.stamps {
            let arrived = stamp.arrived.as_secs_f64();
            latest = latest.max(arrived);
            let counts = if stamp.is_train { is_first(stamp) } else { true };
            if counts {
                self.delays.add(sample(stamp));
            }
        }
        let others = report.stamps.iter().filter(|stamp| !stamp.is_train);
        self.frames.add(others.map(sample), self.delays.base());
        if let Some(stamp) = report.stamps.iter().max_by_key(|stamp| stamp.number) {
            let newest = Sent { at: stamp.sent.as_secs_f64(), position: stamp.position as f64 };
            // A peer chooses what it stamps: what left long ago says nothing of now.
            if self.newest.is_none_or(|(before, _)| before.at <= newest.at) {
                self.newest = Some((newest, stamp.own as f64));
            }
            (totals.newest, totals.clock) = (latest, clock);
        }
        let received = report.received_bytes.saturating_sub(self.received) as f64;
        totals.received += received;
        self.received = self.received.max(report.received_bytes);
        let lost: u64 = report.lost.iter().map(|lost| u64::from(lost.ip_size)).sum();
        self.lost += lost;
        if !loses_alone {
            totals.lost += lost as f64;
            totals.late += report.late_bytes.saturating_sub(self.late) as f64;
        }
        self.late = self.late.max(report.late_bytes);
        let decided = received + lost as f64;
        if decided > 0.0 {
            self.loss += (decided / Self::LOSS_MEMORY).min(0.5) * (lost as f64 / decided - self.loss);
        }
        let point = self.delays.take(rule.length, *totals, rule.is_steady);
        if let Some(point) = point {
            if self.seen.len() == Self::SEEN {
                self.seen.pop_front();
            }
            self.seen.push_back(SeenQueue { sent: point.sent, queue: point.queue });
        }
        let (newest, newest_own) = self.newest?;
        Some(Reading { newest, newest_own, point })
    }

    /// How far delays differ that no queue explains.
    pub(super) fn wander(&self) -> Wander {
        Wander { noise: self.delays.noise(), frame: self.frames.length() }
    }

    /// The queue that was seen by what was sent at about `sent`, at most `apart` seconds from it; what lies between two points is on a line.
    pub(super) fn queue_at(&self, sent: f64, apart: f64) -> Option<f64> {
        let is_near = |seen: &&SeenQueue| (seen.sent - sent).abs() <= apart;
        // Where packets were reordered neighbours may have changed places, which makes no difference here.
        let later = self.seen.partition_point(|seen| seen.sent <= sent);
        let before = later.checked_sub(1).and_then(|at| self.seen.get(at)).filter(is_near);
        let after = self.seen.get(later).filter(is_near);
        match (before, after) {
            (Some(before), Some(after)) => {
                let part = (sent - before.sent) / (after.sent - before.sent);
                Some(before.queue + part * (after.queue - before.queue))
            }
            (one, other) => one.or(other).map(|seen| seen.queue),
        }
    }

    /// The share of bytes that is lost on the path, of late.
    pub(super) fn loss(&self) -> f64 {
        self.loss
    }

    /// The queue that was seen last.
    pub(super) fn queue(&self) -> f64 {
        self.seen.back().map_or(0.0, |seen| seen.queue)
    }

    /// When the two latest points were sent.
    pub(super) fn latest_points(&self) -> Option<[f64; 2]> {
        let mut seen = self.seen.iter().rev().map(|seen| seen.sent);
        let latest = seen.next()?;
        Some([seen.next()?, latest])
    }

    /// So much of the delay is no queue.
    pub(super) fn shift(&mut self, seconds: f64) {
        self.delays.shift(seconds);
        self.seen.iter_mut().for_each(|seen| seen.queue = (seen.queue - seconds).max(0.0));
    }

    /// What comes next does not follow from what was reported. What has arrived is not counted again.
    pub(super) fn forget_delays(&mut self) {
        let Self { received, lost, late, loss, .. } = *self;
        *self = Self { received, lost, late, loss, ..Self::default() };
    }

    /// After an outage.
    pub(super) fn interrupt(&mut self) {
        self.delays.interrupt();
        self.seen.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_arrived_is_counted_once_though_a_peer_was_not_to_be_believed() {
        let (mut reports, mut totals) = (PathReports::default(), Counts::default());
        let report = |received_bytes| Report { received_bytes, ..Report::default() };
        let mut read = |reports: &mut PathReports, bytes| {
            let account = Account { totals: &mut totals, clock: 0, loses_alone: false };
            let rule = PointRule { length: 0.02, is_steady: true };
            reports.read(&report(bytes), account, rule, |_| true);
            totals.received
        };
        assert_eq!(read(&mut reports, 10_000), 10_000.0);
        reports.forget_delays();
        assert_eq!(read(&mut reports, 11_500), 11_500.0);
    }
}
