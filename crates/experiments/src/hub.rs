//! A hub whose terminals share the forward link.

use crate::setup::median;
use crate::{Error, Setup};
use lab::{Experiment, Flow, Path, measure};
use serde::Serialize;
use units::{Bytes, Duration, Rate};

const TERMINALS: usize = 10;
const STREAMS: usize = 2;

/// What is claimed.
pub const CLAIM: &str =
    "terminals share a forward link (6 Mbit/s, 550 ms, 1e-3) evenly, Jain >= 0.98, and fill it, >= 95 %";

/// Medians over the repeats.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Terminals that share the link.
    pub terminals: usize,
    /// Streams of each.
    pub streams_each: usize,
    /// Bytes of each stream.
    pub bytes_each: u64,
    /// The shortest time that the link allows, in seconds.
    pub limit_s: f64,
    /// The time of all streams, in seconds.
    pub time_s: f64,
    /// The limit over the time.
    pub limit_share: f64,
    /// Jain's index over the terminals' goodputs.
    pub jain_terminals: f64,
}

/// Downloads through gateways to every terminal at once.
///
/// # Errors
/// If the machine lacks something or a transfer fails or does not verify.
pub fn run(setup: &Setup) -> Result<Row, Error> {
    let experiment = Experiment { terminals: TERMINALS, flows: STREAMS, ..setup.experiment()? };
    let (mut times, mut indices) = (Vec::new(), Vec::new());
    for seed in setup.seeds(setup.repeats) {
        let mut experiment = experiment.clone();
        experiment.link.seed = seed;
        let outcome = experiment.run(&Path::Bentpipe)?;
        if !outcome.verified() {
            return Err(Error::failed("hub: the data did not verify"));
        }
        let goodputs: Vec<_> = outcome.flows.chunks(STREAMS).map(goodput).collect();
        times.push(outcome.time().as_secs_f64());
        indices.push(measure::jain_index(&goodputs));
        tracing::info!(seed, time_s = outcome.time().as_secs_f64(), "measured");
    }
    let (time_s, limit_s) = (median(&times), experiment.limit().as_secs_f64());
    Ok(Row {
        terminals: TERMINALS,
        streams_each: STREAMS,
        bytes_each: experiment.workload.size.as_u64(),
        limit_s,
        time_s,
        limit_share: limit_s / time_s,
        jain_terminals: median(&indices),
    })
}

/// Goodput of one terminal: all its bytes, from its first connect() to its last byte.
fn goodput(flows: &[Flow]) -> f64 {
    let start = flows.iter().map(|flow| flow.start).min();
    let end = flows.iter().map(|flow| flow.end).max();
    let time = end.zip(start).map_or(Duration::ZERO, |(end, start)| end.duration_since(start).into());
    let bytes = flows.iter().fold(Bytes::ZERO, |sum, flow| sum + flow.bytes);
    Rate::from_transfer(bytes, time).as_bps() as f64
}
