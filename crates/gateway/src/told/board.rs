//! Where sources leave their words, and everybody reads what counts.

use super::{Limits, Refusal, Source, Told, Word};
use kernel::clock;
use relay::told::Ledger;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};
use units::{Duration, Instant};

/// Where sources leave their words.
#[derive(Debug, Clone)]
pub(super) struct Board(Arc<Shared>);

struct Shared {
    ledger: Mutex<Ledger>,
    told: watch::Sender<Told>,
    on_change: Box<dyn Fn() + Send + Sync>,
    /// The ledger's timer is to be set anew.
    wake: Notify,
    /// Words taken and refused, of the feed and of DLEP.
    counts: [[AtomicU64; 2]; 2],
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("told", &self.told).finish_non_exhaustive()
    }
}

impl Shared {
    fn counts(&self, source: Source) -> &[AtomicU64; 2] {
        &self.counts[usize::from(source == Source::Dlep)]
    }
}

impl Board {
    pub(super) fn new(ledger: Ledger, configured: Told, on_change: Box<dyn Fn() + Send + Sync>) -> Self {
        Self(Arc::new(Shared {
            ledger: Mutex::new(ledger),
            told: watch::Sender::new(configured),
            on_change,
            wake: Notify::new(),
            counts: Default::default(),
        }))
    }

    /// The link is configured to be otherwise, and other words are believed.
    pub(super) fn configure(&self, configured: Told, limits: Limits) {
        let mut ledger = self.ledger();
        ledger.configure(configured, limits);
        self.publish(clock::now(), &mut ledger);
        self.0.wake.notify_one();
    }

    /// What counts, now and at each change.
    pub(super) fn subscribe(&self) -> watch::Receiver<Told> {
        self.0.told.subscribe()
    }

    /// Words of `source` that were taken, and that were refused.
    pub(super) fn counts(&self, source: Source) -> [u64; 2] {
        self.0.counts(source).each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// `source` says `word`.
    pub(super) fn tell(&self, source: Source, word: Word) -> Result<(), Refusal> {
        let now = clock::now();
        let mut ledger = self.ledger();
        let believed = ledger.tell(now, source, word);
        let [taken, refused] = self.0.counts(source);
        match &believed {
            Ok(()) => taken.fetch_add(1, Ordering::Relaxed),
            Err(refusal) => {
                let before = refused.fetch_add(1, Ordering::Relaxed);
                // A source that goes on like this is not to fill the log.
                if before.is_power_of_two() || before == 0 {
                    tracing::warn!(source = source.name(), refused = before + 1, "{refusal}");
                }
                before
            }
        };
        self.publish(now, &mut ledger);
        self.0.wake.notify_one();
        believed
    }

    /// `source` has nothing to say any more.
    pub(super) fn withdraw(&self, source: Source) {
        let mut ledger = self.ledger();
        ledger.withdraw(source);
        self.publish(clock::now(), &mut ledger);
        self.0.wake.notify_one();
    }

    /// What counts now.
    pub(super) fn told(&self) -> Told {
        *self.0.told.borrow()
    }

    /// Does what is due when no word comes in.
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

    /// Does what is due; returns in how long to come again.
    fn handle_timeout(&self, now: Instant) -> Option<Duration> {
        let mut ledger = self.ledger();
        self.publish(now, &mut ledger);
        ledger.next_timeout(now).map(|at| at.since(now))
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // A ledger is never left half-changed.
        self.0.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, now: Instant, ledger: &mut Ledger) {
        if let Some(told) = ledger.news(now) {
            let before = self.0.told.send_replace(told);
            let (source, up, down, rtt) = (told.source.name(), told.up, told.down, told.rtt);
            match Change::of(before.source, told.source) {
                Change::Values => tracing::debug!(source, %up, %down, %rtt, "the link has changed"),
                Change::Source => {
                    tracing::info!(source, before = before.source.name(), %up, %down, %rtt, "another source tells the link");
                }
                Change::Lost => {
                    tracing::warn!(source, before = before.source.name(), %up, %down, %rtt, "the link is told no longer");
                }
            }
            (self.0.on_change)();
        }
    }
}

/// What a change of what counts means for whoever reads the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// The same source tells something else.
    Values,
    /// Another source counts, and it knows the link.
    Source,
    /// No source is left: the configured link counts.
    Lost,
}

impl Change {
    fn of(before: Source, now: Source) -> Self {
        match now {
            _ if now == before => Self::Values,
            Source::Configured => Self::Lost,
            Source::Feed | Source::Dlep => Self::Source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_is_told_no_longer_only_when_no_source_is_left() {
        assert_eq!(Change::of(Source::Configured, Source::Feed), Change::Source);
        assert_eq!(Change::of(Source::Feed, Source::Dlep), Change::Source);
        assert_eq!(Change::of(Source::Dlep, Source::Feed), Change::Source, "a script goes on where the modem stops");
        assert_eq!(Change::of(Source::Dlep, Source::Dlep), Change::Values);
        for source in [Source::Feed, Source::Dlep] {
            assert_eq!(Change::of(source, Source::Configured), Change::Lost);
        }
    }
}
