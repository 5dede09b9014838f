//! Turns at what must not be done by two at a time.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long one waits for the change that another one makes. A client is answered within this and some more.
pub(crate) const PATIENCE: Duration = Duration::from_secs(4);

/// Turns at a reload or a take-over, by clients, signals and other processes: of two files, the one that was read last is to count.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    is_taken: Mutex<bool>,
    is_free: Condvar,
}

impl Turns {
    /// Waits for a turn. Or why there is none.
    pub(crate) fn take(&self) -> Result<Turn<'_>, &'static str> {
        let is_taken = self.is_taken.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.is_free.wait_timeout_while(is_taken, PATIENCE, |is_taken| *is_taken);
        let (mut is_taken, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut *is_taken, true) {
            return Err("another client reloads the gateway or takes over from it: try again in a minute");
        }
        Ok(Turn(self))
    }
}

/// What one has at a time; given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.is_taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.is_free.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn nobody_waits_for_ever_for_a_change_of_another() {
        let turns = Turns::default();
        let turn = turns.take().unwrap();
        let began = Instant::now();
        assert!(turns.take().err().unwrap().contains("another client"));
        assert!((PATIENCE..PATIENCE * 2).contains(&began.elapsed()), "{:?}", began.elapsed());
        drop(turn);
        assert!(turns.take().is_ok());
    }
}
