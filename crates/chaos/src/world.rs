//! A case in virtual time.

use crate::air::Air;
use crate::fault::{Fault, HUB, KINDS};
use crate::gateway::{Gateway, Transfers, Wish};
use crate::host::Transfer;
use crate::plan::Plan;
use crate::report::Report;
use crate::strangers::Strangers;
use satpep::{Endpoint, EndpointConfig, Mode, PeerConfig, PrivateKey};
use std::net::SocketAddr;
use testkit::{Agenda, Datagram, LocalClock};
use units::{Bytes, Duration, Instant, Rate};

/// How long a client waits whose gateway does not take its connection now.
const RETRY: Duration = Duration::from_millis(300);
/// How long nothing happens at the end, to see whether the gateways are quiet.
const QUIET: Duration = Duration::from_secs(60);
/// Datagrams in a second that a gateway may send to each idle peer.
const IDLE_RATE: u64 = 4;
/// Rounds after which time must have moved.
const MAX_ROUNDS: u32 = 20_000;

/// Runs the case of `seed`.
pub(crate) fn run(seed: u64) -> Report {
    let mut world = World::new(Plan::draw(seed));
    world.run();
    world.report
}

struct World {
    plan: Plan,
    start: Instant,
    now: Instant,
    nodes: Vec<Node>,
    air: Air,
    transfers: Transfers,
    /// What is to be done when.
    agenda: Agenda<Task>,
    strangers: Strangers,
    report: Report,
    buffer: Vec<u8>,
    /// Datagrams that gateways sent to one another.
    sent: u64,
    rounds: u32,
}

/// The place of a gateway.
struct Node {
    gateway: Option<Gateway>,
    address: SocketAddr,
    clock: LocalClock,
    paused_until: Instant,
    /// Datagrams that wait while it is paused.
    inbox: Vec<Datagram>,
    /// How often it was started, and how often it ended; how often of those with connections.
    starts: u64,
    ends: u64,
    cuts: u64,
    /// It ends with its last connection, but not before the first, and starts again for so long after that.
    drains: Option<(Instant, Duration)>,
    moves: u16,
    /// Its inits are answered with forged cookies until then.
    mocked_until: Instant,
}

#[derive(Debug, Clone, Copy)]
enum Task {
    Befall(Fault),
    Begin(u32),
    /// Of the gateway's run `run`.
    Turn {
        side: usize,
        run: u64,
        number: u32,
    },
    Connect {
        side: usize,
        run: u64,
        number: u32,
    },
    Start(usize),
    /// A gateway that drains may end now.
    Look,
    Flood {
        fault: Fault,
        until: Instant,
    },
}

fn key(side: usize) -> PrivateKey {
    PrivateKey::from_random([side as u8 + 1; 32])
}

/// The peers of a gateway.
fn others(side: usize, terminals: usize) -> std::ops::RangeInclusive<usize> {
    if side == HUB { 1..=terminals } else { HUB..=HUB }
}

fn peer_config(side: usize, other: usize) -> PeerConfig {
    PeerConfig::new(key(other).public_key(), (side != HUB).then(|| address(HUB)))
}

fn address(side: usize) -> SocketAddr {
    SocketAddr::from(([198, 18, 0, side as u8 + 1], 4500))
}

impl World {
    fn new(plan: Plan) -> Self {
        let start = Instant::from_nanos(1_000_000_000);
        let transfers = plan.transfers.iter().zip(0..).map(|(plan, number)| Transfer::new(*plan, number)).collect();
        let node = |side| Node {
            gateway: None,
            address: address(side),
            clock: LocalClock::default(),
            paused_until: Instant::ZERO,
            inbox: Vec::new(),
            starts: 0,
            ends: 0,
            cuts: 0,
            drains: None,
            moves: 0,
            mocked_until: Instant::ZERO,
        };
        let mut world = Self {
            start,
            now: start,
            nodes: (0..plan.sides()).map(node).collect(),
            air: Air::new(&plan, start),
            transfers,
            agenda: Agenda::new(),
            strangers: Strangers::new(plan.seed),
            report: Report::new(plan.seed),
            buffer: vec![0; 64 * 1024],
            sent: 0,
            rounds: 0,
            plan,
        };
        (0..world.nodes.len()).for_each(|side| world.start_gateway(side));
        for (at, fault) in world.plan.faults.clone() {
            world.schedule(start + at, Task::Befall(fault));
        }
        for number in 0..world.plan.transfers.len() {
            let at = start + world.plan.transfers[number].at;
            world.schedule(at, Task::Begin(number as u32));
        }
        world
    }

    fn run(&mut self) {
        let limit = self.start + self.plan.well_after + self.patience();
        let is_over = |world: &Self| world.transfers.iter().all(Transfer::is_over) && world.is_well();
        self.run_until(limit, is_over);
        self.run_until(self.now.max(self.start + self.plan.well_after) + self.patience(), Self::is_empty);
        let (sent, from) = (self.sent, self.now);
        self.run_until(from + QUIET, |_| false);
        let most = IDLE_RATE * (QUIET.as_secs_f64() as u64) * 2 * self.plan.terminals as u64;
        if self.sent - sent > most {
            self.report.leaks.restless += 1;
            self.report.fail(format!("idle gateways sent {} datagrams in {QUIET}", self.sent - sent));
        }
        self.judge();
    }

    /// How long all may take to end once its last fault is over.
    fn patience(&self) -> Duration {
        let bytes = |role: usize| self.plan.transfers.iter().map(|transfer| transfer.bytes[role]).sum::<u64>();
        let slowest = self.plan.rates[0].min(self.plan.rates[1]);
        let sending = slowest.time_to_send(Bytes::new(bytes(0) + bytes(1)));
        let shared = self.plan.terminals as u64;
        Duration::from_secs(120) + self.plan.settings.outage_limit + self.plan.rtt * 60 + sending * 3 * shared
    }

    /// Whether every fault is over and every gateway runs.
    fn is_well(&self) -> bool {
        let is_well = |node: &Node| node.gateway.is_some() && node.drains.is_none();
        self.now >= self.start + self.plan.well_after && self.nodes.iter().all(is_well)
    }

    /// Whether no gateway holds anything of a transfer.
    fn is_empty(&self) -> bool {
        self.is_well() && self.leaks().all(|(streams, buffered, held)| (streams, buffered, held) == (0, 0, 0))
    }

    /// Streams, buffered bytes and relays of each gateway.
    fn leaks(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        self.nodes.iter().filter_map(|node| {
            let gateway = node.gateway.as_ref()?;
            let now = node.clock.read(self.now);
            let stats = gateway.peers.iter().map(|peer| gateway.endpoint.peer_stats(now, *peer));
            let (streams, buffered) = stats.fold((0, 0), |(streams, buffered), stats| {
                (streams + stats.streams, buffered + stats.send_buffered + stats.receive_buffered)
            });
            Some((streams, buffered, gateway.held() as u64))
        })
    }

    fn run_until(&mut self, end: Instant, is_done: impl Fn(&Self) -> bool) {
        while !is_done(self) {
            if !self.step(end) {
                self.now = end;
                return;
            }
        }
    }

    /// Everything that is due now, then on to what comes next. `false` if that lies beyond `end`, or time stands still.
    fn step(&mut self, end: Instant) -> bool {
        while let Some(task) = self.agenda.poll(self.now) {
            self.perform(task);
        }
        while let Some(datagram) = self.air.poll(self.now) {
            self.deliver(datagram);
        }
        for side in 0..self.nodes.len() {
            self.drive(side);
            self.end_if_drained(side);
        }
        let nodes = self.nodes.iter().filter_map(|node| {
            let wanted = node.clock.time_of(node.gateway.as_ref()?.endpoint.next_timeout()?);
            Some(wanted.max(node.paused_until))
        });
        let Some(next) = nodes.chain(self.agenda.next_timeout()).chain(self.air.next_timeout()).min() else {
            return false;
        };
        if next > end {
            return false;
        }
        self.rounds = if next > self.now { 0 } else { self.rounds + 1 };
        if self.rounds == MAX_ROUNDS {
            self.report.hangs += 1;
            self.report.fail(format!("time stands still at {} s", self.now.since(self.start).as_secs_f64()));
            self.plan.transfers.clear();
        }
        self.now = self.now.max(next);
        self.rounds < MAX_ROUNDS
    }

    fn schedule(&mut self, at: Instant, task: Task) {
        self.agenda.insert(at, task);
    }

    fn perform(&mut self, task: Task) {
        match task {
            Task::Befall(fault) => self.befall(fault),
            Task::Begin(number) => self.begin(number),
            Task::Turn { side, run, number } => {
                if let Some(gateway) = self.gateway_of_run(side, run) {
                    gateway.wake(number);
                }
            }
            Task::Connect { side, run, number } => {
                let now = self.nodes[side].clock.read(self.now);
                if let Some(mut gateway) = self.nodes[side].gateway.take() {
                    if self.nodes[side].starts == run {
                        gateway.on_server(now, number, &mut self.transfers);
                    }
                    self.nodes[side].gateway = Some(gateway);
                }
            }
            Task::Start(side) => self.start_gateway(side),
            Task::Look => {}
            Task::Flood { fault, until } => self.flood(fault, until),
        }
    }

    fn gateway_of_run(&mut self, side: usize, run: u64) -> Option<&mut Gateway> {
        let node = &mut self.nodes[side];
        node.gateway.as_mut().filter(|_| node.starts == run)
    }

    fn begin(&mut self, number: u32) {
        let [near, far] = self.transfers[number as usize].plan.sides;
        let peer = if near == HUB { far - 1 } else { 0 };
        let node = &mut self.nodes[near];
        let now = node.clock.read(self.now);
        let runs = node.paused_until <= self.now;
        let transfers = &mut self.transfers;
        if !node.gateway.as_mut().is_some_and(|gateway| runs && gateway.begin(now, number, peer, transfers)) {
            self.schedule(self.now + RETRY, Task::Begin(number));
        }
    }

    fn befall(&mut self, fault: Fault) {
        *self.report.faults.entry(KINDS[fault.kind()]).or_default() += 1;
        let until = self.now + fault.lasts();
        match fault {
            Fault::Rebind { side } => {
                let node = &mut self.nodes[side];
                node.moves += 1;
                node.address = SocketAddr::from(([198, 18, 1, side as u8 + 1], 5000 + node.moves));
            }
            Fault::Jump { side, by } => self.nodes[side].clock.jump(by),
            Fault::Pause { side, .. } => self.nodes[side].paused_until = until,
            Fault::Kill { side, .. } => self.cut(side, until),
            Fault::Reload { side, share } => self.reload(side, share),
            Fault::Drain { side, lasts } => {
                let settled_at = self.now + Duration::from_secs(1).max(self.plan.rtt * 2);
                let node = &mut self.nodes[side];
                let now = node.clock.read(self.now);
                if let (Some(gateway), None) = (node.gateway.as_mut(), node.drains) {
                    gateway.drain(now);
                    node.drains = Some((settled_at, lasts));
                    self.schedule(settled_at, Task::Look);
                }
            }
            Fault::Stop { side, .. } => {
                self.say_end(side);
                self.cut(side, until);
            }
            Fault::Garbage { .. } | Fault::Replay { .. } | Fault::Inits { .. } => self.flood(fault, until),
            Fault::ForgedCookies { side, .. } => self.nodes[side].mocked_until = until,
            Fault::Outage { .. } => {
                // Whatever goes on then may be given up.
                if self.plan.outlasts {
                    self.transfers.iter_mut().for_each(|transfer| transfer.is_excused = true);
                }
                self.air.befall(self.now, fault);
            }
            _ => self.air.befall(self.now, fault),
        }
    }

    /// One datagram of a flood, and the next one later.
    fn flood(&mut self, fault: Fault, until: Instant) {
        let (datagram, per_second) = match fault {
            Fault::Garbage { side, per_second, .. } => {
                (Some(self.strangers.garbage(self.nodes[side].address)), per_second)
            }
            Fault::Replay { side, per_second, .. } => (self.strangers.replay(self.nodes[side].address), per_second),
            Fault::Inits { side, per_second, .. } => {
                (Some(self.strangers.init(self.now, &key(side), self.nodes[side].address)), per_second)
            }
            _ => return,
        };
        if let Some(datagram) = datagram {
            self.deliver(datagram);
        }
        let next = self.now + Duration::from_secs(1) / per_second;
        if next < until {
            self.schedule(next, Task::Flood { fault, until });
        }
    }

    /// The gateway notifies its peers of its end.
    fn say_end(&mut self, side: usize) {
        let node = &mut self.nodes[side];
        let now = node.clock.read(self.now);
        if let Some(gateway) = node.gateway.as_mut() {
            gateway.endpoint.close(now);
            self.transmit(side);
        }
    }

    /// The gateway's process ends with the connections that it has, and another begins at `until`.
    fn cut(&mut self, side: usize, until: Instant) {
        if self.nodes[side].gateway.is_none() {
            return;
        }
        self.nodes[side].cuts += 1;
        for transfer in &mut self.transfers {
            if transfer.plan.sides.contains(&side) && transfer.has_begun && !transfer.is_over() {
                transfer.is_excused = true;
            }
        }
        self.end_gateway(side, until);
    }

    /// The gateway's process ends, and another begins at `until`.
    fn end_gateway(&mut self, side: usize, until: Instant) {
        let Some(mut gateway) = self.nodes[side].gateway.take() else { return };
        self.check_restarts(side, &gateway);
        self.nodes[side].ends += 1;
        self.nodes[side].drains = None;
        self.nodes[side].inbox.clear();
        gateway.die(&mut self.transfers);
        self.schedule(until, Task::Start(side));
    }

    /// A gateway that drains ends once it has no connection left.
    fn end_if_drained(&mut self, side: usize) {
        let node = &self.nodes[side];
        let Some((settled_at, lasts)) = node.drains.filter(|_| node.paused_until <= self.now) else { return };
        let now = node.clock.read(self.now);
        if settled_at <= self.now && node.gateway.as_ref().is_some_and(|gateway| gateway.is_drained(now)) {
            self.say_end(side);
            self.end_gateway(side, self.now + lasts);
        }
    }

    /// A gateway takes over what of its settings may change.
    fn reload(&mut self, side: usize, share: f64) {
        let (out, back) = self.rates_of(side);
        let limit = self.plan.settings.outage_limit;
        let node = &mut self.nodes[side];
        let now = node.clock.read(self.now);
        let Some(gateway) = node.gateway.as_mut() else { return };
        gateway.endpoint.set_outage_limit(limit);
        gateway.endpoint.set_keepalive(Duration::from_secs(100).mul_f64(share));
        gateway.endpoint.set_receive_capacity(back.mul_f64(share));
        gateway.endpoint.set_capacity(now, out.mul_f64(share));
        for (other, peer) in others(side, self.plan.terminals).zip(gateway.peers.clone()) {
            let config = PeerConfig { cap: Some(out.mul_f64(share)), weight: 2, ..peer_config(side, other) };
            let changed = gateway.endpoint.change_peer(now, peer, config);
            debug_assert!(changed.is_ok(), "its key is the same");
        }
    }

    /// What a gateway may send, and what arrives there.
    fn rates_of(&self, side: usize) -> (Rate, Rate) {
        let [forward, back] = self.plan.rates;
        let of_one = Rate::from_bps(back.as_bps() / self.plan.terminals as u64);
        if side == HUB { (forward, back) } else { (of_one, forward) }
    }

    fn start_gateway(&mut self, side: usize) {
        let (out, back) = self.rates_of(side);
        let plan = &self.plan;
        let mut config = EndpointConfig::new(key(side), out, back, plan.rtt);
        config.mode = if plan.settings.is_clear { Mode::Clear } else { Mode::Encrypted };
        config.repair = plan.settings.repair;
        config.capacity_is_fixed = plan.settings.capacity_is_fixed;
        config.receive_memory = plan.settings.receive_memory.map(Bytes::new);
        config.outage_limit = plan.settings.outage_limit;
        let node = &mut self.nodes[side];
        node.starts += 1;
        let now = node.clock.read(self.now);
        let unix_time = (1 << 60) + (node.starts << 40) + self.now.as_nanos();
        let mut secret = [side as u8; 32];
        secret[..8].copy_from_slice(&plan.seed.to_be_bytes());
        secret[8..16].copy_from_slice(&node.starts.to_be_bytes());
        let mut endpoint = Endpoint::new(config, now, unix_time, secret);
        let peers = others(side, plan.terminals)
            .map(|other| endpoint.add_peer(now, peer_config(side, other)).expect("each key once"))
            .collect();
        node.gateway = Some(Gateway::new(plan, side, endpoint, peers));
    }

    /// A peer is said to have lost its streams only if it did.
    fn check_restarts(&mut self, side: usize, gateway: &Gateway) {
        let others = if side == HUB { 1..self.nodes.len() } else { HUB..HUB + 1 };
        let ends: u64 = others.map(|other| self.nodes[other].ends).sum();
        if gateway.restarts_seen > ends && !self.plan.outlasts {
            self.report.broken += 1;
            self.report.fail(format!(
                "{} restarts were seen by {side} of peers that ended {ends} times",
                gateway.restarts_seen
            ));
        }
    }

    fn deliver(&mut self, datagram: Datagram) {
        if let Some(side) = self.nodes.iter().position(|node| node.address == datagram.to) {
            if self.nodes[side].paused_until > self.now {
                self.nodes[side].inbox.push(datagram);
            } else {
                self.hand_over(side, datagram);
            }
        }
    }

    fn hand_over(&mut self, side: usize, mut datagram: Datagram) {
        let now = self.nodes[side].clock.read(self.now);
        if let Some(gateway) = &mut self.nodes[side].gateway {
            gateway.endpoint.handle_datagram(now, datagram.from, &mut datagram.bytes);
        }
    }

    fn drive(&mut self, side: usize) {
        if self.nodes[side].paused_until > self.now {
            return;
        }
        for datagram in std::mem::take(&mut self.nodes[side].inbox) {
            self.hand_over(side, datagram);
        }
        let node = &mut self.nodes[side];
        let (clock, run) = (node.clock, node.starts);
        let Some(gateway) = &mut node.gateway else { return };
        gateway.run(clock.read(self.now), &mut self.transfers);
        for wish in std::mem::take(&mut gateway.wishes) {
            match wish {
                Wish::Turn { at, number } => self.schedule(clock.time_of(at), Task::Turn { side, run, number }),
                Wish::Connect { at, number } => self.schedule(clock.time_of(at), Task::Connect { side, run, number }),
                Wish::Complain(says) => {
                    self.report.broken += 1;
                    self.report.fail(says);
                }
            }
        }
        self.transmit(side);
    }

    fn transmit(&mut self, side: usize) {
        let node = &mut self.nodes[side];
        let now = node.clock.read(self.now);
        let Some(gateway) = &mut node.gateway else { return };
        let mut mocking = Vec::new();
        while let Some(transmit) = gateway.endpoint.poll_transmit(now, &mut self.buffer) {
            for bytes in self.buffer[..transmit.size].chunks(transmit.segment_size) {
                if Strangers::own(&transmit.to) {
                    self.strangers.answered += bytes.len() as u64;
                    continue;
                }
                let datagram = Datagram { from: node.address, to: transmit.to, bytes: bytes.to_vec() };
                self.sent += 1;
                self.strangers.see(&datagram);
                if node.mocked_until > self.now {
                    mocking.extend(self.strangers.forge_cookie(self.now, &key(HUB), &datagram));
                }
                self.air.send(self.now, usize::from(side != HUB), datagram);
            }
        }
        for datagram in mocking {
            self.air.send(self.now, 0, datagram);
        }
    }

    fn judge(&mut self) {
        let mut report = std::mem::take(&mut self.report);
        report.cases = 1;
        for (transfer, number) in self.transfers.iter_mut().zip(0..) {
            // Who ends with the last connection ends none.
            let was_cut = transfer.plan.sides.iter().any(|side| self.nodes[*side].cuts > 0);
            transfer.is_excused |= transfer.saw_gateway_end && (was_cut || self.plan.outlasts);
            judge_transfer(&mut report, transfer, number);
        }
        for (streams, buffered, held) in self.leaks() {
            report.leaks.streams += streams;
            report.leaks.buffered_bytes += buffered;
            report.leaks.connections += held;
            if (streams, buffered, held) != (0, 0, 0) {
                report.fail(format!("{streams} streams, {buffered} bytes in buffers and {held} connections were left"));
            }
        }
        let Strangers { provoked, answered, .. } = self.strangers;
        if answered > 3 * provoked {
            report.broken += 1;
            report.fail(format!("strangers were sent {answered} bytes for {provoked}"));
        }
        self.report = report;
        for side in 0..self.nodes.len() {
            if let Some(gateway) = self.nodes[side].gateway.take() {
                self.check_restarts(side, &gateway);
            }
        }
    }
}

fn judge_transfer(report: &mut Report, transfer: &Transfer, number: u32) {
    report.transfers += 1;
    report.delivered_bytes += transfer.hosts.iter().map(|host| host.received).sum::<u64>();
    let wrong = transfer.wrong_bytes();
    if wrong > 0 {
        report.wrong_bytes += wrong;
        report.fail(format!("transfer {number}: {wrong} bytes were wrong or missing: {transfer:?}"));
    } else if !transfer.is_over() {
        report.hangs += 1;
        report.fail(format!("transfer {number} hangs: {transfer:?}"));
    } else if transfer.is_complete() {
        report.completed += 1;
    } else if transfer.is_excused {
        report.ended_early += 1;
    } else {
        report.broken += 1;
        report.fail(format!("transfer {number} ended early for no reason: {transfer:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{CLIENT, SERVER};

    /// A transfer after which all is well.
    fn well() -> Transfer {
        let mut plan = Plan::draw(1).transfers[0];
        (plan.bytes, plan.abort, plan.stall) = ([3000, 2000], None, None);
        let mut transfer = Transfer::new(plan, 0);
        for role in [CLIENT, SERVER] {
            let mut bytes = vec![0; 5000];
            let length = transfer.hosts[role].offer(&mut bytes);
            assert_eq!(transfer.hosts[1 - role].take(Instant::ZERO, &bytes[..length]), length);
        }
        for host in &mut transfer.hosts {
            (host.is_connected, host.has_ended, host.saw_end) = (true, true, true);
        }
        transfer
    }

    fn judged(change: impl FnOnce(&mut Transfer)) -> Report {
        let mut transfer = well();
        change(&mut transfer);
        let mut report = Report::new(1);
        judge_transfer(&mut report, &transfer, 0);
        report
    }

    #[test]
    fn a_complete_transfer_is_sound_and_everything_else_is_told() {
        let report = judged(|_| {});
        assert!(report.is_sound() && report.completed == 1, "{report:?}");
        let wrong = judged(|transfer| transfer.hosts[SERVER].wrong = 1);
        assert_eq!((wrong.is_sound(), wrong.wrong_bytes), (false, 1));
        let early = judged(|transfer| transfer.hosts[CLIENT].received -= 7);
        assert_eq!((early.is_sound(), early.wrong_bytes), (false, 7), "an end in order before the last byte");
        let hanging = judged(|transfer| transfer.hosts[CLIENT].saw_end = false);
        assert_eq!((hanging.is_sound(), hanging.hangs), (false, 1));
        let broken =
            judged(|transfer| (transfer.hosts[CLIENT].saw_end, transfer.hosts[CLIENT].was_reset) = (false, true));
        assert_eq!((broken.is_sound(), broken.broken), (false, 1));
        let excused = judged(|transfer| {
            (transfer.hosts[CLIENT].saw_end, transfer.hosts[CLIENT].was_reset) = (false, true);
            transfer.is_excused = true;
        });
        assert_eq!((excused.is_sound(), excused.ended_early), (true, 1));
    }

    #[test]
    fn what_is_left_over_is_told() {
        let mut world = World::new(Plan::draw(1));
        world.run_until(world.start + Duration::from_secs(600), |world| {
            world.transfers.iter().any(|transfer| transfer.hosts[SERVER].received > 0)
        });
        world.judge();
        assert!(world.report.leaks.streams > 0 && world.report.leaks.connections > 0, "{:?}", world.report);
        assert!(world.report.hangs > 0);
    }
}
