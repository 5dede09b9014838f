//! What the connections of each class have done, for metrics.

use crate::histogram::Histogram;
use serde::{Deserialize, Serialize};
use units::Duration;

/// The name of the class of connections that fit none of the operator's.
pub const DEFAULT_CLASS: &str = "default";

/// Shorter waits are flow control at work: longer than a round trip over a geostationary satellite.
pub(super) const MIN_STALL: Duration = Duration::from_secs(1);

/// A round trip over a geostationary satellite is 0.5 to 0.7 s, over one in a low orbit 20 to 100 ms.
const OPEN_TIMES: &[Duration] =
    &millis([20, 50, 100, 200, 400, 600, 700, 800, 1000, 1500, 2000, 3000, 5000, 10_000, 20_000]);

/// From a burst of losses to an outage that connections survive.
const STALLS: &[Duration] = &millis([2000, 5000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000, 600_000]);

const fn millis<const N: usize>(values: [u64; N]) -> [Duration; N] {
    let mut bounds = [Duration::ZERO; N];
    let mut at = 0;
    while at < N {
        bounds[at] = Duration::from_millis(values[at]);
        at += 1;
    }
    bounds
}

/// What bytes of a connection wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StallCause {
    /// Room in the stream: the link is full, the peer is not up, or the far host does not read.
    Satellite,
    /// The host at this gateway, which does not read.
    Host,
}

impl StallCause {
    /// As it is written in status and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Satellite => "satellite",
            Self::Host => "host",
        }
    }
}

/// What the connections of one class have done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassAccount {
    /// The class's name.
    pub name: String,
    /// Connections that were put into it.
    pub connections: u64,
    /// Bytes read from TCP.
    pub bytes_from_tcp: u64,
    /// Bytes written to TCP.
    pub bytes_to_tcp: u64,
    /// From a client's connection to the reply that its server is connected, at near gateways.
    pub open_time: Histogram,
    /// How long bytes from TCP waited for room in the stream.
    pub satellite_stalls: Histogram,
    /// How long the host took none of the bytes for it.
    pub host_stalls: Histogram,
}

/// Which way bytes move in the first place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    ToStream,
    ToTcp,
}

impl Direction {
    /// What its bytes wait for.
    pub(super) const fn cause(self) -> StallCause {
        match self {
            Self::ToStream => StallCause::Satellite,
            Self::ToTcp => StallCause::Host,
        }
    }
}

impl ClassAccount {
    /// Of the class `name`, whose connections have done nothing yet.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            connections: 0,
            bytes_from_tcp: 0,
            bytes_to_tcp: 0,
            open_time: Histogram::new(OPEN_TIMES),
            satellite_stalls: Histogram::new(STALLS),
            host_stalls: Histogram::new(STALLS),
        }
    }

    /// Bytes have moved.
    pub(super) fn moved(&mut self, direction: Direction, count: u64) {
        match direction {
            Direction::ToStream => self.bytes_from_tcp += count,
            Direction::ToTcp => self.bytes_to_tcp += count,
        }
    }

    /// Bytes have waited for so long.
    pub(super) fn stalled(&mut self, direction: Direction, time: Duration) {
        if time >= MIN_STALL {
            match direction.cause() {
                StallCause::Satellite => self.satellite_stalls.record(time),
                StallCause::Host => self.host_stalls.record(time),
            }
        }
    }
}

/// The accounts of all classes that have been configured since the start, the default class first.
#[derive(Debug)]
pub(super) struct Accounts(Vec<ClassAccount>);

impl Accounts {
    /// Of the classes with these names.
    pub(super) fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut accounts = Self(vec![ClassAccount::new(DEFAULT_CLASS)]);
        accounts.add(names);
        accounts
    }

    /// There are classes with these names; those that are new have done nothing.
    pub(super) fn add<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) {
        for name in names {
            if !self.0.iter().any(|account| account.name == name) {
                self.0.push(ClassAccount::new(name));
            }
        }
    }

    /// The place of the account of class `name`, or of the default class.
    pub(super) fn place(&self, name: Option<&str>) -> usize {
        name.and_then(|name| self.0.iter().position(|account| account.name == name)).unwrap_or(0)
    }

    /// The account at `place`.
    pub(super) fn at(&mut self, place: usize) -> &mut ClassAccount {
        &mut self.0[place]
    }

    /// All of them.
    pub(super) fn all(&self) -> &[ClassAccount] {
        &self.0
    }
}
