//! For the tests of this and other crates.

use crate::Namespace;

/// A new namespace, or `None`, said on stderr, where the machine allows none.
///
/// # Panics
/// If it allows none although `BENTPIPE_MUST_RUN` is set, or for any other error.
pub fn namespace() -> Option<Namespace> {
    match Namespace::new() {
        Ok(namespace) => Some(namespace),
        Err(error) if error.is_missing() => {
            assert!(std::env::var_os("BENTPIPE_MUST_RUN").is_none(), "{error}");
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Real time against a bound, on a host that others use, too: a host that stands still makes a run worse and never better, so
/// the best of three counts. `attempt` returns what was wrong.
///
/// # Panics
/// With what was wrong with the last run, if none was right.
pub fn best_of_three(attempt: impl Fn() -> Result<(), String>) {
    let mut last = Ok(());
    for _ in 0..3 {
        last = attempt();
        match &last {
            Ok(()) => return,
            Err(wrong) => println!("not this time: {wrong}"),
        }
    }
    panic!("three times: {}", last.expect_err("no run was right"));
}
