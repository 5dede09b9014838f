//! Carriers shared on demand: what a scenario says of them, and what the `link` crate makes of it.

use crate::Reader;
use crate::format::Steps;
use crate::link::Problem;
use ::link::ConfigError;
use ::link::dama::CarrierConfig;
use document::Node;
use document::{AnyRate, AnySize, Interval, Name, PositiveRate, Size, Time};
use schemars::JsonSchema;
use serde_json::Value as Json;

/// A return carrier that terminals share on demand, as in DVB-RCS: directions of links that name it under `dama` send in the
/// slots that the NCC gives them, superframe by superframe. The NCC is at their far ends.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes: `link` reads the values as they stand")]
pub(crate) struct Carrier {
    /// Its name, unique among carriers.
    name: Name,
    /// Payload bits of all its slots each second.
    rate: PositiveRate,
    /// Rates that take the place of `rate` from given times on, such as a rain fade: superframes planned then have fewer
    /// slots.
    rate_steps: Option<Steps<AnyRate>>,
    /// How long a superframe is, from 1ms to 10s.
    #[schemars(extend("default" = "100ms"))]
    superframe: Option<Interval>,
    /// What a slot carries, from 8B to 10kB. What a terminal does not fill is lost.
    #[schemars(extend("default" = "53B"))]
    slot: Option<Size>,
    /// From a plan's arrival at the terminals to its superframe, at most 10s. By default one superframe.
    lead: Option<Time>,
    /// For how many superframes a requested rate holds.
    #[schemars(range(min = 1, max = 1000), extend("default" = 2))]
    rbdc_timeout: Option<u32>,
    /// How requested rates that exceed the carrier share it: small ones are met and large ones cut to one level, or all are
    /// cut alike.
    #[schemars(extend("default" = "max_min"))]
    sharing: Option<Sharing>,
    /// Whether capacity that nobody has asked for is given to all (FCA).
    #[schemars(extend("default" = false))]
    fca: Option<bool>,
    /// The fraction of requests that are lost.
    #[schemars(range(min = 0, max = 1), extend("default" = 0.0))]
    request_loss: Option<f64>,
}

/// How requested rates share a carrier.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "it describes")]
pub(crate) enum Sharing {
    MaxMin,
    Proportional,
}

/// A terminal's part of a carrier: give a constant rate, requests by rate or by volume, or any of them.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes: `link` reads the values as they stand")]
pub(crate) struct Dama {
    /// The carrier.
    carrier: Name,
    /// Constant rate that it always has (CRA).
    #[schemars(extend("default" = "0bit/s"))]
    cra: Option<AnyRate>,
    /// The highest rate that it may ask for on top (RBDC). By default it asks for none.
    #[schemars(extend("default" = "0bit/s"))]
    rbdc: Option<AnyRate>,
    /// The most that it may have asked for by volume and not yet been given (VBDC). By default it asks for none.
    #[schemars(extend("default" = "0B"))]
    vbdc: Option<AnySize>,
    /// How often it restates the whole volume (AVBDC), from 10ms to 1h.
    #[schemars(extend("default" = "1s"))]
    avbdc: Option<Interval>,
    /// How often it looks at its queue and asks, from 1ms to 10s; with `rbdc`, before a requested rate is over.
    #[schemars(extend("default" = "100ms"))]
    every: Option<Interval>,
}

/// The carrier of a section, the number `stream` of its kind.
pub(crate) fn resolve(section: &Node, stream: u64, read: Reader<'_>) -> Result<CarrierConfig, Problem> {
    let settings = section.entries().iter().filter(|entry| &*entry.key != "name");
    let settings: Json =
        settings.map(|entry| (entry.key.to_string(), entry.node.to_json())).collect::<serde_json::Map<_, _>>().into();
    let config: CarrierConfig =
        serde_json::from_value(settings).map_err(|error| Problem { key: None, text: error.to_string() })?;
    let mut config = CarrierConfig { stream, ..config };
    config.read_files(read).and_then(|()| config.validate()).map_err(|error| problem(&error))?;
    Ok(config)
}

/// What `link` finds wrong.
pub(crate) fn problem(error: &ConfigError) -> Problem {
    let text = error.to_string();
    Problem { key: Some(error.key()), text: text.strip_prefix("link: ").unwrap_or(&text).to_owned() }
}
