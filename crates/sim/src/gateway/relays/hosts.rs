//! Simulated TCP of one gateway towards the hosts of its flows.

use crate::gateway::half::{Route, SplitHalf};
use crate::wire::Wire;
use relay::connect::ConnectRequest;
use relay::engine::{ConnectError, Hosts};
use satpep::ResetReason;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use units::{Duration, Instant};

/// The TCP connections of one gateway: one for each flow of the pair.
#[derive(Debug)]
pub(super) struct SimulatedHosts {
    terrestrial: Arc<tcp::Config>,
    /// By the pair's number of the flow.
    pub(super) ends: Vec<End>,
    /// Flows whose TCP may have something to send.
    touched: Vec<u32>,
    /// How many connections are open, and how many may be.
    request: u64,
    most: Option<u64>,
}

/// Of all connections that there may be, one part in so many is kept back for those that are on their way.
const KEPT_BACK: u64 = 16;

/// One flow at one gateway.
#[derive(Debug)]
pub(super) struct End {
    pub(super) half: Option<SplitHalf>,
    route: Route,
    /// A segment has come from the host.
    pub(super) has_begun: bool,
    /// The key of the relayed connection, while the engine has it.
    pub(super) key: Option<usize>,
    /// When TCP was established.
    pub(super) since: Option<Instant>,
    /// Bytes from TCP to the stream, and back, once the connection is over.
    pub(super) closed: Option<(u64, u64)>,
}

/// The flow that a TCP connection belongs to, by its number in the pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FlowTcp(pub(super) u32);

/// The addresses of the pair's flow number `split`: the client's carries the number.
pub(super) fn open(split: u32) -> ConnectRequest {
    let [_, a, b, c] = split.to_be_bytes();
    let socket = |ip, port| SocketAddr::new(IpAddr::V4(ip), port);
    ConnectRequest::new(socket(Ipv4Addr::new(10, a, b, c), 1024), socket(Ipv4Addr::new(198, 18, 1, 1), 80))
}

/// The flow that addresses name.
pub(super) fn split_named(request: &ConnectRequest) -> Option<u32> {
    match request.source.ip() {
        IpAddr::V4(ip) => {
            let [_, a, b, c] = ip.octets();
            Some(u32::from_be_bytes([0, a, b, c]))
        }
        IpAddr::V6(_) => None,
    }
}

impl SimulatedHosts {
    /// `near` says of each flow's route whether the flow's client is on this side, which the gateway waits for then.
    pub(super) fn new(terrestrial: Arc<tcp::Config>, routes: Vec<(Route, bool)>, most: Option<u64>) -> Self {
        let end = |(route, is_near): (Route, bool)| End {
            half: is_near.then(|| SplitHalf::listen(&terrestrial, route)),
            route,
            has_begun: false,
            key: None,
            since: None,
            closed: None,
        };
        let ends = routes.into_iter().map(end).collect();
        Self { ends, terrestrial, touched: Vec::new(), request: 0, most }
    }

    pub(super) fn half_mut(&mut self, tcp: FlowTcp) -> Option<&mut SplitHalf> {
        self.ends.get_mut(tcp.0 as usize)?.half.as_mut()
    }

    /// TCP of the flow may have something to send.
    pub(super) fn touch(&mut self, tcp: FlowTcp) {
        if self.touched.last() != Some(&tcp.0) {
            self.touched.push(tcp.0);
        }
    }

    /// Sends what TCP has to send.
    pub(super) fn transmit(&mut self, wire: &mut Wire) {
        for split in self.touched.drain(..) {
            if let Some(half) = &mut self.ends[split as usize].half {
                half.transmit(wire);
            }
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.ends.len() * (size_of::<End>() + 512)
    }

    fn let_go(&mut self, tcp: FlowTcp, end: impl FnOnce(&mut tcp::Connection)) {
        self.touch(tcp);
        self.request = self.request.saturating_sub(1);
        let of_flow = &mut self.ends[tcp.0 as usize];
        of_flow.key = None;
        if let Some(half) = &mut of_flow.half {
            end(&mut half.tcp);
        }
    }
}

impl Hosts for SimulatedHosts {
    type Connection = FlowTcp;
    /// SYNs are not held here.
    type Syn = Infallible;

    fn connect(
        &mut self,
        now: Instant,
        key: usize,
        request: &ConnectRequest,
        _: bool,
    ) -> Result<FlowTcp, ConnectError> {
        let end = split_named(request).and_then(|split| Some((split, self.ends.get_mut(split as usize)?)));
        let (split, end) = end.ok_or(ConnectError::Failed(ResetReason::Unreachable))?;
        end.half = Some(SplitHalf::connect(&self.terrestrial, end.route, now));
        end.key = Some(key);
        self.request += 1;
        self.touch(FlowTcp(split));
        Ok(FlowTcp(split))
    }

    fn adopt(&mut self, key: usize, tcp: &FlowTcp) -> Result<(), ConnectError> {
        self.ends[tcp.0 as usize].key = Some(key);
        self.request += 1;
        Ok(())
    }

    fn finish(&mut self, _: Instant, tcp: &mut FlowTcp) {
        self.touch(*tcp);
        if let Some(half) = self.half_mut(*tcp) {
            half.tcp.finish();
        }
    }

    fn close(&mut self, _: Instant, tcp: FlowTcp) {
        self.let_go(tcp, tcp::Connection::finish);
    }

    fn abort(&mut self, _: Instant, tcp: FlowTcp) {
        self.let_go(tcp, tcp::Connection::abort);
    }

    /// Simulated TCP ends by itself what is not acknowledged.
    fn is_gone(&mut self, _: Instant, _: &mut FlowTcp, _: Duration, _: Duration) -> bool {
        false
    }

    fn has_room(&self) -> bool {
        self.most.is_none_or(|most| self.request < most - most / KEPT_BACK / 2)
    }

    fn is_scarce(&self, _: &FlowTcp) -> bool {
        self.most.is_some_and(|most| self.request >= most - most / KEPT_BACK)
    }

    fn release_syn(&mut self, syn: Infallible) {
        match syn {}
    }

    fn refuse_syn(&mut self, syn: Infallible) {
        match syn {}
    }

    fn forget_syn(&mut self, syn: Infallible) {
        match syn {}
    }
}
