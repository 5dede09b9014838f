//! Where packets arrive between the bottleneck's departures.
//!
//! With every source saturated and nothing random, each packet that arrives at the router was called for by an
//! acknowledgement, and that by a packet that left the router a fixed time before. So each group's packets arrive at one
//! phase of the time that the bottleneck takes for a packet. Each departure makes room for one in a full queue, and the
//! group that comes first after it takes that room, every time. Which group that is hangs on the satellite's delay modulo
//! half of that time (Floyd and Jacobson, On traffic phase effects in packet-switched gateways, 1992).

use super::charts::share_axis;
use super::shares::{Group, Shares};
use super::worlds::SHORT_PERIOD;
use super::{FILE, PACKETS_OF_1000_B, PHASES};
use crate::printed::Item;
use crate::{Context, Error, Found, Reproduction, Variants};
use replicas::Replica;
use results::chart::{Axis, Chart, Series, Style};

/// Delays of the satellite link one way, in ms: a whole turn of the phase.
const DELAYS_MS: [f64; 8] = [260.0, 260.4, 260.8, 261.2, 261.45, 261.55, 261.8, 261.95];
/// Variants that are shown: one that halves its window, one that estimates the rate.
const VARIANTS: [&str; 2] = ["reno", "tibet"];

/// The share of the satellite beside terrestrial connections against its delay.
///
/// # Errors
/// If it cannot be run.
pub fn sweep(item: &Item, context: &Context<'_>) -> Result<Reproduction, Error> {
    let mut replicas = Vec::new();
    for delay in DELAYS_MS {
        let delay = format!("link.sat.delay={delay}ms");
        let settings = [&delay, "flow.terrestrial.start.at=500s", "stop.time=1000s", "record.interval=500s"];
        let settings: Vec<_> = settings.into_iter().chain(PACKETS_OF_1000_B).map(str::to_owned).collect();
        let variants = Variants::load(PHASES, FILE, &settings)?;
        for variant in VARIANTS {
            replicas.push(Replica { scenario: variants.get(variant)?, seed: 1 });
        }
    }
    let runs = context.simulate(&replicas)?;
    let cases = DELAYS_MS.into_iter().flat_map(|delay| VARIANTS.map(|variant| (delay, variant)));
    let mut series = VARIANTS.map(|variant| Series::new(variant, Style::Joined, Vec::new()));
    let (mut found, mut foretold) = (Vec::new(), 0);
    for ((delay, variant), (run, replica)) in cases.zip(runs.iter().zip(&replicas)) {
        let share = Shares::of(run, &replica.scenario).between(Group::Satellite, SHORT_PERIOD, 2.0 * SHORT_PERIOD);
        series[usize::from(variant == VARIANTS[1])].points.push((delay, share));
        let comes_first = satellite_comes_first(delay);
        foretold += usize::from(comes_first == (share > FAIR));
        let note =
            if comes_first { "the satellite's packets come first" } else { "the terrestrial packets come first" };
        found.push(Found::new(format!("{variant}, {delay:.2} ms")).simulated([share]).note(note));
    }
    let remarks = vec![format!(
        "From distances and sizes alone one can say whose packets come first after each departure: the satellite's if its \
         delay in ms is above {LIMIT_MS} modulo 2. Who comes first has the larger share in {foretold} of {} cases. The \
         paper's 34.5 degrees west mean 263.73 ms, which is {:.2} modulo 2: the satellite's packets come first, and Tahoe, \
         Reno and the others starve the terrestrial connections instead. Whatever the paper's programs had there, its \
         figures hang on it.",
        found.len(),
        263.728 % 2.0,
    )];
    let limit = vec![(260.0 + LIMIT_MS, 0.0), (260.0 + LIMIT_MS, 100.0)];
    let chart = Chart {
        title: item.title.clone(),
        x: Axis::linear("delay of the satellite link one way, ms").within(260.0, 262.0),
        y: share_axis("satellite's share"),
        series: series
            .into_iter()
            .chain([Series::new("from here the satellite is first", Style::Dashed, limit)])
            .collect(),
        caption: context.command(),
    };
    Ok(Reproduction { found, charts: vec![chart], remarks })
}

/// Half of the bottleneck.
const FAIR: f64 = 50.0;

/// Milliseconds that the bottleneck takes for a packet of 1000 B.
const PACKET_MS: f64 = 4.0;
/// Milliseconds that a packet of 1000 B and an acknowledgement of 40 B take on links of 20 Mbit/s, and the latter on the
/// bottleneck.
const FAST_PACKET_MS: f64 = 0.4;
const FAST_ACK_MS: f64 = 0.016;
const SLOW_ACK_MS: f64 = 0.16;
/// Milliseconds from a departure to the arrival that it calls for, propagation of the last hop apart: two hops of 10 ms
/// each way, the packet over a hop of 20 Mbit/s on either side of the bottleneck, the acknowledgement over all three.
const LOOP_MS: f64 = 4.0 * 10.0 + 2.0 * FAST_PACKET_MS + 2.0 * FAST_ACK_MS + SLOW_ACK_MS;
/// The delay modulo 2 ms above which the satellite's packets come first.
const LIMIT_MS: f64 = 1.504;

/// Whether the satellite's packets arrive sooner after a departure than the terrestrial ones, whose last hop has 10 ms.
fn satellite_comes_first(delay_ms: f64) -> bool {
    let phase = |last_hop_ms: f64| (LOOP_MS + 2.0 * last_hop_ms) % PACKET_MS;
    phase(delay_ms) < phase(10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phase_turns_every_two_milliseconds() {
        for turn in [10.0, 260.0, 262.0] {
            assert!(!satellite_comes_first(turn + LIMIT_MS - 0.001));
            assert!(satellite_comes_first(turn + LIMIT_MS + 0.001));
            assert!(!satellite_comes_first(turn + 2.001));
        }
        assert!(satellite_comes_first(263.728), "Palermo to Houston");
    }
}
