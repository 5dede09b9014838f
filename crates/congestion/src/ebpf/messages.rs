//! What the loader library says: kept, so that an error can tell it, and logged.

use libbpf_rs::{PrintLevel, set_print};
use std::sync::{Mutex, PoisonError};

/// The last warning: the library names there what the kernel refused.
static LAST: Mutex<String> = Mutex::new(String::new());

/// Lets the library speak to the log instead of standard error.
pub(crate) fn capture() {
    LAST.lock().unwrap_or_else(PoisonError::into_inner).clear();
    set_print(Some((PrintLevel::Info, keep)));
}

fn keep(level: PrintLevel, text: String) {
    let text = text.trim_end();
    tracing::debug!("{text}");
    if matches!(level, PrintLevel::Warn) {
        text.clone_into(&mut LAST.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The last warning since [`capture`], in one line; empty if there was none.
pub(crate) fn last() -> String {
    let text = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    text.lines().next().unwrap_or_default().trim_start_matches("libbpf: ").to_owned()
}
