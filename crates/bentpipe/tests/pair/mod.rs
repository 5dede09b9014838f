//! Pairs of gateways as processes of this program.
#![allow(dead_code, unused_imports, reason = "each test program uses a part of it")]

pub use gateway_testkit::{
    CLEAR, End, PATIENCE, TLS, assert_reset, echo_all, echoes, patient, pattern, relays_both_families,
};

use gateway_testkit::{Executable, Family, Program, skipped};
use lab::{Satellite, Topology};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

/// This program.
#[derive(Debug)]
pub struct Bentpipe;

impl Executable for Bentpipe {
    const PATH: &'static str = env!("CARGO_BIN_EXE_bentpipe");
}

pub type Pair = gateway_testkit::Pair<Program<Bentpipe>, Option<Topology>>;

/// A hub and a terminal across a satellite, without gateways yet.
pub fn across(satellite: Satellite) -> Option<Pair> {
    let topology = match Topology::new(1, Some(satellite)) {
        Err(lab::Error::Missing(what)) => return skipped(&what),
        topology => topology.unwrap(),
    };
    Some(Pair::between([topology.hub.clone(), topology.terminals[0].clone()], Some(topology)))
}

/// One reader that stops holds up its own writer, nobody else, and loses nothing; the gateways keep little for it.
pub fn stalls_alone(pair: &Pair) {
    const LENGTH: usize = 200_000_000;
    let (resume, resumed) = std::sync::mpsc::channel::<()>();
    let (report, total) = std::sync::mpsc::channel();
    let stalled = pair.serve(Family::V4, 7, move |mut stream| {
        resumed.recv().unwrap();
        let (mut buffer, mut sum, mut length) = (vec![0; 1 << 20], 0u64, 0);
        while let count @ 1.. = stream.read(&mut buffer).unwrap() {
            sum += buffer[..count].iter().map(|byte| u64::from(*byte)).sum::<u64>();
            length += count;
        }
        report.send((length, sum)).unwrap();
    });
    let other = pair.serve(Family::V4, 8, echo_all);
    let block = pattern(3, 1_000_000);
    let mut client = pair.connect(stalled);
    let written = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let progress = std::sync::Arc::clone(&written);
    let expected = block.iter().map(|byte| u64::from(*byte)).sum::<u64>() * (LENGTH / block.len()) as u64;
    let writer = std::thread::spawn(move || {
        for _ in 0..LENGTH / block.len() {
            client.write_all(&block).unwrap();
            progress.fetch_add(block.len(), std::sync::atomic::Ordering::Relaxed);
        }
    });
    // The writer comes to a stand, far from the end.
    let now = || written.load(std::sync::atomic::Ordering::Relaxed);
    let deadline = Instant::now() + PATIENCE;
    let mut last = usize::MAX;
    while last != now() {
        assert!(Instant::now() < deadline);
        last = now();
        std::thread::sleep(Duration::from_millis(500));
    }
    assert!(last < LENGTH * 9 / 10, "back-pressure reaches the writer: {last}");
    let asked = Instant::now();
    echoes(&mut pair.connect(other), b"not held up");
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    for child in pair.running.iter().flatten() {
        let memory = kernel::process::resident_memory(child.id()).unwrap();
        assert!(memory < 128_000_000, "{memory}");
    }
    resume.send(()).unwrap();
    assert_eq!(total.recv_timeout(PATIENCE), Ok((LENGTH, expected)));
    writer.join().unwrap();
}
