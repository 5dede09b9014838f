//! In a real kernel. Where nothing can be loaded (not root of the machine, no BTF), the tests say so and pass; that the
//! kernel refuses a program is a failure.
#![allow(clippy::disallowed_methods, reason = "a test: asks the kernel")]

use congestion::{CONTROLS, Control, LinkEntry, LinkTable, LoadedControl, requirements};
use kernel::Error;
use socket2::{Domain, Socket, Type};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use units::{Duration, Rate};

fn is_possible() -> bool {
    match requirements::check() {
        Ok(()) => true,
        Err(error) => {
            eprintln!("SKIPPED: {error}");
            false
        }
    }
}

/// Under a name that nobody else has.
fn load(control: &'static Control) -> LoadedControl {
    static LOADED: AtomicU32 = AtomicU32::new(0);
    let name = format!("bl{}_{}", std::process::id(), LOADED.fetch_add(1, Ordering::Relaxed));
    LoadedControl::load_as(control, &name).expect("the kernel takes it")
}

fn is_available(name: &str) -> bool {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    std::fs::read_to_string(path).expect("the kernel tells").split_whitespace().any(|available| available == name)
}

fn entry(mbit: u64) -> LinkEntry {
    LinkEntry {
        capacity: Rate::from_bps(mbit * 1_000_000),
        header_share: 0.05,
        connections: None,
        target_queue: Duration::ZERO,
        expiry: None,
    }
}

#[test]
fn each_control_is_there_while_it_is_held() {
    if !is_possible() {
        return;
    }
    for control in CONTROLS {
        let held = load(control);
        let name = held.name().to_owned();
        assert!(is_available(&name), "{}", control.name);
        assert_eq!(held.links().is_some(), control.name == "bp_cross");
        drop(held);
        assert!(!is_available(&name), "{}", control.name);
    }
}

#[test]
fn a_name_is_given_once() {
    if !is_possible() {
        return;
    }
    let held = load(&CONTROLS[1]);
    let error = LoadedControl::load_as(&CONTROLS[2], held.name()).expect_err("the name is taken");
    assert!(matches!(&error, Error::Missing(text) if text.contains("already")), "{error}");
    assert!(is_available(held.name()));
}

#[test]
fn the_table_of_links_takes_words_and_forgets_them() {
    if !is_possible() {
        return;
    }
    let held = load(Control::by_name("bp_cross").expect("it exists"));
    let links: &LinkTable = held.links().expect("a table");
    links.set(0, entry(8)).expect("room");
    links.set(7, entry(4)).expect("room");
    links.set(7, entry(2)).expect("a entry replaces the one before");
    links.remove(7).expect("it was there");
    let error = links.remove(7).expect_err("it is gone").to_string();
    assert!(error.contains("no entry has the mark 0x7"), "{error}");
    for mark in 1..64 {
        links.set(mark, entry(1)).expect("room for 64");
    }
    let error = links.set(64, entry(1)).expect_err("full").to_string();
    assert!(error.contains("no more than 64"), "{error}");
}

/// A window follows the link of the last of many, as it does that of the first: counts of links that are gone take up no room.
#[test]
fn links_that_come_and_go_leave_room_for_the_counts_of_others() {
    if !is_possible() {
        return;
    }
    let held = load(Control::by_name("bp_cross").expect("it exists"));
    let links: &LinkTable = held.links().expect("a table");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = listener.local_addr().expect("bound").into();
    for mark in 1..=70 {
        links.set(mark, entry(1000)).expect("room");
        let client = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        client.set_mark(mark).expect("root may");
        client.set_tcp_congestion(held.name().as_bytes()).expect("it is loaded");
        client.connect(&to).expect("it listens");
        let server = listener.accept().expect("it has connected");
        let mut client = TcpStream::from(client);
        client.set_nonblocking(true).expect("possible");
        // Nobody reads: there is more to send from then on.
        while client.write(&[1; 100_000]).is_ok() {}
        let counted = links.entries().iter().find(|link| link.mark == mark).map(|link| link.counted_connections);
        assert_eq!(counted, Some(1), "link {mark}");
        drop((client, server));
        links.remove(mark).expect("it was there");
    }
}

/// Bulk data over the loopback interface, which the link would let leave a thousand times as fast.
#[test]
fn the_cross_layer_window_keeps_to_a_sockets_own_limit() {
    const LIMIT: i32 = 125_000;
    if !is_possible() {
        return;
    }
    let held = load(Control::by_name("bp_cross").expect("it exists"));
    held.links().expect("a table").set(0, entry(1000)).expect("room");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let client = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    client.set_tcp_congestion(held.name().as_bytes()).expect("it is loaded");
    kernel::testing::limit_pacing(&client, LIMIT).expect("the kernel knows it");
    client.connect(&listener.local_addr().expect("bound").into()).expect("it listens");
    let server = listener.accept().expect("it has connected");
    let mut client = TcpStream::from(client);
    client.set_nonblocking(true).expect("possible");
    while client.write(&[1; 100_000]).is_ok() {}
    let pacing = kernel::tcp::tcp_info(&client).expect("the kernel tells").pacing_rate;
    assert!(pacing <= LIMIT as u64, "{pacing} bytes a second");
    drop(server);
}

#[test]
fn the_table_of_a_control_under_another_name_is_not_taken_for_its_own() {
    let control = Control::by_name("bp_cross").expect("it exists");
    if !is_possible() || is_available(control.name) {
        return;
    }
    let _held = load(control);
    let error = LinkTable::find(control).expect_err("nobody has loaded it").to_string();
    assert!(error.contains("bp_cross is not loaded"), "{error}");
}
