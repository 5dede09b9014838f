//! `transport = "tcp"`: the satellite transport that is the kernel's own TCP.

use super::{Choice, Link, format};
use document::Document;
use satpep::Mode;
use units::{Bytes, Duration, Rate};

/// The settings of the transport beside `[link]` and the peers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpSettings {
    /// The congestion control of what is sent to the satellite; the host's default if not set.
    pub congestion_control: Option<String>,
    /// Whether connections may open with TCP Fast Open.
    pub fast_open: bool,
    /// Connections to each peer that are opened before they are needed.
    pub warm_connections: usize,
    /// What may wait at the link under the cross-layer control.
    pub target_queue: Duration,
    /// A connection's send buffer.
    pub send_buffer: Bytes,
    /// A connection's receive buffer.
    pub receive_buffer: Bytes,
    /// Whether each of the two is set, rather than what follows from the link.
    pub buffers_are_set: [bool; 2],
}

/// The congestion control that follows the link capacity.
pub(crate) const CROSS_LAYER: &str = "bp_cross";
/// Target queue by default: as long as segments bunch in timeslots and routers.
const TARGET_QUEUE: Duration = Duration::from_millis(20);
/// The smallest default buffer: it holds the kernel's initial window many times.
const MIN: Bytes = Bytes::new(256 << 10);
/// The largest one.
const MAX: Bytes = Bytes::new(256 << 20);

/// `secured_externally` must stand where, and only where, the transport is `tcp` in clear.
pub(super) fn check_protection(document: &mut Document<'_>, choice: Choice) {
    let is_protected = document.typed(&["gateway", "secured_externally"]).unwrap_or(false);
    let is_open = choice.is_tcp && choice.mode == Mode::Clear;
    if is_open && !is_protected {
        let problem = " = \"clear\" with transport = \"tcp\" neither encrypts nor authenticates relayed data on the path: add \
                       secured_externally = true if the satellite link is secured externally";
        document.fault(&["gateway", "mode"], problem);
    } else if is_protected && !is_open {
        let problem = " has no effect without transport = \"tcp\" and mode = \"clear\"";
        document.fault(&["gateway", "secured_externally"], problem);
    }
}

/// Reads `[tcp]`; `None` if that is not the transport.
pub(super) fn read(document: &mut Document<'_>, choice: Choice, link: Option<&Link>) -> Option<TcpSettings> {
    let written: format::Tcp = document.section("tcp")?;
    let congestion_control = written.congestion_control.map(|name| name.0);
    if !choice.is_tcp && document.node(&["tcp"]).is_some() {
        document.fault(&["tcp"], " has no effect without gateway.transport = \"tcp\"");
    } else if choice.is_tcp && written.target_queue.is_some() && congestion_control.as_deref() != Some(CROSS_LAYER) {
        let problem = format!(" has no effect without congestion_control = \"{CROSS_LAYER}\"");
        document.fault(&["tcp", "target_queue"], &problem);
    }
    let link = link.filter(|_| choice.is_tcp)?;
    Some(TcpSettings {
        congestion_control,
        fast_open: written.fast_open.unwrap_or(true),
        warm_connections: written.warm_connections.unwrap_or(8).into(),
        target_queue: written.target_queue.map_or(TARGET_QUEUE, |queue| queue.0),
        buffers_are_set: [&written.send_buffer, &written.receive_buffer].map(Option::is_some),
        send_buffer: written.send_buffer.map_or_else(|| three_bdp(link.nominal_rate(), link.rtt), |size| size.0),
        receive_buffer: written.receive_buffer.map_or_else(|| three_bdp(link.receive_rate, link.rtt), |size| size.0),
    })
}

/// Three bandwidth-delay products: one under way, one that waits behind a loss, and what the kernel counts beside the data.
fn three_bdp(rate: Rate, rtt: Duration) -> Bytes {
    rate.bytes_in(rtt * 3).clamp(MIN, MAX)
}

/// The kernel's names have at most 15 bytes (`TCP_CA_NAME_MAX`).
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
    fn buffers_hold_three_bandwidth_delay_products_unless_configured() {
        let tcp = settings("transport = \"tcp\"", "").tcp.expect("the transport is tcp");
        assert_eq!(tcp.send_buffer.as_u64(), 6_000_000 * 3 / 8 * 550 / 1000);
        assert_eq!((tcp.fast_open, tcp.warm_connections, tcp.congestion_control), (true, 8, None));
        let configured = "[tcp]\ncongestion_control = \"hybla\"\nreceive_buffer = \"1MB\"\nwarm_connections = 0\nfast_open = false\n";
        let tcp = settings("transport = \"tcp\"", configured).tcp.expect("the transport is tcp");
        assert_eq!((tcp.receive_buffer.as_u64(), tcp.warm_connections, tcp.fast_open), (1_000_000, 0, false));
        assert_eq!(tcp.congestion_control.as_deref(), Some("hybla"));
        assert_eq!(settings("transport = \"satpep\"", "").tcp, None);
    }

    #[test]
    fn without_a_far_gateway_a_peer_has_no_key() {
        let direct = "[[peer]]\nname = \"servers\"\nfar_gateway = false\nroutes = [\"192.0.2.0/24\"]\noverlap = true\n";
        let settings = settings("transport = \"tcp\"", direct);
        assert!(settings.peers[0].public_key.is_some() && settings.peers[1].public_key.is_none());
    }

    #[test]
    fn wrong_settings_are_refused_with_line_key_and_what_is_allowed() {
        let clear = "transport = \"tcp\"\nmode = \"clear\"";
        for (gateway, rest, expected) in [
            ("transport = \"udp\"", "", "2:13: gateway.transport = \"udp\": expected \"satpep\", \"tcp\""),
            (clear, "address = \"192.0.2.1:1\"\n", "3:8: gateway.mode = \"clear\" with transport"),
            ("secured_externally = true", "", "2:22: gateway.secured_externally has no effect"),
            ("transport = \"tcp\"\nsecured_externally = true", "", "3:22: gateway.secured_externally has no effect"),
            (
                "transport = \"tcp\"\nmode = \"clear\"\nsecured_externally = true",
                "",
                "9:1: peer.hub.accept_from is missing: expected",
            ),
            ("transport = \"tcp\"", "weight = 2\n", "10:10: peer.hub.weight has no effect"),
            (
                "transport = \"tcp\"",
                "accept_from = [\"host\"]\n",
                "10:16: peer.hub.accept_from.0 = \"host\": expected a prefix",
            ),
            (
                "transport = \"tcp\"",
                "far_gateway = false\n",
                "9:14: peer.hub.public_key is given, and far_gateway = false",
            ),
            ("", "[tcp]\nwarm_connections = 1\n", "10:1: tcp has no effect without"),
            (
                "transport = \"tcp\"",
                "[tcp]\nwarm_connections = 1025\n",
                "11:20: tcp.warm_connections = 1025: expected an integer from 0 to 1024",
            ),
            (
                "transport = \"tcp\"",
                "[tcp]\ntarget_queue = \"10ms\"\n",
                "11:16: tcp.target_queue has no effect without congestion_control = \"bp_cross\"",
            ),
            (
                "transport = \"tcp\"",
                "[tcp]\ncongestion_control = \"bp_cross\"\ntarget_queue = \"2s\"\n",
                "12:16: tcp.target_queue = \"2s\": expected a time of at most 1s",
            ),
            (
                "transport = \"tcp\"",
                "[tcp]\nsend_buffer = \"1kB\"\n",
                "11:15: tcp.send_buffer = \"1kB\": expected a size from 64KiB",
            ),
            (
                "transport = \"tcp\"",
                "[tcp]\ncongestion_control = \"a b\"\n",
                "11:22: tcp.congestion_control = \"a b\": expected a name",
            ),
            ("transport = \"tcp\"", "[tcp]\nfast_open = 1\n", "11:13: tcp.fast_open = 1: expected true or false"),
        ] {
            let faults = faults(&with(gateway, rest));
            assert!(faults[0].starts_with(&format!("gateway.toml:{expected}")), "{expected}\n{faults:#?}");
            assert_eq!(faults.len(), 1, "{faults:#?}");
        }
        let open =
            with("transport = \"tcp\"\nmode = \"clear\"\nsecured_externally = true\ncipher = \"aes-128-gcm\"", "")
                + "accept_from = [\"192.0.2.1/32\"]\n[debug]\nkey_log = \"/k\"\n";
        let unused = faults(&open);
        assert!(unused.len() == 2 && unused[0].contains("gateway.cipher has no effect with transport"), "{unused:#?}");
        assert!(unused[1].contains("debug.key_log has no effect with transport"), "{unused:#?}");
        let fixed = with("transport = \"tcp\"", "").replace("rtt =", "capacity = \"fixed\"\nrtt =");
        assert!(faults(&fixed)[0].contains("link.capacity has no effect with transport"), "{:?}", faults(&fixed));
        let satpep = with("transport = \"tcp\"", "").replace("rtt =", "cross_traffic = \"fair\"\nrepair = true\nrtt =");
        let faults = faults(&satpep);
        assert!(
            faults.len() == 2 && faults.iter().all(|fault| fault.contains("has no effect with transport")),
            "{faults:#?}"
        );
    }
}
