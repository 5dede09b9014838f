//! Metrics and link updates over HTTP: an incomplete request keeps its place for a limited time.

use crate::build::Build;
use crate::handle::Handle;
use crate::link_state::LinkUpdates;
use crate::{config, metrics};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Connections that a service has at a time.
const PLACES: usize = 128;

/// A loopback address at which nothing listens.
fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A connection to `address` on which this much of a request was sent.
fn sent(address: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// The first line of the answer, if it comes `within` this time.
fn answer(stream: &mut TcpStream, within: Duration) -> Option<String> {
    stream.set_read_timeout(Some(within)).unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).ok().map(|()| String::from_utf8_lossy(&first).into_owned())
}

/// Half requests take all places of the service of `path` at `address`, and lose them after ten seconds.
fn outlasts_half_requests(address: SocketAddr, path: &str) {
    let began = Instant::now();
    let mut half: Vec<TcpStream> = (0..PLACES).map(|_| sent(address, &format!("GET {path}"))).collect();
    let mut whole = sent(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    assert_eq!(answer(&mut whole, Duration::from_secs(1)), None, "{path}: there are {PLACES} places");
    let answered = answer(&mut whole, Duration::from_secs(20));
    assert!(answered.is_some_and(|line| line.starts_with("HTTP/1.1 ")), "{path}");
    assert!(began.elapsed() > Duration::from_secs(9), "{path}: a slow client is given time");
    for stream in &mut half {
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let ended = stream.read(&mut [0; 256]);
        let is_open = ended.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        assert!(!is_open, "{path}: half a request keeps its connection");
    }
}

#[test]
fn half_requests_lose_their_places() {
    let key = |byte: u8| satpep::PrivateKey::from_random([byte; 32]);
    let (scraped, updated) = (free(), free());
    let (handle, _) = Handle::of_no_gateway();
    let _metrics = metrics::serve(scraped, false, Build::default(), handle).unwrap();
    let text = format!(
        "[gateway]\nprivate_key = \"{}\"\n[link]\nrate = \"6Mbit/s\"\nrtt = \"600ms\"\n[updates]\nhttp = \"{updated}\"\n\
         [[peer]]\nname = \"one\"\npublic_key = \"{}\"\nroutes = [\"10.1.0.0/16\"]\n",
        key(7).to_base64(),
        key(1).public_key(),
    );
    let _updates = LinkUpdates::start(&config::parse(&text, "test").unwrap(), || {}).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| outlasts_half_requests(scraped, "/metrics"));
        scope.spawn(|| outlasts_half_requests(updated, "/link"));
    });
}
