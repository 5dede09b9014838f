//! The senders of ns-2 2.35's one-way agents, as its default parameters make them: `Agent/TCP` (Tahoe), `Reno`, `Newreno`,
//! `Sack1` and `Vegas`. The profile `ns2` uses them, so that runs can be compared with ns-2's one by one.
//!
//! They differ from the standards in many small things at once: windows in packets with a fraction, one packet timed at a
//! time in ticks of 10 ms, a window that grows though it is not used, everything sent again after a timeout, a counter for
//! the pipe; and the small things decide when a run times out. So they are senders of their own beside
//! [`crate::sender`], not parameters of it.
//!
//! An agent counts packets. Packet 0 is the SYN and each further one carries a full segment, or the rest of what the
//! application has written. ns-2's Vegas sends no SYN and no headers: here its packet 0 is a SYN that carries the first
//! segment.
//!
//! To add one: write its file with a type that implements [`variant::Variant`], and add its line to [`agent::Agent::new`].

mod agent;
mod clock;
mod holes;
mod newreno;
mod packets;
mod reno;
mod sack;
mod state;
mod tahoe;
mod variant;
mod vegas;

use crate::config::Config;
use crate::control::{LossState, Window};
use crate::kinds::Ns2Agent;
use crate::segment::{Flags, Segment};
use crate::sender::{Counters, DataKind, Outgoing};
use agent::Agent;
use clock::Bounds;
use packets::Packets;
use state::{Ack, Action, Parameters, State};
use std::sync::Arc;
use units::{CounterRandom, Duration, Instant};

/// Ranges that a SACK option holds at most.
const BLOCKS: usize = 4;

/// The sending half of a connection in the manner of ns-2.
#[derive(Debug)]
pub(crate) struct Sender {
    config: Arc<Config>,
    kind: Ns2Agent,
    agent: Agent,
    packets: Packets,
    /// The end of what the application wrote, and whether that is all.
    end: u64,
    is_finished: bool,
    /// The peer takes packets that begin below this.
    edge: u64,
    /// The agent knows of all packets before this; zero if it is to be told again.
    supplied_to: u64,
    /// This end sends the SYN.
    opens: bool,
    /// Expiries of the timer since something new was acknowledged.
    expiries: u32,
    persist: Option<Persist>,
    counters: Counters,
}

/// A closed window is probed (ns-2's receivers never close theirs).
#[derive(Debug, Clone, Copy)]
struct Persist {
    at: Instant,
    wait: Duration,
    is_due: bool,
}

impl Sender {
    /// The sender that the configuration asks for, if it is one of ns-2's.
    pub(crate) fn new(config: &Arc<Config>) -> Option<Self> {
        let kind = config.ns2_agent()?;
        Some(Self {
            kind,
            agent: Agent::new(kind, &parameters(config)),
            // The SYN is nothing that an end sends which does not open the connection.
            packets: Packets::new(0, 1),
            end: 1,
            is_finished: false,
            edge: 1,
            supplied_to: 0,
            opens: false,
            expiries: 0,
            persist: None,
            counters: Counters::default(),
            config: config.clone(),
        })
    }

    /// This end opens the connection: the SYN is its first packet.
    pub(crate) fn open(&mut self) {
        self.opens = true;
        self.supplied_to = 0;
        self.packets = Packets::new(0, 0);
        if self.kind == Ns2Agent::Vegas {
            // Without a handshake, a window of two after a timeout sends two packets before the first is answered.
            self.edge = 1 + self.agent.state.window * u64::from(self.config.mss);
        }
        self.supply();
    }

    /// The handshake is over, and the peer takes `window` bytes.
    pub(crate) fn start(&mut self, window: u32) {
        self.edge = self.edge.max(1 + u64::from(window));
        self.supplied_to = 0;
        if !self.opens {
            let numbered_from = u64::from(self.kind != Ns2Agent::Vegas);
            self.packets = Packets::new(numbered_from, 1);
            if numbered_from > 0 {
                self.agent.state.skip_first();
            }
        }
        self.supply();
    }

    /// Tells the agent how many packets there are; new ones may leave.
    fn supply(&mut self) {
        let state = &mut self.agent.state;
        let limit = self.end.min(self.edge);
        if limit == self.supplied_to {
            return;
        }
        self.supplied_to = limit;
        let available = self.packets.number_after(limit, u64::from(self.config.mss)).max(u64::from(self.opens));
        if available > state.available {
            state.available = available;
            state.may_send(u64::MAX);
        }
    }

    pub(crate) fn write_space(&self) -> u64 {
        let held = self.end - self.packets.una().clamp(1, self.end);
        if self.is_finished { 0 } else { self.config.send_buffer.as_u64().saturating_sub(held) }
    }

    /// Bytes of the application's that have never been sent.
    pub(crate) fn unsent(&self) -> u64 {
        self.end.saturating_sub(self.nxt())
    }

    pub(crate) fn write(&mut self, bytes: u64) -> u64 {
        let taken = bytes.min(self.write_space());
        self.end += taken;
        self.supply();
        self.agent.state.may_send(u64::MAX);
        taken
    }

    pub(crate) fn finish(&mut self) {
        self.is_finished = true;
    }

    pub(crate) fn is_done(&self) -> bool {
        self.is_finished && self.packets.una() >= self.end
    }

    pub(crate) fn acknowledged(&self) -> u64 {
        self.packets.una().clamp(1, self.end) - 1
    }

    /// The end of what was ever sent.
    pub(crate) fn nxt(&self) -> u64 {
        self.packets.nxt()
    }

    /// Bytes of headers of the segments with data, where they are not the usual ones.
    pub(crate) fn mss(&self) -> u32 {
        self.config.mss
    }

    pub(crate) fn data_header(&self) -> Option<u8> {
        (self.kind == Ns2Agent::Vegas).then_some(0)
    }

    pub(crate) fn on_ack(&mut self, now: Instant, segment: &Segment) {
        if segment.ack > self.packets.nxt() {
            return;
        }
        let edge = segment.ack + u64::from(segment.window);
        if edge > self.edge {
            self.edge = edge;
            self.persist = None;
        }
        let una = self.packets.una();
        let is_pure = segment.len == 0 && !segment.has(Flags::FIN) && self.agent.state.has_outstanding();
        if segment.ack > una || is_pure {
            self.digest(now, segment);
        } else {
            self.supply();
        }
    }

    fn digest(&mut self, now: Instant, segment: &Segment) {
        let is_old = segment.ack < self.packets.una();
        let before = self.agent.state.una;
        let una = self.packets.acknowledge(segment.ack);
        if self.agent.state.may_run_out(una) {
            self.supply();
        }
        let mut sacked = [(0, 0); BLOCKS];
        let mut blocks = 0;
        if !segment.sack.is_empty() && !segment.has(Flags::NACK) {
            for (slot, block) in sacked.iter_mut().zip(segment.sack_blocks()) {
                *slot = (self.packets.number_of(block.start), self.packets.number_of(block.end));
                blocks += 1;
            }
        }
        let una = if is_old { before.saturating_sub(1) } else { una };
        self.agent.handle_ack(&Ack { now, una, sacked: &sacked[..blocks] });
        if una > before {
            self.expiries = 0;
        }
    }

    #[inline]
    pub(crate) fn next_at(&self) -> Instant {
        let timer = self.agent.state.clock.expires().unwrap_or(Instant::FAR_FUTURE);
        if let Some(persist) = &self.persist { timer.min(persist.at) } else { timer }
    }

    /// Acts on timers that have expired. Returns `false` when the peer has not answered for too long.
    pub(crate) fn on_timers(&mut self, now: Instant) -> bool {
        if let Some(persist) = self.persist.as_mut().filter(|persist| persist.at <= now) {
            persist.is_due = true;
            persist.wait = (persist.wait * 2).min(Duration::from_secs(60));
            persist.at = now + persist.wait;
        }
        if self.agent.state.clock.expires().is_some_and(|at| at <= now) {
            self.expiries += u32::from(self.agent.state.has_outstanding());
            if self.expiries > self.config.max_expiries {
                return false;
            }
            self.agent.handle_timeout(now);
        }
        true
    }

    #[inline]
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Outgoing> {
        if let Some(persist) = self.persist.as_mut().filter(|persist| persist.is_due) {
            persist.is_due = false;
            self.counters.window_probes += 1;
            return Some(Outgoing::WindowProbe { seq: self.packets.una() - 1 });
        }
        if self.agent.state.has_ended() { None } else { self.find_packet(now) }
    }

    fn find_packet(&mut self, now: Instant) -> Option<Outgoing> {
        let Some(packet) = self.agent.poll_transmit(now) else {
            self.watch_window(now);
            return None;
        };
        Some(self.send(now, packet))
    }

    #[inline]
    fn send(&mut self, now: Instant, packet: u64) -> Outgoing {
        if self.counters.data_segments == 0 {
            self.agent.state.clock.set_phase(self.phase(now));
        }
        self.counters.data_segments += 1;
        if packet < self.packets.count() {
            self.counters.retransmissions += 1;
        } else {
            let syn = u64::from(packet == 0 && self.opens);
            let data = if syn == 1 && self.kind != Ns2Agent::Vegas { 0 } else { u64::from(self.config.mss) };
            self.packets.cut((self.packets.nxt() + syn + data).min(self.end));
        }
        let bytes = self.packets.bytes_of(packet);
        if bytes.start == 0 {
            Outgoing::Syn { len: (bytes.end - 1) as u32 }
        } else {
            Outgoing::Data { seq: bytes.start, len: (bytes.end - bytes.start) as u32, fin: false, kind: DataKind::New }
        }
    }

    /// How long before the start of time the clock ticked last: drawn with the seed and the time of the first packet.
    fn phase(&self, now: Instant) -> Duration {
        let drawn = CounterRandom::new(self.config.seed, 0).at(now.as_nanos()) % clock::TICK;
        self.config.tuning.clock_phase.unwrap_or(Duration::from_nanos(drawn))
    }

    /// Only the peer's window keeps data from leaving, and nothing is outstanding that could tell when it opens.
    fn watch_window(&mut self, now: Instant) {
        let is_closed = self.packets.nxt() < self.end && self.packets.nxt() >= self.edge;
        if is_closed && !self.agent.state.has_outstanding() && self.persist.is_none() {
            let wait = self.agent.state.clock.timeout();
            self.persist = Some(Persist { at: now + wait, wait, is_due: false });
        }
    }

    pub(crate) fn window(&self) -> Window {
        Window { cwnd: self.agent.state.cwnd, ssthresh: self.agent.state.ssthresh as f64 }
    }

    pub(crate) fn flight(&self) -> u64 {
        self.packets.nxt() - self.packets.una()
    }

    pub(crate) fn srtt(&self) -> Duration {
        self.agent.state.clock.smoothed()
    }

    pub(crate) fn min_rtt(&self) -> Duration {
        self.agent.state.clock.least()
    }

    pub(crate) fn rto(&self) -> Duration {
        self.agent.state.clock.timeout()
    }

    pub(crate) fn state(&self) -> LossState {
        let state = &self.agent.state;
        match state.action {
            Action::Timeout if state.una < state.recover => LossState::Timeout,
            Action::Duplicates if state.una < state.recover => LossState::Recovery,
            _ => LossState::Open,
        }
    }

    pub(crate) fn counters(&self) -> Counters {
        let State { timeouts, recoveries, .. } = self.agent.state;
        Counters { timeouts, recoveries, ..self.counters }
    }
}

fn parameters(config: &Config) -> Parameters {
    Parameters {
        window: (config.window_packets() as u64).max(1),
        ssthresh: config.start_ssthresh() as u64,
        initial_window: config.initial_window,
        vegas: config.tuning.vegas,
        timeout: Bounds::of(&config.rtt),
    }
}
