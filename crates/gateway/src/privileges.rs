//! What the gateway gives up once it is set up: root, capabilities, system calls and files that it has no use for.

use crate::config::Settings;
use crate::error::{StartError, while_doing};
use caps::Capability::{self, CAP_NET_ADMIN, CAP_NET_BIND_SERVICE, CAP_NET_RAW, CAP_SYS_RESOURCE};
use kernel::privileges::{self, Account};
use kernel::sandbox::{self, Confined, Files};
use status::Privileges;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, chown, fchown};
use std::path::{Path, PathBuf};

/// The user as whom a gateway runs that root has started, if the host has it and no other is named.
const USUAL_USER: &str = "bentpipe";
/// What relaying takes: rules, routes and transparent sockets; `iptables` for held SYNs; and ports below 1024, which some
/// clients call from, and on which DLEP is spoken.
const KEPT: [Capability; 3] = [CAP_NET_ADMIN, CAP_NET_RAW, CAP_NET_BIND_SERVICE];
/// The `tcp` transport has two pipes for each connection, beyond what one user may have (pipe(7)).
const KEPT_FOR_PIPES: Capability = CAP_SYS_RESOURCE;
/// Directories of programs, libraries and kernel interfaces. Those that do not exist are left out.
const READABLE: [&str; 13] =
    ["/bin", "/dev", "/etc", "/gnu", "/lib", "/lib32", "/lib64", "/nix", "/opt", "/proc", "/sbin", "/sys", "/usr"];

/// Permissions, as those of others in a mode.
const READ: u32 = 0o4;
const SEARCH: u32 = 0o1;

/// Whether the gateway's user may read a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reading<'a> {
    Allowed,
    /// The user of this name may not read the file, or not search the directory above it, that is named.
    Denied {
        user: &'a str,
        by: PathBuf,
    },
}

/// Whether the mode of what was found lets the user do this. What access control lists add is not considered.
fn is_permitted(account: &Account, found: &Metadata, right: u32) -> bool {
    let right = if account.uid == found.uid() {
        right << 6
    } else if account.is_in(found.gid()) {
        right << 3
    } else {
        right
    };
    account.uid == 0 || found.mode() & right != 0
}

/// The directory of the file `path`: the working directory for a bare name. `None` for the root of all.
pub(crate) fn directory_of(path: &Path) -> Option<&Path> {
    path.parent().map(|directory| if directory.as_os_str().is_empty() { Path::new(".") } else { directory })
}

/// As whom a gateway goes on, and who may ask it.
#[derive(Debug)]
pub(crate) struct Plan {
    account: Option<Account>,
    /// Whether the settings name the user.
    is_named: bool,
    /// The number of the group that may use the control socket.
    group: Option<u32>,
}

impl Plan {
    /// Looks the user and the group of `settings` up.
    ///
    /// # Errors
    /// If the host has no such user or group.
    pub(crate) fn new(settings: &Settings) -> Result<Self, StartError> {
        let absent =
            |what: String| while_doing(what)(io::Error::new(io::ErrorKind::NotFound, "this host has none such"));
        let group = match &settings.control_group {
            None => None,
            Some(name) => {
                let found = privileges::group_id(name)?;
                Some(found.ok_or_else(|| absent(format!("[control] group = {name:?} (groupadd makes it)")))?)
            }
        };
        let account = match &settings.user {
            Some(name) => {
                let found = Account::find(name)?;
                Some(found.ok_or_else(|| absent(format!("[gateway] user = {name:?} (useradd --system makes it)")))?)
            }
            None if kernel::process::is_root() => Account::find(USUAL_USER)?,
            None => None,
        };
        Ok(Self { account, is_named: settings.user.is_some(), group })
    }

    /// Whether the gateway's user may read `file`, by the owners and modes of the file and of the directories above it; `None` if no
    /// other user is known than the one who asks.
    ///
    /// # Errors
    /// If one of them cannot be looked at.
    pub(crate) fn reading(&self, file: &Path) -> io::Result<Option<Reading<'_>>> {
        let Some(account) = &self.account else { return Ok(None) };
        let denied = |by: &Path| Ok(Some(Reading::Denied { user: &account.name, by: by.to_owned() }));
        // A link is read where it is, and what it leads to where that is.
        for path in [std::path::absolute(file)?, file.canonicalize()?] {
            let mut above: Vec<_> = path.ancestors().skip(1).collect();
            above.reverse();
            for directory in above {
                if !is_permitted(account, &std::fs::metadata(directory)?, SEARCH) {
                    return denied(directory);
                }
            }
        }
        if is_permitted(account, &std::fs::metadata(file)?, READ) { Ok(Some(Reading::Allowed)) } else { denied(file) }
    }

    /// The same for a process that stays who it is.
    pub(crate) fn as_oneself(&self) -> Self {
        Self { account: None, is_named: false, group: self.group }
    }

    /// Makes the directory of the socket file `path`, where it is missing, and gives it to the gateway's user, who removes
    /// the file at the end. A directory that exists is given away only if it is the usual one.
    pub(crate) fn prepare_directory(&self, path: &Path) -> io::Result<()> {
        let Some(directory) = directory_of(path) else { return Ok(()) };
        let is_new = !directory.exists();
        std::fs::create_dir_all(directory)?;
        let is_ours = is_new || directory == Path::new("/run/bentpipe");
        match &self.account {
            Some(account) if is_ours && std::fs::metadata(directory)?.uid() != account.uid => {
                chown(directory, Some(account.uid), Some(account.gid))
            }
            _ => Ok(()),
        }
    }

    /// Gives the socket file `path` to the gateway's user and the group that may use it. Returns its access mode.
    pub(crate) fn give(&self, path: &Path) -> io::Result<u32> {
        let (uid, gid) = self.account.as_ref().map(|account| (account.uid, account.gid)).unzip();
        if uid.is_some() || self.group.is_some() {
            chown(path, uid, self.group.or(gid))?;
        }
        Ok(if self.group.is_some() { 0o660 } else { 0o600 })
    }

    /// Gives a file that is open to the gateway's user.
    pub(crate) fn give_file(&self, file: &File) -> io::Result<()> {
        match &self.account {
            Some(account) => fchown(file, Some(account.uid), Some(account.gid)),
            None => Ok(()),
        }
    }

    /// Gives up everything else. To be called while there is one thread; nothing comes back.
    ///
    /// # Errors
    /// If the process may not become the user that the settings name, or the kernel refuses.
    pub(crate) fn reduce(&self, settings: &Settings) -> Result<Privileges, StartError> {
        let mut kept = KEPT.to_vec();
        kept.extend(settings.tcp.as_ref().map(|_| KEPT_FOR_PIPES));
        let reduced = match privileges::reduce(&kept, self.account.as_ref()) {
            // In a user namespace the host's users may be nobody's.
            Err(error) if !self.is_named && self.account.is_some() => {
                tracing::warn!(%error, "the gateway continues as root: the user {USUAL_USER} cannot be used here");
                privileges::reduce(&kept, None)?
            }
            other => other?,
        };
        let mut left = Privileges {
            uid: reduced.uid,
            capabilities: reduced.capabilities,
            bounded: reduced.is_bounded,
            seccomp: false,
            landlock: "none".into(),
        };
        if settings.sandbox {
            let (seccomp, landlock) = confine(settings);
            (left.seccomp, left.landlock) = (seccomp, landlock.into());
        }
        let Privileges { uid, seccomp, landlock, .. } = &left;
        tracing::info!(
            uid,
            capabilities = left.capabilities.join(", "),
            seccomp,
            landlock = landlock.as_ref(),
            "privileges are reduced"
        );
        Ok(left)
    }
}

/// Denies system calls and files. If the kernel lacks a filter, the gateway logs that and runs without it.
fn confine(settings: &Settings) -> (bool, &'static str) {
    // The cross-layer congestion control's table is written by bpf(2).
    let uses_bpf =
        settings.tcp.as_ref().is_some_and(|tcp| tcp.congestion_control.as_deref() == Some(crate::config::CROSS_LAYER));
    let seccomp = match sandbox::deny_system_calls(uses_bpf) {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(%error, "system calls are not filtered");
            false
        }
    };
    let landlock = match sandbox::confine(&files(settings)) {
        Ok(Confined::Fully) => "full",
        Ok(Confined::Partly) => "partial",
        Ok(Confined::Not) => "none",
        Err(error) => {
            tracing::warn!(%error, "files are not confined");
            "none"
        }
    };
    (seccomp, landlock)
}

/// The files that a running gateway needs: programs and what they need, its settings (to read them again), its sockets
/// and logs.
fn files(settings: &Settings) -> Files {
    let mut readable: Vec<PathBuf> = READABLE.iter().map(PathBuf::from).collect();
    readable.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
    for file in settings.file.iter().chain(&settings.private_key_file).chain(&std::env::current_exe().ok()) {
        let real = file.canonicalize().ok();
        readable.extend(
            [Some(file), real.as_ref()].into_iter().flatten().filter_map(|path| Some(directory_of(path)?.to_owned())),
        );
    }
    let sockets = [Some(&settings.control), settings.updates.socket.as_ref()];
    let mut writable: Vec<PathBuf> =
        sockets.into_iter().flatten().filter_map(|socket| Some(directory_of(socket)?.to_owned())).collect();
    let log = settings.connection_log.as_ref().and_then(|log| directory_of(&log.file));
    writable.extend(log.map(Path::to_owned));
    writable.extend(settings.state_directory.exists().then(|| settings.state_directory.clone()));
    writable.extend(settings.debug.qlog.as_ref().map(|qlog| qlog.directory.clone()));
    // What a program that is started writes nothing to; and the lock of iptables, which holds SYNs on some kernels.
    writable.push("/dev/null".into());
    if settings.rules.hold.is_some() {
        writable.push("/run".into());
    }
    Files { readable, writable }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;
    use crate::config::tests::minimal;

    /// What docs/security.md says of files, without line breaks.
    fn page() -> String {
        let page = include_str!("../../../docs/security.md");
        let from = &page[page.find("- **Files**").unwrap()..];
        from[..from.find("disables both filters").unwrap()].split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_files_of_a_gateway_are_those_that_the_documentation_names() {
        let state = std::env::temp_dir();
        let text = minimal().replace(
            "[gateway]\n",
            &format!("[gateway]\naccept = \"confirmed\"\nstate_directory = \"{}\"\n", state.display()),
        ) + "[control]\nsocket = \"/c/s\"\n[updates]\nsocket = \"/u/s\"\n[connection_log]\nfile = \"/l/f\"\n[debug]\nqlog = \"/q\"\n";
        let page = page();
        let named = [
            ("/c", "`[control] socket`"),
            ("/u", "`[updates] socket`"),
            ("/l", "`[connection_log] file`"),
            (state.to_str().unwrap(), "`[gateway] state_directory`"),
            ("/q", "`[debug] qlog`"),
            ("/dev/null", "`/dev/null`"),
            ("/run", "`/run`"),
        ];
        let files = files(&parse(&text, "x").unwrap());
        assert_eq!(files.writable, named.map(|(path, _)| PathBuf::from(path)));
        for words in
            named.map(|(_, words)| words.to_owned()).into_iter().chain(READABLE.map(|path| format!("`{path}`")))
        {
            assert!(page.contains(&words), "docs/security.md does not name {words}: {page}");
        }
    }

    #[test]
    fn a_bare_name_is_a_file_of_the_working_directory() {
        for section in ["[control]\nsocket = \"c\"", "[updates]\nsocket = \"u\"", "[connection_log]\nfile = \"l\""] {
            let files = files(&parse(&format!("{}{section}\n", minimal()), "x").unwrap());
            assert!(files.writable.contains(&PathBuf::from(".")), "{section}: {:?}", files.writable);
        }
        let account = Account::find("root").unwrap();
        let plan = Plan { account, is_named: true, group: None };
        let before = std::fs::metadata(".").unwrap().uid();
        plan.prepare_directory(Path::new("c")).unwrap();
        assert_eq!(std::fs::metadata(".").unwrap().uid(), before, "a directory that exists is not given away");
    }
}
