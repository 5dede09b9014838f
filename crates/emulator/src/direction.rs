//! One direction: from the receiving interface through the link to the sending interface.

use crate::apart::Apart;
use crate::arrival_log::{LoggedOutcome, Record};
use crate::frame::{Arrival, Frame, Memory, Pool};
use crate::headers;
use crate::path::{Path, PathModel};
use crate::report::{DirectionReport, Dropped, Lateness, TerminalReport, Transit};
use crate::segment::{Unsupported, segment};
use crate::terminal::PathError;
use crate::train::Train;
use hdrhistogram::Histogram;
use kernel::clock;
use kernel::packet::{BATCH, PacketSocket, Received, is_too_long};
use link::dama::Sample;
use link::{Counters, Outcome, Packet, Tally};
use std::collections::VecDeque;
use std::io;
use units::{Bytes, Duration, Ecn, Instant, Rate};

/// The largest lateness that the histogram resolves.
const LATENESS_MAX_NANOS: u64 = 10_000_000_000;
/// How often an interface may refuse a train, for example because its queue is full; after that it is one that cuts none.
const REFUSED_TRAINS_MAX: u32 = 8;
/// The longest time on the link that the histogram resolves.
const TRANSIT_MAX_MICROS: u64 = 600_000_000;

pub(crate) struct Direction {
    path: Path<Frame>,
    /// Paths before a restart, until what is on its way there has left.
    former: Vec<Path<Frame>>,
    /// Senders that the log distinguishes though they share a link.
    apart: Option<Apart>,
    memory: Memory,
    memory_limit: Bytes,
    /// Frames that leave with the next call, and when each should have left (exempt frames: never mind).
    outgoing: Vec<Frame>,
    due: Vec<Option<Instant>>,
    /// Which of them leave as one.
    trains: VecDeque<Train>,
    /// The longest packets that the interface takes. Of trains it checks none.
    mtu: usize,
    /// How many trains in a row the host refused, but not their packets.
    refused_trains: u32,
    start: Instant,
    /// The latest time that the link has seen.
    now: Instant,
    emptied: Emptied,
    exempt: Exempt,
    /// When the last frame arrived that was received, while others may wait: those have not arrived before.
    received_to: Option<Instant>,
    /// How many packets came.
    arrivals: u64,
    /// The outcome of packets since the log took it; `None` without a log.
    records: Option<Vec<Record>>,
    facts: Facts,
}

/// Address resolution that has crossed at once of late.
#[derive(Debug, Clone, Copy)]
struct Exempt {
    since: Instant,
    frames: u32,
}

impl Exempt {
    const INTERVAL: Duration = Duration::from_millis(100);
    /// More than this in an interval goes by the link: frames that come back, as where both interfaces lead to one network, would go round
    /// as fast as a processor sends them.
    const MAX: u32 = 1000;

    /// Whether a frame that arrives at `now` may cross at once.
    fn admits(&mut self, now: Instant) -> bool {
        if now.since(self.since) >= Self::INTERVAL {
            *self = Self { since: now, frames: 0 };
        }
        self.frames = self.frames.saturating_add(1);
        self.frames <= Self::MAX
    }
}

/// What is counted outside the link.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    link: Counters,
    pub(crate) terminals: Vec<TerminalReport>,
    memory_limit: Tally,
    oversize: Tally,
    send_failed: Tally,
    receive_overrun: u64,
    unsupported: u64,
    no_terminal: u64,
    link_local: u64,
    exempt_frames: u64,
    /// In nanoseconds.
    lateness: Histogram<u64>,
    /// In microseconds.
    transit: Histogram<u64>,
}

/// When no more frames waited to be received: what is received later arrived after that.
#[derive(Debug, Clone, Copy)]
struct Emptied(Instant);

impl Emptied {
    /// When a frame arrived that is received at `now` and by the system clock has `waited` so long. That clock may have been set
    /// meanwhile.
    fn arrival(self, now: Instant, waited: Duration) -> Instant {
        now.before(waited).max(self.0).min(now)
    }
}

impl Direction {
    pub(crate) fn new(start: Instant, config: &PathModel, memory_limit: Bytes) -> Result<Self, PathError> {
        Ok(Self {
            path: Path::new(start, config)?,
            former: Vec::new(),
            apart: None,
            memory: Memory::default(),
            memory_limit,
            outgoing: Vec::with_capacity(BATCH),
            due: Vec::with_capacity(BATCH),
            trains: VecDeque::with_capacity(BATCH),
            mtu: 0,
            refused_trains: 0,
            start,
            now: start,
            emptied: Emptied(start),
            exempt: Exempt { since: start, frames: 0 },
            received_to: None,
            arrivals: 0,
            records: None,
            facts: Facts::new(),
        })
    }

    /// Has schedules, random numbers and counters begin again at `start`. What is on its way arrives as before, and counts nowhere.
    ///
    /// # Errors
    /// If `config` makes no path.
    pub(crate) fn restart(&mut self, start: Instant, config: &PathModel) -> Result<(), PathError> {
        let mut path = Path::new(start, config)?;
        if self.path.is_recording() {
            path.record_capacity();
        }
        self.former.push(std::mem::replace(&mut self.path, path));
        self.facts = Facts::new();
        Ok(())
    }

    /// At `now` no more frames waited to be received.
    pub(crate) fn on_emptied(&mut self, now: Instant) {
        self.emptied = Emptied(now);
        self.received_to = None;
    }

    /// Takes one frame, received at `now`, which the batch could not hold if it is `None`.
    pub(crate) fn accept(&mut self, now: Instant, received: Option<Received<'_>>, pool: &mut Pool) {
        let layered = received.and_then(|received| Some((received, headers::network_layer(received.frame)?)));
        let Some((Received { offload, frame, waited }, layer)) = layered else {
            self.facts.unsupported += 1;
            return;
        };
        let arrival = self.emptied.arrival(now, waited);
        self.received_to = Some(arrival);
        let is_exempt = headers::is_address_resolution(frame, layer) && self.exempt.admits(arrival);
        let cut = segment(offload, frame, layer, pool, |pool, frame| {
            if is_exempt {
                self.facts.exempt_frames += 1;
                self.outgoing.push(frame);
                self.due.push(None);
            } else {
                self.enqueue(arrival, frame, pool);
            }
        });
        if cut == Err(Unsupported) {
            self.facts.unsupported += 1;
        }
    }

    fn enqueue(&mut self, now: Instant, mut frame: Frame, pool: &mut Pool) {
        self.now = self.now.max(now);
        let Some(link) = self.path.link_of(&frame.bytes) else {
            let Facts { unsupported, link_local, no_terminal, .. } = &mut self.facts;
            *(if headers::source(&frame.bytes).is_none() {
                unsupported
            } else if headers::is_link_local(&frame.bytes) {
                link_local
            } else {
                no_terminal
            }) += 1;
            pool.give(frame.bytes);
            return;
        };
        let terminal = match &self.apart {
            Some(apart) => apart.terminal_of(&frame.bytes),
            None => self.path.is_apart().then_some(link),
        };
        let ecn = if self.records.is_some() { frame.ecn() } else { Ecn::NotCapable };
        frame.arrival = Arrival { number: self.arrivals, at: self.now, terminal, ecn };
        self.arrivals += 1;
        if self.memory.bytes() >= self.memory_limit.as_u64() {
            self.facts.memory_limit += frame.size();
            self.record(&frame, LoggedOutcome::MemoryLimit, self.now);
            pool.give(frame.bytes);
            return;
        }
        self.memory.hold(&mut frame);
        self.path.enqueue(self.now, link, frame);
    }

    /// From now on, the outcome of packets is kept for [`Direction::records`]. Of packets that all share a link, `apart` says
    /// whose each is.
    pub(crate) fn keep_records(&mut self, apart: Option<Apart>) {
        self.records.get_or_insert_default();
        self.apart = apart.filter(|_| !self.path.is_apart());
    }

    /// The outcome of packets, for the log to take.
    pub(crate) fn records(&mut self) -> Option<&mut Vec<Record>> {
        self.records.as_mut()
    }

    /// Records the packets that are still on their way; after that the direction is at its end.
    pub(crate) fn record_in_transit(&mut self) {
        while let Some(outcome) = self.drain() {
            let at = outcome.at();
            let (Outcome::Departure { packet, .. } | Outcome::Drop { packet, .. }) = outcome;
            self.record(&packet, LoggedOutcome::InTransit, at);
        }
    }

    fn drain(&mut self) -> Option<Outcome<Frame>> {
        self.former.iter_mut().chain([&mut self.path]).find_map(|path| path.drain(self.now))
    }

    fn record(&mut self, frame: &Frame, outcome: LoggedOutcome, at: Instant) {
        if let Some(records) = &mut self.records {
            let Arrival { number, at: arrived, terminal, ecn } = frame.arrival;
            let (arrived, at) = (arrived.since(self.start), at.since(self.start));
            records.push(Record {
                number,
                arrived,
                size: frame.size(),
                flow: frame.flow_hash(),
                ecn,
                outcome,
                at,
                terminal,
            });
        }
    }

    /// Notes that a received frame was lost because it could not be described.
    pub(crate) fn count_unsupported(&mut self) {
        self.facts.unsupported += 1;
    }

    /// Notes frames that the kernel dropped before they could be received.
    pub(crate) fn count_overruns(&mut self, frames: u64) {
        self.facts.receive_overrun += frames;
    }

    /// From now on, [`Direction::take_samples`] has some.
    pub(crate) fn record_capacity(&mut self) {
        self.path.record_capacity();
    }

    /// Moves what a carrier's terminals were given in superframes that are over to `all`.
    pub(crate) fn take_samples(&mut self, all: &mut Vec<Sample>) {
        self.path.take_samples(all);
    }

    /// Sends what is due by `now`; where frames may still wait to be received, what is due before these have arrived: what leaves,
    /// and what the queue has room for, does not depend on when they are received.
    pub(crate) fn depart(&mut self, now: Instant, to: &PacketSocket, pool: &mut Pool) {
        self.now = self.now.max(self.received_to.map_or(now, |arrived| arrived.min(now)));
        while let Some((outcome, counts)) = self.next_outcome() {
            if self.records.is_some() {
                let (Outcome::Departure { packet, .. } | Outcome::Drop { packet, .. }) = &outcome;
                self.record(packet, LoggedOutcome::of(&outcome, packet.arrival.ecn), outcome.at());
            }
            match outcome {
                Outcome::Departure { packet, at } => {
                    if counts {
                        self.facts.transit.saturating_record(at.since(packet.arrival.at).as_nanos() / 1000);
                    }
                    self.outgoing.push(packet);
                    self.due.push(counts.then_some(at));
                    if self.outgoing.len() >= BATCH {
                        self.flush(to, pool);
                    }
                }
                Outcome::Drop { packet, .. } => {
                    pool.give(packet.bytes);
                }
            }
        }
        self.flush(to, pool)
    }

    /// What has become of the next packet, and whether that counts.
    fn next_outcome(&mut self) -> Option<(Outcome<Frame>, bool)> {
        if let Some(outcome) = self.former.iter_mut().find_map(|path| path.poll(self.now)) {
            return Some((outcome, false));
        }
        self.former.retain(|path| path.counters().in_transit().packets > 0);
        self.path.poll(self.now).map(|outcome| (outcome, true))
    }

    fn paths(&self) -> impl Iterator<Item = &Path<Frame>> {
        self.former.iter().chain([&self.path])
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.paths().filter_map(Path::next_timeout).min()
    }

    /// When the last packet leaves of those on their way that do by `end`; `None` if none does.
    pub(crate) fn last_timeout_by(&self, end: Instant) -> Option<Instant> {
        self.paths().filter_map(|path| path.last_timeout_by(end)).max()
    }

    /// The longest packets that the sending interface takes from now on.
    pub(crate) fn set_mtu(&mut self, mtu: usize) {
        self.mtu = mtu;
    }

    /// The longest packets that the sending interface takes.
    pub(crate) fn mtu(&self) -> usize {
        self.mtu
    }

    /// Sends the outgoing frames; one that the host refuses is dropped, and the rest go on.
    fn flush(&mut self, to: &PacketSocket, pool: &mut Pool) {
        self.couple();
        while let Some(first) = self.trains.front() {
            match to.send(self.trains.iter().map(|train| train.message(&self.outgoing))) {
                Ok(sent) => self.count_sent(sent),
                // Of a train the host refuses perhaps all but one packet, or only that it is one.
                Err(_) if first.frames.len() > 1 => self.uncouple(),
                Err(error) => self.count_refused(&error),
            }
        }
        self.outgoing.drain(..).for_each(|frame| pool.give(frame.bytes));
        self.due.clear();
    }

    fn couple(&mut self) {
        let mtu = if self.refused_trains < REFUSED_TRAINS_MAX { self.mtu } else { 0 };
        let mut next = 0;
        while next < self.outgoing.len() {
            let train = Train::couple(&self.outgoing, next, mtu);
            next = train.frames.end;
            self.trains.push_back(train);
        }
    }

    /// Has the packets of the first train leave one by one.
    fn uncouple(&mut self) {
        for number in self.trains.pop_front().into_iter().flat_map(|train| train.frames).rev() {
            self.trains.push_front(Train::single(number));
        }
        self.refused_trains += 1;
    }

    fn count_sent(&mut self, trains: usize) {
        let now = clock::now();
        for train in self.trains.drain(..trains) {
            if train.frames.len() > 1 {
                self.refused_trains = 0;
            }
            for due in self.due[train.frames].iter().flatten() {
                self.facts.lateness.saturating_record(now.since(*due).as_nanos());
            }
        }
    }

    fn count_refused(&mut self, error: &io::Error) {
        // Then it was not because of the train.
        self.refused_trains = 0;
        for number in self.trains.pop_front().into_iter().flat_map(|train| train.frames) {
            if self.due[number].is_some() {
                let Facts { oversize, send_failed, .. } = &mut self.facts;
                *(if is_too_long(error) { oversize } else { send_failed }) += self.outgoing[number].size();
            }
        }
    }

    /// The link's rate at `now`, and until when it holds; `None` if it has none.
    pub(crate) fn rate(&self, now: Instant) -> Option<(Rate, Instant)> {
        self.path.rate(now)
    }

    /// How long each link's way is at `now`.
    pub(crate) fn delays(&self, now: Instant) -> Vec<Duration> {
        self.path.delays(now)
    }

    /// What each terminal of a carrier was given and used so far.
    pub(crate) fn terminals(&self) -> Vec<TerminalReport> {
        self.path.terminals()
    }

    /// Everything counted so far.
    pub(crate) fn facts(&self) -> Facts {
        Facts { link: self.path.counters(), terminals: self.terminals(), ..self.facts.clone() }
    }
}

impl Facts {
    fn new() -> Self {
        Self {
            link: Counters::default(),
            terminals: Vec::new(),
            memory_limit: Tally::default(),
            oversize: Tally::default(),
            send_failed: Tally::default(),
            receive_overrun: 0,
            unsupported: 0,
            no_terminal: 0,
            link_local: 0,
            exempt_frames: 0,
            lateness: Histogram::new_with_max(LATENESS_MAX_NANOS, 2).expect("a maximum above two, and two digits"),
            transit: Histogram::new_with_max(TRANSIT_MAX_MICROS, 3).expect("a maximum above two, and three digits"),
        }
    }

    pub(crate) fn report(&self, from: &str, to: &str) -> DirectionReport {
        DirectionReport {
            from: from.to_owned(),
            to: to.to_owned(),
            offered: self.link.offered + self.memory_limit,
            duplicated: self.link.duplicated,
            delivered: self.link.delivered - self.send_failed - self.oversize,
            dropped: Dropped {
                queue_full: self.link.dropped_queue_full,
                queue_delay: self.link.dropped_queue_delay,
                policed: self.link.dropped_policed,
                loss: self.link.dropped_loss,
                memory_limit: self.memory_limit,
                oversize: self.oversize,
                send_failed: self.send_failed,
                receive_overrun: self.receive_overrun,
                unsupported: self.unsupported,
                no_terminal: self.no_terminal,
                link_local: self.link_local,
            },
            marked: self.link.marked,
            reordered: self.link.reordered,
            in_transit_packets: self.link.in_transit().packets,
            exempt_frames: self.exempt_frames,
            lateness_us: Lateness::from_histogram(&self.lateness),
            transit_us: Transit::from_histogram(&self.transit),
            terminals: self.terminals.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::packet::OffloadHeader;
    use link::{LinkConfig, QueueLimit};

    #[test]
    fn a_system_clock_that_is_set_does_not_move_arrivals_far() {
        let at = |micros: u64| Instant::from_nanos(1_000_000_000 + micros * 1000);
        let emptied = Emptied(at(100));
        assert_eq!(emptied.arrival(at(150), Duration::from_micros(20)), at(130));
        assert_eq!(
            emptied.arrival(at(150), Duration::from_secs(3600)),
            at(100),
            "the clock was set forward by an hour"
        );
        assert_eq!(emptied.arrival(at(150), Duration::ZERO), at(150), "it was set back");
    }

    #[test]
    fn address_resolution_that_goes_round_goes_by_the_link() {
        let link = LinkConfig {
            queue: QueueLimit::Unlimited,
            ..LinkConfig::new(Rate::from_bps(1_000_000), Duration::from_secs(1))
        };
        let mut direction = Direction::new(Instant::ZERO, &link.into(), Bytes::new(10_000_000)).expect("a link");
        let mut arp = [0; 42];
        arp[12..14].copy_from_slice(&[8, 6]);
        let mut pool = Pool::default();
        let mut accept = |direction: &mut Direction, millis| {
            let received = Received { offload: &OffloadHeader::default(), frame: &arp, waited: Duration::ZERO };
            direction.accept(Instant::ZERO + Duration::from_millis(millis), Some(received), &mut pool);
        };
        (0..1_500).for_each(|number| accept(&mut direction, number / 100));
        let counts = |direction: &Direction| (direction.facts().exempt_frames, direction.facts().link.offered.packets);
        assert_eq!(counts(&direction), (1_000, 500));
        accept(&mut direction, 200);
        assert_eq!(counts(&direction), (1_001, 500), "some time later they may cross again");
    }

    #[test]
    fn what_no_terminal_can_have_is_not_taken_for_an_unknown_hosts() {
        let link = LinkConfig::new(Rate::from_bps(1_000_000), Duration::ZERO);
        let networks = vec!["198.18.1.0/24".parse().expect("a network")];
        let terminals = vec![crate::terminal::Terminal { name: "one".into(), networks, link }];
        let limit = Bytes::new(10_000_000);
        let mut direction = Direction::new(Instant::ZERO, &PathModel::Apart(terminals), limit).expect("links");
        let mut pool = Pool::default();
        let mut accept = |protocol: u16, to: [u8; 4]| {
            let mut bytes = [0; 60];
            bytes[12..14].copy_from_slice(&protocol.to_be_bytes());
            bytes[14] = 0x45;
            bytes[26..30].copy_from_slice(&[198, 18, 9, 1]);
            bytes[30..34].copy_from_slice(&to);
            let received = Received { offload: &OffloadHeader::default(), frame: &bytes, waited: Duration::ZERO };
            direction.accept(Instant::ZERO, Some(received), &mut pool);
        };
        for to in [[198, 18, 1, 1], [198, 18, 2, 1], [224, 0, 0, 251], [255; 4]] {
            accept(headers::IPV4, to);
        }
        // LLDP, PPPoE and EAPOL.
        for protocol in [0x88cc, 0x8864, 0x888e] {
            accept(protocol, [0; 4]);
        }
        let Facts { link, unsupported, no_terminal, link_local, .. } = direction.facts();
        assert_eq!((link.offered.packets, unsupported, no_terminal, link_local), (1, 3, 1, 2));
    }

    /// Their headers state no length, so that the queue counts them as nothing.
    #[test]
    fn the_memory_of_frames_is_bounded_whatever_size_they_state() {
        let rate = Rate::from_bps(1_000_000);
        let link = LinkConfig { queue: QueueLimit::Unlimited, ..LinkConfig::new(rate, Duration::from_secs(1)) };
        let limit = 1_000_000;
        let mut direction = Direction::new(Instant::ZERO, &link.into(), Bytes::new(limit)).expect("a link");
        let mut bytes = [0; 1514];
        bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
        let mut pool = Pool::default();
        for _ in 0..10_000 {
            let received = Received { offload: &OffloadHeader::default(), frame: &bytes, waited: Duration::ZERO };
            direction.accept(Instant::ZERO, Some(received), &mut pool);
        }
        let kept = 10_000 - direction.facts().memory_limit.packets;
        assert!((500..=limit / 1514 + 1).contains(&kept), "{kept}");
        assert!(direction.memory.bytes() < limit + 2_000);
        direction.record_in_transit();
        assert_eq!(direction.memory.bytes(), 0, "what has left counts no more");
    }
}
