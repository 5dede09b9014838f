//! What was there before: written to a file before anything is changed, so that it can be put back whatever happens.

use crate::{Change, Error, Outcome};
use rustix::fs::{FlockOperation, flock};
use rustix::io::retry_on_intr;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The changes of one network namespace.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    /// Of this format.
    version: u32,
    /// When this kernel was started: its settings end with it.
    boot: String,
    /// The network namespace.
    namespace: String,
    /// Its number that no other has while this kernel runs; `namespace` may be another's once it is gone.
    cookie: Option<u64>,
    /// Whether the settings are in force, or an undo has left the changes because others had changed them.
    is_applied: bool,
    /// In the order in which they were made.
    changes: Vec<Change>,
}

const VERSION: u32 = 4;
/// The oldest version whose records are read: they lack numbers of interfaces.
const OLDEST_VERSION: u32 = 3;

/// What an undo did.
#[derive(Debug, Default, Serialize)]
pub struct Undone {
    /// What others have changed since, and stays.
    pub left: Vec<Left>,
    /// What was put back.
    pub undone: Vec<String>,
}

/// A change that was not undone because others had changed the setting since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Left {
    /// The change.
    pub change: String,
    /// What is there now.
    pub now: String,
}

impl Journal {
    fn new(changes: Vec<Change>) -> Result<Self, Error> {
        Ok(Self {
            version: VERSION,
            boot: boot()?,
            namespace: namespace()?,
            cookie: kernel::namespace::cookie(),
            is_applied: true,
            changes,
        })
    }

    /// Fails if `file` says that settings are applied.
    ///
    /// # Errors
    /// [`Error::AlreadyApplied`].
    pub fn check_not_applied(file: &Path) -> Result<(), Error> {
        if !file.exists() {
            return Ok(());
        }
        match Self::read_any(file) {
            // What an undo has left is others' by now; the rest has ended with what it was set for.
            Ok(journal) if !journal.is_applied || journal.has_ended()?.is_some() => Ok(()),
            _ => Err(Error::AlreadyApplied(file.to_owned())),
        }
    }

    /// What has ended the settings, if something has.
    fn has_ended(&self) -> Result<Option<&'static str>, Error> {
        if self.boot != boot()? {
            return Ok(Some("this machine was started since, which has undone the settings; delete the file"));
        }
        let is_another = self.cookie.is_some() && self.cookie != kernel::namespace::cookie();
        if self.namespace == namespace()? && is_another {
            return Ok(Some("the network namespace is gone, and the settings with it; delete the file"));
        }
        Ok(None)
    }

    /// Makes all `changes`, or none: those that were made before one failed are undone. Returns what was made, and what this
    /// kernel cannot do, where that does no harm.
    ///
    /// # Errors
    /// If `file` says that settings are applied, a right is missing, or a change fails.
    pub fn apply(changes: Vec<Change>, file: &Path) -> Result<(Vec<Change>, Vec<String>), Error> {
        let mut applying = Applying::begin(changes, file)?;
        while applying.step()? {}
        applying.finish()
    }

    /// Puts back what `file` says, the last change first, and removes the file. What others have changed since is left, and stays in
    /// the file for an undo with `force`, which puts it back all the same.
    ///
    /// # Errors
    /// If there is no such file, it is of another namespace or an earlier start of this machine, or a change cannot be undone;
    /// then the file stays. [`Error::OnlyLeft`] without `force` if an undo has left these changes before.
    pub fn undo(file: &Path, force: bool) -> Result<Undone, Error> {
        if let Ok(false) = file.try_exists() {
            return Err(Error::NotApplied(file.to_owned()));
        }
        // A process that applies settings now makes all its changes, or none, before they are undone.
        let _lock = lock(file)?;
        let mut journal = Self::read(file)?;
        if !journal.is_applied && !force {
            return Err(Error::OnlyLeft(file.to_owned()));
        }
        let mut undone = Undone::default();
        let mut problem = None;
        let mut remaining = Vec::new();
        for change in journal.changes.iter().rev() {
            match change.undo(force) {
                Ok(Outcome::Undone) => undone.undone.push(change.restored()),
                Ok(Outcome::Left(now)) => {
                    undone.left.push(Left { change: change.to_string(), now });
                    remaining.insert(0, change.clone());
                }
                Err(error) => problem = problem.or(Some(error)),
            }
        }
        if let Some(cause) = problem {
            let consequence = format!("not all is undone, {} stays", file.display());
            return Err(Error::Incomplete { cause, consequence });
        }
        if remaining.is_empty() {
            remove(file)?;
        } else {
            journal.is_applied = false;
            journal.changes = remaining;
            journal.write(file)?;
        }
        Ok(undone)
    }

    /// Where the file is if nobody says: below `$XDG_STATE_HOME`, else for root in /var/lib, else below the home directory. Each
    /// network namespace has its own.
    ///
    /// # Errors
    /// If there is neither.
    pub fn default_file() -> Result<PathBuf, Error> {
        let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let folder = match (of("XDG_STATE_HOME"), kernel::process::is_root(), of("HOME")) {
            (Some(state), _, _) => state,
            (None, true, _) => PathBuf::from("/var/lib"),
            (None, false, Some(home)) => home.join(".local/state"),
            (None, false, None) => {
                return Err(Error::NoStateDirectory);
            }
        };
        Ok(folder.join("bentpipe").join(format!("tune-{}.json", namespace()?)))
    }

    /// Reads the journal of settings in this namespace.
    fn read(file: &Path) -> Result<Self, Error> {
        let journal = Self::read_any(file)?;
        let unusable = |problem: String| Error::Journal { file: file.to_owned(), problem };
        if let Some(end) = journal.has_ended()? {
            return Err(unusable(end.into()));
        }
        let here = namespace()?;
        if journal.namespace != here {
            return Err(unusable(format!(
                "the settings are those of the network namespace {}, and this is {here}",
                journal.namespace
            )));
        }
        Ok(journal)
    }

    /// Reads a journal of any namespace and start of the machine.
    fn read_any(file: &Path) -> Result<Self, Error> {
        let unusable = |problem: String| Error::Journal { file: file.to_owned(), problem };
        let text = kernel::text_file::read(file, kernel::text_file::WRITTEN).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::NotApplied(file.to_owned()),
            _ => unusable(error.to_string()),
        })?;
        let journal: Self = serde_json::from_str(&text)
            .map_err(|error| unusable(format!("not a record of applied settings: {error}")))?;
        if !(OLDEST_VERSION..=VERSION).contains(&journal.version) {
            return Err(unusable(format!("version {}; this program knows {VERSION}", journal.version)));
        }
        Ok(journal)
    }

    /// Writes it so that it is whole or not there, and stays if the power fails.
    fn write(&self, file: &Path) -> Result<(), Error> {
        let beside = beside(file, ".new");
        let write = || {
            let text = serde_json::to_string_pretty(self)?;
            fs::create_dir_all(folder(file))?;
            let mut new = File::create(&beside)?;
            new.write_all(text.as_bytes())?;
            new.sync_all()?;
            fs::rename(&beside, file)
        };
        write().map_err(|source| {
            let _ = fs::remove_file(&beside);
            Error::Record { file: file.to_owned(), source }
        })
    }
}

/// Changes of which some are made: whenever the process ends, the journal has what was there before.
struct Applying<'a> {
    journal: Journal,
    file: &'a Path,
    /// How many changes were tried.
    tried: usize,
    made: Vec<Change>,
    left_out: Vec<String>,
    /// Another process must not replace the journal, which alone has what was there before, nor undo it in between.
    _lock: Lock,
}

impl<'a> Applying<'a> {
    /// Records what is there, and changes nothing.
    fn begin(changes: Vec<Change>, file: &'a Path) -> Result<Self, Error> {
        fs::create_dir_all(folder(file)).map_err(|source| Error::Record { file: file.to_owned(), source })?;
        let lock = lock(file)?;
        Journal::check_not_applied(file)?;
        changes.iter().try_for_each(Change::check)?;
        let journal = Journal::new(changes)?;
        journal.write(file)?;
        Ok(Self { journal, file, tried: 0, made: Vec::new(), left_out: Vec::new(), _lock: lock })
    }

    /// Makes the next change; returns whether there was one.
    fn step(&mut self) -> Result<bool, Error> {
        let Some(change) = self.journal.changes.get(self.tried) else { return Ok(false) };
        self.tried += 1;
        match change.make() {
            Ok(true) => self.made.push(change.clone()),
            Ok(false) => self.left_out.push(format!("{change}: this kernel has none; bbr keeps the time itself")),
            Err(error) => {
                // It may have taken effect in part.
                self.made.push(change.clone());
                return Err(roll_back(&self.made, self.file, error));
            }
        }
        Ok(true)
    }

    /// What was made, and what this kernel cannot do.
    fn finish(mut self) -> Result<(Vec<Change>, Vec<String>), Error> {
        if !self.left_out.is_empty() {
            self.journal.changes.clone_from(&self.made);
            self.journal.write(self.file)?;
        }
        Ok((self.made, self.left_out))
    }
}

/// Undoes what was made before `error`.
fn roll_back(made: &[Change], file: &Path, cause: kernel::Error) -> Error {
    let failed: Vec<_> =
        made.iter().rev().filter_map(|change| change.undo(true).err().map(|error| (change, error))).collect();
    // The change that failed need not be undone where it changed nothing.
    let remaining: Vec<_> = failed.into_iter().filter(|(change, _)| Some(*change) != made.last()).collect();
    let consequence = match remaining.first() {
        None => match remove(file) {
            Ok(()) => "nothing is changed".to_owned(),
            Err(_) => format!("nothing is changed, but {} is there still", file.display()),
        },
        Some((change, error)) => format!("{change} could not be undone ({error}), {} stays", file.display()),
    };
    Error::Incomplete { cause, consequence }
}

/// The folder that `file` is in.
fn folder(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The file of the same name with `ending`.
fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// The longest wait for another process.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);
/// Between attempts to lock.
const STEP: std::time::Duration = std::time::Duration::from_millis(20);

/// While this is held, no other process applies or undoes the settings of a journal.
struct Lock {
    locked: File,
    /// What goes with it.
    file: Option<PathBuf>,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Still locked: one that waits finds that it is gone, and makes another.
        self.file.iter().for_each(|file| drop(fs::remove_file(file)));
    }
}

/// Waits until no other process applies or undoes the settings of a journal `file`.
fn lock(file: &Path) -> Result<Lock, Error> {
    lock_within(file, PATIENCE)
}

/// What is locked is a file that only its user may open, as any user may lock what he may read. It is gone afterwards.
#[allow(clippy::disallowed_methods, reason = "it waits for another process")]
fn lock_within(file: &Path, patience: std::time::Duration) -> Result<Lock, Error> {
    let failed = |source| Error::Lock { file: file.to_owned(), source };
    let beside = beside(file, ".lock");
    let open = || match File::options().write(true).create(true).truncate(false).mode(0o600).open(&beside) {
        Ok(locked) => Ok(Lock { locked, file: None }),
        // A full disk has no room for it: settings are undone there all the same.
        Err(_) => File::open(folder(file)).map(|locked| Lock { locked, file: None }).map_err(failed),
    };
    let is_file = |lock: &Lock| lock.locked.metadata().is_ok_and(|metadata| metadata.is_file());
    let is_gone = |lock: &Lock| lock.locked.metadata().is_ok_and(|metadata| metadata.nlink() == 0);
    let mut lock = open()?;
    for _ in 0..patience.as_millis() / STEP.as_millis() {
        match retry_on_intr(|| flock(&lock.locked, FlockOperation::NonBlockingLockExclusive)) {
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(STEP),
            Ok(()) if is_gone(&lock) => lock = open()?,
            // Some network file systems lock nothing. Settings are applied there all the same.
            _ => {
                lock.file = is_file(&lock).then_some(beside);
                return Ok(lock);
            }
        }
    }
    Err(failed(io::Error::other("another process that applies or undoes settings keeps it locked")))
}

fn remove(file: &Path) -> Result<(), Error> {
    fs::remove_file(file).map_err(|source| Error::Record { file: file.to_owned(), source })
}

/// The number of the network namespace.
fn namespace() -> Result<String, Error> {
    let link =
        fs::read_link("/proc/thread-self/ns/net").map_err(|error| kernel::Error::Missing(format!("/proc: {error}")))?;
    let name = link.to_string_lossy();
    Ok(name.trim_start_matches("net:[").trim_end_matches(']').to_owned())
}

fn boot() -> Result<String, Error> {
    Ok(kernel::sysctl::read("kernel.random.boot_id")?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Blame;

    /// A journal of this boot and network namespace with these fields set otherwise.
    fn text(field: &str, value: serde_json::Value) -> String {
        let mut journal = serde_json::to_value(Journal::new(Vec::new()).unwrap()).unwrap();
        journal[field] = value;
        journal.to_string()
    }

    #[test]
    fn a_journal_that_cannot_be_used_here_is_named_with_its_reason_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("journal.json");
        let cases = [
            ("{".to_owned(), "not a record of applied settings"),
            (text("version", 99.into()), "version 99; this program knows 4"),
            (text("boot", "earlier".into()), "was started since"),
            (text("namespace", "1".into()), "network namespace 1, and this is"),
            (text("cookie", 1.into()), "the network namespace is gone"),
            (text("surplus", 1.into()), "unknown field `surplus`"),
            (" ".repeat(16_000_001), "larger than 16MB"),
        ];
        for (text, expected) in cases {
            fs::write(&file, text).unwrap();
            let error = Journal::undo(&file, false).unwrap_err();
            assert_eq!(error.blame(), Blame::Input);
            let message = error.to_string();
            assert!(message.contains(expected) && message.contains("journal.json"), "{message}");
            assert!(file.exists());
        }
    }

    #[test]
    fn a_file_of_another_name_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let foreign = folder.path().join("journal.new");
        fs::write(&foreign, "mine").unwrap();
        let file = folder.path().join("journal.json");
        Journal::apply(Vec::new(), &file).unwrap();
        Journal::undo(&file, false).unwrap();
        assert_eq!(fs::read_to_string(foreign).unwrap(), "mine");
    }

    #[test]
    fn settings_are_applied_once_and_undone_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("below/journal.json");
        assert!(matches!(Journal::undo(&file, false), Err(Error::NotApplied(_))));
        Journal::apply(Vec::new(), &file).unwrap();
        assert!(matches!(Journal::apply(Vec::new(), &file), Err(Error::AlreadyApplied(_))));
        Journal::undo(&file, false).unwrap();
        assert!(!file.exists());
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "they stand for processes")]
    fn of_processes_that_apply_settings_at_once_one_does() {
        const AT_ONCE: usize = 4;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("journal.json");
        for round in 0..50 {
            // An ended journal may be replaced, but also by one process alone.
            if round % 2 == 1 {
                fs::write(&file, text("boot", "earlier".into())).unwrap();
            }
            let start = std::sync::Barrier::new(AT_ONCE);
            let begin = || {
                start.wait();
                match Applying::begin(Vec::new(), &file) {
                    Ok(_) => 1,
                    Err(Error::AlreadyApplied(_)) => 0,
                    Err(error) => panic!("{error}"),
                }
            };
            let begun: usize = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(begin)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).sum()
            });
            assert_eq!(begun, 1, "round {round}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "round {round}");
            fs::remove_file(&file).unwrap();
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a thread stands for a process")]
    fn settings_are_undone_when_all_of_them_are_applied() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("journal.json");
        let applying = Applying::begin(Vec::new(), &file).unwrap();
        std::thread::scope(|scope| {
            let undo = scope.spawn(|| Journal::undo(&file, false));
            std::thread::sleep(std::time::Duration::from_millis(200));
            assert!(!undo.is_finished() && file.exists(), "it waits");
            applying.finish().unwrap();
            undo.join().unwrap().unwrap();
        });
        assert!(!file.exists());
    }

    #[test]
    fn what_other_users_may_lock_holds_nobody_up() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("journal.json");
        Journal::apply(Vec::new(), &file).unwrap();
        let of_anyone = [folder.path(), &file].map(|path| File::open(path).unwrap());
        for readable in &of_anyone {
            flock(readable, FlockOperation::NonBlockingLockExclusive).unwrap();
        }
        drop(lock_within(&file, STEP * 2).unwrap());
        let held = lock(&file).unwrap();
        let beside = folder.path().join("journal.json.lock");
        assert_eq!(beside.metadata().unwrap().mode() & 0o777, 0o600);
        let error = lock_within(&file, STEP * 2).err().unwrap();
        assert_eq!(error.blame(), Blame::Failure);
        assert!(error.to_string().contains("cannot lock") && error.to_string().contains("journal.json"), "{error}");
        drop(held);
        assert!(!beside.exists());
        Journal::undo(&file, false).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn settings_that_have_ended_with_the_kernel_or_the_namespace_are_applied_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("journal.json");
        for ended in [text("boot", "earlier".into()), text("cookie", 1.into())] {
            fs::write(&file, ended).unwrap();
            Journal::apply(Vec::new(), &file).unwrap();
            Journal::undo(&file, false).unwrap();
        }
        fs::write(&file, text("namespace", "1".into())).unwrap();
        assert!(matches!(Journal::apply(Vec::new(), &file), Err(Error::AlreadyApplied(_))), "they are another's");
    }

    #[test]
    fn where_the_journal_cannot_be_written_nothing_is_changed() {
        let folder = tempfile::tempdir().unwrap();
        let in_the_way = folder.path().join("file");
        fs::write(&in_the_way, "").unwrap();
        let error = Journal::apply(Vec::new(), &in_the_way.join("journal.json")).unwrap_err();
        assert!(matches!(error, Error::Record { .. }), "{error}");
    }

    #[test]
    fn a_change_that_this_kernel_lacks_leaves_no_journal() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("journal.json");
        let change = |key: &str| Change::Sysctl { key: key.into(), before: "1".into(), after: "2".into() };
        let error = Journal::apply(vec![change("net.ipv4.there_is_none_such")], &file).unwrap_err();
        assert!(error.to_string().contains("there_is_none_such"), "{error}");
        assert!(!file.exists());
    }
}
