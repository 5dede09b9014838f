//! Return links much thinner than the way there: acknowledgements never hold the forward direction back, nor crowd out
//! what else the return link carries.

use crate::world::{Hop, World};
use units::{Duration, Rate};

/// 10 Mbit/s to the terminal and 50 kbit/s back, over a geostationary satellite.
fn thin(loss: f64, seed: u64) -> Hop {
    Hop { rate: Rate::from_bps(10_000_000), return_rate: Rate::from_bps(50_000), ..Hop::geo(loss, seed) }
}

/// Sends 10 MB to the terminal: the share of the limit, and the fraction of the return link that was used until the last
/// byte came.
fn download(hop: Hop) -> (f64, f64) {
    const BYTES: u64 = 10_000_000;
    let (limit, return_rate) = (hop.limit_up(BYTES), hop.return_rate.as_bps() as f64);
    let mut world = World::fixed(hop, 1);
    world.connect();
    let start = world.time.now();
    let before = world.gateways[1].endpoint.stats().sent_ip_bytes;
    let id = world.send(0, 0, BYTES);
    assert!(world.run_until(Duration::from_secs(120), |world| world.is_finished(1, id)));
    let took = world.received(1, id).expect("received").last_at.since(start).as_secs_f64();
    let back = world.gateways[1].endpoint.stats().sent_ip_bytes - before;
    (limit / took, back as f64 * 8.0 / took / return_rate)
}

/// The mean share of the limit over two seeds, and how much of the return link was used at most.
fn mean(loss: f64, return_rate: u64) -> (f64, f64) {
    let hop = |seed| Hop { return_rate: Rate::from_bps(return_rate), ..thin(loss, seed) };
    let (shares, used): (Vec<f64>, Vec<f64>) = (0..2).map(|seed| download(hop(seed))).unzip();
    (shares.iter().sum::<f64>() / 2.0, used.into_iter().fold(0.0, f64::max))
}

#[test]
fn a_two_hundredth_of_the_capacity_is_enough_for_acknowledgements() {
    for loss in [0.0, 1e-2] {
        let ((share, used), (symmetric, _)) = (mean(loss, 50_000), mean(loss, 10_000_000));
        println!(
            "loss {loss}: {share:.4} of the limit, {symmetric:.4} with a return link as fast; {used:.3} of the thin one"
        );
        assert!(share >= 0.97 && share >= symmetric - 0.003, "{share} of the limit at {loss}, {symmetric} otherwise");
        assert!(used < 0.2, "{used} of the return link at {loss}");
    }
}

#[test]
fn even_the_thinnest_return_link_is_no_outage() {
    let hop = Hop { return_rate: Rate::from_bps(4000), ..thin(0.0, 1) };
    let limit = hop.limit_up(10_000_000);
    // A probe of 1280 bytes alone would take it two and a half seconds.
    let sizes = |index, config: &mut satpep::EndpointConfig| {
        config.mtu = if index == 0 { 1280 } else { 576 };
        config.capacity_is_fixed = true;
    };
    let mut world = World::with_each(hop, 1, sizes, |_, _, _| {});
    world.connect();
    let start = world.time.now();
    let id = world.send(0, 0, 10_000_000);
    assert!(world.run_until(Duration::from_secs(20), |world| world.is_finished(1, id)));
    let took = world.received(1, id).expect("received").last_at.since(start).as_secs_f64();
    assert!(limit / took >= 0.96, "{}", limit / took);
    let unresponsive = |event: &satpep::Event| matches!(event, satpep::Event::PeerUnresponsive(_));
    assert!(world.gateways.iter().all(|gateway| gateway.count(unresponsive) == 0));
}

#[test]
fn an_upload_on_the_thin_link_and_the_download_beside_it_get_nearly_all_of_theirs() {
    const UPLOAD: u64 = 30_000;
    let mut world = World::fixed(thin(1e-3, 1), 1);
    world.connect();
    let start = world.time.now();
    let (up, down) = (world.send(1, 0, UPLOAD), world.send(0, 0, 10_000_000));
    assert!(world.run_until(Duration::from_secs(60), |w| w.is_finished(0, up) && w.is_finished(1, down)));
    let seconds = |gateway, id| world.received(gateway, id).expect("received").last_at.since(start).as_secs_f64();
    let alone = 0.275 + UPLOAD as f64 * 8.0 / 50_000.0;
    let (up, down) = (alone / seconds(0, up), world.hop.limit_up(10_000_000) / seconds(1, down));
    println!("{up:.3} and {down:.3} of what each has alone");
    // Of the return link an eighth goes to acknowledgements, and to the upload's headers.
    assert!(up >= 0.75 && down >= 0.97, "{up} and {down} of what each has alone");
}
