//! `bentpipe receive`: the end of a transfer that wants the data.

use super::connection::{INITIAL_WINDOW_HELP, SocketArgs, Transfer, Transfers, progress_bar, resolve, serve};
use crate::output::{Failure, Output};
use clap::Args as ClapArgs;
use lab::transfer::{Checksum, Received, Sample, Trace, connect, listen, receive, request};
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Instant;
use units::{Bytes, Duration};

const EXAMPLES: &str = "\
Examples:
  bentpipe receive --listen 0.0.0.0:7000 --out picture.tif     from `bentpipe send --to ADDR:7000 picture.tif`
  bentpipe receive --from 192.0.2.1:7000 --trace rate.csv      from `bentpipe send --listen 192.0.2.1:7000 …`
  bentpipe receive --listen [::]:7000 --count 20 --json        twenty transfers, side by side
  bentpipe receive --from ADDR:7000 --receive-buffer 4MB";

/// Receive data from `bentpipe send`, verify its checksum and measure the goodput
#[derive(ClapArgs)]
#[command(after_help = format!("{EXAMPLES}\n\n{INITIAL_WINDOW_HELP}"))]
pub struct Args {
    /// Connect to the sender that listens at this address, and request its data
    #[arg(long, value_name = "ADDR:PORT", required_unless_present = "listen", conflicts_with = "listen")]
    from: Option<String>,
    /// Listen at this address for senders
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,
    /// With --listen: end after this many transfers
    #[arg(long, value_name = "N", default_value_t = 1, requires = "listen", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    count: u32,
    /// Write the data to this file, which appears once the checksum is verified
    #[arg(long, value_name = "FILE", conflicts_with = "count")]
    out: Option<PathBuf>,
    /// Write throughput against time to this file: JSON if the name ends in .json, else CSV
    #[arg(long, value_name = "FILE", conflicts_with = "count")]
    trace: Option<PathBuf>,
    /// Length of the intervals of --trace
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
    if args.trace_interval.is_zero() {
        return Err(Failure::usage("--trace-interval must be longer than 0s"));
    }
    let transfers = match (&args.from, &args.listen) {
        (Some(from), _) => {
            let peer = resolve("--from", from)?;
            let _window = args.socket.initial_window(peer)?;
            let (mut stream, start) = connect(peer, &options)?;
            request(&mut stream)?;
            Transfers { transfers: vec![args.receive(&mut stream, peer, start, output)?] }
        }
        (None, Some(address)) => {
            args.socket.refuse_initial_window()?;
            let listener = listen(resolve("--listen", address)?, &options)?;
            announce(&listener);
            serve(&listener, &options, args.count, |mut stream, peer, start| {
                args.receive(&mut stream, peer, start, output)
            })?
        }
        (None, None) => return Err(Failure::usage("one of --from and --listen is needed")),
    };
    output.result(&transfers, |_| &transfers)?;
    if transfers.transfers.iter().all(|transfer| transfer.verified) {
        Ok(())
    } else {
        Err(Failure::failed("the data did not verify: it is not what the sender sent"))
    }
}

/// Tells where `listener` listens, which matters where the port was left to the kernel.
pub fn announce(listener: &TcpListener) {
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, "listening");
    }
}

impl Args {
    fn receive(
        &self,
        stream: &mut TcpStream,
        peer: SocketAddr,
        start: Instant,
        output: &Output,
    ) -> Result<Transfer, Failure> {
        let mut sink = Sink::create(self.out.as_deref())?;
        let bar = progress_bar(output, Bytes::ZERO);
        let received = receive(stream, start, Checksum::Sha256, &mut sink, &mut |bytes, total| {
            bar.set_length(total.as_u64());
            bar.set_position(bytes.as_u64());
        });
        bar.finish_and_clear();
        let received = received?;
        if received.verified {
            sink.keep()?;
        }
        if let Some(path) = &self.trace {
            write_trace(path, &received.trace, self.trace_interval)?;
        }
        let Received { bytes, verified, .. } = received;
        Ok(Transfer::new(peer, bytes, received.time_since(start), verified))
    }
}

/// Where data goes: nowhere, or to a file beside the one asked for until it has verified.
struct Sink<'a> {
    target: Option<(&'a Path, PathBuf, File)>,
}

impl<'a> Sink<'a> {
    fn create(path: Option<&'a Path>) -> Result<Self, Failure> {
        let target = path.map(|path| -> Result<_, Failure> {
            let mut partial = path.to_owned().into_os_string();
            partial.push(".part");
            let partial = PathBuf::from(partial);
            let file = File::create(&partial).map_err(|error| file_failure(&partial, &error))?;
            Ok((path, partial, file))
        });
        Ok(Self { target: target.transpose()? })
    }

    /// Gives the file its name.
    fn keep(mut self) -> Result<(), Failure> {
        let Some((path, partial, _)) = self.target.take() else { return Ok(()) };
        fs::rename(&partial, path).map_err(|error| file_failure(path, &error))
    }
}

impl Drop for Sink<'_> {
    fn drop(&mut self) {
        if let Some((_, partial, _)) = &self.target {
            // What did not verify is not kept; if it cannot be removed either, its name says that it is partial.
            let _ = fs::remove_file(partial);
        }
    }
}

impl Write for Sink<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match &mut self.target {
            Some((_, _, file)) => file.write(data),
            None => Ok(data.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_trace(path: &Path, trace: &Trace, interval: Duration) -> Result<(), Failure> {
    let samples = trace.samples(interval);
    let text = if path.extension().is_some_and(|extension| extension == "json") {
        serde_json::to_string_pretty(&samples)
            .map_err(|error| Failure::failed(format!("the trace as JSON: {error}")))?
    } else {
        csv(&samples)
    };
    fs::write(path, text).map_err(|error| file_failure(path, &error))
}

fn csv(samples: &[Sample]) -> String {
    let mut text = String::from("time_s,bytes,throughput_bps\n");
    for Sample { time_s, bytes, throughput_bps } in samples {
        text.push_str(&format!("{time_s:.6},{bytes},{throughput_bps}\n"));
    }
    text
}

fn file_failure(path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("{}: {error}", path.display()))
}
