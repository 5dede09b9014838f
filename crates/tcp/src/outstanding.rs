//! What both axes act on: the scoreboard, the window, the timers' arithmetic and the congestion control.

use crate::config::{Config, initial_window_rfc6928};
use crate::control::{self, Ack, Control, Loss, LossState, Window};
use crate::kinds::{self, ControlId};
use crate::marks::Answer;
use crate::profile::{AfterIdle, SendingRules};
use crate::rtt::RttEstimator;
use crate::scoreboard::{Change, Scoreboard};
use crate::segment::Segment;
use std::sync::Arc;
use units::{Duration, Instant, Rate};

/// So many times the window leaves in a round trip of slow start, up to half of the threshold, and of congestion avoidance
/// (`tcp_pacing_ss_ratio` and `tcp_pacing_ca_ratio` of Linux).
const SLOW_START_RATIO: f64 = 2.0;
const AVOIDANCE_RATIO: f64 = 1.2;

/// The sending side of a connection without its loss recovery.
#[derive(Debug)]
pub struct Outstanding {
    /// How this end behaves.
    pub config: Arc<Config>,
    /// The segments in flight.
    pub board: Scoreboard,
    /// The congestion window.
    pub window: Window,
    /// Round-trip times and the retransmission timeout.
    pub rtt: RttEstimator,
    /// The congestion control.
    pub control: Box<dyn Control>,
    /// The control is not the configured one.
    is_control_given: bool,
    /// Duplicates since the last acknowledgement of new data.
    pub duplicates: u32,
    /// Segments that the peer has reported to have arrived twice.
    pub(crate) repeated: u32,
    /// Bytes that limited transmit has sent since the first of them.
    pub limited_transmit: u64,
    /// Expiries of the retransmission timer since the last acknowledgement of new data.
    pub expiries: u32,
    /// New data is waiting to be sent, and the receiver's window allows some of it.
    pub has_new_data: bool,
    /// What was done about marks.
    pub(crate) marks: Answer,
}

impl Outstanding {
    pub(crate) fn new(config: Arc<Config>, first: u64) -> Self {
        let control = control::start(&config);
        Self {
            board: board(first, config.recovery.by_time, control.as_ref()),
            window: Window { cwnd: config.initial_window, ssthresh: config.start_ssthresh() },
            rtt: RttEstimator::new(&config.rtt),
            control,
            is_control_given: false,
            duplicates: 0,
            repeated: 0,
            limited_transmit: 0,
            expiries: 0,
            has_new_data: false,
            marks: Answer::default(),
            config,
        }
    }

    /// The peer takes at most `mss` bytes of payload in a segment (RFC 9293, section 3.7.1), before anything has happened.
    /// The initial window of RFC 6928 is that of such segments; another, also that of the control, counts segments, whatever their size.
    pub(crate) fn limit_mss(&mut self, mss: u32) {
        if mss >= self.config.mss {
            return;
        }
        let mut config = Config { mss, ..(*self.config).clone() };
        let before = config.initial_window;
        if before == initial_window_rfc6928(self.config.mss) {
            let most = config.control.own_initial_window().unwrap_or(f64::INFINITY);
            config.initial_window = initial_window_rfc6928(mss).min(most);
            // A control that follows the link's capacity may have set it already.
            if self.window.cwnd == before {
                self.window.cwnd = config.initial_window;
            }
        }
        self.configure(config);
    }

    /// The peer does not say how many packets were marked: Prague, which has to know, gives way to Reno, before anything has happened
    /// (RFC 9331, sections 4.2 and 4.3).
    pub(crate) fn give_up_counts(&mut self) {
        if self.config.control.id == ControlId::Prague {
            self.configure(Config { control: &kinds::RENO, ..(*self.config).clone() });
        }
    }

    /// The peer does not report what it has, so that losses are not found by time, before anything has happened.
    pub(crate) fn give_up_sack(&mut self) {
        self.board = board(self.board.una(), false, self.control.as_ref());
    }

    fn configure(&mut self, config: Config) {
        self.config = Arc::new(config);
        self.window.ssthresh = self.config.start_ssthresh();
        if !self.is_control_given {
            self.control = control::start(&self.config);
        }
    }

    /// Puts `control` in the place of the configured one, before anything has happened.
    pub(crate) fn set_control(&mut self, control: Box<dyn Control>) {
        self.control = control::under_resume(control, &self.config);
        self.is_control_given = true;
        if self.control.follows_losses() {
            self.board.keep_losses();
        }
    }

    /// What the profile makes it do.
    #[inline]
    pub(crate) fn rules(&self) -> &'static SendingRules {
        &self.config.rules().sending
    }

    /// The congestion window in bytes.
    pub fn cwnd_bytes(&self) -> u64 {
        self.segments(self.window.cwnd)
    }

    /// So many segments in bytes.
    pub fn segments(&self, segments: f64) -> u64 {
        // Windows that were whole numbers of bytes come back as such.
        (segments * f64::from(self.config.mss) + 1e-3) as u64
    }

    /// Bytes thought to be in the network, in whole segments where the profile counts those.
    pub fn pipe(&self) -> u64 {
        if self.rules().counts_segments { self.board.pipe_segments() * self.mss() } else { self.board.pipe() }
    }

    /// Whether a segment with `span` sequence numbers may be sent again within the congestion window. A FIN behind a full segment
    /// takes no room of its own: a window of one segment would never let it leave.
    pub fn may_send_again(&self, span: u32) -> bool {
        self.board.pipe() + u64::from(span).min(self.mss()) <= self.cwnd_bytes()
    }

    /// Whether a segment of `bytes` more fits the congestion window, of which a FIN takes nothing.
    pub fn has_room(&self, bytes: u64) -> bool {
        let counted = if self.rules().counts_segments { self.mss() } else { bytes.min(self.mss()) };
        self.pipe() + counted <= self.cwnd_bytes()
    }

    /// The retransmission timeout, backed off.
    pub fn rto(&self) -> Duration {
        self.rtt.rto(&self.config.rtt)
    }

    /// The payload of a full segment in bytes.
    pub fn mss(&self) -> u64 {
        u64::from(self.config.mss)
    }

    /// The facts of a loss found now, of which `flight` bytes were outstanding.
    pub fn loss(&self, now: Instant, flight: u64) -> Loss {
        Loss {
            now,
            mss: self.config.mss,
            flight,
            nxt: self.board.nxt(),
            srtt: self.rtt.srtt(),
            min_rtt: self.rtt.min_rtt(),
            expiries: self.expiries,
            state: LossState::Open,
        }
    }

    /// Where data are to be paced and the control says nothing: the window in a round trip, with room for it to grow
    /// (`tcp_update_pacing_rate` of Linux with the usual ratios).
    #[inline]
    pub(crate) fn window_rate(&self) -> Option<Rate> {
        if !self.config.pacing { None } else { self.rate_of_window() }
    }

    #[inline(never)]
    fn rate_of_window(&self) -> Option<Rate> {
        let srtt = self.rtt.srtt().as_secs_f64();
        let is_slow_start = self.window.cwnd < self.window.ssthresh / 2.0;
        let ratio = if is_slow_start { SLOW_START_RATIO } else { AVOIDANCE_RATIO };
        let rules = self.rules();
        let sent = if rules.counts_segments { self.board.segments() * self.mss() } else { self.board.pipe() };
        let bytes = self.cwnd_bytes().max(sent) as f64;
        (srtt > 0.0).then(|| Rate::from_bps((ratio * bytes * 8.0 / srtt) as u64))
    }

    /// FlightSize for a loss found by duplicates: without the segments that limited transmit added (RFC 5681, 3.2).
    pub fn flight_without_limited_transmit(&self) -> u64 {
        self.board.flight().saturating_sub(self.limited_transmit)
    }

    /// Tells the congestion control of a loss. Unless it governs the window, `cwnd` is left for the recovery to move. A window of
    /// data for whose marks it was lowered as for a loss is not lowered again (RFC 3168, section 6.1.2); an answer to the share of marks
    /// stands in for none (RFC 9331, section 4.3), nor do marks that a control which governs the window did not answer.
    pub fn reduce(&mut self, now: Instant, flight: u64) {
        let stand_in = !self.control.governs_window() && !self.config.control.reads_share_of_marks();
        if stand_in && self.marks.has_lowered(self.board.una()) {
            return;
        }
        self.marks.on_loss(self.board.nxt());
        let loss = self.loss(now, flight);
        self.control.on_loss(&loss, &mut self.window);
    }

    /// Bytes that an acknowledgement reports as marked.
    #[inline]
    pub(crate) fn marked(&mut self, segment: &Segment, change: &Change) -> u64 {
        self.marks.marked(segment, change.acked, change.delivered, u64::from(self.config.mss))
    }

    /// The peer echoes marks: the window is lowered once for each window of data, and not while a loss is being recovered from, for
    /// which it was lowered already.
    pub(crate) fn answer_marks(&mut self, now: Instant, state: LossState) {
        let is_due = self.marks.is_news(self.board.una()) && self.control.answers_marks(now);
        if state != LossState::Open || !is_due {
            return;
        }
        self.marks.on_reduced(self.board.nxt());
        let loss = self.loss(now, self.board.flight());
        self.control.on_marks(&loss, &mut self.window);
    }

    /// Reports the segments found lost since the last report to a congestion control that follows losses.
    pub(crate) fn tell_losses(&mut self, now: Instant) {
        for lost in self.board.take_losses() {
            self.control.on_segment_lost(now, &lost, &mut self.window);
        }
    }

    /// A recovery ends, and `ssthresh` is the window.
    pub(crate) fn recovered(&mut self, ack: &Ack) {
        self.set_cwnd(self.window.ssthresh);
        self.control.on_recovered(ack, &mut self.window);
    }

    /// Sets `cwnd` unless the congestion control governs it.
    pub fn set_cwnd(&mut self, segments: f64) {
        if !self.control.governs_window() {
            self.window.cwnd = segments;
        }
    }

    /// Lets the window grow for an acknowledgement outside of fast recovery, by the profile's rule on unused windows. What
    /// SACK had reported before does not count again, and what echoes a mark lets nothing grow (RFC 3168, section 6.1.2), or only the
    /// rest of it. After a timeout, which answered for all that was outstanding, the echo goes on until new data can say so: slow
    /// start has to come that far.
    pub fn grow(&mut self, ack: &Ack) {
        let is_limited = ack.is_window_limited || self.config.grow_when_not_limited;
        let acked = if self.rules().grows_by_sacked { ack.delivered } else { ack.acked.min(ack.delivered) };
        let is_repeated = ack.state == LossState::Timeout && self.marks.is_repeated(ack.una);
        let marked = if is_repeated { 0 } else { ack.marked };
        let is_growth = ack.acked > 0 && acked > marked && is_limited && !self.control.governs_window();
        if is_growth && (marked == 0 || self.control.grows_beside_marks()) {
            self.control.grow(&Ack { acked: acked - marked, ..*ack }, &mut self.window);
        }
    }

    /// The connection sends again after `idle`, longer than the timeout: the window restarts.
    pub(crate) fn restart(&mut self, idle: Duration, rto: Duration) {
        let (cwnd, least) = (self.window.cwnd, self.window.cwnd.min(self.config.initial_window));
        match self.rules().after_idle {
            AfterIdle::InitialWindow => self.window.cwnd = least,
            AfterIdle::HalfEachTimeout => {
                let timeouts = idle.as_nanos().saturating_sub(1) / rto.as_nanos().max(1);
                self.window.ssthresh = self.window.ssthresh.max(0.75 * cwnd);
                self.window.cwnd = (cwnd * 0.5_f64.powi(timeouts.min(64) as i32)).max(least);
            }
        }
    }

    /// The retransmission timer expired while the recovery was at `state`: everything outstanding counts as lost.
    pub fn collapse(&mut self, now: Instant, state: LossState) {
        self.expire(now, state);
        self.board.mark_all_lost();
    }

    /// The same in Linux: what was sent less than `rtt` ago, the round-trip time of what arrived last, is still under way, and
    /// the window holds it and what the control leaves (`tcp_enter_loss`).
    pub fn collapse_but_for_recent(&mut self, now: Instant, state: LossState, rtt: Duration) {
        self.expire(now, state);
        self.board.mark_old_lost(now, rtt);
        self.window.cwnd += self.board.pipe_segments() as f64;
    }

    fn expire(&mut self, now: Instant, state: LossState) {
        // Where a retransmission was lost, new data has gone on leaving for a whole timeout: what is known to have arrived
        // is not in flight.
        let flight = self.board.flight() - self.board.sacked();
        self.rtt.back_off();
        self.marks.on_loss(self.board.nxt());
        let loss = Loss { state, ..self.loss(now, flight) };
        self.control.on_timeout(&loss, &mut self.window);
        self.duplicates = 0;
        if self.board.has_reneged() {
            self.board.forget_sacks();
        }
    }
}

/// A scoreboard from the byte `first` on, that has each loss for a control that follows losses.
fn board(first: u64, by_time: bool, control: &dyn Control) -> Scoreboard {
    let mut board = Scoreboard::new(first, by_time);
    if control.follows_losses() {
        board.keep_losses();
    }
    board
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::{MSS, ack};
    use crate::kinds::ControlKind;
    use crate::profile::Profile;
    use units::Ecn;

    /// RFC 9331, section 4.3, and RFC 8257, section 3.4: the answer to a share of marks is none to a loss.
    #[test]
    fn a_loss_beside_marks_halves_where_these_are_answered_by_their_share() {
        for (name, expected) in [("reno", 5.0), ("cubic", 7.0), ("dctcp", 3.0), ("prague", 3.0)] {
            let control = ControlKind::by_name(name).expect("known");
            let config = Config { mss: MSS, control, ecn: Ecn::Ect1, ..Config::new(Profile::Rfc) };
            let mut out = Outstanding::new(Arc::new(config), 1);
            out.window = Window { cwnd: 10.0, ssthresh: 2.0 };
            (0..10).for_each(|_| out.board.on_sent(Instant::ZERO, MSS));
            out.answer_marks(Instant::ZERO, LossState::Open);
            out.reduce(Instant::ZERO, 6 * u64::from(MSS));
            assert!((out.window.ssthresh - expected).abs() < 1e-9, "{name}: {:?}", out.window);
        }
    }

    /// The initial window of RFC 6928 is two segments of 8,960 bytes, as LEDBAT's is whatever their size, and ten of 1,460.
    #[test]
    fn smaller_segments_widen_the_initial_window_as_far_as_the_control_begins_with_it() {
        for (name, expected) in [("reno", 10.0), ("ledbat", 2.0), ("ledbat-plus-plus", 2.0)] {
            let control = ControlKind::by_name(name).expect("known");
            let config = Config { mss: 8_960, control, initial_window: 2.0, ..Config::new(Profile::Rfc) };
            let mut out = Outstanding::new(Arc::new(config), 1);
            out.limit_mss(1_460);
            assert_eq!((out.config.initial_window, out.window.cwnd), (expected, expected), "{name}");
        }
    }

    /// Governs its window, and shows that it knows of a loss.
    #[derive(Debug)]
    struct Governing;

    impl Control for Governing {
        fn grow(&mut self, _: &Ack, _: &mut Window) {}

        fn on_loss(&mut self, _: &Loss, window: &mut Window) {
            window.ssthresh = 7.0;
        }

        fn on_timeout(&mut self, _: &Loss, _: &mut Window) {}

        fn governs_window(&self) -> bool {
            true
        }
    }

    /// Marks do not lower its window, so that they stand in for no loss: BBR remembers the window that it had before one.
    #[test]
    fn a_control_that_governs_the_window_hears_of_a_loss_beside_marks() {
        let mut out = Outstanding::new(Arc::new(Config { mss: MSS, ..Config::new(Profile::Rfc) }), 1);
        out.set_control(Box::new(Governing));
        (0..10).for_each(|_| out.board.on_sent(Instant::ZERO, MSS));
        out.answer_marks(Instant::ZERO, LossState::Open);
        out.reduce(Instant::ZERO, 6 * u64::from(MSS));
        assert_eq!(out.window.ssthresh, 7.0);
    }

    /// `tcp_update_pacing_rate` takes the window or `packets_out`, of which in a recovery much has arrived or is lost.
    #[test]
    fn in_linux_what_is_outstanding_paces_a_recovery_though_it_is_not_in_flight() {
        for (profile, segments) in [(Profile::Rfc, 10), (Profile::Linux, 20)] {
            let config = Config { mss: MSS, pacing: true, ..Config::new(profile) };
            let mut out = Outstanding::new(Arc::new(config), 0);
            out.window = Window { cwnd: 10.0, ssthresh: 10.0 };
            out.rtt.sample(&out.config.rtt, Duration::from_millis(100), 0, 0);
            (0..20).for_each(|_| out.board.on_sent(Instant::ZERO, MSS));
            out.board.mark_all_lost();
            let expected = Rate::from_bps(segments * u64::from(MSS) * 8 * 12);
            assert_eq!(out.window_rate(), Some(expected), "{profile:?}");
        }
    }

    /// Each acknowledgement reports marks. Prague declines them for 25 ms, and not until the next round trip of 20 ms has ended.
    #[test]
    fn prague_answers_marks_every_25_ms_over_a_shorter_round_trip() {
        let control = ControlKind::by_name("prague").expect("known");
        let config = Config { mss: MSS, control, ecn: Ecn::Ect1, ..Config::new(Profile::Rfc) };
        let mut out = Outstanding::new(Arc::new(config), 0);
        out.window = Window { cwnd: 1000.0, ssthresh: 2.0 };
        let mut answers = Vec::new();
        for millis in 0..120 {
            let now = Instant::ZERO + Duration::from_millis(millis);
            out.board.on_sent(now, MSS);
            out.board.on_cumulative(now, millis.saturating_sub(20) * u64::from(MSS), &mut Change::default());
            let before = out.window.cwnd;
            out.answer_marks(now, LossState::Open);
            answers.extend((out.window.cwnd < before).then_some(millis));
        }
        assert_eq!(answers, [21, 46, 71, 96]);
    }

    #[test]
    fn what_arrives_unmarked_beside_marks_lets_prague_grow_and_no_other() {
        for (name, growth) in [("reno", 0.0), ("cubic", 0.0), ("dctcp", 0.0), ("prague", 0.1)] {
            let control = ControlKind::by_name(name).expect("known");
            let config = Config { mss: MSS, control, ..Config::new(Profile::Rfc) };
            let mut out = Outstanding::new(Arc::new(config), 0);
            out.window = Window { cwnd: 10.0, ssthresh: 2.0 };
            let one_of_two = Ack { marked: u64::from(MSS), ..ack(2) };
            out.grow(&one_of_two);
            assert!((out.window.cwnd - 10.0 - growth).abs() < 1e-9, "{name}: {:?}", out.window);
            out.grow(&Ack { marked: 2 * u64::from(MSS), ..one_of_two });
            assert!((out.window.cwnd - 10.0 - growth).abs() < 1e-9, "{name}: all were marked");
        }
    }
}
