//! Pure acknowledgements that a link gives up to save capacity: those for which a newer one stands, or all but one of several
//! (RFC 3449, sections 5.2.1 and 5.3).

use crate::Packet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What becomes of pure acknowledgements that wait for a link: TCP segments that say nothing but how far the data have arrived.
/// Those that repeat a number, or that say more (SACK, marks, SYN, FIN), pass. Written `"filter"` or `{ thin = 4 }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Acks {
    /// They are packets like others.
    #[default]
    Keep,
    /// One that arrives takes the place of the one of its flow that waits (ACK filtering).
    Filter,
    /// The first of a flow passes, and each of this number after it; the others are dropped (ACK thinning).
    Thin(u32),
}

impl Acks {
    pub(crate) fn is_keep(&self) -> bool {
        *self == Acks::Keep
    }

    /// What decides it for the packets of one queue; `None` where there is nothing to decide.
    pub(crate) fn policy(self) -> Option<Box<AckPolicy>> {
        (!self.is_keep()).then(|| Box::new(AckPolicy { acks: self, flows: BTreeMap::new() }))
    }
}

/// Decides about the acknowledgements of one queue.
#[derive(Debug)]
pub(crate) struct AckPolicy {
    acks: Acks,
    /// By their hash. Only simulated links decide about acknowledgements, so that there are as many as the scenario has.
    flows: BTreeMap<u64, Flow>,
}

/// The latest pure acknowledgement of a flow.
#[derive(Debug, Default)]
struct Flow {
    number: Option<u32>,
    /// How many were dropped since one passed.
    dropped: u32,
}

/// What a packet is for its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It waits like any other.
    Waits,
    /// It waits, and a newer acknowledgement may take its place; or it takes the place of an older one.
    MayReplace,
    /// It is dropped.
    Dropped,
}

impl AckPolicy {
    /// A packet arrives.
    pub(crate) fn on_arrival(&mut self, packet: &impl Packet) -> Verdict {
        let Some(number) = packet.acknowledgement() else { return Verdict::Waits };
        let flow = self.flows.entry(packet.flow_hash()).or_default();
        let before = flow.number.replace(number);
        match self.acks {
            // What repeats a number tells of a loss, or of the window.
            _ if before == Some(number) => Verdict::Waits,
            Acks::Keep => Verdict::Waits,
            Acks::Filter => Verdict::MayReplace,
            Acks::Thin(_) if before.is_none() => Verdict::Waits,
            Acks::Thin(every) => {
                flow.dropped = (flow.dropped + 1) % every.max(1);
                if flow.dropped == 0 { Verdict::Waits } else { Verdict::Dropped }
            }
        }
    }
}
