//! Child processes that never outlive their parent, and what they cost.

use crate::Error;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

/// Has the kernel kill the child of `command` (SIGKILL) when the thread that spawned it ends, however that happens.
pub fn die_with_parent(command: &mut Command) {
    let parent = std::process::id();
    // SAFETY: the closure runs between fork and exec and only makes the system calls prctl() and getppid(), which are
    // async-signal-safe; it neither allocates nor takes a lock.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The parent may have died before the request was made.
            if libc::getppid() as u32 != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        });
    }
}

/// Sends SIGTERM to `child`. The borrow keeps others from waiting for it meanwhile, so that its number is no other process's.
///
/// # Errors
/// If this process may not signal it: it has become another user's.
pub fn terminate(child: &mut Child) -> Result<(), Error> {
    // A child that was waited for already has no number any more.
    let has_ended = child.try_wait().map_err(Error::while_doing("waiting for a child"))?.is_some();
    // SAFETY: the call takes no pointers.
    if !has_ended && unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) } != 0 {
        return Err(Error::last(format!("sending SIGTERM to process {}", child.id())));
    }
    Ok(())
}

/// Whether the process runs as root, be it root of a user namespace.
pub fn is_root() -> bool {
    user() == 0
}

/// The number of the user as whom the process runs.
pub fn user() -> u32 {
    // SAFETY: the call only reads the process's credentials and cannot fail.
    unsafe { libc::geteuid() }
}

/// Has this process, and the children that it starts, run before ordinary ones where the host allows it (nice -15), so
/// that what else the machine does disturbs a measurement less. Call it before any thread exists; returns whether it is
/// so now.
pub fn run_before_others() -> bool {
    // SAFETY: setpriority() takes no pointers; process 0 is the calling one.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -15) == 0 }
}

/// Processor time, user and system, that all threads of process `pid` have used so far.
///
/// # Errors
/// If there is no such process.
pub fn cpu_time(pid: u32) -> Result<Duration, Error> {
    let doing = || format!("reading the processor time of process {pid}");
    let mut clock: libc::clockid_t = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `clock` is a valid place for the answer.
    let code = unsafe { libc::clock_getcpuclockid(pid as libc::pid_t, &mut clock) };
    // It returns its error and leaves errno alone (clock_getcpuclockid(3)).
    if code != 0 {
        return Err(Error::while_doing(doing())(io::Error::from_raw_os_error(code)));
    }
    // SAFETY: `time` is a valid place for the answer.
    if unsafe { libc::clock_gettime(clock, &mut time) } != 0 {
        return Err(Error::last(doing()));
    }
    Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// Processor time that each thread of process `pid` has used so far, by its number: threads that have ended are not among them.
///
/// # Errors
/// If there is no such process.
pub fn thread_times(pid: u32) -> Result<BTreeMap<u32, Duration>, Error> {
    let time_of = |thread: PathBuf| {
        let number: u32 = thread.file_name()?.to_str()?.parse().ok()?;
        // It may have ended since. The first field is the time on a processor in nanoseconds, where `stat` counts ticks of 10 ms.
        let schedstat = std::fs::read_to_string(thread.join("schedstat")).ok()?;
        let used = schedstat.split(' ').next()?.parse().ok()?;
        Some((number, Duration::from_nanos(used)))
    };
    Ok(threads(pid)?.filter_map(time_of).collect())
}

/// The folders of the threads of process `pid`.
fn threads(pid: u32) -> Result<impl Iterator<Item = PathBuf>, Error> {
    let path = format!("/proc/{pid}/task");
    let threads = std::fs::read_dir(&path).map_err(Error::while_doing(format!("reading {path}")))?;
    Ok(threads.flatten().map(|thread| thread.path()))
}

/// Bytes of memory that process `pid` keeps resident.
///
/// # Errors
/// If there is no such process.
pub fn resident_memory(pid: u32) -> Result<u64, Error> {
    Ok(of_status(format!("/proc/{pid}/status"), "VmRSS:")? * 1024)
}

/// How often the threads of process `pid` have waited for something so far: the voluntary context switches of those that have not ended.
///
/// # Errors
/// If there is no such process.
pub fn waits(pid: u32) -> Result<u64, Error> {
    // A thread may end between the listing and the reading.
    let of = |thread: PathBuf| of_status(thread.join("status"), "voluntary_ctxt_switches:").ok();
    Ok(threads(pid)?.filter_map(of).sum())
}

/// The number after `key` in `status`, the kernel's file of a process or thread.
fn of_status(status: impl AsRef<Path>, key: &str) -> Result<u64, Error> {
    let path = status.as_ref().display();
    let status = std::fs::read_to_string(&status).map_err(Error::while_doing(format!("reading {path}")))?;
    let number = status.lines().find_map(|line| line.strip_prefix(key)?.trim().trim_end_matches(" kB").parse().ok());
    number.ok_or_else(|| Error::Missing(format!("{path} does not tell {key}")))
}

/// Descriptors that process `pid` has open.
///
/// # Errors
/// If there is no such process, or it is another user's.
pub fn open_files(pid: u32) -> Result<u64, Error> {
    let path = format!("/proc/{pid}/fd");
    let entries = std::fs::read_dir(&path).map_err(Error::while_doing(format!("reading {path}")))?;
    Ok(entries.count() as u64)
}

/// Raises the number of descriptors that the process may open to the hard limit and returns it.
///
/// # Errors
/// If Linux refuses.
pub fn raise_open_files() -> Result<u64, Error> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for the answer.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return Err(Error::last("reading the limit on open files"));
    }
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` is initialised and only read.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } != 0 {
        return Err(Error::last("raising the limit on open files"));
    }
    Ok(limit.rlim_cur)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_time_whatever_its_name() {
        let (used, names) = std::sync::mpsc::channel();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let busy = std::thread::Builder::new().name(") 1 (a".into()).spawn(move || {
            while crate::clock::thread_cpu_time().as_nanos() < 50_000_000 {}
            used.send(std::path::Path::new("/proc/thread-self").canonicalize().unwrap()).unwrap();
            wait.recv().unwrap_err();
        });
        let thread = names.recv().unwrap();
        let number: u32 = thread.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let times = thread_times(std::process::id()).unwrap();
        assert!(times.len() >= 2 && times[&number] >= Duration::from_millis(30), "{times:?}");
        let tick = Duration::from_millis(10).as_nanos();
        assert!(!times[&number].as_nanos().is_multiple_of(tick), "counted in ticks: {times:?}");
        drop(done);
        busy.unwrap().join().unwrap();
    }

    #[test]
    fn the_waits_of_all_threads_count() {
        let own = || of_status("/proc/thread-self/status", "voluntary_ctxt_switches:").unwrap();
        let (said, napped) = std::sync::mpsc::channel();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let naps = std::thread::spawn(move || {
            (0..20).for_each(|_| std::thread::sleep(Duration::from_millis(1)));
            said.send(own()).unwrap();
            wait.recv().unwrap_err();
        });
        let of_thread: u64 = napped.recv().unwrap();
        // Threads of other tests come and go.
        let (of_this, all) = (own(), waits(std::process::id()).unwrap());
        assert!(of_thread >= 20 && all >= of_thread + of_this, "{of_thread} and {of_this} of {all}");
        drop(done);
        naps.join().unwrap();
    }

    #[test]
    fn the_error_about_a_process_that_is_not_there_says_so() {
        // /proc/sys/kernel/pid_max is at most 2^22. The last error of this thread is another one.
        std::fs::read("/proc/self").unwrap_err();
        let Err(Error::Failed { doing, source }) = cpu_time((1 << 22) + 1) else { panic!("a process of that number") };
        assert_eq!(source.raw_os_error(), Some(libc::ESRCH), "{doing}: {source}");
    }
}
