//! The sending half of a connection: from the application's bytes to segments, through the window, the pacer and the
//! timers.

use crate::config::{Allocation, Config, HostDelays};
use crate::control::{Ack, LossState, Sent, Start};
use crate::deferral::{Deferral, Room};
use crate::handshake::Opening;
use crate::kinds;
use crate::outstanding::Outstanding;
use crate::recovery::Recovery;
use crate::rtt::Sampling;
use crate::scoreboard::Change;
use crate::segment::{Flags, Segment};
use crate::timestamp;
use crate::usage::{self, Usage};
use std::sync::Arc;
use units::{Bytes, CounterRandom, Duration, Instant};

/// The stream of the host's random delays.
const HOST_STREAM: u64 = 0x4057;

/// Data on their way out.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) out: Outstanding,
    pub(crate) recovery: Box<dyn Recovery>,
    /// The end of what the application wrote, and whether a FIN follows it.
    end: u64,
    is_finished: bool,
    /// The peer takes bytes below this, said a segment with the sequence number `window_from`.
    edge: u64,
    window_from: u64,
    /// The window of the latest acknowledgement, which tells a duplicate from a window update, and the largest so far.
    peer_window: u32,
    largest_window: u32,
    /// The peer reports what it has: only reports of something new are duplicates (RFC 6675, section 2).
    has_sack: bool,
    /// When the retransmission timer expires; [`Instant::FAR_FUTURE`] while it does not run.
    timeout: Instant,
    persist: Option<Persist>,
    /// Expiries of either timer since the peer was last heard of.
    unanswered: u32,
    /// Nothing leaves before: the host is not ready yet. Zero if it is.
    held_until: Instant,
    /// How often it was not.
    holds: u32,
    /// The next segment may leave at this time (pacing), and one waits for it.
    pace_at: Instant,
    waits_for_pacer: bool,
    usage: Usage,
    /// New data has left of which `usage` does not know yet.
    has_sent: bool,
    /// Nothing has changed since there was nothing to send.
    is_settled: bool,
    last_sent_at: Instant,
    deferral: Deferral,
    /// The segment being timed and when it left (one at a time).
    timed: Option<(u64, Instant)>,
    pub(crate) counters: Counters,
}

/// What a sender has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Segments with payload sent, retransmissions included; of the profile ns2, packets as ns-2 counts them, its SYN included.
    pub data_segments: u64,
    /// Data segments sent again.
    pub retransmissions: u64,
    /// Expiries of the retransmission timer, that of the handshake included (RFC 6298, section 5).
    pub timeouts: u64,
    /// Recoveries begun by fast retransmit.
    pub recoveries: u64,
    /// Probes of a closed window.
    pub window_probes: u64,
}

/// The timer of a closed window (RFC 9293, section 3.8.6.1).
#[derive(Debug, Clone, Copy)]
struct Persist {
    at: Instant,
    wait: Duration,
    /// A probe leaves next, or what there is room for, be it little.
    is_due: bool,
}

/// What is to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outgoing {
    /// The SYN, where the sending half takes care of it, and payload with it.
    Syn { len: u32 },
    /// Payload from `seq`, and a FIN behind it.
    Data { seq: u64, len: u32, fin: bool, kind: DataKind },
    /// A segment below the window, so that the peer reports its window.
    WindowProbe { seq: u64 },
}

/// What the IP header and the control bits of data say of congestion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DataKind {
    /// Sent for the first time.
    New,
    /// The same, and the window was reduced.
    NewAfterReduction,
    /// Sent again, and not capable of ECN: a mark on a retransmission would be lost with it (RFC 3168, section 6.1.5).
    Again,
}

impl Sender {
    pub(crate) fn new(config: &Arc<Config>) -> Self {
        Self {
            out: Outstanding::new(config.clone(), 1),
            recovery: config.recovery.build(config),
            end: 1,
            is_finished: false,
            edge: 1,
            window_from: 0,
            peer_window: 0,
            largest_window: 0,
            has_sack: false,
            timeout: Instant::FAR_FUTURE,
            persist: None,
            unanswered: 0,
            held_until: Instant::ZERO,
            holds: 0,
            pace_at: Instant::ZERO,
            waits_for_pacer: false,
            usage: Usage::default(),
            has_sent: false,
            is_settled: false,
            last_sent_at: Instant::ZERO,
            deferral: Deferral::default(),
            timed: None,
            counters: Counters::default(),
        }
    }

    /// Starts to load what is kept outside `self`: the control, the recovery, and the oldest and the newest segment in flight.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch::prefetch(&*self.out.control);
        prefetch::prefetch(&*self.recovery);
        self.out.board.prefetch();
    }

    fn config(&self) -> &Config {
        &self.out.config
    }

    /// Bytes that the application may write.
    pub(crate) fn write_space(&self) -> u64 {
        let held = self.end - self.out.board.una().min(self.end);
        if self.is_finished { 0 } else { self.config().send_buffer.as_u64().saturating_sub(held) }
    }

    /// Bytes of the application's that have never been sent.
    pub(crate) fn unsent(&self) -> u64 {
        self.end.saturating_sub(self.out.board.nxt())
    }

    /// Whether the segment that left last is to be pushed: the end of what the application wrote up to `end` (RFC 9293, section
    /// 3.9.1.2, MUST-61), in Linux also that of a piece (`__tcp_transmit_skb`).
    #[inline]
    pub(crate) fn pushes(&self, end: u64) -> bool {
        end == self.end || self.deferral.has_ended()
    }

    /// Takes up to `bytes` of the application's data.
    pub(crate) fn write(&mut self, bytes: u64) -> u64 {
        let taken = bytes.min(self.write_space());
        self.is_settled = false;
        self.end += taken;
        taken
    }

    /// No more data: a FIN follows the last byte.
    pub(crate) fn finish(&mut self) {
        self.is_finished = true;
        self.is_settled = false;
    }

    /// The end of everything, the FIN included.
    fn last(&self) -> u64 {
        self.end + u64::from(self.is_finished && !self.config().bare)
    }

    /// Whether everything, the FIN included, is acknowledged.
    pub(crate) fn is_done(&self) -> bool {
        self.is_finished && self.out.board.una() >= self.last()
    }

    /// Bytes of data acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.out.board.una().min(self.end) - 1
    }

    /// Whether both ends use SACK. Where the recovery needs it and the peer does not have it, NewReno takes its place.
    pub(crate) fn agree(&mut self, has_sack: bool) {
        self.has_sack = has_sack;
        if self.config().recovery.needs_sack && !has_sack {
            self.recovery = kinds::NEWRENO.build(&self.out.config);
            self.out.give_up_sack();
        }
    }

    /// The handshake is over: the peer's window, and what the handshake has shown of the path.
    pub(crate) fn start(&mut self, now: Instant, window: u32, opening: Opening) {
        self.edge = 1 + u64::from(window);
        (self.peer_window, self.largest_window) = (window, window);
        self.is_settled = false;
        self.last_sent_at = now;
        let first_write = self.config().host.first_write;
        if !first_write.is_zero() {
            self.held_until = now + first_write;
        }
        if let Some(rtt) = opening.rtt {
            self.out.rtt.sample(&self.out.config.rtt, rtt, self.out.board.una(), self.out.board.nxt());
            self.out.rtt.sample_min(&self.out.config.rtt, now, rtt);
        }
        if opening.starts_from_one && !self.config().bare {
            self.out.window.cwnd = 1.0;
        }
        if opening.syn_expired && !self.config().bare {
            self.out.rtt.restart_after_handshake_loss(Duration::from_secs(3));
        }
        let start = Start {
            now,
            mss: self.config().mss,
            rtt: opening.rtt,
            receive_window: u64::from(window),
            has_sack: self.has_sack,
        };
        self.out.control.on_connected(&start, &mut self.out.window);
        self.limit_window();
    }

    /// What the network layer says of the link's capacity.
    pub(crate) fn set_capacity(&mut self, now: Instant, allocation: Allocation) {
        self.out.control.on_cross_layer(now, allocation, &mut self.out.window);
        self.limit_window();
        self.is_settled = false;
    }

    fn limit_window(&mut self) {
        let most = self.config().max_window;
        self.out.window.cwnd = self.out.window.cwnd.min(most);
    }

    /// An acknowledgement of the peer. Ignores one that acknowledges what was never sent.
    pub(crate) fn on_ack(&mut self, now: Instant, segment: &Segment) {
        let (una, nxt) = (self.out.board.una(), self.out.board.nxt());
        if segment.ack > nxt || segment.ack < una {
            return;
        }
        self.wait_for_host(now);
        let opens_window = self.take_window(segment);
        let is_duplicate = segment.ack == una && una < nxt && self.is_answer_to_data(segment);
        self.peer_window = segment.window;
        if segment.ack > una {
            (self.unanswered, self.out.expiries) = (0, 0);
        } else if self.persist.is_some() || self.edge <= una {
            // A closed window is kept closed by a peer that is there (RFC 1122, section 4.2.2.17).
            self.unanswered = 0;
        }
        if segment.ack > una || is_duplicate || !segment.sack.is_empty() || self.config().satpep {
            self.digest(now, segment, is_duplicate, opens_window);
        } else if una == nxt && segment.window > 0 && self.is_answer_to_data(segment) {
            self.recovery.on_ack_of_nothing(una);
        }
    }

    /// What an acknowledgement lets leave does so when the host has woken up.
    fn wait_for_host(&mut self, now: Instant) {
        let HostDelays { wake, idle_wake, stream, .. } = self.config().host;
        let slept = self.out.board.delivered_at() + HostDelays::IDLE <= now;
        let least = if slept { idle_wake } else { Duration::ZERO };
        if self.held_until > now || wake.is_zero() && least.is_zero() {
            return;
        }
        let part = CounterRandom::new(self.config().seed, HOST_STREAM ^ stream).unit_at(self.holds.into());
        self.holds = self.holds.wrapping_add(1);
        self.held_until = now + least + Duration::from_secs_f64(wake.as_secs_f64() * part);
    }

    /// Whether a segment that acknowledges nothing new answers data that arrived, rather than reporting a window or carrying
    /// data of its own.
    fn is_answer_to_data(&self, segment: &Segment) -> bool {
        if self.config().satpep {
            return segment.has(Flags::NACK);
        }
        segment.len == 0 && !segment.has(Flags::FIN) && (segment.window == self.peer_window || !segment.sack.is_empty())
    }

    /// Takes the window of a segment that is not older than the one whose window counts (SND.WL1 and SND.WL2 of RFC 9293,
    /// section 3.10.7.4). Of two with equal numbers the larger window is the later one, unless it closes; SaTPEP's windows
    /// are grants, which may shrink at any time. Returns whether the window opens.
    fn take_window(&mut self, segment: &Segment) -> bool {
        let edge = segment.ack + u64::from(segment.window);
        let opens = edge > self.edge;
        let is_later = segment.ack > self.out.board.una()
            || segment.seq > self.window_from
            || segment.seq == self.window_from && (edge > self.edge || segment.window == 0);
        if is_later || self.config().satpep {
            self.is_settled &= edge <= self.edge;
            (self.edge, self.window_from) = (edge, segment.seq);
            self.largest_window = self.largest_window.max(segment.window);
        }
        opens && is_later
    }

    fn digest(&mut self, now: Instant, segment: &Segment, is_duplicate: bool, opens_window: bool) {
        self.is_settled = false;
        let prior_in_flight = self.recovery.in_flight(&self.out);
        let duplicate = self.take_duplicate(segment);
        let mut change = Change {
            duplicate,
            // As long as what this acknowledges is on the board.
            repeats_original: duplicate.is_some_and(|(first, _)| self.out.board.is_outstanding_once(first)),
            echo: segment.has(Flags::TIMESTAMPS).then_some(segment.timestamps.echo),
            ..Change::default()
        };
        self.out.board.on_cumulative(now, segment.ack, &mut change);
        if segment.has(Flags::NACK) {
            let within = self.out.board.una()..self.out.board.nxt();
            let hole = segment.sack_blocks().next();
            let hole = hole.map(|hole| (hole.start.max(within.start), hole.end.min(within.end)));
            change.nack = hole.filter(|(first, end)| first < end);
        } else if !segment.sack.is_empty() {
            self.take_blocks(now, segment, &mut change);
        }
        if change.acked > 0 {
            (self.out.duplicates, self.out.limited_transmit) = (0, 0);
        } else if is_duplicate && (!self.has_sack || change.sacked > 0) {
            self.out.duplicates += 1;
        }
        let rtt = self.sample_rtt(now, segment, &change);
        let rate = self.out.board.rate_sample(now, &change, self.out.rtt.min_rtt());
        let ack = Ack {
            now,
            mss: self.config().mss,
            acked: change.acked,
            delivered: change.delivered,
            is_duplicate,
            opens_window,
            marked: self.out.marked(segment, &change),
            rtt,
            srtt: self.out.rtt.srtt(),
            min_rtt: self.out.rtt.min_rtt(),
            rate,
            prior_in_flight,
            in_flight: self.recovery.in_flight(&self.out),
            lost: 0,
            una: self.out.board.una(),
            nxt: self.out.board.nxt(),
            receive_window: self.edge.saturating_sub(self.out.board.una()),
            is_window_limited: self.is_window_limited(),
            state: self.recovery.state(),
        };
        self.apply(&ack, &change);
    }

    /// What a segment reports to have arrived twice (RFC 2883), unless it was no retransmission that did.
    fn take_duplicate(&mut self, segment: &Segment) -> Option<(u64, u64)> {
        let range = segment.sack_blocks().next().filter(|_| segment.has(Flags::DSACK))?;
        let segments = range.end.saturating_sub(range.start).div_ceil(self.out.mss());
        self.out.repeated = self.out.repeated.saturating_add(segments as u32);
        let is_copy = self.out.rules().ignores_copies && u64::from(self.out.repeated) > self.counters.retransmissions;
        (!is_copy).then_some((range.start, range.end))
    }

    /// Takes SACK blocks from the lowest up, as RFC 8985 (section 6.2) wants it: out of order they would look like
    /// reordering.
    fn take_blocks(&mut self, now: Instant, segment: &Segment, change: &mut Change) {
        let mut above = 0;
        while let Some(block) = segment.sack_blocks().filter(|block| block.end > above).min_by_key(|block| block.end) {
            above = block.end;
            self.out.board.on_sack(now, block, change);
        }
    }

    fn apply(&mut self, ack: &Ack, change: &Change) {
        let was_recovering = ack.state == LossState::Recovery;
        let governs = self.out.control.governs_window();
        let out = &mut self.out;
        let total_lost = out.board.total_lost();
        if !governs {
            out.control.on_ack(ack, &mut out.window);
        }
        if ack.marked > 0 {
            out.answer_marks(ack.now, ack.state);
        }
        let restarts = self.recovery.on_ack(ack, change, out);
        out.tell_losses(ack.now);
        if governs {
            let lost = out.board.total_lost() - total_lost;
            let rate = ack.rate.map(|rate| rate.after_losses(lost));
            let (in_flight, state) = (self.recovery.in_flight(out), self.recovery.state());
            out.control.on_ack(&Ack { rate, lost, in_flight, state, ..*ack }, &mut out.window);
        }
        self.limit_window();
        if !was_recovering && self.recovery.state() == LossState::Recovery {
            self.counters.recoveries += 1;
        }
        if restarts || self.out.board.is_empty() {
            self.set_timeout(ack.now);
        }
    }

    fn sample_rtt(&mut self, now: Instant, segment: &Segment, change: &Change) -> Option<Duration> {
        let sample = match self.config().rtt.sampling {
            Sampling::OneAtATime => {
                let (timed, sent_at) = self.timed?;
                if segment.ack <= timed {
                    return None;
                }
                self.timed = None;
                now.since(sent_at)
            }
            // What waited behind a hole that a retransmission filled says nothing of the path (Karn), and an echo only where
            // the left edge of the window moves (RFC 7323, section 4.1): behind a hole it stands still.
            Sampling::EverySegment => match (change.oldest_rtt, change.sacked_rtt) {
                (Some(rtt), _) if !change.acked_retransmission => rtt,
                (_, Some(rtt)) => rtt,
                _ if change.acked > 0 && segment.has(Flags::TIMESTAMPS) && segment.timestamps.echo > 0 => {
                    timestamp::since(now, segment.timestamps.echo)
                }
                _ => return None,
            },
        };
        self.out.rtt.sample(&self.out.config.rtt, sample, self.out.board.una(), self.out.board.nxt());
        // The acknowledgement of less than a segment, with nothing else out, may have been delayed by the receiver: such a sample never
        // takes the place of a smaller one that is old (`tcp_update_rtt_min`).
        let may_have_waited = (1..self.out.mss()).contains(&change.acked) && self.out.board.is_empty();
        let is_first = self.out.rtt.min_rtt().is_zero();
        if !may_have_waited || is_first || sample <= self.out.rtt.min_rtt() {
            self.out.rtt.sample_min(&self.out.config.rtt, now, sample);
        }
        let newest = change.newest.filter(|newest| !newest.is_retransmitted && !change.acked_retransmission);
        Some(newest.map_or(sample, |newest| now.since(newest.sent_at)))
    }

    /// restarts the retransmission timer, or stops it while nothing is outstanding.
    fn set_timeout(&mut self, now: Instant) {
        self.timeout = if self.out.board.is_empty() { Instant::FAR_FUTURE } else { now + self.out.rto() };
    }

    /// When something is to be done though no segment comes; [`Instant::FAR_FUTURE`] for never.
    #[inline]
    pub(crate) fn next_at(&self) -> Instant {
        let mut next = self.timeout;
        if let Some(persist) = &self.persist {
            next = next.min(persist.at);
        }
        if self.held_until != Instant::ZERO {
            next = next.min(self.held_until);
        }
        if self.waits_for_pacer {
            next = next.min(self.pace_at);
        }
        next.min(self.recovery.next_timeout().unwrap_or(Instant::FAR_FUTURE))
    }

    /// Acts on timers that have expired. Returns `false` when the peer has not answered for too long.
    pub(crate) fn on_timers(&mut self, now: Instant) -> bool {
        self.is_settled = false;
        if self.held_until <= now {
            self.held_until = Instant::ZERO;
        }
        if self.recovery.next_timeout().is_some_and(|at| at <= now) {
            let before = self.recovery.state();
            if self.recovery.on_timer(now, &mut self.out) {
                self.set_timeout(now);
            }
            self.out.tell_losses(now);
            if before != LossState::Recovery && self.recovery.state() == LossState::Recovery {
                self.counters.recoveries += 1;
            }
        }
        if let Some(persist) = self.persist.as_mut().filter(|persist| persist.at <= now) {
            persist.is_due = true;
            persist.wait = (persist.wait * 2).min(Duration::from_secs(60));
            persist.at = now + persist.wait;
            self.unanswered += 1;
        }
        if self.timeout <= now {
            if self.recovery.probes_instead() {
                self.set_timeout(now);
                return true;
            }
            self.unanswered += 1;
            if self.unanswered > self.config().max_expiries {
                return false;
            }
            self.counters.timeouts += 1;
            self.out.expiries += 1;
            self.timed = None;
            self.recovery.on_timeout(now, &mut self.out);
            self.out.tell_losses(now);
            self.pace_at = now;
            self.set_timeout(now);
        }
        self.unanswered <= self.config().max_expiries
    }

    /// The next segment to leave, if one may.
    #[inline]
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Outgoing> {
        if self.is_settled { None } else { self.find_work(now) }
    }

    fn find_work(&mut self, now: Instant) -> Option<Outgoing> {
        if now < self.held_until {
            self.waits_for_pacer = false;
            return None;
        }
        if self.edge <= self.out.board.nxt()
            && let Some(persist) = self.persist.as_mut().filter(|persist| persist.is_due)
        {
            persist.is_due = false;
            self.counters.window_probes += 1;
            return Some(Outgoing::WindowProbe { seq: self.out.board.una() - 1 });
        }
        self.waits_for_pacer = now < self.pace_at && !self.deferral.is_within_piece();
        if self.waits_for_pacer {
            self.note_pacing();
            return None;
        }
        let fresh = self.fresh();
        self.out.has_new_data = fresh > 0;
        if let Some((seq, span)) = self.recovery.retransmission(now, &self.out) {
            return Some(self.send_again(now, seq, span));
        }
        if fresh > 0 {
            let is_allowed = self.may_send(now, fresh);
            if !is_allowed {
                self.deferral.end_piece();
            }
            if is_allowed && !self.defers(now, fresh) {
                return Some(self.send_new(now, fresh));
            }
            self.is_settled = true;
            let is_limited = !is_allowed || self.has_less_cwnd_than_receive_window();
            if is_limited || self.has_sent {
                self.update_usage(is_limited);
            }
            return None;
        }
        if let Some((seq, span)) = self.recovery.last_resort(&self.out) {
            return Some(self.send_again(now, seq, span));
        }
        self.on_nothing_to_send(now);
        self.is_settled = true;
        None
    }

    /// Data wait for the pacer. A control that governs its window paces below it where the path holds less: the window does not limit it
    /// then. Other controls count as limited until they run out of data.
    fn note_pacing(&mut self) {
        if self.has_sent && self.out.control.governs_window() {
            self.update_usage(!self.out.has_room(self.out.mss()));
        }
    }

    fn update_usage(&mut self, is_limited: bool) {
        let board = &self.out.board;
        let counts_segments = self.out.rules().counts_segments;
        let flight = if counts_segments { board.segments() } else { board.flight().div_ceil(self.out.mss()) } as u32;
        self.usage.update(is_limited, usage::Sent { una: board.una(), nxt: board.nxt(), flight });
        self.has_sent = false;
    }

    /// Whether the window limits the sender. A control that governs its window asks only whether it did.
    fn is_window_limited(&self) -> bool {
        let window = (!self.out.control.governs_window()).then_some(&self.out.window);
        self.usage.is_window_limited(window)
    }

    /// Sequence numbers that could be sent next if the window allowed: a full segment, or the rest.
    fn fresh(&self) -> u64 {
        let nxt = self.out.board.nxt();
        let edge = self.edge + self.recovery.beyond_window();
        let data = self.end.min(edge).saturating_sub(nxt).min(self.out.mss());
        let is_all = nxt + data == self.end;
        // Part of a segment leaves only as the last one, not because the peer's window ends in it, unless that is half of
        // the largest window or has lasted too long (RFC 9293, 3.8.6.2.1).
        let is_overdue = self.persist.is_some_and(|persist| persist.is_due);
        let is_end_of_piece = data > 0 && self.deferral.ends_with(data);
        let is_part = !is_all && data < self.out.mss() && 2 * data < u64::from(self.largest_window);
        if is_part && !is_overdue && !is_end_of_piece {
            return 0;
        }
        let fin = is_all && self.last() > self.end && nxt + data < self.last();
        data + u64::from(fin)
    }

    fn may_send(&mut self, now: Instant, bytes: u64) -> bool {
        if self.out.board.is_empty() {
            self.restart_after_idle(now);
        }
        self.recovery.may_send_new(bytes.min(self.out.mss()), &self.out)
    }

    /// Whether new data waits for room for more. During a repair it does not.
    fn defers(&mut self, now: Instant, bytes: u64) -> bool {
        if !self.out.rules().defers {
            return false;
        }
        let nxt = self.out.board.nxt();
        let room = Room {
            waiting: self.end.saturating_sub(nxt),
            receive_window: self.edge.saturating_sub(nxt),
            advertised_window: self.edge.saturating_sub(self.out.board.una()),
            last_sent_at: self.last_sent_at.max(self.pace_at),
            is_open: self.recovery.state() == LossState::Open,
        };
        self.deferral.holds(now, bytes, room, &self.out)
    }

    /// What the congestion window still allows is less than what the peer's does: data that wait for more room wait for the
    /// former (`tcp_tso_should_defer` of Linux).
    fn has_less_cwnd_than_receive_window(&self) -> bool {
        self.out.cwnd_bytes().saturating_sub(self.out.pipe()) < self.edge.saturating_sub(self.out.board.nxt())
    }

    /// After an idle time longer than the timeout, what the window knew of the path is old (RFC 5681, section 4.1).
    fn restart_after_idle(&mut self, now: Instant) {
        let (idle, rto) = (now.since(self.last_sent_at), self.out.rto());
        if idle <= rto || self.counters.data_segments == 0 {
            return;
        }
        self.out.control.on_idle(now, idle);
        let may_restart = self.config().satpep || !self.out.control.governs_window();
        if self.config().restart_after_idle && may_restart {
            self.out.restart(idle, rto);
        }
        self.last_sent_at = now;
    }

    /// Tells the control that data leave where nothing was in flight.
    fn restart_if_idle(&mut self, now: Instant) {
        let out = &mut self.out;
        if out.board.pipe() == 0 {
            out.control.on_restart(now, out.board.is_app_limited(), &mut out.window);
        }
    }

    fn send_new(&mut self, now: Instant, span: u64) -> Outgoing {
        self.restart_if_idle(now);
        let seq = self.out.board.nxt();
        let fin = seq + span > self.end;
        let was_empty = self.out.board.is_empty();
        self.out.board.on_sent(now, span as u32);
        self.persist = None;
        self.has_sent = true;
        if self.out.duplicates > 0 && self.recovery.state() == LossState::Open {
            self.out.limited_transmit += span;
        }
        if self.timed.is_none() && self.config().rtt.sampling == Sampling::OneAtATime {
            self.timed = Some((seq, now));
        }
        if was_empty || self.timeout == Instant::FAR_FUTURE {
            self.set_timeout(now);
        }
        let len = (span - u64::from(fin)) as u32;
        self.count(len, false);
        self.after_sending(now, span, false);
        let kind = if self.out.marks.take_cwr() { DataKind::NewAfterReduction } else { DataKind::New };
        Outgoing::Data { seq, len, fin, kind }
    }

    fn send_again(&mut self, now: Instant, seq: u64, span: u32) -> Outgoing {
        self.deferral.end_piece();
        self.restart_if_idle(now);
        self.out.board.on_retransmitted(now, seq);
        if self.timed.is_some_and(|(timed, _)| timed >= seq) {
            self.timed = None;
        }
        let is_restarted = self.out.rules().restarts_timer_for_first && seq == self.out.board.una();
        if self.timeout == Instant::FAR_FUTURE || is_restarted {
            self.set_timeout(now);
        }
        let fin = seq + u64::from(span) > self.end;
        let len = span - u32::from(fin);
        self.count(len, true);
        self.after_sending(now, u64::from(span), true);
        Outgoing::Data { seq, len, fin, kind: DataKind::Again }
    }

    /// A FIN alone is no data.
    fn count(&mut self, len: u32, is_retransmission: bool) {
        self.counters.data_segments += u64::from(len > 0);
        self.counters.retransmissions += u64::from(len > 0 && is_retransmission);
    }

    fn after_sending(&mut self, now: Instant, bytes: u64, is_retransmission: bool) {
        self.last_sent_at = now;
        let size = bytes + u64::from(self.config().data_header());
        let out = &mut self.out;
        out.control.on_sent(&Sent {
            now,
            bytes,
            size,
            in_flight: self.recovery.in_flight(out),
            is_retransmission,
            nxt: out.board.nxt(),
        });
        self.recovery.on_sent(now, bytes, is_retransmission, out);
        let is_paced = self.counters.data_segments >= out.rules().paces_from;
        let rate = out.control.pacing_rate(&out.window).or_else(|| out.window_rate());
        if let Some(rate) = rate.filter(|_| is_paced) {
            self.pace_at = self.pace_at.max(now) + rate.time_to_send(Bytes::new(bytes));
        }
    }

    /// Either the application has nothing more, or the peer's window is closed.
    fn on_nothing_to_send(&mut self, now: Instant) {
        let nxt = self.out.board.nxt();
        if nxt < self.last() && self.out.board.is_empty() && self.persist.is_none() {
            let wait = self.out.rto();
            self.persist = Some(Persist { at: now + wait, wait, is_due: false });
        }
        if self.has_sent {
            self.update_usage(!self.out.has_room(self.out.mss()));
        }
        if nxt >= self.end && self.out.pipe() < self.out.cwnd_bytes() {
            self.out.board.on_app_limited();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{ControlKind, RecoveryKind};
    use crate::profile::Profile;

    #[test]
    fn without_sack_a_control_that_follows_losses_hears_of_them() {
        let control = ControlKind::by_name("bbr3").expect("known");
        let recovery = RecoveryKind::by_name("rack").expect("known");
        let mut sender = Sender::new(&Arc::new(Config { control, recovery, ..Config::new(Profile::Rfc) }));
        sender.agree(false);
        (0..2).for_each(|_| sender.out.board.on_sent(Instant::ZERO, 1000));
        sender.out.board.mark_all_lost();
        assert_eq!(sender.out.board.take_losses().len(), 2);
    }
}
