//! What the kernel's TCP knows about a connection.

use crate::Error;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Some of what `TCP_INFO` tells about a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round-trip time.
    pub srtt: Duration,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Slow-start threshold in segments; `i32::MAX` before the first loss.
    pub ssthresh: u32,
    /// Segments that were sent again.
    pub retransmitted_segments: u32,
    /// Segments that are sent and not acknowledged.
    pub unacknowledged_segments: u32,
    /// Time since the other end last acknowledged anything, a probe of its closed window included.
    pub since_last_ack: Duration,
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
        cwnd: info.tcpi_snd_cwnd,
        ssthresh: info.tcpi_snd_ssthresh,
        retransmitted_segments: info.tcpi_total_retrans,
        unacknowledged_segments: info.tcpi_unacked,
        since_last_ack: Duration::from_millis(u64::from(info.tcpi_last_ack_recv)),
    })
}
