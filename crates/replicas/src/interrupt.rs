//! Ctrl-C.

use crate::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Set when the user interrupts. Clones share the interrupt.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// One that SIGINT and SIGTERM set; a second signal ends the process at once. A process makes one of these.
    ///
    /// # Errors
    /// If signals cannot be handled.
    pub fn on_signals() -> Result<Self, Error> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&flag)).map_err(Error::failed)?;
            signal_hook::flag::register(signal, Arc::clone(&flag)).map_err(Error::failed)?;
        }
        Ok(Self(flag))
    }

    /// Calls `say` from a thread of its own soon after the interrupt is set: what was begun may take a while to end.
    pub fn when_set(&self, say: impl FnOnce() + Send + 'static) {
        const LOOK: Duration = Duration::from_millis(50);
        let interrupt = self.clone();
        thread::spawn(move || {
            while !interrupt.is_set() {
                thread::sleep(LOOK);
            }
            say();
        });
    }

    /// Sets it.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it is set.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
