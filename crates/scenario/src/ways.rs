//! Ways through a network, found once for all flows between the same nodes: to find one takes a look at every link.

use crate::{Network, NodeId};
use std::collections::BTreeMap;

/// The ways found so far, all through one network.
#[derive(Debug, Default)]
pub struct Ways {
    found: BTreeMap<(NodeId, NodeId), Option<Vec<NodeId>>>,
}

impl Ways {
    /// The nodes after `from` on the way to `to`, as in [`Network::path`]; `None` if there is none.
    pub fn find(&mut self, network: &Network, from: NodeId, to: NodeId) -> Option<&[NodeId]> {
        let way = self.found.entry((from, to)).or_insert_with(|| {
            let directions = network.path(from, to)?;
            Some(directions.into_iter().map(|direction| network.directions()[direction.index()].to).collect())
        });
        way.as_deref()
    }
}
