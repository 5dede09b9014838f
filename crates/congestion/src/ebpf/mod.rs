//! The kernel's side of a control: its programs and its map, by libbpf. Built with the feature `ebpf`; without it, absent.rs
//! stands in its place.

mod messages;

use crate::Control;
use kernel::Error;
use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo, MapInfoIter};
use libbpf_rs::{ErrorKind, Link, MapCore, MapFlags, MapHandle, MapType, Object, ObjectBuilder};
use std::io;
use std::path::{Path, PathBuf};

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

/// The number of the map behind the registration that is pinned at `path`; `None` if there is none.
pub(crate) fn control_at(path: &Path) -> Option<u32> {
    match Link::open(path).ok()?.info().ok()?.info {
        LinkTypeInfo::StructOps(of) => Some(of.map_id),
        _ => None,
    }
}

/// Whether the control with this number is there still: connections keep it after its registration has ended.
pub(crate) fn is_in_use(control: u32) -> bool {
    MapHandle::from_map_id(control).is_ok()
}

/// Whether a control of this name is in the kernel, registered or kept by connections.
pub(crate) fn is_any_in_use(control: &Control) -> bool {
    MapInfoIter::default().any(|map| map.ty == STRUCT_OPS && map.name.to_str() == Some(control.name))
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

    /// All entries: keys and values.
    pub(crate) fn entries(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        // An entry that goes in between is none.
        self.0.keys().filter_map(|key| Some((key.clone(), self.value(&key)?))).collect()
    }

    /// The value of `key`, if it has one.
    pub(crate) fn value(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.lookup(key, MapFlags::ANY).ok().flatten()
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

/// Loads the programs of `control` and registers them as `name`; returns its maps called `tables`, if it has them all. Those that
/// `pinned` has a file for are taken from there instead of made.
///
/// # Errors
/// [`Error::Missing`] if the kernel has a control of this name; [`Error::Failed`] if it refuses the programs.
pub(crate) fn load<const N: usize>(
    control: &Control,
    name: &str,
    tables: [&str; N],
    pinned: Option<&[PathBuf; N]>,
) -> Result<(Registration, Option<[Map; N]>), Error> {
    let pinned = pinned.map(|pinned| tables.into_iter().zip(pinned).collect::<Vec<_>>()).unwrap_or_default();
    let mut object = open(control, name, &pinned).map_err(|error| refused(control, &error))?;
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
    let found = tables.map(|table| {
        let map = object.maps().find(|map| map.name() == table)?;
        Some(MapHandle::try_from(&map).map(Map).map_err(|error| refused(control, &error)))
    });
    let found: Vec<_> = found.into_iter().flatten().collect::<Result<_, _>>()?;
    Ok((Registration(link), found.try_into().ok()))
}

/// The identifiers of the maps called `table` that belong to registered controls of this name. Connections keep the control that
/// they run under, and its map, after its registration has ended: such a map is left out.
pub(crate) fn held_maps<const N: usize>(control: &Control, tables: [&str; N]) -> Vec<[u32; N]> {
    // The kernel keeps the first 15 bytes of a name.
    let named = |name: &str| -> Vec<u32> {
        let kept = name.get(..15).unwrap_or(name);
        MapInfoIter::default().filter(|map| map.name.to_str() == Some(kept)).map(|map| map.id).collect()
    };
    let (tables, controls) = (tables.map(named), named(control.name));
    let registered = LinkInfoIter::default().filter_map(|link| match link.info {
        LinkTypeInfo::StructOps(of) => Some(of.map_id),
        _ => None,
    });
    let held = registered.filter(|id| controls.contains(id));
    // A control is made right behind its maps, and numbers rise.
    held.filter_map(|id| {
        let below = tables.each_ref().map(|table| table.iter().copied().filter(|table| *table < id).max());
        below.iter().all(Option::is_some).then(|| below.map(Option::unwrap_or_default))
    })
    .collect()
}

/// Loads the object of `control`, whose control gets the name `name`.
fn open(control: &Control, name: &str, pinned: &[(&str, &PathBuf)]) -> libbpf_rs::Result<Object> {
    // It silences the library.
    let mut builder = ObjectBuilder::default();
    messages::capture();
    let mut object = builder.open_memory(control.object)?;
    for mut map in object.maps_mut() {
        if let Some((_, path)) = pinned.iter().find(|(table, _)| map.name() == *table) {
            map.reuse_pinned_map(path)?;
        }
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
