//! A client that has stopped reading beside others that have not.

use crate::setup::median;
use crate::{Error, Setup};
use lab::transfer::{Beginning, Content, SocketOptions, TransferError, accept, connect, listen, request};
use lab::{Experiment, Flow, Gateways, Path, Stage, Workload};
use serde::Serialize;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Instant;
use units::Bytes;

const STREAMS: usize = 100;
/// Where the stalled reader's server listens; the ports of the others begin higher.
const PORT: u16 = 6999;
/// A write that waits this long waits for the reader.
const STANDSTILL: std::time::Duration = std::time::Duration::from_secs(3);
/// More than any buffers on the way hold.
const MORE_THAN_FITS: Bytes = Bytes::new(1 << 32);

/// What is claimed.
pub const CLAIM: &str = "one reader that has stopped reading costs 100 others (6 Mbit/s, 550 ms, 1e-3) less than 5 %";

/// Medians over the repeats.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Streams beside the stalled one.
    pub streams: usize,
    /// Bytes of each.
    pub bytes_each: u64,
    /// Seconds that all streams take if no reader is stalled.
    pub alone_s: f64,
    /// Seconds that they take beside the stalled reader.
    pub beside_s: f64,
    /// How much longer that is, in percent.
    pub cost_percent: f64,
    /// Bytes that both gateways hold for the stalled reader, in its stream's buffers.
    pub held_bytes: u64,
}

/// Measures the streams alone, then beside a stalled reader.
///
/// # Errors
/// If the machine lacks something or a transfer fails or does not verify.
pub fn run(setup: &Setup) -> Result<Row, Error> {
    let base = setup.experiment()?;
    let workload = Workload { size: Bytes::new(100_000), ..base.workload.clone() };
    let experiment = Experiment { flows: STREAMS, workload, ..base };
    let (mut alone, mut beside, mut held_bytes) = (Vec::new(), Vec::new(), Vec::new());
    for seed in setup.seeds(setup.repeats) {
        let mut experiment = experiment.clone();
        experiment.link.seed = seed;
        let stage = experiment.start(&Path::Bentpipe)?;
        alone.push(time(&experiment.run_flows(&stage, &Path::Bentpipe)?)?);
        drop(stage);
        let stage = experiment.start(&Path::Bentpipe)?;
        let _stalled = Stalled::new(&stage, &experiment)?;
        let held = held_by_gateways(&stage)?;
        beside.push(time(&experiment.run_flows(&stage, &Path::Bentpipe)?)?);
        held_bytes.push(held);
        tracing::info!(seed, alone_s = alone.last(), beside_s = beside.last(), "measured");
    }
    let (alone_s, beside_s) = (median(&alone), median(&beside));
    Ok(Row {
        streams: STREAMS,
        bytes_each: experiment.workload.size.as_u64(),
        alone_s,
        beside_s,
        cost_percent: (beside_s / alone_s - 1.0) * 100.0,
        held_bytes: median(&held_bytes) as u64,
    })
}

/// From the first connect() to the last byte of all flows, in seconds.
fn time(flows: &[Flow]) -> Result<f64, Error> {
    if flows.iter().any(|flow| !flow.verified) {
        return Err(Error::failed("stalled: the data did not verify"));
    }
    Ok(lab::flows::time(flows).as_secs_f64())
}

/// Bytes in the buffers of all streams, in all gateways.
fn held_by_gateways(stage: &Stage) -> Result<f64, Error> {
    let status = stage.gateways.as_ref().map_or(Ok(Vec::new()), Gateways::status)?;
    let peers = status.iter().filter_map(|gateway| gateway["peers"].as_array()).flatten();
    let of = |peer: &serde_json::Value| {
        ["receive_buffered_bytes", "send_buffered_bytes"].iter().filter_map(|key| peer[key].as_f64()).sum::<f64>()
    };
    Ok(peers.map(of).sum())
}

/// A connection whose client asked and does not read, held open while this lives.
struct Stalled {
    _ends: (TcpStream, TcpStream),
}

impl Stalled {
    /// Connects, asks, and waits until the server can write no more.
    fn new(stage: &Stage, experiment: &Experiment) -> Result<Self, Error> {
        let (client, server) = (&stage.topology.terminals[0].host, &stage.topology.hub);
        let options = SocketOptions::default();
        let address = SocketAddr::new(server.host_address(experiment.workload.family), PORT);
        let listener: TcpListener = server.host.run(|| listen(address, &options))??;
        // Without a buffer of fixed size the client's kernel would go on reading for it, tens of megabytes.
        let reader_options = SocketOptions { receive_buffer: Some(Bytes::new(64 * 1024)), ..options.clone() };
        let (mut reader, _) = client.run(|| connect(address, &reader_options))??;
        request(&mut reader, &Beginning::none())?;
        let (mut writer, ..) = accept(&listener, &options)?;
        writer.set_write_timeout(Some(STANDSTILL)).map_err(Error::failed)?;
        write_until_stuck(&mut writer, &mut Content::random(MORE_THAN_FITS, 1))?;
        Ok(Self { _ends: (reader, writer) })
    }
}

fn write_until_stuck(writer: &mut TcpStream, content: &mut Content) -> Result<(), TransferError> {
    let mut chunk = [0; 16 * 1024];
    let mut written = Bytes::ZERO;
    let deadline = Instant::now() + std::time::Duration::from_secs(300);
    while written < MORE_THAN_FITS && Instant::now() < deadline {
        let read = content.read(&mut chunk)?;
        match writer.write(&chunk[..read]) {
            Ok(wrote) => written += Bytes::from(wrote),
            // SO_SNDTIMEO ran out: every buffer on the way is full.
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
            Err(source) => return Err(TransferError::Broken { moment: "before it stalled", bytes: written, source }),
        }
    }
    Err(TransferError::Protocol("never stalls: nothing bounds what is buffered for a reader that does not read"))
}
