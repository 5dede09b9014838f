//! Changes of single settings: `--set link.sat.loss=1e-3`, and the variants of a scenario.

use crate::check::{shown, unexpected};
use crate::fault::{Fault, suggestion};
use crate::format::Schema;
use crate::origin::Origin;
use crate::tree::{self, Entry, Node, Value, item_name};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A setting and its new value.
#[derive(Debug, Clone)]
pub struct Change {
    path: Vec<String>,
    node: Node,
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
    /// Reads override number `number`, `key=value`. The value is TOML; what is none is a text, so that quantities need no
    /// quotes.
    ///
    /// # Errors
    /// If there is no `=`, no key or no value.
    pub fn parse(number: usize, text: &str) -> Result<Self, Fault> {
        let origin = Origin::Override(number);
        let wrong = || Fault::new(origin.clone(), "expected KEY=VALUE, such as link.sat.loss=1e-3");
        let (key, value) = text.split_once('=').ok_or_else(wrong)?;
        let path: Vec<String> = key.trim().split('.').map(str::to_owned).collect();
        if path.iter().any(String::is_empty) {
            return Err(wrong());
        }
        let value = value.trim();
        if value.is_empty() {
            let text =
                format!("there is no value behind the `=`: expected {}=VALUE; an empty text is \"\"", path.join("."));
            return Err(Fault::new(origin, text));
        }
        let mut node = tree::parse(&format!("value = {value}"))
            .ok()
            .and_then(|document| document.get("value").filter(|_| document.entries().len() == 1).cloned())
            .unwrap_or_else(|| Node { origin: origin.clone(), value: Value::Text(value.to_owned()) });
        node.set_origin(&origin);
        Ok(Self { path, node })
    }

    /// The changes that the table `node` asks for, whose keys are paths or tables of such. What it asks for twice goes to
    /// `faults`.
    pub fn all_of(schema: &Schema<'_>, node: &Node, faults: &mut Vec<Fault>) -> Vec<Self> {
        let mut changes = Vec::new();
        flatten(schema, node, &[], &mut changes);
        if changes.len() > 1 {
            let mut paths = BTreeSet::new();
            let twice = changes.iter().filter(|change| !paths.insert(&change.path));
            let fault = |change: &Self| {
                let text = format!("{} is set twice", shown(&change.path, "").trim_end_matches('.'));
                Fault::new(change.node.origin.clone(), text)
            };
            faults.extend(twice.map(fault));
        }
        changes
    }

    /// The keys that lead to the setting.
    pub fn path(&self) -> &[String] {
        &self.path
    }

    /// Makes the change in `root`.
    ///
    /// # Errors
    /// If the path leads to an item that is not there; keys that do not exist are left to the check of the whole.
    pub fn apply(&self, root: &mut Node, schema: &Schema<'_>) -> Result<(), Fault> {
        self.apply_at(root, Some(*schema), 0)
    }

    fn apply_at(&self, node: &mut Node, schema: Option<Schema<'_>>, depth: usize) -> Result<(), Fault> {
        let Some(key) = self.path.get(depth) else {
            *node = self.node.clone();
            return Ok(());
        };
        if let Some(items) = schema.and_then(|schema| schema.items()) {
            if !matches!(node.value, Value::Array(_)) {
                node.value = Value::Array(Arc::default());
            }
            let item = self.item(node, key, depth)?;
            let is_whole = depth + 1 == self.path.len();
            if is_whole && items.has_settings() && !matches!(self.node.value, Value::Table(_)) {
                // In place of the item it would have no name to be called by.
                return Err(unexpected(&items, &self.node, &self.path, None));
            }
            return self.apply_at(item, Some(items), depth + 1);
        }
        if depth + 1 == self.path.len() && self.takes_away(schema) {
            node.remove(key);
            return Ok(());
        }
        // Of several forms, the keys of one do not go with those of another.
        let keys = || node.entries().iter().map(|entry| &*entry.key).chain([key.as_str()]);
        let replaces = schema.is_some_and(|schema| !schema.has_settings() && !schema.has_form_with_all(keys));
        if !matches!(node.value, Value::Table(_)) || (replaces && node.get(key).is_none()) {
            *node = Node { origin: self.node.origin.clone(), value: Value::empty_table() };
        }
        let child = self.child(node, key);
        self.apply_at(child, schema.and_then(|schema| schema.form_with(key)), depth + 1)?;
        // A setting of which nothing is left is none.
        let is_left = !self.is_empty_list() || !child.is_empty_table();
        if !is_left && depth + 2 == self.path.len() && schema.is_some_and(|schema| schema.is_optional(key)) {
            node.remove(key);
        }
        Ok(())
    }

    /// The value of `key` in the table `node`, made if it is not there.
    fn child<'n>(&self, node: &'n mut Node, key: &str) -> &'n mut Node {
        let Value::Table(entries) = &mut node.value else { unreachable!("the caller has made it one") };
        let entries = Arc::make_mut(entries);
        let at = entries.iter().position(|entry| &*entry.key == key).unwrap_or_else(|| {
            let origin = self.node.origin.clone();
            let node = Node { origin: origin.clone(), value: Value::empty_table() };
            entries.push(Entry { key: Arc::from(key), key_origin: origin, node });
            entries.len() - 1
        });
        &mut entries[at].node
    }

    fn is_empty_list(&self) -> bool {
        matches!(&self.node.value, Value::Array(items) if items.is_empty())
    }

    /// Whether the new value is an empty list, and means that the last key of the path, in a table of this schema, is not
    /// to be set: where an empty list is no value.
    fn takes_away(&self, schema: Option<Schema<'_>>) -> bool {
        let (Some(schema), Some(key)) = (schema.filter(|_| self.is_empty_list()), self.path.last()) else {
            return false;
        };
        schema.is_optional(key) && schema.form_with(key).is_some_and(|form| !form.takes_empty_list())
    }

    /// The item of an array that is called `key`, or has that number.
    fn item<'n>(&self, array: &'n mut Node, key: &str, depth: usize) -> Result<&'n mut Node, Fault> {
        let named = |item: &Node| item.get("name").and_then(Node::text) == Some(key);
        let found = array.items().iter().position(named).or_else(|| key.parse().ok());
        let Value::Array(items) = &mut array.value else { unreachable!("the caller has made it one") };
        match found.filter(|at| *at < items.len()) {
            Some(at) => Ok(&mut Arc::make_mut(items)[at]),
            None => {
                let names: Vec<_> = items.iter().enumerate().map(|(at, item)| item_name(item, at)).collect();
                let list = self.path[..depth].join(".");
                let near = suggestion(key, names.iter().map(String::as_str));
                let text = format!("{}: there is no {list} called {key}{near}", shown(&self.path[..depth], key));
                Err(Fault::new(self.node.origin.clone(), text))
            }
        }
    }
}
