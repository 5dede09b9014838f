//! docs/protocol.md says what the code does: its table of numbers, and the vectors that it prints.

pub(crate) mod limit;

use self::limit::{Limit, limit};
use crate::capacity::documented as capacity;
use crate::endpoint::documented as endpoint;
use crate::mtu::{self, MtuSearch};
use crate::received::Received;
use crate::reordering::Reordering;
use crate::repair::documented as repair;
use crate::rtt::RttEstimator;
use crate::sent_packets::SentPackets;
use crate::session::documented as session;
use crate::wire::frame::{MAX_ACK_RANGES, MAX_OLDER_RANGES, MAX_RECOVERED_RANGES, SKIPPABLE};
use crate::wire::packet::{COOKIE_REPLY, DATA_HEADER, MIN_INIT, NOTICE_LENGTH, TAG};
use crate::{EndpointConfig, PrivateKey, Versions};
use units::{Duration, Rate};

const PAGE: &str = include_str!("../../../docs/protocol.md");
const VECTORS: &str = include_str!("../tests/data/vectors.json");

fn limits() -> Vec<Limit> {
    let rate = Rate::from_bps(6_000_000);
    let config = EndpointConfig::new(PrivateKey::from_random([1; 32]), rate, rate, Duration::from_millis(550));
    let mut limits = vec![
        limit("versions", Versions::SPOKEN.to_string().as_str()),
        limit("bytes of a packet's header", DATA_HEADER),
        limit("bytes of a packet's tag", TAG),
        limit("bytes of an init, at least", MIN_INIT),
        limit("bytes of a cookie reply", COOKIE_REPLY),
        limit("bytes of a notice", NOTICE_LENGTH),
    ];
    limits.extend(endpoint::limits());
    limits.extend([
        limit("frame types that may be skipped", format!("{:#x}..{:#x}", SKIPPABLE.start(), SKIPPABLE.end()).as_str()),
        limit("ranges of an ACK", MAX_ACK_RANGES),
        limit("ranges of a RECOVERED", MAX_RECOVERED_RANGES),
        limit("ranges of an OLDER_RANGES", MAX_OLDER_RANGES),
        limit("packet numbers below the largest that are accepted", Received::REPLAY_WINDOW),
        limit("ranges that a receiver keeps", Received::MAX_RANGES),
        limit("packets that a sender records beside those in flight with data", SentPackets::MOST_WITHOUT_DATA),
        limit("largest reordering window", Reordering::MAX),
        limit("longest sample of the round-trip time, or four times the configured one", RttEstimator::LONGEST),
        limit("streams that a peer may have open, by default", config.max_streams),
    ]);
    limits.extend(session::limits());
    limits.extend([
        limit("longest interval of the keep-alive, by default", config.keepalive),
        limit("outage limit, by default", config.outage_limit),
        limit("least IP packet over IPv4", mtu::MIN),
        limit("least IP packet over IPv6", mtu::BASE),
        limit("lost probes after which a size is too large", MtuSearch::MAX_PROBES),
        limit("a finished search for the size begins again after", MtuSearch::RAISE_AFTER),
        limit("where not even the least size passes, it is tried each", MtuSearch::TRY_AGAIN),
        limit("precision of the search for the size, in bytes", MtuSearch::PRECISION),
        limit("losses in a row that are taken for a smaller path", MtuSearch::BLACK_HOLE),
    ]);
    limits.extend(repair::limits());
    limits.extend(capacity::limits());
    limits
}

#[test]
fn the_page_has_the_numbers_of_the_code() {
    testkit::made::table(PAGE, &limits());
    let rows =
        PAGE.split("checked against the code by `cargo test -p bentpipe-satpep documented`").nth(1).expect("a table");
    let rows = rows.split("Connect requests (`cargo").next().expect("a table");
    assert_eq!(rows.lines().filter(|line| line.starts_with("| ")).count(), limits().len() + 2, "no row more");
}

#[test]
fn the_page_prints_vectors_that_are_vectors() {
    let printed = PAGE.split("```vectors\n").nth(1).and_then(|rest| rest.split("```").next()).expect("vectors");
    let lines: Vec<_> = printed.lines().filter_map(|line| line.split_once(": ")).collect();
    assert!(lines.len() > 20, "{lines:?}");
    for (name, hex) in lines {
        assert!(VECTORS.contains(&format!("\"{}\"", hex.replace(' ', ""))), "{name}");
    }
}
