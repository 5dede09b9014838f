//! What an acknowledgement costs each congestion control: `cargo bench -p bentpipe-tcp --bench controls`.

use tcp::control::{Ack, CONTROLS, Sent, Start};
use tcp::{Allocation, Capacity, Config, LossState, Profile, RateSample, Window};
use units::{Duration, Instant, Rate};

const MSS: u64 = 1448;
const WINDOW: u64 = 2_000 * MSS;
/// Acknowledgements timed at once; of several such times the least counts.
const ACKNOWLEDGEMENTS: u64 = 1_000_000;

/// The `k`th of a stream of acknowledgements of two segments each, at 100 Mbit/s and 230 ms.
fn acknowledgement(k: u64) -> Ack {
    let now = Instant::ZERO + Duration::from_millis(230) + Duration::from_nanos(231_680 * k);
    let rtt = Duration::from_millis(230);
    let (acked, una) = (2 * MSS, 2 * MSS * (k + 1));
    let rate = RateSample {
        is_reliable: true,
        delivered: WINDOW,
        interval: rtt,
        prior_delivered: una.saturating_sub(WINDOW),
        total_delivered: una,
        total_lost: 0,
        lost: 0,
        in_flight_at_send: WINDOW,
        is_app_limited: false,
    };
    Ack {
        now,
        mss: MSS as u32,
        acked,
        delivered: acked,
        is_duplicate: false,
        rtt: Some(rtt),
        srtt: rtt,
        min_rtt: rtt,
        rate: Some(rate),
        prior_in_flight: WINDOW,
        in_flight: WINDOW - acked,
        lost: 0,
        una,
        nxt: una + WINDOW,
        receive_window: 2 * WINDOW,
        is_window_limited: true,
        opens_window: false,
        marked: 0,
        state: LossState::Open,
    }
}

/// Nanoseconds for each acknowledgement and the two segments that it lets go.
fn cost(new: impl Fn() -> Box<dyn tcp::control::Control>) -> f64 {
    let mut control = new();
    let mut window = Window { cwnd: 1_000.0, ssthresh: 500.0 };
    let rtt = Some(Duration::from_millis(230));
    control.on_connected(
        &Start { now: Instant::ZERO, mss: MSS as u32, rtt, receive_window: WINDOW, has_sack: true },
        &mut window,
    );
    #[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
    let started = std::time::Instant::now();
    for k in 0..ACKNOWLEDGEMENTS {
        let ack = std::hint::black_box(acknowledgement(k));
        control.on_ack(&ack, &mut window);
        if !control.governs_window() {
            control.grow(&ack, &mut window);
        }
        for half in [1, 2] {
            let nxt = ack.nxt + half * MSS;
            control.on_sent(&Sent {
                now: ack.now,
                bytes: MSS,
                size: MSS + 52,
                in_flight: WINDOW,
                is_retransmission: false,
                nxt,
            });
        }
        std::hint::black_box(control.pacing_rate(&window));
    }
    #[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
    let elapsed = started.elapsed();
    elapsed.as_secs_f64() * 1e9 / ACKNOWLEDGEMENTS as f64
}

fn main() {
    let allocation = Allocation::new(Rate::from_bps(100_000_000), 1);
    let capacity = Some(Capacity::new(allocation, Duration::from_millis(230)));
    println!("{:14} {:>8} {:>8}  ns for each acknowledgement and two segments", "control", "rfc", "linux");
    for kind in CONTROLS {
        let cost_in = |profile| {
            let config = Config { capacity, ..Config::new(profile) };
            (0..3).map(|_| cost(|| kind.build(&config))).fold(f64::INFINITY, f64::min)
        };
        println!("{:14} {:8.1} {:8.1}", kind.name, cost_in(Profile::Rfc), cost_in(Profile::Linux));
    }
}
