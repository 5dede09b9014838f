//! Tests of the messages alone.

use super::*;
use crate::seal::DataKey;

fn identity(byte: u8, mode: Mode) -> Identity {
    Identity::new(PrivateKey::from_random([byte; 32]), mode)
}

fn hello(epoch: u64) -> Hello {
    Hello {
        epoch,
        timestamp: 5,
        cipher: Cipher::ChaCha20Poly1305,
        session_credit: 1 << 20,
        stream_credit: 1 << 16,
        max_streams: 100,
    }
}

fn three() -> (Identity, Identity, Identity) {
    let make = |byte| identity(byte, Mode::Encrypted);
    (make(1), make(2), make(3))
}

fn init(
    from: &Identity,
    to: &Identity,
    hello: &Hello,
    cookie: Option<Cookie>,
    random: &mut SecureRandom,
) -> (Vec<u8>, Pending) {
    let acquaintance = from.acquaintance(&to.public).expect("a secret");
    from.initiate((&to.public, &acquaintance), hello, (77, None, 0), (cookie, [9; 16]), random).expect("init")
}

#[test]
fn both_sides_agree() {
    let (near, far) = (identity(1, Mode::Encrypted), identity(2, Mode::Encrypted));
    let mut random = SecureRandom::new([3; 32]);
    let (init, mut pending) = init(&near, &far, &hello(10), None, &mut random);
    assert_eq!(init.len(), INIT_LENGTH);
    assert!(far.has_valid_mac1(&init));
    let received = far.receive(&init, &mut random).expect("authentic");
    assert_eq!((received.initiator, received.hello, received.echo), (near.public, hello(10), [9; 16]));
    let (response, at_far) = far.respond::<DataKey>(received, &hello(20), (88, None)).expect("response");
    assert_eq!(response.len(), RESPONSE_LENGTH);
    assert!(near.has_valid_mac1(&response));
    let at_near: Agreement<DataKey> = near.complete(&mut pending, &response).expect("authentic");
    assert_eq!((at_near.peer_index, at_far.peer_index, at_near.hello), (88, 77, hello(20)));
    let mut datagram = vec![0; 40];
    at_near.send.seal(1, &mut datagram, 0);
    assert!(at_far.receive.open(1, &mut datagram).is_ok());
    at_far.send.seal(1, &mut datagram, 0);
    assert!(at_near.receive.open(1, &mut datagram).is_ok());
}

#[test]
fn a_forged_answer_leaves_the_handshake_usable() {
    let (near, far) = (identity(1, Mode::Encrypted), identity(2, Mode::Encrypted));
    let mut random = SecureRandom::new([3; 32]);
    let (init, mut pending) = init(&near, &far, &hello(10), None, &mut random);
    let received = far.receive(&init, &mut random).expect("authentic");
    let (response, _) = far.respond::<DataKey>(received, &hello(20), (88, None)).expect("response");
    let mut forged = response.clone();
    forged[RESPONSE_HEADER + 40] ^= 1;
    assert!(near.complete::<DataKey>(&mut pending, &forged).is_err());
    assert!(near.complete::<DataKey>(&mut pending, &response).is_ok());
}

#[test]
fn the_mode_is_authenticated() {
    let (near, far) = (identity(1, Mode::Encrypted), identity(2, Mode::Clear));
    let mut random = SecureRandom::new([3; 32]);
    let (mut init, _) = init(&near, &far, &hello(10), None, &mut random);
    assert_eq!(far.receive(&init, &mut random).ok().map(|received| received.mode), Some(Mode::Encrypted));
    for other in [Mode::Clear.code(), 0, 3] {
        init[1] = other;
        assert!(far.receive(&init, &mut random).is_err());
    }
}

#[test]
fn strangers_cannot_address_us_and_cookies_bind_the_address() {
    let (near, far, other) = (identity(1, Mode::Encrypted), identity(2, Mode::Encrypted), identity(3, Mode::Clear));
    let mut random = SecureRandom::new([3; 32]);
    let (first, pending) = init(&near, &far, &hello(10), None, &mut random);
    assert!(!other.has_valid_mac1(&first));
    let mut jar = CookieJar::new(&mut random);
    let from = "198.18.0.1:4500".parse().expect("address");
    assert!(!jar.has_valid_mac2(&first, &from));
    let reply = jar.reply(&first, &from, &far.public, &mut random);
    let cookie = pending.read_cookie(&far.public, &reply).expect("cookie");
    let (second, _) = init(&near, &far, &hello(11), Some(cookie), &mut random);
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
    let (datagram, _) = init(&near, &far, &hello(10), None, &mut random);
    let known = far.acquaintance(&near.public).expect("a secret");
    assert_eq!(known.vouches(&datagram), Some(hello(10).timestamp));
    assert_eq!(far.acquaintance(&other.public).and_then(|other| other.vouches(&datagram)), None);
    for place in 0..datagram.len() {
        let mut forged = datagram.clone();
        forged[place] ^= 1;
        assert_eq!(known.vouches(&forged), None, "byte {place}");
    }
    let (with_cookie, _) = init(&near, &far, &hello(10), Some([1; 16]), &mut random);
    assert_eq!(known.vouches(&with_cookie), None);
}

#[test]
fn notices_are_read_by_whom_they_answer_and_cannot_be_forged_but_for_the_version() {
    let (near, far, other) = three();
    let mut random = SecureRandom::new([3; 32]);
    let (datagram, pending) = init(&near, &far, &hello(10), None, &mut random);
    let (_, elsewhere) = init(&near, &far, &hello(10), None, &mut random);
    let (at_near, at_far) = (near.acquaintance(&far.public), far.acquaintance(&near.public));
    let (at_near, at_far) = (at_near.expect("a secret"), at_far.expect("a secret"));
    for notice in [Notice::Challenge { echo: [4; 16], unix_time: 1 << 60 }, Notice::OtherMode] {
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
    let sent = other_version(&datagram, &far.public, &mut random);
    assert_eq!(pending.read_notice(&far.public, &at_near, &sent), Some(Notice::OtherVersion(VERSION)));
}
