//! Packets between gateways are marked as those of the clients, or all alike.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real sockets, threads and waiting")]

use crate::pair::{CLEAR, End, Family, Pair, echo_all, echoes, pattern};
use std::io::{Read, Write};

const EF: u32 = 46;

/// Counts what the gateway at `end` sends to port 4500 or from it, and of that what is marked `ef`, and what can be marked for
/// congestion.
fn count_sent(pair: &Pair, end: End) {
    let counts = |name: &str, what: &str| {
        format!(
            "add rule inet seen out oifname sat meta l4proto {{ udp, tcp }} th dport 4500 {what} counter comment \"{name}\";\
                 add rule inet seen out oifname sat meta l4proto {{ udp, tcp }} th sport 4500 {what} counter comment \"{name}\";"
        )
    };
    let both = |name: &str, what: &str| counts(name, &format!("ip {what}")) + &counts(name, &format!("ip6 {what}"));
    let rules = both("marked", "dscp 46") + &both("capable", "ecn ect0") + &counts("all", "");
    pair.nft(
        end,
        &format!("add table inet seen; add chain inet seen out {{ type filter hook output priority 0; }}; {rules}"),
    );
}

/// How many packets were counted by each of these names, all at one time.
fn sent<const N: usize>(pair: &Pair, end: End, names: [&str; N]) -> [u64; N] {
    let list = pair.site(end).gateway.command("nft").args(["list", "chain", "inet", "seen", "out"]).output().unwrap();
    let text = String::from_utf8(list.stdout).unwrap();
    let count = |line: &str| line.split("packets ").nth(1)?.split(' ').next()?.parse::<u64>().ok();
    names.map(|name| {
        let lines = text.lines().filter(|line| line.contains(&format!("\"{name}\"")));
        lines.map(|line| count(line).unwrap()).sum()
    })
}

/// A megabyte there and back, from a client that marks its packets so.
fn exchange(pair: &Pair, family: Family, port: u16, dscp: u32) {
    let server = pair.serve(family, port, echo_all);
    let mut client = pair.connect_marked(server, dscp << 2);
    let (word, mut answer) = (pattern(1, 1_000_000), Vec::new());
    std::thread::scope(|scope| {
        let mut writer = client.try_clone().unwrap();
        scope.spawn(move || {
            writer.write_all(&pattern(1, 1_000_000)).unwrap();
            writer.shutdown(std::net::Shutdown::Write).unwrap();
        });
        client.read_to_end(&mut answer).unwrap();
    });
    assert!(answer == word);
}

#[test]
fn datagrams_are_marked_as_the_clients_packets_in_both_directions_and_can_still_be_marked_for_congestion() {
    for outside in [Family::V4, Family::V6] {
        let Some(mut pair) = Pair::new() else { return };
        pair.outside = outside;
        let pair = pair.start_both("");
        for end in [End::Hub, End::Terminal] {
            count_sent(&pair, end);
        }
        exchange(&pair, Family::V4, 7, 0);
        for end in [End::Hub, End::Terminal] {
            assert_eq!(sent(&pair, end, ["marked"]), [0], "{outside:?}");
        }
        exchange(&pair, Family::V6, 8, EF);
        for end in [End::Hub, End::Terminal] {
            // One of them counts as a batch of datagrams, which the system cuts later.
            let [marked, capable, all] = sent(&pair, end, ["marked", "capable", "all"]);
            assert!(marked > 20, "{outside:?} {marked} of {all}");
            assert_eq!(capable, all, "{outside:?}");
        }
    }
}

#[test]
fn one_code_point_for_all_is_that_of_every_packet() {
    for transport in ["", CLEAR] {
        let pair = if transport.is_empty() { Pair::new() } else { Pair::with_tcp_transport(transport) };
        let Some(mut pair) = pair else { return };
        (pair.hub_link, pair.terminal_link) = ("dscp = \"ef\"", "dscp = 46");
        // Before the other is there, the kernel answers for it, unmarked.
        let pair = pair.start_both("");
        for end in [End::Hub, End::Terminal] {
            count_sent(&pair, end);
        }
        exchange(&pair, Family::V4, 7, 10);
        for end in [End::Hub, End::Terminal] {
            let [marked, all] = sent(&pair, end, ["marked", "all"]);
            assert!(marked > 20 && marked == all, "{transport}: {marked} of {all}");
        }
    }
}

#[test]
fn a_client_with_a_marking_beside_others_is_served_alike() {
    let Some(pair) = Pair::up("") else { return };
    count_sent(&pair, End::Terminal);
    let server = pair.serve(Family::V4, 7, echo_all);
    let mut marked = pair.connect_marked(server, EF << 2);
    let mut plain = pair.connect(server);
    for _ in 0..50 {
        echoes(&mut plain, &pattern(2, 20_000));
        echoes(&mut marked, b"word");
    }
    let [marked, all] = sent(&pair, End::Terminal, ["marked", "all"]);
    assert!(marked >= 50 && all - marked >= 50, "{marked} of {all}");
}
