//! `[[peer]]`: The peers.

use super::text::{LINK_LOCAL, Prefix};
use super::{Choice, Peer, format};
use document::{Document, item_name};
use ipnet::IpNet;
use relay::routes::Routes;
use satpep::{Mode, PrivateKey, PublicKey};
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

/// The peers whose sections have no faults; `own` is this gateway's key.
pub(super) fn read(document: &mut Document<'_>, choice: Choice, own: Option<PublicKey>) -> Vec<Peer> {
    let mut peers: Vec<Peer> = Vec::new();
    let known = known_keys(document, own);
    for (at, section) in document.items("peer").into_iter().enumerate() {
        let name = item_name(&section, at);
        let path = ["peer", name.as_str()];
        choice.refuse_others(document, &path, &["weight", "cap"]);
        let Some(written) = document.typed_node::<format::Peer>(&section, &path) else { continue };
        check(document, &path, &written, choice);
        if let Some(key) = &written.public_key {
            check_key(document, name.as_str(), key.0, own, &known);
        }
        let same_key = |peer: &Peer| written.public_key.as_ref().is_some_and(|key| peer.public_key == Some(key.0));
        if peers.iter().any(|peer| peer.name == written.name.0 || same_key(peer)) {
            document.fault_at(section.origin, &path, ": another peer has the same name or public_key");
        }
        peers.push(peer(written, choice));
    }
    peers
}

/// Reports what fits neither the transport nor the rest of the section.
fn check(document: &mut Document<'_>, path: &[&str; 2], peer: &format::Peer, choice: Choice) {
    let [peer_key, name] = *path;
    let has_gateway = !choice.is_tcp || peer.far_gateway.unwrap_or(true);
    if !choice.is_tcp {
        for key in ["far_gateway", "accept_from"] {
            if document.node(&[peer_key, name, key]).is_some() {
                document.fault(&[peer_key, name, key], " has no effect without transport = \"tcp\"");
            }
        }
    }
    if has_gateway && peer.public_key.is_none() {
        let problem = " is missing: expected a public key in base64, as `bentpipe keygen --public` prints it";
        document.fault(&[peer_key, name, "public_key"], problem);
    }
    if !has_gateway && peer.public_key.is_some() {
        let problem = " is given, and far_gateway = false: it is the key of a far gateway";
        document.fault(&[peer_key, name, "public_key"], problem);
    }
    if let Some(address) = peer.address.as_ref().filter(|address| !is_of_one_host(address.0)) {
        let problem = format!(" = \"{}\": expected the address of one host and a port from 1 to 65535", address.0);
        document.fault(&[peer_key, name, "address"], &problem);
    }
    if let Some(address) = peer.address.as_ref().filter(|address| is_on_unknown_link(address.0)) {
        document.fault(&[peer_key, name, "address"], &format!(" = \"{}\": {LINK_LOCAL}", address.0));
    }
    if let Some((address, problem)) = peer.address.as_ref().and_then(|address| unsendable(address.0, choice)) {
        document.fault(&[peer_key, name, "address"], &format!(" = \"{address}\" {problem}"));
    }
    if choice.is_tcp
        && has_gateway
        && choice.mode == Mode::Clear
        && peer.accept_from.is_none()
        && peer.address.is_none()
    {
        let problem = " is missing: expected, with mode = \"clear\" and no address, a list of prefixes such as [\"192.0.2.2/32\"]";
        document.fault(&[peer_key, name, "accept_from"], problem);
    }
}

/// Reports a key with which no session can come up.
fn check_key(
    document: &mut Document<'_>,
    peer: &str,
    key: PublicKey,
    own: Option<PublicKey>,
    known: &HashSet<PublicKey>,
) {
    const EXPECTED: &str = "expected the peer's, as `bentpipe keygen --public` prints it there";
    let of_nobody = PublicKey::from_bytes([0; 32]);
    if own == Some(key) {
        document.fault(&["peer", peer, "public_key"], &format!(" is this gateway's own key: {EXPECTED}"));
    } else if key == of_nobody {
        document.fault(&["peer", peer, "public_key"], &format!(" is zero: {EXPECTED}"));
    } else if is_private_key_of(known, key) {
        let problem = " is a private key, which must stay secret: make a new one (`bentpipe keygen`)";
        document.fault(&["peer", peer, "public_key"], problem);
    }
}

/// Whether `key` is the private key to one of `known`. Of those that have the form of private keys, few are public ones.
fn is_private_key_of(known: &HashSet<PublicKey>, key: PublicKey) -> bool {
    let private = PrivateKey::from_random(*key.as_bytes());
    private.as_bytes() == key.as_bytes() && known.contains(&private.public_key())
}

/// This gateway's key and those of the peers.
fn known_keys(document: &Document<'_>, own: Option<PublicKey>) -> HashSet<PublicKey> {
    let sections = document.items("peer");
    let keys = sections.iter().filter_map(|section| section.get("public_key")?.text()?.parse().ok());
    keys.chain(own).collect()
}

/// Why the socket that is bound to `listen` cannot send to `address`; TCP connects from another one.
fn unsendable(address: SocketAddr, choice: Choice) -> Option<(SocketAddr, &'static str)> {
    let listen = choice.listen.filter(|_| !choice.is_tcp)?;
    let is_ipv6 = canonical(address).is_ipv6();
    match listen {
        SocketAddr::V4(_) if is_ipv6 => {
            Some((address, "is IPv6, and [gateway] listen is IPv4: \"[::]:4500\" there serves both"))
        }
        SocketAddr::V6(one) if !one.ip().is_unspecified() && !is_ipv6 => {
            Some((address, "is IPv4, and [gateway] listen is an IPv6 address: \"[::]:4500\" there serves both"))
        }
        _ => None,
    }
}

/// An IPv4 address as such, as which its packets come.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(v4) => (v4, address.port()).into(),
        IpAddr::V6(_) => address,
    }
}

/// Whether packets can be sent to `address`, and arrive at no more than one host.
fn is_of_one_host(address: SocketAddr) -> bool {
    address.port() != 0 && !address.ip().is_unspecified() && !address.ip().is_multicast()
}

/// Whether `address` is of one link and does not say of which: the kernel would send to the first of the host's links, or refuse to.
fn is_on_unknown_link(address: SocketAddr) -> bool {
    matches!(address, SocketAddr::V6(one) if one.ip().is_unicast_link_local() && one.scope_id() == 0)
}

fn peer(written: format::Peer, choice: Choice) -> Peer {
    let plain = |prefixes: Vec<Prefix>| prefixes.into_iter().map(|prefix| prefix.0).collect::<Vec<_>>();
    let everything = || vec![IpNet::default(), IpNet::V6(ipnet::Ipv6Net::default())];
    let routes = written.routes.map_or_else(everything, plain);
    let address = written.address.map(|address| canonical(address.0));
    // In clear, some address must be known.
    let known = address.filter(|_| choice.is_tcp && choice.mode == Mode::Clear && written.far_gateway.unwrap_or(true));
    Peer {
        name: written.name.0,
        public_key: written.public_key.map(|key| key.0),
        address,
        accept_from: written
            .accept_from
            .map_or_else(|| known.iter().map(|address| address.ip().into()).collect(), plain),
        overlap: written.overlap.unwrap_or(false),
        allow_sources: written.allow_sources.map_or_else(|| routes.clone(), plain),
        allow_destinations: written.allow_destinations.map_or_else(everything, plain),
        routes,
        connect_as_client: written.connect_from.unwrap_or(format::ConnectFrom::Client) == format::ConnectFrom::Client,
        weight: written.weight.unwrap_or(1),
        cap: written.cap.map(|cap| cap.0),
    }
}

/// Which peer each destination lies behind.
pub(super) fn routes(document: &mut Document<'_>, peers: &[Peer]) -> Option<Routes<usize>> {
    let all = peers.iter().enumerate().flat_map(|(at, peer)| peer.routes.iter().map(move |prefix| (*prefix, at)));
    match Routes::new(all) {
        Ok(routes) => {
            refuse_overlaps(document, peers, &routes);
            Some(routes)
        }
        Err(duplicate) => {
            refuse_duplicate(document, peers, duplicate.prefix);
            None
        }
    }
}

/// Two peers that claim the same prefix, as all do that have no `routes`.
fn refuse_duplicate(document: &mut Document<'_>, peers: &[Peer], prefix: IpNet) {
    let claims = |peer: &&Peer| peer.routes.iter().any(|claimed| claimed.trunc() == prefix);
    let names: Vec<&str> = peers.iter().filter(claims).map(|peer| &*peer.name).collect();
    let default =
        if prefix.prefix_len() == 0 { ", and a peer without routes has all of them: give each its own" } else { "" };
    let (last, by) = (names.last().copied().unwrap_or_default(), names.join(" and by "));
    let problem = format!(": {prefix} is claimed twice, by {by}; each prefix leads to one peer{default}");
    document.fault(&["peer", last, "routes"], &problem);
}

/// Of peers whose routes overlap, one has to say that it is meant: by default the routes are also the addresses that the peer's
/// clients may have.
fn refuse_overlaps(document: &mut Document<'_>, peers: &[Peer], routes: &Routes<usize>) {
    let mut reported = Vec::new();
    for overlap in routes.overlaps() {
        let ((inner, one), (outer, other)) = (overlap.inner, overlap.outer);
        let pair = (one.min(other), one.max(other));
        if peers[one].overlap || peers[other].overlap || reported.contains(&pair) {
            continue;
        }
        reported.push(pair);
        let (one_name, other_name) = (&peers[one].name, &peers[other].name);
        let problem = format!(
            ": {inner} of {one_name} lies within {outer} of {other_name}: say overlap = true at one of them if the longer prefix \
             is to win"
        );
        document.fault(&["peer", &peers[one.max(other)].name, "routes"], &problem);
    }
}
