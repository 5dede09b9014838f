//! Randomness of the system.

use crate::error::{StartError, while_doing};
use ring::rand::{SecureRandom as _, SystemRandom};
use std::io;

/// A seed that nobody can guess.
///
/// # Errors
/// If the system has no randomness.
pub(crate) fn seed() -> Result<[u8; 32], StartError> {
    let mut seed = [0; 32];
    SystemRandom::new()
        .fill(&mut seed)
        .map_err(|_| while_doing("reading randomness")(io::Error::other("the system has none")))?;
    Ok(seed)
}
