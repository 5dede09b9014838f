//! What a process that was started with much may do for the rest of its life: another user, few capabilities
//! (capabilities(7)), and no way to gain more.

use crate::Error;
use caps::{CapSet, Capability, CapsHashSet};
use std::ffi::CString;
use std::io;

/// A user of the host, with the groups that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The user's name.
    pub name: String,
    /// The user's number.
    pub uid: u32,
    /// The number of its first group.
    pub gid: u32,
    groups: Vec<libc::gid_t>,
}

impl Account {
    /// The user `name`; `None` if the host has none.
    ///
    /// # Errors
    /// If the host's list of users cannot be read.
    pub fn find(name: &str) -> Result<Option<Self>, Error> {
        let c_name = c_string(name)?;
        // SAFETY: a passwd is plain old data for which all zeros are valid.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        let code = with_room(|text| {
            // SAFETY: all pointers lead to what outlives the call, and `text` has the length that is given.
            unsafe { libc::getpwnam_r(c_name.as_ptr(), &mut entry, text.as_mut_ptr(), text.len(), &mut found) }
        });
        match is_found(code, found.is_null(), &format!("looking for the user {name}"))? {
            false => Ok(None),
            true => {
                let groups = groups_of(&c_name, entry.pw_gid);
                Ok(Some(Self { name: name.to_owned(), uid: entry.pw_uid, gid: entry.pw_gid, groups }))
            }
        }
    }

    /// Whether the user belongs to group `gid`.
    pub fn is_in(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

/// The number of the group `name`; `None` if the host has none.
///
/// # Errors
/// If the host's list of groups cannot be read.
pub fn group_id(name: &str) -> Result<Option<u32>, Error> {
    let c_name = c_string(name)?;
    // SAFETY: a group is plain old data for which all zeros are valid.
    let mut entry: libc::group = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    let code = with_room(|text| {
        // SAFETY: all pointers lead to what outlives the call, and `text` has the length that is given.
        unsafe { libc::getgrnam_r(c_name.as_ptr(), &mut entry, text.as_mut_ptr(), text.len(), &mut found) }
    });
    Ok(is_found(code, found.is_null(), &format!("looking for the group {name}"))?.then_some(entry.gr_gid))
}

/// Bytes for the text of an entry of the list of users or groups: at first, and at most. An entry of a group has the names of all its
/// members.
const ENTRY: usize = 4096;
const MAX_ENTRY: usize = 16 << 20;
/// Groups that a user belongs to, at most (NGROUPS_MAX).
const MAX_GROUPS: usize = 65_536;

fn c_string(name: &str) -> Result<CString, Error> {
    CString::new(name).map_err(|_| Error::Missing(format!("{name:?} is no name")))
}

/// The result of `look_up`, which gets a larger buffer as long as the entry does not fit (`ERANGE`, getgrnam_r(3)).
fn with_room(mut look_up: impl FnMut(&mut [libc::c_char]) -> libc::c_int) -> libc::c_int {
    let mut text = vec![0; ENTRY];
    loop {
        match look_up(&mut text) {
            libc::ERANGE if text.len() < MAX_ENTRY => text.resize(2 * text.len(), 0),
            code => return code,
        }
    }
}

/// What a look-up of this result has come to; some libraries say that there is no entry by an error.
fn is_found(code: libc::c_int, is_null: bool, doing: &str) -> Result<bool, Error> {
    match code {
        0 => Ok(!is_null),
        libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM => Ok(false),
        code => Err(Error::while_doing(doing)(io::Error::from_raw_os_error(code))),
    }
}

/// The groups of user `name`, whose first is `gid`.
fn groups_of(name: &CString, gid: libc::gid_t) -> Vec<libc::gid_t> {
    let mut groups = vec![gid; MAX_GROUPS];
    let mut count = MAX_GROUPS as libc::c_int;
    // SAFETY: `groups` has room for `count` numbers, and both outlive the call.
    let found = unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &mut count) };
    groups.truncate(if found < 0 { 1 } else { count as usize });
    groups
}

/// What is left after [`reduce`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reduced {
    /// The number of the user that the process runs as.
    pub uid: u32,
    /// The capabilities that it has, by the names of capabilities(7), sorted.
    pub capabilities: Vec<String>,
    /// Whether it, and what it starts, can never have others.
    pub is_bounded: bool,
}

/// Leaves the calling thread, and the threads and programs that it starts from now on, no capabilities but those of `keep`
/// that it has, as user `account` if one is given, and lets none of them gain more. Programs that it starts have the same
/// ones (they are ambient). Call it while there is one thread.
///
/// # Errors
/// If the process may not become `account`, or the kernel refuses.
pub fn reduce(keep: &[Capability], account: Option<&Account>) -> Result<Reduced, Error> {
    let held = caps::read(None, CapSet::Permitted).map_err(|error| failed("reading capabilities", error))?;
    let kept: CapsHashSet = keep.iter().copied().filter(|capability| held.contains(capability)).collect();
    let is_bounded = bound(&kept);
    // The kernel forgets this when a process becomes another user.
    let mut signal: libc::c_int = 0;
    // SAFETY: `signal` is a valid place for the answer; if there is none it stays 0, no signal.
    unsafe { libc::prctl(libc::PR_GET_PDEATHSIG, &raw mut signal) };
    if let Some(account) = account {
        become_user(account)?;
    }
    for set in [CapSet::Effective, CapSet::Permitted, CapSet::Inheritable] {
        caps::set(None, set, &kept).map_err(|error| failed("reducing capabilities", error))?;
    }
    // Without it, programs started by another user than root would have none. Kernels before 4.3 have no such set.
    let _ = caps::set(None, CapSet::Ambient, &kept);
    forbid_more()?;
    // SAFETY: the call takes no pointers; if it fails, the process outlives its parent.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) };
    let mut capabilities: Vec<_> = kept.iter().map(ToString::to_string).collect();
    capabilities.sort();
    Ok(Reduced { uid: effective_user(), capabilities, is_bounded })
}

/// Takes everything but `kept` out of what may ever be gained; a process without `CAP_SETPCAP` may not.
fn bound(kept: &CapsHashSet) -> bool {
    let Ok(bounding) = caps::read(None, CapSet::Bounding) else { return false };
    let mut dropped: Vec<_> = bounding.difference(kept).copied().collect();
    dropped.sort_by_key(Capability::index);
    dropped.into_iter().all(|capability| caps::drop(None, CapSet::Bounding, capability).is_ok())
}

fn effective_user() -> u32 {
    // SAFETY: the call only reads the process's credentials and cannot fail.
    unsafe { libc::geteuid() }
}

/// Has the calling thread, and the threads and programs that it starts from now on, gain nothing by starting programs
/// (`no_new_privs`, prctl(2)).
///
/// # Errors
/// If the kernel refuses.
pub fn forbid_more() -> Result<(), Error> {
    // SAFETY: the call takes no pointers.
    done(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, "setting no_new_privs")
}

fn become_user(account: &Account) -> Result<(), Error> {
    let Account { uid, gid, groups, .. } = account;
    if effective_user() == *uid {
        return Ok(());
    }
    let doing = format!("running as user {}", account.name);
    // SAFETY: none of the calls takes a pointer but setgroups(), whose list outlives it.
    unsafe {
        done(libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0), &doing)?;
        done(libc::setgroups(groups.len(), groups.as_ptr()), &doing)?;
        done(libc::setresgid(*gid, *gid, *gid), &doing)?;
        done(libc::setresuid(*uid, *uid, *uid), &doing)?;
        done(libc::prctl(libc::PR_SET_KEEPCAPS, 0, 0, 0, 0), &doing)
    }
}

fn done(result: libc::c_int, doing: &str) -> Result<(), Error> {
    if result == 0 { Ok(()) } else { Err(Error::last(doing)) }
}

fn failed(doing: &str, error: caps::errors::CapsError) -> Error {
    Error::Failed { doing: doing.to_owned(), source: io::Error::other(error.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(key: &str) -> String {
        let text = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        text.lines().find_map(|line| line.strip_prefix(key)).unwrap().trim().to_owned()
    }

    #[test]
    fn nothing_but_what_is_kept_is_left_for_ever() {
        let thread = std::thread::spawn(|| {
            let Ok(reduced) = reduce(&[Capability::CAP_NET_ADMIN], None) else { panic!("refused") };
            let held: Vec<_> = ["CapPrm:", "CapEff:", "CapInh:", "CapAmb:"].map(status).to_vec();
            let bounding = u64::from_str_radix(&status("CapBnd:"), 16).unwrap();
            let child = std::process::Command::new("cat").arg("/proc/self/status").output().unwrap();
            (reduced, held, bounding, status("NoNewPrivs:"), String::from_utf8(child.stdout).unwrap())
        });
        let (reduced, held, bounding, no_new_privs, child) = thread.join().unwrap();
        assert_eq!(no_new_privs, "1");
        let expected = if reduced.capabilities.is_empty() { 0 } else { 1 << 12 };
        for mask in held {
            assert_eq!(u64::from_str_radix(&mask, 16).unwrap(), expected);
        }
        let effective = child.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap().trim();
        assert_eq!(u64::from_str_radix(effective, 16).unwrap(), expected, "a program that it starts");
        assert!(!reduced.is_bounded || bounding == expected, "{bounding:x}");
    }

    #[test]
    fn root_is_known_and_nobody_of_that_name_is_not() {
        assert_eq!(Account::find("root").unwrap().unwrap().uid, 0);
        assert_eq!(Account::find("no-such-user-here").unwrap(), None);
        assert_eq!(group_id("root").unwrap(), Some(0));
        assert_eq!(group_id("no-such-group-here").unwrap(), None);
    }

    #[test]
    fn an_entry_of_thousands_of_members_gets_the_room_that_it_needs() {
        let needs = |bytes| move |text: &mut [libc::c_char]| if text.len() < bytes { libc::ERANGE } else { 0 };
        assert_eq!(with_room(needs(1)), 0);
        assert_eq!(with_room(needs(1_000_000)), 0);
        assert_eq!(with_room(needs(100 << 20)), libc::ERANGE, "a host that never ends its entry");
        assert_eq!(with_room(|_| libc::EIO), libc::EIO);
    }
}
