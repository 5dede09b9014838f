//! What packages take from the program: its version, completions and manual pages.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: runs programs in real time")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn bentpipe(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bentpipe")).args(arguments).output().unwrap()
}

#[test]
fn the_version_names_the_commit_its_date_and_the_features() {
    let short = String::from_utf8(bentpipe(&["-V"]).stdout).unwrap();
    let start = format!("bentpipe {} (", env!("CARGO_PKG_VERSION"));
    let commit = short.strip_prefix(&start).unwrap().trim_end().strip_suffix(')').unwrap();
    let words: Vec<_> = commit.split(' ').collect();
    assert!(
        words == ["unknown", "unknown"] || (words[0].len() >= 10 && words[1].len() == "2026-01-31".len()),
        "{short}"
    );
    let long = String::from_utf8(bentpipe(&["--version"]).stdout).unwrap();
    assert!(long.starts_with(short.trim_end()) && long.contains("\nfeatures: "), "{long}");
    assert_eq!(long.contains("features: ebpf"), cfg!(feature = "ebpf"), "{long}");
}

#[test]
fn each_shell_gets_completions_with_all_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let output = bentpipe(&["completions", shell]);
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && ["gateway", "simulate", "doctor"].iter().all(|word| script.contains(word)));
    }
    let refused = bentpipe(&["completions", "cmd"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}

#[test]
fn bash_takes_its_completions() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("bentpipe");
    std::fs::write(&script, bentpipe(&["completions", "bash"]).stdout).unwrap();
    let ask = r#"source "$1" && COMP_WORDS=(bentpipe gate) COMP_CWORD=1 && _bentpipe bentpipe gate bentpipe && echo "${COMPREPLY[@]}""#;
    let output = Command::new("bash").args(["--norc", "-c", ask, "bash"]).arg(script).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), "gateway", "{:?}", String::from_utf8(output.stderr));
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("man/man1");
    let output = bentpipe(&["manual", "--out", place.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    for (page, says) in [
        ("bentpipe.1", "simulate"),
        ("bentpipe-gateway-doctor.1", "doctor"),
        ("bentpipe-tune.1", ".SH EXAMPLES\n.nf\n  bentpipe tune"),
    ] {
        let text = std::fs::read_to_string(place.join(page)).unwrap();
        assert!(text.contains(".TH ") && text.contains(says), "{page}: {text}");
    }
    let text = std::fs::read_to_string(place.join("bentpipe-cc-link.1")).unwrap();
    let title = text.lines().find(|line| line.starts_with(".TH ")).unwrap();
    let version = format!("\"bentpipe {}\" \"bentpipe manual\"", env!("CARGO_PKG_VERSION"));
    assert!(title.starts_with(".TH BENTPIPE-CC-LINK 1 ") && title.ends_with(&version), "{title}");
    std::fs::write(folder.path().join("file"), "").unwrap();
    let refused = bentpipe(&["manual", "--out", folder.path().join("file/man1").to_str().unwrap()]);
    assert!(refused.status.code() == Some(2) && String::from_utf8(refused.stderr).unwrap().contains("file/man1"));
}

/// Debian's packages `mandoc`, `zsh` and `fish`; without one of them its part is skipped.
fn has(program: &str) -> bool {
    let found = Command::new(program).args(["-c", "true"]).output().is_ok();
    if !found {
        eprintln!("skipped: {program} is missing");
    }
    found
}

#[test]
fn mandoc_finds_no_fault_in_the_manual_pages() {
    if !has("mandoc") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    assert!(bentpipe(&["manual", "--out", folder.path().to_str().unwrap()]).status.success());
    for page in std::fs::read_dir(folder.path()).unwrap() {
        let lint =
            Command::new("mandoc").args(["-T", "lint", "-W", "warning"]).arg(page.unwrap().path()).output().unwrap();
        let faults = String::from_utf8(lint.stdout).unwrap();
        // Outside a repository the date is unknown.
        let faults: Vec<_> = faults.lines().filter(|line| !line.contains("using it verbatim: TH unknown")).collect();
        assert!(faults.is_empty(), "{faults:?}");
    }
}

/// What `script`, run by `shell`, prints; $1 is a folder with the completions under the name that the packages give them.
fn asked(shell: &str, name: &str, script: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(name), bentpipe(&["completions", shell]).stdout).unwrap();
    let place = folder.path().to_str().unwrap();
    let mut command = Command::new(shell);
    match shell {
        "zsh" => command.args(["-fc", script, shell]),
        _ => command.args(["-Nc", script]),
    };
    let output = command.arg(place).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn zsh_and_fish_take_their_completions() {
    if has("zsh") {
        let script = "fpath=($1 $fpath); autoload -U compinit && compinit -u -D && autoload +X _bentpipe && echo ${_comps[bentpipe]}";
        assert_eq!(asked("zsh", "_bentpipe", script), "_bentpipe\n");
    }
    if has("fish") {
        let script = "source $argv[1]/bentpipe.fish; complete -C 'bentpipe gateway d'";
        let names = asked("fish", "bentpipe.fish", script);
        let names: Vec<_> = names.lines().filter_map(|line| line.split('\t').next()).collect();
        assert_eq!(names, ["doctor", "drain"]);
    }
}

/// A script of contrib/systemd with a `systemctl` that knows the units `active` as such and cannot start `faulty`, and a `bentpipe` that finds
/// faults in `bad.toml`; returns its exit code and what it started and stopped.
fn systemd(script: &str, active: &[&str], faulty: &str, names: &[&str]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let calls = folder.path().join("calls");
    std::fs::write(&calls, "").unwrap();
    let systemctl = format!(
        r#"#!/bin/sh
case "$1" in
  list-units) for unit in {units}; do echo "$unit loaded active running a gateway"; done | grep "^${{5%%\**}}" ;;
  --quiet) for unit in {units}; do [ "$unit" != "$3" ] || exit 0; done; exit 3 ;;
  start|stop) echo "$*" >> {calls}; [ "$*" != "start {faulty}" ] ;;
esac"#,
        units = active.join(" "),
        calls = calls.display(),
    );
    let gateway = r#"[ "$*" != "gateway --config /etc/bentpipe/bad.toml --check --without-interfaces" ]"#;
    for (name, text) in [("systemctl", systemctl), ("bentpipe", format!("#!/bin/sh\n{gateway}\n"))] {
        let program = folder.path().join(name);
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let script = format!("{}/../../contrib/systemd/{script}", env!("CARGO_MANIFEST_DIR"));
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let status = Command::new("sh").arg(script).args(names).env("PATH", path).status().unwrap();
    (status.code(), std::fs::read_to_string(calls).unwrap().lines().collect::<Vec<_>>().join(", "))
}

/// scripts/prerequisites on a machine that has these programs, each with its script, in the PATH or as `sbin/NAME` in /usr/sbin; returns its
/// exit code, and what it and they print.
fn prerequisites(argument: &str, programs: &[(&str, &str)]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("sbin")).unwrap();
    for (name, script) in programs {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    for tool in ["sed", "tr", "env"] {
        let found = Command::new("sh").args(["-c", &format!("command -v {tool}")]).output().unwrap();
        let found = String::from_utf8(found.stdout).unwrap();
        std::os::unix::fs::symlink(found.trim(), folder.path().join(tool)).unwrap();
    }
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/prerequisites")).unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, text.replace("/usr/sbin", &folder.path().join("sbin").display().to_string())).unwrap();
    let mut command = Command::new("/bin/sh");
    command.arg(&script).arg(argument).env("PATH", folder.path()).env_remove("CC").env_remove("PYTHON");
    let output = command.output().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(printed).unwrap())
}

#[test]
fn what_a_build_lacks_is_installed_or_the_command_is_printed() {
    let user = ("id", "echo 1000");
    let apt = ("apt-get", "echo called");
    let (code, printed) = prerequisites("build", &[user, apt]);
    assert_eq!(code, Some(1), "{printed}");
    let line = "  apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev pkg-config libelf-dev zlib1g-dev\n";
    assert!(printed.contains(line) && !printed.contains("called"), "{printed}");

    // A compiler that finds no header of libelf: all but eBPF is built.
    let bare = ("cc", "exit 1");
    let (code, printed) = prerequisites("build", &[user, apt, bare]);
    assert!(
        code == Some(0) && printed.contains("--no-install-recommends pkg-config libelf-dev zlib1g-dev\n"),
        "{printed}"
    );
    assert!(printed.ends_with("building without eBPF congestion controls (cargo feature ebpf)\n"), "{printed}");
    assert_eq!(prerequisites("--cargo-flags", &[bare]), (Some(0), "--no-default-features\n".to_owned()));

    let (code, printed) = prerequisites("build", &[("id", "echo 0"), ("dnf", "echo dnf: $*"), bare]);
    assert!(code == Some(0), "{printed}");
    assert!(
        printed.contains("dnf: install --assumeyes pkgconf-pkg-config elfutils-libelf-devel zlib-devel\n"),
        "{printed}"
    );

    let whole = [("cc", "exit 0"), ("pkg-config", "exit 0")];
    assert_eq!(prerequisites("build", &whole), (Some(0), String::new()));
    assert_eq!(prerequisites("--cargo-flags", &whole), (Some(0), String::new()));
    let (code, printed) = prerequisites("build", &[user]);
    assert!(code == Some(1) && printed.contains("no package manager known here"), "{printed}");

    // Only the tests need Python, and they can do without it.
    let runs = [("cc", "exit 0"), ("pkg-config", "exit 0"), ("nft", ""), ("ip", ""), ("tc", "")];
    assert_eq!(prerequisites("run", &runs), (Some(0), String::new()));
    let old = ("python3", "exit 1");
    let (code, printed) = prerequisites("test", &[&runs[..], &[user, apt, old]].concat());
    assert!(
        code == Some(0) && printed.contains("apt-get install --yes --no-install-recommends python3 python3-venv\n"),
        "{printed}"
    );
    assert_eq!(prerequisites("test", &[&runs[..], &[("python3", "exit 0")]].concat()), (Some(0), String::new()));

    // Fedora has `ip` and `tc` in two packages.
    let in_sbin = [("cc", "exit 0"), ("pkg-config", "exit 0"), ("sbin/nft", ""), ("sbin/ip", "")];
    let (code, printed) = prerequisites("run", &[&in_sbin[..], &[("id", "echo 0"), ("dnf", "echo dnf: $*")]].concat());
    assert!(code == Some(0) && printed.contains("dnf: install --assumeyes iproute iproute-tc\n"), "{printed}");
    assert_eq!(prerequisites("run", &[&in_sbin[..], &[("sbin/tc", "")]].concat()), (Some(0), String::new()));
}

/// A pattern of packaged files leaves out folders.
#[test]
fn packages_have_every_folder_of_the_documentation() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manifest = std::fs::read_to_string(root.join("crates/bentpipe/Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap());
    let folders: Vec<_> = docs.filter(|entry| entry.path().is_dir()).map(|entry| entry.file_name()).collect();
    assert!(!folders.is_empty());
    for package in ["deb", "generate-rpm"] {
        let assets = manifest["package"]["metadata"][package]["assets"].as_array().unwrap();
        for folder in folders.iter().map(|name| name.to_str().unwrap()) {
            let is_packed = |asset: &toml::Value| {
                asset["source"].as_str().unwrap().ends_with(&format!("docs/{folder}/*"))
                    && asset["dest"].as_str() == Some(&format!("/usr/share/doc/bentpipe/docs/{folder}/"))
            };
            assert!(assets.iter().any(is_packed), "{package} lacks docs/{folder}");
        }
    }
}

/// What would start at the next boot after the package was installed again.
#[test]
fn the_removal_of_the_rpm_package_disables_gateways_and_an_upgrade_does_not() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/rpm/preun")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let text = text.replace("/etc/systemd/system", &folder.path().display().to_string());
    let text = text.replace("/run/systemd/system", &folder.path().join("none").display().to_string());
    let wanted = folder.path().join("multi-user.target.wants");
    std::fs::create_dir(&wanted).unwrap();
    for name in ["bentpipe-gateway@hub.service", "other.service"] {
        std::os::unix::fs::symlink("/usr/lib/systemd/system/none", wanted.join(name)).unwrap();
    }
    let left = |versions: &str| {
        assert!(Command::new("sh").args(["-c", &text, "preun", versions]).status().unwrap().success());
        std::fs::read_dir(&wanted).unwrap().count()
    };
    assert_eq!((left("1"), left("0")), (2, 1));
    assert!(wanted.join("other.service").is_symlink());
}

/// A folder with files of settings for contrib/openwrt/bentpipe.init, and with programs for it, each of them a script.
fn router(settings: &[&str], programs: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    settings.iter().for_each(|name| std::fs::write(folder.path().join(name), "").unwrap());
    for (name, script) in programs {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

/// A shell that calls `function` of contrib/openwrt/bentpipe.init, with the settings and programs of `router` and functions of procd.
fn init(router: &Path, procd: &str, function: &str) -> Command {
    let path = |name: &str| router.join(name).display().to_string();
    let init =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/openwrt/bentpipe.init")).unwrap();
    let init =
        init.replace("/usr/bin/bentpipe", &path("bentpipe")).replace("/etc/bentpipe", &router.display().to_string());
    std::fs::write(path("init"), procd.to_owned() + &init).unwrap();
    let search = format!("{}:{}", router.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-eu", "-c", &format!(". {} && {function}", path("init"))]).env("PATH", search);
    shell
}

/// What `function` of the init script calls with these files of settings, of which `bentpipe gateway --check` accepts all but `bad.toml`.
fn procd(settings: &[&str], function: &str) -> Vec<String> {
    let router = router(settings, &[("bentpipe", "[ \"${3##*/}\" != bad.toml ]")]);
    let calls = ["open_instance", "set_param", "close_instance", "send_signal", "add_reload_trigger"];
    let stubs = calls.map(|call| format!("procd_{call}() {{ echo \"{call} $*\"; }}\n")).concat();
    let output = init(router.path(), &stubs, function).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap().replace(&router.path().display().to_string(), "DIR");
    text.lines().map(str::to_owned).collect()
}

/// The command that procd runs for `hub.toml`, with a gateway that is this script; what it leaves in the file `log` is in its folder.
fn instance(gateway: &str) -> (tempfile::TempDir, Command) {
    let check = "case \"$*\" in *--check*) exit 0;; esac; cd \"${0%/*}\"; echo \"gateway $2 ${3##*/}\" >>log";
    // As procd, which stops what it forgets.
    let ubus = "cd \"${0%/*}\"; echo \"ubus $*\" >>log; kill -TERM $PPID";
    let router = router(&["hub.toml"], &[("bentpipe", &format!("{check}\n{gateway}")), ("ubus", ubus)]);
    let procd = "procd_open_instance() { :; }\nprocd_close_instance() { :; }\n\
                 procd_set_param() { [ \"$1\" != command ] || { shift; exec \"$@\"; }; }\n";
    let command = init(router.path(), procd, "start_service");
    (router, command)
}

#[test]
fn procd_forgets_a_gateway_that_has_drained_and_starts_one_again_that_fails() {
    let deletes = "ubus call service delete {\"name\":\"bentpipe\",\"instance\":\"hub\"}\n";
    for (gateway, code, logged) in
        [("exit 0", 0, deletes), ("exit 1", 1, ""), ("exit 2", 2, ""), ("kill -9 $$", 137, "")]
    {
        let (router, mut command) = instance(gateway);
        let output = command.output().unwrap();
        let log = std::fs::read_to_string(router.path().join("log")).unwrap();
        let expected = format!("gateway --config hub.toml\n{logged}");
        assert_eq!((output.status.code(), log), (Some(code), expected), "{gateway}");
        // Of a process that is killed, a shell says so.
        assert!(output.stderr.is_empty() || code > 128, "{gateway}: {output:?}");
    }
}

#[test]
fn procds_signals_reach_the_gateway_and_one_that_procd_stops_is_not_forgotten() {
    let gateway = "trap 'echo HUP >>log' HUP; trap 'echo TERM >>log; exit 0' TERM; echo ready >>log; for n in $(seq 1500); do sleep 0.02; done; exit 3";
    let (router, mut command) = instance(gateway);
    let mut running = command.spawn().unwrap();
    let log = || std::fs::read_to_string(router.path().join("log")).unwrap_or_default();
    let mut expected = "gateway --config hub.toml\nready\n".to_owned();
    for signal in ["HUP", "HUP", "TERM"] {
        let start = Instant::now();
        while log() != expected {
            assert!(start.elapsed() < Duration::from_secs(20), "{} instead of {expected}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
        let number = running.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &number]).status().unwrap().success());
        expected += &format!("{signal}\n");
    }
    assert_eq!((running.wait().unwrap().code(), log()), (Some(0), expected));
}

#[test]
fn a_gateway_that_procd_stops_as_it_begins_is_not_left_behind() {
    let (router, mut command) = instance("exec sleep 30");
    // What the shell calls once it has forked.
    let cmp = "#!/bin/sh\nkill -TERM $PPID\nPATH=${PATH#*:} cmp \"$@\"\n";
    std::fs::write(router.path().join("cmp"), cmp).unwrap();
    std::fs::set_permissions(router.path().join("cmp"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let start = Instant::now();
    assert_eq!(command.status().unwrap().code(), Some(143));
    assert!(start.elapsed() < Duration::from_secs(20), "the gateway has ended by itself");
    let log = std::fs::read_to_string(router.path().join("log")).unwrap_or_default();
    assert!(!log.contains("ubus"), "{log}");
}

#[test]
fn procd_runs_a_gateway_for_each_file_without_faults_and_starts_it_again_without_limit() {
    assert_eq!(procd(&[], "start_service"), Vec::<String>::new());
    let calls = procd(&["bad.toml", "hub.toml", "terminal.toml"], "start_service");
    let opened: Vec<_> = calls.iter().filter(|call| call.starts_with("open")).collect();
    assert_eq!(opened, ["open_instance hub", "open_instance terminal"]);
    for expected in ["set_param term_timeout 15", "set_param file DIR/terminal.toml", "set_param respawn 3600 5 0"] {
        assert!(calls.iter().any(|call| call == expected), "{expected}: {calls:?}");
    }
    assert_eq!(calls.iter().filter(|call| *call == "close_instance ").count(), 2, "{calls:?}");
    assert_eq!(procd(&["hub.toml"], "reload_service"), ["send_signal bentpipe * HUP"]);
    assert_eq!(procd(&["hub.toml"], "service_triggers"), ["add_reload_trigger bentpipe"]);
}

#[test]
fn an_upgrade_of_openwrts_firmware_keeps_the_gateway() {
    let [init, keep] = [
        include_str!("../../../contrib/openwrt/bentpipe.init"),
        include_str!("../../../contrib/openwrt/bentpipe.keep"),
    ];
    let number = |key: &str| init.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    let links = [("S", number("START=")), ("K", number("STOP="))]
        .map(|(way, number)| format!("/etc/rc.d/{way}{number}bentpipe"));
    let kept: Vec<_> = keep.lines().filter(|line| !line.starts_with('#')).collect();
    let files = [
        "/etc/bentpipe/",
        "/etc/init.d/bentpipe",
        &links[0],
        &links[1],
        number("PROG="),
        "/lib/upgrade/keep.d/bentpipe",
    ];
    assert_eq!(kept, files);
}

/// Packages contain crates that a build for this machine does not.
#[test]
fn dependencies_of_every_packaged_program_are_audited() {
    let [dist, deny] = [include_str!("../../../scripts/dist"), include_str!("../../../deny.toml")];
    let triples = dist.lines().find(|line| line.starts_with("declare -A triple=")).unwrap();
    let triples: Vec<_> = triples.split(']').skip(1).map(|part| part[1..].split([' ', ')']).next().unwrap()).collect();
    assert!(triples.len() == 3 && triples.contains(&"x86_64-unknown-linux-musl"), "{triples:?}");
    for triple in triples {
        assert!(deny.contains(&format!("\"{triple}\"")), "deny.toml lacks {triple}");
    }
}

#[test]
fn an_upgrade_starts_the_unit_of_the_other_name_beside_each_gateway() {
    let first = "bentpipe-gateway@hub.service";
    let next = "bentpipe-gateway-next@hub.service";
    let other = "bentpipe-gateway-next@other.service";
    let upgrade = |active: &[&str], names: &[&str]| systemd("upgrade", active, "", names);
    assert_eq!(upgrade(&[first, other], &[]), (Some(0), format!("start {next}, start bentpipe-gateway@other.service")));
    assert_eq!(upgrade(&[next], &["hub"]), (Some(0), format!("start {first}")));
    // The old process of the last upgrade still has connections; there is no such gateway.
    assert_eq!(upgrade(&[first, next], &[]), (Some(1), String::new()));
    assert_eq!(upgrade(&[first], &["nosuch"]), (Some(1), String::new()));
    assert_eq!(upgrade(&[], &[]), (Some(0), String::new()));
}

/// systemd starts a unit that fails again and again: it would take over once the file is mended, or run alone once the other has drained.
#[test]
fn an_upgrade_that_is_refused_is_not_tried_again() {
    let [first, next] = ["bentpipe-gateway@hub.service", "bentpipe-gateway-next@hub.service"];
    let other = "bentpipe-gateway@other.service";
    for (runs, starts) in [(first, next), (next, first)] {
        let (code, calls) = systemd("upgrade", &[runs, other], starts, &["hub", "other"]);
        let expected = format!("start {starts}, stop {starts}, start bentpipe-gateway-next@other.service");
        assert_eq!((code, calls), (Some(1), expected));
    }
}

#[test]
fn a_restart_ends_the_gateway_under_both_names_unless_its_file_has_faults() {
    let restart = |names: &[&str]| systemd("restart", &[], "", names);
    let calls =
        "stop bentpipe-gateway@hub.service bentpipe-gateway-next@hub.service, start bentpipe-gateway@hub.service";
    assert_eq!(restart(&["hub"]), (Some(0), calls.to_owned()));
    assert_eq!(restart(&["bad"]), (Some(1), String::new()));
    assert_eq!(restart(&[]), (Some(2), String::new()));
}

/// The services of this list that needrestart(1) leaves alone with contrib/needrestart/bentpipe.conf; `None` without Perl.
fn left_by_needrestart(services: &[&str]) -> Option<String> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/needrestart/bentpipe.conf");
    // As needrestart does: it reads the file, and restarts no service that a pattern with the value 0 matches.
    let ask = "our %nrconf; my $file = shift; do $file; my %override = %{$nrconf{override_rc}};
        print join ' ', grep { my $rc = $_; grep { $rc =~ /$_/ && !$override{$_} } keys %override } @ARGV";
    let Ok(output) = Command::new("perl").args(["-we", ask, file]).args(services).output() else {
        eprintln!("skipped: perl is missing");
        return None;
    };
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn needrestart_leaves_gateways_alone_and_the_debian_package_has_it_so() {
    let units = "bentpipe-gateway@hub.service bentpipe-gateway-next@hub.service";
    let services = [units.split(' ').collect(), vec!["ssh.service", "bentpipe.service"]].concat();
    let Some(left) = left_by_needrestart(&services) else { return };
    assert_eq!(left, units);
    let manifest = include_str!("../Cargo.toml");
    let debian = &manifest[manifest.find("[package.metadata.deb]").unwrap()..];
    assert!(debian.contains("conf-files = [\"/etc/needrestart/conf.d/bentpipe.conf\"]"));
    assert!(debian.contains("../../contrib/needrestart/bentpipe.conf\", dest = \"/etc/needrestart/conf.d/\""));
}
