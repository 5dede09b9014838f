//! What a pair of gateways does for its hosts, whatever its transport.

use crate::programs::{PATIENCE, echo_all, echoes, pattern};
use crate::{End, Pair, Runner};
use sites::Family;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::mpsc;

/// Each direction carries its bytes and ends alone, and the server sees the client's address.
pub fn carries_both_directions<R: Runner, N>(pair: &Pair<R, N>) {
    for family in [Family::V4, Family::V6] {
        let (up, down) = (pattern(1, 3_000_000), pattern(2, 2_000_000));
        let (sent, answer) = (up.clone(), down.clone());
        let (report, seen) = mpsc::channel();
        let server = pair.serve(family, 7, move |mut stream| {
            let mut received = Vec::new();
            // The client's FIN ends its direction only: the answer is sent after it.
            stream.read_to_end(&mut received).unwrap();
            stream.write_all(&answer).unwrap();
            report.send((stream.peer_addr().unwrap(), received == sent)).unwrap();
        });
        let mut client = pair.connect(server);
        client.write_all(&up).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut received = Vec::new();
        client.read_to_end(&mut received).unwrap();
        assert!(received == down, "{family:?}: {} of {} bytes arrived", received.len(), down.len());
        let (peer, intact) = seen.recv_timeout(PATIENCE).unwrap();
        assert!(intact, "{family:?}: the server received something else");
        assert_eq!(peer, client.local_addr().unwrap(), "the server sees the client's address and port");
    }
    assert_eq!((pair.count(End::Terminal, "accepted"), pair.count(End::Hub, "connected")), (2, 2));
}

/// A connection of each Internet Protocol goes through both gateways.
pub fn relays_both_families<R: Runner, N>(pair: &Pair<R, N>) {
    for family in [Family::V4, Family::V6] {
        echoes(&mut pair.connect(pair.serve(family, 7, echo_all)), &pattern(1, 100_000));
    }
    assert_eq!((pair.count(End::Terminal, "accepted"), pair.count(End::Hub, "connected")), (2, 2));
}
