//! Another program removes the rules of a gateway while connections are in use. Where the machine may not create network namespaces, the
//! tests say so and pass.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real processes, sockets and waiting")]

mod pair;

use gateway_testkit::Family;
use kernel::network::set_sysctls;
use pair::{CLEAR, End, Pair, TLS, patient};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes of a stream, which no other place of it repeats soon.
fn block(number: u64) -> [u8; 1024] {
    std::array::from_fn(|at| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(at as u32) >> 13) as u8 ^ at as u8)
}

/// Writes a block each two milliseconds until `stop` says so; returns how many.
fn write(mut stream: TcpStream, stop: impl Fn() -> bool) -> u64 {
    let blocks = (0..).take_while(|number| {
        std::thread::sleep(Duration::from_millis(2));
        stream.write_all(&block(*number)).unwrap();
        !stop()
    });
    let count = blocks.count() as u64 + 1;
    stream.shutdown(Shutdown::Write).unwrap();
    count
}

/// Reads blocks to the end; returns how many there were.
fn read(mut stream: TcpStream) -> u64 {
    let (mut count, mut received) = (0, Vec::new());
    let mut buffer = [0; 65_536];
    while let length @ 1.. = stream.read(&mut buffer).unwrap() {
        received.extend_from_slice(&buffer[..length]);
        let whole = received.len() / 1024 * 1024;
        for one in received.drain(..whole).as_slice().chunks(1024) {
            assert!(one == block(count), "block {count} is another");
            count += 1;
        }
    }
    assert!(received.is_empty());
    count
}

/// A connection on which both ends write all the while.
struct Conversation {
    until: std::sync::Arc<std::sync::atomic::AtomicBool>,
    threads: [JoinHandle<u64>; 2],
    answers: std::sync::mpsc::Receiver<[u64; 2]>,
}

impl Conversation {
    fn begin(pair: &Pair) -> Self {
        let until = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let is_over = {
            let until = std::sync::Arc::clone(&until);
            move || until.load(std::sync::atomic::Ordering::Relaxed)
        };
        let (answer, answers) = std::sync::mpsc::channel();
        let is_over_there = is_over.clone();
        let server = pair.serve(Family::V4, 7, move |stream| {
            let (answer, reader, is_over) = (answer.clone(), stream.try_clone().unwrap(), is_over_there.clone());
            std::thread::spawn(move || {
                let read = std::thread::spawn(move || read(reader));
                let written = write(stream, is_over);
                answer.send([written, read.join().unwrap()]).unwrap();
            });
        });
        let stream = patient(pair.connect(server));
        let reader = stream.try_clone().unwrap();
        let threads = [std::thread::spawn(move || write(stream, is_over)), std::thread::spawn(move || read(reader))];
        Self { until, threads, answers }
    }

    /// Asserts that each end reads all that the other one has written.
    fn assert_whole(self) {
        self.until.store(true, std::sync::atomic::Ordering::Relaxed);
        let [written, read] = self.threads.map(|thread| thread.join().unwrap());
        assert_eq!(self.answers.recv().unwrap(), [read, written]);
    }
}

#[test]
fn connections_in_use_go_on_when_a_firewall_begins_again_from_nothing() {
    for settings in ["", CLEAR, TLS] {
        let Some(pair) = (if settings.is_empty() { Pair::new() } else { Pair::with_tcp_transport(settings) }) else {
            return;
        };
        let pair = pair.start_both("");
        let conversation = Conversation::begin(&pair);
        for _ in 0..3 {
            for end in [End::Hub, End::Terminal] {
                std::thread::sleep(Duration::from_millis(150));
                let begun = Instant::now();
                pair.nft(end, "flush ruleset");
                pair.wait_for(|pair| pair.output(end, "nft", "list tables").contains("inet bentpipe"));
                assert!(begun.elapsed() < Duration::from_secs(4), "news of the removal, and no look each five seconds");
            }
        }
        conversation.assert_whole();
    }
}

/// Packets that no rule delivers reach the other gateway's side, whose connection has the same addresses and ports, and other numbers. Of
/// those that would be taken for its data all the same, conntrack thinks as it does here of all.
#[test]
fn what_passes_a_gateway_without_rules_goes_no_further_than_the_other_one() {
    let Some(pair) = Pair::up("") else { return };
    for end in [End::Hub, End::Terminal] {
        set_sysctls(&pair.site(end).gateway, &[("netfilter/nf_conntrack_tcp_be_liberal", "1")]).unwrap();
    }
    let conversation = Conversation::begin(&pair);
    for (end, other) in [(End::Hub, End::Terminal), (End::Terminal, End::Hub)] {
        std::thread::sleep(Duration::from_millis(200));
        let count = |end| {
            pair.nft(
                end,
                "table inet seen {
                   chain arrive { type filter hook prerouting priority raw; iifname sat meta l4proto tcp counter; }
                   chain forward { type filter hook forward priority filter; iifname sat meta l4proto tcp counter; }
                 }",
            );
        };
        count(other);
        // It cannot set them up again.
        pair.signal(end, "-STOP");
        pair.nft(end, "flush ruleset");
        let arrived = || !pair.output(other, "nft", "list chain inet seen arrive").contains("packets 0 ");
        pair.wait_for(|_| arrived());
        std::thread::sleep(Duration::from_millis(300));
        let forwarded = pair.output(other, "nft", "list chain inet seen forward");
        assert!(forwarded.contains("packets 0 "), "{forwarded}");
        pair.signal(end, "-CONT");
    }
    conversation.assert_whole();
}
