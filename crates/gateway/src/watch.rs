//! Which descriptors the event loop watches, and whose they are.

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token, Waker};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// Where descriptors are watched: those of the relays and those of the transport have numbers of their own, from 0.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) registry: Registry,
    first_token: usize,
    /// Wakes the loop from another thread.
    pub(crate) waker: Arc<Waker>,
}

/// Whose descriptor a token stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Relays(usize),
    Transport(usize),
}

/// What a descriptor is watched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Directions {
    pub(crate) reading: bool,
    pub(crate) writing: bool,
}

impl Directions {
    fn interest(self) -> Option<Interest> {
        match (self.reading, self.writing) {
            (true, true) => Some(Interest::READABLE | Interest::WRITABLE),
            (true, false) => Some(Interest::READABLE),
            (false, true) => Some(Interest::WRITABLE),
            (false, false) => None,
        }
    }
}

impl Watch {
    /// Tokens below `first_token` are others'.
    pub(crate) fn new(registry: &Registry, first_token: usize, waker: Arc<Waker>) -> io::Result<Self> {
        Ok(Self { registry: registry.try_clone()?, first_token, waker })
    }

    /// Another hold of the same.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Self::new(&self.registry, self.first_token, Arc::clone(&self.waker))
    }

    /// Whose token it is, which is not below the first.
    pub(crate) fn owner(token: Token, first_token: usize) -> Owner {
        let number = token.0 - first_token;
        if number.is_multiple_of(2) { Owner::Relays(number / 2) } else { Owner::Transport(number / 2) }
    }

    /// Watches `descriptor` for both directions, edge-triggered. Closing it ends that.
    pub(crate) fn add(&self, descriptor: &impl AsRawFd, owner: Owner) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE | Interest::PRIORITY;
        self.registry.register(&mut SourceFd(&descriptor.as_raw_fd()), self.token(owner), interest)
    }

    /// Watches a descriptor, until now for `before`, for `wanted`. What is ready by then is reported.
    pub(crate) fn change(
        &self,
        descriptor: &impl AsRawFd,
        owner: Owner,
        [before, wanted]: [Directions; 2],
    ) -> io::Result<()> {
        let (token, fd) = (self.token(owner), descriptor.as_raw_fd());
        let mut source = SourceFd(&fd);
        match (before.interest(), wanted.interest()) {
            // There is no interest in nothing, and urgent data are announced with each datagram.
            (_, None) => self.registry.deregister(&mut source),
            (None, Some(interest)) => self.registry.register(&mut source, token, interest),
            (Some(_), Some(interest)) => self.registry.reregister(&mut source, token, interest),
        }
    }

    fn token(&self, owner: Owner) -> Token {
        let number = match owner {
            Owner::Relays(number) => 2 * number,
            Owner::Transport(number) => 2 * number + 1,
        };
        Token(self.first_token + number)
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
