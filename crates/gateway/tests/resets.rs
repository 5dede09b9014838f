//! A host's reset overtakes nothing that the host sent before it, as end to end (RFC 9293, section 3.6.1: a host that closes with unread
//! data resets the connection).

use crate::pair::{CLEAR, End, Family, PATIENCE, Pair, TLS, pattern};
use socket2::SockRef;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A pair over each transport.
fn each_pair(test: impl Fn(&Pair)) {
    if let Some(pair) = Pair::up("") {
        test(&pair);
    }
    for settings in [CLEAR, TLS] {
        if let Some(pair) = Pair::with_tcp_transport(settings) {
            test(&pair.start_both(""));
        }
    }
}

/// Waits until the other end's kernel has all that was written: the kernel drops the rest when it resets.
fn wait_until_acknowledged(stream: &TcpStream) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let info = kernel::tcp::tcp_info(stream).unwrap();
        if info.unsent_bytes == 0 && info.unacknowledged_segments == 0 {
            return;
        }
        assert!(Instant::now() < deadline, "{info:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// What arrives before the connection ends, and whether it ends in order.
fn read_to_end(stream: &mut TcpStream) -> (Vec<u8>, bool) {
    let mut received = Vec::new();
    let mut buffer = [0; 65_536];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return (received, true),
            Ok(count) => received.extend_from_slice(&buffer[..count]),
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
                return (received, false);
            }
        }
    }
}

/// More than fits into the sockets of the client's side.
const ANSWER: usize = 1 << 20;

#[test]
fn an_answer_arrives_before_the_reset_of_a_server_that_has_not_read_the_request() {
    each_pair(|pair| {
        for (port, pause) in [(7, 0), (8, 300)] {
            let server = pair.serve(Family::V4, port, |mut stream| {
                stream.read_exact(&mut [0]).unwrap();
                stream.write_all(&pattern(1, ANSWER)).unwrap();
                wait_until_acknowledged(&stream);
                // Closing with unread data sends a reset.
                stream.peek(&mut [0]).unwrap();
            });
            let mut client = pair.connect(server);
            client.write_all(b"ab").unwrap();
            // A client that is slow has a gateway hold more.
            std::thread::sleep(Duration::from_millis(pause));
            assert!(read_to_end(&mut client) == (pattern(1, ANSWER), false));
        }
    });
}

#[test]
fn an_answer_arrives_before_the_reset_that_a_long_upload_meets() {
    each_pair(|pair| {
        for (port, is_orderly) in [(7, false), (8, true)] {
            let (has_read, is_read) = std::sync::mpsc::channel();
            let server = pair.serve(Family::V4, port, move |mut stream| {
                stream.read_exact(&mut [0]).unwrap();
                stream.write_all(&pattern(1, ANSWER)).unwrap();
                if is_orderly {
                    stream.shutdown(std::net::Shutdown::Write).unwrap();
                }
                wait_until_acknowledged(&stream);
                // Of an end and a reset that it finds together, a gateway may pass the reset on alone.
                if is_orderly {
                    is_read.recv_timeout(PATIENCE).unwrap();
                }
            });
            let mut client = pair.connect(server);
            let mut upload = client.try_clone().unwrap();
            let upload = std::thread::spawn(move || while upload.write_all(&[7; 65_536]).is_ok() {});
            // Where the upload has met the reset, a read meets none.
            let (answer, ends_in_order) = read_to_end(&mut client);
            if is_orderly {
                has_read.send(()).unwrap();
            }
            assert!(answer == pattern(1, ANSWER), "{} bytes", answer.len());
            assert!(ends_in_order || !is_orderly, "a reset overtakes no end");
            upload.join().unwrap();
        }
    });
}

#[test]
fn a_server_reads_what_a_client_sent_before_its_reset() {
    each_pair(|pair| {
        let (report, reports) = std::sync::mpsc::channel();
        let server = pair.serve(Family::V4, 7, move |mut stream| {
            stream.write_all(b"!").unwrap();
            std::thread::sleep(Duration::from_millis(200));
            report.send(read_to_end(&mut stream)).unwrap();
        });
        let mut client = pair.connect(server);
        client.read_exact(&mut [0]).unwrap();
        client.write_all(&pattern(2, ANSWER)).unwrap();
        wait_until_acknowledged(&client);
        SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
        drop(client);
        assert!(reports.recv_timeout(PATIENCE).unwrap() == (pattern(2, ANSWER), false));
    });
}

/// Opened, finished, reset and abandoned connections of the gateway at `end`, once it has none.
fn outcomes(pair: &Pair, end: End) -> [u64; 4] {
    pair.wait_for(|pair| pair.status(end)["streams"].as_array().is_some_and(Vec::is_empty));
    let count = |outcome| pair.count(end, outcome);
    [count("accepted") + count("connected"), count("finished"), count("reset"), count("abandoned")]
}

#[test]
fn the_counts_of_clients_that_reset_at_any_moment_add_up() {
    const EACH: usize = 17;
    each_pair(|pair| {
        let server = pair.serve(Family::V4, 7, |mut stream| {
            drop(std::thread::spawn(move || while stream.read(&mut [0; 65_536]).is_ok_and(|count| count > 0) {}));
        });
        let reset = |client: TcpStream| SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
        // Before the server has answered: its SYNs are lost. The gateway in front of the clients accepts at once.
        let lose = "add table inet lost { chain out { type filter hook output priority 0; tcp dport 8 drop; }; }";
        pair.nft(End::Hub, lose);
        let unanswered = std::net::SocketAddr::new(server.ip(), 8);
        let waiting: Vec<_> = (0..EACH).map(|_| pair.connect(unanswered)).collect();
        pair.wait_for(|pair| pair.status(End::Hub)["streams"].as_array().is_some_and(|streams| streams.len() == EACH));
        waiting.into_iter().for_each(reset);
        // After it has; and with data under way.
        let idle: Vec<_> = (0..EACH).map(|_| pair.connect(server)).collect();
        pair.wait_for(|pair| pair.count(End::Hub, "connected") == EACH as u64);
        idle.into_iter().for_each(reset);
        for _ in 0..EACH {
            let mut busy = pair.connect(server);
            busy.write_all(&pattern(3, ANSWER)).unwrap();
            reset(busy);
        }
        // And some in order.
        (0..3).for_each(|_| drop(pair.connect(server)));
        let each = EACH as u64;
        pair.wait_for(|pair| pair.count(End::Hub, "finished") == 3);
        assert_eq!(outcomes(pair, End::Terminal), [3 * each + 3, 3, 3 * each, 0]);
        let [opened, finished, reset, abandoned] = outcomes(pair, End::Hub);
        assert_eq!([finished + reset, finished], [opened, 3]);
        // A busy client may be gone before its request has left for the far gateway.
        assert!((2 * each + 3..=3 * each + 3).contains(&(opened + abandoned)), "{opened} and {abandoned}");
        assert!(abandoned >= each, "{abandoned}");
    });
}

#[test]
fn a_client_that_writes_everything_before_it_reads_is_not_stuck() {
    each_pair(|pair| {
        let server = pair.serve(Family::V4, 7, |mut stream| {
            stream.read_exact(&mut [0]).unwrap();
            stream.write_all(&pattern(1, ANSWER)).unwrap();
            wait_until_acknowledged(&stream);
        });
        let mut client = pair.connect(server);
        for _ in 0..1000 {
            // As end to end, a write may meet the reset.
            if client.write_all(&[7; 65_536]).is_err() {
                break;
            }
        }
        let (answer, _) = read_to_end(&mut client);
        assert!(answer == pattern(1, ANSWER), "{} bytes", answer.len());
    });
}

#[test]
fn nothing_is_left_where_both_hosts_reset() {
    each_pair(|pair| {
        let server = pair.serve(Family::V4, 7, |mut stream| {
            stream.read_exact(&mut [0]).unwrap();
            stream.write_all(&pattern(1, 4 * ANSWER)).unwrap();
            wait_until_acknowledged(&stream);
        });
        for _ in 0..3 {
            let mut client = pair.connect(server);
            client.write_all(b"ab").unwrap();
            client.read_exact(&mut [0]).unwrap();
            // The client's side holds the rest, and the server's reset behind it.
            std::thread::sleep(Duration::from_millis(500));
            SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
        }
        for end in [End::Terminal, End::Hub] {
            pair.wait_for(|pair| pair.status(end)["streams"].as_array().is_some_and(Vec::is_empty));
        }
    });
}
