//! Loss detection by time, with probes of the tail (RACK-TLP, RFC 8985).

use super::Recovery;
use super::fast::DUPLICATES;
use super::frto::SpuriousTimeout;
use super::prr::{Bound, RateReduction};
use super::undo::Undo;
use crate::config::Config;
use crate::control::{Ack, LossState};
use crate::outstanding::Outstanding;
use crate::profile::RackRules;
use crate::scoreboard::{Change, Newest};
use crate::timestamp;
use units::{Duration, Instant};

/// A segment is lost when one sent sufficiently later has arrived.
#[derive(Debug)]
pub(super) struct Rack {
    rules: &'static RackRules,
    state: LossState,
    recovery_point: u64,
    /// Transmissions until the window was last lowered: a later one that is lost tells of congestion since.
    lowered_at: u64,
    /// The latest retransmission that detection has found lost.
    lost_again: Option<u64>,
    is_due: bool,
    wants_proportional: bool,
    proportional: Option<RateReduction>,
    /// The segment sent last among those that have arrived.
    newest: Option<Newest>,
    /// The round-trip time of that segment.
    rtt: Duration,
    reordering: Reordering,
    /// When what has not arrived by then counts as lost.
    reorder_timer: Option<Instant>,
    probe: Probe,
    /// What the response to the latest loss changed, while it may turn out to be needless (Linux).
    undo: Option<Undo>,
    /// The timestamp of the first retransmission of those that may be under way.
    first_retransmission: Option<u32>,
    /// How far it is found out whether a timeout was needless (Linux).
    spurious_timeout: SpuriousTimeout,
}

/// How much reordering the path shows.
#[derive(Debug)]
struct Reordering {
    was_seen: bool,
    /// Quarters of the minimal round-trip time by which a segment may be late (`reo_wnd_mult`).
    factor: u32,
    /// Recoveries for which the factor is kept.
    persistence: u32,
    /// Duplicates reported before this byte was acknowledged count once.
    round_end: u64,
}

/// The tail loss probe.
#[derive(Debug, Default)]
struct Probe {
    at: Option<Instant>,
    /// The probe has fired and leaves next.
    is_due: bool,
    /// The end of what was sent when the probe left (`TLP.end_seq`), and whether it was a retransmission.
    outstanding: Option<(u64, bool)>,
}

impl Reordering {
    /// A recovery has ended, be it one from a timeout (section 6.2, step 4; `tcp_try_undo_recovery` of Linux).
    fn on_recovered(&mut self) {
        self.persistence = self.persistence.saturating_sub(1);
        if self.persistence == 0 {
            self.factor = 1;
        }
    }
}

impl Rack {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            rules: &config.rules().rack,
            state: LossState::Open,
            recovery_point: 0,
            lowered_at: 0,
            lost_again: None,
            is_due: false,
            wants_proportional: config.proportional_rate_reduction,
            proportional: None,
            newest: None,
            rtt: Duration::ZERO,
            reordering: Reordering { was_seen: false, factor: 1, persistence: 0, round_end: 0 },
            reorder_timer: None,
            probe: Probe::default(),
            undo: None,
            first_retransmission: None,
            spurious_timeout: SpuriousTimeout::default(),
        }
    }

    /// A response begins.
    fn remember_window(&mut self, out: &Outstanding) {
        if out.board.retransmitted() == 0 {
            self.first_retransmission = None;
        }
        self.undo = self.rules.undoes.then(|| Undo::new(out, self.first_retransmission));
    }

    /// Steps 1 and 2 of section 6.2: what arrived that was sent last.
    fn update(&mut self, ack: &Ack, change: &Change) {
        let Some(delivered) = change.newest else { return };
        let rtt = ack.now.since(delivered.sent_at);
        let predates = |echo: u32| timestamp::is_older(echo, timestamp::ms(delivered.sent_at));
        if delivered.is_retransmitted && (rtt < ack.min_rtt || change.acked > 0 && change.echo.is_some_and(predates)) {
            return;
        }
        if self.newest.is_none_or(|newest| (newest.sent_at, newest.end) < (delivered.sent_at, delivered.end)) {
            self.newest = Some(delivered.into());
            self.rtt = rtt;
        }
    }

    /// Step 4: how late a segment may be.
    fn reordering_window(&self, out: &Outstanding) -> Duration {
        let is_certain = self.state != LossState::Open || out.board.sacked_segments() >= DUPLICATES.into();
        if !self.reordering.was_seen && is_certain {
            return Duration::ZERO;
        }
        (out.rtt.min_rtt() / 4 * u64::from(self.reordering.factor)).min(out.rtt.srtt())
    }

    /// Step 5: marks what is lost, and sets the timer for what may be.
    fn detect(&mut self, now: Instant, out: &mut Outstanding) -> u64 {
        let Some(newest) = self.newest else { return 0 };
        let wait = self.rtt + self.reordering_window(out);
        let overdue = out.board.mark_lost_by_time(now, newest, wait);
        (self.reorder_timer, self.lost_again) = (overdue.rest_at, overdue.lost_again);
        overdue.lost
    }

    fn begin(&mut self, now: Instant, out: &mut Outstanding) {
        self.remember_window(out);
        let (before, bound) = if self.rules.reduces_window {
            (out.cwnd_bytes(), Bound::WhileSafe)
        } else {
            (out.board.flight(), Bound::SlowStart)
        };
        let mut flight = out.flight_without_limited_transmit();
        if self.rules.lowers_again {
            // Behind a hole that took several round trips to fill more has left than the window holds, and arrived.
            flight = flight.min(out.cwnd_bytes());
        }
        out.reduce(now, flight);
        self.lowered_at = out.board.transmissions();
        self.state = LossState::Recovery;
        self.recovery_point = out.board.nxt();
        self.is_due = true;
        self.probe.at = None;
        if self.wants_proportional {
            self.proportional = Some(RateReduction::new(before, bound, out.mss()));
        } else {
            out.set_cwnd(out.window.ssthresh);
        }
    }

    /// Retransmissions were lost. Where one of them left after the window was lowered, that was not enough: it is lowered again, from what it
    /// was lowered to. `found` bytes were found lost.
    fn lower_again(&mut self, now: Instant, found: u64, out: &mut Outstanding) {
        let is_news = self.lost_again.is_some_and(|transmission| transmission >= self.lowered_at);
        if !self.rules.lowers_again || self.state == LossState::Open || !is_news {
            return;
        }
        let in_use = out.pipe() + found;
        let flight = if self.state == LossState::Recovery {
            out.set_cwnd(out.window.ssthresh);
            out.cwnd_bytes()
        } else {
            in_use
        };
        out.reduce(now, flight);
        self.lowered_at = out.board.transmissions();
        if self.state != LossState::Recovery {
            return out.set_cwnd(out.window.cwnd.min(out.window.ssthresh));
        }
        match &mut self.proportional {
            Some(proportional) => *proportional = RateReduction::new(in_use, Bound::SlowStart, out.mss()),
            None => out.set_cwnd(out.window.ssthresh),
        }
    }

    fn end(&mut self, ack: &Ack, out: &mut Outstanding) {
        if self.state == LossState::Recovery {
            out.recovered(ack);
        }
        self.reordering.on_recovered();
        self.state = LossState::Open;
        self.proportional = None;
        self.is_due = false;
    }

    /// The response to a loss was needless: all is as before. Returns whether it seems so and repairs under way are to tell first: until then
    /// nothing else counts as lost (`tcp_try_undo_partial` of Linux).
    fn undo_if_spurious(&mut self, ack: &Ack, change: &Change, out: &mut Outstanding) -> bool {
        let Some(undo) = &mut self.undo else { return false };
        let is_reported = undo.completes_reports(change);
        let undo = *undo;
        if self.state == LossState::Open {
            self.undo_after_the_end(undo, is_reported, ack, out);
            return false;
        }
        let answers_original = undo.answers_original(change);
        if answers_original && self.state == LossState::Recovery && ack.una < self.recovery_point {
            // The hole was filled by the segment that was late, and no repair.
            self.reordering.was_seen |= self.rules.reads_reordering;
            if out.board.retransmitted() > 0 {
                return true;
            }
        }
        if answers_original || is_reported || self.shows_timeout_needless(ack, change, out) {
            undo.apply(ack.now, out);
            self.state = LossState::Open;
            self.proportional = None;
            self.is_due = false;
            self.undo = None;
        }
        false
    }

    /// A repair's duplicate may be reported when the recovery has ended (`tcp_try_undo_dsack`). A window that was lowered for marks since is
    /// another one (`tcp_enter_cwr`).
    fn undo_after_the_end(&mut self, undo: Undo, is_reported: bool, ack: &Ack, out: &mut Outstanding) {
        if ack.marked > 0 {
            self.undo = None;
        } else if is_reported {
            undo.restore_window(ack.now, out);
            self.undo = None;
        }
    }

    /// F-RTO: new data leave before anything else is sent again, and answers to what was sent before the timeout tell that it
    /// was needless.
    fn shows_timeout_needless(&mut self, ack: &Ack, change: &Change, out: &Outstanding) -> bool {
        if self.state != LossState::Timeout {
            return false;
        }
        let is_needless = self.spurious_timeout.on_ack(ack, change, self.recovery_point, out.has_new_data);
        if self.spurious_timeout.sends_new() {
            self.recovery_point = ack.nxt;
        }
        is_needless
    }

    /// What arrives was sent before the first missing segment was last sent, which may be queued behind it.
    fn waits_behind_queue(&self, ack: &Ack, change: &Change, out: &Outstanding) -> bool {
        let is_older = |(rtt, sent_at)| rtt > ack.now.since(sent_at);
        self.rules.waits_behind_queue && change.oldest_rtt.zip(out.board.una_sent_at()).is_some_and(is_older)
    }

    /// The segment from `first` to `end` arrived twice: the window was too short.
    fn on_duplicate(&mut self, (first, end): (u64, u64), ack: &Ack, out: &Outstanding) {
        if self.rules.reads_reordering {
            // The original came after the repair (`tcp_sacktag_one`).
            self.reordering.was_seen |= out.board.is_sacked_again(first);
            // A probe of the tail is no response to reordering.
            let is_probe = self.probe.outstanding.is_some_and(|(probed, _)| probed == end);
            if !self.reordering.was_seen || is_probe {
                return;
            }
        }
        if ack.una >= self.reordering.round_end {
            self.reordering.round_end = ack.nxt;
            self.reordering.factor += 1;
            self.reordering.persistence = 16;
        }
    }

    /// Section 7.4: an acknowledged probe that repaired a loss is a loss.
    fn judge_probe(&mut self, ack: &Ack, change: &Change, out: &mut Outstanding) {
        let Some((end, was_retransmission)) = self.probe.outstanding else { return };
        // Both the original and the probe have arrived: that is what a duplicate of the probe says, and a plain duplicate of a receiver
        // without D-SACK.
        let is_repeated = change.duplicate.is_some_and(|(_, duplicate)| duplicate == end);
        if is_repeated {
            self.probe.outstanding = None;
        } else if ack.is_duplicate && change.sacked == 0 && change.duplicate.is_none() {
            self.on_ack_of_nothing(ack.una);
        } else if !was_retransmission && ack.una >= end || ack.una > end {
            self.probe.outstanding = None;
            if was_retransmission && self.state == LossState::Open {
                let flight = out.board.flight().max(out.cwnd_bytes());
                out.reduce(ack.now, flight);
                out.recovered(ack);
            }
        }
    }

    /// Section 7.2: when to probe, if at all.
    fn schedule_probe(&mut self, now: Instant, out: &Outstanding) {
        let may = self.state == LossState::Open
            && self.probe.outstanding.is_none()
            && !out.board.is_empty()
            && out.board.sacked() == 0;
        self.probe.at = may.then(|| {
            let srtt = out.rtt.srtt();
            let is_single = out.board.segments() == 1;
            let delay = if is_single { Duration::from_millis(200) } else { self.rules.probe_delay };
            let wait = if srtt.is_zero() { Duration::from_secs(1) } else { srtt * 2 + delay };
            now + wait.min(out.rto())
        });
    }
}

impl Recovery for Rack {
    fn on_ack_of_nothing(&mut self, una: u64) {
        self.probe.outstanding.take_if(|(end, was_retransmission)| *was_retransmission && *end == una);
    }

    fn on_ack(&mut self, ack: &Ack, change: &Change, out: &mut Outstanding) -> bool {
        self.update(ack, change);
        self.reordering.was_seen |= change.is_reordered;
        if let Some(duplicate) = change.duplicate {
            self.on_duplicate(duplicate, ack, out);
        }
        self.judge_probe(ack, change, out);
        let waits_for_repairs = self.undo_if_spurious(ack, change, out);
        let was_recovering = self.state == LossState::Recovery;
        if self.state != LossState::Open && ack.una >= self.recovery_point {
            self.end(ack, out);
        }
        let retransmitted = out.board.retransmitted();
        let found = if waits_for_repairs { 0 } else { self.detect(ack.now, out) };
        let has_lost_again = out.board.retransmitted() < retransmitted;
        if has_lost_again {
            self.lower_again(ack.now, found, out);
        }
        match self.state {
            // What was lost of the data sent since the recovery began is a loss of its own.
            LossState::Open if found > 0 || (was_recovering && out.board.lost() + out.board.retransmitted() > 0) => {
                self.begin(ack.now, out);
            }
            LossState::Timeout if has_lost_again && self.rules.recovers_after_timeout => self.begin(ack.now, out),
            LossState::Open if was_recovering && !self.rules.grows_at_end => {}
            LossState::Open | LossState::Timeout => out.grow(&Ack { state: self.state, ..*ack }),
            LossState::Recovery => {}
        }
        if let Some(proportional) = &mut self.proportional {
            proportional.on_ack(ack, found, out);
        }
        if change.delivered > 0 || out.board.is_empty() {
            self.schedule_probe(ack.now, out);
        }
        // The first retransmission restarts the timer, too: it is what the timer now waits for.
        ack.acked > 0 || self.is_due || self.waits_behind_queue(ack, change, out)
    }

    fn on_timeout(&mut self, now: Instant, out: &mut Outstanding) {
        // What can be undone is a smaller window: a timeout during a recovery does not make it smaller.
        let is_first = out.expiries == 1;
        if self.state == LossState::Open || self.state == LossState::Timeout && is_first {
            self.remember_window(out);
        }
        if self.rules.spares_recent {
            out.collapse_but_for_recent(now, self.state, self.rtt);
        } else {
            out.collapse(now, self.state);
        }
        if self.rules.undoes {
            self.spurious_timeout.begin(self.state == LossState::Open || !is_first);
        }
        self.state = LossState::Timeout;
        self.lowered_at = out.board.transmissions();
        self.recovery_point = out.board.nxt();
        self.proportional = None;
        self.is_due = false;
        self.reorder_timer = None;
        self.probe = Probe::default();
    }

    fn retransmission(&mut self, _: Instant, out: &Outstanding) -> Option<(u64, u32)> {
        if self.probe.is_due && !out.has_new_data {
            self.probe.is_due = false;
            let (seq, span) = out.board.last_outstanding()?;
            self.probe.outstanding = Some((out.board.nxt(), true));
            return Some((seq, span));
        }
        if out.has_new_data && self.spurious_timeout.sends_new() {
            return None;
        }
        let (seq, span) = out.board.first_lost()?;
        (std::mem::take(&mut self.is_due) || out.has_room(span.into())).then_some((seq, span))
    }

    fn may_send_new(&self, bytes: u64, out: &Outstanding) -> bool {
        self.probe.is_due || out.has_room(bytes)
    }

    fn on_sent(&mut self, now: Instant, bytes: u64, is_retransmission: bool, out: &Outstanding) {
        if std::mem::take(&mut self.probe.is_due) {
            self.probe.outstanding = Some((out.board.nxt(), false));
        }
        if let Some(proportional) = &mut self.proportional {
            proportional.on_sent(bytes);
        }
        if is_retransmission {
            let timestamp = timestamp::ms(now);
            self.first_retransmission.get_or_insert(timestamp);
            self.undo.iter_mut().for_each(|undo| undo.on_retransmission(timestamp));
        } else {
            self.schedule_probe(now, out);
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        match (self.reorder_timer, self.probe.at) {
            (Some(reordering), Some(probe)) => Some(reordering.min(probe)),
            (reordering, probe) => reordering.or(probe),
        }
    }

    fn on_timer(&mut self, now: Instant, out: &mut Outstanding) -> bool {
        if self.reorder_timer.is_some_and(|at| at <= now) {
            self.reorder_timer = None;
            let found = self.detect(now, out);
            if found > 0 {
                self.lower_again(now, found, out);
            }
            if found > 0 && self.state == LossState::Open {
                self.begin(now, out);
                if let Some(proportional) = &mut self.proportional {
                    proportional.on_timer(out);
                }
            }
        }
        self.probe.at.is_some_and(|at| at <= now) && self.probes_instead()
    }

    fn probes_instead(&mut self) -> bool {
        let was_scheduled = self.probe.at.take().is_some();
        self.probe.is_due |= was_scheduled;
        was_scheduled
    }

    fn state(&self) -> LossState {
        self.state
    }
}
