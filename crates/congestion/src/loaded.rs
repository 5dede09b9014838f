//! Controls loaded into the kernel, by this process or by a pin.

use crate::control::LONGEST_NAME;
use crate::ebpf::{self, Registration};
use crate::filesystem::Pins;
use crate::{Control, LinkEntry, LinkTable, link_table, requirements};
use kernel::Error;
use std::path::PathBuf;
use std::thread;
use units::Duration;

/// A control that this process holds in the kernel. Dropped, or at the end of the process, no connection can choose it
/// any more.
#[derive(Debug)]
pub struct LoadedControl {
    name: String,
    control: &'static Control,
    registration: Registration,
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
        Self::load_with(control, name, None)
    }

    /// Loads `control` and leaves it in the kernel when the process ends. Connections that were left by an earlier one share its
    /// table of links.
    ///
    /// # Errors
    /// As [`LoadedControl::load`], and if the BPF file system cannot be mounted or written, or would end with this process; then
    /// nothing is left behind. `entry` are marks and what is set for them in the table before anything can use it.
    pub fn load_pinned(control: &'static Control, entries: &[(u32, LinkEntry)]) -> Result<(), Error> {
        let pins = Pins::of(control);
        pins.make_folder()?;
        remove_unused(control)?;
        let left = [pins.links(), pins.accounts()];
        let is_left = left.iter().all(|pin| pin.exists());
        let loaded = Self::load_with(control, control.name, is_left.then_some(&left))?;
        for (table, (mark, entry)) in
            loaded.links.iter().flat_map(|table| entries.iter().map(move |entry| (table, entry)))
        {
            table.set(*mark, *entry)?;
        }
        loaded.pin(&pins, is_left)
    }

    fn load_with(control: &'static Control, name: &str, tables: Option<&[PathBuf; 2]>) -> Result<Self, Error> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(is_plain) {
            return Err(Error::Missing(format!(
                "`{name}` names no congestion control: 1 to {LONGEST_NAME} letters, digits, `_` or `-`"
            )));
        }
        requirements::check()?;
        let (registration, links) = ebpf::load(control, name, link_table::NAMES, tables)?;
        let links = links.map(LinkTable::new);
        Ok(Self { name: name.to_owned(), control, registration, links })
    }

    /// Its name for `TCP_CONGESTION`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its table of links; only the cross-layer control has one.
    pub fn links(&self) -> Option<&LinkTable> {
        self.links.as_ref()
    }

    /// Pins what is not pinned already: its tables, if `has_tables` does not say that they are.
    fn pin(mut self, pins: &Pins, has_tables: bool) -> Result<(), Error> {
        let pinned = match &mut self.links {
            Some(links) if !has_tables => links.pin(self.control, pins),
            _ => Ok(()),
        };
        // Last: what has a link is complete.
        let pinned = pinned.and_then(|()| self.registration.pin(self.control, &pins.link()));
        if pinned.is_err() {
            // Why it failed is what there is to tell.
            let _ = if has_tables { pins.remove_link() } else { pins.remove() };
        }
        pinned
    }
}

/// Whether `control` is pinned.
///
/// # Errors
/// If the process may not look.
pub fn is_pinned(control: &Control) -> Result<bool, Error> {
    Pins::of(control).exist()
}

/// What became of a control that was to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unpinned {
    /// It was not pinned.
    Absent,
    /// It is gone.
    Gone,
    /// No connection can choose it any more; those that use it keep it until they end. Its table of links, if it has one, stays
    /// pinned until then, so that their capacity can be changed.
    InUse,
}

/// Removes the pins of `control`.
///
/// # Errors
/// If the process may not look, or they cannot be removed.
pub fn unpin(control: &Control) -> Result<Unpinned, Error> {
    let pins = Pins::of(control);
    if !pins.exist()? {
        remove_unused(control)?;
        return Ok(Unpinned::Absent);
    }
    let number = ebpf::control_at(&pins.link());
    pins.remove_link()?;
    // The kernel frees it a moment after the last reference has gone.
    let is_in_use = || number.is_some_and(ebpf::is_in_use);
    for _ in 0..PATIENCE {
        if !is_in_use() {
            break;
        }
        thread::sleep(MOMENT.into());
    }
    if is_in_use() {
        return Ok(Unpinned::InUse);
    }
    pins.remove().map(|()| Unpinned::Gone)
}

/// How often, and after what time each, it is looked whether a control has gone.
const PATIENCE: usize = 20;
const MOMENT: Duration = Duration::from_millis(50);

/// Removes the tables that an unloaded control has left for its connections, if those have ended.
fn remove_unused(control: &Control) -> Result<(), Error> {
    let pins = Pins::of(control);
    if pins.links().exists() && !pins.exist()? && !ebpf::is_any_in_use(control) { pins.remove() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_the_kernel_would_not_take_are_refused() {
        for name in ["", "sixteen_letters_", "a b", "name\0"] {
            let error = LoadedControl::load_as(&crate::CONTROLS[0], name).expect_err(name).to_string();
            assert!(error.contains("1 to 15 letters"), "{error}");
        }
    }
}
