//! `[link]`: the satellite link.

use super::dscp::DscpPolicy;
use super::format;
use super::{Choice, Link};
use document::Document;
use relay::link_state::{PlausibleRange, RateLimits};
use satpep::CapacityMode;
use satpep::dscp::Dscp;
use units::{Duration, Rate};

/// Less than the two minutes for which NATs keep a mapping that follow RFC 4787.
const KEEPALIVE: Duration = Duration::from_secs(100);
/// By default rates are plausible down to the lower of the configured ones divided by this: heavy rain, or a crowded carrier,
/// leaves little.
const BELOW: u64 = 100;
/// And up to the highest of them and of `max_rate` times this.
const ABOVE: u64 = 10;
/// What is plausible of a link of which nothing is known.
const ANY: PlausibleRange = PlausibleRange { min: Rate::from_bps(1000), max: Rate::from_bps(100_000_000_000) };
/// A link of which nothing is known is thought to receive this: the least receive memory carries it over any satellite.
const RECEIVES: Rate = Rate::from_bps(50_000_000);

/// The link, if nothing in its section is wrong.
pub(super) fn read(document: &mut Document<'_>, choice: Choice) -> Option<Link> {
    let written: Option<format::Link> = document.typed(&["link"]);
    choice.refuse_others(document, &["link"], &["cross_traffic", "mtu", "receive_memory", "repair", "repair_overhead"]);
    let written = written?;
    check_capacity(document, choice, &written);
    let plausible = plausible(&written);
    check_bounds(document, &written, plausible);
    Some(Link {
        interface: written.interface.map(|interface| interface.0),
        rate: written.rate.map(|rate| rate.0),
        rate_confidence: written.rate_confidence.unwrap_or_default(),
        capacity: written.capacity.unwrap_or_default(),
        ceiling: written.max_rate.map(|rate| rate.0),
        cross_traffic: written.cross_traffic.unwrap_or_default(),
        receive_rate: written.receive_rate.or(written.rate).map_or(RECEIVES, |rate| rate.0),
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

/// The rates that are accepted of link updates: around the configured ones.
fn plausible(written: &format::Link) -> PlausibleRange {
    // Without a rate, what may be sent is plausible all the same.
    let sendable = written.max_rate.map_or(0, |rate| rate.0.as_bps().saturating_mul(ABOVE));
    let any = PlausibleRange { max: ANY.max.max(Rate::from_bps(sendable)), ..ANY };
    let default = written.rate.map_or(any, |rate| {
        let receive_rate = written.receive_rate.unwrap_or(rate);
        let low = rate.0.min(receive_rate.0).as_bps();
        let high = rate.0.max(receive_rate.0).max(written.max_rate.unwrap_or(rate).0).as_bps();
        PlausibleRange { min: Rate::from_bps((low / BELOW).max(1000)), max: Rate::from_bps(high.saturating_mul(ABOVE)) }
    });
    PlausibleRange { min: written.min_rate.map_or(default.min, |rate| rate.0), ..default }
}

/// The bounds have to leave room for a rate, and for the configured ones: `max_rate` for what is sent, `min_rate` for both.
fn check_bounds(document: &mut Document<'_>, written: &format::Link, plausible: PlausibleRange) {
    let [rate, receive_rate, min, max] =
        [&written.rate, &written.receive_rate, &written.min_rate, &written.max_rate].map(|rate| Some(rate.as_ref()?.0));
    if let (Some(min), Some(max)) = (min, max)
        && min > max
    {
        for key in ["min_rate", "max_rate"] {
            document.fault(&["link", key], &format!(" is at odds: min_rate is {min}, max_rate is {max}"));
        }
        return;
    }
    if let (Some(rate), Some(max)) = (rate, max)
        && rate > max
    {
        document.fault(&["link", "rate"], &format!(" is at odds: rate is {rate}, max_rate is {max}"));
    }
    let Some(min) = min else { return };
    for (key, rate) in [("rate", rate), ("receive_rate", receive_rate)] {
        if let Some(rate) = rate.filter(|rate| *rate < min) {
            document.fault(&["link", key], &format!(" is at odds: {key} is {rate}, min_rate is {min}"));
        }
    }
    if rate.is_none() && min > plausible.max {
        let most = plausible.max;
        document
            .fault(&["link", "min_rate"], &format!(" is at odds: it is {min}, above the most without rate, {most}"));
    }
}

impl From<format::DscpPolicyEntry> for DscpPolicy {
    fn from(entry: format::DscpPolicyEntry) -> Self {
        match entry {
            format::DscpPolicyEntry::Number(number) => Self::Fixed(Dscp::new(number).unwrap_or_default()),
            format::DscpPolicyEntry::Text(text) => text.0,
        }
    }
}

/// What needs a rate has to have one.
fn check_capacity(document: &mut Document<'_>, choice: Choice, written: &format::Link) {
    if choice.is_tcp {
        for key in ["capacity", "rate_confidence"] {
            if document.node(&["link", key]).is_some() {
                let problem = " has no effect with transport = \"tcp\": its congestion control finds the capacity";
                document.fault(&["link", key], problem);
            }
        }
    }
    if written.rate.is_some() {
        return;
    }
    if choice.is_tcp {
        document.fault(&["link"], " needs rate, such as \"6Mbit/s\", with transport = \"tcp\": it sizes buffers");
    }
    if written.capacity == Some(CapacityMode::Fixed) {
        document.fault(&["link", "capacity"], " = \"fixed\" needs link.rate, such as \"6Mbit/s\"");
    }
    if written.rate_confidence.is_some() {
        document.fault(&["link", "rate_confidence"], " has no effect without link.rate");
    }
}

impl Link {
    /// The rate that buffers are sized by, and that is shown of a link of which nothing is known.
    pub fn nominal_rate(&self) -> Rate {
        self.rate.unwrap_or_else(|| self.rate_limits().capped(satpep::Prior::UNKNOWN))
    }

    /// What becomes of reported rates.
    pub fn rate_limits(&self) -> RateLimits {
        RateLimits { plausible: self.plausible, ceiling: self.ceiling }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::super::tests::{faults, minimal};
    use satpep::{CapacityMode, RateConfidence};
    use units::Rate;

    /// The least file, with these lines in `[link]` instead of the rate.
    fn with(lines: &str) -> String {
        let text = minimal();
        let rate = text.lines().find(|line| line.starts_with("rate = ")).expect("a rate");
        text.replace(rate, lines)
    }

    #[test]
    fn a_link_needs_no_rate() {
        let link = parse(&with(""), "gateway.toml").expect("valid").link;
        assert_eq!((link.rate, link.capacity, link.receive_rate), (None, CapacityMode::Estimated, super::RECEIVES));
        assert_eq!(link.plausible, super::ANY);
        let link = parse(&with("rate = \"6Mbit/s\"\nrate_confidence = \"guess\"\nmax_rate = \"8Mbit/s\""), "x")
            .expect("valid")
            .link;
        assert_eq!((link.rate_confidence, link.ceiling), (RateConfidence::Guess, Some(Rate::from_bps(8_000_000))));
    }

    #[test]
    fn max_rate_bounds_what_is_sent_and_not_what_is_received() {
        // As the terminal of docs/deploy.md, with a contract.
        let lines = "rate = \"3Mbit/s\"\nreceive_rate = \"12Mbit/s\"\nmax_rate = \"3Mbit/s\"";
        let link = parse(&with(lines), "x").expect("valid").link;
        assert_eq!(link.ceiling, Some(Rate::from_bps(3_000_000)));
        assert_eq!(link.plausible.max, Rate::from_bps(120_000_000));
        let link = parse(&with("rate = \"3Mbit/s\"\nmax_rate = \"50Mbit/s\""), "x").expect("valid").link;
        assert_eq!(link.plausible.max, Rate::from_bps(500_000_000), "what it may send is plausible");
        let link = parse(&with("max_rate = \"50Gbit/s\""), "x").expect("valid").link;
        assert_eq!(link.plausible.max, Rate::from_bps(500_000_000_000), "without a rate, too");
        let link = parse(&with("max_rate = \"1Mbit/s\""), "x").expect("valid").link;
        assert_eq!((link.nominal_rate(), link.plausible), (Rate::from_bps(1_000_000), super::ANY));
    }

    #[test]
    fn what_needs_a_rate_says_so() {
        for (lines, expected) in [
            ("capacity = \"fixed\"", "link.capacity = \"fixed\" needs link.rate"),
            ("rate_confidence = \"guess\"", "link.rate_confidence has no effect without link.rate"),
            (
                "rate = \"6Mbit/s\"\nmax_rate = \"5Mbit/s\"",
                "link.rate is at odds: rate is 6Mbit/s, max_rate is 5Mbit/s",
            ),
            (
                "rate = \"6Mbit/s\"\nmin_rate = \"100Mbit/s\"",
                "link.rate is at odds: rate is 6Mbit/s, min_rate is 100Mbit/s",
            ),
            (
                "rate = \"6Mbit/s\"\nmax_rate = \"10kbit/s\"",
                "link.rate is at odds: rate is 6Mbit/s, max_rate is 10kbit/s",
            ),
            (
                "min_rate = \"200Gbit/s\"",
                "link.min_rate is at odds: it is 200Gbit/s, above the most without rate, 100Gbit/s",
            ),
            (
                "rate = \"100kbit/s\"\nmin_rate = \"1Mbit/s\"",
                "link.rate is at odds: rate is 100kbit/s, min_rate is 1Mbit/s",
            ),
            (
                "rate = \"6Mbit/s\"\nreceive_rate = \"100kbit/s\"\nmin_rate = \"1Mbit/s\"",
                "link.receive_rate is at odds: receive_rate is 100kbit/s, min_rate is 1Mbit/s",
            ),
            ("rate = \"6Mbit/s\"\ncapacity = \"learnt\"", "link.capacity = \"learnt\": expected"),
            ("rate = \"6Mbit/s\"\ncapacity_source = \"estimated\"", "link.capacity_source: unknown key"),
        ] {
            let faults = faults(&with(lines));
            assert!(faults.len() == 1 && faults[0].contains(expected), "{expected}\n{faults:#?}");
        }
    }
}
