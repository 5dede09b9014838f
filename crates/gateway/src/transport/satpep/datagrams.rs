//! How datagrams leave and arrive: the event loop seals, opens, sends and receives them itself, or threads beside it do.

use crate::config::{self, DscpPolicy, Settings};
use crate::udp::steps::Steps;
use crate::udp::workers::{Outgoing, Workers};
use crate::udp::{Head, Udp, may_have_more};
use crate::watch::{Directions, Owner, Watch};
use kernel::clock;
use satpep::{Endpoint, Transmit};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use units::{Duration, Instant};

/// Datagram batches that one wake receives and sends at most.
const RECEIVE_BATCHES: usize = 4;
const SEND_BATCHES: usize = 64;
/// How often the transport's timers are served while the system takes no datagrams.
const BLOCKED_PERIOD: Duration = Duration::from_millis(1);
/// Whose the UDP socket is.
const SOCKET: Owner = Owner::Transport(0);

/// The socket, and who uses it.
pub(super) struct Datagrams {
    pub(super) udp: Udp,
    watch: Watch,
    watched: Directions,
    readable: bool,
    /// When it is read.
    steps: Steps,
    /// When several datagrams have left at once last.
    burst: Instant,
    writable: bool,
    mtu: u16,
    pub(super) dscp: DscpPolicy,
    /// What the socket would not take yet.
    unsent: Option<Transmit>,
    /// How much of that it has taken, where datagrams are sent one by one.
    unsent_from: usize,
    send_buffer: Vec<u8>,
    /// Those to whom no batches are sent.
    pub(super) singly: Vec<SocketAddr>,
    pub(super) send_errors: u64,
    wanted: config::Workers,
    processors: usize,
    busy: Busy,
    /// The threads, if there are others than the loop's.
    workers: Option<Workers>,
}

impl Datagrams {
    pub(super) fn new(settings: &Settings, udp: Udp, watch: Watch) -> io::Result<Self> {
        watch.add(&udp, SOCKET)?;
        Ok(Self {
            send_buffer: vec![0; udp.batch_size(settings.link.mtu)],
            udp,
            watch,
            watched: Directions { reading: true, writing: true },
            readable: true,
            steps: Steps::new(),
            burst: Instant::ZERO,
            writable: true,
            mtu: settings.link.mtu,
            dscp: settings.link.dscp,
            unsent: None,
            unsent_from: 0,
            singly: Vec::new(),
            send_errors: 0,
            wanted: settings.workers,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            busy: Busy::default(),
            workers: None,
        })
    }

    /// Another number of threads is configured.
    pub(super) fn configure(&mut self, wanted: config::Workers) {
        self.wanted = wanted;
    }

    /// The threads that carry packets, the event loop among them.
    pub(super) fn workers(&self) -> usize {
        1 + self.workers.as_ref().map_or(0, Workers::count)
    }

    pub(super) fn on_event(&mut self, event: &mio::event::Event) {
        self.readable |= event.is_readable();
        self.writable |= event.is_writable();
    }

    /// Whether something was left undone for the sake of the budget.
    pub(super) fn has_more(&self) -> bool {
        self.workers.is_none() && self.readable && self.steps.next().is_none()
    }

    /// When to look again, if the endpoint wants to be called at `transport`.
    pub(super) fn next_timeout(&self, now: Instant, transport: Option<Instant>) -> Option<Instant> {
        // What is overdue cannot be sent before the socket says so: no spinning until then.
        let sends = if self.writable { transport } else { transport.map(|at| at.max(now + BLOCKED_PERIOD)) };
        sends.into_iter().chain(self.steps.next()).min()
    }

    /// Looks at the socket again in any case: a loop without events asks for it.
    pub(super) fn retry(&mut self) {
        (self.readable, self.writable) = (true, true);
    }

    /// Has as many threads as are wanted for the link's capacity.
    pub(super) fn adjust_workers(&mut self, now: Instant, endpoint: &mut Endpoint) {
        if self.workers.as_ref().is_some_and(Workers::has_failed) {
            tracing::error!("a defect: a thread that carries packets has ended; the gateway goes on with one thread");
            self.wanted = config::Workers::Count(1);
        }
        let running = self.workers() - 1;
        let busy = self.busy.share(now);
        let wanted = self.wanted.beside_the_loop(endpoint.capacity(), self.processors, running, busy);
        if wanted != running {
            self.end_workers(now, endpoint);
            if wanted > 0 {
                self.start_workers(wanted, endpoint);
            }
            tracing::info!(workers = self.workers(), "threads that carry packets");
        }
    }

    fn start_workers(&mut self, count: usize, endpoint: &mut Endpoint) {
        // What the socket would not take is lost, as on the link.
        (self.unsent, self.unsent_from) = (None, 0);
        self.steps = Steps::new();
        let waker = Arc::clone(&self.watch.waker);
        let started = Workers::start(&self.udp, count, waker, self.udp.batch_size(self.mtu)).and_then(|workers| {
            self.watch_for(Directions { reading: false, writing: false })?;
            Ok(workers)
        });
        match started {
            Ok(workers) => {
                endpoint.set_driver_opens(true);
                self.workers = Some(workers);
                self.writable = true;
            }
            Err(error) => {
                tracing::error!(%error, "threads that carry packets cannot be started: the gateway goes on with one");
                self.wanted = config::Workers::Count(1);
            }
        }
    }

    fn end_workers(&mut self, now: Instant, endpoint: &mut Endpoint) {
        let Some(workers) = self.workers.take() else { return };
        endpoint.set_driver_opens(false);
        workers.end(now, endpoint);
        self.retry();
        self.watch_socket();
    }

    /// Hands to `endpoint` what has arrived.
    pub(super) fn receive(&mut self, now: Instant, endpoint: &mut Endpoint) {
        match &mut self.workers {
            Some(workers) => workers.take_in(now, endpoint),
            None => self.receive_here(now, endpoint),
        }
    }

    fn receive_here(&mut self, now: Instant, endpoint: &mut Endpoint) {
        if !self.steps.may_read(now) {
            return;
        }
        // In steps nobody says whether something has arrived.
        self.readable |= self.steps.next().is_some();
        let mut datagrams = 0;
        for _ in 0..RECEIVE_BATCHES {
            if !self.readable {
                break;
            }
            let received = self.udp.receive(|from, datagram, arrival| {
                datagrams += 1;
                endpoint.handle_datagram_with(now, from, datagram, arrival);
            });
            self.readable = may_have_more(received);
        }
        self.pace_reading(now, endpoint, datagrams);
    }

    /// So many datagrams were read: chooses when to read next.
    fn pace_reading(&mut self, now: Instant, endpoint: &Endpoint, datagrams: usize) {
        // What one look has left over does not wait for a step.
        if self.readable || (datagrams == 0 && self.steps.next().is_none()) {
            return;
        }
        self.steps.on_read(now, endpoint.reading_step(), datagrams, self.burst, endpoint.next_timer());
        self.watch_socket();
    }

    /// Has the socket wake us only for what is waited for: each datagram that has left makes it writable again, too.
    fn watch_socket(&mut self) {
        let wanted = Directions { reading: self.steps.next().is_none(), writing: !self.writable };
        if let Err(error) = self.watch_for(wanted) {
            tracing::error!(%error, "the UDP socket could not be watched");
        }
    }

    fn watch_for(&mut self, wanted: Directions) -> io::Result<()> {
        if wanted != self.watched {
            self.watch.change(&self.udp, SOCKET, [self.watched, wanted])?;
            self.watched = wanted;
        }
        Ok(())
    }

    /// Sends what waits, while the socket takes it.
    pub(super) fn send(&mut self, now: Instant, endpoint: &mut Endpoint) {
        match self.workers.take() {
            Some(mut workers) => {
                self.send_by(&mut workers, now, endpoint);
                self.workers = Some(workers);
            }
            None => {
                self.send_here(now, endpoint);
                self.watch_socket();
            }
        }
    }

    fn send_here(&mut self, now: Instant, endpoint: &mut Endpoint) {
        for _ in 0..SEND_BATCHES {
            if !self.writable {
                return;
            }
            // The system may turn out not to take batches.
            let size = self.udp.batch_size(self.mtu).min(self.send_buffer.len());
            let buffer = &mut self.send_buffer[..size];
            let Some(transmit) = self.unsent.take().or_else(|| endpoint.poll_transmit(now, buffer)) else { return };
            let head = self.head(now, &transmit);
            let contents = &self.send_buffer[..transmit.size];
            let sent = if self.unsent_from > 0 || self.singly.contains(&transmit.to) {
                self.udp.send_singly(head, contents, &mut self.unsent_from)
            } else {
                self.udp.send(head, contents)
            };
            if sent.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
                self.writable = false;
                self.unsent = Some(transmit);
                return;
            }
            self.unsent_from = 0;
            self.send_errors += settle(now, endpoint, head, sent);
        }
    }

    fn send_by(&mut self, workers: &mut Workers, now: Instant, endpoint: &mut Endpoint) {
        for _ in 0..SEND_BATCHES {
            if !self.hand_over(workers, now, endpoint) {
                break;
            }
        }
        workers.ring();
    }

    /// Hands a batch to a thread; `false` if there is none, or no buffer.
    fn hand_over(&mut self, workers: &mut Workers, now: Instant, endpoint: &mut Endpoint) -> bool {
        let vacant = workers.vacant(|head, sent| self.send_errors += settle(now, endpoint, head, sent));
        self.writable = vacant.is_some();
        let Some(mut buffer) = vacant else { return false };
        let size = self.udp.batch_size(self.mtu).min(buffer.len());
        let Some((transmit, seal)) = endpoint.poll_transmit_unsealed(now, &mut buffer[..size]) else {
            workers.keep(buffer);
            return false;
        };
        let (head, singly) = (self.head(now, &transmit), self.singly.contains(&transmit.to));
        workers.send(Outgoing { buffer, size: transmit.size, head, seal, singly });
        true
    }

    /// Where and how a batch leaves.
    fn head(&mut self, now: Instant, transmit: &Transmit) -> Head {
        if transmit.size > transmit.segment_size {
            self.burst = now;
        }
        let Transmit { to, from, segment_size, .. } = *transmit;
        Head { to, from, segment_size, dscp: self.dscp.of(transmit.dscp) }
    }
}

/// How busy the event loop's thread is.
#[derive(Default)]
struct Busy {
    at: Instant,
    used: Duration,
}

impl Busy {
    /// The share of the time since the last call in which the thread that calls this has run.
    fn share(&mut self, now: Instant) -> f64 {
        let used = clock::thread_cpu_time();
        let before = std::mem::replace(self, Self { at: now, used });
        let passed = now.since(before.at).as_secs_f64();
        if passed > 0.0 { used.saturating_sub(before.used).as_secs_f64() / passed } else { 0.0 }
    }
}

/// A batch has left, or was lost like a datagram on the link: then the endpoint learns what the host refuses. Returns how many failed.
fn settle(now: Instant, endpoint: &mut Endpoint, head: Head, sent: io::Result<()>) -> u64 {
    let Err(error) = sent else { return 0 };
    if error.raw_os_error() == Some(libc::EMSGSIZE) {
        endpoint.handle_refused(now, head.to, head.segment_size);
    }
    tracing::trace!(%error, to = %head.to, "send");
    1
}
