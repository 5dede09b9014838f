//! Strangers that make connections to a gateway of the `tcp` transport and say nothing, and what its peers see of them. Where the
//! machine may not create network namespaces, the tests say so and pass.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real sockets, threads and waiting")]

use crate::pair::{CLEAR, End, Family, Pair, TLS, echo_all, echoes, patient};
use socket2::{Domain, Protocol, Socket, Type};
use std::net::{SocketAddr, TcpStream};

/// More than there are places.
const STRANGERS: usize = 4_200;

/// Connections to the hub's gateway from the host of its own site, which has no key.
fn strangers(pair: &Pair, count: usize) -> Vec<Socket> {
    let hub = SocketAddr::new(pair.server().satellite_address(Family::V4), 4500);
    let connect = || {
        (0..count)
            .map(|index| {
                let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
                socket.set_nonblocking(true).unwrap();
                // It goes on in the background.
                let _ = socket.connect(&hub.into());
                if index % 200 == 0 {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                socket
            })
            .collect()
    };
    pair.server().host.run(connect).unwrap()
}

#[test]
fn strangers_that_say_nothing_take_no_place_from_peers() {
    for settings in [TLS, CLEAR] {
        let Some(pair) = Pair::with_tcp_transport(settings) else { return };
        if kernel::process::raise_open_files().unwrap() < 2 * STRANGERS as u64 {
            eprintln!("SKIPPED: this process may not open {} files", 2 * STRANGERS);
            return;
        }
        // In clear, who may call is a matter of addresses; here strangers share the peers'.
        let from = if settings == CLEAR { "accept_from = [\"198.18.0.0/15\"]" } else { "" };
        let mut pair = pair;
        pair.start(End::Hub, from);
        pair.start(End::Terminal, "");
        pair.wait_until(End::Hub, true);
        pair.wait_until(End::Terminal, true);
        let server = pair.serve(Family::V4, 7, echo_all);
        echoes(&mut pair.connect(server), b"before");
        let held = strangers(&pair, STRANGERS);
        pair.wait_for(|pair| pair.rejected("too_many") > 0);
        for _ in 0..3 {
            let mut clients: Vec<_> = (0..40).map(|_| pair.connect(server)).collect();
            clients.iter_mut().for_each(|client| echoes(client, b"accelerated"));
        }
        assert_eq!(pair.count(End::Terminal, "accepted"), 121);
        assert_eq!((pair.count(End::Terminal, "reset"), pair.count(End::Terminal, "unavailable")), (0, 0));
        drop(held);
    }
}

#[test]
fn who_does_not_say_in_time_who_it_is_has_to_go() {
    let Some(pair) = Pair::with_tcp_transport(TLS) else { return };
    let pair = pair.start_both("");
    let hub = SocketAddr::new(pair.server().satellite_address(Family::V4), 4500);
    let stream = patient(pair.server().host.run(|| TcpStream::connect(hub)).unwrap().unwrap());
    pair.wait_for(|pair| pair.rejected("late") == 1);
    assert!(std::io::Read::read(&mut &stream, &mut [0]).is_err());
    // Those that a peer keeps ahead of need may wait.
    echoes(&mut pair.connect(pair.serve(Family::V4, 7, echo_all)), b"on a warm one");
    assert_eq!((pair.opened("warm"), pair.rejected("late")), (1, 1));
}

#[test]
fn beyond_the_room_of_the_far_gateway_connections_go_end_to_end() {
    const MAX: usize = 64;
    let Some(mut pair) = Pair::with_tcp_transport(CLEAR) else { return };
    pair.hub_link = "max_streams = 64";
    let pair = pair.start_both("");
    let server = pair.serve(Family::V4, 7, echo_all);
    let mut clients: Vec<_> = (0..MAX - 4).map(|_| pair.connect(server)).collect();
    clients.iter_mut().for_each(|client| echoes(client, b"accelerated"));
    // The terminal learns that the hub has no room, and stops intercepting.
    pair.wait_for(|pair| !pair.sets(End::Terminal).contains("elements"));
    let accepted = pair.count(End::Terminal, "accepted");
    let mut more: Vec<_> = (0..MAX).map(|_| pair.connect(server)).collect();
    more.iter_mut().for_each(|client| echoes(client, b"end to end"));
    assert_eq!((pair.count(End::Terminal, "accepted"), pair.count(End::Terminal, "reset")), (accepted, 0));
    assert_eq!(pair.status(End::Terminal)["peers"][0]["state"], "up");
    drop(clients);
    pair.wait_for(|pair| pair.sets(End::Terminal).contains("elements"));
    echoes(&mut pair.connect(server), b"accelerated");
    assert_eq!(pair.count(End::Terminal, "accepted"), accepted + 1);
}
