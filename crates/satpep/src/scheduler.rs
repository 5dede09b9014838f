//! Who sends next: deficit round robin (DRR) with sparse flows first.
//!
//! DRR (Shreedhar and Varghese, SIGCOMM 1995) gives every backlogged flow a quantum of bytes in each round. A flow that has not used up
//! its quantum, because it had nothing to send, may send the rest at any time, before those that wait: new and interactive streams never
//! wait behind bulk (sparse flows, as in FQ-CoDel, RFC 8290, section 4.1, here in every round instead of the first). What it sends so is
//! charged to it, so that no flow gets more than its share.
//!
//! A stream that was idle begins with more than a quantum ([`Scheduler::of_newcomers`]), as a new flow does in Linux's fq
//! (`initial_quantum`), when its share of what others have sent meanwhile comes to twice as much ([`RESTED`]). So a short answer leaves
//! ahead of bulk as a whole, instead of packet by packet in turns with it, and nobody gets more than its share.
//!
//! The same code shares a link between sessions, a session between classes, and a class between streams. Where flows consist of flows,
//! one may go first beyond its quantum because of a sparse flow within, and pays in later rounds.
//!
//! A deficit stays between [`MAX_DEBT`] quanta below zero and what a flow begins with. So flows that stay get their shares, however many
//! go first. Flows that come, send a quantum and are gone owe nothing to a round that they leave: where there can be any number of them
//! ([`Scheduler::of_newcomers`]), one byte in [`SPARSE_RUN`] + 1 is still sent by those that wait.

use std::collections::VecDeque;

/// Quanta by which a flow may be in debt; what lies beyond is forgiven, so that nobody is shut out for long.
const MAX_DEBT: i64 = 8;
/// Quanta by which a flow may be in debt and still go first because of a sparse flow within.
const ADVANCE: i64 = 4;
/// The share of what others have sent, in initial quanta, after which a flow that was idle has its initial quantum again.
const RESTED: i64 = 2;
/// Quanta that may go first in a row while others wait; and bytes that do for each of those.
const SPARSE_RUN: i64 = 8;

/// Where a flow stands; kept with the flow.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place {
    /// It stands in the queue of those that go first.
    in_sparse: bool,
    /// It stands in the round.
    in_round: bool,
    /// When it last sent, it had more.
    backlogged: bool,
    /// Bytes left of its quantum.
    deficit: i64,
    /// What all had sent when it sent last; `None` if it never has.
    sent_last: Option<i64>,
}

/// Whether and why a flow may go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sparse {
    /// It may not.
    No,
    /// It is sparse: it has some of its quantum left, and had nothing to send until now.
    Own,
    /// As `Own`, and before others that may.
    OwnAhead,
    /// A sparse flow within it waits.
    Inner,
    /// As `Inner`, and before others that may.
    InnerAhead,
}

impl Sparse {
    fn is_ahead(self) -> bool {
        matches!(self, Sparse::OwnAhead | Sparse::InnerAhead)
    }

    /// Whether a flow with a quantum of `quantum` bytes, of which `deficit` are left, may go first.
    fn allows(self, deficit: i64, quantum: i64) -> bool {
        match self {
            Sparse::No => false,
            Sparse::Own | Sparse::OwnAhead => deficit > 0,
            Sparse::Inner | Sparse::InnerAhead => deficit > -ADVANCE * quantum,
        }
    }
}

/// Bytes that flows of weight one may send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quanta {
    /// In each round.
    pub(crate) quantum: usize,
    /// Of a stream that was idle for long, ahead of others before it has its turns in the round.
    pub(crate) initial: usize,
}

/// The flows that have something to send. `Key` must not be used again for another flow while it may be queued.
pub(crate) struct Scheduler<Key> {
    /// Those that go first, and those that do so before others.
    sparse: VecDeque<Key>,
    ahead: VecDeque<Key>,
    round: VecDeque<Key>,
    quantum: i64,
    /// What a flow that was idle for long may send before it has its turns in the round.
    initial: i64,
    /// What all flows have sent.
    total: i64,
    /// The first of the round has been given its quantum.
    has_begun: bool,
    /// Where the last flow that `next` gave came from.
    origin: Origin,
    /// Bytes that it has sent since it is the first of those that go first.
    sent: i64,
    /// Bytes that went first, less those that they allow others; and how many may.
    run: i64,
    max_run: i64,
}

/// The queue that a flow came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Ahead,
    Sparse,
    Round,
}

/// What the owner of the flows knows of one.
pub(crate) struct Flow<'a> {
    pub(crate) place: &'a mut Place,
    /// It has something to send now.
    pub(crate) busy: bool,
    /// Its share relative to others.
    pub(crate) weight: u32,
    /// Whether it may go first now.
    pub(crate) sparse: Sparse,
}

/// Looks flows up by key.
pub(crate) trait Flows<Key> {
    /// The flow behind `key`; `None` if it is gone.
    fn flow(&mut self, key: Key) -> Option<Flow<'_>>;

    /// Where that flow stands: all that is asked of most flows when one is looked for among them all.
    fn place(&self, key: Key) -> Option<&Place>;
}

impl<Key: Copy> Scheduler<Key> {
    /// A scheduler that gives each flow of weight one `quantum` bytes in each round.
    pub(crate) fn new(quantum: usize) -> Self {
        Self {
            sparse: VecDeque::new(),
            ahead: VecDeque::new(),
            round: VecDeque::new(),
            quantum: quantum as i64,
            initial: quantum as i64,
            total: 0,
            has_begun: false,
            origin: Origin::Round,
            sent: 0,
            run: 0,
            max_run: i64::MAX,
        }
    }

    /// A scheduler of flows of weight one that come and go in any number.
    pub(crate) fn of_newcomers(quanta: Quanta) -> Self {
        let Quanta { quantum, initial } = quanta;
        Self { initial: initial as i64, max_run: SPARSE_RUN * quantum as i64, ..Self::new(quantum) }
    }

    /// Notes that a flow has something to send.
    pub(crate) fn activate(&mut self, key: Key, flow: Flow<'_>) {
        let (place, quantum) = (flow.place, self.weighted_quantum(flow.weight));
        if !place.in_round {
            if !place.in_sparse {
                (place.deficit, place.backlogged) = (weighted(self.begins_with(place), flow.weight), false);
            }
            place.in_round = true;
            self.round.push_back(key);
        }
        let has_waited = place.backlogged && flow.sparse == Sparse::Own;
        if !place.in_sparse && !has_waited && flow.sparse.allows(place.deficit, quantum) {
            place.in_sparse = true;
            let queue = if flow.sparse.is_ahead() { &mut self.ahead } else { &mut self.sparse };
            queue.push_back(key);
        }
    }

    /// Notes that a flow, the last that [`Scheduler::next`] gave or one beside the round, has sent `bytes`.
    pub(crate) fn charge(&mut self, flow: Flow<'_>, bytes: usize) {
        let (place, bytes) = (flow.place, bytes as i64);
        self.total += bytes;
        (place.backlogged, place.sent_last) = (flow.busy, Some(self.total));
        if place.in_round || place.in_sparse {
            place.deficit = (place.deficit - bytes).max(-MAX_DEBT * self.weighted_quantum(flow.weight));
        }
        if self.origin == Origin::Round {
            self.run = (self.run - SPARSE_RUN * bytes).max(0);
            return;
        }
        self.run += bytes;
        self.sent += bytes;
        if self.sent >= self.quantum {
            // Those that go first alternate, too: one of them with many flows would keep the others waiting.
            self.sent = 0;
            let queue = self.queue(self.origin);
            let first = queue.pop_front();
            queue.extend(first);
        }
    }

    /// What a flow begins with that had nothing to send.
    fn begins_with(&self, place: &Place) -> i64 {
        let flows = self.round.len() as i64 + 1;
        let has_rested = |sent_last: i64| (self.total - sent_last) / flows >= RESTED * self.initial;
        if place.sent_last.is_some_and(has_rested) { self.initial } else { self.quantum }
    }

    /// How many flows stand in the round.
    pub(crate) fn len(&self) -> usize {
        self.round.len()
    }

    /// Whether no flow is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.sparse.is_empty() && self.ahead.is_empty() && self.round.is_empty()
    }

    /// Whether some flow may go first.
    pub(crate) fn has_sparse(&self) -> bool {
        !self.sparse.is_empty() || !self.ahead.is_empty()
    }

    /// The flow that sends next.
    pub(crate) fn next(&mut self, flows: &mut impl Flows<Key>) -> Option<Key> {
        self.origin = Origin::Round;
        if self.run >= self.max_run
            && let Some(key) = self.let_one_through(flows)
        {
            return Some(key);
        }
        for origin in [Origin::Ahead, Origin::Sparse] {
            while let Some(&key) = self.queue(origin).front() {
                if self.is_first(key, flows) {
                    self.origin = origin;
                    return Some(key);
                }
                self.queue(origin).pop_front();
                self.sent = 0;
            }
        }
        loop {
            let key = *self.round.front()?;
            if self.visit(key, flows) {
                return Some(key);
            }
        }
    }

    /// Whether the first of those that go first still may.
    fn is_first(&mut self, key: Key, flows: &mut impl Flows<Key>) -> bool {
        let Some(Flow { place, busy, weight, sparse }) = flows.flow(key) else { return false };
        let may = busy && sparse.allows(place.deficit, self.weighted_quantum(weight));
        place.in_sparse = may;
        may
    }

    /// So much went first that it is time for one that may not, ahead of the round: the one with the least debt.
    fn let_one_through(&mut self, flows: &mut impl Flows<Key>) -> Option<Key> {
        let mut best: Option<(i64, Key)> = None;
        for &key in &self.round {
            let Some(&Place { in_sparse, deficit, .. }) = flows.place(key) else { continue };
            let is_better = !in_sparse && best.is_none_or(|(highest, _)| deficit > highest);
            if is_better && flows.flow(key).is_some_and(|flow| flow.busy) {
                best = Some((deficit, key));
            }
        }
        if best.is_none() {
            self.run = 0;
        }
        best.map(|(_, key)| key)
    }

    /// Gives the first of the round its quantum if it has not had it. Whether it has something to send and may; it has left
    /// the front if not.
    fn visit(&mut self, key: Key, flows: &mut impl Flows<Key>) -> bool {
        let Some(Flow { place, busy, weight, .. }) = flows.flow(key) else {
            self.end_visit(None);
            return false;
        };
        if !std::mem::replace(&mut self.has_begun, true) {
            // A quantum that was not used is not kept for later.
            place.deficit = place.deficit.min(0) + self.weighted_quantum(weight);
        }
        if busy && place.deficit > 0 {
            return true;
        }
        // Who is in debt stays until it is paid, since it would begin again without.
        place.in_round = busy || place.deficit < 0 && self.round.len() > 1;
        let back = place.in_round.then_some(key);
        self.end_visit(back);
        false
    }

    /// The first of the round is done; `back` has more.
    fn end_visit(&mut self, back: Option<Key>) {
        self.round.pop_front();
        self.round.extend(back);
        self.has_begun = false;
    }

    fn queue(&mut self, origin: Origin) -> &mut VecDeque<Key> {
        match origin {
            Origin::Ahead => &mut self.ahead,
            Origin::Sparse => &mut self.sparse,
            Origin::Round => &mut self.round,
        }
    }

    fn weighted_quantum(&self, weight: u32) -> i64 {
        weighted(self.quantum, weight)
    }
}

fn weighted(bytes: i64, weight: u32) -> i64 {
    bytes * i64::from(weight.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    struct Model {
        place: Place,
        backlog: usize,
        packet: usize,
        weight: u32,
        sparse: Sparse,
        sent: usize,
    }

    struct Models(Vec<Model>);

    impl Flows<usize> for Models {
        fn flow(&mut self, key: usize) -> Option<Flow<'_>> {
            self.0.get_mut(key).map(Model::flow)
        }

        fn place(&self, key: usize) -> Option<&Place> {
            self.0.get(key).map(|model| &model.place)
        }
    }

    impl Model {
        fn flow(&mut self) -> Flow<'_> {
            let Self { place, backlog, weight, sparse, .. } = self;
            Flow { place, busy: *backlog > 0, weight: *weight, sparse: *sparse }
        }
    }

    const QUANTUM: usize = 1500;
    const INITIAL: usize = 6000;

    impl Models {
        fn new(packets_and_weights: &[(usize, u32)]) -> Self {
            let model = |&(packet, weight)| Model {
                place: Place::default(),
                backlog: 1 << 30,
                packet,
                weight,
                sparse: Sparse::Own,
                sent: 0,
            };
            Self(packets_and_weights.iter().map(model).collect())
        }

        fn scheduler(&mut self) -> Scheduler<usize> {
            let mut scheduler = Scheduler::of_newcomers(Quanta { quantum: QUANTUM, initial: INITIAL });
            for (key, model) in self.0.iter_mut().enumerate().filter(|(_, model)| model.backlog > 0) {
                scheduler.activate(key, model.flow());
            }
            scheduler
        }

        fn serve(&mut self, scheduler: &mut Scheduler<usize>) -> Option<usize> {
            let key = scheduler.next(self)?;
            let model = &mut self.0[key];
            let bytes = model.packet.min(model.backlog);
            assert!(bytes > 0, "an idle flow's turn");
            model.backlog -= bytes;
            model.sent += bytes;
            scheduler.charge(model.flow(), bytes);
            Some(key)
        }

        fn offer(&mut self, scheduler: &mut Scheduler<usize>, key: usize, bytes: usize) {
            self.0[key].backlog += bytes;
            scheduler.activate(key, self.0[key].flow());
        }
    }

    #[test]
    fn shares_are_equal_in_bytes_whatever_the_packets_and_proportional_to_weight() {
        let mut models = Models::new(&[(1400, 1), (300, 1), (1000, 3)]);
        let mut scheduler = models.scheduler();
        for _ in 0..30_000 {
            models.serve(&mut scheduler);
        }
        let sent: Vec<f64> = models.0.iter().map(|model| model.sent as f64).collect();
        assert!((sent[0] / sent[1] - 1.0).abs() < 0.01, "{sent:?}");
        assert!((sent[2] / sent[0] - 3.0).abs() < 0.03, "{sent:?}");
    }

    /// Counts how often a flow is asked what it has to send.
    struct Asked<'a>(&'a mut Models, usize);

    impl Flows<usize> for Asked<'_> {
        fn flow(&mut self, key: usize) -> Option<Flow<'_>> {
            self.1 += 1;
            self.0.flow(key)
        }

        fn place(&self, key: usize) -> Option<&Place> {
            self.0.place(key)
        }
    }

    #[test]
    fn the_one_with_the_least_debt_is_let_through_and_few_are_asked() {
        let mut models = Models::new(&[(1500, 1); 1000]);
        let mut scheduler = models.scheduler();
        let random = units::CounterRandom::new(1, 0);
        for (at, model) in models.0.iter_mut().enumerate() {
            (model.place.in_sparse, model.place.deficit) = (false, -((random.at(at as u64) % 9000) as i64));
        }
        let by_debt = |model: &&Model| model.place.deficit;
        models.0.iter_mut().max_by_key(|model| model.place.deficit).unwrap().backlog = 0;
        let least = models.0.iter().filter(|model| model.backlog > 0).max_by_key(by_debt).unwrap().place.deficit;
        scheduler.run = scheduler.max_run;
        let mut flows = Asked(&mut models, 0);
        let next = scheduler.next(&mut flows).unwrap();
        let Asked(_, asked) = flows;
        assert!(asked < 40, "{asked} of 1,000");
        assert_eq!((models.0[next].place.deficit, models.0[next].backlog > 0), (least, true));
    }

    #[test]
    fn a_flow_that_was_idle_goes_first_with_its_initial_quantum_each_time_and_then_takes_turns() {
        let mut models = Models::new(&[(1500, 1), (1500, 1), (1500, 1)]);
        models.0[2].backlog = 100;
        let mut scheduler = models.scheduler();
        for _ in 0..3 {
            // Its share of what the others send is twice as much.
            (0..8 * INITIAL / QUANTUM).for_each(|_| assert!(models.serve(&mut scheduler).is_some()));
            models.offer(&mut scheduler, 2, INITIAL + 3 * QUANTUM);
            let mut order = Vec::new();
            while models.0[2].backlog > 0 {
                order.extend(models.serve(&mut scheduler));
            }
            let (first, then) = order.split_at(INITIAL / QUANTUM);
            assert!(first.iter().all(|key| *key == 2), "{order:?}");
            assert_eq!(then.iter().filter(|key| **key == 2).count(), 3, "{order:?}");
            assert!((7..=9).contains(&then.len()), "{order:?}");
        }
    }

    #[test]
    fn a_flow_that_is_often_idle_for_a_moment_gets_its_share_and_no_more() {
        let mut models = Models::new(&[(1500, 1); 10]);
        models.0[9].backlog = 0;
        let mut scheduler = models.scheduler();
        (0..100).for_each(|_| assert!(models.serve(&mut scheduler).is_some()));
        let before: Vec<_> = models.0.iter().map(|model| model.sent).collect();
        for _ in 0..300 {
            models.offer(&mut scheduler, 9, INITIAL);
            while models.0[9].backlog > 0 {
                models.serve(&mut scheduler);
            }
            (0..18).for_each(|_| assert!(models.serve(&mut scheduler).is_some()));
        }
        let sent: Vec<_> = models.0.iter().zip(before).map(|(model, before)| (model.sent - before) as f64).collect();
        assert!(sent[9] / sent[0] < 1.1, "{sent:?}");
    }

    #[test]
    fn a_flow_that_sends_less_than_its_share_never_waits() {
        // Twenty bulk flows; one that sends 100 bytes for every two packets of theirs: ten times in a round.
        let mut models = Models::new(&[(1500, 1); 21]);
        models.0[20].backlog = 0;
        let mut scheduler = models.scheduler();
        // All are new at first.
        (0..200).for_each(|_| assert!(models.serve(&mut scheduler).is_some()));
        for _ in 0..1000 {
            models.offer(&mut scheduler, 20, 100);
            assert_eq!(models.serve(&mut scheduler), Some(20));
            models.serve(&mut scheduler);
            models.serve(&mut scheduler);
        }
    }

    #[test]
    fn a_flow_that_goes_first_without_end_gets_its_share_and_no_more() {
        for sparse in [Sparse::Own, Sparse::OwnAhead, Sparse::Inner, Sparse::InnerAhead] {
            let mut models = Models::new(&[(1500, 1), (1500, 1), (1000, 2)]);
            models.0[2].sparse = sparse;
            let mut scheduler = models.scheduler();
            for _ in 0..40_000 {
                models.serve(&mut scheduler);
                scheduler.activate(2, models.0[2].flow());
            }
            let sent: Vec<f64> = models.0.iter().map(|model| model.sent as f64).collect();
            assert!((sent[2] / sent[0] - 2.0).abs() < 0.02, "{sparse:?} {sent:?}");
        }
    }

    #[test]
    fn those_that_go_first_take_turns_however_far_they_may_go() {
        let mut models = Models::new(&[(1500, 100), (1500, 100), (1500, 1)]);
        models.0[..2].iter_mut().for_each(|model| model.sparse = Sparse::Inner);
        let mut scheduler = models.scheduler();
        scheduler.max_run = i64::MAX;
        let order: Vec<_> = (0..20).map_while(|_| models.serve(&mut scheduler)).collect();
        assert_eq!(order.iter().filter(|key| **key == 0).count(), 10, "{order:?}");
        assert!(order.windows(2).all(|pair| pair[0] != pair[1]), "{order:?}");
    }

    #[test]
    fn a_flow_that_always_has_more_does_not_go_first_in_each_round() {
        let mut models = Models::new(&[(1400, 1), (1400, 1)]);
        let mut scheduler = models.scheduler();
        (0..10).for_each(|_| assert!(models.serve(&mut scheduler).is_some()));
        for _ in 0..20 {
            models.offer(&mut scheduler, 0, 1400);
            assert!(!scheduler.has_sparse());
            models.serve(&mut scheduler);
        }
    }

    #[test]
    fn new_flows_without_end_leave_the_others_a_part() {
        let mut models = Models::new(&[(1500, 1); 5001]);
        models.0[1..].iter_mut().for_each(|model| model.backlog = 0);
        let mut scheduler = models.scheduler();
        for key in 1..=5000 {
            models.offer(&mut scheduler, key, 1500);
            models.serve(&mut scheduler);
        }
        let share = models.0[0].sent as f64 / (5000.0 * 1500.0);
        assert!(share > 0.1, "{share}");
    }

    #[test]
    fn debt_outlives_idleness() {
        // A flow of flows goes first with four packets at a time, is idle between, and asks again at once.
        let mut models = Models::new(&[(1500, 1), (1500, 1)]);
        (models.0[1].backlog, models.0[1].sparse) = (0, Sparse::Inner);
        let mut scheduler = models.scheduler();
        for _ in 0..20_000 {
            if models.0[1].backlog == 0 {
                models.offer(&mut scheduler, 1, 6000);
            }
            models.serve(&mut scheduler);
        }
        let share = models.0[1].sent as f64 / models.0[0].sent as f64;
        assert!((share - 1.0).abs() < 0.02, "{share}");
    }

    #[test]
    fn idle_and_vanished_flows_leave() {
        let mut models = Models::new(&[(1400, 1), (1400, 1)]);
        let mut scheduler = models.scheduler();
        models.0[0].backlog = 100;
        models.0.truncate(1);
        assert_eq!(models.serve(&mut scheduler), Some(0));
        assert_eq!(models.serve(&mut scheduler), None);
        assert!(scheduler.is_empty());
        models.offer(&mut scheduler, 0, 100);
        assert_eq!(models.serve(&mut scheduler), Some(0));
    }

    /// What a random test does next: offer bytes to a flow, or serve.
    #[derive(Debug, Clone)]
    enum Step {
        Offer(usize, usize),
        Serve,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let offer = (0usize..6, 1usize..6000).prop_map(|(key, bytes)| Step::Offer(key, bytes));
        prop::collection::vec(prop_oneof![offer, Just(Step::Serve), Just(Step::Serve)], 1..400)
    }

    fn expresses() -> impl Strategy<Value = Sparse> {
        use Sparse::*;
        prop::sample::select(vec![No, Own, OwnAhead, Inner, InnerAhead])
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 64,
            rng_seed: RngSeed::Fixed(1),
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn whatever_comes_no_capacity_is_wasted_and_deficits_are_bounded(
            flows in prop::collection::vec((60usize..1500, 1u32..20, expresses()), 6),
            steps in steps(),
        ) {
            let shapes: Vec<_> = flows.iter().map(|(packet, weight, _)| (*packet, *weight)).collect();
            let mut models = Models::new(&shapes);
            for (model, (.., sparse)) in models.0.iter_mut().zip(&flows) {
                (model.backlog, model.sparse) = (0, *sparse);
            }
            let mut scheduler = models.scheduler();
            for step in steps {
                match step {
                    Step::Offer(key, bytes) => models.offer(&mut scheduler, key, bytes),
                    Step::Serve => {
                        let waits = models.0.iter().any(|model| model.backlog > 0);
                        prop_assert_eq!(models.serve(&mut scheduler).is_some(), waits);
                    }
                }
                for model in &models.0 {
                    let of_weight = |bytes: i64| bytes * i64::from(model.weight);
                    let bounds = of_weight(-MAX_DEBT * QUANTUM as i64)..=of_weight(INITIAL as i64);
                    prop_assert!(bounds.contains(&model.place.deficit), "{:?}", model.place);
                }
            }
            while models.serve(&mut scheduler).is_some() {}
            prop_assert!(models.0.iter().all(|model| model.backlog == 0));
            prop_assert!(scheduler.is_empty());
        }

        #[test]
        fn busy_flows_share_by_weight(
            flows in prop::collection::vec((60usize..1500, 1u32..20, expresses()), 2..6),
            weighted: bool,
            tickles in prop::collection::vec(0usize..6, 64),
        ) {
            let weight = |weight| if weighted { weight } else { 1 };
            let shapes: Vec<_> = flows.iter().map(|flow| (flow.0, weight(flow.1))).collect();
            let mut models = Models::new(&shapes);
            for (model, (.., sparse)) in models.0.iter_mut().zip(&flows) {
                model.sparse = *sparse;
            }
            let mut scheduler = models.scheduler();
            if weighted {
                scheduler.max_run = i64::MAX;
            }
            let weights: u32 = shapes.iter().map(|(_, weight)| weight).sum();
            let enough = 600 * QUANTUM * weights as usize;
            for tickle in tickles.iter().cycle() {
                if models.0.iter().map(|model| model.sent).sum::<usize>() > enough {
                    break;
                }
                models.serve(&mut scheduler);
                if let Some(model) = models.0.get_mut(*tickle) {
                    scheduler.activate(*tickle, model.flow());
                }
            }
            let total: usize = models.0.iter().map(|model| model.sent).sum();
            for model in &models.0 {
                let fair = total as f64 * f64::from(model.weight) / f64::from(weights);
                prop_assert!((model.sent as f64 / fair - 1.0).abs() < 0.02, "{} of {fair}", model.sent);
            }
        }
    }
}
