//! Two nodes over links in a row.

use crate::VirtualTime;
use link::{Link, LinkConfig, Outcome, Packet};
use units::Instant;

/// An end of a [`Path`]: a protocol's endpoint with its user.
pub trait Node {
    /// What it sends and receives.
    type Packet: Packet;

    /// The next packet to send.
    fn poll_transmit(&mut self, now: Instant) -> Option<Self::Packet>;
    /// A packet has arrived.
    fn handle_packet(&mut self, now: Instant, packet: Self::Packet);
    /// The time of [`Node::next_timeout`] may have come.
    fn handle_timeout(&mut self, now: Instant);
    /// When it is to be run next if nothing arrives.
    fn next_timeout(&self) -> Option<Instant>;
    /// Its user takes what there is: reads, ends.
    fn run_user(&mut self, now: Instant);
}

/// What looks at packets that enter a path: (now, which node sends, packet).
pub type Tap<P> = dyn FnMut(Instant, usize, &P);

/// Two nodes, and the links that packets pass one after another, each way.
pub struct Path<N: Node> {
    time: VirtualTime,
    /// The ends.
    pub nodes: [N; 2],
    /// What the first node sends passes, and what the second one sends.
    links: [Vec<Link<N::Packet>>; 2],
    /// Sees every packet as it enters the path.
    pub tap: Option<Box<Tap<N::Packet>>>,
}

impl<N: Node> Path<N> {
    /// Two nodes at the beginning of time. `links` are those from the first node to the second, and those back; each way has at
    /// least one.
    ///
    /// # Panics
    /// If a link cannot be.
    pub fn new(nodes: [N; 2], links: [Vec<LinkConfig>; 2]) -> Self {
        let make = |config| Link::new(config).expect("a valid link");
        let links = links.map(|way| way.into_iter().map(make).collect());
        Self { time: VirtualTime::starting_at(Instant::ZERO), nodes, links, tap: None }
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.time.now()
    }

    /// Takes what both nodes have to send, then moves to the next instant at which something happens. `None` if nothing ever will.
    ///
    /// # Panics
    /// If a node or a link wants to be run in the past, or time stands still.
    pub fn step(&mut self) -> Option<()> {
        self.drain();
        let links = self.links.iter().flatten().filter_map(Link::next_timeout);
        let next = links.chain(self.nodes.iter().filter_map(Node::next_timeout)).min()?;
        assert!(next >= self.now(), "an event in the past");
        self.time.advance(next);
        for from in 0..2 {
            self.carry(from);
        }
        let now = self.now();
        self.nodes.iter_mut().for_each(|node| node.handle_timeout(now));
        Some(())
    }

    /// Puts on the path what the nodes send, one packet of each in turn.
    fn drain(&mut self) {
        let now = self.now();
        loop {
            let mut is_idle = true;
            for from in 0..2 {
                let Some(packet) = self.nodes[from].poll_transmit(now) else { continue };
                is_idle = false;
                if let Some(tap) = &mut self.tap {
                    tap(now, from, &packet);
                }
                self.links[from][0].enqueue(now, packet);
            }
            self.nodes.iter_mut().rev().for_each(|node| node.run_user(now));
            if is_idle {
                return;
            }
        }
    }

    /// Moves what node `from` sent from link to link, and from the last to the other node, which may answer at once.
    fn carry(&mut self, from: usize) {
        let now = self.now();
        for at in 0..self.links[from].len() {
            while let Some(outcome) = self.links[from][at].poll(now) {
                let Outcome::Departure { packet, .. } = outcome else { continue };
                if let Some(next) = self.links[from].get_mut(at + 1) {
                    next.enqueue(now, packet);
                } else {
                    self.nodes[1 - from].handle_packet(now, packet);
                    self.drain();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use units::{Bytes, Duration, Rate};

    #[derive(Debug, Clone, Copy, PartialEq)]
    struct Ball(u32);

    impl Packet for Ball {
        fn size(&self) -> Bytes {
            Bytes::new(1_000)
        }
    }

    /// Returns each ball with one more hit, to the tenth.
    #[derive(Default)]
    struct Player {
        serves_at: Option<Instant>,
        holds: VecDeque<Ball>,
        caught: Vec<(Instant, Ball)>,
        seen_by_user: usize,
    }

    impl Node for Player {
        type Packet = Ball;

        fn poll_transmit(&mut self, _: Instant) -> Option<Ball> {
            self.holds.pop_front()
        }

        fn handle_packet(&mut self, now: Instant, ball: Ball) {
            self.caught.push((now, ball));
            self.holds.extend((ball.0 < 10).then_some(Ball(ball.0 + 1)));
        }

        fn handle_timeout(&mut self, now: Instant) {
            if self.serves_at.take_if(|at| *at <= now).is_some() {
                self.holds.push_back(Ball(1));
            }
        }

        fn next_timeout(&self) -> Option<Instant> {
            self.serves_at
        }

        fn run_user(&mut self, _: Instant) {
            self.seen_by_user = self.caught.len();
        }
    }

    #[test]
    fn packets_pass_every_link_in_turn_and_answers_leave_at_once() {
        let at = |millis: u64| Instant::ZERO + Duration::from_millis(millis);
        // 1 ms to send each ball.
        let link = |delay: u64| LinkConfig::new(Rate::from_bps(8_000_000), Duration::from_millis(delay));
        let server = Player { serves_at: Some(at(50)), ..Player::default() };
        let mut path = Path::new([server, Player::default()], [vec![link(9), link(19)], vec![link(69)]]);
        let hits = std::rc::Rc::new(std::cell::Cell::new([0, 0]));
        let counted = hits.clone();
        path.tap = Some(Box::new(move |_, from, _| {
            let mut hits = counted.get();
            hits[from] += 1;
            counted.set(hits);
        }));
        while path.step().is_some() {}
        let caught =
            |numbers: [u32; 5], first: u64| numbers.map(|n| (at(first + 100 * u64::from((n - 1) / 2)), Ball(n)));
        assert_eq!(path.nodes[1].caught, caught([1, 3, 5, 7, 9], 80), "10 ms and 20 ms after it was sent");
        assert_eq!(path.nodes[0].caught, caught([2, 4, 6, 8, 10], 150), "70 ms after that");
        assert_eq!((hits.get(), path.now()), ([5, 5], at(550)));
        assert_eq!(path.nodes.each_ref().map(|node| node.seen_by_user), [5, 5]);
    }
}
