//! `[link]`: the satellite link.

use super::dscp::DscpPolicy;
use super::format;
use super::{Choice, Link};
use crate::told::FeedSettings;
use document::Document;
use satpep::CapacitySource;
use satpep::dscp::Dscp;
use units::Duration;

/// Less than the two minutes for which NATs keep a mapping that follow RFC 4787.
const KEEPALIVE: Duration = Duration::from_secs(100);

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
    Some(Link {
        interface: written.interface.map(|interface| interface.0),
        rate: written.rate.0,
        capacity_source: written.capacity_source.unwrap_or_default(),
        cross_traffic: written.cross_traffic.unwrap_or_default(),
        receive_rate: written.receive_rate.unwrap_or(written.rate).0,
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

impl From<format::DscpPolicyEntry> for DscpPolicy {
    fn from(entry: format::DscpPolicyEntry) -> Self {
        match entry {
            format::DscpPolicyEntry::Number(number) => Self::Fixed(Dscp::new(number).unwrap_or_default()),
            format::DscpPolicyEntry::Text(text) => text.0,
        }
    }
}

/// A reported capacity needs a reporter, and a reporter a link that uses its updates.
pub(super) fn check_capacity_source(document: &mut Document<'_>, link: Option<&Link>, feed: Option<&FeedSettings>) {
    let (Some(link), Some(feed)) = (link, feed) else { return };
    let has_modem = document.node(&["dlep"]).is_some();
    match link.capacity_source {
        CapacitySource::Reported if !feed.is_used() && !has_modem => {
            let problem = " = \"reported\" needs a reporter: [dlep], or [feed] socket or http";
            document.fault(&["link", "capacity_source"], problem);
        }
        CapacitySource::Configured if feed.is_used() || has_modem => {
            let section = if feed.is_used() { "feed" } else { "dlep" };
            let problem =
                " has no effect with link.capacity_source = \"configured\": expected \"reported\", \"estimated\"";
            document.fault(&[section], problem);
        }
        _ => {}
    }
}
