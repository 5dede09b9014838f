//! The system's own programs (`ip`, `tc`, `nft`): where they are, and what their failures mean.

use crate::Error;
use std::env;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A command that runs `program`, looked for on `PATH`, and then in the `sbin` beside each `bin` on it: Debian leaves those out of a
/// plain user's `PATH`.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(find(program.as_ref(), env::var_os("PATH").as_deref()))
}

/// The file of a program without folder; the name itself if there is none, so that starting it fails as for anything missing.
fn find(name: &OsStr, path: Option<&OsStr>) -> PathBuf {
    if Path::new(name).components().count() > 1 {
        return name.into();
    }
    let folders: Vec<_> = path.into_iter().flat_map(env::split_paths).collect();
    let beside = folders.iter().filter(|folder| folder.ends_with("bin")).map(|folder| folder.with_file_name("sbin"));
    let mut files = folders.iter().cloned().chain(beside).map(|folder| folder.join(name));
    files.find(|file| file.is_file()).unwrap_or_else(|| name.into())
}

/// Runs `program` of the package `package`, and waits for its end.
///
/// # Errors
/// [`Error::Missing`] if it is not installed, or the process may not change the network; [`Error::Failed`] if it refuses, with what
/// it printed.
pub(crate) fn run<'a>(
    program: &str,
    package: &str,
    arguments: impl IntoIterator<Item = &'a str>,
) -> Result<Output, Error> {
    let arguments: Vec<&str> = arguments.into_iter().collect();
    let output = command(program)
        .args(&arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| not_started(program, package, error))?;
    if output.status.success() {
        return Ok(output);
    }
    Err(refused(&format!("{program} {}", arguments.join(" ")), &output.stderr))
}

/// The error for a `program` (of `package`) that could not be started.
pub(crate) fn not_started(program: &str, package: &str, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => {
            Error::Missing(format!("the program `{program}` (package {package}) is not installed"))
        }
        _ => Error::Failed { doing: format!("starting `{program}`"), source: error },
    }
}

/// The error for a `command` that ended with a failure and printed `stderr`.
pub(crate) fn refused(command: &str, stderr: &[u8]) -> Error {
    let printed = String::from_utf8_lossy(stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    if printed.contains("Operation not permitted") {
        return Error::Missing(format!("{command}: the process may not change the network (it needs CAP_NET_ADMIN)"));
    }
    Error::Failed { doing: command.to_owned(), source: io::Error::other(printed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_on_the_path_is_found_first_and_then_one_in_the_sbin_beside_it() {
        let root = env::temp_dir().join(format!("bentpipe-program-{}", std::process::id()));
        let [bin, sbin] = ["bin", "sbin"].map(|folder| root.join(folder));
        for folder in [&bin, &sbin] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(sbin.join("nft"), "").unwrap();
        let found = |name: &str| find(OsStr::new(name), Some(bin.as_os_str()));
        assert_eq!(found("nft"), sbin.join("nft"));
        std::fs::write(bin.join("nft"), "").unwrap();
        assert_eq!(found("nft"), bin.join("nft"));
        assert_eq!(found("ip"), Path::new("ip"));
        assert_eq!(found("./nft"), Path::new("./nft"));
        assert_eq!(find(OsStr::new("nft"), None), Path::new("nft"));
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let error = run("bentpipe-no-such-program", "the-package", []).unwrap_err().to_string();
        assert!(error.contains("bentpipe-no-such-program") && error.contains("package the-package"), "{error}");
    }

    #[test]
    fn a_refusal_names_what_was_run_and_what_it_printed() {
        let error = run("sh", "dash", ["-c", "echo no such thing >&2; false"]).unwrap_err();
        assert!(matches!(&error, Error::Failed { source, .. } if source.to_string() == "no such thing"), "{error}");
        let error = run("sh", "dash", ["-c", "echo Operation not permitted >&2; false"]).unwrap_err();
        assert!(matches!(&error, Error::Missing(text) if text.contains("CAP_NET_ADMIN")), "{error}");
    }
}
