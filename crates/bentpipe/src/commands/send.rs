//! `bentpipe send`: the end of a transfer that has the data.

use super::connection::{INITIAL_WINDOW_HELP, ListenArgs, SocketArgs, Transfer, conclude, progress_bar};
use crate::output::{Failure, Output};
use clap::Args as ClapArgs;
use lab::transfer::{Checksum, Content, Request, Sent, TransferError, ask, await_request, resume, send};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use units::Bytes;

const EXAMPLES: &str = "\
Examples:
  bentpipe send --to 192.0.2.1:7000 picture.tif         # to `bentpipe receive --listen 192.0.2.1:7000`
  bentpipe send --to [2001:db8::1]:7000 --size 1MB      # pseudo-random data instead of a file
  bentpipe send --listen 0.0.0.0:7000 picture.tif       # for `bentpipe receive --from ADDR:7000`
  bentpipe send --to 192.0.2.1:7000 picture.tif --resume   # after an interruption; the receiver needs --resume, too
  bentpipe send --to ADDR:7000 --size 10MB --congestion-control bbr --send-buffer 4MB";

/// Send a file, or data of a given size, to `bentpipe receive`
#[derive(ClapArgs)]
#[command(after_help = format!("{EXAMPLES}\n\n{INITIAL_WINDOW_HELP}"))]
pub struct Args {
    /// The file to send
    #[arg(value_name = "FILE", required_unless_present = "size", conflicts_with = "size")]
    file: Option<PathBuf>,
    /// Send this many pseudo-random bytes instead of a file
    #[arg(long)]
    size: Option<Bytes>,
    /// Seed of the pseudo-random bytes: the same seed gives the same data
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Connect to the receiver that listens at this address
    #[arg(
        id = "connect",
        long = "to",
        value_name = "ADDR:PORT",
        required_unless_present = "listen",
        conflicts_with = "listen"
    )]
    to: Option<String>,
    /// Listen at this address for receivers
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,
    /// Go on where an interrupted transfer ended: ask the receiver what it has. With --listen, the receiver alone decides
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    listening: ListenArgs,
    #[command(flatten)]
    socket: SocketArgs,
}

/// Sends and prints what the receiver reported.
///
/// # Errors
/// If the input is wrong, the connection fails or the data does not verify.
pub fn run(args: &Args, output: &Output) -> Result<(), Failure> {
    let options = args.socket.options()?;
    // A missing file is reported before any connection.
    args.content()?;
    let ended = match (&args.to, &args.listen) {
        (Some(to), _) => {
            let mut connected = args.socket.connect("--to", to, &options)?;
            let request = if args.resume { Some(ask(&mut connected.stream)?) } else { None };
            vec![args.send(&mut connected.stream, connected.peer, request, output)]
        }
        (None, Some(address)) => {
            args.socket.refuse_initial_window()?;
            let listener = args.listening.listen(address, &options)?;
            args.listening.serve(&listener, &options, |mut stream, peer, _| {
                let request = await_request(&mut stream)?;
                args.send(&mut stream, peer, Some(request), output)
            })
        }
        (None, None) => return Err(Failure::usage("one of --to and --listen is needed")),
    };
    conclude(ended, output)
}

impl Args {
    fn content(&self) -> Result<Content, TransferError> {
        match (&self.file, self.size) {
            (Some(path), _) => Content::from_file(path),
            (None, size) => Ok(Content::random(size.unwrap_or_default(), self.seed)),
        }
    }

    /// Sends what `request` asks for, or all.
    fn send(
        &self,
        stream: &mut TcpStream,
        peer: SocketAddr,
        request: Option<Request>,
        output: &Output,
    ) -> Result<Transfer, Failure> {
        let mut content = self.content()?;
        let bar = progress_bar(output, content.size());
        let progress = &mut |bytes: Bytes| bar.set_position(bytes.as_u64());
        let sent = match request {
            Some(request) => resume(stream, &mut content, &request, progress),
            None => send(stream, &mut content, Checksum::Sha256, progress),
        };
        bar.finish_and_clear();
        let grown = content.grown();
        if grown > Bytes::ZERO {
            tracing::warn!("the file has grown by {grown} since the transfer began; they were not sent");
        }
        let Sent { bytes, begin, receiver_time, retransmitted_segments } = sent?;
        let transfer = Transfer::new(peer, begin, bytes, receiver_time, true);
        Ok(Transfer { retransmitted_segments: Some(retransmitted_segments), ..transfer })
    }
}
