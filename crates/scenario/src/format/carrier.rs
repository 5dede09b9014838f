//! Carriers that terminals share on demand.

use super::steps::Steps;
use document::{AnyRate, AnySize, Interval, Name, PositiveRate, Size, Time};
use schemars::JsonSchema;

/// A return carrier that terminals share on demand, as in DVB-RCS: link directions that name it under `dama` send in the
/// timeslots that the NCC allocates to them, superframe by superframe. The NCC is at their far ends.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes: `link` reads the values as they stand")]
pub(crate) struct Carrier {
    /// Its name, unique among carriers.
    name: Name,
    #[serde(flatten)]
    settings: CarrierSettings,
}

/// What a carrier carries, and how it is shared.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes: `link` reads the values as they stand")]
pub(crate) struct CarrierSettings {
    /// Payload bit rate of all timeslots together.
    rate: PositiveRate,
    /// Rates that replace `rate` from given times on, such as a rain fade: superframes planned then have fewer timeslots.
    rate_steps: Option<Steps<AnyRate>>,
    /// Duration of a superframe, from 1ms to 10s.
    #[schemars(extend("default" = "100ms"))]
    superframe: Option<Interval>,
    /// Payload of a timeslot, from 8B to 10kB. Space that a terminal does not fill is lost.
    #[schemars(extend("default" = "53B"))]
    slot: Option<Size>,
    /// Time from a plan's arrival at the terminals to its superframe, at most 10s. By default one superframe.
    lead: Option<Time>,
    /// Number of superframes for which a requested rate is valid.
    #[schemars(range(min = 1, max = 1000), extend("default" = 2))]
    rbdc_timeout: Option<u32>,
    /// How requested rates share a carrier that they exceed: large ones are cut to one level (max_min), or all by one factor
    /// (proportional).
    #[schemars(extend("default" = "max_min"))]
    sharing: Option<Sharing>,
    /// Free capacity assignment (FCA): unrequested capacity is divided among all terminals.
    #[schemars(extend("default" = false))]
    fca: Option<bool>,
    /// Probability that a request is lost.
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

/// A terminal's part of a carrier: a constant rate, requests by rate, requests by volume, or any combination.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes: `link` reads the values as they stand")]
pub(crate) struct Dama {
    /// The carrier.
    carrier: Name,
    /// Constant rate assignment (CRA).
    #[schemars(extend("default" = "0bit/s"))]
    cra: Option<AnyRate>,
    /// Highest rate that it may request in addition (RBDC). By default none.
    #[schemars(extend("default" = "0bit/s"))]
    rbdc: Option<AnyRate>,
    /// Most outstanding volume that it may request (VBDC). By default none.
    #[schemars(extend("default" = "0B"))]
    vbdc: Option<AnySize>,
    /// Interval at which it restates the whole volume (AVBDC), from 10ms to 1h.
    #[schemars(extend("default" = "1s"))]
    avbdc: Option<Interval>,
    /// Interval of requests, from 1ms to 10s; with `rbdc`, shorter than the validity of a requested rate.
    #[schemars(extend("default" = "100ms"))]
    every: Option<Interval>,
}
