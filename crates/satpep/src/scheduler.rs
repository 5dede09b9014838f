//! Who sends next: deficit round robin with sparse flows first.
//!
//! Deficit round robin (Shreedhar and Varghese, SIGCOMM 1995) gives every busy flow the same number of bytes; flows
//! that were idle go before all others for one quantum (as in FQ-CoDel, RFC 8290, section 4.1), so that a new or an
//! interactive stream never waits behind bulk. The same code shares a session between streams and a link between
//! sessions.

use std::collections::VecDeque;

/// Where a flow stands; kept with the flow.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place {
    list: List,
    deficit: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum List {
    #[default]
    Idle,
    Sparse,
    Bulk,
}

impl Place {
    /// The flow sent `bytes` in its turn.
    pub(crate) fn charge(&mut self, bytes: usize) {
        self.deficit -= bytes as i64;
    }
}

/// The flows that have something to send. `Key` must not be used again for another flow while it may be queued.
pub(crate) struct Scheduler<Key> {
    sparse: VecDeque<Key>,
    bulk: VecDeque<Key>,
    quantum: i64,
}

/// What the owner of the flows knows of one.
pub(crate) struct Flow<'a> {
    pub(crate) place: &'a mut Place,
    /// It has something to send now.
    pub(crate) busy: bool,
    /// Its share relative to others.
    pub(crate) weight: u32,
}

/// Looks flows up by key.
pub(crate) trait Flows<Key> {
    /// The flow behind `key`; `None` if it is gone.
    fn flow(&mut self, key: Key) -> Option<Flow<'_>>;
}

impl<Key: Copy> Scheduler<Key> {
    /// A scheduler that gives each flow of weight one `quantum` bytes in its turn.
    pub(crate) fn new(quantum: usize) -> Self {
        Self { sparse: VecDeque::new(), bulk: VecDeque::new(), quantum: quantum as i64 }
    }

    /// Notes that a flow has something to send.
    pub(crate) fn activate(&mut self, key: Key, place: &mut Place) {
        if place.list == List::Idle {
            *place = Place { list: List::Sparse, deficit: self.quantum };
            self.sparse.push_back(key);
        }
    }

    /// How many flows are queued.
    pub(crate) fn len(&self) -> usize {
        self.sparse.len() + self.bulk.len()
    }

    /// Whether no flow is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.sparse.is_empty() && self.bulk.is_empty()
    }

    /// The flow whose turn it is.
    pub(crate) fn next(&mut self, flows: &mut impl Flows<Key>) -> Option<Key> {
        loop {
            let from_sparse = !self.sparse.is_empty();
            let key = *if from_sparse { self.sparse.front() } else { self.bulk.front() }?;
            let Some(Flow { place, busy, weight }) = flows.flow(key) else {
                self.pop(from_sparse);
                continue;
            };
            if !busy {
                self.pop(from_sparse);
                // A flow that emptied itself out of turn joins the bulk once more, lest it be sparse for ever.
                if from_sparse && !self.bulk.is_empty() {
                    place.list = List::Bulk;
                    self.bulk.push_back(key);
                } else {
                    *place = Place::default();
                }
            } else if place.deficit <= 0 {
                place.deficit += self.quantum * i64::from(weight.max(1));
                place.list = List::Bulk;
                self.pop(from_sparse);
                self.bulk.push_back(key);
            } else {
                return Some(key);
            }
        }
    }

    fn pop(&mut self, sparse: bool) {
        if sparse {
            self.sparse.pop_front()
        } else {
            self.bulk.pop_front()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Model {
        place: Place,
        backlog: usize,
        packet: usize,
        weight: u32,
        sent: usize,
    }

    struct Models(Vec<Model>);

    impl Flows<usize> for Models {
        fn flow(&mut self, key: usize) -> Option<Flow<'_>> {
            let model = self.0.get_mut(key)?;
            Some(Flow { place: &mut model.place, busy: model.backlog > 0, weight: model.weight })
        }
    }

    impl Models {
        fn new(packets_and_weights: &[(usize, u32)]) -> Self {
            let model =
                |&(packet, weight)| Model { place: Place::default(), backlog: 1 << 30, packet, weight, sent: 0 };
            Self(packets_and_weights.iter().map(model).collect())
        }

        fn serve(&mut self, scheduler: &mut Scheduler<usize>) -> Option<usize> {
            let key = scheduler.next(self)?;
            let model = &mut self.0[key];
            let bytes = model.packet.min(model.backlog);
            model.backlog -= bytes;
            model.sent += bytes;
            model.place.charge(bytes);
            Some(key)
        }
    }

    #[test]
    fn shares_are_equal_in_bytes_whatever_the_packets_and_proportional_to_weight() {
        let mut models = Models::new(&[(1400, 1), (300, 1), (1000, 3)]);
        let mut scheduler = Scheduler::new(1400);
        for key in 0..3 {
            scheduler.activate(key, &mut models.0[key].place);
        }
        for _ in 0..30_000 {
            models.serve(&mut scheduler);
        }
        let sent: Vec<f64> = models.0.iter().map(|model| model.sent as f64).collect();
        assert!((sent[0] / sent[1] - 1.0).abs() < 0.01, "{sent:?}");
        assert!((sent[2] / sent[0] - 3.0).abs() < 0.03, "{sent:?}");
    }

    #[test]
    fn a_new_flow_goes_first_but_only_for_one_quantum() {
        let mut models = Models::new(&[(1400, 1), (1400, 1), (1400, 1)]);
        let mut scheduler = Scheduler::new(1400);
        for key in 0..2 {
            scheduler.activate(key, &mut models.0[key].place);
        }
        for _ in 0..10 {
            models.serve(&mut scheduler);
        }
        scheduler.activate(2, &mut models.0[2].place);
        let order: Vec<_> = (0..7).map_while(|_| models.serve(&mut scheduler)).collect();
        assert_eq!(order[0], 2);
        assert_eq!(order[1..].iter().filter(|key| **key == 2).count(), 2, "{order:?}");
    }

    #[test]
    fn idle_and_vanished_flows_leave() {
        let mut models = Models::new(&[(1400, 1), (1400, 1)]);
        let mut scheduler = Scheduler::new(1400);
        for key in 0..2 {
            scheduler.activate(key, &mut models.0[key].place);
        }
        models.0[0].backlog = 100;
        models.0.truncate(1);
        assert_eq!(models.serve(&mut scheduler), Some(0));
        assert_eq!(models.serve(&mut scheduler), None);
        assert!(scheduler.is_empty());
        models.0[0].backlog = 100;
        scheduler.activate(0, &mut models.0[0].place);
        assert_eq!(models.serve(&mut scheduler), Some(0));
    }
}
