//! Pure acknowledgements that a link gives up to save capacity: those for which a newer one stands, or all but one of several
//! (RFC 3449, sections 5.2.1 and 5.3).

use crate::Packet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::num::NonZeroU8;

/// What becomes of pure acknowledgements that wait for a link: TCP segments that say nothing but how far the data have arrived.
/// Those that repeat a number or were overtaken, or that say more (SACK, marks, SYN, FIN), pass. Written `"filter"` or `{ thin = 4 }`.
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

/// Where a pure acknowledgement stands among those of its flow. Serial numbers count modulo 255 (as those of RFC 1982 modulo a power
/// of two), so that they order acknowledgements of which fewer than 128 were sent in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckSerial(NonZeroU8);

impl AckSerial {
    /// That of an acknowledgement which reports more bytes than all before it, after `count` others that did. One that repeats a number has
    /// the serial of the latest.
    pub fn of(count: u64) -> Self {
        Self(NonZeroU8::MIN.saturating_add((count % 255) as u8))
    }

    /// Whether it reports more than `other`.
    fn is_after(self, other: Self) -> bool {
        let ahead = (u16::from(self.0.get()) + 255 - u16::from(other.0.get())) % 255;
        (1..128).contains(&ahead)
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
    latest: Option<AckSerial>,
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
        let Some(serial) = packet.acknowledgement() else { return Verdict::Waits };
        let flow = self.flows.entry(packet.flow_hash()).or_default();
        if flow.latest.is_some_and(|latest| !serial.is_after(latest)) {
            // What repeats a number tells of a loss, or of the window; what was overtaken stands for nothing newer.
            return Verdict::Waits;
        }
        let is_first = flow.latest.replace(serial).is_none();
        match self.acks {
            Acks::Keep => Verdict::Waits,
            Acks::Filter => Verdict::MayReplace,
            Acks::Thin(_) if is_first => Verdict::Waits,
            Acks::Thin(every) => {
                flow.dropped = (flow.dropped + 1) % every.max(1);
                if flow.dropped == 0 { Verdict::Waits } else { Verdict::Dropped }
            }
        }
    }
}
