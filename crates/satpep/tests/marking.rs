//! Datagrams are marked as the data in them, and what that does to their order is no loss.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::world::{Hop, World, address};
use satpep::StreamId;
use satpep::dscp::Dscp;
use units::Duration;

fn ef() -> Dscp {
    "ef".parse().unwrap()
}

/// A file without a marking that the hub sends, and beside it 200 bytes marked `ef` each 20 ms on a stream of its own.
struct Call {
    world: World,
    file: StreamId,
    voice: StreamId,
}

impl Call {
    fn new(mut world: World) -> Self {
        world.connect();
        let file = world.write(0, 0, 1 << 40);
        let voice = world.write(0, 0, 0);
        let now = world.time.now();
        world.gateways[0].endpoint.set_dscp(now, voice, ef());
        Self { world, file, voice }
    }

    fn talk(&mut self, time: Duration) {
        for _ in 0..time.as_nanos() / Duration::from_millis(20).as_nanos() {
            self.world.gateways[0].sending.get_mut(&self.voice).unwrap().left += 200;
            self.world.run_for(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_marking_is_spent_on_its_own_data_alone_and_acknowledgements_have_that_of_what_arrived() {
    let mut call = Call::new(World::fixed(Hop::geo(0.0, 3), 1));
    call.talk(Duration::from_secs(2));
    call.world.capture = Some(Vec::new());
    call.talk(Duration::from_secs(4));
    let seen = call.world.capture.take().unwrap();
    let of =
        |to: usize, dscp: Dscp| seen.iter().filter(move |datagram| datagram.to == address(to) && datagram.dscp == dscp);
    let voice: Vec<usize> = of(1, ef()).map(|datagram| datagram.bytes.len()).collect();
    assert!((195..=205).contains(&voice.len()), "one for each word: {}", voice.len());
    assert!(voice.iter().all(|length| (200..300).contains(length)), "nothing of the file is with it: {voice:?}");
    assert!(of(1, Dscp::default()).count() > 1500, "{}", of(1, Dscp::default()).count());
    // The terminal does not mark its own side of the stream.
    assert_eq!(of(0, ef()).count(), 0);
    let (now, id) = (call.world.time.now(), call.world.theirs(1, call.voice));
    call.world.gateways[1].endpoint.set_dscp(now, id, ef());
    call.world.capture = Some(Vec::new());
    call.talk(Duration::from_secs(1));
    let seen = call.world.capture.take().unwrap();
    let marked = seen.iter().filter(|datagram| datagram.to == address(0) && datagram.dscp == ef()).count();
    assert!(marked > 10, "{marked}");
}

#[test]
fn what_the_network_sends_ahead_for_its_marking_makes_nothing_count_as_lost() {
    for overtaking in [5, 40, 120] {
        let mut call = Call::new(World::new(Hop::geo(0.0, 3), 1));
        call.talk(Duration::from_secs(3));
        call.world.overtaking = Duration::from_millis(overtaking);
        call.talk(Duration::from_secs(10));
        let stats = call.world.gateways[0].stats(call.world.time.now(), 0);
        assert_eq!((stats.lost_packets, stats.retransmitted_bytes), (0, 0), "{overtaking} ms");
        let received = call.world.received(1, call.file).unwrap().bytes;
        assert!(received > 8_500_000, "{received} within 13 s at 6 Mbit/s");
    }
}

#[test]
fn what_is_lost_of_one_marking_is_missed_as_soon_as_more_of_it_arrives() {
    let mut call = Call::new(World::new(Hop::geo(1e-2, 3), 1));
    call.talk(Duration::from_secs(10));
    let stats = call.world.gateways[0].stats(call.world.time.now(), 0);
    let share = stats.retransmitted_bytes as f64 / stats.sent_bytes as f64;
    assert!((0.005..0.015).contains(&share), "{share} sent again of what is lost: 0.01");
    call.world.run_for(Duration::from_millis(1200));
    let received = call.world.received(1, call.voice).unwrap().bytes;
    assert_eq!(received, 500 * 200, "two round trips after the latest word nothing is missing");
}
