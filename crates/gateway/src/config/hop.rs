//! `leg = "tcp"`: the satellite leg that is the kernel's own TCP.

use super::Link;
use super::document::{Document, Section};
use satpep::Mode;
use units::{Bytes, Duration, Rate};

/// What the leg is told beside `[link]` and the peers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// The congestion control of what is sent to the satellite; the host's default if not set.
    pub congestion_control: Option<String>,
    /// Whether connections may open with TCP Fast Open.
    pub fast_open: bool,
    /// Connections to each peer that are kept open ahead of need.
    pub warm: usize,
    /// What may wait at the link under the cross-layer control.
    pub queue: Duration,
    /// A connection's send buffer.
    pub send_buffer: Bytes,
    /// A connection's receive buffer.
    pub receive_buffer: Bytes,
}

/// The congestion control that goes by what the link carries.
pub(crate) const CROSS_LAYER: &str = "bp_cross";
/// What may wait at the link, unless told: as long as segments bunch in time slots and routers.
const QUEUE: Duration = Duration::from_millis(20);
/// At most so much.
const MOST_QUEUE: Duration = Duration::from_secs(1);
/// The smallest buffer that is chosen without being told: it holds the kernel's initial window many times.
const LEAST: Bytes = Bytes::new(256 << 10);
/// The largest one.
const MOST: Bytes = Bytes::new(256 << 20);

/// Reads which leg it is: whether it is `tcp`. `protected_hop` must stand where, and only where, that leg is in clear.
pub(super) fn is_chosen(gateway: &mut Section<'_>, mode: Mode) -> bool {
    let is_tcp = gateway.choice("leg", &[("satpep", false), ("tcp", true)]).unwrap_or(false);
    let is_protected = gateway.flag("protected_hop").unwrap_or(false);
    if is_tcp && mode == Mode::Clear && !is_protected {
        gateway.refuse(
            "mode",
            "= \"clear\" with leg = \"tcp\" leaves what is relayed open to everybody on the way: add protected_hop = true if \
             the hop between the gateways is protected otherwise",
        );
    } else if is_protected && !(is_tcp && mode == Mode::Clear) {
        gateway.refuse("protected_hop", "has no effect without leg = \"tcp\" and mode = \"clear\"");
    }
    is_tcp
}

/// Refuses settings that the leg knows nothing of.
pub(super) fn refuse_others(section: &mut Section<'_>, keys: &[&'static str]) {
    for key in keys.iter().filter(|key| section.has(key)).collect::<Vec<_>>() {
        section.refuse(key, "has no effect with leg = \"tcp\"");
    }
}

/// Reads `[tcp]`; `None` if that is not the leg.
pub(super) fn read(document: &mut Document<'_>, is_chosen: bool, link: Option<&Link>) -> Option<Hop> {
    let mut section = document.section("tcp");
    let line = section.line();
    let size = "a size from 64KiB to 1GiB, such as \"4MB\"";
    let in_range = |size: &Bytes| (64 << 10..=1 << 30).contains(&size.as_u64());
    let name = "a name of at most 15 letters, digits, - and _, such as \"cubic\"";
    let congestion_control = section.text("congestion_control", name, valid_control);
    let fast_open = section.flag("fast_open");
    let warm = section.integer("warm", 0..=1024);
    let queue = section.checked("queue", "a time of at most 1s, such as \"20ms\"", |queue| *queue <= MOST_QUEUE);
    let send_buffer = section.checked("send_buffer", size, in_range);
    let receive_buffer = section.checked("receive_buffer", size, in_range);
    section.end(document);
    if !is_chosen && line > 0 {
        document.fault(line, "[tcp] has no effect without [gateway] leg = \"tcp\"".into());
    } else if is_chosen && queue.is_some() && congestion_control.as_deref() != Some(CROSS_LAYER) {
        document.fault(line, format!("[tcp] queue has no effect without congestion_control = \"{CROSS_LAYER}\""));
    }
    let link = link.filter(|_| is_chosen)?;
    Some(Hop {
        congestion_control,
        fast_open: fast_open.unwrap_or(true),
        warm: warm.unwrap_or(8) as usize,
        queue: queue.unwrap_or(QUEUE),
        send_buffer: send_buffer.unwrap_or_else(|| three_bdp(link.rate, link.rtt)),
        receive_buffer: receive_buffer.unwrap_or_else(|| three_bdp(link.receive_rate, link.rtt)),
    })
}

/// Three bandwidth-delay products: one under way, one that waits behind a loss, and what the kernel counts beside the data.
fn three_bdp(rate: Rate, rtt: Duration) -> Bytes {
    rate.bytes_in(rtt * 3).clamp(LEAST, MOST)
}

/// The kernel's names have at most 15 bytes (`TCP_CA_NAME_MAX`).
fn valid_control(name: &str) -> bool {
    (1..=15).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::super::tests::{faults, minimal};
    use super::super::{Settings, parse};

    fn with(gateway: &str, rest: &str) -> String {
        minimal().replace("[gateway]", &format!("[gateway]\n{gateway}")) + rest
    }

    fn settings(gateway: &str, rest: &str) -> Settings {
        parse(&with(gateway, rest), "gateway.toml").expect("no faults")
    }

    #[test]
    fn buffers_hold_three_bandwidth_delay_products_unless_told() {
        let hop = settings("leg = \"tcp\"", "").hop.expect("the leg is tcp");
        assert_eq!(hop.send_buffer.as_u64(), 6_000_000 * 3 / 8 * 550 / 1000);
        assert_eq!((hop.fast_open, hop.warm, hop.congestion_control), (true, 8, None));
        let told = "[tcp]\ncongestion_control = \"hybla\"\nreceive_buffer = \"1MB\"\nwarm = 0\nfast_open = false\n";
        let hop = settings("leg = \"tcp\"", told).hop.expect("the leg is tcp");
        assert_eq!((hop.receive_buffer.as_u64(), hop.warm, hop.fast_open), (1_000_000, 0, false));
        assert_eq!(hop.congestion_control.as_deref(), Some("hybla"));
        assert_eq!(settings("leg = \"satpep\"", "").hop, None);
    }

    #[test]
    fn without_a_far_gateway_a_peer_has_no_key() {
        let direct = "[[peer]]\nname = \"servers\"\nfar_gateway = false\nroutes = [\"192.0.2.0/24\"]\noverlap = true\n";
        let settings = settings("leg = \"tcp\"", direct);
        assert!(settings.peers[0].public_key.is_some() && settings.peers[1].public_key.is_none());
    }

    #[test]
    fn wrong_settings_are_refused_with_line_key_and_what_is_allowed() {
        let clear = "leg = \"tcp\"\nmode = \"clear\"";
        for (gateway, rest, expected) in [
            ("leg = \"udp\"", "", "2: [gateway] leg = \"udp\": expected \"satpep\" or \"tcp\""),
            (clear, "address = \"192.0.2.1:1\"\n", "3: [gateway] mode = \"clear\" with leg"),
            ("protected_hop = true", "", "2: [gateway] protected_hop has no effect"),
            ("leg = \"tcp\"\nprotected_hop = true", "", "3: [gateway] protected_hop has no effect"),
            ("leg = \"tcp\"\nmode = \"clear\"\nprotected_hop = true", "", "9: [[peer]] from is missing: expected"),
            ("leg = \"tcp\"", "weight = 2\n", "10: [[peer]] weight has no effect"),
            ("leg = \"tcp\"", "from = [\"host\"]\n", "10: [[peer]] from = \"host\": expected a list of prefixes"),
            ("leg = \"tcp\"", "far_gateway = false\n", "9: [[peer]] public_key is given, and far_gateway = false"),
            ("", "[tcp]\nwarm = 1\n", "10: [tcp] has no effect without"),
            ("leg = \"tcp\"", "[tcp]\nwarm = 1025\n", "11: [tcp] warm = 1025: expected an integer from 0 to 1024"),
            (
                "leg = \"tcp\"",
                "[tcp]\nqueue = \"10ms\"\n",
                "10: [tcp] queue has no effect without congestion_control = \"bp_cross\"",
            ),
            (
                "leg = \"tcp\"",
                "[tcp]\ncongestion_control = \"bp_cross\"\nqueue = \"2s\"\n",
                "12: [tcp] queue = \"2s\": expected a time of at most 1s",
            ),
            (
                "leg = \"tcp\"",
                "[tcp]\nsend_buffer = \"1kB\"\n",
                "11: [tcp] send_buffer = \"1kB\": expected a size from 64KiB",
            ),
            (
                "leg = \"tcp\"",
                "[tcp]\ncongestion_control = \"a b\"\n",
                "11: [tcp] congestion_control = \"a b\": expected a name",
            ),
            ("leg = \"tcp\"", "[tcp]\nfast_open = 1\n", "11: [tcp] fast_open = 1: expected true or false"),
        ] {
            let faults = faults(&with(gateway, rest));
            assert!(faults[0].starts_with(&format!("gateway.toml:{expected}")), "{expected}\n{faults:#?}");
            assert_eq!(faults.len(), 1, "{faults:#?}");
        }
        let learnt = with("leg = \"tcp\"", "").replace("rtt =", "knowledge = \"learnt\"\nrtt =");
        assert!(faults(&learnt)[0].contains("[link] knowledge = \"learnt\" has no effect with leg"));
        let satpep = with("leg = \"tcp\"", "").replace("rtt =", "share = \"fair\"\nrepair = true\nrtt =");
        let faults = faults(&satpep);
        assert!(
            faults.len() == 2 && faults.iter().all(|fault| fault.contains("has no effect with leg")),
            "{faults:#?}"
        );
    }
}
