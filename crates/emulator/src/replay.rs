//! Reading the log of arrivals, and its replay through the same links in virtual time.

use crate::arrival_log::{DIRECTIONS, LoggedOutcome, Record, columns, has_terminals};
use crate::path::{Path, PathModel};
use crate::terminal::PathError;
use link::{Outcome, Packet};
use serde_json::Value;
use units::{Bytes, Duration, Ecn, Instant};

/// A log that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrivalLog {
    /// What goes up and down.
    pub paths: [PathModel; 2],
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

/// A packet that met another outcome, or another time, in the replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// `up` or `down`.
    pub direction: &'static str,
    /// The packet's number.
    pub number: u64,
    /// Outcomes and times in the log.
    pub logged: Vec<(LoggedOutcome, Duration)>,
    /// Outcomes and times in the replay.
    pub replayed: Vec<(LoggedOutcome, Duration)>,
}

impl ArrivalLog {
    /// Reads a log.
    ///
    /// # Errors
    /// Names the first line that is wrong.
    pub fn parse(text: &str) -> Result<Self, LogError> {
        let mut paths = [None, None];
        let mut lines = text.lines().zip(1..).peekable();
        while let Some((header, line)) = lines.next_if(|(line, _)| line.starts_with("# ")) {
            let error = |problem: String| LogError { line, problem };
            let (direction, json) = header[2..].split_once(' ').unwrap_or((&header[2..], ""));
            let direction = direction_of(direction).map_err(error)?;
            paths[direction] = Some(path(json).map_err(|problem| error(problem.to_string()))?);
        }
        let [Some(up), Some(down)] = paths else {
            return Err(LogError { line: 1, problem: "it does not begin with both links".to_owned() });
        };
        let paths = [up, down];
        let (columns, names) = columns(&paths);
        let mut packets = [Vec::new(), Vec::new()];
        for (row, line) in lines.filter(|(row, _)| *row != columns) {
            let (direction, record) = record(row, &paths, &names).map_err(|problem| LogError { line, problem })?;
            packets[direction].push(record);
        }
        packets.iter_mut().for_each(|packets| packets.sort_by_key(|record: &Record| record.number));
        Ok(Self { paths, packets })
    }

    /// Sends every packet through its link in virtual time, and compares outcomes and times.
    ///
    /// # Errors
    /// If the log's links are none.
    pub fn replay(&self) -> Result<Vec<Difference>, PathError> {
        let mut differences = Vec::new();
        for (direction, (config, logged)) in DIRECTIONS.into_iter().zip(self.paths.iter().zip(&self.packets)) {
            let replayed = replay(config, logged)?;
            let (mut logged, mut replayed) = (logged.as_slice(), replayed.as_slice());
            while let Some(number) = logged.first().or(replayed.first()).map(|record| record.number) {
                let in_log = outcomes(take_number(&mut logged, number));
                let in_replay = outcomes(take_number(&mut replayed, number));
                let has_ended = in_log
                    .iter()
                    .all(|(outcome, _)| !matches!(outcome, LoggedOutcome::InTransit | LoggedOutcome::MemoryLimit));
                if has_ended && in_log != in_replay {
                    differences.push(Difference { direction, number, logged: in_log, replayed: in_replay });
                }
            }
        }
        Ok(differences)
    }
}

/// A packet of the log on its way again.
#[derive(Debug, Clone, Copy)]
struct Replayed {
    record: Record,
    ecn: Ecn,
}

impl Packet for Replayed {
    fn size(&self) -> Bytes {
        self.record.size
    }

    fn flow_hash(&self) -> u64 {
        self.record.flow
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn mark(&mut self) {
        self.ecn = Ecn::CongestionExperienced;
    }
}

/// The outcome of the packets of a log on this way, by number.
fn replay(config: &PathModel, logged: &[Record]) -> Result<Vec<Record>, PathError> {
    let mut path = Path::new(Instant::ZERO, config)?;
    let mut replayed = Vec::new();
    let mut keep = |outcome: Outcome<Replayed>| {
        let (Outcome::Departure { packet, .. } | Outcome::Drop { packet, .. }) = outcome;
        let (became, at) = (LoggedOutcome::of(&outcome, packet.record.ecn), outcome.at().since(Instant::ZERO));
        replayed.push(Record { outcome: became, at, ..packet.record });
    };
    let mut now = Instant::ZERO;
    let mut latest = None;
    for record in logged.iter().filter(|record| record.outcome != LoggedOutcome::MemoryLimit) {
        // A copy has a record of its own, but came only once.
        if latest.replace(record.number) != Some(record.number) {
            now = Instant::ZERO + record.arrived;
            while let Some(outcome) = path.poll(now) {
                keep(outcome);
            }
            let link = record.terminal.filter(|_| path.is_apart()).unwrap_or(0);
            path.enqueue(now, link, Replayed { record: *record, ecn: record.ecn });
        }
    }
    // What left later than the log's last arrival had slots until then.
    let ended = logged.iter().filter(|record| record.outcome != LoggedOutcome::InTransit);
    let end = ended.map(|record| Instant::ZERO + record.at).fold(now, Instant::max);
    while let Some(outcome) = path.drain(end) {
        keep(outcome);
    }
    replayed.sort_by_key(|record| record.number);
    Ok(replayed)
}

/// What a comment line says of a direction.
fn path(json: &str) -> serde_json::Result<PathModel> {
    let value: Value = serde_json::from_str(json)?;
    Ok(match value {
        Value::Array(_) => PathModel::Apart(serde_json::from_value(value)?),
        Value::Object(ref carrier) if carrier.contains_key("carrier") => {
            PathModel::Carrier(serde_json::from_value(value)?)
        }
        _ => PathModel::Link(serde_json::from_value(value)?),
    })
}

/// Takes the records of one number from the front.
fn take_number<'a>(records: &mut &'a [Record], number: u64) -> &'a [Record] {
    let count = records.iter().take_while(|record| record.number == number).count();
    let (taken, rest) = records.split_at(count);
    *records = rest;
    taken
}

fn outcomes(records: &[Record]) -> Vec<(LoggedOutcome, Duration)> {
    let mut outcomes: Vec<_> = records.iter().map(|record| (record.outcome, record.at)).collect();
    outcomes.sort_unstable();
    outcomes
}

fn direction_of(name: &str) -> Result<usize, String> {
    DIRECTIONS.iter().position(|known| *known == name).ok_or_else(|| format!("`{name}` is neither up nor down"))
}

fn record(row: &str, paths: &[PathModel; 2], names: &[Vec<String>; 2]) -> Result<(usize, Record), String> {
    let (row, terminal) = match has_terminals(names) {
        true => row.rsplit_once(',').unwrap_or((row, "")),
        false => (row, ""),
    };
    let fields: Vec<_> = row.split(',').collect();
    let [direction, number, arrived, size, flow, ecn, outcome, at] = fields[..] else {
        return Err(format!("it does not have the columns {}", columns(paths).0));
    };
    let parse = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is not a whole number"));
    let direction = direction_of(direction)?;
    let known = LoggedOutcome::ALL.iter().find(|(_, name)| *name == outcome);
    let owner = names[direction].iter().position(|name| name == terminal);
    if owner.is_none() && (!terminal.is_empty() || !paths[direction].terminals().is_empty()) {
        return Err(format!("`{terminal}` is no terminal"));
    }
    let codepoint = ecn.parse().ok().filter(|bits| *bits < 4).map(Ecn::from_bits);
    let record = Record {
        number: parse(number)?,
        arrived: Duration::from_nanos(parse(arrived)?),
        size: Bytes::new(parse(size)?),
        flow: parse(flow)?,
        ecn: codepoint.ok_or_else(|| format!("`{ecn}` is no codepoint of ECN, 0 to 3"))?,
        outcome: known.ok_or_else(|| format!("`{outcome}` is no outcome"))?.0,
        at: Duration::from_nanos(parse(at)?),
        terminal: owner,
    };
    Ok((direction, record))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SharedCarrier, Terminal};
    use link::LinkConfig;
    use link::dama::{CarrierConfig, TerminalConfig};
    use units::Rate;

    const COLUMNS: &str = "direction,number,arrived_ns,bytes,flow,ecn,outcome,at_ns";

    fn log(lines: &str) -> String {
        let link = LinkConfig::new(Rate::from_bps(12_000_000), Duration::from_millis(10));
        let json = serde_json::to_string(&link).expect("JSON");
        format!("# up {json}\n# down {json}\n{COLUMNS}\n{lines}")
    }

    #[test]
    fn a_replay_finds_what_differs() {
        let lines = "up,1,0,1500,0,0,delivered,12000000\nup,0,0,1500,0,0,delivered,11000000\ndown,0,5,1500,0,0,loss,11000005\n\
                     down,1,9,1500,0,0,memory_limit,9\ndown,2,2000000,1500,0,0,in_transit,13000000\n";
        let log = ArrivalLog::parse(&log(lines)).expect("a log");
        let ms = Duration::from_millis;
        assert_eq!(
            log.replay().expect("links"),
            [Difference {
                direction: "down",
                number: 0,
                logged: vec![(LoggedOutcome::Loss, ms(11) + Duration::from_nanos(5))],
                replayed: vec![(LoggedOutcome::Delivered, ms(11) + Duration::from_nanos(5))],
            }]
        );
    }

    /// A carrier of 800 kbit/s that is one terminal's, and down a link that terminals share.
    fn shared(lines: &str) -> String {
        let rate = Rate::from_bps(800_000);
        let dama = Some(TerminalConfig { cra: rate, ..TerminalConfig::new("return") });
        let ms = Duration::from_millis;
        let terminal = |(name, network): (&str, &str), dama| Terminal {
            name: name.to_owned(),
            networks: vec![network.parse().expect("a network")],
            link: LinkConfig { rate: None, dama, ..LinkConfig::new(rate, ms(10)) },
        };
        let idle = terminal(("b", "198.18.2.0/24"), Some(TerminalConfig::new("return")));
        let carrier = SharedCarrier {
            config: CarrierConfig { superframe: ms(100), slot: Bytes::new(1000), ..CarrierConfig::new(rate) },
            terminals: vec![terminal(("a", "198.18.1.0/24"), dama), idle],
            from_ncc: ms(10),
        };
        let up = serde_json::to_string(&PathModel::Carrier(carrier)).expect("JSON");
        let down = serde_json::to_string(&LinkConfig::new(rate, ms(10))).expect("JSON");
        format!("# up {up}\n# down {down}\n{COLUMNS},terminal\n{lines}")
    }

    #[test]
    fn a_replay_has_the_carrier_and_its_terminals() {
        // A slot is 10 ms: two of them have begun.
        let text = shared(
            "up,0,15000000,1000,0,0,delivered,40000000,a\ndown,0,5,1000,0,0,delivered,20000005,b\n\
                           down,1,6,1000,0,0,delivered,30000005,\nup,1,16000000,1000,0,0,in_transit,99,b\n",
        );
        let log = ArrivalLog::parse(&text).expect("a log");
        assert!(
            matches!(&log.paths, [PathModel::Carrier(carrier), PathModel::Link(_)] if carrier.terminals.len() == 2)
        );
        let whose = |direction: usize| log.packets[direction].iter().map(|packet| packet.terminal).collect::<Vec<_>>();
        assert_eq!((whose(0), whose(1)), (vec![Some(0), Some(1)], vec![Some(1), None]));
        assert_eq!(log.replay().expect("paths"), []);
        let later = ArrivalLog::parse(&text.replace("40000000", "40000001")).expect("a log");
        assert_eq!(later.replay().expect("paths").len(), 1);
    }

    #[test]
    fn a_broken_log_is_refused_by_line() {
        for (text, line, hint) in [
            (log("up,0,0,1500,0,0,delivered"), 4, "columns"),
            (log("up,0,0,1500,0,0,vanished,1"), 4, "vanished"),
            (log("up,0,0,1500,0,4,delivered,1"), 4, "`4` is no codepoint"),
            (log("over,0,0,1500,0,0,loss,1"), 4, "over"),
            (log("up,0,x,1500,0,0,loss,1"), 4, "`x`"),
            (COLUMNS.to_owned(), 1, "both links"),
            ("# up {}".to_owned(), 1, "delay"),
            ("# up [{\"name\": 1}]".to_owned(), 1, "string"),
            ("# up {\"carrier\": {}}".to_owned(), 1, "rate"),
            (shared("up,0,0,1500,0,0,loss,1"), 4, "at_ns,terminal"),
            (shared("up,0,0,1500,0,0,loss,1,c"), 4, "`c` is no terminal"),
            (shared("up,0,0,1500,0,0,loss,1,"), 4, "`` is no terminal"),
        ] {
            let error = ArrivalLog::parse(&text).expect_err(hint).to_string();
            assert!(error.starts_with(&format!("line {line}: ")) && error.contains(hint), "{error}");
        }
    }
}
