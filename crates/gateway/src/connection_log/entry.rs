//! What a line of the connection log says.

use relay::connect::ConnectRequest;
use relay::engine::Ended;
use schemars::JsonSchema;
use serde::Serialize;
use status::Side;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Entry {
    /// A connection that was relayed, or was to be, has ended.
    Connection(Box<ConnectionEntry>),
    /// Connections went end to end.
    Bypassed(BypassedEntry),
    /// Lines before this one could not be written.
    Dropped(DroppedEntry),
}

/// A connection that has ended. Times are RFC 3339, in UTC.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ConnectionEntry {
    /// When the client connected; at the far gateway, when its connection arrived.
    pub start: String,
    /// When it ended.
    pub end: String,
    /// Seconds between the two.
    pub duration_s: f64,
    /// Seconds from the start until the server had accepted; null if it never did.
    pub open_s: Option<f64>,
    /// The client's address.
    pub client_address: IpAddr,
    /// The client's port.
    pub client_port: u16,
    /// The server's address.
    pub server_address: IpAddr,
    /// The server's port.
    pub server_port: u16,
    /// The peer; null if the server lies behind none.
    pub peer: Option<String>,
    /// Whether this is its `near` or its `far` gateway.
    pub side: &'static str,
    /// Its number in the session with the peer; null if there was no stream for it.
    pub stream: Option<u64>,
    /// Its class at this gateway.
    pub class: String,
    /// Bytes taken from TCP at this gateway.
    pub from_tcp_bytes: u64,
    /// Bytes given to TCP at this gateway.
    pub to_tcp_bytes: u64,
    /// How it ended: `finished`, or by which fault.
    pub ended: &'static str,
    /// What the gateway that ended it said, if it did.
    pub reason: Option<String>,
    /// Smoothed round-trip time of the path to the peer at the end; null if it is not known.
    pub rtt_s: Option<f64>,
}

/// Connections that went end to end since the line before of the same reason, as the firewall counts them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BypassedEntry {
    /// When the line was made.
    pub at: String,
    /// Why (docs/troubleshooting.md).
    pub reason: String,
    /// How many.
    pub connections: u64,
}

/// Lines that could not be written, because the disk was full or too slow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DroppedEntry {
    /// When the first line after them was written.
    pub at: String,
    /// How many.
    pub lines: u64,
}

/// Where a connection went that has ended, by name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names<'a> {
    pub(crate) peer: Option<&'a str>,
    pub(crate) class: &'a str,
}

impl ConnectionEntry {
    /// What became of a relayed connection, which ended at `end` by the system clock.
    pub(crate) fn new(ended: &Ended, end: SystemTime, names: Names<'_>, rtt: Option<units::Duration>) -> Self {
        Self {
            open_s: ended.opened_after.map(seconds),
            side: if ended.is_near { Side::Near } else { Side::Far }.name(),
            stream: Some(ended.stream),
            from_tcp_bytes: ended.from_tcp,
            to_tcp_bytes: ended.to_tcp,
            ended: ended.cause.name(),
            reason: ended.cause.reason().map(|reason| reason.to_string()),
            rtt_s: rtt.map(seconds),
            ..Self::unavailable(&ended.request, ended.at.since(ended.asked), end, names)
        }
    }

    /// A client that was reset at `end` by the system clock, after it had waited for so long for a stream.
    pub(crate) fn unavailable(
        request: &ConnectRequest,
        waited: units::Duration,
        end: SystemTime,
        names: Names<'_>,
    ) -> Self {
        Self {
            start: timestamp(end - Duration::from_nanos(waited.as_nanos())),
            end: timestamp(end),
            duration_s: seconds(waited),
            open_s: None,
            client_address: request.source.ip(),
            client_port: request.source.port(),
            server_address: request.destination.ip(),
            server_port: request.destination.port(),
            peer: names.peer.map(str::to_owned),
            side: Side::Near.name(),
            stream: None,
            class: names.class.to_owned(),
            from_tcp_bytes: 0,
            to_tcp_bytes: 0,
            ended: "unavailable",
            reason: None,
            rtt_s: None,
        }
    }
}

impl BypassedEntry {
    /// So many `connections` more went end to end.
    pub(super) fn new(at: SystemTime, reason: &str, connections: u64) -> Self {
        Self { at: timestamp(at), reason: reason.to_owned(), connections }
    }
}

impl DroppedEntry {
    pub(super) fn new(at: SystemTime, lines: u64) -> Self {
        Self { at: timestamp(at), lines }
    }
}

/// The JSON Schema (draft 2020-12) of a line.
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(Entry).to_value()
}

/// To the microsecond: more digits mean nothing.
fn seconds(time: units::Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e6
}

/// RFC 3339 in UTC, to the millisecond. A clock that nobody has set may be about to begin in 1970: nothing is older than that.
pub(crate) fn timestamp(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time.max(SystemTime::UNIX_EPOCH)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use relay::engine::EndCause;
    use satpep::ResetReason;
    use units::Instant;

    fn entry(cause: EndCause) -> serde_json::Value {
        entry_at(SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_002_500), cause)
    }

    /// A connection of 2.5 s that ended at `end`.
    fn entry_at(end: SystemTime, cause: EndCause) -> serde_json::Value {
        let request = ConnectRequest::new("10.1.0.2:50000".parse().unwrap(), "[2001:db8::1]:443".parse().unwrap());
        let start = Instant::from_nanos(5_000_000_000);
        let ended = Ended {
            request,
            peer: 0,
            stream: 12,
            is_near: true,
            class: 0,
            asked: start,
            opened_after: Some(units::Duration::from_millis(612)),
            at: start + units::Duration::from_millis(2500),
            from_tcp: 5,
            to_tcp: 9000,
            cause,
        };
        let names = Names { peer: Some("hub"), class: "interactive" };
        let entry = ConnectionEntry::new(&ended, end, names, Some(units::Duration::from_millis(580)));
        serde_json::to_value(Entry::Connection(Box::new(entry))).unwrap()
    }

    #[test]
    fn a_line_has_times_ends_bytes_and_the_way_it_ended() {
        let expected = serde_json::json!({
            "event": "connection", "start": "2023-11-14T22:13:20.000Z", "end": "2023-11-14T22:13:22.500Z", "duration_s": 2.5,
            "open_s": 0.612, "client_address": "10.1.0.2", "client_port": 50000, "server_address": "2001:db8::1",
            "server_port": 443, "peer": "hub", "side": "near", "stream": 12, "class": "interactive", "from_tcp_bytes": 5,
            "to_tcp_bytes": 9000, "ended": "finished", "reason": null, "rtt_s": 0.58,
        });
        assert_eq!(entry(EndCause::Finished), expected);
        let refused = entry(EndCause::NotConnected(ResetReason::Refused));
        assert_eq!(
            (&refused["ended"], &refused["reason"]),
            (&"not_connected".into(), &"connection refused by the server".into())
        );
    }

    /// Every key of a line is in the schema, and described there; the page has the same keys.
    #[test]
    fn the_schema_and_the_page_have_the_keys_of_the_lines() {
        let schema = json_schema();
        let kinds = schema["oneOf"].as_array().unwrap();
        assert_eq!(kinds.len(), 3, "{schema:#}");
        let definition = &schema["$defs"]["ConnectionEntry"]["properties"];
        let line = entry(EndCause::Finished);
        let keys: Vec<_> = line.as_object().unwrap().keys().filter(|key| *key != "event").collect();
        assert_eq!(definition.as_object().unwrap().keys().collect::<Vec<_>>(), keys);
        let page = include_str!("../../../../docs/monitoring.md").split("## Connection log").nth(1).unwrap();
        for key in keys {
            assert!(definition[key]["description"].is_string(), "{key}");
            assert!(page.contains(&format!("`{key}`")), "{key} in docs/monitoring.md, \"Connection log\"");
        }
        for cause in ["finished", "host_reset", "host_vanished", "not_connected", "denied", "stream_reset", "timed_out"]
        {
            assert!(page.contains(&format!("`{cause}`")), "{cause}");
        }
    }

    /// Routers without a battery begin in 1970, and a clock may be set back while connections are open.
    #[test]
    fn a_connection_that_is_older_than_the_clock_is_logged() {
        let line = entry_at(SystemTime::UNIX_EPOCH + Duration::from_secs(1), EndCause::Finished);
        assert_eq!(line["start"], "1970-01-01T00:00:00.000Z");
        assert_eq!((&line["end"], &line["duration_s"]), (&"1970-01-01T00:00:01.000Z".into(), &2.5.into()));
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(5);
        assert_eq!(entry_at(before, EndCause::Finished)["end"], "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn a_client_that_waited_in_vain_leaves_a_line_without_a_stream_that_names_the_peer_if_there_is_one() {
        let request = ConnectRequest::new("[2001:db8::5]:50000".parse().unwrap(), "192.0.2.1:22".parse().unwrap());
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        for (peer, seconds, start) in
            [(None, 0, "2023-11-14T22:13:20.000Z"), (Some("hub"), 20, "2023-11-14T22:13:00.000Z")]
        {
            let names = Names { peer, class: "default" };
            let entry = ConnectionEntry::unavailable(&request, units::Duration::from_secs(seconds), at, names);
            let line = serde_json::to_value(Entry::Connection(Box::new(entry))).unwrap();
            for key in ["stream", "open_s", "rtt_s"] {
                assert!(line[key].is_null(), "{key}: {line}");
            }
            assert_eq!((line["peer"].as_str(), &line["client_address"]), (peer, &"2001:db8::5".into()));
            assert_eq!((&line["start"], &line["end"]), (&start.into(), &"2023-11-14T22:13:20.000Z".into()));
            assert_eq!((&line["from_tcp_bytes"], &line["to_tcp_bytes"]), (&0.into(), &0.into()));
            assert_eq!((line["duration_s"].as_f64(), &line["ended"]), (Some(seconds as f64), &"unavailable".into()));
        }
    }
}
