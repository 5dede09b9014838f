//! Anonymous namespaces on the machine that runs the tests. Where it may not create any, the tests say so and pass.
#![allow(clippy::disallowed_methods, reason = "starts threads and waits on the real clock")]

use kernel::network::{IpBatch, set_sysctls};
use kernel::nfqueue::{Queue, Verdict};
use kernel::testing::namespace;
use kernel::{nftables, process, route, tcp};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};

#[test]
fn a_new_namespace_holds_nothing_but_loopback_and_leaves_the_caller_where_it_was() {
    let interfaces = || std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let before = interfaces();
    let Some(namespace) = namespace() else { return };
    let inside = namespace.run(interfaces).unwrap();
    let names: Vec<_> = inside.lines().skip(2).filter_map(|line| line.split_once(':')).map(|(n, _)| n.trim()).collect();
    assert_eq!(names, ["lo"]);
    assert_eq!(interfaces().lines().count(), before.lines().count());
}

#[test]
fn tcp_crosses_a_veth_pair_between_two_namespaces() {
    let (Some(left), Some(right)) = (namespace(), namespace()) else { return };
    IpBatch::new(&left)
        .add_veth("left", &right, "right")
        .add("addr add 198.18.0.1/24 dev left")
        .add("link set left up")
        .run()
        .unwrap();
    IpBatch::new(&right).add("addr add 198.18.0.2/24 dev right").add("link set right up").run().unwrap();
    set_sysctls(&left, &[("ipv4/tcp_no_metrics_save", "1")]).unwrap();

    let listener = right.run(|| TcpListener::bind("198.18.0.2:7")).unwrap().unwrap();
    let server = right.spawn("server", move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut word = [0; 4];
        stream.read_exact(&mut word).unwrap();
        stream.write_all(&word).unwrap();
    });
    let echoed = left.run(|| {
        let mut stream = TcpStream::connect("198.18.0.2:7").unwrap();
        stream.write_all(b"ping").unwrap();
        let mut word = [0; 4];
        stream.read_exact(&mut word).unwrap();
        assert!(tcp::tcp_info(&stream).unwrap().cwnd > 0);
        word
    });
    assert_eq!(&echoed.unwrap(), b"ping");
    server.unwrap().join().unwrap();
}

#[test]
fn a_command_that_fails_is_named_with_what_ip_says() {
    let Some(namespace) = namespace() else { return };
    let error =
        IpBatch::new(&namespace).add("link set lo up").add("link set nowhere up").run().unwrap_err().to_string();
    assert!(error.contains("ip link set nowhere up"), "{error}");
    assert!(error.contains("Cannot find device"), "{error}");
}

#[test]
fn a_sysctl_that_does_not_exist_is_named() {
    let Some(namespace) = namespace() else { return };
    let error = set_sysctls(&namespace, &[("ipv4/no_such_setting", "1")]).unwrap_err().to_string();
    assert!(error.contains("ipv4/no_such_setting"), "{error}");
}

#[test]
fn a_child_runs_inside_and_dies_with_the_thread_that_started_it() {
    let Some(namespace) = namespace() else { return };
    let mut child = std::thread::spawn(move || {
        let mut child =
            namespace.command("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat is everywhere");
        assert!(process::resident_memory(child.id()).unwrap() > 0);
        process::cpu_time(child.id()).unwrap();
        assert!(child.try_wait().unwrap().is_none(), "cat waits for its input");
        child
    })
    .join()
    .unwrap();
    // Its input is still open: only the signal can end it.
    let status = child.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
}

/// Has this namespace hold what is sent to UDP port 9 in queue 7, with nftables' own `queue` or iptables' NFQUEUE; `false`, said on
/// stderr, if there is neither.
fn holds_packets() -> bool {
    let rules = "table ip hold {\n chain out {\n type filter hook output priority 0\n udp dport 9 queue to 7\n }\n}\n";
    let mut iptables = Command::new("iptables");
    iptables.args("-w -t mangle -A OUTPUT -p udp --dport 9 -j NFQUEUE --queue-num 7".split(' '));
    let holds = nftables::run_script(rules).is_ok() || iptables.status().is_ok_and(|status| status.success());
    if !holds {
        eprintln!("skipped: neither nftables nor iptables can hold packets here");
    }
    holds
}

#[test]
fn a_burst_of_held_packets_waits_for_its_reader_as_a_whole() {
    const PACKETS: usize = 1000;
    let Some(namespace) = namespace() else { return };
    IpBatch::new(&namespace).add("link set lo up").run().unwrap();
    namespace
        .run(|| {
            if !holds_packets() {
                return;
            }
            let mut queue = Queue::open(7).unwrap();
            let packets = PACKETS.min(queue.room());
            for _ in 0..packets {
                // A held packet keeps its place in its sender's buffer, which is too small for all.
                let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
                assert_eq!(sender.send_to(b"held", "127.0.0.1:9").unwrap(), 4);
            }
            for number in 0..packets {
                let packet = queue.receive().unwrap().unwrap_or_else(|| panic!("{number} of {packets} packets"));
                queue.decide(&packet, Verdict::Drop).unwrap();
            }
        })
        .unwrap();
}

/// The host's own addresses are delivered whatever the mark. Those of the networks for documentation are the ones that examples have.
#[test]
fn an_address_of_the_host_does_not_pass_for_the_routing_rule() {
    const MARK: u32 = 0x6270_0001;
    let Some(namespace) = namespace() else { return };
    let own = ["192.0.2.1/24", "198.51.100.1/32", "203.0.113.251/32", "2001:db8::1/64", "2001:db8:ffff:ffff::251/64"];
    let mut addresses = IpBatch::new(&namespace);
    for address in own {
        addresses.add(format!("address add {address} dev lo"));
    }
    addresses.add("link set lo up").run().unwrap();
    let delivered =
        || [false, true].map(|ipv6| namespace.run(|| route::is_delivered_here(MARK, ipv6)).unwrap().unwrap());
    assert_eq!(delivered(), [false, false]);
    for (family, expected) in [("-4", [true, false]), ("-6", [true, true])] {
        for command in
            ["rule add fwmark 0x62700001 lookup 25200 priority 10", "route add local default dev lo table 25200"]
        {
            let status = namespace.command("ip").arg(family).args(command.split(' ')).status().unwrap();
            assert!(status.success(), "ip {family} {command}");
        }
        assert_eq!(delivered(), expected);
    }
}

/// A router may refuse packets to networks that lead nowhere, which the kernel reports by other errors than a missing route.
#[test]
fn a_missing_routing_rule_is_found_where_packets_to_nowhere_are_refused() {
    for kind in ["blackhole", "prohibit", "unreachable", "throw"] {
        let Some(namespace) = namespace() else { return };
        for family in ["-4", "-6"] {
            let status = namespace.command("ip").args([family, "route", "add", kind, "default"]).status().unwrap();
            assert!(status.success(), "ip {family} route add {kind} default");
        }
        for ipv6 in [false, true] {
            let delivered = namespace.run(|| route::is_delivered_here(1, ipv6)).unwrap();
            assert!(matches!(delivered, Ok(false)), "{kind}, IPv6 {ipv6}: {delivered:?}");
        }
    }
}
