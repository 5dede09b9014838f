//! One byte there and back on a new connection over an idle link.

use crate::setup::median;
use crate::{Error, Setup};
use lab::transfer::{SocketOptions, TransferError, accept, connect, listen};
use lab::{Experiment, LinkParameters, Path, Stage};
use serde::Serialize;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::Instant;
use units::{Bytes, Duration, Probability};

const PORT: u16 = 7;

/// What is claimed.
pub const CLAIM: &str = "a byte and its echo on a new connection take one round-trip time and at most 20 ms";

/// The echo on one path.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub path: &'static str,
    /// The link's round-trip time.
    pub rtt_ms: f64,
    /// From connect() to the echoed byte.
    pub time_ms: f64,
    /// The excess of that over the round-trip time.
    pub above_rtt_ms: f64,
}

/// Measures through gateways and from end to end.
///
/// # Errors
/// If the machine lacks something or a connection fails.
pub fn run(setup: &Setup) -> Result<Vec<Row>, Error> {
    let base = setup.experiment()?;
    let experiment = Experiment { link: LinkParameters { loss: Probability::ZERO, ..base.link }, ..base };
    let rtt_ms = experiment.link.rtt.as_millis_f64();
    let mut rows = Vec::new();
    for (name, path) in [("bentpipe", Path::Bentpipe), ("end to end", Path::EndToEnd("cubic".into()))] {
        let stage = experiment.start(&path)?;
        let times = (0..setup.repeats).map(|_| echo(&stage, &experiment)).collect::<Result<Vec<_>, _>>()?;
        let time_ms = median(&times);
        rows.push(Row { path: name, rtt_ms, time_ms, above_rtt_ms: time_ms - rtt_ms });
    }
    Ok(rows)
}

/// Milliseconds from connect() to the echo.
fn echo(stage: &Stage, experiment: &Experiment) -> Result<f64, Error> {
    let (client, server) = (&stage.topology.terminals[0].host, &stage.topology.hub);
    let options = SocketOptions { timeout: Duration::from_secs(20), ..SocketOptions::default() };
    let address = SocketAddr::new(server.host_address(experiment.workload.family), PORT);
    let listener: TcpListener = server.host.run(|| listen(address, &options))??;
    let broken = |source| TransferError::Broken { moment: "during the echo", bytes: Bytes::ZERO, source };
    let time = std::thread::scope(|scope| -> Result<Duration, Error> {
        let server = scope.spawn(|| -> Result<(), TransferError> {
            let (mut stream, ..) = accept(&listener, &options)?;
            let mut byte = [0];
            stream.read_exact(&mut byte).map_err(broken)?;
            stream.write_all(&byte).map_err(broken)
        });
        let (mut stream, start) = client.run(|| connect(address, &options))??;
        let mut byte = [42];
        stream.write_all(&byte).map_err(broken)?;
        stream.read_exact(&mut byte).map_err(broken)?;
        let time = Instant::now().duration_since(start).into();
        server.join().map_err(|_| Error::failed("the echo server panicked"))??;
        Ok(time)
    })?;
    Ok(time.as_millis_f64())
}
