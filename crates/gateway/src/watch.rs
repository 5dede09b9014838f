//! Which descriptors the event loop watches, and whose they are.

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use std::io;
use std::os::fd::AsRawFd;

/// Where descriptors are watched: those of the relays and those of the transport have numbers of their own, from 0.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) registry: Registry,
    first_token: usize,
}

/// Whose descriptor a token stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Relays(usize),
    Transport(usize),
}

impl Watch {
    /// Tokens below `first_token` are others'.
    pub(crate) fn new(registry: &Registry, first_token: usize) -> io::Result<Self> {
        Ok(Self { registry: registry.try_clone()?, first_token })
    }

    /// Another hold of the same.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Self::new(&self.registry, self.first_token)
    }

    /// Whose token it is, which is not below the first.
    pub(crate) fn owner(token: Token, first_token: usize) -> Owner {
        let number = token.0 - first_token;
        if number.is_multiple_of(2) { Owner::Relays(number / 2) } else { Owner::Transport(number / 2) }
    }

    /// Watches `descriptor` for both directions, edge-triggered. Closing it ends that.
    pub(crate) fn add(&self, descriptor: &impl AsRawFd, owner: Owner) -> io::Result<()> {
        let number = match owner {
            Owner::Relays(number) => 2 * number,
            Owner::Transport(number) => 2 * number + 1,
        };
        let token = Token(self.first_token + number);
        let interest = Interest::READABLE | Interest::WRITABLE | Interest::PRIORITY;
        self.registry.register(&mut SourceFd(&descriptor.as_raw_fd()), token, interest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relays_and_transport_have_numbers_of_their_own() {
        let owners: Vec<_> = (7..11).map(|token| Watch::owner(Token(token), 7)).collect();
        assert_eq!(owners, [Owner::Relays(0), Owner::Transport(0), Owner::Relays(1), Owner::Transport(1)]);
    }
}
