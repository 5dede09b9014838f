//! Urgent data reach the other end in their place in the stream, by every transport.
//! Where the machine may not create network namespaces, the tests say so and pass.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real sockets, threads and waiting")]

use crate::pair::{CLEAR, Family, Pair, TLS, patient};
use socket2::Socket;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// What each end sends: urgent bytes first, in the middle and last, apart and in a row.
fn speak(stream: &TcpStream, pause: Duration) {
    let socket = Socket::from(stream.try_clone().unwrap());
    for word in ["^", "hello", "!", "?", "world", "$"] {
        if word.len() == 1 {
            socket.send_out_of_band(word.as_bytes()).unwrap();
        } else {
            (&socket).write_all(word.as_bytes()).unwrap();
        }
        std::thread::sleep(pause);
    }
    stream.shutdown(Shutdown::Write).unwrap();
}

/// All that `stream` brings, urgent data in their place.
fn listen(mut stream: TcpStream) -> String {
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).unwrap();
    String::from_utf8(heard).unwrap()
}

fn urgent_data_arrive(pair: &Pair) {
    for pause in [Duration::ZERO, Duration::from_millis(30)] {
        let (report, heard) = std::sync::mpsc::channel();
        let port = if pause.is_zero() { 7 } else { 8 };
        let server = pair.serve(Family::V4, port, move |stream| {
            let stream = patient(stream);
            let socket = Socket::from(stream.try_clone().unwrap());
            socket.set_out_of_band_inline(true).unwrap();
            speak(&stream, pause);
            report.send(listen(stream)).unwrap();
        });
        let client = pair.connect(server);
        Socket::from(client.try_clone().unwrap()).set_out_of_band_inline(true).unwrap();
        speak(&client, pause);
        assert_eq!(listen(client), "^hello!?world$", "from the server, {pause:?} between words");
        assert_eq!(
            heard.recv_timeout(crate::pair::PATIENCE).unwrap(),
            "^hello!?world$",
            "from the client, {pause:?} between words"
        );
    }
    assert_eq!(pair.count(crate::pair::End::Terminal, "accepted"), 2);
}

#[test]
fn by_the_transport() {
    if let Some(pair) = Pair::up("") {
        urgent_data_arrive(&pair);
    }
}

#[test]
fn by_the_kernels_tcp_without_copies() {
    if let Some(pair) = Pair::with_tcp_transport(CLEAR) {
        urgent_data_arrive(&pair.start_both(""));
    }
}

#[test]
fn by_the_kernels_tcp_with_tls() {
    if let Some(pair) = Pair::with_tcp_transport(TLS) {
        urgent_data_arrive(&pair.start_both(""));
    }
}
