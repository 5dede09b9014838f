//! The schema of scenario files, as JSON Schema and as a page of documentation, both made from the types in `format`.

use super::check::Schema;
use super::endpoint::Preset;
use super::format::File;
use serde_json::Value as Json;

/// The JSON Schema (draft 2020-12) of a scenario file. Texts with a form of their own, such as rates, carry it under
/// `x-form`, and what they expect under `x-expected`.
pub fn json_schema() -> Json {
    let mut schema = schemars::schema_for!(File).to_value();
    close(&mut schema);
    schema
}

/// TOML has no null, and no table takes keys that it does not list.
fn close(schema: &mut Json) {
    if let Some(types) = schema.get_mut("type")
        && let Some(list) = types.as_array()
        && let Some(other) = list.iter().find(|name| *name != "null").cloned()
    {
        *types = other;
    }
    if let Some(forms) = schema.get_mut("anyOf").and_then(Json::as_array_mut) {
        forms.retain(|form| form.get("type").is_none_or(|name| name != "null"));
        if let [only] = forms.as_slice() {
            let only = only.clone();
            if let (Some(object), Some(only)) = (schema.as_object_mut(), only.as_object()) {
                object.remove("anyOf");
                object.extend(only.clone());
            }
        }
    }
    if let Some(object) = schema.as_object_mut() {
        if object.contains_key("properties") && !object.contains_key("additionalProperties") {
            object.insert("additionalProperties".to_owned(), Json::from(false));
        }
        if object.get("default").is_some_and(Json::is_null) {
            object.remove("default");
        }
        if let Some(keys) = object.get_mut("enum").and_then(Json::as_array_mut) {
            keys.retain(|key| !key.is_null());
        }
        object.values_mut().for_each(close);
    } else if let Some(list) = schema.as_array_mut() {
        list.iter_mut().for_each(close);
    }
}

/// The sections of the reference: how each is headed, and the type that it describes.
const SECTIONS: &[(&str, &str)] = &[
    ("The file", ""),
    ("seeds", "Seeds"),
    ("stop", "Stop"),
    ("record", "Record"),
    ("link", "Link"),
    ("carrier", "Carrier"),
    ("dama", "Dama"),
    ("delay", "Geometry"),
    ("station", "GroundStation"),
    ("steps", "Steps"),
    ("opportunities", "Opportunities"),
    ("handover", "Handover"),
    ("discipline", "Discipline"),
    ("loss", "LossModel"),
    ("reorder", "Reorder"),
    ("flow", "Flow"),
    ("start", "Spread"),
    ("bulk", "Bulk"),
    ("on_off", "OnOff"),
    ("request_response", "RequestResponse"),
    ("udp", "Udp"),
    ("ping", "Ping"),
    ("distribution", "Random"),
    ("tcp", "Tcp"),
    ("delayed_ack", "AckPolicy"),
    ("resume", "SavedPath"),
    ("capacity", "Capacity"),
    ("tuning", "Tuning"),
    ("gateway", "Gateway"),
    ("satpep", "Transport"),
    ("class", "Class"),
    ("satpep-2003", "Satpep2003"),
];

/// The reference of the format as Markdown: a table of keys for each kind of section, and the presets of TCP.
pub fn reference() -> String {
    let schema = json_schema();
    let mut text = String::new();
    for (heading, name) in SECTIONS {
        let section = if name.is_empty() { &schema } else { &schema["$defs"][name] };
        text.push_str(&format!("### {heading}\n\n{}\n\n", description(section)));
        text.push_str("| key | value | default | meaning |\n| --- | --- | --- | --- |\n");
        rows(&schema, section, "", &mut text);
        text.push('\n');
    }
    text.push_str("### Presets of TCP\n\n| preset | recovery | control | |\n| --- | --- | --- | --- |\n");
    for preset in Preset::all() {
        let Preset { name, recovery, control, about } = preset;
        text.push_str(&format!("| `{name}` | {recovery} | {control} | {about} |\n"));
    }
    text
}

fn description(schema: &Json) -> String {
    let text = schema.get("description").and_then(Json::as_str).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// A row for each key of `section`, which begins with `prefix`.
fn rows(root: &Json, section: &Json, prefix: &str, text: &mut String) {
    let forms = ["anyOf", "oneOf"].iter().find_map(|key| section.get(key)).and_then(Json::as_array);
    for form in forms.into_iter().flatten() {
        match (form.get("const").and_then(Json::as_str), form.get("properties")) {
            (Some(only), _) => text.push_str(&format!("| `\"{only}\"` | | | {} |\n", description(form))),
            (_, Some(_)) => rows_of_form(root, form, prefix, text),
            _ => {}
        }
    }
    let required: Vec<_> = section["required"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    for (key, property) in section["properties"].as_object().into_iter().flatten() {
        let default = match property.get("default") {
            Some(default) => format!("`{default}`"),
            None if required.contains(&key.as_str()) => "required".to_owned(),
            None => String::new(),
        };
        let value = value(root, property);
        text.push_str(&format!("| `{prefix}{key}` | {value} | {default} | {} |\n", description(property)));
        if property.get("properties").is_some() {
            rows(root, property, &format!("{prefix}{key}."), text);
        }
    }
}

/// One of several forms has one key, which names it: what describes the form describes the key.
fn rows_of_form(root: &Json, form: &Json, prefix: &str, text: &mut String) {
    for (key, property) in form["properties"].as_object().into_iter().flatten() {
        let value = if property.get("properties").is_some() { String::new() } else { value(root, property) };
        text.push_str(&format!("| `{prefix}{key}` | {value} | | {} |\n", description(form)));
        rows(root, property, &format!("{prefix}{key}."), text);
    }
}

/// What fits, with links to the sections that describe tables.
fn value(root: &Json, property: &Json) -> String {
    let list = |key: &str| property.get(key).and_then(Json::as_array);
    if let Some(name) = property.get("$ref").and_then(Json::as_str).and_then(|path| path.rsplit('/').next()) {
        let base = name.trim_end_matches(|c: char| c.is_ascii_digit());
        if let Some((heading, _)) = SECTIONS.iter().find(|(_, of)| !of.is_empty() && *of == base) {
            return format!("[{heading}](#{})", heading.replace(' ', "-"));
        }
        return value(root, &root["$defs"][name]);
    }
    if let Some(forms) = list("anyOf").or_else(|| list("oneOf")) {
        let mut values: Vec<_> = forms.iter().map(|form| value(root, form)).collect();
        values.dedup();
        return values.join(" or ");
    }
    if let Some(form) = property.get("additionalProperties").filter(|form| form.is_object()) {
        return format!("tables by name: {}", value(root, form));
    }
    if property.get("x-changes").is_some() {
        return "settings by their paths".to_owned();
    }
    if let Some(items) = property.get("items").filter(|items| items.is_object() && items.get("prefixItems").is_none()) {
        return format!("list: {}", value(root, items));
    }
    Schema::of(root, property).expected().replace('|', "\\|")
}
