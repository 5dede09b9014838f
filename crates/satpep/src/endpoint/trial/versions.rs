//! Gateways of different versions: they work at the highest version that both speak, or say which of them is older.

use super::net::{Datagram, Net, address, elsewhere, key};
use crate::event::{Event, PeerState};
use crate::seal::{Mode, Sealing as _};
use crate::trouble::StrangerFault;
use crate::wire::packet::{COOKIE, DATA_HEADER, DataHeader, INIT, NOTICE, TAG};
use crate::{Capabilities, PeerId, Trouble, Versions, Violation};
use units::Duration;

const DELAY: Duration = Duration::from_millis(300);

fn range(oldest: u8, newest: u8) -> Versions {
    Versions::new(oldest, newest).expect("a range")
}

const MODES: [Mode; 2] = [Mode::Encrypted, Mode::Clear];

/// A hub and a terminal that speak these versions.
fn pair(hub: Versions, terminal: Versions) -> Net {
    pair_in(Mode::Encrypted, hub, terminal)
}

fn pair_in(mode: Mode, hub: Versions, terminal: Versions) -> Net {
    let mut net = Net::new(1, 1, DELAY);
    net.versions = vec![hub, terminal];
    net.modes = vec![mode; 2];
    net.restart(0, 0);
    net.restart(1, 0);
    net
}

fn version(net: &Net, side: usize) -> Option<u8> {
    net.sides[side].endpoint.peer_stats(net.time.now(), PeerId(0)).version
}

fn trouble(net: &Net, side: usize) -> Option<Trouble> {
    net.sides[side].endpoint.peer_trouble(net.time.now(), PeerId(0))
}

#[test]
fn two_versions_work_at_the_highest_that_both_speak() {
    let spoken = Versions::SPOKEN;
    let ranges = [
        (range(3, 4), range(3, 3), 3),
        (range(3, 3), range(3, 4), 3),
        (range(3, 4), range(3, 4), 4),
        (range(2, 4), range(4, 9), 4),
        (spoken, range(4, 4), 4),
        (range(4, 4), spoken, 4),
        (spoken, spoken, 5),
    ];
    // In clear, the tags of the versions differ.
    for ((hub, terminal, used), mode) in ranges.into_iter().flat_map(|case| MODES.map(|mode| (case, mode))) {
        let mut net = pair_in(mode, hub, terminal);
        assert!(net.run_until(Duration::from_secs(2), |net| net.agree(1)), "{hub} and {terminal}");
        assert_eq!((version(&net, 0), version(&net, 1)), (Some(used), Some(used)));
        let id = net.sides[1].endpoint.open(net.time.now(), PeerId(0)).expect("a stream");
        assert_eq!(net.sides[1].endpoint.write(net.time.now(), id, b"hello"), 5);
        net.run(Duration::from_secs(1));
        assert!(net.sides[0].events.iter().any(|event| matches!(event, Event::Readable(_))));
        assert_eq!((trouble(&net, 0), trouble(&net, 1)), (None, None));
    }
}

#[test]
fn without_a_common_version_both_sides_say_which_is_older() {
    for (hub, terminal) in [(range(4, 5), range(3, 3)), (range(3, 3), range(4, 5))] {
        let mut net = pair(hub, terminal);
        net.run(Duration::from_secs(5));
        let at = |ours, theirs| Some(Trouble::OtherVersions { ours, theirs, is_proven: true });
        assert_eq!((trouble(&net, 0), trouble(&net, 1)), (at(hub, terminal), at(terminal, hub)));
        assert!(net.sides[0].endpoint.stats().dropped.version_mismatch > 0);
        assert_eq!(net.sides[0].endpoint.strangers(), [], "a peer is no stranger for its version");
        assert_eq!(net.sides[1].endpoint.peer_state(PeerId(0)), PeerState::Connecting);
        // The older one is upgraded.
        let older = usize::from(terminal.are_older_than(hub));
        net.versions[older] = range(3, 4);
        net.restart(older, 0);
        net.versions[1 - older] = range(3, 4);
        net.restart(1 - older, 0);
        assert!(net.run_until(Duration::from_secs(20), |net| net.agree(1)));
        assert_eq!(trouble(&net, 0), None);
    }
}

#[test]
fn nobody_between_two_gateways_makes_them_use_a_lower_version() {
    let mut net = pair(range(3, 4), range(3, 4));
    let seen = |datagram: &Datagram| datagram.bytes[0] == INIT;
    net.between = Box::new(move |datagram, random| {
        let mut altered = datagram.clone();
        if seen(datagram) {
            // As one who knows the hub's public key can: with the MAC made again.
            altered.bytes[1..3].copy_from_slice(&[3, 3]);
            altered.bytes.truncate(altered.bytes.len() - 32);
            let own = crate::handshake::mac1_key_of(&key(0).public_key());
            crate::handshake::append_macs(&mut altered.bytes, &own, None);
            let _ = random;
        }
        vec![(Duration::ZERO, altered)]
    });
    net.run(Duration::from_secs(10));
    assert_eq!((version(&net, 0), version(&net, 1)), (None, None), "no session rather than a lower version");
    assert!(net.sides[0].endpoint.stats().dropped.not_authentic > 0);
}

#[test]
fn who_cannot_be_read_is_told_the_versions_once_for_each_init() {
    let mut net = pair(range(3, 3), range(3, 3));
    net.run(Duration::from_secs(1));
    let mut init = net.seen.iter().find(|datagram| datagram.bytes[0] == INIT).expect("an init").clone();
    // Of a version whose format is another one.
    init.bytes[1..3].copy_from_slice(&[9, 9]);
    init.bytes[16] = 0;
    init.bytes.truncate(init.bytes.len() - 32);
    let own = crate::handshake::mac1_key_of(&key(0).public_key());
    crate::handshake::append_macs(&mut init.bytes, &own, None);
    init.from = elsewhere();
    let length = init.bytes.len();
    let answered = net.arrive(init);
    assert!(answered > 0 && answered < length);
    let strangers = net.sides[0].endpoint.strangers();
    assert_eq!(
        strangers.iter().map(|stranger| stranger.fault).collect::<Vec<_>>(),
        [StrangerFault::OtherVersions(range(9, 9))]
    );
}

#[test]
fn what_anyone_can_say_of_versions_is_marked_so_and_gives_way_to_what_is_proven() {
    let mut net = pair(range(4, 4), range(3, 3));
    let hub = key(0).public_key();
    net.between = Box::new(move |datagram, random| {
        let mut out = vec![(Duration::ZERO, datagram.clone())];
        if datagram.bytes[0] == INIT {
            let bytes = crate::handshake::unproven_versions(&datagram.bytes, &hub, range(7, 8), random);
            out.push((Duration::ZERO, Datagram { from: datagram.to, to: datagram.from, bytes }));
        }
        out
    });
    net.run(DELAY + Duration::from_millis(1));
    let theirs = range(7, 8);
    assert_eq!(trouble(&net, 1), Some(Trouble::OtherVersions { ours: range(3, 3), theirs, is_proven: false }));
    net.run(Duration::from_secs(5));
    let theirs = range(4, 4);
    assert_eq!(trouble(&net, 1), Some(Trouble::OtherVersions { ours: range(3, 3), theirs, is_proven: true }));
    assert!(net.seen.iter().any(|seen| seen.bytes[0] == NOTICE && seen.from == address(0)));
    assert!(net.seen.iter().all(|seen| seen.bytes[0] != COOKIE));
}

#[test]
fn a_session_has_the_capabilities_that_both_offer() {
    let mut net = pair(range(3, 3), range(3, 3));
    let unknown = Capabilities::from_bits(1 << 50 | Capabilities::DATAGRAMS.bits());
    net.capabilities = vec![unknown, Capabilities::DATAGRAMS];
    net.restart(0, 0);
    net.restart(1, 0);
    assert!(net.run_until(Duration::from_secs(2), |net| net.agree(1)));
    for side in 0..2 {
        let stats = net.sides[side].endpoint.peer_stats(net.time.now(), PeerId(0));
        assert_eq!(stats.capabilities, Capabilities::DATAGRAMS);
    }
}

/// A datagram of the terminal's with these frames, sealed with its keys under its next number.
fn sealed(net: &mut Net, frames: &[u8]) -> Datagram {
    let now = net.time.now();
    let peer = &mut net.sides[1].endpoint.peers[0];
    let keys = peer.keys.current.as_ref().expect("connected");
    let session = peer.session.as_mut().expect("connected");
    let number = session.recovery.sent_packets.next_number();
    session.recovery.sent_packets.record(now, 0, 100, Default::default(), Default::default());
    let mut bytes = vec![0; DATA_HEADER + frames.len() + TAG];
    DataHeader { receiver: keys.peer_index, number_low: number.low_half() }.write(&mut bytes);
    bytes[DATA_HEADER..DATA_HEADER + frames.len()].copy_from_slice(frames);
    keys.send.seal(number, &mut bytes, 0);
    Datagram { from: address(1), to: address(0), bytes }
}

#[test]
fn a_frame_of_a_later_version_is_skipped_and_counted_or_named() {
    let mut net = pair(range(3, 3), range(3, 3));
    assert!(net.run_until(Duration::from_secs(2), |net| net.agree(1)));
    // A frame of type 0x3ffe with three bytes, and a ping.
    let datagram = sealed(&mut net, &[0x7f, 0xfe, 3, 1, 2, 3, 1]);
    net.arrive(datagram);
    assert_eq!(net.sides[0].endpoint.peer_stats(net.time.now(), PeerId(0)).skipped_frames, 1);
    net.run(Duration::from_secs(1));
    assert!(net.agree(1), "the session goes on");
    // A datagram frame, which was not agreed on.
    let datagram = sealed(&mut net, &[0x30, 1, 2, 3]);
    net.arrive(datagram);
    net.run(Duration::from_millis(1));
    let broke = net.sides[0].events.iter().find_map(|event| match event {
        Event::PeerBroke(_, violation) => Some(*violation),
        _ => None,
    });
    assert_eq!(broke, Some(Violation::UnknownFrame(0x30)));
}

#[test]
fn an_init_from_before_the_mode_was_changed_is_no_news() {
    let mut net = Net::new(1, 1, DELAY);
    net.modes[1] = Mode::Clear;
    net.restart(1, 0);
    net.run(Duration::from_secs(3));
    assert_eq!(trouble(&net, 0), Some(Trouble::OtherMode { ours: Mode::Encrypted }));
    let old = net.seen.iter().rfind(|datagram| datagram.bytes[0] == INIT).expect("an init").clone();
    net.modes[1] = Mode::Encrypted;
    net.restart(1, 0);
    assert!(net.run_until(Duration::from_secs(10), |net| net.agree(1)));
    net.between = Box::new(|_, _| Vec::new());
    net.run(Duration::from_secs(20));
    assert!(net.arrive(old) > 0, "it may be news: it is answered");
    assert!(matches!(trouble(&net, 0), Some(Trouble::NoAnswer { .. })), "{:?}", trouble(&net, 0));
}

#[test]
fn a_peer_in_another_mode_whose_clock_was_set_back_is_reported_all_the_same() {
    let mut net = Net::new(1, 1, DELAY);
    assert!(net.run_until(Duration::from_secs(10), |net| net.agree(1)));
    net.modes[1] = Mode::Clear;
    net.restart(1, -1_000_000);
    net.run(Duration::from_secs(20));
    assert_eq!(trouble(&net, 1), Some(Trouble::OtherMode { ours: Mode::Clear }));
    assert_eq!(trouble(&net, 0), Some(Trouble::OtherMode { ours: Mode::Encrypted }));
}
