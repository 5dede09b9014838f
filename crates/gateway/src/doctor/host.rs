//! The host: programs, privileges, firewall, interfaces, forwarding, routes, clock.

use super::{Check, advertisements};
use crate::config::{self, Named, Settings};
use crate::connection_log::timestamp;
use crate::conntrack::Conntrack;
use crate::filtered_bridges::{bridges, filtering_keys};
use crate::privileges::{Plan, Reading};
use crate::reverse_path::{self, ReversePath};
use crate::rules::{Hold, Rules, preceding, remedy};
use crate::sysctls::EARLY_DEMUX;
use crate::transport::tcp::{MIN_SEGMENT, PROBE_FLOOR, PROBING};
use ipnet::{IpNet, Ipv6Net};
use kernel::interfaces::{Interface, Interfaces};
use kernel::route::Route;
use kernel::routing_rules::RoutingRule;
use kernel::{nftables, routing_rules, sysctl};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use std::process::Stdio;
use std::time::{SystemTime, UNIX_EPOCH};

/// No gateway was made before 2025: the clock is wrong.
const EARLIEST: u64 = 1_735_689_600;

/// The routing table that `ip route` changes unless another one is named.
const MAIN_TABLE: u32 = 254;

/// Global unicast addresses, and some of them that lie far apart: a host with a default route has one to each.
const GLOBAL: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);
const IN_GLOBAL: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0x2001, 0x4860, 0, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0x2606, 0x4700, 0, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0x2a00, 0x1450, 0, 0, 0, 0, 0, 1),
];

pub(super) fn examine(settings: &Settings) -> Vec<Check> {
    let mut checks = vec![program("nft", "nftables"), program("ip", "iproute2")];
    checks.extend(key(settings));
    checks.extend(interfaces(settings));
    checks.push(firewall(settings));
    checks.push(routing_rules(settings));
    checks.extend(forwarding(settings));
    checks.push(early_demux());
    checks.extend(reverse_path(settings));
    checks.extend(filtered_bridges(settings));
    checks.extend(conntrack());
    checks.extend(settings.tcp.is_some().then(mtu_probing));
    checks.extend(routes(settings));
    checks.extend(ipv6_servers(settings));
    checks.push(clock());
    checks
}

fn program(name: &str, package: &str) -> Check {
    let run = kernel::program::command(name).arg("-V").stdin(Stdio::null()).output();
    match run {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().trim().to_owned();
            Check::good(format!("program {name}"), said)
        }
        Err(error) => Check::lacking(
            format!("program {name}"),
            format!("{name} cannot be started: {error}"),
            format!("install the package {package}"),
        ),
    }
}

/// Whether the gateway's user may read its key, if it is another one than who asks. A gateway that root starts by hand may do without.
fn key(settings: &Settings) -> Option<Check> {
    let file = settings.private_key_file.as_ref()?;
    let plan = Plan::new(settings).ok()?;
    let (user, by) = match plan.reading(file).ok()?? {
        Reading::Allowed => return Some(Check::good("key", "the gateway's user reads it")),
        Reading::Denied { user, by } => (user, by),
    };
    let (which, right) = if by == *file { (String::new(), "r") } else { (format!(" in {}", by.display()), "x") };
    let says = format!("the user {user} may not read it{which}: under systemd the gateway does not start");
    let by = by.display();
    let remedy = format!("chgrp $(id -gn {user}) {by} && chmod g+{right} {by}; nothing, if root starts the gateway");
    Some(Check { remedy: Some(remedy), ..Check::good("key", says) })
}

fn interfaces(settings: &Settings) -> Vec<Check> {
    let found = Interfaces::new().and_then(|mut interfaces| {
        interfaces.all().map_err(|source| kernel::Error::Failed { doing: "reading interfaces".into(), source })
    });
    let all = match found {
        Ok(all) => all,
        Err(error) => return vec![Check::lacking("interfaces", error.to_string(), "run on Linux with netlink")],
    };
    let mut names = BTreeSet::new();
    let each = settings.interfaces.iter().filter(|named| names.insert(&named.name));
    let notes = config::notes(settings).into_iter().map(|note| Check::good("interception", note));
    each.map(|named| interface(settings, named, &all)).chain(notes).collect()
}

fn interface(settings: &Settings, named: &Named, all: &[Interface]) -> Check {
    let check = format!("interface {}", named.name);
    let Some(found) = all.iter().find(|one| one.name == named.name) else {
        let names: Vec<_> = all.iter().map(|one| one.name.as_str()).collect();
        return Check::bad(
            check,
            format!("{} names it, and this machine has {}", named.key, names.join(", ")),
            format!("correct line {} of the settings, or make the interface", named.place.0),
        );
    };
    let mtu = u32::from(settings.link.mtu);
    let is_of_clients = settings.rules.interfaces.contains(&found.name);
    if let Some(whole) = found.whole(all).filter(|_| is_of_clients).map(|whole| &whole.name) {
        return Check::bad(
            check,
            format!("it is a port of {whole}, on which its packets arrive: nothing is intercepted"),
            format!("name {whole} in [intercept] interfaces"),
        );
    }
    if !found.is_up {
        Check::bad(check, "it is down", format!("ip link set {} up", named.name))
    } else if !found.is_running {
        Check::bad(check, "it has no carrier", "check the cable, or what is at its other end")
    } else if named.key == "link.interface" && found.mtu < mtu && settings.tcp.is_none() {
        let remedy = format!("nothing need be done; [link] mtu = {} saves the search", found.mtu);
        Check { remedy: Some(remedy), ..Check::good(check, format!("up, MTU {}, of {mtu} allowed", found.mtu)) }
    } else {
        Check::good(check, format!("up, MTU {}", found.mtu))
    }
}

/// Has the kernel take the gateway's own rules, under another name and only for the length of a transaction.
fn firewall(settings: &Settings) -> Check {
    let rules = Rules { table: format!("{}_doctor", settings.rules.table), ..settings.rules.clone() };
    let take =
        |rules: &Rules| nftables::run_script(&format!("{}delete table inet {}\n", rules.setup_script(), rules.table));
    let by_iptables = Rules { hold: Some(Hold::Iptables), ..rules.clone() };
    match take(&rules) {
        Ok(()) => Check::good("firewall", "the kernel takes the gateway's rules"),
        Err(_) if rules.hold == Some(Hold::Nftables) && take(&by_iptables).is_ok() => {
            match program("iptables", "iptables") {
                Check { ok: true, .. } => {
                    Check::good("firewall", "the kernel takes the gateway's rules; iptables holds SYNs")
                }
                _ => Check::lacking(
                    "firewall",
                    "accept = \"confirmed\" needs nftables' queue, which this kernel lacks, or iptables, which is not installed",
                    "modprobe nft_queue, or install the package iptables",
                ),
            }
        }
        Err(error) if error.is_missing() => {
            Check::lacking("firewall", error.to_string(), "run as root, or with CAP_NET_ADMIN; install nftables")
        }
        Err(error) => Check::lacking(
            "firewall",
            error.to_string(),
            "the kernel needs nf_tables with nft_tproxy, nft_socket, nft_fib_inet, nft_ct and nft_reject_inet (and nft_queue \
             for accept = \"confirmed\"): modprobe them, or use a kernel that has them",
        ),
    }
}

/// Whether other programs' routing rules take what is to be delivered to the gateway, or what the gateway sends.
fn routing_rules(settings: &Settings) -> Check {
    const NAME: &str = "routing rules";
    let rules = &settings.rules;
    let families: &[bool] = if rules.ipv6 { &[false, true] } else { &[false] };
    let found: Result<Vec<_>, _> = families.iter().map(|ipv6| routing_rules::list(*ipv6)).collect();
    let found = match found {
        Ok(found) => found,
        Err(error) => return Check::lacking(NAME, error.to_string(), "run on Linux with netlink"),
    };
    let numbers = |found: &[RoutingRule]| {
        let sorted: BTreeSet<u32> = found.iter().map(|rule| rule.priority).collect();
        sorted.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
    };
    let before: Vec<RoutingRule> = found.iter().flat_map(|family| preceding(rules, family)).collect();
    if let Some(first) = before.iter().map(|rule| rule.priority).min() {
        let says = format!(
            "those of priority {} come before the gateway's, {}, and may misroute intercepted connections (ip rule)",
            numbers(&before),
            rules.priority
        );
        return Check::bad(NAME, says, remedy(first));
    }
    let of_own_packets = |rule: &&RoutingRule| rule.is_for_mark(rules.made()) || rule.is_for_mark(rules.crossing());
    let catching: Vec<RoutingRule> = found.iter().flatten().filter(of_own_packets).copied().collect();
    if !catching.is_empty() {
        let says = format!(
            "those of priority {} are for marked packets, and match the gateway's own, {:#x} and {:#x}: they may misroute its connections to \
             servers (ip rule)",
            numbers(&catching),
            rules.made(),
            rules.crossing()
        );
        return Check::bad(NAME, says, "set [intercept] mark so that those rules do not match mark+5 and mark+7");
    }
    Check::good(NAME, format!("none comes before the gateway's, of priority {}", rules.priority))
}

fn forwarding(settings: &Settings) -> Vec<Check> {
    let mut keys = vec!["net.ipv4.ip_forward"];
    if settings.rules.ipv6 {
        keys.push(advertisements::FORWARDING);
    }
    // Set before forwarding begins, they keep the default route.
    let first = |key: &str| match advertisements::settings_while_forwarding() {
        Some(settings) if key == advertisements::FORWARDING => format!("{settings} "),
        _ => String::new(),
    };
    let check = |key: &str| match sysctl::read(key) {
        Ok(value) if value.trim() != "0" => Check::good(format!("forwarding {key}"), value.trim()),
        Ok(_) => Check::bad(
            format!("forwarding {key}"),
            "it is 0: traffic that the gateway does not relay is not forwarded",
            format!("sysctl -w {}{key}=1, and put it into /etc/sysctl.d", first(key)),
        ),
        Err(error) => Check::lacking(format!("forwarding {key}"), error.to_string(), "mount /proc"),
    };
    keys.into_iter().map(check).collect()
}

/// The gateway turns it off where it may.
fn early_demux() -> Check {
    match sysctl::read(EARLY_DEMUX) {
        Ok(value) if value != "0" && sysctl::check_writable(EARLY_DEMUX).is_err() => Check::bad(
            "early demux",
            format!(
                "{EARLY_DEMUX} is {value}: connections past the gateway hang if their ports were relayed a minute ago"
            ),
            format!("sysctl -w {EARLY_DEMUX}=0, and put it into /etc/sysctl.d"),
        ),
        Ok(_) => Check::good("early demux", "off, or the gateway turns it off"),
        Err(error) => Check::lacking("early demux", error.to_string(), "mount /proc"),
    }
}

/// Of bridges, connections can be intercepted only if their frames do not pass the IP firewall.
fn filtered_bridges(settings: &Settings) -> Vec<Check> {
    let all = Interfaces::new().ok().and_then(|mut interfaces| interfaces.all().ok()).unwrap_or_default();
    let keys = filtering_keys();
    let check = |name: String| {
        let check = format!("bridge {name}");
        if keys.is_empty() {
            return Check::good(check, "its frames do not pass the IP firewall");
        }
        Check::bad(
            check,
            format!(
                "{} set: no connection can be intercepted on a bridge, and all go end to end",
                match keys[..] {
                    [key] => format!("{key} is"),
                    _ => format!("{} are", keys.join(" and ")),
                }
            ),
            format!(
                "sysctl -w {}=0, and put it into /etc/sysctl.d; or name an interface that is no bridge",
                keys.join("=0 ")
            ),
        )
    };
    bridges(&settings.rules.interfaces, &all).into_iter().map(check).collect()
}

/// Whether the kernel can keep track of more connections. A kernel without conntrack loaded does not say.
fn conntrack() -> Option<Check> {
    let table = Conntrack::read()?;
    let says = format!("{} of {} connections tracked", table.count, table.max);
    if !table.is_nearly_full() {
        return Some(Check::good("conntrack", says));
    }
    let says = format!("{says}: the kernel drops packets of new connections, intercepted or not");
    Some(Check::bad("conntrack", says, format!("{}, and put it into /etc/sysctl.d", table.remedy())))
}

fn reverse_path(settings: &Settings) -> Vec<Check> {
    let present = Interfaces::new().ok().and_then(|mut interfaces| interfaces.all().ok()).unwrap_or_default();
    let check = |name: String| {
        let check = format!("rp_filter {name}");
        match ReversePath::read(&name) {
            Ok(found) if found.drops() => Check::bad(
                check,
                format!("{}: the kernel drops intercepted packets", found.says()),
                format!("{}, and put it into /etc/sysctl.d", found.remedy()),
            ),
            Ok(found) => Check::good(check, found.says()),
            Err(error) => Check::lacking(check, error.to_string(), "mount /proc"),
        }
    };
    reverse_path::concerned(&settings.rules, &present).into_iter().map(check).collect()
}

/// With `tcp` transport: whether connections that are open survive a path whose packets become smaller without a word.
fn mtu_probing() -> Check {
    match sysctl::read(PROBING) {
        Ok(value) if value == "0" && sysctl::check_writable(PROBING).is_err() => {
            let remedy = format!("sysctl -w {PROBING}=1, and put it into /etc/sysctl.d");
            let says =
                "off: connections that are open get stuck if the path drops large packets from then on without a word";
            Check { remedy: Some(remedy), ..Check::good("mtu probing", says) }
        }
        Ok(_) if is_floor_low() && sysctl::check_writable(PROBE_FLOOR).is_err() => Check::bad(
            "mtu probing",
            format!("{PROBE_FLOOR} is below {MIN_SEGMENT}: an outage may leave connections with tiny packets"),
            format!("sysctl -w {PROBE_FLOOR}={MIN_SEGMENT}, and put it into /etc/sysctl.d"),
        ),
        Ok(_) => Check::good("mtu probing", "on, or the gateway turns it on"),
        Err(error) => Check::lacking("mtu probing", error.to_string(), "mount /proc"),
    }
}

fn is_floor_low() -> bool {
    sysctl::read(PROBE_FLOOR).is_ok_and(|value| value.parse().is_ok_and(|value: u32| value < MIN_SEGMENT))
}

/// Where packets to the peers, and to what lies behind them, leave.
fn routes(settings: &Settings) -> Vec<Check> {
    let mut checks = Vec::new();
    for peer in &settings.peers {
        if let Some(address) = peer.address {
            let to = address.ip();
            checks.push(route(settings, format!("route {}", peer.name), to, to.into(), "its address"));
        }
        // What has no prefix to speak of lies behind whatever the default route leads to.
        for prefix in peer.routes.iter().filter(|prefix| prefix.prefix_len() > 0) {
            let behind = format!("return route {} {prefix}", peer.name);
            let [first, last] =
                some_hosts(prefix).map(|host| route(settings, behind.clone(), host, *prefix, "what lies behind it"));
            checks.push(if first.ok { last } else { first });
        }
    }
    checks
}

/// Whether this host has a route to public IPv6 servers: one that forwarding has removed, or that it needs for clients with IPv6 addresses.
fn ipv6_servers(settings: &Settings) -> Vec<Check> {
    let has_route = |host: &Ipv6Addr| !matches!(Route::towards(IpAddr::V6(*host)), Ok(None));
    let is_reached = IN_GLOBAL.iter().any(has_route);
    let is_missing = settings.rules.ipv6 && !is_reached;
    if let Some(missing) = advertisements::missing_route().filter(|_| is_missing) {
        return vec![missing];
    }
    let link = settings.link.interface.as_deref();
    let perhaps = advertisements::perhaps_missing_route(link).filter(|_| is_missing);
    perhaps.into_iter().chain(clients_of_ipv6(settings, is_reached)).collect()
}

/// What becomes of IPv6 connections of peers' clients to public servers, if any are permitted: whether one of these `is_reached`.
fn clients_of_ipv6(settings: &Settings, is_reached: bool) -> Option<Check> {
    let is_for_any_server =
        |prefix: &IpNet| matches!(prefix, IpNet::V6(net) if net.prefix_len() <= GLOBAL.prefix_len());
    let is_of_clients = |prefix: &IpNet| matches!(prefix, IpNet::V6(net) if net.prefix_len() > 0);
    let peer = settings.peers.iter().find(|peer| {
        peer.allow_sources.iter().any(is_of_clients) && peer.allow_destinations.iter().any(is_for_any_server)
    })?;
    if is_reached {
        return Some(Check::good("ipv6 servers", "this host has a route to public IPv6 servers"));
    }
    let says = format!(
        "this host has no route to public IPv6 servers: IPv6 connections of clients of {} open at once and are reset then",
        peer.name
    );
    let remedy = "if that is meant to be so, leave the IPv6 prefixes out of routes and allow_sources of the peer: such connections go end to end";
    Some(Check { remedy: Some(remedy.into()), ..Check::good("ipv6 servers", says) })
}

/// The first and the last host of a prefix: routes to others than it do not lead to both.
fn some_hosts(prefix: &IpNet) -> [IpAddr; 2] {
    let last = match prefix {
        IpNet::V4(net) if net.prefix_len() < 31 => IpAddr::V4((u32::from(net.broadcast()) - 1).into()),
        _ => prefix.broadcast(),
    };
    [prefix.hosts().next().unwrap_or(prefix.addr()), last]
}

/// Whether packets to `to`, one host of `destination`, leave by the satellite interface.
fn route(settings: &Settings, check: String, to: IpAddr, destination: IpNet, what: &str) -> Check {
    let destination = destination.trunc();
    let is_part = |found: &Route| found.destination().prefix_len() > destination.prefix_len();
    match Route::towards(to) {
        Ok(Some(found)) => match (found.device(), settings.link.interface.as_deref()) {
            (Some(device), Some(link)) if device != link && is_part(&found) && found.is_of_own_address() => {
                Check::good(check, format!("{to} by {device}, which is in that network itself"))
            }
            (Some(device), Some(link)) if device != link => {
                let covering = found.destination();
                let remedy = if is_part(&found) {
                    let table =
                        if found.table() == MAIN_TABLE { String::new() } else { format!(" table {}", found.table()) };
                    format!(
                        "the route to {covering} takes a part of {destination} away: ip route del {covering} dev {device}{table}, or leave \
                         that part out of the peer's routes"
                    )
                } else {
                    format!(
                        "ip route replace {destination} dev {link} (via the address of the peer or the modem that routes), or correct \
                         [link] interface"
                    )
                };
                Check::bad(
                    check,
                    format!("packets to {what} ({to}) leave by {device}, and [link] interface is {link}"),
                    remedy,
                )
            }
            (device, _) => Check::good(check, format!("{to} by {}", device.unwrap_or("several interfaces"))),
        },
        Ok(None) => {
            let link = settings.link.interface.as_deref().unwrap_or("the satellite interface");
            let remedy = format!("add a route to {destination} by {link}");
            Check::bad(check, format!("this host has no route to {to}"), remedy)
        }
        Err(error) => Check::lacking(check, error.to_string(), "run it in the network namespace of the gateway"),
    }
}

fn clock() -> Check {
    let now = SystemTime::now();
    if now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() < EARLIEST {
        return Check::bad(
            "clock",
            format!("it shows {} (UTC): this program was made later", timestamp(now)),
            "set the clock: run an NTP client, and save the time across boots if no battery keeps it",
        );
    }
    Check::good("clock", format!("{} (UTC)", timestamp(now)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;
    use crate::config::tests::{keys, minimal};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_that_the_gateways_user_may_not_read_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("private.key");
        std::fs::write(&file, keys().0).unwrap();
        let of_file = format!("private_key_file = \"{}\"", file.display());
        let with = |key: &str| parse(&minimal().replace(&format!("private_key = \"{}\"", keys().0), key), "x").unwrap();
        let settings = with(&format!("user = \"nobody\"\n{of_file}"));
        let with_modes = |directory, mode| {
            for (path, mode) in [(folder.path(), directory), (&file, mode)] {
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
            }
            key(&settings)
        };
        // A machine without that user has nothing to say, and one whose temporary files are private always the same.
        let Some(found) = with_modes(0o711, 0o644) else { return };
        if found.remedy.is_some() {
            return;
        }
        assert_eq!(found, Check::good("key", "the gateway's user reads it"));
        let remedy = |path: &std::path::Path, right| {
            let path = path.display();
            Some(format!(
                "chgrp $(id -gn nobody) {path} && chmod g+{right} {path}; nothing, if root starts the gateway"
            ))
        };
        let denied = with_modes(0o711, 0o640).unwrap();
        assert!(denied.says.starts_with("the user nobody may not read it: "), "{denied:?}");
        assert_eq!(denied.remedy, remedy(&file, "r"));
        let denied = with_modes(0o700, 0o644).unwrap();
        assert!(denied.says.starts_with(&format!("the user nobody may not read it in {}: ", folder.path().display())));
        assert_eq!(denied.remedy, remedy(folder.path(), "x"));
        // Nobody else is known to read it.
        if !kernel::process::is_root() {
            assert_eq!(key(&with(&of_file)), None);
        }
    }

    fn settings(link: &str) -> Settings {
        parse(&minimal().replace("[link]", &format!("[link]\n{link}")), "x").unwrap()
    }

    fn one(name: &str, mtu: u32, is_up: bool, is_running: bool) -> Interface {
        Interface {
            index: 2,
            name: name.into(),
            mtu,
            is_up,
            is_running,
            is_bridge: false,
            is_port: false,
            is_loopback: false,
            master: None,
            link: None,
            header_bytes: 14,
            sent_bytes: 0,
            sent_packets: 0,
        }
    }

    #[test]
    fn an_interface_is_told_with_the_first_thing_to_mend() {
        let settings = settings("interface = \"sat0\"");
        let check = |all: &[Interface]| interface(&settings, &settings.interfaces[0], all);
        for (found, says, remedy) in [
            (
                one("sat1", 1500, true, true),
                "link.interface names it, and this machine has sat1",
                "correct line 4 of the",
            ),
            (one("sat0", 1300, false, false), "it is down", "ip link set sat0 up"),
            (one("sat0", 1300, true, false), "it has no carrier", "check the cable"),
        ] {
            let check = check(&[found]);
            assert_eq!((check.check.as_str(), check.ok, check.says.as_str()), ("interface sat0", false, says));
            assert!(check.remedy.as_ref().unwrap().starts_with(remedy), "{check:?}");
            assert!(!check.lacks, "it is set wrongly; the machine lacks nothing");
        }
        assert_eq!(check(&[one("sat0", 1500, true, true)]), Check::good("interface sat0", "up, MTU 1500"));
    }

    /// Fragments of what hosts send are the kernel's business; datagrams to the peer must fit.
    #[test]
    fn only_the_satellite_interface_of_the_satpep_transport_has_to_take_whole_packets() {
        let lan = parse(&(minimal() + "[intercept]\ninterfaces = [\"lan0\"]\n"), "x").unwrap();
        assert!(interface(&lan, &lan.interfaces[0], &[one("lan0", 576, true, true)]).ok);
        let tcp = minimal().replace("[link]", "transport = \"tcp\"\n[link]\ninterface = \"sat0\"");
        let tcp = parse(&tcp, "x").unwrap();
        assert!(interface(&tcp, &tcp.interfaces[0], &[one("sat0", 576, true, true)]).ok);
    }

    #[test]
    fn the_first_and_the_last_host_of_a_prefix_stand_for_what_lies_behind_it() {
        for (prefix, first, last) in [
            ("10.1.0.0/16", "10.1.0.1", "10.1.255.254"),
            ("10.1.2.3/16", "10.1.0.1", "10.1.255.254"),
            ("192.0.2.8/32", "192.0.2.8", "192.0.2.8"),
            ("192.0.2.8/31", "192.0.2.8", "192.0.2.9"),
            ("2001:db8::/32", "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("2001:db8::7/128", "2001:db8::7", "2001:db8::7"),
        ] {
            let hosts = some_hosts(&prefix.parse().unwrap()).map(|host| host.to_string());
            assert_eq!(hosts, [first, last], "{prefix}");
        }
    }

    #[test]
    fn a_program_that_is_not_installed_is_told_with_its_package() {
        let check = program("bentpipe-no-such-program", "nftables");
        assert!(!check.ok && check.lacks, "{check:?}");
        assert!(check.says.starts_with("bentpipe-no-such-program cannot be started: "), "{check:?}");
        assert_eq!(check.remedy.as_deref(), Some("install the package nftables"));
        let json = serde_json::to_value(&check).unwrap();
        assert_eq!((&json["ok"], json.get("lacks")), (&false.into(), None), "what is printed is documented: {json}");
    }
}
