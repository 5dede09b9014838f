//! What those do who hold no key that a gateway knows: they know public keys and see datagrams pass.

use satpep::{Endpoint, EndpointConfig, PeerConfig, PrivateKey};
use std::net::SocketAddr;
use testkit::{Datagram, Dice};
use units::{Duration, Instant, Rate};

/// Kinds of datagrams, by their first byte.
const INIT: u8 = 1;
const COOKIE: u8 = 3;

/// Datagrams seen that are kept, to be repeated.
const KEPT: usize = 64;

/// Strangers, what they saw, and what they were answered.
pub(crate) struct Strangers {
    dice: Dice,
    seen: Vec<Vec<u8>>,
    inits: Vec<Vec<u8>>,
    impostor: Option<Endpoint>,
    /// Bytes that they sent, and that they were sent.
    pub(crate) provoked: u64,
    pub(crate) answered: u64,
}

impl Strangers {
    pub(crate) fn new(seed: u64) -> Self {
        let dice = Dice::new(seed, 30);
        Self { dice, seen: Vec::new(), inits: Vec::new(), impostor: None, provoked: 0, answered: 0 }
    }

    /// Whether an address is one of theirs.
    pub(crate) fn own(address: &SocketAddr) -> bool {
        matches!(address, SocketAddr::V4(address) if address.ip().octets()[..3] == [203, 0, 113])
    }

    /// A datagram passes them.
    pub(crate) fn see(&mut self, datagram: &Datagram) {
        if self.seen.len() < KEPT {
            self.seen.push(datagram.bytes.clone());
        } else if self.dice.chance(0.05) {
            let place = self.dice.index(KEPT);
            self.seen[place].clone_from(&datagram.bytes);
        }
    }

    /// Garbage, half of it with the first byte of something known.
    pub(crate) fn garbage(&mut self, to: SocketAddr) -> Datagram {
        let length = self.dice.pick(&[0, 1, 5, 33, 64, 65, 150, 196, 300, 1400]);
        let mut bytes: Vec<u8> = (0..length).map(|_| self.dice.word() as u8).collect();
        if self.dice.chance(0.5)
            && let Some(first) = bytes.first_mut()
        {
            *first = self.dice.between(1, 4) as u8;
        }
        self.sent_by_stranger(to, bytes)
    }

    /// Something that passed, once more, and sometimes damaged.
    pub(crate) fn replay(&mut self, to: SocketAddr) -> Option<Datagram> {
        if self.seen.is_empty() {
            return None;
        }
        let place = self.dice.index(self.seen.len());
        let mut bytes = self.seen[place].clone();
        if !bytes.is_empty() && self.dice.chance(0.2) {
            let bit = self.dice.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        Some(self.sent_by_stranger(to, bytes))
    }

    /// The beginning of a handshake by someone who knows the public key of `responder`.
    pub(crate) fn init(&mut self, now: Instant, responder: &PrivateKey, to: SocketAddr) -> Datagram {
        if self.inits.is_empty() {
            self.inits = (0..4).map(|number| init_of_nobody(now, responder, number)).collect();
        }
        let place = self.dice.index(self.inits.len());
        let bytes = self.inits[place].clone();
        self.sent_by_stranger(to, bytes)
    }

    /// A cookie in answer to `init`, such as the owner of `key` would send when busy. Everything that goes into it but
    /// the owner's secret for cookies follows from the public key and from `init`.
    pub(crate) fn forge_cookie(&mut self, now: Instant, key: &PrivateKey, init: &Datagram) -> Option<Datagram> {
        if init.bytes.first() != Some(&INIT) {
            return None;
        }
        let impostor = self.impostor.get_or_insert_with(|| Endpoint::new(settings(key), now, 1 << 60, [77; 32]));
        let mut buffer = vec![0; 2048];
        // It is busy from the second dozen on.
        for _ in 0..40 {
            impostor.handle_datagram(now, init.from, &mut init.bytes.clone());
            while let Some(transmit) = impostor.poll_transmit(now, &mut buffer) {
                if buffer[0] == COOKIE {
                    let bytes = buffer[..transmit.size].to_vec();
                    return Some(Datagram { from: init.to, to: init.from, bytes });
                }
            }
        }
        None
    }

    fn sent_by_stranger(&mut self, to: SocketAddr, bytes: Vec<u8>) -> Datagram {
        let from = SocketAddr::from(([203, 0, 113, self.dice.word() as u8], self.dice.between(1, 65_535) as u16));
        self.provoked += bytes.len() as u64;
        Datagram { from, to, bytes }
    }
}

fn settings(key: &PrivateKey) -> EndpointConfig {
    let rate = Rate::from_bps(1_000_000);
    EndpointConfig::new(key.clone(), rate, rate, Duration::from_millis(500))
}

fn init_of_nobody(now: Instant, responder: &PrivateKey, number: u8) -> Vec<u8> {
    let mut nobody = Endpoint::new(settings(&PrivateKey::from_random([200 + number; 32])), now, 1 << 60, [number; 32]);
    let somewhere = SocketAddr::from(([203, 0, 113, 1], 1));
    nobody.add_peer(now, PeerConfig::new(responder.public_key(), Some(somewhere))).expect("one peer with another key");
    nobody.handle_timeout(now);
    let mut buffer = vec![0; 2048];
    let size = nobody.poll_transmit(now, &mut buffer).map_or(0, |transmit| transmit.size);
    buffer.truncate(size);
    buffer
}
