//! What `send` and `receive` share: their sockets, addresses, how they listen, progress bars and results.

use super::initial_window::InitialWindow;
use crate::output::{Failure, Output};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use lab::transfer::{SocketOptions, TransferError, accept, connect_within, listen};
use serde::Serialize;
use socket2::SockRef;
use std::fmt::{self, Display};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::Instant;
use units::{Bytes, Duration, Quantity, Rate};

/// Options of the TCP connection.
#[derive(Args, Clone)]
pub struct SocketArgs {
    /// Congestion control of this end, by its name in the kernel (cubic, bbr, reno); only the sender's has an effect
    #[arg(long, value_name = "NAME", help_heading = "Connection")]
    congestion_control: Option<String>,
    /// Size of the send buffer (SO_SNDBUF), instead of the kernel's automatic tuning
    #[arg(long, value_name = "SIZE", help_heading = "Connection")]
    send_buffer: Option<Bytes>,
    /// Size of the receive buffer (SO_RCVBUF), instead of the kernel's automatic tuning; it bounds the window
    #[arg(long, value_name = "SIZE", help_heading = "Connection")]
    receive_buffer: Option<Bytes>,
    /// Initial window in segments (1 to 1000), set by a temporary host route to the other end; needs CAP_NET_ADMIN
    #[arg(long, value_name = "SEGMENTS", value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = "Connection")]
    initial_window: Option<u32>,
    /// Fail after this long without progress
    #[arg(long, value_name = "TIME", default_value = "60s", help_heading = "Connection")]
    timeout: Duration,
}

/// The end of the help of `send` and `receive`.
pub const INITIAL_WINDOW_HELP: &str = "\
Linux takes the initial window from the route, not from a socket option. If this end connects, --initial-window adds a
host route with initcwnd and initrwnd; if it listens, change the route by hand (ip route change).
Buffers beyond net.core.wmem_max and net.core.rmem_max need CAP_NET_ADMIN: without it the command fails (3).
net.ipv4.tcp_wmem and tcp_rmem limit automatic tuning.";

impl SocketArgs {
    /// The options as the transfer takes them.
    ///
    /// # Errors
    /// If a value means nothing.
    pub fn options(&self) -> Result<SocketOptions, Failure> {
        if self.timeout.is_zero() {
            return Err(Failure::usage("--timeout must be longer than 0s"));
        }
        Ok(SocketOptions {
            congestion_control: self.congestion_control.clone(),
            send_buffer: self.send_buffer,
            receive_buffer: self.receive_buffer,
            timeout: self.timeout,
        })
    }
}

/// A connection that this end made.
pub struct Connected {
    /// The connection.
    pub stream: TcpStream,
    /// The other end.
    pub peer: SocketAddr,
    /// The time just before connect().
    pub start: Instant,
    /// In force as long as this lives.
    _window: Option<InitialWindow>,
}

impl SocketArgs {
    /// Connects to `ADDR:PORT`, given with `option`. Of a name with several addresses, those that cannot be reached are skipped; each is
    /// given its part of the time that those before it have left of the timeout.
    ///
    /// # Errors
    /// If there is no address, or those of all addresses.
    pub fn connect(&self, option: &str, text: &str, options: &SocketOptions) -> Result<Connected, Failure> {
        let (first, others) = resolve(option, text)?;
        self.connect_to_any(first, others, options)
    }

    fn connect_to_any(
        &self,
        first: SocketAddr,
        others: Vec<SocketAddr>,
        options: &SocketOptions,
    ) -> Result<Connected, Failure> {
        let (start, mut untried) = (Instant::now(), 1 + others.len() as u64);
        let mut connect = |peer| {
            let left = options.timeout.saturating_sub(start.elapsed().into());
            // A system call takes no timeout of 0.
            let timeout = (left / untried).max(Duration::from_millis(1));
            untried -= 1;
            self.connect_within(timeout, peer, options)
        };
        let mut failure = match connect(first) {
            Ok(connected) => return Ok(connected),
            Err(failure) => failure,
        };
        let mut reasons = vec![failure.to_string()];
        for peer in others {
            tracing::info!(next = %peer, reason = reasons.last(), "trying the next address");
            match connect(peer) {
                Ok(connected) => return Ok(connected),
                Err(other) => {
                    let reason = other.to_string();
                    // What has nothing to do with the address, such as an unknown congestion control, is said once.
                    if !reasons.contains(&reason) {
                        failure = failure.followed_by(other);
                    }
                    reasons.push(reason);
                }
            }
        }
        Err(failure)
    }

    /// Connects with the initial window that is asked for.
    fn connect_within(
        &self,
        timeout: Duration,
        peer: SocketAddr,
        options: &SocketOptions,
    ) -> Result<Connected, Failure> {
        let _window = self.initial_window.map(|segments| InitialWindow::set(peer.ip(), segments)).transpose()?;
        let (stream, start) = connect_within(timeout, peer, options)?;
        Ok(Connected { stream, peer, start, _window })
    }

    /// Refuses an initial window where this end listens: the other end's address is not known before its connection.
    ///
    /// # Errors
    /// If one is asked for.
    pub fn refuse_initial_window(&self) -> Result<(), Failure> {
        match self.initial_window {
            None => Ok(()),
            Some(_) => Err(Failure::usage("--initial-window goes with the end that connects (--to, --from)")),
        }
    }
}

/// Resolves `ADDR:PORT`, given with `option`: the first address, and those after it.
fn resolve(option: &str, text: &str) -> Result<(SocketAddr, Vec<SocketAddr>), Failure> {
    let example = "write for example 192.0.2.1:7000, [2001:db8::1]:7000 or localhost:7000";
    let mut addresses =
        text.to_socket_addrs().map_err(|error| Failure::usage(format!("{option} {text}: {error}; {example}")))?;
    let first =
        addresses.next().ok_or_else(|| Failure::usage(format!("{option} {text}: has no address; {example}")))?;
    Ok((first, addresses.collect()))
}

impl From<TransferError> for Failure {
    fn from(error: TransferError) -> Self {
        let kind = match &error {
            TransferError::Option { source, .. } | TransferError::Listen { source, .. } => Some(source.kind()),
            TransferError::File { .. } => return Failure::usage(error),
            TransferError::Buffer { .. } => return Failure::missing(error),
            _ => None,
        };
        match kind {
            // An unknown congestion control, a port below 1024.
            Some(ErrorKind::NotFound | ErrorKind::PermissionDenied) => Failure::missing(error),
            _ => Failure::failed(error),
        }
    }
}

/// A progress bar on stderr where a person watches, else nothing.
pub fn progress_bar(output: &Output, total: Bytes) -> ProgressBar {
    if !output.shows_progress() {
        return ProgressBar::hidden();
    }
    let template = "{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(total.as_u64()).with_style(style)
}

/// The results of one run: one row for each transfer.
#[derive(Debug, Serialize)]
pub struct Transfers {
    /// One row for each.
    pub transfers: Vec<Transfer>,
}

/// One transfer that ended.
#[derive(Debug, Serialize)]
pub struct Transfer {
    /// The other end.
    pub peer: SocketAddr,
    /// Bytes of data that were sent.
    pub bytes: u64,
    /// From the receiver's connect or accept to its last byte, seconds.
    pub time_s: f64,
    /// Bytes over time, bits per second.
    pub goodput_bps: u64,
    /// Bytes before them that the receiver kept of an interrupted transfer.
    pub kept_bytes: u64,
    /// Whether the receiver has what the sender has.
    pub verified: bool,
    /// Segments that TCP sent more than once; null at the receiver, which cannot know.
    pub retransmitted_segments: Option<u32>,
}

impl Transfer {
    /// A row for a transfer of `bytes` after `kept` that took the receiver `time`.
    pub fn new(peer: SocketAddr, kept: Bytes, bytes: Bytes, time: Duration, verified: bool) -> Self {
        let goodput_bps = Rate::from_transfer(bytes, time).as_bps();
        let (time_s, bytes, kept_bytes) = (time.as_secs_f64(), bytes.as_u64(), kept.as_u64());
        Self { peer, bytes, time_s, goodput_bps, kept_bytes, verified, retransmitted_segments: None }
    }
}

impl Display for Transfers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for transfer in &self.transfers {
            write!(
                f,
                "{}: {} in {}, {} at the receiver, {}",
                transfer.peer,
                Bytes::new(transfer.bytes),
                Quantity::Time.text(transfer.time_s),
                Quantity::Rate.text(transfer.goodput_bps as f64),
                if transfer.verified { "verified" } else { "NOT VERIFIED" },
            )?;
            if transfer.kept_bytes > 0 {
                write!(f, ", after {} that were there", Bytes::new(transfer.kept_bytes))?;
            }
            if let Some(segments) = transfer.retransmitted_segments {
                write!(f, ", {segments} segments retransmitted")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// How an end that listens does so.
#[derive(Args, Clone)]
pub struct ListenArgs {
    /// With --listen: end after this many transfers, failed ones included
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "connect", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    count: u32,
    /// With --listen: fail if no connection comes for this long (default: wait without limit)
    #[arg(long, value_name = "TIME", conflicts_with = "connect")]
    wait: Option<Duration>,
}

impl ListenArgs {
    /// Listens at `address`, and logs where, which matters if the port was left to the kernel.
    ///
    /// # Errors
    /// If the address or a setting cannot be used.
    pub fn listen(&self, address: &str, options: &SocketOptions) -> Result<TcpListener, Failure> {
        let listener = listen(resolve("--listen", address)?.0, options)?;
        if let Some(wait) = self.wait {
            if wait.is_zero() {
                return Err(Failure::usage("--wait must be longer than 0s"));
            }
            SockRef::from(&listener).set_read_timeout(Some(wait.into())).map_err(Failure::failed)?;
        }
        if let Ok(address) = listener.local_addr() {
            tracing::info!(%address, "listening");
        }
        Ok(listener)
    }

    /// Runs `transfer` once for each of `--count` connections to `listener`, side by side, and waits until all have ended.
    ///
    /// # Errors
    /// The result of each is its own; if no connection comes in time, that is the last.
    pub fn serve(
        &self,
        listener: &TcpListener,
        options: &SocketOptions,
        transfer: impl Fn(TcpStream, SocketAddr, Instant) -> Result<Transfer, Failure> + Sync,
    ) -> Vec<Result<Transfer, Failure>> {
        let serve_one = |(stream, peer, start): (TcpStream, SocketAddr, Instant)| {
            let ended = transfer(stream, peer, start);
            if let Err(failure) = &ended
                && self.count > 1
            {
                tracing::warn!(%peer, reason = %failure, "transfer failed");
            }
            ended
        };
        let serve_one = &serve_one;
        std::thread::scope(|scope| {
            let (mut running, mut missing) = (Vec::new(), None);
            for _ in 0..self.count {
                match accept(listener, options) {
                    Ok(accepted) => running.push(scope.spawn(move || serve_one(accepted))),
                    Err(error) => {
                        missing = Some(Err(error.into()));
                        break;
                    }
                }
            }
            let ended = running.into_iter().map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err(Failure::failed("the thread of a transfer panicked: report this as a bug")))
            });
            ended.chain(missing).collect()
        })
    }
}

/// Prints the transfers that ended, and fails if one failed or did not verify.
///
/// # Errors
/// That of the first that failed.
pub fn conclude(ended: Vec<Result<Transfer, Failure>>, output: &Output) -> Result<(), Failure> {
    let count = ended.len();
    let (mut transfers, mut failures) = (Vec::new(), Vec::new());
    for result in ended {
        match result {
            Ok(transfer) => transfers.push(transfer),
            Err(failure) => failures.push(failure),
        }
    }
    let transfers = Transfers { transfers };
    if !transfers.transfers.is_empty() {
        output.result(&transfers, |_| &transfers)?;
    }
    let failed = failures.len();
    match failures.into_iter().next() {
        Some(failure) if count == 1 => Err(failure),
        Some(failure) => Err(failure.preceded_by(format!("{failed} of {count} transfers failed"))),
        None if transfers.transfers.iter().all(|transfer| transfer.verified) => Ok(()),
        None => Err(Failure::failed("the data did not verify: it is not what the sender sent")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Socket, Type};

    fn args(timeout: Duration) -> SocketArgs {
        SocketArgs { congestion_control: None, send_buffer: None, receive_buffer: None, initial_window: None, timeout }
    }

    /// A port of this host's IPv4 address and of its IPv6 address, if it has one, where nobody listens.
    fn refusing() -> [SocketAddr; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        [SocketAddr::from(([127, 0, 0, 1], port)), SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], port))]
    }

    #[test]
    fn a_name_is_reached_at_the_address_that_answers() {
        let args = args(Duration::from_secs(60));
        let options = args.options().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let answers = listener.local_addr().unwrap();
        let [_, refuses] = refusing();
        let connected = args.connect_to_any(refuses, vec![answers, refuses], &options).unwrap();
        assert_eq!((connected.peer, connected.stream.peer_addr().unwrap()), (answers, answers));
    }

    #[test]
    fn the_failure_names_what_each_address_of_a_name_answered() {
        let args = args(Duration::from_secs(60));
        let [first, second] = refusing();
        let failure = args.connect_to_any(first, vec![second], &args.options().unwrap()).err().unwrap().to_string();
        for address in [first, second] {
            assert!(failure.contains(&format!("cannot connect to {address}: ")), "{failure}");
        }
    }

    #[test]
    fn a_failure_that_has_nothing_to_do_with_the_address_is_named_once() {
        let args = SocketArgs { congestion_control: Some("nosuch".into()), ..args(Duration::from_secs(60)) };
        let [first, second] = refusing();
        let failure = args.connect_to_any(first, vec![second], &args.options().unwrap()).err().unwrap().to_string();
        assert_eq!(failure.matches("nosuch").count(), 1, "{failure}");
    }

    #[test]
    fn an_address_has_the_time_that_those_before_it_left() {
        let args = args(Duration::from_millis(500));
        let [refuses, _] = refusing();
        // The queue of one connection is full: the kernel does not answer the next.
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        socket.listen(0).unwrap();
        let silent = socket.local_addr().unwrap().as_socket().unwrap();
        let _queued = TcpStream::connect(silent).unwrap();
        let start = Instant::now();
        assert!(args.connect_to_any(refuses, vec![silent], &args.options().unwrap()).is_err());
        assert!(start.elapsed() >= std::time::Duration::from_millis(450), "{:?}", start.elapsed());
    }
}
