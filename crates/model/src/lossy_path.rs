//! What models of losses know of a path.

use crate::estimate::{Estimate, Invalid, rate_of, require_rtt};
use units::{Bytes, Duration, Probability, Rate};

/// A path whose losses come one by one, whatever the rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossyPath {
    /// Payload of a segment.
    pub mss: Bytes,
    /// Round-trip time, that of queues included.
    pub rtt: Duration,
    /// Probability that a segment is the first of a loss; those after it in its round are lost with it in PFTK's model.
    pub loss: Probability,
    /// Segments that one acknowledgement covers: `b`, 2 with delayed acknowledgements.
    pub ack_every: u32,
    /// The first retransmission timeout: `T0`.
    pub rto: Duration,
    /// The receiver's window in segments: `Wmax`; none for one that never limits.
    pub window: Option<f64>,
}

impl LossyPath {
    /// Checks what all models of losses need: a loss probability above 0 (without losses nothing limits them) and below 1.
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        Invalid::unless(
            self.loss.as_f64() > 0.0,
            "loss",
            self.loss,
            "above 0 (without losses this model has no bound)",
        )?;
        self.check_all_but_loss()
    }

    pub(crate) fn check_all_but_loss(&self) -> Result<(), Invalid> {
        require_rtt(self.rtt)?;
        Invalid::unless(self.loss.as_f64() < 1.0, "loss", self.loss, "from 0, below 1")?;
        Invalid::unless(self.mss > Bytes::ZERO, "mss", self.mss, "above 0B")?;
        Invalid::unless(self.ack_every > 0, "ack-every", self.ack_every, "1 or more")?;
        let window = self.window.unwrap_or(f64::INFINITY);
        Invalid::unless(window >= 1.0, "window", format!("{window} segments"), "1 segment or more")
    }

    /// `p`.
    pub(crate) fn p(&self) -> f64 {
        self.loss.as_f64()
    }

    /// `b`.
    pub(crate) fn b(&self) -> f64 {
        f64::from(self.ack_every)
    }

    /// Segments per second as a rate of payload.
    pub(crate) fn rate(&self, segments_per_second: f64) -> Rate {
        rate_of(segments_per_second * self.mss.bits() as f64)
    }

    /// `value`, doubted above `most` losses for `reason`.
    pub(crate) fn valid_below(&self, most: f64, value: Rate, reason: &str) -> Estimate<Rate> {
        Estimate::unless(value, self.p() > most, || format!("loss {} is above {most}: {reason}", self.loss))
    }
}

/// The path of the check values: 1460 bytes, 550 ms, T0 of one second.
#[cfg(test)]
pub(crate) fn geostationary(loss: f64, ack_every: u32) -> LossyPath {
    LossyPath {
        mss: Bytes::new(1460),
        rtt: Duration::from_millis(550),
        loss: Probability::new(loss).expect("a probability"),
        ack_every,
        rto: Duration::from_secs(1),
        window: None,
    }
}
