//! The server: a thread that samples the gateway once a second, and one that answers browsers.

use crate::access::Access;
use crate::assets::{ASSETS, HEADERS};
use crate::board::Board;
use crate::history::Span;
use crate::http;
use crate::rows::View;
use crate::source::Source;
use crate::tls::Tls;
use axum::Router;
use axum::extract::{Query, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::stream;
use serde::Deserialize;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

/// The time between samples.
const PERIOD: Duration = Duration::from_secs(1);
/// A sample that is older shows no gateway that answers.
const FRESH: Duration = Duration::from_secs(3);
/// Pages that are kept up to date at a time.
const PAGES: usize = 32;

/// Serves the page until it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    server: Option<JoinHandle<()>>,
    /// Ends the thread that samples, which nothing waits for: it may be waiting for who drops this.
    _sampler: mpsc::Sender<()>,
}

impl Server {
    /// Serves the page of what `source` reports on `listener`, to whom `access` allows it; by HTTPS if there is a certificate.
    ///
    /// # Errors
    /// If a thread cannot be started, or the system refuses the listener.
    pub fn start(listener: TcpListener, access: Access, tls: Option<Tls>, source: impl Source) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (ticks, tick) = watch::channel(None);
        let shared =
            Shared { board: Arc::default(), tick, access: Arc::new(access), pages: Arc::new(Semaphore::new(PAGES)) };
        let (sampler, stopped) = mpsc::channel();
        let board = Arc::clone(&shared.board);
        std::thread::Builder::new()
            .name("web-samples".into())
            .spawn(move || sample(source, &board, &ticks, &stopped))?;
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            let served = runtime.block_on(async {
                tokio::select! {
                    result = http::serve(listener, tls, router(shared)) => result,
                    _ = stopped => Ok(()),
                }
            });
            if let Err(error) = served {
                tracing::error!(%error, "the page is no longer served");
            }
        };
        let server = std::thread::Builder::new().name("web".into()).spawn(serve)?;
        Ok(Self { address, stop: Some(stop), server: Some(server), _sampler: sampler })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The thread may have ended by itself.
        let _ = self.stop.take().map(|stop| stop.send(()));
        // The address is free afterwards.
        let _ = self.server.take().map(JoinHandle::join);
    }
}

/// Samples `source` until it ends, or the other end of `stopped` goes. Time since 1970 goes on evenly from the start, even if
/// the clock is set: the axes of the page need that.
fn sample(
    mut source: impl Source,
    board: &Mutex<Board>,
    ticks: &watch::Sender<Option<Instant>>,
    stopped: &mpsc::Receiver<()>,
) {
    let started = Instant::now();
    let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut next = started;
    loop {
        let detail = lock(board).wanted();
        let Some(sample) = source.sample(detail) else { return };
        let time = (epoch + started.elapsed()).as_secs_f64();
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        lock(board).see_clock(time, clock);
        lock(board).take(time, detail, sample);
        ticks.send_replace(Some(Instant::now()));
        // After a pause, such as one of the whole machine, nothing is made up for.
        next = (next + PERIOD).max(Instant::now());
        let wait = next.saturating_duration_since(Instant::now());
        if stopped.recv_timeout(wait) != Err(mpsc::RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// The board; it is whole after each call, whatever became of the caller.
fn lock(board: &Mutex<Board>) -> MutexGuard<'_, Board> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Clone)]
struct Shared {
    board: Arc<Mutex<Board>>,
    /// When the last sample was taken.
    tick: watch::Receiver<Option<Instant>>,
    access: Arc<Access>,
    pages: Arc<Semaphore>,
}

fn router(shared: Shared) -> Router {
    let mut router = Router::new().route("/history", get(history)).route("/events", get(events));
    for asset in ASSETS {
        router = router.route(asset.path, get(*asset));
    }
    router.layer(from_fn_with_state(shared.clone(), guard)).with_state(shared)
}

/// Answers only whom [`Access`] allows it, and adds [`HEADERS`] to every answer.
async fn guard(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let mut response = match shared.access.check(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refused) => *refused,
    };
    response.headers_mut().extend(HEADERS);
    response
}

#[derive(Deserialize)]
struct SpanQuery {
    span: Span,
}

async fn history(State(shared): State<Shared>, Query(query): Query<SpanQuery>) -> Response {
    let history = lock(&shared.board).history(query.span);
    ([(header::CONTENT_TYPE, "application/json")], history.to_string()).into_response()
}

/// One page that is kept up to date.
struct Page {
    shared: Shared,
    view: View,
    known: u64,
    is_first: bool,
    _place: OwnedSemaphorePermit,
}

/// A document at once, unless the gateway no longer answers, and then each second.
async fn events(State(mut shared): State<Shared>, Query(view): Query<View>) -> Response {
    // What came before the page was opened is no news to wait for.
    shared.tick.mark_unchanged();
    let Ok(place) = Arc::clone(&shared.pages).try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many pages are open\n").into_response();
    };
    let known = lock(&shared.board).last_event();
    let page = Page { shared, view, known, is_first: true, _place: place };
    Sse::new(stream::unfold(page, async |page| page.next().await)).into_response()
}

impl Page {
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        loop {
            let is_fresh = self.shared.tick.borrow().is_some_and(|taken| taken.elapsed() < FRESH);
            let is_at_once = std::mem::take(&mut self.is_first) && is_fresh;
            if !is_at_once && self.shared.tick.changed().await.is_err() {
                // The gateway has stopped.
                return None;
            }
            self.shared.tick.mark_unchanged();
            let (document, last) = {
                let mut board = lock(&self.shared.board);
                (board.document(&self.view, self.known), board.last_event())
            };
            if let Some(document) = document {
                self.known = last;
                return Some((Ok(Event::default().data(&*document)), self));
            }
        }
    }
}
