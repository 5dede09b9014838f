//! Work on a thread of its own, while Python's main thread looks at signals.

use pyo3::prelude::*;
use replicas::Interrupt;
use std::panic::resume_unwind;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// Between two looks at signals: a person takes this for at once.
pub(crate) const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Does `work` without holding Python's lock, and gives what it sends to `report`. Ctrl-C, or an exception of `report`, sets
/// `interrupt` and is raised as soon as `work` has ended for it.
///
/// # Errors
/// The exception.
pub(crate) fn wait<N: Send, T: Send>(
    py: Python<'_>,
    interrupt: &Interrupt,
    work: impl FnOnce(Sender<N>) -> T + Send,
    report: impl Fn(Python<'_>, N) -> PyResult<()> + Sync,
) -> PyResult<T> {
    py.detach(|| {
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            let worker = scope.spawn(move || work(sender));
            let mut raised = None;
            loop {
                let news = receiver.recv_timeout(BETWEEN_LOOKS);
                let seen = match news {
                    Err(RecvTimeoutError::Disconnected) => break,
                    Err(RecvTimeoutError::Timeout) => Python::attach(|py| py.check_signals()),
                    Ok(_) if raised.is_some() => Ok(()),
                    Ok(news) => Python::attach(|py| report(py, news).and_then(|()| py.check_signals())),
                };
                if let Err(error) = seen {
                    interrupt.set();
                    raised.get_or_insert(error);
                }
            }
            let done = worker.join().unwrap_or_else(|panic| resume_unwind(panic));
            raised.map_or(Ok(done), Err)
        })
    })
}
