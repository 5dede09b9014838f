//! Files of logs that the gateway makes.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// What is logged of the traffic of others is for the gateway's user and group.
pub(crate) const MODE: u32 = 0o640;

/// Opens `path` with `options`. A file that is new has [`MODE`], whatever the umask, which a service has to keep other files to itself; one that is there
/// keeps its mode.
///
/// # Errors
/// If it cannot be opened or created.
pub(crate) fn open(options: &OpenOptions, path: &Path) -> io::Result<File> {
    match options.clone().create_new(true).mode(MODE).open(path) {
        Ok(file) => {
            // A file system without modes has nothing to set.
            let _ = file.set_permissions(Permissions::from_mode(MODE));
            Ok(file)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // It may be gone again, or be a link to a file that is not there yet.
            options.clone().create(true).mode(MODE).open(path)
        }
        Err(error) => Err(error),
    }
}
