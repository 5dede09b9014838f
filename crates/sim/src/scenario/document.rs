//! A TOML document as a tree that remembers where each value was written, so that faults found later name the place.

use super::fault::Fault;
use serde_json::Value as Json;
use std::fmt::{self, Display};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// A byte of the file.
    File(usize),
    /// An override such as `link.sat.loss=1e-3`, by its number among the overrides.
    Override(usize),
}

/// A value and its place.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) origin: Origin,
    pub(super) value: Value,
}

/// What TOML can say.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    /// A date or a time, which no key of a scenario takes.
    Date(String),
    Array(Vec<Node>),
    Table(Vec<Entry>),
}

/// A key of a table, in the order of the file.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_origin: Origin,
    pub(super) node: Node,
}

/// Reads `text`.
///
/// # Errors
/// The first place at which it is not TOML, or holds a number that no key can take.
pub(super) fn parse(text: &str) -> Result<Node, Fault> {
    let root = DeTable::parse(text).map_err(|error| {
        let message = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
        Fault::new(Origin::File(error.span().map_or(0, |span| span.start)), message)
    })?;
    Ok(Node { origin: Origin::File(0), value: table(root.get_ref())? })
}

fn table(table: &DeTable<'_>) -> Result<Value, Fault> {
    let mut entries = Vec::new();
    for (key, value) in table {
        entries.push(Entry {
            key: key.get_ref().to_string(),
            key_origin: Origin::File(key.span().start),
            node: node(value)?,
        });
    }
    // The parser sorts keys; people read from the top.
    entries.sort_by(|a, b| a.key_origin.cmp(&b.key_origin));
    Ok(Value::Table(entries))
}

fn node(value: &Spanned<DeValue<'_>>) -> Result<Node, Fault> {
    let origin = Origin::File(value.span().start);
    let refused = |text: &str| Fault::new(origin.clone(), format!("{text} is a number that nothing here can take"));
    let value = match value.get_ref() {
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Integer(number) => {
            Value::Integer(i64::from_str_radix(number.as_str(), number.radix()).map_err(|_| refused(number.as_str()))?)
        }
        DeValue::Float(number) => {
            let value: f64 = number.as_str().parse().map_err(|_| refused(number.as_str()))?;
            if !value.is_finite() {
                return Err(refused(number.as_str()));
            }
            Value::Float(value)
        }
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Datetime(date) => Value::Date(date.to_string()),
        DeValue::Array(items) => Value::Array(items.iter().map(node).collect::<Result<_, _>>()?),
        DeValue::Table(entries) => table(entries)?,
    };
    Ok(Node { origin, value })
}

impl Node {
    /// The value of `key`, if this is a table that has it.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    /// The entries of a table; none of anything else.
    pub(super) fn entries(&self) -> &[Entry] {
        if let Value::Table(entries) = &self.value { entries } else { &[] }
    }

    /// The items of an array; none of anything else.
    pub(super) fn items(&self) -> &[Node] {
        if let Value::Array(items) = &self.value { items } else { &[] }
    }

    /// The text, if it is one.
    pub(super) fn text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }

    /// The same tree without places, for serde.
    pub(super) fn to_json(&self) -> Json {
        match &self.value {
            Value::Bool(value) => Json::from(*value),
            Value::Integer(value) => Json::from(*value),
            Value::Float(value) => Json::from(*value),
            Value::Text(text) | Value::Date(text) => Json::from(text.as_str()),
            Value::Array(items) => items.iter().map(Node::to_json).collect(),
            Value::Table(entries) => entries
                .iter()
                .map(|entry| (entry.key.clone(), entry.node.to_json()))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        }
    }

    /// Gives every part of this value one origin.
    pub(super) fn set_origin(&mut self, origin: &Origin) {
        self.origin = origin.clone();
        match &mut self.value {
            Value::Array(items) => items.iter_mut().for_each(|item| item.set_origin(origin)),
            Value::Table(entries) => {
                for entry in entries {
                    entry.key_origin = origin.clone();
                    entry.node.set_origin(origin);
                }
            }
            _ => {}
        }
    }
}

impl Display for Value {
    /// On one line, as TOML.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(value) => write!(f, "{value}"),
            Value::Integer(value) => write!(f, "{value}"),
            Value::Float(value) => write!(f, "{value}"),
            Value::Text(text) => write!(f, "{text:?}"),
            Value::Date(text) => f.write_str(text),
            Value::Array(items) if items.len() > 4 => write!(f, "[…{} items]", items.len()),
            Value::Array(items) => {
                let items: Vec<_> = items.iter().map(|item| item.value.to_string()).collect();
                write!(f, "[{}]", items.join(", "))
            }
            Value::Table(entries) => {
                let entries: Vec<_> =
                    entries.iter().map(|entry| format!("{} = {}", entry.key, entry.node.value)).collect();
                write!(f, "{{ {} }}", entries.join(", "))
            }
        }
    }
}
