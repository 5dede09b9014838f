//! The Linux settings behind a recommendation.

use super::host::MSS;
use super::{Control, Host, Link, Profile, Workload};
use units::{Bytes, Rate};

/// Where a setting lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// An attribute of the route over the link.
    Route(&'static str),
    /// A sysctl of the network namespace.
    Sysctl(&'static str),
    /// A sysctl that all namespaces of the host share.
    HostSysctl(&'static str),
    /// The queue discipline at the root of the interface to the link.
    RootQdisc,
}

impl Place {
    /// The name of what is set there.
    pub fn name(self) -> &'static str {
        match self {
            Place::Route(name) | Place::Sysctl(name) | Place::HostSysctl(name) => name,
            Place::RootQdisc => "qdisc",
        }
    }
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Where.
    pub place: Place,
    /// Its value as Linux takes it.
    pub value: String,
    /// What Linux has if nobody has changed it; `None` where that depends.
    pub default: Option<String>,
    /// A sentence why.
    pub why: String,
}

/// What the settings need to know beside the hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Purpose {
    /// For which Linux.
    pub profile: Profile,
    /// The bytes that wait unsent in a socket are to be few.
    pub latency: bool,
}

/// Every setting that makes a host what it should be, those that Linux has anyway among them.
pub fn settings(link: &Link, workload: &Workload, host: &Host, purpose: Purpose) -> Vec<Setting> {
    if purpose.profile == Profile::Linux22 {
        return buffers_of_2_2(host);
    }
    let mut settings = route(link, workload, host);
    settings.extend(buffers(link, host));
    settings.extend(always(link));
    if purpose.latency {
        settings.push(unsent(link.rate));
    }
    settings
}

fn setting(place: Place, value: impl ToString, default: Option<&str>, why: impl Into<String>) -> Setting {
    Setting { place, value: value.to_string(), default: default.map(str::to_owned), why: why.into() }
}

fn route(link: &Link, workload: &Workload, host: &Host) -> Vec<Setting> {
    let first = Bytes::new(u64::from(host.initial_window) * MSS as u64);
    let size = workload.size;
    let mut settings = vec![setting(
        Place::Route("initcwnd"),
        host.initial_window,
        Some("10"),
        format!(
            "the first {first} of {size} leave at once, instead of waiting for acknowledgements of {} each",
            link.rtt
        ),
    )];
    let held = host.first_window().as_u64().div_ceil(MSS as u64);
    let held = held.max(host.initial_receive_window.unwrap_or(0).into());
    if host.initial_window > Host::LINUX.initial_window || host.initial_receive_window.is_some() {
        settings.push(setting(
            Place::Route("initrwnd"),
            held,
            None,
            "the first window that is advertised to the other end; kernels before 4.19 start lower, whatever the buffer",
        ));
    }
    let why = match host.control {
        Control::Cubic => "fair to others, and not slower here than what is not",
        Control::Bbr => "goes by the rate that arrives: losses do not make it slow down",
        Control::Hybla => "its window grows as if the round trip were 25 ms",
        Control::Reno => "the standard's own",
    };
    settings.push(setting(Place::Route("congctl"), host.control.name(), Some("cubic"), why));
    if host.control == Control::Bbr {
        settings.push(setting(
            Place::RootQdisc,
            "fq",
            None,
            "bbr sends by the clock; fq keeps the time for all connections at less cost than a timer for each",
        ));
    }
    settings
}

/// Linux 2.2 has no sizes for TCP alone, and its initial window is part of its source.
fn buffers_of_2_2(host: &Host) -> Vec<Setting> {
    let size = host.receive.most.as_u64();
    let keys = ["net.core.rmem_default", "net.core.rmem_max", "net.core.wmem_default", "net.core.wmem_max"];
    let why = "the window is half of the receive buffer, and buffers do not grow by themselves";
    keys.map(|key| setting(Place::HostSysctl(key), size, Some("65535"), why)).into()
}

fn buffers(link: &Link, host: &Host) -> Vec<Setting> {
    let window = link.rate.bytes_in(link.rtt);
    let mut settings = vec![
        setting(
            Place::Sysctl("net.ipv4.tcp_rmem"),
            host.receive,
            Some(&Host::LINUX.receive.to_string()),
            format!(
                "{window} must be in flight to fill the link, at least half of a buffer is advertised as window, and the first \
                 flights must fit"
            ),
        ),
        setting(
            Place::Sysctl("net.ipv4.tcp_wmem"),
            host.send,
            Some(&Host::LINUX.send.to_string()),
            "what is sent stays in the buffer for a round trip, and longer while losses are repaired",
        ),
        setting(
            Place::Sysctl("net.ipv4.tcp_moderate_rcvbuf"),
            1,
            Some("1"),
            "buffers grow with what is read (programs that set SO_RCVBUF switch that off for themselves)",
        ),
        setting(
            Place::Sysctl("net.ipv4.tcp_window_scaling"),
            1,
            Some("1"),
            "without it no window is larger than 65,535 bytes",
        ),
    ];
    // The kernel doubles what a program asks for, and half of that is sure to be window.
    for key in ["net.core.rmem_max", "net.core.wmem_max"] {
        if window > CORE_MAX_DEFAULT {
            settings.push(setting(
                Place::HostSysctl(key),
                // An `int` of the kernel.
                window.as_u64().min(i32::MAX as u64),
                None,
                "for programs that size their buffers themselves: they are allowed no more, doubled; it is the whole host's",
            ));
        }
    }
    settings
}

/// `net.core.rmem_max` and `wmem_max` as most kernels have them.
const CORE_MAX_DEFAULT: Bytes = Bytes::new(212_992);

fn always(link: &Link) -> Vec<Setting> {
    let mut settings = vec![
        setting(
            Place::Sysctl("net.ipv4.tcp_sack"),
            1,
            Some("1"),
            "without it one lost packet is repaired in each round trip",
        ),
        setting(
            Place::Sysctl("net.ipv4.tcp_timestamps"),
            1,
            Some("1"),
            "round-trip times are measured for each packet, and fast links do not confuse sequence numbers",
        ),
        setting(
            Place::Sysctl("net.ipv4.tcp_recovery"),
            1,
            Some("1"),
            "RACK finds losses by time, tail losses and lost repairs among them",
        ),
        setting(
            Place::Sysctl("net.ipv4.tcp_no_metrics_save"),
            1,
            Some("0"),
            "a new connection does not begin with ssthresh and RTT of an earlier one that lost packets",
        ),
    ];
    if !link.shared {
        settings.push(setting(
            Place::Sysctl("net.ipv4.tcp_slow_start_after_idle"),
            0,
            Some("1"),
            "a connection that paused does not open its window all over again",
        ));
    }
    settings
}

/// Programs are woken to write more when this much is left: enough for 100 ms on the line.
fn unsent(rate: Rate) -> Setting {
    let bytes = rate.bytes_in(units::Duration::from_millis(100)).max(Bytes::new(131_072));
    setting(
        Place::Sysctl("net.ipv4.tcp_notsent_lowat"),
        // An `unsigned int` of the kernel.
        bytes.as_u64().min(u64::from(u32::MAX)),
        Some("4294967295"),
        "large send buffers do not fill with unsent data that newer data must wait behind",
    )
}
