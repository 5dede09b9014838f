//! The peers: whether they answer, what arrives, and how.

use super::{Check, rate};
use crate::config::{DebugSettings, Settings};
use crate::control;
use crate::error::StartError;
use crate::transport::satpep::Satpep;
use crate::transport::tcp::TcpTransport;
use crate::transport::{MAX_NAMED, SatelliteTransport};
use crate::watch::{Owner, Watch};
use ipnet::IpNet;
use kernel::clock;
use kernel::interfaces::Interfaces;
use mio::{Events, Poll, Token, Waker};
use serde_json::{Value, json};
use status::PeerState;
use std::io;
use std::sync::Arc;
use units::{Duration, Instant};

/// The tokens of the poll: what wakes it, and the first of descriptors.
const WAKER: Token = Token(0);
const FIRST: usize = 1;
/// How long a peer may take to answer, some round trips aside, and for how long it is observed after that.
const PATIENCE: Duration = Duration::from_secs(12);
const OBSERVED: Duration = Duration::from_secs(4);
const ROUND_TRIPS: u64 = 6;
/// Of a peer of the running gateway: what was sent to it and lost while it was observed.
const RECENT: &str = "recent";
/// More lost than this share is not the link's noise.
const LOST: f64 = 0.05;
const ENOUGH: u64 = 200;

/// Examines the peers by the state of the gateway that runs, or else by handshakes.
pub(super) fn examine(settings: &Settings, measures_rate: bool, status: Option<Value>) -> Vec<Check> {
    let is_left_to_kernel = measures_rate && settings.tcp.is_some();
    let mut checks = examine_each(settings, measures_rate && !is_left_to_kernel, status);
    if is_left_to_kernel {
        let says =
            "not measured: with transport = \"tcp\", the kernel's congestion control finds what the path carries";
        checks.push(Check::good("rate", says));
    }
    checks
}

fn examine_each(settings: &Settings, measures_rate: bool, status: Option<Value>) -> Vec<Check> {
    let mut checks = Vec::new();
    let (by, peers) = match status {
        Some(status) => {
            checks.push(delivery(settings, &status));
            let survey = |peer: Value| {
                let recent = peer[RECENT].clone();
                let mut peer = if measures_rate { rate::by_gateway(settings, peer) } else { peer };
                peer[RECENT] = recent;
                peer
            };
            ("the running gateway", observed(settings, &status, OBSERVED).into_iter().map(survey).collect())
        }
        None => match shake_hands(settings, measures_rate) {
            Ok(peers) => ("a handshake with the gateway's key", peers),
            Err(error) => {
                return vec![Check::bad(
                    "peers",
                    format!("no handshake can begin: {error}"),
                    remedy_of(settings, &error),
                )];
            }
        },
    };
    checks.extend(peers.iter().flat_map(|peer| examined(settings, peer, by)));
    checks.extend(clients(&networks_of_clients(settings), &peers));
    if measures_rate {
        checks.extend(peers.iter().filter(|peer| peer["state"] == "up").flat_map(rate::judged));
    }
    checks
}

/// The peers in `status` of the running gateway, each with what was sent to it and lost in the `time` after. Its counters go back to
/// the gateway's start: they hide losses that began today, and show those of last week.
fn observed(settings: &Settings, status: &Value, time: Duration) -> Vec<Value> {
    let mut peers = status["peers"].as_array().cloned().unwrap_or_default();
    let counts_packets = peers.iter().any(|peer| peer["sent_packets"].as_u64() > Some(0));
    let later = counts_packets.then(|| {
        std::thread::sleep(time.into());
        control::status(&settings.control).ok()
    });
    let later = later.flatten().unwrap_or_default();
    for peer in &mut peers {
        let after = later["peers"].as_array().into_iter().flatten().find(|after| after["name"] == peer["name"]);
        peer[RECENT] = after.and_then(|after| grown(peer, after)).unwrap_or_else(|| json!({}));
    }
    peers
}

/// The packets sent to a peer and lost between two of its reports; `None` if it has another session.
fn grown(before: &Value, after: &Value) -> Option<Value> {
    let more = |key: &str| after[key].as_u64()?.checked_sub(before[key].as_u64()?);
    Some(json!({ "sent_packets": more("sent_packets")?, "lost_packets": more("lost_packets")? }))
}

/// How to let a handshake begin that `error` kept from it.
fn remedy_of(settings: &Settings, error: &StartError) -> String {
    let (port, list) = (settings.listen.port(), if settings.tcp.is_some() { "-tlpn" } else { "-ulpn" });
    match error {
        StartError::Io { source, .. } if source.kind() == io::ErrorKind::AddrInUse => format!(
            "another program has this port (ss {list} 'sport = :{port}' names it; 4500 is also the port of IPsec): stop it, or set \
             [gateway] listen"
        ),
        StartError::Io { source, .. }
            if matches!(source.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::PermissionDenied) =>
        {
            "start the gateway, or let this program use its address and port ([gateway] listen)".into()
        }
        _ => "mend what the error names, or start the gateway".into(),
    }
}

/// Whether what is intercepted arrives at the running gateway.
fn delivery(settings: &Settings, status: &Value) -> Check {
    const NAME: &str = "delivery";
    match status["undelivered"].as_u64() {
        Some(count @ 1..) => Check::bad(
            NAME,
            format!(
                "the last {count} connections that were intercepted did not arrive at the gateway: a firewall drops them"
            ),
            format!(
                "accept their packets in each chain of hook input: meta mark {:#x} accept (firewalld, ufw, OpenWrt: docs/deploy.md, Firewall)",
                settings.rules.deliver()
            ),
        ),
        _ => Check::good(NAME, "no connection is known to have been intercepted and not to have arrived"),
    }
}

/// The report of one peer.
fn examined(settings: &Settings, peer: &Value, by: &str) -> Vec<Check> {
    let name = peer["name"].as_str().unwrap_or("?");
    let check = format!("peer {name}");
    if peer["state"] == PeerState::Draining.name() {
        let says = format!("it drains, says {by}: it takes no more connections, and new ones go end to end");
        return vec![Check::good(check, says)];
    }
    let is_up = peer["state"] == "up";
    // Of a peer that is up, its own connections are relayed, and those of this site to it may not be.
    let trouble = peer["trouble"]["says"].as_str().or((!is_up).then_some("it does not answer"));
    if let Some(says) = trouble {
        let (seen, remedy) = says.split_once(": check ").unwrap_or((says, "the log of its gateway"));
        let state = if is_up { format!("up, says {by}, but") } else { format!("not up, says {by}:") };
        return vec![Check::bad(check, format!("{state} {seen}"), format!("check {remedy}"))];
    }
    let rtt = match peer["rtt_s"].as_f64() {
        Some(rtt) => format!("round trip {:.0} ms", rtt * 1e3),
        None => "round trip not measured yet".to_owned(),
    };
    let mut checks = vec![Check::good(check, format!("up, says {by}; {rtt}"))];
    checks.extend(permitted(name, &peer["permits"]));
    if let (Some(mtu @ 1..), None) = (peer["mtu"].as_u64(), &settings.tcp) {
        let wanted = u64::from(settings.link.mtu);
        checks.push(if mtu < wanted {
            let remedy = format!(
                "nothing need be done; [link] mtu = {mtu} saves the search, a larger MTU on the path some overhead"
            );
            Check {
                remedy: Some(remedy),
                ..Check::good(format!("mtu {name}"), format!("{mtu} bytes pass, of {wanted} allowed"))
            }
        } else {
            Check::good(format!("mtu {name}"), format!("{mtu} bytes pass"))
        });
    }
    if let Some(batches) = peer["batches"].as_bool() {
        checks.push(if batches {
            Check::good(format!("batches {name}"), "batches of datagrams (GSO) are sent, and none is known to get lost")
        } else {
            Check::bad(
                format!("batches {name}"),
                "batches of datagrams (GSO) get lost or are refused: they are sent one by one, at a cost of processor time",
                "check the driver and the offloads of the interface (ethtool -k), PPPoE and tunnels on it",
            )
        });
    }
    checks.extend(losses(name, peer));
    checks
}

/// The datagrams to the peer that were lost: of late if enough were sent, else all that its report counts.
fn losses(name: &str, peer: &Value) -> Option<Check> {
    let counts = |of: &Value| ["sent_packets", "lost_packets"].map(|key| of[key].as_u64().unwrap_or(0));
    let recent = counts(&peer[RECENT]);
    let ([sent, lost], when) = if recent[0] >= ENOUGH {
        (recent, format!(" in the last {OBSERVED}"))
    } else if peer[RECENT].is_null() {
        (counts(peer), String::new())
    } else {
        (counts(peer), " since the gateway started".to_owned())
    };
    if sent < ENOUGH {
        return None;
    }
    // Losses are known a round trip after the packets were sent, when fewer may be.
    let share = (lost as f64 / sent as f64).min(1.0);
    let says = format!("{lost} of {sent} datagrams lost ({:.2} %){when}", share * 100.0);
    Some(if share > LOST {
        Check::bad(
            format!("losses {name}"),
            says,
            "check the link's quality, that no policer limits UDP, and with capacity = \"fixed\" that [link] rate is no more than \
             what the link carries",
        )
    } else {
        Check::good(format!("losses {name}"), says)
    })
}

/// Which servers the peer permits, if it has announced that.
fn permitted(name: &str, permits: &Value) -> Option<Check> {
    let public = if permits["public"].as_bool()? { "public ones" } else { "no public ones" };
    let private: Vec<_> = permits["private"].as_array()?.iter().filter_map(Value::as_str).collect();
    let check = format!("servers {name}");
    if private.is_empty() {
        let remedy = "nothing need be done unless clients connect to private servers there: its allow_destinations for this gateway names \
                      them then";
        let says = format!("the peer permits {public}, and no private ones: connections to those go end to end");
        return Some(Check { remedy: Some(remedy.into()), ..Check::good(check, says) });
    }
    Some(Check::good(check, format!("the peer permits {public}, and of private ones {}", private.join(", "))))
}

/// The networks of the interfaces on which connections are intercepted, as far as this host has an address in them.
fn networks_of_clients(settings: &Settings) -> Vec<IpNet> {
    let Ok(mut interfaces) = Interfaces::new() else { return Vec::new() };
    let mut named = interfaces.all().unwrap_or_default();
    named.retain(|one| settings.rules.interfaces.contains(&one.name));
    let mut networks: Vec<_> =
        named.iter().flat_map(|one| interfaces.networks_of(one.index).unwrap_or_default()).collect();
    let is_link_local = |network: &IpNet| matches!(network, IpNet::V6(net) if net.addr().is_unicast_link_local());
    // The least are between routers: their clients are elsewhere.
    let has_hosts = |network: &IpNet| network.max_prefix_len() - network.prefix_len() > 2;
    networks.retain(|network| has_hosts(network) && !is_link_local(network));
    networks
}

/// Whether the peers that are up let the clients in `networks` through, once all of them have announced whom they do.
fn clients(networks: &[IpNet], peers: &[Value]) -> Option<Check> {
    const NAME: &str = "clients";
    let mut permitted = Vec::new();
    for peer in peers.iter().filter(|peer| peer["state"] == "up") {
        let named = peer["permits"]["clients"].as_array()?;
        // There may be more.
        if named.len() >= MAX_NAMED {
            return None;
        }
        permitted.extend(named.iter().filter_map(|network| network.as_str()?.parse::<IpNet>().ok()));
    }
    let are_up = peers.iter().any(|peer| peer["state"] == "up");
    let network = networks.first().filter(|_| are_up)?;
    // Of a network with holes, parts are permitted.
    let meets = |network: &IpNet, other: &IpNet| network.contains(other) || other.contains(network);
    // Where no client of a family is permitted, the other end does not relay that family.
    let is_relayed = |network: &IpNet| permitted.iter().any(|one| one.addr().is_ipv4() == network.addr().is_ipv4());
    let is_outside = |network: &&IpNet| is_relayed(network) && !permitted.iter().any(|one| meets(network, one));
    let outside: Vec<_> = networks.iter().filter(is_outside).map(ToString::to_string).collect();
    if outside.is_empty() {
        let others = if networks.len() > 1 { " and the other networks" } else { "" };
        return Some(Check::good(
            NAME,
            format!("the peers permit those in {network}{others} of [intercept] interfaces"),
        ));
    }
    // There may be no clients, as in a network between routers.
    let says = format!("no peer that is up permits clients in {}: their connections go end to end", outside.join(", "));
    let remedy = "nothing need be done unless clients are there: the routes (or allow_sources) of this gateway's [[peer]] at the far gateway \
                  name the networks of clients";
    Some(Check { remedy: Some(remedy.into()), ..Check::good(NAME, says) })
}

/// Begins a session with each peer as the gateway would, and returns what its status would show of them. No file is written, neither
/// for debugging nor of what was measured: those of the user who runs doctor would be in the gateway's way.
fn shake_hands(settings: &Settings, measures_rate: bool) -> Result<Vec<Value>, StartError> {
    let settings = &Settings { debug: DebugSettings::default(), ..settings.clone() };
    match &settings.tcp {
        None => outcome(settings, measures_rate, |settings, now, watch| {
            let mut satpep = Satpep::start(settings, now, watch, None)?;
            satpep.leave_remembered();
            Ok(satpep)
        }),
        Some(tcp) => outcome(settings, measures_rate, |settings, now, watch| {
            TcpTransport::start(settings, tcp, now, watch, None)
        }),
    }
}

fn outcome<T: SatelliteTransport>(
    settings: &Settings,
    measures_rate: bool,
    start: impl FnOnce(&Settings, Instant, &Watch) -> Result<T, StartError>,
) -> Result<Vec<Value>, StartError> {
    let io = |source| StartError::Io { doing: "beginning sessions with the peers".into(), source };
    let mut poll = Poll::new().map_err(io)?;
    let waker = Arc::new(Waker::new(poll.registry(), WAKER).map_err(io)?);
    let watch = Watch::new(poll.registry(), FIRST, waker).map_err(io)?;
    let begun = clock::now();
    let mut transport = start(settings, begun, &watch)?;
    let all = 0..settings.peers.len();
    let round_trips = settings.link.rtt * ROUND_TRIPS;
    let mut end = begun + PATIENCE + round_trips;
    let mut are_up = false;
    while clock::now() < end {
        turn(&mut transport, &mut poll, end).map_err(io)?;
        if !are_up && all.clone().all(|peer| transport.trouble(clock::now(), peer).is_none()) {
            are_up = true;
            end = clock::now() + OBSERVED + round_trips;
        }
    }
    let mut answers = Vec::new();
    let offered = rate::offered(settings);
    for at in all {
        let peer = &settings.peers[at];
        // An estimate that an earlier run remembers may be more than what the cost was computed with.
        let cap = peer.cap.map_or(offered, |cap| cap.min(offered));
        let refusal = if measures_rate { transport.survey(clock::now(), at, Some(cap)).err() } else { None };
        let end = clock::now() + rate::patience(settings);
        while measures_rate && refusal.is_none() && clock::now() < end {
            turn(&mut transport, &mut poll, end).map_err(io)?;
            if transport.peer(clock::now(), at, peer).survey.is_none_or(|survey| survey.done) {
                break;
            }
        }
        let mut value = serde_json::to_value(transport.peer(clock::now(), at, peer)).unwrap_or_default();
        rate::note_refusal(&mut value, refusal);
        answers.push(value);
    }
    let now = clock::now();
    transport.leave(now + Duration::from_millis(100));
    Ok(answers)
}

/// One turn of the gateway's loop, without relays.
fn turn<T: SatelliteTransport>(transport: &mut T, poll: &mut Poll, end: Instant) -> io::Result<()> {
    let mut events = Events::with_capacity(64);
    let now = clock::now();
    let until = transport.next_timeout(now).unwrap_or(end).min(end).min(now + Duration::from_millis(100));
    match poll.poll(&mut events, Some(until.since(now).into())) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
        _ => {}
    }
    let now = clock::now();
    for event in &events {
        if event.token() != WAKER
            && let Owner::Transport(at) = Watch::owner(event.token(), FIRST)
        {
            transport.on_descriptor(now, at, event);
        }
    }
    transport.take_in(now, 64);
    transport.tick(now);
    // Nothing is relayed: whatever the peers want to open is theirs to give up.
    while transport.poll_event(now).is_some() {}
    transport.send_out(now);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;
    use crate::config::tests::minimal;

    fn reported(peer: &Value) -> Vec<Check> {
        examined(&parse(&minimal(), "x").unwrap(), peer, "the gateway")
    }

    /// A peer that is up, with `more` in its report; what is reported of it beside that it is up.
    fn reported_of_one_that_is_up(more: &Value) -> Vec<Check> {
        let mut peer = json!({ "name": "hub", "state": "up", "rtt_s": 0.5804 });
        peer.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mut checks = reported(&peer);
        assert_eq!(checks.remove(0), Check::good("peer hub", "up, says the gateway; round trip 580 ms"));
        checks
    }

    #[test]
    fn a_peer_that_is_not_up_is_reported_with_its_trouble_and_what_to_check() {
        for (trouble, says, remedy) in [
            (json!({ "says": "no answer: check its address" }), "no answer", "check its address"),
            (json!({ "says": "its clock is off" }), "its clock is off", "check the log of its gateway"),
            (Value::Null, "it does not answer", "check the log of its gateway"),
        ] {
            for state in ["connecting", "unresponsive", "down"] {
                let peer = json!({ "name": "hub", "state": state, "trouble": trouble, "mtu": 576, "lost_packets": 9 });
                assert_eq!(
                    reported(&peer),
                    [Check::bad("peer hub", format!("not up, says the gateway: {says}"), remedy)]
                );
            }
        }
        assert!(!reported(&json!({}))[0].ok, "a report that says nothing is no good news");
    }

    #[test]
    fn a_peer_that_is_reached_one_way_only_is_reported_though_it_is_up() {
        let says =
            "its connections are relayed, but those of this site to it are not: nothing answers: check its address";
        let peer = json!({ "name": "hub", "state": "up", "trouble": { "says": says } });
        let (seen, remedy) = says.split_once(": check ").unwrap();
        let expected = Check::bad("peer hub", format!("up, says the gateway, but {seen}"), format!("check {remedy}"));
        assert_eq!(reported(&peer), [expected]);
    }

    #[test]
    fn nothing_is_wrong_with_a_peer_that_drains() {
        let says = "it drains, says the gateway: it takes no more connections, and new ones go end to end";
        assert_eq!(reported(&json!({ "name": "hub", "state": "draining" })), [Check::good("peer hub", says)]);
    }

    #[test]
    fn a_smaller_path_mtu_is_reported_but_nothing_is_wrong_with_it() {
        let smaller = &reported_of_one_that_is_up(&json!({ "mtu": 1400 }))[0];
        assert_eq!((smaller.ok, smaller.says.as_str()), (true, "1400 bytes pass, of 1500 allowed"));
        assert!(smaller.remedy.as_ref().unwrap().contains("[link] mtu = 1400 saves the search"), "{smaller:?}");
        assert_eq!(reported_of_one_that_is_up(&json!({ "mtu": 1500 })), [Check::good("mtu hub", "1500 bytes pass")]);
        assert_eq!(reported_of_one_that_is_up(&json!({ "mtu": 0 })), [], "it is not known yet");
    }

    #[test]
    fn what_the_peer_permits_is_reported() {
        let permits = |public: bool, private: &[&str]| {
            reported_of_one_that_is_up(&json!({ "permits": { "public": public, "private": private } })).remove(0)
        };
        let public = permits(true, &[]);
        assert!(public.ok && public.says.contains("public ones, and no private ones"), "{public:?}");
        assert!(public.remedy.unwrap().contains("allow_destinations"));
        let says = "the peer permits no public ones, and of private ones 10.1.0.0/16, fd00::/8";
        assert_eq!(permits(false, &["10.1.0.0/16", "fd00::/8"]), Check::good("servers hub", says));
        assert_eq!(reported_of_one_that_is_up(&json!({ "permits": null })), [], "it has announced nothing");
    }

    #[test]
    fn networks_of_clients_that_no_peer_permits_are_reported_once_the_peers_have_announced_theirs() {
        let nets = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpNet>>();
        let peer = |state: &str, clients: &[&str]| json!({ "state": state, "permits": { "clients": clients } });
        let here = nets(&["10.1.0.0/24", "2001:db8:1::/64"]);
        let of_both = [peer("up", &["10.1.0.0/25"]), peer("up", &["2001:db8::/32"]), peer("connecting", &[])];
        let check = clients(&here, &of_both).unwrap();
        assert!(check.ok && check.says.contains("10.1.0.0/24"), "{check:?}");
        let check = clients(&here, &of_both[..1]).unwrap();
        assert!(check.remedy.is_none(), "the peer relays no IPv6: {check:?}");
        let elsewhere = [peer("up", &["10.9.0.0/24"]), peer("up", &["2001:db8::/32"])];
        let check = clients(&here, &elsewhere).unwrap();
        assert!(check.says.contains("10.1.0.0/24") && !check.says.contains("2001"), "{check:?}");
        assert!(check.remedy.unwrap().contains("routes"));
        let not_announced = [peer("up", &["10.9.0.0/24"]), json!({ "state": "up", "permits": null })];
        let many: Vec<_> = (0..MAX_NAMED).map(|number| format!("10.9.{number}.0/24")).collect();
        let many = peer("up", &many.iter().map(String::as_str).collect::<Vec<_>>());
        for peers in [&not_announced[..], &[many], &[peer("connecting", &[])], &[]] {
            assert_eq!(clients(&here, peers), None, "{peers:?}");
        }
        assert_eq!(clients(&[], &of_both), None, "nothing is intercepted here");
    }

    #[test]
    fn a_round_trip_that_is_not_measured_is_not_0() {
        let peer = json!({ "name": "hub", "state": "up", "rtt_s": null });
        assert_eq!(reported(&peer), [Check::good("peer hub", "up, says the gateway; round trip not measured yet")]);
    }

    #[test]
    fn a_port_that_another_program_has_is_reported_with_how_to_find_it() {
        let settings = parse(&minimal(), "x").unwrap();
        let failure = |kind: io::ErrorKind| StartError::Io { doing: "listening".into(), source: kind.into() };
        let taken = remedy_of(&settings, &failure(io::ErrorKind::AddrInUse));
        assert!(taken.starts_with("another program has this port (ss -ulpn 'sport = :4500'"), "{taken}");
        assert!(remedy_of(&settings, &failure(io::ErrorKind::AddrNotAvailable)).starts_with("start the gateway"));
        let other = remedy_of(&settings, &failure(io::ErrorKind::NotFound));
        assert_eq!(other, "mend what the error names, or start the gateway", "the port is not what is wrong");
    }

    #[test]
    fn losses_are_judged_once_enough_was_sent_to_tell() {
        for (sent, lost, ok) in
            [(200, 10, true), (200, 11, false), (1_000_000, 50_000, true), (1_000_000, 50_001, false)]
        {
            let check = &reported_of_one_that_is_up(&json!({ "sent_packets": sent, "lost_packets": lost }))[0];
            assert_eq!((check.check.as_str(), check.ok), ("losses hub", ok), "{check:?}");
            assert!(check.says.starts_with(&format!("{lost} of {sent} datagrams lost (5.")), "{check:?}");
            assert_eq!(check.remedy.is_some(), !ok);
        }
        assert_eq!(reported_of_one_that_is_up(&json!({ "sent_packets": 199, "lost_packets": 199 })), []);
    }

    #[test]
    fn losses_of_a_running_gateway_are_judged_by_those_of_late() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings { control: folder.path().join("socket"), ..parse(&minimal(), "x").unwrap() };
        let report = |sent: u64, lost: u64| {
            let peer = json!({ "name": "hub", "state": "up", "sent_packets": sent, "lost_packets": lost });
            json!({ "peers": [peer] })
        };
        for (later, ok, says) in [
            ((100_003_000, 100_900), false, "900 of 3000 datagrams lost (30.00 %) in the last 4s"),
            ((100_000_100, 100_100), true, "100000 of 100000000 datagrams lost (0.10 %) since the gateway started"),
            ((50, 0), true, "100000 of 100000000 datagrams lost (0.10 %) since the gateway started"),
        ] {
            let listener = std::os::unix::net::UnixListener::bind(&settings.control).unwrap();
            let answer = report(later.0, later.1).to_string();
            let gateway = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                std::io::Write::write_all(&mut stream, answer.as_bytes()).unwrap();
            });
            let peers = observed(&settings, &report(100_000_000, 100_000), Duration::ZERO);
            gateway.join().unwrap();
            std::fs::remove_file(&settings.control).unwrap();
            let losses = losses("hub", &peers[0]).unwrap();
            assert_eq!((losses.ok, losses.says.as_str()), (ok, says));
        }
    }

    #[test]
    fn batches_that_get_lost_are_reported() {
        let lost = &reported_of_one_that_is_up(&json!({ "batches": false }))[0];
        assert!(!lost.ok && lost.remedy.as_ref().unwrap().contains("ethtool -k"), "{lost:?}");
        assert!(reported_of_one_that_is_up(&json!({ "batches": true }))[0].ok);
        assert_eq!(reported_of_one_that_is_up(&json!({ "batches": null })), [], "the tcp transport has none");
    }
}
