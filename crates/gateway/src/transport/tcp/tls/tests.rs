//! Handshakes with the wrong key, the wrong protocol and no TLS at all: who is refused, and who hears why.

use super::*;
use crate::transport::tcp::tests::{key, settings};
use socket2::{Domain, Type};

const HUB: u8 = 1;
const TERMINAL: u8 = 2;
const STRANGER: u8 = 3;
/// More than a handshake takes.
const MAX_TURNS: usize = 100;

/// What the holder of `own` speaks with the holder of `peer`.
fn configs(own: u8, peer: u8, gateway: &str) -> Configs {
    Configs::new(&settings(own, peer, gateway, "")).unwrap()
}

fn pair() -> [Socket; 2] {
    let (one, other) = Socket::pair(Domain::UNIX, Type::STREAM, None).unwrap();
    [one, other].map(|socket| {
        socket.set_nonblocking(true).unwrap();
        socket
    })
}

/// What becomes of the handshake at the server's end, and then at the client's, which reads the answer.
fn outcomes(mut server: Tls, mut client: Tls) -> [Result<(), String>; 2] {
    let [at_server, at_client] = pair();
    let mut outcomes = [None, None];
    for _ in 0..MAX_TURNS {
        for (at, tls, socket) in [(1, &mut client, &at_client), (0, &mut server, &at_server)] {
            if outcomes[at].is_some() {
                continue;
            }
            let done = tls.advance(socket).and_then(|()| match (at, tls.read(socket, &mut [0])) {
                (0, _) | (_, Ok(_)) => Ok(()),
                (_, Err(error)) => Err(error),
            });
            match done {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => {
                    outcomes[at] = Some(other.map_err(|error| {
                        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
                        error.to_string()
                    }));
                    if at == 0 && outcomes[0] == Some(Ok(())) {
                        tls.write(b"!").unwrap();
                        tls.flush(socket).unwrap();
                    }
                }
            }
        }
    }
    outcomes.map(|outcome| outcome.unwrap_or_else(|| Err("waits".into())))
}

#[test]
fn two_gateways_that_know_one_another_are_sure_of_it() {
    let (hub, terminal) = (configs(HUB, TERMINAL, ""), configs(TERMINAL, HUB, ""));
    let (mut server, mut client) = (hub.accept().unwrap(), terminal.connect(0).unwrap());
    let [at_server, at_client] = pair();
    for _ in 0..MAX_TURNS {
        let _ = client.advance(&at_client);
        let _ = server.advance(&at_server);
    }
    assert!(!server.is_handshaking() && !client.is_handshaking());
    for who in [HUB, TERMINAL, STRANGER] {
        let key = key(who).public_key();
        assert_eq!((server.is_with(&key), client.is_with(&key)), (who == TERMINAL, who == HUB), "{who}");
    }
}

#[test]
fn a_client_with_a_key_that_is_no_peers_is_refused() {
    let (hub, stranger) = (configs(HUB, TERMINAL, ""), configs(STRANGER, HUB, ""));
    let [server, client] = outcomes(hub.accept().unwrap(), stranger.connect(0).unwrap());
    assert!(server.unwrap_err().contains("ApplicationVerificationFailure"));
    assert!(client.unwrap_err().starts_with("received fatal alert"));
}

#[test]
fn a_server_that_is_another_than_the_configured_one_is_refused() {
    let (stranger, terminal) = (configs(STRANGER, TERMINAL, ""), configs(TERMINAL, HUB, ""));
    let [server, client] = outcomes(stranger.accept().unwrap(), terminal.connect(0).unwrap());
    assert!(client.unwrap_err().contains("ApplicationVerificationFailure"));
    assert!(server.unwrap_err().starts_with("received fatal alert"));
}

#[test]
fn another_protocol_or_cipher_is_refused_with_an_alert_that_names_it() {
    let hub = configs(HUB, TERMINAL, "");
    let mut other = configs(TERMINAL, HUB, "");
    let client = Arc::make_mut(other.clients[0].as_mut().unwrap());
    client.alpn_protocols = vec![b"h2".to_vec(), b"bentpipe-tcp/0".to_vec()];
    let [server, client] = outcomes(hub.accept().unwrap(), other.connect(0).unwrap());
    assert!(server.is_err());
    assert_eq!(client.unwrap_err(), "received fatal alert: NoApplicationProtocol");
    let other = configs(TERMINAL, HUB, "cipher = \"chacha20-poly1305\"");
    let [server, client] = outcomes(hub.accept().unwrap(), other.connect(0).unwrap());
    assert!(server.is_err());
    assert!(client.unwrap_err().starts_with("received fatal alert"));
}

#[test]
fn a_peer_that_is_removed_is_refused_and_one_that_comes_is_not() {
    let mut hub = configs(HUB, TERMINAL, "");
    let [terminal, stranger] = [TERMINAL, STRANGER].map(|who| configs(who, HUB, ""));
    hub.set_peer(0, None);
    hub.set_peer(5, Some(&key(STRANGER).public_key()));
    let [server, _] = outcomes(hub.accept().unwrap(), terminal.connect(0).unwrap());
    assert!(server.is_err(), "it was removed");
    let [server, client] = outcomes(hub.accept().unwrap(), stranger.connect(0).unwrap());
    assert_eq!((server, client), (Ok(()), Ok(())));
    for peer in [0, 3, 99] {
        assert_eq!(hub.connect(peer).unwrap_err().kind(), io::ErrorKind::InvalidInput, "there is no peer {peer}");
    }
}

#[test]
fn what_is_no_tls_is_refused_and_half_of_it_is_an_end() {
    let hub = configs(HUB, TERMINAL, "");
    let hello = {
        let [at_server, at_client] = pair();
        let _ = configs(TERMINAL, HUB, "").connect(0).unwrap().advance(&at_client);
        let mut bytes = vec![0; 65_536];
        let count = (&at_server).read(&mut bytes).unwrap();
        bytes.truncate(count);
        bytes
    };
    let endless = [&[22, 3, 1, 0x3f, 0xff][..], &[0; 0x3fff]].concat();
    let (invalid, cut) = (io::ErrorKind::InvalidData, io::ErrorKind::UnexpectedEof);
    let cases: [(&[u8], io::ErrorKind); 10] = [
        // The same protocol in clear, another one, TLS before it was called so, a record of nothing, and an alert.
        (&[3, 1, 3, 3, 0], invalid),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", invalid),
        (&[128, 46, 1, 3, 1], invalid),
        (&endless, invalid),
        (&[21, 3, 3, 0, 2, 2, 40], invalid),
        (&[], cut),
        (&hello[..1], cut),
        (&hello[..hello.len() / 2], cut),
        (&hello[..hello.len() - 1], cut),
        (&hello, cut),
    ];
    for (bytes, expected) in cases {
        let [at_server, at_client] = pair();
        (&at_client).write_all(bytes).unwrap();
        at_client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut server = hub.accept().unwrap();
        let error = server.advance(&at_server).unwrap_err();
        assert_eq!(error.kind(), expected, "{error}, of {} bytes", bytes.len());
        assert!(server.is_handshaking());
        assert!(!server.is_with(&key(TERMINAL).public_key()), "it has proved nothing");
    }
}
