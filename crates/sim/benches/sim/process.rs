//! What a process has used, and processes of this program.

/// Runs this program with other arguments; returns what it prints.
pub fn output_of_self(args: &[&str]) -> String {
    let program = std::env::current_exe().expect("this program is a file");
    let output = std::process::Command::new(program).args(args).output().expect("it runs once more");
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The CPU time of this process in seconds.
pub fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()).expect("a number") / 1e9
}

/// The most memory that this process has used, in kB.
pub fn peak_kb() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line on peak memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
