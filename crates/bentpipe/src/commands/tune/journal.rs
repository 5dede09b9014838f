//! What was there before: written to a file before anything is changed, so that it can be put back whatever happens.

use super::change::Change;
use crate::output::Failure;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The changes of one network namespace.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    /// Of this format.
    version: u32,
    /// When this kernel was started: what it has been told ends with it.
    boot: String,
    /// The network namespace.
    namespace: String,
    /// In the order in which they were made.
    changes: Vec<Change>,
}

const VERSION: u32 = 1;

/// What an undo did.
#[derive(Debug, Default, Serialize)]
pub struct Undone {
    /// What was put back.
    pub undone: Vec<String>,
    /// What somebody else had changed in between.
    pub remarks: Vec<String>,
}

impl Journal {
    fn new(changes: Vec<Change>) -> Result<Self, Failure> {
        Ok(Self { version: VERSION, boot: boot()?, namespace: namespace()?, changes })
    }

    /// Makes all `changes`, or none: those that were made before one failed are undone. Says what was made, and what this
    /// kernel cannot do, where that does no harm.
    ///
    /// # Errors
    /// If `file` is there already, a right is missing, or a change fails.
    pub fn apply(changes: Vec<Change>, file: &Path) -> Result<(Vec<Change>, Vec<String>), Failure> {
        if file.exists() {
            return Err(Failure::usage(format!(
                "{} says that settings are applied already: take them back first (bentpipe tune --undo)",
                file.display()
            )));
        }
        changes.iter().try_for_each(Change::check)?;
        let mut journal = Self::new(changes)?;
        journal.write(file)?;
        let (mut made, mut left_out) = (Vec::new(), Vec::new());
        for change in &journal.changes {
            match change.make() {
                Ok(true) => made.push(change.clone()),
                Ok(false) => left_out.push(format!("{change}: this kernel has none; bbr keeps the time itself")),
                Err(error) => {
                    // It may have taken effect in part.
                    made.push(change.clone());
                    return Err(roll_back(&made, file, error));
                }
            }
        }
        if !left_out.is_empty() {
            journal.changes.clone_from(&made);
            journal.write(file)?;
        }
        Ok((made, left_out))
    }

    /// Puts back what `file` says, the last change first, and removes the file.
    ///
    /// # Errors
    /// If there is no such file, it is of another namespace or an earlier start of this machine, or a change cannot be undone;
    /// then the file stays.
    pub fn undo(file: &Path) -> Result<Undone, Failure> {
        let journal = Self::read(file)?;
        let mut undone = Undone::default();
        let mut problems: Vec<kernel::Error> = Vec::new();
        for change in journal.changes.iter().rev() {
            if let Some(now) = change.touched_by_others() {
                undone.remarks.push(format!("{change}: it has been changed since, to {now}"));
            }
            match change.undo() {
                Ok(()) => undone.undone.push(change.to_string()),
                Err(error) => problems.push(error),
            }
        }
        if let Some(problem) = problems.into_iter().next() {
            return Err(Failure::from(problem).and(format!("not all is undone, {} stays", file.display())));
        }
        remove(file)?;
        Ok(undone)
    }

    fn read(file: &Path) -> Result<Self, Failure> {
        let name = file.display();
        let text = fs::read_to_string(file).map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                Failure::usage(format!("{name}: no settings are applied (or --state was another file)"))
            }
            _ => Failure::usage(format!("{name}: {error}")),
        })?;
        let journal: Self = serde_json::from_str(&text)
            .map_err(|error| Failure::usage(format!("{name} was not written by --apply: {error}")))?;
        if journal.version != VERSION {
            return Err(Failure::usage(format!(
                "{name} has version {}; this program knows {VERSION}",
                journal.version
            )));
        }
        if journal.boot != boot()? {
            return Err(Failure::usage(format!(
                "{name}: this machine was started since, which has undone the settings; delete the file"
            )));
        }
        let here = namespace()?;
        if journal.namespace != here {
            return Err(Failure::usage(format!(
                "{name}: the settings are those of the network namespace {}, and this is {here}",
                journal.namespace
            )));
        }
        Ok(journal)
    }

    /// Writes it so that it is whole or not there, and stays if the power fails.
    fn write(&self, file: &Path) -> Result<(), Failure> {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let beside = file.with_extension("new");
        let text = serde_json::to_string_pretty(self).map_err(Failure::failed)?;
        let write = || {
            fs::create_dir_all(folder)?;
            let mut new = File::create(&beside)?;
            new.write_all(text.as_bytes())?;
            new.sync_all()?;
            fs::rename(&beside, file)
        };
        write().map_err(|error| {
            let problem = format!("cannot record what was there before in {}: {error} (--state FILE)", file.display());
            match error.kind() {
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Failure::missing(problem),
                _ => Failure::failed(problem),
            }
        })
    }
}

/// Undoes what was made before `error`.
fn roll_back(made: &[Change], file: &Path, error: kernel::Error) -> Failure {
    let failed: Vec<_> =
        made.iter().rev().filter_map(|change| change.undo().err().map(|error| (change, error))).collect();
    // The change that failed need not be undone where it changed nothing.
    let remaining: Vec<_> = failed.into_iter().filter(|(change, _)| Some(*change) != made.last()).collect();
    let failure = Failure::from(error);
    match remaining.first() {
        None => match remove(file) {
            Ok(()) => failure.and("nothing is changed"),
            Err(_) => failure.and(format!("nothing is changed, but {} is there still", file.display())),
        },
        Some((change, error)) => failure.and(format!("{change} could not be taken back ({error}): try --undo")),
    }
}

fn remove(file: &Path) -> Result<(), Failure> {
    fs::remove_file(file).map_err(|error| Failure::failed(format!("{}: {error}", file.display())))
}

/// Where the file is if nobody says: below `$XDG_STATE_HOME`, else for root in /var/lib, else below the home directory. Each
/// network namespace has its own.
///
/// # Errors
/// If there is neither.
pub fn default_file() -> Result<PathBuf, Failure> {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = match (of("XDG_STATE_HOME"), kernel::process::is_root(), of("HOME")) {
        (Some(state), _, _) => state,
        (None, true, _) => PathBuf::from("/var/lib"),
        (None, false, Some(home)) => home.join(".local/state"),
        (None, false, None) => {
            return Err(Failure::usage("say with --state FILE where to record what was there before"));
        }
    };
    Ok(folder.join("bentpipe").join(format!("tune-{}.json", namespace()?)))
}

/// The number of the network namespace.
fn namespace() -> Result<String, Failure> {
    let link =
        fs::read_link("/proc/thread-self/ns/net").map_err(|error| Failure::missing(format!("/proc: {error}")))?;
    let name = link.to_string_lossy();
    Ok(name.trim_start_matches("net:[").trim_end_matches(']').to_owned())
}

fn boot() -> Result<String, Failure> {
    Ok(kernel::sysctl::read("kernel.random.boot_id")?)
}
