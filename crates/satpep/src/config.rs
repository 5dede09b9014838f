//! The configuration of an endpoint.

use crate::capacity::{EstimatorParts, Prior};
use crate::epoch::Run;
use crate::scheduler::Quanta;
use crate::{Capabilities, Cipher, Mode, PrivateKey, PublicKey, Versions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use units::{Bytes, Duration, Rate};

/// Packets that carry nothing but acknowledgements take at most this share of the link: more would not help what they
/// acknowledge, and on a thin return link they would be in each other's way.
pub(crate) const ACK_SHARE: f64 = 0.125;

/// An endpoint's settings. The defaults suit a geostationary satellite link; each field says what it is for.
#[derive(Debug, Clone)]
pub struct EndpointConfig {
    /// Who this gateway is.
    pub private_key: PrivateKey,
    /// Whether data is encrypted; the same on both sides. Default: encrypted.
    pub mode: Mode,
    /// The cipher proposed to peers. Default: AES-128-GCM.
    pub cipher: Cipher,
    /// Rate of the link that this side sends into, counted in IP bytes, as far as is known: it sizes buffers, and the estimate of the
    /// capacity begins with it.
    pub capacity: Rate,
    /// Rate at which peers can send to this side; it sizes the receive pool.
    pub receive_capacity: Rate,
    /// The expected round-trip time; it sizes buffers and stands in for the measured one until there is one.
    pub rtt: Duration,
    /// Share of a capacity used by force that is sent. Default 0.99: a queue that should not be there drains.
    pub pacing_gain: f64,
    /// Receive memory of one session. Default: 4 BDP, at least 32 MiB.
    pub receive_memory: Option<Bytes>,
    /// Memory for the data of all sessions together: a half for what is received, a half for what is sent. Default: as
    /// much as the sessions may have one by one.
    pub memory: Option<Bytes>,
    /// Streams that a peer may have open at once. Default 16,384.
    pub max_streams: u32,
    /// The largest IP packet that the path may carry, at least 576. Default 1500; smaller paths are found by probing, down
    /// to 576 bytes over IPv4 and 1280 over IPv6.
    pub mtu: u16,
    /// The longest time without news from a peer whose address is configured, after which it is asked for some. It is less where
    /// NATs on the path forget sooner. Default 100 s.
    pub keepalive: Duration,
    /// Time without news after which the streams of a peer are given up. Default 10 min: a pass out of sight, a
    /// rain fade.
    pub outage_limit: Duration,
    /// How late a packet may be without counting as lost. Default 0: a path that keeps the order. It grows where reordering is
    /// seen.
    pub reordering: Duration,
    /// Whether FEC repair symbols are sent, above all in capacity that would idle, so that a loss at the end costs no
    /// round trip. Default true.
    pub repair: bool,
    /// The share of a full link that repair may take beyond the share of what is lost, where that pays. Default 0.02.
    pub repair_overhead: f64,
    /// What is known of the capacity before it is measured. Default: `capacity`, as configured.
    pub prior: Option<Prior>,
    /// What an earlier run has measured: the estimate begins with it instead of `prior`. Default: nothing.
    pub remembered: Option<Prior>,
    /// The most that the capacity is estimated to be. Default: sixteen times the highest of `prior`, `remembered` and the last report.
    pub ceiling: Option<Rate>,
    /// Whether `capacity`, or what is reported instead of it, is used by force, whatever the link carries. Default false: it is where
    /// the estimate begins.
    pub capacity_is_fixed: bool,
    /// The parts of the estimator that are in use. Default: all; experiments leave one out to show what it brings.
    pub estimator_parts: EstimatorParts,
    /// What this run of the gateway has found of the one before. Default: nothing.
    pub run: Run,
    /// The versions that are offered to peers and taken from them. Default: all that this build speaks. Others than those are
    /// for tests of how versions meet.
    pub versions: Versions,
    /// What is offered beyond a version. Default: reports of how far streams have been read.
    pub capabilities: Capabilities,
    /// Whether [`Endpoint::poll_key`](crate::Endpoint::poll_key) gives data keys away. Default false.
    pub export_keys: bool,
    /// Whether [`Endpoint::poll_trace`](crate::Endpoint::poll_trace) gives away what happens to packets. Default false.
    pub trace: bool,
    /// What room cross traffic is given. Default: what it was measured to send.
    pub cross_traffic: CrossTrafficPolicy,
}

/// What room a gateway gives cross traffic: traffic of the link outside the sessions, which the driver measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CrossTrafficPolicy {
    /// The measured rate of cross traffic is subtracted from the capacity, and no more.
    #[default]
    Subtract,
    /// Cross traffic has room to grow until it has what one busy stream has.
    Fair,
}

/// What a gateway does with the rate of its link that the configuration, a modem or a program gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CapacityMode {
    /// The estimate of the capacity begins there.
    #[default]
    Estimated,
    /// It is the capacity, whatever the link carries.
    Fixed,
}

/// How far a configured rate is to be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RateConfidence {
    /// It is used at once.
    #[default]
    Sure,
    /// Half of it is used until the link has answered.
    Guess,
    /// It sizes buffers, and no more.
    None,
}

impl RateConfidence {
    /// What is known of the capacity by a rate in which this is the confidence.
    pub fn prior(self, rate: Rate) -> Prior {
        match self {
            Self::Sure => Prior::Configured(rate),
            Self::Guess => Prior::Guess(rate),
            Self::None => Prior::None,
        }
    }
}

impl EndpointConfig {
    /// The least that [`Self::memory`] has to be for so many peers: each has 64 KiB of its own for each direction, and as much is
    /// shared.
    pub const fn least_memory(peers: usize) -> Bytes {
        Bytes::new(4 * crate::memory::Memory::MIN * peers as u64)
    }

    /// Settings for a link of the given rates and round-trip time, all else as the defaults say.
    pub fn new(private_key: PrivateKey, capacity: Rate, receive_capacity: Rate, rtt: Duration) -> Self {
        Self {
            private_key,
            mode: Mode::default(),
            cipher: Cipher::default(),
            capacity,
            receive_capacity,
            rtt,
            pacing_gain: 0.99,
            receive_memory: None,
            memory: None,
            max_streams: 16_384,
            mtu: 1500,
            keepalive: Duration::from_secs(100),
            outage_limit: Duration::from_secs(600),
            reordering: Duration::ZERO,
            repair: true,
            repair_overhead: 0.02,
            prior: None,
            remembered: None,
            ceiling: None,
            capacity_is_fixed: false,
            estimator_parts: EstimatorParts::ALL,
            run: Run::default(),
            versions: Versions::SPOKEN,
            capabilities: Capabilities::READ_REPORTS,
            export_keys: false,
            trace: false,
            cross_traffic: CrossTrafficPolicy::default(),
        }
    }

    /// Whether the largest packet takes the link so long that answers to others wait for it.
    pub(crate) fn is_thin(&self) -> bool {
        self.capacity.time_to_send(Bytes::from(usize::from(self.mtu))) > Duration::from_millis(100)
    }

    /// Bytes in flight on the receiving side at full rate.
    pub(crate) fn receive_bdp(&self) -> u64 {
        self.receive_capacity.bytes_in(self.rtt).as_u64().max(64 * 1024)
    }

    /// The receive pool of a session.
    pub(crate) fn receive_pool(&self) -> u64 {
        self.receive_memory.map_or(Self::pool(self.receive_bdp()), Bytes::as_u64)
    }

    /// The receive pool of a session in which up to `most` bytes arrived in a round trip.
    pub(crate) fn grown_receive_pool(&self, most: u64) -> u64 {
        if self.receive_memory.is_some() { self.receive_pool() } else { self.receive_pool().max(Self::pool(most)) }
    }

    /// The same where `unread` bytes wait for readers, which may be stalled: what others need to keep the link busy stays free.
    pub(crate) fn receive_pool_beside(&self, unread: u64, most: u64) -> u64 {
        let pool = self.grown_receive_pool(most);
        if self.receive_memory.is_some() { pool } else { pool + unread.min(pool) }
    }

    /// Memory for data written and not yet acknowledged, per session.
    pub(crate) fn send_pool(&self) -> u64 {
        self.grown_send_pool(self.capacity, self.rtt)
    }

    /// The same where the link is thought to carry `capacity` now, and a round trip takes `rtt`.
    pub(crate) fn grown_send_pool(&self, capacity: Rate, rtt: Duration) -> u64 {
        Self::pool(capacity.max(self.capacity).bytes_in(rtt.max(self.rtt)).as_u64())
    }

    /// Memory for four BDP: one in flight, one whose repeats are in flight, and as much again while those are lost, too.
    fn pool(bdp: u64) -> u64 {
        bdp.saturating_mul(4).max(32 << 20)
    }

    /// How far apart the peer's acknowledgements may leave where its link is thin, which they take a share of.
    pub(crate) fn ack_spacing(&self) -> Duration {
        /// IP bytes of an acknowledgement that names a few gaps.
        const ACK: Bytes = Bytes::new(100);
        self.receive_capacity.mul_f64(ACK_SHARE).time_to_send(ACK)
    }

    /// The longest time without news after which a peer is asked: within the time after which it is given up, a few times.
    pub(crate) fn longest_keepalive(&self) -> Duration {
        self.keepalive.min(self.outage_limit / 4)
    }

    /// IP bytes that a peer is sent although its answer is overdue: an eighth of what is in flight at full rate, but a few
    /// packets at least and at most.
    pub(crate) fn stall_allowance(&self) -> u64 {
        let mtu = u64::from(self.mtu);
        (self.capacity.bytes_in(self.rtt).as_u64() / 8).clamp(2 * mtu, 16 * mtu)
    }

    /// The quantum of a flow in bytes: a packet on slow links; on fast ones what leaves in a quarter of a
    /// millisecond, so that batches of one stream go through system calls and copies together.
    pub(crate) fn quantum(&self) -> usize {
        self.capacity.bytes_in(Duration::from_micros(250)).as_usize().clamp(usize::from(self.mtu), 64 * 1024)
    }

    /// The quanta of streams. One that was idle for long begins with ten packets, an initial window (RFC 6928), or a quantum if that is more.
    pub(crate) fn stream_quanta(&self) -> Quanta {
        let quantum = self.quantum();
        Quanta { quantum, initial: quantum.max(10 * usize::from(self.mtu)) }
    }

    /// What a peer may send on a new stream before any credit: two BDP, so that the first round trip is never idle
    /// and one repair fits.
    pub(crate) fn stream_credit(&self) -> u64 {
        (2 * self.receive_bdp()).max(256 * 1024).min(self.receive_pool() / 2)
    }
}

/// A peer's settings.
#[derive(Debug, Clone)]
pub struct PeerConfig {
    /// Who the peer is.
    pub public_key: PublicKey,
    /// Where handshakes go; `None` waits for the peer's.
    pub address: Option<SocketAddr>,
    /// Its share of the link relative to other peers. Default 1.
    pub weight: u32,
    /// The most that is sent to it.
    pub cap: Option<Rate>,
}

impl PeerConfig {
    /// A peer of weight one, without a cap.
    pub fn new(public_key: PublicKey, address: Option<SocketAddr>) -> Self {
        Self { public_key, address, weight: 1, cap: None }
    }
}

/// Settings that make no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The peer's key is this gateway's own.
    #[error("the peer has this gateway's own key; each gateway has a key of its own")]
    OwnKey,
    /// The peer is there already.
    #[error("there is a peer with this key already")]
    DuplicatePeer,
    /// The key is not that of the peer which is to change.
    #[error("the peer has another key; another key is another peer")]
    OtherKey,
    /// More peers than indices.
    #[error("more than 32,768 peers")]
    TooManyPeers,
}
