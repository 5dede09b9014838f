//! A log of every packet that came, and its replay through the same links in virtual time.
//!
//! It is text: two comment lines with the links as JSON, the names of the columns, then a line for each packet once its
//! fate is known. Times are nanoseconds since the emulator's start; those of departures are the model's.
//!
//! ```text
//! # up {"rate":"6Mbit/s","delay":"275ms",…}
//! # down {"rate":"6Mbit/s","delay":"275ms",…}
//! direction,number,arrived_ns,bytes,flow,fate,at_ns
//! up,0,1043511,1500,5577006791947779410,delivered,278043511
//! ```

use link::{ConfigError, DropReason, Link, LinkConfig, Outcome, Packet};
use std::io::{BufWriter, Write};
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::{io, mem, thread};
use units::{Bytes, Duration, Instant};

const COLUMNS: &str = "direction,number,arrived_ns,bytes,flow,fate,at_ns";
const NAMES: [&str; 2] = ["up", "down"];

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// The link delivered it.
    Delivered,
    /// The queue was full.
    QueueFull,
    /// Packets had waited too long.
    QueueDelay,
    /// The link lost it.
    Loss,
    /// The emulator had no memory for it: the link never saw it.
    MemoryLimit,
    /// It was still on its way when the emulation ended.
    InTransit,
}

impl Fate {
    const ALL: [(Fate, &str); 6] = [
        (Fate::Delivered, "delivered"),
        (Fate::QueueFull, "queue_full"),
        (Fate::QueueDelay, "queue_delay"),
        (Fate::Loss, "loss"),
        (Fate::MemoryLimit, "memory_limit"),
        (Fate::InTransit, "in_transit"),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(fate, _)| *fate == self).map_or("", |(_, name)| name)
    }

    pub(crate) fn of<P>(outcome: &Outcome<P>) -> Self {
        match outcome {
            Outcome::Departure { .. } => Fate::Delivered,
            Outcome::Drop { reason, .. } => match reason {
                DropReason::QueueFull => Fate::QueueFull,
                DropReason::QueueDelay => Fate::QueueDelay,
                DropReason::Loss => Fate::Loss,
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
    /// What became of it.
    pub fate: Fate,
    /// When it left, was dropped, or would have arrived.
    pub at: Duration,
}

impl Packet for Record {
    fn size(&self) -> Bytes {
        self.size
    }

    fn flow_hash(&self) -> u64 {
        self.flow
    }
}

/// Batches that may wait for the disk: with those of 4096 records, half a minute at 35,000 packets a second.
const WAITING_BATCHES: usize = 256;
const BATCH: usize = 4096;

/// Writes records from a thread of its own, so that a slow disk does not delay packets.
pub(crate) struct LogWriter {
    batches: SyncSender<Vec<(usize, Record)>>,
    batch: Vec<(usize, Record)>,
    unwritten: u64,
    thread: thread::JoinHandle<io::Result<()>>,
}

impl LogWriter {
    pub(crate) fn start(out: impl Write + Send + 'static, links: &[LinkConfig; 2]) -> io::Result<Self> {
        let mut out = BufWriter::new(out);
        for (name, link) in NAMES.iter().zip(links) {
            writeln!(out, "# {name} {}", serde_json::to_string(link).map_err(io::Error::other)?)?;
        }
        writeln!(out, "{COLUMNS}")?;
        let (batches, incoming) = mpsc::sync_channel::<Vec<(usize, Record)>>(WAITING_BATCHES);
        let thread = thread::Builder::new().name("arrival-log".to_owned()).spawn(move || {
            for (direction, record) in incoming.iter().flatten() {
                let Record { number, arrived, size, flow, fate, at } = record;
                let (name, fate, size) = (NAMES[direction], fate.name(), size.as_u64());
                let (arrived, at) = (arrived.as_nanos(), at.as_nanos());
                writeln!(out, "{name},{number},{arrived},{size},{flow},{fate},{at}")?;
            }
            out.flush()
        })?;
        Ok(Self { batches, batch: Vec::with_capacity(BATCH), unwritten: 0, thread })
    }

    /// Takes the records of a direction.
    pub(crate) fn take(&mut self, direction: usize, records: &mut Vec<Record>) {
        self.batch.extend(records.drain(..).map(|record| (direction, record)));
        if self.batch.len() >= BATCH {
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
        self.pass_on();
        drop(self.batches);
        self.thread.join().map_err(|_| io::Error::other("its thread panicked"))??;
        match self.unwritten {
            0 => Ok(()),
            unwritten => Err(io::Error::other(format!("the disk was too slow: {unwritten} packets are missing"))),
        }
    }
}

/// A log that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrivalLog {
    /// The links up and down.
    pub links: [LinkConfig; 2],
    /// The packets up and down, in the order in which they came.
    pub packets: [Vec<Record>; 2],
}

/// A log that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct LogError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: String,
}

/// A packet that met another fate, or another time, in the replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// `up` or `down`.
    pub direction: &'static str,
    /// The packet's number.
    pub number: u64,
    /// Fates and times in the log.
    pub logged: Vec<(Fate, Duration)>,
    /// Fates and times in the replay.
    pub replayed: Vec<(Fate, Duration)>,
}

impl ArrivalLog {
    /// Reads a log.
    ///
    /// # Errors
    /// Names the first line that is wrong.
    pub fn parse(text: &str) -> Result<Self, LogError> {
        let mut links = [None, None];
        let mut packets = [Vec::new(), Vec::new()];
        for (index, line) in text.lines().enumerate() {
            let error = |problem: String| LogError { line: index + 1, problem };
            if let Some(header) = line.strip_prefix("# ") {
                let (direction, json) = header.split_once(' ').unwrap_or((header, ""));
                let direction = direction_of(direction).map_err(error)?;
                links[direction] = Some(serde_json::from_str(json).map_err(|problem| error(problem.to_string()))?);
            } else if line != COLUMNS {
                let (direction, record) = record(line).map_err(error)?;
                packets[direction].push(record);
            }
        }
        packets.iter_mut().for_each(|packets| packets.sort_by_key(|record: &Record| record.number));
        let missing = || LogError { line: 1, problem: "it does not begin with both links".to_owned() };
        let [up, down] = links;
        Ok(Self { links: [up.ok_or_else(missing)?, down.ok_or_else(missing)?], packets })
    }

    /// Sends every packet through its link in virtual time, and compares fates and times.
    ///
    /// # Errors
    /// If the log's links are none.
    pub fn replay(&self) -> Result<Vec<Difference>, ConfigError> {
        let mut differences = Vec::new();
        for (direction, (config, logged)) in NAMES.into_iter().zip(self.links.iter().zip(&self.packets)) {
            let replayed = replay(config, logged)?;
            let (mut logged, mut replayed) = (logged.as_slice(), replayed.as_slice());
            while let Some(number) = logged.first().or(replayed.first()).map(|record| record.number) {
                let in_log = fates(take_number(&mut logged, number));
                let in_replay = fates(take_number(&mut replayed, number));
                let has_ended = in_log.iter().all(|(fate, _)| !matches!(fate, Fate::InTransit | Fate::MemoryLimit));
                if has_ended && in_log != in_replay {
                    differences.push(Difference { direction, number, logged: in_log, replayed: in_replay });
                }
            }
        }
        Ok(differences)
    }
}

/// What the link does with the packets of a log, by number.
fn replay(config: &LinkConfig, logged: &[Record]) -> Result<Vec<Record>, ConfigError> {
    let mut link = Link::new(config.clone())?;
    let mut replayed = Vec::new();
    let mut collect = |link: &mut Link<Record>, now| {
        while let Some(outcome) = link.poll(now) {
            let (fate, at) = (Fate::of(&outcome), outcome.at().since(Instant::ZERO));
            let (Outcome::Departure { packet, .. } | Outcome::Drop { packet, .. }) = outcome;
            replayed.push(Record { fate, at, ..packet });
        }
    };
    let mut latest = None;
    for record in logged.iter().filter(|record| record.fate != Fate::MemoryLimit) {
        // A copy has a record of its own, but came only once.
        if latest.replace(record.number) != Some(record.number) {
            let now = Instant::ZERO + record.arrived;
            collect(&mut link, now);
            link.enqueue(now, *record);
        }
    }
    while let Some(now) = link.next_timeout() {
        collect(&mut link, now);
    }
    replayed.sort_by_key(|record| record.number);
    Ok(replayed)
}

/// Takes the records of one number from the front.
fn take_number<'a>(records: &mut &'a [Record], number: u64) -> &'a [Record] {
    let count = records.iter().take_while(|record| record.number == number).count();
    let (taken, rest) = records.split_at(count);
    *records = rest;
    taken
}

fn fates(records: &[Record]) -> Vec<(Fate, Duration)> {
    let mut fates: Vec<_> = records.iter().map(|record| (record.fate, record.at)).collect();
    fates.sort_unstable();
    fates
}

fn direction_of(name: &str) -> Result<usize, String> {
    NAMES.iter().position(|known| *known == name).ok_or_else(|| format!("`{name}` is neither up nor down"))
}

fn record(line: &str) -> Result<(usize, Record), String> {
    let fields: Vec<_> = line.split(',').collect();
    let [direction, number, arrived, size, flow, fate, at] = fields[..] else {
        return Err(format!("it does not have the columns {COLUMNS}"));
    };
    let parse = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is not a whole number"));
    let known = Fate::ALL.iter().find(|(_, name)| *name == fate);
    let record = Record {
        number: parse(number)?,
        arrived: Duration::from_nanos(parse(arrived)?),
        size: Bytes::new(parse(size)?),
        flow: parse(flow)?,
        fate: known.ok_or_else(|| format!("`{fate}` is no fate"))?.0,
        at: Duration::from_nanos(parse(at)?),
    };
    Ok((direction_of(direction)?, record))
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rate;

    fn log(lines: &str) -> String {
        let link = LinkConfig::new(Rate::from_bps(12_000_000), Duration::from_millis(10));
        let json = serde_json::to_string(&link).expect("JSON");
        format!("# up {json}\n# down {json}\n{COLUMNS}\n{lines}")
    }

    #[test]
    fn a_replay_finds_what_differs() {
        let lines = "up,1,0,1500,0,delivered,12000000\nup,0,0,1500,0,delivered,11000000\ndown,0,5,1500,0,loss,11000005\n\
                     down,1,9,1500,0,memory_limit,9\ndown,2,2000000,1500,0,in_transit,13000000\n";
        let log = ArrivalLog::parse(&log(lines)).expect("a log");
        let ms = Duration::from_millis;
        assert_eq!(
            log.replay().expect("links"),
            [Difference {
                direction: "down",
                number: 0,
                logged: vec![(Fate::Loss, ms(11) + Duration::from_nanos(5))],
                replayed: vec![(Fate::Delivered, ms(11) + Duration::from_nanos(5))],
            }]
        );
    }

    #[test]
    fn a_broken_log_is_refused_by_line() {
        for (text, line, hint) in [
            (log("up,0,0,1500,0,delivered"), 4, "columns"),
            (log("up,0,0,1500,0,vanished,1"), 4, "vanished"),
            (log("over,0,0,1500,0,loss,1"), 4, "over"),
            (log("up,0,x,1500,0,loss,1"), 4, "`x`"),
            (COLUMNS.to_owned(), 1, "both links"),
            ("# up {}".to_owned(), 1, "delay"),
        ] {
            let error = ArrivalLog::parse(&text).expect_err(hint).to_string();
            assert!(error.starts_with(&format!("line {line}: ")) && error.contains(hint), "{error}");
        }
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
        let writer = LogWriter::start(Full, &[link.clone(), link]).expect("the header is buffered");
        assert!(writer.finish().expect_err("full").to_string().contains("no space"));
    }
}
