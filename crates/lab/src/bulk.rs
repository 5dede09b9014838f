//! Sessions without an end: they send as long as they may, as iperf's do.

use crate::cutoff::Cutoff;
use crate::flows::{FIRST_PORT, Flow, Plan, WindowSample, join, spawn, together, watch};
use crate::transfer::{SocketOptions, Trace, accept, connect, listen};
use crate::{Direction, Error};
use emulator::Monitor;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;
use units::{Bytes, Duration};

/// Written or read at once.
const CHUNK: usize = 64 * 1024;

/// How far ahead of its sender a session writes, in bytes: 16 ms at 250 Mbit/s. Left to itself the kernel grows a send buffer
/// with the congestion window, 128 MB after a slow start without losses, and a dozen of those are all the memory that TCP has on
/// a machine, private networks included: receivers then close their windows.
pub const WRITE_AHEAD: u32 = 512 * 1024;

/// Runs one session for each plan, whatever size its workload has, and cuts all off when `time` has passed since the start of
/// the experiment. What counts has arrived by then. The links of `satellite` begin again as the experiment starts.
///
/// # Errors
/// If a session cannot be opened or breaks, or is to go down.
pub fn run(plans: &[Plan<'_>], time: Duration, satellite: Option<&Monitor>) -> Result<Vec<Flow>, Error> {
    let mut listeners = Vec::new();
    for (port, plan) in (FIRST_PORT..).zip(plans) {
        if plan.workload.direction == Direction::Down {
            return Err(Error::Input("a session without an end goes up: the client sends".to_owned()));
        }
        let options = plan.workload.socket_options();
        let address = SocketAddr::new(plan.ends.server.host_address(plan.workload.family), port);
        listeners.push((plan.ends.server.host.run(|| listen(address, &options))??, address, options));
    }
    let together = together(plans.len(), satellite);
    let end = together + time.into();
    let cutoff = &Cutoff::new(Some(end));
    thread::scope(|scope| {
        let mut sessions = Vec::new();
        for ((listener, address, options), plan) in listeners.into_iter().zip(plans) {
            let (plan, server_options) = (*plan, options.clone());
            let server = spawn(scope, move || receive(&listener, &server_options, end, cutoff))?;
            let start = together + plan.start.into();
            let client = spawn(scope, move || send(address, start, plan, options, end, cutoff))?;
            sessions.push((client, server));
        }
        let ended: Vec<_> = sessions.into_iter().map(|(client, server)| (join(client), join(server))).collect();
        ended
            .into_iter()
            .map(|(client, server)| {
                let (sent, (bytes, trace)) = (client?, server?);
                Ok(Flow {
                    start: sent.start,
                    end,
                    bytes,
                    verified: true,
                    // Before it could begin.
                    is_cut_off: bytes == Bytes::ZERO,
                    trace: trace.counted_from(sent.start),
                    retransmitted_segments: sent.retransmitted_segments,
                    windows: sent.windows,
                })
            })
            .collect()
    })
}

/// What the sending end knows.
struct Sent {
    start: Instant,
    retransmitted_segments: u32,
    windows: Vec<WindowSample>,
}

fn send(
    server: SocketAddr,
    start: Instant,
    plan: Plan<'_>,
    mut options: SocketOptions,
    end: Instant,
    cutoff: &Cutoff,
) -> Result<Sent, Error> {
    let connected = plan.ends.client.host.run(|| {
        thread::sleep(start.saturating_duration_since(Instant::now()));
        options.timeout = cutoff.bound(options.timeout).into();
        connect(server, &options)
    })?;
    let (stream, start) = match connected {
        Err(_) if cutoff.is_past() => return Ok(Sent { start, retransmitted_segments: 0, windows: Vec::new() }),
        connected => connected?,
    };
    kernel::tcp::set_unsent_limit(&socket2::SockRef::from(&stream), WRITE_AHEAD).map_err(Error::failed)?;
    let windows = match plan.windows {
        None => {
            write_until(&stream, end)?;
            Vec::new()
        }
        Some(interval) => thread::scope(|scope| {
            let (done, ended) = mpsc::channel::<()>();
            let watched = &stream;
            let watch = spawn(scope, move || Ok(watch(watched, start, interval, &ended)))?;
            let written = write_until(&stream, end);
            drop(done);
            let windows = join(watch)?;
            written.map(|()| windows)
        })?,
    };
    let info = kernel::tcp::tcp_info(&stream).map_err(Error::from)?;
    // What is still under way is thrown away.
    socket2::SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO)).map_err(Error::failed)?;
    Ok(Sent { start, retransmitted_segments: info.retransmitted_segments, windows })
}

fn write_until(mut stream: &TcpStream, end: Instant) -> Result<(), Error> {
    let chunk = vec![0; CHUNK];
    while let Some(left) = left_until(end) {
        stream.set_write_timeout(Some(left)).map_err(Error::failed)?;
        match stream.write(&chunk) {
            Ok(_) => {}
            Err(error) if is_timeout(error.kind()) => {}
            // The receiver has looked at the time first.
            Err(error) if is_cut_off(error.kind()) && Instant::now() >= end => return Ok(()),
            Err(error) => return Err(Error::failed(error)),
        }
    }
    Ok(())
}

fn receive(
    listener: &TcpListener,
    options: &SocketOptions,
    end: Instant,
    cutoff: &Cutoff,
) -> Result<(Bytes, Trace), Error> {
    socket2::SockRef::from(listener).set_read_timeout(Some(cutoff.bound(Duration::MAX))).map_err(Error::failed)?;
    let (mut stream, _, start) = match accept(listener, options) {
        // Its handshake takes longer than what is left.
        Err(_) if cutoff.is_past() => return Ok((Bytes::ZERO, Trace::new(end))),
        accepted => accepted?,
    };
    let (mut bytes, mut trace, mut chunk) = (Bytes::ZERO, Trace::new(start), vec![0; CHUNK]);
    while let Some(left) = left_until(end) {
        stream.set_read_timeout(Some(left)).map_err(Error::failed)?;
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => {
                bytes += Bytes::from(read);
                trace.record(Instant::now(), bytes);
            }
            Err(error) if is_timeout(error.kind()) => {}
            Err(error) if is_cut_off(error.kind()) && Instant::now() >= end => break,
            Err(error) => return Err(Error::failed(error)),
        }
    }
    trace.end(Instant::now(), bytes);
    Ok((bytes, trace))
}

/// The time left until `end`, if any.
fn left_until(end: Instant) -> Option<std::time::Duration> {
    Some(end.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
}

fn is_timeout(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn is_cut_off(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}
