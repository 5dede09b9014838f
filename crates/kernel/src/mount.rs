//! File systems that the kernel makes on demand.

use crate::Error;
use std::ffi::CString;

/// Mounts the BPF file system on `target`, where programs and maps can be pinned.
///
/// # Errors
/// [`Error::Missing`] if the kernel has none, or the process may not mount.
pub fn mount_bpf(target: &str) -> Result<(), Error> {
    mount(Some("bpf"), target, Some("bpf"), libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC)
        .map_err(|error| Error::Missing(format!("the BPF file system: {error}")))
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
