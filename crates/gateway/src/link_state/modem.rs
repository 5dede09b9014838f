//! Link updates of the modem, over DLEP (RFC 8175).

use super::board::Board;
use super::{LinkUpdate, Source};
use dlep::Metrics;
use dlep_io::{News, RouterSettings, route};
use status::Modem;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// What status shows of the session with the modem.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen(Arc<Mutex<Modem>>);

impl Seen {
    pub(super) fn report(&self) -> Modem {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change(&self, change: impl FnOnce(&mut Modem)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Keeps a session with the modem and passes its updates on, until the sender of `stop` is gone.
pub(super) async fn listen(settings: RouterSettings, board: Board, seen: Seen, stop: watch::Receiver<()>) {
    let mut failures = 0_u64;
    route(&settings, stop, |news| match news {
        News::Up { modem, name } => {
            failures = 0;
            tracing::info!(%modem, name, "DLEP: session");
            seen.change(|report| {
                report.sessions += 1;
                (report.address, report.name) = (Some(modem), Some(name));
            });
        }
        News::Link(Some(metrics)) => {
            seen.change(|report| {
                report.link_is_up = true;
                (report.resources, report.quality) = (metrics.resources, metrics.quality_transmit);
                report.mtu = metrics.mtu;
            });
            // The board counts and logs a rejection.
            let _ = board.report(Source::Dlep, update(&metrics));
        }
        News::Link(None) => {
            seen.change(|report| report.link_is_up = false);
            board.withdraw(Source::Dlep);
        }
        News::Down(why) => {
            failures += 1;
            // A modem that stays away is not to fill the log.
            if failures.is_power_of_two() {
                tracing::warn!(failures, "DLEP: {why}");
            }
            seen.change(|report| {
                (report.address, report.name, report.link_is_up) = (None, None, false);
                report.last_end = Some(why);
            });
            board.withdraw(Source::Dlep);
        }
    })
    .await;
}

/// The modem transmits what the gateway sends; its latency is one way.
fn update(metrics: &Metrics) -> LinkUpdate {
    LinkUpdate {
        rate: metrics.transmit.or(metrics.max_transmit),
        receive_rate: metrics.receive.or(metrics.max_receive),
        // A modem that does not know it says zero.
        rtt: metrics.latency.filter(|latency| !latency.is_zero()).map(|latency| latency + latency),
        valid_for: None,
    }
}
