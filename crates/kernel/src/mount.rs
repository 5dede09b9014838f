//! File systems that the kernel makes on demand.

use crate::Error;
use std::ffi::CString;
use std::io;
use std::path::Path;

/// Mounts the BPF file system on `target`, where programs and maps can be pinned.
///
/// # Errors
/// [`Error::Missing`] if the kernel has none, or the process may not mount.
pub fn mount_bpf(target: &str) -> Result<(), Error> {
    mount(Some("bpf"), target, Some("bpf"), libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC)
        .map_err(|error| Error::Missing(format!("the BPF file system: {error}")))
}

/// Whether a BPF file system is mounted on `target`.
///
/// # Errors
/// If the process may not look there.
pub fn is_bpf(target: &Path) -> io::Result<bool> {
    let path = CString::new(target.as_os_str().as_encoded_bytes())?;
    let mut statistics = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the path ends with NUL and outlives the call, and statfs() fills the buffer or fails.
    if unsafe { libc::statfs(path.as_ptr(), statistics.as_mut_ptr()) } != 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::NotFound { Ok(false) } else { Err(error) };
    }
    // SAFETY: statfs() has succeeded, so that it has filled the buffer.
    let kind = unsafe { statistics.assume_init() }.f_type;
    // Of other types with glibc and with musl.
    Ok(i128::from(kind) == i128::from(libc::BPF_FS_MAGIC))
}

/// Whether the mounts of this process differ from those of the first process of its machine or container, as under `ip netns exec`
/// and `unshare --mount`: what it mounts ends with it.
pub fn is_private() -> bool {
    let namespace = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    namespace("1").is_some_and(|first| namespace("self").is_some_and(|own| own != first))
}

/// mount(2), with an error that says what could not be mounted.
pub(crate) fn mount(
    source: Option<&str>,
    target: &str,
    kind: Option<&str>,
    flags: libc::c_ulong,
) -> Result<(), String> {
    let text = |s: &str| CString::new(s).map_err(|error| format!("mount path {s}: {error}"));
    let (source, target_c, kind) = (source.map(text).transpose()?, text(target)?, kind.map(text).transpose()?);
    let pointer = |s: &Option<CString>| s.as_ref().map_or(std::ptr::null(), |s| s.as_ptr());
    // SAFETY: every pointer is null or a NUL-terminated string that outlives the call; mount() keeps none of them.
    let result = unsafe { libc::mount(pointer(&source), target_c.as_ptr(), pointer(&kind), flags, std::ptr::null()) };
    if result == 0 { Ok(()) } else { Err(format!("cannot mount {target}: {}", std::io::Error::last_os_error())) }
}
