//! A hub whose terminals share the forward link.

use super::{Args, Findings, json, median, table};
use crate::output::Failure;
use lab::{Experiment, Flow, Path, measure};
use serde::Serialize;
use units::{Bytes, Duration, Rate};

const TERMINALS: usize = 10;
const STREAMS: usize = 2;

#[derive(Serialize)]
struct Measured {
    terminals: usize,
    streams_each: usize,
    bytes_each: u64,
    limit_s: f64,
    time_s: f64,
    limit_share: f64,
    /// Jain's index over the terminals' goodputs.
    jain_terminals: f64,
}

pub fn run(args: &Args) -> Result<Findings, Failure> {
    let experiment = Experiment { terminals: TERMINALS, flows: STREAMS, ..args.experiment()? };
    let (mut times, mut indices) = (Vec::new(), Vec::new());
    for seed in args.seeds() {
        let mut experiment = experiment.clone();
        experiment.link.seed = seed;
        let outcome = experiment.run(&Path::Bentpipe)?;
        if !outcome.verified() {
            return Err(Failure::failed("hub: the data did not verify"));
        }
        let goodputs: Vec<_> = outcome.flows.chunks(STREAMS).map(goodput).collect();
        times.push(outcome.time().as_secs_f64());
        indices.push(measure::jain_index(&goodputs));
        tracing::info!(seed, time_s = outcome.time().as_secs_f64(), "measured");
    }
    let (time_s, limit_s) = (median(&times), experiment.limit().as_secs_f64());
    let measured = Measured {
        terminals: TERMINALS,
        streams_each: STREAMS,
        bytes_each: experiment.workload.size.as_u64(),
        limit_s,
        time_s,
        limit_share: limit_s / time_s,
        jain_terminals: median(&indices),
    };
    let mut table = table(&["terminals", "streams each", "limit", "time", "of the limit", "Jain over terminals"]);
    table.add_row([
        measured.terminals.to_string(),
        measured.streams_each.to_string(),
        format!("{limit_s:.2} s"),
        format!("{time_s:.2} s"),
        format!("{:.1} %", measured.limit_share * 100.0),
        format!("{:.4}", measured.jain_terminals),
    ]);
    let claim = "terminals share a forward link (6 Mbit/s, 550 ms, 1e-3) evenly, Jain >= 0.98, and fill it, >= 95 %";
    Ok(Findings { claim, table, rows: json(&[measured])? })
}

/// Goodput of one terminal: all its bytes, from its first connect() to its last byte.
fn goodput(flows: &[Flow]) -> f64 {
    let start = flows.iter().map(|flow| flow.start).min();
    let end = flows.iter().map(|flow| flow.end).max();
    let time = end.zip(start).map_or(Duration::ZERO, |(end, start)| end.duration_since(start).into());
    let bytes = flows.iter().fold(Bytes::ZERO, |sum, flow| sum + flow.bytes);
    Rate::from_transfer(bytes, time).as_bps() as f64
}
