//! What a process may not ask of the kernel (seccomp(2)), and which files it may touch (landlock(7)), where the kernel has
//! them.

use crate::Error;
use landlock::{
    ABI, Access, AccessFs, BitFlags, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, path_beneath_rules,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// System calls with which a process acts on the whole machine or on other processes, or which have often been a way into
/// the kernel. A list of what is denied, rather than of what is allowed: the allocator, the C library and the programs that
/// are started may use any others, today's or tomorrow's, and must not fail in the field because of it.
const DENIED: &[libc::c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

/// Flags with which `clone` makes namespaces. In one of its own a process has all capabilities, and with them more ways into
/// the kernel.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

/// Denies the calling thread, and the threads and programs that it starts from now on, system calls that no network daemon
/// needs: they fail with `EPERM`. `bpf(2)` is among them unless `allows_bpf`. The thread must have `no_new_privs`.
///
/// # Errors
/// If the kernel has no seccomp filters, or this architecture is not known.
pub fn deny_system_calls(allows_bpf: bool) -> Result<(), Error> {
    let bpf = (!allows_bpf).then_some(libc::SYS_bpf);
    let mut rules: Vec<_> = DENIED.iter().copied().chain(bpf).map(|call| (call, Vec::new())).collect();
    rules.push((libc::SYS_clone, namespace_rules().map_err(|error| missing(&error))?));
    deny(rules, libc::EPERM)?;
    // Its flags are in memory, which a filter cannot read. The C library does without it where the kernel does not have it.
    deny(vec![(libc::SYS_clone3, Vec::new())], libc::ENOSYS)
}

/// What a call of `clone` that makes a namespace looks like.
fn namespace_rules() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let rule = |flag: libc::c_int| {
        let flag = u64::from(flag.cast_unsigned());
        let has_flag = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(flag), flag)?;
        SeccompRule::new(vec![has_flag])
    };
    NAMESPACES.into_iter().map(rule).collect()
}

/// Has system calls fail with `errno` that one of their rules applies to, or that have none.
fn deny(calls: Vec<(libc::c_long, Vec<SeccompRule>)>, errno: libc::c_int) -> Result<(), Error> {
    #[cfg_attr(
        target_pointer_width = "64",
        expect(clippy::useless_conversion, reason = "c_long has 32 bits elsewhere")
    )]
    let rules: BTreeMap<_, _> = calls.into_iter().map(|(call, rules)| (i64::from(call), rules)).collect();
    let architecture = std::env::consts::ARCH.try_into().map_err(|error: seccompiler::BackendError| missing(&error))?;
    let denied = SeccompAction::Errno(errno.cast_unsigned());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, denied, architecture);
    let program: BpfProgram = filter.and_then(TryInto::try_into).map_err(|error| missing(&error))?;
    seccompiler::apply_filter(&program).map_err(|error| missing(&error))
}

fn missing(error: &dyn std::fmt::Display) -> Error {
    Error::Missing(format!("seccomp: {error}"))
}

/// How far the kernel confines files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confined {
    /// As was asked.
    Fully,
    /// As far as this kernel can.
    Partly,
    /// Not at all: the kernel has no Landlock.
    Not,
}

/// Which files a process may touch; everything that is not named is out of its reach. What does not exist is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files {
    /// Files and directories to read, and to start programs from.
    pub readable: Vec<PathBuf>,
    /// Files and directories to write into, beside.
    pub writable: Vec<PathBuf>,
}

/// Confines the calling thread, and the threads and programs that it starts from now on, to `files`. Descriptors that are
/// open stay as they are, and so do sockets.
///
/// # Errors
/// If the kernel refuses.
pub fn confine(files: &Files) -> Result<Confined, Error> {
    let failed = |error: landlock::RulesetError| Error::Missing(format!("Landlock: {error}"));
    let abi = ABI::V3;
    let rules = |paths: &[PathBuf], access: BitFlags<AccessFs>| path_beneath_rules(paths.to_vec(), access);
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(abi))
        .and_then(Ruleset::create)
        .and_then(|created| created.add_rules(rules(&files.readable, AccessFs::from_read(abi))))
        .and_then(|created| created.add_rules(rules(&files.writable, AccessFs::from_all(abi))))
        .and_then(|created| created.restrict_self())
        .map_err(failed)?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => Confined::Fully,
        RulesetStatus::PartiallyEnforced => Confined::Partly,
        RulesetStatus::NotEnforced => Confined::Not,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn denied_system_calls_fail_and_others_work() {
        let seen = std::thread::spawn(|| {
            crate::privileges::forbid_more().unwrap();
            deny_system_calls(false).unwrap();
            // A child's own mount namespace, which nobody else would notice.
            let unshare = std::process::Command::new("unshare").args(["--mount", "true"]).status().unwrap();
            (unshare.success(), fs::read_to_string("/proc/self/stat").is_ok())
        });
        assert_eq!(seen.join().unwrap(), (false, true));
    }

    #[test]
    fn namespaces_are_denied_however_they_are_made_and_threads_and_programs_start() {
        let errno = || std::io::Error::last_os_error().raw_os_error();
        let clone = move |flag: libc::c_int| {
            // SAFETY: without a stack and CLONE_VM the child is a copy; were it made, it would end at once.
            let child = unsafe { libc::syscall(libc::SYS_clone, flag | libc::SIGCHLD, 0, 0, 0, 0) };
            if child == 0 {
                // SAFETY: it ends the process and runs nothing else of it.
                unsafe { libc::_exit(0) };
            }
            (child, errno())
        };
        let seen = std::thread::spawn(move || {
            crate::privileges::forbid_more().unwrap();
            deny_system_calls(false).unwrap();
            let clones = NAMESPACES.map(clone);
            // SAFETY: the kernel reads no arguments of length zero.
            let clone3 = unsafe { libc::syscall(libc::SYS_clone3, std::ptr::null::<u8>(), 0) };
            let clone3 = (clone3, errno());
            let thread = std::thread::spawn(|| std::process::Command::new("true").status()).join().unwrap();
            (clones, clone3, thread.unwrap().success())
        });
        let (clones, clone3, is_started) = seen.join().unwrap();
        assert_eq!(clones, [(-1, Some(libc::EPERM)); NAMESPACES.len()]);
        assert_eq!((clone3, is_started), ((-1, Some(libc::ENOSYS)), true));
    }

    #[test]
    fn files_that_are_not_named_are_out_of_reach() {
        let directory = std::env::temp_dir().join(format!("bentpipe-sandbox-{}", std::process::id()));
        let [open, shut] = ["open", "shut"].map(|name| directory.join(name));
        for directory in [&open, &shut] {
            fs::create_dir_all(directory).unwrap();
            fs::write(directory.join("file"), "text").unwrap();
        }
        let (inside, outside) = (open.clone(), shut.clone());
        let seen = std::thread::spawn(move || {
            let confined = confine(&Files { readable: vec!["/proc".into()], writable: vec![inside.clone()] }).unwrap();
            let written = fs::write(inside.join("file"), "other").is_ok();
            (confined, written, fs::read_to_string(outside.join("file")).is_ok())
        });
        let (confined, written, read) = seen.join().unwrap();
        fs::remove_dir_all(&directory).unwrap();
        assert!(written);
        assert_eq!(read, confined == Confined::Not, "{confined:?}");
    }
}
