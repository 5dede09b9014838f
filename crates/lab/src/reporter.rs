//! The reporter of the emulated link's capacity to the gateways, at each change.

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

/// How often the link is polled, and how often an unchanged capacity is reported again.
const PERIOD: Duration = Duration::from_millis(5);
const REPEAT: Duration = Duration::from_secs(5);

/// Reports until it is dropped.
pub(crate) struct Reporter {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Reporter {
    /// Reports the capacity of the link to the gateway that listens at `hub`, and to those at `terminals`.
    ///
    /// # Errors
    /// If a gateway does not listen, or no thread can be started.
    pub(crate) fn start(monitor: Monitor, hub: &PathBuf, terminals: &[PathBuf]) -> Result<Self, Error> {
        let connect = |path: &PathBuf, is_hub| {
            let stream = UnixStream::connect(path).map_err(|error| {
                Error::failed(format!("link updates of the gateway at {}: {error}", path.display()))
            })?;
            Ok::<_, Error>((is_hub, BufReader::new(stream)))
        };
        let streams = terminals.iter().map(|path| connect(path, false)).chain([connect(hub, true)]);
        let mut streams = streams.collect::<Result<Vec<_>, _>>()?;
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let report_changes = move || {
            let mut reported = None;
            while !flag.load(Ordering::Relaxed) {
                // Gateways over a carrier have one terminal, the first.
                let rates = capacity(monitor.rates(), monitor.allocated(0));
                if reported.is_none_or(|(before, at): (_, Instant)| before != rates || at.elapsed() >= REPEAT) {
                    reported = Some((rates, Instant::now()));
                    // A gateway that has ended is noticed by who measures.
                    streams.retain_mut(|(is_hub, stream)| report(stream, rates, *is_hub).is_ok());
                }
                thread::sleep(PERIOD);
            }
        };
        let thread = thread::Builder::new().name("modems".into()).spawn(report_changes).map_err(Error::failed)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

/// What the gateways have up and down: of links with these `rates`, or up what the terminal of a carrier is `allocated`. `None` where
/// it is unknown, or nothing yet.
fn capacity([up, down]: [Option<Rate>; 2], allocated: Option<Rate>) -> [Option<Rate>; 2] {
    [allocated.or(up).filter(|rate| *rate > Rate::ZERO), down]
}

/// Reports to one gateway, and waits for its answer.
fn report(stream: &mut BufReader<UnixStream>, [up, down]: [Option<Rate>; 2], is_hub: bool) -> std::io::Result<()> {
    let (sends, receives) = if is_hub { (down, up) } else { (up, down) };
    let (Some(sends), Some(receives)) = (sends, receives) else { return Ok(()) };
    let (sends, receives) = (sends.as_bps(), receives.as_bps());
    writeln!(stream.get_mut(), "{{\"rate\": \"{sends}bit/s\", \"receive_rate\": \"{receives}bit/s\"}}")?;
    stream.read_line(&mut String::new()).map(drop)
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has nothing to say in the end.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_of_a_carrier_has_what_it_is_allocated() {
        let [carrier, terminal, down] = [8_000_000, 2_000_000, 30_000_000].map(|bps| Some(Rate::from_bps(bps)));
        assert_eq!(capacity([carrier, down], terminal), [terminal, down]);
        assert_eq!(capacity([carrier, down], Some(Rate::ZERO)), [None, down], "before its first plan");
        assert_eq!(capacity([terminal, down], None), [terminal, down], "a link of its own");
    }
}
