//! Files that the command line names, and the files that those name, which lie beside them.

use crate::output::Failure;
use kernel::directory::OpenDirectory;
use kernel::text_file::{self, RECORDED, WRITTEN};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The text of `file`.
///
/// # Errors
/// If it cannot be read, or is larger than what a person writes.
pub fn read(file: &Path) -> Result<String, Failure> {
    text_file::read(file, WRITTEN).map_err(|error| Failure::usage(format!("{}: {error}", file.display())))
}

/// Reads the traces that `file` names, each once: a trace may be a pipe, and belongs to both directions of a link, to all variants
/// and to all points of a sweep.
pub fn beside(file: &Path) -> impl Fn(&str) -> Result<String, String> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let read = move |name: &str| text_file::read(&folder.join(name), RECORDED).map_err(|error| error.to_string());
    let known = RefCell::new(BTreeMap::new());
    move |name| known.borrow_mut().entry(name.to_owned()).or_insert_with(|| read(name)).clone()
}

/// Makes the directory `path`, which `option` names, if it is not there.
///
/// # Errors
/// If it cannot be made: wrong usage, or a failure of the disk, as with files ([`Failure::unwritable`]).
pub fn make_directory(option: &str, path: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(path).map_err(|error| no_directory(option, path, &error))
}

/// Makes the directory `path` as [`make_directory`] does, and opens it: for commands that move to a mount namespace of their own,
/// where the path may name another directory.
///
/// # Errors
/// As [`make_directory`].
pub fn open_directory(option: &str, path: &Path) -> Result<OpenDirectory, Failure> {
    OpenDirectory::create(path).map_err(|error| no_directory(option, path, &error))
}

/// Refuses the file `path`, which `option` has the command write, if it is `other`: the one would overwrite the other. Neither has to
/// be there, and devices are written by many.
///
/// # Errors
/// If both are one file.
pub fn refuse_same(option: &str, path: &Path, other: &Path, is: &str) -> Result<(), Failure> {
    let place = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // A link is the file that it leads to.
        path.canonicalize().ok().or_else(|| Some(folder.canonicalize().ok()?.join(path.file_name()?)))
    };
    let inode =
        |path: &Path| std::fs::metadata(path).ok().filter(Metadata::is_file).map(|file| (file.dev(), file.ino()));
    if std::fs::metadata(path).is_ok_and(|path| !path.is_file()) {
        return Ok(());
    }
    let is_same = place(path).is_some_and(|of_path| place(other) == Some(of_path))
        || inode(path).is_some_and(|of_path| inode(other) == Some(of_path));
    if is_same {
        return Err(Failure::usage(format!("{option} {}: this is {is}, which it would overwrite", path.display())));
    }
    Ok(())
}

fn no_directory(option: &str, path: &Path, error: &io::Error) -> Failure {
    let name = format!("{option} {}", path.display());
    match error.kind() {
        ErrorKind::AlreadyExists => Failure::usage(format!("{name}: this is a file, and a directory is needed")),
        _ => Failure::unwritable(name, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_by_two_names_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        std::fs::hard_link(at("file"), at("hard")).unwrap();
        let is_refused = |one: &str, other: &str| refuse_same("--trace", &at(one), &at(other), "the data").is_err();
        assert!(["file", "link", "hard", "./file"].iter().all(|name| is_refused(name, "file")));
        assert!(is_refused("new", "./new") && !is_refused("new", "file") && !is_refused("file", "new"));
        assert!(refuse_same("--trace", Path::new("/dev/null"), Path::new("/dev/null"), "the data").is_ok());
    }
}
