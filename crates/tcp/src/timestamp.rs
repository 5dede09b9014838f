//! The clock of the timestamps option: milliseconds in 32 bits, which wrap after 49.7 days (RFC 7323, section 5.4).

use units::{Duration, Instant};

const MILLISECOND: u64 = 1_000_000;

/// The time as timestamps have it.
pub(crate) fn ms(at: Instant) -> u32 {
    (at.as_nanos() / MILLISECOND) as u32
}

/// Whether `one` is older than `other`: of two ways around the clock the shorter counts (RFC 7323, section 5.2).
pub(crate) fn is_older(one: u32, other: u32) -> bool {
    one.wrapping_sub(other) > 1 << 31
}

/// The time at `now` since the clock showed `echo`, which the peer repeats; none if the clock has not shown it yet.
pub(crate) fn since(now: Instant, echo: u32) -> Duration {
    if is_older(ms(now), echo) {
        return Duration::ZERO;
    }
    let whole = u64::from(ms(now).wrapping_sub(echo)) * MILLISECOND;
    Duration::from_nanos(whole + now.as_nanos() % MILLISECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock wraps at this time.
    const WRAP: u64 = 1 << 32;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn what_is_older_stays_so_when_the_clock_wraps() {
        for begin in [0, 1_000, WRAP - 10, WRAP - 1, WRAP, 5 * WRAP - 3] {
            let [one, other] = [begin, begin + 10].map(|millis| ms(at(millis)));
            assert!(is_older(one, other) && !is_older(other, one), "{begin}");
            assert!(!is_older(one, one), "{begin}");
        }
    }

    #[test]
    fn the_time_since_an_echo_is_counted_across_the_wrap() {
        for begin in [0, 1_000, WRAP - 300, WRAP - 1, WRAP] {
            let now = at(begin + 550) + Duration::from_micros(250);
            assert_eq!(since(now, ms(at(begin))), Duration::from_micros(550_250), "{begin}");
        }
        assert_eq!(since(at(1_000), 1_001), Duration::ZERO, "a peer that makes it up");
    }
}
