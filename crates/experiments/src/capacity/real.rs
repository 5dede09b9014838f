//! A case over the emulated link, by gateways that run.

use super::cases::{Beside, Case, Nature};
use super::figures::Figures;
use super::links::Links;
use super::watch::Watch;
use crate::{Error, Setup};
use emulator::{DirectionReport, Monitor};
use lab::flows::{Plan, run_plans, time};
use lab::{Direction, Ends, Experiment, GatewayOptions, Path, Satellite};
use link::LinkConfig;
use std::sync::mpsc;
use std::thread;
use units::{Bytes, Duration, Instant};

/// When transfers begin over links that change, in the time of the emulator: topology and gateways take some seconds to come up, and
/// links whose rate alternates are then where they are in the simulation.
const BEGIN: Instant = Instant::from_nanos(31_000_000_000);
/// What stands still for so long has failed.
const PATIENCE: Duration = Duration::from_secs(120);
const FULL_PACKET: Bytes = Bytes::new(1500);

/// Why a case cannot be run for real, if it cannot.
pub(super) fn obstacle(case: &Case) -> Option<&'static str> {
    match case {
        Case { beside: Beside::Requests | Beside::Tcp(_) | Beside::Udp, .. } => {
            Some("other traffic beside the transfers is simulated only")
        }
        Case { modems: true, .. } => Some("modems that report changes are simulated only"),
        Case { stalls: true, .. } => Some("a processor that is busy at given times is simulated only"),
        Case { most_seeds, .. } if *most_seeds < u16::MAX => Some("an hour is simulated only"),
        _ => None,
    }
}

/// Runs `case` once.
pub(super) fn run(setup: &Setup, case: &Case, direction: Direction, seed: u64) -> Result<Figures, Error> {
    let case = &Case { begin: if is_timed(case) { BEGIN } else { case.begin }, ..case.clone() };
    let links = Links::of(case, seed)?;
    let experiment = experiment(setup, case, direction, &links, seed)?;
    let stage = experiment.start(&Path::Bentpipe)?;
    let monitor = stage.topology.satellite_monitor().ok_or_else(|| Error::failed("there is no satellite"))?;
    let before = data_direction(&monitor, direction).1.offered.bytes;
    let ends = Ends { client: &stage.topology.terminals[0], server: &stage.topology.hub };
    let plan = Plan { ends, workload: &experiment.workload, start: until_begin(case, &monitor)?, windows: None };
    let (flows, watch) = watched(&monitor, direction, || run_plans(&vec![plan; case.flows]))?;
    let flows = flows?;
    drop(stage.gateways);
    // A monitor's view is older than the last packets.
    let satellite = stage.topology.stop()?.ok_or_else(|| Error::failed("there is no satellite"))?;
    let carried = if direction == Direction::Up { satellite.up } else { satellite.down };
    if flows.iter().any(|flow| !flow.verified) {
        return Err(Error::failed(format!("{}: the data did not verify", case.name)));
    }
    let bytes = flows.iter().fold(Bytes::ZERO, |sum, flow| sum + flow.bytes).as_u64();
    let goodputs: Vec<_> = flows.iter().map(|flow| flow.goodput().as_bps() as f64).collect();
    let limit = links.limit(case, direction, bytes)?;
    Ok(Figures {
        share: limit.as_secs_f64() / time(&flows).as_secs_f64(),
        overhead: (carried.offered.bytes - before) as f64 / bytes as f64,
        queue_p95_s: has_constant_delay(case).then(|| {
            let empty = case.rtt / 2 + case.rate.time_to_send(FULL_PACKET);
            (carried.transit_us.p95 / 1e6 - empty.as_secs_f64()).max(0.0)
        }),
        jain_index: (case.flows > 1).then(|| lab::measure::jain_index(&goodputs)),
        back_rtt: watch.back_rtt(case),
        sent_into_outage: match case.link {
            Nature::Outage { .. } => watch.sent_while_bad(case).map(|sent| sent as f64 / bytes as f64),
            _ => None,
        },
        requests_s: None,
        policed: match case.link {
            Nature::Policed(_) => Some(carried.dropped.policed.packets as f64 / carried.offered.packets as f64),
            _ => None,
        },
        phase_shares: None,
    })
}

/// Whether the link changes at times that count from the begin of the transfers.
fn is_timed(case: &Case) -> bool {
    matches!(
        case.link,
        Nature::Turns { .. } | Nature::Fade { .. } | Nature::Outage { .. } | Nature::Detour { .. } | Nature::Starlink
    )
}

/// Whether what a packet takes longer than over an empty link is due to the queue.
fn has_constant_delay(case: &Case) -> bool {
    !matches!(case.link, Nature::Detour { .. } | Nature::Reordering { .. } | Nature::Starlink)
}

fn experiment(setup: &Setup, case: &Case, direction: Direction, links: &Links, seed: u64) -> Result<Experiment, Error> {
    let configured = [case.configured(), Some(case.rate)];
    let (satellite, configured) = match direction {
        Direction::Up => (satellite(&links.back, &links.data), configured),
        Direction::Down => (satellite(&links.data, &links.back), [configured[1], configured[0]]),
    };
    let mut experiment = setup.experiment()?;
    (experiment.link.rate, experiment.link.rtt, experiment.link.seed) = (case.rate, case.rtt, seed);
    experiment.satellite = Some(satellite);
    experiment.gateways = GatewayOptions { configured_rates: Some(configured), ..experiment.gateways };
    let workload = &mut experiment.workload;
    (workload.direction, workload.size, workload.seed) = (direction, Bytes::new(case.size), seed);
    workload.timeout = PATIENCE;
    Ok(experiment)
}

fn satellite(forward: &LinkConfig, return_link: &LinkConfig) -> Satellite {
    Satellite { forward: forward.clone(), return_link: return_link.clone() }
}

/// The time of the emulator, and what the link in the data's direction has carried by then.
fn data_direction(monitor: &Monitor, direction: Direction) -> (Instant, DirectionReport) {
    let report = monitor.report();
    let at = Instant::ZERO + Duration::from_secs_f64(report.wall_s);
    (at, if direction == Direction::Up { report.up } else { report.down })
}

/// How long it is until the transfers are to begin.
fn until_begin(case: &Case, monitor: &Monitor) -> Result<Duration, Error> {
    if !is_timed(case) {
        return Ok(Duration::ZERO);
    }
    time_until(case.begin.since(Instant::ZERO), monitor, &case.name)
}

/// How long it is until `begin`, in the time of the emulator, when data are to flow through gateways that are up by now.
pub(super) fn time_until(begin: Duration, monitor: &Monitor, case: &str) -> Result<Duration, Error> {
    match begin.saturating_sub(kernel::clock::now().since(monitor.start())) {
        Duration::ZERO => Err(Error::failed(format!("{case}: the gateways came up too late: use a quieter machine"))),
        left => Ok(left),
    }
}

/// Does `work`, and looks meanwhile at what the link in the data's direction is given.
fn watched<T>(monitor: &Monitor, direction: Direction, work: impl FnOnce() -> T) -> Result<(T, Watch), Error> {
    let (done, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let look = scope.spawn(move || {
            let mut watch = Watch::default();
            loop {
                let (now, carried) = data_direction(monitor, direction);
                watch.note(now, Bytes::new(carried.offered.bytes));
                let pause = std::time::Duration::from(Watch::INTERVAL);
                if ended.recv_timeout(pause) != Err(mpsc::RecvTimeoutError::Timeout) {
                    return watch;
                }
            }
        });
        let result = work();
        drop(done);
        let watch = look.join().map_err(|_| Error::failed("the thread that watches the link panicked"))?;
        Ok((result, watch))
    })
}

#[cfg(test)]
mod tests {
    use super::super::cases::all;
    use super::*;

    #[test]
    fn what_an_emulated_link_between_two_gateways_does_not_do_is_simulated_only() {
        let only: Vec<_> = all().into_iter().filter(|case| obstacle(case).is_some()).map(|case| case.name).collect();
        let expected = [
            "30 % for 10 s, reported",
            "8 Mbit/s, 100 and 25 % in turns, reported",
            "ends stall for up to 10 ms",
            "200 Mbit/s, 600 ms, ends stall",
            "beside requests of 20 kB",
            "fair beside CUBIC",
            "fair beside BBR",
            "fair beside UDP at a third",
            "Starlink, 1 h",
        ];
        assert_eq!(only, expected);
    }

    #[test]
    fn links_that_alternate_are_at_the_same_place_as_in_the_simulation() {
        for case in all().into_iter().filter(is_timed) {
            let for_real = Case { begin: BEGIN, ..case.clone() };
            for seconds in [0, 3, 5, 13, 20, 31] {
                let at = |case: &Case| case.rate_to_be_had_at(case.begin + Duration::from_secs(seconds));
                let is_recorded = matches!(case.link, Nature::Starlink);
                assert!(is_recorded || at(&case) == at(&for_real), "{} after {seconds} s", case.name);
            }
        }
    }
}
