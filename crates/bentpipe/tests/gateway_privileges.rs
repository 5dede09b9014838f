//! What a gateway may do once it is set up, and that it is enough: to relay, to follow its peers, to clean up.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real processes, sockets and waiting")]

mod pair;

use lab::Family;
use pair::{End, Pair, echo_all, echoes, relays_both_families};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

/// `CAP_NET_BIND_SERVICE`, `CAP_NET_ADMIN` and `CAP_NET_RAW`, by the numbers of capability.h.
const KEPT: u64 = 1 << 10 | 1 << 12 | 1 << 13;
/// And `CAP_SYS_RESOURCE` for the pipes of the `tcp` transport.
const KEPT_WITH_PIPES: u64 = KEPT | 1 << 24;
const NOBODY: u32 = 65_534;

fn status(pair: &Pair, end: End, key: &str) -> String {
    let pid = pair.running[end as usize].as_ref().unwrap().id();
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).unwrap();
    line.split_whitespace().next().unwrap().to_owned()
}

fn is_root_of_the_machine() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    let is_all = map.split_whitespace().eq(["0", "0", "4294967295"]) && kernel::process::is_root();
    if !is_all {
        eprintln!("skipped: another user can only be had by root of the machine");
    }
    is_all
}

/// Those of `capabilities` that this machine's root has.
fn had(capabilities: u64) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = text.lines().find_map(|line| line.strip_prefix("CapPrm:")).unwrap().trim().to_owned();
    capabilities & u64::from_str_radix(&mask, 16).unwrap()
}

fn assert_reduced(pair: &Pair, uid: u32, kept: u64) {
    let kept = had(kept);
    for end in [End::Hub, End::Terminal] {
        assert_eq!(status(pair, end, "Uid"), uid.to_string());
        for set in ["CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(u64::from_str_radix(&status(pair, end, set), 16).unwrap(), kept, "{set}");
        }
        assert_eq!((&*status(pair, end, "NoNewPrivs"), &*status(pair, end, "Seccomp")), ("1", "2"));
        let message = &pair.status(end)["privileges"];
        assert_eq!(
            (&message["uid"], &message["seccomp"], &message["bounded"]),
            (&uid.into(), &true.into(), &true.into())
        );
        assert_eq!(message["capabilities"].as_array().unwrap().len() as u32, kept.count_ones(), "{message}");
    }
}

/// It relays, switches interception off and on with its peer, and leaves nothing behind.
fn assert_works(mut pair: Pair) {
    relays_both_families(&pair);
    pair.kill(End::Hub);
    pair.wait_until(End::Terminal, false);
    pair.start(End::Hub, "");
    pair.wait_until(End::Terminal, true);
    pair.stop(End::Terminal);
    assert!(!pair.sets(End::Terminal).contains("bentpipe"), "{}", pair.sets(End::Terminal));
    let rules = pair.site(End::Terminal).gateway.command("ip").args(["rule", "show"]).output().unwrap();
    assert!(!String::from_utf8_lossy(&rules.stdout).contains("25200"));
    assert!(!pair.socket(End::Terminal).exists());
}

fn as_nobody(mut pair: Pair, settings: &'static str) -> Option<Pair> {
    if !is_root_of_the_machine() {
        return None;
    }
    // The control socket's directory, which its user removes the socket from.
    std::fs::set_permissions(pair.directory.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    pair.settings = settings;
    Some(pair.start_both(""))
}

#[test]
fn another_user_with_three_capabilities_is_enough() {
    let Some(pair) = Pair::new().and_then(|pair| as_nobody(pair, "user = \"nobody\"")) else { return };
    assert_reduced(&pair, NOBODY, KEPT);
    assert_works(pair);
}

#[test]
fn it_is_enough_for_the_tcp_transport() {
    let settings = "transport = \"tcp\"\nuser = \"nobody\"";
    let Some(pair) = Pair::with_tcp_transport(settings).and_then(|pair| as_nobody(pair, settings)) else { return };
    assert_reduced(&pair, NOBODY, KEPT_WITH_PIPES);
    assert_works(pair);
}

/// A process that has given up root hands over to one that root has started.
#[test]
fn another_process_takes_over_from_another_user() {
    let Some(mut pair) = Pair::new().and_then(|pair| as_nobody(pair, "user = \"nobody\"")) else { return };
    let server = pair.serve(Family::V4, 9, echo_all);
    for _ in 0..2 {
        let mut connection = pair.connect(server);
        echoes(&mut connection, b"through the old ones");
        let mut old = [End::Hub, End::Terminal].map(|end| pair.take_over(end));
        assert_reduced(&pair, NOBODY, KEPT);
        echoes(&mut connection, b"still");
        pair.wait_until(End::Terminal, true);
        echoes(&mut pair.connect(server), b"through the new ones");
        drop(connection);
        for end in [End::Hub, End::Terminal] {
            pair.wait_for(|pair| pair.status(end)["predecessor"].is_null());
        }
        assert!(old.iter_mut().all(|old| old.wait().unwrap().success()));
    }
    pair.stop(End::Terminal);
    assert!(!pair.sets(End::Terminal).contains("bentpipe"), "{}", pair.sets(End::Terminal));
    assert!(!pair.socket(End::Terminal).exists());
}

#[test]
fn root_gives_up_what_it_does_not_need_and_a_group_may_ask() {
    if !is_root_of_the_machine() {
        return;
    }
    let Some(mut pair) = Pair::up("") else { return };
    assert_reduced(&pair, 0, KEPT);
    assert_eq!(std::fs::metadata(pair.socket(End::Hub)).unwrap().mode() & 0o777, 0o600);
    pair.stop(End::Hub);
    pair.control_settings = "group = \"nogroup\"";
    pair.start(End::Hub, "");
    pair.wait_until(End::Terminal, true);
    let socket = std::fs::metadata(pair.socket(End::Hub)).unwrap();
    assert_eq!((socket.mode() & 0o777, socket.gid()), (0o660, NOBODY));
    assert_works(pair);
}

#[test]
fn keys_are_logged_for_their_owner_alone_and_only_where_that_is_asked_for() {
    let Some(mut pair) = Pair::new() else { return };
    let file = pair.directory.path().join("keys");
    pair.start(End::Hub, &format!("\n[debug]\nkey_log = \"{}\"", file.display()));
    pair.start(End::Terminal, "");
    pair.wait_until(End::Terminal, true);
    let text = std::fs::read_to_string(&file).unwrap();
    let keys: Vec<_> = text.lines().map(|line| line.split(' ').take(4).collect::<Vec<_>>().join(" ")).collect();
    assert!(keys.len() >= 2, "one for each direction: {keys:?}");
    assert!(keys.iter().all(|line| line.starts_with("SATPEP_KEY ") && line.ends_with(" 5 encrypted")), "{keys:?}");
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    let others = std::fs::read_dir(pair.directory.path())
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    assert_eq!(others.filter(|name| name.contains("keys")).count(), 1, "the terminal logs none");
    assert_eq!(pair.status(End::Terminal)["peers"][0]["version"], 5);
}

/// sd_notify(3), with everything reduced: it may still reach systemd's socket.
#[test]
fn systemd_hears_that_it_is_ready_that_it_works_and_that_it_stops() {
    let Some(mut pair) = Pair::new() else { return };
    let place = pair.socket(End::Hub).with_extension("notify");
    let systemd = UnixDatagram::bind(&place).unwrap();
    systemd.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let heard = || {
        let mut text = [0; 200];
        let length = systemd.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..length]).trim().to_owned()
    };
    pair.runner.environment =
        vec![("NOTIFY_SOCKET", place.display().to_string()), ("WATCHDOG_USEC", "400000".to_owned())];
    pair.start(End::Hub, "");
    assert_eq!(heard(), "READY=1");
    assert_eq!(status(&pair, End::Hub, "Seccomp"), "2");
    assert_eq!([heard(), heard(), heard()], ["WATCHDOG=1"; 3]);
    pair.stop(End::Hub);
    let last = std::iter::from_fn(|| Some(heard())).find(|heard| heard != "WATCHDOG=1");
    assert_eq!(last.as_deref(), Some("STOPPING=1"));
}
