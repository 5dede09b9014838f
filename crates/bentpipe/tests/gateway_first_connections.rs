//! The first clients after a start do not wait for the satellite link to be set up.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real processes, sockets and waiting")]

mod pair;

use kernel::testing::best_of_three;
use lab::{Family, Satellite};
use link::LinkConfig;
use pair::{End, TLS, echo_all, echoes};
use std::time::{Duration, Instant};
use units::Rate;

const ROUND_TRIP: Duration = Duration::from_millis(200);

/// How many round trips the first clients wait for their servers' first bytes, who come as soon as connections are intercepted.
fn rounds(settings: &'static str, sections: &'static str) -> Option<Vec<f64>> {
    let way = LinkConfig::new(Rate::from_bps(50_000_000), units::Duration::from_millis(100));
    let mut pair = pair::across(Satellite { forward: way.clone(), return_link: way })?;
    (pair.settings, pair.sections, pair.hub_initiates) = (settings, sections, true);
    for end in [End::Hub, End::Terminal] {
        let allow = || kernel::sysctl::write("net.ipv4.tcp_fastopen", "3");
        pair.site(end).gateway.run(allow).unwrap().unwrap();
    }
    pair.start(End::Hub, "");
    pair.wait_for(|pair| !pair.status(End::Hub).is_null());
    pair.start(End::Terminal, "");
    let server = pair.serve(Family::V4, 7, echo_all);
    pair.wait_until(End::Terminal, true);
    let first = |_| {
        let begun = Instant::now();
        let mut client = pair.connect(server);
        echoes(&mut client, b"first");
        begun.elapsed().as_secs_f64() / ROUND_TRIP.as_secs_f64()
    };
    let waited = (0..3).map(first).collect();
    assert_eq!(pair.count(End::Terminal, "accepted"), 3);
    Some(waited)
}

#[test]
fn the_first_clients_after_a_start_wait_one_round_trip_for_their_server() {
    for (settings, sections) in [
        ("", ""),
        (TLS, "[tcp]\nwarm_connections = 4"),
        (pair::CLEAR, "[tcp]\nwarm_connections = 4\nfast_open = false"),
    ] {
        best_of_three(|| {
            let Some(waited) = rounds(settings, sections) else { return Ok(()) };
            assert!(waited.iter().all(|rounds| *rounds >= 1.0), "{settings} {sections}: {waited:?}");
            let is_one = waited.iter().all(|rounds| *rounds < 1.6);
            if is_one { Ok(()) } else { Err(format!("{settings} {sections}: {waited:?}")) }
        });
    }
}

#[test]
fn without_warm_connections_and_fast_open_each_waits_for_its_handshake() {
    let Some(waited) = rounds(pair::CLEAR, "[tcp]\nwarm_connections = 0\nfast_open = false") else { return };
    assert!(waited.iter().all(|rounds| *rounds >= 2.0), "{waited:?}");
}
