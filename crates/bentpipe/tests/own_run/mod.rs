//! Commands where /run, which the lab replaces by a private file system, is a file system of the test.

use std::process::{Command, Output, Stdio};

/// Runs `script` in a shell that has a file system of its own at /run; the program is `$0`. `None` where the machine does not
/// allow it.
pub fn with_own_run(script: &str) -> Option<Output> {
    let run = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_bentpipe")]);
        command.env_remove("BENTPIPE_LOG").stdin(Stdio::null()).output()
    };
    let mount = "mount -t tmpfs none /run";
    if !run(&format!("{mount} && unshare --net true")).is_ok_and(|tried| tried.status.success()) {
        eprintln!("skipped: no private mounts or networks on this machine");
        return None;
    }
    Some(run(&format!("{mount} && {script}")).expect("unshare runs"))
}
