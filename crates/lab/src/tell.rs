//! The modems' word: what the emulated link carries now, told to the gateways at each change.

use crate::Error;
use emulator::Monitor;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use units::Rate;

/// How often the link is looked at, and how often what has not changed is said again.
const PERIOD: Duration = Duration::from_millis(5);
const REPEAT: Duration = Duration::from_secs(5);

/// Tells until it is dropped.
pub(crate) struct Teller {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Teller {
    /// Tells the gateway that listens at `hub`, and those at `terminals`, what the link carries.
    ///
    /// # Errors
    /// If a gateway does not listen, or no thread can be started.
    pub(crate) fn start(monitor: Monitor, hub: &PathBuf, terminals: &[PathBuf]) -> Result<Self, Error> {
        let connect = |path: &PathBuf, is_hub| {
            let stream = UnixStream::connect(path)
                .map_err(|error| Error::failed(format!("gateway feed {}: {error}", path.display())))?;
            Ok::<_, Error>((is_hub, BufReader::new(stream)))
        };
        let feeds = terminals.iter().map(|path| connect(path, false)).chain([connect(hub, true)]);
        let mut feeds = feeds.collect::<Result<Vec<_>, _>>()?;
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let tell = move || {
            let mut told = None;
            while !flag.load(Ordering::Relaxed) {
                // Of a carrier, what its first terminal has: gateways over a carrier have one.
                let [up, down] = monitor.rates();
                let rates = [up.or_else(|| monitor.allocated(0)).filter(|rate| *rate > Rate::ZERO), down];
                if told.is_none_or(|(before, at): (_, Instant)| before != rates || at.elapsed() >= REPEAT) {
                    told = Some((rates, Instant::now()));
                    // A gateway that has ended is noticed by who measures.
                    feeds.retain_mut(|(is_hub, feed)| say(feed, rates, *is_hub).is_ok());
                }
                thread::sleep(PERIOD);
            }
        };
        let thread = thread::Builder::new().name("modems".into()).spawn(tell).map_err(Error::failed)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

/// Tells one gateway, and waits for its answer.
fn say(feed: &mut BufReader<UnixStream>, [up, down]: [Option<Rate>; 2], is_hub: bool) -> std::io::Result<()> {
    let (sends, receives) = if is_hub { (down, up) } else { (up, down) };
    let (Some(sends), Some(receives)) = (sends, receives) else { return Ok(()) };
    let (sends, receives) = (sends.as_bps(), receives.as_bps());
    writeln!(feed.get_mut(), "{{\"up\": \"{sends}bit/s\", \"down\": \"{receives}bit/s\"}}")?;
    feed.read_line(&mut String::new()).map(drop)
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has nothing to say in the end.
            let _ = thread.join();
        }
    }
}
