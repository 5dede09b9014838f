//! A gateway pair without a satellite between: what it can carry, and at what price.

use crate::setup::median;
use crate::{Error, Setup};
use lab::transfer::Checksum;
use lab::{Ends, Flow, GatewayOptions, Gateways, Topology, Workload, flows};
use serde::Serialize;
use std::time::Instant;
use units::{Bytes, Duration, Rate};

/// A little more than two processors carry beside the traffic's ends: configured with much more, the sender would overflow the
/// receiver's socket and measure its own losses.
pub(crate) const RATE: Rate = Rate::from_bps(3_200_000_000);
pub(crate) const RTT: Duration = Duration::from_millis(4);
const CONNECTIONS: [usize; 2] = [1, 16];
const TOTAL: Bytes = Bytes::new(2_000_000_000);

/// What is claimed of gateways that encrypt.
pub const CLAIM: &str = "encrypted, >= 2.5 Gbit/s at <= 2.5 s/GB";

/// What a gateway pair has carried.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Connections side by side.
    pub connections: usize,
    /// Bytes of payload in each repeat.
    pub bytes: u64,
    /// Payload over time.
    pub throughput_bps: u64,
    /// User and system time of both gateways for each 10^9 bytes.
    pub cpu_s_per_gb: f64,
}

/// Measures gateways of the setup with one and with several connections.
///
/// # Errors
/// If the machine lacks something or a transfer fails.
pub fn run(setup: &Setup) -> Result<Vec<Row>, Error> {
    CONNECTIONS.into_iter().map(|connections| measure(setup, &setup.gateways, connections)).collect()
}

/// What gateways with these options carry over so many connections.
pub(crate) fn measure(setup: &Setup, options: &GatewayOptions, connections: usize) -> Result<Row, Error> {
    let topology = Topology::new(1, None)?;
    let gateways = Gateways::start(&setup.program, &topology, [RATE; 2], RTT, options)?;
    let size = Bytes::new(TOTAL.as_u64() / connections as u64);
    // Hashing the data would take from the gateways the processors that they are measured on.
    let workload = Workload { size, checksum: Checksum::LengthOnly, ..setup.experiment()?.workload };
    let ends = vec![Ends { client: &topology.terminals[0], server: &topology.hub }; connections];
    measure_proxies(setup.repeats, || gateways.cpu_time(), || flows::run(&ends, &workload))
}

/// What proxies, which have used so much processor time, carry when these flows run through them so often.
pub(crate) fn measure_proxies(
    repeats: u16,
    cpu_time: impl Fn() -> Result<Duration, Error>,
    flows: impl Fn() -> Result<Vec<Flow>, Error>,
) -> Result<Row, Error> {
    let (mut rates, mut costs, mut carried) = (Vec::new(), Vec::new(), (0, Bytes::ZERO));
    for _ in 0..repeats {
        let (start, cpu) = (Instant::now(), cpu_time()?);
        let flows = flows()?;
        if flows.iter().any(|flow| flow.is_cut_off || flow.bytes == Bytes::ZERO) {
            return Err(Error::failed(
                "a connection got nothing through the proxies, or not all, in the time that it had",
            ));
        }
        if flows.iter().any(|flow| !flow.verified) {
            return Err(Error::failed("what came through the proxies is not what was sent"));
        }
        let cpu = cpu_time()? - cpu;
        let first = flows.iter().map(|flow| flow.start).min().unwrap_or(start);
        let last = flows.iter().map(|flow| flow.end).max().unwrap_or(start);
        let bytes = flows.iter().fold(Bytes::ZERO, |sum, flow| sum + flow.bytes);
        carried = (flows.len(), bytes);
        rates.push(Rate::from_transfer(bytes, last.duration_since(first).into()).as_bps() as f64);
        costs.push(cpu.as_secs_f64() / (bytes.as_u64() as f64 / 1e9));
        tracing::info!(
            connections = flows.len(),
            gbps = rates.last().map(|rate| rate / 1e9),
            cpu_s_per_gb = costs.last(),
            "measured"
        );
    }
    let (connections, bytes) = carried;
    Ok(Row { connections, bytes: bytes.as_u64(), throughput_bps: median(&rates) as u64, cpu_s_per_gb: median(&costs) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::transfer::Trace;

    #[test]
    fn proxies_that_carry_nothing_or_something_else_are_no_row() {
        let start = Instant::now();
        let measured = |bytes, is_cut_off, verified| {
            let flow = Flow {
                start,
                end: start + std::time::Duration::from_secs(4),
                bytes: Bytes::new(bytes),
                verified,
                is_cut_off,
                trace: Trace::new(start),
                retransmitted_segments: 0,
                windows: Vec::new(),
            };
            measure_proxies(1, || Ok(Duration::ZERO), || Ok(vec![flow.clone()]))
        };
        assert_eq!(measured(1_000, false, true).expect("a row").throughput_bps, 2_000);
        assert!(measured(0, true, true).is_err() && measured(0, false, true).is_err());
        assert!(measured(1_001, false, false).is_err());
    }
}
