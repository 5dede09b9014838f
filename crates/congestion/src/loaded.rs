//! Controls loaded into the kernel, by this process or by a pin.

use crate::control::LONGEST_NAME;
use crate::ebpf::{self, Registration};
use crate::filesystem::Pins;
use crate::{Control, LinkTable, link_table, requirements};
use kernel::Error;

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
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(is_plain) {
            return Err(Error::Missing(format!(
                "`{name}` names no congestion control: 1 to {LONGEST_NAME} letters, digits, `_` or `-`"
            )));
        }
        requirements::check()?;
        let (registration, links) = ebpf::load(control, name, link_table::NAME)?;
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
        pinned
    }

    fn pin_to(&mut self, pins: &Pins) -> Result<(), Error> {
        if let Some(links) = &mut self.links {
            links.pin(self.control, &pins.links())?;
        }
        // Last: what has a link is complete.
        self.registration.pin(self.control, &pins.link())
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
