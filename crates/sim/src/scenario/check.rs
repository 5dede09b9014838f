//! Holds a document against the schema and reports everything that does not fit, each with what would.

use super::document::{Node, Value};
use super::fault::{Fault, cut, nearest, suggestion};
use super::text;
use serde_json::Value as Json;

/// The faults of `node`, which `path` leads to, against `schema`. What is the same in `sound`, a value of the same place
/// without faults, has none.
pub(super) fn check(
    schema: &Schema<'_>,
    node: &Node,
    sound: Option<&Node>,
    path: &mut Vec<String>,
    faults: &mut Vec<Fault>,
) {
    if sound.is_some_and(|sound| sound.is_same(node)) {
        return;
    }
    if schema.json.get("x-changes").is_some() {
        if !matches!(node.value, Value::Table(_)) {
            faults.push(unexpected(schema, node, path, Some("expected a table of settings".to_owned())));
        }
        return;
    }
    if let Some(alternatives) = schema.alternatives() {
        return check_alternatives(schema, &alternatives, node, path, faults);
    }
    if !schema.takes(node) {
        return faults.push(unexpected(schema, node, path, None));
    }
    match &node.value {
        Value::Table(_) => check_table(schema, node, sound, path, faults),
        Value::Array(_) => check_array(schema, node, sound, path, faults),
        _ => {
            if let Err(problem) = check_scalar(schema, &node.value) {
                faults.push(unexpected(schema, node, path, problem));
            }
        }
    }
}

/// One of several forms: the forms of the value's own type decide, so that faults are about what was meant.
fn check_alternatives(
    schema: &Schema<'_>,
    alternatives: &[Schema<'_>],
    node: &Node,
    path: &mut Vec<String>,
    faults: &mut Vec<Fault>,
) {
    let fitting: Vec<_> = alternatives.iter().filter(|alternative| alternative.takes(node)).collect();
    if let Value::Table(entries) = &node.value {
        let meant = entries.iter().find_map(|entry| fitting.iter().find(|form| form.property(&entry.key).is_some()));
        if let Some(meant) = meant {
            return check(meant, node, None, path, faults);
        }
        if let (Some(entry), false) = (entries.first(), fitting.is_empty()) {
            let known = fitting.iter().flat_map(|form| form.keys());
            let text = format!("{}: unknown key{}", shown(path, &entry.key), suggestion(&entry.key, known));
            return faults.push(Fault::at(entry.key_origin.clone(), path, text));
        }
    }
    let mut attempts = fitting.iter().map(|form| {
        let mut found = Vec::new();
        check(form, node, None, path, &mut found);
        found
    });
    match fitting.len() {
        0 => faults.push(unexpected(schema, node, path, None)),
        1 => faults.extend(attempts.next().unwrap_or_default()),
        _ => {
            if !attempts.any(|found| found.is_empty()) {
                let constants: Vec<_> = fitting.iter().flat_map(|form| form.constants()).collect();
                let near = node.text().map_or(String::new(), |written| near(written, &constants));
                faults.push(unexpected(schema, node, path, Some(format!("expected {}{near}", schema.expected()))));
            }
        }
    }
}

fn check_table(
    schema: &Schema<'_>,
    node: &Node,
    sound: Option<&Node>,
    path: &mut Vec<String>,
    faults: &mut Vec<Fault>,
) {
    for entry in node.entries() {
        let Some(property) = schema.property(&entry.key) else {
            let text = format!("{}: unknown key{}", shown(path, &entry.key), suggestion(&entry.key, schema.keys()));
            faults.push(Fault::at(entry.key_origin.clone(), path, text));
            continue;
        };
        if schema.is_map() && text::check_name(&entry.key).is_err() {
            let text = format!("{}: expected {}", shown(path, &entry.key), text::NAME_EXPECTED);
            faults.push(Fault::at(entry.key_origin.clone(), path, text));
        }
        path.push(entry.key.to_string());
        check(&property, &entry.node, sound.and_then(|sound| sound.get(&entry.key)), path, faults);
        path.pop();
    }
    for key in schema.required() {
        if node.get(key).is_none() {
            let expected = schema.property(key).map_or(String::new(), |property| property.expected());
            let text = format!("{} is missing: expected {expected}", shown(path, key));
            let mut path = path.clone();
            path.push(key.to_owned());
            faults.push(Fault::at(node.origin.clone(), &path, text));
        }
    }
}

fn check_array(
    schema: &Schema<'_>,
    node: &Node,
    sound: Option<&Node>,
    path: &mut Vec<String>,
    faults: &mut Vec<Fault>,
) {
    let (least, most) = (schema.number("minItems"), schema.number("maxItems"));
    let items = node.items();
    let count = items.len() as f64;
    if least.is_some_and(|least| count < least) || most.is_some_and(|most| count > most) {
        return faults.push(unexpected(schema, node, path, None));
    }
    for (at, item) in items.iter().enumerate() {
        let Some(form) = schema.item(at) else { continue };
        path.push(item_name(item, at));
        check(&form, item, sound.and_then(|sound| sound.items().get(at)), path, faults);
        path.pop();
    }
}

/// What an item of an array is called in paths: its name if it has one, else its number.
pub(super) fn item_name(item: &Node, at: usize) -> String {
    item.get("name").and_then(Node::text).map_or_else(|| at.to_string(), str::to_owned)
}

/// `Err(Some(why))` if it can be said better than by what was expected.
fn check_scalar(schema: &Schema<'_>, value: &Value) -> Result<(), Option<String>> {
    let number = match value {
        Value::Text(written) => {
            if let Some(result) = text::check(schema.json, written) {
                return result.map_err(Some);
            }
            let allowed = schema.constants();
            if allowed.is_empty() || allowed.contains(&written.as_str()) {
                return Ok(());
            }
            return Err(Some(format!("expected {}{}", schema.expected(), near(written, &allowed))));
        }
        Value::Integer(value) => *value as f64,
        Value::Float(value) => *value,
        _ => return Ok(()),
    };
    let below = schema.number("minimum").is_some_and(|least| number < least)
        || schema.number("exclusiveMinimum").is_some_and(|least| number <= least);
    let above = schema.number("maximum").is_some_and(|most| number > most);
    let other = schema.json.get("const").and_then(Json::as_f64).is_some_and(|only| number != only);
    if below || above || other { Err(None) } else { Ok(()) }
}

fn near(written: &str, allowed: &[&str]) -> String {
    nearest(written, allowed.iter().copied()).unwrap_or_default()
}

fn unexpected(schema: &Schema<'_>, node: &Node, path: &[String], problem: Option<String>) -> Fault {
    let problem = problem.unwrap_or_else(|| format!("expected {}", schema.expected()));
    let key = path.iter().map(|key| cut(key)).collect::<Vec<_>>().join(".");
    let text = match &node.value {
        Value::Table(_) if key.is_empty() => problem,
        value => format!("{key} = {value}: {problem}"),
    };
    Fault::at(node.origin.clone(), path, text)
}

/// `link.sat.rate`.
pub(super) fn shown(path: &[String], key: &str) -> String {
    path.iter().map(String::as_str).chain([key]).map(cut).collect::<Vec<_>>().join(".")
}

/// A part of a JSON schema, as far as the types of `format` use the language.
#[derive(Debug, Clone, Copy)]
pub(super) struct Schema<'a> {
    root: &'a Json,
    json: &'a Json,
}

impl<'a> Schema<'a> {
    /// The schema of a whole document.
    pub(super) fn new(root: &'a Json) -> Self {
        Self { root, json: root }
    }

    /// A part of the schema `root`.
    pub(super) fn of(root: &'a Json, part: &'a Json) -> Self {
        Self { root, json: root }.part(part)
    }

    fn part(&self, json: &'a Json) -> Self {
        let root = self.root;
        let target =
            json.get("$ref").and_then(Json::as_str).and_then(|path| root.pointer(path.trim_start_matches('#')));
        Self { root, json: target.unwrap_or(json) }
    }

    fn alternatives(&self) -> Option<Vec<Schema<'a>>> {
        let list = self.json.get("anyOf").or_else(|| self.json.get("oneOf"))?.as_array()?;
        let mut forms = Vec::new();
        for form in list {
            let form = self.part(form);
            match form.alternatives() {
                Some(inner) => forms.extend(inner),
                None => forms.push(form),
            }
        }
        Some(forms)
    }

    /// Whether values of the node's type can fit.
    fn takes(&self, node: &Node) -> bool {
        let types = self.json.get("type").and_then(Json::as_str);
        match &node.value {
            Value::Bool(_) => types == Some("boolean"),
            Value::Integer(_) => matches!(types, Some("integer" | "number")),
            Value::Float(_) => types == Some("number"),
            Value::Text(_) => types == Some("string"),
            Value::Other(_) => false,
            Value::Array(_) => types == Some("array"),
            Value::Table(_) => types == Some("object"),
        }
    }

    /// Whether its keys are names that the author of a scenario chooses.
    fn is_map(&self) -> bool {
        self.json.get("additionalProperties").is_some_and(Json::is_object)
    }

    /// What fits under `key`.
    pub(super) fn property(&self, key: &str) -> Option<Schema<'a>> {
        if let Some(property) = self.json.get("properties").and_then(|properties| properties.get(key)) {
            return Some(self.part(property));
        }
        self.json.get("additionalProperties").filter(|schema| schema.is_object()).map(|schema| self.part(schema))
    }

    /// What fits in an array.
    pub(super) fn items(&self) -> Option<Schema<'a>> {
        self.json.get("items").map(|items| self.part(items))
    }

    /// What fits at place `at` of an array.
    fn item(&self, at: usize) -> Option<Schema<'a>> {
        let by_place = self.json.get("prefixItems").and_then(|forms| forms.get(at));
        by_place.or_else(|| self.json.get("items").filter(|items| items.is_object())).map(|form| self.part(form))
    }

    /// Whether it is a table whose keys are settings of their own (or a list of such), rather than one value.
    pub(super) fn has_settings(&self) -> bool {
        let object = |schema: &Schema<'_>| schema.json.get("type").and_then(Json::as_str) == Some("object");
        object(self) || self.items().is_some_and(|items| object(&items))
    }

    /// What fits under `key`, in the first of several forms that has it.
    pub(super) fn form_with(&self, key: &str) -> Option<Schema<'a>> {
        match self.alternatives() {
            Some(forms) => forms.iter().find_map(|form| form.property(key)),
            None => self.property(key),
        }
    }

    fn keys(&self) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
        self.json
            .get("properties")
            .and_then(Json::as_object)
            .into_iter()
            .flat_map(|keys| keys.keys().map(String::as_str))
    }

    fn required(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.json.get("required").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str)
    }

    /// Whether a table may have `key` and need not.
    pub(super) fn is_optional(&self, key: &str) -> bool {
        let keys = |forms: &[Schema<'_>]| forms.iter().any(|form| form.is_optional(key));
        match self.alternatives() {
            Some(forms) => keys(&forms),
            None => self.keys().any(|known| known == key) && self.required().all(|required| required != key),
        }
    }

    /// Whether a list without items fits.
    pub(super) fn takes_empty_list(&self) -> bool {
        match self.alternatives() {
            Some(forms) => forms.iter().any(Schema::takes_empty_list),
            None => {
                let is_list = self.json.get("type").and_then(Json::as_str) == Some("array");
                is_list && self.number("minItems").is_none_or(|least| least == 0.0)
            }
        }
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.json.get(key).and_then(Json::as_f64)
    }

    /// The texts that fit, if they are listed.
    fn constants(&self) -> Vec<&'a str> {
        if let Some(only) = self.json.get("const").and_then(Json::as_str) {
            return vec![only];
        }
        self.json.get("enum").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str).collect()
    }

    /// What fits, in words.
    pub(super) fn expected(&self) -> String {
        if let Some(alternatives) = self.alternatives() {
            let mut words: Vec<_> = alternatives.iter().map(Schema::expected).collect();
            words.dedup();
            return words.join(", or ");
        }
        let constants: Vec<_> = self.constants().iter().map(|text| format!("{text:?}")).collect();
        if !constants.is_empty() {
            return constants.join(", ");
        }
        if self.json.get("x-form").is_some() {
            return self.json.get("x-expected").and_then(Json::as_str).unwrap_or("a text").to_owned();
        }
        let bounds = match (self.number("minimum"), self.number("exclusiveMinimum"), self.number("maximum")) {
            (Some(least), _, Some(most)) => format!(" from {least} to {most}"),
            (Some(least), _, None) => format!(" of at least {least}"),
            (None, Some(least), Some(most)) => format!(" above {least} and at most {most}"),
            (None, Some(least), None) => format!(" above {least}"),
            _ => String::new(),
        };
        match self.json.get("type").and_then(Json::as_str).unwrap_or("value") {
            "boolean" => "true or false".to_owned(),
            "integer" => match self.json.get("const") {
                Some(only) => only.to_string(),
                None => format!("an integer{bounds}"),
            },
            "number" => format!("a number{bounds}"),
            "string" => "a text".to_owned(),
            "array" => {
                let count = match (self.number("minItems"), self.number("maxItems")) {
                    (Some(least), Some(most)) if least == most => format!("{least} of "),
                    (Some(least), _) if least > 0.0 => format!("at least {least} of "),
                    _ => String::new(),
                };
                format!("a list of {count}{}", self.items().map_or("values".to_owned(), |items| items.expected()))
            }
            _ => match self.keys().collect::<Vec<_>>().as_slice() {
                [only] => format!("{{ {only} = … }}"),
                [] => "a table".to_owned(),
                keys => format!("a table of {}", keys.join(", ")),
            },
        }
    }
}
