//! How large the packets may be that a path carries, where nobody says so.
//!
//! A router that drops packets for their size has to say so (RFC 1191, RFC 8201); many do not. So trials of some sizes go to
//! the peer and come back, as RFC 4821 and RFC 8899 have it: the size that the host's route allows first, and smaller ones all
//! together if that does not come back. The largest that does is taken.

use units::{Duration, Instant};

/// IP packets that are tried when those that the route allows do not pass: what is left of 1,500 bytes by tunnels of usual
/// kinds, and what IPv6 and IPv4 ask of every path.
pub const SIZES: [u16; 7] = [1460, 1400, 1340, 1280, 1200, 1000, 576];

/// The pauses between searches that begin since connections stall: at first, and the longest, to which they double.
const SHORTEST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The size of a trial: of IP packets in bytes, or what the route allows.
pub type Size = Option<u16>;

/// Where a search stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// There is nothing to do.
    Rests,
    /// It begins with the next call.
    Begins,
    /// The same, and the path probably carries less than the route allows.
    Doubts,
    /// What the route allows is tried, until this time; and again at that time, if the last trial was refused.
    Route(Instant, Option<Instant>),
    /// All are tried, until this time; the largest that has come back.
    All(Instant, Size),
}

/// The search for the largest packets on the path to one peer.
#[derive(Debug, Clone)]
pub struct Search {
    state: State,
    /// How long a trial may take.
    patience: Duration,
    found: Option<Size>,
    /// From when connections that stall may begin a search, and the pause after the next such search.
    doubts_from: Instant,
    pause: Duration,
}

impl Search {
    /// On a path whose round-trip time is expected to be `rtt`. Nothing is known yet.
    pub fn new(rtt: Duration) -> Self {
        // A trial takes two or three round trips, and a lost packet is repeated, that of a handshake after a second.
        let patience = Duration::from_secs(2) + rtt * 6;
        Self { state: State::Rests, patience, found: None, doubts_from: Instant::ZERO, pause: SHORTEST_PAUSE }
    }

    /// Starts again, unless it is under way. What has been found before counts meanwhile.
    pub fn begin(&mut self) {
        if self.state == State::Rests {
            self.state = State::Begins;
        }
    }

    /// Starts again since data of connections is not acknowledged, as packets may vanish for their size. Other causes last, too: such searches follow
    /// one another at growing intervals, until there was none for a while.
    pub fn doubt(&mut self, now: Instant) {
        if self.state != State::Rests || now < self.doubts_from {
            return;
        }
        if now.since(self.doubts_from) >= LONGEST_PAUSE {
            self.pause = SHORTEST_PAUSE;
        }
        self.doubts_from = now + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.state = State::Doubts;
    }

    /// Ends the search, undecided if it is: the peer cannot be asked.
    pub fn stop(&mut self) {
        self.state = State::Rests;
    }

    /// What has been found.
    pub fn found(&self) -> Option<Size> {
        self.found
    }

    /// The sizes to try now.
    pub fn poll_trials(&mut self, now: Instant) -> &'static [Size] {
        const ROUTE: [Size; 1] = [None];
        const TWICE: [Size; 2] = [None; 2];
        const ALL: [Size; 8] = {
            let mut all = [None; 8];
            let mut at = 0;
            while at < SIZES.len() {
                all[at] = Some(SIZES[at]);
                at += 1;
            }
            all
        };
        match self.state {
            State::Begins => {
                self.state = State::Route(now + self.patience, None);
                &ROUTE
            }
            State::Doubts => {
                // The route's size is among those of the next trials again.
                self.state = State::Route(now + self.patience / 2, None);
                &TWICE
            }
            State::Route(until, Some(again)) if again <= now && now < until => {
                self.state = State::Route(until, None);
                &ROUTE
            }
            State::Route(until, _) if until <= now => {
                self.state = State::All(now + self.patience, None);
                &ALL
            }
            State::All(until, best) if until <= now => {
                // Where none has come back, the path is no better for smaller packets.
                self.found = best.map(Some).or(self.found);
                self.state = State::Rests;
                &[]
            }
            _ => &[],
        }
    }

    /// When [`Search::poll_trials`] is to be called.
    pub fn next_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Rests => None,
            State::Begins | State::Doubts => Some(Instant::ZERO),
            State::Route(until, again) => Some(again.map_or(until, |again| again.min(until))),
            State::All(until, _) => Some(until),
        }
    }

    /// A trial was refused: perhaps it was sooner there than the message that begins the session.
    pub fn on_refused(&mut self, now: Instant, size: Size) {
        if let (State::Route(until, None), None) = (self.state, size) {
            self.state = State::Route(until, Some(now + self.patience / 8));
        }
    }

    /// A trial is known not to have passed: there is no need to wait for that of what the route allows.
    pub fn on_lost(&mut self, now: Instant, size: Size) {
        if let (State::Route(..), None) = (self.state, size) {
            self.state = State::Route(now, None);
        }
    }

    /// A trial has come back.
    pub fn on_passed(&mut self, size: Size) {
        match (self.state, size) {
            (State::Rests | State::Begins | State::Doubts, _) => {}
            (_, None) => (self.found, self.state) = (Some(None), State::Rests),
            (State::Route(..), Some(_)) => {}
            (State::All(until, best), Some(size)) => self.state = State::All(until, best.max(Some(size))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(600);

    /// What a search finds on a path that carries packets of `most` bytes, and how long that takes.
    fn find(search: &mut Search, most: u16, from: Instant) -> (Option<Size>, Duration) {
        search.begin();
        go_on(search, most, from)
    }

    /// The same for a search that has begun.
    fn go_on(search: &mut Search, most: u16, from: Instant) -> (Option<Size>, Duration) {
        let mut now = from;
        let mut on_their_way: Vec<(Instant, Size)> = Vec::new();
        loop {
            for size in search.poll_trials(now) {
                if size.unwrap_or(1500) <= most {
                    on_their_way.push((now + RTT * 2, *size));
                }
            }
            let Some(due) = search.next_timeout() else { return (search.found(), now.since(from)) };
            on_their_way.sort();
            match on_their_way.first() {
                Some((at, size)) if *at <= due => {
                    now = *at;
                    search.on_passed(*size);
                    on_their_way.remove(0);
                }
                _ => now = due,
            }
        }
    }

    #[test]
    fn a_healthy_path_takes_one_trial() {
        let (found, took) = find(&mut Search::new(RTT), 1500, Instant::ZERO);
        assert_eq!((found, took), (Some(None), RTT * 2));
    }

    #[test]
    fn a_trial_that_is_refused_is_made_again() {
        let mut search = Search::new(RTT);
        search.begin();
        let mut now = Instant::ZERO;
        for _ in 0..3 {
            assert_eq!(search.poll_trials(now), [None]);
            assert!(search.poll_trials(now).is_empty());
            search.on_refused(now, None);
            now = search.next_timeout().unwrap();
        }
        assert_eq!(search.poll_trials(now), [None]);
        search.on_passed(None);
        assert_eq!((search.found(), search.next_timeout()), (Some(None), None));
    }

    #[test]
    fn a_trial_that_is_known_to_be_lost_is_not_waited_for() {
        let mut search = Search::new(RTT);
        search.begin();
        let mut now = Instant::ZERO;
        assert_eq!(search.poll_trials(now), [None]);
        now += RTT;
        search.on_lost(now, None);
        assert_eq!(search.next_timeout(), Some(now));
        assert_eq!(search.poll_trials(now).len(), SIZES.len() + 1);
        // One of all is as good as not tried.
        search.on_lost(now, None);
        search.on_passed(Some(1280));
        now = search.next_timeout().unwrap();
        assert!(search.poll_trials(now).is_empty());
        assert_eq!(search.found(), Some(Some(1280)));
    }

    #[test]
    fn the_largest_size_that_passes_is_found_whatever_the_path_carries() {
        for most in 576..1500 {
            let (found, took) = find(&mut Search::new(RTT), most, Instant::ZERO);
            let expected = SIZES.into_iter().find(|size| *size <= most);
            assert_eq!(found, Some(expected), "{most}");
            assert!(took < Duration::from_secs(12), "{took:?}");
        }
    }

    #[test]
    fn a_path_that_changes_is_found_out_and_one_that_carries_nothing_changes_nothing() {
        let mut search = Search::new(RTT);
        let mut now = Instant::ZERO;
        for (most, expected) in [(1500, None), (1300, Some(1280)), (100, Some(1280)), (1450, Some(1400)), (1500, None)]
        {
            let (found, took) = find(&mut search, most, now);
            now = now + took + Duration::from_secs(1);
            assert_eq!(found, Some(expected), "{most}");
        }
    }

    #[test]
    fn a_path_in_doubt_takes_less_time() {
        for (most, expected) in [(1300, Some(1280)), (1500, None)] {
            let mut search = Search::new(RTT);
            find(&mut search, 1500, Instant::ZERO);
            let now = Instant::ZERO + Duration::from_secs(100);
            search.doubt(now);
            let (found, took) = go_on(&mut search, most, now);
            assert_eq!(found, Some(expected));
            assert!(took < Duration::from_secs(9), "{took:?}");
        }
    }

    /// When searches begin while connections stall all the time, and packets of `most` bytes pass.
    fn begin_in_doubt(search: &mut Search, most: u16, from: u64, seconds: u64) -> Vec<u64> {
        let mut begins = Vec::new();
        let mut idle_from = Instant::ZERO;
        for second in from..from + seconds {
            let now = Instant::ZERO + Duration::from_secs(second);
            if now >= idle_from {
                search.doubt(now);
            }
            if now >= idle_from && search.next_timeout().is_some() {
                begins.push(second - from);
                idle_from = now + go_on(search, most, now).1;
            }
        }
        begins
    }

    #[test]
    fn doubts_that_last_lead_to_fewer_and_fewer_searches() {
        for most in [1500, 1300, 100] {
            let mut search = Search::new(Duration::from_millis(20));
            assert_eq!(begin_in_doubt(&mut search, most, 100, 200), [0, 5, 15, 35, 75, 135, 195], "{most}");
            assert_eq!(begin_in_doubt(&mut search, most, 500, 20), [0, 5, 15], "{most}: after a while without");
        }
    }
}
