//! Ciphers outside the endpoint: a driver with several threads seals what leaves, and opens what arrives, in others than the
//! endpoint's.
//!
//! All decisions stay the endpoint's: which packet leaves when, which number it has, whether a number was seen before. What leaves
//! it is work that needs a key and a packet alone. [`Endpoint::poll_transmit_unsealed`](crate::Endpoint::poll_transmit_unsealed)
//! gives packets with a [`Seal`] yet to be put on them. An [`Opener`] opens packets whose key it knows; the others, and those of
//! handshakes, it leaves to the endpoint, which names the key of each session's first packet by
//! [`Endpoint::poll_opening_key`](crate::Endpoint::poll_opening_key). Keys stay the endpoint's: an opener cannot use one that
//! the endpoint has erased.

use crate::packet_number::PacketNumber;
use crate::seal::{DataKey, Sealing};
use crate::wire::packet::{DATA, DataHeader, TAG, expand_number};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use units::Instant;

/// The seal that is yet to be put on the datagrams of a [`Transmit`](crate::Transmit).
#[must_use = "datagrams without a seal are of no use to their receiver"]
pub struct Seal(pub(crate) PendingSeal<DataKey>);

/// The key of packets that are yet to be sealed, the number of the first, and how many there are: their numbers follow each other.
pub(crate) struct PendingSeal<K> {
    key: Arc<K>,
    first: PacketNumber,
    count: u64,
}

impl Seal {
    /// Seals the datagrams of `segment_size` bytes, of which the last may be shorter, that `datagrams` holds one behind the other.
    pub fn put(self, datagrams: &mut [u8], segment_size: usize) {
        let Self(PendingSeal { key, first, count }) = self;
        debug_assert_eq!(datagrams.chunks(segment_size).len() as u64, count);
        for (number, datagram) in PacketNumber::each(first..first + count).zip(datagrams.chunks_mut(segment_size)) {
            key.seal(number, datagram, 0);
        }
    }
}

/// Who seals.
pub(crate) enum Sealer<K> {
    /// The endpoint, at once.
    Endpoint,
    /// The driver: what it is to seal so far.
    Driver(Option<PendingSeal<K>>),
}

impl<K: Sealing> Sealer<K> {
    /// Seals `datagram`, whose head takes `head` bytes, with `key`, or notes that the driver is to.
    pub(crate) fn seal(&mut self, key: &Arc<K>, number: PacketNumber, datagram: &mut [u8], head: usize) {
        match self {
            Self::Endpoint => key.seal(number, datagram, head),
            Self::Driver(None) => {
                *self = Self::Driver(Some(PendingSeal { key: Arc::clone(key), first: number, count: 1 }));
            }
            Self::Driver(Some(pending)) => {
                debug_assert!(Arc::ptr_eq(key, &pending.key) && number == pending.first + pending.count);
                pending.count += 1;
            }
        }
    }
}

/// A key that packets of a session are opened with, as long as the endpoint has it.
pub struct OpeningKey(pub(crate) NamedKey<DataKey>);

/// A key and the session that it is for.
pub(crate) struct NamedKey<K> {
    pub(crate) receiver: u32,
    pub(crate) key: Weak<K>,
    /// When the endpoint got it: a later session may have the same index.
    pub(crate) since: Instant,
    /// The number of the next packet, about.
    pub(crate) expected: PacketNumber,
}

/// What an [`Opener`] makes of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// It left the datagram as it was: the endpoint knows more.
    /// To be handed to [`Endpoint::handle_datagram_with`](crate::Endpoint::handle_datagram_with).
    Left,
    /// The datagram is open.
    /// To be handed to [`Endpoint::handle_opened`](crate::Endpoint::handle_opened).
    Opened(Opened),
    /// The datagram is not authentic.
    /// To be counted by [`Endpoint::count_forged`](crate::Endpoint::count_forged).
    Forged,
}

/// A datagram that was opened: whose it is, and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    pub(crate) receiver: u32,
    pub(crate) since: Instant,
    pub(crate) number: PacketNumber,
}

/// Opens packets of sessions that are up.
#[derive(Default)]
pub struct Opener(BTreeMap<u32, NamedKey<DataKey>>);

impl Opener {
    /// Takes in another key, and drops those that the endpoint has erased.
    pub fn learn(&mut self, OpeningKey(named): OpeningKey) {
        self.0.retain(|_, known| known.key.strong_count() > 0);
        self.0.insert(named.receiver, named);
    }

    /// Opens `datagram` in place, if it is a packet of a session whose key is known.
    pub fn open(&mut self, datagram: &mut [u8]) -> Opening {
        let header = (datagram.first() == Some(&DATA)).then(|| DataHeader::read(datagram, datagram.len())).flatten();
        let Some(DataHeader { receiver, number_low }) = header else { return Opening::Left };
        let Some(known) = self.0.get_mut(&receiver) else { return Opening::Left };
        let Some(key) = known.key.upgrade() else { return Opening::Left };
        let number = expand_number(number_low, known.expected);
        if key.open(number, datagram).is_err() {
            return Opening::Forged;
        }
        known.expected = known.expected.max(number.next());
        Opening::Opened(Opened { receiver, since: known.since, number })
    }
}

impl Opened {
    /// The frames of the datagram that was opened.
    pub(crate) fn frames(datagram: &[u8]) -> &[u8] {
        &datagram[crate::wire::packet::DATA_HEADER..datagram.len() - TAG]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::{Cipher, Mode, Suite};

    const RECEIVER: u32 = 7;

    fn key(secret: u8) -> Arc<DataKey> {
        let suite = Suite { version: 5, mode: Mode::Encrypted, cipher: Cipher::Aes128Gcm };
        Arc::new(DataKey::derive(&[secret; 32], suite))
    }

    fn named(key: &Arc<DataKey>, since: u64, expected: u64) -> OpeningKey {
        let (key, since) = (Arc::downgrade(key), Instant::from_nanos(since));
        OpeningKey(NamedKey { receiver: RECEIVER, key, since, expected: PacketNumber::new(expected) })
    }

    /// Packets of 100 bytes from number `first` on, one behind the other, sealed as a driver seals them.
    fn sealed(key: &Arc<DataKey>, first: u64, count: u64) -> Vec<Vec<u8>> {
        let mut sealer = Sealer::Driver(None);
        let mut datagrams: Vec<u8> = Vec::new();
        for number in PacketNumber::each(PacketNumber::range(first..first + count)) {
            let at = datagrams.len();
            datagrams.resize(at + 100, number.low_half() as u8);
            DataHeader { receiver: RECEIVER, number_low: number.low_half() }.write(&mut datagrams[at..]);
            sealer.seal(key, number, &mut datagrams[at..], 0);
        }
        let Sealer::Driver(Some(pending)) = sealer else { panic!("nothing to seal") };
        Seal(pending).put(&mut datagrams, 100);
        datagrams.chunks(100).map(<[u8]>::to_vec).collect()
    }

    #[test]
    fn numbers_beyond_their_low_half_are_followed() {
        let key = key(1);
        let mut opener = Opener::default();
        let first = (1 << 32) - 2;
        opener.learn(named(&key, 1, first));
        let opened = sealed(&key, first, 4).into_iter().map(|mut datagram| opener.open(&mut datagram));
        let expected = (first..first + 4).map(|number| {
            let (since, number) = (Instant::from_nanos(1), PacketNumber::new(number));
            Opening::Opened(Opened { receiver: RECEIVER, since, number })
        });
        assert!(opened.eq(expected));
    }

    #[test]
    fn a_key_that_was_erased_opens_nothing() {
        let key = key(1);
        let mut opener = Opener::default();
        opener.learn(named(&key, 1, 0));
        let [first, second] = sealed(&key, 0, 2).try_into().unwrap();
        assert!(matches!(opener.open(&mut first.clone()), Opening::Opened(_)));
        drop(key);
        let mut left = second.clone();
        assert_eq!((opener.open(&mut left), left == second), (Opening::Left, true));
    }

    #[test]
    fn what_another_session_of_the_same_index_sealed_is_forged() {
        let (before, after) = (key(1), key(2));
        let mut opener = Opener::default();
        opener.learn(named(&before, 1, 0));
        opener.learn(named(&after, 2, 0));
        assert_eq!(opener.open(&mut sealed(&before, 0, 1)[0]), Opening::Forged);
        let opened = opener.open(&mut sealed(&after, 0, 1)[0]);
        assert!(matches!(opened, Opening::Opened(Opened { since, .. }) if since == Instant::from_nanos(2)));
    }

    #[test]
    fn what_is_no_packet_of_a_session_is_left_as_it_is() {
        let mut opener = Opener::default();
        opener.learn(named(&key(1), 1, 0));
        for datagram in [&b""[..], &[DATA], &[DATA; 24], &[1; 200]] {
            assert_eq!(opener.open(&mut datagram.to_vec()), Opening::Left, "{datagram:?}");
        }
    }
}
