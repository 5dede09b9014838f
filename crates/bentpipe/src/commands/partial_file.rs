//! A file that is being received: under a name of its own until its data have verified, and kept if the transfer is interrupted.

use crate::output::Failure;
use lab::transfer::{Beginning, Sink};
use rustix::fs::{FlockOperation, OFlags, flock};
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use units::Bytes;

/// `FILE.part` beside `FILE`, which no other process writes while this one has it.
pub struct PartialFile {
    target: PathBuf,
    path: PathBuf,
    file: File,
    /// Whether it has the name of `target`.
    is_finished: bool,
}

impl PartialFile {
    /// The partial file of `target`, with what an interrupted transfer left in it, which only one that resumes may.
    ///
    /// # Errors
    /// If `target` can be no file, or its partial file cannot be used.
    pub fn open(target: &Path, resumes: bool) -> Result<(Self, Beginning), Failure> {
        let target = &file_of(target)?;
        let path = part_of(target);
        let failed = |error: io::Error| Failure::usage(format!("{}: {error}", path.display()));
        // Its readers are those of the file that it replaces; its owner may go on with it. A link would lead the data to a file of
        // another name.
        let mode = fs::metadata(target).map_or(0o666, |replaced| replaced.mode() & 0o777 | 0o600);
        let mut options = File::options();
        options.read(true).append(true).create(true).mode(mode).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        let mut file = options.open(&path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(Failure::usage(format!("{}: is not a regular file", path.display())));
        }
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() || !is_at(&metadata, &path) {
            return Err(Failure::usage(format!("{}: another bentpipe receive writes it", path.display())));
        }
        let kept = metadata.mode() & 0o777;
        if kept & !mode != 0 {
            file.set_permissions(Permissions::from_mode(kept & mode | 0o600)).map_err(failed)?;
        }
        let size = Bytes::new(metadata.len());
        if !resumes && size > Bytes::ZERO {
            return Err(Failure::usage(format!(
                "{}: has {size} of an interrupted transfer; continue it with --resume, or remove the file to start over",
                path.display()
            )));
        }
        let beginning = Beginning::read(&mut file).map_err(failed)?;
        Ok((Self { target: target.to_owned(), path, file, is_finished: false }, beginning))
    }

    /// The name of the partial file of `target`.
    ///
    /// # Errors
    /// If `target` can be no file.
    pub fn path_of(target: &Path) -> Result<PathBuf, Failure> {
        Ok(part_of(&file_of(target)?))
    }

    /// Gives the file its name, and the mode of the file that had it.
    fn rename(&mut self) -> io::Result<()> {
        let replaced = fs::metadata(&self.target).ok();
        let own = self.file.metadata()?.permissions();
        let keep_mode = replaced.map_or(Ok(()), |replaced| self.file.set_permissions(replaced.permissions()));
        keep_mode.and_then(|()| fs::rename(&self.path, &self.target)).map_err(|error| {
            // A transfer that resumes is to find it writable.
            let _ = self.file.set_permissions(own);
            io::Error::new(error.kind(), format!("cannot become {}: {error}", self.target.display()))
        })?;
        self.is_finished = true;
        let directory = self.target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // The name, too, is to outlive a loss of power; some file systems cannot say so.
        let _ = File::open(directory).and_then(|directory| directory.sync_all());
        Ok(())
    }

    /// Removes the file, of which it is not known what is right.
    pub fn discard(self) {
        // If it cannot be removed, its name says that it is partial.
        let _ = fs::remove_file(&self.path);
    }

    /// Keeps what is in the file for a transfer that resumes; says what there is, if anything.
    pub fn keep(self) -> Option<String> {
        if self.is_finished {
            return Some(format!("{} has all data, verified", self.target.display()));
        }
        match self.file.metadata() {
            Ok(metadata) if metadata.len() > 0 => Some(format!(
                "{} keeps the first {}: the same commands with --resume at both ends go on there",
                self.path.display(),
                Bytes::new(metadata.len()),
            )),
            _ => None,
        }
    }

    /// The name that it has until then.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PartialFile {
    /// Removes what never had data.
    fn drop(&mut self) {
        if let Ok(metadata) = self.file.metadata()
            && metadata.len() == 0
            && is_at(&metadata, &self.path)
        {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn part_of(file: &Path) -> PathBuf {
    let mut path = file.to_owned().into_os_string();
    path.push(".part");
    PathBuf::from(path)
}

/// The file that `target` names: where a link leads, because to replace the link would leave the file as it was.
///
/// # Errors
/// If it is there and no regular file, or a link that leads nowhere.
fn file_of(target: &Path) -> Result<PathBuf, Failure> {
    let refused = |problem: &str| Err(Failure::usage(format!("--out {}: {problem}", target.display())));
    let is_regular = fs::metadata(target).map(|metadata| metadata.is_file());
    // Those of /dev lead to descriptors, whatever file is behind.
    let is_device = ["/dev", "/proc"].iter().any(|folder| target.starts_with(folder));
    match (fs::symlink_metadata(target), is_regular) {
        (Err(_), _) => Ok(target.to_owned()),
        (Ok(_), Ok(is_regular)) if is_device || !is_regular => {
            refused("is not a regular file; without --out, data are discarded")
        }
        (Ok(named), Ok(_)) if !named.is_symlink() => Ok(target.to_owned()),
        (Ok(_), Ok(_)) => {
            fs::canonicalize(target).map_err(|error| Failure::usage(format!("--out {}: {error}", target.display())))
        }
        (Ok(_), Err(error)) => refused(&format!("a link that leads nowhere: {error}")),
    }
}

/// Whether this is still the file at `path`: the one who had it may have renamed it meanwhile.
fn is_at(metadata: &Metadata, path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|now| (now.dev(), now.ino()) == (metadata.dev(), metadata.ino()))
}

impl Write for PartialFile {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.file.write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Sink for PartialFile {
    /// To the disk and, if it is `verified`, under its name.
    fn finish(&mut self, verified: bool) -> io::Result<()> {
        if !verified {
            return Ok(());
        }
        self.file.sync_all()?;
        self.rename()
    }
}
