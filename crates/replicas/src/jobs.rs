//! How many runs go on side by side.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// A number of runs that may go on side by side, at least one. Clones share it: whatever is run with them, there are never
/// more at a time.
#[derive(Debug, Clone)]
pub struct Jobs {
    count: usize,
    free: Arc<Free>,
}

/// Places for runs that nobody has.
#[derive(Debug)]
struct Free {
    count: Mutex<usize>,
    returned: Condvar,
}

/// A place for a run, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place<'a>(&'a Free);

impl Jobs {
    /// So many; one if `count` is zero.
    pub fn new(count: usize) -> Self {
        let count = count.max(1);
        Self { count, free: Arc::new(Free { count: Mutex::new(count), returned: Condvar::new() }) }
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Waits for a place.
    pub(crate) fn place(&self) -> Place<'_> {
        // A count is whole whatever became of the thread that changed it.
        let free = self.free.count.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.free.returned.wait_while(free, |free| *free == 0);
        *free.unwrap_or_else(PoisonError::into_inner) -= 1;
        Place(&self.free)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.0.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.returned.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    #[test]
    fn clones_share_their_places() {
        let jobs = Jobs::new(2);
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                let (jobs, running, most) = (jobs.clone(), &running, &most);
                scope.spawn(move || {
                    for _ in 0..100 {
                        let _place = jobs.place();
                        most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        thread::yield_now();
                        running.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!((1..=2).contains(&most.into_inner()));
        assert_eq!(Jobs::new(0).count(), 1);
    }
}
