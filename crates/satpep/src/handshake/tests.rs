//! Tests of the messages alone.

use super::*;
use crate::credit::Credit;
use crate::packet_number::PacketNumber;
use crate::seal::DataKey;
use crate::wire::packet::NOTICE_LENGTH;
use peering::Capabilities;

fn speaking(byte: u8, mode: Mode, oldest: u8, newest: u8) -> Identity {
    let versions = Versions::new(oldest, newest).expect("a range");
    Identity::new(PrivateKey::from_random([byte; 32]), mode, Cipher::ChaCha20Poly1305, versions)
}

fn identity(byte: u8, mode: Mode) -> Identity {
    speaking(byte, mode, 3, 3)
}

fn parameters(epoch: u64) -> TransportParameters {
    TransportParameters {
        epoch,
        timestamp: 5,
        session_credit: Credit::new(1 << 20),
        stream_credit: Credit::new(1 << 16),
        max_streams: 100,
        capabilities: Capabilities::DATAGRAMS,
        session: None,
    }
}

fn three() -> (Identity, Identity, Identity) {
    let make = |byte| identity(byte, Mode::Encrypted);
    (make(1), make(2), make(3))
}

fn init(
    from: &Identity,
    to: &Identity,
    parameters: &TransportParameters,
    cookie: Option<Cookie>,
    random: &mut SecureRandom,
) -> (Vec<u8>, Pending) {
    let acquaintance = from.acquaintance(&to.public).expect("a secret");
    from.initiate((&to.public, &acquaintance), parameters, (77, None, 0), (cookie, [9; 16]), random).expect("init")
}

#[test]
fn both_sides_agree() {
    let (near, far) = (identity(1, Mode::Encrypted), identity(2, Mode::Encrypted));
    let mut random = SecureRandom::new([3; 32]);
    let (init, mut pending) = init(&near, &far, &parameters(10), None, &mut random);
    assert_eq!((init.len(), unpadded_length(&init)), (206, Some(206)));
    assert!(far.has_valid_mac1(&init));
    let received = far.receive(&init, &mut random).expect("authentic");
    assert_eq!((received.initiator, received.parameters, received.echo), (near.public, parameters(10), [9; 16]));
    let (response, at_far) = far.respond::<DataKey>(received, &parameters(20), (88, None)).expect("response");
    assert_eq!((response.len(), unpadded_length(&response)), (133, Some(133)));
    assert!(near.has_valid_mac1(&response));
    let at_near: Agreement<DataKey> = near.complete(&mut pending, &response).expect("authentic");
    assert_eq!((at_near.peer_index, at_far.peer_index, at_near.parameters), (88, 77, parameters(20)));
    let mut datagram = vec![0; 40];
    at_near.send.seal(PacketNumber::new(1), &mut datagram, 0);
    assert!(at_far.receive.open(PacketNumber::new(1), &mut datagram).is_ok());
    at_far.send.seal(PacketNumber::new(1), &mut datagram, 0);
    assert!(at_near.receive.open(PacketNumber::new(1), &mut datagram).is_ok());
}

#[test]
fn a_handshake_without_parameters_takes_no_more_than_it_must() {
    let (near, far) = (identity(1, Mode::Encrypted), identity(2, Mode::Encrypted));
    let mut random = SecureRandom::new([3; 32]);
    let acquaintance = near.acquaintance(&far.public).expect("a secret");
    let plain = TransportParameters { capabilities: Capabilities::NONE, ..parameters(10) };
    let extras = (None, Echo::default());
    let whom = (&far.public, &acquaintance);
    let (init, _) = near.initiate(whom, &plain, (77, None, 0), extras, &mut random).expect("init");
    let received = far.receive(&init, &mut random).expect("authentic");
    let (response, _) = far.respond::<DataKey>(received, &plain, (88, None)).expect("response");
    assert_eq!((init.len(), response.len()), (198, 130));
}

#[test]
fn a_forged_answer_leaves_the_handshake_usable() {
    let (near, far) = (identity(1, Mode::Encrypted), identity(2, Mode::Encrypted));
    let mut random = SecureRandom::new([3; 32]);
    let (init, mut pending) = init(&near, &far, &parameters(10), None, &mut random);
    let received = far.receive(&init, &mut random).expect("authentic");
    let (response, _) = far.respond::<DataKey>(received, &parameters(20), (88, None)).expect("response");
    let mut forged = response.clone();
    forged[RESPONSE_HEADER + 40] ^= 1;
    assert!(near.complete::<DataKey>(&mut pending, &forged).is_err());
    assert!(near.complete::<DataKey>(&mut pending, &response).is_ok());
}

#[test]
fn the_mode_is_authenticated() {
    let (near, far) = (identity(1, Mode::Encrypted), identity(2, Mode::Clear));
    let mut random = SecureRandom::new([3; 32]);
    let (mut init, _) = init(&near, &far, &parameters(10), None, &mut random);
    assert_eq!(far.receive(&init, &mut random).ok().map(|received| received.mode), Some(Mode::Encrypted));
    for other in [Mode::Clear.code(), 0, 3] {
        init[16] = other;
        assert!(far.receive(&init, &mut random).is_err());
    }
}

#[test]
fn the_highest_common_version_is_agreed_on_and_nobody_between_can_lower_it() {
    let (near, far) = (speaking(1, Mode::Encrypted, 3, 5), speaking(2, Mode::Encrypted, 2, 4));
    let mut random = SecureRandom::new([3; 32]);
    let (init, mut pending) = init(&near, &far, &parameters(10), None, &mut random);
    assert_eq!(init[1..3], [3, 5], "in clear");
    for (oldest, newest) in [(3, 3), (1, 5), (4, 5), (3, 6)] {
        let mut altered = init.clone();
        altered[1..3].copy_from_slice(&[oldest, newest]);
        assert!(far.receive(&altered, &mut random).is_err(), "{oldest} to {newest}");
    }
    let received = far.receive(&init, &mut random).expect("authentic");
    let (response, at_far) = far.respond::<DataKey>(received, &parameters(20), (88, None)).expect("response");
    assert_eq!(response[1], 4, "in clear");
    let mut altered = response;
    altered[1] = 3;
    let at_near: Agreement<DataKey> = near.complete(&mut pending, &altered).expect("authentic");
    assert_eq!((at_near.version, at_far.version), (4, 4));
}

#[test]
fn gateways_without_a_common_version_have_no_session() {
    let (near, far) = (speaking(1, Mode::Encrypted, 3, 3), speaking(2, Mode::Encrypted, 4, 5));
    let mut random = SecureRandom::new([3; 32]);
    let (init, _) = init(&near, &far, &parameters(10), None, &mut random);
    let received = far.receive(&init, &mut random).expect("the initiator is known nevertheless");
    assert_eq!((received.initiator, received.versions.to_string()), (near.public, "3".into()));
    assert!(far.respond::<DataKey>(received, &parameters(20), (88, None)).is_none());
}

#[test]
fn strangers_cannot_address_us_and_cookies_bind_the_address() {
    let (near, far, other) = (identity(1, Mode::Encrypted), identity(2, Mode::Encrypted), identity(3, Mode::Clear));
    let mut random = SecureRandom::new([3; 32]);
    let (first, pending) = init(&near, &far, &parameters(10), None, &mut random);
    assert!(!other.has_valid_mac1(&first));
    let mut jar = CookieJar::new(&mut random);
    let from = "198.18.0.1:4500".parse().expect("address");
    assert!(!jar.has_valid_mac2(&first, &from));
    let reply = jar.reply(&first, &from, &far.public, &mut random);
    let cookie = pending.read_cookie(&far.public, &reply).expect("cookie");
    let (second, _) = init(&near, &far, &parameters(11), Some(cookie), &mut random);
    jar.rotate(&mut random);
    assert!(jar.has_valid_mac2(&second, &from));
    assert!(!jar.has_valid_mac2(&second, &"198.18.0.2:4500".parse().expect("address")));
    jar.rotate(&mut random);
    assert!(!jar.has_valid_mac2(&second, &from));
}

#[test]
fn an_acquaintance_vouches_for_its_init_and_its_time_and_nobody_else_can() {
    let (near, far, other) = three();
    let mut random = SecureRandom::new([3; 32]);
    let (datagram, _) = init(&near, &far, &parameters(10), None, &mut random);
    let known = far.acquaintance(&near.public).expect("a secret");
    assert_eq!(known.vouches(&datagram), Some(parameters(10).timestamp));
    assert_eq!(far.acquaintance(&other.public).and_then(|other| other.vouches(&datagram)), None);
    for place in 0..datagram.len() {
        let mut forged = datagram.clone();
        forged[place] ^= 1;
        assert_eq!(known.vouches(&forged), None, "byte {place}");
    }
    let (with_cookie, _) = init(&near, &far, &parameters(10), Some([1; 16]), &mut random);
    assert_eq!(known.vouches(&with_cookie), None);
}

#[test]
fn notices_are_read_by_whom_they_answer_and_cannot_be_forged_but_for_the_version() {
    let (near, far, other) = three();
    let mut random = SecureRandom::new([3; 32]);
    let (datagram, pending) = init(&near, &far, &parameters(10), None, &mut random);
    let (_, elsewhere) = init(&near, &far, &parameters(10), None, &mut random);
    let (at_near, at_far) = (near.acquaintance(&far.public), far.acquaintance(&near.public));
    let (at_near, at_far) = (at_near.expect("a secret"), at_far.expect("a secret"));
    let versions = Notice::OtherVersions(Versions::new(4, 9).expect("a range"));
    for notice in [Notice::Challenge { echo: [4; 16], unix_time: 1 << 60 }, Notice::OtherMode, versions] {
        let sent = at_far.notice(&notice, &datagram, &mut random);
        assert_eq!(sent.len(), NOTICE_LENGTH);
        assert_eq!(pending.read_notice(&far.public, &at_near, &sent), Some(notice));
        assert_eq!(elsewhere.read_notice(&far.public, &at_near, &sent), None, "it answers another init");
        for place in 0..sent.len() {
            let mut forged = sent.clone();
            forged[place] ^= 1;
            assert_eq!(pending.read_notice(&far.public, &at_near, &forged), None, "byte {place}");
        }
        let stranger = other.acquaintance(&near.public).expect("a secret");
        let forged = stranger.notice(&notice, &datagram, &mut random);
        assert_eq!(pending.read_notice(&far.public, &at_near, &forged), None);
        let reflected = at_near.notice(&notice, &datagram, &mut random);
        assert_eq!(pending.read_notice(&far.public, &at_near, &reflected), None);
    }
    let ours = Versions::new(4, 9).expect("a range");
    let sent = unproven_versions(&datagram, &far.public, ours, &mut random);
    assert_eq!(pending.read_notice(&far.public, &at_near, &sent), Some(Notice::UnprovenVersions(ours)));
}
