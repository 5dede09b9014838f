//! The time at which the flows of an experiment are cut off.

use crate::Error;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A wait that [`Cutoff::bound`] shortens ends this long after the cut-off, so that it never ends before.
const MARGIN: Duration = Duration::from_millis(20);

/// A time at which open connections are cut off; without one, none is.
pub(crate) struct Cutoff {
    end: Option<Instant>,
    open: Mutex<Vec<TcpStream>>,
}

impl Cutoff {
    pub(crate) fn new(end: Option<Instant>) -> Self {
        Self { end, open: Mutex::default() }
    }

    pub(crate) fn end(&self) -> Option<Instant> {
        self.end
    }

    pub(crate) fn is_past(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// `wait`, or what is left if that is less.
    pub(crate) fn bound(&self, wait: units::Duration) -> Duration {
        let left = self.end.map(|end| end.saturating_duration_since(Instant::now()) + MARGIN);
        left.map_or(wait.into(), |left| left.min(wait.into()))
    }

    /// Has both ends' programs see the end of `stream` at the cut-off, if it lasts until then. To be dropped before `stream`,
    /// which is closed only then.
    pub(crate) fn watch(&self, stream: &TcpStream) -> Result<Option<Watched<'_>>, Error> {
        if self.end.is_none() {
            return Ok(None);
        }
        let stream = stream.try_clone().map_err(Error::failed)?;
        let key = stream.as_raw_fd();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_past() {
            cut(&stream);
        }
        open.push(stream);
        Ok(Some(Watched { cutoff: self, key }))
    }

    /// Cuts off what is still open at the end, unless the other end of `ended` is gone before.
    pub(crate) fn keep(&self, ended: &Receiver<()>) {
        let Some(end) = self.end else { return };
        let left = end.saturating_duration_since(Instant::now());
        if ended.recv_timeout(left) == Err(RecvTimeoutError::Timeout) {
            self.open.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(cut);
        }
    }
}

/// A connection that is cut off in time, until this is dropped.
pub(crate) struct Watched<'a> {
    cutoff: &'a Cutoff,
    key: RawFd,
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        let mut open = self.cutoff.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|stream| stream.as_raw_fd() != self.key);
    }
}

/// Wakes whatever reads from `stream` or writes to it; what it has not sent goes with it. One that is gone needs neither.
fn cut(stream: &TcpStream) {
    let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
    let _ = stream.shutdown(Shutdown::Both);
}
