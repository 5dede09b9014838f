//! Reports of arrivals: what they cost the return link. And the start probe, which they answer.

use crate::world::{Datagram, Hop, World, address, clear};
use satpep::Prior;
use units::{Duration, Rate};

/// Reads a varint at the start of `input`.
fn varint(input: &mut &[u8]) -> u64 {
    let length = 1usize << (input[0] >> 6);
    let (bytes, rest) = input.split_at(length);
    *input = rest;
    bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)) & ((1 << (8 * length - 2)) - 1)
}

/// The frames of a packet in mode clear; `None` of another datagram.
fn frames(datagram: &Datagram) -> Option<&[u8]> {
    (datagram.bytes[0] == 4).then(|| &datagram.bytes[9..datagram.bytes.len() - 16])
}

/// How many bytes the ARRIVALS takes that a packet begins with, but for a RECOVERED; `None` if it begins with another frame.
fn arrivals_length(datagram: &Datagram) -> Option<usize> {
    let mut input = frames(datagram)?;
    if input.first() == Some(&0x12) {
        input = &input[1..];
        varint(&mut input);
        let ranges = varint(&mut input);
        (0..2 * ranges - 1).for_each(|_| _ = varint(&mut input));
    }
    let whole = input.len();
    input = input.strip_prefix(&[0x0e])?;
    (0..3).for_each(|_| _ = varint(&mut input));
    let stamps = varint(&mut input);
    (0..2 * stamps).for_each(|_| _ = varint(&mut input));
    Some(whole - input.len())
}

/// What acknowledgements of a transfer take.
struct Cost {
    /// Bytes of an ARRIVALS: the mean, and the most.
    mean: f64,
    longest: usize,
    /// Shares of the return link: of ARRIVALS, and of all that is sent back.
    arrivals: f64,
    all: f64,
}

/// Sends `bytes` to the terminal.
fn cost(hop: Hop, bytes: u64) -> Cost {
    let return_rate = hop.return_rate.as_bps() as f64;
    let mut world = World::with(hop, 1, clear);
    world.connect();
    world.capture = Some(Vec::new());
    let start = world.time.now();
    let id = world.send(0, 0, bytes);
    assert!(world.run_until(Duration::from_secs(120), |world| world.is_finished(1, id)));
    let bits = world.time.now().since(start).as_secs_f64() * return_rate;
    let captured = world.capture.take().expect("captured");
    let back: Vec<_> = captured.iter().filter(|datagram| datagram.from == address(1)).collect();
    let lengths: Vec<usize> = back.iter().filter_map(|datagram| arrivals_length(datagram)).collect();
    let sum = lengths.iter().sum::<usize>() as f64;
    let all: usize = back.iter().map(|datagram| datagram.bytes.len() + 28).sum();
    assert!(lengths.len() > 50, "{}", lengths.len());
    let longest = lengths.iter().copied().max().unwrap_or(0);
    Cost { mean: sum / lengths.len() as f64, longest, arrivals: 8.0 * sum / bits, all: 8.0 * all as f64 / bits }
}

#[test]
fn reports_of_arrivals_take_a_small_share_of_the_return_link() {
    let mbit = |rate: f64| Rate::from_bps((rate * 1e6) as u64);
    for (down, back, rtt, bytes) in
        [(6.0, 6.0, 550, 4_000_000), (6.0, 1.0, 550, 4_000_000), (250.0, 25.0, 600, 60_000_000)]
    {
        let rtt = Duration::from_millis(rtt);
        let hop = Hop { rate: mbit(down), return_rate: mbit(back), rtt, ..Hop::geo(1e-3, 3) };
        let Cost { mean, longest, arrivals, all } = cost(hop, bytes);
        println!(
            "{down} Mbit/s down, {back} back: ARRIVALS {mean:.1} bytes, at most {longest}; {:.3} % of the return link, all packets {:.3} %",
            100.0 * arrivals,
            100.0 * all
        );
        assert!(mean <= 80.0 && longest <= 250, "{mean} {longest}");
        assert!(arrivals <= 0.02, "{arrivals}");
    }
}

#[test]
fn on_a_thin_return_link_they_name_the_newest_packet_only() {
    let thin = Hop { return_rate: Rate::from_bps(256_000), ..Hop::geo(1e-3, 3) };
    let Cost { mean, arrivals, all, .. } = cost(thin, 4_000_000);
    println!(
        "256 kbit/s back: ARRIVALS {mean:.1} bytes; {:.2} % of the return link, all {:.2} %",
        100.0 * arrivals,
        100.0 * all
    );
    assert!(mean < 25.0, "{mean}");
    assert!(all < 0.2, "{all}");
}

/// Whether it is a packet of a start probe that the gateway at `from` sent: TRAIN and padding.
fn is_start_probe(datagram: &Datagram, from: usize) -> bool {
    let frames = frames(datagram).unwrap_or_default();
    datagram.from == address(from) && frames.len() > 1000 && frames.ends_with(&[0; 900]) && frames[..64].contains(&0x0d)
}

fn start_probes(world: &World, from: usize) -> usize {
    let captured = world.capture.iter().flatten();
    captured.filter(|datagram| is_start_probe(datagram, from)).count()
}

/// A pair that has come up with nothing to send, and all that it sent. What it is told of the link's rate is half of it.
fn idle_pair(rate: u64, prior: fn(Rate) -> Prior) -> World {
    let rate = Rate::from_bps(rate);
    let mut world = World::with(Hop { rate, return_rate: rate, ..Hop::geo(0.0, 5) }, 1, move |config| {
        clear(config);
        config.prior = Some(prior(Rate::from_bps(rate.as_bps() / 2)));
    });
    world.capture = Some(Vec::new());
    world.connect();
    world
}

#[test]
fn a_session_with_nothing_to_send_begins_with_a_train_that_is_answered() {
    let world = idle_pair(6_000_000, Prior::Guess);
    for gateway in 0..2 {
        assert_eq!(start_probes(&world, gateway), 16, "gateway {gateway}");
        let estimate = world.gateways[gateway].endpoint.capacity_estimate(world.time.now());
        assert!(estimate.confidence == 1.0, "{estimate:?}");
    }
}

#[test]
fn there_is_no_start_probe_where_the_rate_is_configured_or_the_link_thin() {
    for world in [idle_pair(6_000_000, Prior::Configured), idle_pair(256_000, Prior::Guess)] {
        assert_eq!((start_probes(&world, 0), start_probes(&world, 1)), (0, 0));
    }
}

#[test]
fn a_peer_that_comes_and_goes_is_probed_once_a_minute_at_most() {
    let mut world = idle_pair(6_000_000, Prior::Guess);
    world.restart(0, 2);
    world.capture = Some(Vec::new());
    // Start probes are lost, so that the capacity stays a guess.
    world.tamper =
        Some(Box::new(|datagram| if is_start_probe(datagram, 0) { Vec::new() } else { vec![datagram.clone()] }));
    let begun = world.time.now();
    for run in 3..8 {
        world.connect();
        world.restart(1, run);
    }
    world.connect();
    assert!(world.time.now().since(begun) < Duration::from_secs(50));
    assert_eq!(start_probes(&world, 0), 16);
    world.run_for(Duration::from_secs(60));
    world.restart(1, 8);
    world.connect();
    assert_eq!(start_probes(&world, 0), 32);
}
