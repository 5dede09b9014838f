//! `[link]`: the satellite link.

use super::dscp::DscpPolicy;
use super::format;
use super::updates::UpdateSettings;
use super::{Choice, Link};
use document::Document;
use relay::link_state::PlausibleRange;
use satpep::CapacitySource;
use satpep::dscp::Dscp;
use units::{Duration, Rate};

/// Less than the two minutes for which NATs keep a mapping that follow RFC 4787.
const KEEPALIVE: Duration = Duration::from_secs(100);
/// By default rates are plausible down to the lower of the configured ones divided by this: heavy rain, or a crowded carrier,
/// leaves little.
const BELOW: u64 = 100;
/// And up to the higher of them times this.
const ABOVE: u64 = 10;

/// The link, if nothing in its section is wrong.
pub(super) fn read(document: &mut Document<'_>, choice: Choice) -> Option<Link> {
    let written: Option<format::Link> = document.typed(&["link"]);
    choice.refuse_others(document, &["link"], &["cross_traffic", "mtu", "receive_memory", "repair", "repair_overhead"]);
    let written = written?;
    if choice.is_tcp && written.capacity_source == Some(CapacitySource::Estimated) {
        let problem =
            " = \"estimated\" has no effect with transport = \"tcp\": its congestion control finds the capacity";
        document.fault(&["link", "capacity_source"], problem);
    }
    let plausible = plausible(document, &written);
    Some(Link {
        interface: written.interface.map(|interface| interface.0),
        rate: written.rate.0,
        capacity_source: written.capacity_source.unwrap_or_default(),
        cross_traffic: written.cross_traffic.unwrap_or_default(),
        receive_rate: written.receive_rate.unwrap_or(written.rate).0,
        plausible,
        rtt: written.rtt.0,
        mtu: written.mtu.unwrap_or(1500),
        dscp: written.dscp.map(DscpPolicy::from).unwrap_or_default(),
        receive_memory: written.receive_memory.map(|size| size.0),
        keepalive: written.keepalive.map_or(KEEPALIVE, |time| time.0),
        outage_limit: written.outage_limit.map(|limit| limit.0),
        max_streams: written.max_streams,
        repair: written.repair,
        repair_overhead: written.repair_overhead,
    })
}

/// The rates that are accepted of link updates, around the configured ones unless they are given.
fn plausible(document: &mut Document<'_>, written: &format::Link) -> PlausibleRange {
    let rates = [written.rate.0, written.receive_rate.unwrap_or(written.rate).0];
    let [low, high] = [rates[0].min(rates[1]), rates[0].max(rates[1])].map(Rate::as_bps);
    let range = PlausibleRange {
        min: written.min_rate.map_or(Rate::from_bps((low / BELOW).max(1000)), |rate| rate.0),
        max: written.max_rate.map_or(Rate::from_bps(high.saturating_mul(ABOVE)), |rate| rate.0),
    };
    for (key, is_given) in [("min_rate", written.min_rate.is_some()), ("max_rate", written.max_rate.is_some())] {
        if is_given && range.min > range.max {
            let problem = format!(" is at odds: min_rate is {}, max_rate is {}", range.min, range.max);
            document.fault(&["link", key], &problem);
        }
    }
    range
}

impl From<format::DscpPolicyEntry> for DscpPolicy {
    fn from(entry: format::DscpPolicyEntry) -> Self {
        match entry {
            format::DscpPolicyEntry::Number(number) => Self::Fixed(Dscp::new(number).unwrap_or_default()),
            format::DscpPolicyEntry::Text(text) => text.0,
        }
    }
}

/// A reported capacity needs a reporter, and a reporter a link that uses its updates.
pub(super) fn check_capacity_source(
    document: &mut Document<'_>,
    link: Option<&Link>,
    updates: Option<&UpdateSettings>,
) {
    let (Some(link), Some(updates)) = (link, updates) else { return };
    let has_modem = document.node(&["dlep"]).is_some();
    match link.capacity_source {
        CapacitySource::Reported if !updates.is_used() && !has_modem => {
            let problem = " = \"reported\" needs a reporter: [dlep], or [updates] socket or http";
            document.fault(&["link", "capacity_source"], problem);
        }
        CapacitySource::Configured if updates.is_used() || has_modem => {
            let section = if updates.is_used() { "updates" } else { "dlep" };
            let problem =
                " has no effect with link.capacity_source = \"configured\": expected \"reported\", \"estimated\"";
            document.fault(&[section], problem);
        }
        _ => {}
    }
}
