//! Who has how much of the bottleneck, from the samples of a run.

use crate::Estimate;
use results::Run;
use scenario::Scenario;
use sim::{FlowConfig, Traffic};
use std::collections::BTreeMap;
use tcp::Profile;
use units::Instant;

/// Bits per second of the bottleneck (section 5).
const BOTTLENECK_BPS: f64 = 2e6;
/// Bytes of IPv4 and TCP headers.
const TCP_HEADERS: f64 = 40.0;
/// Bytes of IPv4 and UDP headers.
const UDP_HEADERS: f64 = 28.0;

/// Those who share the bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// The connections over the satellite.
    Satellite,
    /// The terrestrial connections.
    Terrestrial,
    /// The UDP flow.
    Udp,
}

impl Group {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Satellite, Self::Terrestrial, Self::Udp];

    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Group::Satellite => "satellite",
            Group::Terrestrial => "terrestrial",
            Group::Udp => "UDP",
        }
    }

    /// By the name of the flow in the scenario.
    fn of(flow: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.text().eq_ignore_ascii_case(flow))
    }
}

/// What each group got through, over time.
#[derive(Debug, Clone)]
pub struct Shares {
    /// Bits of packets delivered until each time in seconds, by group.
    delivered: Vec<(f64, [f64; 3])>,
}

impl Shares {
    /// Of a run of `scenario`, which must have recorded samples of flows.
    pub fn of(run: &Run, scenario: &Scenario) -> Self {
        let bits: Vec<_> = scenario.flows.iter().map(bits_per_payload_byte).collect();
        let mut delivered: BTreeMap<Instant, [f64; 3]> = BTreeMap::from([(Instant::ZERO, [0.0; 3])]);
        for sample in &run.flow_samples {
            let flow = sample.flow as usize;
            if let Some(group) = Group::of(&run.groups[flow]) {
                let groups = delivered.entry(sample.at).or_default();
                groups[group as usize] += sample.delivered.as_u64() as f64 * bits[flow];
            }
        }
        Self { delivered: delivered.into_iter().map(|(at, bits)| (at.as_secs_f64(), bits)).collect() }
    }

    /// Those of three periods of 500 s, in per cent.
    #[cfg(test)]
    pub fn of_periods(periods: [[f64; 3]; 3]) -> Self {
        let mut delivered = vec![(0.0, [0.0; 3])];
        // Twice in each period, since one statement is about a half.
        for (half, percent) in periods.iter().flat_map(|percent| [percent; 2]).enumerate() {
            let until = delivered[half].1;
            let bits = |group: usize| until[group] + percent[group] / 100.0 * BOTTLENECK_BPS * 250.0;
            delivered.push(((half + 1) as f64 * 250.0, [0, 1, 2].map(bits)));
        }
        Self { delivered }
    }

    /// Per cent of the bottleneck's rate, headers included, that `group` had from one time in seconds to another. Both are
    /// times of samples.
    pub fn between(&self, group: Group, from: f64, to: f64) -> f64 {
        (self.until(group, to) - self.until(group, from)) / (to - from) / BOTTLENECK_BPS * 100.0
    }

    /// The share of `group` since the sample before, at the time of each.
    pub fn over_time(&self, group: Group) -> Vec<(f64, f64)> {
        let share = |pair: &[(f64, [f64; 3])]| (pair[1].0, self.between(group, pair[0].0, pair[1].0));
        self.delivered.windows(2).map(share).collect()
    }

    /// Bits until the last sample that is not after `time`.
    fn until(&self, group: Group, time: f64) -> f64 {
        let after = self.delivered.partition_point(|(at, _)| *at <= time + 1e-6);
        self.delivered[after.max(1) - 1].1[group as usize]
    }
}

/// Bits on the bottleneck for each byte that its receiver gets. ns-2's Vegas sends packets without room for headers.
fn bits_per_payload_byte(flow: &FlowConfig) -> f64 {
    let with_headers = |payload: f64, headers: f64| 8.0 * (payload + headers) / payload;
    match &flow.traffic {
        Traffic::Tcp { client, .. } if client.profile == Profile::Ns2 && client.control.name == "vegas" => 8.0,
        Traffic::Tcp { client, .. } => with_headers(f64::from(client.mss), TCP_HEADERS),
        Traffic::Udp { packet_size, .. } => with_headers(packet_size.as_u64() as f64 - UDP_HEADERS, UDP_HEADERS),
        _ => 8.0,
    }
}

/// The means over runs of curves with the same times, and the band of their 95 % confidence where there are several.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Time and mean.
    pub points: Vec<(f64, f64)>,
    /// Time, low and high.
    pub band: Option<Vec<(f64, f64, f64)>>,
}

impl Curve {
    /// Of one curve for each run.
    pub fn of(runs: &[Vec<(f64, f64)>]) -> Self {
        let times = runs.first().map(|run| run.iter().map(|point| point.0)).into_iter().flatten();
        let estimate = |at: usize| Estimate::of(runs.iter().filter_map(|run| run.get(at)).map(|point| point.1));
        let found: Vec<_> = times.enumerate().filter_map(|(at, time)| Some((time, estimate(at)?))).collect();
        let band = found.iter().map(|(time, of)| of.interval.map(|(low, high)| (*time, low, high))).collect();
        Self { points: found.iter().map(|(time, of)| (*time, of.mean)).collect(), band }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_what_came_between() {
        let shares = Shares { delivered: vec![(0.0, [0.0; 3]), (1.0, [1e6, 0.0, 0.0]), (2.0, [1.5e6, 1e6, 0.0])] };
        assert_eq!(shares.between(Group::Satellite, 0.0, 1.0), 50.0);
        assert_eq!(shares.between(Group::Satellite, 0.0, 2.0), 37.5);
        assert_eq!(shares.over_time(Group::Terrestrial), [(1.0, 0.0), (2.0, 50.0)]);
    }

    #[test]
    fn curves_have_a_band_from_two_runs_on() {
        let run = |value: f64| vec![(1.0, value), (2.0, 2.0 * value)];
        assert_eq!(Curve::of(&[run(3.0)]), Curve { points: run(3.0), band: None });
        let of_two = Curve::of(&[run(3.0), run(5.0)]);
        assert_eq!(of_two.points, [(1.0, 4.0), (2.0, 8.0)]);
        let (_, low, high) = of_two.band.expect("of two")[0];
        assert!(low < 3.0 && high > 5.0);
        assert_eq!(Curve::of(&[]).points, []);
    }
}
