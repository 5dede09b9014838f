//! The `tcp` transport waits for edges: what it forgets to do when a socket becomes ready is never done. Transfers of random sizes in
//! random pieces, by sockets with small buffers, whose ends come in every order, each byte checked, none of which may stand still.
//! Where the machine may not create network namespaces, the tests say so and pass.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real processes, sockets and waiting")]

mod pair;

use lab::Family;
use pair::{End, Pair, patient};
use socket2::{Domain, SockRef, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// As little memory as can be set, so that every socket is full at every moment.
const CLEAR: &str = "transport = \"tcp\"\nmode = \"clear\"\nsecured_externally = true\nhost_buffer = \"64KiB\"";
const TLS: &str = "transport = \"tcp\"\nhost_buffer = \"64KiB\"";
const BUFFERS: &str = "[tcp]\nwarm_connections = 3\nsend_buffer = \"64KiB\"\nreceive_buffer = \"64KiB\"";
/// Transfers under way at the same time.
const AT_ONCE: usize = 16;
/// What moves nothing for so long stands still.
const STANDSTILL: Duration = Duration::from_secs(15);

/// Numbers from a seed (SplitMix64).
#[derive(Clone)]
struct Dice(u64);

impl Dice {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.word() % bound
    }

    /// Up to `2^bits`, each power of two as likely as the others.
    fn spread(&mut self, bits: u64) -> usize {
        let power = 1 << self.below(bits + 1);
        (power + self.below(power)) as usize
    }
}

/// When an end writes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Begin {
    /// At once.
    AtOnce,
    /// When the other end's last byte has come.
    BehindTheOther,
}

/// What one end of a transfer does.
#[derive(Debug, Clone, Copy)]
struct Plan {
    bytes: usize,
    /// Bytes of one write, and of one read, at most.
    piece: usize,
    buffer: Option<usize>,
    begin: Begin,
    /// One pause of a millisecond or two in so many reads or writes; none if 0.
    pauses: u64,
    /// Before the first read.
    stall: Duration,
}

/// The plans of the client and of the server for transfer `number`.
fn plans(seed: u64, number: u64) -> [Plan; 2] {
    let mut dice = Dice(seed ^ number.rotate_left(32));
    let mut plan = || {
        let bytes = if dice.below(8) == 0 { 0 } else { dice.spread(18) };
        Plan {
            bytes,
            // Not more than some hundred writes.
            piece: dice.spread(16).max(bytes / 400),
            buffer: [None, Some(2_048), Some(8_192), Some(65_536)][dice.below(4) as usize],
            begin: Begin::AtOnce,
            pauses: [0, 0, 8, 64][dice.below(4) as usize],
            stall: Duration::from_millis(if dice.below(4) == 0 { dice.below(40) } else { 0 }),
        }
    };
    let mut both = [plan(), plan()];
    // One of them may wait for the other, not each for the other.
    match dice.below(3) {
        0 => both[0].begin = Begin::BehindTheOther,
        1 => both[1].begin = Begin::BehindTheOther,
        _ => {}
    }
    both
}

/// The bytes that the client (0) or the server (1) sends in transfer `number`.
fn content(seed: u64, number: u64, end: u64) -> impl FnMut(&mut [u8]) {
    let mut dice = Dice(seed.wrapping_mul(3) ^ number.rotate_left(16) ^ end);
    let mut rest: Vec<u8> = Vec::new();
    move |buffer| {
        for byte in buffer {
            if rest.is_empty() {
                rest = dice.word().to_le_bytes().to_vec();
            }
            *byte = rest.pop().unwrap();
        }
    }
}

fn pause(dice: &mut Dice, pauses: u64) {
    if pauses > 0 && dice.below(pauses) == 0 {
        std::thread::sleep(Duration::from_millis(1 + dice.below(2)));
    }
}

/// Does its part in transfer `number`; it returns what is wrong, in words.
fn take_part(stream: &TcpStream, seed: u64, number: u64, end: usize) -> Result<(), String> {
    let plans = plans(seed, number);
    let (own, other) = (plans[end], plans[1 - end]);
    stream.set_read_timeout(Some(STANDSTILL)).unwrap();
    stream.set_write_timeout(Some(STANDSTILL)).unwrap();
    let (has_all, begin) = mpsc::channel();
    std::thread::scope(|scope| {
        let writing = scope.spawn(move || {
            if own.begin == Begin::BehindTheOther {
                // It has failed if the other half says nothing; that is reported there.
                begin.recv().map_err(|_| "nothing to answer".to_owned())?;
            }
            write_all(stream, own, content(seed, number, end as u64), Dice(number))
        });
        let reading = read_all(stream, own, other, content(seed, number, 1 - end as u64), Dice(!number));
        if reading.is_ok() {
            // The other half may be writing already.
            let _ = has_all.send(());
        }
        drop(has_all);
        let writing = writing.join().unwrap();
        reading.and(writing)
    })
}

fn write_all(
    mut stream: &TcpStream,
    plan: Plan,
    mut content: impl FnMut(&mut [u8]),
    mut dice: Dice,
) -> Result<(), String> {
    let (mut piece, mut left) = (vec![0; plan.piece], plan.bytes);
    while left > 0 {
        let length = left.min(1 + dice.below(plan.piece as u64) as usize);
        content(&mut piece[..length]);
        stream.write_all(&piece[..length]).map_err(|error| format!("{left} bytes not written: {error}"))?;
        left -= length;
        pause(&mut dice, plan.pauses);
    }
    stream.shutdown(Shutdown::Write).map_err(|error| format!("no end: {error}"))
}

fn read_all(
    mut stream: &TcpStream,
    own: Plan,
    other: Plan,
    mut content: impl FnMut(&mut [u8]),
    mut dice: Dice,
) -> Result<(), String> {
    std::thread::sleep(own.stall);
    let (mut piece, mut expected, mut left) = (vec![0; own.piece.max(256)], Vec::new(), other.bytes);
    loop {
        match stream.read(&mut piece) {
            Ok(0) if left == 0 => return Ok(()),
            Ok(0) => return Err(format!("ended {left} bytes early")),
            Ok(count) if count > left => return Err(format!("{} bytes too many", count - left)),
            Ok(count) => {
                expected.resize(count, 0);
                content(&mut expected);
                if expected != piece[..count] {
                    return Err(format!("wrong bytes, {left} before the end"));
                }
                left -= count;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("{left} bytes not read: {error}")),
        }
        pause(&mut dice, own.pauses);
    }
}

fn set_buffers(socket: &Socket, plan: Plan) {
    if let Some(bytes) = plan.buffer {
        socket.set_send_buffer_size(bytes).unwrap();
        socket.set_recv_buffer_size(bytes).unwrap();
    }
}

fn be_client(server: SocketAddr, seed: u64, number: u64) -> Result<(), String> {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM, None).unwrap();
    set_buffers(&socket, plans(seed, number)[0]);
    socket.connect_timeout(&server.into(), STANDSTILL).map_err(|error| format!("not connected: {error}"))?;
    let mut stream = TcpStream::from(socket);
    stream.write_all(&number.to_be_bytes()).map_err(|error| format!("no number: {error}"))?;
    take_part(&stream, seed, number, 0)
}

fn be_server(stream: TcpStream, seed: u64) -> Result<(), String> {
    let mut stream = patient(stream);
    let mut number = [0; 8];
    stream.read_exact(&mut number).map_err(|error| format!("no number: {error}"))?;
    let number = u64::from_be_bytes(number);
    set_buffers(&SockRef::from(&stream), plans(seed, number)[1]);
    take_part(&stream, seed, number, 1).map_err(|wrong| format!("transfer {number} at the server: {wrong}"))
}

/// Runs transfers until there were `transfers`, or time is over; fails with the first that goes wrong.
fn stress(pair: &Pair, seed: u64, transfers: u64, until: Instant) -> u64 {
    let server = SocketAddr::new(pair.server().host_address(Family::V4), 7);
    let listener = pair.server().host.run(|| TcpListener::bind(server)).unwrap().unwrap();
    let (wrong, is_wrong) = mpsc::channel::<String>();
    let serving = wrong.clone();
    let (stop, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let over = Arc::clone(&is_over);
    let accepting = std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            if over.load(Ordering::Relaxed) > 0 {
                return;
            }
            let serving = serving.clone();
            std::thread::spawn(move || be_server(stream, seed).map_err(|what| drop(serving.send(what))));
        }
    });
    let work = |_| {
        let (next, wrong) = (Arc::clone(&stop), wrong.clone());
        let client = move || {
            while Instant::now() < until {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= transfers {
                    return;
                }
                if let Err(what) = be_client(server, seed, number) {
                    // The others are of no interest any more.
                    next.store(transfers, Ordering::Relaxed);
                    wrong.send(format!("transfer {number} {:?}: {what}", plans(seed, number))).unwrap();
                }
            }
        };
        pair.client().host.spawn("client", client).unwrap()
    };
    let clients: Vec<_> = (0..AT_ONCE).map(work).collect();
    clients.into_iter().for_each(|client| drop(client.join()));
    is_over.store(1, Ordering::Relaxed);
    // Wakes the server.
    drop(pair.server().host.run(|| TcpStream::connect(server)));
    accepting.join().unwrap();
    if let Ok(what) = is_wrong.try_recv() {
        panic!("seed {seed}: {what}\n{}\n{}", pair.status(End::Hub), pair.status(End::Terminal));
    }
    stop.load(Ordering::Relaxed).min(transfers)
}

fn pair(settings: &'static str) -> Option<Pair> {
    let mut pair = Pair::with_tcp_transport(settings)?;
    pair.sections = BUFFERS;
    Some(pair.start_both(""))
}

#[test]
fn no_transfer_stands_still_whatever_its_sizes_pieces_and_ends() {
    for settings in [CLEAR, TLS] {
        let Some(pair) = pair(settings) else { return };
        stress(&pair, 1, 150, Instant::now() + Duration::from_secs(60));
        pair.wait_for(|pair| pair.count(End::Terminal, "finished") == 150);
        assert_eq!(pair.count(End::Terminal, "reset"), 0);
    }
}

/// With `BENTPIPE_MINUTES` (5) and `BENTPIPE_SEED` (2).
#[test]
#[ignore = "minutes, by hand"]
fn no_transfer_stands_still_for_minutes() {
    let number = |name, usual| std::env::var(name).map_or(usual, |text| text.parse().unwrap());
    let (minutes, mut seed) = (number("BENTPIPE_MINUTES", 5), number("BENTPIPE_SEED", 2));
    let until = Instant::now() + Duration::from_secs(60 * minutes);
    let mut transfers = 0;
    while Instant::now() < until {
        let Some(pair) = pair([CLEAR, TLS][(seed % 2) as usize]) else { return };
        transfers += stress(&pair, seed, 3_000, until);
        println!("{transfers} transfers up to seed {seed}");
        seed += 1;
    }
}
