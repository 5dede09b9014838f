//! Measures the kernel's TCP over the emulated link, for `crates/sim/tests/data/kernel`: reads the cases from standard
//! input (CSV) and writes them with times to standard output.
#![allow(clippy::disallowed_methods, reason = "measures the kernel in real time")]

use lab::transfer::Checksum;
use lab::{Direction, Ends, Error, Family, Flow, Satellite, Topology, Workload, flows};
use link::{LinkConfig, LossModel, QueueLimit};
use std::io::BufRead;
use units::{Bytes, Duration, Rate};

/// A receive buffer that never limits the sender: what is compared is the sender.
const RECEIVE_BUFFER: (&str, &str) = ("ipv4/tcp_rmem", "4096 67108864 134217728");
/// Runs of each case: three where a late wake-up of this machine could be seen in the time.
fn runs(case: &Case) -> usize {
    if case.rtt < Duration::from_millis(50) { 3 } else { 1 }
}

fn main() -> Result<(), Error> {
    kernel::namespace::enter_private()?;
    println!("control,rtt,rate,size,queue_packets,drops,time_s,fastest_s,slowest_s,retransmissions");
    for line in std::io::stdin().lock().lines().skip(1) {
        let line = line.map_err(Error::failed)?;
        let case = Case::parse(&line).unwrap_or_else(|| panic!("a case, not `{line}`"));
        let mut runs = (0..runs(&case)).map(|_| case.measure()).collect::<Result<Vec<_>, _>>()?;
        runs.sort_by_key(Flow::time);
        let seconds = |flow: &Flow| flow.time().as_secs_f64();
        let median = &runs[runs.len() / 2];
        println!(
            "{line},{:.4},{:.4},{:.4},{}",
            seconds(median),
            seconds(&runs[0]),
            seconds(&runs[runs.len() - 1]),
            median.retransmitted_segments
        );
    }
    Ok(())
}

struct Case {
    control: String,
    rtt: Duration,
    rate: Rate,
    size: Bytes,
    queue: u64,
    drops: Vec<u64>,
}

impl Case {
    fn parse(line: &str) -> Option<Self> {
        let [control, rtt, rate, size, queue, drops] = line.split(',').collect::<Vec<_>>().try_into().ok()?;
        Some(Self {
            control: control.to_owned(),
            rtt: rtt.parse().ok()?,
            rate: rate.parse().ok()?,
            size: size.parse().ok()?,
            queue: queue.parse().ok()?,
            drops: drops.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?,
        })
    }

    fn measure(&self) -> Result<Flow, Error> {
        let queue = QueueLimit::Packets(self.queue);
        let forward = LinkConfig { queue, ..LinkConfig::new(self.rate, self.rtt / 2) };
        let loss = LossModel::DropList(self.drops.clone());
        let return_link = LinkConfig { loss, stream: 1, ..forward.clone() };
        let topology = Topology::without_ipv6(1, Some(Satellite { forward, return_link }))?;
        topology.set_host_sysctls(&[RECEIVE_BUFFER])?;
        let workload = Workload {
            direction: Direction::Up,
            size: self.size,
            checksum: Checksum::LengthOnly,
            family: Family::V4,
            congestion_control: Some(self.control.clone()),
            send_buffer: None,
            receive_buffer: None,
            timeout: Duration::from_secs(60),
            seed: 1,
        };
        let ends = Ends { client: &topology.terminals[0], server: &topology.hub };
        let flow = flows::run(&[ends], &workload)?.remove(0);
        topology.stop()?;
        Ok(flow)
    }
}
