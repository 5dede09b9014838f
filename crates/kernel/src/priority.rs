//! Running before others when time matters.

use std::io;

/// Lets the calling thread run as soon as it can, before all ordinary threads of the host (`SCHED_FIFO`, lowest
/// priority; threads that it starts later are ordinary ones). For threads that sleep most of the time.
///
/// # Errors
/// `PermissionDenied` without `CAP_SYS_NICE` on the host or a limit (`RLIMIT_RTPRIO`) that allows it.
pub fn run_first() -> io::Result<()> {
    // SAFETY: plain old data for which all zeros are valid; C libraries differ in its members.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = 1;
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // The system call itself: musl's function of this name only fails.
    // SAFETY: the pointer is to a parameter that lives until after the call; thread 0 is the calling one.
    let result = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const parameters) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_granted_or_refused_for_lack_of_privilege() {
        let result = std::thread::spawn(run_first).join().expect("no panic");
        assert!(result.is_ok() || result.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied));
    }
}
