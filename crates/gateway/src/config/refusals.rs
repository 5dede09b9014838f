//! What a configuration file may not say: bounds, names, addresses, secrets, and that all of it is reported at once.

use super::tests::{faults, minimal};
use super::{ConfigError, Settings, check_for_another_machine, load, load_again, parse};
use satpep::{PrivateKey, PublicKey};
use std::path::Path;
use units::Bytes;

/// `line` in `section`, with what that section needs beside it; it takes the place of the line that sets the same key.
fn with(section: &str, line: &str) -> String {
    let key = line.split(" = ").next().unwrap();
    let is_replaced = |other: &&str| section == "link" && other.starts_with(&format!("{key} = "));
    let text: String = minimal().lines().filter(|other| !is_replaced(other)).flat_map(|other| [other, "\n"]).collect();
    let companion = match section {
        "connection_log" => "file = \"/l\"\n",
        "debug" => "qlog = \"/q\"\n",
        "dlep" => "interface = \"modem0\"\n",
        _ => "",
    };
    match section {
        "gateway" | "link" => text.replace(&format!("[{section}]\n"), &format!("[{section}]\n{line}\n")),
        "peer" => minimal() + line + "\n",
        "tcp" => text.replace("[link]", "transport = \"tcp\"\n[link]") + &format!("[tcp]\n{line}\n"),
        "dlep" => minimal() + &format!("[dlep]\n{companion}{line}\n"),
        _ => text + &format!("[{section}]\n{companion}{line}\n"),
    }
}

/// The values of `key` as TOML: numbers as they are, the rest as text.
fn line(key: &str, value: &str) -> String {
    if value.parse::<f64>().is_ok() { format!("{key} = {value}") } else { format!("{key} = \"{value}\"") }
}

#[test]
fn the_bounds_of_a_setting_are_taken_and_what_lies_just_beyond_is_refused() {
    for (section, key, bounds, beyond) in [
        ("gateway", "connect_timeout", ["1s", "1h"], ["999ms", "3601s"]),
        ("gateway", "host_buffer", ["64KiB", "1GiB"], ["63KiB", "1025MiB"]),
        ("gateway", "memory", ["1MiB", "16384GiB"], ["1023KiB", "16385GiB"]),
        ("gateway", "workers", ["1", "16"], ["0", "17"]),
        ("gateway", "user_timeout", ["1s", "24h"], ["999ms", "86401s"]),
        ("gateway", "host_keepalive", ["10s", "9h"], ["9999ms", "32401s"]),
        ("link", "rtt", ["10us", "1min"], ["9us", "61s"]),
        ("link", "mtu", ["576", "65534"], ["575", "65535"]),
        ("link", "dscp", ["0", "63"], ["-1", "64"]),
        ("link", "receive_memory", ["64KiB", "64GiB"], ["63KiB", "65GiB"]),
        ("link", "keepalive", ["1s", "1h"], ["999ms", "3601s"]),
        ("link", "outage_limit", ["2s", "24h"], ["1999ms", "86401s"]),
        ("link", "max_streams", ["1", "1000000"], ["0", "1000001"]),
        ("link", "repair_overhead", ["0.0", "0.5"], ["-0.01", "0.51"]),
        ("intercept", "port", ["1", "65535"], ["0", "65536"]),
        ("intercept", "mark", ["1", "4294967279"], ["0", "4294967280"]),
        ("intercept", "table", ["1", "252000000"], ["0", "252000001"]),
        ("intercept", "rule_priority", ["1", "32765"], ["0", "32766"]),
        ("peer", "weight", ["1", "1000"], ["0", "1001"]),
        ("updates", "max_validity", ["1s", "24h"], ["999ms", "86401s"]),
        ("dlep", "port", ["1", "65535"], ["0", "65536"]),
        ("dlep", "heartbeat", ["1s", "10min"], ["999ms", "601s"]),
        ("connection_log", "max_size", ["64KiB", "64GiB"], ["63KiB", "65GiB"]),
        ("connection_log", "max_files", ["1", "1000"], ["0", "1001"]),
        ("debug", "qlog_size", ["64KiB", "1024GiB"], ["63KiB", "1025GiB"]),
        ("tcp", "warm_connections", ["0", "1024"], ["-1", "1025"]),
        ("tcp", "send_buffer", ["64KiB", "1GiB"], ["63KiB", "1025MiB"]),
        ("tcp", "receive_buffer", ["64KiB", "1GiB"], ["63KiB", "1025MiB"]),
    ] {
        for value in bounds {
            let text = with(section, &line(key, value));
            assert!(parse(&text, "x").is_ok(), "{section}.{key} = {value}: {:?}", faults(&text));
        }
        let name = if section == "peer" { "peer.hub" } else { section };
        for value in beyond {
            let line = line(key, value);
            let text = with(section, &line);
            let place = text.lines().position(|other| other == line).unwrap() + 1;
            let column = key.len() + 4;
            let expected = format!("gateway.toml:{place}:{column}: {name}.{line}: expected a");
            let found = faults(&text);
            assert!(found.len() == 1 && found[0].starts_with(&expected), "{expected}\n{found:#?}");
        }
    }
}

#[test]
fn rates_below_a_kilobit_per_second_are_refused_wherever_a_rate_stands() {
    for (section, key) in
        [("link", "rate"), ("link", "receive_rate"), ("link", "min_rate"), ("link", "max_rate"), ("peer", "cap")]
    {
        for value in ["999bit/s", "0bit/s", "6", "-1Mbit/s", "6 parsecs", ""] {
            let found = faults(&with(section, &line(key, value)));
            let name = if section == "peer" { "peer.hub" } else { section };
            assert_eq!(found.len(), 1, "{found:#?}");
            assert!(found[0].contains(&format!("{name}.{key} = ")), "{found:?}");
            let is_explained = ["expected a rate of at least 1kbit/s, such as", "is not a rate: "]
                .iter()
                .any(|reason| found[0].contains(reason));
            assert!(is_explained, "{found:?}");
        }
    }
}

/// Names become those of sockets, of tables and of strings in rules of the firewall.
#[test]
fn names_that_could_become_a_path_or_a_rule_are_refused() {
    let long = "n".repeat(33);
    let bad = ["", "..", "../../etc/x", "a/b", "a b", "a;b", "a\\\"b", "a\\nb", "$(id)", "{ }", "*", "\u{fc}", &long];
    for (section, key) in [
        ("gateway", "name"),
        ("gateway", "user"),
        ("control", "group"),
        ("link", "interface"),
        ("dlep", "interface"),
        ("tcp", "congestion_control"),
    ] {
        for name in bad {
            let text = with(section, &format!("{key} = \"{name}\"")).replace("interface = \"modem0\"\n", "");
            let found = faults(&text);
            let expected = found.iter().filter(|fault| fault.contains(&format!("{section}.{key}")));
            assert!(expected.clone().count() == 1, "{section}.{key} = {name:?}: {found:#?}");
            assert!(expected.clone().all(|fault| fault.contains("expected")), "{found:#?}");
        }
    }
}

#[test]
fn addresses_have_a_number_and_a_port() {
    for (section, key) in
        [("gateway", "listen"), ("peer", "address"), ("updates", "http"), ("metrics", "listen"), ("web", "listen")]
    {
        for value in [
            "localhost:4500",
            "192.0.2.1",
            ":4500",
            "*:4500",
            "[::1]",
            "2001:db8::1:4500",
            "192.0.2.1:65536",
            "192.0.2.256:4500",
            "192.0.2.1:4500 ",
            "fe80::1%sat0:4500",
        ] {
            let found = faults(&with(section, &format!("{key} = \"{value}\"")));
            assert_eq!(found.len(), 1, "{found:#?}");
            assert!(found[0].contains(&format!("{key} = \"{value}\": ")), "{found:?}");
            assert!(found[0].contains("expected an address and port such as"), "{found:?}");
        }
    }
}

#[test]
fn a_peer_is_reached_at_one_host_and_one_port() {
    for address in ["192.0.2.1:0", "0.0.0.0:4500", "[::]:4500", "224.0.0.1:4500", "[ff02::1]:4500"] {
        let found = faults(&with("peer", &format!("address = \"{address}\"")));
        let expected = format!(
            "gateway.toml:9:11: peer.hub.address = \"{address}\": expected the address of one host and a port from 1 to 65535"
        );
        assert_eq!(found, [expected]);
    }
    for address in ["127.0.0.1:1", "[::1]:65535", "[fe80::1%2]:4500", "[fec0::1]:4500"] {
        assert!(parse(&with("peer", &format!("address = \"{address}\"")), "x").is_ok(), "{address}");
    }
}

#[test]
fn a_link_local_address_is_refused_unless_it_says_on_which_link() {
    for address in ["[fe80::1]:4500", "[febf::1]:4500", "[fe80::1%sat0]:4500"] {
        let found = faults(&with("peer", &format!("address = \"{address}\"")));
        assert!(found.len() == 1 && found[0].contains(&format!("peer.hub.address = \"{address}\"")), "{found:?}");
        assert!(found[0].contains("(fd00::/8)") && found[0].contains("[fe80::1%2]:4500"), "{found:?}");
    }
}

#[test]
fn a_peer_is_reached_by_a_family_that_the_gateway_listens_with() {
    let text = |listen: &str, address: &str| {
        let text = with("peer", &format!("address = \"{address}\""));
        text.replace("[gateway]", &format!("[gateway]\nlisten = \"{listen}\""))
    };
    for (listen, address, expected) in [
        (
            "0.0.0.0:4500",
            "[2001:db8::1]:4500",
            "is IPv6, and [gateway] listen is IPv4: \"[::]:4500\" there serves both",
        ),
        ("127.0.0.1:4500", "[fe80::1%2]:4500", "is IPv6, and [gateway] listen is IPv4"),
        ("[2001:db8::2]:4500", "192.0.2.1:4500", "is IPv4, and [gateway] listen is an IPv6 address"),
        ("[2001:db8::2]:4500", "[::ffff:192.0.2.1]:4500", "is IPv4, and [gateway] listen is an IPv6 address"),
    ] {
        let found = faults(&text(listen, address));
        let expected = format!("gateway.toml:10:11: peer.hub.address = \"{address}\" {expected}");
        assert!(found.len() == 1 && found[0].starts_with(&expected), "{found:?}");
    }
    for (listen, address) in [
        ("[::]:4500", "192.0.2.1:4500"),
        ("[::]:4500", "[2001:db8::1]:4500"),
        ("0.0.0.0:4500", "192.0.2.1:4500"),
        ("0.0.0.0:4500", "[::ffff:192.0.2.1]:4500"),
    ] {
        let settings = parse(&text(listen, address), "x").unwrap();
        let expected = address.replace("[::ffff:192.0.2.1]", "192.0.2.1");
        assert_eq!(settings.peers[0].address.unwrap().to_string(), expected, "{listen}");
    }
}

#[test]
fn prefixes_ports_and_code_points_that_are_none_are_refused_where_they_stand() {
    for (key, values, expected) in [
        ("clients", "[\"10.0.0.0/8\", \"10.0.0.0\"]", "clients.1 = \"10.0.0.0\": expected a prefix"),
        ("servers", "[\"::/129\"]", "servers.0 = \"::/129\": expected a prefix"),
        ("ports", "[80, 65536]", "ports.1 = 65536: expected an integer from 1 to 65535"),
        ("ports", "[\"0-80\"]", "ports.0 = \"0-80\": expected a port from 1 to 65535"),
        ("ports", "[\"80-\"]", "ports.0 = \"80-\": expected a port from 1 to 65535"),
        ("ports", "[\"80-65536\"]", "ports.0 = \"80-65536\": expected a port from 1 to 65535"),
        ("dscp", "[\"ef\", \"af44\"]", "dscp.1 = \"af44\": expected a code point from 0 to 63 or its name"),
        ("dscp", "[-1]", "dscp.0 = -1: expected an integer from 0 to 63"),
    ] {
        for list in ["class", "bypass"] {
            let found = faults(&(minimal() + &format!("[[{list}]]\nname = \"one\"\n{key} = {values}\n")));
            let expected = format!(": {list}.one.{expected}");
            assert!(found.len() == 1 && found[0].starts_with("gateway.toml:11:"), "{found:#?}");
            assert!(found[0].contains(&expected), "{expected}\n{found:#?}");
        }
    }
}

/// Logs and terminals are read by others than the key's owner.
#[test]
fn whatever_is_wrong_about_a_private_key_it_is_not_shown() {
    let secret = PrivateKey::from_random([7; 32]).to_base64();
    let own = format!("private_key = \"{secret}\"\n");
    for mistake in [
        format!("private_key = \"{secret}\n"),
        format!("private_key = {secret}\n"),
        format!("private_key = [\"{secret}\"]\n"),
        format!("private_key = {{ key = \"{secret}\" }}\n"),
        format!("private_key = \"{secret}\" \"{secret}\"\n"),
        format!("private_key = \"-{secret}\"\n"),
        format!("private_key = '''{secret}\n"),
        format!("private_kye = \"{secret}\"\n"),
        format!("private_key_file = \"{secret}\"\n"),
        format!("{own}{own}"),
    ] {
        let found = faults(&minimal().replace(&own, &mistake));
        assert!(found[0].starts_with("gateway.toml:"), "{found:?}");
        assert!(found.iter().all(|fault| !fault.contains(&secret[..6])), "{mistake}\n{found:#?}");
    }
    let settings = parse(&minimal(), "x").unwrap();
    assert!(!format!("{settings:?}").contains(&secret[..6]), "a log of all settings has no key");
}

#[test]
fn a_key_in_place_of_its_path_is_told_to_belong_elsewhere() {
    let secret = PrivateKey::from_random([7; 32]).to_base64();
    let text = minimal().replace("private_key =", "private_key_file =");
    assert!(text.contains(&secret));
    assert_eq!(
        faults(&text),
        ["gateway.toml:2:20: gateway.private_key_file is a key: expected a path; private_key takes the key itself"]
    );
}

/// A configuration in `directory` whose private key is in the file `key`.
fn of_key_file(directory: &Path, key: &Path) -> std::path::PathBuf {
    let own = format!("private_key = \"{}\"", PrivateKey::from_random([7; 32]).to_base64());
    let file = directory.join("gateway.toml");
    std::fs::write(&file, minimal().replace(&own, &format!("private_key_file = {key:?}"))).unwrap();
    file
}

/// What is wrong with the settings in `file`, which `read` reads.
fn refused(read: Result<Settings, ConfigError>) -> Vec<String> {
    read.unwrap_err().to_string().lines().map(str::to_owned).collect()
}

#[test]
fn a_key_file_without_a_key_is_named_and_its_content_is_not_shown() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("private.key");
    let file = of_key_file(directory.path(), &key);
    let place = format!("{}:2:20: gateway.private_key_file = {key:?}: ", file.display());
    let problem = || {
        let found = refused(load(&file));
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].strip_prefix(&place).unwrap_or_else(|| panic!("{place}\n{found:?}")).to_owned()
    };
    assert!(problem().starts_with("No such file"), "{}", problem());
    for content in ["", "hunter2\n", "AAAA", "# a comment\nAAAA\n"] {
        std::fs::write(&key, content).unwrap();
        assert_eq!(problem(), "the file does not hold a private key in base64, as `bentpipe keygen` prints it");
    }
    std::fs::write(&key, [0xff; 32]).unwrap();
    assert!(problem().contains("UTF-8"), "the bytes of a key are none: {}", problem());
    std::fs::remove_file(&key).unwrap();
    std::fs::create_dir(&key).unwrap();
    assert!(problem().contains("directory"), "{}", problem());
}

/// A file that even root may not read: those of /proc/sys that are only written (proc(5)).
fn forbidden(directory: &Path) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let own = directory.join("forbidden");
    std::fs::write(&own, "").unwrap();
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::read(&own).is_err() { own } else { "/proc/sys/net/ipv4/route/flush".into() }
}

#[test]
fn a_running_gateway_keeps_its_key_only_where_it_may_not_read_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let [own, other] = [7, 9].map(|byte| PrivateKey::from_random([byte; 32]));
    let unreadable = forbidden(directory.path());
    let file = of_key_file(directory.path(), &unreadable);
    assert!(refused(load(&file))[0].contains("Permission denied"), "at the start the key has to be had");
    let settings = load_again(&file, &own, Some(&unreadable)).unwrap();
    assert_eq!(settings.private_key.public_key(), own.public_key());
    assert_eq!(settings.private_key_file.as_deref(), Some(&*unreadable));
    for other in [Some(directory.path().join("private.key")), None] {
        let refused = refused(load_again(&file, &own, other.as_deref()));
        assert!(refused[0].contains("Permission denied"), "another file may hold another key: {refused:?}");
    }

    let key = directory.path().join("private.key");
    let file = of_key_file(directory.path(), &key);
    assert!(refused(load_again(&file, &own, Some(&key)))[0].contains("No such file"), "a file that is gone is a fault");
    std::fs::write(&key, format!("  {}\n\n", other.to_base64())).unwrap();
    let settings = load_again(&file, &own, Some(&key)).unwrap();
    assert_eq!(settings.private_key.public_key(), other.public_key(), "what can be read counts");
    std::fs::write(&key, "nothing").unwrap();
    assert!(refused(load_again(&file, &own, Some(&key)))[0].contains("does not hold a private key"));
}

/// Checked at the other gateway of the pair, whose key is the peer's, or where there is no key at all.
#[test]
fn a_file_for_another_machine_is_checked_without_the_key_of_this_one() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("private.key");
    let file = of_key_file(directory.path(), &key);
    assert_eq!(check_for_another_machine(&file).unwrap(), [""; 0]);
    std::fs::write(&key, PrivateKey::from_random([6; 32]).to_base64()).unwrap();
    assert!(refused(load(&file))[0].contains("is this gateway's own key"), "of the peer in this file");
    assert_eq!(check_for_another_machine(&file).unwrap(), [""; 0]);
    let faulty = std::fs::read_to_string(&file).unwrap() + "public_kye = \"\"\n";
    std::fs::write(&file, faulty).unwrap();
    assert!(check_for_another_machine(&file).unwrap_err().to_string().contains("did you mean public_key?"));
}

#[test]
fn a_peer_with_the_gateway_s_own_key_or_with_none_is_refused() {
    let own = PrivateKey::from_random([7; 32]).public_key();
    for (key, what) in [(own, "this gateway's own key"), (PublicKey::from_bytes([0; 32]), "zero")] {
        let text = minimal() + &format!("[[peer]]\nname = \"other\"\nroutes = []\npublic_key = \"{key}\"\n");
        let found = faults(&text);
        let expected = format!("gateway.toml:12:14: peer.other.public_key is {what}: expected the peer's");
        assert!(found.len() == 1 && found[0].starts_with(&expected), "{found:?}");
    }
}

#[test]
fn a_private_key_in_the_place_of_a_public_one_is_refused() {
    for private in [PrivateKey::from_random([7; 32]), PrivateKey::from_random([8; 32])] {
        let [text, public] = [private.to_base64(), PrivateKey::from_random([8; 32]).public_key().to_string()];
        let peer =
            |name: &str, key: &str| format!("[[peer]]\nname = \"{name}\"\nroutes = []\npublic_key = \"{key}\"\n");
        let found = faults(&(minimal() + &peer("b", &public) + &peer("c", &text)));
        assert!(found.len() == 1 && found[0].contains("peer.c.public_key is a private key, which"), "{found:?}");
        assert!(!found[0].contains(&text), "{found:?}");
    }
}

#[test]
fn what_is_written_in_another_form_or_place_is_told_with_the_right_one() {
    let found = |from: &str, to: &str| {
        let faults = faults(&minimal().replacen(from, to, 1));
        assert_eq!(faults.len(), 1, "{faults:#?}");
        faults[0].clone()
    };
    let single = found("[[peer]]", "[peer]");
    assert!(single.ends_with("expected a list of tables: write [[peer]]"), "{single}");
    let named = found("[[peer]]", "[[peer]]\naddress = \"hub.example.com:4500\"");
    assert!(named.contains("names are not looked up: expected an address and port"), "{named}");
    let malformed = found("[[peer]]", "[[peer]]\naddress = \"198.51.100.300:4500\"");
    assert!(malformed.ends_with("expected an address and port such as \"198.51.100.1:4500\""), "{malformed}");
    let elsewhere = found("[link]", "[link]\naccept = \"confirmed\"");
    assert!(elsewhere.ends_with("link.accept: unknown key; it is a key of [gateway]"), "{elsewhere}");
    let misplaced = found("[link]", "[link]\nallow_sources = []");
    assert!(misplaced.ends_with("unknown key; it is a key of [[peer]]"), "{misplaced}");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let absent = directory.path().join("absent.toml");
    let expected = format!("{}: No such file", absent.display());
    assert!(refused(load(&absent))[0].starts_with(&expected));
    assert!(refused(load_again(&absent, &PrivateKey::from_random([7; 32]), None))[0].starts_with(&expected));
    assert!(refused(load(directory.path()))[0].contains("directory"));
    assert!(refused(load(Path::new("/dev/zero")))[0].ends_with("the limit for such a file"));
    let binary = directory.path().join("binary.toml");
    std::fs::write(&binary, b"[gateway]\nname = \"\xff\"\n").unwrap();
    assert!(refused(load(&binary))[0].starts_with(&binary.display().to_string()));
}

#[test]
fn a_reload_does_not_wait_for_a_file_that_somebody_may_never_write() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let key = PrivateKey::from_random([7; 32]);
    for (file, expected) in [
        (pipe.clone(), format!("{}: it is not a regular file", pipe.display())),
        (of_key_file(directory.path(), &pipe), format!("private_key_file = {pipe:?}: it is not a regular file")),
    ] {
        let (done, is_done) = std::sync::mpsc::channel();
        let key = key.clone();
        std::thread::spawn(move || done.send(refused(load_again(&file, &key, None))));
        let faults = is_done.recv_timeout(std::time::Duration::from_secs(5)).expect("it must not wait");
        assert!(faults[0].contains(&expected), "{faults:?}");
    }
}

#[test]
fn the_systems_routing_tables_are_not_the_gateways() {
    let text = |table: u32| with("intercept", &format!("table = {table}"));
    for table in 253..=255 {
        let found = faults(&text(table));
        assert!(found[0].contains("intercept.table is a table of the system"), "{table}: {found:?}");
    }
    for table in [252, 256] {
        assert!(parse(&text(table), "x").is_ok(), "{table}");
    }
}

#[test]
fn faults_of_all_kinds_are_reported_at_once_in_the_order_of_the_file() {
    let text = with("gateway", "private_key_file = \"/nowhere\"")
        .replace("[link]", "secured_externally = true\n[link]\nmin_rate = \"2Mbit/s\"\nmax_rate = \"1Mbit/s\"")
        + "far_gateway = true\n[updates]\nhttp = \"192.0.2.1:80\"\n[connection_log]\nmax_files = 3\n[debug]\nqlog_size = \"1MiB\"\n\
           [web]\nlisten = \"192.0.2.1:80\"\n[[bypass]]\nname = \"all\"\n[[class]]\nname = \"a\"\n[[class]]\nname = \"b\"\n\
           [dlep]\nport = 0\n[metrics]\nlisten = 80\n[control]\nsockets = \"/c\"\n";
    let found = faults(&text);
    for expected in [
        "gateway.private_key_file is given beside private_key",
        "gateway.secured_externally has no effect without",
        "link.min_rate is at odds",
        "link.max_rate is at odds",
        "peer.hub.far_gateway has no effect without",
        "connection_log.max_files has no effect without file",
        "debug.qlog_size has no effect without qlog",
        "web.listen can be reached by other hosts",
        "bypass.all: names no ports, clients, servers or dscp",
        "class.b: never reached",
        "dlep.port = 0: expected an integer",
        "metrics.listen = 80: expected",
        "control.sockets: unknown key; did you mean socket?",
    ] {
        assert_eq!(found.iter().filter(|fault| fault.contains(expected)).count(), 1, "{expected}\n{found:#?}");
    }
    assert_eq!(found.len(), 13, "{found:#?}");
    let lines: Vec<u32> = found.iter().map(|fault| fault.split(':').nth(1).unwrap().parse().unwrap()).collect();
    assert!(lines.is_sorted(), "{found:#?}");
}

#[test]
fn two_peers_without_routes_both_claim_everything_and_two_of_a_name_are_one() {
    let key = |byte| PrivateKey::from_random([byte; 32]).public_key();
    let second =
        |name: &str, byte| minimal() + &format!("[[peer]]\nname = \"{name}\"\npublic_key = \"{}\"\n", key(byte));
    let found = faults(&second("b", 8));
    let expected = "peer.b.routes: 0.0.0.0/0 is claimed twice, by hub and by b; each prefix leads to one peer, and a peer without \
                    routes has all of them: give each its own";
    assert!(found[0].ends_with(expected), "{found:?}");
    let found = faults(&(second("hub", 8) + "routes = []\n"));
    assert_eq!(found, ["gateway.toml:9:1: peer.hub: another peer has the same name or public_key"]);
}

#[test]
fn buffers_towards_hosts_follow_the_faster_direction_within_bounds() {
    for (rate, receive_rate, expected) in [
        ("1kbit/s", "1kbit/s", 1 << 20),
        ("6Mbit/s", "6Mbit/s", 1 << 20),
        ("2Mbit/s", "400Mbit/s", 5_000_000),
        ("400Mbit/s", "2Mbit/s", 5_000_000),
        ("6Mbit/s", "20Gbit/s", 16 << 20),
    ] {
        let text =
            with("link", &line("rate", rate)).replace("[link]", &format!("[link]\nreceive_rate = \"{receive_rate}\""));
        assert_eq!(parse(&text, "x").unwrap().host_buffer, Bytes::new(expected), "{rate} {receive_rate}");
    }
    let configured = parse(&with("gateway", "host_buffer = \"64KiB\""), "x").unwrap();
    assert_eq!(configured.host_backlog(), 64 << 10, "what is set counts, however fast the link is");
}

#[test]
fn gateways_of_other_names_have_tables_and_sockets_of_their_own() {
    for (name, table, socket) in [
        ("bentpipe", "bentpipe", "/run/bentpipe/bentpipe.sock"),
        ("hub-2", "bentpipe_hub_2", "/run/bentpipe/hub-2.sock"),
        ("7", "bentpipe_7", "/run/bentpipe/7.sock"),
    ] {
        let settings = parse(&with("gateway", &format!("name = \"{name}\"")), "x").unwrap();
        assert_eq!((settings.rules.table.as_str(), settings.control.to_str()), (table, Some(socket)));
    }
    let elsewhere = parse(&with("control", "socket = \"/tmp/c\""), "x").unwrap();
    assert_eq!(elsewhere.control.to_str(), Some("/tmp/c"));
    let long = format!("socket = \"/{}\"", "s".repeat(100));
    for section in ["control", "updates"] {
        let found = faults(&with(section, &long));
        assert!(found[0].contains("expected a path of at most 100 bytes"), "a Unix socket's path is short: {found:?}");
    }
}
