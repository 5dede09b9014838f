//! What pages are told: history, events and the last samples, rendered once for all pages that show the same.

use crate::events::Events;
use crate::history::{History, Span};
use crate::point::Point;
use crate::rows::{self, Moved, Table, View};
use crate::sample::{Detail, Sample};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// Different views that are rendered in one second; a page that shows another one waits.
const VIEWS: usize = 64;

/// The state of the page's data.
#[derive(Debug, Default)]
pub struct Board {
    history: History,
    events: Events,
    /// The last sample and its time, and the one before it.
    last: Option<(f64, Sample)>,
    before: Option<(f64, Sample)>,
    moved: Moved,
    point: Option<Point>,
    /// Whether a page shows streams, since the last sample.
    wants_streams: bool,
    rendered: HashMap<(View, u64), Arc<str>>,
}

impl Board {
    /// What the next sample has to hold. A page that shows streams asks for them each second.
    pub fn wanted(&mut self) -> Detail {
        if std::mem::take(&mut self.wants_streams) { Detail::Streams } else { Detail::Peers }
    }

    /// Takes the sample of `time`, in seconds since 1970.
    pub fn take(&mut self, time: f64, sample: Sample) {
        self.rendered.clear();
        if let Some((then, mut before)) = self.last.take() {
            // A clock that was set back: no rate is known.
            let seconds = if time > then { time - then } else { f64::NAN };
            let point = Point::between(&before, &sample, seconds);
            self.history.push(time, point);
            self.point = Some(point);
            self.events.compare(time, &before, &sample);
            self.moved = before.streams.take().map(|streams| Moved::of(&streams)).unwrap_or_default();
            self.before = Some((then, before));
        }
        self.last = Some((time, sample));
    }

    /// A span of the history, with all events in it.
    pub fn history(&self, span: Span) -> Value {
        let mut columns = self.history.columns(span);
        columns["events"] = json!(self.events.after(0).collect::<Vec<_>>());
        columns
    }

    /// The number of the latest event.
    pub fn last_event(&self) -> u64 {
        self.events.last()
    }

    /// The document of this second for a page that shows `view` and knows the events up to number `known`. `None` before
    /// the first sample, or if pages show too many different views.
    pub fn document(&mut self, view: &View, known: u64) -> Option<Arc<str>> {
        self.wants_streams |= view.table == Table::Streams;
        let key = (view.clone(), known);
        if let Some(document) = self.rendered.get(&key) {
            return Some(Arc::clone(document));
        }
        if self.rendered.len() >= VIEWS {
            return None;
        }
        let document: Arc<str> = self.render(view, known)?.to_string().into();
        self.rendered.insert(key, Arc::clone(&document));
        Some(document)
    }

    fn render(&self, view: &View, known: u64) -> Option<Value> {
        let (time, now) = self.last.as_ref()?;
        let (then, before) = self.before.as_ref().map_or((f64::NAN, now), |(then, before)| (*then, before));
        let seconds = if *time > then { time - then } else { 1.0 };
        let mut document = json!({
            "time": time,
            "gateway": {
                "name": now.name, "transport": now.transport, "uptime_s": now.uptime_s, "is_draining": now.is_draining,
            },
            "capacity_bps": now.capacity_bps,
            "capacity_source": now.capacity_source,
            "cross_traffic_bps": now.cross_traffic_bps,
            "sent_ip_bytes": now.sent_ip_bytes,
            "received_ip_bytes": now.received_ip_bytes,
            "link": {
                "source": now.link.source, "rate_bps": now.link.rate_bps,
                "receive_rate_bps": now.link.receive_rate_bps, "rtt_s": now.link.rtt_s, "age_s": now.link.age_s,
            },
            "modem": now.modem.as_ref().map(|modem| json!({
                "has_session": modem.has_session, "link_is_up": modem.link_is_up,
            })),
            "peers": now.peers.len(),
            "peers_up": now.peers.iter().filter(|peer| peer.state == "up").count(),
            "streams": now.peers.iter().map(|peer| peer.streams).sum::<u64>(),
            "point": self.point.as_ref().map(Point::named),
            "events": self.events.after(known).collect::<Vec<_>>(),
            "last_event": self.events.last(),
        });
        match view.table {
            Table::None => {}
            Table::Peers => document["table"] = json!(rows::peers(view, before, now, seconds)),
            // The first sample after the page was opened may still lack them.
            Table::Streams if now.streams.is_none() => {}
            Table::Streams => document["table"] = json!(rows::streams(view, &self.moved, now, seconds)),
        }
        Some(document)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Peer, Stream};

    fn sample(second: u64, streams: bool) -> Sample {
        let peer = Peer { name: "hub".into(), state: "up", streams: 1, sent_bytes: second * 1000, ..Peer::default() };
        let stream = Stream { from_tcp_bytes: second * 1000, state: "established".into(), ..Stream::default() };
        Sample {
            name: "gw".into(),
            capacity_bps: 6e6,
            sent_ip_bytes: second * 2000,
            peers: vec![peer],
            streams: streams.then(|| vec![stream]),
            ..Sample::default()
        }
    }

    fn read(document: Option<Arc<str>>) -> Value {
        serde_json::from_str(&document.unwrap()).unwrap()
    }

    #[test]
    fn streams_are_sampled_only_while_a_page_shows_them() {
        let mut board = Board::default();
        let view = View { table: Table::Streams, ..View::default() };
        assert_eq!(board.wanted(), Detail::Peers);
        board.take(1.0, sample(1, false));
        assert_eq!(read(board.document(&view, 0))["table"], Value::Null);
        assert_eq!(board.wanted(), Detail::Streams);
        board.take(2.0, sample(2, true));
        assert_eq!(read(board.document(&view, 0))["table"]["rows"][0]["sent_bps"], 0.0, "its rate is not known yet");
        board.take(3.0, sample(3, true));
        assert_eq!(read(board.document(&view, 0))["table"]["rows"][0]["sent_bps"], 8000.0);
        assert_eq!(board.wanted(), Detail::Streams);
        assert_eq!(board.wanted(), Detail::Peers, "the page was closed");
    }

    #[test]
    fn a_document_has_the_numbers_of_the_last_sample_and_the_events_that_the_page_lacks() {
        let mut board = Board::default();
        assert!(board.document(&View::default(), 0).is_none());
        board.take(1.0, sample(1, false));
        board.take(2.0, Sample { reloads: 1, ..sample(2, false) });
        let document = read(board.document(&View::default(), 0));
        assert_eq!(document["capacity_bps"], 6e6);
        assert_eq!(document["point"]["sent_bps"], 16_000.0);
        assert_eq!((&document["peers_up"], &document["streams"]), (&json!(1), &json!(1)));
        assert_eq!(document["events"][0]["text"], "configuration reloaded");
        assert_eq!(read(board.document(&View::default(), 1))["events"], json!([]));
        assert_eq!(board.history(Span::Minutes)["times"], json!([2.0]));
    }

    #[test]
    fn pages_that_show_the_same_share_a_document_and_views_are_bounded() {
        let mut board = Board::default();
        board.take(1.0, sample(1, false));
        let one = board.document(&View::default(), 0).unwrap();
        assert!(Arc::ptr_eq(&one, &board.document(&View::default(), 0).unwrap()));
        let views = (0..1000).filter(|n| board.document(&View { page: *n, ..View::default() }, 7).is_some()).count();
        assert_eq!(views, VIEWS - 1);
        board.take(2.0, sample(2, false));
        assert!(board.document(&View { page: 999, ..View::default() }, 0).is_some());
    }

    #[test]
    fn a_clock_that_was_set_back_gives_no_rate() {
        let mut board = Board::default();
        board.take(2.0, sample(1, false));
        board.take(1.0, sample(2, false));
        assert_eq!(read(board.document(&View::default(), 0))["point"]["sent_bps"], Value::Null);
    }
}
