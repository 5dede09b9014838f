//! The schema of scenario files, as JSON Schema and as a page of documentation, both made from the types in `format`.

use crate::format::File;
use crate::preset::Preset;
use crate::text::{Queue, Window};
use document::{Format, Section};
use serde_json::Value as Json;
use std::fmt::Write;
use std::sync::LazyLock;

/// The format of scenario files.
pub(crate) fn format() -> &'static Format {
    static FORMAT: LazyLock<Format> = LazyLock::new(|| Format::of::<File>().with::<Queue>().with::<Window>());
    &FORMAT
}

/// The JSON Schema (draft 2020-12) of a scenario file. Texts with a form of their own, such as rates, carry it under
/// `x-form`, and what they expect under `x-expected`.
pub fn json_schema() -> Json {
    format().json().clone()
}

/// The sections of the reference.
const SECTIONS: &[Section] = &[
    Section { heading: "The file", of: None },
    Section::new("seeds", "Seeds"),
    Section::new("stop", "Stop"),
    Section::new("record", "Record"),
    Section::new("routing", "Routing"),
    Section::new("link", "Link"),
    Section::new("up", "Up"),
    Section::new("carrier", "Carrier"),
    Section::new("dama", "Dama"),
    Section::new("delay", "Geometry"),
    Section::new("station", "GroundStation"),
    Section::new("steps", "Steps"),
    Section::new("opportunities", "Opportunities"),
    Section::new("handover", "Handover"),
    Section::new("discipline", "Discipline"),
    Section::new("loss", "LossModel"),
    Section::new("reorder", "Reorder"),
    Section::new("flow", "Flow"),
    Section::new("start", "Spread"),
    Section::new("bulk", "Bulk"),
    Section::new("on_off", "OnOff"),
    Section::new("request_response", "RequestResponse"),
    Section::new("udp", "Udp"),
    Section::new("ping", "Ping"),
    Section::new("distribution", "Random"),
    Section::new("tcp", "Tcp"),
    Section::new("delayed_ack", "AckPolicy"),
    Section::new("resume", "SavedPath"),
    Section::new("capacity", "Capacity"),
    Section::new("tuning", "Tuning"),
    Section::new("quic", "Quic"),
    Section::new("gateway", "Gateway"),
    Section::new("satpep", "SatpepSettings"),
    Section::new("class", "Class"),
    Section::new("satpep-2003", "Satpep2003"),
];

/// The reference of the format as Markdown: a table of keys for each kind of section, and the presets of TCP.
pub fn reference() -> String {
    let mut text = document::reference(format(), SECTIONS);
    text += "### Presets of TCP\n\n| preset | recovery | control | |\n| --- | --- | --- | --- |\n";
    for preset in Preset::all() {
        let Preset { name, recovery, control, about } = preset;
        // Writing to a text does not fail.
        let _ = writeln!(text, "| `{name}` | {recovery} | {control} | {about} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_of_the_schema_has_a_form_that_is_read() {
        assert!(format().unknown_forms().is_empty(), "{:?}", format().unknown_forms());
    }
}
