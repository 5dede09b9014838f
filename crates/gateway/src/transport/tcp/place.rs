//! The place of a connection that has not said what it is for.

use tcp_tunnel::waiting::Ticket;

/// A connection's place among those that have not said what they are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Among those who are known, rather than among strangers.
    pub(super) is_known: bool,
    pub(super) ticket: Ticket,
}
