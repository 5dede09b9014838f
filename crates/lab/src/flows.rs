//! The traffic of an experiment: transfers that start together, each measured with the one clock of this host.

use crate::transfer::{
    Beginning, Checksum, Content, SocketOptions, Trace, accept, await_request, connect, listen, receive, request, send,
};
use crate::{Error, Family, Site};
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
    /// When the receiver had the last byte.
    pub end: Instant,
    /// Bytes that arrived.
    pub bytes: Bytes,
    /// Whether they are those that were sent.
    pub verified: bool,
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

/// Runs flows that start at times of their own, and waits until the last has ended.
///
/// # Errors
/// If a flow fails (one whose data does not verify has not failed).
pub fn run_plans(plans: &[Plan<'_>]) -> Result<Vec<Flow>, Error> {
    let mut listeners = Vec::new();
    for (port, Plan { ends, workload, start, .. }) in (FIRST_PORT..).zip(plans) {
        let options = workload.socket_options();
        let address = SocketAddr::new(ends.server.host_address(workload.family), port);
        let listener = ends.server.host.run(|| listen(address, &options))??;
        // accept() gives up, too, so that a client which never comes does not hang the experiment.
        let wait = *start + options.timeout;
        socket2::SockRef::from(&listener).set_read_timeout(Some(wait.into())).map_err(Error::failed)?;
        listeners.push((listener, address, options));
    }
    // By then every thread waits, however slow the machine is at starting them.
    let together = Instant::now() + std::time::Duration::from_millis(20 + plans.len() as u64);
    thread::scope(|scope| {
        let mut flows = Vec::new();
        for ((listener, address, options), plan) in listeners.into_iter().zip(plans) {
            let (plan, server_options) = (*plan, options.clone());
            let server = spawn(scope, move || run_server(&listener, plan, &server_options))?;
            let start = together + plan.start.into();
            let client = spawn(scope, move || run_client(address, start, plan, &options))?;
            flows.push((client, server));
        }
        let ended: Vec<_> = flows.into_iter().map(|(client, server)| (join(client), join(server))).collect();
        ended.into_iter().map(|(client, server)| combine(client?, server?)).collect()
    })
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

/// What one end knows about its flow.
struct End {
    start: Instant,
    /// What arrived, at the end that receives.
    received: Option<crate::transfer::Received>,
    /// Segments sent again, at the end that sends.
    retransmitted_segments: u32,
    /// The windows of the end that sends.
    windows: Vec<WindowSample>,
}

fn run_client(server: SocketAddr, together: Instant, plan: Plan<'_>, options: &SocketOptions) -> Result<End, Error> {
    let (mut stream, start) = plan.ends.client.host.run(|| {
        thread::sleep(together.saturating_duration_since(Instant::now()));
        connect(server, options)
    })??;
    match plan.workload.direction {
        Direction::Up => send_all(&mut stream, start, plan),
        Direction::Down => {
            request(&mut stream, &Beginning::none())?;
            receive_all(&mut stream, start, plan.workload)
        }
    }
}

fn run_server(listener: &TcpListener, plan: Plan<'_>, options: &SocketOptions) -> Result<End, Error> {
    let (mut stream, _, start) = accept(listener, options)?;
    match plan.workload.direction {
        Direction::Up => receive_all(&mut stream, start, plan.workload),
        Direction::Down => {
            await_request(&mut stream)?;
            send_all(&mut stream, start, plan)
        }
    }
}

/// Sends, and does not mind if the receiver's verdict is bad: the receiver says so itself.
fn send_all(stream: &mut std::net::TcpStream, start: Instant, plan: Plan<'_>) -> Result<End, Error> {
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
    let retransmitted_segments = match sent {
        Ok(sent) => sent.retransmitted_segments,
        Err(crate::transfer::TransferError::NotVerified) => 0,
        Err(error) => return Err(error.into()),
    };
    Ok(End { start, received: None, retransmitted_segments, windows })
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

fn receive_all(stream: &mut std::net::TcpStream, start: Instant, workload: &Workload) -> Result<End, Error> {
    let checksum = workload.checksum;
    let received = receive(stream, start, checksum, Beginning::none(), &mut io::sink(), &mut |_, _| {})?;
    Ok(End { start, received: Some(received), retransmitted_segments: 0, windows: Vec::new() })
}

/// One flow from what its two ends know.
fn combine(client: End, server: End) -> Result<Flow, Error> {
    let start = client.start;
    let retransmitted_segments = client.retransmitted_segments + server.retransmitted_segments;
    let windows = if client.windows.is_empty() { server.windows } else { client.windows };
    let received = client.received.or(server.received).ok_or_else(|| Error::failed("neither end received"))?;
    Ok(Flow {
        start,
        end: received.last_byte,
        bytes: received.bytes,
        verified: received.verified,
        trace: received.trace.counted_from(start),
        retransmitted_segments,
        windows,
    })
}
