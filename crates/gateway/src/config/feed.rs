//! `[feed]`: who may tell the gateway what its link carries.

use super::{Link, format};
use crate::told::{FeedSettings, Limits};
use document::Document;
use std::path::PathBuf;
use units::{Duration, Rate};

/// Without settings, rates are believed down to the lower of the configured ones divided by this: heavy rain, or a crowded
/// carrier, leaves little.
const BELOW: u64 = 100;
/// And up to the higher of them times this.
const ABOVE: u64 = 10;

/// Reads `[feed]`; what is believed lies around the rates of `link`.
pub(super) fn read(document: &mut Document<'_>, link: Option<&Link>) -> Option<FeedSettings> {
    let written: format::Feed = document.section("feed")?;
    let rates = link.map_or([Rate::default(); 2], |link| [link.rate, link.receive_rate]);
    let [low, high] = [rates[0].min(rates[1]), rates[0].max(rates[1])].map(Rate::as_bps);
    let limits = Limits {
        least: written.least.map_or(Rate::from_bps((low / BELOW).max(1000)), |rate| rate.0),
        most: written.most.map_or(Rate::from_bps(high.saturating_mul(ABOVE)), |rate| rate.0),
    };
    for (key, is_given) in [("least", written.least.is_some()), ("most", written.most.is_some())] {
        if is_given && link.is_some() && limits.least > limits.most {
            let problem = format!(" is at odds: least is {}, most is {}", limits.least, limits.most);
            document.fault(&["feed", key], &problem);
        }
    }
    Some(FeedSettings {
        socket: written.socket.map(|socket| PathBuf::from(socket.0)),
        http: written.http.map(|http| http.0),
        limits,
        max_age: written.max_age.map_or(Duration::from_secs(60), |age| age.0),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{faults, minimal};
    use super::super::{CapacitySource, parse};
    use super::*;

    fn with(feed: &str) -> String {
        minimal().replace("[link]", "[link]\ncapacity_source = \"reported\"") + "[feed]\n" + feed
    }

    #[test]
    fn rates_are_believed_around_the_configured_ones() {
        let settings = parse(&with("socket = \"/run/feed\"\n"), "gateway.toml").unwrap();
        assert_eq!(settings.link.capacity_source, CapacitySource::Reported);
        assert_eq!(settings.feed.limits.least, Rate::from_bps(60_000));
        assert_eq!(settings.feed.limits.most, Rate::from_bps(60_000_000));
        assert_eq!(settings.feed.max_age, Duration::from_secs(60));
        let settings = parse(&with("http = \"127.0.0.1:1\"\nleast = \"1Mbit/s\"\nmax_age = \"5s\"\n"), "x").unwrap();
        assert_eq!(
            (settings.feed.limits.least, settings.feed.max_age),
            (Rate::from_bps(1_000_000), Duration::from_secs(5))
        );
    }

    #[test]
    fn wrong_values_are_faults() {
        for line in ["socket = \"\"", "http = \"localhost\"", "least = \"10bit/s\"", "most = 5", "max_age = \"25h\""] {
            let faults = faults(&with(&format!("{line}\n")));
            let (start, end) = (format!("feed.{line}: "), "expected a");
            assert!(faults.iter().any(|fault| fault.contains(&start) && fault.contains(end)), "{faults:?}");
        }
        let odd = faults(&with("socket = \"/run/feed\"\nleast = \"2Mbit/s\"\nmost = \"1Mbit/s\"\n"));
        assert!(odd[0].contains("feed.least is at odds: least is 2Mbit/s, most is 1Mbit/s"), "{odd:?}");
    }

    #[test]
    fn a_told_link_needs_a_teller_and_a_teller_a_link_that_listens() {
        let nobody = minimal().replace("[link]", "[link]\ncapacity_source = \"reported\"");
        assert!(faults(&nobody)[0].contains("capacity_source = \"reported\" needs"), "{:?}", faults(&nobody));
        let unheard = minimal() + "[feed]\nsocket = \"/run/feed\"\n";
        assert!(faults(&unheard)[0].contains("feed has no effect"), "{:?}", faults(&unheard));
        let refined = unheard.replace("[link]", "[link]\ncapacity_source = \"estimated\"");
        assert_eq!(parse(&refined, "x").unwrap().link.capacity_source, CapacitySource::Estimated);
    }
}
