//! What is said of the estimate outside the transport.

use units::Rate;

/// What a gateway believes of its link's capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The capacity, counted in IP bytes.
    pub rate: Rate,
    /// What it rests on.
    pub why: EstimateSource,
    /// How far it is trusted, from 0 to 1.
    pub confidence: f64,
    /// What the estimator is doing.
    pub state: EstimatorState,
    /// The link drops what is beyond the estimate without queueing it, as policers do: more is tried seldom.
    pub is_policed: bool,
}

/// What an estimate of the capacity rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EstimateSource {
    /// The configuration, or nothing yet.
    Prior,
    /// A report of the modem or of a program.
    Reported,
    /// The spacing of packets that were sent faster than the link.
    Trains,
    /// A queue that grew or stayed.
    Queue,
    /// A rate that was tried and did no harm.
    Trial,
    /// Losses that were fewer at a lower rate: a policer.
    Losses,
    /// It is configured to be so by force.
    Fixed,
}

/// What the estimator is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EstimatorState {
    /// Nothing has been measured: the prior is all there is.
    Guess,
    /// It follows the link.
    Track,
    /// It sends faster for a moment, to see whether the link carries that.
    Trial,
    /// It sends slower for a moment, to see whether losses become fewer.
    Experiment,
    /// No report has come for longer than usual: a quarter of the rate is sent.
    Quiet,
    /// No report comes: a trickle is sent, which keeps asking; or there is no session in which one could.
    Silent,
}
