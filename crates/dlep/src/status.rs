//! Status codes, §13.1.

/// What a participant says of a request, or why it ends the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(pub u8);

impl Status {
    /// All is well.
    pub const SUCCESS: Self = Self(0);
    /// The router does not want to hear of this destination.
    pub const NOT_INTERESTED: Self = Self(1);
    /// It will not be done.
    pub const REQUEST_DENIED: Self = Self(2);
    /// The items contradict one another, or what was said before.
    pub const INCONSISTENT_DATA: Self = Self(3);
    /// A message of a type that the receiver does not know.
    pub const UNKNOWN_MESSAGE: Self = Self(128);
    /// A message that may not come now.
    pub const UNEXPECTED_MESSAGE: Self = Self(129);
    /// Items that are malformed, unknown, missing or too many.
    pub const INVALID_DATA: Self = Self(130);
    /// A message of a destination that is not up.
    pub const INVALID_DESTINATION: Self = Self(131);
    /// Nothing has been heard for two heartbeat intervals, or no answer came.
    pub const TIMED_OUT: Self = Self(132);
    /// The participant is stopping.
    pub const SHUTTING_DOWN: Self = Self(255);
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match *self {
            Self::SUCCESS => "success",
            Self::NOT_INTERESTED => "not interested",
            Self::REQUEST_DENIED => "request denied",
            Self::INCONSISTENT_DATA => "inconsistent data",
            Self::UNKNOWN_MESSAGE => "unknown message",
            Self::UNEXPECTED_MESSAGE => "unexpected message",
            Self::INVALID_DATA => "invalid data",
            Self::INVALID_DESTINATION => "invalid destination",
            Self::TIMED_OUT => "timed out",
            Self::SHUTTING_DOWN => "shutting down",
            Self(code) => return write!(f, "status {code}"),
        })
    }
}
