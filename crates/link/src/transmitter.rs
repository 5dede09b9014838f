//! When the last bit of each packet is sent.

use crate::opportunities::OpportunityCursor;
use crate::steps::{Segment, Timeline};
use units::{Bytes, Duration, Instant, Rate};

/// A bit sent at one bit per second takes so many nanoseconds, a byte eight times as long.
const NANOS_OF_A_BYTE: u64 = 8_000_000_000;

/// Sends one packet after the other, exactly over the long run: the part of a nanosecond that an instant cannot hold is
/// carried to the next packet.
#[derive(Debug)]
pub(crate) struct Transmitter {
    pace: Pace,
    /// What is sent around each packet.
    overhead: Bytes,
    free_at: Instant,
    /// Work that `free_at` is too early for, in bits times 10^9 (it takes less than a nanosecond).
    remainder: u64,
}

/// What decides how long a packet takes.
#[derive(Debug)]
pub(crate) enum Pace {
    /// No time.
    Unlimited,
    /// One rate, and what the latest size takes: packets of a direction have few sizes, and a division costs as much as
    /// all the rest.
    Constant { rate: u64, latest: Cost },
    /// A rate that changes, also while a packet is being sent.
    Varying(Box<VaryingRate>),
    /// Recorded opportunities.
    Opportunities(Box<OpportunityCursor>),
}

impl Pace {
    pub(crate) fn constant(rate: Option<Rate>) -> Self {
        rate.map_or(Pace::Unlimited, |rate| Pace::Constant { rate: rate.as_bps(), latest: Cost::NOTHING })
    }
}

/// The time that a packet of some size takes: whole nanoseconds, and the work left over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    size: Bytes,
    nanos: u64,
    rest: u64,
    /// Work with which the rest takes another nanosecond.
    complement: u64,
}

impl Cost {
    /// That of no bytes, at any rate: no remainder reaches the complement.
    const NOTHING: Self = Self { size: Bytes::ZERO, nanos: 0, rest: 0, complement: u64::MAX };

    #[cold]
    fn of(size: Bytes, rate: u64) -> Self {
        let (work, wide) = (work_of(size), u128::from(rate));
        let (nanos, rest) = (u64::try_from(work / wide).unwrap_or(u64::MAX), (work % wide) as u64);
        Self { size, nanos: nanos.min(u64::MAX - 1), rest, complement: rate - rest }
    }
}

fn work_of(size: Bytes) -> u128 {
    u128::from(size.as_u64()) * u128::from(NANOS_OF_A_BYTE)
}

/// A rate in bits per second over the nanoseconds since `start`.
#[derive(Debug)]
pub(crate) struct VaryingRate {
    rate: Timeline,
    start: Instant,
    /// The length of a repetition, and the work that it can do.
    cycle: Option<(u64, u128)>,
}

impl VaryingRate {
    pub(crate) fn new(rate: Timeline, start: Instant) -> Self {
        Self { cycle: rate.cycle(), rate, start }
    }

    /// When `work` is done that begins at `from`, and what is left over.
    fn finish(&self, from: Instant, mut work: u128) -> (Instant, u64) {
        let mut nanos = from.since(self.start).as_nanos();
        if let Some((length, capacity)) = self.cycle {
            // What fills its last repetition to the brim ends in it.
            let repetitions = (work.saturating_sub(1) / capacity.max(1)) as u64;
            work -= u128::from(repetitions) * capacity;
            nanos = nanos.saturating_add(repetitions.saturating_mul(length));
        }
        loop {
            let Segment { value: rate, until } = self.rate.at(nanos);
            let capacity = u128::from(rate) * u128::from(until - nanos);
            if work <= capacity && rate > 0 {
                nanos += (work / u128::from(rate)) as u64;
                return (self.start + Duration::from_nanos(nanos), (work % u128::from(rate)) as u64);
            }
            if until == u64::MAX {
                return (Instant::FAR_FUTURE, 0);
            }
            work -= capacity;
            nanos = until;
        }
    }
}

impl VaryingRate {
    /// The rate at `now`, and until when it holds.
    fn at(&self, now: Instant) -> (Rate, Instant) {
        let Segment { value, until } = self.rate.at(now.since(self.start).as_nanos());
        let until = if until == u64::MAX { Instant::FAR_FUTURE } else { self.start + Duration::from_nanos(until) };
        (Rate::from_bps(value), until)
    }
}

impl Transmitter {
    /// The rate at `now`, and until when it holds; `None` where there is none.
    pub(crate) fn rate(&self, now: Instant) -> Option<(Rate, Instant)> {
        match &self.pace {
            Pace::Constant { rate, .. } => Some((Rate::from_bps(*rate), Instant::FAR_FUTURE)),
            Pace::Varying(varying) => Some(varying.at(now)),
            Pace::Unlimited | Pace::Opportunities(_) => None,
        }
    }

    pub(crate) fn new(pace: Pace, overhead: Bytes, start: Instant) -> Self {
        Self { pace, overhead, free_at: start, remainder: 0 }
    }

    /// When it has sent all that it was given.
    #[inline]
    pub(crate) fn free_at(&self) -> Instant {
        self.free_at
    }

    /// The packet that is being sent at `now` is lost: it takes no more time.
    pub(crate) fn abort(&mut self, now: Instant) {
        if self.free_at > now {
            (self.free_at, self.remainder) = (now, 0);
            if let Pace::Opportunities(opportunities) = &mut self.pace {
                opportunities.abort(now);
            }
        }
    }

    /// Sends a packet that has been there since `ready`, as soon as the transmitter is free; returns when its last bit
    /// is sent.
    #[inline]
    pub(crate) fn send(&mut self, ready: Instant, size: Bytes) -> Instant {
        let size = size + self.overhead;
        let was_idle = ready >= self.free_at;
        if ready > self.free_at {
            (self.free_at, self.remainder) = (ready, 0);
        }
        let Pace::Constant { rate, latest } = &mut self.pace else {
            return self.send_unevenly(ready, was_idle, size);
        };
        if latest.size != size {
            *latest = Cost::of(size, *rate);
        }
        // Both are below the rate, so that their sum reaches it at most once.
        let is_whole = self.remainder >= latest.complement;
        self.remainder = if is_whole { self.remainder - latest.complement } else { self.remainder + latest.rest };
        self.free_at += Duration::from_nanos(latest.nanos + u64::from(is_whole));
        self.free_at
    }

    #[inline(never)]
    fn send_unevenly(&mut self, ready: Instant, was_idle: bool, size: Bytes) -> Instant {
        match &mut self.pace {
            Pace::Unlimited | Pace::Constant { .. } => {}
            Pace::Varying(rate) => {
                let work = work_of(size) + u128::from(self.remainder);
                (self.free_at, self.remainder) = rate.finish(self.free_at, work);
            }
            Pace::Opportunities(opportunities) => {
                if was_idle {
                    opportunities.pass(ready);
                }
                self.free_at = opportunities.send(self.free_at, size);
            }
        }
        self.free_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    const START: Instant = Instant::from_nanos(17);

    fn constant(rate: Option<Rate>) -> Transmitter {
        Transmitter::new(Pace::constant(rate), Bytes::ZERO, Instant::ZERO)
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(2), ..ProptestConfig::default() })]

        #[test]
        fn n_packets_take_n_times_one(bps in 1_000u64..40_000_000_000, size in 20u64..9_000, n in 1u64..2_000) {
            let mut transmitter = constant(Some(Rate::from_bps(bps)));
            let end = (0..n).map(|_| transmitter.send(START, Bytes::new(size))).last().expect("n > 0");
            let exact = u128::from(n) * u128::from(size) * 8_000_000_000 / u128::from(bps);
            prop_assert_eq!(u128::from(end.since(START).as_nanos()), exact);
        }
    }

    #[test]
    fn a_rate_that_does_not_divide_is_exact_over_an_hour() {
        // 12,000 bits at 7,777,777 bit/s take 1,542,857.3… ns: an hour holds 2,333,333.1 of them.
        let rate = Rate::from_bps(7_777_777);
        let mut transmitter = constant(Some(rate));
        let end = (0..2_333_333).map(|_| transmitter.send(Instant::ZERO, Bytes::new(1500))).last().expect("some");
        let exact_nanos = 2_333_333u128 * 12_000 * 1_000_000_000 / 7_777_777;
        assert_eq!(u128::from(end.as_nanos()), exact_nanos);
    }

    #[test]
    fn an_idle_transmitter_starts_at_once_and_saves_nothing_up() {
        let mut transmitter = constant(Some(Rate::from_bps(8_000)));
        assert_eq!(transmitter.send(Instant::ZERO, Bytes::new(1)).as_nanos(), 1_000_000);
        assert_eq!(transmitter.send(Instant::from_nanos(5_000_000), Bytes::new(1)).as_nanos(), 6_000_000);
        assert_eq!(transmitter.send(Instant::from_nanos(5_500_000), Bytes::new(1)).as_nanos(), 7_000_000);
    }

    #[test]
    fn a_packet_of_no_bytes_takes_no_time() {
        let mut transmitter = constant(Some(Rate::from_bps(7_777_777)));
        assert_eq!(transmitter.send(START, Bytes::ZERO), START);
        let end = transmitter.send(START, Bytes::new(1_500));
        assert_eq!(transmitter.send(START, Bytes::ZERO), end);
    }

    #[test]
    fn an_unlimited_rate_takes_no_time() {
        let mut transmitter = constant(None);
        assert_eq!(transmitter.send(START, Bytes::new(65_535)), START);
    }

    #[test]
    fn overhead_takes_its_time_with_every_packet() {
        let mut transmitter =
            Transmitter::new(Pace::constant(Some(Rate::from_bps(8_000))), Bytes::new(6), Instant::ZERO);
        assert_eq!(transmitter.send(Instant::ZERO, Bytes::new(40)).as_nanos(), 46_000_000);
        assert_eq!(transmitter.send(Instant::ZERO, Bytes::new(552)).as_nanos(), (46 + 558) * 1_000_000);
    }

    fn varying(steps: &str, repeat: Option<u64>) -> Transmitter {
        let steps =
            crate::Steps { repeat: repeat.map(Duration::from_millis), ..crate::Steps::parse(steps).expect("valid") };
        varying_over(steps.timeline(Rate::from_bps(8_000), Rate::as_bps))
    }

    fn varying_over(rate: Timeline) -> Transmitter {
        let pace = Pace::Varying(Box::new(VaryingRate::new(rate, Instant::ZERO)));
        Transmitter::new(pace, Bytes::ZERO, Instant::ZERO)
    }

    #[test]
    fn a_step_changes_the_rate_of_what_is_left_of_a_packet() {
        // 8 bytes of 10 go out at 1 byte/ms, then nothing for 5 ms, then 2 bytes at half a byte each millisecond.
        let mut transmitter = varying("8ms 0bit/s\n13ms 4kbit/s", None);
        assert_eq!(transmitter.send(Instant::ZERO, Bytes::new(10)).as_nanos(), 17_000_000);
        assert_eq!(transmitter.send(Instant::ZERO, Bytes::new(1)).as_nanos(), 19_000_000);
    }

    #[test]
    fn repetitions_are_skipped_without_walking_through_them() {
        // 1 byte in each second, for 60,000 of them.
        let mut transmitter = varying("1ms 0bit/s", Some(1_000));
        assert_eq!(transmitter.send(Instant::ZERO, Bytes::new(60_000)).as_nanos(), 59_999 * 1_000_000_000 + 1_000_000);
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(3), ..ProptestConfig::default() })]

        /// Whatever the rates do, the bytes sent are the integral of the rate.
        #[test]
        fn the_work_done_is_the_integral_of_the_rate(
            rates in proptest::collection::vec((1u64..50_000_000, 0u64..20_000_000), 1..20), repeats in any::<bool>(),
            sizes in proptest::collection::vec(20u64..9_000, 1..300),
        ) {
            let mut at = 0;
            let mut steps: Vec<_> = rates.iter().map(|(gap, bps)| {
                at += gap;
                (Duration::from_nanos(at), Rate::from_bps(*bps))
            }).collect();
            steps.push((Duration::from_nanos(at + 1), Rate::from_bps(1_000_000)));
            let repeat = repeats.then(|| Duration::from_nanos(at + 5_000));
            let timeline = crate::Steps { repeat, ..crate::Steps::new(steps) }.timeline(Rate::from_bps(8_000), Rate::as_bps);
            let mut transmitter = varying_over(timeline);
            let end = sizes.iter().map(|size| transmitter.send(Instant::ZERO, Bytes::new(*size))).last().expect("some");
            let Pace::Varying(varying) = &transmitter.pace else { unreachable!("as made") };
            let rate = &varying.rate;
            let (mut nanos, mut integral) = (0, 0);
            while nanos < end.as_nanos() {
                let segment = rate.at(nanos);
                let until = segment.until.min(end.as_nanos());
                integral += u128::from(segment.value) * u128::from(until - nanos);
                nanos = until;
            }
            let work: u128 = sizes.iter().map(|size| work_of(Bytes::new(*size))).sum();
            prop_assert_eq!(work, integral + u128::from(transmitter.remainder));
        }
    }
}
