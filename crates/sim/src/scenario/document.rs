//! A TOML document as a tree that remembers where each value was written, so that faults found later name the place.
//!
//! Lists and tables are shared between copies until one of them changes: the copies that the variants of a file are made of
//! cost no more than what is different in them, and tell by [`Node::is_same`] what is not.

use super::fault::{Fault, cut};
use super::syntax;
use serde_json::Value as Json;
use std::fmt::{self, Display};
use std::sync::Arc;
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
    /// What no key of a scenario takes, as written: dates and times, numbers out of range or not finite.
    Other(String),
    Array(Arc<Vec<Node>>),
    Table(Arc<Vec<Entry>>),
}

/// A key of a table, in the order of the file.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: Arc<str>,
    pub(super) key_origin: Origin,
    pub(super) node: Node,
}

/// Reads `text`.
///
/// # Errors
/// The first place at which it is not TOML.
pub(super) fn parse(text: &str) -> Result<Node, Fault> {
    let root = DeTable::parse(text).map_err(|error| syntax::fault(text, &error))?;
    Ok(Node { origin: Origin::File(0), value: table(root.get_ref()) })
}

fn table(table: &DeTable<'_>) -> Value {
    let mut entries = Vec::with_capacity(table.len());
    for (key, value) in table {
        let key_origin = Origin::File(key.span().start);
        entries.push(Entry { key: Arc::from(&**key.get_ref()), key_origin, node: node(value) });
    }
    // The parser sorts keys; people read from the top.
    entries.sort_by(|a, b| a.key_origin.cmp(&b.key_origin));
    Value::Table(Arc::new(entries))
}

fn node(value: &Spanned<DeValue<'_>>) -> Node {
    let other = |text: &str| Value::Other(text.to_owned());
    let origin = Origin::File(value.span().start);
    let value = match value.get_ref() {
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Integer(number) => {
            let value = i64::from_str_radix(number.as_str(), number.radix());
            value.map_or_else(|_| other(number.as_str()), Value::Integer)
        }
        DeValue::Float(number) => {
            let value = number.as_str().parse().ok().filter(|value: &f64| value.is_finite());
            value.map_or_else(|| other(number.as_str()), Value::Float)
        }
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Datetime(date) => Value::Other(date.to_string()),
        DeValue::Array(items) => Value::Array(Arc::new(items.iter().map(node).collect())),
        DeValue::Table(entries) => table(entries),
    };
    Node { origin, value }
}

impl Value {
    /// A table without keys.
    pub(super) fn empty_table() -> Self {
        Self::Table(Arc::default())
    }
}

impl Node {
    /// The value of `key`, if this is a table that has it.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|entry| &*entry.key == key).map(|entry| &entry.node)
    }

    /// The value that `path` leads to, keys with dots between them; as far as it leads.
    pub(super) fn at(&self, path: &str) -> &Node {
        let mut node = self;
        for key in path.split('.') {
            let Some(next) = node.get(key) else { break };
            node = next;
        }
        node
    }

    /// Whether the two are copies of one value that has changed in neither.
    pub(super) fn is_same(&self, other: &Node) -> bool {
        match (&self.value, &other.value) {
            (Value::Array(one), Value::Array(other)) => Arc::ptr_eq(one, other),
            (Value::Table(one), Value::Table(other)) => Arc::ptr_eq(one, other),
            (Value::Array(_) | Value::Table(_), _) | (_, Value::Array(_) | Value::Table(_)) => false,
            // Of each place there is one value.
            _ => self.origin == other.origin,
        }
    }

    /// Whether it is a table without keys.
    pub(super) fn is_empty_table(&self) -> bool {
        matches!(&self.value, Value::Table(entries) if entries.is_empty())
    }

    /// Takes `key` out of a table.
    pub(super) fn remove(&mut self, key: &str) -> Option<Node> {
        let Value::Table(entries) = &mut self.value else { return None };
        let at = entries.iter().position(|entry| &*entry.key == key)?;
        Some(Arc::make_mut(entries).remove(at).node)
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
            Value::Text(text) | Value::Other(text) => Json::from(text.as_str()),
            Value::Array(items) => items.iter().map(Node::to_json).collect(),
            Value::Table(entries) => entries
                .iter()
                .map(|entry| (entry.key.to_string(), entry.node.to_json()))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        }
    }

    /// Gives every part of this value one origin.
    pub(super) fn set_origin(&mut self, origin: &Origin) {
        self.origin = origin.clone();
        match &mut self.value {
            Value::Array(items) => Arc::make_mut(items).iter_mut().for_each(|item| item.set_origin(origin)),
            Value::Table(entries) => {
                for entry in Arc::make_mut(entries) {
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
            Value::Text(text) => write!(f, "{:?}", cut(text)),
            Value::Other(text) => f.write_str(&cut(text)),
            Value::Array(items) if items.len() > 4 => write!(f, "[…{} items]", items.len()),
            Value::Array(items) => {
                let items: Vec<_> = items.iter().map(|item| item.value.to_string()).collect();
                write!(f, "[{}]", items.join(", "))
            }
            Value::Table(entries) if entries.len() > 4 => write!(f, "{{…{} keys}}", entries.len()),
            Value::Table(entries) => {
                let entries: Vec<_> =
                    entries.iter().map(|entry| format!("{} = {}", entry.key, entry.node.value)).collect();
                write!(f, "{{ {} }}", entries.join(", "))
            }
        }
    }
}
