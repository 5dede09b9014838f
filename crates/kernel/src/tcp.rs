//! What the kernel's TCP knows about a connection.

use crate::Error;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Some fields of `TCP_INFO`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round-trip time.
    pub srtt: Duration,
    /// The shortest round-trip time of late.
    pub min_rtt: Duration,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Slow-start threshold in segments; `i32::MAX` before the first loss.
    pub ssthresh: u32,
    /// Segments that were sent again.
    pub retransmitted_segments: u32,
    /// Retransmission timeouts in a row, since when nothing was acknowledged.
    pub timeouts: u8,
    /// Segments that are sent and not acknowledged.
    pub unacknowledged_segments: u32,
    /// Bytes that were written and have never been sent.
    pub unsent_bytes: u32,
    /// The largest payload of a segment that is sent.
    pub segment: u32,
    /// The payload of the largest segments that have come of late.
    pub received_segment: u32,
    /// The largest IP packet that the route allows, as routers have reported it.
    pub path_mtu: u32,
    /// How fast the congestion control lets segments leave, in bytes a second; all ones if it does not pace.
    pub pacing_rate: u64,
    /// Probes of an idle connection, or of a closed window, that nothing has answered yet.
    pub unanswered_probes: u8,
    /// Data that was sent in the SYN has been acknowledged with it (TCP Fast Open, RFC 7413).
    pub is_syn_data_acked: bool,
    /// Time since the other end last acknowledged anything, a probe of its closed window included.
    pub since_last_ack: Duration,
    /// Bytes that the other end has acknowledged, and that have come from it.
    pub carried_bytes: u64,
}

/// Of `tcpi_options` (linux/tcp.h).
const TCPI_OPT_SYN_DATA: u8 = 32;
/// Longest time between two retransmissions, in milliseconds (linux/tcp.h; since Linux 6.15).
const TCP_RTO_MAX_MS: libc::c_int = 44;

/// Has the first write to `socket`, which is to be connected, go with the SYN where the server has handed out a cookie
/// before (RFC 7413); where not, one is asked for. `connect` then returns at once.
///
/// # Errors
/// If the kernel has no TCP Fast Open.
pub fn set_fast_open_connect(socket: &socket2::Socket) -> io::Result<()> {
    set_option(socket, libc::TCP_FASTOPEN_CONNECT, 1)
}

/// Has a listener take data that come with a SYN, for at most `pending` connections whose handshake has not ended. The
/// host must allow it, too: the value 2 in `net.ipv4.tcp_fastopen` (`TFO_SERVER_ENABLE`).
///
/// # Errors
/// If the kernel has no TCP Fast Open.
pub fn set_fast_open_listen(socket: &socket2::Socket, pending: u16) -> io::Result<()> {
    set_option(socket, libc::TCP_FASTOPEN, pending.into())
}

/// Limits the time between two retransmissions, or probes of a closed window, so that a connection goes on soon after an outage; from a
/// second to two minutes.
///
/// # Errors
/// If the kernel does not know the option (before Linux 6.15).
pub fn set_longest_rto(socket: &socket2::Socket, longest: Duration) -> io::Result<()> {
    let milliseconds = longest.as_millis().clamp(1_000, 120_000);
    set_option(socket, TCP_RTO_MAX_MS, libc::c_int::try_from(milliseconds).unwrap_or(120_000))
}

/// Has `socket` send up to `count` SYNs again before it gives up; at most 127.
///
/// # Errors
/// If it is not a TCP socket.
pub fn set_syn_retries(socket: &socket2::Socket, count: u8) -> io::Result<()> {
    set_option(socket, libc::TCP_SYNCNT, count.min(127).into())
}

/// Asks the other end for its window now, and not when the probe timer says.
///
/// # Errors
/// If the process lacks CAP_NET_ADMIN, or it is not a TCP socket.
pub fn probe_window(socket: &socket2::Socket) -> io::Result<()> {
    // The kernel probes at the end of a repair (TCP_REPAIR), and has forgotten then that the address may be used again.
    let reuses = socket.reuse_address()?;
    set_option(socket, libc::TCP_REPAIR, 1)?;
    set_option(socket, libc::TCP_REPAIR, 0)?;
    socket.set_reuse_address(reuses)
}

/// The congestion control of `socket`.
///
/// # Errors
/// If it is not a TCP socket.
pub fn congestion_control(socket: &socket2::Socket) -> io::Result<String> {
    let name = socket.tcp_congestion()?;
    Ok(String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned())
}

/// Has the congestion control of `socket` forget what it knows of the path and start again.
///
/// # Errors
/// If it is not a TCP socket, or its congestion control is not to be had any more: then it has `reno`.
pub fn restart_congestion_control(socket: &socket2::Socket) -> io::Result<()> {
    let name = congestion_control(socket)?;
    socket.set_tcp_congestion(b"reno")?;
    socket.set_tcp_congestion(name.as_bytes())
}

/// Has the kernel ask whether the other end is there when nothing has come from it for `idle`, and from then on every 15 s, or every
/// `idle` if that is less; unless the socket's user timeout says otherwise, the connection fails after four of them.
///
/// # Errors
/// If it is not a TCP socket, or `idle` is longer than 32,767 s (`MAX_TCP_KEEPIDLE` in the kernel's include/net/tcp.h).
pub fn set_keepalive(socket: &socket2::Socket, idle: Duration) -> io::Result<()> {
    // The kernel waits for the interval after an answered probe, too.
    let interval = idle.min(Duration::from_secs(15));
    let keepalive = socket2::TcpKeepalive::new().with_time(idle).with_interval(interval).with_retries(4);
    socket.set_tcp_keepalive(&keepalive)
}

/// Has writes to `socket` wait while more than about so many bytes have not been sent, whatever its send buffer has room for.
///
/// # Errors
/// If it is not a TCP socket.
pub fn set_unsent_limit(socket: &socket2::Socket, bytes: u32) -> io::Result<()> {
    set_option(socket, libc::TCP_NOTSENT_LOWAT, libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX))
}

fn set_option(socket: &socket2::Socket, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    crate::socket_option::set_int(socket, libc::IPPROTO_TCP, option, value)
}

/// Asks the kernel about the TCP connection `socket`.
///
/// # Errors
/// If it is not a TCP socket.
pub fn tcp_info(socket: &impl AsFd) -> Result<TcpInfo, Error> {
    // SAFETY: tcp_info is plain old data for which all zeros are valid.
    let mut info: libc::tcp_info = unsafe { mem::zeroed() };
    let mut length = mem::size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: `info` and `length` are valid, `length` is the size of `info`, and the kernel writes no more than that.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &mut length,
        )
    };
    if result != 0 {
        return Err(Error::last("reading TCP_INFO"));
    }
    Ok(TcpInfo {
        srtt: Duration::from_micros(u64::from(info.tcpi_rtt)),
        min_rtt: Duration::from_micros(u64::from(info.tcpi_min_rtt)),
        cwnd: info.tcpi_snd_cwnd,
        ssthresh: info.tcpi_snd_ssthresh,
        retransmitted_segments: info.tcpi_total_retrans,
        timeouts: info.tcpi_retransmits,
        unacknowledged_segments: info.tcpi_unacked,
        unsent_bytes: info.tcpi_notsent_bytes,
        segment: info.tcpi_snd_mss,
        received_segment: info.tcpi_rcv_mss,
        path_mtu: info.tcpi_pmtu,
        pacing_rate: info.tcpi_pacing_rate,
        unanswered_probes: info.tcpi_probes,
        is_syn_data_acked: info.tcpi_options & TCPI_OPT_SYN_DATA != 0,
        since_last_ack: Duration::from_millis(u64::from(info.tcpi_last_ack_recv)),
        carried_bytes: info.tcpi_bytes_acked.saturating_add(info.tcpi_bytes_received),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_congestion_control_that_begins_anew_is_the_same_and_bytes_pass() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listener");
        let mut client = TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
        let (mut server, _) = listener.accept().expect("accept");
        for name in ["cubic", "bbr"] {
            let socket = socket2::Socket::from(client.try_clone().expect("clone"));
            if socket.set_tcp_congestion(name.as_bytes()).is_err() {
                continue;
            }
            client.write_all(&[7; 1000]).expect("write");
            server.read_exact(&mut [0; 1000]).expect("read");
            restart_congestion_control(&socket).expect("a TCP socket");
            assert_eq!(congestion_control(&socket).expect("a TCP socket"), name);
            client.write_all(&[7; 1000]).expect("write");
            server.read_exact(&mut [0; 1000]).expect("read");
        }
    }
}
