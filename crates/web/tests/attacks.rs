//! What strangers may try: the page stays, and nobody else learns anything.

use crate::site::Site;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use web::Access;

#[test]
fn silent_and_slow_requests_lose_their_places() {
    let site = Site::start(Access::Local);
    // More than there are places: half say nothing, half send a byte now and then.
    let mut strangers: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(site.address()).unwrap()).collect();
    let started = Instant::now();
    let asked = std::thread::scope(|scope| {
        let asked = scope.spawn(|| site.get("/", ""));
        while !asked.is_finished() {
            for stranger in strangers.iter_mut().skip(150) {
                // Those that have lost their place cannot.
                let _ = stranger.write_all(b"G");
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        asked.join().unwrap()
    });
    assert!(asked.starts_with("HTTP/1.1 200"), "{asked}");
    // 300 strangers and 128 places, each for ten seconds.
    assert!(started.elapsed() < Duration::from_secs(40), "{:?}", started.elapsed());
}

#[test]
fn a_page_outlives_the_patience_with_requests() {
    let site = Site::start(Access::Local);
    let started = Instant::now();
    let mut page = site.documents("");
    while started.elapsed() < Duration::from_secs(13) {
        assert!(page.next().is_some(), "after {:?}", started.elapsed());
    }
}

#[test]
fn thousands_of_connections_come_and_go() {
    let site = Site::start(Access::Local);
    for _ in 0..100 {
        let strangers: Vec<_> = (0..100).map(|_| TcpStream::connect(site.address()).unwrap()).collect();
        drop(strangers);
    }
    assert!(site.get("/", "").starts_with("HTTP/1.1 200"));
}

#[test]
fn huge_headers_and_addresses_are_refused() {
    let site = Site::start(Access::Local);
    let many: String = (0..1000).map(|n| format!("X-{n}: y\r\n")).collect();
    let attempts = [
        format!("GET / HTTP/1.1\r\nHost: localhost\r\n{many}\r\n"),
        format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(1 << 20)),
        format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(1 << 20)),
    ];
    for request in attempts {
        let mut stream = TcpStream::connect(site.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // The server may close before it has read all of it.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{}", String::from_utf8_lossy(&answer));
    }
    assert!(site.get("/", "").starts_with("HTTP/1.1 200"));
}

#[test]
fn only_files_of_the_page_are_served() {
    let site = Site::start(Access::Local);
    for path in [
        "/../Cargo.toml",
        "/..%2f..%2fetc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/page.css/../../etc/passwd",
        "/.git/config",
    ] {
        let answer = site.get(path, "");
        assert!(answer.starts_with("HTTP/1.1 404"), "{path}: {answer}");
        assert!(!answer.contains("root:") && !answer.contains("[package]"), "{path}");
    }
}
