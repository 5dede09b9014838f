//! A file of one kind, from its text to what its reader makes of it.

use crate::check::check;
use crate::fault::{Fault, Faults, Found, Lines};
use crate::format::Format;
use crate::origin::Origin;
use crate::tree::{self, Node, item_name};
use serde::de::DeserializeOwned;

/// A text that is held against a [`Format`] when it is read. Its reader takes typed sections out of it, reports what it finds
/// wrong at the value's place, and finishes with all faults.
#[derive(Debug)]
pub struct Document<'a> {
    text: &'a str,
    file: &'a str,
    root: Node,
    faults: Vec<Fault>,
}

impl<'a> Document<'a> {
    /// Reads `text`, called `file` in faults. Faults of the format are reported by [`Document::finish`].
    ///
    /// # Errors
    /// If it is not TOML.
    pub fn read(text: &'a str, file: &'a str, format: &Format) -> Result<Self, Faults> {
        let root = match tree::parse_hiding(text, &format.secrets()) {
            Ok(root) => root,
            Err(fault) => return Err(say([fault], text, file)),
        };
        let mut faults = Vec::new();
        check(&format.schema(), &root, None, &mut Vec::new(), &mut faults);
        Ok(Self { text, file, root, faults })
    }

    /// The tree.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// The value that the keys of `path` lead to: items of a list by name or number.
    pub fn node(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(&self.root, |node, key| {
            let named = || node.items().iter().enumerate().find(|(at, item)| item_name(item, *at) == *key);
            node.get(key).or_else(|| named().map(|(_, item)| item))
        })
    }

    /// The value that `path` leads to as a `T`, if it is there and nothing in it is wrong.
    pub fn typed<T: DeserializeOwned>(&mut self, path: &[&str]) -> Option<T> {
        self.typed_node(&self.node(path)?.clone(), path)
    }

    /// The section `key`, which may be left out, if nothing in it is wrong.
    pub fn section<T: DeserializeOwned + Default>(&mut self, key: &str) -> Option<T> {
        if self.root.get(key).is_none() && !self.is_faulty(&[key]) {
            return Some(T::default());
        }
        self.typed(&[key])
    }

    /// The items of the list `key`; none of anything else.
    pub fn items(&self, key: &str) -> Vec<Node> {
        self.root.get(key).map_or_else(Vec::new, |list| list.items().to_vec())
    }

    /// The value `node`, which `path` leads to, as a `T`, if nothing in it is wrong.
    pub fn typed_node<T: DeserializeOwned>(&mut self, node: &Node, path: &[&str]) -> Option<T> {
        if self.is_faulty(path) {
            return None;
        }
        match node.typed(path) {
            Ok(value) => Some(value),
            Err(fault) => {
                self.faults.push(fault);
                None
            }
        }
    }

    /// Whether something is wrong in what `path` leads to.
    pub fn is_faulty(&self, path: &[&str]) -> bool {
        self.faults.iter().any(|fault| fault.lies_within(path))
    }

    /// Reports `problem` with the value that `path` leads to; if it is not there, at what contains it.
    pub fn fault(&mut self, path: &[&str], problem: &str) {
        self.fault_at(self.origin(path), path, problem);
    }

    /// Reports `problem` with what `path` leads to, at `origin`.
    pub fn fault_at(&mut self, origin: Origin, path: &[&str], problem: &str) {
        let keys: Vec<_> = path.iter().map(|key| (*key).to_owned()).collect();
        let key = path.join(".");
        let text = if key.is_empty() { problem.to_owned() } else { format!("{key}{problem}") };
        self.faults.push(Fault::at(origin, &keys, text));
    }

    /// Reports faults.
    pub fn add(&mut self, faults: impl IntoIterator<Item = Fault>) {
        self.faults.extend(faults);
    }

    /// Line and column, from 1, of the value that `path` leads to, or of what contains it.
    pub fn place(&self, path: &[&str]) -> (usize, usize) {
        match self.origin(path) {
            Origin::File(offset) => Lines::new(self.text).position(offset),
            Origin::Override(_) => (0, 0),
        }
    }

    fn origin(&self, path: &[&str]) -> Origin {
        let node = (0..=path.len()).rev().find_map(|length| self.node(&path[..length]));
        node.map_or(Origin::File(0), |node| node.origin.clone())
    }

    /// What was read, if nothing is wrong.
    ///
    /// # Errors
    /// With every fault, in the order of their places.
    pub fn finish<T>(self, value: Option<T>) -> Result<T, Faults> {
        match value {
            Some(value) if self.faults.is_empty() => Ok(value),
            _ => Err(say(self.faults, self.text, self.file)),
        }
    }
}

fn say(faults: impl IntoIterator<Item = Fault>, text: &str, file: &str) -> Faults {
    let mut found = Found::default();
    found.add(faults);
    found.say(text, file, &[], &[])
}
