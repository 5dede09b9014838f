//! Two connections, and a network that does to segments what a schedule says, which checks at each step that windows hold, that no timer
//! lies in the past and that time does not stand still.

use std::sync::Arc;
use tcp::control::LossState;
use tcp::{Config, Connection, Counters, Event, Failure, Flags, Segment};
use testkit::Agenda;
use units::{Duration, Instant};

/// The delay one way of what nothing happens to.
pub const DELAY: Duration = Duration::from_millis(40);

/// What happens to a segment.
#[derive(Debug, Clone, Copy)]
pub enum Fate {
    Arrives,
    Lost,
    /// So many milliseconds later than others.
    Late(u64),
    /// As it should, and again so many milliseconds later.
    Repeated(u64),
}

/// One end: what it sent to whom, and what its user has read.
pub struct End {
    pub connection: Connection,
    fates: Vec<Fate>,
    sent: usize,
    pub read: u64,
    /// When it last did.
    pub read_at: Instant,
    /// The end of what it has sent, and the right edge of the window that it was told.
    sent_to: u64,
    edge: u64,
    pub failure: Option<Failure>,
    has_closed: u32,
    has_peer_finished: u32,
}

pub struct Network {
    /// When it began.
    start: Instant,
    pub now: Instant,
    pub ends: [End; 2],
    on_the_way: Agenda<(usize, Segment)>,
    mss: f64,
    /// Duplicates open the window during a recovery (RFC 5681, section 3.2, step 4; all of ns-2's agents), by more than is told of it.
    inflates: bool,
    /// The least congestion window. ns-2's agents halve one of a packet, and Vegas deflates it to nothing after a timeout (`slowdown`
    /// in tcp.cc, `recv` in tcp-vegas.cc, ns-2 2.35).
    least_cwnd: f64,
    /// The tail of what was sent is probed.
    probes: bool,
}

impl Network {
    pub fn new(config: Config, fates: [Vec<Fate>; 2], bytes: [u64; 2]) -> Self {
        Self::starting_at(Instant::ZERO, config, fates, bytes)
    }

    pub fn starting_at(start: Instant, config: Config, fates: [Vec<Fate>; 2], bytes: [u64; 2]) -> Self {
        let (mss, inflates) = (f64::from(config.mss), config.bare || !config.recovery.needs_sack);
        let least_cwnd = if config.bare { 0.0 } else { 1.0 };
        let probes = config.recovery.by_time;
        let config = Arc::new(config);
        let connections = [Connection::connect(config.clone(), start), Connection::listen(config.clone())];
        let mut fates = fates.into_iter();
        let mut ends = connections.map(|connection| End {
            connection,
            fates: fates.next().unwrap_or_default(),
            sent: 0,
            read: 0,
            read_at: start,
            sent_to: 0,
            edge: 0,
            failure: None,
            has_closed: 0,
            has_peer_finished: 0,
        });
        for (end, bytes) in ends.iter_mut().zip(bytes) {
            assert_eq!(end.connection.write(bytes), bytes);
            end.connection.finish();
        }
        Self { start, now: start, ends, on_the_way: Agenda::new(), mss, inflates, least_cwnd, probes }
    }

    /// Until nothing is left to happen.
    pub fn run(&mut self) -> Result<(), String> {
        let mut at_this_instant = 0;
        loop {
            self.exchange()?;
            let timers = self.ends.iter().filter_map(|end| end.connection.next_timeout()).min();
            if timers.is_some_and(|at| at < self.now) {
                return Err(format!("a timer in the past: {timers:?} at {:?}", self.now));
            }
            let Some(next) = [timers, self.on_the_way.next_timeout()].into_iter().flatten().min() else {
                return Ok(());
            };
            at_this_instant = if next > self.now { 0 } else { at_this_instant + 1 };
            if at_this_instant > 300 {
                return Err(format!("time stands still at {next:?}"));
            }
            if next > self.start + Duration::from_secs(7_200) {
                return Err(format!("no end in sight: {timers:?} {:?}", self.ends[0].connection.metrics()));
            }
            self.now = next;
            if let Some((to, segment)) = self.on_the_way.poll(next) {
                self.arrive(to, &segment);
            } else {
                let due = self.ends.iter_mut().filter(|end| end.connection.next_timeout().is_some_and(|at| at <= next));
                due.for_each(|end| end.connection.handle_timeout(next));
            }
        }
    }

    /// How long the end that opened the connection took to have its last byte read.
    pub fn took(&self) -> Duration {
        self.ends[1].read_at.since(self.start)
    }

    /// What the end that opened the connection has done.
    pub fn counters(&self) -> Counters {
        self.ends[0].connection.metrics().counters
    }

    fn arrive(&mut self, to: usize, segment: &Segment) {
        if segment.has(Flags::ACK) {
            self.ends[to].edge = self.ends[to].edge.max(segment.ack + u64::from(segment.window));
        } else if segment.has(Flags::SYN) {
            self.ends[to].edge = 1 + u64::from(segment.window);
        }
        self.ends[to].connection.handle_segment(self.now, segment);
    }

    /// The users read, and what may leave does.
    fn exchange(&mut self) -> Result<(), String> {
        for from in [0, 1] {
            self.serve_user(from);
            let mut burst = 0;
            while let Some(segment) = self.ends[from].connection.poll_transmit(self.now) {
                self.check(from, &segment, burst == 0)?;
                self.send(from, segment);
                burst += 1;
                if burst > 10_000 {
                    return Err(format!("it sends without end at {:?}", self.now));
                }
            }
        }
        Ok(())
    }

    fn serve_user(&mut self, number: usize) {
        let end = &mut self.ends[number];
        while let Some(event) = end.connection.poll_event() {
            match event {
                Event::Failed(failure) => end.failure = Some(failure),
                Event::Closed => end.has_closed += 1,
                Event::PeerFinished => end.has_peer_finished += 1,
                _ => {}
            }
        }
        let bytes = end.connection.read(self.now, u64::MAX);
        end.read += bytes;
        if bytes > 0 {
            end.read_at = self.now;
        }
    }

    /// New data stay within the peer's window and the congestion window, which is a segment at least.
    fn check(&mut self, from: usize, segment: &Segment, is_first: bool) -> Result<(), String> {
        let end = &mut self.ends[from];
        let metrics = end.connection.metrics();
        let window = metrics.window;
        if !(window.cwnd >= self.least_cwnd && window.cwnd.is_finite() && window.ssthresh >= 1.0) {
            return Err(format!("{window:?}"));
        }
        if metrics.in_flight > metrics.flight {
            return Err(format!("more in flight than outstanding: {metrics:?}"));
        }
        let to = segment.seq + u64::from(segment.len);
        let is_new = segment.len > 0 && to > end.sent_to && end.edge > 0;
        end.sent_to = end.sent_to.max(to);
        if is_new && to > end.edge {
            return Err(format!("beyond the window that ends at {}: {segment:?}", end.edge));
        }
        // Limited Transmit sends two segments beyond the congestion window (RFC 3042), a tail loss probe one, alone and whatever the window
        // (RFC 8985, section 7.3).
        let most = (window.cwnd + 3.0) * self.mss + 1.0;
        let is_told = !self.inflates || metrics.state == LossState::Open;
        let may_probe = self.probes && is_first;
        if is_new && is_told && !may_probe && metrics.in_flight as f64 > most {
            return Err(format!("beyond the congestion window: {metrics:?}"));
        }
        Ok(())
    }

    fn send(&mut self, from: usize, segment: Segment) {
        let end = &mut self.ends[from];
        let fate = end.fates.get(end.sent).copied().unwrap_or(Fate::Arrives);
        end.sent += 1;
        let arrival = self.now + DELAY;
        let late = |millis| arrival + Duration::from_millis(millis);
        let (first, second) = match fate {
            Fate::Arrives => (Some(arrival), None),
            Fate::Lost => (None, None),
            Fate::Late(millis) => (Some(late(millis)), None),
            Fate::Repeated(millis) => (Some(arrival), Some(late(millis))),
        };
        for at in [first, second].into_iter().flatten() {
            self.on_the_way.insert(at, (1 - from, segment));
        }
    }
}

/// What may end a connection where nobody resets or aborts.
fn is_lawful(failure: Failure) -> bool {
    matches!(failure, Failure::ConnectTimedOut | Failure::RetransmissionTimedOut)
}

pub fn judge(network: &Network, bytes: [u64; 2]) -> Result<(), String> {
    let failures = network.ends.iter().filter_map(|end| end.failure).collect::<Vec<_>>();
    for (end, bytes) in network.ends.iter().zip([bytes[1], bytes[0]]) {
        if end.read != end.connection.received() || end.read > bytes {
            return Err(format!("{} bytes were read of {} that were sent", end.read, bytes));
        }
        if failures.is_empty() && (end.read < bytes || end.has_closed != 1 || !end.connection.is_closed()) {
            return Err(format!("{} of {bytes} bytes arrived, closed {} times", end.read, end.has_closed));
        }
        if end.has_peer_finished > 1 {
            return Err("the end was told twice".to_owned());
        }
    }
    // The reset that follows a failure is the peer's reason.
    match failures.iter().find(|failure| !is_lawful(**failure) && **failure != Failure::Reset) {
        Some(failure) => Err(format!("{failure}")),
        None => Ok(()),
    }
}
