//! A bell wakes a thread that waits in its poll, by one system call until the thread has looked.

use mio::Waker;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// The bell of one thread.
#[derive(Debug)]
pub(crate) struct Bell {
    waker: Arc<Waker>,
    has_rung: AtomicBool,
    /// The thread waits for something that is given only where somebody waits for it.
    waits: AtomicBool,
}

impl Bell {
    pub(crate) fn new(waker: Arc<Waker>) -> Self {
        Self { waker, has_rung: AtomicBool::new(false), waits: AtomicBool::new(false) }
    }

    /// There is something to look at, put there before.
    pub(crate) fn ring(&self) {
        fence(Ordering::SeqCst);
        if !self.has_rung.swap(true, Ordering::SeqCst)
            && let Err(error) = self.waker.wake()
        {
            tracing::error!(%error, "a thread that carries packets could not be woken");
        }
    }

    /// The thread is about to look: what comes from now on rings again.
    pub(crate) fn answer(&self) {
        self.has_rung.store(false, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// The thread waits for the next thing given back, however recently the bell rang. It looks once more after this.
    pub(crate) fn wait(&self) {
        self.has_rung.store(false, Ordering::SeqCst);
        self.waits.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Something was given back: rings if it is waited for.
    pub(crate) fn give(&self) {
        fence(Ordering::SeqCst);
        if self.waits.swap(false, Ordering::SeqCst) {
            self.ring();
        }
    }
}
