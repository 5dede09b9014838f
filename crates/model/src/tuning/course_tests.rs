//! Courses beside what `bentpipe simulate` finds in the profile of Linux (means of five seeds) and beside Marchese's tables.

use super::super::host::Buffer;
use super::*;
use proptest::prelude::*;
use units::{Bytes, Probability, Rate};

const GEO: Link = Link {
    rate: Rate::from_bps(6_000_000),
    rtt: Duration::from_millis(550),
    loss: Probability::ZERO,
    queue: Bytes::new(412_500),
    shared: false,
};

fn lossy(loss: f64) -> Link {
    Link { loss: Probability::new(loss).expect("a probability"), ..GEO }
}

fn workload(size: &str, direction: Direction) -> Workload {
    Workload { size: Bytes::parse(size).expect("a size"), flows: 1, direction }
}

fn time(link: &Link, size: &str, direction: Direction, host: &Host) -> f64 {
    of(link, &workload(size, direction), host).time().as_secs_f64()
}

#[track_caller]
fn assert_near(found: f64, expected: f64, tolerance: f64) {
    assert!((found / expected - 1.0).abs() <= tolerance, "{found} beside {expected}");
}

#[test]
fn lossless_transfers_by_todays_linux_take_as_long_as_simulated() {
    use Direction::{Down, Up};
    for (size, direction, simulated) in [
        ("100kB", Up, 2.01),
        ("100kB", Down, 2.28),
        ("1MB", Up, 4.35),
        ("1MB", Down, 4.63),
        ("10MB", Up, 16.78),
        ("10MB", Down, 17.06),
    ] {
        assert_near(time(&GEO, size, direction, &Host::LINUX), simulated, 0.03);
    }
}

#[test]
fn initial_windows_buffers_and_bbr_as_simulated() {
    use Direction::{Down, Up};
    let window = |initial_window| Host { initial_window, ..Host::LINUX };
    let wide = |initial_window| Host { receive: Buffer::new(4096, 824_000, 6_291_456), ..window(initial_window) };
    let bbr = |host| Host { control: Control::Bbr, ..host };
    for (size, direction, host, simulated) in [
        ("100kB", Up, window(45), 1.43),
        ("100kB", Down, wide(285), 1.24),
        ("1MB", Up, window(45), 3.71),
        ("1MB", Up, wide(285), 2.67),
        ("1MB", Down, bbr(wide(285)), 2.48),
        ("1MB", Up, bbr(window(10)), 4.55),
        ("1MB", Up, bbr(window(45)), 3.64),
        ("100kB", Up, bbr(window(10)), 2.52),
        ("10MB", Up, bbr(window(10)), 18.4),
    ] {
        assert_near(time(&GEO, size, direction, &host), simulated, 0.10);
    }
}

#[test]
fn losses_as_simulated_within_a_fifth() {
    use Direction::{Down, Up};
    for (loss, size, direction, control, simulated) in [
        (1e-3, "10MB", Up, Control::Cubic, 18.47),
        (1e-2, "10MB", Up, Control::Cubic, 148.2),
        (1e-2, "1MB", Up, Control::Cubic, 11.57),
        (1e-3, "10MB", Down, Control::Bbr, 18.84),
        (1e-2, "10MB", Down, Control::Bbr, 20.46),
        (1e-2, "1MB", Up, Control::Bbr, 5.54),
    ] {
        let host = Host { control, ..Host::LINUX };
        assert_near(time(&lossy(loss), size, direction, &host), simulated, 0.2);
    }
}

/// The mean of the largest of geometrically distributed numbers.
#[test]
fn repairs_are_lost_as_often_as_what_they_repair() {
    for (segments, loss, expected) in
        [(1.0, 0.5, 1.0), (2.0, 0.5, 5.0 / 3.0), (1.0, 0.01, 0.01 / 0.99), (100.0, 0.0, 0.0)]
    {
        assert!((repair_rounds(segments, loss) - expected).abs() < 1e-6, "{segments}, {loss}");
    }
}

/// Marchese, table III: 100 KiB over 2.048 Mbit/s and 0.57 s; the window did not limit, acknowledgements came for each
/// segment, handshake included.
#[test]
fn initial_windows_of_table_iii() {
    let link = Link { rate: Rate::from_bps(2_048_000), rtt: Duration::from_millis(570), ..GEO };
    for (initial_window, printed) in [(1, 4.42), (2, 3.76), (4, 3.21), (6, 2.70), (8, 2.66), (10, 2.62)] {
        let host = Host { initial_window, receive: Buffer::new(4096, 262_144, 6_291_456), ..Host::LINUX };
        assert_near(time(&link, "100KiB", Direction::Up, &host), printed, 0.05);
    }
}

/// Marchese, table V: 2.8 MB, and table VII: 11 MB, by the window of half a buffer (320 KiB and more overflow nothing here).
#[test]
fn buffers_of_the_long_transfers() {
    let link = Link { rate: Rate::from_bps(2_048_000), rtt: Duration::from_millis(550), ..GEO };
    for (buffer, size, printed) in [(64, "11534336B", 191.1), (128, "11534336B", 95.4), (192, "11534336B", 64.8)] {
        let receive = Buffer::new(4096, buffer * 1024, buffer * 1024);
        let host = Host { receive, send: Buffer::new(4096, 65_536, 1 << 30), ..Host::LINUX_2_2 };
        assert_near(time(&link, size, Direction::Up, &host), printed, 0.06);
    }
}

#[test]
fn what_binds_is_named() {
    let binding = |link: &Link, size, host: &Host| of(link, &workload(size, Direction::Up), host).binding();
    assert_eq!(binding(&GEO, "1MB", &Host::LINUX), Binding::SlowStart);
    assert_eq!(binding(&GEO, "100MB", &Host::LINUX), Binding::Line);
    assert_eq!(binding(&GEO, "10MB", &Host::LINUX_2_2), Binding::ReceiveWindow);
    assert_eq!(binding(&lossy(1e-2), "10MB", &Host::LINUX), Binding::Loss);
    let short_of_send_buffer = Host { send: Buffer::new(4096, 16_384, 65_536), ..Host::LINUX };
    assert_eq!(binding(&GEO, "10MB", &short_of_send_buffer), Binding::SendBuffer);
}

#[test]
fn no_more_time_for_less_data_a_faster_link_or_fewer_losses() {
    let host = Host::LINUX;
    let mut last = 0.0;
    for kilobytes in 1..400_u64 {
        let size = Workload { size: Bytes::new(kilobytes * 7_000), flows: 1, direction: Direction::Up };
        let time = of(&GEO, &size, &host).time().as_secs_f64();
        assert!(time >= last, "{kilobytes}: {time} after {last}");
        last = time;
    }
    let at = |rate| time(&Link { rate: Rate::from_bps(rate), ..GEO }, "1MB", Direction::Up, &host);
    assert!(at(2_000_000) > at(6_000_000) && at(6_000_000) > at(20_000_000));
    let with = |loss| time(&lossy(loss), "10MB", Direction::Up, &host);
    assert!(with(0.0) < with(1e-3) && with(1e-3) < with(1e-2));
}

#[test]
fn parallel_transfers_share_the_line() {
    let many = Workload { size: Bytes::new(500_000), flows: 10, direction: Direction::Up };
    let course = of(&Link { queue: Bytes::new(10_000_000), ..GEO }, &many, &Host::LINUX);
    assert_near(course.line, 5e6 * 8.0 / (6e6 * MSS / PACKET), 1e-9);
}

proptest! {
    #[test]
    fn no_course_is_faster_than_the_physical_limit(
        kbps in 64u64..1_000_000, millis in 1u64..700, p in prop::option::of(1e-7f64..0.05), kilobytes in 0.0f64..9.0,
        flows in 1u32..20, control in 0usize..4, is_down in any::<bool>(),
    ) {
        let control = [Control::Reno, Control::Cubic, Control::Hybla, Control::Bbr][control];
        let (rate, rtt) = (Rate::from_bps(kbps * 1000), Duration::from_millis(millis));
        let link = Link { rate, rtt, ..lossy(p.unwrap_or_default()) };
        let direction = if is_down { Direction::Down } else { Direction::Up };
        let size = Bytes::new((1000.0 * 10f64.powf(kilobytes)) as u64);
        let time = |size| of(&link, &Workload { size, flows, direction }, &Host { control, ..Host::LINUX }).time();
        for size in [size, Bytes::new(1_000_000_000_000)] {
            let all = Bytes::new(size.as_u64() * u64::from(flows));
            let least = crate::limit::time(direction.rounds(), all, rate, rtt, link.loss);
            prop_assert!(time(size) >= least, "{} in {}, the limit is {}", all, time(size), least);
        }
    }

    #[test]
    fn twice_as_long_a_transfer_takes_twice_as_long(
        kbps in 64u64..100_000, millis in 1u64..700, loss in prop::option::of(1e-6f64..0.02), control in 0usize..4,
    ) {
        let control = [Control::Reno, Control::Cubic, Control::Hybla, Control::Bbr][control];
        let link = Link { rate: Rate::from_bps(kbps * 1000), rtt: Duration::from_millis(millis), ..lossy(loss.unwrap_or_default()) };
        let [once, twice] = ["500GB", "1000GB"].map(|size| time(&link, size, Direction::Up, &Host { control, ..Host::LINUX }));
        prop_assert!((1.95..2.05).contains(&(twice / once)), "{} after {}", twice, once);
    }
}
