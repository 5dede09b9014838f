//! The paper's model with the paper's constants. Channels are in kbit/s, windows and files in bytes.

use crate::Error;
use model::Invalid;
use model::kruse::{Channel, End, Reading, Start};
use units::{Bytes, Duration, Rate};

/// Propagation over the satellite, one way.
pub(super) const SATELLITE: Duration = Duration::from_millis(280);
/// Propagation over the terrestrial bypass, one way.
pub(super) const BYPASS: Duration = Duration::from_micros(1_500);
/// The faster channel of the paper, in kbit/s.
pub(super) const T1: u64 = 1536;
/// The window of SunOS' FTP.
pub(super) const WINDOW: u64 = 24_576;
/// The largest window without the window scale option.
pub(super) const LARGEST_WINDOW: u64 = 65_535;
/// Equation 3.9 as printed.
pub(super) const LITERAL: Reading = Reading::Literal;
/// All rounds but the wait after the last, until all is acknowledged: what this study holds against simulations.
pub(super) const WHOLE: Reading = Reading::Cycles(End::AllAcked);
/// Windows that grow by a segment for each acknowledgement, one for every second segment.
pub(super) const BY_HALF: Start = Start { growth: 1.5, ..Start::PAPER };

/// Throughput of windows in the long run, in kbit/s; `None` where the model does not apply.
pub(super) fn long_run(kbits: u64, window: u64) -> Result<Option<f64>, Error> {
    let steady = channel(kbits).steady(Bytes::new(window)).map_err(refused)?;
    Ok(Some(steady.throughput).filter(|throughput| throughput.is_valid()).map(|throughput| in_kbits(throughput.value)))
}

/// What the line carries of data, in kbit/s.
pub(super) fn line_rate(kbits: u64) -> f64 {
    let Channel { payload, frame, .. } = channel(kbits);
    kbits as f64 * payload.as_u64() as f64 / frame.as_u64() as f64
}

/// Throughput of a file, in kbit/s.
pub(super) fn file(reading: Reading, kbits: u64, window: u64, bytes: u64) -> Result<f64, Error> {
    file_from(Start::PAPER, reading, kbits, window, bytes)
}

/// Throughput of a file whose windows begin as `start` says, in kbit/s.
pub(super) fn file_from(start: Start, reading: Reading, kbits: u64, window: u64, bytes: u64) -> Result<f64, Error> {
    let found = channel(kbits).slow_start(Bytes::new(window), Bytes::new(bytes), start, reading).map_err(refused)?;
    Ok(in_kbits(found.throughput.value))
}

/// What a frame without data takes on the channel, in s: that of an acknowledgement, or nearly of a handshake.
pub(super) fn header_s(kbits: u64) -> f64 {
    channel(kbits).ack.bits() as f64 / 1e3 / kbits as f64
}

/// A ping's round trip in ms: 84 bytes and the frame around them, there and back.
pub(super) fn ping(one_way: Duration) -> f64 {
    2.0 * (one_way.as_millis_f64() + 90.0 * 8.0 / T1 as f64)
}

/// The times of figure 6, in ms.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sequence {
    /// To send a segment: `t_i` (3.4).
    pub(super) segment: f64,
    /// From a segment sent to its acknowledgement: `t_ack` (3.2).
    pub(super) acknowledgement: f64,
    /// Between two windows: `t_w` (3.5).
    pub(super) wait: f64,
}

/// The times of the sequence of segments and acknowledgements.
pub(super) fn sequence(kbits: u64, window: u64) -> Result<Sequence, Error> {
    let channel = channel(kbits);
    let millis = |bytes: Bytes| bytes.bits() as f64 / kbits as f64;
    Ok(Sequence {
        segment: millis(channel.frame),
        acknowledgement: 2.0 * channel.one_way.as_millis_f64() + millis(channel.ack),
        wait: channel.steady(Bytes::new(window)).map_err(refused)?.wait_s * 1e3,
    })
}

fn channel(kbits: u64) -> Channel {
    Channel::acts(Rate::from_bps(kbits * 1000))
}

fn in_kbits(rate: Rate) -> f64 {
    rate.as_bps() as f64 / 1e3
}

/// The study's own numbers do not fit the model.
fn refused(error: Invalid) -> Error {
    Error::failed(format!("the model refuses {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_are_the_papers() {
        assert_eq!(channel(T1).one_way, SATELLITE);
        assert!((ping(SATELLITE) - 560.94).abs() < 0.01 && (ping(BYPASS) - 3.94).abs() < 0.01);
        let times = sequence(T1, WINDOW).unwrap();
        assert!((times.segment - 2.906).abs() < 1e-3 && (times.acknowledgement - 560.24).abs() < 0.01);
        // Two windows' starts are t_ack + 2 t_i apart (3.5).
        assert!((times.wait - (times.acknowledgement + 2.0 * times.segment - 48.0 * times.segment)).abs() < 1e-6);
    }

    #[test]
    fn where_the_window_is_never_exhausted_the_long_run_is_the_line() {
        assert_eq!(long_run(768, 65_000).unwrap(), None);
        assert!((line_rate(768) - 704.69).abs() < 0.01);
        assert!(long_run(768, 100).is_err());
    }
}
