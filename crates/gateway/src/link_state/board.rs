//! The link state that updates change and all read.

use super::{LinkState, LinkUpdate, RateLimits, Rejection, Source};
use crate::relays::log_limit::LineLimit;
use kernel::clock;
use relay::link_state::SourceSelector;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};
use units::{Duration, Instant};

/// The link state that updates change and all read.
#[derive(Debug, Clone)]
pub(super) struct Board(Arc<Shared>);

struct Shared {
    selector: Mutex<SourceSelector>,
    state: watch::Sender<LinkState>,
    on_change: Box<dyn Fn() + Send + Sync>,
    /// The selector's timer is to be set again.
    wake: Notify,
    /// Updates accepted and rejected, of the API and of DLEP.
    counts: [[AtomicU64; 2]; 2],
    logged_rejections: Mutex<LoggedRejections>,
    /// How often the log has a change of the source: who may report the link can change it as often as it likes.
    source_lines: Mutex<LineLimit<Source>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Shared {
    fn counts(&self, source: Source) -> &[AtomicU64; 2] {
        &self.counts[usize::from(source == Source::Dlep)]
    }
}

/// When the latest rejection of the API and of DLEP was logged.
#[derive(Default)]
struct LoggedRejections([Option<Instant>; 2]);

impl LoggedRejections {
    /// After so long a rejection is logged again, however many there were.
    const AGAIN: Duration = Duration::from_secs(60);

    /// Whether to log the rejection of an update, `before` of which were rejected before: a source that goes on must not fill the log, and
    /// what is wrong with it may be another thing after a while.
    fn is_due(&mut self, now: Instant, source: Source, before: u64) -> bool {
        let logged = &mut self.0[usize::from(source == Source::Dlep)];
        let is_due = before == 0 || before.is_power_of_two() || logged.is_none_or(|at| at + Self::AGAIN <= now);
        if is_due {
            *logged = Some(now);
        }
        is_due
    }
}

impl Board {
    pub(super) fn new(selector: SourceSelector, configured: LinkState, on_change: Box<dyn Fn() + Send + Sync>) -> Self {
        let mut source_lines = LineLimit::default();
        source_lines.note(configured.source, false);
        Self(Arc::new(Shared {
            selector: Mutex::new(selector),
            state: watch::Sender::new(configured),
            on_change,
            wake: Notify::new(),
            counts: Default::default(),
            logged_rejections: Mutex::default(),
            source_lines: Mutex::new(source_lines),
        }))
    }

    /// Changes the configured link and the limits of what is reported.
    pub(super) fn configure(&self, configured: LinkState, limits: RateLimits) {
        let mut selector = self.selector();
        selector.configure(configured, limits);
        self.publish(clock::now(), &mut selector);
        self.0.wake.notify_one();
    }

    /// The link state, now and at each change.
    pub(super) fn subscribe(&self) -> watch::Receiver<LinkState> {
        self.0.state.subscribe()
    }

    /// Updates of `source` that were accepted, and that were rejected.
    pub(super) fn counts(&self, source: Source) -> [u64; 2] {
        self.0.counts(source).each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Takes an update of `source`.
    pub(super) fn report(&self, source: Source, update: LinkUpdate) -> Result<(), Rejection> {
        let now = clock::now();
        let mut selector = self.selector();
        let outcome = selector.report(now, source, update);
        let [accepted, rejected] = self.0.counts(source);
        match &outcome {
            Ok(()) => accepted.fetch_add(1, Ordering::Relaxed),
            Err(rejection) => {
                let before = rejected.fetch_add(1, Ordering::Relaxed);
                let mut logged = self.0.logged_rejections.lock().unwrap_or_else(PoisonError::into_inner);
                if logged.is_due(now, source, before) {
                    tracing::warn!(source = source.name(), rejected = before + 1, "{rejection}");
                }
                before
            }
        };
        self.publish(now, &mut selector);
        self.0.wake.notify_one();
        outcome
    }

    /// Drops the update of `source`.
    pub(super) fn withdraw(&self, source: Source) {
        let mut selector = self.selector();
        selector.withdraw(source);
        self.publish(clock::now(), &mut selector);
        self.0.wake.notify_one();
    }

    /// The link state that the updates so far make, if its publication is held back, too.
    pub(super) fn selected(&self) -> LinkState {
        self.selector().selected(clock::now())
    }

    /// Ends validities and publishes changes that are due.
    pub(super) async fn keep(&self) {
        loop {
            let wait = self.handle_timeout(clock::now());
            let due = async {
                match wait {
                    Some(wait) => tokio::time::sleep(wait.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => {}
                () = self.0.wake.notified() => {}
            }
        }
    }

    /// Handles what is due; returns the time until the next deadline.
    fn handle_timeout(&self, now: Instant) -> Option<Duration> {
        let mut selector = self.selector();
        self.publish(now, &mut selector);
        let overdue = self.log_source(now, None);
        selector.next_timeout(now).into_iter().chain(overdue).min().map(|at| at.since(now))
    }

    fn selector(&self) -> MutexGuard<'_, SourceSelector> {
        // A selector is never left half-changed.
        self.0.selector.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, now: Instant, selector: &mut SourceSelector) {
        if let Some(state) = selector.news(now) {
            let before = self.0.state.send_replace(state);
            if before.source == state.source {
                let (source, rate, receive_rate, rtt) =
                    (state.source.name(), state.rate, state.receive_rate, state.rtt);
                tracing::debug!(source, %rate, %receive_rate, %rtt, "link state changed");
            } else {
                self.log_source(now, Some(state.source));
            }
            (self.0.on_change)();
        }
    }

    /// Logs that the link state comes from `source` now, or without one what was left out of that and holds still, as far as it is time. Returns
    /// when it will be.
    fn log_source(&self, now: Instant, source: Option<Source>) -> Option<Instant> {
        // A limit is never left half-changed.
        let mut lines = self.0.source_lines.lock().unwrap_or_else(PoisonError::into_inner);
        let former = lines.latest().copied().unwrap_or_default();
        let admitted = match source {
            Some(source) => lines.admit(now, source, source != Source::Configured),
            None => lines.overdue(now),
        };
        if let Some((source, not_logged)) = admitted {
            self.say(source, former, not_logged);
        }
        lines.due().map(|due| due.unwrap_or(now))
    }

    /// Writes that the link state comes from `source` now, or that it falls back to the configuration. Before it, `not_logged` lines were left out.
    fn say(&self, source: Source, former: Source, not_logged: Option<u64>) {
        let LinkState { rate, receive_rate, rtt, .. } = *self.0.state.borrow();
        let (is_lost, source, former) = (source == Source::Configured, source.name(), former.name());
        if is_lost {
            tracing::warn!(source, former, %rate, %receive_rate, %rtt, not_logged, "no link update is valid, falling back to the configuration");
        } else {
            tracing::info!(source, former, %rate, %receive_rate, %rtt, not_logged, "link state from another source");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejections_are_logged_at_powers_of_two_and_once_a_minute_of_each_source() {
        let mut logged = LoggedRejections::default();
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let numbers: Vec<u64> = (0..10).filter(|before| logged.is_due(at(1), Source::Dlep, *before)).collect();
        assert_eq!(numbers, [0, 1, 2, 4, 8]);
        assert!(!logged.is_due(at(60), Source::Dlep, 1001));
        assert!(logged.is_due(at(60), Source::Api, 1001), "another source");
        assert!(logged.is_due(at(61), Source::Dlep, 1002));
    }
}
