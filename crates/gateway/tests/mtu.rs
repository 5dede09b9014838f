//! A path that carries smaller packets than it did, and does not say so.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real sockets, threads and waiting")]

use crate::pair::{CLEAR, End, Family, Pair, TLS, echo_all, echoes, pattern};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// What leaves a gateway is what a link would carry: packets, not bunches of them.
fn no_bunches(pair: &Pair) {
    for end in [End::Hub, End::Terminal] {
        let gateway = &pair.site(end).gateway;
        let status = gateway.command("ip").args(["link", "set", "sat", "gso_max_segs", "1"]).status().unwrap();
        assert!(status.success());
        let hook = "type filter hook prerouting priority -300";
        pair.nft(end, &format!("add table inet path {{ chain in {{ {hook}; }}; }}"));
    }
}

/// The path drops what is larger than `most` bytes.
fn narrow(pair: &Pair, most: u16) {
    for end in [End::Hub, End::Terminal] {
        let rule = format!("flush chain inet path in; add rule inet path in iifname sat meta length > {most} drop");
        pair.nft(end, &rule);
    }
}

fn server(pair: &Pair) -> SocketAddr {
    pair.serve(Family::V4, 7, echo_all)
}

#[test]
fn connections_of_the_transport_go_on_when_the_path_shrinks_and_shrinks_again() {
    for (outside, sizes) in [(Family::V4, [1400, 900, 576]), (Family::V6, [1400, 1300, 1280])] {
        let Some(mut pair) = Pair::new() else { return };
        (pair.outside, pair.outage_limit) = (outside, "30s");
        let pair = pair.start_both("");
        no_bunches(&pair);
        let mut client = pair.connect(server(&pair));
        echoes(&mut client, &pattern(1, 20_000));
        for most in sizes {
            narrow(&pair, most);
            for seed in 0..3 {
                echoes(&mut client, &pattern(seed, 20_000));
            }
            for end in [End::Hub, End::Terminal] {
                let mtu = pair.status(end)["peers"][0]["mtu"].as_u64().unwrap();
                assert!(mtu <= u64::from(most), "{outside:?}: {mtu} beyond {most}");
            }
        }
    }
}

#[test]
fn over_ipv6_a_path_below_its_least_size_is_left_alone() {
    let Some(mut pair) = Pair::new() else { return };
    pair.outside = Family::V6;
    let pair = pair.start_both("");
    no_bunches(&pair);
    narrow(&pair, 1279);
    let mut client = pair.connect(server(&pair));
    echoes(&mut client, b"little");
    // What does not pass is noticed by what is sent.
    client.write_all(&pattern(1, 20_000)).unwrap();
    pair.wait_for(|pair| pair.status(End::Terminal)["peers"][0]["state"] == "path too small");
    pair.wait_for(|pair| !pair.sets(End::Terminal).contains("elements"));
    let accepted = pair.count(End::Terminal, "accepted");
    echoes(&mut pair.connect(pair.serve(Family::V4, 8, echo_all)), b"end to end");
    assert_eq!(pair.count(End::Terminal, "accepted"), accepted);
}

/// The `tcp` transport with a connection on which something has passed.
fn tunnel(settings: &'static str, outside: Family) -> Option<(Pair, TcpStream)> {
    let mut pair = Pair::with_tcp_transport(settings)?;
    (pair.outside, pair.outage_limit) = (outside, "20s");
    let pair = pair.start_both("");
    no_bunches(&pair);
    let mut client = pair.connect(server(&pair));
    echoes(&mut client, &pattern(1, 20_000));
    Some((pair, client))
}

/// What is echoed after the path has shrunk to `most` arrives.
fn goes_on(settings: &'static str, outside: Family, most: u16) {
    let Some((pair, mut client)) = tunnel(settings, outside) else { return };
    narrow(&pair, most);
    for seed in 0..3 {
        echoes(&mut client, &pattern(seed, 20_000));
    }
    assert_eq!(pair.count(End::Terminal, "reset"), 0);
}

#[test]
fn open_connections_of_the_tcp_transport_go_on_in_smaller_packets() {
    goes_on(CLEAR, Family::V4, 1200);
}

#[test]
fn so_they_do_over_ipv6_down_to_its_least_size() {
    goes_on(TLS, Family::V6, 1280);
}

/// Both gateways let the kernel send smaller packets where full ones are lost, as gateways do that may set sysctls: trials, too, come back so.
#[test]
fn a_path_that_loses_large_packets_from_the_start_is_found_out_in_either_direction() {
    for (settings, lossy) in [(CLEAR, End::Hub), (TLS, End::Terminal)] {
        let Some(mut pair) = Pair::with_tcp_transport(settings) else { return };
        pair.outage_limit = "20s";
        let mut pair = pair.start_both("");
        no_bunches(&pair);
        pair.nft(lossy, "add rule inet path in iifname sat meta length > 1300 drop");
        pair.stop(End::Terminal);
        pair.start(End::Terminal, "");
        pair.wait_for(|pair| pair.status(End::Terminal)["peers"][0]["mtu"].as_u64() == Some(1280));
        pair.wait_until(End::Terminal, true);
        echoes(&mut pair.connect(server(&pair)), &pattern(2, 20_000));
    }
}

/// Whether the gateway at `end` knows that the path carries packets of at most `most` bytes.
fn has_found(pair: &Pair, end: End, most: u64) -> bool {
    pair.status(end)["peers"][0]["mtu"].as_u64().is_some_and(|mtu| (1..=most).contains(&mtu))
}

/// Waits until the gateway at `end` has found, within seconds of the first stall, that full packets vanish; the kernel has stuck connections go on
/// after some 4 s, each by itself.
fn finds_soon(pair: &Pair, end: End, most: u64) {
    let from = Instant::now();
    pair.wait_for(|pair| has_found(pair, end, most));
    let took = from.elapsed();
    assert!(took < Duration::from_secs(8), "{took:?}");
    pair.wait_until(end, true);
}

#[test]
fn a_connection_that_the_tcp_transport_has_stuck_reveals_what_passes_to_new_ones() {
    for probing in ["1", "0"] {
        let Some((pair, mut client)) = tunnel(CLEAR, Family::V4) else { return };
        for end in [End::Hub, End::Terminal] {
            let probe = || kernel::sysctl::write("net.ipv4.tcp_mtu_probing", probing);
            pair.site(end).gateway.run(probe).unwrap().unwrap();
        }
        narrow(&pair, 1200);
        client.write_all(&pattern(1, 20_000)).unwrap();
        let server = pair.serve(Family::V4, 8, echo_all);
        finds_soon(&pair, End::Terminal, 1200);
        let from = Instant::now();
        echoes(&mut pair.connect(server), &pattern(2, 20_000));
        assert!(from.elapsed() < Duration::from_secs(1), "{:?}", from.elapsed());
    }
}

#[test]
fn a_download_that_the_tcp_transport_has_stuck_reveals_what_passes_to_the_gateway_that_opens() {
    let Some(mut pair) = Pair::with_tcp_transport(TLS) else { return };
    (pair.hub_initiates, pair.outage_limit) = (false, "20s");
    pair.start(End::Hub, "");
    pair.start(End::Terminal, "");
    pair.wait_until(End::Terminal, true);
    no_bunches(&pair);
    let server = pair.serve(Family::V4, 7, |mut stream| {
        while stream.read_exact(&mut [0]).is_ok() && stream.write_all(&pattern(1, 50_000)).is_ok() {}
    });
    let download = |client: &mut TcpStream| {
        let mut arrived = vec![0; 50_000];
        client.read_exact(&mut arrived).unwrap();
        assert!(arrived == pattern(1, 50_000));
    };
    let ask = || {
        let mut client = pair.connect(server);
        client.write_all(&[1]).unwrap();
        client
    };
    let mut client = ask();
    download(&mut client);
    narrow(&pair, 1200);
    client.write_all(&[1]).unwrap();
    finds_soon(&pair, End::Terminal, 1200);
    // The server takes one at a time.
    download(&mut client);
    drop(client);
    let from = Instant::now();
    download(&mut ask());
    assert!(from.elapsed() < Duration::from_secs(1), "{:?}", from.elapsed());
}

#[test]
fn a_lossy_path_and_a_stalled_reader_leave_the_packets_of_the_tcp_transport_as_they_are() {
    let Some((pair, mut client)) = tunnel(CLEAR, Family::V4) else { return };
    let stalled = pair.serve(Family::V4, 8, |stream| {
        std::thread::sleep(Duration::from_secs(10));
        drop(stream);
    });
    let mut writer = pair.connect(stalled);
    writer.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    while writer.write_all(&pattern(1, 1 << 20)).is_ok() {}
    for end in [End::Hub, End::Terminal] {
        pair.nft(end, "add rule inet path in iifname sat numgen random mod 100 < 15 drop");
    }
    let until = Instant::now() + Duration::from_secs(6);
    while Instant::now() < until {
        echoes(&mut client, &pattern(2, 20_000));
    }
    for end in [End::Hub, End::Terminal] {
        assert!(!has_found(&pair, end, 1460), "{}", pair.status(end));
    }
}

#[test]
fn an_outage_does_not_shrink_the_packets_of_the_tcp_transport_for_long() {
    for settings in [CLEAR, TLS] {
        let Some((pair, mut client)) = tunnel(settings, Family::V4) else { return };
        narrow(&pair, 1);
        client.write_all(&pattern(1, 50_000)).unwrap();
        std::thread::sleep(Duration::from_secs(12));
        narrow(&pair, 1500);
        let mut answer = vec![0; 50_000];
        client.read_exact(&mut answer).unwrap();
        assert!(answer == pattern(1, 50_000));
        // The search that follows has decided, too.
        std::thread::sleep(Duration::from_secs(4));
        for end in [End::Hub, End::Terminal] {
            assert!(!has_found(&pair, end, 1460), "{}", pair.status(end));
        }
        let sockets = pair.site(End::Terminal).gateway.command("ss").args(["-tinH"]).output().unwrap();
        let sockets = String::from_utf8(sockets.stdout).unwrap();
        let sizes = sockets.split(" mss:").skip(1).map(|rest| rest.split(' ').next().unwrap().parse::<u32>().unwrap());
        let least = sizes.min().unwrap();
        assert!(least >= 512, "segments of {least} B after an outage\n{sockets}");
    }
}
