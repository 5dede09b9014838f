//! `--direction`: who sends.

use clap::ValueEnum;

/// [`lab::Direction`] and [`model::prediction::Direction`] on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DirectionArg {
    /// The client sends
    Up,
    /// The client requests and the server sends
    Down,
}

impl From<DirectionArg> for lab::Direction {
    fn from(direction: DirectionArg) -> Self {
        match direction {
            DirectionArg::Up => Self::Up,
            DirectionArg::Down => Self::Down,
        }
    }
}

impl From<DirectionArg> for model::prediction::Direction {
    fn from(direction: DirectionArg) -> Self {
        match direction {
            DirectionArg::Up => Self::Up,
            DirectionArg::Down => Self::Down,
        }
    }
}
