//! A running gateway's work goes over to a new process: the new one takes new connections, the old one finishes its own.
//!
//! Over the control socket the new process asks (`take-over`) and is made an [`Offer`], with the listeners for clients as open
//! descriptors. It binds the UDP port beside the old one, or has its listener for peers, says `ready`, and hears `done` once the
//! old one has let go of what there can be only once, with what the transport leaves to it. Until then nothing has changed: if either
//! fails, the old one goes on. The connection stays open as long as the old process runs; over it the new one says which peers its
//! configuration has, so that the old one resets its connections of those that are removed.

pub(crate) mod beside;
pub(crate) mod offer;
pub(crate) mod selector;
pub(crate) mod successor;
#[cfg(test)]
mod tests;

use crate::config::{Peer, Settings};
use crate::control;
use crate::error::{StartError, while_doing};
use crate::handle::Handle;
use crate::unix;
use offer::{Fixed, Offer, VERSION};
use rustix::io::retry_on_intr;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use satpep::Run;
use serde::{Deserialize, Serialize};
use socket2::Socket;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use successor::{PeerIdentity, Word};

/// What to do about a setting that both processes have in common. `systemctl restart` of one unit does not end a gateway that runs under the
/// other.
pub(crate) const RESTART: &str = "restart it (under systemd: /usr/lib/bentpipe/restart NAME)";
/// The question at the control socket.
pub(crate) const QUESTION: &str = "take-over";
/// How long either waits for the other's next word, however slowly it comes.
const PATIENCE: Duration = Duration::from_secs(30);
/// Listeners that are handed over at most: one for each Internet Protocol, and that for peers.
const LISTENERS: usize = 3;
/// An offer is no longer than this: 65,535 peers with their addresses fit. Nor is what a transport leaves to the process that takes over,
/// which gives up reading behind it.
pub(crate) const LONGEST: u64 = 16 << 20;

/// What the old process says to the question.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    #[serde(rename = "offer")]
    Offer(Box<Offer>),
    #[serde(rename = "refused")]
    Refused(String),
}

/// Whether the client behind `stream` may be made an offer, or why not: the control socket may have a group, and who has the listeners
/// receives what clients and peers send.
pub(crate) fn permit(stream: &UnixStream) -> io::Result<Result<(), String>> {
    let (client, own) = (socket_peercred(stream)?.uid.as_raw(), kernel::process::user());
    if [0, own].contains(&client) {
        return Ok(Ok(()));
    }
    Ok(Err(format!(
        "user {client} may not take over: start the new process as root or as user {own}, as whom the gateway runs"
    )))
}

/// The side of the running gateway, on the control thread. The stream is kept until the process ends.
pub(crate) fn serve(stream: UnixStream, handle: &Handle) -> io::Result<()> {
    serve_within(PATIENCE, stream, handle)
}

/// The same, for a client that takes `patience` for each of its words and no longer.
fn serve_within(patience: Duration, mut stream: UnixStream, handle: &Handle) -> io::Result<()> {
    let deadline = || Instant::now() + patience;
    let (reply, listeners) = match handle.offer() {
        Ok((offer, listeners)) => (Reply::Offer(Box::new(offer)), listeners),
        Err(reason) => (Reply::Refused(reason), Vec::new()),
    };
    let is_offered = matches!(reply, Reply::Offer(_));
    let mut line = serde_json::to_vec(&reply).map_err(io::Error::other)?;
    line.push(b'\n');
    let sent = send(deadline(), &mut stream, &line, &listeners);
    drop(listeners);
    if !is_offered {
        return sent;
    }
    match sent.and_then(|()| read_line(deadline(), &mut stream, 64)) {
        Ok(word) if word == "ready" => {
            let estate = handle.hand_over(stream.try_clone()?);
            let words = [format!("done {}\n", estate.len()).as_bytes(), &estate].concat();
            unix::write_until(deadline(), &mut stream, &words)
        }
        outcome => {
            handle.withdraw_offer();
            outcome.map(drop)
        }
    }
}

/// The new process between the offer and the old one's answer to `ready`.
#[derive(Debug)]
pub(crate) struct Heir {
    pub(crate) offer: Offer,
    listeners: Vec<Socket>,
    satellite_listener: Option<Socket>,
    stream: UnixStream,
}

/// Whether a gateway of this name runs and can be asked.
pub(crate) fn is_running(settings: &Settings) -> bool {
    UnixStream::connect(&settings.control).is_ok()
}

impl Heir {
    /// Asks the gateway that runs with the control socket of `settings`.
    pub(crate) fn ask(settings: &Settings) -> Result<Self, StartError> {
        Self::ask_within(settings, PATIENCE)
    }

    /// The same, for an answer within `patience`.
    fn ask_within(settings: &Settings, patience: Duration) -> Result<Self, StartError> {
        let refuse = |reason: String| StartError::TakeOver(reason);
        let path = settings.control.display();
        let doing = || while_doing(format!("taking over from the gateway at {path}"));
        let deadline = Instant::now() + patience;
        let mut attempt = 0;
        let (line, mut listeners, stream) = loop {
            attempt += 1;
            let mut stream = UnixStream::connect(&settings.control)
                .map_err(|error| refuse(format!("no gateway serves {path}: {error}")))?;
            let answered = unix::left_until(deadline).and_then(|left| {
                stream.set_read_timeout(Some(left))?;
                match stream.write_all(format!("{QUESTION}\n").as_bytes()) {
                    // What it has said before can still be read.
                    Err(error) if !control::is_hangup(&error) => Err(error),
                    _ => receive(&mut stream),
                }
            });
            let (line, listeners) = answered.map_err(|error| match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => refuse(format!(
                    "the gateway at {path} has not answered for {} s: is it stopped?",
                    patience.as_secs()
                )),
                _ => doing()(error),
            })?;
            if !control::is_state(&line) || attempt == control::ATTEMPTS {
                break (line, listeners, stream);
            }
        };
        let offer = match serde_json::from_slice(&line) {
            Ok(Reply::Offer(offer)) if offer.version == VERSION => *offer,
            Ok(Reply::Offer(offer)) => {
                return Err(refuse(format!("the running gateway hands over in form {}, not {VERSION}", offer.version)));
            }
            Ok(Reply::Refused(reason)) => return Err(refuse(reason)),
            Err(_) => return Err(refuse("the running gateway does not know how to hand over".into())),
        };
        if let Some(setting) = Fixed::new(settings).difference(&offer.fixed) {
            return Err(refuse(format!("{setting} is not that of the running gateway: {RESTART}")));
        }
        let satellite_listener = if offer.has_satellite_listener { listeners.pop() } else { None };
        Ok(Self { offer, listeners, satellite_listener, stream })
    }

    /// This process's run.
    pub(crate) fn run(&self) -> Run {
        Run::Beside { generation: 1 - (self.offer.generation & 1) }
    }

    /// The listeners for clients.
    pub(crate) fn take_listeners(&mut self) -> Vec<Socket> {
        std::mem::take(&mut self.listeners)
    }

    /// The listener for peers, where a transport has one.
    pub(crate) fn take_satellite_listener(&mut self) -> Option<Socket> {
        self.satellite_listener.take()
    }

    /// Has the old process let go. Returns what its transport has left, too.
    pub(crate) fn commit(mut self) -> Result<(Predecessor, Vec<u8>), StartError> {
        let doing = || while_doing("taking over");
        self.stream.write_all(b"ready\n").map_err(doing())?;
        let line = read_line(Instant::now() + PATIENCE, &mut self.stream, 64).map_err(doing())?;
        let length = line.strip_prefix("done ").and_then(|length| length.parse::<u64>().ok());
        let Some(length) = length.filter(|length| *length <= LONGEST) else {
            return Err(ended_meanwhile());
        };
        let mut estate = Vec::new();
        (&self.stream).take(length).read_to_end(&mut estate).map_err(doing())?;
        if (estate.len() as u64) < length {
            return Err(ended_meanwhile());
        }
        self.stream.set_nonblocking(true).map_err(doing())?;
        Ok((
            Predecessor {
                pid: self.offer.pid,
                reclaims_rules: self.offer.reclaims_rules,
                stream: self.stream,
                unsent: Vec::new(),
            },
            estate,
        ))
    }
}

fn ended_meanwhile() -> StartError {
    StartError::TakeOver("the running gateway has ended meanwhile".into())
}

/// The old process, which finishes its connections.
#[derive(Debug)]
pub(crate) struct Predecessor {
    pub(crate) pid: u32,
    /// Whether it removes the rules if it outlives this process.
    reclaims_rules: bool,
    stream: UnixStream,
    /// What it is still to be sent.
    unsent: Vec<u8>,
}

impl Predecessor {
    /// Has the old process reset the connections that it has of peers other than `peers`.
    pub(crate) fn keep_only(&mut self, peers: &[Peer]) {
        let word = Word::Peers(peers.iter().map(PeerIdentity::of).collect());
        match serde_json::to_vec(&word) {
            Ok(line) => self.unsent.extend(line.into_iter().chain(*b"\n")),
            Err(error) => tracing::error!(%error, "a defect: the process before this one cannot be sent the peers"),
        }
        self.send_rest();
    }

    /// Sends what it takes now of what it is to be sent.
    pub(crate) fn send_rest(&mut self) {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(sent) if sent > 0 => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // It has ended.
                _ => self.unsent.clear(),
            }
        }
    }

    /// Has the old process know that this one ends, and returns whether it goes on: it then answers for the rules. Each process says that it
    /// ends before it looks whether the other does, so that one of the two removes them.
    pub(crate) fn outlives_this(&mut self) -> bool {
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
        self.reclaims_rules && !self.has_ended()
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.stream.read(&mut [0; 16]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }
}

/// Sends `bytes` until `deadline`, and with the first of them `descriptors`.
fn send(deadline: Instant, stream: &mut UnixStream, bytes: &[u8], descriptors: &[OwnedFd]) -> io::Result<()> {
    let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(LISTENERS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !borrowed.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&borrowed)) {
        return Err(io::Error::other("too many listeners"));
    }
    stream.set_write_timeout(Some(unix::left_until(deadline)?))?;
    let first = IoSlice::new(&bytes[..bytes.len().min(unix::CHUNK)]);
    let sent = retry_on_intr(|| sendmsg(&*stream, &[first], &mut control, SendFlags::NOSIGNAL))?;
    unix::write_until(deadline, stream, &bytes[sent..])
}

/// Receives a line, and the sockets that came with it.
pub(crate) fn receive(stream: &mut UnixStream) -> io::Result<(Vec<u8>, Vec<Socket>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(LISTENERS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut line = vec![0; 65_536];
    let received =
        retry_on_intr(|| recvmsg(&*stream, &mut [IoSliceMut::new(&mut line)], &mut control, RecvFlags::CMSG_CLOEXEC))?;
    line.truncate(received.bytes);
    let mut sockets = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            sockets.extend(descriptors.map(Socket::from));
        }
    }
    let mut rest = stream.take(LONGEST);
    let mut buffer = [0; 4096];
    while line.last() != Some(&b'\n') {
        match unix::uninterrupted(|| rest.read(&mut buffer))? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => line.extend_from_slice(&buffer[..count]),
        }
    }
    Ok((line, sockets))
}

/// A line of at most `longest` bytes that is whole by `deadline`, without its end; empty if the stream ends before the line does.
fn read_line(deadline: Instant, stream: &mut UnixStream, longest: usize) -> io::Result<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < longest {
        match unix::read_until(deadline, stream, &mut byte)? {
            // The process has ended while it spoke: what it said of the line is no word.
            0 => return Ok(String::new()),
            _ if byte == *b"\n" => break,
            _ => line.push(byte[0]),
        }
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}
