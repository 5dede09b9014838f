//! The traffic of an experiment: transfers that start together, each measured with the one clock of this host.

use crate::cutoff::Cutoff;
use crate::transfer::{
    Beginning, Checksum, Content, Received, SocketOptions, Trace, TransferError, accept, await_request, connect,
    listen, receive, request, send,
};
use crate::{Error, Family, Site};
use emulator::Monitor;
use kernel::tcp::TcpInfo;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;
use units::{Bytes, Duration, Rate};

/// Which way the data goes, seen from the client, which is the end that connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The client sends.
    #[default]
    Up,
    /// The client asks and the server sends.
    Down,
}

impl Direction {
    /// Round trips that any transfer needs: half of one when the client sends, one when it asks first.
    pub fn rounds(self) -> f64 {
        match self {
            Direction::Up => 0.5,
            Direction::Down => 1.0,
        }
    }
}

/// What each flow of an experiment moves, and how.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Which way.
    pub direction: Direction,
    /// How much.
    pub size: Bytes,
    /// How it is verified.
    pub checksum: Checksum,
    /// Which Internet Protocol.
    pub family: Family,
    /// `TCP_CONGESTION` at the end that sends; `None` leaves the kernel's default.
    pub congestion_control: Option<String>,
    /// `SO_SNDBUF` and `SO_RCVBUF` at both ends; `None` leaves the kernel's automatic tuning.
    pub send_buffer: Option<Bytes>,
    /// See `send_buffer`.
    pub receive_buffer: Option<Bytes>,
    /// How long a flow may stand still before it has failed.
    pub timeout: Duration,
    /// Seed of the data.
    pub seed: u64,
}

impl Workload {
    pub(crate) fn socket_options(&self) -> SocketOptions {
        SocketOptions {
            congestion_control: self.congestion_control.clone(),
            send_buffer: self.send_buffer,
            receive_buffer: self.receive_buffer,
            timeout: self.timeout,
        }
    }
}

/// The two hosts of a flow.
#[derive(Debug, Clone, Copy)]
pub struct Ends<'a> {
    /// The site whose host connects.
    pub client: &'a Site,
    /// The site whose host listens.
    pub server: &'a Site,
}

/// A flow that ended.
#[derive(Debug, Clone)]
pub struct Flow {
    /// When the client called connect().
    pub start: Instant,
    /// When the receiver had the last byte, or the flow was cut off.
    pub end: Instant,
    /// Bytes that arrived.
    pub bytes: Bytes,
    /// Whether they are those that were sent.
    pub verified: bool,
    /// Whether it was cut off before all that it has to move had arrived; what had arrived is not verified then.
    pub is_cut_off: bool,
    /// Arrivals, counted from `start`.
    pub trace: Trace,
    /// Segments that the sender sent again (unknown, and 0, where the data did not verify).
    pub retransmitted_segments: u32,
    /// The sender's windows, where the plan wants them, counted from the time at which it had the connection.
    pub windows: Vec<WindowSample>,
}

/// A sender's window at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WindowSample {
    /// When it was looked at.
    pub at: Duration,
    /// What the kernel said.
    pub info: TcpInfo,
}

impl Flow {
    /// From the client's connect() to the receiver's last byte.
    pub fn time(&self) -> Duration {
        self.end.duration_since(self.start).into()
    }

    /// Size over time.
    pub fn goodput(&self) -> Rate {
        Rate::from_transfer(self.bytes, self.time())
    }
}

/// From the first client's connect() to the last receiver's last byte.
pub fn time(flows: &[Flow]) -> Duration {
    let start = flows.iter().map(|flow| flow.start).min();
    let end = flows.iter().map(|flow| flow.end).max();
    end.zip(start).map_or(Duration::ZERO, |(end, start)| end.duration_since(start).into())
}

/// Port of the first flow's server; each flow has a port of its own, which distinguishes them.
pub(crate) const FIRST_PORT: u16 = 7000;

/// A flow to be run.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    /// Its hosts.
    pub ends: Ends<'a>,
    /// What it moves, and how.
    pub workload: &'a Workload,
    /// How long after the start of the experiment it starts.
    pub start: Duration,
    /// How often the sender's window is looked at; `None`: never.
    pub windows: Option<Duration>,
}

/// Runs one flow for each of `ends`, all starting together, and waits until the last has ended.
///
/// # Errors
/// If a flow fails (one whose data does not verify has not failed).
pub fn run(ends: &[Ends<'_>], workload: &Workload) -> Result<Vec<Flow>, Error> {
    let plans: Vec<_> =
        ends.iter().map(|ends| Plan { ends: *ends, workload, start: Duration::ZERO, windows: None }).collect();
    run_plans(&plans)
}

/// When an experiment ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    /// At this time after its start, when flows that have not ended are cut off.
    pub at: Duration,
    /// Or before, when all flows have ended.
    pub when_complete: bool,
}

/// Runs flows that start at times of their own, and waits until the last has ended.
///
/// # Errors
/// If a flow fails (one whose data does not verify has not failed).
pub fn run_plans(plans: &[Plan<'_>]) -> Result<Vec<Flow>, Error> {
    run_plans_until(plans, None, None)
}

/// When an experiment of so many flows starts: by then every thread waits, however slow the machine is at starting them. The links of
/// `satellite` begin again at that time, as they do in the simulator.
pub(crate) fn together(flows: usize, satellite: Option<&Monitor>) -> Instant {
    let starting = std::time::Duration::from_millis(20 + flows as u64);
    let Some(satellite) = satellite else { return Instant::now() + starting };
    let notice = starting.max(Monitor::RESTART_NOTICE.into());
    satellite.restart(kernel::clock::now() + notice.into());
    Instant::now() + notice
}

/// As [`run_plans`], but not beyond `stop`. The links of `satellite` begin again as the experiment starts.
///
/// # Errors
/// If a flow fails before (one whose data does not verify has not failed).
pub fn run_plans_until(
    plans: &[Plan<'_>],
    stop: Option<Stop>,
    satellite: Option<&Monitor>,
) -> Result<Vec<Flow>, Error> {
    let mut listeners = Vec::new();
    for (port, Plan { ends, workload, .. }) in (FIRST_PORT..).zip(plans) {
        let options = workload.socket_options();
        let address = SocketAddr::new(ends.server.host_address(workload.family), port);
        let listener = ends.server.host.run(|| listen(address, &options))??;
        listeners.push((listener, address, options));
    }
    let together = together(plans.len(), satellite);
    let cutoff = &Cutoff::new(stop.map(|stop| together + stop.at.into()));
    let flows = thread::scope(|scope| {
        let (done, ended) = mpsc::channel();
        let keeper = spawn(scope, move || {
            cutoff.keep(&ended);
            Ok(())
        })?;
        let mut flows = Vec::new();
        for ((listener, address, options), plan) in listeners.into_iter().zip(plans) {
            let start = together + plan.start.into();
            let (end, server_options) = (EndPlan { plan: *plan, start, cutoff }, options.clone());
            let server = spawn(scope, move || run_server(&listener, end, &server_options))?;
            let client = spawn(scope, move || run_client(address, end, options))?;
            flows.push((client, server));
        }
        let ended: Vec<_> = flows.into_iter().map(|(client, server)| (join(client), join(server))).collect();
        drop(done);
        join(keeper)?;
        ended.into_iter().map(|(client, server)| combine(client?, server?, cutoff)).collect::<Result<Vec<_>, _>>()
    })?;
    if let Some(end) = cutoff.end().filter(|_| stop.is_some_and(|stop| !stop.when_complete)) {
        thread::sleep(end.saturating_duration_since(Instant::now()));
    }
    Ok(flows)
}

pub(crate) type Thread<'scope, T> = thread::ScopedJoinHandle<'scope, Result<T, Error>>;

/// Starts a thread with a small stack: an experiment may have hundreds.
pub(crate) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    f: impl FnOnce() -> Result<T, Error> + Send + 'scope,
) -> Result<Thread<'scope, T>, Error> {
    thread::Builder::new().stack_size(256 * 1024).spawn_scoped(scope, f).map_err(Error::failed)
}

/// What the thread gave.
pub(crate) fn join<T>(thread: Thread<'_, T>) -> Result<T, Error> {
    thread.join().map_err(|_| Error::failed("a flow's thread panicked"))?
}

/// What one end is to do.
#[derive(Clone, Copy)]
struct EndPlan<'a> {
    plan: Plan<'a>,
    /// When the flow starts.
    start: Instant,
    cutoff: &'a Cutoff,
}

/// What one end knows about its flow.
struct End {
    start: Instant,
    /// What arrived, at the end that receives.
    received: Option<Received>,
    /// It was cut off before it was done.
    is_cut_off: bool,
    /// Segments sent again, at the end that sends.
    retransmitted_segments: u32,
    /// The windows of the end that sends.
    windows: Vec<WindowSample>,
}

impl End {
    /// One that moved nothing before the cut-off.
    fn cut_off(start: Instant) -> Self {
        Self { start, received: None, is_cut_off: true, retransmitted_segments: 0, windows: Vec::new() }
    }
}

fn run_client(server: SocketAddr, end: EndPlan<'_>, mut options: SocketOptions) -> Result<End, Error> {
    let EndPlan { plan, start, cutoff } = end;
    let connected = plan.ends.client.host.run(|| {
        thread::sleep(start.saturating_duration_since(Instant::now()));
        options.timeout = cutoff.bound(options.timeout).into();
        connect(server, &options)
    })?;
    let (mut stream, start) = match connected {
        Err(_) if cutoff.is_past() => return Ok(End::cut_off(start)),
        connected => connected?,
    };
    let _watched = cutoff.watch(&stream)?;
    let end = EndPlan { start, ..end };
    match plan.workload.direction {
        Direction::Up => send_all(&mut stream, end),
        Direction::Down => match request(&mut stream, &Beginning::none()) {
            Err(_) if cutoff.is_past() => Ok(End::cut_off(start)),
            asked => asked.map_err(Error::from).and_then(|()| receive_all(&mut stream, end)),
        },
    }
}

fn run_server(listener: &TcpListener, end: EndPlan<'_>, options: &SocketOptions) -> Result<End, Error> {
    let EndPlan { plan, start, cutoff } = end;
    // accept() gives up, too, so that a client which never comes does not hang the experiment.
    let wait = Duration::from(start.saturating_duration_since(Instant::now())) + options.timeout;
    socket2::SockRef::from(listener).set_read_timeout(Some(cutoff.bound(wait))).map_err(Error::failed)?;
    let (mut stream, _, accepted) = match accept(listener, options) {
        Err(_) if cutoff.is_past() => return Ok(End::cut_off(start)),
        accepted => accepted?,
    };
    let _watched = cutoff.watch(&stream)?;
    let end = EndPlan { start: accepted, ..end };
    match plan.workload.direction {
        Direction::Up => receive_all(&mut stream, end),
        Direction::Down => match await_request(&mut stream) {
            Err(_) if cutoff.is_past() => Ok(End::cut_off(accepted)),
            asked => asked.map_err(Error::from).and_then(|_| send_all(&mut stream, end)),
        },
    }
}

/// Sends, and does not mind if the receiver's verdict is bad: the receiver says so itself.
fn send_all(stream: &mut std::net::TcpStream, EndPlan { plan, start, cutoff }: EndPlan<'_>) -> Result<End, Error> {
    let watched = stream.try_clone().map_err(Error::failed)?;
    let workload = plan.workload;
    let mut content = Content::random(workload.size, workload.seed);
    let (sent, windows) = match plan.windows {
        None => (send(stream, &mut content, workload.checksum, &mut |_| {}), Vec::new()),
        Some(interval) => thread::scope(|scope| {
            let (done, ended) = mpsc::channel::<()>();
            let watch = spawn(scope, move || Ok(watch(&watched, start, interval, &ended)))?;
            let sent = send(stream, &mut content, workload.checksum, &mut |_| {});
            drop(done);
            Ok::<_, Error>((sent, join(watch)?))
        })?,
    };
    let (is_cut_off, retransmitted_segments) = match sent {
        Ok(sent) => (false, sent.retransmitted_segments),
        Err(TransferError::NotVerified) => (false, 0),
        Err(_) if cutoff.is_past() => {
            (true, kernel::tcp::tcp_info(stream).map_or(0, |info| info.retransmitted_segments))
        }
        Err(error) => return Err(error.into()),
    };
    Ok(End { start, received: None, is_cut_off, retransmitted_segments, windows })
}

/// Looks at the window of `stream` in steps of `interval` until the other end of `ended` is gone.
pub(crate) fn watch(
    stream: &std::net::TcpStream,
    start: Instant,
    interval: Duration,
    ended: &mpsc::Receiver<()>,
) -> Vec<WindowSample> {
    let mut samples = Vec::new();
    while let Err(mpsc::RecvTimeoutError::Timeout) = ended.recv_timeout(interval.into()) {
        // A socket that tells nothing has no window to show.
        if let Ok(info) = kernel::tcp::tcp_info(stream) {
            samples.push(WindowSample { at: start.elapsed().into(), info });
        }
    }
    samples
}

fn receive_all(stream: &mut std::net::TcpStream, EndPlan { plan, start, cutoff }: EndPlan<'_>) -> Result<End, Error> {
    let mut arrived = cutoff.end().map(|end| Arrived { end, bytes: Bytes::ZERO, trace: Trace::new(start) });
    let mut progress = |bytes, _| arrived.iter_mut().for_each(|arrived| arrived.note(bytes));
    let checksum = plan.workload.checksum;
    let received = receive(stream, start, checksum, Beginning::none(), &mut io::sink(), &mut progress);
    let (received, is_cut_off) = match (received, arrived) {
        (Err(_), Some(arrived)) if cutoff.is_past() => (arrived.into_received(), true),
        (received, _) => (received?, false),
    };
    Ok(End { start, received: Some(received), is_cut_off, retransmitted_segments: 0, windows: Vec::new() })
}

/// What has arrived of a flow by the time at which it is cut off.
struct Arrived {
    end: Instant,
    bytes: Bytes,
    trace: Trace,
}

impl Arrived {
    fn note(&mut self, bytes: Bytes) {
        let now = Instant::now();
        if now < self.end {
            self.bytes = bytes;
            self.trace.record(now, bytes);
        }
    }

    fn into_received(self) -> Received {
        let Self { end, bytes, mut trace } = self;
        trace.end(end, bytes);
        Received { bytes, begin: Bytes::ZERO, verified: false, last_byte: end, trace }
    }
}

/// One flow from what its two ends know.
fn combine(client: End, server: End, cutoff: &Cutoff) -> Result<Flow, Error> {
    let start = client.start;
    let retransmitted_segments = client.retransmitted_segments + server.retransmitted_segments;
    let windows = if client.windows.is_empty() { server.windows } else { client.windows };
    let nothing = || {
        let end = cutoff.end().filter(|_| client.is_cut_off || server.is_cut_off)?;
        Some(Arrived { end, bytes: Bytes::ZERO, trace: Trace::new(start) }.into_received())
    };
    let received = client.received.or(server.received).or_else(nothing);
    let received = received.ok_or_else(|| Error::failed("neither end received"))?;
    Ok(Flow {
        start,
        end: received.last_byte,
        bytes: received.bytes,
        verified: received.verified,
        is_cut_off: !received.verified && (client.is_cut_off || server.is_cut_off),
        trace: received.trace.counted_from(start),
        retransmitted_segments,
        windows,
    })
}
