//! What a document may say, as a JSON Schema (draft 2020-12) that is derived from the types into which it is deserialised.

use crate::form::Form;
use crate::quantity::{self, AnyRate, AnySize, Interval, Line, Name, PositiveRate, RateLimit, Size, Time};
use crate::tree::{Node, Value};
use schemars::JsonSchema;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

/// The format of a kind of file.
///
/// Beside what JSON Schema defines, a schema may say
///
/// | keyword | meaning |
/// | --- | --- |
/// | `x-form`, `x-expected` | a text has a [`Form`]; what fits, in words |
/// | `x-least`, `x-most`, `x-example` | bounds of a quantity, and one that fits: texts |
/// | `x-changes` | a table holds settings by their paths |
/// | `x-secret` | no fault may show the value |
#[derive(Debug, Clone)]
pub struct Format {
    json: Json,
    forms: BTreeMap<&'static str, Check>,
}

/// Reads a text by its form.
type Check = fn(&str) -> Result<(), String>;

impl Format {
    /// The format that `T` is deserialised from: every key that it does not list is a fault.
    pub fn of<T: JsonSchema>() -> Self {
        let mut json = schemars::schema_for!(T).to_value();
        close(&mut json);
        let plain = Self { json, forms: BTreeMap::new() };
        let rates = plain.with::<PositiveRate>().with::<AnyRate>().with::<RateLimit>();
        rates.with::<Size>().with::<AnySize>().with::<Time>().with::<Interval>().with::<Name>().with::<Line>()
    }

    /// The format, in which texts may have the form `F`, too. Those of this crate are known already.
    #[must_use]
    pub fn with<F: Form>(mut self) -> Self {
        self.forms.insert(F::NAME, |text| text.parse::<F>().map(|_| ()));
        self
    }

    /// The JSON Schema.
    pub fn json(&self) -> &Json {
        &self.json
    }

    /// The schema of a whole document.
    pub fn schema(&self) -> Schema<'_> {
        Schema { format: self, json: &self.json }
    }

    /// A part of the schema.
    pub fn part<'a>(&'a self, part: &'a Json) -> Schema<'a> {
        self.schema().part(part)
    }

    /// The names of forms that the schema has and nothing reads: there should be none.
    pub fn unknown_forms(&self) -> BTreeSet<&str> {
        fn collect<'a>(json: &'a Json, names: &mut BTreeSet<&'a str>) {
            match json {
                Json::Object(object) => {
                    names.extend(object.get("x-form").and_then(Json::as_str));
                    object.values().for_each(|value| collect(value, names));
                }
                Json::Array(items) => items.iter().for_each(|value| collect(value, names)),
                _ => {}
            }
        }
        let mut names = BTreeSet::new();
        collect(&self.json, &mut names);
        names.retain(|name| !self.forms.contains_key(name));
        names
    }
}

impl Format {
    /// The keys whose values no fault may show.
    pub(crate) fn secrets(&self) -> BTreeSet<&str> {
        fn collect<'a>(json: &'a Json, keys: &mut BTreeSet<&'a str>) {
            match json {
                Json::Object(object) => {
                    let secret = |value: &Json| value.get("x-secret").is_some();
                    keys.extend(object.iter().filter(|(_, value)| secret(value)).map(|(key, _)| key.as_str()));
                    object.values().for_each(|value| collect(value, keys));
                }
                Json::Array(items) => items.iter().for_each(|value| collect(value, keys)),
                _ => {}
            }
        }
        let mut keys = BTreeSet::new();
        collect(&self.json, &mut keys);
        keys
    }
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

/// A part of a schema, as far as types that are deserialised use the language.
#[derive(Debug, Clone, Copy)]
pub struct Schema<'a> {
    format: &'a Format,
    json: &'a Json,
}

impl<'a> Schema<'a> {
    fn part(&self, json: &'a Json) -> Self {
        let target = json.get("$ref").and_then(Json::as_str);
        let target = target.and_then(|path| self.format.json.pointer(path.trim_start_matches('#')));
        Self { format: self.format, json: target.unwrap_or(json) }
    }

    pub(crate) fn alternatives(&self) -> Option<Vec<Schema<'a>>> {
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
    pub(crate) fn takes(&self, node: &Node) -> bool {
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
    pub(crate) fn is_map(&self) -> bool {
        self.json.get("additionalProperties").is_some_and(Json::is_object)
    }

    /// What fits under `key`.
    pub fn property(&self, key: &str) -> Option<Schema<'a>> {
        if let Some(property) = self.json.get("properties").and_then(|properties| properties.get(key)) {
            return Some(self.part(property));
        }
        self.json.get("additionalProperties").filter(|schema| schema.is_object()).map(|schema| self.part(schema))
    }

    /// The headings of the document's sections that have `key`.
    pub(crate) fn sections_with(&self, key: &str) -> Vec<String> {
        let root = self.format.schema();
        let heading = |section: &str| {
            let part = root.property(section)?;
            let (table, heading) = match part.items() {
                Some(items) => (items, format!("[[{section}]]")),
                None => (part, format!("[{section}]")),
            };
            table.keys().any(|known| known == key).then_some(heading)
        };
        root.keys().filter_map(heading).collect()
    }

    /// What fits in an array.
    pub fn items(&self) -> Option<Schema<'a>> {
        self.json.get("items").map(|items| self.part(items))
    }

    /// What fits at place `at` of an array.
    pub(crate) fn item(&self, at: usize) -> Option<Schema<'a>> {
        let by_place = self.json.get("prefixItems").and_then(|forms| forms.get(at));
        by_place.or_else(|| self.json.get("items").filter(|items| items.is_object())).map(|form| self.part(form))
    }

    /// Whether it is a table whose keys are settings of their own (or a list of such), rather than one value.
    pub fn has_settings(&self) -> bool {
        let object = |schema: &Schema<'_>| schema.json.get("type").and_then(Json::as_str) == Some("object");
        object(self) || self.items().is_some_and(|items| object(&items))
    }

    /// Whether it is a list of tables.
    pub(crate) fn holds_tables(&self) -> bool {
        self.items().is_some_and(|items| items.json.get("type").and_then(Json::as_str) == Some("object"))
    }

    /// What fits under `key`, in the first of several forms that has it.
    pub fn form_with(&self, key: &str) -> Option<Schema<'a>> {
        match self.alternatives() {
            Some(forms) => forms.iter().find_map(|form| form.property(key)),
            None => self.property(key),
        }
    }

    /// Whether one of its forms has all of `keys`.
    pub(crate) fn has_form_with_all<'k, Keys: Iterator<Item = &'k str>>(&self, keys: impl Fn() -> Keys) -> bool {
        let has_all = |form: &Schema<'_>| keys().all(|key| form.property(key).is_some());
        match self.alternatives() {
            Some(forms) => forms.iter().any(has_all),
            None => has_all(self),
        }
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
        self.json
            .get("properties")
            .and_then(Json::as_object)
            .into_iter()
            .flat_map(|keys| keys.keys().map(String::as_str))
    }

    pub(crate) fn required(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.json.get("required").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str)
    }

    /// Whether a table may have `key` and need not.
    pub fn is_optional(&self, key: &str) -> bool {
        let keys = |forms: &[Schema<'_>]| forms.iter().any(|form| form.is_optional(key));
        match self.alternatives() {
            Some(forms) => keys(&forms),
            None => self.keys().any(|known| known == key) && self.required().all(|required| required != key),
        }
    }

    /// Whether a list without items fits.
    pub fn takes_empty_list(&self) -> bool {
        match self.alternatives() {
            Some(forms) => forms.iter().any(Schema::takes_empty_list),
            None => {
                let is_list = self.json.get("type").and_then(Json::as_str) == Some("array");
                is_list && self.number("minItems").is_none_or(|least| least == 0.0)
            }
        }
    }

    /// What is wrong with `text` in the form that the schema names, if anything; `None` if it names none.
    pub(crate) fn check_form(&self, text: &str) -> Option<Result<(), String>> {
        let form = self.text("x-form")?;
        let check = self.format.forms.get(form)?;
        Some(match (quantity::magnitude(form, text), self.expected_within_bounds()) {
            (Some(value), Some(expected)) => {
                let bound = |key| self.text(key).and_then(|bound| quantity::magnitude(form, bound));
                let is_least = bound("x-least").is_none_or(|least| value >= least);
                let is_most = bound("x-most").is_none_or(|most| value <= most);
                if is_least && is_most { check(text) } else { Err(format!("expected {expected}")) }
            }
            _ => check(text),
        })
    }

    /// What the schema says under `key`, if it is a text.
    fn text(&self, key: &str) -> Option<&'a str> {
        self.json.get(key).and_then(Json::as_str)
    }

    /// A quantity with bounds, in words.
    fn expected_within_bounds(&self) -> Option<String> {
        let noun = quantity::noun(self.text("x-form")?);
        let bounds = match (self.text("x-least"), self.text("x-most")) {
            (Some(least), Some(most)) => format!("from {least} to {most}"),
            (Some(least), None) => format!("of at least {least}"),
            (None, Some(most)) => format!("of at most {most}"),
            (None, None) => return None,
        };
        let example = self.text("x-example").or(self.text("default")).map(|text| format!(", such as {text:?}"));
        Some(format!("{noun} {bounds}{}", example.unwrap_or_default()))
    }

    /// Whether a table of it holds settings by their paths.
    pub(crate) fn holds_changes(&self) -> bool {
        self.json.get("x-changes").is_some()
    }

    /// Whether no fault may show the value.
    pub(crate) fn is_secret(&self) -> bool {
        self.json.get("x-secret").is_some()
    }

    pub(crate) fn number(&self, key: &str) -> Option<f64> {
        self.json.get(key).and_then(Json::as_f64)
    }

    /// The texts that fit, if they are listed.
    pub(crate) fn constants(&self) -> Vec<&'a str> {
        if let Some(only) = self.json.get("const").and_then(Json::as_str) {
            return vec![only];
        }
        self.json.get("enum").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str).collect()
    }

    /// What fits, in words.
    pub fn expected(&self) -> String {
        if let Some(alternatives) = self.alternatives() {
            let mut words: Vec<_> = alternatives.iter().map(Schema::expected).collect();
            words.dedup();
            let are_constants = alternatives.iter().all(|form| !form.constants().is_empty());
            return words.join(if are_constants { ", " } else { ", or " });
        }
        let constants: Vec<_> = self.constants().iter().map(|text| format!("{text:?}")).collect();
        if !constants.is_empty() {
            return constants.join(", ");
        }
        if let Some(bounded) = self.expected_within_bounds() {
            return bounded;
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
