//! Numbers pure acknowledgements, for links that filter them or thin them out.

use crate::packet::Parcel;
use link::AckSerial;
use std::collections::BTreeMap;

/// The latest of each connection, by the agent and the port that it is for.
#[derive(Debug, Default)]
pub(crate) struct AckSerials(BTreeMap<(u32, u32), Latest>);

#[derive(Debug, Default)]
struct Latest {
    /// The next byte expected.
    acknowledged: u64,
    /// How many have reported more than all before them.
    count: u64,
}

impl AckSerials {
    /// The number of what is sent, if it is a pure acknowledgement.
    #[cold]
    pub(crate) fn next(&mut self, parcel: &Parcel) -> Option<AckSerial> {
        let acknowledged = parcel.body.acknowledgement()?;
        let latest = self.0.entry((parcel.agent, parcel.port)).or_default();
        if acknowledged > latest.acknowledged {
            *latest = Latest { acknowledged, count: latest.count + 1 };
        }
        Some(AckSerial::of(latest.count))
    }
}
