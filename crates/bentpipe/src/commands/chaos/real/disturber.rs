//! The faults of a pair of real gateways.

use super::Shared;
use super::pair::{CARRIERS, Carrier, PORT, Pair, TakeOver};
use crate::output::Failure;
use chaos::Dice;
use lab::{Family, Topology};
use replicas::Interrupt;
use std::io::Write;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

/// What makes an outage at a gateway: a table of its own, so that it is taken away as a whole. What arrives is lost; what leaves
/// is lost at the other end, since a host whose own firewall drops its SYN-ACK forgets the connection at once.
const OUTAGE: &str = "add table inet chaos_outage; \
    add chain inet chaos_outage in { type filter hook prerouting priority -400; }; \
    add rule inet chaos_outage in iifname sat drop";
const OUTAGE_OVER: &str = "delete table inet chaos_outage";

/// One that disturbs.
pub struct Disturber<'p, 't> {
    pair: &'p mut Pair<'t>,
    shared: &'p Shared,
    topology: &'t Topology,
    carrier: Carrier,
    /// Whether gateways die and stop: no connection ends early where they do not.
    restarts: bool,
    dice: Dice,
}

impl<'p, 't> Disturber<'p, 't> {
    /// For this pair.
    pub fn new(
        pair: &'p mut Pair<'t>,
        shared: &'p Shared,
        topology: &'t Topology,
        carrier: Carrier,
        dice: Dice,
    ) -> Self {
        // Each carrier in turn, with and without.
        let restarts = shared.seed / CARRIERS.len() as u64 % 2 == 1;
        Self { pair, shared, topology, carrier, restarts, dice }
    }

    /// Injects one fault after the other for so long; all are over then.
    ///
    /// # Errors
    /// If a gateway cannot be started again.
    pub fn disturb(mut self, lasts: Duration, interrupt: &Interrupt) -> Result<(), Failure> {
        let end = Instant::now() + lasts;
        while Instant::now() < end && !interrupt.is_set() {
            thread::sleep(self.dice.millis(100.0, 1500.0).into());
            let side = self.dice.index(2);
            match self.dice.index(9) {
                0 => self.outage(),
                1 => self.pause(side),
                2 if self.restarts => self.come_back(side, true)?,
                3 if self.restarts => self.come_back(side, false)?,
                2 | 3 => self.outage(),
                4 => self.garbage(side),
                5 => self.strangers_connect(side),
                6 => self.small_packets(),
                7 => self.upgrade(side)?,
                _ => self.reload(side),
            }
        }
        Ok(())
    }

    fn outage(&mut self) {
        self.shared.count_fault("outage");
        (0..2).for_each(|side| self.pair.nft(side, OUTAGE));
        thread::sleep(self.dice.millis(50.0, 3000.0).into());
        (0..2).for_each(|side| self.pair.nft(side, OUTAGE_OVER));
    }

    fn pause(&mut self, side: usize) {
        self.shared.count_fault("pause");
        self.pair.signal(side, "STOP");
        thread::sleep(self.dice.millis(10.0, 1500.0).into());
        self.pair.signal(side, "CONT");
    }

    /// A gateway is killed, or stops in order, and comes back.
    fn come_back(&mut self, side: usize, is_killed: bool) -> Result<(), Failure> {
        self.shared.set_away(true);
        if is_killed {
            self.shared.count_fault("kill");
            self.pair.kill(side);
        } else {
            self.shared.count_fault("stop");
            if !self.pair.stop(side).is_some_and(|status| status.success()) {
                let says = format!("gateway {side} did not stop in order: {}", self.pair.last_words());
                self.shared.fail(|report| report.leaks.processes += 1, says);
            }
            let left = self.pair.left_behind(side)?;
            if !left.is_empty() {
                let says = format!("gateway {side} left behind: {}", left.join("; "));
                self.shared.fail(|report| report.leaks.rules += left.len() as u64, says);
            }
        }
        thread::sleep(self.dice.millis(10.0, 2000.0).into());
        self.pair.spawn(side)?;
        if !self.pair.wait_until_up(Duration::from_secs(40)) {
            let says = format!("not up 40 s after a restart: {}", self.pair.last_words());
            self.shared.fail(|report| report.broken += 1, says);
        }
        self.shared.set_away(false);
        Ok(())
    }

    /// A new process takes over from a gateway: no connection ends for it.
    fn upgrade(&mut self, side: usize) -> Result<(), Failure> {
        match self.pair.take_over(side)? {
            TakeOver::Done => self.shared.count_fault("upgrade"),
            TakeOver::Busy => {}
            TakeOver::Failed(why) => {
                let says = format!("gateway {side} was not taken over: {why}; {}", self.pair.last_words());
                self.shared.fail(|report| report.broken += 1, says);
            }
        }
        Ok(())
    }

    /// A stranger behind a gateway sends garbage to its port.
    fn garbage(&mut self, side: usize) {
        self.shared.count_fault("garbage");
        let to = self.port_of(side);
        let count = self.dice.between(10, 3000);
        let mut dice = self.dice.clone();
        let send = move || {
            let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
            for _ in 0..count {
                let mut bytes: Vec<u8> = (0..dice.between(0, 1200)).map(|_| dice.word() as u8).collect();
                if let Some(first) = bytes.first_mut() {
                    *first %= 6;
                }
                // A full buffer loses garbage.
                let _ = socket.send_to(&bytes, to);
            }
            Some(())
        };
        let _ = self.host(side).run(send);
    }

    /// Strangers connect to a gateway's port, say something or nothing, and stay for a while.
    fn strangers_connect(&mut self, side: usize) {
        if !self.carrier.is_tcp {
            return self.garbage(side);
        }
        self.shared.count_fault("strangers");
        let to = self.port_of(side);
        let mut dice = self.dice.clone();
        let connect = move || {
            let mut open = Vec::new();
            for _ in 0..dice.between(1, 40) {
                let Ok(mut stream) = TcpStream::connect_timeout(&to, Duration::from_millis(500)) else { continue };
                let bytes: Vec<u8> = (0..dice.between(0, 80)).map(|_| dice.word() as u8).collect();
                // A gateway may have closed it already.
                let _ = stream.write_all(&bytes);
                open.push(stream);
            }
            thread::sleep(dice.millis(10.0, 800.0).into());
        };
        let _ = self.host(side).run(connect);
    }

    /// The path's MTU changes for good, at both ends at once, so that ICMP tells of it.
    fn small_packets(&mut self) {
        self.shared.count_fault("mtu");
        // Some below what IPv6 asks of every link.
        let (least, most) = if self.dice.chance(0.3) { (600, 1280) } else { (1300, 1500) };
        let mtu = self.dice.between(least, most).to_string();
        for site in [&self.topology.hub, &self.topology.terminals[0]] {
            let _ = site.gateway.command("ip").args(["link", "set", "sat", "mtu", &mtu]).status();
        }
    }

    /// A gateway reads its settings again, which have not changed.
    fn reload(&mut self, side: usize) {
        self.shared.count_fault("reload");
        self.pair.signal(side, "HUP");
    }

    fn host(&self, side: usize) -> &'t kernel::Namespace {
        if side == 0 { &self.topology.hub.host } else { &self.topology.terminals[0].host }
    }

    fn port_of(&self, side: usize) -> SocketAddr {
        let site = if side == 0 { &self.topology.hub } else { &self.topology.terminals[0] };
        SocketAddr::new(site.satellite_address(Family::V4), PORT)
    }
}
