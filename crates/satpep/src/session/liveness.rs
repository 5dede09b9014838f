//! Whether the peer is there: when it is asked, and what is held back while it does not answer.
//!
//! | state | begins | what is sent |
//! | --- | --- | --- |
//! | answering | anything is heard | everything |
//! | stalled | an answer is overdue by a quarter | paced probes, no data |
//! | unresponsive | three round trips without an answer | probes, less often with time; the driver bypasses the peer |
//!
//! Anything that is heard ends both, unless acknowledgements say again and again that nothing new arrives at the peer: it is unresponsive then
//! until one says otherwise. A session without traffic asks seldom: as seldom as the mappings of NATs on the path
//! bear, which [`Keepalive`] finds out. With streams open, something may be waited for: it asks soon after the last traffic,
//! and each time after twice the time.
//!
//! Contract: the session reports what it sends, hears and has acknowledged, and calls [`Liveness::on_timeout`] when one of the four
//! deadlines has passed; a ping is due ([`Liveness::is_ping_due`]) whenever the peer is to be asked.

use super::keepalive::Keepalive;
use crate::config::EndpointConfig;
use crate::rtt::RttEstimator;
use units::{Bytes, Duration, Instant};

/// The effect of an arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Heard {
    /// The first arrival after an outage.
    pub(super) is_returning: bool,
    /// The peer was unresponsive until now.
    pub(super) was_unresponsive: bool,
}

pub(super) struct Liveness {
    keepalive: Keepalive,
    last_heard: Instant,
    /// When data of a stream was last sent or received.
    last_traffic: Instant,
    /// Since when something ack-eliciting has been in flight, with nothing heard since.
    unanswered_since: Option<Instant>,
    /// Since when something ack-eliciting has been in flight, with no acknowledgement of anything new since: or since the peer was heard
    /// again after an outage, if that is later and `is_heard_again`.
    unacknowledged_since: Option<Instant>,
    is_heard_again: bool,
    /// Acknowledgements come, and say that nothing has arrived at the peer for as long as makes it unresponsive.
    is_cut_off: bool,
    /// IP bytes of ack-eliciting packets sent since then.
    unanswered_bytes: u64,
    /// How many of them are sent although an answer is overdue.
    stall_allowance: u64,
    /// How long the link takes to send a full packet of `mtu` bytes, by its configured rate: the answer to one comes no earlier.
    packet_time: Duration,
    mtu: u64,
    /// How far apart a thin return link may space answers, and the longest that one has been waited for of late.
    ack_spacing: Duration,
    answer_gap: Duration,
    /// An answer is overdue: data waits.
    is_stalled: bool,
    /// Since when the peer has been unresponsive.
    unresponsive_since: Option<Instant>,
    /// What is taken in now is the first after an outage.
    is_returning: bool,
    probe_at: Option<Instant>,
    probes: u32,
    ping_due: bool,
}

impl Liveness {
    /// Between probes of an unresponsive peer.
    pub(super) const MIN_PROBE_INTERVAL: Duration = Duration::from_millis(100);
    pub(super) const MAX_PROBE_INTERVAL: Duration = Duration::from_millis(1000);
    /// A host that is busy keeps an answer back for so long; a shorter wait is no stall.
    pub(super) const MIN_STALL: Duration = Duration::from_millis(100);
    /// The least time without an answer after which the peer is unresponsive.
    const MIN_UNRESPONSIVE: Duration = Duration::from_secs(1);
    /// Since the last traffic, until the peer is first asked while streams are open.
    pub(super) const FIRST_ASKED: Duration = Duration::from_secs(2);

    /// A peer that was heard just now. `initiates` says whether this side has its address.
    pub(super) fn new(config: &EndpointConfig, initiates: bool, now: Instant) -> Self {
        Self {
            keepalive: Keepalive::new(config.longest_keepalive(), initiates),
            last_heard: now,
            last_traffic: Instant::ZERO,
            unanswered_since: None,
            unacknowledged_since: None,
            is_heard_again: false,
            is_cut_off: false,
            unanswered_bytes: 0,
            stall_allowance: config.stall_allowance(),
            packet_time: config.capacity.time_to_send(Bytes::new(config.mtu.into())),
            mtu: config.mtu.into(),
            ack_spacing: config.ack_spacing(),
            answer_gap: Duration::ZERO,
            is_stalled: false,
            unresponsive_since: None,
            is_returning: false,
            probe_at: None,
            probes: 0,
            ping_due: false,
        }
    }

    /// Since when the peer has been unresponsive, if it is.
    pub(super) fn unresponsive_since(&self) -> Option<Instant> {
        self.unresponsive_since
    }

    pub(super) fn is_unresponsive(&self) -> bool {
        self.unresponsive_since.is_some()
    }

    /// Whether an answer is overdue, so that data waits.
    pub(super) fn is_stalled(&self) -> bool {
        self.is_stalled
    }

    /// Whether what is taken in now is the first after an outage.
    pub(super) fn is_returning(&self) -> bool {
        self.is_returning
    }

    pub(super) fn last_heard(&self) -> Instant {
        self.last_heard
    }

    /// When data of a stream was last sent or received.
    pub(super) fn last_traffic(&self) -> Instant {
        self.last_traffic
    }

    /// Whether nothing was heard for `limit`. To ask in vain is part of it: a clock that jumped is no outage.
    pub(super) fn is_lost(&self, now: Instant, limit: Duration, rtt: &RttEstimator) -> bool {
        let asked = self.unresponsive_since.is_some_and(|since| since + self.unresponsive_after(rtt) <= now);
        asked && self.last_heard + limit <= now
    }

    /// Whether the peer is to be asked for a sign of life.
    pub(super) fn is_ping_due(&self) -> bool {
        self.ping_due
    }

    /// Asks the peer for a sign of life.
    pub(super) fn ping(&mut self) {
        self.ping_due = true;
    }

    /// A packet that asks leaves.
    pub(super) fn on_ping_sent(&mut self) {
        self.ping_due = false;
    }

    /// Data of a stream was sent or received.
    pub(super) fn on_traffic(&mut self, now: Instant) {
        self.last_traffic = now;
    }

    /// The peer saw us at another address.
    pub(super) fn on_challenged(&mut self) {
        self.keepalive.on_challenged();
    }

    /// Something authentic came from the peer.
    pub(super) fn on_heard(&mut self, now: Instant) -> Heard {
        self.learn_answer_gap(now);
        self.last_heard = now;
        self.keepalive.on_heard();
        if self.is_cut_off {
            self.is_returning = false;
            return Heard { is_returning: false, was_unresponsive: false };
        }
        self.unanswered_since = None;
        self.unanswered_bytes = 0;
        let was_unresponsive = self.unresponsive_since.take().is_some();
        self.is_returning = std::mem::take(&mut self.is_stalled) || was_unresponsive;
        // The answer tells what was lost meanwhile, so that it is sent again at once.
        self.ping_due |= self.is_returning;
        if self.is_returning && !std::mem::replace(&mut self.is_heard_again, true) {
            // Of what was sent in the outage the peer can say nothing yet.
            self.unacknowledged_since = None;
        }
        Heard { is_returning: self.is_returning, was_unresponsive }
    }

    /// An ack-eliciting packet of `ip_size` bytes left.
    #[inline]
    pub(super) fn on_sent(&mut self, now: Instant, ip_size: usize, rtt: &RttEstimator) {
        self.unanswered_since.get_or_insert(now);
        self.unacknowledged_since.get_or_insert(now);
        self.unanswered_bytes += ip_size as u64;
        self.probe_at = Some(self.probe_deadline(now, rtt));
    }

    /// The host took nothing of what the peer has yet to answer.
    pub(super) fn on_nothing_left(&mut self) {
        (self.unanswered_since, self.unacknowledged_since) = (None, None);
        (self.unanswered_bytes, self.probe_at) = (0, None);
    }

    /// An ACK came that says that something more has arrived at the peer. Returns whether it was cut off until now.
    pub(super) fn on_reached(&mut self) -> bool {
        (self.unacknowledged_since, self.is_heard_again) = (None, false);
        std::mem::take(&mut self.is_cut_off)
    }

    /// An ACK came that says that nothing more has arrived at the peer. Returns whether the peer has become unresponsive.
    pub(super) fn on_not_reached(&mut self, now: Instant, rtt: &RttEstimator) -> bool {
        let patience = (rtt.smoothed() * 3 + self.packet_time).max(Self::MIN_UNRESPONSIVE);
        let is_overdue = self.unacknowledged_since.is_some_and(|since| since + patience <= now);
        if self.is_cut_off || !is_overdue {
            return false;
        }
        self.is_cut_off = true;
        (self.unresponsive_since, self.is_stalled, self.ping_due) = (Some(now), true, true);
        true
    }

    /// An ACK came; `awaits` says whether more than pings is in flight. A ping that is still in flight has been answered by it: to ask
    /// again would begin again, where answers are spaced, for ever.
    pub(super) fn on_ack(&mut self, now: Instant, awaits: bool, rtt: &RttEstimator) {
        if self.is_cut_off {
            return;
        }
        self.probes = 0;
        self.probe_at = awaits.then(|| self.probe_deadline(now, rtt));
    }

    /// When an unanswered packet calls for a probe.
    #[inline]
    pub(super) fn probe_at(&self) -> Option<Instant> {
        self.probe_at
    }

    /// When data will wait unless an answer comes. A peer that was sent little meanwhile takes no share that others could
    /// use, and its few answers may all be lost on a lossy return path: it may be sent that little more.
    #[inline]
    pub(super) fn stalls_at(&self, rtt: &RttEstimator) -> Option<Instant> {
        let since =
            self.unanswered_since.filter(|_| !self.is_stalled && self.unanswered_bytes > self.stall_allowance)?;
        Some(since + self.stall(rtt))
    }

    /// When the peer will be unresponsive unless an answer comes.
    #[inline]
    pub(super) fn unresponsive_at(&self, rtt: &RttEstimator) -> Option<Instant> {
        let since = self.unanswered_since.filter(|_| !self.is_unresponsive())?;
        Some(since + self.unresponsive_after(rtt))
    }

    /// When the peer is asked, unless something comes from it. A ping that is not answered is repeated by the probe timer instead.
    #[inline]
    pub(super) fn keepalive_at(&self, has_streams: bool) -> Option<Instant> {
        (self.unanswered_since.is_none() && !self.ping_due).then(|| self.idle_until(has_streams))
    }

    /// Handles expired timers. `awaits_ack` says whether anything ack-eliciting is in flight. Returns whether the peer has become
    /// unresponsive.
    pub(super) fn on_timeout(
        &mut self,
        now: Instant,
        (awaits_ack, has_streams): (bool, bool),
        rtt: &RttEstimator,
    ) -> bool {
        if self.probe_at.is_some_and(|at| at <= now) {
            self.probe_at = None;
            if awaits_ack {
                self.probes += 1;
                self.ping_due = true;
            }
        }
        if self.unanswered_since.is_none() && self.idle_until(has_streams) <= now {
            if self.last_heard + self.keepalive.interval() <= now {
                self.keepalive.on_asked();
            }
            self.ping_due = true;
        }
        if self.stalls_at(rtt).is_some_and(|at| at <= now) {
            self.is_stalled = true;
            // Data that left all the time has put the probes off.
            self.probes += 1;
            self.ping_due = true;
        }
        let becomes_unresponsive = self.unresponsive_at(rtt).is_some_and(|at| at <= now);
        if becomes_unresponsive {
            self.unresponsive_since = Some(now);
            self.is_stalled = true;
        }
        becomes_unresponsive
    }

    /// Until when nothing needs to be asked of a peer with nothing to answer.
    #[inline]
    fn idle_until(&self, has_streams: bool) -> Instant {
        let soon = match has_streams {
            false => Duration::MAX,
            true => self.last_heard.since(self.last_traffic).max(Self::FIRST_ASKED),
        };
        self.last_heard + self.keepalive.interval().min(soon)
    }

    /// Time without an answer after which the peer is unresponsive: a few round trips, and a thin link's time for what asks.
    fn unresponsive_after(&self, rtt: &RttEstimator) -> Duration {
        (rtt.smoothed() * 3 + self.time_to_ask()).max(Self::MIN_UNRESPONSIVE)
    }

    /// How long the link takes to send what asks, or a full packet of it.
    #[inline]
    fn time_to_ask(&self) -> Duration {
        match self.unanswered_bytes {
            bytes if bytes >= self.mtu => self.packet_time,
            bytes => self.packet_time * bytes / self.mtu,
        }
    }

    /// Time without an answer after which data waits: what the answer may take, and as long again as a probe waits for the
    /// next, or as a thin return link spaces answers; and longer where answers have been rarer lately.
    #[inline]
    fn stall(&self, rtt: &RttEstimator) -> Duration {
        let timeout = rtt.probe_timeout(rtt.ack_delay()) + self.time_to_ask();
        let usual = timeout + (timeout / 4).max(self.ack_spacing);
        usual.max(self.answer_gap + self.answer_gap / 4).max(Self::MIN_STALL)
    }

    /// Takes in how long an answer has been waited for, unless that was an outage: the longest wait of late counts.
    fn learn_answer_gap(&mut self, now: Instant) {
        let Some(since) = self.unanswered_since.filter(|_| !self.is_unresponsive()) else { return };
        self.answer_gap = now.since(since).max(self.answer_gap - self.answer_gap / 64);
    }

    /// When an unanswered packet calls for a probe: in a round trip and what the peer may add to it, then a few times
    /// in quick succession, so that a loss or two do not make the peer unresponsive; in an outage so often that its end is noticed
    /// within half a round trip, and after minutes of it within one.
    #[inline]
    fn probe_deadline(&self, now: Instant, rtt: &RttEstimator) -> Instant {
        let (smoothed, timeout) = (rtt.smoothed(), rtt.probe_timeout(rtt.ack_delay()) + self.time_to_ask());
        let patience =
            |since: Instant| (smoothed / 2 + now.since(since) / 1024).min(smoothed.max(Self::MIN_PROBE_INTERVAL));
        now + match (self.unresponsive_since, self.probes) {
            (Some(since), _) => patience(since).clamp(Self::MIN_PROBE_INTERVAL, Self::MAX_PROBE_INTERVAL),
            (None, 0) => timeout,
            (None, _) => timeout / 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PrivateKey;
    use units::Rate;

    const RTT: Duration = Duration::from_millis(600);
    /// A packet of 1500 bytes at 6 Mbit/s.
    const PACKET_TIME: Duration = Duration::from_millis(2);

    fn at(millis: u64) -> Instant {
        Instant::from_nanos((1_000_000 + millis) * 1_000_000)
    }

    /// A peer of a hub at 6 Mbit/s, heard at 0 ms.
    fn liveness() -> (Liveness, RttEstimator) {
        let rate = Rate::from_bps(6_000_000);
        let config = EndpointConfig::new(PrivateKey::from_random([1; 32]), rate, rate, RTT);
        let mut rtt = RttEstimator::new(RTT);
        (0..50).for_each(|_| rtt.sample(RTT));
        (Liveness::new(&config, true, at(0)), rtt)
    }

    /// Lets time pass until `end`, timers expiring each millisecond; returns when pings became due, and when the peer became
    /// unresponsive.
    fn run(liveness: &mut Liveness, rtt: &RttEstimator, end: u64, has_streams: bool) -> (Vec<u64>, Option<u64>) {
        let (mut pings, mut unresponsive) = (Vec::new(), None);
        for millis in 0..end {
            if liveness.on_timeout(at(millis), (true, has_streams), rtt) {
                assert_eq!(unresponsive.replace(millis), None, "once");
            }
            if liveness.is_ping_due() {
                pings.push(millis);
                liveness.on_ping_sent();
                liveness.on_sent(at(millis), 60, rtt);
            }
        }
        (pings, unresponsive)
    }

    #[test]
    fn a_packet_without_an_answer_is_probed_and_after_three_round_trips_the_peer_is_unresponsive() {
        let (mut liveness, rtt) = liveness();
        liveness.on_sent(at(0), 1500, &rtt);
        let (pings, unresponsive) = run(&mut liveness, &rtt, 20_000, true);
        let timeout = (rtt.probe_timeout(rtt.ack_delay()) + PACKET_TIME).as_millis_f64();
        assert!((pings[0] as f64 - timeout).abs() <= 1.0, "{} {timeout}", pings[0]);
        assert!((pings[1] as f64 - timeout * 1.25).abs() <= 2.0, "{} {timeout}", pings[1]);
        assert_eq!(unresponsive, Some(1802));
        assert!(liveness.is_stalled() && liveness.is_unresponsive());
        let late: Vec<_> = pings.iter().filter(|ping| **ping > 10_000).collect();
        assert!(late.windows(2).all(|pair| (300..=600).contains(&(pair[1] - pair[0]))), "{late:?}");
    }

    #[test]
    fn a_thin_link_is_given_the_time_that_a_packet_takes_on_it() {
        let (rate, rtt_without_queue) = (Rate::from_bps(9_600), Duration::from_millis(100));
        let key = PrivateKey::from_random([1; 32]);
        let config = EndpointConfig::new(key, rate, rate, rtt_without_queue);
        let mut rtt = RttEstimator::new(rtt_without_queue);
        (0..50).for_each(|_| rtt.sample(rtt_without_queue));
        let mut liveness = Liveness::new(&config, true, at(0));
        liveness.on_sent(at(0), 1500, &rtt);
        let (pings, unresponsive) = run(&mut liveness, &rtt, 1350, true);
        assert_eq!(unresponsive, None, "the packet itself takes 1.25 s");
        assert!(pings.len() <= 1, "{pings:?}");
        let (_, unresponsive) = run(&mut liveness, &rtt, 3000, true);
        assert!(unresponsive.is_some_and(|after| after < 2000), "{unresponsive:?}");
    }

    #[test]
    fn what_is_heard_ends_an_outage_and_asks_what_was_lost() {
        let (mut liveness, rtt) = liveness();
        liveness.on_sent(at(0), 1500, &rtt);
        run(&mut liveness, &rtt, 5000, true);
        assert_eq!(liveness.on_heard(at(5000)), Heard { is_returning: true, was_unresponsive: true });
        assert!(liveness.is_ping_due() && liveness.is_returning());
        assert!(!liveness.is_stalled() && !liveness.is_unresponsive());
        assert_eq!(liveness.on_heard(at(5001)), Heard { is_returning: false, was_unresponsive: false });
    }

    #[test]
    fn a_peer_that_is_heard_and_acknowledges_nothing_more_is_unresponsive_until_it_does() {
        let (mut liveness, rtt) = liveness();
        liveness.on_sent(at(0), 1500, &rtt);
        // Packets without acknowledgements tell nothing.
        (0..20).for_each(|k| _ = liveness.on_heard(at(100 * k)));
        assert!(!liveness.on_not_reached(at(1800), &rtt), "a full packet takes 2 ms");
        assert!(liveness.on_not_reached(at(1810), &rtt) && !liveness.on_not_reached(at(1820), &rtt), "once");
        assert!(liveness.is_unresponsive() && liveness.is_stalled() && liveness.is_ping_due());
        liveness.on_ping_sent();
        liveness.on_sent(at(1820), 60, &rtt);
        let probe_at = liveness.probe_at();
        assert_eq!(liveness.on_heard(at(1900)), Heard { is_returning: false, was_unresponsive: false });
        liveness.on_ack(at(1900), false, &rtt);
        assert!(liveness.is_unresponsive() && probe_at.is_some() && liveness.probe_at() == probe_at);
        assert!(liveness.on_reached() && !liveness.on_reached());
        assert_eq!(liveness.on_heard(at(2000)), Heard { is_returning: true, was_unresponsive: true });
        assert!(!liveness.is_unresponsive());
    }

    #[test]
    fn the_first_acknowledgement_after_an_outage_both_ways_says_nothing_of_it() {
        let (mut liveness, rtt) = liveness();
        liveness.on_sent(at(0), 1500, &rtt);
        run(&mut liveness, &rtt, 20_000, true);
        assert!(liveness.on_heard(at(20_000)).was_unresponsive);
        assert!(!liveness.on_not_reached(at(20_000), &rtt));
        liveness.on_sent(at(20_000), 60, &rtt);
        assert!(!liveness.on_not_reached(at(21_000), &rtt));
        // It stalls again and again, and nothing arrives at the peer.
        liveness.is_stalled = true;
        assert!(liveness.on_heard(at(21_500)).is_returning);
        assert!(liveness.on_not_reached(at(21_900), &rtt));
    }

    #[test]
    fn data_waits_for_an_overdue_answer_unless_little_was_sent() {
        let (mut liveness, rtt) = liveness();
        liveness.on_sent(at(0), 60, &rtt);
        assert_eq!(liveness.stalls_at(&rtt), None, "a ping takes nothing from others");
        (0..1000).for_each(|_| liveness.on_sent(at(0), 1500, &rtt));
        let stalls = liveness.stalls_at(&rtt).expect("much was sent").since(at(0));
        assert!(stalls > rtt.probe_timeout(rtt.ack_delay()) && stalls < RTT * 3, "{stalls}");
        assert!(!liveness.on_timeout(at(0) + stalls, (true, true), &rtt));
        assert!(liveness.is_stalled() && !liveness.is_unresponsive());
    }

    #[test]
    fn an_ack_puts_probes_off_and_pings_alone_need_none() {
        let (mut liveness, rtt) = liveness();
        liveness.on_sent(at(0), 1500, &rtt);
        liveness.on_ack(at(500), true, &rtt);
        assert_eq!(liveness.probe_at(), Some(at(500) + rtt.probe_timeout(rtt.ack_delay()) + PACKET_TIME));
        liveness.on_ack(at(600), false, &rtt);
        assert_eq!(liveness.probe_at(), None);
    }

    #[test]
    fn an_idle_peer_is_asked_seldom_and_one_with_streams_soon_after_the_last_traffic() {
        let (mut idle, rtt) = liveness();
        assert_eq!(idle.keepalive_at(false), Some(at(25_000)));
        idle.on_traffic(at(0));
        assert_eq!(idle.keepalive_at(true), Some(at(2000)));
        idle.on_heard(at(2500));
        assert_eq!(idle.keepalive_at(true), Some(at(5000)), "after twice the time");
        idle.on_sent(at(2600), 60, &rtt);
        assert_eq!(idle.keepalive_at(true), None, "it has been asked");
    }

    #[test]
    fn a_peer_is_lost_only_after_it_was_asked_in_vain() {
        let (mut liveness, rtt) = liveness();
        let limit = Duration::from_secs(10);
        assert!(!liveness.is_lost(at(1_000_000), limit, &rtt), "the clock jumped");
        liveness.on_sent(at(0), 1500, &rtt);
        run(&mut liveness, &rtt, 9999, true);
        assert!(!liveness.is_lost(at(9999), limit, &rtt));
        assert!(liveness.is_lost(at(10_000), limit, &rtt));
    }
}
