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
