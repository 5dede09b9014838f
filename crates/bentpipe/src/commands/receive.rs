//! `bentpipe receive`: the end of a transfer that wants the data.

use super::connection::{INITIAL_WINDOW_HELP, ListenArgs, SocketArgs, Transfer, conclude, progress_bar};
use super::partial_file::PartialFile;
use crate::named_files;
use crate::output::{Failure, Output};
use clap::Args as ClapArgs;
use lab::transfer::{Beginning, Checksum, Received, Refusal, Sample, Sink, Trace, TransferError, receive, request};
use std::fs::File;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use units::{Bytes, Duration};

const EXAMPLES: &str = "\
Examples:
  bentpipe receive --listen 0.0.0.0:7000 --out picture.tif     # from `bentpipe send --to ADDR:7000 picture.tif`
  bentpipe receive --from 192.0.2.1:7000 --trace rate.csv      # from `bentpipe send --listen 192.0.2.1:7000 …`
  bentpipe receive --listen [::]:7000 --count 20 --json        # twenty transfers, side by side
  bentpipe receive --from 192.0.2.1:7000 --out picture.tif --resume   # after an interruption
  bentpipe receive --from ADDR:7000 --receive-buffer 4MB";

/// Shorter intervals than those at which arrivals are noted (10 ms) show no more, and as many as the time of a transfer has fill the
/// memory.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);

/// Receive data from `bentpipe send`, verify its checksum and measure the goodput
#[derive(ClapArgs)]
#[command(after_help = format!("{EXAMPLES}\n\n{INITIAL_WINDOW_HELP}"))]
pub struct Args {
    /// Connect to the sender that listens at this address, and request its data
    #[arg(
        id = "connect",
        long = "from",
        value_name = "ADDR:PORT",
        required_unless_present = "listen",
        conflicts_with = "listen"
    )]
    from: Option<String>,
    /// Listen at this address for senders
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,
    #[command(flatten)]
    listening: ListenArgs,
    /// Write the data to this file, which appears once the checksum is verified; until then they are in FILE.part. Not with --count
    #[arg(long, value_name = "FILE", conflicts_with = "count")]
    out: Option<PathBuf>,
    /// Go on where an interrupted transfer ended, with what FILE.part has. A sender that connects needs --resume, too
    #[arg(long, requires = "out")]
    resume: bool,
    /// Write throughput against time to this file: JSON if the name ends in .json, else CSV. Not with --count
    #[arg(long, value_name = "FILE", conflicts_with = "count")]
    trace: Option<PathBuf>,
    /// Length of the intervals of --trace, from 1ms on
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    trace_interval: Duration,
    #[command(flatten)]
    socket: SocketArgs,
}

/// Receives and prints what came.
///
/// # Errors
/// If the input is wrong, the connection fails or the data does not verify.
pub fn run(args: &Args, output: &Output) -> Result<(), Failure> {
    let options = args.socket.options()?;
    if args.trace_interval < SHORTEST_INTERVAL {
        return Err(Failure::usage(format!("--trace-interval must be {SHORTEST_INTERVAL} or longer")));
    }
    let target = Target::open(args)?;
    // Data that have arrived are a result, whatever becomes of their trace.
    let traced = Mutex::new(Ok(()));
    let ended = match (&args.from, &args.listen) {
        (Some(from), _) => {
            let mut connected = args.socket.connect("--from", from, &options)?;
            request(&mut connected.stream, &target.beginning)?;
            let (peer, start) = (connected.peer, connected.start);
            vec![args.receive(&mut connected.stream, peer, start, target, (output, &traced))]
        }
        (None, Some(address)) => {
            args.socket.refuse_initial_window()?;
            let listener = args.listening.listen(address, &options)?;
            // Several transfers have no file.
            let first = Mutex::new(Some(target));
            args.listening.serve(&listener, &options, |mut stream, peer, start| {
                let target = first.lock().ok().and_then(|mut target| target.take()).unwrap_or_default();
                args.receive(&mut stream, peer, start, target, (output, &traced))
            })
        }
        (None, None) => return Err(Failure::usage("one of --from and --listen is needed")),
    };
    let traced = traced.into_inner().unwrap_or_else(PoisonError::into_inner);
    conclude(ended, output).and(traced)
}

impl Args {
    fn receive(
        &self,
        stream: &mut TcpStream,
        peer: SocketAddr,
        start: Instant,
        target: Target,
        (output, traced): (&Output, &Mutex<Result<(), Failure>>),
    ) -> Result<Transfer, Failure> {
        let Target { beginning, mut file, trace } = target;
        let bar = progress_bar(output, Bytes::ZERO);
        let progress = &mut |bytes: Bytes, total: Bytes| {
            bar.set_length(total.as_u64());
            bar.set_position(bytes.as_u64());
        };
        let mut nowhere = io::sink();
        let sink: &mut dyn Sink = match &mut file {
            Some(file) => file,
            None => &mut nowhere,
        };
        let received = receive(stream, start, Checksum::Sha256, beginning, sink, progress);
        bar.finish_and_clear();
        let received = match received {
            Ok(received) => received,
            Err(error) => return Err(interrupted(error, file)),
        };
        if let Some(file) = file.filter(|_| !received.verified) {
            file.discard();
        }
        if let Some((path, file)) = trace {
            let written = write_trace(&path, file, &received.trace, self.trace_interval);
            *traced.lock().unwrap_or_else(PoisonError::into_inner) = written;
        }
        let Received { begin, bytes, verified, .. } = received;
        Ok(Transfer::new(peer, begin, bytes, received.time_since(start), verified))
    }
}

/// Where the data and their trace go. What cannot be written is known before any connection.
struct Target {
    /// What `file` has already.
    beginning: Beginning,
    file: Option<PartialFile>,
    trace: Option<(PathBuf, File)>,
}

impl Default for Target {
    fn default() -> Self {
        Self { beginning: Beginning::none(), file: None, trace: None }
    }
}

impl Target {
    fn open(args: &Args) -> Result<Self, Failure> {
        let mut target = Self::default();
        if let Some(path) = &args.trace {
            if let Some(out) = &args.out {
                named_files::refuse_same("--trace", path, out, "the file of --out")?;
                named_files::refuse_same(
                    "--trace",
                    path,
                    &PartialFile::path_of(out)?,
                    "the file of --out while it arrives",
                )?;
            }
            let file = File::create(path).map_err(|error| file_failure(path, &error))?;
            target.trace = Some((path.clone(), file));
        }
        if let Some(path) = &args.out {
            let (file, beginning) = PartialFile::open(path, args.resume)?;
            (target.file, target.beginning) = (Some(file), beginning);
        }
        Ok(target)
    }
}

/// Why a transfer was interrupted, and what is left of it.
fn interrupted(error: TransferError, file: Option<PartialFile>) -> Failure {
    let Some(file) = file else { return error.into() };
    let path = file.path().display().to_string();
    let is_of_other_data = matches!(error, TransferError::Refused(Refusal::OtherBeginning));
    let failure = match error {
        TransferError::NotStored(error) => Failure::failed(format!("{path}: {error}")),
        error => Failure::from(error),
    };
    match file.keep() {
        // Resuming would be refused again.
        Some(_) if is_of_other_data => failure.followed_by(format!("to start over, remove {path}")),
        Some(kept) => failure.followed_by(kept),
        None => failure,
    }
}

fn write_trace(path: &Path, mut file: File, trace: &Trace, interval: Duration) -> Result<(), Failure> {
    let samples = trace.samples(interval);
    let text = if path.extension().is_some_and(|extension| extension == "json") {
        serde_json::to_string_pretty(&samples)
            .map_err(|error| Failure::failed(format!("the trace as JSON: {error}")))?
    } else {
        csv(&samples)
    };
    file.write_all(text.as_bytes()).map_err(|error| file_failure(path, &error))
}

fn csv(samples: &[Sample]) -> String {
    let mut text = String::from("time_s,bytes,throughput_bps\n");
    for Sample { time_s, bytes, throughput_bps } in samples {
        text.push_str(&format!("{time_s:.6},{bytes},{throughput_bps}\n"));
    }
    text
}

fn file_failure(path: &Path, error: &io::Error) -> Failure {
    Failure::unwritable(path.display(), error)
}
