//! Link updates of the modem, over DLEP (RFC 8175).

use super::board::Board;
use super::{LinkUpdate, Source};
use dlep::Metrics;
use dlep_io::{News, RouterSettings, route};
use status::Modem;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;
use units::Rate;

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

/// Keeps a session with the modem and passes its updates on, until the sender of `stop` is gone. The last update stays then: this
/// process may go on with its connections, and only another one hears of changes.
pub(super) async fn listen(settings: RouterSettings, board: Board, seen: Seen, stop: watch::Receiver<()>) {
    let stopping = stop.clone();
    route(&settings, stop, |news| match news {
        News::Up { modem, name } => {
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
            seen.change(forget_link);
            board.withdraw(Source::Dlep);
        }
        News::Down { why, failures } => {
            // A modem that stays away is not to fill the log.
            if failures.is_power_of_two() {
                tracing::warn!(failures, "DLEP: {why}");
            }
            seen.change(|report| {
                forget_link(report);
                (report.address, report.name, report.last_end) = (None, None, Some(why));
            });
            let is_stopping = stopping.has_changed().is_err();
            if !is_stopping {
                board.withdraw(Source::Dlep);
            }
        }
    })
    .await;
}

/// The modem reports no link any more: what it said of one holds no longer.
fn forget_link(report: &mut Modem) {
    report.link_is_up = false;
    (report.resources, report.quality, report.mtu) = (None, None, None);
}

/// The modem transmits what the gateway sends; its latency is one way. What a modem does not know it reports as zero: that must
/// not have the rest of its report rejected.
fn update(metrics: &Metrics) -> LinkUpdate {
    let receive_rate = metrics.receive.or(metrics.max_receive);
    LinkUpdate {
        rate: metrics.transmit.or(metrics.max_transmit).filter(|rate| {
            // Of a modem that knows its maximum, zero is an outage, which is rejected.
            *rate > Rate::ZERO || metrics.max_transmit > Some(Rate::ZERO)
        }),
        receive_rate: receive_rate.filter(|rate| *rate > Rate::ZERO),
        rtt: metrics.latency.filter(|latency| !latency.is_zero()).map(|latency| latency + latency),
        valid_for: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Duration;

    #[test]
    fn what_a_modem_does_not_know_leaves_the_rest_of_its_report() {
        let rate = |bps| Some(Rate::from_bps(bps));
        let metrics = Metrics {
            max_receive: rate(0),
            max_transmit: rate(8_000_000),
            receive: rate(0),
            transmit: rate(6_000_000),
            latency: Some(Duration::ZERO),
            ..Metrics::default()
        };
        let known = LinkUpdate { rate: rate(6_000_000), receive_rate: None, rtt: None, valid_for: None };
        assert_eq!(update(&metrics), known);
        assert_eq!(update(&Metrics { transmit: rate(0), ..metrics }).rate, rate(0), "an outage");
        let unknown = Metrics { max_transmit: rate(0), transmit: rate(0), ..metrics };
        let latency = Some(Duration::from_millis(275));
        let rtt = Some(Duration::from_millis(550));
        assert_eq!(update(&Metrics { latency, ..unknown }), LinkUpdate { rate: None, rtt, ..known });
    }
}
