//! Anonymous network namespaces: held by a file descriptor alone, so that nothing in the file system names them and
//! they vanish with the last process that uses them, however it ends.

use crate::Error;
use crate::{process, program};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

/// A network namespace. Clones name the same namespace; it ends when the last clone, socket and process in it do.
#[derive(Debug, Clone)]
pub struct Namespace {
    fd: Arc<OwnedFd>,
}

impl Namespace {
    /// A new namespace, in which nothing but an inactive loopback interface exists.
    ///
    /// # Errors
    /// If the process may not create one (it needs `CAP_SYS_ADMIN`: see [`enter_private`]).
    pub fn new() -> Result<Self, Error> {
        let create = || {
            unshare(libc::CLONE_NEWNET).map_err(|error| match error.raw_os_error() {
                Some(libc::EPERM) => Error::Missing("creating a network namespace needs CAP_SYS_ADMIN".into()),
                _ => Error::Failed { doing: "creating a network namespace".into(), source: error },
            })?;
            Self::of_this_thread()
        };
        // unshare() moves the calling thread: a short-lived one, so that the caller stays where it is.
        in_thread(create)?
    }

    /// The namespace in which the calling thread is.
    ///
    /// # Errors
    /// If /proc is not mounted.
    pub fn of_this_thread() -> Result<Self, Error> {
        let path = "/proc/thread-self/ns/net";
        let file = File::open(path).map_err(Error::while_doing(format!("opening {path}")))?;
        Ok(Self { fd: Arc::new(file.into()) })
    }

    /// The namespace that `ip netns` knows as `name`.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn named(name: &str) -> Result<Self, Error> {
        Self::at(&Path::new("/run/netns").join(name))
    }

    /// The namespace that the file `path` names, such as `/proc/PID/ns/net`.
    ///
    /// # Errors
    /// If there is no such file, or the process may not open it.
    pub fn at(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(Error::while_doing(format!("opening {}", path.display())))?;
        Ok(Self { fd: Arc::new(file.into()) })
    }

    /// Runs `f` on a thread inside this namespace and waits for it. Threads that `f` starts are inside, too; sockets
    /// that it opens stay inside wherever they are used.
    ///
    /// # Errors
    /// If the namespace cannot be entered. A panic in `f` goes on in the caller.
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T, Error> {
        in_thread(|| {
            self.enter()?;
            Ok(f())
        })?
    }

    /// Starts a thread called `name` inside this namespace.
    ///
    /// # Errors
    /// If the thread cannot be started or the namespace cannot be entered.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<Option<T>>, Error> {
        let (entered, answer) = mpsc::sync_channel(1);
        let namespace = self.clone();
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                let result = namespace.enter();
                let inside = result.is_ok();
                // The receiver waits for exactly this message.
                let _ = entered.send(result);
                inside.then(f)
            })
            .map_err(Error::while_doing(format!("starting thread {name}")))?;
        answer.recv().unwrap_or_else(|_| Err(Error::Missing("a thread ended before it began".into())))?;
        Ok(thread)
    }

    /// A command that will run inside this namespace and be killed when the thread that spawns it ends (so spawn it
    /// from a thread that outlives it, such as the main one).
    pub fn command(&self, name: impl AsRef<OsStr>) -> Command {
        let mut command = program::command(name);
        process::die_with_parent(&mut command);
        let fd = Arc::clone(&self.fd);
        // SAFETY: the closure runs between fork and exec and only makes the system call setns(), which is
        // async-signal-safe; it neither allocates nor takes a lock.
        unsafe {
            command.pre_exec(move || set_namespace(&fd));
        }
        command
    }

    /// The descriptor that holds the namespace.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.fd.as_fd()
    }

    fn enter(&self) -> Result<(), Error> {
        set_namespace(&self.fd).map_err(|error| match error.raw_os_error() {
            Some(libc::EPERM) => {
                Error::Missing("entering a network namespace needs CAP_SYS_ADMIN (run it as root)".into())
            }
            _ => Error::Failed { doing: "entering a network namespace".into(), source: error },
        })
    }
}

/// The number of the calling thread's network namespace that no other has until the next boot, unlike the number of its file
/// (`SO_NETNS_COOKIE`, Linux 5.14); `None` on kernels without.
pub fn cookie() -> Option<u64> {
    const NETNS_COOKIE: libc::c_int = 71;
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    let mut cookie = 0_u64;
    let mut length = size_of_val(&cookie) as libc::socklen_t;
    // SAFETY: both pointers are valid for writing, and `length` is the size of `cookie`.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, NETNS_COOKIE, (&raw mut cookie).cast(), &mut length)
    };
    (result == 0).then_some(cookie)
}

/// Moves the process into network and mount namespaces of its own, without privilege into a user namespace too (in
/// which it is root), and mounts an empty file system on [`PRIVATE_DIRECTORY`]. What happens afterwards changes nothing
/// on the host and vanishes with the process.
///
/// Call it before any thread exists: Linux refuses to move a process of several threads into a user namespace.
///
/// # Errors
/// [`Error::Missing`] if the process neither has `CAP_SYS_ADMIN` nor may create user namespaces.
pub fn enter_private() -> Result<(), Error> {
    let own = libc::CLONE_NEWNET | libc::CLONE_NEWNS;
    if unshare(own).is_err() {
        enter_user_namespace(own)?;
    }
    mount(None, "/", None, libc::MS_REC | libc::MS_PRIVATE)?;
    mount(Some("bentpipe"), PRIVATE_DIRECTORY, Some("tmpfs"), libc::MS_NOSUID | libc::MS_NODEV)
}

/// Where a process that called [`enter_private`] finds a file system of its own, in memory.
pub const PRIVATE_DIRECTORY: &str = "/run";

fn enter_user_namespace(others: libc::c_int) -> Result<(), Error> {
    // SAFETY: both calls only read the process's credentials and cannot fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    unshare(libc::CLONE_NEWUSER | others).map_err(|error| {
        Error::Missing(format!(
            "private network namespaces need root (sudo with the full path of the program), or unprivileged user namespaces ({error}; see \
             the sysctls user.max_user_namespaces, kernel.unprivileged_userns_clone and kernel.apparmor_restrict_unprivileged_userns, \
             which Ubuntu sets)"
        ))
    })?;
    // An unprivileged process may map groups only after it has given up setgroups(2).
    for (file, line) in
        [("setgroups", "deny".to_owned()), ("uid_map", format!("0 {user} 1")), ("gid_map", format!("0 {group} 1"))]
    {
        let path = format!("/proc/self/{file}");
        std::fs::write(&path, line).map_err(|error| Error::Missing(format!("a user namespace: {path}: {error}")))?;
    }
    Ok(())
}

fn mount(source: Option<&str>, target: &str, kind: Option<&str>, flags: libc::c_ulong) -> Result<(), Error> {
    crate::mount::mount(source, target, kind, flags)
        .map_err(|error| Error::Missing(format!("a private mount namespace: {error}")))
}

fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: unshare() takes no pointers; it changes only what the calling thread or process belongs to.
    if unsafe { libc::unshare(flags) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set_namespace(fd: &OwnedFd) -> io::Result<()> {
    // SAFETY: the descriptor is open for as long as the borrow lasts, and setns() takes no pointers.
    if unsafe { libc::setns(fd.as_raw_fd(), libc::CLONE_NEWNET) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Runs `f` on a thread of its own and waits for it.
fn in_thread<T: Send>(f: impl FnOnce() -> T + Send) -> Result<T, Error> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, f).map_err(Error::while_doing("starting a thread"))?;
        thread.join().map_or_else(|panic| std::panic::resume_unwind(panic), Ok)
    })
}
