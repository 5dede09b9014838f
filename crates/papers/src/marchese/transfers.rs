//! The transfers of the tables: one file by initial window and buffer.

use super::rounds::Transfer;
use crate::{Context, Error, Found, Variants, printed::Item};
use replicas::Replica;
use results::Run;
use scenario::Scenario;
use sim::{FlowSample, Traffic};
use std::sync::Arc;
use tcp::Config;
use units::Duration;

/// A scenario file of the study, and what its item holds fixed.
#[derive(Debug, Clone, Copy)]
pub struct Experiment {
    /// Below `scenarios/papers/marchese`.
    pub file: &'static str,
    /// The file's text.
    pub text: &'static str,
    /// What entries do not name.
    pub fixed: Setting,
}

/// An initial window in segments, and a buffer in kB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Setting {
    /// The initial window.
    pub iw: u32,
    /// The buffer.
    pub buf: u32,
}

impl Setting {
    /// What an entry's key says (`IW=6`, `buf=64`, or both), and for the rest `self`.
    ///
    /// # Errors
    /// If the key says something else.
    pub fn with_key(self, key: &str) -> Result<Self, Error> {
        let mut setting = self;
        for part in key.split(", ") {
            let refused = || Error::Input(format!("entry `{key}`: `{part}` is neither IW=N nor buf=N"));
            let (name, value) = part.split_once('=').ok_or_else(refused)?;
            let value = value.parse().map_err(|_| refused())?;
            match name {
                "IW" => setting.iw = value,
                "buf" => setting.buf = value,
                _ => return Err(refused()),
            }
        }
        Ok(setting)
    }

    /// As variants of scenario files are called.
    pub fn variant(self) -> String {
        format!("iw-{}-buf-{}", self.iw, self.buf)
    }
}

/// A transfer that was measured.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// From the established connection to the last acknowledgement at the sender, in seconds.
    pub time: f64,
    /// Bytes acknowledged at the sender by the asked time.
    pub acknowledged: f64,
}

/// A transfer that was simulated.
#[derive(Debug, Clone)]
pub struct Simulated {
    /// Its initial window and buffer.
    pub setting: Setting,
    /// What was run.
    pub scenario: Arc<Scenario>,
    /// The result.
    pub run: Run,
}

impl Experiment {
    /// Simulates `settings`. Nothing in it is random: one seed says all.
    pub fn simulate(&self, settings: &[Setting], context: &Context<'_>) -> Result<Vec<Simulated>, Error> {
        let variants = self.variants()?;
        let replica = |setting: &Setting| Ok(Replica { scenario: variants.get(&setting.variant())?, seed: 1 });
        let replicas = settings.iter().map(replica).collect::<Result<Vec<_>, Error>>()?;
        let runs = context.simulate(&replicas)?;
        let joined = settings.iter().zip(replicas).zip(runs);
        Ok(joined
            .map(|((setting, Replica { scenario, .. }), run)| Simulated { setting: *setting, scenario, run })
            .collect())
    }

    /// The variants of the file.
    pub fn variants(&self) -> Result<Variants, Error> {
        Variants::load(self.text, &format!("scenarios/papers/marchese/{}", self.file), &[])
    }

    /// The settings of `item`'s entries, in their order.
    pub fn settings(&self, item: &Item) -> Result<Vec<Setting>, Error> {
        item.entries.iter().map(|entry| self.fixed.with_key(&entry.key)).collect()
    }

    /// The transmission times of `item`: one for each entry. Those longer than `longest` (seconds) are not measured.
    pub fn times(&self, item: &Item, context: &Context<'_>, longest: f64) -> Result<Vec<Found>, Error> {
        let simulated = self.simulate(&self.settings(item)?, context)?;
        let found = item.entries.iter().zip(&simulated).map(|(entry, simulated)| {
            let is_short = simulated.time().is_some_and(|time| time <= longest);
            let measured = if is_short { simulated.measure(context)? } else { None };
            let found =
                Found::new(&entry.key).simulated(simulated.time()).measured(measured.map(|measured| measured.time));
            Ok(match simulated.model() {
                Some(transfer) => found.model(transfer.time()),
                None => found,
            })
        });
        found.collect()
    }
}

impl Simulated {
    /// From the established connection to the last acknowledgement at the sender, in seconds.
    pub fn time(&self) -> Option<f64> {
        let flow = self.run.report.flows.first()?;
        Some(flow.end_s? - flow.start_s? - self.one_way())
    }

    /// Half a round trip in seconds. The paper's clock runs from the established connection, a round trip after the
    /// connect, to the last acknowledgement, half a round trip after the receiver's last byte: so much less than from
    /// the connect to that byte.
    pub fn one_way(&self) -> f64 {
        self.scenario.network.directions().first().map_or(0.0, |there| there.config.delay.as_secs_f64())
    }

    /// The same transfer with the kernel's TCP, once in a report; none without `--lab`.
    pub fn measure(&self, context: &Context<'_>) -> Result<Option<Measured>, Error> {
        self.measure_by(context, 0.0)
    }

    /// As [`Simulated::measure`], with what was acknowledged by `time` (seconds on the paper's clock).
    pub fn measure_by(&self, context: &Context<'_>, time: f64) -> Result<Option<Measured>, Error> {
        let Some(lab) = context.lab() else { return Ok(None) };
        let size = Transfer::of(&self.scenario).map_or(0, |transfer| transfer.size.as_u64());
        let name = format!("marchese, {size} bytes, {}", self.setting.variant());
        let run = lab.run(&name, &of_kernel(&self.scenario), 1)?;
        let flow = run.flows.first().ok_or_else(|| Error::failed("nothing was measured"))?;
        let arrived_by = Duration::from_secs_f64((time + self.one_way()).max(0.0));
        Ok(Some(Measured {
            time: flow.end_s - flow.start_s - self.one_way(),
            acknowledged: flow.trace.bytes_at(arrived_by),
        }))
    }

    /// The rounds model of the same transfer; none where the router's queue overflows, which it does not know.
    pub fn model(&self) -> Option<Transfer> {
        (self.dropped() == 0).then(|| Transfer::of(&self.scenario)).flatten()
    }

    /// Packets that the router dropped.
    pub fn dropped(&self) -> u64 {
        self.run.report.links.iter().map(|link| link.counters.dropped_queue_full.packets).sum()
    }

    /// The most that waited for the link, in bytes.
    pub fn longest_queue(&self) -> u64 {
        self.run.queue_samples.iter().map(|sample| sample.bytes.as_u64()).max().unwrap_or(0)
    }

    /// Bytes that the sender knew to have arrived by `time` (seconds on the paper's clock), between two samples by
    /// interpolation.
    pub fn acknowledged_by(&self, time: f64) -> f64 {
        let point = |sample: &FlowSample| (sample.at.as_secs_f64() - self.one_way(), sample.delivered.as_u64() as f64);
        let samples = &self.run.flow_samples;
        let after = samples.partition_point(|sample| point(sample).0 <= time);
        let Some(before) = after.checked_sub(1).map(|last| point(&samples[last])) else { return 0.0 };
        let Some(next) = samples.get(after).map(point) else { return before.1 };
        before.1 + (next.1 - before.1) * (time - before.0) / (next.0 - before.0)
    }
}

/// The scenario as the kernel runs it: with its own delayed acknowledgements.
fn of_kernel(scenario: &Scenario) -> Scenario {
    let mut scenario = scenario.clone();
    for flow in &mut scenario.flows {
        if let Traffic::Tcp { client, server, .. } = &mut flow.traffic {
            for config in [client, server].map(Arc::make_mut) {
                config.acks = Config::new(config.profile).acks;
            }
        }
    }
    scenario
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::scenario::RealScenario;

    #[test]
    fn the_kernel_is_given_all_else_that_its_transfers_set() {
        use crate::marchese::{FIGURE_3, TABLE_3, TABLE_4, TABLE_5, TABLE_6, TABLE_7, TABLE_8};
        for experiment in [TABLE_3, TABLE_4, TABLE_5, TABLE_6, TABLE_7, TABLE_8, FIGURE_3] {
            for scenario in experiment.variants().expect("sound").all() {
                let refused = RealScenario::new(&of_kernel(scenario)).err().map(|error| error.to_string());
                assert_eq!(refused, None, "{}", experiment.file);
            }
        }
    }

    #[test]
    fn keys_name_settings() {
        let fixed = Setting { iw: 1, buf: 64 };
        assert_eq!(fixed.with_key("IW=6").expect("a setting"), Setting { iw: 6, buf: 64 });
        assert_eq!(fixed.with_key("IW=6, buf=320").expect("a setting"), Setting { iw: 6, buf: 320 });
        assert_eq!(fixed.with_key("buf=128").expect("a setting").variant(), "iw-1-buf-128");
        assert!(fixed.with_key("window=3").is_err() && fixed.with_key("IW=x").is_err());
    }
}
