//! Controls loaded into the kernel, by this process or by a pin.

use crate::filesystem::Pins;
use crate::{Control, LinkTable, link_table, messages, requirements};
use kernel::Error;
use libbpf_rs::{ErrorKind, Link, MapCore, MapHandle, MapType, Object, ObjectBuilder};
use std::io;

/// The map that becomes the control.
const STRUCT_OPS: MapType = MapType::StructOps;
/// The longest name, without the byte that ends it.
const LONGEST_NAME: usize = 15;

/// A control that this process holds in the kernel. Dropped, or at the end of the process, no connection can choose it
/// any more.
#[derive(Debug)]
pub struct LoadedControl {
    name: String,
    control: &'static Control,
    link: Link,
    links: Option<LinkTable>,
}

impl LoadedControl {
    /// Loads `control`.
    ///
    /// # Errors
    /// [`Error::Missing`] if the kernel or the process lacks something ([`crate::requirements`]), and if there is a control of
    /// this name; [`Error::Failed`] if the kernel refuses the programs.
    pub fn load(control: &'static Control) -> Result<Self, Error> {
        Self::load_as(control, control.name)
    }

    /// Loads `control` under another name, so that programs do not get in one another's way.
    ///
    /// # Errors
    /// As [`LoadedControl::load`], and if the name is not of 1 to 15 letters, digits, `_` or `-`.
    pub fn load_as(control: &'static Control, name: &str) -> Result<Self, Error> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(is_plain) {
            return Err(Error::Missing(format!(
                "`{name}` names no congestion control: 1 to {LONGEST_NAME} letters, digits, `_` or `-`"
            )));
        }
        requirements::check()?;
        let mut object = open(control, name).map_err(|error| refused(control, &error))?;
        let link = object
            .maps_mut()
            .find(|map| map.map_type() == STRUCT_OPS)
            .ok_or_else(|| Error::Missing(format!("{}: the object holds no control", control.name)))?
            .attach_struct_ops()
            .map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists => Error::Missing(format!(
                    "the kernel has a congestion control {name} already: it is loaded (bentpipe cc list)"
                )),
                _ => refused(control, &error),
            })?;
        let links = object
            .maps()
            .find(|map| map.name() == link_table::NAME)
            .map(|map| MapHandle::try_from(&map))
            .transpose()
            .map_err(|error| refused(control, &error))?
            .map(LinkTable::new);
        Ok(Self { name: name.to_owned(), control, link, links })
    }

    /// Its name for `TCP_CONGESTION`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its table of links; only the cross-layer control has one.
    pub fn links(&self) -> Option<&LinkTable> {
        self.links.as_ref()
    }

    /// Leaves it in the kernel when the process ends.
    ///
    /// # Errors
    /// If the BPF file system cannot be mounted or written; then nothing is left behind.
    pub fn pin(mut self) -> Result<(), Error> {
        let pins = Pins::of(self.control);
        pins.make_folder()?;
        let pinned = self.pin_to(&pins);
        if pinned.is_err() {
            // Why it failed is what there is to tell.
            let _ = pins.remove();
        }
        pinned.map_err(|error| refused(self.control, &error))
    }

    fn pin_to(&mut self, pins: &Pins) -> libbpf_rs::Result<()> {
        if let Some(links) = &mut self.links {
            links.pin(&pins.links())?;
        }
        // Last: what has a link is complete.
        self.link.pin(pins.link())
    }
}

/// Whether `control` is pinned.
///
/// # Errors
/// If the process may not look.
pub fn is_pinned(control: &Control) -> Result<bool, Error> {
    Pins::of(control).exist()
}

/// Takes the pins of `control` away; whether there were any.
///
/// # Errors
/// If the process may not look, or they cannot be removed.
pub fn unpin(control: &Control) -> Result<bool, Error> {
    let pins = Pins::of(control);
    let existed = pins.exist()?;
    pins.remove().map(|()| existed)
}

/// Loads the object of `control`, whose control gets the name `name`.
fn open(control: &Control, name: &str) -> libbpf_rs::Result<Object> {
    // It silences the library.
    let mut builder = ObjectBuilder::default();
    messages::capture();
    let mut object = builder.open_memory(control.object)?;
    for mut map in object.maps_mut() {
        if map.map_type() == STRUCT_OPS
            && let Some(value) = map.initial_value_mut()
        {
            rename(value, control.name, name);
        }
    }
    object.load()
}

/// Replaces the name within the members of a control, where it stands with zeros to its end.
fn rename(members: &mut [u8], from: &str, to: &str) {
    let padded = |name: &str| {
        let mut bytes = [0; LONGEST_NAME + 1];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        bytes
    };
    let (from, to) = (padded(from), padded(to));
    if let Some(at) = members.windows(from.len()).position(|window| window == from) {
        members[at..][..to.len()].copy_from_slice(&to);
    }
}

/// With what the kernel found fault with, where the library tells.
fn refused(control: &Control, error: &libbpf_rs::Error) -> Error {
    let said = messages::last();
    let said = if said.is_empty() { said } else { format!(" ({said})") };
    Error::Failed {
        doing: format!("{} is not taken by this kernel", control.name),
        source: io::Error::other(format!("{error:#}{said}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_replaced_where_it_stands_alone() {
        let mut members = [vec![1; 8], b"bp_cross\0\0\0\0\0\0\0\0".to_vec(), vec![2; 4]].concat();
        rename(&mut members, "bp_cross", "other");
        assert_eq!(members, [vec![1; 8], b"other\0\0\0\0\0\0\0\0\0\0\0".to_vec(), vec![2; 4]].concat());
    }

    #[test]
    fn names_that_the_kernel_would_not_take_are_refused() {
        for name in ["", "sixteen_letters_", "a b", "name\0"] {
            let error = LoadedControl::load_as(&crate::CONTROLS[0], name).expect_err(name).to_string();
            assert!(error.contains("1 to 15 letters"), "{error}");
        }
    }
}
