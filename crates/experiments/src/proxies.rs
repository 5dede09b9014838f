//! The rows in which the kernel's TCP and other proxies were measured, with theirs beside ours.

use crate::setup::{loss, median};
use crate::{Error, Setup};
use lab::{Direction, Experiment, LinkParameters, Path, Workload};
use serde::Serialize;
use units::{Bytes, Rate};

/// A transfer and what others took for it.
struct Case {
    name: &'static str,
    rate_bps: u64,
    size: u64,
    flows: usize,
    loss: f64,
    direction: Direction,
    /// Seconds, in the order of [`PROXIES`].
    proxies: [f64; 6],
}

/// Who was measured, in November 2026: medians of 3 on two shared processors, Linux 6.18, the path as here (client,
/// gateway, emulated GEO link of 550 ms with a queue of one bandwidth-delay product, gateway, server), time from the
/// client's connect() to the last byte at the receiver. PEPsal split with cubic; hysteria with its bbr, and with a
/// fixed rate of 0.95 of the link's.
const PROXIES: [&str; 6] = ["cubic", "bbr", "PEPsal", "QPEP", "hysteria bbr", "hysteria brutal"];

const CASES: [Case; 8] = [
    case("1 MB, 1e-6", 6, 1_000_000, 1, 1e-6, [4.62, 4.83, 6.50, 1.95, 3.55, 1.97]),
    case("1 MB, 1e-3", 6, 1_000_000, 1, 1e-3, [5.17, 5.02, 7.07, 2.51, 3.53, 1.97]),
    case("1 MB, 1e-2", 6, 1_000_000, 1, 1e-2, [18.3, 5.95, 21.3, 3.03, 4.13, 2.48]),
    case("10 MB, 1e-3", 6, 10_000_000, 1, 1e-3, [32.4, 19.0, 34.2, 17.1, 17.2, 14.85]),
    case("20 x 2 MB, 1e-3", 6, 2_000_000, 20, 1e-3, [58.4, 66.5, 60.3, 92.3, 63.1, 57.8]),
    case("20 MB, 1e-3, 50 Mbit/s", 50, 20_000_000, 1, 1e-3, [59.5, 9.99, 61.2, 36.8, 8.40, 4.63]),
    case("100 kB, 0", 6, 100_000, 1, 0.0, [2.28, 2.83, 4.15, 0.69, 1.58, 0.69]),
    Case {
        direction: Direction::Up,
        ..case("1 MB up, 1e-4", 6, 1_000_000, 1, 1e-4, [4.35, 4.55, 4.56, 1.68, 3.27, 1.70])
    },
];

const fn case(name: &'static str, mbit: u64, size: u64, flows: usize, loss: f64, proxies: [f64; 6]) -> Case {
    Case { name, rate_bps: mbit * 1_000_000, size, flows, loss, direction: Direction::Down, proxies }
}

/// What is claimed.
pub const CLAIM: &str =
    "at most 1.05 times the best proxy's time in every row (proxies as measured in 2026-11, Linux 6.18)";

/// Our time for one transfer, and others'.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub row: &'static str,
    /// The shortest time that the link allows, in seconds.
    pub limit_s: f64,
    /// The time through our gateways, in seconds.
    pub time_s: f64,
    /// The limit over the time.
    pub limit_share: f64,
    /// Jain's index over the flows' goodputs.
    pub jain_index: f64,
    /// The proxy with the shortest time.
    pub best_proxy: &'static str,
    /// Its time in seconds.
    pub best_proxy_s: f64,
    /// Our time over the best proxy's.
    pub ratio: f64,
    /// Quoted, not measured here.
    pub proxies_s: Vec<(&'static str, f64)>,
    /// cubic and bbr from end to end, if they were measured here.
    pub kernel_s: Option<[f64; 2]>,
}

/// Measures every row, and cubic and bbr from end to end if `with_kernel`.
///
/// # Errors
/// If the machine lacks something or a transfer fails or does not verify.
pub fn run(setup: &Setup, with_kernel: bool) -> Result<Vec<Row>, Error> {
    CASES.iter().map(|case| measure(setup, case, with_kernel)).collect()
}

fn measure(setup: &Setup, case: &Case, with_kernel: bool) -> Result<Row, Error> {
    let base = setup.experiment()?;
    let experiment = Experiment {
        link: LinkParameters { rate: Rate::from_bps(case.rate_bps), loss: loss(case.loss)?, ..base.link },
        flows: case.flows,
        workload: Workload { direction: case.direction, size: Bytes::new(case.size), ..base.workload },
        ..base
    };
    let (time_s, jain_index) = times(setup, case, &experiment, &Path::Bentpipe)?;
    let kernel = |name: &str| times(setup, case, &experiment, &Path::EndToEnd(name.to_owned())).map(|(time, _)| time);
    let kernel_s = if with_kernel { Some([kernel("cubic")?, kernel("bbr")?]) } else { None };
    let proxies: Vec<_> = PROXIES.into_iter().zip(case.proxies).collect();
    let (best_proxy, best_proxy_s) =
        proxies.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or(("none", f64::NAN));
    let limit_s = experiment.limit().as_secs_f64();
    Ok(Row {
        row: case.name,
        limit_s,
        time_s,
        limit_share: limit_s / time_s,
        jain_index,
        best_proxy,
        best_proxy_s,
        ratio: time_s / best_proxy_s,
        proxies_s: proxies,
        kernel_s,
    })
}

/// Median time and median Jain index over the repeats.
fn times(setup: &Setup, case: &Case, experiment: &Experiment, path: &Path) -> Result<(f64, f64), Error> {
    let (mut times, mut indices) = (Vec::new(), Vec::new());
    for seed in setup.seeds(setup.repeats) {
        let mut experiment = experiment.clone();
        experiment.link.seed = seed;
        let outcome = experiment.run(path)?;
        if !outcome.verified() {
            return Err(Error::failed(format!("{}, {}: the data did not verify", case.name, path.name())));
        }
        tracing::info!(row = case.name, path = path.name(), seed, time_s = outcome.time().as_secs_f64(), "measured");
        times.push(outcome.time().as_secs_f64());
        indices.push(outcome.jain_index());
    }
    Ok((median(&times), median(&indices)))
}
