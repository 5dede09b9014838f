//! The process that has taken over, as the one before sees it: what it says, and whether it still runs.

use super::LONGEST;
use crate::config::Peer;
use rustix::io::retry_on_intr;
use rustix::net::{RecvFlags, recv};
use serde::{Deserialize, Serialize};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

/// What the process that has taken over says at any time, in lines of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Word {
    /// The peers of its configuration: the connections of others are to be reset.
    #[serde(rename = "peers")]
    Peers(Vec<PeerIdentity>),
}

/// What a peer is known by in both processes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum PeerIdentity {
    /// A gateway's key.
    #[serde(rename = "public_key")]
    PublicKey(String),
    /// The name of a peer without a far gateway.
    #[serde(rename = "name")]
    Name(String),
}

impl PeerIdentity {
    pub(crate) fn of(peer: &Peer) -> Self {
        match peer.public_key {
            Some(key) => Self::PublicKey(key.to_string()),
            None => Self::Name(peer.name.clone()),
        }
    }
}

/// The process that has taken over.
#[derive(Debug)]
pub(crate) struct Successor {
    /// Blocks for the control thread, which still writes to it.
    stream: UnixStream,
    received: Vec<u8>,
    has_ended: bool,
}

impl Successor {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self { stream, received: Vec::new(), has_ended: false }
    }

    /// The peers that its configuration has, if it has said so since the last call.
    pub(crate) fn take_peers(&mut self) -> Option<Vec<PeerIdentity>> {
        self.receive();
        let end = self.received.iter().rposition(|byte| *byte == b'\n')?;
        let lines: Vec<u8> = self.received.drain(..=end).collect();
        let latest = lines[..end].rsplit(|byte| *byte == b'\n').next()?;
        match serde_json::from_slice(latest) {
            Ok(Word::Peers(peers)) => Some(peers),
            Err(error) => {
                tracing::debug!(%error, "unexpected message from the process that has taken over");
                None
            }
        }
    }

    /// Has it know that this process ends, and returns whether it has ended before.
    pub(crate) fn has_ended_first(&mut self) -> bool {
        let _ = self.stream.shutdown(Shutdown::Write);
        self.receive();
        self.has_ended
    }

    fn receive(&mut self) {
        let mut bytes = vec![0; 65_536];
        while !self.has_ended {
            match retry_on_intr(|| recv(&self.stream, &mut bytes, RecvFlags::DONTWAIT)) {
                Err(rustix::io::Errno::WOULDBLOCK) => return,
                Ok((count, _)) if count > 0 && self.received.len() as u64 <= LONGEST => {
                    self.received.extend_from_slice(&bytes[..count]);
                }
                _ => self.has_ended = true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn key(name: &str) -> PeerIdentity {
        PeerIdentity::PublicKey(name.to_owned())
    }

    #[test]
    fn the_latest_whole_word_counts_and_an_end_is_noticed() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut successor = Successor::new(near);
        assert_eq!(successor.take_peers(), None);
        far.write_all(br#"{"peers":[{"public_key":"a"},{"name":"b"}]}"#).unwrap();
        assert_eq!(successor.take_peers(), None, "the line has no end yet");
        far.write_all(b"\n").unwrap();
        assert_eq!(successor.take_peers(), Some(vec![key("a"), PeerIdentity::Name("b".to_owned())]));
        assert_eq!(successor.take_peers(), None);
        far.write_all(b"{\"peers\":[]}\n{\"peers\":[{\"public_key\":\"c\"}]}\n{\"pee").unwrap();
        assert_eq!(successor.take_peers(), Some(vec![key("c")]));
        assert!(!successor.has_ended, "a word that waits is no end");
        drop(far);
        assert!(successor.has_ended_first());
    }

    #[test]
    fn other_words_and_endless_ones_remove_nobody() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut successor = Successor::new(near);
        for word in [&b"\n"[..], b"{}\n", b"\xff\n", b"{\"peers\":1}\n", b"ready\n"] {
            far.write_all(word).unwrap();
            assert_eq!(successor.take_peers(), None, "{}", word.escape_ascii());
        }
        let (near, far) = UnixStream::pair().unwrap();
        far.set_nonblocking(true).unwrap();
        let mut successor = Successor::new(near);
        let much = vec![b' '; 1 << 16];
        while !successor.has_ended {
            while (&far).write(&much).is_ok() {}
            assert_eq!(successor.take_peers(), None);
        }
        assert!(successor.received.len() as u64 <= LONGEST + much.len() as u64);
    }
}
