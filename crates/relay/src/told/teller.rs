//! One source of words: is what it says to be believed, and for how long.

use std::collections::VecDeque;
use units::{Duration, Instant, Rate};

/// What a source says of the link. What it leaves out is as configured.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Word {
    /// What this gateway may send.
    pub up: Option<Rate>,
    /// What arrives here.
    pub down: Option<Rate>,
    /// Round-trip time.
    pub rtt: Option<Duration>,
    /// How long it counts; for ever if not given.
    pub lasts: Option<Duration>,
}

/// What is believed of a source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Rates below this one are not.
    pub least: Rate,
    /// Rates above this one are not.
    pub most: Rate,
}

/// Round-trip times outside this range are not believed.
const SHORTEST_RTT: Duration = Duration::from_micros(10);
const LONGEST_RTT: Duration = Duration::from_secs(60);

/// Why a word is not believed.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// It has neither rate nor round-trip time.
    #[error("the word tells nothing: expected up, down or rtt")]
    Nothing,
    /// A rate that the link cannot have.
    #[error("{which} = {rate} is not believed: expected a rate from {} to {} ([feed] least and most)", .limits.least, .limits.most)]
    Rate {
        /// `up` or `down`.
        which: &'static str,
        /// The rate.
        rate: Rate,
        /// What is believed.
        limits: Limits,
    },
    /// A round-trip time that no link has.
    #[error("rtt = {0} is not believed: expected a duration from {SHORTEST_RTT} to {LONGEST_RTT}")]
    Rtt(Duration),
    /// The rates went up and down too often.
    #[error(
        "the rates swing too fast: {} turns by a quarter or more within {}; not believed for {}",
        Swings::MOST,
        Swings::WITHIN,
        Teller::DISTRUST
    )]
    Swings,
}

/// What one source has said, as far as it is believed.
#[derive(Debug, Default)]
pub(super) struct Teller {
    word: Option<Word>,
    /// When the word stops counting.
    until: Option<Instant>,
    swings: [Swings; 2],
    distrusted_until: Option<Instant>,
}

impl Teller {
    /// A source whose rates swing is not listened to for this long.
    const DISTRUST: Duration = Duration::from_secs(30);

    /// The source says `word`. A word that is not believed takes back the one before.
    pub(super) fn tell(&mut self, now: Instant, word: Word, limits: Limits) -> Result<(), Refusal> {
        self.withdraw();
        if self.distrusted_until.is_some_and(|until| now < until) {
            return Err(Refusal::Swings);
        }
        self.distrusted_until = None;
        let rates = [("up", word.up), ("down", word.down)];
        if rates.iter().all(|(_, rate)| rate.is_none()) && word.rtt.is_none() {
            return Err(Refusal::Nothing);
        }
        for (which, rate) in rates {
            if let Some(rate) = rate.filter(|rate| !(limits.least..=limits.most).contains(rate)) {
                return Err(Refusal::Rate { which, rate, limits });
            }
        }
        if let Some(rtt) = word.rtt.filter(|rtt| !(SHORTEST_RTT..=LONGEST_RTT).contains(rtt)) {
            return Err(Refusal::Rtt(rtt));
        }
        for ((_, rate), swings) in rates.into_iter().zip(&mut self.swings) {
            if rate.is_some_and(|rate| swings.are_too_many(now, rate)) {
                *swings = Swings::default();
                self.distrusted_until = Some(now + Self::DISTRUST);
                return Err(Refusal::Swings);
            }
        }
        self.word = Some(word);
        self.until = word.lasts.map(|lasts| now + lasts);
        Ok(())
    }

    /// Nothing that the source has said counts any more.
    pub(super) fn withdraw(&mut self) {
        (self.word, self.until) = (None, None);
    }

    /// Forgets a word whose time is over; returns whether it did.
    pub(super) fn expire(&mut self, now: Instant) -> bool {
        let is_over = self.until.is_some_and(|until| until <= now);
        if is_over {
            self.withdraw();
        }
        is_over
    }

    /// The word that counts.
    pub(super) fn word(&self) -> Option<Word> {
        self.word
    }

    /// When the word's time is over.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }
}

/// The turns of one rate: a rise by a quarter after a fall, or a fall by a quarter after a rise.
#[derive(Debug, Default)]
struct Swings {
    /// The highest rate since it began to rise, or the lowest since it began to fall.
    extreme: Option<(Rate, Way)>,
    turns: VecDeque<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Up,
    Down,
}

impl Swings {
    /// A terminal whose allocation follows its queue turns twice for each request's latency (250 ms and more), so stays
    /// below this: more turns than these within this time mean that what is told is no use as a pace.
    const MOST: usize = 100;
    const WITHIN: Duration = Duration::from_secs(10);

    fn are_too_many(&mut self, now: Instant, rate: Rate) -> bool {
        let Some((extreme, way)) = self.extreme else {
            self.extreme = Some((rate, Way::Up));
            return false;
        };
        let goes_on = if way == Way::Up { rate >= extreme } else { rate <= extreme };
        let has_turned = match way {
            Way::Up => rate <= extreme.mul_f64(0.75),
            Way::Down => rate >= extreme.mul_f64(1.25),
        };
        if goes_on {
            self.extreme = Some((rate, way));
        } else if has_turned {
            self.extreme = Some((rate, if way == Way::Up { Way::Down } else { Way::Up }));
            self.turns.push_back(now);
        }
        while self.turns.front().is_some_and(|at| now.since(*at) > Self::WITHIN) {
            self.turns.pop_front();
        }
        self.turns.len() > Self::MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { least: Rate::from_bps(64_000), most: Rate::from_bps(60_000_000) };

    fn up(bps: u64) -> Word {
        Word { up: Some(Rate::from_bps(bps)), ..Word::default() }
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn rates_that_the_link_cannot_have_take_the_word_before_back() {
        let mut teller = Teller::default();
        for lie in [0, 63_999, 60_000_001, u64::MAX] {
            teller.tell(at(0), up(6_000_000), LIMITS).unwrap();
            let refusal = teller.tell(at(1), up(lie), LIMITS).unwrap_err();
            assert!(refusal.to_string().contains("from 64kbit/s to 60Mbit/s"), "{refusal}");
            assert_eq!(teller.word(), None);
        }
        for honest in [64_000, 60_000_000] {
            teller.tell(at(2), up(honest), LIMITS).unwrap();
        }
        let down = Word { down: Some(Rate::ZERO), ..up(6_000_000) };
        assert!(teller.tell(at(3), down, LIMITS).unwrap_err().to_string().starts_with("down = 0bit/s"));
        let rtt = Word { rtt: Some(Duration::ZERO), ..up(6_000_000) };
        assert!(matches!(teller.tell(at(3), rtt, LIMITS), Err(Refusal::Rtt(_))));
        assert_eq!(teller.tell(at(3), Word::default(), LIMITS), Err(Refusal::Nothing));
    }

    #[test]
    fn a_word_counts_as_long_as_it_says() {
        let mut teller = Teller::default();
        teller.tell(at(0), Word { lasts: Some(Duration::from_secs(1)), ..up(6_000_000) }, LIMITS).unwrap();
        assert!(!teller.expire(at(999)));
        assert!(teller.expire(at(1_000)));
        assert_eq!(teller.word(), None);
        teller.tell(at(2_000), up(6_000_000), LIMITS).unwrap();
        assert!(!teller.expire(at(1_000_000_000)));
    }

    #[test]
    fn rates_that_swing_are_not_believed_for_a_while() {
        let mut teller = Teller::default();
        let flap = |n: u64| up(if n.is_multiple_of(2) { 64_000 } else { 60_000_000 });
        let refused = (0..1_000).find(|n| teller.tell(at(n * 10), flap(*n), LIMITS).is_err());
        assert!(refused.is_some_and(|n| (100..105).contains(&n)), "{refused:?}");
        assert_eq!(teller.tell(at(5_000), up(6_000_000), LIMITS), Err(Refusal::Swings));
        teller.tell(at(60_000), up(6_000_000), LIMITS).unwrap();
    }

    #[test]
    fn an_allocation_that_follows_demand_is_believed() {
        let mut teller = Teller::default();
        // Turns each 250 ms; and in small steps at every 10 ms.
        for n in 0..10_000_u64 {
            let base = if (n / 25).is_multiple_of(2) { 1_000_000 } else { 4_000_000 };
            teller.tell(at(n * 10), up(base + n % 7 * 20_000), LIMITS).unwrap();
        }
    }
}
