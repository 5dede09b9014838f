//! The results of cases.

use crate::fault::KINDS;
use serde::Serialize;
use std::collections::BTreeMap;

/// The result of one case, or of several together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The seed of the first case; that of the next is one more, and so on.
    pub seed: u64,
    /// Cases: a hub with its terminals, their links, faults and transfers.
    pub cases: u64,
    /// Transfers that were begun.
    pub transfers: u64,
    /// Those of them whose every byte arrived, with an end in order both ways.
    pub completed: u64,
    /// Those that ended early for a reason: a host or a server gave up, a gateway died.
    pub ended_early: u64,
    /// Those that ended early for none. Each is a fault of ours.
    pub broken: u64,
    /// Bytes that were delivered.
    pub delivered_bytes: u64,
    /// Bytes that differed from what was sent, or were missing before an end in order.
    pub wrong_bytes: u64,
    /// Transfers that had not ended long after the last fault.
    pub hangs: u64,
    /// What was left when all was over.
    pub leaks: Leaks,
    /// Faults, by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// What went wrong.
    pub failures: Vec<Failure>,
}

/// What was left when all transfers were over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Leaks {
    /// Streams of the transport.
    pub streams: u64,
    /// Bytes held in its buffers.
    pub buffered_bytes: u64,
    /// Connections that gateways relay.
    pub connections: u64,
    /// Cases in which idle gateways went on to send more than keeps a session alive.
    pub restless: u64,
    /// Descriptors that real gateways had open beyond those of their start.
    pub descriptors: u64,
    /// Bytes of memory that real gateways kept beyond what they may.
    pub memory_bytes: u64,
    /// Tables of the firewall and rules of routing that real gateways left behind.
    pub rules: u64,
    /// Real gateways that did not exit on SIGTERM.
    pub processes: u64,
}

impl Leaks {
    fn add(&mut self, other: Leaks) {
        self.streams += other.streams;
        self.buffered_bytes += other.buffered_bytes;
        self.connections += other.connections;
        self.restless += other.restless;
        self.descriptors += other.descriptors;
        self.memory_bytes += other.memory_bytes;
        self.rules += other.rules;
        self.processes += other.processes;
    }
}

impl std::fmt::Display for Leaks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Leaks { streams, buffered_bytes, connections, restless, .. } = self;
        let Leaks { descriptors, memory_bytes, rules, processes, .. } = self;
        write!(
            f,
            "{streams} streams, {buffered_bytes} B in buffers, {connections} connections, {restless} restless cases, \
             {descriptors} descriptors, {memory_bytes} B of memory, {rules} rules, {processes} processes"
        )
    }
}

/// Something that went wrong in a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The case's seed.
    pub seed: u64,
    /// What happened.
    pub says: String,
}

/// Failures that are kept of all together; their number is not bounded by anything else.
const MAX_FAILURES: usize = 100;

impl Report {
    /// An empty one, of cases from `seed` on.
    pub fn new(seed: u64) -> Self {
        Self { seed, faults: KINDS.iter().map(|kind| (*kind, 0)).collect(), ..Self::default() }
    }

    /// Whether no byte was wrong and nothing broke, hung or leaked.
    pub fn is_sound(&self) -> bool {
        self.failures.is_empty()
            && (self.wrong_bytes, self.hangs, self.broken) == (0, 0, 0)
            && self.leaks == Leaks::default()
    }

    /// Adds the results of other cases.
    pub fn add(&mut self, other: Report) {
        self.cases += other.cases;
        self.transfers += other.transfers;
        self.completed += other.completed;
        self.ended_early += other.ended_early;
        self.broken += other.broken;
        self.delivered_bytes += other.delivered_bytes;
        self.wrong_bytes += other.wrong_bytes;
        self.hangs += other.hangs;
        self.leaks.add(other.leaks);
        for (kind, count) in other.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        self.failures.extend(other.failures);
        self.failures.sort_by_key(|failure| failure.seed);
        self.failures.truncate(MAX_FAILURES);
    }

    /// Notes something that went wrong.
    pub fn fail(&mut self, says: impl Into<String>) {
        if self.failures.len() < MAX_FAILURES {
            self.failures.push(Failure { seed: self.seed, says: says.into() });
        }
    }
}
