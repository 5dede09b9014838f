//! A program that an option names.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A program that may be run, by its whole path.
pub(super) fn executable(path: &str) -> Result<PathBuf, String> {
    let file = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !file.is_file() || file.permissions().mode() & 0o111 == 0 {
        return Err("not an executable file".into());
    }
    std::fs::canonicalize(path).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_run_is_a_program() {
        let this = std::env::current_exe().expect("this program");
        let shown = this.to_str().expect("a path in UTF-8");
        assert_eq!(executable(shown), Ok(std::fs::canonicalize(&this).expect("a path")));
        let directory = tempfile::tempdir().expect("a directory");
        let plain = directory.path().join("plain");
        std::fs::write(&plain, "#!/bin/sh\n").expect("a file");
        for path in [directory.path(), &plain] {
            let refusal = executable(path.to_str().expect("a path in UTF-8"));
            assert_eq!(refusal, Err("not an executable file".to_owned()), "{}", path.display());
        }
        assert!(executable("/nowhere/pepsal").is_err_and(|refusal| refusal.contains("No such file")));
    }
}
