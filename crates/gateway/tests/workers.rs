//! Threads that carry packets beside the event loop come and go under connections, and a gateway that has some is upgraded.

use crate::pair::{End, Family, OnThreads, Pair, echo_all, echoes, pattern};
use std::io::{Read, Write};
use std::net::TcpStream;

/// Bytes that go there and back, more than all buffers on the way hold.
const BYTES: usize = 24_000_000;

fn workers(pair: &Pair, end: End) -> Option<u64> {
    pair.status(end)["satellite"]["workers"].as_u64()
}

/// Has each gateway carry packets by `count` threads, and waits until it does.
fn set_workers(pair: &Pair, before: u8, count: u8) {
    let line = |count: u8| format!("workers = {count}\n");
    for end in [End::Hub, End::Terminal] {
        pair.edit(end, |text| match before {
            0 => text.replacen("[gateway]\n", &format!("[gateway]\n{}", line(count)), 1),
            _ => text.replacen(&line(before), &line(count), 1),
        });
        pair.reload_changes(end, "[gateway] workers changed");
        pair.wait_for(|pair| workers(pair, end) == Some(count.into()));
    }
}

/// Sends a pattern that the server sends back, and checks what comes.
fn transfer(mut stream: TcpStream) -> TcpStream {
    let sent = pattern(5, BYTES);
    let mut writer = stream.try_clone().unwrap();
    let copy = sent.clone();
    let writing = std::thread::spawn(move || writer.write_all(&copy).unwrap());
    let mut received = vec![0; BYTES];
    stream.read_exact(&mut received).unwrap();
    writing.join().unwrap();
    assert!(received == sent, "other bytes came back");
    stream
}

#[test]
fn threads_come_and_go_under_connections() {
    let Some(pair) = Pair::up("") else { return };
    let server = pair.serve(Family::V4, 7, echo_all);
    let mut stays = pair.connect(server);
    echoes(&mut stays, b"one thread");
    assert_eq!(workers(&pair, End::Hub), Some(1));
    let mut before = 0;
    for count in [2, 4, 1, 3] {
        let stream = pair.connect(server);
        let transferring = std::thread::spawn(move || transfer(transfer(stream)));
        set_workers(&pair, before, count);
        before = count;
        transfer(transferring.join().unwrap());
        echoes(&mut stays, b"more threads");
    }
    for end in [End::Hub, End::Terminal] {
        assert_eq!(pair.count(end, "reset"), 0);
        assert_eq!(pair.status(end)["satellite"]["dropped"]["not_authentic"], 0);
    }
}

#[test]
fn a_gateway_with_threads_is_upgraded() {
    let Some(mut pair) = Pair::up("") else { return };
    set_workers(&pair, 0, 2);
    let server = pair.serve(Family::V4, 7, echo_all);
    for end in [End::Terminal, End::Hub] {
        let mut stays = pair.connect(server);
        echoes(&mut stays, b"before");
        let old = pair.upgrade(end);
        pair.wait_for(|pair| workers(pair, end) == Some(2));
        transfer(stays);
        transfer(pair.connect(server));
        old.wait_for_end();
        pair.wait_for(|pair| pair.status(end)["predecessor"].is_null());
        transfer(pair.connect(server));
        assert_eq!(pair.count(end, "reset"), 0);
    }
}

#[test]
fn forged_packets_between_those_of_a_transfer_do_no_harm() {
    let Some(pair) = Pair::up("") else { return };
    set_workers(&pair, 0, 2);
    let server = pair.serve(Family::V4, 7, echo_all);
    let stream = pair.connect(server);
    let transferring = std::thread::spawn(move || transfer(stream));
    let hub = std::net::SocketAddr::new(pair.server().satellite_address(Family::V4), 4500);
    let forge = move || {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        let noise = pattern(9, 1200);
        for number in 0..20_000u32 {
            // Of the kind of data, with any index and number, and any length.
            let mut packet = noise[..(number % 1200) as usize].to_vec();
            packet.iter_mut().take(1).for_each(|kind| *kind = 4);
            packet.iter_mut().skip(1).zip(number.to_be_bytes()).for_each(|(byte, other)| *byte = other);
            // The queue may be full.
            let _ = socket.send_to(&packet, hub);
        }
    };
    pair.client().gateway.run(forge).unwrap();
    transfer(transferring.join().unwrap());
    let dropped = |pair: &Pair, reason: &str| pair.status(End::Hub)["satellite"]["dropped"][reason].as_u64();
    pair.wait_for(|pair| dropped(pair, "unknown_session") > Some(1000) && dropped(pair, "malformed") > Some(10));
    assert_eq!((workers(&pair, End::Hub), pair.count(End::Hub, "reset")), (Some(2), 0));
}
