//! What the `tcp` transport costs the processor and the link while nothing happens, and beside what it carries. Where the machine may
//! not create network namespaces, the tests say so and pass.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real processes, sockets and waiting")]

mod pair;

use lab::Family;
use pair::{CLEAR, Pair, TLS, echo_all, echoes, pattern};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

/// Processor time that both gateways have used.
fn cpu_times(pair: &Pair) -> Duration {
    pair.running.iter().flatten().map(|child| kernel::process::cpu_time(child.id()).unwrap()).sum()
}

#[test]
fn connections_of_which_one_direction_has_ended_cost_nothing_while_they_are_quiet() {
    for settings in [CLEAR, TLS] {
        let Some(pair) = Pair::with_tcp_transport(settings) else { return };
        let pair = pair.start_both("");
        // One whose client has ended, and one whose server has.
        let listens = pair.serve(Family::V4, 7, echo_all);
        let speaks = pair.serve(Family::V4, 8, |stream| {
            (&stream).write_all(b"all").unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            std::thread::spawn(move || (&stream).read_to_end(&mut Vec::new()));
        });
        let mut ended_by_server = pair.connect(speaks);
        ended_by_server.read_exact(&mut [0; 3]).unwrap();
        // Of this one the server keeps its own direction open.
        let quiet = pair.serve(Family::V4, 9, |mut stream| {
            std::thread::spawn(move || {
                stream.read_to_end(&mut Vec::new()).unwrap();
                std::thread::sleep(Duration::from_secs(4));
            });
        });
        let ended_by_client = pair.connect(quiet);
        (&ended_by_client).write_all(b"all").unwrap();
        ended_by_client.shutdown(Shutdown::Write).unwrap();
        echoes(&mut pair.connect(listens), b"both have been passed on");
        std::thread::sleep(Duration::from_millis(500));
        let before = cpu_times(&pair);
        std::thread::sleep(Duration::from_secs(2));
        let used = cpu_times(&pair) - before;
        // A wake-up each 100 ms and a probe each second are some milliseconds.
        assert!(used < Duration::from_millis(200), "{used:?} in 2 s");
    }
}

/// Processor time of both gateways while `count` clients send so many bytes each, end, and read the answer.
fn cpu_of_uploads(settings: &'static str, count: usize, length: usize) -> Option<Duration> {
    let pair = match settings {
        "" => Pair::up("")?,
        _ => Pair::with_tcp_transport(settings)?.start_both(""),
    };
    let server = pair.serve(Family::V4, 7, |mut stream| {
        std::thread::spawn(move || {
            let mut received = Vec::new();
            stream.read_to_end(&mut received).unwrap();
            std::thread::sleep(Duration::from_secs(1));
            stream.write_all(&received[received.len() - 1..]).unwrap();
        });
    });
    let before = cpu_times(&pair);
    let clients: Vec<_> = (0..count).map(|_| pair.connect(server)).collect();
    let senders: Vec<_> = clients
        .into_iter()
        .map(|mut client| {
            std::thread::spawn(move || {
                let bytes = pattern(1, length);
                client.write_all(&bytes).unwrap();
                client.shutdown(Shutdown::Write).unwrap();
                let mut answer = Vec::new();
                client.read_to_end(&mut answer).unwrap();
                assert_eq!(answer, bytes[length - 1..]);
            })
        })
        .collect();
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    Some(cpu_times(&pair) - before)
}

#[test]
fn twenty_uploads_cost_less_than_by_the_transport_of_our_own() {
    let (Some(own), Some(clear), Some(tls)) =
        (cpu_of_uploads("", 20, 2_000_000), cpu_of_uploads(CLEAR, 20, 2_000_000), cpu_of_uploads(TLS, 20, 2_000_000))
    else {
        return;
    };
    println!("satpep {own:?}, tcp in clear {clear:?}, with TLS {tls:?}");
    // Clear bytes are not even copied; TLS does about what the transport does. Both end with a while of waiting.
    let bearable = own * 2 + Duration::from_millis(100);
    assert!(clear < bearable && tls < bearable, "{own:?} {clear:?} {tls:?}");
}

/// Packets that the terminal's gateway has received from the satellite and sent to it.
fn packets(pair: &Pair) -> [u64; 2] {
    let list = pair.client().gateway.command("cat").arg("/proc/net/dev").output().unwrap();
    let text = String::from_utf8(list.stdout).unwrap();
    let line = text.lines().find(|line| line.trim_start().starts_with("sat:")).unwrap();
    let words: Vec<u64> =
        line.split_once(':').unwrap().1.split_whitespace().map(|word| word.parse().unwrap()).collect();
    [words[1], words[9]]
}

#[test]
fn a_pair_with_nothing_to_say_says_nothing_for_a_while() {
    let Some(pair) = Pair::with_tcp_transport(CLEAR) else { return };
    let pair = pair.start_both("");
    let mut quiet = pair.connect(pair.serve(Family::V4, 7, echo_all));
    echoes(&mut quiet, b"then nothing");
    // What follows from that is over by then.
    std::thread::sleep(Duration::from_secs(3));
    let before = packets(&pair);
    std::thread::sleep(Duration::from_secs(4));
    let after = packets(&pair);
    let said = [after[0] - before[0], after[1] - before[1]];
    // Neighbours' addresses are asked for now and then.
    assert!(said.iter().all(|count| *count <= 3), "{said:?} packets");
    echoes(&mut quiet, b"and goes on");
}
