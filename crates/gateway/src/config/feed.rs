//! `[feed]`: who may tell the gateway what its link carries.

use super::document::Document;
use super::{HOUR, within};
use crate::told::{FeedSettings, Limits};
use std::path::PathBuf;
use units::{Duration, Rate};

/// Without settings, rates are believed within this factor of the configured ones.
const BELIEVED: u64 = 10;

/// Reads `[feed]`; `rates` are the configured ones of the link.
pub(super) fn read(document: &mut Document<'_>, rates: [Rate; 2]) -> FeedSettings {
    let mut section = document.section("feed");
    let socket = section.text("socket", "a path of at most 100 bytes", |path| !path.is_empty() && path.len() <= 100);
    let http = section.parsed("http", "an address and port such as \"127.0.0.1:9091\"");
    let positive = |rate: &Rate| rate.as_bps() >= 1000;
    let allowed = "a rate of at least 1kbit/s, such as \"64kbit/s\"";
    let least: Option<Rate> = section.checked("least", allowed, positive);
    let most: Option<Rate> = section.checked("most", allowed, positive);
    let max_age = section.checked("max_age", "a duration from 1s to 24h, such as \"60s\"", within(1, 24 * HOUR));
    let [low, high] = [rates[0].min(rates[1]), rates[0].max(rates[1])].map(Rate::as_bps);
    let limits = Limits {
        least: least.unwrap_or(Rate::from_bps((low / BELIEVED / BELIEVED).max(1000))),
        most: most.unwrap_or(Rate::from_bps(high.saturating_mul(BELIEVED))),
    };
    for (key, given) in [("least", least), ("most", most)] {
        if given.is_some() && (limits.least > limits.most) {
            section.refuse(key, &format!("is at odds: least is {}, most is {}", limits.least, limits.most));
        }
    }
    section.end(document);
    FeedSettings {
        socket: socket.map(PathBuf::from),
        http,
        limits,
        max_age: max_age.unwrap_or(Duration::from_secs(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{faults, minimal};
    use super::super::{Knowledge, parse};
    use super::*;

    fn with(feed: &str) -> String {
        minimal().replace("[link]", "[link]\nknowledge = \"told\"") + "[feed]\n" + feed
    }

    #[test]
    fn rates_are_believed_around_the_configured_ones() {
        let settings = parse(&with("socket = \"/run/feed\"\n"), "gateway.toml").unwrap();
        assert_eq!(settings.link.knowledge, Knowledge::Told);
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
            let expected = format!("[feed] {line}: expected a");
            assert!(faults.iter().any(|fault| fault.contains(&expected)), "{faults:?}");
        }
        let odd = faults(&with("socket = \"/run/feed\"\nleast = \"2Mbit/s\"\nmost = \"1Mbit/s\"\n"));
        assert!(odd[0].contains("[feed] least is at odds: least is 2Mbit/s, most is 1Mbit/s"), "{odd:?}");
    }

    #[test]
    fn a_told_link_needs_a_teller_and_a_teller_a_link_that_listens() {
        let nobody = minimal().replace("[link]", "[link]\nknowledge = \"told\"");
        assert!(faults(&nobody)[0].contains("knowledge = \"told\" needs"), "{:?}", faults(&nobody));
        let unheard = minimal() + "[feed]\nsocket = \"/run/feed\"\n";
        assert!(faults(&unheard)[0].contains("[feed] has no effect"), "{:?}", faults(&unheard));
        let refined = unheard.replace("[link]", "[link]\nknowledge = \"learnt\"");
        assert_eq!(parse(&refined, "x").unwrap().link.knowledge, Knowledge::Learnt);
    }
}
