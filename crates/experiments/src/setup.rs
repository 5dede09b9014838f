//! What all experiments start from.

use crate::Error;
use lab::transfer::Checksum;
use lab::{Direction, Experiment, GatewayOptions, LinkParameters, Workload};
use std::path::PathBuf;
use units::{Bytes, Duration, Probability, Rate};

/// The gateways, and how often and with which seeds a figure is measured.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The `bentpipe` program, which is started as gateways and as ends of connections.
    pub program: PathBuf,
    /// Options of the gateways; hosts use the same address family.
    pub gateways: GatewayOptions,
    /// How often each figure is measured; at least once.
    pub repeats: u16,
    /// Seed of the first repeat's losses; each further repeat takes the next.
    pub seed: u64,
}

impl Setup {
    /// An experiment over a GEO link with one terminal and one flow that the server sends, to be adapted.
    pub(crate) fn experiment(&self) -> Result<Experiment, Error> {
        Ok(Experiment {
            link: LinkParameters {
                rate: Rate::from_bps(6_000_000),
                rtt: Duration::from_millis(550),
                loss: loss(1e-3)?,
                reorder: Probability::ZERO,
                duplicate: Probability::ZERO,
                seed: self.seed,
            },
            satellite: None,
            terminals: 1,
            flows: 1,
            workload: Workload {
                direction: Direction::Down,
                size: Bytes::new(1_000_000),
                checksum: Checksum::Xxh3,
                family: self.gateways.family,
                congestion_control: None,
                send_buffer: None,
                receive_buffer: None,
                timeout: Duration::from_secs(120),
                seed: self.seed,
            },
            program: self.program.clone(),
            gateways: self.gateways.clone(),
        })
    }

    /// The seeds of `count` repeats.
    pub(crate) fn seeds(&self, count: u16) -> impl Iterator<Item = u64> + use<> {
        let first = self.seed;
        (0..u64::from(count)).map(move |repeat| first.wrapping_add(repeat))
    }
}

pub(crate) fn loss(probability: f64) -> Result<Probability, Error> {
    Probability::new(probability).map_err(Error::failed)
}

/// The median of figures of which there is at least one.
pub(crate) fn median(figures: &[f64]) -> f64 {
    lab::measure::median(figures).unwrap_or(f64::NAN)
}
