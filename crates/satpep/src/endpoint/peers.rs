//! The endpoint's peers. A peer that is upgraded has two processes for a while, of two generations, and a session with
//! each: that of generation 1 has a twin of the peer's own entry.

use super::peer::Peer;
use crate::event::PeerId;
use crate::payload::Payload;
use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

/// Peers by the number of their names; twins by theirs.
pub(super) struct Peers<P: Payload> {
    own: Vec<Peer<P>>,
    twins: BTreeMap<usize, Box<Peer<P>>>,
}

impl<P: Payload> Peers<P> {
    pub(super) fn new() -> Self {
        Self { own: Vec::new(), twins: BTreeMap::new() }
    }

    /// Adds a peer; `None` if there are too many.
    pub(super) fn push(&mut self, peer: Peer<P>) -> Option<PeerId> {
        let id = u32::try_from(self.own.len()).ok().filter(|id| *id < PeerId::TWIN)?;
        self.own.push(peer);
        Some(PeerId(id))
    }

    /// Gives a peer its twin, unless it has one.
    pub(super) fn add_twin(&mut self, id: PeerId, twin: impl FnOnce() -> Peer<P>) {
        self.twins.entry(id.index()).or_insert_with(|| Box::new(twin()));
    }

    pub(super) fn get(&self, index: usize) -> Option<&Peer<P>> {
        self.own.get(index).or_else(|| self.twins.get(&index).map(|twin| &**twin))
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Peer<P>> {
        if index < self.own.len() {
            self.own.get_mut(index)
        } else {
            self.twins.get_mut(&index).map(|twin| &mut **twin)
        }
    }

    /// How many there are, twins apart.
    pub(super) fn len(&self) -> usize {
        self.own.len()
    }

    /// All of them, twins included.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Peer<P>> {
        self.own.iter().chain(self.twins.values().map(|twin| &**twin))
    }

    /// The names of all of them, twins included.
    pub(super) fn ids(&self) -> Vec<PeerId> {
        let twins = self.twins.keys().map(|index| PeerId(*index as u32));
        (0..self.own.len()).map(|index| PeerId(index as u32)).chain(twins).collect()
    }

    /// The entries of one peer, by generation.
    pub(super) fn both(&self, id: PeerId) -> impl Iterator<Item = (PeerId, &Peer<P>)> {
        [id.of_generation(0), id.of_generation(1)].into_iter().filter_map(|id| Some((id, self.get(id.index())?)))
    }
}

impl<P: Payload> Index<usize> for Peers<P> {
    type Output = Peer<P>;

    fn index(&self, index: usize) -> &Peer<P> {
        self.get(index).expect("names are given to entries that are never removed")
    }
}

impl<P: Payload> IndexMut<usize> for Peers<P> {
    fn index_mut(&mut self, index: usize) -> &mut Peer<P> {
        self.get_mut(index).expect("names are given to entries that are never removed")
    }
}
