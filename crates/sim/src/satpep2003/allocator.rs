//! The receiving gateway's division of the link among its connections (Velenis et al. 2003, section 2.1).
//!
//! Windows are in segments and keep their fraction. At the end of each epoch what the link could still carry, AW, is given
//! to the connections that sent data in it, by equation (1), up to the limit of equation (2). Where the paper is silent or
//! its rule does harm:
//! - AW below zero (a capacity that fell, a measurement above it) is taken in proportion to the windows: by equation (1)
//!   small windows would lose most.
//! - AW above the sum of the windows would make equation (1) overshoot: the excess is given in equal parts.
//! - At full load AW is zero and equation (1) moves nothing: a newcomer would keep its one segment. Equation (2) lets it in
//!   where the limit has room (`headroom`), and `kappa`, which the paper does not have, moves every window towards the mean.
//! - A connection that opens is assigned its part of the free capacity at once, a lone one all of it, and that counts as given while
//!   it cannot be seen in use yet. Those that open within that time are equal from their first data on, though the first of
//!   them was allocated more.

use super::meter::{Measurement, Meter};
use std::collections::VecDeque;
use units::{Bytes, Duration, Instant, Rate};

/// How an [`Allocator`] divides a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Division {
    /// The link's capacity.
    pub capacity: Rate,
    /// Its propagation delay, there and back: `del`.
    pub rtt: Duration,
    /// How throughput is measured.
    pub measurement: Measurement,
    /// Between two measurements.
    pub epoch: Duration,
    /// By how much all windows together may exceed the bandwidth-delay product: `c` of equation (2), 0 to 1.
    pub headroom: f64,
    /// The part of its distance to the mean by which a window moves in an epoch.
    pub kappa: f64,
    /// For how long what was given is subtracted from what is free.
    pub settles: Duration,
    /// A connection without data for so long falls back to one segment.
    pub idle: Duration,
}

impl Division {
    /// As the paper has it: c = 1, no kappa, an epoch of one round trip.
    pub fn paper(capacity: Rate, rtt: Duration) -> Self {
        // A link without delay still has epochs.
        let epoch = rtt.max(Duration::from_millis(1));
        Self {
            capacity,
            rtt,
            measurement: Measurement::Window,
            epoch,
            headroom: 1.0,
            kappa: 0.0,
            settles: rtt,
            idle: (epoch * 2).max(Duration::from_secs(1)),
        }
    }

    /// As one would deploy it: a short standing queue, newcomers let in within some round trips, nothing given twice.
    pub fn deploy(capacity: Rate, rtt: Duration) -> Self {
        let paper = Self::paper(capacity, rtt);
        Self { headroom: 0.1, kappa: 0.25, settles: rtt + paper.epoch, ..paper }
    }

    /// Bandwidth times delay in bytes.
    fn product(&self) -> f64 {
        self.capacity.as_bps() as f64 * self.rtt.as_secs_f64() / 8.0
    }

    /// Equation (2) for one of `n` connections with packets of `packet` bytes.
    fn most(&self, n: usize, packet: f64) -> f64 {
        model::satpep::greatest_window(self.product(), self.headroom, n, packet)
    }
}

/// A connection of an [`Allocator`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionId(u32);

/// Divides one direction of a link among the connections that come in over it. It has no timer: each method first ends the
/// epochs that are over.
#[derive(Debug)]
pub struct Allocator {
    division: Division,
    connections: Vec<Connection>,
    free: Vec<ConnectionId>,
    meter: Meter,
    epoch_ends: Instant,
    /// Of the epoch before this one, in bit/s.
    throughput: f64,
    /// Connections that were active in the epoch before this one or are in this one, and those that opened in this one.
    recent: usize,
    /// What was given lately at the ends of epochs, in bytes.
    given: VecDeque<(Instant, f64)>,
    /// Connections that opened lately.
    opened: VecDeque<(Instant, ConnectionId)>,
}

#[derive(Debug, Clone)]
struct Connection {
    /// Bytes of a full segment's packet on the link.
    packet: f64,
    /// The window in segments: `rwnd`.
    window: f64,
    /// What it was assigned at its opening.
    first_window: f64,
    has_data: bool,
    /// Data came in this epoch.
    is_active: bool,
    is_recent: bool,
    is_open: bool,
    last_data: Instant,
}

impl Allocator {
    /// A link without connections.
    pub fn new(division: Division) -> Self {
        Self {
            meter: Meter::new(division.measurement, division.capacity),
            epoch_ends: Instant::ZERO + division.epoch,
            division,
            connections: Vec::new(),
            free: Vec::new(),
            throughput: 0.0,
            recent: 0,
            given: VecDeque::new(),
            opened: VecDeque::new(),
        }
    }

    /// A packet has arrived over the link, whatever it is.
    #[inline]
    pub fn on_packet(&mut self, now: Instant, size: Bytes) {
        self.end_epochs(now);
        self.meter.on_packet(now, size);
    }

    /// A connection opens whose full segments are packets of `packet` bytes on the link.
    pub fn open(&mut self, now: Instant, packet: Bytes) -> ConnectionId {
        self.end_epochs(now);
        let packet = packet.as_u64().max(1) as f64;
        let n = self.recent + 1;
        self.settle(now);
        let free = (self.unused() - self.given_in_epochs()).max(0.0);
        let part = |free: f64| (1.0 + free / (n as f64 * packet)).min(self.division.most(n, packet));
        let (window, first_window) = (part(free), part((free - self.given_to_opened()).max(0.0)));
        for (_, id) in &self.opened {
            let earlier = &mut self.connections[id.0 as usize];
            earlier.window = earlier.window.min((window * packet / earlier.packet).max(1.0));
        }
        self.recent += 1;
        let opened = Connection {
            packet,
            window,
            first_window,
            has_data: false,
            is_active: false,
            is_recent: true,
            is_open: true,
            last_data: now,
        };
        let id = match self.free.pop() {
            Some(id) => {
                self.connections[id.0 as usize] = opened;
                id
            }
            None => {
                self.connections.push(opened);
                ConnectionId(self.connections.len() as u32 - 1)
            }
        };
        self.opened.push_back((now, id));
        id
    }

    /// A data segment of the connection has arrived.
    #[inline]
    pub fn on_data(&mut self, now: Instant, id: ConnectionId) {
        self.end_epochs(now);
        let connection = &mut self.connections[id.0 as usize];
        (connection.has_data, connection.is_active) = (true, true);
        connection.last_data = now;
        if !std::mem::replace(&mut connection.is_recent, true) {
            self.recent += 1;
        }
    }

    /// The connection's window in whole segments, at least one.
    #[inline]
    pub fn window(&mut self, now: Instant, id: ConnectionId) -> u64 {
        self.end_epochs(now);
        let connection = &self.connections[id.0 as usize];
        let window = if connection.has_data { connection.window } else { connection.first_window };
        window as u64
    }

    /// The connection is over; its number may be given to another.
    pub fn close(&mut self, id: ConnectionId) {
        let connection = &mut self.connections[id.0 as usize];
        if std::mem::replace(&mut connection.is_open, false) {
            self.recent -= usize::from(connection.is_recent);
            (connection.is_active, connection.is_recent) = (false, false);
            self.free.push(id);
            self.opened.retain(|(_, opened)| *opened != id);
        }
    }

    /// AW: what the link could carry beyond what it did, less what was given since, in bytes.
    fn available(&mut self, now: Instant) -> f64 {
        self.settle(now);
        let unused = self.unused();
        // What was given is not taken back for being unseen.
        (unused - self.given_in_epochs() - self.given_to_opened()).max(unused.min(0.0))
    }

    /// Forgets what was given so long ago that it shows in the throughput.
    fn settle(&mut self, now: Instant) {
        let settles = self.division.settles;
        while self.given.front().is_some_and(|(at, _)| *at + settles <= now) {
            self.given.pop_front();
        }
        while self.opened.front().is_some_and(|(at, _)| *at + settles <= now) {
            self.opened.pop_front();
        }
    }

    fn unused(&self) -> f64 {
        (self.division.capacity.as_bps() as f64 - self.throughput) * self.division.rtt.as_secs_f64() / 8.0
    }

    fn given_in_epochs(&self) -> f64 {
        self.given.iter().map(|(_, bytes)| bytes).sum()
    }

    /// What those hold that opened lately, in bytes.
    fn given_to_opened(&self) -> f64 {
        let windows = self.opened.iter().map(|(_, id)| &self.connections[id.0 as usize]);
        windows.map(|connection| connection.window.max(connection.first_window) * connection.packet).sum()
    }

    #[inline]
    fn end_epochs(&mut self, now: Instant) {
        while self.epoch_ends <= now {
            self.end_epoch(now);
        }
    }

    fn end_epoch(&mut self, now: Instant) {
        let (at, epoch) = (self.epoch_ends, self.division.epoch);
        // Epochs without a packet are all alike.
        let is_idle = self.meter.is_idle() && self.throughput == 0.0;
        let alike = if is_idle { now.since(at).as_nanos() / epoch.as_nanos() } else { 0 };
        let last = at + epoch * alike;
        self.throughput = self.meter.end_epoch(at, epoch);
        let available = self.available(at);
        self.distribute(at, available);
        self.recent = 0;
        for connection in self.connections.iter_mut().filter(|connection| connection.is_open) {
            if last.since(connection.last_data) >= self.division.idle {
                connection.window = 1.0;
            }
            connection.is_recent = std::mem::take(&mut connection.is_active);
            self.recent += usize::from(connection.is_recent);
        }
        self.epoch_ends = last + epoch;
    }

    /// Gives `available` bytes to the active connections.
    fn distribute(&mut self, now: Instant, available: f64) {
        let active = || self.connections.iter().filter(|connection| connection.is_active);
        let n = active().count();
        if n == 0 {
            return;
        }
        let sum: f64 = active().map(|connection| connection.window).sum();
        let held: f64 = active().map(|connection| connection.window * connection.packet).sum();
        let even = available.min(held);
        let mut given = 0.0;
        for connection in self.connections.iter_mut().filter(|connection| connection.is_active) {
            let (window, packet) = (connection.window, connection.packet);
            let increment = if available < 0.0 {
                available / packet * window / sum
            } else {
                model::satpep::increment(even, packet, window, sum, n) + (available - even) / (n as f64 * packet)
            };
            let towards_mean = self.division.kappa * (held / n as f64 / packet - window);
            connection.window = (window + increment + towards_mean).clamp(1.0, self.division.most(n, packet));
            given += (connection.window - window) * packet;
        }
        if given > 0.0 && self.division.settles > self.division.epoch {
            self.given.push_back((now, given));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: u64 = 1500;

    fn division() -> Division {
        Division::paper(Rate::from_bps(6_000_000), Duration::from_millis(550))
    }

    fn epoch_end(epoch: u64) -> Instant {
        Instant::from_nanos(epoch * 550_000_000)
    }

    /// A link of connections with these windows.
    fn allocator(division: Division, windows: &[f64]) -> (Allocator, Vec<ConnectionId>) {
        let mut allocator = Allocator::new(division);
        let ids: Vec<_> = windows.iter().map(|_| allocator.open(Instant::ZERO, Bytes::new(PACKET))).collect();
        allocator.opened.clear();
        for (connection, window) in allocator.connections.iter_mut().zip(windows) {
            connection.window = *window;
        }
        (allocator, ids)
    }

    /// All connections use their windows, as far as the link carries them, for so many epochs.
    fn run(allocator: &mut Allocator, ids: &[ConnectionId], from: u64, epochs: u64) -> Vec<f64> {
        for epoch in from..from + epochs {
            let now = epoch_end(epoch);
            ids.iter().for_each(|id| allocator.on_data(now, *id));
            let wanted: f64 =
                allocator.connections.iter().map(|connection| connection.window * connection.packet).sum();
            allocator.on_packet(now, Bytes::new(wanted.min(412_500.0) as u64));
        }
        allocator.end_epochs(epoch_end(from + epochs));
        allocator.connections.iter().map(|connection| connection.window).collect()
    }

    fn assert_close(found: &[f64], expected: &[f64], tolerance: f64) {
        let is_close = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() <= tolerance);
        assert!(is_close && found.len() == expected.len(), "{found:?}, not {expected:?}");
    }

    #[test]
    fn at_full_load_equation_1_freezes_and_kappa_moves_towards_the_mean() {
        let (mut frozen, ids) = allocator(division(), &[1.0, 1.0, 200.0]);
        assert_close(&run(&mut frozen, &ids, 0, 40), &[49.3, 49.3, 176.4], 0.05);

        let mut windows = [13.75; 21];
        windows[20] = 1.0;
        let (mut moving, ids) = allocator(Division { kappa: 0.25, ..division() }, &windows);
        let mut done = 0;
        for (epochs, newcomer) in [(1, 4.04), (5, 10.26), (10, 12.46), (20, 13.10)] {
            let found = run(&mut moving, &ids, done, epochs - done);
            done = epochs;
            assert!((found[20] - newcomer).abs() < 0.01, "{} after {epochs}, not {newcomer}", found[20]);
            assert!((found.iter().sum::<f64>() - 276.0).abs() < 1e-6);
        }
    }

    #[test]
    fn deviations_from_the_mean_shrink_by_the_free_part() {
        let (mut link, _) = allocator(Division { headroom: 100.0, ..division() }, &[10.0, 20.0, 170.0]);
        let mut largest = Vec::new();
        for _ in 0..4 {
            let windows: Vec<f64> = link.connections.iter().map(|connection| connection.window).collect();
            let mean = windows.iter().sum::<f64>() / 3.0;
            largest.push(windows.iter().map(|window| (window - mean).abs()).fold(0.0, f64::max));
            let quarter = windows.iter().sum::<f64>() * 1500.0 / 4.0;
            link.connections.iter_mut().for_each(|connection| connection.is_active = true);
            link.distribute(Instant::ZERO, quarter);
        }
        assert_close(&largest, &[103.3, 77.5, 58.1, 43.6], 0.05);
    }

    #[test]
    fn what_is_missing_is_taken_in_proportion() {
        let (mut link, _) = allocator(Division { headroom: 100.0, ..division() }, &[10.0, 20.0, 170.0]);
        link.connections.iter_mut().for_each(|connection| connection.is_active = true);
        link.distribute(Instant::ZERO, -150_000.0);
        let windows: Vec<f64> = link.connections.iter().map(|connection| connection.window).collect();
        assert_close(&windows, &[5.0, 10.0, 85.0], 1e-9);
    }

    #[test]
    fn a_lone_newcomer_gets_the_whole_link_and_those_that_open_with_it_share_alike() {
        let mut link = Allocator::new(division());
        let now = Instant::from_nanos(1_000_000);
        let ids: Vec<_> = (0..20).map(|_| link.open(now, Bytes::new(PACKET))).collect();
        let windows: Vec<_> = ids.iter().map(|id| link.window(now, *id)).collect();
        assert_eq!((windows[0], windows[1..].iter().sum::<u64>()), (276, 19), "no more than there is");
        ids.iter().for_each(|id| link.on_data(now + Duration::from_millis(500), *id));
        for at in [now + Duration::from_millis(500), epoch_end(1)] {
            assert!(ids.iter().all(|id| link.window(at, *id) == 14), "{link:?}");
        }
    }

    #[test]
    fn an_idle_connection_falls_back_to_one_segment_however_long_nothing_happens() {
        let epoch = Duration::from_millis(50);
        let (mut link, ids) = allocator(Division { epoch, ..division() }, &[100.0]);
        link.on_data(epoch_end(1), ids[0]);
        let before = link.window(epoch_end(2), ids[0]);
        assert!(before >= 100, "{before}");
        assert_eq!(link.window(Instant::from_nanos(1 << 62), ids[0]), 1);
    }
}
