//! The ftp-like application: one stretch of data over one TCP connection, verified at the receiver.
//!
//! Either end listens. The sender sends the data, and the receiver answers with a report:
//!
//! ```text
//!  sender                                receiver
//!     │ ask ────────────────────────────► │   only where a sender that connected is to resume
//!     │ ◄──────────────────────── request │   only where the receiver connected, or was asked
//!     │ header, data, digest, FIN ──────► │
//!     │ ◄───────── report (verified), FIN │
//! ```
//!
//! The sender waits for nothing before the header (but for the request), so that a proxy which answers the handshake
//! locally moves the data half a round trip after connect().
//!
//! A request says how much of the data the receiver has already, of a transfer that was interrupted, with the digest of these
//! bytes. The sender compares it with that of its own first bytes, and sends the rest or refuses. The last digest is that of all
//! data. Instead of any message, an end may [refuse](Refusal) to go on. While the receiver brings the data to its disk, it says
//! every second that it is at work, as the sender does while it compares.

mod beginning;
mod checksum;
mod content;
mod delivery;
mod endpoint;
mod receiver;
mod refusal;
mod sender;
mod trace;
mod wire;

pub use beginning::Beginning;
pub use checksum::Checksum;
pub use content::Content;
pub use endpoint::{SocketOptions, accept, connect, connect_within, has_congestion_control, listen};
pub use receiver::{Received, Sink, receive, request};
pub use refusal::Refusal;
pub use sender::{Sent, ask, await_request, resume, send};
pub use trace::{Sample, Trace};
pub use wire::Request;

use std::net::SocketAddr;
use std::path::PathBuf;
use units::{Bytes, Duration};

/// Why a transfer did not happen or did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The file with the content, or for it, cannot be used.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system answered.
        source: std::io::Error,
    },
    /// A socket option was refused.
    #[error("cannot set the {option} to {value}: {source}")]
    Option {
        /// Which option, in words.
        option: &'static str,
        /// What it was to become.
        value: String,
        /// What the system answered.
        source: std::io::Error,
    },
    /// The kernel gives less than the buffer that was asked for.
    #[error(
        "the {option} of {size} is beyond this host's limit of {given}: raise it (sysctl -w {sysctl}={}), or run as root",
        size.as_u64()
    )]
    Buffer {
        /// Which buffer, in words.
        option: &'static str,
        /// What limits it.
        sysctl: &'static str,
        /// What it was to become.
        size: Bytes,
        /// What it became.
        given: Bytes,
    },
    /// The address to listen on cannot be used.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system answered.
        source: std::io::Error,
    },
    /// Nobody answered, or with a refusal.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The address.
        address: SocketAddr,
        /// What the system answered.
        source: std::io::Error,
    },
    /// The connection broke.
    #[error("the connection broke {moment} ({bytes} of data had passed): {source}")]
    Broken {
        /// What was going on.
        moment: &'static str,
        /// Data that had passed.
        bytes: Bytes,
        /// What the system answered.
        source: std::io::Error,
    },
    /// Nothing moved for too long.
    #[error("nothing moved for {idle} {moment} ({bytes} of data had passed)")]
    TimedOut {
        /// What was going on.
        moment: &'static str,
        /// Data that had passed.
        bytes: Bytes,
        /// How long.
        idle: Duration,
    },
    /// The connection ended cleanly before everything had arrived.
    #[error("the connection ended {moment}, after {received} of {expected}")]
    Truncated {
        /// What was missing.
        moment: &'static str,
        /// Data that arrived.
        received: Bytes,
        /// Data that was announced.
        expected: Bytes,
    },
    /// The other end is something else.
    #[error("the other end {0}")]
    Protocol(&'static str),
    /// The other end is of another release.
    #[error(
        "the other end speaks version {theirs} of the transfer protocol, this end version {ours}: both need the same release"
    )]
    Version {
        /// The other end's version.
        theirs: u8,
        /// This end's.
        ours: u8,
    },
    /// One end does not go on.
    #[error("{0}")]
    Refused(Refusal),
    /// Nobody connected in time.
    #[error("no connection came within {0}")]
    NobodyConnected(Duration),
    /// The receiver's output failed.
    #[error("cannot store the data: {0}")]
    NotStored(std::io::Error),
    /// The file changed while it was sent.
    #[error("the content ended after {read} of {announced}")]
    ContentEnded {
        /// Bytes read.
        read: Bytes,
        /// Bytes announced to the receiver.
        announced: Bytes,
    },
    /// The receiver got other bytes than were sent.
    #[error("the receiver reports that the data did not verify")]
    NotVerified,
}

/// This end does not go on, and tells the other.
fn refuse(stream: &mut std::net::TcpStream, refusal: Refusal) -> TransferError {
    refusal.tell(stream);
    TransferError::Refused(refusal)
}

/// The next message of the other end. An end of another version is sent the version of this one.
fn read_message(
    stream: &mut std::net::TcpStream,
    moment: &'static str,
    bytes: Bytes,
) -> Result<wire::Message, TransferError> {
    let message = wire::Message::read(stream).map_err(broken(stream, moment, bytes))?;
    if let Err(TransferError::Version { .. }) = message {
        // Of a message of another version only the version counts.
        Refusal::OtherVersion.tell(stream);
    }
    message
}

/// How often an end that waits hears that the other is at work.
const WORKING_INTERVAL: std::time::Duration = std::time::Duration::from_secs(1);

/// For `map_err`: the connection broke, or timed out, at `moment` after `bytes` of data.
fn broken(
    stream: &std::net::TcpStream,
    moment: &'static str,
    bytes: Bytes,
) -> impl FnOnce(std::io::Error) -> TransferError {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    let idle = stream.read_timeout().ok().flatten().unwrap_or_default().into();
    move |source| match source.kind() {
        // A blocking socket whose SO_RCVTIMEO or SO_SNDTIMEO ran out says EAGAIN.
        WouldBlock | TimedOut => TransferError::TimedOut { moment, bytes, idle },
        _ => TransferError::Broken { moment, bytes, source },
    }
}
