//! Settings of a host in a namespace of its own, applied and undone: each undo leaves exactly what was there, and what others have
//! changed in between stays theirs.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: waits for the kernel")]

use host::{Change, Error, Journal, Plan, Present, Target, Undone};
use kernel::network::IpBatch;
use kernel::{Namespace, sysctl};
use model::tuning::{Place, Setting};
use socket2::{Domain, Protocol, Socket, Type};
use std::net::{Ipv6Addr, SocketAddrV6};
use std::path::PathBuf;

/// Routes in forms that `ip` prints and does not take back, or that differ in how they name a next hop.
const ROUTES: [&str; 7] = [
    "route add default via 198.18.0.2 metric 7 congctl cubic",
    "route add default via 198.18.0.2 rto_min 400ms initcwnd 12",
    "route add default via 198.18.0.2 dev eth0 onlink src 198.18.0.1 mtu 1400 proto dhcp metric 100",
    "route add default nexthop via 198.18.0.2 weight 3 nexthop via 198.18.0.3 onlink dev eth0",
    "route add default via 198.18.0.2 tos 0x10 metric 9",
    "route add default dev eth0 scope link features ecn",
    "route add default nhid 9",
];

struct Host {
    namespace: Namespace,
    folder: tempfile::TempDir,
}

impl Host {
    fn new(route: &str) -> Option<Self> {
        let host = Self { namespace: kernel::testing::namespace()?, folder: tempfile::tempdir().unwrap() };
        IpBatch::new(&host.namespace)
            .add_veth("eth0", &host.namespace, "eth1")
            .add("link set eth0 up")
            .add("link set eth1 up")
            .add("address add 198.18.0.1/24 dev eth0")
            .add("nexthop add id 9 via 198.18.0.2 dev eth0")
            .add(route)
            .run()
            .unwrap();
        Some(host)
    }

    fn ip(&self, command: &str) {
        IpBatch::new(&self.namespace).add(command).run().unwrap();
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("journal.json")
    }

    /// What `ip` prints with these arguments.
    fn shown(&self, arguments: &str) -> String {
        let output = self.namespace.command("ip").args(arguments.split(' ')).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Everything that could have been changed, as `ip` and the kernel print it.
    fn settings(&self) -> Vec<String> {
        let routes = self.shown("-4 -oneline route show");
        let sysctls = SYSCTLS.map(|(key, _)| self.namespace.run(|| sysctl::read(key)).unwrap().unwrap());
        sysctls.into_iter().chain([routes]).collect()
    }

    fn plan(&self, to: Target) -> Vec<Change> {
        let wanted = || {
            let settings: Vec<_> = ROUTE
                .iter()
                .map(|(key, value)| (Place::Route(key), value))
                .chain(SYSCTLS.iter().map(|(key, value)| (Place::Sysctl(key), value)))
                .map(|(place, value)| Setting { place, value: (*value).to_owned(), default: None, why: String::new() })
                .collect();
            Plan::new(&settings, &Present::read(to).unwrap(), false).unwrap().changes
        };
        self.namespace.run(wanted).unwrap()
    }

    fn apply(&self, to: Target) {
        let changes = self.plan(to);
        self.namespace.run(|| Journal::apply(changes, &self.file())).unwrap().unwrap();
    }

    fn undo(&self, force: bool) -> Result<Undone, Error> {
        self.namespace.run(|| Journal::undo(&self.file(), force)).unwrap()
    }

    /// What an undo that succeeds has left.
    fn left_by_undo(&self, force: bool) -> Vec<String> {
        self.undo(force).unwrap().left.into_iter().map(|left| format!("{}; {}", left.change, left.now)).collect()
    }
}

const DEFAULT: Target = Target::Default { is_ipv6: false };
const ROUTE: [(&str, &str); 3] = [("initcwnd", "40"), ("initrwnd", "80"), ("congctl", "reno")];
const SYSCTLS: [(&str, &str); 2] =
    [("net.ipv4.tcp_wmem", "4096 16384 9000000"), ("net.ipv4.tcp_slow_start_after_idle", "0")];

#[test]
fn a_route_of_any_form_is_tuned_and_put_back_as_it_was() {
    for route in ROUTES {
        let Some(host) = Host::new(route) else { return };
        let before = host.settings();
        host.apply(DEFAULT);
        let tuned = host.settings();
        for word in ["initcwnd", "40", "initrwnd 80", "congctl reno"] {
            assert!(tuned[2].contains(word), "{route}: {tuned:?}");
        }
        assert_eq!(tuned[0], "4096 16384 9000000");
        assert_eq!(host.left_by_undo(false), [""; 0], "{route}");
        assert_eq!(host.settings(), before, "{route}");
        assert!(!host.file().exists());
    }
}

#[test]
fn an_ipv6_route_with_a_lifetime_and_a_route_of_several_hops_are_put_back() {
    for route in [
        "route add default via 2001:db8::2 metric 100 expires 1800 pref high",
        "route add default nexthop via 2001:db8::2 nexthop via 2001:db8::3",
    ] {
        let Some(host) = Host::new("address add 2001:db8::1/64 dev eth0 nodad") else { return };
        host.ip(route);
        let routes = || {
            // Of a lifetime seconds may have passed.
            host.shown("-6 -oneline route show default")
                .split_whitespace()
                .filter(|word| !word.ends_with("sec"))
                .collect::<Vec<_>>()
                .join(" ")
        };
        let before = routes();
        host.apply(Target::Default { is_ipv6: true });
        assert!(routes().contains("initcwnd 40"), "{}", routes());
        assert_eq!(routes().contains("expires"), route.contains("expires"));
        assert_eq!(host.left_by_undo(false), [""; 0], "{route}");
        assert_eq!(routes(), before);
    }
}

#[test]
fn an_apply_that_is_killed_between_any_two_steps_is_undone() {
    let Some(host) = Host::new(ROUTES[0]) else { return };
    let before = host.settings();
    let changes = host.plan(DEFAULT);
    assert_eq!(changes.len(), 3);
    for made in 0..=changes.len() {
        host.apply(DEFAULT);
        // What a kill leaves: the whole journal, and the last changes not made.
        let unmade = changes.iter().skip(made).rev();
        for change in unmade {
            host.namespace.run(|| change.undo(true)).unwrap().unwrap();
        }
        assert_eq!(host.left_by_undo(false), [""; 0], "{made} made");
        assert_eq!(host.settings(), before, "{made} made");
    }
}

#[test]
fn a_default_route_that_moved_keeps_its_gateway_and_loses_what_was_ours() {
    let Some(host) = Host::new(ROUTES[0]) else { return };
    let tuned = "default via 198.18.0.2 dev eth0 metric 7 initcwnd 40 initrwnd 80 congctl reno";
    // A client of DHCP that keeps the settings of a route, one that does not, and one that has settings of its own.
    for (moved, expected) in [
        (
            "via 198.18.0.9 metric 7 initcwnd 40 initrwnd 80 congctl reno",
            "via 198.18.0.9 dev eth0 metric 7 congctl cubic",
        ),
        ("via 198.18.0.9 metric 7", "via 198.18.0.9 dev eth0 metric 7"),
        ("via 198.18.0.9 metric 7 initcwnd 20", "via 198.18.0.9 dev eth0 metric 7 initcwnd 20"),
    ] {
        host.ip("route replace default via 198.18.0.2 metric 7 congctl cubic");
        host.apply(DEFAULT);
        host.ip(&format!("route replace default {moved}"));
        let left = host.left_by_undo(false);
        assert!(left.len() == 1 && left[0].contains(expected), "{left:?}");
        let routes = host.settings()[2].clone();
        assert!(routes.contains(&format!("default {expected} \n")), "{moved}: {routes}");
        assert!(matches!(host.undo(false), Err(Error::OnlyLeft(_))));
        assert_eq!(host.left_by_undo(true), [""; 0]);
        assert!(host.settings()[2].contains("default via 198.18.0.2 dev eth0 metric 7 congctl cubic"), "{tuned}");
        assert!(!host.file().exists());
    }
}

#[test]
fn a_route_that_was_deleted_is_not_made_again_and_what_was_left_does_not_keep_from_applying() {
    let Some(host) = Host::new(ROUTES[0]) else { return };
    host.apply(DEFAULT);
    host.ip("route delete default");
    let left = host.left_by_undo(false);
    assert!(left.len() == 1 && left[0].ends_with("it has been deleted"), "{left:?}");
    assert!(!host.settings()[2].contains("default"));
    host.ip("route add default via 198.18.0.3");
    host.apply(DEFAULT);
    assert!(matches!(
        host.namespace.run(|| Journal::apply(Vec::new(), &host.file())).unwrap(),
        Err(Error::AlreadyApplied(_))
    ));
    assert_eq!(host.left_by_undo(false), [""; 0]);
    assert!(host.settings()[2].contains("default via 198.18.0.3 dev eth0 \n"));
}

#[test]
fn a_sysctl_that_others_have_set_since_stays() {
    let Some(host) = Host::new(ROUTES[0]) else { return };
    let before = host.settings();
    host.apply(DEFAULT);
    let theirs = "4096 16384 7000000";
    host.namespace.run(|| sysctl::write("net.ipv4.tcp_wmem", theirs)).unwrap().unwrap();
    let left = host.left_by_undo(false);
    assert!(left.len() == 1 && left[0].contains(theirs), "{left:?}");
    assert_eq!(host.settings()[0], theirs);
    assert_eq!(host.settings()[1..], before[1..]);
    assert_eq!(host.left_by_undo(true), [""; 0]);
    assert_eq!(host.settings(), before);
}

#[test]
fn a_route_whose_interface_is_gone_or_made_again_counts_as_undone() {
    for is_made_again in [false, true] {
        let Some(host) = Host::new(ROUTES[0]) else { return };
        let before = host.settings();
        host.apply(DEFAULT);
        host.ip("link delete eth0");
        if is_made_again {
            IpBatch::new(&host.namespace)
                .add_veth("eth0", &host.namespace, "eth1")
                .add("link set eth0 up")
                .run()
                .unwrap();
        }
        assert_eq!(host.left_by_undo(false), [""; 0]);
        assert_eq!(host.settings()[..2], before[..2]);
        assert!(!host.file().exists());
    }
}

#[test]
fn a_network_gets_a_route_of_its_own_by_the_same_next_hop_until_it_is_undone() {
    // Packets without a type of service do not take a route that has one.
    for route in ROUTES.into_iter().filter(|route| !route.contains("tos")) {
        let Some(host) = Host::new(route) else { return };
        let before = host.settings();
        host.apply(Target::Network("198.19.4.5/24".parse().unwrap()));
        let routes = host.settings()[2].clone();
        assert!(routes.contains("198.19.4.0/24 ") && routes.contains("initcwnd"), "{route}: {routes}");
        assert_eq!(host.left_by_undo(false), [""; 0]);
        assert_eq!(host.settings(), before, "{route}");
    }
}

/// The host's own network is a part of each of these, and their lowest address is of it or of no network.
#[test]
fn a_network_is_reached_as_before_where_a_part_of_it_has_a_route_of_its_own() {
    let Some(host) = Host::new("route add default via 198.18.0.2") else { return };
    let before = host.settings();
    for (network, address) in
        [("198.18.0.0/15", "198.19.4.5"), ("198.18.0.0/23", "198.18.1.1"), ("0.0.0.0/1", "9.9.9.9")]
    {
        let way = || host.shown(&format!("route get {address}"));
        let way_before = way();
        host.apply(Target::Network(network.parse().unwrap()));
        let (way_before, way) = (way_before.split_once(" uid").unwrap().0, way());
        assert!(way.starts_with(way_before) && way.contains("initcwnd 40"), "{network}: {way_before}, then {way}");
        assert_eq!(host.left_by_undo(false), [""; 0], "{network}");
        assert_eq!(host.settings(), before, "{network}");
    }
}

#[test]
fn a_network_of_which_only_a_part_is_reached_is_not_tuned() {
    let Some(host) = Host::new("route add 198.18.1.0/24 via 198.18.0.2") else { return };
    let wider = Target::Network("198.18.0.0/16".parse().unwrap());
    let found = host.namespace.run(|| Present::read(wider)).unwrap();
    assert!(matches!(found, Err(Error::NoRoute(_))), "{found:?}");
}

/// Routes that refuse packets, each of which the kernel reports by an error of its own.
const REFUSING: [&str; 4] = ["blackhole", "prohibit", "unreachable", "throw"];

#[test]
fn a_network_is_tuned_where_packets_to_its_lowest_part_are_refused() {
    for kind in REFUSING {
        let Some(host) = Host::new("route add default via 198.18.0.2") else { return };
        host.ip(&format!("route add {kind} 10.0.0.0/24"));
        let before = host.settings();
        host.apply(Target::Network("10.0.0.0/8".parse().unwrap()));
        let way = host.shown("route get 10.0.1.1");
        assert!(way.contains("via 198.18.0.2 dev eth0") && way.contains("initcwnd 40"), "{kind}: {way}");
        assert_eq!(host.left_by_undo(false), [""; 0], "{kind}");
        assert_eq!(host.settings(), before, "{kind}");
    }
}

#[test]
fn a_network_to_which_packets_are_refused_is_a_dead_end() {
    for kind in REFUSING {
        let Some(host) = Host::new("route add default via 198.18.0.2") else { return };
        host.ip(&format!("route add {kind} 10.0.0.0/8"));
        let refused = Target::Network("10.0.0.0/8".parse().unwrap());
        let found = host.namespace.run(|| Present::read(refused)).unwrap();
        assert!(matches!(found, Err(Error::DeadEnd { .. })), "{kind}: {found:?}");
    }
}

#[test]
fn a_network_whose_parts_take_different_tables_is_not_tuned() {
    for part in ["198.19.0.0/24", "198.19.128.0/24", "198.19.255.0/24"] {
        let Some(host) = Host::new("route add default via 198.18.0.2") else { return };
        host.ip("route add default via 198.18.0.9 dev eth0 table 100");
        host.ip(&format!("rule add to {part} lookup 100"));
        let found = host.namespace.run(|| Present::read(Target::Network("198.19.0.0/16".parse().unwrap()))).unwrap();
        assert!(matches!(found, Err(Error::NoRoute(_))), "{part}: {found:?}");
    }
}

/// A network that routing rules send by another table than the main one.
#[test]
fn a_network_is_tuned_in_the_table_that_its_packets_take() {
    for route in ["198.19.0.0/16 via 198.18.0.9", "default via 198.18.0.9"] {
        let Some(host) = Host::new("route add default via 198.18.0.2") else { return };
        host.ip(&format!("route add {route} dev eth0 table 100"));
        host.ip("rule add to 198.19.0.0/16 lookup 100");
        let table = || host.shown("route show table 100");
        let before = (host.settings(), table());
        host.apply(Target::Network("198.19.0.0/16".parse().unwrap()));
        let way = host.shown("route get 198.19.4.5");
        assert!(way.contains("via 198.18.0.9 dev eth0") && way.contains("initcwnd 40"), "{way}");
        let recorded = std::fs::read_to_string(host.file()).unwrap();
        assert!(recorded.contains("198.19.0.0/16 via 198.18.0.9 dev eth0 table 100 "), "{recorded}");
        assert_eq!(host.left_by_undo(false), [""; 0]);
        assert_eq!((host.settings(), table()), before, "{route}");
    }
}

/// The lifetime of a route that advertisements renew is not that of its copy, which they do not.
#[test]
fn a_route_of_its_own_is_kept_until_it_is_undone() {
    let Some(host) = Host::new("address add 2001:db8::1/64 dev eth0 nodad") else { return };
    host.ip("route add default via 2001:db8::2 metric 100 expires 1800 proto ra");
    let routes = || host.shown("-6 -oneline route show 2001:db8:5::/48");
    host.apply(Target::Network("2001:db8:5::/48".parse().unwrap()));
    assert!(routes().contains("initcwnd 40") && routes().contains("proto static"), "{}", routes());
    assert!(!routes().contains("expires"), "{}", routes());
    assert_eq!(host.left_by_undo(false), [""; 0]);
    assert_eq!(routes(), "");
}

/// A host that has its address and its default route by router advertisements, and the router.
struct Advertised {
    host: Host,
    router: Namespace,
}

impl Advertised {
    fn new() -> Option<Self> {
        let (host, router) = (Host::new("link set lo up")?, kernel::testing::namespace()?);
        let set = |key: &str, value: &str| host.namespace.run(|| sysctl::write(key, value)).unwrap().unwrap();
        IpBatch::new(&host.namespace).add_veth("lan", &router, "lan").run().unwrap();
        set("net.ipv6.conf.lan.accept_ra", "1");
        set("net.ipv6.conf.lan.accept_dad", "0");
        IpBatch::new(&router)
            .add("link set lan addrgenmode none up")
            .add("address add fe80::1/64 dev lan nodad")
            .run()
            .unwrap();
        host.ip("link set lan up");
        Some(Self { host, router })
    }

    /// Sends advertisements by which addresses are valid for so many seconds, until `is_taken_in`.
    fn advertise(&self, valid: u32, is_taken_in: impl Fn() -> bool) -> bool {
        const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
        let prefix = Ipv6Addr::new(0x2001, 0xdb8, 0x77, 0, 0, 0, 0, 0);
        // RFC 4861, sections 4.2 and 4.6.2: a router for 1800 s, and a prefix for hosts to make themselves addresses of.
        let router = [134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0, 3, 4, 64, 0xc0];
        let valid = valid.to_be_bytes();
        let message = [&router[..], &valid, &valid, &[0; 4], &prefix.octets()].concat();
        let send = || {
            let socket = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6)).unwrap();
            socket.set_multicast_hops_v6(255).unwrap();
            socket.bind_device(Some(b"lan")).unwrap();
            socket.send_to(&message, &SocketAddrV6::new(ALL_NODES, 0, 0, 0).into()).unwrap();
        };
        (0..50).any(|_| {
            self.router.run(send).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(100));
            is_taken_in()
        })
    }

    fn addresses(&self) -> String {
        self.host.shown("-6 -oneline address show dev lan scope global")
    }

    /// Whether the host's address has between so many and ten seconds less to live.
    fn is_valid_for(&self, seconds: u32) -> bool {
        (seconds - 10..=seconds).any(|left| self.addresses().contains(&format!("valid_lft {left}sec")))
    }
}

/// The kernel does not take in what comes after the router of an advertisement if it cannot renew that router's route.
#[test]
fn advertisements_go_on_renewing_the_addresses_of_a_tuned_host() {
    let Some(advertised) = Advertised::new() else { return };
    assert!(advertised.advertise(300, || advertised.is_valid_for(300)), "{}", advertised.addresses());
    let plan = |to: Target| {
        let settings =
            [Setting { place: Place::Route("initcwnd"), value: "40".into(), default: None, why: String::new() }];
        advertised.host.namespace.run(|| Plan::new(&settings, &Present::read(to).unwrap(), false)).unwrap()
    };
    // The default route, and the one to the prefix.
    for to in [Target::Default { is_ipv6: true }, Target::Network("2001:db8:77::/64".parse().unwrap())] {
        let error = plan(to).unwrap_err();
        assert!(matches!(error, Error::Advertised(_)), "{error}");
    }
    advertised.host.apply(Target::Network("2000::/3".parse().unwrap()));
    assert!(advertised.host.shown("-6 route show 2000::/3").contains("initcwnd 40"));
    assert!(advertised.advertise(2000, || advertised.is_valid_for(2000)), "{}", advertised.addresses());
    assert_eq!(advertised.host.left_by_undo(false), [""; 0]);
}

#[test]
fn what_tune_records_is_read_by_a_person() {
    let Some(host) = Host::new(ROUTES[1]) else { return };
    host.apply(DEFAULT);
    let text = std::fs::read_to_string(host.file()).unwrap();
    assert!(text.contains("default via 198.18.0.2 dev eth0 initcwnd 12 rto_min lock 400ms"), "{text}");
    // A message that is damaged is named with the route.
    std::fs::write(host.file(), text.replace("\"message\": \"", "\"message\": \"AAAA")).unwrap();
    let error = host.undo(false).unwrap_err().to_string();
    assert!(error.contains("is not a message about a route"), "{error}");
}

#[test]
fn of_default_routes_that_of_all_packets_is_tuned() {
    let Some(host) = Host::new("route add default via 198.18.0.2 tos 0x10") else { return };
    host.ip("route add default via 198.18.0.3");
    host.apply(DEFAULT);
    let routes = host.shown("-4 -oneline -N route show default");
    let tuned: Vec<_> = routes.lines().filter(|route| route.contains("initcwnd 40")).collect();
    assert!(matches!(tuned[..], [route] if route.contains("via 198.18.0.3")), "{routes}");
}

#[test]
fn a_route_is_shown_in_the_words_of_ip() {
    let route = "default via 198.18.0.2 dev eth0 metric 9 rtt 100ms rttvar 40ms features ecn";
    let words = "route add default tos 0x10 via 198.18.0.2 metric 9 rtt 100ms rttvar 40ms features ecn";
    let Some(host) = Host::new(words) else { return };
    let found = host.namespace.run(|| Present::read(DEFAULT)).unwrap().unwrap().found.route;
    assert_eq!(found.to_string(), route.replace("default", "default tos 0x10"));
}

#[test]
fn the_queue_discipline_of_an_interface_that_is_renamed_is_put_back() {
    let Some(host) = Host::new(ROUTES[0]) else { return };
    let root = |device: &str| host.namespace.run(|| kernel::qdisc::root(device)).unwrap().unwrap();
    let fifo = Setting { place: Place::RootQdisc, value: "pfifo".into(), default: None, why: String::new() };
    let plan = || Plan::new(std::slice::from_ref(&fifo), &Present::read(DEFAULT).unwrap(), false).unwrap().changes;
    let changes = host.namespace.run(plan).unwrap();
    host.namespace.run(|| Journal::apply(changes, &host.file())).unwrap().unwrap();
    assert_eq!(root("eth0").kind, "pfifo");
    for rename in ["eth0 name sat0", "eth1 name eth0"] {
        host.ip(&format!("link set {} down", rename.split(' ').next().unwrap()));
        host.ip(&format!("link set {rename}"));
    }
    assert!(host.namespace.run(|| kernel::qdisc::set_root("eth0", "pfifo")).unwrap().unwrap());
    let undone = host.undo(false).unwrap();
    assert!(undone.left.is_empty(), "{:?}", undone.left);
    assert_eq!(undone.undone, ["the qdisc of sat0 is the kernel's own again (was pfifo)"]);
    assert!(root("sat0").is_default, "{:?}", root("sat0"));
    assert_eq!(root("eth0").kind, "pfifo", "another's stays");
}

/// As the kernel has it: 0 is no limit.
#[test]
fn an_initial_receive_window_of_none_is_no_limit() {
    for (route, expected) in [("initrwnd 0", None), ("initrwnd 12", Some(12))] {
        let Some(host) = Host::new(&format!("route add default via 198.18.0.2 {route}")) else { return };
        let present = host.namespace.run(|| Present::read(DEFAULT)).unwrap().unwrap();
        assert_eq!(present.host.initial_receive_window, expected, "{route}");
    }
}
