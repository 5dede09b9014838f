//! What a thread that receives does: looks at the socket, and opens what it finds.

use super::{Buffers, Datagram};
use crate::udp::steps::Steps;
use crate::udp::{Udp, may_have_more};
use kernel::clock;
use satpep::{Opener, OpeningKey};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use units::{Duration, Instant};

/// What one look at the socket has found.
pub(super) struct Received {
    pub(super) buffers: Buffers,
    pub(super) datagrams: Vec<Datagram>,
}

/// What the loop gives a thread that receives.
pub(super) enum Supply {
    Key(OpeningKey),
    /// To receive into.
    Vacant(Received),
}

/// The state of such a thread.
pub(super) struct Reading {
    to_loop: mpsc::Sender<Received>,
    opener: Opener,
    vacant: Vec<Received>,
    readable: bool,
    /// How long what has arrived may wait, in nanoseconds, as the loop has it.
    step: Arc<AtomicU64>,
    steps: Steps,
}

impl Reading {
    pub(super) fn new(to_loop: mpsc::Sender<Received>, step: Arc<AtomicU64>) -> Self {
        Self { to_loop, opener: Opener::default(), vacant: Vec::new(), readable: true, step, steps: Steps::new() }
    }

    pub(super) fn take(&mut self, supply: Supply) {
        match supply {
            Supply::Key(key) => self.opener.learn(key),
            Supply::Vacant(received) => self.vacant.push(received),
        }
    }

    /// The socket has something to read.
    pub(super) fn on_readable(&mut self) {
        self.readable = true;
    }

    /// When to read at the latest, unless at the next arrival.
    pub(super) fn next(&self) -> Option<Instant> {
        self.steps.next().filter(|_| !self.vacant.is_empty())
    }

    /// Whether it is what arrives that is waited for: not in steps, nor without a place to put it.
    pub(super) fn waits_for_arrivals(&self) -> bool {
        self.steps.next().is_none() && !self.vacant.is_empty()
    }

    /// Whether there may be something to read: in steps nobody says.
    fn may_have_more(&self) -> bool {
        self.readable || self.steps.next().is_some()
    }

    /// Whether there is no place to put what arrives: until there is one, the loop has to wake this thread.
    pub(super) fn is_starved(&self) -> bool {
        self.vacant.is_empty()
    }

    /// Whether to look now.
    pub(super) fn wants_look(&self) -> bool {
        !self.vacant.is_empty() && self.may_have_more() && self.steps.may_read(clock::now())
    }

    /// One look: what the socket has goes to the loop, opened where the key is known. Returns whether there was anything.
    pub(super) fn look(&mut self, udp: &mut Udp) -> bool {
        let Some(mut received) = self.vacant.pop() else { return false };
        let (opener, datagrams) = (&mut self.opener, &mut received.datagrams);
        let filled = udp.receive_into(&mut received.buffers, |place, from, datagram, arrival| {
            let opening = opener.open(datagram);
            datagrams.push(Datagram { place, from, arrival: *arrival, opening });
        });
        self.readable = may_have_more(filled);
        let count = received.datagrams.len();
        // What one look has left over does not wait for a step.
        if !self.readable && (count > 0 || self.steps.next().is_some()) {
            let step = Duration::from_nanos(self.step.load(Ordering::Relaxed));
            self.steps.on_read(clock::now(), step, count, Instant::ZERO, None);
        }
        if count == 0 {
            self.vacant.push(received);
            return false;
        }
        // The loop may have gone.
        let _ = self.to_loop.send(received);
        true
    }
}
