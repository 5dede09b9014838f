//! Connections through two gateways over an emulated satellite, in the `tcp` transport with the cross-layer congestion control: what
//! the control learns, and what it brings against equation 1 of Kim et al. Where no control can be loaded, the tests say so and
//! pass.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real processes, sockets and waiting")]

mod pair;

use kernel::testing::best_of_three;
use lab::flows::Plan;
use lab::transfer::Checksum;
use lab::{Direction, Ends, Family, Flow, Satellite, Workload, bulk};
use link::{LinkConfig, QueueLimit, Steps};
use pair::{End, Pair, echo_all, echoes};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use units::{Bytes, Rate};

const RATE: Rate = Rate::from_bps(8_000_000);
const HALF: Rate = Rate::from_bps(4_000_000);
const RTT: Duration = Duration::from_millis(200);
/// Payload of a full segment.
const SEGMENT: f64 = 1448.0;
/// Of what the equation allows: less than the control alone reaches, since the host is shared and the time is short.
const MIN: f64 = 0.9;

/// Bytes in a second that the equation allows `sessions` together.
fn allowed(rate: Rate, sessions: u32) -> f64 {
    let segment = Bytes::new(SEGMENT as u64);
    let window = model::cross_layer::segments(rate, RTT.into(), 52.0 / SEGMENT, segment, sessions);
    f64::from(sessions) * window * SEGMENT / RTT.as_secs_f64()
}

/// Gateways that are up, the terminal's with the control; `None` where that cannot be loaded.
fn gateways(rates: Option<Steps<Rate>>) -> Option<Pair> {
    let queue = QueueLimit::Bytes(Bytes::new(250_000));
    let link = LinkConfig { queue, ..LinkConfig::new(RATE, units::Duration::from(RTT) / 2) };
    gateways_over(RATE, LinkConfig { rate_steps: rates, ..link })
}

/// The same over a satellite of this direction to the hub, and of its first rate back.
fn gateways_over(rate: Rate, link: LinkConfig) -> Option<Pair> {
    if let Err(error) = congestion::requirements::check() {
        eprintln!("SKIPPED: {error}");
        return None;
    }
    let forward = LinkConfig { rate_steps: None, ..link.clone() };
    let mut pair = pair::across(Satellite { forward, return_link: link })?;
    (pair.settings, pair.hub_initiates) = ("transport = \"tcp\"\nmode = \"clear\"\nsecured_externally = true", true);
    pair.start(End::Hub, "");
    pair.terminal_link = "min_rate = \"1Mbit/s\"\n[updates]\nhttp = \"127.0.0.1:9091\"";
    pair.sections = "[tcp]\ncongestion_control = \"bp_cross\"";
    pair.start(End::Terminal, "");
    pair.wait_until(End::Hub, true);
    pair.wait_until(End::Terminal, true);
    tell(&pair, rate);
    Some(pair)
}

fn tell(pair: &Pair, rate: Rate) {
    let update = format!("{{\"rate\": \"{}bit/s\"}}", rate.as_bps());
    assert!(pair.http(End::Terminal, 9091, "PUT /link", &update).starts_with("HTTP/1.1 200"));
}

/// Uploads without an end that begin at these times, cut off at `end`.
fn upload(pair: &Pair, starts: &[Duration], end: Duration) -> Vec<Flow> {
    let workload = Workload {
        direction: Direction::Up,
        size: Bytes::ZERO,
        checksum: Checksum::LengthOnly,
        family: Family::V4,
        congestion_control: Some("reno".to_owned()),
        send_buffer: None,
        receive_buffer: None,
        timeout: units::Duration::from_secs(60),
        seed: 1,
    };
    let ends = Ends { client: pair.client(), server: pair.server() };
    let plan = |start: &Duration| Plan { ends, workload: &workload, start: (*start).into(), windows: None };
    bulk::run(&starts.iter().map(plan).collect::<Vec<_>>(), end.into(), None).unwrap()
}

/// Bytes in a second that `flow` has brought between two times.
fn goodput(flow: &Flow, from: Instant, to: Instant) -> f64 {
    let at = |time: Instant| flow.trace.bytes_at(time.saturating_duration_since(flow.start).into());
    (at(to) - at(from)) / (to - from).as_secs_f64()
}

/// What the gateway has passed to the control, each 50 ms until `end`.
fn watch(socket: &Path, end: Instant) -> Vec<(Instant, Value)> {
    let mut seen = Vec::new();
    while Instant::now() < end {
        let status = gateway::status(socket).unwrap_or(Value::Null);
        seen.push((Instant::now(), status["satellite"]["cross_layer"].clone()));
        thread::sleep(Duration::from_millis(50));
    }
    seen
}

/// Whether all that was `seen` between two times has `value` as `key`.
fn all(seen: &[(Instant, Value)], from: Instant, to: Instant, key: &str, value: u64) -> Result<(), String> {
    let mut between = seen.iter().filter(|(at, _)| (from..to).contains(at)).peekable();
    if between.peek().is_none() {
        return Err("nothing was seen".to_owned());
    }
    match between.find(|(_, seen)| seen[key] != value) {
        None => Ok(()),
        Some((at, seen)) => Err(format!("{:?} after the start: {seen} instead of {key} {value}", *at - from)),
    }
}

fn share_the_link() -> Result<(), String> {
    const SECOND: Duration = Duration::from_secs(4);
    const END: Duration = Duration::from_secs(8);
    /// A session's first round trips, until its window and the others' are those of the equation.
    const SETTLING: Duration = Duration::from_millis(1500);
    let Some(pair) = gateways(None) else { return Ok(()) };
    let server = pair.serve(Family::V4, 7, echo_all);
    let mut idle: Vec<_> = (0..3).map(|_| pair.connect(server)).collect();
    idle.iter_mut().for_each(|connection| echoes(connection, b"a word, and then nothing"));
    let (flows, seen) = thread::scope(|scope| {
        let socket = pair.socket(End::Terminal);
        let seen = scope.spawn(move || watch(&socket, Instant::now() + END));
        (upload(&pair, &[Duration::ZERO, SECOND], END), seen.join().unwrap())
    });
    let [first, second] = [0, 1].map(|flow: usize| flows[flow].start);
    let end = first + END;
    let alone = goodput(&flows[0], first + SETTLING, second) / allowed(RATE, 1);
    let shares = [0, 1].map(|flow: usize| goodput(&flows[flow], second + SETTLING, end) / allowed(RATE, 2));
    println!("of the equation: one session {alone:.3}, two {shares:.3?}");
    for (from, to, sessions) in [(first, second, 1), (second, end, 2)] {
        all(&seen, from + SETTLING, to, "connections", sessions)?;
        all(&seen, from + SETTLING, to, "capacity_bps", RATE.as_bps())?;
    }
    let is_fair = shares.iter().all(|share| (0.4..0.6).contains(share));
    let is_enough = alone >= MIN && shares.iter().sum::<f64>() >= MIN;
    if is_fair && is_enough { Ok(()) } else { Err(format!("one session {alone:.3}, two {shares:.3?}")) }
}

/// Idle connections waste nothing, and those with data have equal parts.
#[test]
fn the_reported_capacity_is_divided_between_those_with_data() {
    best_of_three(share_the_link);
}

/// Bytes of a request, which a byte answers.
const REQUEST: usize = 20_000;

/// How long one request after the other takes until `end` or at most `count`, each on a connection of its own.
fn requests(pair: &Pair, server: SocketAddr, count: usize, end: Instant) -> Vec<Duration> {
    let mut times = Vec::new();
    while times.len() < count && Instant::now() < end {
        let start = Instant::now();
        let mut stream = pair.connect(server);
        stream.write_all(&[7; REQUEST]).unwrap();
        stream.read_exact(&mut [0]).unwrap();
        times.push(start.elapsed());
    }
    times
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn leave_what_is_not_used() -> Result<(), String> {
    const BEGIN: Duration = Duration::from_secs(2);
    const END: Duration = Duration::from_secs(12);
    let (rate, way) = (Rate::from_bps(6_000_000), units::Duration::from_millis(275));
    let queue = QueueLimit::Bytes(Bytes::new(400_000));
    let Some(pair) = gateways_over(rate, LinkConfig { queue, ..LinkConfig::new(rate, way) }) else { return Ok(()) };
    let server = pair.serve(Family::V4, 7, |mut stream: TcpStream| {
        let answered = stream.read_exact(&mut [0; REQUEST]).and_then(|()| stream.write_all(&[1]));
        answered.unwrap();
    });
    let idle = median(requests(&pair, server, 3, Instant::now() + END));
    let (flow, busy) = thread::scope(|scope| {
        let busy = scope.spawn(|| requests(&pair, server, usize::MAX, Instant::now() + END));
        (upload(&pair, &[Duration::ZERO], END).remove(0), busy.join().unwrap())
    });
    let (first, last) = (flow.start + BEGIN, flow.start + END);
    let limit = rate.as_bps() as f64 / 8.0 * SEGMENT / 1500.0;
    let (file, slowest) = (goodput(&flow, first, last) / limit, busy.iter().max().unwrap().as_secs_f64());
    let (count, busy) = (busy.len(), median(busy));
    println!("of the line: {file:.3}; {count} requests in {busy:?}, the slowest in {slowest:.3} s, idle {idle:?}");
    let is_quick = busy <= idle + Duration::from_millis(30);
    if file >= 0.93 && is_quick { Ok(()) } else { Err(format!("{file:.3} of the line; {busy:?}, idle {idle:?}")) }
}

/// Small requests beside a file use little of a share; the rest is the file's.
#[test]
fn what_requests_leave_of_their_shares_is_the_upload_s() {
    best_of_three(leave_what_is_not_used);
}

/// When the emulator of `pair` started, at most a few milliseconds later than it says.
fn emulation_start(pair: &Pair) -> Instant {
    let start = || {
        thread::sleep(Duration::from_millis(1));
        Instant::now() - Duration::from_secs_f64(pair.network.as_ref().unwrap().satellite_report().unwrap().wall_s)
    };
    (0..200).map(|_| start()).min().unwrap()
}

fn follow_the_allocation() -> Result<(), String> {
    const HALVED: Duration = Duration::from_secs(8);
    const RESTORED: Duration = Duration::from_secs(11);
    const END: Duration = Duration::from_millis(13_500);
    /// Five round trips: what the old window has left is gone.
    const SETTLING: Duration = Duration::from_secs(1);
    let steps = [(Duration::ZERO, RATE), (HALVED, HALF), (RESTORED, RATE)].map(|(at, rate)| (at.into(), rate));
    let Some(pair) = gateways(Some(Steps::new(steps.to_vec()))) else { return Ok(()) };
    let mut interactive = pair.connect(pair.serve(Family::V4, 7, echo_all));
    echoes(&mut interactive, b"a word");
    let start = emulation_start(&pair);
    let [halved, restored, end] = [HALVED, RESTORED, END].map(|time| start + time);
    if Instant::now() + SETTLING * 2 > halved {
        return Err("the gateways were up too late".to_owned());
    }
    let wait_until = |time: Instant| thread::sleep(time.saturating_duration_since(Instant::now()));
    // Before the capacity comes back, and behind what is measured of the upload.
    let asked = restored - Duration::from_millis(600);
    let (flow, seen, echo) = thread::scope(|scope| {
        let socket = pair.socket(End::Terminal);
        let seen = scope.spawn(move || watch(&socket, end));
        let echo = scope.spawn(|| {
            wait_until(halved);
            tell(&pair, HALF);
            wait_until(asked);
            let asked = Instant::now();
            echoes(&mut interactive, b"a word");
            let echo = asked.elapsed();
            wait_until(restored);
            tell(&pair, RATE);
            echo
        });
        let flow = upload(&pair, &[Duration::ZERO], end.saturating_duration_since(Instant::now())).remove(0);
        (flow, seen.join().unwrap(), echo.join().unwrap())
    });
    let half = goodput(&flow, halved + SETTLING, asked) / allowed(HALF, 1);
    let whole = goodput(&flow, restored + SETTLING, end - SETTLING / 4) / allowed(RATE, 1);
    let lost = pair.network.as_ref().unwrap().satellite_report().unwrap().up.dropped.queue_full.packets;
    println!(
        "of the equation: half {half:.3}, whole {whole:.3}; echo in {echo:?}; {lost} packets found the queue full"
    );
    let delay = Duration::from_millis(250);
    all(&seen, halved + delay, restored, "capacity_bps", HALF.as_bps())?;
    all(&seen, restored + delay, end, "capacity_bps", RATE.as_bps())?;
    // The window leaves no queue behind that an echo would wait in.
    let is_quick = echo < RTT + Duration::from_millis(60);
    let is_right = half >= MIN && whole >= MIN && is_quick && lost == 0;
    if is_right { Ok(()) } else { Err(format!("half {half:.3}, whole {whole:.3}, echo {echo:?}, {lost} lost")) }
}

#[test]
fn the_window_follows_half_the_allocation_and_all_of_it_again() {
    best_of_three(follow_the_allocation);
}
