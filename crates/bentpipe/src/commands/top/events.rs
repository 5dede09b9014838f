//! What happened to a gateway between two of its states.

use gateway::link_state::Source;
use gateway::{Counters, Peer, PeerState, Snapshot};
use std::collections::{BTreeMap, BTreeSet};
use units::{Duration, Rate};

/// Peers of which one state names each; beyond that, their number is the event.
const NAMED: usize = 8;
/// How often connections with the same outcome are an event.
const OUTCOME_PERIOD: Duration = Duration::from_secs(600);

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When it was seen.
    pub at: Duration,
    /// What happened.
    pub text: String,
    /// Whether it is for the worse.
    pub is_trouble: bool,
}

/// What was seen of a gateway, as far as the next events depend on it.
#[derive(Debug, Clone, Default)]
pub struct Watcher {
    /// When connections last were an event, by their outcome, and how many have had it since.
    outcomes: BTreeMap<String, (Option<Duration>, u64)>,
}

impl Watcher {
    /// The events between `old` and `new`, which were seen at `at`.
    pub fn compare(&mut self, at: Duration, old: &Snapshot, new: &Snapshot) -> Vec<Event> {
        let mut texts: Vec<(String, bool)> = Vec::new();
        if new.pid != old.pid {
            let how = if new.predecessor == Some(old.pid) { "has taken over" } else { "has started" };
            texts.push((format!("process {} {how}", new.pid), false));
        }
        if new.draining.is_some() && old.draining.is_none() {
            texts.push(("the gateway takes no more connections".into(), true));
        }
        texts.extend(interfaces(old, new));
        texts.extend(link(old, new));
        texts.extend(modem(old, new));
        texts.extend(members(old, new));
        texts.extend(peers(old, new));
        if new.pid == old.pid {
            // Those of a bypass rule go end to end because they are configured to.
            texts.extend(self.outcomes(at, bypassed(&old.bypassed, &new.bypassed, true), false));
            texts.extend(self.outcomes(at, bypassed(&old.bypassed, &new.bypassed, false), true));
            texts.extend(self.outcomes(at, failures(&old.connections, &new.connections), true));
        }
        texts.into_iter().map(|(text, is_trouble)| Event { at, text, is_trouble }).collect()
    }

    /// An event for each of `outcomes`, that so many more connections have had, or none if there was one lately: the next has their sum.
    fn outcomes(&mut self, at: Duration, outcomes: Vec<(String, u64)>, is_trouble: bool) -> Vec<(String, bool)> {
        let mut texts = Vec::new();
        for (outcome, more) in outcomes {
            let (said_at, waiting) = self.outcomes.entry(outcome.clone()).or_default();
            *waiting += more;
            if *waiting > 0 && said_at.is_none_or(|said_at| at >= said_at + OUTCOME_PERIOD) {
                texts.push((format!("{} {outcome}", connections(*waiting)), is_trouble));
                (*said_at, *waiting) = (Some(at), 0);
            }
        }
        texts
    }
}

/// Configured interfaces that the host has no more, or has again.
fn interfaces(old: &Snapshot, new: &Snapshot) -> Vec<(String, bool)> {
    let (was, is) = (&old.missing_interfaces, &new.missing_interfaces);
    let gone = is.iter().filter(|one| !was.contains(one));
    let back = was.iter().filter(|one| !is.contains(one));
    let gone = gone.map(|one| (format!("the interface {} ({}) is missing", one.name, one.key), true));
    gone.chain(back.map(|one| (format!("the interface {} ({}) is back", one.name, one.key), false))).collect()
}

/// Another source of the link state, or another rate from the same.
fn link(old: &Snapshot, new: &Snapshot) -> Option<(String, bool)> {
    let (was, is) = (&old.link, &new.link);
    let rate = Rate::from_bps(is.rate_bps);
    if was.source != is.source {
        return Some((format!("link: {rate} by {}", is.source.name()), is.source == Source::Configured));
    }
    let changed = was.rate_bps.abs_diff(is.rate_bps) * 10 >= was.rate_bps.max(1);
    changed.then(|| {
        (
            format!("link: {} to {rate} by {}", Rate::from_bps(was.rate_bps), is.source.name()),
            is.rate_bps < was.rate_bps,
        )
    })
}

/// The session with the modem.
fn modem(old: &Snapshot, new: &Snapshot) -> Option<(String, bool)> {
    let (was, is) = (old.modem.as_ref()?, new.modem.as_ref()?);
    match (was.address, is.address) {
        (None, Some(address)) => Some((format!("session with modem {address}"), false)),
        (Some(_), None) => {
            Some((format!("session with the modem ended: {}", is.last_end.as_deref().unwrap_or("-")), true))
        }
        _ if was.link_is_up != is.link_is_up => {
            Some((format!("modem: link {}", if is.link_is_up { "up" } else { "down" }), !is.link_is_up))
        }
        _ => None,
    }
}

/// A change of one peer.
struct Change<'a> {
    peer: &'a str,
    what: String,
    /// What is said of it where it is the event of this peer alone.
    why: String,
    is_trouble: bool,
}

impl<'a> Change<'a> {
    fn new(peer: &'a str, what: impl Into<String>, is_trouble: bool) -> Self {
        Self { peer, what: what.into(), why: String::new(), is_trouble }
    }
}

/// An event for each of `changes`, or one for all peers with the same change if they are many.
fn gathered<'a>(changes: impl Iterator<Item = Change<'a>>) -> Vec<(String, bool)> {
    let mut alike: BTreeMap<(String, bool), Vec<String>> = BTreeMap::new();
    for Change { peer, what, why, is_trouble } in changes {
        let text = format!("{peer}: {what}{why}");
        alike.entry((what, is_trouble)).or_default().push(text);
    }
    let texts = alike.into_iter().flat_map(|((what, is_trouble), texts)| {
        let texts = if texts.len() > NAMED { vec![format!("{} peers: {what}", texts.len())] } else { texts };
        texts.into_iter().map(move |text| (text, is_trouble))
    });
    texts.collect()
}

/// Peers that a reload has added or removed.
fn members(old: &Snapshot, new: &Snapshot) -> Vec<(String, bool)> {
    let [was, is] = [old, new].map(|snapshot| snapshot.peers.iter().map(|peer| &*peer.name).collect::<BTreeSet<_>>());
    let added = is.difference(&was).map(|name| Change::new(name, "added", false));
    let removed = was.difference(&is).map(|name| Change::new(name, "removed", false));
    gathered(added.chain(removed))
}

/// What changed with peers.
fn peers(old: &Snapshot, new: &Snapshot) -> Vec<(String, bool)> {
    let known: BTreeMap<&str, &Peer> = old.peers.iter().map(|peer| (peer.name.as_str(), peer)).collect();
    let both = || new.peers.iter().filter_map(|peer| Some((*known.get(peer.name.as_str())?, peer)));
    let mut texts = gathered(both().filter_map(|(old, new)| state(old, new)));
    let is_tcp = new.transport == "tcp" && old.transport == "tcp";
    texts.extend(gathered(both().filter_map(|(old, new)| mtu(old, new, is_tcp))));
    texts
}

/// Another state of a peer.
fn state<'a>(old: &Peer, new: &'a Peer) -> Option<Change<'a>> {
    let why = new.trouble.as_ref().map_or_else(String::new, |trouble| format!(" ({})", trouble.reason));
    let what = format!("{} to {}", old.state.name(), new.state.name());
    (old.state != new.state).then(|| Change { why, ..Change::new(&new.name, what, new.state != PeerState::Up) })
}

/// Another MTU of the path to a peer. 0 is none, or with the `tcp` transport, of a peer that is up, that of the route.
fn mtu<'a>(old: &Peer, new: &'a Peer, is_tcp: bool) -> Option<Change<'a>> {
    let known = |peer: &Peer| match peer.mtu {
        0 if is_tcp && peer.state == PeerState::Up => Some(u16::MAX),
        0 => None,
        mtu => Some(mtu),
    };
    let (was, is) = (known(old)?, known(new)?);
    let what = match (old.mtu, new.mtu) {
        (0, new) => format!("MTU of the route to {new}"),
        (old, 0) => format!("MTU {old} to that of the route"),
        (old, new) => format!("MTU {old} to {new}"),
    };
    (was != is).then(|| Change::new(&new.name, what, is < was))
}

/// Outcomes of connections that went end to end, by a bypass rule or else, and how many more there are of each.
fn bypassed(old: &BTreeMap<String, u64>, new: &BTreeMap<String, u64>, by_rule: bool) -> Vec<(String, u64)> {
    let more = |why, count: u64| count.saturating_sub(old.get(why).copied().unwrap_or(0));
    let wanted = new.iter().filter(|(why, _)| why.starts_with("rule ") == by_rule);
    wanted.map(|(why, count)| (format!("end to end: {why}"), more(why, *count))).collect()
}

/// Outcomes of connections that failed, and how many more there are of each.
fn failures(old: &Counters, new: &Counters) -> Vec<(String, u64)> {
    let counts = [
        ("without a peer or stream", old.unavailable, new.unavailable),
        ("denied by policy", old.denied, new.denied),
        ("refused by the server", old.refused, new.refused),
        ("to an unreachable server", old.unreachable, new.unreachable),
        ("with a protocol error", old.protocol_errors, new.protocol_errors),
    ];
    counts.into_iter().map(|(what, old, new)| (what.to_owned(), new.saturating_sub(old))).collect()
}

fn connections(count: u64) -> String {
    if count == 1 { "1 connection".into() } else { format!("{count} connections") }
}
