//! A TOML document as a tree that remembers where each value was written, so that faults found later name the place.
//!
//! Lists and tables are shared between copies until one of them changes: the copies that the variants of a file are made of
//! cost no more than what is different in them, and tell by [`Node::is_same`] what is not.

use crate::fault::{Fault, cut};
use crate::origin::Origin;
use crate::syntax;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use serde_path_to_error::Segment;
use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and its place.
#[derive(Debug, Clone)]
pub struct Node {
    /// Where it begins.
    pub origin: Origin,
    /// What it is.
    pub value: Value,
}

/// What TOML can say.
#[derive(Debug, Clone)]
pub enum Value {
    /// True or false.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Another number.
    Float(f64),
    /// A text in quotes.
    Text(String),
    /// What no key takes, as written: dates and times, numbers out of range or not finite.
    Other(String),
    /// A list.
    Array(Arc<Vec<Node>>),
    /// Keys and values.
    Table(Arc<Vec<Entry>>),
}

/// A key of a table, in the order of the file.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The key.
    pub key: Arc<str>,
    /// Where it stands.
    pub key_origin: Origin,
    /// Its value.
    pub node: Node,
}

/// What an item of an array is called in paths: its name if it has one, else its number.
pub fn item_name(item: &Node, at: usize) -> String {
    item.get("name").and_then(Node::text).map_or_else(|| at.to_string(), str::to_owned)
}

/// The most bytes that a text may have.
pub const MAX_BYTES: usize = 64 << 20;

/// How deep tables and lists may lie in one another. No format needs more than ten.
pub const MAX_DEPTH: usize = 32;

/// Reads `text`.
///
/// # Errors
/// The first place at which it is not TOML, or more than a text may be.
pub fn parse(text: &str) -> Result<Node, Fault> {
    parse_hiding(text, &BTreeSet::new())
}

/// As [`parse`]; no fault shows the values of the keys `secrets`.
pub(crate) fn parse_hiding(text: &str, secrets: &BTreeSet<&str>) -> Result<Node, Fault> {
    if text.len() > MAX_BYTES {
        let problem = format!("the text has {} bytes; {MAX_BYTES} are the most", text.len());
        return Err(Fault::new(Origin::File(0), problem));
    }
    let root = DeTable::parse(text).map_err(|error| syntax::fault(text, &error, secrets))?;
    Ok(Node { origin: Origin::File(0), value: table(root.get_ref(), 0)? })
}

fn table(table: &DeTable<'_>, depth: usize) -> Result<Value, Fault> {
    let mut entries = Vec::with_capacity(table.len());
    for (key, value) in table {
        let key_origin = Origin::File(key.span().start);
        entries.push(Entry { key: Arc::from(&**key.get_ref()), key_origin, node: node(value, depth)? });
    }
    // The parser sorts keys; people read from the top.
    entries.sort_by(|a, b| a.key_origin.cmp(&b.key_origin));
    Ok(Value::Table(Arc::new(entries)))
}

/// A value that lies in `depth` others.
fn node(value: &Spanned<DeValue<'_>>, depth: usize) -> Result<Node, Fault> {
    let other = |text: &str| Value::Other(text.to_owned());
    let origin = Origin::File(value.span().start);
    if depth > MAX_DEPTH {
        return Err(Fault::new(origin, format!("it lies in more than {MAX_DEPTH} tables and lists")));
    }
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
        DeValue::Array(items) => {
            let items: Result<_, _> = items.iter().map(|item| node(item, depth + 1)).collect();
            Value::Array(Arc::new(items?))
        }
        DeValue::Table(entries) => table(entries, depth + 1)?,
    };
    Ok(Node { origin, value })
}

impl Value {
    /// A table without keys.
    pub fn empty_table() -> Self {
        Self::Table(Arc::default())
    }
}

impl Node {
    /// The value of `key`, if this is a table that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|entry| &*entry.key == key).map(|entry| &entry.node)
    }

    /// The value that `path` leads to, keys with dots between them; as far as it leads.
    pub fn at(&self, path: &str) -> &Node {
        let mut node = self;
        for key in path.split('.') {
            let Some(next) = node.get(key) else { break };
            node = next;
        }
        node
    }

    /// Whether the two are copies of one value that has changed in neither.
    pub fn is_same(&self, other: &Node) -> bool {
        match (&self.value, &other.value) {
            (Value::Array(one), Value::Array(other)) => Arc::ptr_eq(one, other),
            (Value::Table(one), Value::Table(other)) => Arc::ptr_eq(one, other),
            (Value::Array(_) | Value::Table(_), _) | (_, Value::Array(_) | Value::Table(_)) => false,
            // Of each place there is one value.
            _ => self.origin == other.origin,
        }
    }

    /// Whether it is a table without keys.
    pub fn is_empty_table(&self) -> bool {
        matches!(&self.value, Value::Table(entries) if entries.is_empty())
    }

    /// Takes `key` out of a table.
    pub fn remove(&mut self, key: &str) -> Option<Node> {
        let Value::Table(entries) = &mut self.value else { return None };
        let at = entries.iter().position(|entry| &*entry.key == key)?;
        Some(Arc::make_mut(entries).remove(at).node)
    }

    /// The entries of a table; none of anything else.
    pub fn entries(&self) -> &[Entry] {
        if let Value::Table(entries) = &self.value { entries } else { &[] }
    }

    /// The items of an array; none of anything else.
    pub fn items(&self) -> &[Node] {
        if let Value::Array(items) = &self.value { items } else { &[] }
    }

    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }

    /// This value, which `path` leads to, as a `T`.
    ///
    /// # Errors
    /// If it is none, at the place of the part that is wrong.
    pub fn typed<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T, Fault> {
        serde_path_to_error::deserialize(self.to_json()).map_err(|error| {
            let (mut node, mut keys) = (self, path.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>());
            for segment in error.path() {
                let (next, key) = match segment {
                    Segment::Map { key } => (node.get(key), key.clone()),
                    Segment::Seq { index } => {
                        let item = node.items().get(*index);
                        (item, item.map_or_else(|| index.to_string(), |item| item_name(item, *index)))
                    }
                    Segment::Enum { .. } | Segment::Unknown => (None, String::new()),
                };
                let Some(next) = next else { break };
                node = next;
                keys.push(key);
            }
            Fault::at(node.origin.clone(), &keys, format!("{}: {}", keys.join("."), error.inner()))
        })
    }

    /// The same tree without places, for serde.
    pub fn to_json(&self) -> Json {
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
    pub(crate) fn set_origin(&mut self, origin: &Origin) {
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
            // With its point, without which it would be an integer.
            Value::Float(value) => write!(f, "{value:?}"),
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
