//! Events: what is different between two samples, in words.

use serde::Serialize;
use status::{Peer, PeerState, Snapshot, Source};
use std::collections::{BTreeMap, VecDeque};

/// Events that are kept.
const KEPT: usize = 500;
/// Peers of which one sample names each; beyond that, their number is the event.
const NAMED: usize = 8;
/// A link rate that changes by less than one part of so many is no event.
const STEPS: u64 = 10;
/// Clocks that are set by less drift, in seconds.
const CLOCK_STEP: f64 = 0.5;
/// Seconds between two events about connections that went end to end for the same reason.
const BYPASS_PERIOD: f64 = 600.0;
/// The path MTU where the `tcp` transport has found no smaller one than that of the route, which it reports as 0.
const ROUTE: u16 = u16::MAX;
/// A peer's clock is known to within a round trip: differences below this are none.
const PEER_CLOCK_STEP: f64 = 2.0;

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A peer's state.
    Peer,
    /// The link's capacity, source or modem.
    Link,
    /// Connections that went end to end.
    Bypass,
    /// The largest packet that reaches a peer.
    Mtu,
    /// A clock that was set.
    Clock,
    /// The gateway itself.
    Gateway,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// Its number: 1 for the first.
    pub number: u64,
    /// When, in seconds since 1970.
    pub time: f64,
    /// What it is about.
    pub kind: Kind,
    /// Whether it needs attention.
    pub is_trouble: bool,
    /// What happened.
    pub text: String,
}

/// The latest events.
#[derive(Debug, Default)]
pub(crate) struct Events {
    kept: VecDeque<Event>,
    /// So many there have been.
    count: u64,
    /// When connections last were an event that went end to end for a reason, and how many have since.
    bypassed: BTreeMap<String, (f64, u64)>,
}

impl Events {
    /// Adds what happened from `before` to `now`.
    pub(crate) fn compare(&mut self, time: f64, before: &Snapshot, now: &Snapshot) {
        let mut found = Found::default();
        found.gateway(before, now);
        found.link(before, now);
        found.peers(&before.peers, &now.peers);
        found.mtus(before, now);
        self.bypass(time, &before.bypassed, &now.bypassed, &mut found);
        self.add(time, found);
    }

    /// Connections go end to end all the while where the configuration says so: they are an event for each reason every ten minutes.
    fn bypass(&mut self, time: f64, before: &BTreeMap<String, u64>, now: &BTreeMap<String, u64>, found: &mut Found) {
        self.bypassed.retain(|why, _| now.contains_key(why));
        for (why, count) in now {
            let (said_at, waiting) = self.bypassed.entry(why.clone()).or_insert((f64::NEG_INFINITY, 0));
            *waiting += count.saturating_sub(before.get(why).copied().unwrap_or(0));
            if *waiting > 0 && time - *said_at >= BYPASS_PERIOD {
                let connections = if *waiting == 1 { "connection" } else { "connections" };
                found.add(Kind::Bypass, false, format!("{waiting} {connections} went end to end: {why}"));
                (*said_at, *waiting) = (time, 0);
            }
        }
    }

    /// The clock of this host has been set by so many seconds, if they are more than its drift.
    pub(crate) fn clock(&mut self, time: f64, seconds: f64) {
        if seconds.abs() >= CLOCK_STEP {
            let mut found = Found::default();
            let way = if seconds > 0.0 { "forward" } else { "back" };
            found.add(Kind::Clock, false, format!("clock of this host set {way} by {:.1} s", seconds.abs()));
            self.add(time, found);
        }
    }

    fn add(&mut self, time: f64, found: Found) {
        for (kind, is_trouble, text) in found.events {
            self.count += 1;
            if self.kept.len() == KEPT {
                self.kept.pop_front();
            }
            self.kept.push_back(Event { number: self.count, time, kind, is_trouble, text });
        }
    }

    /// The events after that of this number, oldest first.
    pub(crate) fn after(&self, number: u64) -> impl Iterator<Item = &Event> {
        self.kept.iter().filter(move |event| event.number > number)
    }

    /// The number of the latest event.
    pub(crate) fn last(&self) -> u64 {
        self.count
    }
}

#[derive(Default)]
struct Found {
    events: Vec<(Kind, bool, String)>,
}

impl Found {
    fn add(&mut self, kind: Kind, is_trouble: bool, text: impl Into<String>) {
        self.events.push((kind, is_trouble, text.into()));
    }

    fn gateway(&mut self, before: &Snapshot, now: &Snapshot) {
        if now.uptime_s < before.uptime_s {
            self.add(Kind::Gateway, false, "gateway restarted");
        }
        if now.reloads > before.reloads {
            self.add(Kind::Gateway, false, "configuration reloaded");
        }
        if now.draining.is_some() && before.draining.is_none() {
            self.add(Kind::Gateway, false, "draining: no new connections are accepted");
        }
        let (was, is) = (&before.missing_interfaces, &now.missing_interfaces);
        for gone in is.iter().filter(|one| !was.contains(one)) {
            self.add(Kind::Gateway, true, format!("interface {} ({}) is missing", gone.name, gone.key));
        }
        for back in was.iter().filter(|one| !is.contains(one)) {
            self.add(Kind::Gateway, false, format!("interface {} ({}) is back", back.name, back.key));
        }
    }

    fn link(&mut self, before: &Snapshot, now: &Snapshot) {
        let (old, new) = (&before.link, &now.link);
        if old.source != new.source {
            let lost = new.source == Source::Configured;
            self.add(
                Kind::Link,
                lost,
                format!("link state source: {} instead of {}", new.source.name(), old.source.name()),
            );
        }
        if new.rate_bps.abs_diff(old.rate_bps) * STEPS >= old.rate_bps.max(1) {
            self.add(Kind::Link, false, format!("link rate {} instead of {}", rate(new.rate_bps), rate(old.rate_bps)));
        }
        if let (Some(old), Some(new)) = (&before.modem, &now.modem) {
            match (old.has_session(), new.has_session()) {
                (true, false) => self.add(Kind::Link, true, "DLEP session with the modem ended"),
                (false, true) => self.add(Kind::Link, false, "DLEP session with the modem began"),
                _ => {}
            }
            match (old.link_is_up, new.link_is_up) {
                (true, false) => self.add(Kind::Link, true, "modem reports the link as down"),
                (false, true) => self.add(Kind::Link, false, "modem reports the link as up"),
                _ => {}
            }
        }
    }

    fn peers(&mut self, before: &[Peer], now: &[Peer]) {
        let known: BTreeMap<&str, &Peer> = before.iter().map(|peer| (peer.name.as_str(), peer)).collect();
        let mut states: BTreeMap<PeerState, Vec<&Peer>> = BTreeMap::new();
        for peer in now {
            let Some(old) = known.get(peer.name.as_str()) else { continue };
            if old.state != peer.state {
                states.entry(peer.state).or_default().push(peer);
            }
            if let (Some(was), Some(is)) = (old.clock_offset_s, peer.clock_offset_s)
                && (is - was).abs() >= PEER_CLOCK_STEP
            {
                self.add(
                    Kind::Clock,
                    false,
                    format!("clock of {} less this host's: {is:+.1} s instead of {was:+.1} s", peer.name),
                );
            }
        }
        for (state, peers) in states {
            let (is_trouble, state) = (state != PeerState::Up, state.name());
            if peers.len() > NAMED {
                self.add(Kind::Peer, is_trouble, format!("{} peers are {state}", peers.len()));
                continue;
            }
            for peer in peers {
                let why = peer.trouble.as_ref().filter(|_| is_trouble).map_or("", |trouble| &trouble.says);
                let colon = if why.is_empty() { "" } else { ": " };
                self.add(Kind::Peer, is_trouble, format!("{} is {state}{colon}{why}", peer.name));
            }
        }
    }

    /// Path MTUs of peers that stay up.
    fn mtus(&mut self, before: &Snapshot, now: &Snapshot) {
        let is_up = |peer: &&Peer| peer.state == PeerState::Up;
        let known: BTreeMap<&str, &Peer> =
            before.peers.iter().filter(is_up).map(|peer| (peer.name.as_str(), peer)).collect();
        let pairs = now.peers.iter().filter(is_up).filter_map(|peer| Some((*known.get(peer.name.as_str())?, peer)));
        let changes: Vec<_> = pairs
            .filter_map(|(old, peer)| Some((&peer.name, mtu(old, &before.transport)?, mtu(peer, &now.transport)?)))
            .filter(|(_, old, new)| old != new)
            .collect();
        if changes.len() > NAMED {
            return self.add(Kind::Mtu, false, format!("path MTU to {} peers changed", changes.len()));
        }
        for (name, old, new) in changes {
            let says = |mtu| if mtu == ROUTE { "what its route allows".to_owned() } else { format!("{mtu} B") };
            self.add(Kind::Mtu, new < old, format!("path MTU to {name}: {} instead of {}", says(new), says(old)));
        }
    }
}

/// The path MTU to a peer that is up, or [`ROUTE`]; `None` if it is not known yet.
fn mtu(peer: &Peer, transport: &str) -> Option<u16> {
    match (peer.mtu, transport) {
        (0, "tcp") => Some(ROUTE),
        (0, _) => None,
        (mtu, _) => Some(mtu),
    }
}

/// A rate with its unit, to three significant digits.
fn rate(bps: u64) -> String {
    let units = [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")];
    // 999.5 and above would be shown as 1000.
    let (scale, unit) = units.into_iter().find(|(scale, _)| bps as f64 >= 0.9995 * scale).unwrap_or((1.0, "bit/s"));
    let value = bps as f64 / scale;
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use status::{Link, MissingInterface, Modem, Trouble};

    fn peer(name: &str, state: PeerState) -> Peer {
        Peer { name: name.into(), state, mtu: 1500, ..Peer::default() }
    }

    fn link(source: Source, rate_bps: u64) -> Link {
        Link { source, rate_bps, ..Link::default() }
    }

    fn texts(before: &Snapshot, now: &Snapshot) -> Vec<(bool, String)> {
        let mut events = Events::default();
        events.compare(7.0, before, now);
        events.after(0).map(|event| (event.is_trouble, event.text.clone())).collect()
    }

    #[test]
    fn a_peer_that_dies_and_comes_back_is_an_event_with_its_reason() {
        let up = Snapshot { peers: vec![peer("ship", PeerState::Up)], ..Snapshot::default() };
        let mut down = Snapshot { peers: vec![peer("ship", PeerState::Unresponsive)], ..Snapshot::default() };
        down.peers[0].trouble = Some(Trouble::new("no_answer", "no answer for 9 s"));
        assert_eq!(texts(&up, &down), [(true, "ship is unresponsive: no answer for 9 s".to_owned())]);
        assert_eq!(texts(&down, &up), [(false, "ship is up".to_owned())]);
        assert_eq!(texts(&up, &up), []);
    }

    #[test]
    fn a_link_rate_that_changes_by_a_tenth_is_an_event() {
        let at = |rate_bps| Snapshot { link: link(Source::Dlep, rate_bps), ..Snapshot::default() };
        for (old, new, events) in
            [(10_000_000, 9_000_000, 1), (10_000_000, 11_000_000, 1), (10_000_000, 9_000_001, 0), (0, 0, 0), (0, 1, 1)]
        {
            assert_eq!(texts(&at(old), &at(new)).len(), events, "{old} to {new}");
        }
    }

    #[test]
    fn an_outage_of_a_thousand_terminals_is_one_event() {
        let all =
            |state| Snapshot { peers: (0..1000).map(|n| peer(&n.to_string(), state)).collect(), ..Snapshot::default() };
        assert_eq!(
            texts(&all(PeerState::Up), &all(PeerState::Unresponsive)),
            [(true, "1000 peers are unresponsive".to_owned())]
        );
    }

    #[test]
    fn link_bypass_and_gateway_have_events() {
        let modem = |up: bool| {
            let address = up.then(|| ([10, 0, 0, 1], 854).into());
            Some(Modem { address, link_is_up: up, ..Modem::default() })
        };
        let before =
            Snapshot { link: link(Source::Dlep, 10_000_000), modem: modem(true), uptime_s: 5.0, ..Snapshot::default() };
        let mut now = Snapshot {
            link: link(Source::Configured, 6_000_000),
            modem: modem(false),
            uptime_s: 6.0,
            ..Snapshot::default()
        };
        now.bypassed.insert("peer_down".into(), 3);
        now.reloads = 1;
        now.missing_interfaces.push(MissingInterface { key: "link.interface".into(), name: "sat0".into() });
        let expected = [
            (false, "configuration reloaded"),
            (true, "interface sat0 (link.interface) is missing"),
            (true, "link state source: configured instead of dlep"),
            (false, "link rate 6.00 Mbit/s instead of 10.0 Mbit/s"),
            (true, "DLEP session with the modem ended"),
            (true, "modem reports the link as down"),
            (false, "3 connections went end to end: peer_down"),
        ];
        assert_eq!(texts(&before, &now), expected.map(|(is_trouble, text)| (is_trouble, text.to_owned())));
    }

    #[test]
    fn connections_that_go_end_to_end_all_day_leave_room_for_other_events() {
        let bypassed = |count| Snapshot { bypassed: [("rule voice".to_owned(), count)].into(), ..Snapshot::default() };
        let mut events = Events::default();
        for second in 0..1500u32 {
            events.compare(second.into(), &bypassed(second.into()), &bypassed(u64::from(second) + 1));
        }
        let texts: Vec<_> = events.after(0).map(|event| (event.time, event.text.as_str())).collect();
        let [first, later] =
            ["1 connection went", "600 connections went"].map(|text| format!("{text} end to end: rule voice"));
        assert_eq!(texts, [(0.0, &*first), (600.0, &*later), (1200.0, &*later)]);
    }

    #[test]
    fn clocks_that_are_set_are_events_and_drift_is_none() {
        let mut events = Events::default();
        for (time, seconds) in [(1.0, 0.01), (2.0, 3.2), (3.0, -60.0)] {
            events.clock(time, seconds);
        }
        let mut before = Snapshot { peers: vec![peer("ship", PeerState::Up)], ..Snapshot::default() };
        before.peers[0].clock_offset_s = Some(0.1);
        let mut now = before.clone();
        now.peers[0].clock_offset_s = Some(-5.0);
        events.compare(4.0, &before, &now);
        let texts: Vec<_> = events.after(0).map(|event| (event.kind, event.text.as_str())).collect();
        let expected = [
            "clock of this host set forward by 3.2 s",
            "clock of this host set back by 60.0 s",
            "clock of ship less this host's: -5.0 s instead of +0.1 s",
        ];
        assert_eq!(texts, expected.map(|text| (Kind::Clock, text)));
    }

    #[test]
    fn a_smaller_path_mtu_is_trouble() {
        let before = Snapshot { peers: vec![peer("ship", PeerState::Up)], ..Snapshot::default() };
        let mut now = before.clone();
        now.peers[0].mtu = 1280;
        assert_eq!(texts(&before, &now), [(true, "path MTU to ship: 1280 B instead of 1500 B".to_owned())]);
    }

    #[test]
    fn an_mtu_of_0_is_with_the_tcp_transport_what_the_route_allows() {
        let with = |transport: &'static str, mtu| {
            let peer = Peer { mtu, ..peer("ship", PeerState::Up) };
            Snapshot { transport: transport.into(), peers: vec![peer], ..Snapshot::default() }
        };
        let shrinks = (true, "path MTU to ship: 1280 B instead of what its route allows".to_owned());
        assert_eq!(texts(&with("tcp", 0), &with("tcp", 1280)), [shrinks]);
        let grows = (false, "path MTU to ship: what its route allows instead of 1280 B".to_owned());
        assert_eq!(texts(&with("tcp", 1280), &with("tcp", 0)), [grows]);
        assert_eq!(texts(&with("satpep", 0), &with("satpep", 1280)), [], "it was not known");
    }

    #[test]
    fn old_events_make_room_and_numbers_go_on() {
        let mut events = Events::default();
        let [one, other] = [PeerState::Up, PeerState::Unresponsive]
            .map(|state| Snapshot { peers: vec![peer("a", state)], ..Snapshot::default() });
        for second in 0..1000u32 {
            let (before, now) = if second % 2 == 0 { (&one, &other) } else { (&other, &one) };
            events.compare(second.into(), before, now);
        }
        assert_eq!((events.last(), events.after(0).count(), events.after(998).count()), (1000, KEPT, 2));
    }

    #[test]
    fn rates_have_three_digits() {
        let shown = [999, 1000, 12_345, 999_999, 2_000_000_000].map(rate);
        assert_eq!(shown, ["999 bit/s", "1.00 kbit/s", "12.3 kbit/s", "1.00 Mbit/s", "2.00 Gbit/s"]);
    }
}
