//! Both satellite transports side by side, without a satellite between: what a gateway pair can carry, and at what price; and
//! beside them PEPsal, where there is one.

use crate::{Error, Setup, throughput};
use lab::flows::Plan;
use lab::{Direction, Ends, GatewayOptions, Pepsal, Topology, Transport, Workload, bulk};
use serde::Serialize;
use std::path::Path;
use units::Duration;

/// The transports, and whether they go in clear.
const TRANSPORTS: [(&str, Transport, bool); 3] =
    [("tcp, clear", Transport::Tcp, true), ("tcp, TLS", Transport::Tcp, false), ("satpep", Transport::Satpep, false)];

/// How long PEPsal relays: about as long as the others.
const PEPSAL_TIME: Duration = Duration::from_secs(4);

/// What is claimed.
pub const CLAIM: &str = "one flow down; the kernel's TCP: in clear >= 5 Gbit/s, at <= 1 s/GB for each gateway";

/// What one transport has carried.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub transport: &'static str,
    /// What it has carried.
    #[serde(flatten)]
    pub measured: throughput::Row,
}

/// Measures each transport, and the program `pepsal` if there is one.
///
/// # Errors
/// If the machine lacks something or a transfer fails.
pub fn run(setup: &Setup, pepsal: Option<&Path>) -> Result<Vec<Row>, Error> {
    let measure = |(transport, kind, clear)| {
        let options = GatewayOptions { transport: kind, clear, ..setup.gateways.clone() };
        Ok(Row { transport, measured: throughput::measure(setup, &options, 1)? })
    };
    let mut rows = TRANSPORTS.into_iter().map(measure).collect::<Result<Vec<_>, Error>>()?;
    if let Some(program) = pepsal {
        rows.push(Row { transport: "PEPsal, clear, up", measured: measure_pepsal(setup, program)? });
    }
    Ok(rows)
}

/// What PEPsal carries in the gateways' place, in clear. It passes no half-close, with which every transfer
/// of the other rows ends: here the client sends without an end.
pub(crate) fn measure_pepsal(setup: &Setup, program: &Path) -> Result<throughput::Row, Error> {
    let workload = Workload { direction: Direction::Up, ..setup.experiment()?.workload };
    let topology = Topology::new(1, None)?;
    let pepsal = Pepsal::start(program, &topology)?;
    let ends = Ends { client: &topology.terminals[0], server: &topology.hub };
    let plan = Plan { ends, workload: &workload, start: Duration::ZERO, windows: None };
    throughput::measure_proxies(setup.repeats, || pepsal.cpu_time(), || bulk::run(&[plan], PEPSAL_TIME, None))
}
