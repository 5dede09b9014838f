//! A log of every packet that came and that a link took.
//!
//! It is text: two comment lines with the links (or carriers and their terminals) as JSON, the names of the columns, then a
//! line for each packet once its outcome is known. Times are nanoseconds since the emulator's start; those of departures are the
//! model's.
//!
//! ```text
//! # up {"rate":"6Mbit/s","delay":"275ms",…}
//! # down {"rate":"6Mbit/s","delay":"275ms",…}
//! direction,number,arrived_ns,bytes,flow,ecn,outcome,at_ns
//! up,0,1043511,1500,5577006791947779410,0,delivered,278043511
//! ```
//!
//! If terminals are distinguished in at least one direction, a last column `terminal` has the name of the packet's, nothing
//! for those of no terminal.

use crate::path::{PathModel, terminals};
use link::{DropReason, Outcome, Packet};
use std::io::{BufWriter, Write};
use std::sync::mpsc::{self, Receiver, SendError, SyncSender, TrySendError};
use std::{io, mem, thread};
use units::{Bytes, Duration, Ecn, Instant};

const COLUMNS: &str = "direction,number,arrived_ns,bytes,flow,ecn,outcome,at_ns";
pub(crate) const DIRECTIONS: [&str; 2] = ["up", "down"];

/// The names of the columns, and those of the terminals that packets of each direction may belong to.
pub(crate) fn columns(paths: &[PathModel; 2]) -> (String, [Vec<String>; 2]) {
    let names = terminals(paths).map(|terminals| terminals.iter().map(|terminal| terminal.name.clone()).collect());
    let last = if has_terminals(&names) { ",terminal" } else { "" };
    (format!("{COLUMNS}{last}"), names)
}

pub(crate) fn has_terminals(names: &[Vec<String>; 2]) -> bool {
    names.iter().any(|names| !names.is_empty())
}

/// The outcome of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoggedOutcome {
    /// The link delivered it.
    Delivered,
    /// The link delivered it, and its queue has marked it.
    Marked,
    /// The queue was full.
    QueueFull,
    /// Packets had waited too long.
    QueueDelay,
    /// It exceeded the policer's rate.
    Policed,
    /// The link lost it.
    Loss,
    /// The emulator had no memory for it: the link never saw it.
    MemoryLimit,
    /// It was still on its way when the emulation ended.
    InTransit,
}

impl LoggedOutcome {
    pub(crate) const ALL: [(LoggedOutcome, &str); 8] = [
        (LoggedOutcome::Delivered, "delivered"),
        (LoggedOutcome::Marked, "marked"),
        (LoggedOutcome::QueueFull, "queue_full"),
        (LoggedOutcome::QueueDelay, "queue_delay"),
        (LoggedOutcome::Policed, "policed"),
        (LoggedOutcome::Loss, "loss"),
        (LoggedOutcome::MemoryLimit, "memory_limit"),
        (LoggedOutcome::InTransit, "in_transit"),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(outcome, _)| *outcome == self).map_or("", |(_, name)| name)
    }

    /// Of a packet that came with the codepoint `ecn`.
    pub(crate) fn of<P: Packet>(outcome: &Outcome<P>, ecn: Ecn) -> Self {
        match outcome {
            Outcome::Departure { packet, .. } if packet.ecn().is_marked() && !ecn.is_marked() => LoggedOutcome::Marked,
            Outcome::Departure { .. } => LoggedOutcome::Delivered,
            Outcome::Drop { reason, .. } => match reason {
                DropReason::QueueFull => LoggedOutcome::QueueFull,
                // An emulated link supersedes nothing, for it has no `acks`, and does not go down.
                DropReason::QueueDelay | DropReason::Superseded => LoggedOutcome::QueueDelay,
                DropReason::Policed => LoggedOutcome::Policed,
                DropReason::Loss | DropReason::Down => LoggedOutcome::Loss,
            },
        }
    }
}

/// One packet of the log. A packet that was duplicated has a record for each copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Its number among the packets that came from this direction.
    pub number: u64,
    /// When it came, after the start.
    pub arrived: Duration,
    /// The size of the IP packet.
    pub size: Bytes,
    /// Its flow, as fair queues see it.
    pub flow: u64,
    /// The codepoint that it came with.
    pub ecn: Ecn,
    /// Its outcome.
    pub outcome: LoggedOutcome,
    /// When it left, was dropped, or would have arrived.
    pub at: Duration,
    /// Whose it is, by the terminal's number in the settings of its direction or, where all share a link there, of the
    /// other; `None` if terminals are not distinguished, or the packet is none's.
    pub terminal: Option<usize>,
}

/// Batches that may wait for the disk: with those of 4096 records, half a minute at 35,000 packets a second.
const WAITING_BATCHES: usize = 256;
const BATCH: usize = 4096;
/// How long a record waits for others at most, so that a run that is killed leaves all but its last second.
const INTERVAL: Duration = Duration::from_secs(1);

/// Writes records from a thread of its own, so that a slow disk does not delay packets.
pub(crate) struct LogWriter {
    batches: SyncSender<Vec<(usize, Record)>>,
    batch: Vec<(usize, Record)>,
    passed_on: Instant,
    unwritten: u64,
    thread: thread::JoinHandle<io::Result<()>>,
}

impl LogWriter {
    pub(crate) fn start(out: impl Write + Send + 'static, paths: &[PathModel; 2]) -> io::Result<Self> {
        let mut out = BufWriter::new(out);
        for (name, path) in DIRECTIONS.iter().zip(paths) {
            writeln!(out, "# {name} {}", serde_json::to_string(path).map_err(io::Error::other)?)?;
        }
        let (columns, names) = columns(paths);
        writeln!(out, "{columns}")?;
        let (batches, incoming) = mpsc::sync_channel::<Vec<(usize, Record)>>(WAITING_BATCHES);
        let thread = thread::Builder::new().name("arrival-log".to_owned()).spawn(move || {
            let written = write_batches(&mut out, incoming, &names);
            if let Err(error) = &written {
                // The emulation may go on for hours.
                tracing::warn!("arrival log: {error}: packets from now on are missing from it");
            }
            written
        })?;
        let batch = Vec::with_capacity(BATCH);
        Ok(Self { batches, batch, passed_on: Instant::ZERO, unwritten: 0, thread })
    }

    /// Takes the records of a direction at `now`.
    pub(crate) fn take(&mut self, now: Instant, direction: usize, records: &mut Vec<Record>) {
        self.batch.extend(records.drain(..).map(|record| (direction, record)));
        let is_due = now.since(self.passed_on) >= INTERVAL && !self.batch.is_empty();
        if is_due || self.batch.len() >= BATCH {
            self.passed_on = now;
            self.pass_on();
        }
    }

    fn pass_on(&mut self) {
        let batch = mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        if let Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) = self.batches.try_send(batch) {
            self.unwritten += batch.len() as u64;
        }
    }

    /// Writes what is left, and says whether all was written.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        // No packet waits for the disk any more.
        if let Err(SendError(batch)) = self.batches.send(self.batch) {
            self.unwritten += batch.len() as u64;
        }
        drop(self.batches);
        self.thread.join().map_err(|_| io::Error::other("its thread panicked"))??;
        match self.unwritten {
            0 => Ok(()),
            unwritten => Err(io::Error::other(format!("the disk was too slow: {unwritten} packets are missing"))),
        }
    }
}

fn write_batches(
    out: &mut impl Write,
    batches: Receiver<Vec<(usize, Record)>>,
    names: &[Vec<String>; 2],
) -> io::Result<()> {
    for batch in batches {
        for (direction, record) in batch {
            write_record(out, direction, &record, names)?;
        }
        out.flush()?;
    }
    out.flush()
}

fn write_record(out: &mut impl Write, direction: usize, record: &Record, names: &[Vec<String>; 2]) -> io::Result<()> {
    let Record { number, arrived, size, flow, ecn, outcome, at, terminal } = record;
    let (name, outcome, size) = (DIRECTIONS[direction], outcome.name(), size.as_u64());
    let (arrived, ecn, at) = (arrived.as_nanos(), ecn.bits(), at.as_nanos());
    write!(out, "{name},{number},{arrived},{size},{flow},{ecn},{outcome},{at}")?;
    if has_terminals(names) {
        write!(out, ",{}", terminal.map_or("", |terminal| &names[direction][terminal]))?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use link::LinkConfig;
    use units::Rate;

    /// A disk that takes nothing until it is let go.
    struct Stalled {
        reached: SyncSender<()>,
        released: Option<Receiver<()>>,
    }

    impl Write for Stalled {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if let Some(released) = self.released.take() {
                self.reached.send(()).expect("the test waits");
                let _ = released.recv();
            }
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_end_waits_for_a_disk_that_has_stalled_and_loses_no_packet() {
        let (reached, reaches) = mpsc::sync_channel(1);
        let (release, released) = mpsc::sync_channel(1);
        let link = LinkConfig::new(Rate::from_bps(1_000), Duration::ZERO);
        let disk = Stalled { reached, released: Some(released) };
        let mut writer = LogWriter::start(disk, &[link.clone(), link].map(PathModel::from)).expect("buffered");
        let record = Record {
            number: 0,
            arrived: Duration::ZERO,
            size: Bytes::new(1500),
            flow: 0,
            ecn: Ecn::NotCapable,
            outcome: LoggedOutcome::InTransit,
            at: Duration::ZERO,
            terminal: None,
        };
        let mut batch = |number: u64| writer.take(Instant::ZERO + INTERVAL * number, 0, &mut vec![record]);
        batch(1);
        reaches.recv().expect("the first batch is being written");
        (2..=WAITING_BATCHES as u64 + 1).for_each(&mut batch);
        // Not yet due, so that it is the last one's.
        writer.take(Instant::ZERO, 0, &mut vec![record]);
        let release = thread::spawn(move || {
            thread::sleep(std::time::Duration::from_millis(100));
            release.send(()).expect("the disk waits");
        });
        writer.finish().expect("all is written");
        release.join().expect("released");
    }

    #[test]
    fn what_cannot_be_written_is_reported() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::Error::other("no space"))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let link = LinkConfig::new(Rate::from_bps(1_000), Duration::ZERO);
        let writer =
            LogWriter::start(Full, &[link.clone(), link].map(PathModel::from)).expect("the header is buffered");
        assert!(writer.finish().expect_err("full").to_string().contains("no space"));
    }
}
