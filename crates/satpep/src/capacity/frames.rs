//! Frames of the air interface: what was sent one after the other arrives together.

use super::delays::Sample;

/// How much arrives together.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Frames {
    /// Seconds of sending, on average, and of how many reports.
    length: f64,
    reports: u32,
}

impl Frames {
    /// What arrives in less than this share of the time in which it was sent arrives together, and in this many seconds.
    const TOGETHER: f64 = 0.25;
    const AT_ONCE: f64 = 1e-4;
    /// Of a burst of a sender and the next one the second finds the queue of the first, so that they may arrive together. Three bursts
    /// do not.
    const BURSTS: u32 = 3;
    /// The last packet of a frame waits for no longer than so many frames.
    const LAST: f64 = 1.0;
    /// How much a report counts, and one of fewer packets.
    const WEIGHT: f64 = 0.1;
    const FEWER: f64 = 0.03;
    /// No air interface has longer frames.
    const LONGEST: f64 = 0.25;
    /// Of the first few reports the least counts, and one alone does not.
    const FEW: u32 = 4;

    /// Seconds of sending that arrive together.
    pub(super) fn length(self) -> f64 {
        if self.reports > 1 { self.length } else { 0.0 }
    }

    /// Takes in what a report stamps, in the order of arrival; `base` is the least delay of late, if there is one.
    pub(super) fn add(&mut self, mut samples: impl Iterator<Item = Sample>, base: Option<f64>) {
        let Some(mut first) = samples.next() else { return };
        let (mut before, mut times, mut bursts, mut longest, mut has_queued) = (first, 1, 1, 0.0f64, false);
        for sample in samples {
            times += u32::from(sample.sent != before.sent);
            let (sent, arrived) = (sample.sent - first.sent, sample.arrived - first.arrived);
            if sample.sent >= before.sent && arrived <= Self::TOGETHER * sent + Self::AT_ONCE {
                bursts += u32::from(sample.sent > before.sent);
                // What leaves a long queue faster than it was sent arrives together, too, but late.
                let together = sent - arrived;
                let is_late = base.is_some_and(|base| sample.delay() - base > Self::LAST * together);
                match (bursts >= Self::BURSTS, is_late) {
                    (true, false) => longest = longest.max(together),
                    (true, true) => has_queued = true,
                    (false, _) => {}
                }
            } else {
                (first, bursts) = (sample, 1);
            }
            before = sample;
        }
        if has_queued && longest == 0.0 {
            // A queue hides whether there are frames.
            return;
        }
        longest = longest.min(Self::LONGEST);
        if times < Self::BURSTS {
            // Too few bursts to tell, but of long frames there would be more.
            self.length *= 1.0 - Self::FEWER;
        } else {
            self.reports = self.reports.saturating_add(1);
            self.length = match self.reports {
                1 => longest,
                reports if reports <= Self::FEW => self.length.min(longest),
                _ => self.length + Self::WEIGHT * (longest - self.length),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The length that is found of reports of six packets each, one sent each 5 ms, that arrive as `arrives` says of when they were sent.
    fn length(arrives: impl Fn(f64) -> f64) -> f64 {
        let mut frames = Frames::default();
        for report in 0..100u32 {
            let mut samples = [0, 1, 2, 3, 4, 5].map(|number| {
                let sent = 0.005 * f64::from(6 * report + number);
                Sample { sent, arrived: arrives(sent), position: 0.0, own: 0.0 }
            });
            samples.sort_unstable_by(|one, other| one.arrived.total_cmp(&other.arrived));
            frames.add(samples.into_iter(), Some(0.0));
        }
        frames.length()
    }

    #[test]
    fn packets_that_arrive_at_the_ends_of_frames_arrive_together() {
        let of_30_ms = length(|sent| (sent / 0.03 + 1e-6).ceil() * 0.03);
        assert!((of_30_ms - 0.025).abs() < 0.006, "{of_30_ms}");
    }

    #[test]
    fn what_arrives_as_it_was_sent_in_bursts_or_late_does_not() {
        assert_eq!(length(|sent| sent), 0.0);
        assert_eq!(length(|sent| 1.5 * sent), 0.0, "a queue grows");
        let every_other = |sent: f64| if (sent / 0.005).round() % 2.0 == 0.0 { sent + 0.0049 } else { sent };
        assert_eq!(length(every_other), 0.0, "two bursts in a row");
        let some_are_late = length(|sent| if (sent / 0.005).round() % 20.0 == 0.0 { sent + 0.1 } else { sent });
        assert!(some_are_late < 0.001, "{some_are_late}");
    }

    /// Frames of 30 ms are found, then `report` comes again and again.
    fn length_after(report: &[Sample], base: f64) -> [f64; 2] {
        let mut frames = Frames::default();
        for frame in 0..20u32 {
            let arrived = 0.03 * f64::from(frame + 1);
            let sent = |number: u32| 0.03 * f64::from(frame) + 0.005 * f64::from(number);
            let samples = [0, 1, 2, 3, 4, 5].map(|number| Sample { sent: sent(number), arrived, ..report[0] });
            frames.add(samples.into_iter(), Some(0.0));
        }
        let before = frames.length();
        (0..30).for_each(|_| frames.add(report.iter().copied(), Some(base)));
        [before, frames.length()]
    }

    #[test]
    fn a_queue_hides_frames_but_does_not_disprove_them() {
        let late = [0.0, 0.005, 0.01, 0.015].map(|sent| Sample { sent, arrived: 0.5, position: 0.0, own: 0.0 });
        let [before, after] = length_after(&late, 0.0);
        assert!(before > 0.02 && after == before, "{before} {after}");
    }

    #[test]
    fn what_was_sent_at_once_tells_nothing_at_first_and_little_later() {
        let at_once = [0.0; 5].map(|sent| Sample { sent, arrived: 0.03, position: 0.0, own: 0.0 });
        let mut frames = Frames::default();
        (0..10).for_each(|_| frames.add(at_once.into_iter(), Some(0.0)));
        assert_eq!(frames.reports, 0, "a handshake and what follows it");
        let [before, after] = length_after(&at_once, 0.0);
        assert!(after > before / 3.0 && after < before, "{before} {after}");
    }
}
