//! The kernel's side of a control in a build without the feature `ebpf`: nothing can be loaded or opened, and the error says why.

use crate::Control;
use kernel::Error;
use std::convert::Infallible;
use std::io;
use std::path::Path;

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

    pub(crate) fn delete(&self, _: &[u8]) -> io::Result<()> {
        match self.0 {}
    }

    pub(crate) fn pin(&mut self, _: &Control, _: &Path) -> Result<(), Error> {
        match self.0 {}
    }
}

pub(crate) fn load(_: &Control, _: &str, _: &str) -> Result<(Registration, Option<Map>), Error> {
    Err(absent())
}

/// None: this build cannot ask the kernel.
pub(crate) fn held_maps(_: &Control, _: &str) -> Vec<u32> {
    Vec::new()
}
