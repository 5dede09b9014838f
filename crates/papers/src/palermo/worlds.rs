//! What the paper leaves open, and the values that are tried in its place.

use super::{FILE, PACKETS_OF_1000_B, PHASES};
use crate::{Error, Variants};

/// A value of something that the paper does not say.
#[derive(Debug)]
pub struct Level {
    /// What it is a value of.
    pub factor: &'static str,
    /// The value, for people.
    pub text: &'static str,
    /// The value on an axis; none if it has no order.
    pub x: Option<f64>,
    /// Settings that make it so, as for `--set`; none as chosen.
    settings: &'static [&'static str],
}

const fn level(factor: &'static str, text: &'static str, x: Option<f64>, settings: &'static [&'static str]) -> Level {
    Level { factor, text, x, settings }
}

/// Every factor with its levels, ns-2's defaults first. A size is that of the packet with its headers; queues have ns-2's one
/// packet less that may wait.
pub static FACTORS: [&[Level]; 5] = [
    &[
        level("phases", "263.7 ms", None, &[]),
        level("phases", "260 ms", None, &["link.sat.delay=260ms"]),
        level("phases", "261.1 ms", None, &["link.sat.delay=261.1ms"]),
        level("phases", "random phases", None, &JITTER),
    ],
    &[
        level("packet size, B", "1040 B", Some(1040.0), &[]),
        level("packet size, B", "1000 B", Some(1000.0), &PACKETS_OF_1000_B),
        level(
            "packet size, B",
            "1500 B",
            Some(1500.0),
            &["tcp.satellite.mss=1460B", "tcp.terrestrial.mss=1460B", "flow.udp.udp.packet_size=1500B"],
        ),
    ],
    &[
        level("queue, packets", "queue of 50", Some(50.0), &[]),
        level("queue, packets", "queue of 20", Some(20.0), &["link.bottleneck.queue=19packets"]),
        level("queue, packets", "queue of 100", Some(100.0), &["link.bottleneck.queue=99packets"]),
    ],
    &[
        level("window, packets", "window of 20", Some(20.0), &[]),
        level(
            "window, packets",
            "window of 10",
            Some(10.0),
            &["tcp.satellite.receive_buffer=10segments", "tcp.terrestrial.receive_buffer=10segments"],
        ),
        level(
            "window, packets",
            "window of 40",
            Some(40.0),
            &["tcp.satellite.receive_buffer=40segments", "tcp.terrestrial.receive_buffer=40segments"],
        ),
        level(
            "window, packets",
            "window of 100",
            Some(100.0),
            &["tcp.satellite.receive_buffer=100segments", "tcp.terrestrial.receive_buffer=100segments"],
        ),
    ],
    &[
        level("UDP, Mbit/s", "UDP at 1 Mbit/s", Some(1.0), &[]),
        level("UDP, Mbit/s", "UDP at 0.5 Mbit/s", Some(0.5), &["flow.udp.udp.rate=0.5Mbit/s"]),
        level("UDP, Mbit/s", "UDP at 2 Mbit/s", Some(2.0), &["flow.udp.udp.rate=2Mbit/s"]),
    ],
];

/// How many of the first factors are varied together by default: phases, packet sizes and queues hang together.
pub const JOINT: usize = 3;

/// Hosts take up to a packet of 1500 B at the bottleneck, at random, until a packet is on its way.
const JITTER: [&str; 2] = [
    "link.access-a.handover={ period = \"10ms\", delay = [\"10ms\", \"16ms\"] }",
    "link.access-b.handover={ period = \"10ms\", delay = [\"10ms\", \"16ms\"] }",
];

/// One choice for everything that the paper leaves open.
#[derive(Debug)]
pub struct World {
    /// The level of each factor.
    pub levels: Vec<&'static Level>,
}

/// Periods of 500 s rather than 2000 s: long enough, as the shares of both agree, and four times as quick.
pub const SHORT_PERIOD: f64 = 500.0;
const SHORT: [&str; 4] =
    ["flow.terrestrial.start.at=500s", "flow.udp.start=1000s", "stop.time=1500s", "record.interval=250s"];

impl World {
    /// As ns-2 has it.
    pub fn base() -> Self {
        Self { levels: FACTORS.iter().flat_map(|levels| levels.first()).collect() }
    }

    /// [`World::base`], then the first [`JOINT`] factors varied together, the last of them fastest, then each other factor by
    /// itself.
    pub fn most_likely() -> Vec<Self> {
        let mut worlds = Self::combined(JOINT);
        for (at, levels) in FACTORS.iter().enumerate().skip(JOINT) {
            for level in &levels[1..] {
                let mut world = Self::base();
                world.levels[at] = level;
                worlds.push(world);
            }
        }
        worlds
    }

    /// All combinations.
    pub fn all() -> Vec<Self> {
        Self::combined(FACTORS.len())
    }

    /// All combinations of the first `count` factors, the others as in [`World::base`], which is the first of them.
    fn combined(count: usize) -> Vec<Self> {
        let mut worlds = vec![Vec::new()];
        for (at, levels) in FACTORS.iter().enumerate() {
            let levels = if at < count { levels } else { &levels[..1] };
            let longer = |world: &Vec<_>| {
                let world = world.clone();
                levels.iter().map(move |level| world.iter().copied().chain([level]).collect::<Vec<_>>())
            };
            worlds = worlds.iter().flat_map(longer).collect();
        }
        worlds.into_iter().map(|levels| Self { levels }).collect()
    }

    /// What is different from [`World::base`], for people.
    pub fn label(&self) -> String {
        let different: Vec<_> = self.levels.iter().filter(|level| !level.is_base()).map(|level| level.text).collect();
        different.join(", ")
    }

    /// The variants of the three periods, each of [`SHORT_PERIOD`].
    ///
    /// # Errors
    /// If a setting does not fit the scenario.
    pub fn variants(&self) -> Result<Variants, Error> {
        let settings = SHORT.iter().chain(self.levels.iter().flat_map(|level| level.settings));
        Variants::load(PHASES, FILE, &settings.map(|setting| (*setting).to_owned()).collect::<Vec<_>>())
    }
}

impl Level {
    /// Whether it is ns-2's.
    pub fn is_base(&self) -> bool {
        self.settings.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_world_can_be_loaded() {
        let worlds = World::most_likely();
        assert_eq!(worlds.len(), 4 * 3 * 3 + 3 + 2);
        for (at, world) in worlds.iter().enumerate() {
            world.variants().unwrap_or_else(|error| panic!("{}: {error}", world.label()));
            assert_eq!(world.label().is_empty(), at == 0);
        }
        assert_eq!(World::all().len(), 4 * 3 * 3 * 4 * 3);
    }
}
