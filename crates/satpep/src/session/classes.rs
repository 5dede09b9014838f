//! Which stream of which class sends next.

use super::table::StreamTable;
use crate::credit::SessionCredit;
use crate::pacer::Pacer;
use crate::payload::Payload;
use crate::scheduler::{Flow, Flows, Place, Quanta, Scheduler, Sparse};
use crate::sent_packets::StreamKey;
use crate::stream::Stream;
use peering::{Class, Priority};
use units::Instant;

/// The classes of a session, each with the queue of its streams.
pub(super) struct Classes {
    classes: Vec<Queue>,
    /// By place in `classes`.
    scheduler: Scheduler<u8>,
    quanta: Quanta,
}

/// A class and the streams of it that have something to send.
struct Queue {
    class: Class,
    cap: Option<Pacer>,
    place: Place,
    streams: Scheduler<StreamKey>,
}

/// The streams of a session as a class sees them: those of others are not there.
struct StreamFlows<'a, P> {
    class: u8,
    streams: &'a mut StreamTable<P>,
    session_credit: SessionCredit,
}

impl<P: Payload> Flows<StreamKey> for StreamFlows<'_, P> {
    fn flow(&mut self, key: StreamKey) -> Option<Flow<'_>> {
        let stream = self.streams.get_mut(key)?;
        if stream.class != self.class {
            return None;
        }
        Some(stream_flow(stream, self.session_credit))
    }

    #[inline]
    fn place(&self, key: StreamKey) -> Option<&Place> {
        self.streams.get(key).filter(|stream| stream.class == self.class).map(|stream| &stream.place)
    }
}

fn stream_flow<P: Payload>(stream: &mut Stream<P>, session_credit: SessionCredit) -> Flow<'_> {
    let busy = stream.has_data(session_credit);
    Flow { place: &mut stream.place, busy, weight: 1, sparse: Sparse::Own }
}

/// The classes as the scheduler sees them.
struct ClassFlows<'a> {
    classes: &'a mut [Queue],
    now: Instant,
}

impl Flows<u8> for ClassFlows<'_> {
    fn flow(&mut self, at: u8) -> Option<Flow<'_>> {
        self.classes.get_mut(usize::from(at)).map(|queue| queue.flow(self.now))
    }

    fn place(&self, at: u8) -> Option<&Place> {
        self.classes.get(usize::from(at)).map(|queue| &queue.place)
    }
}

impl Queue {
    fn new(class: Class, quanta: Quanta) -> Self {
        Self {
            class,
            cap: class.cap.map(Pacer::new),
            place: Place::default(),
            streams: Scheduler::of_newcomers(quanta),
        }
    }

    fn is_within_cap(&self, now: Instant) -> bool {
        self.cap.as_ref().is_none_or(|cap| cap.is_due(now))
    }

    fn flow(&mut self, now: Instant) -> Flow<'_> {
        let busy = !self.streams.is_empty() && self.is_within_cap(now);
        let sparse = match (self.class.priority, self.streams.has_sparse()) {
            (Priority::Interactive, true) => Sparse::InnerAhead,
            (Priority::Interactive, false) => Sparse::OwnAhead,
            (Priority::Normal, true) => Sparse::Inner,
            (Priority::Normal, false) | (Priority::Bulk, _) => Sparse::No,
        };
        Flow { place: &mut self.place, busy, weight: self.class.weight.clamp(1, Class::MAX_WEIGHT), sparse }
    }
}

impl Classes {
    /// Only the default class. Classes have the quantum of its streams.
    pub(super) fn new(quanta: Quanta) -> Self {
        let scheduler = Scheduler::new(quanta.quantum);
        Self { classes: vec![Queue::new(Class::DEFAULT, quanta)], scheduler, quanta }
    }

    /// The place of the class, with these settings from now on.
    pub(super) fn define(&mut self, now: Instant, class: &Class) -> u8 {
        let known = self.classes.iter().position(|queue| queue.class.id == class.id);
        let at = known.unwrap_or_else(|| {
            self.classes.push(Queue::new(*class, self.quanta));
            self.classes.len() - 1
        });
        let queue = &mut self.classes[at];
        match (&mut queue.cap, class.cap) {
            (Some(cap), Some(rate)) => cap.set_rate(now, rate),
            (cap, rate) => *cap = rate.map(Pacer::new),
        }
        queue.class = *class;
        if !queue.streams.is_empty() {
            // Its cap may hold it back no longer.
            self.scheduler.activate(at as u8, queue.flow(now));
        }
        // Identities have eight bits, and no two places the same.
        at as u8
    }

    /// Notes that a stream has something to send.
    pub(super) fn activate<P: Payload>(
        &mut self,
        key: StreamKey,
        stream: &mut Stream<P>,
        session_credit: SessionCredit,
    ) {
        let at = stream.class;
        let queue = &mut self.classes[usize::from(at)];
        queue.streams.activate(key, stream_flow(stream, session_credit));
        // Whether its cap lets it go now is seen when it is next.
        self.scheduler.activate(at, queue.flow(Instant::FAR_FUTURE));
    }

    /// Whether no stream waits, but for those of classes that their caps hold back.
    pub(super) fn is_empty(&self) -> bool {
        self.scheduler.is_empty()
    }

    /// How many streams have had something to send lately.
    pub(super) fn busy_streams(&self) -> u32 {
        self.classes.iter().map(|queue| queue.streams.len() as u32).sum()
    }

    /// Whether a stream waits that may go first.
    pub(super) fn has_sparse(&self) -> bool {
        self.scheduler.has_sparse()
    }

    /// The stream that sends next.
    pub(super) fn next<P: Payload>(
        &mut self,
        now: Instant,
        streams: &mut StreamTable<P>,
        session_credit: SessionCredit,
    ) -> Option<StreamKey> {
        loop {
            let at = self.scheduler.next(&mut ClassFlows { classes: &mut self.classes, now })?;
            let flows = &mut StreamFlows { class: at, streams, session_credit };
            // A class whose streams all turn out to be idle is not busy when it is asked again.
            if let Some(key) = self.classes[usize::from(at)].streams.next(flows) {
                return Some(key);
            }
        }
    }

    /// Notes that `stream`, which was next, has sent `bytes`.
    pub(super) fn charge<P: Payload>(
        &mut self,
        now: Instant,
        stream: &mut Stream<P>,
        session_credit: SessionCredit,
        bytes: usize,
    ) {
        let queue = &mut self.classes[usize::from(stream.class)];
        queue.streams.charge(stream_flow(stream, session_credit), bytes);
        self.scheduler.charge(queue.flow(now), bytes);
        if let Some(cap) = &mut queue.cap {
            cap.on_sent(now, bytes);
        }
    }

    /// When a class that its cap holds back may send again.
    pub(super) fn next_timeout(&self, now: Instant) -> Option<Instant> {
        let held = self.classes.iter().filter(|queue| !queue.streams.is_empty() && !queue.is_within_cap(now));
        held.filter_map(|queue| queue.cap.as_ref().map(Pacer::next)).min()
    }

    /// Brings back the classes that their caps have held back.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        for (at, queue) in self.classes.iter_mut().enumerate() {
            if queue.cap.is_some() && !queue.streams.is_empty() && queue.is_within_cap(now) {
                self.scheduler.activate(at as u8, queue.flow(now));
            }
        }
    }
}
