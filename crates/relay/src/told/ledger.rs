//! Whose word counts now: the modem's before a script's, a script's before what is configured.

use super::teller::{Limits, Refusal, Teller, Word};
use super::{Source, Told};
use units::{Duration, Instant};

/// The words of all sources, and what follows from them.
#[derive(Debug)]
pub struct Ledger {
    configured: Told,
    limits: Limits,
    feed: Teller,
    dlep: Teller,
    current: Told,
    /// Changes come no faster than [`Ledger::PERIOD`].
    changes_from: Instant,
}

impl Ledger {
    /// Whatever a source does, those who follow have a change no more often than this: a few packet times.
    const PERIOD: Duration = Duration::from_millis(20);

    /// Nothing is told yet: the link is as `configured`.
    pub fn new(configured: Told, limits: Limits) -> Self {
        Self {
            configured,
            limits,
            feed: Teller::default(),
            dlep: Teller::default(),
            current: configured,
            changes_from: Instant::ZERO,
        }
    }

    /// The link is configured to be otherwise, and other words are believed.
    pub fn configure(&mut self, configured: Told, limits: Limits) {
        (self.configured, self.limits) = (configured, limits);
    }

    /// `source` says `word`.
    ///
    /// # Errors
    /// If the word is not believed; then `source` has nothing to say.
    pub fn tell(&mut self, now: Instant, source: Source, word: Word) -> Result<(), Refusal> {
        let limits = self.limits;
        self.teller(source).map_or(Ok(()), |teller| teller.tell(now, word, limits))
    }

    /// `source` has nothing to say any more.
    pub fn withdraw(&mut self, source: Source) {
        if let Some(teller) = self.teller(source) {
            teller.withdraw();
        }
    }

    fn teller(&mut self, source: Source) -> Option<&mut Teller> {
        match source {
            Source::Configured => None,
            Source::Feed => Some(&mut self.feed),
            Source::Dlep => Some(&mut self.dlep),
        }
    }

    /// What counts from `now` on, if that is news.
    pub fn news(&mut self, now: Instant) -> Option<Told> {
        self.feed.expire(now);
        self.dlep.expire(now);
        let best = self.best(now);
        if !differ(&best, &self.current) || now < self.changes_from {
            return None;
        }
        self.changes_from = now + Self::PERIOD;
        self.current = best;
        Some(best)
    }

    /// When to ask for news again, even if nobody says anything.
    pub fn next_timeout(&self, now: Instant) -> Option<Instant> {
        let held_back = differ(&self.best(now), &self.current).then_some(self.changes_from);
        [self.feed.until(), self.dlep.until(), held_back].into_iter().flatten().min()
    }

    fn best(&self, now: Instant) -> Told {
        let told = [(Source::Dlep, &self.dlep), (Source::Feed, &self.feed)]
            .into_iter()
            .find_map(|(source, teller)| Some((source, teller.word()?)));
        let configured = self.configured;
        let (source, word) = told.unwrap_or((Source::Configured, Word::default()));
        Told {
            up: word.up.unwrap_or(configured.up),
            down: word.down.unwrap_or(configured.down),
            rtt: word.rtt.unwrap_or(configured.rtt),
            source,
            since: now,
        }
    }
}

/// Whether they say different things.
fn differ(a: &Told, b: &Told) -> bool {
    (a.up, a.down, a.rtt, a.source) != (b.up, b.down, b.rtt, b.source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rate;

    const LIMITS: Limits = Limits { least: Rate::from_bps(64_000), most: Rate::from_bps(60_000_000) };

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn ledger() -> Ledger {
        let configured = Told {
            up: Rate::from_bps(6_000_000),
            down: Rate::from_bps(8_000_000),
            rtt: Duration::from_millis(550),
            source: Source::Configured,
            since: Instant::ZERO,
        };
        Ledger::new(configured, LIMITS)
    }

    fn up(bps: u64) -> Word {
        Word { up: Some(Rate::from_bps(bps)), ..Word::default() }
    }

    fn summary(told: Option<Told>) -> Option<(u64, Source)> {
        told.map(|told| (told.up.as_bps(), told.source))
    }

    #[test]
    fn the_modem_comes_first_then_a_script_then_the_configuration() {
        let mut ledger = ledger();
        assert_eq!(ledger.news(at(0)), None);
        ledger.tell(at(100), Source::Feed, up(4_000_000)).unwrap();
        let news = ledger.news(at(100)).unwrap();
        assert_eq!((news.up.as_bps(), news.down.as_bps(), news.since), (4_000_000, 8_000_000, at(100)));
        ledger.tell(at(200), Source::Dlep, up(3_000_000)).unwrap();
        assert_eq!(summary(ledger.news(at(200))), Some((3_000_000, Source::Dlep)));
        ledger.tell(at(300), Source::Feed, up(5_000_000)).unwrap();
        assert_eq!(ledger.news(at(300)), None);
        ledger.withdraw(Source::Dlep);
        assert_eq!(summary(ledger.news(at(400))), Some((5_000_000, Source::Feed)));
        ledger.tell(at(500), Source::Feed, up(0)).unwrap_err();
        assert_eq!(summary(ledger.news(at(500))), Some((6_000_000, Source::Configured)));
    }

    #[test]
    fn the_same_word_again_is_no_news_and_counts_longer() {
        let mut ledger = ledger();
        let word = Word { lasts: Some(Duration::from_secs(1)), ..up(4_000_000) };
        ledger.tell(at(0), Source::Feed, word).unwrap();
        assert!(ledger.news(at(0)).is_some());
        ledger.tell(at(900), Source::Feed, word).unwrap();
        assert_eq!(ledger.news(at(900)), None);
        assert_eq!(ledger.next_timeout(at(900)), Some(at(1_900)));
        assert_eq!(summary(ledger.news(at(1_900))), Some((6_000_000, Source::Configured)));
        assert_eq!(ledger.next_timeout(at(1_900)), None);
    }

    #[test]
    fn changes_come_no_faster_than_the_period_and_the_last_one_stays() {
        let mut ledger = ledger();
        let mut news = Vec::new();
        for ms in 0..100 {
            ledger.tell(at(ms), Source::Dlep, up(1_000_000 + ms)).unwrap();
            news.extend(ledger.news(at(ms)));
        }
        assert_eq!(news.len(), 5);
        assert_eq!(ledger.next_timeout(at(99)), Some(at(100)));
        assert_eq!(summary(ledger.news(at(100))), Some((1_000_099, Source::Dlep)));
    }
}
