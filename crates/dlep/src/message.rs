//! Messages of a session and signals of discovery: what they are, and which items they hold (§11, §12).

use crate::item_kind::ItemKind as I;
use crate::parse_error::ParseError;
use crate::{Item, Mac, Status, printable};

/// Bytes of a message's type and length.
pub(crate) const HEADER: usize = 4;
/// What a signal begins with.
const PREFIX: &[u8; 4] = b"DLEP";

/// Types of messages, §12.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
#[allow(missing_docs, reason = "the names of the RFC")]
pub enum MessageKind {
    SessionInitialization = 1,
    SessionInitializationResponse = 2,
    SessionUpdate = 3,
    SessionUpdateResponse = 4,
    SessionTermination = 5,
    SessionTerminationResponse = 6,
    DestinationUp = 7,
    DestinationUpResponse = 8,
    DestinationAnnounce = 9,
    DestinationAnnounceResponse = 10,
    DestinationDown = 11,
    DestinationDownResponse = 12,
    DestinationUpdate = 13,
    LinkCharacteristicsRequest = 14,
    LinkCharacteristicsResponse = 15,
    Heartbeat = 16,
}

/// Types of signals, §12.3 and §12.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
#[allow(missing_docs, reason = "the names of the RFC")]
pub enum SignalKind {
    PeerDiscovery = 1,
    PeerOffer = 2,
}

/// A message of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its type.
    pub kind: MessageKind,
    /// Its items, in any order.
    pub items: Vec<Item>,
}

/// A datagram of discovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signal {
    /// Its type.
    pub kind: SignalKind,
    /// Its items, in any order.
    pub items: Vec<Item>,
}

/// Types of items that are for private use (§15.4).
const PRIVATE_USE: std::ops::RangeInclusive<u16> = 65_408..=65_534;

/// Items that must be there once, may be there once, and may be there any number of times.
type Rule = (&'static [I], &'static [I], &'static [I]);

const ADDRESSES: &[I] = &[I::Ipv4Address, I::Ipv6Address, I::Ipv4AttachedSubnet, I::Ipv6AttachedSubnet];
const METRICS: &[I] = &[
    I::MaximumDataRateReceive,
    I::MaximumDataRateTransmit,
    I::CurrentDataRateReceive,
    I::CurrentDataRateTransmit,
    I::Latency,
    I::Resources,
    I::RelativeLinkQualityReceive,
    I::RelativeLinkQualityTransmit,
    I::MaximumTransmissionUnit,
];

impl MessageKind {
    /// Every kind, in the order of their codes.
    pub const ALL: [Self; 16] = [
        Self::SessionInitialization,
        Self::SessionInitializationResponse,
        Self::SessionUpdate,
        Self::SessionUpdateResponse,
        Self::SessionTermination,
        Self::SessionTerminationResponse,
        Self::DestinationUp,
        Self::DestinationUpResponse,
        Self::DestinationAnnounce,
        Self::DestinationAnnounceResponse,
        Self::DestinationDown,
        Self::DestinationDownResponse,
        Self::DestinationUpdate,
        Self::LinkCharacteristicsRequest,
        Self::LinkCharacteristicsResponse,
        Self::Heartbeat,
    ];

    fn from_code(code: u16) -> Option<Self> {
        Self::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }

    /// §12.5 to §12.20.
    const fn rule(self) -> Rule {
        match self {
            Self::SessionInitialization => (&[I::HeartbeatInterval, I::PeerType], &[I::ExtensionsSupported], ADDRESSES),
            Self::SessionInitializationResponse => (
                &[
                    I::Status,
                    I::PeerType,
                    I::HeartbeatInterval,
                    I::MaximumDataRateReceive,
                    I::MaximumDataRateTransmit,
                    I::CurrentDataRateReceive,
                    I::CurrentDataRateTransmit,
                    I::Latency,
                ],
                &[
                    I::ExtensionsSupported,
                    I::Resources,
                    I::RelativeLinkQualityReceive,
                    I::RelativeLinkQualityTransmit,
                    I::MaximumTransmissionUnit,
                ],
                ADDRESSES,
            ),
            Self::SessionUpdate => (&[], METRICS, ADDRESSES),
            Self::SessionUpdateResponse | Self::SessionTermination => (&[I::Status], &[], &[]),
            Self::SessionTerminationResponse | Self::Heartbeat => (&[], &[], &[]),
            Self::DestinationUp | Self::DestinationUpdate => (&[I::MacAddress], METRICS, ADDRESSES),
            Self::DestinationUpResponse | Self::DestinationDownResponse => (&[I::MacAddress, I::Status], &[], &[]),
            Self::DestinationAnnounce => (&[I::MacAddress], &[], ADDRESSES),
            Self::DestinationAnnounceResponse => (&[I::MacAddress, I::Status], METRICS, ADDRESSES),
            Self::DestinationDown => (&[I::MacAddress], &[], &[]),
            Self::LinkCharacteristicsRequest => {
                (&[I::MacAddress], &[I::CurrentDataRateReceive, I::CurrentDataRateTransmit, I::Latency], &[])
            }
            Self::LinkCharacteristicsResponse => (&[I::MacAddress, I::Status], METRICS, &[]),
        }
    }
}

impl SignalKind {
    /// §12.3 and §12.4.
    const fn rule(self) -> Rule {
        match self {
            Self::PeerDiscovery => (&[], &[I::PeerType], &[]),
            Self::PeerOffer => (&[], &[I::PeerType], &[I::Ipv4ConnectionPoint, I::Ipv6ConnectionPoint]),
        }
    }
}

impl Message {
    /// A message with these items.
    pub fn new(kind: MessageKind, items: Vec<Item>) -> Self {
        Self { kind, items }
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        encode(Vec::new(), self.kind as u16, &self.items)
    }

    /// Reads a message of type `code` whose items are `body`.
    ///
    /// # Errors
    /// If it is malformed, or has items that it may not have.
    pub fn parse(code: u16, body: &[u8]) -> Result<Self, ParseError> {
        let kind = MessageKind::from_code(code).ok_or(ParseError::UnknownType(code))?;
        Ok(Self { kind, items: items(body, kind.rule())? })
    }

    /// The destination that it is about.
    pub fn mac(&self) -> Option<Mac> {
        self.items.iter().find_map(|item| if let Item::MacAddress(mac) = item { Some(*mac) } else { None })
    }

    /// Its status.
    pub fn status(&self) -> Option<Status> {
        self.items.iter().find_map(|item| if let Item::Status(status, _) = item { Some(*status) } else { None })
    }

    /// The reason that its status gives in words, as it may be shown; empty if there is none.
    pub fn status_text(&self) -> String {
        let text = |item: &Item| if let Item::Status(_, text) = item { Some(printable(text)) } else { None };
        self.items.iter().find_map(text).unwrap_or_default()
    }
}

impl Signal {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        encode(PREFIX.to_vec(), self.kind as u16, &self.items)
    }

    /// Reads a datagram.
    ///
    /// # Errors
    /// If it is no signal, malformed, or has items that it may not have; all of that is to be ignored (§12.1).
    pub fn parse(datagram: &[u8]) -> Result<Self, ParseError> {
        let rest = datagram.strip_prefix(PREFIX).ok_or(ParseError::NoSignal)?;
        let (header, body) = rest.split_first_chunk::<HEADER>().ok_or(ParseError::Truncated)?;
        if usize::from(u16::from_be_bytes([header[2], header[3]])) != body.len() {
            return Err(ParseError::NoSignal);
        }
        let kind = match u16::from_be_bytes([header[0], header[1]]) {
            1 => SignalKind::PeerDiscovery,
            2 => SignalKind::PeerOffer,
            code => return Err(ParseError::UnknownType(code)),
        };
        Ok(Self { kind, items: items(body, kind.rule())? })
    }
}

fn encode(mut out: Vec<u8>, code: u16, items: &[Item]) -> Vec<u8> {
    out.extend(code.to_be_bytes());
    let length_at = out.len();
    out.extend([0, 0]);
    for item in items {
        item.encode(&mut out);
    }
    let length = u16::try_from(out.len() - length_at - 2).unwrap_or(u16::MAX);
    out[length_at..length_at + 2].copy_from_slice(&length.to_be_bytes());
    out
}

/// Reads items and checks that they are those of `rule`.
///
/// In the two messages of initialization the sender cannot know yet that we have no extensions. Items of those that it names
/// there, and items of private use, with which some begin whatever is agreed on, are left out.
fn items(mut body: &[u8], (once, at_most_once, any): Rule) -> Result<Vec<Item>, ParseError> {
    let mut items: Vec<Item> = Vec::new();
    let mut unknown = None;
    // Kinds are numbered from 1 to 20.
    let mut seen = 0_u32;
    while !body.is_empty() {
        let (parsed, rest) = Item::split(body)?;
        body = rest;
        let item = match parsed {
            Ok(item) => item,
            Err(error @ ParseError::UnknownItem(code)) if at_most_once.contains(&I::ExtensionsSupported) => {
                if !PRIVATE_USE.contains(&code) {
                    unknown.get_or_insert(error);
                }
                continue;
            }
            Err(error) => return Err(error),
        };
        let kind = item.kind();
        let bit = 1 << kind as u16;
        let is_single = once.contains(&kind) || at_most_once.contains(&kind);
        if !(any.contains(&kind) || is_single && seen & bit == 0) {
            return Err(ParseError::Misplaced(kind));
        }
        seen |= bit;
        items.push(item);
    }
    let has_extensions = items.iter().any(|item| matches!(item, Item::ExtensionsSupported(ids) if !ids.is_empty()));
    if let Some(error) = unknown.filter(|_| !has_extensions) {
        return Err(error);
    }
    match once.iter().find(|kind| seen & (1 << **kind as u16) == 0) {
        Some(missing) => Err(ParseError::Missing(*missing)),
        None => Ok(items),
    }
}
