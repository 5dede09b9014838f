//! Several peers on one link: what of a delay is the queue of the link that they share, and what is one path's own.
//!
//! Points hold delays on one clock each and our own times, so that points of different peers compare. What most of the peers that are
//! sent to see at the same time is the link's queue; what one has beyond that is its own: a terminal in the rain, or with a host that
//! lies. It lowers what that peer is sent and nothing else. So what a peer reports before the others do waits for theirs.

use super::delays::{Counts, Point};
use super::estimate::EstimateSource;
use super::estimator::{Estimator, News};
use super::parts::EstimatorPart;
use super::path_reports::{Account, PathReports, Reading, Wander};
use super::prior::Belief;
use super::quantities::{RoundTrip, Sent};
use super::report::Report;
use super::trains::median;
use crate::event::PeerId;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use units::Duration;

/// A peer's path over the link.
#[derive(Debug)]
struct PeerPath {
    reports: PathReports,
    /// What its own queue tells; it counts while the path is narrow.
    estimator: Estimator,
    is_narrow: bool,
    /// Bytes that the peer has been sent since its first report, in packets that ask for one.
    own_bytes: u64,
    rtt: RoundTrip,
    /// How many bytes the peer had been sent in its session with the newest packet that it has reported.
    reported_own: f64,
    latest_report: f64,
    /// When the latest packet that asks for a report left.
    latest_sent: f64,
    /// The newest points, which are split when others' points of the same time are known; the newest last.
    waiting: VecDeque<Point>,
}

/// The paths to all peers.
#[derive(Debug, Default)]
pub(super) struct Paths {
    paths: BTreeMap<usize, PeerPath>,
    totals: Counts,
    /// When the latest point of the link was sent.
    latest: f64,
    /// To whom the latest train left, on the link or on a narrow path.
    train_to: Option<PeerId>,
}

/// A report's point as the link has it, and as the path has it.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) link: Option<Point>,
    pub(super) own: Option<Point>,
    /// Others are sent to as well.
    pub(super) has_others: bool,
}

impl Paths {
    /// Points that were sent at most this far apart saw the same queue.
    const TOGETHER: f64 = 0.08;
    /// Packets of a point; and what was sent this far apart was sent to peers that share the link.
    const POINT_PACKETS: f64 = 4.0;
    const RECENTLY: f64 = 1.0;
    /// Who was sent something this long ago still shares the link, though a queue drains meanwhile.
    const AT_ALL: f64 = 3.0;
    /// A peer that loses so much more than twice what others do loses it on its own path, or says so.
    const MUCH_LOSS: f64 = 0.1;
    /// A path that carries this share of the link is not narrow any more.
    const AS_WIDE: f64 = 0.95;
    /// Without a report for so long, what a path was is forgotten.
    const STALE: f64 = 30.0;
    /// Over this long it is seen how much a peer is sent.
    const SHARE: f64 = 0.2;

    /// Reads a report; `None` if it stamps nothing. Returns how far delays differ without a queue as well.
    pub(super) fn read(
        &mut self,
        now: f64,
        peer: PeerId,
        report: &Report,
        link: &mut Estimator,
    ) -> Option<(Reading, Wander)> {
        let loses_alone = link.parts.has(EstimatorPart::Paths) && self.loses_alone(peer);
        let Self { paths, totals, .. } = self;
        let path = paths.entry(peer.index()).or_insert_with(|| PeerPath::new(link));
        let rule = link.point_rule(now);
        let account = Account { totals, clock: peer.index(), loses_alone };
        let estimator = &mut path.estimator;
        let reading = path.reports.read(report, account, rule, |stamp| {
            let arrived = stamp.arrived.as_secs_f64();
            link.trains.on_stamp(peer, stamp.number, stamp.position as f64, arrived)
                || estimator.trains.on_stamp(peer, stamp.number, stamp.position as f64, arrived)
        })?;
        path.on_report(now);
        if reading.newest_own > path.reported_own {
            path.reported_own = reading.newest_own;
            path.rtt.sample(now - reading.newest.at);
        }
        let noise = path.reports.wander().noise;
        Some((reading, Wander { noise, frame: self.frame(now) }))
    }

    /// The link's frame: the shortest of those that the peers' packets arrive in. A longer one is a path's own, or a lie.
    fn frame(&self, now: f64) -> f64 {
        let recent = self.paths.values().filter(|path| now - path.latest_report < Self::AT_ALL);
        recent.map(|path| path.reports.wander().frame).reduce(f64::min).unwrap_or(0.0)
    }

    /// What has arrived at all peers.
    pub(super) fn counts(&self) -> Counts {
        self.totals
    }

    /// Splits the delay of a report's point on a link that takes `packet` seconds for one.
    pub(super) fn share_out(&mut self, peer: PeerId, reading: &Reading, packet: f64) -> Shared {
        let Some(newest) = reading.point else { return Shared::default() };
        // Where many share a slow link, each has a point seldom.
        let apart = (packet * Self::POINT_PACKETS * self.paths.len() as f64).clamp(Self::TOGETHER, Self::RECENTLY);
        let Some(path) = self.paths.get_mut(&peer.index()) else { return Shared::default() };
        let (is_narrow, waited) = (path.is_narrow, path.wait(newest));
        // What others saw at the time of the point before is known by now, though they report in turns.
        let mut point = waited.filter(|waited| newest.sent - waited.sent <= Self::RECENTLY).unwrap_or(newest);
        let mut queues = self.queues_at(peer, point.sent, apart);
        let known = if queues.is_empty() && !is_narrow { self.others_report(peer, newest.sent, apart) } else { None };
        if let Some(known) = known {
            // A peer that is nearer than others, or says so, is not believed alone: its points wait.
            let earlier = self.take_waiting(peer, known);
            queues = earlier.map(|earlier| self.queues_at(peer, earlier.sent, apart)).unwrap_or_default();
            let Some(earlier) = earlier.filter(|_| !queues.is_empty()) else {
                return Shared { has_others: true, ..Shared::default() };
            };
            point = earlier;
        } else if let Some(path) = self.paths.get_mut(&peer.index()) {
            path.waiting.drain(..path.waiting.len() - 1);
        }
        let has_others = !queues.is_empty() || self.has_others(peer, point.sent);
        if queues.is_empty() {
            // Who is sent to alone has all of the delay to itself. What a peer reports that long after others is of its own path.
            let is_late = newest.sent < self.latest - Self::RECENTLY;
            let is_own = is_narrow || is_late;
            if !is_own {
                self.latest = self.latest.max(newest.sent);
            }
            let own = Point { position: newest.own, lag: 0.0, ..newest };
            let has_others = has_others || is_late;
            return Shared { link: (!is_own).then_some(newest), own: is_own.then_some(own), has_others };
        }
        if !is_narrow {
            queues.push(point.queue);
        }
        let shared = if queues.len() == 2 { queues[0].min(queues[1]) } else { median(&mut queues) };
        let is_due = !is_narrow && known.is_none() && point.sent >= self.latest + 0.01;
        if is_due {
            self.latest = point.sent;
        }
        let own = Point { queue: (point.queue - shared).max(0.0), position: point.own, lag: 0.0, ..point };
        let link = is_due.then_some(Point { queue: shared, ..point });
        Shared { link, own: Some(own), has_others }
    }

    /// The queues that others than `peer` whose paths are not narrow saw at about `sent`.
    fn queues_at(&self, peer: PeerId, sent: f64, apart: f64) -> SmallVec<[f64; 16]> {
        self.wide_others(peer).filter_map(|path| path.reports.queue_at(sent, apart)).collect()
    }

    fn wide_others(&self, peer: PeerId) -> impl Iterator<Item = &PeerPath> {
        let others = self.paths.iter().filter(move |(index, path)| **index != peer.index() && !path.is_narrow);
        others.map(|(_, path)| path)
    }

    /// If others are about to report what was sent at `sent`: up to when what they were sent is reported.
    fn others_report(&self, peer: PeerId, sent: f64, apart: f64) -> Option<f64> {
        let about_to = self.wide_others(peer).filter_map(|path| path.reports_up_to(sent, apart));
        about_to.reduce(f64::max)
    }

    /// The newest point of `peer` that waits and was sent at `known` at the latest; older ones are forgotten.
    fn take_waiting(&mut self, peer: PeerId, known: f64) -> Option<Point> {
        let waiting = &mut self.paths.get_mut(&peer.index())?.waiting;
        let at = waiting.iter().rposition(|point| point.sent <= known)?;
        waiting.drain(..=at).next_back()
    }

    /// Whether others than `peer` were sent to at about `sent`.
    fn has_others(&self, peer: PeerId, sent: f64) -> bool {
        let mut others = self.paths.iter().filter(|(index, _)| **index != peer.index());
        others.any(|(_, path)| path.reports.queue_at(sent, Self::AT_ALL).is_some())
    }

    /// How many peers there are.
    pub(super) fn len(&self) -> usize {
        self.paths.len()
    }

    /// Whether a peer loses more than others do: what it loses is no concern of the link.
    pub(super) fn loses_alone(&self, peer: PeerId) -> bool {
        let loss = |path: &PeerPath| path.reports.loss();
        let own = self.paths.get(&peer.index()).map_or(0.0, loss);
        if own <= Self::MUCH_LOSS {
            return false;
        }
        let mut others: SmallVec<[f64; 16]> =
            self.paths.iter().filter(|(index, _)| **index != peer.index()).map(|(_, path)| loss(path)).collect();
        !others.is_empty() && own > Self::MUCH_LOSS + 2.0 * median(&mut others)
    }

    /// Updates what is known of a peer's path. Returns until when to hold its data back.
    pub(super) fn on_report(
        &mut self,
        now: f64,
        peer: PeerId,
        report: &Report,
        reading: &Reading,
        point: Option<Point>,
        link: f64,
    ) -> Option<f64> {
        let path = self.paths.get_mut(&peer.index())?;
        if !path.is_narrow {
            point?;
            path.follow(link);
        }
        let newest = Sent { position: reading.newest_own, ..reading.newest };
        let wander = path.reports.wander();
        let news = News { newest, largest: report.largest, lost: &[], point, wander, counts: self.totals, rtt: None };
        let before = path.estimator.grown_at;
        path.estimator.follows = !path.is_narrow;
        let judgement = path.estimator.on_report(now, peer, &news);
        if let Some(shift) = judgement.shift {
            path.reports.delays.shift(shift);
        }
        if path.estimator.grown_at > before && !path.is_narrow {
            path.is_narrow = true;
        } else if path.is_narrow && path.estimator.rate >= Self::AS_WIDE * link {
            path.is_narrow = false;
            path.estimator.trains.end();
        }
        // Once what was sent since the first report has arrived, little is left of a queue, however long its packets were held.
        let is_empty = reading.newest_own >= path.own_bytes as f64;
        if path.is_narrow && is_empty { Some(now) } else { judgement.hold_until }
    }

    /// What of a delay turned out to be no queue: of `seconds` for `peer`, and of as much as they have for the others.
    pub(super) fn shift_all(&mut self, peer: PeerId, seconds: f64) {
        for (index, path) in &mut self.paths {
            let queue = path.reports.queue();
            let shift = if *index == peer.index() { queue.max(seconds) } else { queue };
            path.reports.shift(shift);
        }
    }

    /// What was taken for the link's rate is that of the path to `peer`.
    pub(super) fn set_narrow(&mut self, peer: PeerId, rate: f64) {
        let Some(path) = self.paths.get_mut(&peer.index()) else { return };
        path.is_narrow = true;
        path.estimator.set(rate, EstimateSource::Queue);
        path.estimator.points.clear();
        path.waiting.clear();
    }

    /// The estimator of a path that is narrow.
    pub(super) fn narrow(&mut self, peer: PeerId) -> Option<&mut Estimator> {
        self.paths.get_mut(&peer.index()).filter(|path| path.is_narrow).map(|path| &mut path.estimator)
    }

    /// A packet of a train leaves to `peer`.
    pub(super) fn on_train(&mut self, peer: PeerId) {
        self.train_to = Some(peer);
    }

    /// The path of the latest train. No other has one that is leaving.
    fn of_train(&self) -> Option<&PeerPath> {
        self.paths.get(&self.train_to?.index())
    }

    /// Bytes per second of the train that is leaving on a narrow path.
    pub(super) fn train_leaving_at(&self) -> Option<f64> {
        self.of_train()?.estimator.trains.leaving_at()
    }

    /// To which peer a train is leaving on a narrow path.
    pub(super) fn train_leaves_to(&self) -> Option<PeerId> {
        self.of_train()?.estimator.trains.leaving_to()
    }

    /// Whether the latest train on a narrow path has ended and sent ahead of its pace.
    pub(super) fn is_ahead(&self) -> bool {
        self.of_train().is_some_and(|path| path.is_narrow && path.estimator.trains.is_ahead())
    }

    /// The round-trip time of a peer that is one of several.
    pub(super) fn rtt(&self, peer: PeerId) -> Option<f64> {
        let path = self.paths.get(&peer.index()).filter(|_| self.paths.len() > 1)?;
        Some(path.rtt.smoothed)
    }

    /// The pace to a peer whose path is narrow.
    pub(super) fn pace(&self, now: f64, peer: PeerId) -> Option<f64> {
        let path =
            self.paths.get(&peer.index()).filter(|path| path.is_narrow && now - path.latest_report < Self::STALE)?;
        Some(path.estimator.trains.leaving_at().unwrap_or(path.estimator.pace(now)))
    }

    pub(super) fn on_sent(&mut self, now: f64, peer: PeerId, ip_bytes: usize) {
        if let Some(path) = self.paths.get_mut(&peer.index()) {
            path.own_bytes += ip_bytes as u64;
            path.latest_sent = now;
            path.estimator.on_sent(now, ip_bytes, path.own_bytes as f64, None);
        }
    }

    pub(super) fn on_idle(&mut self) {
        let path = self.train_to.and_then(|peer| self.paths.get_mut(&peer.index()));
        if let Some(path) = path.filter(|path| path.is_narrow) {
            path.estimator.trains.end();
        }
    }

    /// After an outage.
    pub(super) fn restart(&mut self, now: f64) {
        for path in self.paths.values_mut() {
            path.reports.interrupt();
            path.waiting.clear();
            path.estimator.restart(now);
        }
    }

    /// What a peer says next does not follow from what it said.
    pub(super) fn interrupt(&mut self, peer: PeerId) {
        if let Some(path) = self.paths.get_mut(&peer.index()) {
            path.reports.forget_delays();
            path.reported_own = 0.0;
            path.waiting.clear();
            path.estimator.points.clear();
            path.estimator.trains.forget_results();
        }
    }

    /// What is believed of the link has other bounds, and so has what a path carries of it.
    pub(super) fn bound(&mut self, belief: Belief) {
        self.paths.values_mut().for_each(|path| path.estimator.bound(PeerPath::belief(belief)));
    }

    pub(super) fn forget(&mut self, peer: PeerId) {
        self.paths.remove(&peer.index());
    }
}

impl PeerPath {
    /// Packets to one of many peers leave unevenly.
    const SLACK: f64 = 2.0;
    /// A peer that is sent half of an even share or more has its points this much further apart than one that is sent all of it.
    const IN_A_ROW: f64 = 2.0;

    fn new(link: &Estimator) -> Self {
        let mut estimator =
            Estimator::new(Self::belief(link.belief), Duration::from_secs_f64(link.rtt.smoothed)).with(link.parts);
        estimator.end_guess();
        estimator.slack = Self::SLACK;
        estimator.is_alone = false;
        Self {
            reports: PathReports::default(),
            estimator,
            is_narrow: false,
            own_bytes: 0,
            rtt: link.rtt,
            reported_own: 0.0,
            latest_report: 0.0,
            latest_sent: 0.0,
            waiting: VecDeque::new(),
        }
    }

    /// What is believed of a path of a link of which `link` is believed: it is no guess.
    fn belief(link: Belief) -> Belief {
        Belief { confidence: 1.0, ..link }
    }

    /// The peer has reported. What its path was long ago is forgotten.
    fn on_report(&mut self, now: f64) {
        if self.is_narrow && now - self.latest_report >= Paths::STALE {
            self.is_narrow = false;
            self.estimator.trains.end();
            self.estimator.points.clear();
            self.waiting.clear();
        }
        self.latest_report = now;
    }

    /// The newest point waits. Returns the one before.
    fn wait(&mut self, newest: Point) -> Option<Point> {
        if self.waiting.len() == PathReports::SEEN {
            self.waiting.pop_front();
        }
        let before = self.waiting.back().copied();
        self.waiting.push_back(newest);
        before
    }

    /// If the peer has points in a row and is about to report what was sent at `sent`: when what it reported last was sent.
    fn reports_up_to(&self, sent: f64, apart: f64) -> Option<f64> {
        let [before, latest] = self.reports.latest_points()?;
        let is_in_a_row = latest - before <= Self::IN_A_ROW * apart;
        let is_behind = (sent - Paths::RECENTLY - apart..sent).contains(&latest);
        (is_in_a_row && is_behind && self.latest_sent >= sent - apart).then_some(latest)
    }

    /// As long as the path is no narrower than what the peer is sent, that is what is known of it.
    fn follow(&mut self, link: f64) {
        let estimator = &mut self.estimator;
        let ends = estimator.points.front().zip(estimator.points.back());
        let sent = ends
            .filter(|(first, last)| last.sent - first.sent >= Paths::SHARE)
            .map(|(first, last)| last.sent_since(first));
        estimator.set(sent.unwrap_or(link).min(link), EstimateSource::Queue);
    }
}

#[cfg(test)]
mod tests {
    use super::super::estimate::EstimatorState;
    use super::super::prior::Prior;
    use super::super::report::{LostPacket, Stamp};
    use super::*;
    use crate::packet_number::PacketNumber;
    use units::{Instant, Rate};

    const RATE: f64 = 750e3;
    const PEERS: usize = 4;

    /// The estimator of a hub that has sent `sent_to` packets to each peer.
    struct Hub {
        link: Estimator,
        paths: Paths,
        sent_to: [u64; PEERS],
    }

    /// A packet on its way: its number and position on the link and on the path, and when it left.
    #[derive(Clone, Copy)]
    struct OnWay {
        peer: PeerId,
        number: PacketNumber,
        position: u64,
        own: u64,
        sent: f64,
    }

    impl Hub {
        fn new(believed: f64) -> Self {
            let prior = Prior::Configured(Rate::from_bps((believed * 8.0) as u64));
            let mut link = Estimator::new(prior.belief(Duration::from_millis(550), None), Duration::from_millis(550));
            link.end_guess();
            Self { link, paths: Paths::default(), sent_to: [0; PEERS] }
        }

        /// The `k`th packet of the link goes to `index`.
        fn send(&mut self, sent: f64, k: u64, index: usize) -> OnWay {
            self.sent_to[index] += 1;
            let (peer, position, own) = (PeerId(index as u32), 1500 * (k + 1), 1500 * self.sent_to[index]);
            self.paths.on_sent(sent, peer, 1500);
            self.link.on_sent(sent, 1500, position as f64, self.paths.rtt(peer));
            OnWay { peer, number: PacketNumber::new(self.sent_to[index] - 1), position, own, sent }
        }

        /// A report says at `now` that a packet arrived, after `took` seconds and on a clock of that peer's own.
        fn on_report(&mut self, now: f64, packet: OnWay, took: f64) {
            let OnWay { peer, number, position, own, sent } = packet;
            let arrived = Duration::from_secs_f64(sent + took + 1000.0 * f64::from(peer.0 + 1));
            let sent = Instant::ZERO + Duration::from_secs_f64(sent);
            let stamp = Stamp { number, sent, position, own, ip_size: 1500, is_train: false, arrived };
            let report = Report {
                received_packets: own / 1500,
                received_bytes: own,
                stamps: std::iter::once(stamp).collect(),
                largest: number,
                settled: number,
                acknowledged: 1,
                ..Report::default()
            };
            let Self { link, paths, .. } = self;
            let Some((reading, wander)) = paths.read(now, peer, &report, link) else { return };
            let shared = paths.share_out(peer, &reading, link.packets(1.0));
            link.peers = paths.len();
            let (newest, largest, counts, rtt) = (reading.newest, report.largest, paths.counts(), paths.rtt(peer));
            link.on_report(now, peer, &News { newest, largest, lost: &[], point: shared.link, wander, counts, rtt });
            paths.on_report(now, peer, &report, &reading, shared.own, link.rate);
        }

        fn paces(&self, now: f64) -> Vec<Option<f64>> {
            (0..PEERS).map(|index| self.paths.pace(now, PeerId(index as u32))).collect()
        }
    }

    /// Half a minute of packets to all peers in turn at `pace` times the link's rate; what the first one's stamps are late by at a time.
    /// Returns the estimate of the link, and the pace of each path that is narrow.
    fn run(pace: f64, late: impl Fn(f64) -> f64) -> (f64, Vec<Option<f64>>) {
        let (rates, paces) = run_from(RATE, pace, (15_000, 1), late);
        (*rates.last().expect("reports"), paces)
    }

    /// So many packets, some in a row to each peer, from an estimate of `believed` on. Returns the estimates of the link after each report.
    fn run_from(
        believed: f64,
        pace: f64,
        (packets, in_a_row): (u64, u64),
        late: impl Fn(f64) -> f64,
    ) -> (Vec<f64>, Vec<Option<f64>>) {
        let mut hub = Hub::new(believed);
        let (mut free, mut rates) = (0.0f64, Vec::new());
        for k in 0..packets {
            let sent = k as f64 * 1500.0 / (RATE * pace);
            free = free.max(sent) + 1500.0 / RATE;
            let index = (k / in_a_row) as usize % PEERS;
            let packet = hub.send(sent, k, index);
            hub.on_report(free + 0.55, packet, free - sent + if index == 0 { late(sent) } else { 0.0 });
            rates.push(hub.link.rate);
        }
        let paces = hub.paces(free + 0.55);
        (rates, paces)
    }

    #[test]
    fn a_peer_that_reports_queues_that_are_not_there_harms_none_but_itself() {
        let swaying = |now: f64| 0.15 * (now / 2.0 % 2.0 - 1.0).abs();
        let growing = |now: f64| if now < 5.0 { 0.0 } else { (0.2 * (now - 5.0)).min(3.0) };
        let lies: [&dyn Fn(f64) -> f64; 3] = [&swaying, &growing, &|now| if now < 5.0 { 0.0 } else { 0.4 }];
        for (number, late) in lies.into_iter().enumerate() {
            let (rate, paces) = run(0.98, late);
            assert!((rate / RATE - 1.0).abs() < 0.05, "{number}: {rate}");
            assert!(paces[1..].iter().all(Option::is_none), "{number}: {paces:?}");
            assert!(paces[0].is_none_or(|pace| pace <= rate), "{number}: {paces:?}");
        }
    }

    #[test]
    fn a_queue_that_grows_fast_is_measured_though_peers_report_in_turns() {
        // Twice what the link carries: from the packets to one peer to those to the next, the queue grows by 20 ms.
        let (rates, _) = run_from(2.0 * RATE, 2.0, (2000, 20), |_| 0.0);
        let after_a_second = rates[1000] / RATE;
        assert!((0.9..1.05).contains(&after_a_second), "{after_a_second}");
    }

    #[test]
    fn a_path_that_fades_is_found_narrow_though_it_reports_seconds_later_than_others() {
        // From the fifth second on, the path to the first peer carries a tenth of what is sent to it. Of its packets, only every so many
        // are stamped at first, as where a train leaves to it.
        for gap in [1, 4, 12, 16, 24] {
            let mut hub = Hub::new(RATE);
            let (mut free, mut own_free, mut reports) = (0.0f64, 0.0f64, Vec::new());
            for k in 0..15_000 {
                let sent = k as f64 * 1500.0 / (RATE * 0.98);
                free = free.max(sent) + 1500.0 / RATE;
                let packet = hub.send(sent, k, k as usize % PEERS);
                let mut arrived = free;
                if packet.peer.0 == 0 && sent >= 5.0 {
                    own_free = own_free.max(free) + 1500.0 / (0.1 * RATE / PEERS as f64);
                    arrived = own_free;
                    if own_free - 5.0 < 2.0 && !(packet.own / 1500).is_multiple_of(gap) {
                        continue;
                    }
                }
                reports.push((arrived + 0.275, packet, arrived - sent));
            }
            reports.sort_by(|(one, ..), (other, ..)| one.total_cmp(other));
            let last = reports.iter().take_while(|(now, ..)| *now < 25.0);
            for (now, packet, took) in last {
                hub.on_report(*now, *packet, *took);
                let rate = hub.link.rate / RATE;
                assert!((0.95..1.05).contains(&rate), "{gap} at {now}: {rate}");
            }
            let paces = hub.paces(25.0);
            assert!(paces[0].is_some_and(|pace| pace < 0.1 * RATE), "{gap}: {paces:?}");
            assert!(paces[1..].iter().all(Option::is_none), "{gap}: {paces:?}");
        }
    }

    #[test]
    fn the_link_is_followed_though_a_narrow_path_reports_sooner_than_others() {
        // The path to the first peer carries a tenth of what is sent to it from the fifth second on, and is short from the twelfth on.
        // From the fifteenth on, the link carries a half.
        let mut hub = Hub::new(RATE);
        let (mut free, mut own_free, mut reports) = (0.0f64, 0.0f64, Vec::new());
        for k in 0..10_000 {
            let sent = k as f64 * 1500.0 / (RATE * 0.98);
            free = free.max(sent) + 1500.0 / if sent < 15.0 { RATE } else { RATE / 2.0 };
            let index = k as usize % PEERS;
            // What is sent to it is what it is found to carry.
            if index == 0 && sent >= 7.0 && !(k / PEERS as u64).is_multiple_of(10) {
                continue;
            }
            let packet = hub.send(sent, k, index);
            let mut arrived = free;
            if index == 0 && sent >= 5.0 {
                own_free = own_free.max(free) + 1500.0 / (0.1 * RATE / PEERS as f64);
                arrived = own_free;
            }
            reports.push((arrived + if index == 0 && sent > 12.0 { 0.01 } else { 0.275 }, packet, arrived - sent));
        }
        reports.sort_by(|(one, ..), (other, ..)| one.total_cmp(other));
        for (now, packet, took) in reports.iter().take_while(|(now, ..)| *now < 18.0) {
            hub.on_report(*now, *packet, *took);
        }
        assert!(hub.paths.narrow(PeerId(0)).is_some());
        assert!(hub.link.rate < 0.6 * RATE, "{}", hub.link.rate / RATE);
    }

    /// When packets leave, and to whom: to all peers in turn, at 0.98 times the link's rate, until `end`.
    fn in_turns(end: f64) -> impl Iterator<Item = (f64, usize)> {
        let packets = (0u64..).map(|k| (k as f64 * 1500.0 / (RATE * 0.98), k as usize % PEERS));
        packets.take_while(move |(sent, _)| *sent < end)
    }

    /// Sends `packets` over a link that carries `rate` at a time. `behind` says how much later than it leaves the link a packet is
    /// stamped, and how much later that is reported. `look` sees the estimator before each packet.
    fn play(
        packets: impl Iterator<Item = (f64, usize)>,
        rate: impl Fn(f64) -> f64,
        mut behind: impl FnMut(f64, usize) -> (f64, f64),
        mut look: impl FnMut(f64, &Hub),
    ) -> Hub {
        let mut hub = Hub::new(RATE);
        let mut free = 0.0f64;
        // By the time of the report, in nanoseconds.
        let mut reports: BTreeMap<(u64, usize), (OnWay, f64)> = BTreeMap::new();
        for (k, (sent, index)) in packets.enumerate() {
            while let Some(entry) = reports.first_entry().filter(|entry| entry.key().0 <= (sent * 1e9) as u64) {
                let ((now, _), (packet, took)) = entry.remove_entry();
                hub.on_report(now as f64 / 1e9, packet, took);
            }
            look(sent, &hub);
            let packet = hub.send(sent, k as u64, index);
            free = free.max(sent) + 1500.0 / rate(sent);
            let (stamped, reported) = behind(free, index);
            reports.insert((((free + reported) * 1e9) as u64, k), (packet, free + stamped - sent));
        }
        hub
    }

    /// The estimate that was furthest from what the link carried, as a share, of packets to all peers in turn for 25 s; and the paces
    /// in the end.
    fn worst(behind: impl FnMut(f64, usize) -> (f64, f64)) -> (f64, Vec<Option<f64>>) {
        let mut worst = 1.0f64;
        let hub = play(
            in_turns(25.0),
            |_| RATE,
            behind,
            |_, hub| {
                let rate = hub.link.rate / RATE;
                if (rate - 1.0).abs() > (worst - 1.0).abs() {
                    worst = rate;
                }
            },
        );
        (worst, hub.paces(25.0))
    }

    #[test]
    fn a_narrow_path_has_the_bounds_of_the_link_as_they_are_now() {
        let mut hub = play(in_turns(5.0), |_| RATE, |_, _| (0.0, 0.55), |_, _| ());
        hub.paths.set_narrow(PeerId(0), 0.1 * RATE);
        let other = Prior::Configured(Rate::from_bps((RATE * 8.0) as u64)).belief(Duration::from_millis(550), None);
        let wider = Belief { ceiling: 50.0 * RATE, ..other };
        hub.link.bound(wider);
        hub.paths.bound(wider);
        let estimator = hub.paths.narrow(PeerId(0)).expect("it is narrow");
        estimator.set(40.0 * RATE, EstimateSource::Trial);
        assert_eq!((estimator.rate, estimator.belief.confidence), (40.0 * RATE, 1.0));
    }

    #[test]
    fn what_a_path_was_long_ago_is_forgotten_by_its_next_report() {
        let mut hub = play(in_turns(5.0), |_| RATE, |_, _| (0.0, 0.55), |_, _| ());
        hub.paths.set_narrow(PeerId(0), 0.1 * RATE);
        assert!(hub.paces(6.0)[0].is_some());
        let at = 6.0 + Paths::STALE;
        let packet = hub.send(at, 1_000_000, 0);
        hub.on_report(at + 0.55, packet, 0.275);
        assert_eq!(hub.paces(at + 0.55)[0], None);
    }

    #[test]
    fn a_near_terminal_that_fades_harms_none_but_itself() {
        // From the fifth second on, the path to the first peer carries this share of what is sent to it.
        for (rtt, left) in [(0.03, 0.1), (0.03, 0.3), (0.03, 0.5), (0.03, 0.9), (0.1, 0.3), (0.3, 0.7)] {
            let mut own_free = 0.0f64;
            let (rate, paces) = worst(|free, index| {
                if index > 0 {
                    return (0.0, 0.6);
                }
                if free >= 5.0 {
                    own_free = own_free.max(free) + 1500.0 / (left * RATE / PEERS as f64);
                }
                let own_queue = (own_free - free).max(0.0);
                (own_queue, rtt + own_queue)
            });
            assert!((rate - 1.0).abs() < 0.05, "{rtt}, {left}: {rate}");
            assert!(left > 0.8 || paces[0].is_some_and(|pace| pace < left * RATE), "{rtt}, {left}: {paces:?}");
            assert!(paces[1..].iter().all(Option::is_none), "{rtt}, {left}: {paces:?}");
        }
    }

    #[test]
    fn a_peer_that_reports_false_queues_before_others_report_harms_none_but_itself() {
        let swaying = |now: f64| 0.15 * (now / 2.0 % 2.0 - 1.0).abs();
        let growing = |now: f64| if now < 5.0 { 0.0 } else { (0.2 * (now - 5.0)).min(3.0) };
        let lies: [&dyn Fn(f64) -> f64; 2] = [&swaying, &growing];
        // How much too early it stamps, and reports, what it has not received yet.
        let half_a_round_trip = |_: f64| 0.275;
        let ever_more = |now: f64| (0.025 * now).min(0.5);
        let now_and_then = |now: f64| if now % 3.0 < 1.5 { 0.3 } else { 0.0 };
        let early: [&dyn Fn(f64) -> f64; 3] = [&half_a_round_trip, &ever_more, &now_and_then];
        for (number, lie) in lies.into_iter().enumerate() {
            for (how, early) in early.into_iter().enumerate() {
                let (rate, paces) =
                    worst(
                        |free, index| {
                            if index == 0 { (lie(free) - early(free), 0.55 - early(free)) } else { (0.0, 0.55) }
                        },
                    );
                assert!((rate - 1.0).abs() < 0.05, "{number}, {how}: {rate}");
                assert!(paces[1..].iter().all(Option::is_none), "{number}, {how}: {paces:?}");
            }
        }
    }

    #[test]
    fn the_link_is_followed_though_one_peer_is_near() {
        // From the fifth second on, the link carries a half.
        let rate = |sent: f64| if sent < 5.0 { RATE } else { RATE / 2.0 };
        let behind = |_, index| (0.0, if index == 0 { 0.03 } else { 0.55 });
        let hub = play(in_turns(8.0), rate, behind, |_, _| ());
        assert!((0.45..0.55).contains(&(hub.link.rate / RATE)), "{}", hub.link.rate / RATE);
    }

    #[test]
    fn one_near_peer_does_not_make_the_round_trip_short() {
        let behind = |_, index| (0.0, if index == 0 { 0.03 } else { 0.55 });
        let hub = play(in_turns(5.0), |_| RATE, behind, |_, _| ());
        assert!((hub.link.rtt.smoothed - 0.55).abs() < 0.03, "{:?}", hub.link.rtt);
    }

    #[test]
    fn far_peers_are_not_taken_for_silent_when_near_ones_have_reported_last() {
        // All are sent to until the third second, near ones until the fifth, and far ones from then on: all but one, or one.
        for (first, others) in [(0.03, 0.55), (0.55, 0.03)] {
            let rtt = |index: usize| if index == 0 { first } else { others };
            let is_sent_to = |(sent, index): &(f64, usize)| *sent < 3.0 || (*sent < 5.0) == (rtt(*index) < 0.5);
            let look = |now, hub: &Hub| assert_eq!(hub.link.state(now), EstimatorState::Track, "{first} at {now}");
            play(in_turns(10.0).filter(is_sent_to), |_| RATE, |_, index| (0.0, rtt(index)), look);
        }
    }

    #[test]
    fn what_one_peer_alone_loses_is_not_lost_on_the_link() {
        let mut hub = Hub::new(RATE);
        for round in 1..=100 {
            for index in 0..PEERS as u32 {
                let lost = LostPacket {
                    number: PacketNumber::ZERO,
                    sent: Instant::ZERO,
                    position: 1500,
                    ip_size: 1500,
                    is_train: false,
                };
                let lost = (0..if index == 0 { 5 } else { 0 }).map(|_| lost).collect();
                let report = Report { received_bytes: 15_000 * round, lost, ..Report::default() };
                hub.paths.read(round as f64 * 0.1, PeerId(index), &report, &mut hub.link);
            }
        }
        let Counts { received, lost, .. } = hub.paths.counts();
        // Until it is known that this peer loses more than others.
        assert!(lost < 0.01 * received, "{lost} of {received}");
    }

    #[test]
    fn a_near_peer_that_alone_is_sent_to_is_believed_at_once() {
        // From the fifth second on, the others are sent a packet in a while, and from the tenth on, the link carries a half.
        let rate = |sent: f64| if sent < 10.0 { RATE } else { RATE / 2.0 };
        let packets = in_turns(10.3)
            .enumerate()
            .map(|(k, (sent, index))| (sent, if sent < 5.0 || k % 100 == 1 { index } else { 0 }));
        let behind = |_, index| (0.0, if index == 0 { 0.03 } else { 0.55 });
        let hub = play(packets, rate, behind, |_, _| ());
        assert!(hub.link.rate < 0.6 * RATE, "{}", hub.link.rate / RATE);
    }

    #[test]
    fn a_peer_that_hides_the_queue_gains_nothing() {
        // More is sent than the link carries; the first one's stamps say that nothing waits.
        let (rate, _) = run(1.3, |sent| -0.3 * sent);
        assert!(rate < 1.05 * RATE, "{rate}");
    }
}
