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
    let (bytes, time) = satpep::survey_cost(settings.link.rate);
    (bytes, time + settings.link.rtt * PARTS)
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
            "have the provider lift the limit (it may be for UDP alone: transport = \"tcp\" then), or keep [link] rate, or the peer's \
             cap, below it",
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
    let says = format!("the path carries {least}{carried} from here, and [link] rate (or the peer's cap) is {offered}");
    if carried < offered.mul_f64(ENOUGH) && has_more {
        return Check::good(check, says + "; this host did not send more");
    }
    if carried < offered.mul_f64(ENOUGH) {
        let remedy = format!("set it to {carried}, or find out what else takes the link, and measure again");
        return Check::bad(check, says, remedy);
    }
    let remedy = format!("nothing need be done; if the link is yours alone, it can be set to {carried}");
    let remedy = (carried > offered.mul_f64(MORE)).then_some(remedy);
    Check { remedy, ..Check::good(check, says) }
}
