//! Where no congestion control can be loaded into the kernel: one message says why, and all else works. Places are made that lack
//! what it takes: a kernel that does not describe its types, a process without the capabilities, a user namespace.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: runs programs in real time")]

mod pair;

use pair::{End, Pair, relays_both_families};
use std::process::{Command, Output};

/// A command that runs another one in a place, and what its absence of privilege is called.
struct Place {
    within: &'static [&'static str],
    lacks: &'static str,
}

const WITHOUT_BTF: Place = Place {
    within: &["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /sys/kernel/btf && exec \"$@\"", "sh"],
    lacks: "/sys/kernel/btf/vmlinux; CONFIG_DEBUG_INFO_BTF",
};
/// As a kernel before 6.4 describes them, as far as it matters.
const WITHOUT_LINKS: Place = Place {
    within: &[
        "unshare",
        "--mount",
        "sh",
        "-c",
        "mount -t tmpfs none /sys/kernel/btf && echo bpf_struct_ops_map > /sys/kernel/btf/vmlinux && exec \"$@\"",
        "sh",
    ],
    lacks: "has no links of struct_ops (Linux 6.4 or later)",
};
/// With what a gateway needs, and without what programs for the kernel need.
const WITHOUT_CAPABILITIES: Place = Place {
    within: &["setpriv", "--bounding-set=-bpf,-perfmon,-sys_admin"],
    lacks: "needs root of this machine: this process lacks CAP_BPF, CAP_PERFMON",
};
const WITHOUT_ANY_CAPABILITY: Place = Place {
    within: &["setpriv", "--bounding-set=-all"],
    lacks: "needs root of this machine: this process lacks CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN",
};
const USER_NAMESPACE: Place = Place {
    within: &["unshare", "--user", "--map-root-user"],
    lacks: "needs root of this machine: this process is in a user namespace",
};

impl Place {
    fn run(&self, words: &[&str]) -> Output {
        Command::new(self.within[0]).args(&self.within[1..]).args(words).output().unwrap()
    }

    /// Whether this machine has the place.
    fn exists(&self) -> bool {
        let tried = self.run(&["true"]);
        if !tried.status.success() {
            let why = String::from_utf8_lossy(&tried.stderr).into_owned();
            assert!(std::env::var_os("BENTPIPE_MUST_RUN").is_none(), "{why}");
            eprintln!("skipped: {why}");
        }
        tried.status.success()
    }

    /// Whether `message` says what is lacking here; where the machine itself lacks something, that comes first.
    fn is_named_in(&self, message: &str) -> bool {
        let of_machine = congestion::requirements::check().err().map(|error| error.to_string());
        message.contains(self.lacks) || of_machine.is_some_and(|what| message.contains(&what))
    }
}

#[test]
fn loading_says_in_a_line_what_is_missing_and_listing_works() {
    for place in [WITHOUT_BTF, WITHOUT_LINKS, WITHOUT_CAPABILITIES, WITHOUT_ANY_CAPABILITY, USER_NAMESPACE] {
        if !place.exists() {
            continue;
        }
        let bentpipe = |words: &[&str]| place.run(&[&[env!("CARGO_BIN_EXE_bentpipe"), "cc"], words].concat());
        for words in [&["load", "bp_hybla"][..], &["load", "bp_cross", "--rate", "1Mbit/s", "--run"]] {
            let refused = bentpipe(words);
            let message = String::from_utf8(refused.stderr).unwrap();
            assert_eq!((refused.status.code(), message.lines().count()), (Some(3), 1), "{message}");
            assert!(place.is_named_in(&message) && refused.stdout.is_empty(), "{message}");
        }
        let listed = bentpipe(&["list"]);
        assert!(listed.status.success() && String::from_utf8(listed.stdout).unwrap().contains("bp_cross"));
    }
}

#[test]
fn a_gateway_says_that_it_cannot_have_the_cross_layer_control_and_every_other_transport_works() {
    for place in [WITHOUT_BTF, WITHOUT_CAPABILITIES] {
        let Some(mut pair) = Pair::new() else { return };
        if !place.exists() {
            continue;
        }
        pair.runner.within = place.within;
        (pair.settings, pair.sections) = ("transport = \"tcp\"", "[tcp]\ncongestion_control = \"bp_cross\"");
        let message = pair.refusal(End::Terminal);
        assert!(
            message.contains("[tcp] congestion_control \"bp_cross\": ") && place.is_named_in(&message),
            "{message}"
        );
        assert!(pair.sets(End::Terminal).is_empty(), "nothing stays behind");
        for (transport, sections) in
            [("transport = \"satpep\"", ""), ("transport = \"tcp\"", "[tcp]\ncongestion_control = \"reno\"")]
        {
            let Some(mut pair) = Pair::new() else { return };
            (pair.runner.within, pair.settings, pair.sections) = (place.within, transport, sections);
            // Each initiates a session: the `tcp` transport wants both up.
            pair.hub_initiates = true;
            relays_both_families(&pair.start_both(""));
        }
    }
}

#[test]
fn a_scenario_whose_control_cannot_be_loaded_lacks_a_privilege() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tibet.toml");
    let scenario = r#"
        version = 1
        nodes = ["client", "server"]
        link = [{ name = "sat", between = ["client", "server"], rate = "6Mbit/s", delay = "5ms", queue = "1BDP" }]
        flow = [{ name = "file", from = "client", to = "server", tcp = "host", bulk = { size = "1MB" } }]
        tcp.host = { recovery = "rack", control = "tibet" }
    "#;
    std::fs::write(&file, scenario).unwrap();
    for place in [WITHOUT_CAPABILITIES, USER_NAMESPACE] {
        if !place.exists() {
            continue;
        }
        let refused = place.run(&[env!("CARGO_BIN_EXE_bentpipe"), "lab", file.to_str().unwrap()]);
        let message = String::from_utf8(refused.stderr).unwrap();
        assert_eq!((refused.status.code(), message.lines().count()), (Some(3), 1), "{message}");
        assert!(message.contains("flow `file`: ") && place.is_named_in(&message), "{message}");
    }
}
