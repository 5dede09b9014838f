//! What the server answers, over real sockets.

use crate::site::{Site, state};
use serde_json::Value;
use status::PeerState;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;
use web::{Access, Server, Token};

#[test]
fn every_answer_has_the_policy_and_none_may_be_stored() {
    let site = Site::start(Access::Local);
    for path in ["/", "/page.js", "/uplot.js", "/history?span=hour", "/nothing"] {
        let answer = site.get(path, "").to_lowercase();
        for header in
            ["content-security-policy: default-src 'none'; script-src 'self'", "nosniff", "cache-control: no-store"]
        {
            assert!(answer.contains(header), "{path}: {header}\n{answer}");
        }
    }
}

#[test]
fn nothing_can_be_changed() {
    let site = Site::start(Access::Local);
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        for path in ["/", "/history", "/events"] {
            assert!(site.ask(method, path, "").starts_with("HTTP/1.1 405"), "{method} {path}");
        }
    }
}

#[test]
fn without_the_token_nothing_is_told() {
    let site = Site::start(Access::Token(Token::new("0123456789abcdef").unwrap()));
    for path in ["/", "/page.js", "/history?span=hour", "/events"] {
        let refused = site.get(path, "");
        assert!(refused.starts_with("HTTP/1.1 401") && !refused.contains("gw"), "{refused}");
        let wrong = site.get(path, "Authorization: Bearer 0123456789abcdeX\r\n");
        assert!(wrong.starts_with("HTTP/1.1 401"), "{wrong}");
    }
    let right = site.get("/history?span=minutes", "Authorization: Bearer 0123456789abcdef\r\n");
    assert!(right.starts_with("HTTP/1.1 200"), "{right}");
}

#[test]
fn another_web_page_cannot_read_through_a_name_that_resolves_here() {
    let site = Site::start(Access::Local);
    let answer = site.raw("GET /history?span=hour HTTP/1.1\r\nHost: attacker.example\r\nConnection: close\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
}

#[test]
fn a_document_arrives_at_once_and_then_each_second() {
    let site = Site::start(Access::Local);
    let mut documents = site.documents("table=peers&sort=loss");
    let first: Value = documents.next().unwrap();
    assert_eq!(first["gateway"]["name"], "gw");
    assert_eq!(first["table"]["rows"][0]["name"], "terminal-1");
    site.change(|state| state.peers[0].state = PeerState::Unresponsive);
    let dead = documents.find(|document| document["peers_up"] == 1).unwrap();
    assert_eq!(dead["events"][0]["text"], "terminal-1 is unresponsive");
    let next = documents.next().unwrap();
    assert_eq!(next["events"], serde_json::json!([]), "each page is told of an event once");
    assert!(next["time"].as_f64() > first["time"].as_f64());
}

#[test]
fn streams_are_told_to_a_page_that_shows_them() {
    let site = Site::start(Access::Local);
    let table = site.documents("table=streams&filter=10.0.0.7").find(|document| document["table"].is_object()).unwrap();
    assert_eq!(table["table"]["rows"][0]["client"], "10.0.0.7:1007");
    assert_eq!((&table["table"]["matching"], &table["table"]["total"]), (&1.into(), &20.into()));
}

#[test]
fn pages_are_bounded_and_a_page_that_goes_makes_room() {
    let site = Site::start(Access::Local);
    let mut pages: Vec<_> = (0..32).map(|_| site.documents("")).collect();
    pages.iter_mut().for_each(|page| assert!(page.next().is_some()));
    assert!(site.get("/events", "").starts_with("HTTP/1.1 503"));
    pages.pop();
    // The server learns of it when it next writes.
    let has_room = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        site.documents("").next().is_some()
    });
    assert!(has_room);
}

#[test]
fn queries_that_make_no_sense_are_refused() {
    let site = Site::start(Access::Local);
    for path in ["/history", "/history?span=year", "/events?table=secrets", "/events?page=-1", "/events?sort=colour"] {
        assert!(site.get(path, "").starts_with("HTTP/1.1 400"), "{path}");
    }
}

#[test]
fn the_address_is_free_when_the_server_has_been_dropped() {
    let site = Site::start(Access::Local);
    let address = site.address();
    drop(site);
    assert!(std::net::TcpListener::bind(address).is_ok());
}

/// A page that is opened, or opens its connection again, while the gateway hangs.
#[test]
fn what_a_gateway_said_before_it_hung_is_not_shown_as_live() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (goes_on, may_go_on) = mpsc::channel::<()>();
    let mut sampled = 0;
    let source = move |_| {
        sampled += 1;
        if sampled > 2 {
            may_go_on.recv().ok()?;
        }
        Some(state())
    };
    let server = Server::start(listener, Access::Local, None, source).unwrap();
    // Its samples are one second apart, and count for three.
    std::thread::sleep(Duration::from_secs(5));
    let mut page = TcpStream::connect(server.address()).unwrap();
    write!(page, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut read_for = |patience| {
        page.set_read_timeout(Some(patience)).unwrap();
        let (mut said, mut buffer) = (Vec::new(), [0; 65_536]);
        while let Ok(count @ 1..) = page.read(&mut buffer) {
            said.extend_from_slice(&buffer[..count]);
            if said.windows(8).any(|bytes| bytes == b"\ndata: {") {
                return true;
            }
        }
        false
    };
    assert!(!read_for(Duration::from_millis(500)));
    goes_on.send(()).unwrap();
    assert!(read_for(Duration::from_secs(20)));
    // The server ends with its source.
    drop(goes_on);
}
