use super::*;
use proptest::prelude::*;

fn link() -> Link {
    Link { rate: Rate::from_bps(6_000_000), rtt: Duration::from_millis(550), loss: Probability::ZERO, queue: None }
}

fn transfer(bytes: u64) -> Transfer {
    Transfer {
        size: Bytes::new(bytes),
        mss: Bytes::new(1448),
        header: Bytes::new(52),
        window: None,
        initial_window: 10.0,
        ack_every: 1,
        rto: Duration::from_millis(750),
        control: Control::Reno,
        direction: Direction::Up,
    }
}

fn lossy(loss: f64) -> Link {
    Link { loss: Probability::new(loss).unwrap(), ..link() }
}

fn of(link: &Link, transfer: &Transfer) -> Prediction {
    predict(link, transfer).unwrap()
}

fn endless(link: &Link, transfer: &Transfer) -> (Rate, Limit) {
    without_end(link, transfer).unwrap()
}

#[test]
fn the_limit_that_binds_is_named() {
    let window = |bytes| Transfer { window: Some(Bytes::new(bytes)), ..transfer(10_000_000) };
    assert_eq!(of(&link(), &transfer(5_000)).binding, Limit::RoundTrips);
    assert_eq!(of(&link(), &transfer(500_000)).binding, Limit::SlowStart);
    assert_eq!(of(&link(), &transfer(10_000_000)).binding, Limit::LineRate);
    assert_eq!(of(&link(), &window(65_535)).binding, Limit::Window);
    assert_eq!(of(&link(), &window(2_000_000)).binding, Limit::LineRate);
    assert_eq!(of(&lossy(1e-3), &transfer(10_000_000)).binding, Limit::Loss);
    assert_eq!(endless(&lossy(1e-3), &transfer(10_000_000)).1, Limit::Loss);
    let short = Link { queue: Some(Bytes::new(15_000)), ..link() };
    assert_eq!(of(&short, &transfer(100_000_000)).binding, Limit::Queue);
}

#[test]
fn the_parts_are_the_whole() {
    for prediction in [
        of(&link(), &transfer(1_000_000)),
        of(&lossy(1e-2), &transfer(1_000_000)),
        of(&lossy(1e-2), &Transfer { window: Some(Bytes::new(65_535)), ..transfer(1_000_000) }),
    ] {
        let sum: f64 = prediction.parts.iter().map(|part| part.1).sum();
        assert!((sum - prediction.time.value.as_secs_f64()).abs() < 1e-6, "{prediction:?}");
    }
}

#[test]
fn one_window_of_data_takes_a_handshake_and_its_way() {
    // 14,480 bytes: one round trip, ten packets of 2 ms, half a round trip.
    let seconds = |direction| {
        let prediction = of(&link(), &Transfer { direction, ..transfer(14_480) });
        prediction.time.value.as_secs_f64()
    };
    assert!((seconds(Direction::Up) - 0.845).abs() < 1e-6);
    assert!((seconds(Direction::Down) - 1.12).abs() < 1e-6);
}

#[test]
fn losses_hurt_reno_most_and_bbr_hardly() {
    let seconds = |control| of(&lossy(1e-3), &Transfer { control, ..transfer(10_000_000) }).time.value.as_secs_f64();
    let [reno, cubic, hybla, bbr] = [Control::Reno, Control::Cubic, Control::Hybla, Control::Bbr].map(seconds);
    assert!(reno > 1.5 * cubic && cubic > bbr && hybla < cubic, "{reno} {cubic} {hybla} {bbr}");
}

#[test]
fn what_means_nothing_is_refused() {
    let parameter = |link: &Link, transfer: &Transfer| predict(link, transfer).unwrap_err().parameter;
    let small = Transfer { window: Some(Bytes::new(1000)), ..transfer(1_000) };
    assert_eq!(parameter(&Link { rate: Rate::ZERO, ..link() }, &transfer(1)), "rate");
    assert_eq!(parameter(&Link { rtt: Duration::ZERO, ..link() }, &transfer(1)), "rtt");
    assert_eq!(parameter(&lossy(1.0), &transfer(1)), "loss");
    assert_eq!(parameter(&link(), &small), "window");
    assert_eq!(parameter(&link(), &transfer(0)), "size");
    assert_eq!(parameter(&link(), &Transfer { initial_window: 0.0, ..transfer(1) }), "initial window");
    assert_eq!(parameter(&Link { queue: Some(Bytes::new(100)), ..link() }, &transfer(1)), "queue");
}

#[test]
fn outside_its_range_it_says_so() {
    assert!(of(&link(), &transfer(1_000_000)).time.is_valid());
    assert!(!of(&lossy(0.4), &transfer(1_000_000)).time.is_valid());
    let overflowing = Link { queue: Some(Bytes::new(100_000)), ..link() };
    assert!(of(&overflowing, &transfer(10_000_000)).time.doubt.unwrap().contains("queue"));
    assert!(of(&Link { queue: Some(Bytes::new(412_500)), ..link() }, &transfer(10_000_000)).time.is_valid());
    assert!(!of(&link(), &Transfer { control: Control::Bbr, ..transfer(1_000_000) }).time.is_valid());
    let bursts = Transfer { window: Some(Bytes::new(412_500)), ..transfer(10_000_000) };
    assert!(!of(&overflowing, &bursts).time.is_valid());
    let within = Transfer { window: Some(Bytes::new(180_000)), ..transfer(10_000_000) };
    assert!(of(&overflowing, &within).time.is_valid());
    let few = Link { queue: Some(Bytes::new(15_000)), rate: Rate::from_bps(100_000), ..link() };
    assert!(of(&few, &transfer(1_000_000)).time.doubt.unwrap().contains("few packets"));
}

#[test]
fn windows_of_few_segments_are_doubted_where_segments_or_acknowledgements_wait() {
    let doubt = |link: &Link, transfer: &Transfer| of(link, transfer).time.doubt.unwrap_or_default();
    let of_segments = |segments: f64| Transfer {
        ack_every: 2,
        window: Some(Bytes::new((1448.0 * segments) as u64)),
        control: Control::Reno,
        ..transfer(1_000_000)
    };
    assert!(doubt(&link(), &of_segments(3.9)).contains("no multiple of"));
    assert!(doubt(&link(), &of_segments(3.0)).contains("no multiple of"));
    assert_eq!(doubt(&link(), &of_segments(4.0)), "");
    assert_eq!(doubt(&link(), &of_segments(45.3)), "");
    assert_eq!(doubt(&link(), &Transfer { ack_every: 1, ..of_segments(3.0) }), "");
    assert_eq!(doubt(&link(), &Transfer { size: Bytes::new(5_000), ..of_segments(3.9) }), "");
    let near = Link { rtt: Duration::from_millis(40), ..link() };
    let one = Transfer { initial_window: 1.0, ack_every: 2, ..transfer(30_000) };
    assert_eq!(doubt(&near, &one), "");
    let down = Transfer { direction: Direction::Down, ..one };
    assert!(doubt(&near, &down).contains("initial window"));
    assert_eq!(doubt(&near, &Transfer { size: Bytes::new(20_000_000), ..down }), "");
}

/// An acknowledgement that covers more than may be in flight comes from the receiver's timer. Simulated at 100 Mbit/s, 20 ms: 4.59 s
/// and 0.43 s, where 2.80 s and 0.19 s are predicted.
#[test]
fn windows_that_no_acknowledgement_fits_are_doubted() {
    let fast = Link { rate: Rate::from_bps(100_000_000), rtt: Duration::from_millis(20), ..link() };
    let doubt = |transfer: &Transfer| of(&fast, transfer).time.doubt.unwrap_or_default();
    let window = Some(Bytes::new(30 * 1448));
    let rare = Transfer { ack_every: 32, window, initial_window: 40.0, ..transfer(5_000_000) };
    assert!(doubt(&rare).contains("less than one acknowledgement covers"), "{}", doubt(&rare));
    assert_eq!(doubt(&Transfer { ack_every: 30, ..rare }), "");
    let up = Transfer { ack_every: 16, control: Control::Cubic, ..transfer(1_000_000) };
    assert!(doubt(&up).contains("initial window"), "{}", doubt(&up));
    assert_eq!(doubt(&Transfer { ack_every: 11, ..up }), "");
}

/// A loss of which a transfer sees none is none.
#[test]
fn the_least_probabilities_of_loss_change_nothing() {
    for control in [Control::Reno, Control::Cubic, Control::Hybla] {
        for (window, size) in [(None, 1_000_000), (Some(Bytes::new(1448)), 1 << 44)] {
            let transfer = Transfer { control, window, ..transfer(size) };
            let without = of(&link(), &transfer);
            for loss in [f64::MIN_POSITIVE / 1e3, f64::MIN_POSITIVE, 1e-40, 1e-19] {
                assert_eq!(of(&lossy(loss), &transfer), without, "{control:?} {loss}");
                assert_eq!(endless(&lossy(loss), &transfer), endless(&link(), &transfer), "{control:?} {loss}");
            }
            for loss in [1e-15, 1e-12] {
                let time = of(&lossy(loss), &transfer).time.value;
                assert!(
                    (time.as_secs_f64() / without.time.value.as_secs_f64() - 1.0).abs() < 0.01,
                    "{control:?} {loss}"
                );
                assert!(endless(&lossy(loss), &transfer).0.as_bps() > 0, "{control:?} {loss}");
                assert!(least_bound(&lossy(loss), &transfer).unwrap().as_bps() > 0, "{control:?} {loss}");
            }
        }
    }
}

#[test]
fn losses_are_doubted_where_a_window_has_too_few_segments_for_duplicates() {
    let of_segments = |segments: u64| Transfer { window: Some(Bytes::new(1448 * segments)), ..transfer(1_000_000) };
    for segments in 1..4 {
        assert!(of(&lossy(1e-4), &of_segments(segments)).time.doubt.unwrap().contains("duplicates"), "{segments}");
    }
    assert!(of(&lossy(1e-4), &of_segments(4)).time.is_valid());
    assert!(of(&link(), &of_segments(3)).time.is_valid());
}

/// Kruse, equation 3.6: a window of few segments waits for their own times on the line, too.
#[test]
fn windows_of_few_segments_have_the_steady_rate_of_kruse() {
    let slow = Link { rate: Rate::from_bps(1_000_000), rtt: Duration::from_millis(100), ..link() };
    for segments in [2, 4, 8, 16] {
        let window = Bytes::new(1448 * segments);
        let transfer = Transfer { window: Some(window), ack_every: 2, ..transfer(50_000_000) };
        let kruse = channel(&slow, &transfer).steady(window).unwrap().throughput.value.as_bps() as f64;
        let found = of(&slow, &transfer);
        let steady = endless(&slow, &transfer).0;
        assert!((steady.as_bps() as f64 / kruse - 1.0).abs() < 0.01, "{segments}: {steady}");
        let of_the_transfer = found.throughput.as_bps() as f64 / kruse;
        assert!((of_the_transfer - 1.0).abs() < 0.01, "{segments}: {}", found.throughput);
    }
}

/// Losses, the window and a short queue add up.
#[test]
fn without_end_a_transfer_has_the_rate_of_a_very_long_one() {
    const TERABYTE: u64 = 1_000_000_000_000;
    let window = |kib: u64| Some(Bytes::new(kib << 10));
    for (control, loss, window, queue) in [
        (Control::Cubic, 1e-2, window(32), None),
        (Control::Reno, 1e-3, window(64), None),
        (Control::Hybla, 3e-3, window(256), None),
        (Control::Bbr, 1e-2, window(64), None),
        (Control::Bbr, 1e-2, None, None),
        (Control::Cubic, 0.0, None, Some(41_250)),
        (Control::Reno, 0.0, None, Some(41_250)),
        (Control::Reno, 1e-5, None, Some(41_250)),
        (Control::Cubic, 1e-4, None, Some(412_500)),
        (Control::Cubic, 1e-3, None, None),
        (Control::Reno, 0.0, window(64), Some(412_500)),
        (Control::Reno, 0.0, None, None),
    ] {
        let link = Link { queue: queue.map(Bytes::new), ..lossy(loss) };
        let found = of(&link, &Transfer { control, window, ..transfer(TERABYTE) });
        let steady = endless(&link, &Transfer { control, window, ..transfer(1000) });
        let ratio = steady.0.as_bps() as f64 / found.throughput.as_bps() as f64;
        assert!((ratio - 1.0).abs() < 0.01, "{control:?} {loss} {window:?} {queue:?}: {ratio}, {found:?}");
        assert_eq!(steady.1, found.binding, "{control:?} {loss} {window:?} {queue:?}: {found:?}");
    }
}

#[test]
fn a_bound_that_is_alone_is_the_rate_without_end_and_several_are_above_it() {
    let bound = |link: &Link, transfer: &Transfer| least_bound(link, transfer).unwrap().as_bps() as f64;
    let steady = |link: &Link, transfer: &Transfer| endless(link, transfer).0.as_bps() as f64;
    let window = Transfer { window: Some(Bytes::new(65_535)), ..transfer(1_000_000) };
    for (link, transfer) in [(link(), transfer(1_000_000)), (link(), window), (lossy(1e-2), transfer(1_000_000))] {
        assert!((bound(&link, &transfer) / steady(&link, &transfer) - 1.0).abs() < 0.03, "{link:?} {transfer:?}");
    }
    assert!(bound(&lossy(1e-3), &window) > 1.1 * steady(&lossy(1e-3), &window));
    assert_eq!(least_bound(&lossy(1.0), &window).unwrap_err().parameter, "loss");
}

#[test]
fn an_initial_window_above_the_queue_is_doubted() {
    // Simulated 1.5 s with a timeout, where 0.19 s are predicted.
    let queue = |packets: u64| Link {
        rate: Rate::from_bps(1_000_000),
        rtt: Duration::from_millis(60),
        queue: Some(Bytes::new(1500 * packets)),
        ..link()
    };
    let doubt = |packets| of(&queue(packets), &transfer(12_000)).time.doubt.unwrap_or_default();
    assert!(doubt(5).contains("the initial window overflows the queue"));
    assert!(doubt(7).contains("the initial window overflows the queue"));
    assert_eq!(doubt(8), "");
}

/// Losses at random and the overflow of a queue add up: neither hides the other.
#[test]
fn with_losses_a_shorter_queue_is_never_faster_and_a_byte_changes_little() {
    for (control, loss) in
        [(Control::Reno, 1e-4), (Control::Reno, 1e-5), (Control::Cubic, 1e-4), (Control::Cubic, 1e-3)]
    {
        let transfer = Transfer { control, ..transfer(100_000_000) };
        let of_queue = |bytes: u64| {
            let link = Link { rate: Rate::from_bps(14_085_000), rtt: Duration::from_millis(100), ..lossy(loss) };
            of(&Link { queue: Some(Bytes::new(bytes)), ..link }, &transfer).time.value.as_secs_f64()
        };
        let times: Vec<f64> = (1..=60).map(|number| of_queue(number * 6_000)).collect();
        let is_no_faster = |pair: &[f64]| pair[0] >= pair[1] * (1.0 - 2e-3);
        assert!(times.windows(2).all(is_no_faster), "{control:?} {loss}: {times:?}");
        let product = 176_062;
        let (below, above) = (of_queue(product - 1), of_queue(product + 1));
        assert!((below / above - 1.0).abs() < 1e-3, "{control:?} {loss}: {below} {above}");
    }
}

#[test]
fn one_product_of_queue_is_not_short_however_it_is_rounded() {
    for kbps in 14_080..14_090 {
        let rate = Rate::from_bps(kbps * 1000);
        let rtt = Duration::from_millis(100);
        let link = Link { rate, rtt, queue: Some(rate.bytes_in(rtt)), ..lossy(1e-4) };
        let prediction = of(&link, &transfer(100_000_000));
        assert_eq!(endless(&link, &transfer(100_000_000)).1, Limit::LineRate, "{rate}");
        assert!(prediction.time.is_valid(), "{rate}");
    }
}

#[test]
fn connections_that_share_a_link_are_not_predicted() {
    let alone = of(&link(), &transfer(1_000_000));
    assert!(alone.clone().shared_by(1).time.is_valid());
    assert!(alone.shared_by(4).time.doubt.unwrap().starts_with("4 connections share the link"));
    let both = of(&lossy(0.4), &transfer(1_000_000)).shared_by(4).time.doubt.unwrap();
    assert!(both.contains("above 0.02") && both.contains("4 connections"), "{both}");
}

#[test]
fn the_table_has_every_model_and_a_reason_for_each_that_does_not_hold() {
    let rows = table(&link(), &transfer(1_000_000), 1).unwrap();
    assert_eq!(rows.len(), 14);
    assert!(rows.iter().all(|row| row.doubt.is_some() || row.throughput.is_some()));
    let row = |rows: &[Row], name| rows.iter().find(|row| row.model == name).cloned().unwrap();
    assert!(row(&rows, "Mathis").doubt.unwrap().contains("loss"));
    assert!(row(&rows, "window").doubt.unwrap().contains("no window"));
    let lossy = table(&lossy(1e-5), &transfer(1_000_000), 1).unwrap();
    assert!(row(&lossy, "Mathis").doubt.unwrap().contains("line rate"));
    assert!(row(&lossy, "Kruse, slow start").doubt.unwrap().contains("losses"));
    let queued = Link { queue: Some(Bytes::new(412_500)), ..link() };
    let slow_start = |size| row(&table(&queued, &transfer(size), 1).unwrap(), "Kruse, slow start").doubt;
    assert!(slow_start(10_000_000).unwrap().contains("overflow") && slow_start(500_000).is_none());
    assert!(table(&link(), &transfer(1), 0).is_err());
}

/// Half of each packet is headers.
#[test]
fn the_physical_limit_counts_the_headers_of_the_transfers_packets() {
    let small = Transfer { mss: Bytes::new(500), header: Bytes::new(500), ..transfer(3_000_000) };
    let rows = table(&link(), &small, 1).unwrap();
    let limit = rows.iter().find(|row| row.model == "physical limit").unwrap();
    // 48 Mbit of packets at 6 Mbit/s, and half a round trip.
    assert_eq!(limit.time, Some(Duration::from_millis(8_275)));
}

#[test]
fn what_is_too_long_or_too_slow_to_be_told_has_no_figure() {
    let slow = Link { rate: Rate::from_bps(1), ..lossy(0.9) };
    let endless = predict(&slow, &transfer(1 << 50)).unwrap_err();
    assert_eq!((endless.parameter, endless.allowed), ("size", "what the link delivers within 584 years"));
    let rows = table(&slow, &transfer(10_000_000), 1).unwrap();
    let row = |name| rows.iter().find(|row| row.model == name).unwrap();
    assert_eq!((row("line rate").throughput, row("physical limit").throughput), (None, None));
    assert!(row("line rate").doubt.as_deref().unwrap().contains("below 1bit/s"));
    assert!(row("physical limit").time.is_some_and(|time| time > Duration::from_secs(800_000_000)));
    assert!(rows.iter().all(|row| row.time != Some(Duration::MAX) && row.throughput != Some(Rate::ZERO)));
}

/// Means of 200 runs of `bentpipe simulate` (profile rfc) at 6 Mbit/s, 550 ms, a queue of one product; seconds. Those with losses and
/// a window are of eight.
#[test]
fn simulations_are_not_far() {
    const WINDOW: Option<Bytes> = Some(Bytes::new(65_535));
    for (control, size, loss, window, simulated, tolerance) in [
        (Control::Reno, 100_000, 0.0, None, 2.155, 0.07),
        (Control::Cubic, 1_000_000, 0.0, None, 4.355, 0.01),
        (Control::Hybla, 1_000_000, 0.0, None, 2.719, 0.01),
        (Control::Cubic, 1_000_000, 0.0, WINDOW, 9.762, 0.01),
        (Control::Reno, 10_000_000, 0.0, None, 16.790, 0.01),
        (Control::Reno, 10_000_000, 0.0, WINDOW, 87.162, 0.02),
        (Control::Cubic, 1_000_000, 1e-3, None, 4.936, 0.02),
        (Control::Reno, 10_000_000, 1e-3, None, 58.341, 0.05),
        (Control::Cubic, 10_000_000, 1e-3, None, 25.648, 0.08),
        (Control::Reno, 10_000_000, 1e-2, None, 328.012, 0.06),
        (Control::Cubic, 10_000_000, 1e-3, WINDOW, 93.000, 0.10),
    ] {
        let link = Link { queue: Some(Bytes::new(412_500)), ..lossy(loss) };
        let transfer = Transfer { control, window, ack_every: 2, rto: Duration::from_secs(1), ..transfer(size) };
        let predicted = of(&link, &transfer).time.value.as_secs_f64();
        assert!(
            (predicted / simulated - 1.0).abs() < tolerance,
            "{control:?} {size} {loss}: {predicted}, not {simulated}"
        );
    }
}

/// Means of eight runs of `bentpipe simulate` (profile rfc) at 1 Mbit/s, with losses and windows of 4 and of 8 segments.
#[test]
fn simulations_of_windows_of_few_segments_are_not_far() {
    for (control, rtt, window, loss, simulated) in
        [(Control::Reno, 50, 5_792, 1e-4, 643.0), (Control::Cubic, 100, 11_584, 1e-3, 548.0)]
    {
        let link = Link { rate: Rate::from_bps(1_000_000), rtt: Duration::from_millis(rtt), ..lossy(loss) };
        let window = Some(Bytes::new(window));
        let transfer = Transfer { control, window, ack_every: 2, ..transfer(50_000_000) };
        let predicted = of(&link, &transfer).time.value.as_secs_f64();
        assert!((predicted / simulated - 1.0).abs() < 0.1, "{control:?}: {predicted}, not {simulated}");
    }
}

#[test]
fn what_is_lost_on_a_full_line_is_sent_again_once() {
    // The line holds four packets: the window is far above it however often it shrinks.
    let link = Link { rate: Rate::from_bps(64_000), rtt: Duration::from_millis(600), ..lossy(0.02) };
    let transfer = Transfer { control: Control::Cubic, ..transfer(10_000_000) };
    let limit = crate::limit::time(0.5, transfer.size, link.rate, link.rtt, link.loss).as_secs_f64();
    let predicted = of(&link, &transfer).time.value.as_secs_f64();
    assert!((1.0..1.01).contains(&(predicted / limit)), "{predicted}, the limit is {limit}");
}

proptest! {
    #[test]
    fn harder_is_never_faster(
        kbps in 64u64..50_000, millis in 10u64..700, p in 0.0f64..0.1, size in 1_000u64..20_000_000,
        window in 3_000u64..4_000_000, control in 0usize..4,
    ) {
        let control = [Control::Reno, Control::Cubic, Control::Hybla, Control::Bbr][control];
        let link = Link { rate: Rate::from_bps(kbps * 1000), rtt: Duration::from_millis(millis), ..lossy(p) };
        let small = Transfer { window: Some(Bytes::new(window)), control, ..transfer(size) };
        let seconds = |link: &Link, transfer: &Transfer| of(link, transfer).time.value.as_secs_f64();
        let now = seconds(&link, &small) * (1.0 - 1e-6);
        let larger = Transfer { size: Bytes::new(size + 100_000), ..small };
        prop_assert!(seconds(&link, &larger) >= now);
    }

    /// Where round trips are short, nothing hides what slow start does not send twice.
    #[test]
    fn nothing_is_faster_than_the_physical_limit(
        kbps in 64u64..50_000, micros in 10u64..700_000, p in 0.0f64..0.1, size in 1_000u64..20_000_000,
        control in 0usize..4, direction in 0usize..2,
    ) {
        let control = [Control::Reno, Control::Cubic, Control::Hybla, Control::Bbr][control];
        let direction = [Direction::Up, Direction::Down][direction];
        let link = Link { rate: Rate::from_bps(kbps * 1000), rtt: Duration::from_micros(micros), ..lossy(p) };
        for rtt in [link.rtt, Duration::from_micros(10)] {
            let link = Link { rtt, ..link };
            let transfer = Transfer { control, direction, ..transfer(size) };
            let least = table::physical_limit(&link, &transfer).as_secs_f64();
            let predicted = of(&link, &transfer).time.value.as_secs_f64();
            prop_assert!(predicted >= least - 1e-8, "{} below the limit {}", predicted, least);
        }
    }
}
