//! What ordinary TCP programs do, and what they expect.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// No test waits longer for anything; most wait a few milliseconds.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// With time-outs of [`PATIENCE`].
pub fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Bytes whose order matters.
pub fn pattern(seed: u32, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Sends back what it receives until the connection ends.
pub fn echo(mut stream: TcpStream) {
    let mut buffer = [0; 65_536];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        if stream.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
}

/// As [`echo`], on a thread of its own.
pub fn echo_all(stream: TcpStream) {
    std::thread::spawn(move || echo(stream));
}

/// Asserts that `word` comes back.
pub fn echoes(stream: &mut TcpStream, word: &[u8]) {
    stream.write_all(word).unwrap();
    let mut answer = vec![0; word.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, word);
}

/// Asserts that the connection ends with a reset.
pub fn assert_reset(stream: &mut TcpStream) {
    let error = stream.read(&mut [0; 16]).expect_err("a reset, not an end");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
}
