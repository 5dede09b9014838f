//! New settings for a running gateway: what it can take over, and what needs a restart.

use crate::config::{Link, Peer, Settings};
use crate::rules::Rules;
use crate::takeover::RESTART;

/// Why a gateway did not take new settings over. Nothing was changed then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReloadError {
    /// The file has faults, one line each.
    #[error("{}", .0.join("\n"))]
    Faults(Vec<String>),
    /// The settings need a restart, one line for each reason.
    #[error("{}", .0.join("\n"))]
    Refused(Vec<String>),
    /// The gateway has stopped meanwhile, or never had a file.
    #[error("{0}")]
    Unavailable(&'static str),
}

/// Compares the settings of a running gateway with new ones: one line for each change that it can make.
///
/// # Errors
/// With one line for each change that needs a restart.
pub(crate) fn compare(old: &Settings, new: &Settings) -> Result<Vec<String>, ReloadError> {
    let mut comparison = Comparison::default();
    comparison.settings(old, new);
    if comparison.refused.is_empty() { Ok(comparison.changes) } else { Err(ReloadError::Refused(comparison.refused)) }
}

#[derive(Default)]
struct Comparison {
    changes: Vec<String>,
    refused: Vec<String>,
}

impl Comparison {
    /// A setting that can change.
    fn free(&mut self, name: &str, is_same: bool) {
        if !is_same {
            self.changes.push(format!("{name} changed"));
        }
    }

    /// A setting that needs another process.
    fn fixed(&mut self, name: &str, is_same: bool) {
        if !is_same {
            self.refused.push(format!("{name} cannot change while the gateway runs: restart or upgrade it"));
        }
    }

    /// A setting that the two processes of an upgrade have in common, too ([`crate::takeover`]).
    fn shared(&mut self, name: &str, is_same: bool) {
        if !is_same {
            self.refused.push(format!("{name} cannot change while the gateway runs, nor by an upgrade: {RESTART}"));
        }
    }

    /// Each setting has to be named here: a new one is either free or fixed.
    fn settings(&mut self, old: &Settings, new: &Settings) {
        let Settings {
            file: _,
            name,
            user,
            sandbox,
            private_key,
            private_key_file: _,
            interfaces: _,
            tcp,
            listen,
            mode,
            cipher,
            accept,
            connect_timeout,
            host_buffer,
            memory,
            memory_is_set,
            workers,
            user_timeout,
            host_keepalive,
            bypass,
            link,
            rules,
            peers,
            routes: _,
            classes,
            updates,
            dlep,
            metrics,
            build: _,
            web,
            connection_log,
            state_directory,
            control,
            control_group,
            debug,
        } = new;
        self.shared("[gateway] name", old.name == *name);
        self.fixed("[gateway] user", old.user == *user);
        self.fixed("[gateway] sandbox", old.sandbox == *sandbox);
        self.shared("[gateway] private_key", old.private_key.public_key() == private_key.public_key());
        self.shared("[gateway] listen", old.listen == *listen);
        // The `tcp` transport has one listener for both processes.
        let compare_mode = if tcp.is_some() { Self::shared } else { Self::fixed };
        compare_mode(self, "[gateway] mode", old.mode == *mode);
        self.fixed("[gateway] cipher", old.cipher == *cipher);
        self.shared("[gateway] accept", old.accept == *accept);
        self.free("[gateway] connect_timeout", old.connect_timeout == *connect_timeout);
        self.free("[gateway] host_buffer", old.host_buffer == *host_buffer);
        // The default goes by what the process may use now, and the running gateway keeps what it has.
        let is_default = !old.memory_is_set && !*memory_is_set;
        self.fixed("[gateway] memory", is_default || old.memory == *memory);
        self.free("[gateway] workers", old.workers == *workers);
        self.free("[gateway] user_timeout", old.user_timeout == *user_timeout);
        self.free("[gateway] host_keepalive", old.host_keepalive == *host_keepalive);
        self.free("[[bypass]]", old.bypass == *bypass);
        self.transport(old, new);
        self.link(&old.link, link);
        self.rules(&old.rules, rules);
        self.peers(&old.peers, peers);
        self.free("[[class]]", old.classes == *classes);
        self.fixed("[updates] socket", old.updates.socket == updates.socket);
        self.fixed("[updates] http", old.updates.http == updates.http);
        self.fixed("[updates] max_validity", old.updates.max_validity == updates.max_validity);
        self.fixed("[dlep]", old.dlep == *dlep);
        self.fixed("[metrics] listen", old.metrics == *metrics);
        self.fixed("[web]", old.web == *web);
        self.fixed("[connection_log]", old.connection_log == *connection_log);
        self.fixed("[gateway] state_directory", old.state_directory == *state_directory);
        self.shared("[control] socket", old.control == *control);
        self.fixed("[control] group", old.control_group == *control_group);
        self.fixed("[debug]", old.debug == *debug);
    }

    fn transport(&mut self, old: &Settings, new: &Settings) {
        self.shared("[gateway] transport", old.tcp.is_some() == new.tcp.is_some());
        if let (Some(old_tcp), Some(tcp)) = (&old.tcp, &new.tcp) {
            // Buffers follow from the link's rates and round-trip time unless they are set; those of a running gateway stay as they are.
            let rates_differ = old.link.rate != new.link.rate || old.link.receive_rate != new.link.receive_rate;
            let have_followed = rates_differ || old.link.rtt != new.link.rtt;
            let [sends, receives] = [0, 1].map(|one| old_tcp.buffers_are_set[one] || tcp.buffers_are_set[one]);
            let mut tcp = tcp.clone();
            if have_followed && !sends {
                tcp.send_buffer = old_tcp.send_buffer;
            }
            if have_followed && !receives {
                tcp.receive_buffer = old_tcp.receive_buffer;
            }
            tcp.buffers_are_set = old_tcp.buffers_are_set;
            self.fixed("[tcp]", *old_tcp == tcp);
        }
    }

    fn link(&mut self, old: &Link, new: &Link) {
        let Link {
            interface,
            rate,
            rate_confidence,
            capacity,
            ceiling,
            cross_traffic,
            receive_rate,
            plausible,
            rtt,
            mtu,
            dscp,
            receive_memory,
            outage_limit,
            keepalive,
            max_streams,
            repair,
            repair_overhead,
        } = new;
        self.fixed("[link] interface", old.interface == *interface);
        self.free("[link] rate", old.rate == *rate);
        self.fixed("[link] rate_confidence", old.rate_confidence == *rate_confidence);
        self.fixed("[link] capacity", old.capacity == *capacity);
        self.fixed("[link] cross_traffic", old.cross_traffic == *cross_traffic);
        self.free("[link] receive_rate", old.receive_rate == *receive_rate);
        let bounds = (&old.plausible, &old.ceiling) == (plausible, ceiling);
        self.free("[link] min_rate, max_rate", bounds);
        self.fixed("[link] rtt", old.rtt == *rtt);
        self.fixed("[link] mtu", old.mtu == *mtu);
        self.fixed("[link] dscp", old.dscp == *dscp);
        self.fixed("[link] receive_memory", old.receive_memory == *receive_memory);
        self.free("[link] outage_limit", old.outage_limit == *outage_limit);
        self.free("[link] keepalive", old.keepalive == *keepalive);
        self.fixed("[link] max_streams", old.max_streams == *max_streams);
        self.fixed("[link] repair", old.repair == *repair);
        self.fixed("[link] repair_overhead", old.repair_overhead == *repair_overhead);
    }

    fn rules(&mut self, old: &Rules, new: &Rules) {
        // The table is named after the gateway, the satellite interface is that of the link, and holding follows `accept`.
        let Rules {
            table: _,
            interfaces,
            towards,
            satellite: _,
            port,
            mark,
            routing_table,
            priority,
            ipv6: _,
            hold: _,
        } = new;
        if old.interfaces.is_empty() == interfaces.is_empty() {
            self.fixed("[intercept] interfaces", old.interfaces == *interfaces);
        } else {
            self.shared("[intercept] interfaces (whether there are any)", false);
        }
        self.fixed("[intercept] out_interfaces", old.towards == *towards);
        self.shared("[intercept] port", old.port == *port);
        self.shared("[intercept] mark", old.mark == *mark);
        self.shared("[intercept] table", old.routing_table == *routing_table);
        self.shared("[intercept] rule_priority", old.priority == *priority);
    }

    fn peers(&mut self, old: &[Peer], new: &[Peer]) {
        for peer in new {
            match old.iter().find(|before| before.is_same_gateway(peer)) {
                Some(before) => self.peer(before, peer),
                None => self.changes.push(format!("[[peer]] {} added", peer.name)),
            }
        }
        for before in old.iter().filter(|before| !new.iter().any(|peer| peer.is_same_gateway(before))) {
            self.changes.push(format!("[[peer]] {} removed: its connections are reset", before.name));
        }
    }

    fn peer(&mut self, old: &Peer, new: &Peer) {
        let Peer {
            name,
            public_key: _,
            address,
            accept_from,
            routes,
            overlap,
            allow_sources,
            allow_destinations,
            connect_as_client,
            weight,
            cap,
        } = new;
        let keys = [
            ("name", old.name == *name),
            ("address", old.address == *address),
            ("accept_from", old.accept_from == *accept_from),
            ("routes", old.routes == *routes),
            ("overlap", old.overlap == *overlap),
            ("allow_sources", old.allow_sources == *allow_sources),
            ("allow_destinations", old.allow_destinations == *allow_destinations),
            ("connect_from", old.connect_as_client == *connect_as_client),
            ("weight", old.weight == *weight),
            ("cap", old.cap == *cap),
        ];
        for (key, is_same) in keys {
            self.free(&format!("[[peer]] {name}: {key}"), is_same);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;
    use satpep::PrivateKey;
    use units::Bytes;

    fn key(number: u8) -> String {
        PrivateKey::from_random([number; 32]).public_key().to_string()
    }

    fn text() -> String {
        let own = PrivateKey::from_random([7; 32]).to_base64();
        format!(
            "[gateway]\nprivate_key = \"{own}\"\n[link]\nrate = \"6Mbit/s\"\nrtt = \"550ms\"\n[[peer]]\nname = \"one\"\n\
             public_key = \"{}\"\nroutes = [\"10.1.0.0/16\"]\n",
            key(1)
        )
    }

    fn compared(new: &str) -> Result<Vec<String>, ReloadError> {
        compare(&parse(&text(), "old").unwrap(), &parse(new, "new").unwrap())
    }

    fn refused(new: &str) -> Vec<String> {
        match compared(new) {
            Err(ReloadError::Refused(reasons)) => reasons,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_can_change_is_listed() {
        assert_eq!(compared(&text()), Ok(Vec::new()));
        let added = text() + &format!("[[peer]]\nname = \"two\"\npublic_key = \"{}\"\nroutes = []\n", key(2));
        assert_eq!(compared(&added).unwrap(), ["[[peer]] two added"]);
        let another = text().replace(&key(1), &key(3));
        assert_eq!(
            compared(&another).unwrap(),
            ["[[peer]] one added", "[[peer]] one removed: its connections are reset"],
            "a peer is its key"
        );
        let changed = text()
            .replace("\"6Mbit/s\"", "\"8Mbit/s\"\noutage_limit = \"60s\"")
            .replace("[link]", "connect_timeout = \"5s\"\n[link]")
            .replace("10.1.0.0/16", "10.2.0.0/16")
            + "weight = 3\naddress = \"192.0.2.1:4500\"\n";
        let changes = compared(&changed).unwrap();
        for change in [
            "[gateway] connect_timeout changed",
            "[link] rate changed",
            "[link] receive_rate changed",
            "[link] outage_limit changed",
            "[[peer]] one: address changed",
            "[[peer]] one: routes changed",
            "[[peer]] one: weight changed",
        ] {
            assert!(changes.iter().any(|line| line == change), "{change}: {changes:?}");
        }
    }

    /// Why setting `name` cannot change, as docs/operations.md has it.
    fn reason(name: &str) -> String {
        const OF_BOTH_PROCESSES: [&str; 11] = [
            "[gateway] name",
            "[gateway] private_key",
            "[gateway] listen",
            "[gateway] accept",
            "[gateway] transport",
            "[intercept] interfaces (whether there are any)",
            "[intercept] port",
            "[intercept] mark",
            "[intercept] table",
            "[intercept] rule_priority",
            "[control] socket",
        ];
        match OF_BOTH_PROCESSES.contains(&name) {
            true => format!("{name} cannot change while the gateway runs, nor by an upgrade: {RESTART}"),
            false => format!("{name} cannot change while the gateway runs: restart or upgrade it"),
        }
    }

    #[test]
    fn what_needs_a_restart_is_refused_by_name_and_all_at_once() {
        let new = text()
            .replace("[link]", "listen = \"[::]:4600\"\nmode = \"clear\"\n[link]\nmtu = 1400")
            .replace("10.1.0.0/16", "10.2.0.0/16")
            + "[intercept]\ninterfaces = [\"lan0\"]\nmark = 5\n";
        let reasons = refused(&new);
        for name in [
            "[gateway] listen",
            "[gateway] mode",
            "[link] mtu",
            "[intercept] interfaces (whether there are any)",
            "[intercept] mark",
        ] {
            assert!(reasons.contains(&reason(name)), "{name}: {reasons:?}");
        }
        assert_eq!(reasons.len(), 5, "{reasons:?}");
        let own = PrivateKey::from_random([9; 32]);
        let another_key = text().replace(&PrivateKey::from_random([7; 32]).to_base64(), &own.to_base64());
        assert_eq!(refused(&another_key).len(), 1);
        assert!(refused(&another_key)[0].starts_with("[gateway] private_key"));
    }

    #[test]
    fn buffers_that_are_set_are_compared_whatever_else_changes() {
        let tcp = |rate: &str, buffers: &str| {
            let text = text().replace("[link]", "transport = \"tcp\"\n[link]").replace("6Mbit/s", rate);
            parse(&format!("{text}[tcp]\n{buffers}"), "x").unwrap()
        };
        let refusal = || Err(ReloadError::Refused(vec![reason("[tcp]")]));
        let [one, other] = ["send_buffer = \"1MiB\"\n", "send_buffer = \"8MiB\"\n"];
        assert_eq!(compare(&tcp("6Mbit/s", one), &tcp("9Mbit/s", other)), refusal());
        assert_eq!(compare(&tcp("6Mbit/s", ""), &tcp("9Mbit/s", one)), refusal());
        assert_eq!(compare(&tcp("6Mbit/s", one), &tcp("9Mbit/s", "")), refusal(), "it is set no more");
        let receive = "receive_buffer = \"8MiB\"\n";
        assert_eq!(compare(&tcp("6Mbit/s", one), &tcp("9Mbit/s", &format!("{one}{receive}"))), refusal());
        assert!(compare(&tcp("6Mbit/s", one), &tcp("9Mbit/s", one)).is_ok());
    }

    #[test]
    fn the_tcp_transport_changes_what_its_sockets_do_not_depend_on() {
        let tcp = |text: String| text.replace("[link]", "transport = \"tcp\"\n[link]");
        let old = parse(&tcp(text()), "old").unwrap();
        let rates = tcp(text()).replace("6Mbit/s", "9Mbit/s").replace("10.1.0.0/16", "10.2.0.0/16");
        let changes = compare(&old, &parse(&rates, "new").unwrap()).unwrap();
        assert!(changes.contains(&"[link] rate changed".into()), "{changes:?}");
        let added = tcp(text())
            + &format!(
                "address = \"192.0.2.1:4500\"\n[[peer]]\nname = \"two\"\npublic_key = \"{}\"\nroutes = []\n",
                key(2)
            );
        let changes = compare(&old, &parse(&added, "new").unwrap()).unwrap();
        assert_eq!(changes, ["[[peer]] one: address changed", "[[peer]] two added"]);
        let other = tcp(text()) + "[tcp]\nwarm_connections = 3\n";
        let error = compare(&old, &parse(&other, "new").unwrap()).unwrap_err().to_string();
        assert!(error.starts_with("[tcp] cannot change"), "{error}");
        let error = compare(&old, &parse(&tcp(text()).replace("550ms", "600ms"), "new").unwrap()).unwrap_err();
        let ReloadError::Refused(reasons) = &error else { panic!("{error}") };
        assert_eq!(reasons, &["[link] rtt cannot change while the gateway runs: restart or upgrade it"]);
    }

    /// The settings [`text`] with `line` in `section`, which takes the place of the line that sets the same key.
    fn with(section: &str, line: &str) -> String {
        let key = format!("{} = ", line.split(" = ").next().unwrap());
        let is_replaced = |other: &&str| matches!(section, "[link]" | "[[peer]]") && other.starts_with(&key);
        let text = text();
        let text: String = text.lines().filter(|other| !is_replaced(other)).flat_map(|other| [other, "\n"]).collect();
        if text.contains(section) {
            text.replace(section, &format!("{section}\n{line}"))
        } else {
            text + section + "\n" + line + "\n"
        }
    }

    #[test]
    fn each_setting_that_needs_a_restart_is_refused_alone_and_by_its_name() {
        for (section, line, name) in [
            ("[gateway]", "name = \"other\"", "[gateway] name"),
            ("[gateway]", "user = \"other\"", "[gateway] user"),
            ("[gateway]", "sandbox = false", "[gateway] sandbox"),
            ("[gateway]", "listen = \"192.0.2.9:4500\"", "[gateway] listen"),
            ("[gateway]", "mode = \"clear\"", "[gateway] mode"),
            ("[gateway]", "cipher = \"chacha20-poly1305\"", "[gateway] cipher"),
            ("[gateway]", "accept = \"confirmed\"", "[gateway] accept"),
            ("[gateway]", "memory = \"3MiB\"", "[gateway] memory"),
            ("[gateway]", "state_directory = \"/elsewhere\"", "[gateway] state_directory"),
            ("[gateway]", "transport = \"tcp\"", "[gateway] transport"),
            ("[link]", "capacity = \"fixed\"", "[link] capacity"),
            ("[link]", "rate_confidence = \"guess\"", "[link] rate_confidence"),
            ("[link]", "cross_traffic = \"fair\"", "[link] cross_traffic"),
            ("[link]", "rtt = \"40ms\"", "[link] rtt"),
            ("[link]", "mtu = 1400", "[link] mtu"),
            ("[link]", "dscp = \"ef\"", "[link] dscp"),
            ("[link]", "receive_memory = \"64MiB\"", "[link] receive_memory"),
            ("[link]", "max_streams = 10", "[link] max_streams"),
            ("[link]", "repair = false", "[link] repair"),
            ("[link]", "repair_overhead = 0.1", "[link] repair_overhead"),
            ("[intercept]", "interfaces = [\"lan0\"]", "[intercept] interfaces (whether there are any)"),
            ("[intercept]", "out_interfaces = [\"sat0\"]", "[intercept] out_interfaces"),
            ("[intercept]", "port = 4502", "[intercept] port"),
            ("[intercept]", "mark = 5", "[intercept] mark"),
            ("[intercept]", "table = 7", "[intercept] table"),
            ("[intercept]", "rule_priority = 7", "[intercept] rule_priority"),
            ("[updates]", "max_validity = \"5s\"", "[updates] max_validity"),
            ("[metrics]", "listen = \"127.0.0.1:9090\"", "[metrics] listen"),
            ("[web]", "listen = \"127.0.0.1:8080\"", "[web]"),
            ("[connection_log]", "file = \"/var/log/c\"", "[connection_log]"),
            ("[control]", "socket = \"/run/c\"", "[control] socket"),
            ("[control]", "group = \"operators\"", "[control] group"),
            ("[debug]", "key_log = \"/tmp/keys\"", "[debug]"),
            ("[debug]", "qlog = \"/tmp/qlog\"", "[debug]"),
        ] {
            let mut reasons = refused(&with(section, line));
            // The control socket has the gateway's name, unless it has one of its own.
            reasons.retain(|reason| name != "[gateway] name" || !reason.starts_with("[control] socket"));
            assert_eq!(reasons, [reason(name)], "{line}");
        }
    }

    #[test]
    fn each_setting_that_can_change_is_taken_over_alone_and_by_its_name() {
        for (section, line, name) in [
            ("[gateway]", "connect_timeout = \"5s\"", "[gateway] connect_timeout"),
            ("[gateway]", "host_buffer = \"2MiB\"", "[gateway] host_buffer"),
            ("[gateway]", "user_timeout = \"5s\"", "[gateway] user_timeout"),
            ("[gateway]", "host_keepalive = \"1min\"", "[gateway] host_keepalive"),
            ("[link]", "receive_rate = \"5Mbit/s\"\nmin_rate = \"60kbit/s\"", "[link] receive_rate"),
            ("[link]", "min_rate = \"10kbit/s\"", "[link] min_rate, max_rate"),
            ("[link]", "max_rate = \"9Mbit/s\"", "[link] min_rate, max_rate"),
            ("[link]", "outage_limit = \"60s\"", "[link] outage_limit"),
            ("[link]", "keepalive = \"5s\"", "[link] keepalive"),
            ("[[class]]", "name = \"web\"\nports = [443]", "[[class]]"),
            ("[[bypass]]", "name = \"ssh\"\nports = [22]", "[[bypass]]"),
            ("[[peer]]", "address = \"192.0.2.1:4500\"", "[[peer]] one: address"),
            ("[[peer]]", "overlap = true", "[[peer]] one: overlap"),
            ("[[peer]]", "allow_sources = [\"10.1.2.0/24\"]", "[[peer]] one: allow_sources"),
            ("[[peer]]", "allow_destinations = [\"192.0.2.0/24\"]", "[[peer]] one: allow_destinations"),
            ("[[peer]]", "connect_from = \"gateway\"", "[[peer]] one: connect_from"),
            ("[[peer]]", "weight = 2", "[[peer]] one: weight"),
            ("[[peer]]", "cap = \"1Mbit/s\"", "[[peer]] one: cap"),
            ("[[peer]]", "name = \"uno\"", "[[peer]] uno: name"),
        ] {
            assert_eq!(compared(&with(section, line)), Ok(vec![format!("{name} changed")]), "{line}");
        }
    }

    /// Where [`text`] says nothing, its defaults are meant: to write them down changes nothing.
    #[test]
    fn to_write_the_defaults_down_is_no_change() {
        for (section, line) in [
            ("[gateway]", "name = \"bentpipe\""),
            ("[gateway]", "mode = \"encrypted\""),
            ("[gateway]", "transport = \"satpep\""),
            ("[gateway]", "cipher = \"aes-128-gcm\""),
            ("[gateway]", "accept = \"immediate\""),
            ("[gateway]", "connect_timeout = \"20s\""),
            ("[gateway]", "user_timeout = \"15min\""),
            ("[gateway]", "host_keepalive = \"2h\""),
            ("[gateway]", "host_buffer = \"1MiB\""),
            ("[gateway]", "sandbox = true"),
            ("[link]", "receive_rate = \"6Mbit/s\""),
            ("[link]", "min_rate = \"60kbit/s\""),
            ("[link]", "mtu = 1500"),
            ("[link]", "dscp = \"copy\""),
            ("[link]", "keepalive = \"100s\""),
            ("[link]", "capacity = \"estimated\"\nrate_confidence = \"sure\""),
            ("[link]", "cross_traffic = \"subtract\""),
            ("[intercept]", "interfaces = []\nout_interfaces = []\nport = 4501\nmark = 0x62700000"),
            ("[intercept]", "table = 25200\nrule_priority = 10"),
            ("[updates]", "max_validity = \"60s\""),
            ("[control]", "socket = \"/run/bentpipe/bentpipe.sock\""),
            ("[debug]", ""),
            ("[[peer]]", "weight = 1\nconnect_from = \"client\"\noverlap = false"),
            ("[[peer]]", "allow_sources = [\"10.1.0.0/16\"]\nallow_destinations = [\"0.0.0.0/0\", \"::/0\"]"),
        ] {
            assert_eq!(compared(&with(section, line)), Ok(Vec::new()), "{line}");
        }
    }

    #[test]
    fn a_default_that_follows_from_the_machine_is_no_change() {
        let old = parse(&text(), "old").unwrap();
        let more = |text: &str| {
            let read = parse(text, "new").unwrap();
            Settings { memory: old.memory + Bytes::new(1 << 20), ..read }
        };
        assert_eq!(compare(&old, &more(&text())), Ok(Vec::new()));
        let set = with("[gateway]", "memory = \"3MiB\"");
        let refusal = Err(ReloadError::Refused(vec![reason("[gateway] memory")]));
        assert_eq!(compare(&old, &more(&set)), refusal);
        assert_eq!(compare(&parse(&set, "old").unwrap(), &more(&text())), refusal, "it is set no more");
    }

    #[test]
    fn one_change_that_needs_a_restart_holds_all_others_back() {
        let new = with("[link]", "mtu = 1400").replace("10.1.0.0/16", "10.2.0.0/16")
            + &format!("[[peer]]\nname = \"two\"\npublic_key = \"{}\"\nroutes = []\n", key(2));
        assert_eq!(refused(&new), ["[link] mtu cannot change while the gateway runs: restart or upgrade it"]);
    }

    #[test]
    fn peers_that_trade_their_names_stay_the_gateways_of_their_keys() {
        let both = |one: u8, two: u8| {
            text().replace(&key(1), &key(one))
                + &format!("[[peer]]\nname = \"two\"\npublic_key = \"{}\"\nroutes = [\"10.2.0.0/16\"]\n", key(two))
        };
        let [old, new] = [both(1, 2), both(2, 1)].map(|text| parse(&text, "x").unwrap());
        let expected = [
            "[[peer]] one: name changed",
            "[[peer]] one: routes changed",
            "[[peer]] one: allow_sources changed",
            "[[peer]] two: name changed",
            "[[peer]] two: routes changed",
            "[[peer]] two: allow_sources changed",
        ];
        assert_eq!(compare(&old, &new).unwrap(), expected, "none is added or removed: no connection is reset");
    }

    #[test]
    fn servers_without_a_far_gateway_are_known_by_name() {
        let direct = |name: &str, route: &str| {
            let servers = format!("[[peer]]\nname = \"{name}\"\nfar_gateway = false\nroutes = [\"{route}\"]\n");
            parse(&(text().replace("[link]", "transport = \"tcp\"\n[link]") + &servers), "x").unwrap()
        };
        let old = direct("servers", "192.0.2.0/24");
        let changes = compare(&old, &direct("servers", "198.51.100.0/24")).unwrap();
        assert_eq!(changes, ["[[peer]] servers: routes changed", "[[peer]] servers: allow_sources changed"]);
        let changes = compare(&old, &direct("others", "192.0.2.0/24")).unwrap();
        assert_eq!(changes, ["[[peer]] others added", "[[peer]] servers removed: its connections are reset"]);
    }
}
