//! Where the page has the state of a gateway from.

use status::Snapshot;

/// How much of a gateway's state is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The link and the peers.
    Peers,
    /// Relayed connections, too: with thousands of them, that takes time and memory.
    Streams,
}

/// Where samples come from: asked once a second on a thread of its own.
pub trait Source: Send + 'static {
    /// The state now, whose `streams` are empty unless `detail` asks for them; `None` if the gateway has stopped.
    fn sample(&mut self, detail: Detail) -> Option<Snapshot>;
}

impl<F: FnMut(Detail) -> Option<Snapshot> + Send + 'static> Source for F {
    fn sample(&mut self, detail: Detail) -> Option<Snapshot> {
        self(detail)
    }
}
