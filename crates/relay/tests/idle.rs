//! What a relayed connection costs that has nothing to do: gateways have tens of thousands of them.

use crate::engine::{engine, notices, open, settle};
use allocation_counter::measure;
use relay::engine::{ConnectReply, Progress, StreamEvent};
use units::Instant;

/// Connections that are open at once: a few more than a power of two, so that tables that double hold as little as they can for
/// their size.
const CONNECTIONS: u32 = 4100;
/// Bytes that the engine may keep for one; its stream and its socket come on top (`satpep`, `tests/idle.rs`).
const MOST: i64 = 700;

#[test]
fn idle_connections_are_small() {
    let now = Instant::from_nanos(1_000_000_000);
    let mut engine = engine();
    engine.transport.peers[0].free = u64::from(CONNECTIONS);
    engine.transport.peers[0].most = u64::from(CONNECTIONS);
    let idle = measure(|| {
        for number in 0..CONNECTIONS {
            let request = open(&format!("10.0.{}.{}:1000", number / 250, number % 250), "203.0.113.5:80");
            engine.accept(now, number, request);
            engine.transport.to_send.push((5, Progress::Blocked));
            settle(&mut engine, now);
            engine.transport.replies.push(ConnectReply::Connected);
            engine.on_stream_event(now, StreamEvent::Ready(number));
            settle(&mut engine, now);
            engine.hosts.heard = Vec::new();
            notices(&mut engine);
        }
    });
    assert_eq!(engine.connections().len(), CONNECTIONS as usize);
    let each = idle.bytes_current / i64::from(CONNECTIONS);
    println!("{each} bytes for an idle connection");
    assert!(each <= MOST, "{each} bytes for an idle connection");
}
