//! Memory for the data of streams, shared out among all sessions of an endpoint.
//!
//! Half of it is reserved for the peers in equal parts, so that each can always work; the other half goes to sessions that
//! need more. One of them may hold as much of it as is left free (the dynamic threshold of Choudhury and Hahne, IEEE/ACM
//! Transactions on Networking 6, 1998): alone it gets half, two get a third each, and all that want much get the same.
//! What was granted is never retracted: a session that holds more than it may now is granted no more than it holds, and
//! less as it consumes, but for what it needs to go on beside readers that stall.

/// What sessions may hold in all, and what they do.
#[derive(Debug)]
pub(crate) struct Memory {
    limit: Option<u64>,
    /// What a session holds at most, unless it has use for more.
    most: u64,
    peers: u64,
    /// Reserved for each peer.
    reserve: u64,
    /// What sessions hold in all, and of that what goes beyond their reserves.
    held: u64,
    beyond: u64,
}

/// What one session holds.
#[derive(Debug, Default)]
pub(crate) struct Holding {
    held: u64,
    beyond: u64,
}

impl Memory {
    /// Less is no use to a session.
    pub(crate) const MIN: u64 = 64 * 1024;

    /// Memory of at most `limit` bytes for sessions that hold `most` at most.
    pub(crate) fn new(limit: Option<u64>, most: u64) -> Self {
        Self { limit, most, peers: 0, reserve: most, held: 0, beyond: 0 }
    }

    /// There is one more peer to share with.
    pub(crate) fn add_peer(&mut self) {
        self.peers += 1;
        self.divide();
    }

    /// A session may hold `most` bytes at most from now on.
    pub(crate) fn set_most(&mut self, most: u64) {
        self.most = most;
        self.divide();
    }

    fn divide(&mut self) {
        let part = self.limit.map_or(self.most, |limit| limit / (2 * self.peers.max(1)));
        self.reserve = part.max(Self::MIN).min(self.most);
    }

    /// What each session may hold whatever the others do.
    pub(crate) fn reserve(&self) -> u64 {
        self.reserve
    }

    /// What a session may hold now that has use for `wanted` bytes.
    pub(crate) fn allowance(&self, holding: &Holding, wanted: u64) -> u64 {
        let Some(limit) = self.limit else { return wanted };
        let shared = limit.saturating_sub(self.reserve.saturating_mul(self.peers));
        let free = (shared + holding.beyond).saturating_sub(self.beyond);
        (self.reserve + free / 2).min(wanted)
    }

    /// A session holds `held` now.
    pub(crate) fn update(&mut self, holding: &mut Holding, held: u64) {
        let now = Holding { held, beyond: held.saturating_sub(self.reserve) };
        self.held = self.held - holding.held + now.held;
        self.beyond = self.beyond - holding.beyond + now.beyond;
        *holding = now;
    }

    /// What sessions may hold in all, if that is limited.
    pub(crate) fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// What sessions hold in all.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn memory(limit: u64, peers: usize) -> (Memory, Vec<Holding>) {
        let mut memory = Memory::new(Some(limit), 32 << 20);
        (0..peers).for_each(|_| memory.add_peer());
        (memory, (0..peers).map(|_| Holding::default()).collect())
    }

    /// Has the session, which has use for more than most have, take all that it may.
    fn take(memory: &mut Memory, holding: &mut Holding) -> u64 {
        let most = memory.allowance(holding, 48 << 20).max(holding.held);
        memory.update(holding, most);
        most
    }

    #[test]
    fn without_a_limit_each_session_may_hold_its_most() {
        let mut memory = Memory::new(None, 1 << 20);
        (0..1000).for_each(|_| memory.add_peer());
        assert_eq!((memory.reserve(), memory.allowance(&Holding::default(), 1 << 20)), (1 << 20, 1 << 20));
    }

    #[test]
    fn one_of_many_gets_what_idles_and_all_at_once_get_the_same() {
        let (mut memory, mut holdings) = memory(64 << 20, 100);
        let reserve = memory.reserve();
        assert_eq!(reserve, (64 << 20) / 200);
        assert!(take(&mut memory, &mut holdings[0]) > 16 << 20, "half of what is shared");
        memory.update(&mut holdings[0], 0);
        // All want more than there is, and who holds more than it may gives back as it consumes.
        for _ in 0..1000 {
            for holding in &mut holdings {
                let next = (9 * holding.held + memory.allowance(holding, 32 << 20)) / 10;
                memory.update(holding, next);
            }
        }
        let held: Vec<u64> = holdings.iter().map(|holding| holding.held).collect();
        let (least, most) = (held.iter().min().unwrap(), held.iter().max().unwrap());
        assert!(*least >= reserve && most - least < most / 20, "{held:?}");
    }

    proptest! {
        #[test]
        fn sessions_never_hold_more_than_the_limit(
            peers in 1usize..=512, turns in proptest::collection::vec((0usize..512, any::<bool>()), 0..500)
        ) {
            let (mut memory, mut holdings) = memory(64 << 20, peers);
            for (at, takes) in turns {
                let holding = &mut holdings[at % peers];
                if takes {
                    prop_assert!(take(&mut memory, holding) >= memory.reserve());
                } else {
                    memory.update(holding, 0);
                }
                prop_assert!(memory.held() <= 64 << 20);
            }
        }
    }
}
