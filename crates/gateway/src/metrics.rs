//! Metrics over HTTP, on a thread of its own: `GET /metrics`.
//!
//! | file | idea |
//! | --- | --- |
//! | `metrics.rs` | the server |
//! | `families.rs` | a snapshot as metric families, by the conventions of OpenMetrics and Prometheus |
//! | `distribution.rs` | a histogram that was counted elsewhere, as a metric |
//! | `plain.rs` | the text format of Prometheus, for scrapers that do not ask for OpenMetrics |

mod distribution;
mod families;
mod plain;
#[cfg(test)]
mod tests;

use crate::build::Build;
use crate::error::{StartError, while_doing};
use crate::handle::Handle;
use crate::late_listener;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// For how long a document answers scrapes. Each is made by the loop, between the packets.
const FRESH: Duration = Duration::from_secs(1);

/// Stops the server when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    _stop: tokio::sync::oneshot::Sender<()>,
}

/// Serves the metrics of `handle`'s gateway, which is of `build`, at `address`, which a process before this one may have left
/// (`has_left`).
pub(crate) fn serve(address: SocketAddr, has_left: bool, build: Build, handle: Handle) -> Result<Server, StartError> {
    let doing = || format!("[metrics] listen {address}");
    let listener = late_listener::listen(address, has_left).map_err(while_doing(doing()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(while_doing(doing()))?;
    let program = Program { build, started: SystemTime::now() };
    let last = Last::default();
    let (stop, stopped) = tokio::sync::oneshot::channel();
    std::thread::Builder::new()
        .name("metrics".into())
        .spawn(move || {
            let served = runtime.block_on(async {
                let app = axum::Router::new().route(
                    "/metrics",
                    get(move |headers: HeaderMap| respond(headers, program.clone(), handle.clone(), last.clone())),
                );
                tokio::select! {
                    result = web::http::serve(listener, None, app) => result,
                    _ = stopped => Ok(()),
                }
            });
            if let Err(error) = served {
                tracing::error!(%error, "metrics are no longer served");
            }
        })
        .map_err(while_doing(doing()))?;
    Ok(Server { _stop: stop })
}

/// What the metrics say of the process.
#[derive(Debug, Clone)]
struct Program {
    build: Build,
    started: SystemTime,
}

/// The document of the last scrape, and when it was made.
#[derive(Debug, Clone, Default)]
struct Last(Arc<Mutex<Option<(Instant, String)>>>);

impl Last {
    /// The document at `now`, which `make` makes unless the last one is [`FRESH`].
    fn document(&self, now: Instant, make: impl FnOnce() -> Option<String>) -> Option<String> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_none_or(|(made, _)| now.saturating_duration_since(*made) >= FRESH) {
            *last = make().map(|document| (now, document));
        }
        last.as_ref().map(|(_, document)| document.clone())
    }
}

/// OpenMetrics if the scraper asks for it, as Prometheus does; else the text format.
async fn respond(headers: HeaderMap, program: Program, handle: Handle, last: Last) -> Response {
    const OPEN_METRICS: &str = "application/openmetrics-text";
    const OPEN_METRICS_VERSION: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let is_open = accepted.into_iter().any(|value| value.contains(OPEN_METRICS));
    // The loop answers once it has the firewall's counters; waiting for it here holds up nothing but other scrapes.
    let make = || {
        let (snapshot, measured) = handle.metrics()?;
        families::encode(&program, &snapshot, &measured).ok()
    };
    match last.document(Instant::now(), make) {
        Some(text) if is_open => ([(header::CONTENT_TYPE, OPEN_METRICS_VERSION)], text).into_response(),
        Some(text) => ([(header::CONTENT_TYPE, PLAIN)], plain::of_open_metrics(&text)).into_response(),
        None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}
