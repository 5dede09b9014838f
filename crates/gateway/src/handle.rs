//! A way to a running gateway from other threads.

use crate::config::{self, ConfigError, Settings};
use crate::measured::Measured;
use crate::reload::ReloadError;
use crate::steering::News;
use crate::takeover::offer::Offer;
use crate::turns::Turns;
use mio::Waker;
use satpep::PrivateKey;
use status::Snapshot;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use units::Duration;

/// What other threads ask of the loop.
pub(crate) enum Request {
    /// To show its state.
    Query(Query),
    /// Something about the firewall or the host.
    News(News),
    /// To take other settings over.
    Reload(Box<Settings>, mpsc::SyncSender<Result<Vec<String>, ReloadError>>),
    /// To end with the last connection, or within a time.
    Drain(Option<Duration>),
    /// To find out what the path to the peer of this name carries.
    Survey(String, mpsc::SyncSender<Result<(), String>>),
    /// To offer its work to another process.
    Offer(mpsc::SyncSender<Result<(Offer, Vec<OwnedFd>), String>>),
    /// The offer failed.
    WithdrawOffer,
    /// To leave new connections to another process, which hears of the end by the end of this stream.
    HandOver(UnixStream, mpsc::SyncSender<Vec<u8>>),
    /// To show that the loop runs.
    Respond(mpsc::SyncSender<()>),
    Stop,
}

/// Who asks for the gateway's state, and receives it.
pub(crate) enum Query {
    Snapshot(Extent, mpsc::SyncSender<Snapshot>),
    /// For metrics.
    Metrics(mpsc::SyncSender<(Snapshot, Measured)>),
}

/// How much of the gateway's state is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it.
    Whole,
    /// For who asks each second: the counters of the firewall are read now and then, and `streams` is empty unless it is
    /// asked for.
    Sample { has_streams: bool },
}

/// A way to a running gateway from other threads.
#[derive(Debug, Clone)]
pub struct Handle {
    pub(crate) requests: mpsc::Sender<Request>,
    pub(crate) waker: Arc<Waker>,
    pub(crate) source: Arc<Source>,
}

/// Where the settings of a running gateway come from.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) file: Option<PathBuf>,
    pub(crate) private_key: PrivateKey,
    /// The file that has held the key.
    pub(crate) private_key_file: Option<PathBuf>,
    /// Turns at reading `file` again and at taking over.
    pub(crate) turns: Turns,
}

impl Source {
    /// Where `settings` come from.
    pub(crate) fn of(settings: &Settings) -> Self {
        Self {
            file: settings.file.clone(),
            private_key: settings.private_key.clone(),
            private_key_file: settings.private_key_file.clone(),
            turns: Turns::default(),
        }
    }
}

impl Handle {
    /// A way to no gateway, and what is asked of it.
    #[cfg(test)]
    pub(crate) fn of_no_gateway() -> (Self, mpsc::Receiver<Request>) {
        let (requests, asked) = mpsc::channel();
        let poll = mio::Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), mio::Token(0)).unwrap());
        let source = Arc::new(Source {
            file: None,
            private_key: PrivateKey::from_random([1; 32]),
            private_key_file: None,
            turns: Turns::default(),
        });
        (Self { requests, waker, source }, asked)
    }

    /// Has the gateway stop in order.
    pub fn stop(&self) {
        self.send(Request::Stop);
    }

    /// Waits until the loop answers; `false` if the gateway has stopped.
    pub fn is_responding(&self) -> bool {
        let (answer, answered) = mpsc::sync_channel(1);
        self.send(Request::Respond(answer));
        answered.recv().is_ok()
    }

    /// The gateway's state; `None` if it has stopped.
    pub fn snapshot(&self) -> Option<Snapshot> {
        self.report(Extent::Whole)
    }

    /// As much of the gateway's state as `extent` says; `None` if it has stopped.
    pub(crate) fn report(&self, extent: Extent) -> Option<Snapshot> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.send(Request::Query(Query::Snapshot(extent, answer)));
        answered.recv().ok()
    }

    /// What metrics show; `None` if the gateway has stopped.
    pub(crate) fn metrics(&self) -> Option<(Snapshot, Measured)> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.send(Request::Query(Query::Metrics(answer)));
        answered.recv().ok()
    }

    /// Has the gateway read its file again and take over what has changed. Returns a line for each change.
    ///
    /// # Errors
    /// If the file has faults, something in it has changed that needs a restart, or another reload or a take-over is under way. Nothing is
    /// changed then.
    pub fn reload(&self) -> Result<Vec<String>, ReloadError> {
        let Some(file) = &self.source.file else {
            return Err(ReloadError::Unavailable("the gateway was started without a file"));
        };
        let turn = self.source.turns.take().map_err(ReloadError::Unavailable);
        let outcome = turn.and_then(|_turn| self.read_again(file));
        match &outcome {
            Ok(changes) if changes.is_empty() => tracing::info!("reloaded: nothing has changed"),
            Ok(changes) => changes.iter().for_each(|change| tracing::info!("reloaded: {change}")),
            Err(error) => {
                error.to_string().lines().for_each(|line| tracing::error!("not reloaded, nothing is changed: {line}"));
            }
        }
        outcome
    }

    /// Has the gateway take the settings in `file` over. Returns a line for each change.
    fn read_again(&self, file: &Path) -> Result<Vec<String>, ReloadError> {
        let Source { private_key, private_key_file, .. } = &*self.source;
        let settings =
            config::load_again(file, private_key, private_key_file.as_deref()).map_err(|error| match error {
                ConfigError::Faults(faults) => ReloadError::Faults(faults.0),
                unreadable @ ConfigError::Unreadable { .. } => ReloadError::Faults(vec![unreadable.to_string()]),
            })?;
        let (answer, answered) = mpsc::sync_channel(1);
        self.send(Request::Reload(Box::new(settings), answer));
        answered.recv().unwrap_or(Err(ReloadError::Unavailable("the gateway has stopped")))
    }

    /// Has the gateway take no more connections and end with the last, or `within` a time.
    pub fn drain(&self, within: Option<Duration>) {
        self.send(Request::Drain(within));
    }

    /// Has the gateway begin to measure the path to the peer `name`; its state has the result.
    ///
    /// # Errors
    /// Why it does not.
    pub(crate) fn survey(&self, name: String) -> Result<(), String> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.send(Request::Survey(name, answer));
        answered.recv().unwrap_or(Err("the gateway has stopped".into()))
    }

    /// What another process may take over, and the listeners.
    pub(crate) fn offer(&self) -> Result<(Offer, Vec<OwnedFd>), String> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.send(Request::Offer(answer));
        answered.recv().unwrap_or(Err("the gateway has stopped".into()))
    }

    /// The other process has not taken over.
    pub(crate) fn withdraw_offer(&self) {
        self.send(Request::WithdrawOffer);
    }

    /// Leaves new connections to another process. Returns once it is done, with what the transport leaves to it.
    pub(crate) fn hand_over(&self, stream: UnixStream) -> Vec<u8> {
        let (done, is_done) = mpsc::sync_channel(1);
        self.send(Request::HandOver(stream, done));
        // An error means that the gateway has stopped.
        is_done.recv().unwrap_or_default()
    }

    pub(crate) fn send(&self, request: Request) {
        // Nobody listens any more only when the gateway has stopped.
        if self.requests.send(request).is_ok() {
            let _ = self.waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reload_waits_for_its_turn_whoever_asks_for_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("gateway.toml");
        std::fs::write(&file, "").unwrap();
        let (mut handle, asked) = Handle::of_no_gateway();
        Arc::get_mut(&mut handle.source).unwrap().file = Some(file);
        let turn = handle.source.turns.take().unwrap();
        let refusal = handle.reload().unwrap_err();
        assert!(matches!(refusal, ReloadError::Unavailable(reason) if reason.contains("another client")), "{refusal}");
        drop(turn);
        assert!(matches!(handle.reload(), Err(ReloadError::Faults(_))), "the file is read, which is empty");
        drop(handle);
        assert_eq!(asked.into_iter().count(), 0);
    }
}
