//! When datagrams arrived: the kernel's times of receipt, which are those of the system clock, on the clock that never steps.

use std::time::Duration as StdDuration;
use units::{Duration, Instant};

/// Both clocks as they were just now.
#[derive(Debug, Clone, Copy)]
struct Reading {
    now: Instant,
    /// Nanoseconds by which the system clock is ahead.
    ahead: i128,
    /// The system clock may have been set before: older times of it mean nothing.
    valid_from: Instant,
}

/// Translates times of the system clock.
#[derive(Debug, Default)]
pub(super) struct ArrivalClock {
    reading: Option<Reading>,
}

impl ArrivalClock {
    /// The two clocks are read one after the other, and NTP lets them drift apart by 500 ppm.
    const JITTER: i128 = 1_000_000;
    const DRIFT: i128 = 1000;
    /// Nothing has waited for longer in the socket of a process that has just begun to read.
    const FIRST_WAIT: Duration = Duration::from_millis(1000);

    /// Takes what both clocks show, before times are translated. What waited for a process that stood still, for seconds perhaps, has
    /// its times as long as the clocks agree: all at once would look like a link without limit.
    pub(super) fn read(&mut self, now: Instant, unix_time: u64) {
        let ahead = i128::from(unix_time) - i128::from(now.as_nanos());
        let was_set = |before: &Reading| {
            let elapsed = i128::from(now.since(before.now).as_nanos());
            (ahead - before.ahead).abs() > Self::JITTER + elapsed / Self::DRIFT
        };
        let valid_from = match &self.reading {
            None => now.before(Self::FIRST_WAIT),
            Some(before) if was_set(before) => now,
            Some(before) => before.valid_from,
        };
        self.reading = Some(Reading { now, ahead, valid_from });
    }

    /// When a datagram arrived that the kernel received at `received` (since 1970), as far as the clocks show it.
    pub(super) fn arrival(&self, received: Option<StdDuration>) -> Instant {
        let Some(Reading { now, ahead, valid_from }) = self.reading else { return Instant::ZERO };
        let Some(received) = received else { return now };
        let at = u64::try_from(received.as_nanos() as i128 - ahead).map_or(Instant::ZERO, Instant::from_nanos);
        if (valid_from..=now).contains(&at) { at } else { now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIX: u64 = 1_700_000_000_000_000_000;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(10_000_000_000 + micros * 1000)
    }

    fn received(unix: u64) -> Option<StdDuration> {
        Some(StdDuration::from_nanos(unix))
    }

    #[test]
    fn times_of_the_system_clock_are_moved_to_the_other() {
        let mut clock = ArrivalClock::default();
        clock.read(at(0), UNIX);
        assert_eq!(clock.arrival(received(UNIX - 300_000)), at(0).before(Duration::from_micros(300)));
        assert_eq!(clock.arrival(None), at(0), "the kernel does not tell");
        assert_eq!(clock.arrival(received(UNIX + 5000)), at(0), "nothing arrives after it is read");
        clock.read(at(10_000_000), UNIX + 10_004_000_000);
        assert_eq!(clock.arrival(received(UNIX + 10_003_000_000)), at(9_999_000), "400 ppm of drift");
    }

    #[test]
    fn what_waits_while_the_process_stands_still_keeps_its_times() {
        let mut clock = ArrivalClock::default();
        clock.read(at(0), UNIX);
        let minute = 60_000_000;
        clock.read(at(minute), UNIX + minute * 1000);
        for waited in [1, 1_000_000, 2_000_000, 59_000_000] {
            let came = minute - waited;
            assert_eq!(clock.arrival(received(UNIX + came * 1000)), at(came), "waited for {waited} us");
        }
        assert_eq!(clock.arrival(received(UNIX - 5_000_000_000)), at(minute), "before the process began");
    }

    #[test]
    fn a_system_clock_that_is_set_spoils_one_reading_only() {
        let mut clock = ArrivalClock::default();
        clock.read(at(0), UNIX);
        let step = 80_000_000;
        clock.read(at(1000), UNIX + 1_000_000 + step);
        assert_eq!(clock.arrival(received(UNIX + 900_000)), at(1000));
        assert_eq!(clock.arrival(received(UNIX + 900_000 + step)), at(1000), "nobody knows whether that was before");
        clock.read(at(2000), UNIX + 2_000_000 + step);
        assert_eq!(clock.arrival(received(UNIX + 1_900_000 + step)), at(1900));
        let never = clock.arrival(received(0));
        assert_eq!(never, at(2000), "decades ago");
    }
}
