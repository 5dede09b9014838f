//! How large the packets may be that a path carries, where nobody says so.
//!
//! A router that drops packets for their size has to say so (RFC 1191, RFC 8201); many do not. So trials of some sizes go to
//! the peer and come back, as RFC 4821 and RFC 8899 have it: the size that the host's route allows first, and smaller ones all
//! together if that does not come back. The largest that does is taken.

use units::{Duration, Instant};

/// IP packets that are tried when those that the route allows do not pass: what is left of 1,500 bytes by tunnels of usual
/// kinds, and what IPv6 and IPv4 ask of every path.
pub const SIZES: [u16; 7] = [1460, 1400, 1340, 1280, 1200, 1000, 576];

/// The size of a trial: of IP packets in bytes, or what the route allows.
pub type Size = Option<u16>;

/// Where a search stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// There is nothing to do.
    Rests,
    /// It begins with the next call.
    Begins,
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
}

impl Search {
    /// On a path whose round-trip time is expected to be `rtt`. Nothing is known yet.
    pub fn new(rtt: Duration) -> Self {
        // A trial takes two or three round trips, and a lost packet is repeated, that of a handshake after a second.
        Self { state: State::Rests, patience: Duration::from_secs(2) + rtt * 6, found: None }
    }

    /// Starts again, unless it is under way. What has been found before counts meanwhile.
    pub fn begin(&mut self) {
        if self.state == State::Rests {
            self.state = State::Begins;
        }
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
            State::Begins => Some(Instant::ZERO),
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
            (State::Rests | State::Begins, _) => {}
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
        let mut now = from;
        search.begin();
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
}
