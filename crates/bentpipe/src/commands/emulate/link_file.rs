//! The file with the link to start from.

use crate::named_files;
use crate::output::Failure;
use emulator::{PathModel, SharedCarrier, Terminal};
use scenario::link_file::{self, InPlace, LinkFile, UpLink};
use std::path::Path;

/// Reads the links up and down, and the traces that they name (relative to the file). What is `in_place` holds in place of the file's.
pub(super) fn read(path: &Path, in_place: [InPlace; 2]) -> Result<LinkFile, Failure> {
    let text = named_files::read(path)?;
    link_file::load(&text, &path.display().to_string(), &named_files::beside(path), in_place)
        .map_err(|faults| Failure::usage(faults.0.join("\nbentpipe: ")))
}

/// What goes up, as the emulator takes it.
pub(super) fn path_up(links: &LinkFile) -> PathModel {
    match &links.up {
        UpLink::Link(link) => PathModel::Link(link.clone()),
        UpLink::Carrier { carrier, terminal } => {
            let terminals = terminal.iter().map(|terminal| Terminal {
                name: terminal.name.clone(),
                networks: terminal.networks.clone(),
                link: terminal.up.clone(),
            });
            let (config, terminals) = (carrier.clone(), terminals.collect());
            PathModel::Carrier(SharedCarrier { config, terminals, from_ncc: links.down.nominal_delay() })
        }
    }
}
