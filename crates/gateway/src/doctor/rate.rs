//! What the path to a peer carries, found by filling it for a moment.

use super::Check;
use crate::config::Settings;
use crate::control;
use kernel::clock;
use serde_json::Value;
use status::Survey;
use units::{Bytes, Duration, Rate};

/// Beside the time to send it all, a survey waits for news of what arrived at the end of each of its parts.
const PARTS: u64 = 10;
const SLACK: Duration = Duration::from_secs(5);
/// How often a running gateway is asked how far it has come.
const PERIOD: std::time::Duration = std::time::Duration::from_millis(200);
/// The path carries the configured rate if it carries this share of it; and much more from the other share on.
const ENOUGH: f64 = 0.93;
const MORE: f64 = 1.2;
/// The key of a refusal in the report of a peer.
const REFUSAL: &str = "survey_refused";

/// The most that measuring sends to each of the peers, and about how long it takes for each.
pub fn cost(settings: &Settings) -> (Bytes, Duration) {
    let (bytes, time) = satpep::survey_cost(offered(settings));
    (bytes, time + settings.link.rtt * PARTS)
}

/// What a peer without a cap is offered at first: the configured rate, or else what the running gateway estimates.
pub(super) fn offered(settings: &Settings) -> Rate {
    let estimated = || estimate(&control::status(&settings.control).ok()?);
    settings.link.rate.or_else(estimated).unwrap_or_else(|| settings.link.nominal_rate())
}

/// The capacity as the gateway with this status estimates it.
fn estimate(status: &Value) -> Option<Rate> {
    status["capacity"]["rate_bps"].as_u64().map(Rate::from_bps)
}

/// How long one peer may take.
pub(super) fn patience(settings: &Settings) -> Duration {
    cost(settings).1 * 2 + SLACK
}

/// Notes in the report `peer` why the path to a peer is not measured.
pub(super) fn note_refusal(peer: &mut Value, refusal: Option<&str>) {
    if let Some(reason) = refusal {
        peer[REFUSAL] = reason.into();
    }
}

/// Has the running gateway measure the path to `peer`; returns its report of the peer then.
pub(super) fn by_gateway(settings: &Settings, mut peer: Value) -> Value {
    let name = peer["name"].as_str().unwrap_or_default().to_owned();
    let refusal = match control::survey(&settings.control, &name) {
        Ok(answer) if answer.done => None,
        Ok(answer) => Some(answer.refused.join("; ")),
        Err(error) => Some(error.to_string()),
    };
    note_refusal(&mut peer, refusal.as_deref());
    let end = clock::now() + patience(settings);
    while refusal.is_none() && clock::now() < end {
        std::thread::sleep(PERIOD);
        let Ok(status) = control::status(&settings.control) else { break };
        let peers = status["peers"].as_array().into_iter().flatten();
        peer = peers.into_iter().find(|peer| peer["name"] == *name).cloned().unwrap_or(peer);
        if peer["survey"]["done"] != false {
            break;
        }
    }
    peer
}

/// The checks that follow from the report of a peer.
pub(super) fn judged(peer: &Value) -> Vec<Check> {
    let name = peer["name"].as_str().unwrap_or("?");
    let check = format!("rate {name}");
    if let Some(reason) = peer[REFUSAL].as_str() {
        return vec![Check::bad(check, format!("not measured: {reason}"), "try again, or measure it otherwise")];
    }
    let survey = serde_json::from_value(peer["survey"].clone()).ok().filter(|survey: &Survey| survey.done);
    let Some(survey) = survey else {
        return vec![Check::bad(
            check,
            "it was not measured in time",
            "see why the peer answers late: losses, its log",
        )];
    };
    let mut checks = vec![rate(check, &survey)];
    checks.push(if survey.policed {
        Check::bad(
            format!("policer {name}"),
            "packets beyond that rate are dropped at once, not queued: a policer on the path limits these datagrams",
            "have the provider lift the limit (it may be for UDP alone: transport = \"tcp\" then), or keep [link] max_rate (with \
             capacity = \"fixed\" [link] rate), or the peer's cap, below it",
        )
    } else {
        Check::good(format!("policer {name}"), "none was seen")
    });
    if survey.batches_lost {
        checks.push(Check::bad(
            format!("batches sent {name}"),
            "datagrams that leave in batches (GSO) get lost, and single ones arrive",
            "ethtool -K INTERFACE tx-udp-segmentation off, for the [link] interface and those below it (PPPoE, tunnels, VLANs); a \
             gateway that runs finds it out and sends them one by one",
        ));
    }
    checks
}

fn rate(check: String, survey: &Survey) -> Check {
    let Survey { offered_bps, carried_bps, has_more, sent_bytes, .. } = *survey;
    let offered = Rate::from_bps(offered_bps);
    let Some(carried) = carried_bps.map(|bps| Rate::from_bps(bps / 1000 * 1000)) else {
        let says = format!("too little of {} arrived to tell", Bytes::new(sent_bytes));
        return Check::bad(
            check,
            says,
            "check the link's quality, and that [link] rate is not many times what it carries",
        );
    };
    let least = if has_more { "at least " } else { "" };
    let says = format!(
        "the path carries {least}{carried} from here; {offered} was offered ([link] rate, without it the estimate, or the peer's cap)"
    );
    if carried < offered.mul_f64(ENOUGH) && has_more {
        return Check::good(check, says + "; this host did not send more");
    }
    if carried < offered.mul_f64(ENOUGH) {
        let remedy = format!(
            "set [link] rate, or the peer's cap, to {carried}, or find out what else takes the link, and measure again"
        );
        return Check::bad(check, says, remedy);
    }
    let remedy =
        format!("nothing need be done; if the link is yours alone, [link] rate, or the peer's cap, can be {carried}");
    let remedy = (carried > offered.mul_f64(MORE)).then_some(remedy);
    Check { remedy, ..Check::good(check, says) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;
    use crate::config::tests::minimal;
    use serde_json::json;

    /// What is reported of a path for which 10 Mbit/s are set and that carries so much.
    fn judged_at(carried_bps: Option<u64>, has_more: bool) -> Check {
        let survey = Survey {
            done: true,
            offered_bps: 10_000_000,
            carried_bps,
            has_more,
            policed: false,
            batches_lost: false,
            sent_bytes: 2_000_000,
        };
        let mut checks = judged(&json!({ "name": "hub", "survey": survey }));
        assert_eq!(checks.len(), 2, "{checks:?}");
        assert_eq!(checks.remove(1), Check::good("policer hub", "none was seen"));
        assert_eq!(checks[0].check, "rate hub");
        checks.remove(0)
    }

    #[test]
    fn what_measuring_costs_follows_from_the_rate_that_is_offered() {
        let configured = parse(&minimal(), "x").unwrap();
        assert_eq!(offered(&configured), Rate::from_bps(6_000_000));
        let unknown = parse(&minimal().replace("rate = \"6Mbit/s\"\n", ""), "x").unwrap();
        assert_eq!(offered(&unknown), unknown.link.nominal_rate(), "no gateway runs");
        let running = json!({ "capacity": { "rate_bps": 100_000_000 } });
        assert_eq!(estimate(&running), Some(Rate::from_bps(100_000_000)));
        assert_eq!(estimate(&json!({ "capacity": null })), None);
    }

    #[test]
    fn a_path_that_carries_less_than_is_set_is_reported_with_the_rate_to_set() {
        for (carried, ok) in [(9_300_000, true), (9_299_000, false), (500_000, false)] {
            let check = judged_at(Some(carried), false);
            assert_eq!(check.ok, ok, "{check:?}");
            let rate = Rate::from_bps(carried);
            assert!(check.says.contains(&format!("the path carries {rate} from here")), "{check:?}");
            assert!(check.says.contains("; 10Mbit/s was offered ("), "{check:?}");
            let set = format!("set [link] rate, or the peer's cap, to {rate}, ");
            assert_eq!(check.remedy.is_some_and(|remedy| remedy.starts_with(&set)), !ok);
        }
    }

    #[test]
    fn a_path_is_not_blamed_for_what_this_host_did_not_send() {
        let check = judged_at(Some(5_000_000), true);
        assert!(check.ok && check.says.contains("at least 5Mbit/s"), "{check:?}");
        assert!(check.says.ends_with("this host did not send more") && check.remedy.is_none(), "{check:?}");
    }

    #[test]
    fn a_path_that_carries_far_more_is_no_fault_but_is_reported() {
        for (carried, is_reported) in [(12_000_000, false), (12_001_000, true), (50_000_000, true)] {
            let check = judged_at(Some(carried), true);
            assert_eq!((check.ok, check.remedy.is_some()), (true, is_reported), "{check:?}");
        }
        assert!(judged_at(Some(50_000_000), false).remedy.unwrap().contains("can be 50Mbit/s"));
    }

    #[test]
    fn a_path_on_which_too_little_arrived_is_not_given_a_rate() {
        let check = judged_at(None, false);
        assert!(!check.ok && check.says == "too little of 2MB arrived to tell", "{check:?}");
    }

    #[test]
    fn policers_and_lost_batches_are_reported_beside_the_rate() {
        let survey = json!({
            "done": true, "offered_bps": 10_000_000, "carried_bps": 10_000_000, "has_more": false, "policed": true,
            "batches_lost": true, "sent_bytes": 1,
        });
        let checks = judged(&json!({ "name": "hub", "survey": survey }));
        let found: Vec<_> = checks.iter().map(|check| (check.check.as_str(), check.ok)).collect();
        assert_eq!(found, [("rate hub", true), ("policer hub", false), ("batches sent hub", false)]);
        let remedy = checks[1].remedy.as_ref().unwrap();
        // `rate` is only where an estimate begins.
        assert!(remedy.contains("have the provider lift the limit") && remedy.contains("max_rate"), "{remedy}");
        assert!(checks[2].remedy.as_ref().unwrap().contains("tx-udp-segmentation off"));
    }

    #[test]
    fn a_measurement_that_was_refused_or_never_ended_is_reported_as_such() {
        let mut peer = json!({ "name": "hub", "survey": null });
        note_refusal(&mut peer, None);
        let unfinished = json!({ "name": "hub", "survey": { "done": false, "offered_bps": 1, "carried_bps": 1,
            "has_more": false, "policed": false, "batches_lost": false, "sent_bytes": 1 } });
        for late in [&peer, &unfinished] {
            let checks = judged(late);
            assert_eq!((checks.len(), checks[0].ok), (1, false));
            assert_eq!(checks[0].says, "it was not measured in time");
        }
        note_refusal(&mut peer, Some("it is measured already"));
        assert_eq!(judged(&peer)[0].says, "not measured: it is measured already");
    }
}
