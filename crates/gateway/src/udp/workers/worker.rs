//! What a thread that carries datagrams does: one loop over its jobs and the socket.

use super::{Bell, Datagram, Job, Outgoing, Received};
use crate::udp::Udp;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use quinn_udp::BATCH_SIZE;
use satpep::Opener;
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const BELL: Token = Token(0);
const SOCKET: Token = Token(1);
/// How long a thread that is to end waits for the socket to take what is left.
const LAST_WAIT: Duration = Duration::from_millis(100);

/// The state of a thread.
pub(super) struct Worker {
    udp: Udp,
    poll: Poll,
    watched: Option<Interest>,
    bell: Arc<Bell>,
    jobs: mpsc::Receiver<Job>,
    /// Where to put what arrives, if it is this thread's to receive.
    to_loop: Option<mpsc::Sender<Received>>,
    back: mpsc::Sender<(Outgoing, io::Result<()>)>,
    loop_bell: Arc<Bell>,
    opener: Opener,
    /// To receive into.
    spare: Vec<Received>,
    unsent: VecDeque<Outgoing>,
    /// How much of the first has left, where datagrams are sent one by one.
    unsent_from: usize,
    readable: bool,
    writable: bool,
}

impl Worker {
    pub(super) fn new(
        udp: Udp,
        jobs: mpsc::Receiver<Job>,
        to_loop: Option<mpsc::Sender<Received>>,
        back: mpsc::Sender<(Outgoing, io::Result<()>)>,
        loop_bell: Arc<Bell>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let bell = Arc::new(Bell::new(Arc::new(Waker::new(poll.registry(), BELL)?)));
        Ok(Self {
            udp,
            poll,
            watched: None,
            bell,
            jobs,
            readable: to_loop.is_some(),
            to_loop,
            back,
            loop_bell,
            opener: Opener::default(),
            spare: Vec::new(),
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
            let mut goes_on = self.take_jobs();
            if self.readable && self.spare.is_empty() {
                self.bell.wait();
                goes_on &= self.take_jobs();
            }
            self.send();
            if !goes_on {
                return self.send_rest(&mut events);
            }
            self.receive();
            let has_more = self.readable && !self.spare.is_empty();
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
                Ok(Job::Learn(key)) => self.opener.learn(key),
                Ok(Job::ReceiveInto(received)) => self.spare.push(received),
                Err(mpsc::TryRecvError::Empty) => return true,
                Err(mpsc::TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Waits for the bell, for what arrives, and, if something is left to send, until the socket takes it.
    fn wait(&mut self, events: &mut Events, most: Option<Duration>) -> io::Result<()> {
        self.watch()?;
        match self.poll.poll(events, most) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in events.iter().filter(|event| event.token() == SOCKET) {
            self.readable |= event.is_readable() && self.to_loop.is_some();
            self.writable |= event.is_writable();
        }
        Ok(())
    }

    /// Each datagram that has left makes the socket writable again: that wakes only who waits for it.
    fn watch(&mut self) -> io::Result<()> {
        let reading = self.to_loop.is_some().then_some(Interest::READABLE);
        let writing = (!self.writable).then_some(Interest::WRITABLE);
        let wanted = match (reading, writing) {
            (Some(reading), Some(writing)) => Some(reading | writing),
            (reading, writing) => reading.or(writing),
        };
        let fd = self.udp.as_raw_fd();
        let (registry, mut source) = (self.poll.registry(), SourceFd(&fd));
        match (self.watched, wanted) {
            (before, wanted) if before == wanted => {}
            (_, None) => registry.deregister(&mut source)?,
            (None, Some(interest)) => registry.register(&mut source, SOCKET, interest)?,
            (Some(_), Some(interest)) => registry.reregister(&mut source, SOCKET, interest)?,
        }
        self.watched = wanted;
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

    /// One look at the socket: what it has goes to the loop, opened where the key is known.
    fn receive(&mut self) {
        let (true, Some(to_loop)) = (self.readable, &self.to_loop) else { return };
        let Some(mut received) = self.spare.pop() else { return };
        let (opener, datagrams) = (&mut self.opener, &mut received.datagrams);
        let filled = self.udp.receive_into(&mut received.buffers, |place, from, datagram, arrival| {
            let opening = opener.open(datagram);
            datagrams.push(Datagram { place, from, arrival: *arrival, opening });
        });
        match filled {
            // A batch that is not full has emptied the socket; what comes later raises a new event.
            Ok(filled) => self.readable = filled == BATCH_SIZE,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.readable = false,
            // An ICMP message about an earlier datagram: the transport notices by itself what does not arrive.
            Err(error) => tracing::trace!(%error, "receive"),
        }
        if received.datagrams.is_empty() {
            self.spare.push(received);
            return;
        }
        // The loop may have gone.
        let _ = to_loop.send(received);
        self.loop_bell.ring();
    }
}
