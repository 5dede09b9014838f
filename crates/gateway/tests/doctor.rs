//! `gateway::doctor`: what it finds wrong with a host, its network and its peers, and what it advises.

use crate::pair::{End, Family, Pair, echo_all};
use gateway::doctor::{self, Check};
use kernel::network::set_sysctls;
use std::collections::BTreeMap;
use std::net::TcpStream;
use std::time::Duration;

/// What is found at `end`, by the name of the check.
fn examine(pair: &Pair, end: End) -> BTreeMap<String, Check> {
    let settings = gateway::config::load(&pair.config(end)).unwrap();
    let checks = pair.site(end).gateway.run(|| doctor::examine(&settings, false)).unwrap();
    let count = checks.len();
    let by_name: BTreeMap<_, _> = checks.into_iter().map(|check| (check.check.clone(), check)).collect();
    assert_eq!(by_name.len(), count, "each check has a name of its own");
    by_name
}

/// The check, which is bad; what it says and advises.
fn said<'a>(checks: &'a BTreeMap<String, Check>, name: &str) -> (&'a str, &'a str) {
    let check = checks.get(name).unwrap_or_else(|| panic!("no {name} in {:?}", checks.keys()));
    assert!(!check.ok, "{check:?}");
    (&check.says, check.remedy.as_deref().unwrap())
}

#[test]
fn all_is_well_with_a_pair_that_is_up() {
    let Some(pair) = Pair::up("") else { return };
    for end in [End::Hub, End::Terminal] {
        pair.wait_for(|pair| !pair.status(end)["peers"][0]["permits"].is_null());
        let checks = examine(&pair, end);
        let permitted =
            "the peer permits no public ones, and of private ones 198.18.0.0/15, 203.0.113.0/24, 2001:db8::/32";
        assert_eq!(checks["servers other"].says, permitted);
        assert!(checks["gateway"].says.starts_with("it runs (pid "), "{:?}", checks["gateway"]);
        let bad: Vec<_> = checks.values().filter(|check| !check.ok).collect();
        assert!(bad.is_empty(), "{bad:#?}");
        for name in [
            "program nft",
            "program ip",
            "interface lan",
            "interface sat",
            "firewall",
            "routing rules",
            "clock",
            "mtu other",
        ] {
            assert!(checks.contains_key(name), "{name}");
        }
        assert!(checks["peer other"].says.starts_with("up, says the running gateway"), "{:?}", checks["peer other"]);
        assert!(checks.values().all(|check| check.ok || check.remedy.is_some()), "whatever is bad can be mended");
    }
}

/// As where the hub's routes have a typing error.
#[test]
fn networks_of_clients_that_the_hub_does_not_permit_are_named_and_their_connections_counted() {
    let Some(pair) = Pair::up("allow_sources = [\"192.0.2.0/24\", \"2001:db8:99::/64\"]") else { return };
    pair.wait_for(|pair| !pair.status(End::Terminal)["peers"][0]["permits"].is_null());
    let permits = &pair.status(End::Terminal)["peers"][0]["permits"];
    assert_eq!(permits["clients"], serde_json::json!(["192.0.2.0/24", "2001:db8:99::/64"]));
    let checks = examine(&pair, End::Terminal);
    let check = &checks["clients"];
    assert!(check.says.contains("198.18.2.0/24"), "{check:?}");
    assert!(check.remedy.as_ref().is_some_and(|remedy| remedy.contains("routes")), "{check:?}");
    assert!(check.ok, "there may be no clients: {check:?}");
    assert!(examine(&pair, End::Hub)["clients"].ok, "the terminal permits all of the hub's");
    drop(pair.connect(pair.serve(Family::V4, 7, echo_all)));
    pair.wait_for(|pair| pair.status(End::Terminal)["bypassed"]["unserved"] == 1);
    let counter = pair.output(End::Terminal, "nft", "list counter inet bentpipe other_clients");
    assert!(counter.contains("packets 1 "), "{counter}");
    assert!(pair.status(End::Terminal)["bypassed"]["other_clients"].is_null(), "it is part of the unserved ones");
}

#[test]
fn a_host_that_is_set_wrongly_reads_what_to_set() {
    let Some(pair) = Pair::up("") else { return };
    let host = &pair.client().gateway;
    set_sysctls(
        host,
        &[
            ("ipv4/ip_forward", "0"),
            ("ipv6/conf/all/forwarding", "0"),
            ("ipv4/conf/lan/src_valid_mark", "1"),
            ("ipv4/conf/lan/rp_filter", "1"),
        ],
    )
    .unwrap();
    let checks = examine(&pair, End::Terminal);
    for key in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
        let (says, remedy) = said(&checks, &format!("forwarding {key}"));
        assert!(says.contains("not forwarded") && remedy.contains(&format!("sysctl -w {key}=1")), "{says} {remedy}");
    }
    let (says, remedy) = said(&checks, "rp_filter lan");
    assert!(says.ends_with("the kernel drops intercepted packets"), "{says}");
    assert_eq!(remedy, "sysctl -w net/ipv4/conf/lan/src_valid_mark=0, and put it into /etc/sysctl.d");
    assert!(checks.values().all(|check| !check.lacks), "the machine has all it takes");
}

/// What is found is what happens, whatever is set for all interfaces and for the one of the clients. A router that runs wg-quick has
/// `src_valid_mark` for all, and one with systemd `rp_filter` for each.
#[test]
fn filters_that_go_by_marks_are_found_where_they_drop_packets() {
    let Some(pair) = Pair::up("") else { return };
    let host = &pair.client().gateway;
    let server = pair.serve(Family::V4, 80, echo_all);
    let connects = || {
        let connect = move || TcpStream::connect_timeout(&server, Duration::from_millis(700)).is_ok();
        pair.client().host.run(connect).unwrap()
    };
    let set = |all: [&'static str; 2], lan: [&'static str; 3]| {
        let values = [
            ("ipv4/conf/all/src_valid_mark", all[0]),
            ("ipv4/conf/all/rp_filter", all[1]),
            ("ipv4/conf/lan/src_valid_mark", lan[0]),
            ("ipv4/conf/lan/rp_filter", lan[1]),
            ("ipv4/conf/lan/accept_local", lan[2]),
        ];
        set_sysctls(host, &values).unwrap();
    };
    for (all, lan, remedy) in [
        (["0", "1"], ["0", "2", "0"], None),
        (["0", "1"], ["1", "0", "0"], Some("src_valid_mark=0,")),
        (["0", "0"], ["1", "0", "0"], Some("src_valid_mark=0,")),
        (["1", "0"], ["0", "0", "0"], Some("accept_local=1,")),
        (["1", "0"], ["0", "2", "0"], Some("accept_local=1,")),
        (["1", "0"], ["0", "2", "1"], None),
        (["1", "1"], ["0", "0", "1"], Some("accept_local=1 net/ipv4/conf/lan/rp_filter=2,")),
        (["1", "1"], ["0", "2", "1"], None),
    ] {
        set(all, lan);
        let checks = examine(&pair, End::Terminal);
        let check = &checks["rp_filter lan"];
        assert_eq!((check.ok, connects()), (remedy.is_none(), remedy.is_none()), "{all:?} {lan:?} {check:?}");
        if let Some(remedy) = remedy {
            let advised = check.remedy.as_deref().unwrap();
            assert!(advised.starts_with(&format!("sysctl -w net/ipv4/conf/lan/{remedy}")), "{advised}");
        }
    }
}

#[test]
fn an_interface_that_is_down_or_absent_is_reported() {
    let Some(mut pair) = Pair::new() else { return };
    pair.start(End::Terminal, "");
    pair.stop(End::Terminal);
    pair.output(End::Terminal, "ip", "link set sat mtu 1300");
    let checks = examine(&pair, End::Terminal);
    let check = &checks["interface sat"];
    assert_eq!((check.ok, &*check.says), (true, "up, MTU 1300, of 1500 allowed"), "the size is found by itself");
    assert_eq!(check.remedy.as_deref(), Some("nothing need be done; [link] mtu = 1300 saves the search"));
    pair.output(End::Terminal, "ip", "link set sat down");
    let checks = examine(&pair, End::Terminal);
    assert_eq!(said(&checks, "interface sat"), ("it is down", "ip link set sat up"));
    assert!(!checks["route other"].ok, "{:?}", checks["route other"]);
    pair.edit(End::Terminal, |text| text.replace("interface = \"sat\"", "interface = \"satellite\""));
    let checks = examine(&pair, End::Terminal);
    let (says, _) = said(&checks, "interface satellite");
    assert!(says.contains("link.interface names it, and this machine has ") && says.contains("lan"), "{says}");
}

#[test]
fn an_interface_that_is_a_port_of_a_bridge_is_reported() {
    let Some(pair) = Pair::up("") else { return };
    pair.output(End::Terminal, "ip", "link add br0 type bridge");
    pair.output(End::Terminal, "ip", "link set lan master br0");
    let checks = examine(&pair, End::Terminal);
    let expected = (
        "it is a port of br0, on which its packets arrive: nothing is intercepted",
        "name br0 in [intercept] interfaces",
    );
    assert_eq!(said(&checks, "interface lan"), expected);
}

#[test]
fn a_route_that_leaves_by_another_interface_is_reported() {
    let Some(mut pair) = Pair::new() else { return };
    pair.start(End::Terminal, "routes = [\"203.0.113.0/24\"]");
    pair.output(End::Terminal, "ip", "route add 203.0.113.0/24 via 198.18.2.2");
    let checks = examine(&pair, End::Terminal);
    let (says, remedy) = said(&checks, "return route other 203.0.113.0/24");
    assert!(says.contains("leave by lan, and [link] interface is sat"), "{says}");
    assert!(remedy.starts_with("ip route replace 203.0.113.0/24 dev sat "), "{remedy}");
    assert!(checks["route other"].ok, "{:?}", checks["route other"]);
    pair.output(End::Terminal, "ip", "route add 203.0.113.1 dev sat");
    let checks = examine(&pair, End::Terminal);
    let (says, _) = said(&checks, "return route other 203.0.113.0/24");
    assert!(says.contains("(203.0.113.254) leave by lan"), "a route to one host is none to the others: {says}");
    pair.output(End::Terminal, "ip", "route replace 203.0.113.0/24 dev sat");
    pair.output(End::Terminal, "ip", "route add 203.0.113.128/25 via 198.18.2.2");
    let checks = examine(&pair, End::Terminal);
    let (_, remedy) = said(&checks, "return route other 203.0.113.0/24");
    let expected =
        "the route to 203.0.113.128/25 takes a part of 203.0.113.0/24 away: ip route del 203.0.113.128/25 dev lan, or ";
    assert!(remedy.starts_with(expected), "{remedy}");
    pair.output(End::Terminal, "ip", "route del 203.0.113.128/25 dev lan");
    pair.output(End::Terminal, "ip", "address add 203.0.113.253/28 dev lan");
    let check = examine(&pair, End::Terminal)["return route other 203.0.113.0/24"].clone();
    assert!(check.ok && check.says == "203.0.113.254 by lan, which is in that network itself", "{check:?}");
    pair.output(End::Terminal, "ip", "address del 203.0.113.253/28 dev lan");
    pair.output(End::Terminal, "ip", "route del 203.0.113.1");
    pair.output(End::Terminal, "ip", "route replace 203.0.113.0/24 dev sat");
    assert!(examine(&pair, End::Terminal)["return route other 203.0.113.0/24"].ok);
    pair.output(End::Terminal, "ip", "route add unreachable 203.0.113.0/25");
    let checks = examine(&pair, End::Terminal);
    assert!(!checks["return route other 203.0.113.0/24"].ok);
}

#[test]
fn a_hub_without_a_route_to_public_ipv6_servers_reads_what_becomes_of_clients() {
    let Some(mut pair) = Pair::new() else { return };
    pair.start(
        End::Hub,
        "routes = [\"198.18.0.0/15\", \"2001:db8:1::/64\"]\nallow_destinations = [\"0.0.0.0/0\", \"::/0\"]",
    );
    let check = |pair: &Pair| examine(pair, End::Hub)["ipv6 servers"].clone();
    let without = check(&pair);
    assert!(without.ok && without.says.contains("no route to public IPv6 servers"), "{without:?}");
    assert!(without.remedy.unwrap().contains("leave the IPv6 prefixes out"));
    pair.output(End::Hub, "ip", "-6 route add default dev lan");
    assert_eq!(check(&pair).remedy, None);
    pair.edit(End::Hub, |text| text.replace(", \"::/0\"]", "]"));
    assert!(!examine(&pair, End::Hub).contains_key("ipv6 servers"), "none is permitted");
}

/// As at most hosts of providers, and behind modems that announce the route: the kernel takes it in, until it forwards.
#[test]
fn a_host_that_forwards_and_has_its_default_route_by_router_advertisements_reads_what_keeps_it() {
    let Some(mut pair) = Pair::new() else { return };
    pair.start(End::Hub, "routes = [\"198.18.0.0/15\"]");
    let set = |key, value| set_sysctls(&pair.site(End::Hub).gateway, &[(key, value)]).unwrap();
    set("ipv6/conf/lan/accept_ra", "1");
    pair.output(End::Hub, "ip", "address add 2001:db8:77::1/64 dev lan valid_lft 3600 preferred_lft 3600");
    let checks = examine(&pair, End::Hub);
    let (says, remedy) = said(&checks, "router advertisements");
    assert!(says.starts_with("this host has no IPv6 default route: interfaces that forward"), "{says}");
    assert!(remedy.starts_with("sysctl -w net/ipv6/conf/lan/accept_ra=2, and put it into /etc/sysctl.d"), "{remedy}");

    set("ipv6/conf/all/forwarding", "0");
    let checks = examine(&pair, End::Hub);
    assert!(!checks.contains_key("router advertisements"), "they are accepted");
    let (_, remedy) = said(&checks, "forwarding net.ipv6.conf.all.forwarding");
    assert!(remedy.starts_with("sysctl -w net/ipv6/conf/lan/accept_ra=2 net.ipv6.conf.all.forwarding=1,"), "{remedy}");

    set("ipv6/conf/all/forwarding", "1");
    set("ipv6/conf/lan/accept_ra", "2");
    assert!(!examine(&pair, End::Hub).contains_key("router advertisements"), "they are accepted while it forwards");
    set("ipv6/conf/lan/accept_ra", "1");
    pair.output(End::Hub, "ip", "-6 route add default dev lan");
    assert!(!examine(&pair, End::Hub).contains_key("router advertisements"), "nothing is missing");

    // The addresses have ended since, as the advertisements have.
    pair.output(End::Hub, "ip", "-6 route del default dev lan");
    pair.output(End::Hub, "ip", "-6 address flush dev lan scope global");
    assert!(!examine(&pair, End::Hub).contains_key("router advertisements"), "it does not lead outwards");
    pair.output(End::Hub, "ip", "route replace default dev lan");
    let check = examine(&pair, End::Hub)["router advertisements"].clone();
    assert!(check.ok && check.says.contains("perhaps it had one by router advertisements on lan,"), "{check:?}");
    let remedy = check.remedy.unwrap();
    assert!(remedy.contains("otherwise sysctl -w net/ipv6/conf/lan/accept_ra=2, and"), "{remedy}");
    pair.output(End::Hub, "ip", "address add 2001:db8:77::1/64 dev lan");
    assert!(!examine(&pair, End::Hub).contains_key("router advertisements"), "it has an address that is set");
}

#[test]
fn a_peer_that_does_not_answer_is_reported_with_the_reason() {
    let Some(mut pair) = Pair::new() else { return };
    pair.start(End::Terminal, "");
    pair.wait_for(|pair| !pair.status(End::Terminal)["peers"][0]["trouble"].is_null());
    let checks = examine(&pair, End::Terminal);
    let (says, remedy) = said(&checks, "peer other");
    assert!(says.starts_with("not up, says the running gateway: "), "{says}");
    assert!(remedy.starts_with("check "), "{remedy}");
    assert!(!checks.contains_key("mtu other"), "nothing is known of its path");
}

#[test]
fn routing_rules_before_the_gateways_are_named() {
    let Some(pair) = Pair::up("") else { return };
    let rule = |rule: &str| drop(pair.output(End::Terminal, "ip", rule));
    // One of priority 500 comes after, and marks that are not the gateway's are of no interest.
    rule("rule add from 198.18.1.0/24 lookup 78 priority 500");
    rule("rule add fwmark 0x4/0xff lookup 78 priority 3");
    assert!(examine(&pair, End::Terminal)["routing rules"].ok);
    rule("rule add from 198.18.1.0/24 lookup 78 priority 5");
    rule("-6 rule add from 2001:db8:1::/64 lookup 78 priority 7");
    let checks = examine(&pair, End::Terminal);
    let (says, remedy) = said(&checks, "routing rules");
    assert!(says.starts_with("those of priority 5, 7 come before the gateway's, 10,"), "{says}");
    assert!(remedy.starts_with("set [intercept] rule_priority = 4,"), "{remedy}");
}

#[test]
fn routing_rules_of_the_same_priority_that_are_older_and_those_for_the_gateways_marks_are_reported() {
    let Some(mut pair) = Pair::new() else { return };
    pair.output(End::Terminal, "ip", "rule add from 198.18.2.0/24 lookup main priority 10");
    pair.start(End::Terminal, "");
    let checks = examine(&pair, End::Terminal);
    let (says, remedy) = said(&checks, "routing rules");
    assert!(says.starts_with("those of priority 10 come before the gateway's, 10"), "{says}");
    assert!(remedy.contains("rule_priority = 9"), "{remedy}");
    pair.output(End::Terminal, "ip", "rule del priority 10 from 198.18.2.0/24 lookup main");
    pair.output(End::Terminal, "ip", "rule add from 198.18.2.0/24 lookup main priority 10");
    assert!(examine(&pair, End::Terminal)["routing rules"].ok, "one that is younger comes behind");
    pair.output(End::Terminal, "ip", "rule add fwmark 0x1/0x1 lookup 98 priority 100");
    let checks = examine(&pair, End::Terminal);
    let (says, remedy) = said(&checks, "routing rules");
    assert!(says.starts_with("those of priority 100 are for marked packets"), "{says}");
    assert!(remedy.contains("[intercept] mark"), "{remedy}");
}
