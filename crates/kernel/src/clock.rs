//! The host's clocks, and the processor time that a thread uses.

use units::{Duration, Instant};

/// The time now: nanoseconds of `CLOCK_MONOTONIC`, the clock of [`crate::timer::Timer`]. It never steps back, and every
/// process of the host reads the same one.
pub fn now() -> Instant {
    Instant::from_nanos(read(libc::CLOCK_MONOTONIC))
}

/// Nanoseconds since 1970, by the system clock, which may be set and step.
pub fn unix_time() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// The same time by both clocks, [`now`] and [`unix_time`], to within some tens of microseconds, also where the process is stopped in between.
pub fn now_by_both() -> (Instant, u64) {
    const CLOSE: Duration = Duration::from_micros(20);
    const TRIES: usize = 8;
    let mut before = now();
    for _ in 1..TRIES {
        let unix_time = unix_time();
        let after = now();
        if after.since(before) <= CLOSE {
            return (after, unix_time);
        }
        before = after;
    }
    (now(), unix_time())
}

/// The processor time that the calling thread has used, in the kernel and outside it.
pub fn thread_cpu_time() -> Duration {
    Duration::from_nanos(read(libc::CLOCK_THREAD_CPUTIME_ID))
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to. The call cannot fail: Linux always has these clocks.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
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

    #[test]
    fn a_busy_thread_uses_processor_time() {
        let start = thread_cpu_time();
        // Longer than the 10 ms after which every kernel has counted.
        for number in 0..100_000_000_u64 {
            std::hint::black_box(number);
        }
        assert!(thread_cpu_time() > start);
    }
}
