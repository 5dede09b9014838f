//! The study's transfers, simulated from `scenarios/papers/kruse/ftp.toml`.

use crate::{Context, Error, Variants};
use replicas::Replica;
use results::Run;

/// The scenario of all transfers.
pub(super) const FILE: &str = "scenarios/papers/kruse/ftp.toml";
const TEXT: &str = include_str!("../../../../scenarios/papers/kruse/ftp.toml");

/// A transfer to make: a variant of the scenario, and what is different.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    variant: String,
    settings: Vec<String>,
}

impl Plan {
    /// As the variant has it.
    pub(super) fn new(variant: impl Into<String>) -> Self {
        Self { variant: variant.into(), settings: Vec::new() }
    }

    /// With a channel of so many kbit/s.
    pub(super) fn at(self, kbits: u64) -> Self {
        self.with(format!("link.line.rate={kbits}kbit/s"))
    }

    /// With a file of so many bytes.
    pub(super) fn of(self, bytes: u64) -> Self {
        self.with(format!("flow.file.bulk.size={bytes}B"))
    }

    /// With a window of so many bytes.
    pub(super) fn window(self, bytes: u64) -> Self {
        self.with(format!("tcp.sunos.receive_buffer={bytes}B"))
    }

    /// By the kernel, which grows its window, delays acknowledgements and scales windows as it does.
    pub(super) fn of_kernel(self) -> Self {
        let own = ["growth_counts_acks=false", "delayed_ack.quick=0", "window_scaling=true"];
        own.into_iter().fold(self, |plan, setting| plan.with(format!("tcp.sunos.{setting}")))
    }

    fn with(mut self, setting: String) -> Self {
        self.settings.push(setting);
        self
    }

    /// Its distinguishing name.
    pub(super) fn name(&self) -> String {
        format!("kruse {} {}", self.variant, self.settings.join(" "))
    }

    /// The scenario to run.
    ///
    /// # Errors
    /// If the file has no such variant, or a setting does not fit.
    pub(super) fn replica(&self) -> Result<Replica, Error> {
        let scenario = Variants::load(TEXT, FILE, &self.settings)?.get(&self.variant)?;
        Ok(Replica { scenario, seed: 1 })
    }
}

/// A transfer that was made. Times are in seconds since the sender's first segment; the handshake was before.
#[derive(Debug, Clone)]
pub(super) struct Transfer {
    bytes: f64,
    /// How long the handshake took.
    pub(super) handshake: f64,
    /// When the last bit entered the channel.
    pub(super) sender_done: f64,
    /// When the last byte arrived.
    pub(super) receiver_done: f64,
    /// When the sender knew that all had arrived.
    pub(super) all_acknowledged: f64,
    /// Arrivals: time, and bytes in all.
    pub(super) arrivals: Vec<(f64, f64)>,
}

/// Makes the transfers; nothing in them is random.
///
/// # Errors
/// If one cannot be made, or is not complete when its run ends.
pub(super) fn run(plans: &[Plan], context: &Context<'_>) -> Result<Vec<Transfer>, Error> {
    let replicas = plans.iter().map(Plan::replica).collect::<Result<Vec<_>, _>>()?;
    context.simulate(&replicas)?.iter().map(Transfer::new).collect()
}

impl Transfer {
    fn new(run: &Run) -> Result<Self, Error> {
        let name = run.label.file_stem();
        let unfinished = || Error::failed(format!("{FILE}: transfer {name} did not end as it should"));
        let flow = run.report.flows.first().filter(|flow| flow.complete).ok_or_else(unfinished)?;
        let connect = flow.start_s.ok_or_else(unfinished)?;
        let end = flow.end_s.ok_or_else(unfinished)?;
        let delay = run.network.directions().first().ok_or_else(unfinished)?.config.delay.as_secs_f64();
        // Samples are so dense that the first with data in flight is as good as the data themselves.
        let in_flight = |sample: &&sim::FlowSample| sample.in_flight > SYN;
        let start = run.flow_samples.iter().find(in_flight).ok_or_else(unfinished)?.at.as_secs_f64();
        let acknowledged = run.flow_samples.iter().rfind(in_flight).ok_or_else(unfinished)?.at.as_secs_f64();
        let mut arrivals = vec![(0.0, 0.0)];
        for sample in &run.flow_samples {
            let bytes = sample.delivered.as_u64() as f64;
            if arrivals.last().is_some_and(|(_, before)| bytes > *before) {
                arrivals.push((sample.at.as_secs_f64() - start, bytes));
            }
        }
        Ok(Self {
            bytes: flow.bytes as f64,
            handshake: start - connect,
            sender_done: end - delay - start,
            receiver_done: end - start,
            all_acknowledged: acknowledged - start,
            arrivals,
        })
    }

    /// The file's size over `time`, in kbit/s.
    pub(super) fn kbits(&self, time: f64) -> f64 {
        self.bytes * 8.0 / time / 1e3
    }

    /// The throughput that this study holds against the paper's: until all is acknowledged.
    pub(super) fn throughput(&self) -> f64 {
        self.kbits(self.all_acknowledged)
    }

    /// When the first bytes arrived.
    pub(super) fn first_arrival(&self) -> f64 {
        self.arrivals.get(1).map_or(f64::NAN, |arrival| arrival.0)
    }

    /// Bytes that have arrived at `time`.
    pub(super) fn arrived(&self, time: f64) -> f64 {
        let after = self.arrivals.partition_point(|(at, _)| *at <= time);
        after.checked_sub(1).map_or(0.0, |last| self.arrivals[last].1)
    }

    /// The bursts of arrivals between `from` and `to` that silences of at least `silence` seconds part: when each began
    /// and ended, and its bytes.
    pub(super) fn bursts(&self, from: f64, to: f64, silence: f64) -> Vec<Burst> {
        let mut bursts: Vec<Burst> = Vec::new();
        for pair in self.arrivals.windows(2) {
            let [(_, before), (at, bytes)] = [pair[0], pair[1]];
            if !(from..to).contains(&at) {
                continue;
            }
            match bursts.last_mut().filter(|burst| at - burst.end < silence) {
                Some(burst) => (burst.end, burst.bytes) = (at, burst.bytes + bytes - before),
                None => bursts.push(Burst { start: at, end: at, bytes: bytes - before }),
            }
        }
        bursts
    }
}

/// What arrives between two waiting intervals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Burst {
    pub(super) start: f64,
    pub(super) end: f64,
    pub(super) bytes: f64,
}

/// What a SYN takes in the space of sequence numbers.
const SYN: units::Bytes = units::Bytes::new(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(arrivals: &[(f64, f64)]) -> Transfer {
        let arrivals = arrivals.to_vec();
        Transfer { bytes: 9.0, handshake: 0.5, sender_done: 1.0, receiver_done: 2.0, all_acknowledged: 3.0, arrivals }
    }

    #[test]
    fn silences_part_bursts() {
        let transfer = transfer(&[(0.0, 0.0), (1.0, 1.0), (2.0, 2.0), (2.1, 4.0), (3.0, 9.0)]);
        let bursts = transfer.bursts(1.5, 10.0, 0.5);
        assert_eq!(bursts, [Burst { start: 2.0, end: 2.1, bytes: 3.0 }, Burst { start: 3.0, end: 3.0, bytes: 5.0 }]);
        assert_eq!([0.5, 1.0, 2.05, 99.0].map(|at| transfer.arrived(at)), [0.0, 1.0, 2.0, 9.0]);
    }

    #[test]
    fn every_plan_fits_the_file() {
        for variant in ["45kB", "100kB", "2MB", "bypass", "trace", "trace-doubling", "100kB-doubling"] {
            Plan::new(variant).at(384).of(1000).window(65_535).replica().unwrap();
        }
        assert!(Plan::new("none").replica().is_err());
    }
}
