//! Repairs of what another program removes, perhaps again and again: how soon one may follow another, and how often the log says so.

use super::LOOK_PAUSE;
use crate::relays::log_limit::LogLimit;
use std::collections::HashMap;
use std::time::Duration;
use units::Instant;

/// The longest pause between two looks. Until the next one, packets of relayed connections are lost if the rules are missing.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// After this time without a repair, the next one is the first again.
const CALM: units::Duration = units::Duration::from_secs(10);

/// The latest repairs.
#[derive(Debug, Default)]
pub(super) struct Repairs {
    /// The last one, and the pause after it.
    last: Option<(Instant, Duration)>,
    /// The lines of the log, by what was removed.
    lines: HashMap<&'static str, LogLimit>,
}

impl Repairs {
    /// The least time between two looks: it grows with each repair that soon follows another.
    pub(super) fn pause(&self, now: Instant) -> Duration {
        self.last.filter(|(when, _)| now.since(*when) < CALM).map_or(LOOK_PAUSE, |(_, pause)| pause)
    }

    /// `repaired` was missing and is in force again at `now`. Returns what of it the log is to name, with the number of lines that were left
    /// out since the last one about the same.
    pub(super) fn note(&mut self, now: Instant, repaired: &[&'static str]) -> Vec<(&'static str, Option<u64>)> {
        if repaired.is_empty() {
            return Vec::new();
        }
        let is_first = self.last.is_none_or(|(when, _)| now.since(when) >= CALM);
        let pause = if is_first { LOOK_PAUSE } else { (self.pause(now) * 2).min(LONGEST_PAUSE) };
        self.last = Some((now, pause));
        let mut admit = |what| self.lines.entry(what).or_default().admit(now);
        let named = repaired.iter().filter_map(|&what| Some((what, admit(what)?)));
        named.map(|(what, not_logged)| (what, (not_logged > 0).then_some(not_logged))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Instant {
        Instant::ZERO + units::Duration::from_millis(milliseconds)
    }

    #[test]
    fn what_is_removed_again_and_again_is_set_up_at_longer_intervals() {
        let mut repairs = Repairs::default();
        let mut pauses = Vec::new();
        let mut now = 0;
        for _ in 0..6 {
            repairs.note(at(now), &["table"]);
            let pause = repairs.pause(at(now)).as_millis() as u64;
            pauses.push(pause);
            now += pause;
        }
        assert_eq!(pauses, [200, 400, 800, 1000, 1000, 1000]);
        repairs.note(at(now + 5_000), &[]);
        assert_eq!(repairs.pause(at(now + 10_000)), LOOK_PAUSE, "nothing was removed for 10 s");
        repairs.note(at(now + 10_000), &["table"]);
        assert_eq!(repairs.pause(at(now + 10_000)), LOOK_PAUSE);
    }

    #[test]
    fn the_log_names_what_is_removed_once_a_minute_and_says_how_often_it_was() {
        let mut repairs = Repairs::default();
        assert_eq!(repairs.note(at(0), &["table", "rule"]), [("table", None), ("rule", None)]);
        for second in 1..60 {
            assert_eq!(repairs.note(at(second * 1000), &["table"]), []);
        }
        assert_eq!(repairs.note(at(60_000), &["rule", "table"]), [("rule", None), ("table", Some(59))]);
    }
}
