//! Changes of single settings: `--set link.sat.loss=1e-3`, and the variants of a file.

use super::check::{Schema, shown};
use super::document::{self, Entry, Node, Origin, Value};
use super::fault::{Fault, suggestion};

/// A setting and its new value.
#[derive(Debug, Clone)]
pub(super) struct Change {
    path: Vec<String>,
    node: Node,
}

/// Reads override number `number`, `key=value`. The value is TOML; what is none is a text, so that quantities need no
/// quotes.
///
/// # Errors
/// If there is no `=` or no key.
pub(super) fn parse(number: usize, text: &str) -> Result<Change, Fault> {
    let origin = Origin::Override(number);
    let wrong = || Fault::new(origin.clone(), "expected KEY=VALUE, such as link.sat.loss=1e-3");
    let (key, value) = text.split_once('=').ok_or_else(wrong)?;
    let path: Vec<String> = key.trim().split('.').map(str::to_owned).collect();
    if path.iter().any(String::is_empty) {
        return Err(wrong());
    }
    let value = value.trim();
    let mut node = document::parse(&format!("value = {value}"))
        .ok()
        .and_then(|document| document.get("value").filter(|_| document.entries().len() == 1).cloned())
        .unwrap_or_else(|| Node { origin: origin.clone(), value: Value::Text(value.to_owned()) });
    node.set_origin(&origin);
    Ok(Change { path, node })
}

/// The changes that the table `node` of a variant asks for.
pub(super) fn of_variant(schema: &Schema<'_>, node: &Node) -> Vec<Change> {
    let mut changes = Vec::new();
    flatten(schema, node, &[], &mut changes);
    changes
}

/// A table stands for its keys where the schema has settings below, and for one value where it has a value.
fn flatten(schema: &Schema<'_>, node: &Node, path: &[String], changes: &mut Vec<Change>) {
    for entry in node.entries() {
        let path: Vec<String> = path.iter().cloned().chain(entry.key.split('.').map(str::to_owned)).collect();
        match &entry.node.value {
            Value::Table(_) if schema_at(schema, &path).is_some_and(|schema| schema.has_settings()) => {
                flatten(schema, &entry.node, &path, changes);
            }
            _ => changes.push(Change { path, node: entry.node.clone() }),
        }
    }
}

fn schema_at<'a>(schema: &Schema<'a>, path: &[String]) -> Option<Schema<'a>> {
    path.iter().try_fold(*schema, |schema, key| schema.items().or_else(|| schema.property(key)))
}

impl Change {
    /// Makes the change in `root`.
    ///
    /// # Errors
    /// If the path leads to an item that is not there; keys that do not exist are left to the check of the whole.
    pub(super) fn apply(&self, root: &mut Node, schema: &Schema<'_>) -> Result<(), Fault> {
        self.apply_at(root, Some(*schema), 0)
    }

    fn apply_at(&self, node: &mut Node, schema: Option<Schema<'_>>, depth: usize) -> Result<(), Fault> {
        let Some(key) = self.path.get(depth) else {
            *node = self.node.clone();
            return Ok(());
        };
        if let Some(items) = schema.and_then(|schema| schema.items()) {
            if !matches!(node.value, Value::Array(_)) {
                node.value = Value::Array(Vec::new());
            }
            return self.apply_at(self.item(node, key, depth)?, Some(items), depth + 1);
        }
        let replaces = schema.is_some_and(|schema| !schema.has_settings());
        if !matches!(node.value, Value::Table(_)) || (replaces && node.get(key).is_none()) {
            *node = Node { origin: self.node.origin.clone(), value: Value::Table(Vec::new()) };
        }
        let Value::Table(entries) = &mut node.value else { return Ok(()) };
        let at = entries.iter().position(|entry| &entry.key == key).unwrap_or_else(|| {
            let origin = self.node.origin.clone();
            let node = Node { origin: origin.clone(), value: Value::Table(Vec::new()) };
            entries.push(Entry { key: key.clone(), key_origin: origin, node });
            entries.len() - 1
        });
        self.apply_at(&mut entries[at].node, schema.and_then(|schema| schema.form_with(key)), depth + 1)
    }

    /// The item of an array that is called `key`, or has that number.
    fn item<'n>(&self, array: &'n mut Node, key: &str, depth: usize) -> Result<&'n mut Node, Fault> {
        let named = |item: &Node| item.get("name").and_then(Node::text) == Some(key);
        let found = array.items().iter().position(named).or_else(|| key.parse().ok());
        let Value::Array(items) = &mut array.value else { unreachable!("the caller has made it one") };
        let names: Vec<String> = items.iter().enumerate().map(|(at, item)| super::check::item_name(item, at)).collect();
        found.and_then(|at| items.get_mut(at)).ok_or_else(|| {
            let list = self.path[..depth].join(".");
            let near = suggestion(key, names.iter().map(String::as_str));
            let text = format!("{}: there is no {list} called {key}{near}", shown(&self.path[..depth], key));
            Fault::new(self.node.origin.clone(), text)
        })
    }
}
