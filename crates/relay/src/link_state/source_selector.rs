//! Source selection: updates by DLEP come before those by the API, those before the configuration.

use super::reporter::{LinkUpdate, RateLimits, Rejection, Reporter};
use super::{LinkState, Source};
use units::{Duration, Instant};

/// The updates of all sources, and the link state that follows from them.
#[derive(Debug)]
pub struct SourceSelector {
    configured: LinkState,
    limits: RateLimits,
    api: Reporter,
    dlep: Reporter,
    current: LinkState,
    /// Changes are published no faster than [`SourceSelector::PERIOD`].
    changes_from: Instant,
}

impl SourceSelector {
    /// The least time between published changes, whatever a source does: a few packet times.
    const PERIOD: Duration = Duration::from_millis(20);

    /// Without updates, the link is as `configured`.
    pub fn new(configured: LinkState, limits: RateLimits) -> Self {
        Self {
            configured,
            limits,
            api: Reporter::default(),
            dlep: Reporter::default(),
            current: configured,
            changes_from: Instant::ZERO,
        }
    }

    /// Changes the configuration: the link's own rates and round-trip time, and the limits of what is reported.
    pub fn configure(&mut self, configured: LinkState, limits: RateLimits) {
        (self.configured, self.limits) = (configured, limits);
    }

    /// Takes an update of `source`.
    ///
    /// # Errors
    /// If the update is rejected. Then `source` has no update in force; the rejected one counts once it is accepted, by another range or
    /// when rates no longer oscillate.
    pub fn report(&mut self, now: Instant, source: Source, update: LinkUpdate) -> Result<(), Rejection> {
        let range = self.limits.plausible;
        self.reporter(source).map_or(Ok(()), |reporter| reporter.report(now, update, range))
    }

    /// Drops the update of `source`.
    pub fn withdraw(&mut self, source: Source) {
        if let Some(reporter) = self.reporter(source) {
            reporter.withdraw();
        }
    }

    fn reporter(&mut self, source: Source) -> Option<&mut Reporter> {
        match source {
            Source::Configured => None,
            Source::Api => Some(&mut self.api),
            Source::Dlep => Some(&mut self.dlep),
        }
    }

    /// The link state from `now` on, if it has changed.
    pub fn news(&mut self, now: Instant) -> Option<LinkState> {
        self.api.advance(now);
        self.dlep.advance(now);
        let best = self.best(now);
        if !differ(&best, &self.current) || now < self.changes_from {
            return None;
        }
        self.changes_from = now + Self::PERIOD;
        self.current = best;
        Some(best)
    }

    /// The link state that the updates so far make: what [`SourceSelector::news`] returns next, if it holds a change back.
    pub fn selected(&self, now: Instant) -> LinkState {
        let best = self.best(now);
        if differ(&best, &self.current) { best } else { self.current }
    }

    /// When to ask for news again without an update.
    pub fn next_timeout(&self, now: Instant) -> Option<Instant> {
        let held_back = differ(&self.best(now), &self.current).then_some(self.changes_from);
        [self.api.next_timeout(), self.dlep.next_timeout(), held_back].into_iter().flatten().min()
    }

    fn best(&self, now: Instant) -> LinkState {
        let reported = [(Source::Dlep, &self.dlep), (Source::Api, &self.api)]
            .into_iter()
            .find_map(|(source, reporter)| Some((source, reporter.update(self.limits.plausible)?)));
        let configured = self.configured;
        let (source, update) = reported.unwrap_or((Source::Configured, LinkUpdate::default()));
        LinkState {
            rate: update.rate.map_or(configured.rate, |rate| self.limits.capped(rate)),
            rate_is_reported: update.rate.is_some(),
            receive_rate: update.receive_rate.unwrap_or(configured.receive_rate),
            rtt: update.rtt.unwrap_or(configured.rtt),
            source,
            since: now,
        }
    }
}

/// Whether they differ in more than their time.
fn differ(a: &LinkState, b: &LinkState) -> bool {
    let of = |state: &LinkState| (state.rate, state.rate_is_reported, state.receive_rate, state.rtt, state.source);
    of(a) != of(b)
}

#[cfg(test)]
mod tests {
    use super::super::PlausibleRange;
    use super::*;
    use units::Rate;

    const RANGE: PlausibleRange = PlausibleRange { min: Rate::from_bps(64_000), max: Rate::from_bps(60_000_000) };

    const LIMITS: RateLimits = RateLimits { plausible: RANGE, ceiling: None };

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn selector() -> SourceSelector {
        let configured = LinkState {
            rate: Rate::from_bps(6_000_000),
            rate_is_reported: false,
            receive_rate: Rate::from_bps(8_000_000),
            rtt: Duration::from_millis(550),
            source: Source::Configured,
            since: Instant::ZERO,
        };
        SourceSelector::new(configured, LIMITS)
    }

    fn up(bps: u64) -> LinkUpdate {
        LinkUpdate { rate: Some(Rate::from_bps(bps)), ..LinkUpdate::default() }
    }

    fn summary(state: Option<LinkState>) -> Option<(u64, Source)> {
        state.map(|state| (state.rate.as_bps(), state.source))
    }

    #[test]
    fn a_rate_that_an_update_leaves_out_is_not_reported() {
        let mut selector = selector();
        let rtt = LinkUpdate { rtt: Some(Duration::from_millis(600)), ..LinkUpdate::default() };
        selector.report(at(0), Source::Api, rtt).unwrap();
        let of = |state: LinkState| (state.rate.as_bps(), state.rate_is_reported, state.source);
        assert_eq!(selector.news(at(0)).map(of), Some((6_000_000, false, Source::Api)));
        selector.report(at(100), Source::Api, LinkUpdate { rate: Some(Rate::from_bps(6_000_000)), ..rtt }).unwrap();
        assert_eq!(
            selector.news(at(100)).map(of),
            Some((6_000_000, true, Source::Api)),
            "the same rate, and now it is"
        );
    }

    #[test]
    fn dlep_comes_first_then_the_api_then_the_configuration() {
        let mut selector = selector();
        assert_eq!(selector.news(at(0)), None);
        selector.report(at(100), Source::Api, up(4_000_000)).unwrap();
        let news = selector.news(at(100)).unwrap();
        assert_eq!((news.rate.as_bps(), news.receive_rate.as_bps(), news.since), (4_000_000, 8_000_000, at(100)));
        selector.report(at(200), Source::Dlep, up(3_000_000)).unwrap();
        assert_eq!(summary(selector.news(at(200))), Some((3_000_000, Source::Dlep)));
        selector.report(at(300), Source::Api, up(5_000_000)).unwrap();
        assert_eq!(selector.news(at(300)), None);
        selector.withdraw(Source::Dlep);
        assert_eq!(summary(selector.news(at(400))), Some((5_000_000, Source::Api)));
        selector.report(at(500), Source::Api, up(0)).unwrap_err();
        assert_eq!(summary(selector.news(at(500))), Some((6_000_000, Source::Configured)));
    }

    #[test]
    fn the_same_update_again_is_no_news_and_is_valid_for_longer() {
        let mut selector = selector();
        let update = LinkUpdate { valid_for: Some(Duration::from_secs(1)), ..up(4_000_000) };
        selector.report(at(0), Source::Api, update).unwrap();
        assert!(selector.news(at(0)).is_some());
        selector.report(at(900), Source::Api, update).unwrap();
        assert_eq!(selector.news(at(900)), None);
        assert_eq!(selector.next_timeout(at(900)), Some(at(1_900)));
        assert_eq!(summary(selector.news(at(1_900))), Some((6_000_000, Source::Configured)));
        assert_eq!(selector.next_timeout(at(1_900)), None);
    }

    #[test]
    fn changes_come_no_faster_than_the_period_and_the_last_one_stays() {
        let mut selector = selector();
        let mut news = Vec::new();
        for ms in 0..100 {
            selector.report(at(ms), Source::Dlep, up(1_000_000 + ms)).unwrap();
            news.extend(selector.news(at(ms)));
        }
        assert_eq!(news.len(), 5);
        assert_eq!(selector.selected(at(99)).rate.as_bps(), 1_000_099, "held back, and yet what the updates make");
        assert_eq!(selector.next_timeout(at(99)), Some(at(100)));
        assert_eq!(summary(selector.news(at(100))), Some((1_000_099, Source::Dlep)));
    }

    #[test]
    fn a_report_that_was_rejected_counts_when_the_rates_no_longer_oscillate() {
        let mut selector = selector();
        let oscillates = |n: u64| up(if n.is_multiple_of(2) { 1_000_000 } else { 8_000_000 });
        let rejected = (0..200).find(|n| selector.report(at(n * 20), Source::Dlep, oscillates(*n)).is_err()).unwrap();
        let suppressed = at(rejected * 20);
        selector.news(suppressed);
        // What the modem says last before it falls silent.
        let last = at(5_000);
        assert_eq!(selector.report(last, Source::Dlep, up(1_000_000)), Err(Rejection::Flapping));
        let end = suppressed + Reporter::SUPPRESSION;
        assert_eq!((selector.news(last), selector.next_timeout(last)), (None, Some(end)));
        assert_eq!(selector.selected(last).source, Source::Configured);
        assert_eq!(summary(selector.news(end)), Some((1_000_000, Source::Dlep)));
        assert_eq!(selector.next_timeout(end), None);
    }

    fn wider() -> RateLimits {
        RateLimits { plausible: PlausibleRange { max: Rate::from_bps(100_000_000), ..RANGE }, ..LIMITS }
    }

    #[test]
    fn another_range_judges_the_last_report_again() {
        let mut selector = selector();
        selector.report(at(0), Source::Dlep, up(90_000_000)).unwrap_err();
        assert_eq!(selector.news(at(0)), None);
        let wider = wider();
        selector.configure(selector.configured, wider);
        assert_eq!(summary(selector.news(at(100))), Some((90_000_000, Source::Dlep)));
        selector.configure(selector.configured, LIMITS);
        assert_eq!(summary(selector.news(at(200))), Some((6_000_000, Source::Configured)));
        // Withdrawn, as when the session ends: it is not to come back.
        selector.withdraw(Source::Dlep);
        selector.configure(selector.configured, wider);
        assert_eq!(selector.news(at(300)), None);
    }

    #[test]
    fn a_rejected_report_is_valid_no_longer_than_it_says() {
        let mut selector = selector();
        let update = LinkUpdate { valid_for: Some(Duration::from_secs(1)), ..up(90_000_000) };
        selector.report(at(0), Source::Api, update).unwrap_err();
        assert_eq!(selector.next_timeout(at(0)), Some(at(1_000)));
        assert_eq!(selector.news(at(1_000)), None);
        selector.configure(selector.configured, wider());
        assert_eq!((selector.news(at(1_000)), selector.next_timeout(at(1_000))), (None, None));
    }

    #[test]
    fn a_ceiling_caps_the_transmit_rate_of_updates_and_no_other() {
        let mut selector = selector();
        let six = RateLimits { ceiling: Some(Rate::from_bps(6_000_000)), ..LIMITS };
        selector.configure(selector.configured, six);
        let update = LinkUpdate { receive_rate: Some(Rate::from_bps(12_000_000)), ..up(6_300_000) };
        let rates = |state: LinkState| (state.rate.as_bps(), state.receive_rate.as_bps(), state.rate_is_reported);
        selector.report(at(0), Source::Dlep, update).unwrap();
        assert_eq!(selector.news(at(0)).map(rates), Some((6_000_000, 12_000_000, true)));
        selector.report(at(100), Source::Dlep, LinkUpdate { rate: Some(Rate::from_bps(2_000_000)), ..update }).unwrap();
        assert_eq!(selector.news(at(100)).map(rates), Some((2_000_000, 12_000_000, true)));
        selector.report(at(200), Source::Dlep, up(60_000_001)).unwrap_err();
        assert_eq!(summary(selector.news(at(200))), Some((6_000_000, Source::Configured)), "it is implausible");
        // Another ceiling holds for what was reported before.
        selector.report(at(300), Source::Dlep, update).unwrap();
        selector.news(at(300));
        selector.configure(selector.configured, LIMITS);
        assert_eq!(summary(selector.news(at(400))), Some((6_300_000, Source::Dlep)));
    }
}
