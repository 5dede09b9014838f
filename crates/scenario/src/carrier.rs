//! Carriers shared on demand: from the words of the format to those of the `link` crate.

use crate::Reader;
use crate::problem::Problem;
use ::link::dama::CarrierConfig;
use document::Node;
use serde_json::Value as Json;

/// The carrier of a section.
pub(crate) fn resolve(section: &Node, read: Reader<'_>) -> Result<CarrierConfig, Problem> {
    let settings = section.entries().iter().filter(|entry| &*entry.key != "name");
    let settings: Json =
        settings.map(|entry| (entry.key.to_string(), entry.node.to_json())).collect::<serde_json::Map<_, _>>().into();
    let mut config: CarrierConfig =
        serde_json::from_value(settings).map_err(|error| Problem { key: None, text: error.to_string() })?;
    config.read_files(read).and_then(|()| config.validate()).map_err(|error| Problem::of(&error))?;
    Ok(config)
}
