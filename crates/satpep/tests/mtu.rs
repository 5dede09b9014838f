//! Paths of other sizes, paths that change, and links that reorder and duplicate.

mod world;

use satpep::Event;
use units::{Duration, Probability};
use world::{Hop, World};

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn a_smaller_path_is_found_and_filled() {
    for (path, loss) in [(1400, 0.0), (1300, 1e-2), (1280, 0.0), (1492, 1e-3)] {
        let mut hop = Hop::geo(loss, path as u64);
        hop.mtu = path;
        let mut world = World::new(hop, 1);
        world.connect();
        world.run_for(seconds(30));
        for gateway in &world.gateways {
            let found = usize::from(gateway.stats(world.now, 0).mtu);
            assert!(found <= path && found + 8 >= path, "{found} on a path of {path}");
        }
        let start = world.now;
        let id = world.send(0, 0, 2_000_000);
        assert!(world.run_until(seconds(30), |world| world.is_finished(1, id)));
        let share = world.hop.limit_up(2_000_000) / world.now.since(start).as_secs_f64();
        assert!(share > 0.85, "{share} of the limit on a path of {path}");
    }
}

#[test]
fn data_passes_before_the_path_is_measured() {
    let mut hop = Hop::geo(0.0, 1);
    hop.mtu = 1300;
    let mut world = World::new(hop, 1);
    world.run_until(seconds(5), |world| world.gateways[0].state(0) == satpep::PeerState::Up);
    let start = world.now;
    let id = world.send(0, 0, 20_000);
    assert!(world.run_until(seconds(5), |world| world.is_finished(1, id)));
    assert!(world.now.since(start) < Duration::from_millis(700), "{}", world.now.since(start));
}

#[test]
fn a_path_that_shrinks_in_the_middle_of_a_transfer_stops_nothing() {
    for (path, loss) in [(1400, 1e-3), (1300, 0.0)] {
        let mut world = World::new(Hop::geo(loss, 3), 1);
        world.connect();
        let ids = [(1, world.send(0, 0, 6_000_000)), (0, world.send(1, 0, 6_000_000))];
        world.run_for(seconds(3));
        assert_eq!(world.gateways[0].stats(world.now, 0).mtu, 1500);
        world.hop.mtu = path;
        let done = |world: &World| ids.iter().all(|(to, id)| world.is_finished(*to, *id));
        // 9 s at the link's rate are left to send.
        assert!(world.run_until(seconds(20), done), "stuck on a path of {path}");
        world.run_for(seconds(15));
        let found = usize::from(world.gateways[0].stats(world.now, 0).mtu);
        assert!(found <= path, "{found} on a path of {path}");
        assert_eq!(world.gateways[0].count(|event| matches!(event, Event::Reset(..))), 0);
    }
}

#[test]
fn reordering_and_duplication_with_loss_cost_little_and_change_nothing() {
    for (reordered, duplicated, loss) in [(0.01, 0.0, 0.0), (0.0, 0.02, 1e-3), (0.01, 0.01, 1e-3), (0.1, 0.05, 1e-2)] {
        let mut hop = Hop::geo(loss, 17);
        hop.reorder = Some(link::Reorder {
            probability: Probability::new(reordered).expect("probability"),
            extra_delay: Duration::from_millis(20),
        });
        hop.duplicate = duplicated;
        let mut world = World::new(hop, 1);
        world.connect();
        let start = world.now;
        let id = world.send(0, 0, 10_000_000);
        assert!(world.run_until(seconds(60), |world| world.is_finished(1, id)));
        let share = world.hop.limit_up(10_000_000) / world.now.since(start).as_secs_f64();
        let stats = world.gateways[0].stats(world.now, 0);
        let again = stats.retransmitted_bytes as f64 / stats.sent_bytes as f64;
        println!("{reordered} {duplicated} {loss}: share {share:.3}, sent again {again:.4}");
        assert!(share > 0.7, "{share} of the limit");
        // Once lateness has been learnt, what is late is no longer sent again for nothing.
        assert!(again < 2.0 * loss + 0.03, "{again} of the bytes were sent again");
        assert_eq!(world.received(1, id).map(|received| received.bytes), Some(10_000_000));
    }
}
