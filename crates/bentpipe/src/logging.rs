//! Log lines on stderr.

use crate::output::is_colour_unwanted;
use clap::{Args, ValueEnum};
use std::fs::File;
use std::io::{self, IsTerminal, Stderr, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{PoisonError, RwLock};
use std::thread;
use std::time::Duration;
use tracing::Event;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// What is logged, and how.
#[derive(Args, Clone)]
pub struct LogOptions {
    /// Log more on stderr (-v: causes, -vv: every step); the environment variable BENTPIPE_LOG overrides it
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = "Output")]
    verbose: u8,
    /// Format of log lines on stderr
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, help_heading = "Output")]
    log_format: LogFormat,
}

/// The form of log lines.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// Text for people
    Text,
    /// One JSON object per line
    Json,
}

/// Log lines that wait for a reader in the background: some seconds of everything that a busy gateway says with -vv. Further ones are lost.
const LINES_THAT_WAIT: usize = 8192;

/// How long the end of the command waits for its last lines to be written.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where lines go while a thread writes them.
static QUEUE: RwLock<Option<SyncSender<Vec<u8>>>> = RwLock::new(None);
/// How many lines found the queue full.
static LOST: AtomicUsize = AtomicUsize::new(0);

/// Starts logging to stderr at the level that the user asked for.
pub fn start(options: &LogOptions) {
    let level = [LevelFilter::INFO, LevelFilter::DEBUG, LevelFilter::TRACE][usize::from(options.verbose.min(2))];
    // The painter of pictures warns of dashes that have no length.
    let usual = || Targets::new().with_default(level).with_target("tiny_skia", LevelFilter::ERROR);
    let wanted = std::env::var("BENTPIPE_LOG").ok().filter(|text| !text.is_empty());
    let (filter, fault) = match wanted.as_deref().map(str::parse::<Targets>) {
        None => (usual(), None),
        Some(Ok(filter)) => (filter, None),
        Some(Err(fault)) => (usual(), Some(fault)),
    };
    let builder = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(Lines)
        // The subscriber would say by a panic that stderr cannot be written, and end a gateway whose log is on a full disk.
        .log_internal_errors(false)
        .with_ansi(io::stderr().is_terminal() && !is_colour_unwanted());
    match options.log_format {
        LogFormat::Text => builder.finish().with(Losses::default()).with(filter).init(),
        LogFormat::Json => builder.json().finish().with(Losses::default()).with(filter).init(),
    }
    if let Some(fault) = fault {
        tracing::warn!(%fault, "BENTPIPE_LOG is ignored: it takes a level, or target=level with commas between them");
    }
}

/// While it lives, a thread writes the log, so that nothing else waits for a reader that stalls: a terminal after Ctrl-S, or a log
/// collector that hangs.
#[must_use]
pub struct InBackground {
    /// Ends when all is written.
    done: Receiver<()>,
}

/// Has a thread write the log from now on. It has the privileges that the process has now.
///
/// # Errors
/// If the thread cannot be started.
pub fn in_background() -> io::Result<InBackground> {
    // Not through the standard library's stderr: its lock would be held while a write waits.
    let mut stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    let (queue, lines) = sync_channel::<Vec<u8>>(LINES_THAT_WAIT);
    let (writes, done) = channel();
    let write = move || {
        let _writes = writes;
        for line in lines {
            // Where it cannot be written, as on a full disk, the command goes on all the same.
            let _ = stderr.write_all(&line);
        }
    };
    thread::Builder::new().name("log".into()).spawn(write)?;
    *QUEUE.write().unwrap_or_else(PoisonError::into_inner) = Some(queue);
    Ok(InBackground { done })
}

impl Drop for InBackground {
    fn drop(&mut self) {
        // The thread ends behind the last line.
        *QUEUE.write().unwrap_or_else(PoisonError::into_inner) = None;
        let _ = self.done.recv_timeout(PATIENCE);
    }
}

/// Makes the writer of each line.
struct Lines;

/// Writes a line.
enum Line {
    AtOnce(Stderr),
    InBackground(SyncSender<Vec<u8>>),
}

impl MakeWriter<'_> for Lines {
    type Writer = Line;

    fn make_writer(&self) -> Line {
        match &*QUEUE.read().unwrap_or_else(PoisonError::into_inner) {
            None => Line::AtOnce(io::stderr()),
            Some(queue) => Line::InBackground(queue.clone()),
        }
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::AtOnce(stderr) => stderr.write(bytes),
            Self::InBackground(queue) => {
                if queue.try_send(bytes.to_vec()).is_err() {
                    LOST.fetch_add(1, Ordering::Relaxed);
                }
                Ok(bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::AtOnce(stderr) => stderr.flush(),
            Self::InBackground(_) => Ok(()),
        }
    }
}

/// Says how many lines were lost, once lines are written again.
#[derive(Default)]
struct Losses {
    /// How many had been lost by the last line.
    seen: AtomicUsize,
    /// How many were said to be.
    said: AtomicUsize,
}

impl<S: tracing::Subscriber> Layer<S> for Losses {
    fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
        let lost = LOST.load(Ordering::Relaxed);
        let is_over = self.seen.swap(lost, Ordering::Relaxed) == lost;
        if is_over && self.said.swap(lost, Ordering::Relaxed) < lost {
            tracing::warn!(lines = lost, "log lines dropped since the start: the reader of stderr is too slow");
        }
    }
}
