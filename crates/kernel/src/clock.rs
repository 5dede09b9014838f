//! The host's monotonic clock.

use units::Instant;

/// The time now: nanoseconds of `CLOCK_MONOTONIC`, the clock of [`crate::timer::Timer`]. It never steps back, and every
/// process of the host reads the same one.
pub fn now() -> Instant {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to. The call cannot fail: CLOCK_MONOTONIC always exists on Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    Instant::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_and_never_steps_back() {
        let start = now();
        let mut last = start;
        while last.since(start).as_nanos() < 1_000_000 {
            let next = now();
            assert!(next >= last);
            last = next;
        }
    }
}
