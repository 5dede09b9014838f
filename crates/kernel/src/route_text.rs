//! Routes as `ip` prints them, for people, and the settings of TCP that a route has.

use crate::netlink;
use crate::route::{NEXT_HOP, NEXT_HOP_ID, PROTOCOL, Route, TOS, address, next_hops};
use std::fmt::{Formatter, Result};

/// Settings of TCP (`RTAX_*`): their numbers, and their names for `ip`.
const METRICS: [(u16, &str); 16] = [
    (2, "mtu"),
    (3, "window"),
    (4, "rtt"),
    (5, "rttvar"),
    (6, "ssthresh"),
    (7, "cwnd"),
    (8, "advmss"),
    (9, "reordering"),
    (10, "hoplimit"),
    (11, "initcwnd"),
    (12, "features"),
    (13, "rto_min"),
    (14, "initrwnd"),
    (15, "quickack"),
    (CONTROL, "congctl"),
    (17, "fastopen_no_cookie"),
];
/// A bit for each setting that the kernel may not adapt.
const LOCK: u16 = 1;
const CONTROL: u16 = 16;

/// One setting of TCP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) is_locked: bool,
}

/// The attributes inside an attribute.
pub(crate) fn nested(value: &[u8]) -> impl Iterator<Item = (u16, Vec<u8>)> {
    netlink::attributes(value, 0)
}

/// The settings in the value of `RTA_METRICS`.
pub(crate) fn metrics(value: &[u8]) -> Vec<Metric> {
    let locks =
        nested(value).find(|(kind, _)| *kind == LOCK).and_then(|(_, value)| netlink::i32_at(&value, 0)).unwrap_or(0);
    let metric = |(kind, value): (u16, Vec<u8>)| {
        let (_, name) = METRICS.into_iter().find(|(of, _)| *of == kind)?;
        let value = match kind {
            CONTROL => String::from_utf8_lossy(value.split(|byte| *byte == 0).next()?).into_owned(),
            _ => (netlink::i32_at(&value, 0)? as u32).to_string(),
        };
        Some(Metric { name, value, is_locked: locks & 1_i32.checked_shl(u32::from(kind)).unwrap_or(0) != 0 })
    };
    nested(value).filter_map(metric).collect()
}

/// Number and value of the setting `name` as the kernel takes it; `None` if there is no such setting, or it has no such value.
pub(crate) fn metric(name: &str, value: Option<&str>) -> Option<(u16, Option<Vec<u8>>)> {
    let (kind, _) = METRICS.into_iter().find(|(_, of)| *of == name)?;
    let value = match value {
        None => None,
        Some(value) if kind == CONTROL => Some([value.as_bytes(), &[0]].concat()),
        Some(value) => Some(value.parse::<u32>().ok()?.to_ne_bytes().to_vec()),
    };
    Some((kind, value))
}

/// Writes what a person needs to tell the route from others, in the words of `ip`.
pub(crate) fn write(route: &Route, f: &mut Formatter<'_>) -> Result {
    let kinds =
        ["", "", "local ", "broadcast ", "anycast ", "multicast ", "blackhole ", "unreachable ", "prohibit ", "throw "];
    f.write_str(kinds.get(usize::from(route.kind())).copied().unwrap_or_default())?;
    match route.destination() {
        destination if destination.prefix_len() == 0 => f.write_str("default")?,
        destination if destination.prefix_len() == destination.max_prefix_len() => write!(f, "{}", destination.addr())?,
        destination => write!(f, "{destination}")?,
    }
    if route.header[TOS] != 0 {
        write!(f, " tos {:#04x}", route.header[TOS])?;
    }
    if let Some(number) = route.number(NEXT_HOP_ID) {
        write!(f, " nhid {number}")?;
    }
    if let Some(gateway) = route.gateway() {
        write!(f, " via {gateway}")?;
    }
    if let Some(device) = route.device() {
        write!(f, " dev {device}")?;
    }
    if ![libc::RT_TABLE_MAIN, libc::RT_TABLE_LOCAL].map(u32::from).contains(&route.table()) {
        write!(f, " table {}", route.table())?;
    }
    if let Some(protocol) = PROTOCOLS.iter().find(|(number, _)| *number == route.header[PROTOCOL]) {
        write!(f, " proto {}", protocol.1)?;
    }
    if let Some(source) = route.value(libc::RTA_PREFSRC).and_then(address) {
        write!(f, " src {source}")?;
    }
    if let Some(priority) = route.priority() {
        write!(f, " metric {priority}")?;
    }
    for Metric { name, value, is_locked } in route.metrics() {
        let lock = if is_locked { "lock " } else { "" };
        write!(f, " {name} {lock}{}", in_words(name, value))?;
    }
    for hop in route.value(libc::RTA_MULTIPATH).into_iter().flat_map(next_hops) {
        f.write_str(" nexthop")?;
        let gateway = netlink::attributes(hop.bytes, NEXT_HOP).find(|(kind, _)| *kind == libc::RTA_GATEWAY);
        if let Some(gateway) = gateway.and_then(|(_, value)| address(&value)) {
            write!(f, " via {gateway}")?;
        }
        if let Some((_, name)) = route.devices.iter().find(|(index, _)| *index == hop.interface) {
            write!(f, " dev {name}")?;
        }
        write!(f, " weight {}", hop.weight)?;
    }
    Ok(())
}

/// The value of a setting as `ip` shows it: the kernel has times of the path in parts of milliseconds (`iproute.c` of iproute2), and features
/// as bits.
fn in_words(name: &str, value: String) -> String {
    let milliseconds = |parts: f64| value.parse::<f64>().map_or(value.clone(), |value| format!("{}ms", value / parts));
    match (name, value.as_str()) {
        ("rtt", _) => milliseconds(8.0),
        ("rttvar", _) => milliseconds(4.0),
        ("rto_min", _) => milliseconds(1.0),
        ("features", "1") => "ecn".to_owned(),
        _ => value,
    }
}

/// Who made a route (`rtm_protocol`); `boot` is not printed, as `ip` does not.
const PROTOCOLS: [(u8, &str); 5] = [(2, "kernel"), (4, "static"), (9, "ra"), (16, "dhcp"), (186, "bgp")];
