//! A pair on a link whose capacity is reported, estimated, or shared with cross traffic.

use link::{LinkConfig, LossModel, Policer, QueueLimit, Steps, TimedGilbertElliott};
use sim::{
    Application, CapacityMode, CrossTrafficPolicy, Distribution, FlowConfig, GatewayConfig, Network, OnOff,
    RateConfidence, Record, Report, SatpepSettings, Settings, Simulation, Start, Stop, Traffic, Transfer, Transport,
};
use std::sync::Arc;
use units::{Bytes, Duration, Instant, Probability, Rate};

const RATE: Rate = Rate::from_bps(6_000_000);
const HALF: Rate = Rate::from_bps(3_000_000);
/// For how long the link keeps each of its rates.
const HOLDS: Duration = Duration::from_secs(15);
const END: Duration = Duration::from_secs(120);
/// Payload of a full packet over its length.
const PAYLOAD: f64 = 1448.0 / 1500.0;

/// client - near - far - server, with the satellite in the middle; what passes the link beside the pair begins at `near`.
struct Experiment {
    rtt: Duration,
    varies: bool,
    transport: SatpepSettings,
    others: Option<Traffic>,
}

/// Its outcome.
struct Outcome {
    report: Report,
    /// 95th percentile of how long the satellite link's queue was.
    queue: Duration,
}

impl Experiment {
    fn network(&self) -> Network {
        let mut network = Network::new();
        let nodes = ["client", "near", "far", "server"].map(|name| network.add_node(name).expect("new"));
        let lan = LinkConfig {
            queue: QueueLimit::Unlimited,
            ..LinkConfig::new(Rate::from_bps(1_000_000_000), Duration::from_micros(50))
        };
        let back = LinkConfig { stream: 2, ..LinkConfig::new(RATE, self.rtt / 2) };
        let steps = Steps { repeat: Some(HOLDS * 2), ..Steps::new(vec![(HOLDS, HALF)]) };
        let there = LinkConfig { stream: 1, rate_steps: self.varies.then_some(steps), ..back.clone() };
        network.add_link("left", nodes[0], nodes[1], lan.clone(), lan.clone()).expect("valid");
        network.add_link("satellite", nodes[1], nodes[2], there, back).expect("valid");
        network.add_link("right", nodes[2], nodes[3], lan.clone(), lan).expect("valid");
        network
    }

    fn run(self) -> Outcome {
        let network = self.network();
        let [client, near, far, server] =
            ["client", "near", "far", "server"].map(|name| network.node(name).expect(name));
        let flow = |name: &str, from, at, traffic| FlowConfig {
            name: name.into(),
            from,
            to: server,
            start: Start { at, spread: Duration::ZERO },
            stop: None,
            traffic,
            record: false,
        };
        let mut flows = vec![flow("ours", client, Instant::ZERO, bulk("cubic"))];
        flows.extend(self.others.map(|traffic| flow("others", near, Instant::ZERO + Duration::from_secs(10), traffic)));
        let pair = GatewayConfig::new("pair", [near, far], Transport::Satpep(self.transport));
        let settings = Settings {
            stop: Stop { at: Some(Instant::ZERO + END), when_complete: false },
            record: Record { queue_interval: Some(Duration::from_millis(50)), ..Record::default() },
            ..Settings::default()
        };
        let mut simulation = Simulation::with_gateways(network, flows, vec![pair], settings).expect("valid");
        simulation.run();
        let satellite = simulation.report().links.iter().position(|link| link.name == "satellite").expect("there");
        let mut queues: Vec<Duration> = simulation
            .take_queue_samples()
            .iter()
            .filter(|sample| sample.direction.index() == satellite)
            .map(|sample| rate_at(sample.at, self.varies).time_to_send(sample.bytes))
            .collect();
        queues.sort();
        Outcome { report: simulation.report(), queue: queues[queues.len() * 95 / 100] }
    }
}

fn rate_at(at: Instant, varies: bool) -> Rate {
    let periods = at.as_nanos() / HOLDS.as_nanos();
    if varies && periods % 2 == 1 { HALF } else { RATE }
}

fn bulk(control: &str) -> Traffic {
    let host = Arc::new(tcp::Config {
        control: tcp::ControlKind::by_name(control).expect("known"),
        receive_buffer: tcp::ReceiveBuffer { size: Bytes::new(128 << 10), share: 1.0, most: Bytes::new(6 << 20) },
        ..tcp::Config::new(tcp::Profile::Linux)
    });
    let application = Application::Bulk { size: None, transfer: Transfer::Upload };
    Traffic::Tcp { client: host.clone(), server: host, application }
}

/// What a bulk transfer gets of a link that has its full and half its rate in turns, as a share of what full packets could
/// carry, and the queue.
fn over_a_varying_link(rtt: Duration, transport: SatpepSettings) -> (f64, Duration) {
    let knows = (transport.capacity, transport.link_updates);
    let outcome = Experiment { rtt, varies: true, transport, others: None }.run();
    let carried = (RATE.as_bps() + HALF.as_bps()) as f64 / 2.0 * END.as_secs_f64() * PAYLOAD;
    let share = outcome.report.flows[0].bytes as f64 * 8.0 / carried;
    println!("{knows:?} at {rtt}: {share:.4} of the capacity, 95 % of queues below {}", outcome.queue);
    (share, outcome.queue)
}

#[test]
fn a_rate_that_is_told_is_used_without_a_queue() {
    for rtt in [Duration::from_millis(40), Duration::from_millis(550)] {
        let (share, queue) =
            over_a_varying_link(rtt, SatpepSettings { link_updates: true, ..SatpepSettings::default() });
        assert!(share >= 0.95 && queue <= Duration::from_millis(50), "{rtt}: {share} {queue}");
    }
}

#[test]
fn a_rate_that_varies_is_learnt() {
    for (rtt, least, longest) in [(40, 0.93, 50), (550, 0.88, 275)] {
        let (share, queue) = over_a_varying_link(Duration::from_millis(rtt), SatpepSettings::default());
        assert!(share >= least && queue <= Duration::from_millis(longest), "{rtt}: {share} {queue}");
    }
}

#[test]
fn without_news_of_a_lower_rate_the_queue_is_full() {
    let transport = SatpepSettings { capacity: CapacityMode::Fixed, ..SatpepSettings::default() };
    let (_, queue) = over_a_varying_link(Duration::from_millis(40), transport);
    assert!(queue > Duration::from_millis(50), "{queue}");
}

/// Goodput of ours, and of other traffic from its tenth second on, in shares of what full packets could carry.
fn beside(rtt: Duration, transport: SatpepSettings, others: Traffic) -> [f64; 2] {
    let (policy, capacity) = (transport.cross_traffic, transport.capacity);
    let outcome = Experiment { rtt, varies: false, transport, others: Some(others) }.run();
    let goodput = |flow: usize, seconds: f64| {
        outcome.report.flows[flow].bytes as f64 * 8.0 / seconds / (RATE.as_bps() as f64 * PAYLOAD)
    };
    let shares = [goodput(0, END.as_secs_f64()), goodput(1, END.as_secs_f64() - 10.0)];
    println!("{policy:?}, {capacity:?} at {rtt}: ours and others' {shares:.3?}");
    shares
}

fn with_policy(cross_traffic: CrossTrafficPolicy) -> SatpepSettings {
    SatpepSettings { cross_traffic, capacity: CapacityMode::Fixed, ..SatpepSettings::default() }
}

#[test]
fn a_fair_pair_leaves_tcp_past_it_its_share() {
    for rtt in [40, 550] {
        for control in ["cubic", "bbr1"] {
            let [ours, others] =
                beside(Duration::from_millis(rtt), with_policy(CrossTrafficPolicy::Fair), bulk(control));
            assert!((0.4..=0.6).contains(&others), "{control} at {rtt} ms: {others}");
            assert!(ours >= 0.4, "{control} at {rtt} ms: {ours}");
        }
    }
}

#[test]
fn traffic_of_a_constant_rate_has_what_it_sends() {
    for rtt in [40, 550] {
        for policy in [CrossTrafficPolicy::Subtract, CrossTrafficPolicy::Fair] {
            let udp = Traffic::Udp { rate: Rate::from_bps(2_000_000), packet_size: Bytes::new(1000), on_off: None };
            let [ours, others] = beside(Duration::from_millis(rtt), with_policy(policy), udp);
            let sent = 2e6 * 0.972 / (RATE.as_bps() as f64 * PAYLOAD);
            assert!((others / sent - 1.0).abs() < 0.02, "{policy:?} at {rtt} ms: {others} of {sent}");
            assert!(ours > 0.6, "{policy:?} at {rtt} ms: {ours}");
        }
    }
}

/// Bursts of others enter the link at once, and the rate at which they are subtracted is smoothed. What they had sent by then counts for
/// the estimate; otherwise what is left of the link in a burst would be taken for all of it.
#[test]
fn bursts_of_others_do_not_lower_the_estimate() {
    let bursts_of = |length: u64| {
        let length = Distribution::Constant(Duration::from_millis(length));
        let on_off = Some(OnOff { on: length, off: length });
        Traffic::Udp { rate: Rate::from_bps(5_000_000), packet_size: Bytes::new(1000), on_off }
    };
    for length in [200, 500, 1000] {
        let [ours, others] = beside(Duration::from_millis(550), SatpepSettings::default(), bursts_of(length));
        assert!(ours > 0.55 && others > 0.4, "bursts of {length} ms: {ours}, {others}");
    }
}

#[test]
fn a_pair_that_learns_is_fair_too() {
    for rtt in [40, 550] {
        let transport = SatpepSettings { cross_traffic: CrossTrafficPolicy::Fair, ..SatpepSettings::default() };
        for control in ["cubic", "bbr1"] {
            let [ours, others] = beside(Duration::from_millis(rtt), transport.clone(), bulk(control));
            assert!((0.4..=0.6).contains(&others) && ours >= 0.4, "{control} at {rtt} ms: {ours} {others}");
        }
    }
}

/// A file over a link with this round trip and queue, in the time that the link needs for so many packets: the share of packets that
/// the queue drops, and of the rate that the file gets.
fn over_a_short_queue(rate: Rate, rtt: Duration, queue: QueueLimit, packets: u64) -> [f64; 2] {
    let satellite = LinkConfig { queue, ..LinkConfig::new(rate, rtt / 2) };
    let report = file_over(satellite, rate.time_to_send(Bytes::new(1500 * packets)), SatpepSettings::default());
    let counters = &report.links.iter().find(|link| link.name == "satellite").expect("there").counters;
    let dropped = counters.dropped_queue_full.packets as f64 / counters.offered.packets as f64;
    [dropped, report.flows[0].bytes as f64 / (1500 * packets) as f64 / PAYLOAD]
}

/// A file over `satellite` in both directions, for `time`.
fn file_over(satellite: LinkConfig, time: Duration, transport: SatpepSettings) -> Report {
    let mut network = Network::new();
    let nodes = ["client", "near", "far", "server"].map(|name| network.add_node(name).expect("new"));
    let lan = LinkConfig {
        queue: QueueLimit::Unlimited,
        ..LinkConfig::new(Rate::from_bps(1_000_000_000), Duration::from_micros(50))
    };
    network.add_link("left", nodes[0], nodes[1], lan.clone(), lan.clone()).expect("valid");
    network.add_link("satellite", nodes[1], nodes[2], satellite.clone(), satellite).expect("valid");
    network.add_link("right", nodes[2], nodes[3], lan.clone(), lan).expect("valid");
    let flow = FlowConfig {
        name: "file".into(),
        from: nodes[0],
        to: nodes[3],
        start: Start::default(),
        stop: None,
        traffic: bulk("cubic"),
        record: false,
    };
    let pair = GatewayConfig::new("pair", [nodes[1], nodes[2]], Transport::Satpep(transport));
    let settings =
        Settings { stop: Stop { at: Some(Instant::ZERO + time), when_complete: false }, ..Settings::default() };
    let mut simulation = Simulation::with_gateways(network, vec![flow], vec![pair], settings).expect("valid");
    simulation.run();
    simulation.report()
}

#[test]
fn trains_fit_into_a_short_queue() {
    for (kbps, rtt, packets) in [
        (6000, 20, 3),
        (6000, 20, 5),
        (6000, 20, 10),
        (6000, 550, 2),
        (6000, 550, 5),
        (6000, 550, 10),
        (1000, 550, 3),
        (64, 550, 3),
        (64, 550, 4),
    ] {
        let (rate, rtt) = (Rate::from_bps(kbps * 1000), Duration::from_millis(rtt));
        let [dropped, share] = over_a_short_queue(rate, rtt, QueueLimit::Packets(packets), 10_000);
        assert!(
            dropped < 0.04 && share > 0.93,
            "{rate}, {rtt}, {packets} packets: {dropped:.4} dropped, share {share:.3}"
        );
    }
}

/// At 1 Mbit/s trains are all that is sent at first. What they lose in a queue of three packets is no policer's doing: the estimate would
/// fall to an eighth, and stay there for half a minute.
#[test]
fn what_trains_lose_in_a_short_queue_of_a_slow_link_lowers_no_estimate() {
    for bytes in [4000, 4600, 4800, 5000, 5200, 6000] {
        let (rate, rtt) = (Rate::from_bps(1_000_000), Duration::from_millis(40));
        let [_, share] = over_a_short_queue(rate, rtt, QueueLimit::Bytes(Bytes::new(bytes)), 500);
        assert!(share > 0.8, "{bytes} bytes: share {share:.3}");
    }
}

/// The bucket holds less than the first train, which then tells nothing, as none of those that follow: what is lost has to.
#[test]
fn a_policer_with_a_small_bucket_is_found_whatever_the_prior() {
    let passes = Rate::from_bps(4_000_000);
    let time = Duration::from_secs(30);
    for (rtt, bucket, times) in [(10, 15_000, 4.0), (40, 8_000, 8.0), (40, 15_000, 2.0), (200, 15_000, 4.0)] {
        let policer = Some(Policer { rate: passes, burst: Bytes::new(bucket) });
        let satellite =
            LinkConfig { policer, ..LinkConfig::new(Rate::from_bps(100_000_000), Duration::from_millis(rtt) / 2) };
        let rate = [Some(passes.mul_f64(times)); 2];
        let report = file_over(satellite, time, SatpepSettings { rate, ..SatpepSettings::default() });
        let counters = &report.links.iter().find(|link| link.name == "satellite").expect("there").counters;
        let dropped = counters.dropped_policed.packets as f64 / counters.offered.packets as f64;
        let share = report.flows[0].bytes as f64 / passes.bytes_in(time).as_u64() as f64 / PAYLOAD;
        assert!(
            dropped < 0.1 && share > 0.75,
            "{rtt} ms, {bucket} bytes, prior x {times}: {dropped:.3} dropped, share {share:.3}"
        );
    }
}

/// What a file gets in a minute of what `passes`, and the share of packets that the link loses or drops.
fn share_of(satellite: LinkConfig, passes: Rate, prior: Option<Rate>) -> [f64; 2] {
    let time = Duration::from_secs(60);
    let rate_confidence = if prior.is_some() { RateConfidence::Sure } else { RateConfidence::None };
    let settings = SatpepSettings { rate: [prior; 2], rate_confidence, ..SatpepSettings::default() };
    let report = file_over(satellite, time, settings);
    let counters = &report.links.iter().find(|link| link.name == "satellite").expect("there").counters;
    let dropped = counters.dropped_policed.packets + counters.dropped_queue_full.packets;
    let share = report.flows[0].bytes as f64 / passes.bytes_in(time).as_u64() as f64 / PAYLOAD;
    [share, dropped as f64 / counters.offered.packets as f64]
}

/// A bucket that holds more than a trial passes any rate for a moment. Where no rate is configured, the first trial is of 64 times what is
/// assumed; and a configured rate that is right is still followed by trials of more.
#[test]
fn a_policer_whose_bucket_passes_trials_is_found() {
    let mbit = |rate: f64| Rate::from_bps((rate * 1e6) as u64);
    for (passes, burst, rtt, prior, most_dropped) in [
        (1.0, 256_000, 550, None, 0.95),
        (5.0, 15_000, 10, None, 0.05),
        (2.0, 30_000, 550, None, 0.05),
        (1.0, 500_000, 550, Some(1.0), 0.2),
        (3.0, 700_000, 200, Some(3.0), 0.2),
        (2.0, 1_000_000, 600, Some(2.0), 0.3),
    ] {
        let policer = Some(Policer { rate: mbit(passes), burst: Bytes::new(burst) });
        let satellite = LinkConfig { policer, ..LinkConfig::new(mbit(100.0), Duration::from_millis(rtt) / 2) };
        let [share, dropped] = share_of(satellite, mbit(passes), prior.map(mbit));
        assert!(
            share > 0.8 && dropped < most_dropped,
            "{passes} Mbit/s, {burst} bytes, {rtt} ms, prior {prior:?}: share {share:.3}, {dropped:.3} dropped"
        );
    }
}

/// A handover or an obstacle on the path loses most of what is sent for a moment. That is no policer's doing.
#[test]
fn losses_of_a_moment_lower_no_estimate() {
    let rate = Rate::from_bps(10_000_000);
    let percent = |share: f64| Probability::new(share / 100.0).expect("a share");
    for (rtt, stream) in [(40, 1), (40, 2), (550, 3)] {
        let model = TimedGilbertElliott {
            mean_good: Duration::from_secs(1),
            mean_bad: Duration::from_millis(100),
            loss_good: percent(0.0),
            loss_bad: percent(70.0),
        };
        let loss = LossModel::TimedGilbertElliott(model);
        let satellite = LinkConfig { loss, stream, ..LinkConfig::new(rate, Duration::from_millis(rtt) / 2) };
        let [share, _] = share_of(satellite, rate, Some(rate));
        assert!(share > 0.6, "{rtt} ms, stream {stream}: {share:.3} of the rate, of which 0.064 is lost");
    }
    for (at, lasts) in [(10_000, 60), (10_070, 100), (10_140, 150)] {
        let outage =
            vec![(Duration::from_millis(at), percent(100.0)), (Duration::from_millis(at + lasts), percent(0.0))];
        let loss = LossModel::Steps(Steps::new(outage));
        let satellite = LinkConfig { loss, ..LinkConfig::new(rate, Duration::from_millis(20)) };
        let [share, _] = share_of(satellite, rate, Some(rate));
        assert!(share > 0.94, "an outage of {lasts} ms at {at} ms: {share:.3} of the rate in a minute");
    }
}

/// What a file gets in `time` of a link whose rate is known to be `prior`, or not known, as a share of the rate, and the losses of which
/// are `steps`: seconds and per cent.
fn share_with_losses(rate: Rate, rtt: Duration, prior: Option<Rate>, steps: &[(f64, f64)]) -> f64 {
    let time = Duration::from_secs(20);
    let percent = |share: f64| Probability::new(share / 100.0).expect("a share");
    let steps = steps.iter().map(|(at, share)| (Duration::from_secs_f64(*at), percent(*share))).collect();
    let satellite = LinkConfig { loss: LossModel::Steps(Steps::new(steps)), ..LinkConfig::new(rate, rtt / 2) };
    let rate_confidence = if prior.is_some() { RateConfidence::Sure } else { RateConfidence::None };
    let report = file_over(satellite, time, SatpepSettings { rate: [prior; 2], rate_confidence, ..Default::default() });
    report.flows[0].bytes as f64 / rate.bytes_in(time).as_u64() as f64 / PAYLOAD
}

/// A link whose rate was not known is searched for it, and a policer's bucket may let what is tried pass. A policer found that much later
/// goes on losing packets at the rate that lost some; a handover does not.
#[test]
fn losses_of_a_moment_after_a_search_for_the_rate_lower_no_estimate() {
    for (mbit, rtt, prior, at, lasts, lost) in [
        // More has arrived by then than a policer lets through that passes as little.
        (100, 40, None, 8.0, 0.1, 80.0),
        (100, 40, Some(0.1), 4.0, 0.2, 80.0),
        (10, 40, Some(0.1), 4.0, 0.2, 80.0),
        (10, 40, None, 8.0, 0.1, 100.0),
        (100, 550, Some(0.1), 2.0, 0.1, 100.0),
        // It ends before less is sent.
        (100, 550, None, 0.5, 0.2, 80.0),
        (6, 550, None, 2.0, 0.2, 80.0),
        (6, 550, Some(0.1), 4.0, 0.2, 80.0),
        // It ends while less is sent.
        (100, 40, Some(0.1), 0.5, 0.2, 80.0),
        (10, 40, Some(0.1), 1.0, 0.2, 80.0),
    ] {
        let rate = Rate::from_bps(mbit * 1_000_000);
        let known = prior.map(|times| rate.mul_f64(times));
        let share = share_with_losses(rate, Duration::from_millis(rtt), known, &[(at, lost), (at + lasts, 0.0)]);
        assert!(share > 0.87, "{rate}, {rtt} ms, prior {prior:?}, {lasts} s of {lost} % at {at} s: share {share:.3}");
    }
}

/// Where a queue has room for a few packets, the last packet of a train may find the room that another has left. The train is too long for
/// the queue all the same.
#[test]
fn a_prior_far_too_low_is_left_where_the_queue_is_short() {
    let rate = Rate::from_bps(10_000_000);
    for rtt in [8, 30] {
        let queue = QueueLimit::Packets(8);
        let satellite = LinkConfig { queue, ..LinkConfig::new(rate, Duration::from_millis(rtt) / 2) };
        let [share, dropped] = share_of(satellite, rate, Some(rate.mul_f64(0.2)));
        assert!(share > 0.8 && dropped < 0.1, "{rtt} ms: share {share:.3}, {dropped:.3} dropped");
    }
}

/// Where no rate is configured, 4 Mbit/s are assumed. A satellite telephone carries less than a hundredth.
#[test]
fn a_link_much_slower_than_what_is_assumed_is_not_flooded_for_ever() {
    for (bps, packets) in [(9_600, 20), (32_000, 10), (32_000, 60)] {
        let queue = QueueLimit::Packets(packets);
        let satellite = LinkConfig { queue, ..LinkConfig::new(Rate::from_bps(bps), Duration::from_millis(275)) };
        let by = |seconds| {
            let settings = SatpepSettings { rate_confidence: RateConfidence::None, ..SatpepSettings::default() };
            let report = file_over(satellite.clone(), Duration::from_secs(seconds), settings);
            let counters = &report.links.iter().find(|link| link.name == "satellite").expect("there").counters;
            [report.flows[0].bytes as f64, counters.dropped_queue_full.bytes as f64, counters.offered.bytes as f64]
        };
        let (before, after) = (by(300), by(600));
        let [received, dropped, offered] = [0, 1, 2].map(|at| after[at] - before[at]);
        let share = received * 8.0 / 300.0 / bps as f64 / PAYLOAD;
        assert!(share > 0.9 && dropped < 0.1 * offered, "{bps}: {share} of it, {dropped} of {offered} bytes dropped");
    }
}

/// Where a policer's bucket or a queue holds less than the shortest train, no train arrives whole: that nothing else is lost has to tell that
/// the prior is carried, and pushes find more.
#[test]
fn a_prior_is_left_where_no_train_arrives() {
    let mbit = |rate: f64| Rate::from_bps((rate * 1e6) as u64);
    for rtt in [20, 550] {
        let policer = Some(Policer { rate: mbit(5.0), burst: Bytes::new(3000) });
        let satellite = LinkConfig { policer, ..LinkConfig::new(mbit(100.0), Duration::from_millis(rtt) / 2) };
        let [share, dropped] = share_of(satellite, mbit(5.0), Some(mbit(0.5)));
        assert!(share > 0.5 && dropped < 0.05, "policer, {rtt} ms: share {share:.3}, {dropped:.3} dropped");
    }
    for (packets, prior) in [(2, 2.0), (3, 10.0), (4, 10.0)] {
        let queue = QueueLimit::Packets(packets);
        let satellite = LinkConfig { queue, ..LinkConfig::new(mbit(10.0), Duration::from_millis(24)) };
        let [share, dropped] = share_of(satellite, mbit(10.0), Some(mbit(prior)));
        assert!(share > 0.5 && dropped < 0.05, "{packets} packets: share {share:.3}, {dropped:.3} dropped");
    }
}
