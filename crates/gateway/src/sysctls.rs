//! Settings of the host's kernel on which relaying, and forwarding what bypasses the gateway, depend.

use crate::config::{Accept, Settings};
use crate::relays::log_limit::LogLimit;
use crate::transport::tcp::{MIN_SEGMENT, PROBE_FLOOR, PROBING};
use kernel::interfaces::Interfaces;
use kernel::{Error, routes, sysctl};
use std::fs::File;
use std::os::unix::fs::FileExt;
use units::Instant;

/// Finds the socket of a packet before its route is looked up. The gateway's sockets have the addresses of clients and servers:
/// the kernel then drops packets that are to be forwarded to those, if the same addresses and ports were in use for a relayed
/// connection a moment ago (TIME-WAIT). IPv6 goes by the same setting.
pub(crate) const EARLY_DEMUX: &str = "net.ipv4.tcp_early_demux";

/// How many connections may wait to be accepted. Beyond, the kernel drops the last packet of a client's handshake, and resets the
/// client seconds later: while the processor is short, the gateway accepts fewer than come.
const BACKLOG: (&str, u32) = ("net.core.somaxconn", 32_768);

/// Sets what has to be set, and warns of what keeps connections from being relayed, or bypassed ones from being forwarded. Returns what
/// is to be kept set.
pub(crate) fn prepare(settings: &Settings) -> EarlyDemux {
    turn_early_demux_off();
    raise_backlog(settings);
    if settings.tcp.is_some() {
        turn_mtu_probing_on();
    }
    warn(settings);
    EarlyDemux::new()
}

/// Whether accepted sockets take over the fwmark of the SYN, unless the listener has one.
pub(crate) fn sockets_take_marks() -> bool {
    sysctl::read("net.ipv4.tcp_fwmark_accept").is_ok_and(|value| value == "1")
}

/// It saves a look-up for each packet, of which a gateway that forwards has no use.
fn turn_early_demux_off() {
    if is_early_demux_off() {
        return;
    }
    match sysctl::write(EARLY_DEMUX, "0") {
        Ok(()) => tracing::info!("{EARLY_DEMUX} is 0 from now on"),
        Err(error) => warn_of_early_demux(&error),
    }
}

fn is_early_demux_off() -> bool {
    sysctl::read(EARLY_DEMUX).is_ok_and(|value| value == "0")
}

fn warn_of_early_demux(error: &Error) {
    tracing::warn!(
        %error,
        "{EARLY_DEMUX} is not 0: a connection past the gateway hangs if its addresses and ports were relayed a minute ago"
    );
}

/// Keeps [`EARLY_DEMUX`] off where the gateway has begun with it off: other programs may load settings of the host at any time.
#[derive(Debug)]
pub(crate) struct EarlyDemux {
    is_kept_off: bool,
    /// Open since before the gateway gave up its privileges, if it could be opened.
    file: Option<File>,
    lines: LogLimit,
}

impl EarlyDemux {
    /// As it is now in the network namespace of the calling thread.
    fn new() -> Self {
        Self { is_kept_off: is_early_demux_off(), file: sysctl::open(EARLY_DEMUX).ok(), lines: LogLimit::default() }
    }

    /// Turns it off again if another program has turned it on, and logs that, once a minute at most.
    pub(crate) fn look(&mut self, now: Instant) {
        if !self.is_kept_off || is_early_demux_off() {
            return;
        }
        let outcome = match &self.file {
            Some(file) => {
                let failed = |source| Error::Failed { doing: format!("writing 0 to {EARLY_DEMUX}"), source };
                file.write_at(b"0", 0).map(drop).map_err(failed)
            }
            None => sysctl::write(EARLY_DEMUX, "0"),
        };
        let Some(not_logged) = self.lines.admit(now) else { return };
        let not_logged = (not_logged > 0).then_some(not_logged);
        match outcome {
            Ok(()) => tracing::warn!(not_logged, "another program has set {EARLY_DEMUX}; it is 0 again"),
            Err(error) => warn_of_early_demux(&error),
        }
    }
}

/// The lower bound counts where clients, or the peers' tunnels, connect to this host.
fn raise_backlog(settings: &Settings) {
    let (key, wanted) = BACKLOG;
    raise(key, wanted);
    let listens = !settings.rules.interfaces.is_empty() || settings.tcp.is_some();
    if let (true, true, Ok(value)) = (listens, is_below(key, wanted), sysctl::read(key)) {
        tracing::warn!(
            "{key} is {value} and could not be raised: while more connections than that wait to be accepted, others are reset seconds \
             after they were opened"
        );
    }
}

/// Without, connections that are open get stuck where the path drops large packets from then on and does not say so: the log
/// says so when it happens.
fn turn_mtu_probing_on() {
    // The floor first: without it, probing does more harm than good.
    raise(PROBE_FLOOR, MIN_SEGMENT);
    if is_below(PROBE_FLOOR, MIN_SEGMENT) {
        tracing::warn!("{PROBE_FLOOR} is below {MIN_SEGMENT}: an outage may leave connections with tiny packets");
    } else {
        raise(PROBING, 1);
    }
}

/// Sets `key` to `least` if it is lower and may be set.
fn raise(key: &str, least: u32) {
    if is_below(key, least) && sysctl::write(key, &least.to_string()).is_ok() {
        tracing::info!("{key} is {least} from now on");
    }
}

fn is_below(key: &str, least: u32) -> bool {
    sysctl::read(key).is_ok_and(|value| value.parse().is_ok_and(|value: u32| value < least))
}

/// Settings of the host that keep connections from being relayed, or bypassed ones from being forwarded.
fn warn(settings: &Settings) {
    let is = |path: &str, value: &str| std::fs::read_to_string(path).is_ok_and(|text| text.trim() == value);
    for family in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        if is(&format!("/proc/sys/net/{family}"), "0") {
            tracing::warn!(
                "net.{} is 0: connections that bypass the gateway are not forwarded",
                family.replace('/', ".")
            );
        }
    }
    if settings.accept == Accept::Confirmed && settings.rules.interfaces.is_empty() {
        tracing::warn!("accept = \"confirmed\" has no effect without [intercept] interfaces");
    }
    if routes::has_ipv6() && !settings.rules.ipv6 {
        tracing::warn!("this host has no address ::1: IPv6 connections are not relayed");
    }
    let present = Interfaces::new().ok().and_then(|mut interfaces| interfaces.all().ok()).unwrap_or_default();
    for port in present.iter().filter(|one| settings.rules.interfaces.contains(&one.name)) {
        if let Some(whole) = port.whole(&present) {
            tracing::warn!(
                interface = port.name,
                "it is a port of {0}, on which its packets arrive: nothing is intercepted; name {0} in [intercept] interfaces",
                whole.name
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::sandbox::{self, Files};

    /// `kernel.pid_max` is at least 301 on every Linux, and is nothing that a gateway would set.
    #[test]
    fn a_setting_that_is_high_enough_or_absent_or_no_number_is_left_alone() {
        let before = sysctl::read("kernel.pid_max").unwrap();
        raise("kernel.pid_max", 300);
        assert_eq!(sysctl::read("kernel.pid_max").unwrap(), before);
        let is = before.parse::<u32>().unwrap();
        assert_eq!([is, is + 1].map(|least| is_below("kernel.pid_max", least)), [false, true]);
        for key in ["kernel.no_such_setting", "kernel.ostype", "kernel.printk"] {
            assert!(!is_below(key, u32::MAX), "{key}");
        }
    }

    #[test]
    fn early_demux_that_another_program_turns_on_is_turned_off_again_unless_it_was_on_from_the_start() {
        let Some(namespace) = kernel::testing::namespace() else { return };
        let looked_at = |at_start: &'static str| {
            let look = move || {
                sysctl::write(EARLY_DEMUX, at_start).unwrap();
                let mut early_demux = EarlyDemux::new();
                sysctl::write(EARLY_DEMUX, "1").unwrap();
                // As the gateway is by then: the filter counts for this thread.
                let files = Files { readable: vec!["/proc".into()], writable: Vec::new() };
                sandbox::confine(&files).unwrap();
                early_demux.look(Instant::ZERO);
                sysctl::read(EARLY_DEMUX).unwrap()
            };
            namespace.run(look).unwrap()
        };
        assert_eq!((looked_at("0").as_str(), looked_at("1").as_str()), ("0", "1"));
    }
}
