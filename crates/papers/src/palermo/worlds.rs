//! What the paper leaves open, and the values that are tried in its place.

use super::{FILE, KEPT_PHASES, PHASES};
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

/// Every factor with its levels. Packet sizes come with a jitter of one packet of the bottleneck; queues with ns-2's one
/// packet less that may wait.
pub const FACTORS: [&[Level]; 5] = [
    &[
        level(
            "packet size, B",
            "500 B",
            Some(500.0),
            &[
                "tcp.satellite.mss=460B",
                "tcp.terrestrial.mss=460B",
                "flow.udp.udp.packet_size=500B",
                "link.access-a.handover.delay=[\"10ms\",\"12ms\"]",
                "link.access-b.handover.delay=[\"10ms\",\"12ms\"]",
            ],
        ),
        level("packet size, B", "1000 B", Some(1000.0), &[]),
        level(
            "packet size, B",
            "1500 B",
            Some(1500.0),
            &[
                "tcp.satellite.mss=1460B",
                "tcp.terrestrial.mss=1460B",
                "flow.udp.udp.packet_size=1500B",
                "link.access-a.handover.delay=[\"10ms\",\"16ms\"]",
                "link.access-b.handover.delay=[\"10ms\",\"16ms\"]",
            ],
        ),
    ],
    &[
        level("queue, packets", "queue of 20", Some(20.0), &["link.bottleneck.queue=19packets"]),
        level("queue, packets", "queue of 50", Some(50.0), &[]),
        level("queue, packets", "queue of 100", Some(100.0), &["link.bottleneck.queue=99packets"]),
        level("queue, packets", "queue of 200", Some(200.0), &["link.bottleneck.queue=199packets"]),
    ],
    &[
        level(
            "window, packets",
            "window of 10",
            Some(10.0),
            &["tcp.satellite.receive_buffer=10segments", "tcp.terrestrial.receive_buffer=10segments"],
        ),
        level("window, packets", "window of 20", Some(20.0), &[]),
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
        level("UDP, Mbit/s", "UDP at 0.5 Mbit/s", Some(0.5), &["flow.udp.udp.rate=0.5Mbit/s"]),
        level("UDP, Mbit/s", "UDP at 1 Mbit/s", Some(1.0), &[]),
        level("UDP, Mbit/s", "UDP at 2 Mbit/s", Some(2.0), &["flow.udp.udp.rate=2Mbit/s"]),
    ],
    &[
        level("phases", "random phases", None, &[]),
        level("phases", "kept phases, 260 ms", None, &[KEPT_PHASES[0], KEPT_PHASES[1], "link.sat.delay=260ms"]),
        level("phases", "kept phases, 261 ms", None, &[KEPT_PHASES[0], KEPT_PHASES[1], "link.sat.delay=261ms"]),
        level("phases", "kept phases, 263.7 ms", None, &KEPT_PHASES),
    ],
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
    /// As chosen.
    pub fn base() -> Self {
        Self { levels: FACTORS.iter().flat_map(|levels| levels.iter().find(|level| level.is_base())).collect() }
    }

    /// One factor at a time different from [`World::base`].
    pub fn one_at_a_time() -> Vec<Self> {
        let varied = FACTORS.iter().enumerate().flat_map(|(at, levels)| levels.iter().map(move |level| (at, level)));
        let world = |(at, level): (usize, &'static Level)| {
            let mut world = Self::base();
            world.levels[at] = level;
            world
        };
        varied.filter(|(_, level)| !level.is_base()).map(world).collect()
    }

    /// All combinations but [`World::base`].
    pub fn all() -> Vec<Self> {
        let mut worlds = vec![Vec::new()];
        for levels in FACTORS {
            let longer = |world: &Vec<_>| {
                let world = world.clone();
                levels.iter().map(move |level| world.iter().copied().chain([level]).collect::<Vec<_>>())
            };
            worlds = worlds.iter().flat_map(longer).collect();
        }
        let worlds = worlds.into_iter().map(|levels| Self { levels });
        worlds.filter(|world| world.levels.iter().any(|level| !level.is_base())).collect()
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
    /// Whether it is what is chosen.
    pub fn is_base(&self) -> bool {
        self.settings.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_world_can_be_loaded() {
        assert_eq!(World::base().label(), "");
        let worlds = World::one_at_a_time();
        assert_eq!(worlds.len(), 2 + 3 + 3 + 2 + 3);
        for world in worlds {
            world.variants().unwrap_or_else(|error| panic!("{}: {error}", world.label()));
            assert!(!world.label().is_empty());
        }
        assert_eq!(World::all().len(), 3 * 4 * 4 * 3 * 4 - 1);
    }
}
