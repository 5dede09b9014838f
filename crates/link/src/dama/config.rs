//! A carrier and a terminal on it, as data.

use crate::{ConfigError, Steps};
use serde::{Deserialize, Serialize};
use units::{Bytes, Duration, Probability, Rate};

/// A return carrier. In text form every key but `rate` may be left out, and unknown keys are errors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CarrierConfig {
    /// Payload bits of all its slots per second.
    pub rate: Rate,
    /// Rates that take the place of `rate` from given times on: a rain fade that a more robust modulation answers. A
    /// superframe has the rate that holds when it is planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_steps: Option<Steps<Rate>>,
    /// The length of a superframe: 25 ms to 750 ms in DVB-RCS2; from 1 ms to 10 s here.
    #[serde(default = "superframe")]
    pub superframe: Duration,
    /// The payload of a slot, from 8 B to 10 kB: by default an ATM cell's 53 B, as in DVB-RCS.
    #[serde(default = "slot")]
    pub slot: Bytes,
    /// From the time that a plan has reached the terminals to the superframe that it is for, at most 10 s. By default one
    /// superframe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lead: Option<Duration>,
    /// For how many superframes an RBDC request holds, from 1 to 1000: 2 in DVB-RCS.
    #[serde(default = "rbdc_timeout")]
    pub rbdc_timeout: u32,
    /// How requests that exceed the carrier share it.
    #[serde(default)]
    pub sharing: Sharing,
    /// Whether capacity that nobody has asked for is given to all.
    #[serde(default)]
    pub fca: bool,
    /// The fraction of requests that are lost on their way.
    #[serde(default)]
    pub request_loss: Probability,
    /// The seed of those losses.
    #[serde(default)]
    pub seed: u64,
    /// Tells the carriers of one experiment apart under one seed.
    #[serde(default)]
    pub stream: u64,
}

/// How requests that exceed the carrier share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// Small requests are met, large ones are cut to one level.
    #[default]
    MaxMin,
    /// Each gets the same fraction of what it asked for.
    Proportional,
}

/// A terminal's part of a carrier. In text form every key but `carrier` may be left out: it then has what FCA gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TerminalConfig {
    /// The carrier, by name.
    pub carrier: String,
    /// Its constant rate.
    #[serde(default)]
    pub cra: Rate,
    /// The highest rate that it may ask for on top; zero asks for none.
    #[serde(default)]
    pub rbdc: Rate,
    /// The most that the NCC notes as asked for by volume; zero asks for none.
    #[serde(default)]
    pub vbdc: Bytes,
    /// How often the volume is restated as a whole (AVBDC), from 10 ms to 1 h, but not before the last whole is answered. Only where
    /// `vbdc` is not zero.
    #[serde(default = "avbdc")]
    pub avbdc: Duration,
    /// How often it looks at its queue and asks, from 1 ms to 10 s.
    #[serde(default = "every")]
    pub every: Duration,
}

fn superframe() -> Duration {
    Duration::from_millis(100)
}

fn slot() -> Bytes {
    Bytes::new(53)
}

fn rbdc_timeout() -> u32 {
    2
}

fn avbdc() -> Duration {
    Duration::from_secs(1)
}

fn every() -> Duration {
    Duration::from_millis(100)
}

/// Superframes and intervals between requests.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(10);
/// More slots in a superframe make no difference.
const MAX_SLOTS: u64 = 10_000_000;

impl CarrierConfig {
    /// A carrier of `rate` with the defaults of each key.
    pub fn new(rate: Rate) -> Self {
        Self {
            rate,
            rate_steps: None,
            superframe: superframe(),
            slot: slot(),
            lead: None,
            rbdc_timeout: rbdc_timeout(),
            sharing: Sharing::MaxMin,
            fca: false,
            request_loss: Probability::ZERO,
            seed: 0,
            stream: 0,
        }
    }

    /// The highest rate that it ever has.
    pub fn highest_rate(&self) -> Rate {
        let steps = self.rate_steps.iter().flat_map(|steps| &steps.steps).map(|(_, rate)| *rate);
        steps.fold(self.rate, Rate::max)
    }

    /// From the time that a plan has reached the terminals to the superframe that it is for.
    pub fn lead(&self) -> Duration {
        self.lead.unwrap_or(self.superframe)
    }

    /// How many whole slots a superframe has at `rate`.
    pub(crate) fn slots_at(&self, rate: Rate) -> u64 {
        rate.bytes_in(self.superframe).as_u64() / self.slot.as_u64()
    }

    /// Reads the file that holds its rates, if it names one; see [`crate::LinkConfig::read_files`].
    ///
    /// # Errors
    /// Names the key, the file and the line that is wrong, or that values are given beside the file.
    pub fn read_files(&mut self, read: impl FnOnce(&str) -> Result<String, String>) -> Result<(), ConfigError> {
        let Some(Steps { steps, file, .. }) = &mut self.rate_steps else { return Ok(()) };
        crate::trace::read_file("rate_steps.file", file, steps, read, crate::trace::steps)
    }

    /// Checks what types cannot.
    ///
    /// # Errors
    /// Names the first value that makes no carrier, and says what is allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if !(SHORTEST..=LONGEST).contains(&self.superframe) {
            return Err(ConfigError::new("superframe", &format!("{} is not from 1ms to 10s", self.superframe)));
        }
        if !(Bytes::new(8)..=Bytes::new(10_000)).contains(&self.slot) {
            return Err(ConfigError::new("slot", &format!("{} is not from 8B to 10kB", self.slot)));
        }
        if !(1..=MAX_SLOTS).contains(&self.slots_at(self.rate)) {
            let problem = format!("at {} a superframe has not from 1 to {MAX_SLOTS} slots", self.rate);
            return Err(ConfigError::new("rate", &problem));
        }
        if self.lead() > LONGEST {
            return Err(ConfigError::new("lead", &format!("{} is more than 10s", self.lead())));
        }
        if !(1..=1000).contains(&self.rbdc_timeout) {
            return Err(ConfigError::new("rbdc_timeout", "it is not from 1 to 1000 superframes"));
        }
        let Some(steps) = &self.rate_steps else { return Ok(()) };
        if steps.file.is_some() {
            return Err(ConfigError::new("rate_steps.file", "it has not been read"));
        }
        steps.validate("rate_steps")?;
        if let Some((_, rate)) = steps.steps.iter().find(|(_, rate)| self.slots_at(*rate) > MAX_SLOTS) {
            let problem = format!("at {rate} a superframe has more than {MAX_SLOTS} slots");
            return Err(ConfigError::new("rate_steps", &problem));
        }
        Ok(())
    }
}

impl TerminalConfig {
    /// A terminal of `carrier` that has nothing and asks for nothing.
    pub fn new(carrier: &str) -> Self {
        Self {
            carrier: carrier.to_owned(),
            cra: Rate::ZERO,
            rbdc: Rate::ZERO,
            vbdc: Bytes::ZERO,
            avbdc: avbdc(),
            every: every(),
        }
    }

    /// Checks what types cannot.
    ///
    /// # Errors
    /// Names the first value that makes no terminal, and says what is allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if !(SHORTEST..=LONGEST).contains(&self.every) {
            return Err(ConfigError::new("dama.every", &format!("{} is not from 1ms to 10s", self.every)));
        }
        if !(Duration::from_millis(10)..=Duration::from_secs(3600)).contains(&self.avbdc) {
            return Err(ConfigError::new("dama.avbdc", &format!("{} is not from 10ms to 1h", self.avbdc)));
        }
        Ok(())
    }

    /// The highest rate that a superframe can give it. In a superframe what it asks for is whole slots, rounded up; the
    /// carrier may for a time have a higher rate than at first.
    pub fn highest_allocation(&self, carrier: &CarrierConfig) -> Rate {
        let slots_of = |rate: Rate| {
            let bit_nanos = u128::from(rate.as_bps()) * u128::from(carrier.superframe.as_nanos());
            let slots = bit_nanos.div_ceil(u128::from(carrier.slot.bits()) * 1_000_000_000);
            u64::try_from(slots).unwrap_or(u64::MAX)
        };
        let asked = slots_of(self.cra).saturating_add(slots_of(self.rbdc));
        let all = carrier.slots_at(carrier.highest_rate());
        let slots = if self.vbdc > Bytes::ZERO || carrier.fca { all } else { asked.min(all) };
        Rate::from_transfer(carrier.slot * slots, carrier.superframe)
    }

    /// The most that it can have without free capacity: its constant rate and the highest that it may ask for. Of a
    /// terminal that asks by volume, all of the carrier.
    pub fn most(&self, carrier: &CarrierConfig) -> Rate {
        let asked = Rate::from_bps(self.cra.as_bps().saturating_add(self.rbdc.as_bps()));
        if self.vbdc > Bytes::ZERO || carrier.fca { carrier.rate } else { asked.min(carrier.rate) }
    }
}
