//! `bentpipe top` and `gateway status --watch`, each in a terminal of its own.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: starts programs and waits for them")]

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

const BENTPIPE: &str = env!("CARGO_BIN_EXE_bentpipe");

/// `bentpipe` with `arguments` on a new terminal of the kind `name`, which is returned: what is read from it has been drawn.
fn on_terminal(name: &str, arguments: &[&str]) -> (Child, File) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    tcsetwinsize(&terminal, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let path = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let side = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let child = Command::new(BENTPIPE)
        .args(arguments)
        .env("TERM", name)
        .stdin(side.try_clone().unwrap())
        .stdout(side.try_clone().unwrap())
        .stderr(side)
        .spawn()
        .unwrap();
    (child, File::from(terminal))
}

fn top_on(name: &str) -> (Child, File) {
    on_terminal(name, &["top", "--socket", "/nonexistent/bentpipe.sock"])
}

fn top() -> (Child, File) {
    top_on("xterm")
}

/// Waits for the end of `child`, which is killed if it takes too long.
fn end_of(mut child: Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

#[test]
fn it_ends_when_its_terminal_is_gone() {
    let (child, mut terminal) = top();
    assert!(terminal.read(&mut [0; 4096]).unwrap() > 0, "it draws");
    drop(terminal);
    let status = end_of(child).expect("it ends by itself");
    assert!(!status.success());
}

#[test]
fn a_terminal_that_cannot_be_drawn_on_is_a_wrong_one() {
    let (child, mut terminal) = top_on("dumb");
    assert_eq!(end_of(child).unwrap().code(), Some(2));
    let mut written = [0; 4096];
    let length = terminal.read(&mut written).unwrap();
    let text = String::from_utf8_lossy(&written[..length]);
    assert!(text.contains("TERM=dumb") && !text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn a_watched_status_is_drawn_over_where_the_terminal_can_and_repeated_elsewhere() {
    for (name, is_drawn_over) in [("xterm", true), ("dumb", false)] {
        let arguments = ["gateway", "status", "--socket", "/nonexistent/bentpipe.sock", "--watch", "100ms"];
        let (child, mut terminal) = on_terminal(name, &arguments);
        for _ in 0..2 {
            let mut written = [0; 4096];
            let length = terminal.read(&mut written).unwrap();
            let text = String::from_utf8_lossy(&written[..length]);
            assert!(text.contains("no gateway serves") && text.contains('\u{1b}') == is_drawn_over, "{text:?}");
        }
        drop(terminal);
        assert!(end_of(child).expect("it ends by itself").success());
    }
}

fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
}

#[test]
fn it_ends_by_a_key_and_by_a_signal_and_gives_the_terminal_back() {
    // Ctrl-C and Ctrl-\ are keys here.
    for end in ["q", "\u{3}", "\u{1c}", "-TERM", "-QUIT"] {
        let (child, mut terminal) = top();
        let side = terminal.try_clone().unwrap();
        let is_raw = || !tcgetattr(&side).unwrap().local_modes.contains(LocalModes::ICANON);
        assert!(terminal.read(&mut [0; 4096]).unwrap() > 0, "it draws");
        assert!(is_raw());
        match end.strip_prefix('-') {
            None => std::io::Write::write_all(&mut terminal, end.as_bytes()).unwrap(),
            Some(_) => signal(&child, end),
        }
        // A terminal that nobody reads would hold the program up.
        let reader = std::thread::spawn(move || while terminal.read(&mut [0; 4096]).is_ok_and(|bytes| bytes > 0) {});
        let status = end_of(child).expect("it ends");
        assert!(status.success(), "{end:?}: {status}");
        assert!(!is_raw(), "{end:?}");
        reader.join().unwrap();
    }
}

#[test]
fn it_leaves_the_terminal_to_the_shell_and_comes_back() {
    for by_key in [true, false] {
        let (child, mut terminal) = top();
        let side = terminal.try_clone().unwrap();
        let is_raw = || !tcgetattr(&side).unwrap().local_modes.contains(LocalModes::ICANON);
        assert!(terminal.read(&mut [0; 4096]).unwrap() > 0, "it draws");
        let stat = format!("/proc/{}/stat", child.id());
        let is_stopped = || std::fs::read_to_string(&stat).unwrap().contains(") T ");
        if by_key {
            std::io::Write::write_all(&mut terminal, &[0x1a]).unwrap();
        } else {
            signal(&child, "-TSTP");
        }
        let reader = std::thread::spawn(move || while terminal.read(&mut [0; 4096]).is_ok_and(|bytes| bytes > 0) {});
        wait_until(is_stopped);
        assert!(!is_raw());
        signal(&child, "-CONT");
        wait_until(|| !is_stopped() && is_raw());
        signal(&child, "-TERM");
        assert!(end_of(child).expect("it ends").success());
        assert!(!is_raw());
        reader.join().unwrap();
    }
}

fn wait_until(holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "it does not come to that");
        std::thread::sleep(Duration::from_millis(10));
    }
}
