//! Thousands of connections to an echo server. A process may have so many descriptors and no more, so that clients and servers are
//! processes of their own, which the one that measures starts ([`End`]). It gives [`Order`]s on their stdin, a line of JSON each, and
//! reads their results on their stdout.

mod client;
mod end;
mod server;

pub use client::Client;
pub use end::End;
pub use server::serve;

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long a client waits for answers after it has begun its last connection.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// What a client is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Open connections, a few at a time, have a message of so many bytes echoed over each, and keep them open.
    Open {
        /// How many.
        connections: u64,
        /// Bytes that each carries there and back.
        bytes: usize,
    },
    /// Have a message echoed over each of the connections that are open, over all at once.
    Use {
        /// Bytes that each carries there and back.
        bytes: usize,
    },
    /// Open connections at a rate, whatever becomes of those before, have a message echoed over each, and close it then.
    Rate {
        /// How many.
        connections: u64,
        /// How many in a second.
        per_second: u32,
        /// Bytes that each carries there and back.
        bytes: usize,
    },
}

/// The outcome of the connections of an order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Connections that were begun, or used.
    pub connections: u64,
    /// Those over which the message came back as it was.
    pub answered: u64,
    /// Those over which something else came back.
    pub wrong: u64,
    /// Those that were refused (`ECONNREFUSED`).
    pub refused: u64,
    /// Those that ended, with a reset or without, before the message was back.
    pub reset: u64,
    /// Those that had come to nothing when patience ended.
    pub unanswered: u64,
    /// Those that could not be begun, for want of ports or descriptors.
    pub failed: u64,
    /// Connections that were begun in a second, as it came to be.
    pub begun_per_second: f64,
    /// Seconds until the last of them was settled.
    pub elapsed_s: f64,
    /// Time from the call of connect() (from the first write if it was open) until the message was back, in milliseconds: the median,
    /// the 99th percentile and the longest.
    pub median_ms: f64,
    /// The 99th percentile.
    pub p99_ms: f64,
    /// The longest.
    pub longest_ms: f64,
}

impl Tally {
    /// Whether every connection has had its answer.
    pub fn is_complete(&self) -> bool {
        self.answered == self.connections
    }
}

/// The message that connection `number` carries: others carry others.
fn message(number: u64, length: usize) -> Vec<u8> {
    let mut state = number;
    let mut next = || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).to_le_bytes()
    };
    let mut bytes: Vec<u8> = std::iter::repeat_with(&mut next).take(length.div_ceil(8)).flatten().collect();
    bytes.truncate(length);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    /// A server at two ports of this host, until the test ends.
    fn server() -> Vec<SocketAddr> {
        let any = "127.0.0.1:0".parse().expect("an address");
        let (ready, listening) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let tell = |addresses: &[SocketAddr]| {
                // The test may have failed meanwhile.
                let _ = ready.send(addresses.to_vec());
            };
            serve(&[any, any], tell)
        });
        listening.recv().expect("a server")
    }

    #[test]
    fn every_connection_is_answered_whether_kept_or_not() {
        let mut client = Client::new(server()).expect("a client");
        let orders = [
            Order::Open { connections: 300, bytes: 10 },
            Order::Use { bytes: 300_000 },
            Order::Rate { connections: 200, per_second: 1_000, bytes: 100 },
            Order::Use { bytes: 1 },
        ];
        let tallies = orders.map(|order| client.carry_out(order).expect("a tally"));
        for (tally, count) in tallies.iter().zip([300, 300, 200, 300]) {
            assert_eq!((tally.connections, tally.answered), (count, count), "{tally:?}");
            assert!(tally.median_ms <= tally.p99_ms && tally.p99_ms <= tally.longest_ms, "{tally:?}");
        }
        assert!(tallies[2].begun_per_second <= 1_100.0, "{:?}", tallies[2]);
    }

    #[test]
    fn what_comes_to_nothing_is_told_apart() {
        let refused = "127.0.0.1:1".parse().expect("an address");
        let mut client = Client::new(vec![refused]).expect("a client");
        let tally = client.carry_out(Order::Open { connections: 3, bytes: 10 }).expect("a tally");
        assert_eq!((tally.refused, tally.answered, tally.is_complete()), (3, 0, false));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            let (mut liar, _) = listener.accept().expect("a connection");
            std::io::Write::write_all(&mut liar, &[0; 10]).expect("written");
            drop(listener.accept().expect("a connection"));
            std::io::Read::read(&mut liar, &mut [0; 10]).expect("read");
        });
        let mut client = Client::new(vec![address]).expect("a client");
        let tally = client.carry_out(Order::Rate { connections: 2, per_second: 100, bytes: 10 }).expect("a tally");
        assert_eq!((tally.wrong, tally.reset), (1, 1), "{tally:?}");
    }

    #[test]
    fn messages_differ() {
        assert_eq!(message(3, 20).len(), 20);
        assert!(message(3, 20) != message(4, 20) && message(3, 20)[..7] == message(3, 7));
    }
}
