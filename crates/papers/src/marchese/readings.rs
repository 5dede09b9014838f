//! What the paper leaves open (round-trip time, segments, clock, the window of short files), and which reading of it fits
//! which table.

use super::gains::TABLES;
use super::rounds::Transfer;
use super::transfers::Experiment;
use crate::{Error, Found, Reproduction, printed::Item};
use units::Bytes;

/// A reading but for its round-trip time.
#[derive(Debug, Clone, Copy)]
struct Reading {
    mss: u64,
    clock: Clock,
    /// Whether half the buffer is the window of the short files, too.
    halves_short: bool,
    /// What 100 kB are.
    short: Bytes,
}

#[derive(Debug, Clone, Copy)]
enum Clock {
    /// From the connect to the receiver's last byte.
    ConnectToArrival,
    /// From the established connection to the sender's last acknowledgement.
    EstablishedToAcknowledgement,
}

impl Reading {
    fn named(name: &str) -> Option<Self> {
        let a = Self { mss: 1448, clock: Clock::ConnectToArrival, halves_short: false, short: Bytes::new(102_400) };
        match name {
            "A" => Some(a),
            "B" => Some(Self { halves_short: true, ..a }),
            "C" => Some(Self {
                mss: 1024,
                clock: Clock::EstablishedToAcknowledgement,
                halves_short: true,
                short: Bytes::new(100_000),
            }),
            _ => None,
        }
    }

    /// The transmission time of `transfer`, whose window is half the buffer, in seconds.
    fn time(self, transfer: Transfer, rtt: f64) -> f64 {
        let is_short = transfer.size < Bytes::new(1_000_000);
        let halves = if is_short && !self.halves_short { 2 } else { 1 };
        let size = if is_short { self.short } else { transfer.size };
        let transfer = Transfer { size, mss: self.mss, window: transfer.window * halves, rtt, ..transfer };
        match self.clock {
            Clock::ConnectToArrival => transfer.time() + rtt - rtt / 2.0,
            Clock::EstablishedToAcknowledgement => transfer.time(),
        }
    }
}

/// For each reading and round-trip time the largest deviation of tables from what is printed, in percent, by the rounds
/// model. What contradicts the paper itself, and what overflows the router, is left out.
pub fn readings(item: &Item) -> Result<Reproduction, Error> {
    let mut found = Vec::new();
    for entry in &item.entries {
        let unknown =
            || Error::Input(format!("entry `{}`: it is no reading such as `A, 0.57 s, table III`", entry.key));
        let [reading, rtt, tables] = entry.key.splitn(3, ", ").collect::<Vec<_>>()[..] else { return Err(unknown()) };
        let reading = Reading::named(reading).ok_or_else(unknown)?;
        let rtt = rtt.strip_suffix(" s").and_then(|rtt| rtt.parse().ok()).ok_or_else(unknown)?;
        let tables: &[&str] = if tables == "tables IV and V" { &["table IV", "table V"] } else { &[tables] };
        let mut largest = 0.0_f64;
        for table in tables {
            let (_, name, _, experiment) = TABLES.iter().find(|known| known.0 == *table).ok_or_else(unknown)?;
            largest = largest.max(largest_deviation(name, experiment, reading, rtt)?);
        }
        found.push(Found::new(&entry.key).model(largest * 100.0));
    }
    let remarks = [
        "A: segments of 1448 bytes, timed from the connect to the receiver's last byte. The window is half the buffer, but all of \
         it for 100 kB, which are 102,400 bytes. Table III then asks for a round-trip time of 0.57 s, the long transfers for 0.55 s.",
        "B: as A, with half the buffer for 100 kB, too: 19 % off.",
        "C: segments of 1024 bytes, timed from the established connection to the sender's last acknowledgement, half the buffer \
         throughout, as the paper measured it (32 kB). One round-trip time, 0.535 s, fits every table: twice the paper's 250 ms \
         for a hop, and 35 ms for modems and routers. All other items have this reading. The emulator's table VII alone would \
         fit best with 0.55 s.",
    ];
    Ok(Reproduction { found, charts: Vec::new(), remarks: remarks.map(str::to_owned).into() })
}

fn largest_deviation(name: &str, experiment: &Experiment, reading: Reading, rtt: f64) -> Result<f64, Error> {
    let variants = experiment.variants()?;
    let mut largest = 0.0_f64;
    for (key, printed) in super::consistent_values(name)? {
        let scenario = variants.get(&experiment.fixed.with_key(&key)?.variant())?;
        let transfer = Transfer::of(&scenario).ok_or_else(|| Error::failed(format!("{name}: {key} is no transfer")))?;
        largest = largest.max((reading.time(transfer, rtt) / printed - 1.0).abs());
    }
    Ok(largest)
}
