//! Data items, §11.3 and §13: a type, a length, a value.

use crate::item_kind::ItemKind;
use crate::parse_error::ParseError;
use crate::{Mac, Status};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Bytes of an item's type and length.
const HEADER: usize = 4;

/// A data item. Rates are in bit/s, latency in microseconds, the heartbeat interval in milliseconds, as on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// §13.1: a status, and words for people.
    Status(Status, String),
    /// §13.2: whether TLS is wanted there, and where a session may be had; without a port at [`crate::PORT`].
    Ipv4ConnectionPoint(bool, Ipv4Addr, Option<u16>),
    /// §13.3.
    Ipv6ConnectionPoint(bool, Ipv6Addr, Option<u16>),
    /// §13.4: whether access to the medium is controlled, and what the peer is.
    PeerType(bool, String),
    /// §13.5: at least 1.
    HeartbeatInterval(u32),
    /// §13.6.
    ExtensionsSupported(Vec<u16>),
    /// §13.7.
    MacAddress(Mac),
    /// §13.8: whether it is added, rather than dropped.
    Ipv4Address(bool, Ipv4Addr),
    /// §13.9.
    Ipv6Address(bool, Ipv6Addr),
    /// §13.10: with the length of the prefix.
    Ipv4AttachedSubnet(bool, Ipv4Addr, u8),
    /// §13.11.
    Ipv6AttachedSubnet(bool, Ipv6Addr, u8),
    /// §13.12 to §13.15, by which of the four it is.
    DataRate(RateKind, u64),
    /// §13.16.
    Latency(u64),
    /// §13.17: per cent.
    Resources(u8),
    /// §13.18: per cent.
    RelativeLinkQualityReceive(u8),
    /// §13.19: per cent.
    RelativeLinkQualityTransmit(u8),
    /// §13.20: bytes.
    MaximumTransmissionUnit(u16),
}

/// Which data rate; transmitting and receiving are the modem's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateKind {
    /// The most that can be received.
    MaximumReceive,
    /// The most that can be transmitted.
    MaximumTransmit,
    /// What can be received now.
    CurrentReceive,
    /// What can be transmitted now.
    CurrentTransmit,
}

impl Item {
    /// Its type.
    pub fn kind(&self) -> ItemKind {
        match self {
            Self::Status(..) => ItemKind::Status,
            Self::Ipv4ConnectionPoint(..) => ItemKind::Ipv4ConnectionPoint,
            Self::Ipv6ConnectionPoint(..) => ItemKind::Ipv6ConnectionPoint,
            Self::PeerType(..) => ItemKind::PeerType,
            Self::HeartbeatInterval(_) => ItemKind::HeartbeatInterval,
            Self::ExtensionsSupported(_) => ItemKind::ExtensionsSupported,
            Self::MacAddress(_) => ItemKind::MacAddress,
            Self::Ipv4Address(..) => ItemKind::Ipv4Address,
            Self::Ipv6Address(..) => ItemKind::Ipv6Address,
            Self::Ipv4AttachedSubnet(..) => ItemKind::Ipv4AttachedSubnet,
            Self::Ipv6AttachedSubnet(..) => ItemKind::Ipv6AttachedSubnet,
            Self::DataRate(RateKind::MaximumReceive, _) => ItemKind::MaximumDataRateReceive,
            Self::DataRate(RateKind::MaximumTransmit, _) => ItemKind::MaximumDataRateTransmit,
            Self::DataRate(RateKind::CurrentReceive, _) => ItemKind::CurrentDataRateReceive,
            Self::DataRate(RateKind::CurrentTransmit, _) => ItemKind::CurrentDataRateTransmit,
            Self::Latency(_) => ItemKind::Latency,
            Self::Resources(_) => ItemKind::Resources,
            Self::RelativeLinkQualityReceive(_) => ItemKind::RelativeLinkQualityReceive,
            Self::RelativeLinkQualityTransmit(_) => ItemKind::RelativeLinkQualityTransmit,
            Self::MaximumTransmissionUnit(_) => ItemKind::MaximumTransmissionUnit,
        }
    }

    /// Appends the item to `out`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend((self.kind() as u16).to_be_bytes());
        let length_at = out.len();
        out.extend([0, 0]);
        self.encode_value(out);
        // Text is cut, lists of extensions are short.
        let length = u16::try_from(out.len() - length_at - 2).unwrap_or(u16::MAX);
        out[length_at..length_at + 2].copy_from_slice(&length.to_be_bytes());
    }

    fn encode_value(&self, out: &mut Vec<u8>) {
        match self {
            Self::Status(status, text) => {
                out.push(status.0);
                out.extend(cut(text).bytes());
            }
            Self::Ipv4ConnectionPoint(tls, address, port) => {
                out.push(u8::from(*tls));
                out.extend(address.octets());
                out.extend(port.iter().flat_map(|port| port.to_be_bytes()));
            }
            Self::Ipv6ConnectionPoint(tls, address, port) => {
                out.push(u8::from(*tls));
                out.extend(address.octets());
                out.extend(port.iter().flat_map(|port| port.to_be_bytes()));
            }
            Self::PeerType(secured, text) => {
                out.push(u8::from(*secured));
                out.extend(cut(text).bytes());
            }
            Self::HeartbeatInterval(ms) => out.extend(ms.to_be_bytes()),
            Self::ExtensionsSupported(ids) => out.extend(ids.iter().flat_map(|id| id.to_be_bytes())),
            Self::MacAddress(mac) => out.extend(mac.as_bytes()),
            Self::Ipv4Address(add, address) => {
                out.push(u8::from(*add));
                out.extend(address.octets());
            }
            Self::Ipv6Address(add, address) => {
                out.push(u8::from(*add));
                out.extend(address.octets());
            }
            Self::Ipv4AttachedSubnet(add, address, prefix) => {
                out.push(u8::from(*add));
                out.extend(address.octets());
                out.push(*prefix);
            }
            Self::Ipv6AttachedSubnet(add, address, prefix) => {
                out.push(u8::from(*add));
                out.extend(address.octets());
                out.push(*prefix);
            }
            Self::DataRate(_, value) | Self::Latency(value) => out.extend(value.to_be_bytes()),
            Self::Resources(percent)
            | Self::RelativeLinkQualityReceive(percent)
            | Self::RelativeLinkQualityTransmit(percent) => out.push(*percent),
            Self::MaximumTransmissionUnit(bytes) => out.extend(bytes.to_be_bytes()),
        }
    }

    /// Reads the item at the front of `bytes`, if it is one; returns the rest, too.
    pub(crate) fn split(bytes: &[u8]) -> Result<(Result<Self, ParseError>, &[u8]), ParseError> {
        let (header, rest) = bytes.split_first_chunk::<HEADER>().ok_or(ParseError::Truncated)?;
        let code = u16::from_be_bytes([header[0], header[1]]);
        let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let (value, rest) = rest.split_at_checked(length).ok_or(ParseError::Truncated)?;
        let kind = ItemKind::from_code(code).ok_or(ParseError::UnknownItem(code));
        Ok((kind.and_then(|kind| Self::parse_value(kind, value)), rest))
    }

    fn parse_value(kind: ItemKind, value: &[u8]) -> Result<Self, ParseError> {
        let length = || ParseError::ItemLength(kind, value.len());
        let rate = |which| Ok(Self::DataRate(which, u64::from_be_bytes(exact(value).ok_or_else(length)?)));
        let percent = || match value {
            [percent @ 0..=100] => Ok(*percent),
            [_] => Err(ParseError::ItemValue(kind)),
            _ => Err(length()),
        };
        Ok(match kind {
            ItemKind::Status => {
                let (code, text) = value.split_first().ok_or_else(length)?;
                Self::Status(Status(*code), utf8(kind, text)?)
            }
            ItemKind::Ipv4ConnectionPoint => {
                let (tls, address, port) = connection_point::<4>(value).ok_or_else(length)?;
                Self::Ipv4ConnectionPoint(tls, address.into(), port)
            }
            ItemKind::Ipv6ConnectionPoint => {
                let (tls, address, port) = connection_point::<16>(value).ok_or_else(length)?;
                Self::Ipv6ConnectionPoint(tls, address.into(), port)
            }
            ItemKind::PeerType => {
                let (flags, text) = value.split_first().ok_or_else(length)?;
                Self::PeerType(flags & 1 != 0, utf8(kind, text)?)
            }
            ItemKind::HeartbeatInterval => match u32::from_be_bytes(exact(value).ok_or_else(length)?) {
                0 => return Err(ParseError::ItemValue(kind)),
                ms => Self::HeartbeatInterval(ms),
            },
            ItemKind::ExtensionsSupported if value.len().is_multiple_of(2) => {
                let ids = value.chunks_exact(2).map(|id| u16::from_be_bytes([id[0], id[1]]));
                Self::ExtensionsSupported(ids.collect())
            }
            ItemKind::ExtensionsSupported => return Err(length()),
            ItemKind::MacAddress => Self::MacAddress(Mac::from_bytes(value).ok_or_else(length)?),
            ItemKind::Ipv4Address => {
                let [flags, address @ ..] = exact::<5>(value).ok_or_else(length)?;
                Self::Ipv4Address(flags & 1 != 0, address.into())
            }
            ItemKind::Ipv6Address => {
                let [flags, address @ ..] = exact::<17>(value).ok_or_else(length)?;
                Self::Ipv6Address(flags & 1 != 0, address.into())
            }
            ItemKind::Ipv4AttachedSubnet => {
                let [flags, address @ .., prefix] = exact::<6>(value).ok_or_else(length)?;
                Self::Ipv4AttachedSubnet(flags & 1 != 0, address.into(), at_most(kind, prefix, 32)?)
            }
            ItemKind::Ipv6AttachedSubnet => {
                let [flags, address @ .., prefix] = exact::<18>(value).ok_or_else(length)?;
                Self::Ipv6AttachedSubnet(flags & 1 != 0, address.into(), at_most(kind, prefix, 128)?)
            }
            ItemKind::MaximumDataRateReceive => rate(RateKind::MaximumReceive)?,
            ItemKind::MaximumDataRateTransmit => rate(RateKind::MaximumTransmit)?,
            ItemKind::CurrentDataRateReceive => rate(RateKind::CurrentReceive)?,
            ItemKind::CurrentDataRateTransmit => rate(RateKind::CurrentTransmit)?,
            ItemKind::Latency => Self::Latency(u64::from_be_bytes(exact(value).ok_or_else(length)?)),
            ItemKind::Resources => Self::Resources(percent()?),
            ItemKind::RelativeLinkQualityReceive => Self::RelativeLinkQualityReceive(percent()?),
            ItemKind::RelativeLinkQualityTransmit => Self::RelativeLinkQualityTransmit(percent()?),
            ItemKind::MaximumTransmissionUnit => {
                Self::MaximumTransmissionUnit(u16::from_be_bytes(exact(value).ok_or_else(length)?))
            }
        })
    }
}

/// The most of a text that is sent: 255 bytes, whole characters.
fn cut(text: &str) -> &str {
    let end = text.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= 255).last();
    &text[..end.unwrap_or(0)]
}

fn exact<const N: usize>(value: &[u8]) -> Option<[u8; N]> {
    value.try_into().ok()
}

fn at_most(kind: ItemKind, value: u8, most: u8) -> Result<u8, ParseError> {
    if value <= most { Ok(value) } else { Err(ParseError::ItemValue(kind)) }
}

fn utf8(kind: ItemKind, text: &[u8]) -> Result<String, ParseError> {
    std::str::from_utf8(text).map(str::to_owned).map_err(|_| ParseError::ItemValue(kind))
}

/// Flags, an address of `N` bytes and perhaps a port.
fn connection_point<const N: usize>(value: &[u8]) -> Option<(bool, [u8; N], Option<u16>)> {
    let (flags, rest) = value.split_first()?;
    let (address, rest) = rest.split_first_chunk::<N>()?;
    let port = match rest {
        [] => None,
        [high, low] => Some(u16::from_be_bytes([*high, *low])),
        _ => return None,
    };
    Some((flags & 1 != 0, *address, port))
}
