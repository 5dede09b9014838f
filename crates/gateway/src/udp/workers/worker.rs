//! What a thread that carries datagrams does: one loop over its jobs and the socket.

use super::{Bell, Job, Outgoing, Reading};
use crate::udp::Udp;
use crate::watch::{Directions, Owner, Watch};
use kernel::clock;
use mio::{Events, Poll, Token, Waker};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const BELL: Token = Token(0);
const FIRST: usize = 1;
const SOCKET: Owner = Owner::Transport(0);
/// How long a thread that is to end waits for the socket to take what is left.
const LAST_WAIT: Duration = Duration::from_millis(100);

/// The state of a thread.
pub(super) struct Worker {
    udp: Udp,
    poll: Poll,
    watch: Watch,
    watched: Directions,
    bell: Arc<Bell>,
    jobs: mpsc::Receiver<Job>,
    /// What is needed to receive, if that is this thread's to do.
    reading: Option<Reading>,
    back: mpsc::Sender<(Outgoing, io::Result<()>)>,
    loop_bell: Arc<Bell>,
    unsent: VecDeque<Outgoing>,
    /// How much of the first has left, where datagrams are sent one by one.
    unsent_from: usize,
    writable: bool,
}

impl Worker {
    pub(super) fn new(
        udp: Udp,
        jobs: mpsc::Receiver<Job>,
        reading: Option<Reading>,
        back: mpsc::Sender<(Outgoing, io::Result<()>)>,
        loop_bell: Arc<Bell>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), BELL)?);
        let bell = Arc::new(Bell::new(Arc::clone(&waker)));
        Ok(Self {
            udp,
            watch: Watch::new(poll.registry(), FIRST, waker)?,
            poll,
            watched: Directions { reading: false, writing: false },
            bell,
            jobs,
            reading,
            back,
            loop_bell,
            unsent: VecDeque::new(),
            unsent_from: 0,
            writable: true,
        })
    }

    /// What wakes this thread.
    pub(super) fn bell(&self) -> Arc<Bell> {
        Arc::clone(&self.bell)
    }

    /// Works until there will be no more jobs.
    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(8);
        loop {
            self.bell.answer();
            let goes_on = self.take_jobs();
            self.send();
            if !goes_on {
                return self.send_rest(&mut events);
            }
            self.receive();
            if self.reading.as_ref().is_some_and(Reading::is_starved) {
                self.bell.wait();
                self.take_jobs();
            }
            let has_more = self.reading.as_ref().is_some_and(Reading::wants_look);
            if !has_more && let Err(error) = self.wait(&mut events, None) {
                tracing::error!(%error, "a thread that carries packets cannot wait");
                return;
            }
        }
    }

    /// Returns whether there will be others.
    fn take_jobs(&mut self) -> bool {
        loop {
            match self.jobs.try_recv() {
                Ok(Job::Send(outgoing)) => self.unsent.push_back(outgoing),
                Ok(Job::Receive(supply)) => {
                    if let Some(reading) = &mut self.reading {
                        reading.take(supply);
                    }
                }
                Err(mpsc::TryRecvError::Empty) => return true,
                Err(mpsc::TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Waits for the bell, for what arrives, and, if something is left to send, until the socket takes it.
    fn wait(&mut self, events: &mut Events, most: Option<Duration>) -> io::Result<()> {
        self.watch()?;
        let now = clock::now();
        let next = self.reading.as_ref().and_then(Reading::next).map(|at| at.since(now).into());
        match self.poll.poll(events, next.into_iter().chain(most).min()) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in events.iter().filter(|event| event.token() != BELL) {
            if event.is_readable() {
                self.reading.iter_mut().for_each(Reading::on_readable);
            }
            self.writable |= event.is_writable();
        }
        Ok(())
    }

    /// Neither what arrives, nor that the socket can be written again, which each datagram that has left makes it, wakes who does not wait for
    /// it.
    fn watch(&mut self) -> io::Result<()> {
        let reading = self.reading.as_ref().is_some_and(Reading::waits_for_arrivals);
        let wanted = Directions { reading, writing: !self.writable };
        if wanted != self.watched {
            self.watch.change(&self.udp, SOCKET, [self.watched, wanted])?;
            self.watched = wanted;
        }
        Ok(())
    }

    /// Seals and sends what the socket takes.
    fn send(&mut self) {
        while self.writable
            && let Some(mut outgoing) = self.unsent.pop_front()
        {
            let contents = &mut outgoing.buffer[..outgoing.size];
            if let Some(seal) = outgoing.seal.take() {
                seal.put(contents, outgoing.head.segment_size);
            }
            let result = if outgoing.singly {
                self.udp.send_singly(outgoing.head, contents, &mut self.unsent_from)
            } else {
                self.udp.send(outgoing.head, contents)
            };
            if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
                self.writable = false;
                self.unsent.push_front(outgoing);
                return;
            }
            self.unsent_from = 0;
            // The loop may have gone.
            let _ = self.back.send((outgoing, result));
            self.loop_bell.give();
        }
    }

    /// Sends what is left, if the socket takes it soon.
    fn send_rest(mut self, events: &mut Events) {
        let end = Instant::now() + LAST_WAIT;
        while !self.unsent.is_empty() && Instant::now() < end {
            if self.wait(events, Some(end.saturating_duration_since(Instant::now()))).is_err() {
                return;
            }
            self.send();
        }
    }

    /// Reads the socket if there is something and it is time.
    fn receive(&mut self) {
        if let Some(reading) = self.reading.as_mut().filter(|reading| reading.wants_look())
            && reading.look(&mut self.udp)
        {
            self.loop_bell.ring();
        }
    }
}
