//! The kernel's side of a control: its programs and its map, by libbpf. Built with the feature `ebpf`; without it, absent.rs
//! stands in its place.

mod messages;

use crate::Control;
use kernel::Error;
use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo, MapInfoIter};
use libbpf_rs::{ErrorKind, Link, MapCore, MapFlags, MapHandle, MapType, Object, ObjectBuilder};
use std::io;
use std::path::Path;

/// The map that becomes the control.
const STRUCT_OPS: MapType = MapType::StructOps;

/// Whether this build can load controls.
///
/// # Errors
/// Never, with this feature.
pub(crate) fn check() -> Result<(), Error> {
    Ok(())
}

/// A control's registration in the kernel's TCP, which ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Registration(Link);

impl Registration {
    pub(crate) fn pin(&mut self, control: &Control, path: &Path) -> Result<(), Error> {
        self.0.pin(path).map_err(|error| refused(control, &error))
    }
}

/// A map with entries of fixed size.
#[derive(Debug)]
pub(crate) struct Map(MapHandle);

impl Map {
    pub(crate) fn pinned(path: &Path) -> Result<Self, Error> {
        MapHandle::from_pinned_path(path).map(Self).map_err(unreadable)
    }

    pub(crate) fn of_id(id: u32) -> Result<Self, Error> {
        MapHandle::from_map_id(id).map(Self).map_err(unreadable)
    }

    pub(crate) fn update(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.0.update(key, value, MapFlags::ANY).map_err(|error| {
            Error::Missing(format!("the table of links takes no more than {} ({error:#})", self.0.max_entries()))
        })
    }

    /// Removes the entry of `key`.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn delete(&self, key: &[u8]) -> io::Result<()> {
        self.0.delete(key).map_err(|error| io::Error::other(format!("{error:#}")))
    }

    pub(crate) fn pin(&mut self, control: &Control, path: &Path) -> Result<(), Error> {
        self.0.pin(path).map_err(|error| refused(control, &error))
    }
}

/// Loads the programs of `control` and registers them as `name`; with its map called `table`, if it has one.
///
/// # Errors
/// [`Error::Missing`] if the kernel has a control of this name; [`Error::Failed`] if it refuses the programs.
pub(crate) fn load(control: &Control, name: &str, table: &str) -> Result<(Registration, Option<Map>), Error> {
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
    let table = object
        .maps()
        .find(|map| map.name() == table)
        .map(|map| MapHandle::try_from(&map))
        .transpose()
        .map_err(|error| refused(control, &error))?
        .map(Map);
    Ok((Registration(link), table))
}

/// The identifiers of the maps called `table` that belong to registered controls of this name. Connections keep the control that
/// they run under, and its map, after its registration has ended: such a map is left out.
pub(crate) fn held_maps(control: &Control, table: &str) -> Vec<u32> {
    let named = |name| MapInfoIter::default().filter(move |map| map.name.to_str() == Some(name)).map(|map| map.id);
    let (tables, controls): (Vec<_>, Vec<_>) = (named(table).collect(), named(control.name).collect());
    let registered = LinkInfoIter::default().filter_map(|link| match link.info {
        LinkTypeInfo::StructOps(of) => Some(of.map_id),
        _ => None,
    });
    let held = registered.filter(|id| controls.contains(id));
    // A control is made right behind its maps, and numbers rise.
    held.filter_map(|id| tables.iter().copied().filter(|table| *table < id).max()).collect()
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
        let mut bytes = [0; crate::control::LONGEST_NAME + 1];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        bytes
    };
    let (from, to) = (padded(from), padded(to));
    if let Some(at) = members.windows(from.len()).position(|window| window == from) {
        members[at..][..to.len()].copy_from_slice(&to);
    }
}

/// With the kernel's reason, where the library reports it.
fn refused(control: &Control, error: &libbpf_rs::Error) -> Error {
    let reason = messages::last();
    let reason = if reason.is_empty() { reason } else { format!(" ({reason})") };
    Error::Failed {
        doing: format!("{} is not taken by this kernel", control.name),
        source: io::Error::other(format!("{error:#}{reason}")),
    }
}

fn unreadable(error: libbpf_rs::Error) -> Error {
    Error::Missing(format!("the table of links cannot be opened (root of this machine can): {error:#}"))
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
}
