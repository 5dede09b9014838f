//! docs/protocol.md says what the code does: its table of numbers, and the vectors that it prints.

use crate::capacity::documented as capacity;
use crate::endpoint::documented as endpoint;
use crate::mtu::{self, MtuSearch};
use crate::received::Received;
use crate::reordering::Reordering;
use crate::repair::documented as repair;
use crate::session::documented as session;
use crate::wire::frame::{MAX_ACK_RANGES, MAX_RECOVERED_RANGES, SKIPPABLE};
use crate::wire::packet::{COOKIE_REPLY, DATA_HEADER, MIN_INIT, NOTICE_LENGTH, TAG};
use crate::{EndpointConfig, PrivateKey, Versions};
use units::{Duration, Rate};

const PAGE: &str = include_str!("../../../docs/protocol.md");
const VECTORS: &str = include_str!("../tests/data/vectors.json");

/// A row of the table.
pub(crate) type Limit = (&'static str, String);

pub(crate) fn limit(name: &'static str, value: impl Shown) -> Limit {
    (name, value.shown())
}

/// A value as the table has it.
pub(crate) trait Shown {
    fn shown(&self) -> String;
}

macro_rules! shown {
    ($($kind:ty),*) => {
        $(impl Shown for $kind {
            fn shown(&self) -> String {
                let digits = self.to_string();
                let groups = digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group).into_owned());
                groups.collect::<Vec<_>>().join(",")
            }
        })*
    };
}

shown!(u8, u16, u32, u64, usize);

impl Shown for Duration {
    fn shown(&self) -> String {
        let millis = self.as_nanos() / 1_000_000;
        if millis.is_multiple_of(1000) { format!("{} s", millis / 1000) } else { format!("{millis} ms") }
    }
}

impl Shown for &str {
    fn shown(&self) -> String {
        (*self).to_owned()
    }
}

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
        limit("packet numbers below the largest that are accepted", Received::REPLAY_WINDOW),
        limit("ranges that a receiver keeps", Received::MAX_RANGES),
        limit("largest reordering window", Reordering::MAX),
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
    let table: String = limits().iter().map(|(name, value)| format!("| {name} | {value} |\n")).collect();
    assert!(PAGE.contains(&table), "the table should be\n{table}");
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

#[test]
fn numbers_are_shown_in_groups_and_times_with_their_unit() {
    assert_eq!((1_234_567u64.shown(), 12u8.shown()), ("1,234,567".into(), "12".into()));
    assert_eq!(
        (Duration::from_millis(1500).shown(), Duration::from_secs(600).shown()),
        ("1500 ms".into(), "600 s".into())
    );
}
