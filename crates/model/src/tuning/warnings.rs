//! What is unsafe about a recommendation.

use super::host::LARGEST_WINDOW;
use super::{Choices, Control, Host, Link, Profile, Workload, course};
use crate::mathis;
use units::Bytes;

/// A sentence for each thing to know before it is applied.
pub(super) fn of(link: &Link, workload: &Workload, now: &Host, host: &Host, choices: &Choices) -> Vec<String> {
    let standard = Host::LINUX.initial_window;
    let mut warnings = Vec::new();
    if host.initial_window > standard {
        let burst = Bytes::new(u64::from(host.initial_window) * u64::from(workload.flows) * 1500);
        warnings.push(format!(
            "an initial window of {} segments sends {burst} at once, {} times what RFC 6928 allows: keep it to a route that leads \
             over this link alone{}",
            host.initial_window,
            host.initial_window.div_ceil(standard),
            if link.shared { "; on a shared path such bursts push out others' packets" } else { "" },
        ));
    }
    if link.loss.as_f64() > mathis::MAX_LOSS {
        warnings.push(format!(
            "loss {} is above {}: timeouts and lost repairs take over, which the prediction leaves out; have it simulated (--verify)",
            link.loss,
            mathis::MAX_LOSS
        ));
    }
    if !host.control.is_fair() {
        let name = host.control.name();
        warnings.push(if link.shared {
            format!(
                "{name} takes more than its share of a path from Reno and CUBIC connections: unsafe on a shared one"
            )
        } else {
            format!(
                "{name} takes more than its share from Reno and CUBIC connections: use it only where there are no such connections"
            )
        });
    }
    let in_flight = link.rate.bytes_in(link.rtt);
    if in_flight > LARGEST_WINDOW {
        warnings.push(format!(
            "{in_flight} must be in flight to fill the link, and no window of TCP is above {LARGEST_WINDOW} (RFC 7323): only several \
             connections fill it"
        ));
    }
    let path = in_flight + link.queue;
    let room = path.as_u64() / 1500 / u64::from(workload.flows.max(1));
    if workload.flows > 1 && room < u64::from(standard).min(workload.size.as_u64().div_ceil(1448)) {
        warnings.push(format!(
            "of each of {} transfers, path and queue have room for fewer segments than it sends at first ({room}): timeouts decide, which \
             the prediction leaves out; have it simulated (--verify)",
            workload.flows
        ));
    }
    if host.control == Control::Hybla && host.largest_window() > path {
        warnings.push(format!(
            "Linux's hybla opens its window to all that the receiver allows within two round trips: above {path} (path and queue) \
             most of it is dropped"
        ));
    }
    if choices.profile == Profile::Linux22 && host.initial_window != now.initial_window {
        warnings.push("Linux 2.2 has its initial window in its source: no setting changes it".to_owned());
    }
    if choices.profile == Profile::Linux22 && host.largest_window() > path {
        warnings.push(format!("a window above {path} (path and queue) overflows the queue"));
    }
    if link.shared && host.receive.most > Host::LINUX.receive.most {
        warnings.push(format!(
            "receive buffers of up to {} let one connection queue that much before a bottleneck that others share",
            host.receive.most
        ));
    }
    if link.shared && choices.controls.is_none() && choices.profile == Profile::Linux {
        warnings.extend(what_bbr_would_bring(link, workload, host));
    }
    if choices.profile == Profile::Linux && now.receive.start < host.receive.start {
        warnings.push(format!(
            "every new connection of the host may hold {} before its reader has read anything (tcp_rmem), not only those over \
             this link",
            host.receive.start
        ));
    }
    warnings
}

/// On a shared path BBR is recommended only to those who ask for it; they should know when to.
fn what_bbr_would_bring(link: &Link, workload: &Workload, host: &Host) -> Option<String> {
    let time = |host: &Host| course::of(link, workload, host).time().as_secs_f64();
    let (with, without) = (time(&Host { control: Control::Bbr, ..*host }), time(host));
    (with < 0.95 * without).then(|| {
        format!(
            "losses hold {} back: bbr would take about {with:.1} s instead of {without:.1} s, at the expense of others on the path \
             (--controls cubic,bbr lets it be recommended); gateways at both ends of the link do not depend on either",
            host.control.name()
        )
    })
}
