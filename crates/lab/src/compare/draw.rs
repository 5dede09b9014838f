//! Random links, each drawn from a seed of its own.

use crate::Error;
use ::scenario::{Scenario, load};
use serde::Serialize;
use units::{CounterRandom, Duration, Rate};

/// The controls that are compared, by the simulator's names.
pub const CONTROLS: &[&str] = &["reno", "cubic", "bbr1", "hybla", "westwood-plus", "vegas", "tibet"];

/// Full packets, as queues count them.
const PACKET: u64 = 1500;
/// Queues have room for so many packets at least.
const MIN_QUEUE: u64 = 2;

/// A link, and the transfer that crosses it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RandomLink {
    /// What everything follows from, the lost packets included.
    pub seed: u64,
    /// The sender's congestion control.
    pub control: &'static str,
    /// Both ways.
    pub rate: Rate,
    /// Of propagation, half of it each way.
    pub rtt: Duration,
    /// Packets that may wait for each direction.
    pub queue_packets: u64,
    /// Losses among the sender's packets.
    pub loss: f64,
    /// Bytes of data.
    pub size_bytes: u64,
}

impl RandomLink {
    /// The link of `seed`: 2 to 40 Mbit/s, 40 to 550 ms, a queue of 0.1 to 2 bandwidth-delay products, 100 kB to 5 MB, on
    /// every other link losses of 1e-4 to 1e-2, all by their logarithms; successive seeds take the `controls` by turns.
    pub fn draw(seed: u64, controls: &[&'static str]) -> Option<Self> {
        let random = CounterRandom::new(seed, 0);
        let between = |number, least: f64, most: f64| least * (most / least).powf(random.unit_at(number));
        let control = *controls.get((seed % controls.len().max(1) as u64) as usize)?;
        let rate = between(0, 2e3, 40e3).round() as u64 * 1_000;
        let rtt = between(1, 20.0, 275.0).round() as u64 * 2;
        let in_flight = rate * rtt / 8_000;
        let queue = between(2, 0.1, 2.0) * in_flight as f64 / PACKET as f64;
        Some(Self {
            seed,
            control,
            rate: Rate::from_bps(rate),
            rtt: Duration::from_millis(rtt),
            queue_packets: (queue.round() as u64).max(MIN_QUEUE),
            loss: if random.unit_at(3) < 0.5 { 0.0 } else { (between(4, 1e-4, 1e-2) * 1e6).round() / 1e6 },
            size_bytes: between(5, 100.0, 5_000.0).round() as u64 * 1_000,
        })
    }

    /// The scenario, as `bentpipe lab` and `bentpipe simulate` read it.
    pub fn text(&self) -> String {
        let Self { seed, control, rate, rtt, queue_packets, loss, size_bytes } = self;
        let delay = *rtt / 2;
        format!(
            r#"# bentpipe lab FILE; bentpipe simulate FILE
version = 1
name = "link-{seed}"
nodes = ["client", "server"]
seeds = {{ first = {seed} }}
[[link]]
name = "sat"
between = ["client", "server"]
rate = "{rate}"
delay = "{delay}"
queue = "{queue_packets}packets"
[link.forward]
loss = {loss}
[[flow]]
name = "file"
from = "client"
to = "server"
tcp = "kernel"
bulk = {{ size = "{size_bytes}B" }}
[tcp.kernel]
profile = "linux"
control = "{control}"
[stop]
time = "600s"
[record]
interval = "10ms"
"#
        )
    }

    pub(super) fn scenario(&self) -> Result<Scenario, Error> {
        let name = format!("link {}", self.seed);
        let no_files = |_: &str| Err("no files here".to_owned());
        let experiment =
            load(&self.text(), &name, &[], &no_files).map_err(|faults| Error::Input(faults.0.join("; ")))?;
        experiment.scenarios.into_iter().next().ok_or_else(|| Error::failed("there is no scenario"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lie_in_their_ranges_and_are_scenarios() {
        for seed in 1..=200 {
            let link = RandomLink::draw(seed, CONTROLS).expect("controls");
            assert!((2_000_000..=40_000_000).contains(&link.rate.as_bps()), "{link:?}");
            assert!((40..=550).contains(&(link.rtt.as_nanos() / 1_000_000)), "{link:?}");
            assert!((100_000..=5_000_000).contains(&link.size_bytes) && link.queue_packets >= 2, "{link:?}");
            assert!(link.loss == 0.0 || (1e-4..=1e-2).contains(&link.loss), "{link:?}");
            assert_eq!(Some(&link), RandomLink::draw(seed, CONTROLS).as_ref());
            let scenario = link.scenario().expect("a scenario");
            assert_eq!(scenario.seeds, seed..=seed);
        }
    }

    #[test]
    fn successive_seeds_take_the_controls_by_turns() {
        let controls: Vec<_> =
            (0..7).filter_map(|seed| RandomLink::draw(seed, CONTROLS)).map(|link| link.control).collect();
        assert_eq!(controls, CONTROLS);
        assert!(RandomLink::draw(1, &[]).is_none());
    }
}
