//! When packets may leave, and which of them are lost: loss detection, probes, the window and the pacer (RFC 9002).

use crate::config::Config;
use crate::congestion::{Congestion, Facts};
use crate::metrics::Counters;
use crate::pacer::Pacer;
use crate::packet::{AckFrame, Packet};
use crate::rtt::Rtt;
use crate::sent_packets::{Arrivals, Content, LossRule, Outcome, SentPackets};
use std::sync::Arc;
use tcp::control::{Ack, Sent, Start};
use units::{Duration, Instant};

/// Packets of a probe (section 6.2.4).
const PROBES: u32 = 2;
/// Persistent congestion is so many probe timeouts (kPersistentCongestionThreshold).
const PERSISTENT: u64 = 3;
/// A lost packet may still be acknowledged for so many probe timeouts.
const STALE: u64 = 3;

/// What is in flight, and what governs it.
#[derive(Debug)]
pub(crate) struct Sender {
    config: Arc<Config>,
    pub(crate) sent_packets: SentPackets,
    pub(crate) rtt: Rtt,
    pub(crate) congestion: Congestion,
    pacer: Pacer,
    /// Expiries in a row.
    pto_count: u32,
    /// Packets that may leave whatever the window says.
    probes: u32,
    /// When the next packet is lost by time.
    loss_at: Option<Instant>,
    /// When a packet that is to be acknowledged was last sent.
    last_sent_at: Instant,
    /// The window kept the sender from sending more, when it last could.
    is_limited: bool,
    /// The number of the next packet when it last did.
    limited_at: u64,
    /// The peer's delay of acknowledgements counts from now on (section 6.2.1).
    is_confirmed: bool,
    /// Packets that the peer has reported marked.
    marked: u64,
    /// Bytes of the stream that the peer has room for.
    pub(crate) receive_window: u64,
    pub(crate) counters: Counters,
}

impl Sender {
    pub(crate) fn new(config: &Arc<Config>) -> Self {
        Self {
            sent_packets: SentPackets::new(),
            rtt: Rtt::new(),
            congestion: Congestion::new(config),
            pacer: Pacer::new(config.control.needs_l4s()),
            pto_count: 0,
            probes: 0,
            loss_at: None,
            last_sent_at: Instant::ZERO,
            is_limited: false,
            limited_at: 0,
            is_confirmed: false,
            marked: 0,
            receive_window: 0,
            counters: Counters::default(),
            config: Arc::clone(config),
        }
    }

    /// Data may leave from now on. Once data have left, the control is not started again: it would forget what they have shown.
    pub(crate) fn start(&mut self, now: Instant) {
        if self.counters.data_packets > 0 {
            return;
        }
        let start = Start {
            now,
            mss: self.config.max_datagram_size(),
            rtt: Some(self.rtt.measured()).filter(|rtt| !rtt.is_zero()),
            receive_window: self.receive_window,
            has_sack: true,
        };
        self.congestion.control.on_connected(&start, &mut self.congestion.window);
    }

    /// The handshake is confirmed.
    pub(crate) fn confirm(&mut self) {
        self.is_confirmed = true;
    }

    /// The peer's delay that a timeout allows for.
    fn ack_delay(&self) -> Duration {
        if self.is_confirmed { self.config.max_ack_delay } else { Duration::ZERO }
    }

    /// The probe timeout without backoff.
    pub(crate) fn plain_pto(&self) -> Duration {
        self.rtt.pto() + self.ack_delay()
    }

    /// The probe timeout, backed off.
    pub(crate) fn pto(&self) -> Duration {
        self.plain_pto() * (1 << self.pto_count.min(30))
    }

    fn facts(&self, now: Instant) -> Facts {
        Facts {
            now,
            sent: self.sent_packets.sent(),
            next: self.sent_packets.next_number(),
            srtt: self.rtt.measured(),
            min_rtt: self.rtt.min(),
        }
    }

    /// An acknowledgement. Calls `on_outcome` for each packet that was acknowledged or lost. Ignores one of what was never sent.
    pub(crate) fn on_ack(&mut self, now: Instant, frame: &AckFrame, on_outcome: &mut dyn FnMut(Outcome, &Content)) {
        let Some(largest) = frame.largest().filter(|largest| *largest < self.sent_packets.next_number()) else {
            return;
        };
        let prior_in_flight = self.sent_packets.in_flight();
        let arrivals = self.sent_packets.on_ack(frame, self.congestion.reduced_at, on_outcome);
        let Some(newest) = arrivals.newest else { return };
        self.counters.spurious_losses += arrivals.late;
        self.pto_count = 0;
        let rtt = (newest.number == largest && arrivals.has_eliciting).then(|| {
            let most = if self.is_confirmed { self.config.max_ack_delay } else { Duration::MAX };
            self.rtt.sample(now, now.since(newest.sent_at), frame.delay.min(most))
        });
        let rate = self.sent_packets.rate_sample(now, &arrivals, self.rtt.min());
        let marks = frame.marked.map_or(0, |marked| marked.saturating_sub(self.marked));
        self.marked += marks;
        self.end_limit(newest.number);
        let ack = Ack {
            now,
            mss: self.config.max_datagram_size(),
            acked: arrivals.bytes,
            delivered: arrivals.bytes,
            is_duplicate: false,
            opens_window: false,
            marked: (marks * u64::from(self.config.max_datagram_size())).min(arrivals.bytes),
            rtt: rtt.filter(|_| newest.has_data),
            srtt: self.rtt.measured(),
            min_rtt: self.rtt.min(),
            rate,
            prior_in_flight,
            in_flight: self.sent_packets.in_flight(),
            lost: 0,
            una: newest.end,
            nxt: self.sent_packets.sent(),
            receive_window: self.receive_window,
            is_window_limited: self.is_limited,
            state: self.congestion.state(),
        };
        self.congestion.measure(&ack);
        self.apply(&ack, &arrivals, newest.number, on_outcome);
        if let Some(rate) = self.congestion.pacing_rate(self.rtt.smoothed(), self.config.pacing) {
            self.pacer.set_rate(now, rate, u64::from(self.config.max_datagram_size()));
        }
        self.sent_packets.forget(now.before(self.pto() * STALE));
    }

    /// The packet `newest` has arrived. A control that governs its window paces below it where the path holds less: after a round trip in
    /// which the window had room, it does not limit the sender. Other controls count as limited until they run out of data (RFC 9002,
    /// section 7.8).
    fn end_limit(&mut self, newest: u64) {
        self.is_limited &= newest < self.limited_at || !self.congestion.control.governs_window();
    }

    fn apply(&mut self, ack: &Ack, arrivals: &Arrivals, newest: u64, on_outcome: &mut dyn FnMut(Outcome, &Content)) {
        let before = self.counters.recoveries;
        if ack.marked > 0 && self.congestion.on_marked(self.facts(ack.now), newest) {
            self.counters.recoveries += 1;
        }
        let lost = self.find_losses(ack.now, on_outcome);
        // What has arrived was sent before a reduction that comes with its acknowledgement.
        let after_reduction = if self.counters.recoveries == before { arrivals.after_reduction } else { 0 };
        let rate =
            ack.rate.map(|rate| tcp::RateSample { total_lost: rate.total_lost + lost, lost: rate.lost + lost, ..rate });
        let ack = Ack { rate, lost, in_flight: self.sent_packets.in_flight(), ..*ack };
        self.congestion.on_ack(&ack, newest, after_reduction);
    }

    /// Finds what is lost, and lowers the window for it. Returns how many bytes that were.
    fn find_losses(&mut self, now: Instant, on_outcome: &mut dyn FnMut(Outcome, &Content)) -> u64 {
        let rule = LossRule {
            packet_threshold: self.config.packet_threshold,
            delay: self.rtt.loss_delay(self.config.time_threshold),
            first_sample_at: self.rtt.first_sample_at(),
            reports_each: self.congestion.control.follows_losses(),
        };
        let losses = self.sent_packets.find_losses(now, rule, on_outcome);
        self.loss_at = losses.next_at;
        self.counters.lost += losses.packets;
        let Some(newest) = losses.newest else { return 0 };
        let facts = self.facts(now);
        if self.congestion.on_lost(facts, newest) {
            self.counters.recoveries += 1;
        }
        for lost in &losses.packets_lost {
            self.congestion.control.on_segment_lost(now, lost, &mut self.congestion.window);
        }
        if losses.longest > (self.rtt.pto() + self.config.max_ack_delay) * PERSISTENT {
            self.congestion.on_persistent_congestion(facts);
            self.rtt.forget_min();
            self.sent_packets.end_run();
            self.counters.persistent_congestions += 1;
        }
        losses.bytes
    }

    /// When loss detection wants to look again (section 6.2 and 6.1.2).
    fn timeout(&self) -> Instant {
        match self.loss_at {
            Some(at) => at,
            None if self.sent_packets.awaits() => self.last_sent_at + self.pto(),
            None => Instant::FAR_FUTURE,
        }
    }

    /// When something is to be done though no packet comes, the pacer apart; [`Instant::FAR_FUTURE`] for never.
    pub(crate) fn next_at(&self) -> Instant {
        self.timeout()
    }

    /// Acts on a timer that has expired. Returns what the oldest packets in flight carried, if it was that of probes.
    pub(crate) fn on_timer(
        &mut self,
        now: Instant,
        on_outcome: &mut dyn FnMut(Outcome, &Content),
    ) -> Option<Vec<Content>> {
        if self.timeout() > now {
            return None;
        }
        if self.loss_at.is_some() {
            self.find_losses(now, on_outcome);
            return None;
        }
        self.pto_count += 1;
        self.counters.ptos += 1;
        self.probes = PROBES;
        Some(self.sent_packets.oldest(PROBES as usize))
    }

    /// Whether a probe is to leave.
    pub(crate) fn probes(&self) -> bool {
        self.probes > 0
    }

    /// Whether a packet with so much payload of UDP fits the window. Where it does not, the window limits the sender.
    pub(crate) fn has_room(&mut self, bytes: u32) -> bool {
        let has_room = self.probes > 0 || self.sent_packets.in_flight() + u64::from(bytes) <= self.congestion.bytes();
        if !has_room {
            (self.is_limited, self.limited_at) = (true, self.sent_packets.next_number());
        }
        has_room
    }

    /// When the pacer lets the next packet leave.
    pub(crate) fn paced_at(&self) -> Instant {
        if self.probes > 0 { Instant::ZERO } else { self.pacer.next_at() }
    }

    /// There is nothing to send that the window would let leave.
    pub(crate) fn on_nothing_to_send(&mut self) {
        let most = self.sent_packets.in_flight() + u64::from(self.config.max_datagram_size());
        (self.is_limited, self.limited_at) = (most > self.congestion.bytes(), self.sent_packets.next_number());
        if !self.is_limited {
            self.sent_packets.on_app_limited();
        }
    }

    /// `packet` carries data again after a long time without any in flight, in which the control had no measurement of the path.
    fn end_idle(&mut self, now: Instant, packet: &Packet) {
        let idle = now.since(self.last_sent_at);
        let was_idle = self.sent_packets.in_flight() == 0 && self.counters.data_packets > 0 && idle > self.pto();
        if was_idle && packet.stream.is_some() {
            self.congestion.control.on_idle(now, idle);
        }
    }

    /// `packet` leaves; its data, if any, were sent before or not.
    pub(crate) fn on_sent(&mut self, now: Instant, packet: &Packet, content: Content, is_retransmission: bool) {
        self.end_idle(now, packet);
        if self.sent_packets.in_flight() == 0 && packet.stream.is_some() {
            let is_app_limited = self.sent_packets.is_app_limited();
            self.congestion.control.on_restart(now, is_app_limited, &mut self.congestion.window);
        }
        self.sent_packets.on_sent(now, packet, content);
        if !packet.is_ack_eliciting() {
            return;
        }
        self.last_sent_at = now;
        self.probes = self.probes.saturating_sub(1);
        let bytes = u64::from(packet.in_flight());
        if packet.has_data() {
            self.counters.data_packets += 1;
            self.counters.retransmissions += u64::from(is_retransmission);
            self.congestion.control.on_sent(&Sent {
                now,
                bytes,
                size: u64::from(packet.size),
                in_flight: self.sent_packets.in_flight(),
                is_retransmission,
                nxt: self.sent_packets.sent(),
            });
        }
        if let Some(rate) = self.congestion.pacing_rate(self.rtt.smoothed(), self.config.pacing) {
            self.pacer.on_sent(now, bytes, u64::from(self.config.max_datagram_size()), rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::StreamFrame;
    use smallvec::smallvec;

    /// Sends full packets until so many have left or the window is full.
    fn send(sender: &mut Sender, now: Instant, most: u64) {
        let size = sender.config.max_datagram_size();
        for _ in 0..most {
            if !sender.has_room(size) {
                return;
            }
            let number = sender.sent_packets.next_number();
            let len = sender.config.payload();
            let packet = Packet {
                number,
                size: sender.config.packet_size,
                is_early: false,
                message: None,
                stream: Some(StreamFrame { offset: number * u64::from(len), len, fin: false }),
                ack: None,
                limits: None,
                has_ping: false,
                closes: false,
            };
            sender.on_sent(now, &packet, Content::default(), false);
        }
    }

    /// `C.is_cwnd_limited` of draft-ietf-ccwg-bbr is about one round trip. With other controls, a sender that waits for its pacer counts as
    /// limited by the window (RFC 9002, section 7.8).
    #[test]
    fn a_window_that_a_control_paces_below_limits_it_for_a_round_trip() {
        for (name, remains) in [("bbr3", false), ("reno", true)] {
            let control = tcp::ControlKind::by_name(name).expect("known");
            let mut sender = Sender::new(&Arc::new(Config { control, ..Config::default() }));
            let at = |millis| Instant::ZERO + Duration::from_millis(millis);
            let ack = |end| AckFrame { ranges: smallvec![0..end], delay: Duration::ZERO, marked: None };
            send(&mut sender, at(0), 100);
            let first = sender.sent_packets.next_number();
            sender.on_ack(at(100), &ack(first), &mut |_, _| {});
            assert!(first < 100 && sender.is_limited, "{name}: of the round trip that ends");
            sender.congestion.window.cwnd = 100.0;
            send(&mut sender, at(100), 5);
            sender.on_ack(at(200), &ack(first + 5), &mut |_, _| {});
            assert_eq!(sender.is_limited, remains, "{name}");
        }
    }
}
