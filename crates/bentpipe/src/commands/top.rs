//! `bentpipe top`: a running gateway's link, peers, connections and events, live in a terminal.
//!
//! | file | idea |
//! | --- | --- |
//! | `history.rs` | what is known: the last state, rates, histories |
//! | `events.rs` | what happened between two states |
//! | `view.rs` | what the user wants to see, and the keys |
//! | `draw.rs`, `lists.rs` | the screen, a function of both |
//! | `figures.rs` | numbers and bars |
//! | this file | the terminal, the clock and the control socket |

mod draw;
mod events;
pub mod figures;
mod history;
mod lists;
#[cfg(test)]
mod tests;
mod view;

use crate::commands::gateway::Running;
use crate::output::{Failure, Output, is_terminal_dumb};
use history::History;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;
use units::Duration;
use view::View;

const LONG_ABOUT: &str = "\
Shows the link (rates, use, queueing delay, round trip, loss, repair), the peers, the relayed connections and what has happened since it was \
started. docs/monitoring.md explains the figures.

Keys: Tab next list, s next order, / filter, Space freeze, arrows and PgUp/PgDn scroll, q quit, Ctrl-Z to the shell (fg comes back). With 40 lines or more, all lists are shown; \
with 130 columns or more, all columns.";

/// Watch a running gateway live
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT)]
pub struct Args {
    #[command(flatten)]
    gateway: Running,
    /// Time between two samples
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    interval: Duration,
}

/// The shortest interval: rates of less are noise.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
/// A terminal is looked at for keys, signals and samples at least this often.
const GLANCE: Duration = Duration::from_millis(100);
/// Ages go on without samples.
const REDRAW: Duration = Duration::from_secs(1);

/// Watches a gateway until the user has seen enough.
///
/// # Errors
/// If there is no terminal, or it is not clear which gateway is meant.
pub fn run(args: &Args, output: &Output) -> Result<(), Failure> {
    if output.is_json() {
        return Err(Failure::usage("top draws on a terminal; for programs: bentpipe gateway status --json"));
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Failure::usage("top needs a terminal; without one: bentpipe gateway status"));
    }
    if is_terminal_dumb() {
        return Err(Failure::usage(
            "top cannot draw on this terminal (TERM=dumb); without drawing: bentpipe gateway status",
        ));
    }
    let socket = args.gateway.socket()?;
    let asked = Asked::on_signals().map_err(|error| Failure::failed(format!("cannot catch signals: {error}")))?;
    let samples = sample(socket, args.interval.max(MIN_INTERVAL))
        .map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))?;
    // It also restores the terminal before a panic is printed.
    let mut terminal = ratatui::try_init().map_err(|error| Failure::failed(format!("terminal: {error}")))?;
    let outcome = watch(&mut terminal, &samples, &asked);
    ratatui::restore();
    outcome.map_err(|error| Failure::failed(format!("terminal: {error}")))
}

/// What signals have asked for.
#[derive(Debug, Default)]
struct Asked {
    to_end: Arc<AtomicBool>,
    to_stop: Arc<AtomicBool>,
}

impl Asked {
    fn on_signals() -> io::Result<Self> {
        let asked = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            signal_hook::flag::register(signal, Arc::clone(&asked.to_end))?;
        }
        signal_hook::flag::register(SIGTSTP, Arc::clone(&asked.to_stop))?;
        Ok(asked)
    }
}

/// Gives the terminal back as it was and stops the process, as Ctrl-Z does; takes the terminal again when the process is continued.
fn stop(terminal: &mut DefaultTerminal) -> io::Result<()> {
    ratatui::try_restore()?;
    signal_hook::low_level::emulate_default_handler(SIGTSTP)?;
    *terminal = ratatui::try_init()?;
    Ok(())
}

type Sample = Result<gateway::Snapshot, String>;

/// Asks the gateway again and again on a thread of its own, which ends when nobody listens: an answer may take seconds.
fn sample(socket: PathBuf, interval: Duration) -> io::Result<mpsc::Receiver<Sample>> {
    let (sender, samples) = mpsc::sync_channel(1);
    let ask = move || {
        while sender.send(gateway::snapshot(&socket).map_err(|error| why(&socket, &error))).is_ok() {
            std::thread::sleep(interval.into());
        }
    };
    std::thread::Builder::new().name("samples".into()).spawn(ask)?;
    Ok(samples)
}

/// Why a gateway does not answer, in a few words.
fn why(socket: &Path, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => format!("none serves {}", socket.display()),
        _ => format!("{}: {error}", socket.display()),
    }
}

/// Draws after each sample and key, until the user or a signal ends it.
fn watch(terminal: &mut DefaultTerminal, samples: &mpsc::Receiver<Sample>, asked: &Asked) -> io::Result<()> {
    let started = Instant::now();
    let (mut history, mut view) = (History::default(), View::default());
    let mut drawn = None;
    while !view.is_over && !asked.to_end.load(Ordering::Relaxed) {
        if std::mem::take(&mut view.stops) | asked.to_stop.swap(false, Ordering::Relaxed) {
            stop(terminal)?;
            drawn = None;
        }
        let now = Duration::from_secs_f64(started.elapsed().as_secs_f64());
        for sample in samples.try_iter() {
            history.take(now, sample);
            drawn = None;
        }
        if drawn.is_none_or(|drawn| now - drawn >= REDRAW) {
            drawn = Some(now);
            let mut shown = lists::Shown::default();
            let seen = view.frozen.as_deref().unwrap_or(&history);
            terminal.draw(|frame| shown = draw::draw(frame, seen, &view, now))?;
            view.limit_scrolling(shown.rows, shown.fit);
        }
        wait_for_input(GLANCE)?;
        while event::poll(std::time::Duration::ZERO)? {
            // A key, or another size of the terminal.
            if let Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
            {
                view.on_key(key, &history);
            }
            drawn = None;
        }
    }
    Ok(())
}

/// Waits until there may be something to read, a signal has come or `limit` is over.
///
/// # Errors
/// If the terminal is gone: crossterm would try to read from it for ever.
fn wait_for_input(limit: Duration) -> io::Result<()> {
    let limit = Timespec { tv_sec: 0, tv_nsec: limit.as_nanos() as i64 };
    let stdin = io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    match rustix::event::poll(&mut polled, Some(&limit)) {
        Ok(_) if polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) => {
            Err(io::Error::other("it is gone"))
        }
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
