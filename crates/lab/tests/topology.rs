//! Private networks on the machine that runs the tests. Where it may not create any, the tests say so and pass.
#![allow(clippy::disallowed_methods, reason = "a test: moves real traffic in real time")]

use lab::flows::{Plan, Stop, run_plans, run_plans_until};
use lab::transfer::Checksum;
use lab::{Direction, Ends, Error, Family, LinkParameters, Satellite, Topology, Workload, flows};
use link::LinkConfig;
use units::{Bytes, Duration, Probability, Rate};

const LINK: LinkParameters = LinkParameters {
    rate: Rate::from_bps(20_000_000),
    rtt: Duration::from_millis(60),
    loss: Probability::ZERO,
    reorder: Probability::ZERO,
    duplicate: Probability::ZERO,
    seed: 1,
};

/// A network, or `None` where the machine does not allow one.
fn topology(terminals: usize, satellite: Option<Satellite>) -> Option<Topology> {
    match Topology::new(terminals, satellite) {
        Ok(topology) => Some(topology),
        Err(Error::Missing(what)) => {
            assert!(std::env::var_os("BENTPIPE_MUST_RUN").is_none(), "{what}");
            eprintln!("skipped: {what}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn workload(direction: Direction, family: Family) -> Workload {
    Workload {
        direction,
        size: Bytes::new(100_000),
        checksum: Checksum::Sha256,
        family,
        congestion_control: Some("cubic".into()),
        send_buffer: None,
        receive_buffer: None,
        timeout: Duration::from_secs(20),
        seed: 1,
    }
}

#[test]
fn a_terminal_may_have_a_path_of_its_own_behind_the_satellite() {
    if topology(1, None).is_none() {
        return;
    }
    let path = |delay| LinkConfig::new(LINK.rate, Duration::from_millis(delay));
    let topology = Topology::with_own_paths(LINK.satellite(), vec![path(0), path(200)]).expect("a network");
    let ends: Vec<_> = topology.terminals.iter().map(|client| Ends { client, server: &topology.hub }).collect();
    let flows = flows::run(&ends, &workload(Direction::Down, Family::V4)).expect("the flows end");
    assert!(flows.iter().all(|flow| flow.verified));
    assert!(flows[1].time() > flows[0].time() + Duration::from_millis(200), "{:?}", flows[1].time());
    let report = topology.stop().expect("both emulators ran to the end").expect("there is a satellite");
    assert!(report.down.delivered.bytes > 200_000);
}

#[test]
fn terminals_share_the_satellite_in_both_directions_and_families() {
    let Some(topology) = topology(3, Some(LINK.satellite())) else { return };
    let ends: Vec<_> = topology.terminals.iter().map(|client| Ends { client, server: &topology.hub }).collect();
    for (direction, family) in [(Direction::Down, Family::V4), (Direction::Up, Family::V6)] {
        let flows = flows::run(&ends, &workload(direction, family)).expect("the flows end");
        assert_eq!(flows.len(), 3);
        for flow in &flows {
            assert!(flow.verified);
            assert_eq!(flow.bytes, Bytes::new(100_000));
            assert!(flow.time() > LINK.rtt, "a handshake and data take more than one round trip");
            assert_eq!(flow.trace.bytes_at(flow.time()), 100_000.0);
        }
    }
    let report = topology.stop().expect("it ran to the end").expect("there is a satellite");
    for direction in [report.up, report.down] {
        assert!(direction.delivered.bytes > 300_000, "one of the directions carried all the data: {direction:?}");
        assert_eq!(direction.dropped.loss.packets, 0);
        assert_eq!(direction.dropped.receive_overrun, 0);
    }
}

#[test]
fn a_wired_pair_needs_no_satellite() {
    let Some(topology) = topology(1, None) else { return };
    let ends = [Ends { client: &topology.terminals[0], server: &topology.hub }];
    // A busy machine delays a transfer, hardly five of them.
    let is_quick = (0..5).any(|_| {
        let flows = flows::run(&ends, &workload(Direction::Up, Family::V4)).expect("the flow ends");
        assert!(flows[0].verified);
        flows[0].time() < LINK.rtt
    });
    assert!(is_quick, "no satellite is on the way");
    assert!(topology.stop().expect("nothing ran").is_none());
}

#[test]
fn a_flow_may_start_later_than_a_flow_may_stand_still() {
    let Some(topology) = topology(1, None) else { return };
    let ends = Ends { client: &topology.terminals[0], server: &topology.hub };
    let patience = Duration::from_secs(1);
    let workload = Workload { timeout: patience, ..workload(Direction::Down, Family::V4) };
    let plan = |start| Plan { ends, workload: &workload, start, windows: None };
    let flows = run_plans(&[plan(Duration::ZERO), plan(patience * 2)]).expect("both end");
    assert!(flows.iter().all(|flow| flow.verified), "{flows:?}");
    assert!(flows[1].start.duration_since(flows[0].start) > patience.into());
}

/// One flow has ended by then, another is half done, and a third has no answer to its connect() yet.
#[test]
fn flows_are_cut_off_at_the_end_of_the_experiment() {
    let link = LinkParameters { rate: Rate::from_bps(1_000_000), rtt: Duration::from_secs(1), ..LINK };
    for direction in [Direction::Up, Direction::Down] {
        let Some(topology) = topology(1, Some(link.satellite())) else { return };
        let ends = Ends { client: &topology.terminals[0], server: &topology.hub };
        let [small, large] =
            [1_000, 10_000_000].map(|size| Workload { size: Bytes::new(size), ..workload(direction, Family::V4) });
        let at = Duration::from_secs(4);
        let plan = |workload, start| Plan { ends, workload, start, windows: None };
        let late = at.saturating_sub(Duration::from_millis(500));
        let plans = [plan(&small, Duration::ZERO), plan(&large, Duration::ZERO), plan(&large, late)];
        let stop = Stop { at, when_complete: true };
        let flows = run_plans_until(&plans, Some(stop), None).expect("they end, or are cut off");
        let outcomes: Vec<_> = flows.iter().map(|flow| (flow.verified, flow.is_cut_off)).collect();
        assert_eq!(outcomes, [(true, false), (false, true), (false, true)]);
        assert!(flows[1].bytes > Bytes::ZERO && flows[1].bytes < Bytes::new(10_000_000 / 8), "{}", flows[1].bytes);
        assert_eq!(flows[1].trace.bytes_at(flows[1].time()), flows[1].bytes.as_u64() as f64);
        assert_eq!((flows[2].bytes, flows[2].end), (Bytes::ZERO, flows[1].end));
    }
}

#[test]
fn an_experiment_may_go_on_when_its_flows_have_ended() {
    let Some(topology) = topology(1, None) else { return };
    let ends = Ends { client: &topology.terminals[0], server: &topology.hub };
    let workload = workload(Direction::Up, Family::V4);
    let plan = Plan { ends, workload: &workload, start: Duration::ZERO, windows: None };
    let begun = std::time::Instant::now();
    let stop = Stop { at: Duration::from_secs(2), when_complete: false };
    let flows = run_plans_until(&[plan], Some(stop), None).expect("it ends");
    assert!(flows[0].verified && !flows[0].is_cut_off);
    assert!(begun.elapsed() >= stop.at.into());
}

#[test]
fn networks_that_make_no_sense_are_refused() {
    for (terminals, satellite) in [(0, None), (2, None), (Topology::MAX_TERMINALS + 1, Some(LINK.satellite()))] {
        assert!(matches!(Topology::new(terminals, satellite), Err(Error::Input(_))), "{terminals}");
    }
}
