//! Threads that carry datagrams beside the event loop: they seal and send what the transport gives, and receive and open what
//! arrives. The loop decides alone what leaves when, so that one link has one pace and one order, however many threads there are.
//!
//! A batch of datagrams goes from the loop to a thread and its buffer back, or the other way round, and none is copied on the way. The
//! number of buffers bounds what waits between them.
//!
//! | file | idea |
//! | --- | --- |
//! | `bell.rs` | wakes a thread that waits in its poll |
//! | `worker.rs` | what such a thread does |
//! | `reading.rs` | and what one that receives does |

mod bell;
mod reading;
#[cfg(test)]
mod tests;
mod worker;

use super::{Buffers, Head, Place, Udp};
use bell::Bell;
use mio::Waker;
use reading::{Reading, Received, Supply};
use satpep::{Arrival, Endpoint, Opening, Seal};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use units::Instant;
use worker::Worker;

/// Batches to send that are on their way to a thread at most, for each that sends: about a megabyte.
const BATCHES: usize = 16;
/// Looks at the socket whose datagrams are on their way to the loop at most.
const LOOKS: usize = 4;
/// Datagrams after which the loop turns to other things.
const DATAGRAMS: usize = 1024;

/// A batch of datagrams to send.
pub(crate) struct Outgoing {
    /// Where the transport writes them.
    pub(crate) buffer: Vec<u8>,
    pub(crate) size: usize,
    pub(crate) head: Head,
    pub(crate) seal: Option<Seal>,
    /// Each takes a system call.
    pub(crate) singly: bool,
}

/// A datagram that was received.
struct Datagram {
    place: Place,
    from: SocketAddr,
    arrival: Arrival,
    opening: Opening,
}

/// What the loop wants a thread to do.
enum Job {
    Send(Outgoing),
    Receive(Supply),
}

/// A thread, as the loop sees it.
struct Thread {
    jobs: mpsc::Sender<Job>,
    bell: Arc<Bell>,
    /// It is to be woken.
    has_jobs: bool,
    handle: Option<JoinHandle<()>>,
}

/// The threads that carry the datagrams of one socket. Dropping this ends them; what waits to be sent is sent before.
pub(crate) struct Workers {
    /// The first receives; it sends as well if it is the only one.
    threads: Vec<Thread>,
    received: mpsc::Receiver<Received>,
    sent: mpsc::Receiver<(Outgoing, io::Result<()>)>,
    /// Buffers to fill.
    vacant: Vec<Vec<u8>>,
    bell: Arc<Bell>,
    /// How long what has arrived may wait, in nanoseconds.
    step: Arc<AtomicU64>,
}

impl Workers {
    /// Starts `count` threads that carry the datagrams of `udp`, in batches of `batch_size` bytes at most; they wake the loop by `waker`.
    pub(crate) fn start(udp: &Udp, count: usize, waker: Arc<Waker>, batch_size: usize) -> io::Result<Self> {
        let (to_loop, received) = mpsc::channel();
        let (back, sent) = mpsc::channel();
        let bell = Arc::new(Bell::new(waker));
        let step = Arc::new(AtomicU64::new(0));
        let mut workers = Self { threads: Vec::new(), received, sent, vacant: Vec::new(), bell, step };
        for number in 0..count {
            let (jobs, given) = mpsc::channel();
            let to_loop = (number == 0).then(|| to_loop.clone());
            let reading = to_loop.map(|to_loop| Reading::new(to_loop, Arc::clone(&workers.step)));
            let worker = Worker::new(udp.try_clone()?, given, reading, back.clone(), Arc::clone(&workers.bell))?;
            let bell = worker.bell();
            let name = format!("packets {}", number + 1);
            let handle = std::thread::Builder::new().name(name).spawn(move || worker.run())?;
            workers.threads.push(Thread { jobs, bell, has_jobs: false, handle: Some(handle) });
        }
        let senders = workers.threads.len() - workers.first_sender();
        workers.vacant = (0..BATCHES * senders).map(|_| vec![0; batch_size]).collect();
        for _ in 0..LOOKS {
            workers.give_back(Received { buffers: Buffers::new(), datagrams: Vec::new() });
        }
        Ok(workers)
    }

    /// How many threads there are.
    pub(crate) fn count(&self) -> usize {
        self.threads.len()
    }

    /// Whether a thread has ended, which is a defect: no other does its work.
    pub(crate) fn has_failed(&self) -> bool {
        self.threads.iter().any(|thread| thread.handle.as_ref().is_none_or(JoinHandle::is_finished))
    }

    /// The first thread that sends: the one that receives has enough to do if there are others.
    fn first_sender(&self) -> usize {
        usize::from(self.threads.len() > 1)
    }

    /// Hands to `endpoint` what has arrived.
    pub(crate) fn take_in(&mut self, now: Instant, endpoint: &mut Endpoint) {
        self.bell.answer();
        let mut datagrams = 0;
        while datagrams < DATAGRAMS
            && let Ok(received) = self.received.try_recv()
        {
            datagrams += received.datagrams.len();
            let received = hand_in(now, endpoint, received);
            self.give_back(received);
        }
        if datagrams >= DATAGRAMS {
            self.bell.ring();
        }
        if datagrams > 0 {
            self.step.store(endpoint.reading_step().as_nanos(), Ordering::Relaxed);
        }
        while let Some(key) = endpoint.poll_opening_key() {
            self.give(0, Job::Receive(Supply::Key(key)));
        }
    }

    fn give(&self, thread: usize, job: Job) {
        // A thread that has ended is found by `has_failed`.
        let _ = self.threads[thread].jobs.send(job);
    }

    /// Lets the first thread receive into the buffers again.
    fn give_back(&self, received: Received) {
        self.give(0, Job::Receive(Supply::Vacant(received)));
        self.threads[0].bell.give();
    }

    /// Ends the threads, and hands to `endpoint` what they have received.
    pub(crate) fn end(mut self, now: Instant, endpoint: &mut Endpoint) {
        self.stop();
        while let Ok(received) = self.received.try_recv() {
            hand_in(now, endpoint, received);
        }
    }

    fn stop(&mut self) {
        let end = |Thread { jobs, bell, handle, .. }: Thread| {
            drop(jobs);
            bell.ring();
            handle
        };
        let handles: Vec<_> = self.threads.drain(..).filter_map(end).collect();
        for handle in handles {
            // A thread that has panicked has said so.
            let _ = handle.join();
        }
    }

    /// A buffer to fill and [send](Self::send), or to give back by [`keep`](Self::keep). If there is none, the loop is woken when there is.
    /// `settle` hears of batches that have left, or have not.
    pub(crate) fn vacant(&mut self, mut settle: impl FnMut(Head, io::Result<()>)) -> Option<Vec<u8>> {
        let mut collect = |workers: &mut Self| {
            while let Ok((outgoing, result)) = workers.sent.try_recv() {
                settle(outgoing.head, result);
                workers.vacant.push(outgoing.buffer);
            }
            workers.vacant.pop()
        };
        collect(self).or_else(|| {
            self.bell.wait();
            collect(self)
        })
    }

    /// Takes back a buffer that there was nothing to fill with.
    pub(crate) fn keep(&mut self, buffer: Vec<u8>) {
        self.vacant.push(buffer);
    }

    /// Has a batch sent at the next [`ring`](Self::ring). What goes to one address leaves in order.
    pub(crate) fn send(&mut self, outgoing: Outgoing) {
        let senders = self.threads.len() - self.first_sender();
        let mut hasher = DefaultHasher::new();
        outgoing.head.to.hash(&mut hasher);
        let thread = self.first_sender() + (hasher.finish() % senders as u64) as usize;
        self.give(thread, Job::Send(outgoing));
        self.threads[thread].has_jobs = true;
    }

    /// Wakes the threads that have something to send.
    pub(crate) fn ring(&mut self) {
        for thread in &mut self.threads {
            if std::mem::take(&mut thread.has_jobs) {
                thread.bell.ring();
            }
        }
    }
}

/// Hands to `endpoint` what one look has found, and returns the buffers.
fn hand_in(now: Instant, endpoint: &mut Endpoint, mut received: Received) -> Received {
    for Datagram { place, from, arrival, opening } in received.datagrams.drain(..) {
        let datagram = received.buffers.at(&place);
        match opening {
            Opening::Left => endpoint.handle_datagram_with(now, from, datagram, &arrival),
            Opening::Forged => endpoint.count_forged(),
            Opening::Opened(opened) => endpoint.handle_opened(now, from, datagram, opened, &arrival),
        }
    }
    received
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop();
    }
}
