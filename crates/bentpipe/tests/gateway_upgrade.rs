//! A new process takes over from a running gateway: connections go on, and new ones find it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real processes, sockets and waiting")]

mod pair;

use lab::Family;
use pair::{CLEAR, End, PATIENCE, Pair, TLS, echo_all, echoes, pattern};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Waits until a process has ended by itself, in order.
fn assert_ends(mut child: Child) {
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the old process does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(child.wait().unwrap().success());
}

fn stays_up(pair: &Pair, connections: &mut [TcpStream]) {
    for (index, connection) in connections.iter_mut().enumerate() {
        echoes(connection, format!("connection {index}").as_bytes());
    }
    assert_eq!((pair.count(End::Hub, "reset"), pair.count(End::Terminal, "reset")), (0, 0));
}

/// Upgrades those ends while connections run, and again once the old processes have ended.
fn upgrades(mut pair: Pair, ends: &[End]) {
    let server = pair.serve(Family::V4, 7, echo_all);
    for _ in 0..2 {
        let mut before: Vec<TcpStream> = (0..10).map(|_| pair.connect(server)).collect();
        stays_up(&pair, &mut before);
        // One is in the middle of a transfer.
        let bytes = pattern(1, 3_000_000);
        let mut bulk = pair.connect(server);
        let mut sender = bulk.try_clone().unwrap();
        let sent = bytes.clone();
        let sending = std::thread::spawn(move || sender.write_all(&sent).unwrap());
        let old: Vec<Child> = ends.iter().map(|end| pair.take_over(*end)).collect();
        let mut received = vec![0; bytes.len()];
        bulk.read_exact(&mut received).unwrap();
        sending.join().unwrap();
        assert!(received == bytes, "the transfer went on through both processes");
        for end in ends {
            pair.wait_until(*end, true);
        }
        let mut after: Vec<TcpStream> = (0..10).map(|_| pair.connect(server)).collect();
        stays_up(&pair, &mut after);
        stays_up(&pair, &mut before);
        for end in ends {
            assert!(pair.status(*end)["predecessor"].is_u64());
        }
        drop((bulk, before));
        old.into_iter().for_each(assert_ends);
        for end in ends {
            pair.wait_for(|pair| pair.status(*end)["predecessor"].is_null());
        }
        stays_up(&pair, &mut after);
        echoes(&mut pair.connect(server), b"and new ones");
    }
    for end in [End::Hub, End::Terminal] {
        pair.stop(end);
        let tables = pair.site(end).gateway.command("nft").args(["list", "tables"]).output().unwrap();
        assert!(!String::from_utf8(tables.stdout).unwrap().contains("bentpipe"), "the last process removes the rules");
    }
}

#[test]
fn a_terminal_is_upgraded_and_keeps_its_connections() {
    if let Some(pair) = Pair::up("") {
        upgrades(pair, &[End::Terminal]);
    }
}

#[test]
fn a_hub_is_upgraded_and_keeps_its_connections() {
    if let Some(pair) = Pair::up("") {
        upgrades(pair, &[End::Hub]);
    }
}

#[test]
fn both_ends_are_upgraded_at_once() {
    if let Some(pair) = Pair::up("") {
        upgrades(pair, &[End::Hub, End::Terminal]);
    }
}

#[test]
fn gateways_of_the_tcp_transport_are_upgraded_and_keep_their_connections() {
    for (transport, ends) in [(CLEAR, &[End::Hub, End::Terminal][..]), (TLS, &[End::Hub])] {
        if let Some(pair) = Pair::with_tcp_transport(transport) {
            upgrades(pair.start_both(""), ends);
        }
    }
}

/// Clients who connect all the time, while the gateway at an end is upgraded: each is served.
fn serves_all_who_come(pair: &mut Pair, end: End) {
    let server = pair.serve(Family::V4, 7, echo_all);
    let (served, is_over) = (AtomicU32::new(0), AtomicBool::new(false));
    let host = pair.client().host.clone();
    std::thread::scope(|scope| {
        let be_client = || {
            while !is_over.load(Ordering::Relaxed) {
                let stream = host.run(|| TcpStream::connect_timeout(&server, PATIENCE)).unwrap().unwrap();
                echoes(&mut pair::patient(stream), b"served");
                served.fetch_add(1, Ordering::Relaxed);
            }
        };
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(be_client)).collect();
        let serves_more = |pair: &Pair| {
            let before = served.load(Ordering::Relaxed);
            pair.wait_for(|_| served.load(Ordering::Relaxed) > before + 20 || clients.iter().any(|c| c.is_finished()));
        };
        serves_more(pair);
        let old = pair.take_over(end);
        pair.wait_until(end, true);
        serves_more(pair);
        is_over.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().unwrap());
        assert!(std::process::Command::new("kill").arg(old.id().to_string()).status().unwrap().success());
        assert_ends(old);
    });
}

#[test]
fn clients_that_come_while_a_gateway_is_upgraded_are_served() {
    for transport in ["", CLEAR, TLS] {
        for end in [End::Hub, End::Terminal] {
            let pair = if transport.is_empty() { Pair::new() } else { Pair::with_tcp_transport(transport) };
            if let Some(pair) = pair {
                serves_all_who_come(&mut pair.start_both(""), end);
            }
        }
    }
}

#[test]
fn clients_whose_syn_is_held_are_served_though_the_gateway_is_upgraded() {
    for transport in ["", CLEAR] {
        let pair = if transport.is_empty() { Pair::new() } else { Pair::with_tcp_transport(transport) };
        let Some(mut pair) = pair else { return };
        if !pair.start_confirming() {
            return;
        }
        serves_all_who_come(&mut pair, End::Terminal);
        pair.assert_refused(Family::V4);
    }
}

#[test]
fn what_is_not_taken_over_is_refused_and_the_running_gateway_goes_on() {
    let Some(mut pair) = Pair::up("") else { return };
    let server = pair.serve(Family::V4, 7, echo_all);
    let mut connection = pair.connect(server);
    let good = std::fs::read_to_string(pair.config(End::Terminal)).unwrap();
    for (settings, reason) in [
        (
            good.replace("[intercept]\n", "[intercept]\nmark = 77\n"),
            "[intercept] mark is not that of the running gateway",
        ),
        (
            good.replace("connect_timeout", "accept = \"confirmed\"\nconnect_timeout"),
            "[gateway] accept is not that of the running gateway",
        ),
        (
            good.replace("connect_timeout", &format!("{CLEAR}\nconnect_timeout")),
            "[gateway] transport is not that of the running gateway",
        ),
    ] {
        pair.edit(End::Terminal, |_| settings.clone());
        let message = pair.fails_to_take_over(End::Terminal);
        assert!(message.contains(reason), "{message}");
        echoes(&mut connection, b"still");
        echoes(&mut pair.connect(server), b"and new ones");
    }
    pair.edit(End::Terminal, |_| good.clone());
    // A process that is killed while it finishes its connections leaves nothing that keeps the new one from working.
    let mut old = pair.take_over(End::Terminal);
    let message = pair.fails_to_take_over(End::Terminal);
    assert!(message.contains("still finishes its connections") || message.contains("only just begun"), "{message}");
    old.kill().unwrap();
    old.wait().unwrap();
    pair.wait_for(|pair| pair.status(End::Terminal)["predecessor"].is_null());
    pair.wait_until(End::Terminal, true);
    echoes(&mut pair.connect(server), b"the new one");
    // As does the new one: a restart cleans up.
    let mut old = pair.take_over(End::Terminal);
    pair.kill(End::Terminal);
    old.kill().unwrap();
    old.wait().unwrap();
    pair.start(End::Terminal, "");
    pair.wait_until(End::Terminal, true);
    echoes(&mut pair.connect(server), b"restarted");
}

#[test]
fn a_gateway_that_is_started_beside_an_old_one_leaves_that_in_peace() {
    let Some(mut pair) = Pair::up("") else { return };
    let server = pair.serve(Family::V4, 7, echo_all);
    let mut stays = pair.connect(server);
    echoes(&mut stays, b"before");
    let old = pair.take_over(End::Terminal);
    pair.wait_until(End::Terminal, true);
    pair.kill(End::Terminal);
    pair.start(End::Terminal, "");
    pair.wait_until(End::Terminal, true);
    let message = pair.fails_to_take_over(End::Terminal);
    assert!(message.contains("still finishes its connections"), "{message}");
    echoes(&mut pair.connect(server), b"new ones");
    // The old process needs the rules, and removes them.
    pair.stop(End::Terminal);
    echoes(&mut stays, b"by the old one");
    drop(stays);
    assert_ends(old);
    let tables = pair.site(End::Terminal).gateway.command("nft").args(["list", "tables"]).output().unwrap();
    assert!(!String::from_utf8(tables.stdout).unwrap().contains("bentpipe"), "nothing is left");
}

#[test]
fn connections_go_through_although_the_session_was_being_begun_when_the_hub_was_upgraded() {
    for settings in [CLEAR, TLS] {
        let Some(mut pair) = Pair::with_tcp_transport(settings) else { return };
        pair.start(End::Hub, "");
        // The terminal's call arrives, and what the hub asks it for to prove who calls is lost for now: packets with so much.
        let least = if settings == CLEAR { 80 } else { 250 };
        let hook = "type filter hook prerouting priority -300";
        let rule = format!("meta length > {least} meta l4proto tcp");
        pair.nft(End::Terminal, &format!("add table inet path {{ chain in {{ {hook}; iifname sat {rule} drop; }}; }}"));
        pair.start(End::Terminal, "");
        std::thread::sleep(Duration::from_millis(700));
        let old = pair.take_over(End::Hub);
        pair.nft(End::Terminal, "delete table inet path");
        pair.wait_until(End::Terminal, true);
        let server = pair.serve(Family::V4, 7, echo_all);
        let mut clients: Vec<TcpStream> = (0..10).map(|_| pair.connect(server)).collect();
        stays_up(&pair, &mut clients);
        assert_ends(old);
    }
}

#[test]
fn a_gateway_that_is_stopped_and_continued_meanwhile_hands_over_all_the_same() {
    let Some(mut pair) = Pair::up("") else { return };
    for _ in 0..3 {
        // A stop interrupts the system calls that wait with a time limit.
        let running = pair.running[End::Hub as usize].as_ref().unwrap().id().to_string();
        let is_over = std::sync::Arc::new(AtomicBool::new(false));
        let storm = std::thread::spawn({
            let is_over = std::sync::Arc::clone(&is_over);
            move || {
                while !is_over.load(Ordering::Relaxed) {
                    for signal in ["-STOP", "-CONT"] {
                        assert!(
                            std::process::Command::new("kill").args([signal, &running]).status().unwrap().success()
                        );
                    }
                }
            }
        });
        let old = pair.take_over(End::Hub);
        is_over.store(true, Ordering::Relaxed);
        storm.join().unwrap();
        assert_ends(old);
        pair.wait_until(End::Hub, true);
    }
}
