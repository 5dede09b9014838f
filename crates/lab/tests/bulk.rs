//! Sessions without an end leave the machine's memory for TCP to others. Where namespaces cannot be made, the test says so.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: moves real traffic in real time")]

#[allow(dead_code, reason = "what is loaded is needed by other tests")]
mod kernel_flow;

use kernel::testing::best_of_three;
use kernel_flow::upload;
use lab::flows::Plan;
use lab::{Ends, Error, Satellite, Topology, bulk};
use link::{LinkConfig, QueueLimit};
use units::{Bytes, Duration, Rate};

#[test]
fn a_slow_start_without_end_does_not_fill_buffers() {
    best_of_three(start_slowly_without_end);
}

/// A link with this delay; `None` where namespaces cannot be made.
fn topology(delay: Duration) -> Option<Topology> {
    let link = LinkConfig { queue: QueueLimit::Unlimited, ..LinkConfig::new(Rate::from_bps(20_000_000), delay) };
    match Topology::without_ipv6(1, Some(Satellite { forward: link.clone(), return_link: link })) {
        Err(Error::Missing(what)) if std::env::var_os("BENTPIPE_MUST_RUN").is_none() => {
            eprintln!("SKIPPED: {what}");
            None
        }
        topology => Some(topology.unwrap()),
    }
}

#[test]
fn a_session_whose_handshake_outlasts_the_run_brings_nothing() {
    let Some(topology) = topology(Duration::from_millis(500)) else { return };
    let workload = upload("reno", Bytes::ZERO);
    let ends = Ends { client: &topology.terminals[0], server: &topology.hub };
    let plan = |millis| Plan { ends, workload: &workload, start: Duration::from_millis(millis), windows: None };
    let flows = bulk::run(&[plan(0), plan(2_900)], Duration::from_secs(3), None).unwrap();
    assert!(flows[0].bytes > Bytes::ZERO && !flows[0].is_cut_off);
    assert!(flows[1].bytes == Bytes::ZERO && flows[1].is_cut_off);
}

fn start_slowly_without_end() -> Result<(), String> {
    let Some(topology) = topology(Duration::from_millis(50)) else { return Ok(()) };
    let workload = upload("reno", Bytes::ZERO);
    let ends = Ends { client: &topology.terminals[0], server: &topology.hub };
    let windows = Some(Duration::from_millis(20));
    let plan = Plan { ends, workload: &workload, start: Duration::ZERO, windows };
    let flows = bulk::run(&[plan], Duration::from_secs(3), None).unwrap();
    let samples = &flows[0].windows;
    let largest = samples.iter().map(|sample| sample.info.cwnd).max().unwrap();
    // The kernel would buffer at least two such windows.
    assert!(u64::from(largest) * 1448 > 2 * u64::from(bulk::WRITE_AHEAD), "{largest} segments");
    let most = samples.iter().map(|sample| sample.info.unsent_bytes).max().unwrap();
    assert!(most <= bulk::WRITE_AHEAD + 128 * 1024, "{most} bytes unsent");
    // The link never waits for the writer: after the first second all of it is used.
    let carried = flows[0].trace.bytes_at(Duration::from_secs(3)) - flows[0].trace.bytes_at(Duration::from_secs(2));
    if carried > 0.9 * 2.5e6 * 1448.0 / 1500.0 { Ok(()) } else { Err(format!("{carried} bytes in a second")) }
}
