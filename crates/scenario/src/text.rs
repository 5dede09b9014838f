//! Texts that only scenarios have: queues and windows.

use document::{form, quantity_pattern};
use serde::{Serialize, Serializer};
use std::str::FromStr;
use units::{Bytes, Duration, Rate};

form!(
    /// How much may wait for a transmitter.
    #[derive(Copy)]
    Queue(QueueSize), "queue", "a queue such as \"100packets\", \"320KiB\", \"1BDP\" or \"unlimited\"",
    r"^(unlimited|\s*[0-9.]+([eE][-+]?[0-9]+)?\s*(packets|BDP|(k|M|G|Ki|Mi|Gi)?B)\s*)$", queue
);
form!(
    /// Bytes, or segments of the connection's size.
    #[derive(Copy)]
    Window(WindowSize), "window", "a window such as \"64KiB\" or \"44segments\"",
    quantity_pattern!("(segments|(k|M|G|Ki|Mi|Gi)?B)"), window
);

/// The size of a queue as written: `100packets`, `320KiB`, `1BDP` or `unlimited`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum QueueSize {
    /// At most so many packets.
    Packets(u64),
    /// At most so many bytes.
    Bytes(Bytes),
    /// So many bandwidth-delay products of the link itself.
    BandwidthDelayProducts(f64),
    /// As much as comes.
    Unlimited,
}

impl QueueSize {
    /// In bytes, before a link of `rate` and `round_trip` that carries packets of `packet`; a bandwidth-delay product is at least one
    /// of them. `None` without a limit.
    pub fn bytes(self, rate: Rate, round_trip: Duration, packet: Bytes) -> Option<Bytes> {
        match self {
            Self::Packets(packets) => Some(packet * packets),
            Self::Bytes(bytes) => Some(bytes),
            Self::BandwidthDelayProducts(products) => Some(rate.bytes_in(round_trip.mul_f64(products)).max(packet)),
            Self::Unlimited => None,
        }
    }
}

/// A window as written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WindowSize {
    /// So many bytes.
    Bytes(Bytes),
    /// So many segments.
    Segments(u32),
}

impl FromStr for QueueSize {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        queue(text)
    }
}

fn queue(text: &str) -> Result<QueueSize, String> {
    if text == "unlimited" {
        return Ok(QueueSize::Unlimited);
    }
    if let Some(number) = text.strip_suffix("BDP") {
        return match number.trim().parse::<f64>() {
            Ok(products) if products > 0.0 && products <= 1000.0 => Ok(QueueSize::BandwidthDelayProducts(products)),
            _ => Err("it is not above 0BDP and at most 1000BDP".to_owned()),
        };
    }
    if let Some(number) = text.strip_suffix("packets") {
        return match number.trim().parse::<u64>() {
            Ok(packets) if (1..=1_000_000_000).contains(&packets) => Ok(QueueSize::Packets(packets)),
            _ => Err("it is not a whole number of packets from 1 to 1000000000".to_owned()),
        };
    }
    size(text).map(QueueSize::Bytes).map_err(|error| format!("{error}, 100packets, 1BDP or unlimited"))
}

fn window(text: &str) -> Result<WindowSize, String> {
    if let Some(number) = text.strip_suffix("segments") {
        return match number.trim().parse::<u32>() {
            Ok(segments) if (1..=1_000_000).contains(&segments) => Ok(WindowSize::Segments(segments)),
            _ => Err("it is not a whole number of segments from 1 to 1000000".to_owned()),
        };
    }
    size(text).map(WindowSize::Bytes).map_err(|error| format!("{error} or 20segments"))
}

fn size(text: &str) -> Result<Bytes, String> {
    text.parse::<document::Size>().map(|size| size.0)
}

impl Serialize for QueueSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Packets(packets) => serializer.collect_str(&format_args!("{packets}packets")),
            Self::Bytes(bytes) => bytes.serialize(serializer),
            Self::BandwidthDelayProducts(products) => serializer.collect_str(&format_args!("{products}BDP")),
            Self::Unlimited => serializer.serialize_str("unlimited"),
        }
    }
}

impl Serialize for WindowSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Bytes(bytes) => bytes.serialize(serializer),
            Self::Segments(segments) => serializer.collect_str(&format_args!("{segments}segments")),
        }
    }
}
