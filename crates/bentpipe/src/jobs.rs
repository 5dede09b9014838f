//! `--jobs`: how many runs go on side by side.

use std::num::NonZeroUsize;

/// Reads the option's value.
///
/// # Errors
/// If it is no number of runs.
pub fn parse(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "expected a whole number of at least 1, such as 4".to_owned())
}

/// As many as were asked for, or one for each processor.
pub fn or_processors(jobs: Option<NonZeroUsize>) -> usize {
    jobs.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get)
}
