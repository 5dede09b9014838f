//! What `--plot` varies: a parameter from one value to another.

use super::{Args, AxisArg};
use crate::output::Failure;
use scenario::QueueSize;
use std::str::FromStr;
use units::{Bytes, Duration, Probability, Rate};

/// A parameter and its values, in base units: bit/s, bytes, seconds, segments.
#[derive(Debug, Clone)]
pub struct Sweep {
    /// Which.
    pub parameter: &'static Parameter,
    from: f64,
    to: f64,
}

/// A parameter that can be on the horizontal axis.
#[derive(Debug)]
pub struct Parameter {
    /// The option's name.
    pub name: &'static str,
    /// Of the axis, with its unit.
    pub label: &'static str,
    /// Base units in the axis' unit.
    pub unit: f64,
    /// Whether only whole numbers mean something.
    is_whole: bool,
    read: fn(&str) -> Result<f64, String>,
    set: fn(&mut Args, f64),
}

fn bytes(text: &str) -> Result<f64, String> {
    Bytes::parse(text).map(|bytes| bytes.as_u64() as f64).map_err(|error| error.to_string())
}

fn time(text: &str) -> Result<f64, String> {
    Duration::parse(text).map(Duration::as_secs_f64).map_err(|error| error.to_string())
}

fn whole(text: &str) -> Result<f64, String> {
    text.parse::<u32>().map(f64::from).map_err(|_| format!("`{text}` is not a whole number"))
}

fn rate(text: &str) -> Result<f64, String> {
    Rate::parse(text).map(|rate| rate.as_bps() as f64).map_err(|error| error.to_string())
}

fn probability(text: &str) -> Result<f64, String> {
    Probability::parse(text).map(Probability::as_f64).map_err(|error| error.to_string())
}

fn of_bytes(value: f64) -> Bytes {
    Bytes::new(value.round() as u64)
}

const fn any(
    name: &'static str,
    label: &'static str,
    unit: f64,
    read: fn(&str) -> Result<f64, String>,
    set: fn(&mut Args, f64),
) -> Parameter {
    Parameter { name, label, unit, is_whole: false, read, set }
}

const fn counted(name: &'static str, label: &'static str, set: fn(&mut Args, f64)) -> Parameter {
    Parameter { name, label, unit: 1.0, is_whole: true, read: whole, set }
}

const PARAMETERS: [Parameter; 11] = [
    any("rate", "rate, Mbit/s", 1e6, rate, |args, bps| args.rate = Rate::from_bps(bps.round() as u64)),
    any("rtt", "round-trip time, ms", 1e-3, time, |args, seconds| args.rtt = Duration::from_secs_f64(seconds)),
    any("loss", "probability that a packet is lost", 1.0, probability, |args, p| {
        // Between two probabilities there are only probabilities.
        args.loss = Probability::new(p).unwrap_or(args.loss);
    }),
    any("size", "size of the transfer, kB", 1e3, bytes, |args, size| args.size = of_bytes(size)),
    any("window", "receiver's window, kB", 1e3, bytes, |args, size| args.window = Some(of_bytes(size))),
    any("receive-buffer", "receive buffer, kB", 1e3, bytes, |args, size| args.receive_buffer = Some(of_bytes(size))),
    any("queue", "queue, kB", 1e3, bytes, |args, size| args.queue = QueueSize::Bytes(of_bytes(size))),
    any("mss", "payload of a segment, bytes", 1.0, bytes, |args, size| args.mss = of_bytes(size)),
    any("rto", "first retransmission timeout, s", 1.0, time, |args, s| args.rto = Some(Duration::from_secs_f64(s))),
    counted("initial-window", "initial window, segments", |args, segments| args.initial_window = segments as u32),
    counted("ack-every", "segments for each acknowledgement", |args, segments| args.ack_every = segments as u32),
];

impl FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, range) = text.split_once('=').ok_or("it is not PARAMETER=FROM..TO, such as loss=1e-6..1e-1")?;
        let parameter = PARAMETERS.iter().find(|parameter| parameter.name == name).ok_or_else(|| {
            let names: Vec<_> = PARAMETERS.iter().map(|parameter| parameter.name).collect();
            format!("`{name}` is none of {}", names.join(", "))
        })?;
        let (from, to) = range.split_once("..").ok_or("it has no FROM..TO, such as 1e-6..1e-1")?;
        let (from, to) = ((parameter.read)(from)?, (parameter.read)(to)?);
        if from < to { Ok(Self { parameter, from, to }) } else { Err("it does not rise from FROM to TO".to_owned()) }
    }
}

/// Steps of an axis without whole numbers.
const STEPS: u32 = 160;
/// A parameter that spans more than this factor is drawn logarithmically.
const WIDE: f64 = 20.0;

impl Sweep {
    /// `args` with the parameter at `value`.
    pub fn at(&self, args: &Args, value: f64) -> Args {
        let mut args = args.clone();
        (self.parameter.set)(&mut args, value);
        args
    }

    /// Whether its axis is logarithmic.
    ///
    /// # Errors
    /// If that is asked for and it begins at zero.
    pub fn is_log(&self, asked: Option<AxisArg>) -> Result<bool, Failure> {
        match asked {
            Some(AxisArg::Log) if self.from <= 0.0 => {
                Err(Failure::usage("--axis log: the parameter must be above zero"))
            }
            Some(axis) => Ok(axis == AxisArg::Log),
            None => Ok(self.from > 0.0 && self.to / self.from > WIDE),
        }
    }

    /// From the first to the last, in equal steps or factors.
    pub fn values(&self, log: bool) -> Vec<f64> {
        let at = |step: u32| {
            let share = f64::from(step) / f64::from(STEPS);
            match step {
                0 => self.from,
                STEPS => self.to,
                // The factor between both may be more than a number holds.
                _ if log => (self.from.ln() + share * (self.to.ln() - self.from.ln())).exp().clamp(self.from, self.to),
                _ => self.from + share * (self.to - self.from),
            }
        };
        let mut values: Vec<f64> = (0..=STEPS).map(at).collect();
        if self.parameter.is_whole {
            values.iter_mut().for_each(|value| *value = value.round());
            values.dedup();
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_between_numbers_that_are_very_far_apart_are_finite() {
        let sweep: Sweep = "loss=1e-320..1e-3".parse().unwrap();
        let values = sweep.values(sweep.is_log(None).unwrap());
        assert!(values.is_sorted() && values.iter().all(|value| (1e-320..=1e-3).contains(value)), "{values:?}");
        let middle = values[values.len() / 2];
        assert!((middle.log10() + 161.5).abs() < 0.1, "{middle}");
    }
}
