//! A recorded link: two minutes of Starlink, from LeoCC (see the files for their source and licence). It begins again when it ends.

use crate::Error;
use flate2::read::DeflateDecoder;
use link::{Opportunities, Steps};
use std::io::{self, Read};
use std::sync::OnceLock;
use units::{Bytes, Duration, Instant, Rate};

const OPPORTUNITIES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/starlink.opportunities.deflate"));
const DELAYS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/starlink.delays.deflate"));

/// When a packet may leave, and for how long it is under way then.
pub(super) fn trace() -> Result<(Opportunities, Steps<Duration>), Error> {
    let opportunities = opportunities();
    let failed = |error: &dyn std::fmt::Display| Error::failed(format!("the delays of Starlink: {error}"));
    let text = inflate(DELAYS).map_err(|error| failed(&error))?;
    let delays = Steps::parse(&text).map_err(|error| failed(&error))?;
    let repeat = opportunities.millis.last().copied().map(Duration::from_millis);
    Ok((opportunities.clone(), Steps { repeat, ..delays }))
}

fn opportunities() -> &'static Opportunities {
    static READ: OnceLock<Opportunities> = OnceLock::new();
    READ.get_or_init(|| {
        let text = inflate(OPPORTUNITIES).unwrap_or_default();
        Opportunities::parse(&text).unwrap_or_default()
    })
}

fn inflate(compressed: &[u8]) -> io::Result<String> {
    let mut text = String::new();
    DeflateDecoder::new(compressed).read_to_string(&mut text)?;
    Ok(text)
}

/// What the link carries around `at`, over a tenth of a second.
pub(super) fn rate_at(at: Instant) -> Rate {
    const BIN: u64 = 100;
    static BINS: OnceLock<Vec<u64>> = OnceLock::new();
    let bins = BINS.get_or_init(|| {
        let millis = &opportunities().millis;
        let mut bins = vec![0; (millis.last().copied().unwrap_or_default() / BIN + 1) as usize];
        millis.iter().for_each(|at| bins[(at / BIN) as usize] += 1);
        bins
    });
    let period = opportunities().millis.last().copied().unwrap_or(1);
    let bin = at.as_nanos() / 1_000_000 % period / BIN;
    Rate::from_bps(bins[bin as usize] * 1500 * 8 * 1000 / BIN)
}

/// How long the link takes from `at` on for what waits then: each opportunity takes a full packet.
pub(super) fn time_to_send(at: Instant, waiting: Bytes) -> Duration {
    let millis = &opportunities().millis;
    let packets = waiting.as_u64().div_ceil(1500);
    let (Some(period), Some(others)) = (millis.last().copied(), packets.checked_sub(1)) else { return Duration::ZERO };
    let now = at.as_nanos() / 1_000_000;
    let next = millis.partition_point(|opportunity| *opportunity < now % period) as u64;
    let (last, count) = (next + others, millis.len() as u64);
    let sent = (now / period + last / count) * period + millis[(last % count) as usize];
    Duration::from_millis(sent.saturating_sub(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_is_two_minutes_of_49_megabits_a_second() {
        let (opportunities, delays) = trace().expect("it can be read");
        let last = opportunities.millis.last().copied().expect("some");
        let mean = opportunities.millis.len() as f64 * 1500.0 * 8.0 / (last as f64 / 1e3);
        assert!((119_000..121_000).contains(&last) && (mean - 48.7e6).abs() < 0.2e6, "{last} ms, {mean} bit/s");
        assert!(delays.steps.iter().all(|(_, delay)| (7..=68).contains(&(delay.as_millis_f64() as u64))));
        let rates = (0..1200).map(|tenth| rate_at(Instant::ZERO + Duration::from_millis(tenth * 100)).as_bps() as f64);
        assert!((rates.sum::<f64>() / 1200.0 - 48.7e6).abs() < 0.3e6);
    }

    #[test]
    fn what_waits_leaves_at_the_recorded_opportunities_however_often_they_repeat() {
        let millis = &opportunities().millis;
        let (period, count) = (millis.last().copied().expect("some"), millis.len() as u64);
        let wait = |at, packets| time_to_send(Instant::ZERO + Duration::from_millis(at), Bytes::new(1500 * packets));
        assert_eq!(wait(0, 0), Duration::ZERO);
        assert_eq!(wait(0, 1), Duration::from_millis(millis[0]));
        assert_eq!(wait(0, 1000), Duration::from_millis(millis[999]));
        assert_eq!(wait(7 * period, 1000), Duration::from_millis(millis[999]));
        assert_eq!(wait(0, 2 * count + 5), Duration::from_millis(2 * period + millis[4]));
    }
}
