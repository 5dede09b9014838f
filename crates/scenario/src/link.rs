//! Links, from the words of the format to those of the `link` crate, which reads and checks them.

use crate::Reader;
use crate::problem::Problem;
use crate::text::{Queue, QueueSize};
use ::link::{LinkConfig, QueueLimit};
use document::Node;
use document::RateLimit;
use serde_json::{Map, Value as Json, json};
use units::{Duration, Rate};

/// Keys of a link that are not settings of a direction.
const OTHERS: [&str; 5] = ["name", "between", "up", "forward", "reverse"];

/// Keys from which the propagation delay follows.
const DELAYS: [&str; 3] = ["delay", "delay_steps", "handover"];

/// The value of `key` for the direction `way`: its own, or that of both.
pub(crate) fn setting<'n>(link: &'n Node, way: &str, key: &str) -> Option<&'n Node> {
    // Keys inside a setting, such as `handover.rate`, lie within it.
    let key = key.split('.').next().unwrap_or(key);
    link.get(way).and_then(|direction| direction.get(key)).or_else(|| link.get(key))
}

/// The nominal propagation delay of a direction with these settings; zero if they make no link.
pub(crate) fn nominal_delay(settings: &Map<String, Json>, read: Reader<'_>) -> Duration {
    let mut delays = json!({ "delay": "0s" });
    for key in DELAYS {
        if let Some(value) = settings.get(key) {
            delays[key] = value.clone();
        }
    }
    let config = serde_json::from_value::<LinkConfig>(delays).ok();
    let config = config.and_then(|mut config| config.read_files(read).is_ok().then_some(config));
    config.map_or(Duration::ZERO, |config| config.nominal_delay())
}

/// The settings of the direction `way` of `link`.
pub(crate) fn settings(link: &Node, way: &str) -> Map<String, Json> {
    let own = link.get(way).map_or(&[][..], Node::entries);
    let both = link.entries().iter().filter(|entry| !OTHERS.contains(&&*entry.key));
    both.chain(own).map(|entry| (entry.key.to_string(), entry.node.to_json())).collect()
}

/// What a link with a rate is that has no `queue`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoQueue {
    /// A fault.
    Refused,
    /// One with an unlimited queue.
    Unlimited,
}

/// The link of these settings, whose nominal propagation delays there and back make `round_trip`.
pub(crate) fn resolve(
    mut settings: Map<String, Json>,
    round_trip: Duration,
    no_queue: NoQueue,
    read: Reader<'_>,
) -> Result<LinkConfig, Problem> {
    let rate =
        settings.remove("rate").and_then(|rate| serde_json::from_value(rate).ok()).and_then(|RateLimit(rate)| rate);
    let given = settings.remove("queue");
    if let (Some(key), None, NoQueue::Refused) = (limit(&settings, rate), &given, no_queue) {
        let text =
            "a link with a rate needs `queue`, which says what may wait: such as \"1BDP\" or \"100packets\"".to_owned();
        return Err(Problem { key: Some(key), text });
    }
    match settings.remove("loss") {
        Some(Json::Number(zero)) if zero.as_f64() == Some(0.0) => None,
        Some(Json::Number(probability)) => settings.insert("loss".into(), json!({ "bernoulli": probability })),
        Some(model) => settings.insert("loss".into(), model),
        None => None,
    };
    settings.entry("delay").or_insert_with(|| json!("0s"));
    let config: LinkConfig =
        serde_json::from_value(settings.into()).map_err(|error| Problem { key: None, text: error.to_string() })?;
    let mut config = LinkConfig { rate, ..config };
    let nominal = config.nominal_rate();
    let queue = given.map_or(Ok(QueueLimit::Unlimited), |given| queue_limit(given, nominal, round_trip));
    config.queue = queue.map_err(|text| Problem { key: Some("queue"), text })?;
    let checked = config.read_files(read).and_then(|()| config.validate());
    checked.map_err(|error| Problem::of(&error))?;
    Ok(config)
}

/// The key that makes packets wait, if one does. Handovers do so by a rate of their own.
fn limit(settings: &Map<String, Json>, rate: Option<Rate>) -> Option<&'static str> {
    let has_rate = |handover: &Json| handover.get("rate").is_some();
    let limits = [
        ("rate", rate.is_some()),
        ("opportunities", settings.contains_key("opportunities")),
        ("handover.rate", settings.get("handover").is_some_and(has_rate)),
        ("dama", settings.contains_key("dama")),
    ];
    limits.into_iter().find_map(|(key, is_given)| is_given.then_some(key))
}

fn queue_limit(given: Json, rate: Option<Rate>, round_trip: Duration) -> Result<QueueLimit, String> {
    let Json::String(text) = &given else { return serde_json::from_value(given).map_err(|error| error.to_string()) };
    let Queue(size) = text.parse()?;
    Ok(match size {
        QueueSize::Unlimited => QueueLimit::Unlimited,
        QueueSize::Packets(packets) => QueueLimit::Packets(packets),
        QueueSize::Bytes(bytes) => QueueLimit::Bytes(bytes),
        QueueSize::BandwidthDelayProducts(products) => match rate {
            Some(rate) => QueueLimit::bandwidth_delay_product(rate, round_trip.mul_f64(products)),
            None => return Err("without a `rate` there is no bandwidth-delay product".to_owned()),
        },
    })
}
