//! What happened to a gateway between two of its states.

use gateway::link_state::Source;
use gateway::{Counters, Peer, PeerState, Snapshot};
use std::collections::{BTreeMap, BTreeSet};
use units::{Duration, Rate};

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

/// The events between `old` and `new`, which were seen at `at`.
pub fn between(at: Duration, old: &Snapshot, new: &Snapshot) -> Vec<Event> {
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
    let known: BTreeMap<&str, &Peer> = old.peers.iter().map(|peer| (peer.name.as_str(), peer)).collect();
    texts.extend(new.peers.iter().filter_map(|peer| Some((*known.get(peer.name.as_str())?, peer))).flat_map(peer));
    if new.pid == old.pid {
        texts.extend(bypassed(&old.bypassed, &new.bypassed));
        texts.extend(failures(&old.connections, &new.connections));
    }
    texts.into_iter().map(|(text, is_trouble)| Event { at, text, is_trouble }).collect()
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

/// Peers that a reload has added or removed.
fn members(old: &Snapshot, new: &Snapshot) -> Vec<(String, bool)> {
    let names = |snapshot: &Snapshot| snapshot.peers.iter().map(|peer| peer.name.clone()).collect::<BTreeSet<_>>();
    let (was, is) = (names(old), names(new));
    let added = is.difference(&was).map(|name| (format!("{name}: added"), false));
    let removed = was.difference(&is).map(|name| (format!("{name}: removed"), false));
    added.chain(removed).collect()
}

/// What changed with one peer.
fn peer((old, new): (&Peer, &Peer)) -> Vec<(String, bool)> {
    let mut texts = Vec::new();
    if old.state != new.state {
        let why = new.trouble.as_ref().map_or_else(String::new, |trouble| format!(" ({})", trouble.reason));
        let text = format!("{}: {} to {}{why}", new.name, old.state.name(), new.state.name());
        texts.push((text, new.state != PeerState::Up));
    }
    // 0 is no MTU yet.
    if old.mtu != new.mtu && old.mtu > 0 {
        texts.push((format!("{}: MTU {} to {}", new.name, old.mtu, new.mtu), new.mtu < old.mtu));
    }
    texts
}

/// Connections that went end to end.
fn bypassed(old: &BTreeMap<String, u64>, new: &BTreeMap<String, u64>) -> Vec<(String, bool)> {
    let grown = new.iter().map(|(why, count)| (why, count.saturating_sub(old.get(why).copied().unwrap_or(0))));
    grown
        .filter(|(_, more)| *more > 0)
        .map(|(why, more)| (format!("{} end to end: {why}", connections(more)), true))
        .collect()
}

fn connections(count: u64) -> String {
    if count == 1 { "1 connection".into() } else { format!("{count} connections") }
}

/// Connections that failed.
fn failures(old: &Counters, new: &Counters) -> Vec<(String, bool)> {
    let counts = [
        ("without a peer or stream", old.unavailable, new.unavailable),
        ("denied by policy", old.denied, new.denied),
        ("refused by the server", old.refused, new.refused),
        ("to an unreachable server", old.unreachable, new.unreachable),
        ("with a protocol error", old.protocol_errors, new.protocol_errors),
    ];
    let grown = counts.into_iter().map(|(what, old, new)| (what, new.saturating_sub(old)));
    grown.filter(|(_, more)| *more > 0).map(|(what, more)| (format!("{} {what}", connections(more)), true)).collect()
}
