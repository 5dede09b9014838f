//! The rules beside what the specification and the studies say.

use super::*;

fn link(rate: &str, rtt: &str, loss: f64) -> Link {
    let (rate, rtt) = (Rate::parse(rate).expect("a rate"), Duration::parse(rtt).expect("a time"));
    Link { rate, rtt, loss: Probability::new(loss).expect("a probability"), queue: rate.bytes_in(rtt), shared: false }
}

fn geo() -> Link {
    link("6Mbit/s", "550ms", 0.0)
}

fn down(size: &str) -> Workload {
    Workload { size: Bytes::parse(size).expect("a size"), flows: 1, direction: Direction::Down }
}

fn choices() -> Choices {
    Choices { controls: None, initial_window: None, profile: Profile::Linux }
}

fn purpose(latency: bool) -> settings::Purpose {
    settings::Purpose { latency, profile: Profile::Linux }
}

fn linux(link: &Link, workload: &Workload) -> Recommendation {
    recommend(link, workload, &Host::LINUX, &choices()).expect("a recommendation")
}

#[test]
fn the_papers_link_needs_146_kb_of_window_and_twice_that_of_buffer() {
    let link = link("2.048Mbit/s", "570ms", 0.0);
    let choices = Choices { profile: Profile::Linux22, ..choices() };
    let found = recommend(&link, &down("2.8MB"), &Host::LINUX_2_2, &choices).expect("a recommendation");
    assert_eq!(found.window.as_u64(), 145_920);
    assert!((291_840..=320_000).contains(&found.buffer.as_u64()), "{}", found.buffer);
    // The study's best buffer, 320 kB, gains 53.5 % on 2.8 MB with the initial window as it is (table V).
    assert!(found.gain_percent() > 40.0, "{}", found.gain_percent());
    assert_eq!(found.after.binding(), Binding::Line);
}

#[test]
fn twenty_megabits_need_1375_kb_and_scaled_windows() {
    let link = link("20Mbit/s", "550ms", 0.0);
    for (profile, now) in [(Profile::Linux, Host::LINUX), (Profile::Linux22, Host::LINUX_2_2)] {
        let choices = Choices { profile, ..choices() };
        let found = recommend(&link, &down("10MB"), &now, &choices).expect("a recommendation");
        assert_eq!(found.window.as_u64(), 1_375_000);
        assert!(found.host.window_scale() >= 5);
        assert!(found.host.largest_window() >= found.window);
    }
}

#[test]
fn gain_is_marcheses() {
    let time = Duration::from_secs_f64;
    // Table IV: 49.22 s and 19.18 s.
    assert!((gain_percent(time(49.22), time(19.18)) - 61.03).abs() < 0.01);
    assert_eq!(gain_percent(time(1.0), time(1.2)), 0.0);
}

#[test]
fn short_transfers_gain_by_their_initial_window_and_never_outgrow_the_queue() {
    let found = linux(&geo(), &down("1MB"));
    assert!(found.host.initial_window > 100, "{:?}", found.host);
    assert!(u64::from(found.host.initial_window) * 1500 <= 412_500);
    assert!(found.host.first_window().as_u64() >= u64::from(found.host.initial_window) * 1448);
    assert!(found.gain_percent() > 30.0);
    let small_queue = Link { queue: Bytes::new(30_000), ..geo() };
    assert!(linux(&small_queue, &down("1MB")).host.initial_window <= 20);
    let many = Workload { flows: 10, ..down("1MB") };
    assert!(linux(&geo(), &many).host.initial_window <= 27);
    // Ten segments are enough for ten segments.
    assert_eq!(linux(&geo(), &down("14kB")).host.initial_window, 10);
}

#[test]
fn buffers_are_never_made_smaller_and_grow_with_the_link() {
    assert_eq!(linux(&geo(), &down("10MB")).host.receive.most, Host::LINUX.receive.most);
    let fast = linux(&link("100Mbit/s", "550ms", 0.0), &down("1GB"));
    assert!(fast.host.largest_window() >= fast.window);
    assert!(fast.host.send.most >= fast.window);
    assert_eq!(fast.before.binding(), Binding::ReceiveWindow);
    assert!(fast.gain_percent() > 40.0);
}

/// RFC 7323, section 2.3; and numbers of the kernel's settings have 31 bits.
#[test]
fn no_link_gets_a_window_that_tcp_cannot_say_or_a_buffer_that_the_kernel_refuses() {
    let found = linux(&link("100Gbit/s", "200ms", 0.0), &down("100GB"));
    for buffer in [found.host.receive, found.host.send] {
        assert!(buffer.most.as_u64() <= i32::MAX as u64 && buffer.most >= Bytes::new((2 * 65_535) << 14), "{buffer}");
    }
    let fastest = 100e9 / f64::from(65_535 << 14) * 0.2;
    assert!(found.after.time().as_secs_f64() > fastest, "{}", found.after.time());
    assert_eq!(found.after.binding(), Binding::ReceiveWindow);
    assert!(
        found.warnings.iter().any(|warning| warning.contains("is above 1.074GB (RFC 7323)")),
        "{:?}",
        found.warnings
    );
}

#[test]
fn so_many_transfers_that_their_first_windows_overflow_the_queue_are_doubted() {
    let doubted = |flows| {
        let found = linux(&geo(), &Workload { flows, ..down("1MB") });
        found.warnings.iter().any(|warning| warning.contains("timeouts decide"))
    };
    assert_eq!([1, 4, 20, 100, 500].map(doubted), [false, false, false, true, true]);
}

#[test]
fn losses_above_what_the_windows_account_for_are_doubted() {
    let doubted = |loss| {
        let found = linux(&link("50Mbit/s", "550ms", loss), &down("30MB"));
        found.warnings.iter().any(|warning| warning.contains("is above 0.02: timeouts"))
    };
    assert_eq!([0.0, 0.02, 0.05, 0.5].map(doubted), [false, false, true, true]);
}

#[test]
fn losses_call_for_bbr_where_nobody_else_is_hurt() {
    let lossy = link("6Mbit/s", "550ms", 1e-2);
    let found = linux(&lossy, &down("10MB"));
    assert_eq!(found.host.control, Control::Bbr);
    assert!(found.gain_percent() > 80.0);
    assert!(found.warnings.iter().any(|warning| warning.contains("bbr takes more than its share")));
    assert_eq!(linux(&geo(), &down("10MB")).host.control, Control::Cubic);
}

#[test]
fn a_shared_path_gets_what_is_safe_there_and_warnings_about_the_rest() {
    let shared = Link { shared: true, ..link("6Mbit/s", "550ms", 1e-2) };
    let found = linux(&shared, &down("10MB"));
    assert_eq!((found.host.initial_window, found.host.control), (10, Control::Cubic));
    assert!(found.warnings.iter().any(|warning| warning.contains("bbr would take")), "{:?}", found.warnings);
    let asked = Choices {
        controls: Some(vec![Control::Cubic, Control::Bbr]),
        initial_window: Some(40),
        profile: Profile::Linux,
    };
    let found = recommend(&shared, &down("10MB"), &Host::LINUX, &asked).expect("a recommendation");
    assert_eq!((found.host.initial_window, found.host.control), (40, Control::Bbr));
    for unsafe_part in ["initial window of 40", "bbr takes more", "shared"] {
        assert!(
            found.warnings.iter().any(|warning| warning.contains(unsafe_part)),
            "{unsafe_part}: {:?}",
            found.warnings
        );
    }
    let settings = settings(&shared, &down("10MB"), &found.host, purpose(false));
    assert!(settings.iter().all(|setting| setting.place.name() != "net.ipv4.tcp_slow_start_after_idle"));
}

#[test]
fn impossible_parameters_are_named_with_what_they_may_be() {
    let wrong = |link: Link, workload: Workload, choices: Choices| {
        recommend(&link, &workload, &Host::LINUX, &choices).expect_err("a fault").to_string()
    };
    let work = down("1MB");
    for (link, workload, choices, parameter) in [
        (Link { rate: Rate::ZERO, ..geo() }, work, choices(), "rate = 0bit/s: allowed from 1kbit/s"),
        (Link { rtt: Duration::ZERO, ..geo() }, work, choices(), "rtt = 0s: allowed above 0s"),
        (link("6Mbit/s", "550ms", 0.9), work, choices(), "loss = 0.9: allowed from 0 to 0.5"),
        (Link { queue: Bytes::new(100), ..geo() }, work, choices(), "queue = 100B: allowed at least a packet"),
        (geo(), Workload { size: Bytes::ZERO, ..work }, choices(), "size = 0B: allowed above 0B"),
        (geo(), Workload { flows: 0, ..work }, choices(), "flows = 0: allowed from 1"),
        (
            Link { queue: Bytes::new(1500), ..link("1kbit/s", "550ms", 0.0) },
            Workload { size: Bytes::new(1 << 63), ..work },
            choices(),
            "size = 9223372036.855GB: allowed what the link delivers within 584 years",
        ),
        (geo(), work, Choices { initial_window: Some(0), ..choices() }, "initial window = 0: allowed from 1"),
        (geo(), work, Choices { controls: Some(vec![]), ..choices() }, "controls = none: allowed at least one"),
    ] {
        let fault = wrong(link, workload, choices);
        assert!(fault.starts_with(parameter), "{fault}");
    }
}

#[test]
fn settings_carry_values_that_linux_takes_and_a_reason_each() {
    let lossy = link("50Mbit/s", "550ms", 1e-3);
    let found = linux(&lossy, &down("10MB"));
    let all = settings(&lossy, &down("10MB"), &found.host, purpose(true));
    let value = |name: &str| all.iter().find(|s| s.place.name() == name).map(|s| s.value.clone());
    assert_eq!(value("initcwnd"), Some(found.host.initial_window.to_string()));
    assert_eq!(value("net.ipv4.tcp_rmem"), Some(found.host.receive.to_string()));
    assert_eq!(value("net.ipv4.tcp_notsent_lowat"), Some("625000".to_owned()));
    assert!(value("net.core.rmem_max").is_some());
    assert_eq!(value("qdisc").is_some(), found.host.control == Control::Bbr);
    assert!(all.iter().all(|setting| setting.why.len() > 20));
}

/// The gain counts on a first window that is advertised as it is recommended.
#[test]
fn a_limit_of_the_first_receive_window_is_raised_whatever_the_initial_window() {
    let shared = Link { shared: true, ..geo() };
    for (limit, expected) in [(None, None), (Some(2), Some("46")), (Some(10), Some("46")), (Some(100), Some("100"))] {
        let now = Host { initial_receive_window: limit, ..Host::LINUX };
        let found = recommend(&shared, &down("100kB"), &now, &choices()).expect("a recommendation");
        let settings = settings(&shared, &down("100kB"), &found.host, purpose(false));
        let set = settings.iter().find(|setting| setting.place == Place::Route("initrwnd"));
        assert_eq!(set.map(|setting| setting.value.as_str()), expected, "{limit:?}");
    }
}

#[test]
fn what_a_setting_costs_is_what_the_rest_cannot_make_good() {
    let host = Host { grows: false, control: Control::Reno, ..Host::LINUX };
    let lossy = link("6Mbit/s", "550ms", 1e-2);
    let found = recommend(&lossy, &down("10MB"), &host, &choices()).expect("a recommendation");
    let costs = costs(&lossy, &down("10MB"), &host, &found.host);
    let of = |knob| costs.iter().find(|cost| cost.knob == knob).map(|cost| cost.time.as_secs_f64());
    assert!(of(Knob::Control) > Some(50.0), "{costs:?}");
    assert!(of(Knob::InitialWindow) > Some(0.5), "{costs:?}");
    assert!(of(Knob::ReceiveBuffer) > Some(5.0), "{costs:?}");
    // What is as it should be costs nothing.
    assert_eq!(of(Knob::WindowScaling), Some(0.0));
    assert_eq!(of(Knob::SendBuffer), Some(0.0));
}
