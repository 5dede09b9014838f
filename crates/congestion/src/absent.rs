//! The kernel's side of a control in a build without the feature `ebpf`: nothing can be loaded or opened, and the error says why.

use crate::Control;
use kernel::Error;
use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};

/// Whether this build can load controls.
///
/// # Errors
/// Always: it cannot.
pub(crate) fn check() -> Result<(), Error> {
    Err(absent())
}

fn absent() -> Error {
    Error::Missing(
        "this bentpipe is built without eBPF, so it loads no congestion control: build it with the cargo feature `ebpf` \
         (needs the headers of libelf and zlib)"
            .to_owned(),
    )
}

/// A registration, of which there is none.
#[derive(Debug)]
pub(crate) struct Registration(Infallible);

impl Registration {
    pub(crate) fn pin(&mut self, _: &Control, _: &Path) -> Result<(), Error> {
        match self.0 {}
    }
}

/// A map, of which there is none.
#[derive(Debug)]
pub(crate) struct Map(Infallible);

impl Map {
    pub(crate) fn pinned(_: &Path) -> Result<Self, Error> {
        Err(absent())
    }

    pub(crate) fn of_id(_: u32) -> Result<Self, Error> {
        Err(absent())
    }

    pub(crate) fn update(&self, _: &[u8], _: &[u8]) -> Result<(), Error> {
        match self.0 {}
    }

    pub(crate) fn entries(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        match self.0 {}
    }

    pub(crate) fn value(&self, _: &[u8]) -> Option<Vec<u8>> {
        match self.0 {}
    }

    pub(crate) fn delete(&self, _: &[u8]) -> io::Result<()> {
        match self.0 {}
    }

    pub(crate) fn pin(&mut self, _: &Control, _: &Path) -> Result<(), Error> {
        match self.0 {}
    }
}

pub(crate) fn load<const N: usize>(
    _: &Control,
    _: &str,
    _: [&str; N],
    _: Option<&[PathBuf; N]>,
) -> Result<(Registration, Option<[Map; N]>), Error> {
    Err(absent())
}

/// None: this build cannot ask the kernel.
pub(crate) fn control_at(_: &Path) -> Option<u32> {
    None
}

/// As [`control_at`].
pub(crate) fn is_in_use(_: u32) -> bool {
    false
}

/// As [`control_at`].
pub(crate) fn is_any_in_use(_: &Control) -> bool {
    false
}

/// None: this build cannot ask the kernel.
pub(crate) fn held_maps<const N: usize>(_: &Control, _: [&str; N]) -> Vec<[u32; N]> {
    Vec::new()
}
