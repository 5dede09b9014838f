//! Section 4: what a window without scaling lets through.

use crate::{Context, Error, Found, Reproduction, Variants};
use replicas::Replica;
use units::{Bytes, Duration};

/// The bound, and one connection at it.
///
/// # Errors
/// If it cannot be run.
pub fn limit(context: &Context<'_>) -> Result<Reproduction, Error> {
    let text = include_str!("../../../../scenarios/papers/palermo/window.toml");
    let variants = Variants::load(text, "scenarios/papers/palermo/window.toml", &[])?;
    let rtt = Duration::from_millis(580);
    let mut found = Vec::new();
    for (variant, key, window) in
        [("unscaled", "64 kB", model::window::UNSCALED), ("scaled", "window scaling", Bytes::new(160 << 10))]
    {
        // Nothing is random.
        let runs = context.simulate(&[Replica { scenario: variants.get(variant)?, seed: 1 }])?;
        let goodput = runs[0].report.flows[0].goodput_bps.map(|bps| bps / 1e3);
        let bound = model::window::throughput(window, rtt).map_err(Error::failed)?;
        let most = T1_BPS.min(bound.as_bps() as f64) / 1e3;
        found.push(Found::new(key).model(most).simulated(goodput));
    }
    let remarks = vec![
        "A full T1 of 1,536 kbit/s. The simulated figure is payload: 44 segments of 1,460 B in a round trip of 580 ms and \
         the time that one takes on the link."
            .to_owned(),
    ];
    Ok(Reproduction { found, charts: Vec::new(), remarks })
}

/// A T1 without its framing (section 4).
const T1_BPS: f64 = 1.536e6;
