//! A format as a page of documentation: a table of keys for each kind of section.

use crate::Format;
use serde_json::Value as Json;
use std::fmt::Write;

/// A part of a page: how it is headed, and the type that it describes; none is the whole file.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    /// The heading.
    pub heading: &'static str,
    /// The name of the type in the schema.
    pub of: Option<&'static str>,
}

impl Section {
    /// The part with this heading about this type.
    pub const fn new(heading: &'static str, of: &'static str) -> Self {
        Self { heading, of: Some(of) }
    }
}

/// The reference of a format as Markdown: a table of keys for each of the `sections`.
pub fn reference(format: &Format, sections: &[Section]) -> String {
    let page = Page { format, sections };
    let mut text = String::new();
    for Section { heading, of } in sections {
        let section = of.map_or(format.json(), |name| &format.json()["$defs"][name]);
        // Writing to a text does not fail.
        let _ = write!(text, "### {heading}\n\n{}\n\n", description(section));
        text += "| key | value | default | meaning |\n| --- | --- | --- | --- |\n";
        page.rows(section, "", &mut text);
        text += "\n";
    }
    text
}

fn description(schema: &Json) -> String {
    let text = schema.get("description").and_then(Json::as_str).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// What is being written.
struct Page<'a> {
    format: &'a Format,
    sections: &'a [Section],
}

impl Page<'_> {
    /// A row for each key of `section`, which begins with `prefix`.
    fn rows(&self, section: &Json, prefix: &str, text: &mut String) {
        let forms = ["anyOf", "oneOf"].iter().find_map(|key| section.get(key)).and_then(Json::as_array);
        for form in forms.into_iter().flatten() {
            match (form.get("const").and_then(Json::as_str), form.get("properties")) {
                (Some(only), _) => text.push_str(&format!("| `\"{only}\"` | | | {} |\n", description(form))),
                (_, Some(_)) => self.rows_of_form(form, prefix, text),
                _ => {}
            }
        }
        let required: Vec<_> = section["required"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
        for (key, property) in section["properties"].as_object().into_iter().flatten() {
            let default = match property.get("default").filter(|default| !default.is_object()) {
                Some(default) => format!("`{default}`"),
                None if required.contains(&key.as_str()) => "required".to_owned(),
                None => String::new(),
            };
            let value = self.value(property);
            text.push_str(&format!("| `{prefix}{key}` | {value} | {default} | {} |\n", description(property)));
            if property.get("properties").is_some() {
                self.rows(property, &format!("{prefix}{key}."), text);
            }
        }
    }

    /// One of several forms has one key, which names it: what describes the form describes the key.
    fn rows_of_form(&self, form: &Json, prefix: &str, text: &mut String) {
        for (key, property) in form["properties"].as_object().into_iter().flatten() {
            let value = if property.get("properties").is_some() { String::new() } else { self.value(property) };
            text.push_str(&format!("| `{prefix}{key}` | {value} | | {} |\n", description(form)));
            self.rows(property, &format!("{prefix}{key}."), text);
        }
    }

    /// What fits, with links to the sections that describe tables.
    fn value(&self, property: &Json) -> String {
        let list = |key: &str| property.get(key).and_then(Json::as_array);
        if let Some(name) = property.get("$ref").and_then(Json::as_str).and_then(|path| path.rsplit('/').next()) {
            let base = name.trim_end_matches(|c: char| c.is_ascii_digit());
            if let Some(section) = self.sections.iter().find(|section| section.of == Some(base)) {
                return format!("[{0}](#{1})", section.heading, section.heading.replace(' ', "-"));
            }
            return self.value(&self.format.json()["$defs"][name]);
        }
        if let Some(forms) = list("anyOf").or_else(|| list("oneOf")) {
            let mut values: Vec<_> = forms.iter().map(|form| self.value(form)).collect();
            values.dedup();
            let are_constants = forms.iter().all(|form| form.get("const").is_some());
            return values.join(if are_constants { ", " } else { " or " });
        }
        if let Some(form) = property.get("additionalProperties").filter(|form| form.is_object()) {
            return format!("tables by name: {}", self.value(form));
        }
        if property.get("x-changes").is_some() {
            return "settings by their paths".to_owned();
        }
        if let Some(items) =
            property.get("items").filter(|items| items.is_object() && items.get("prefixItems").is_none())
        {
            return format!("list: {}", self.value(items));
        }
        self.format.part(property).expected().replace('|', "\\|")
    }
}
