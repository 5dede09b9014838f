//! The settings as commands that a person can read and run.

use host::Target;
use model::tuning::{Place, Setting};
use std::net::{IpAddr, Ipv6Addr};

/// A command and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// As a shell takes it.
    pub line: String,
    /// A sentence for each setting in it.
    pub why: Vec<String>,
}

/// The commands for `settings`; all of the route go into one.
pub fn commands(settings: &[Setting], target: Target) -> Vec<Command> {
    let mut commands = Vec::new();
    let of_route: Vec<_> = settings.iter().filter(|setting| matches!(setting.place, Place::Route(_))).collect();
    if !of_route.is_empty() {
        let attributes: Vec<_> =
            of_route.iter().map(|setting| format!("{} {}", setting.place.name(), setting.value)).collect();
        let why = of_route.iter().map(|setting| format!("{}: {}", setting.place.name(), setting.why)).collect();
        commands.push(Command { line: set_route(&attributes.join(" "), target), why });
    }
    for setting in settings {
        let line = match setting.place {
            Place::Route(_) => continue,
            Place::Sysctl(key) => match setting.value.rsplit_once(' ') {
                // Sizes of buffers: the least, the first and the most.
                Some((first, most)) => format!("sysctl -w {key}=\"{first} {}\"", at_least(key, most)),
                None => format!("sysctl -w {key}={}", setting.value),
            },
            // The whole host's are maxima.
            Place::HostSysctl(key) => format!("sysctl -w {key}={}", at_least(key, &setting.value)),
            Place::RootQdisc => root_qdisc(&setting.value, target),
        };
        commands.push(Command { line, why: vec![setting.why.clone()] });
    }
    commands
}

/// What a shell substitutes by `most`, or by what the last number of `key` is if that is more: a host may have larger maxima by default.
fn at_least(key: &str, most: &str) -> String {
    format!("$(sysctl -n {key} | awk '{{print ($NF > {most}) ? $NF : {most}}}')")
}

/// Gives the route's interface the queue discipline `kind`, unless the interface has been configured with another, whose handle is not 0
/// then, or has one for each queue of the hardware. A kernel without `kind` keeps what it has.
fn root_qdisc(kind: &str, target: Target) -> String {
    // Of several next hops none is taken.
    let device = format!("$({} | sed -n 's/\\\\.*//; s/.* dev \\([^ ]*\\).*/\\1/p')", shown_route(target));
    let no_device = format!("echo 'there is not one interface: give those that lead there {kind} by hand' >&2");
    let replace = format!("tc qdisc replace dev \"$device\" root {kind}");
    let not_set =
        format!("echo \"$device: {kind} cannot be set (does the kernel have it?): bbr keeps the time itself\" >&2");
    let queues = format!(
        "echo \"$device keeps a queue discipline for each of its queues: 'sysctl -w net.core.default_qdisc={kind}', then \
         'tc qdisc replace dev $device root mq', make them {kind}; bbr keeps the time itself\" >&2"
    );
    let stays = "echo \"$device keeps its queue discipline\" >&2";
    format!(
        "device={device}; if [ -z \"$device\" ]; then {no_device}; else case \"$(tc qdisc show dev \"$device\" root)\" in \
         *' mq 0: '*) {queues};; *' 0: '*) {replace} || {not_set};; *) {stays};; esac; fi"
    )
}

/// Gives the target's route `attributes`, or says why that cannot be.
fn set_route(attributes: &str, target: Target) -> String {
    let (ip, route) = (format!("ip {} route", family_option(target)), route_with(attributes, target));
    let set = match target {
        Target::Default { .. } => format!("{ip} change {route}"),
        Target::Network(network) => {
            let nowhere = format!("no route leads to all of {network}");
            // `replace`, since a network may have no route of its own yet.
            let replace = unless("[ -z \"$route\" ]", &nowhere, &format!("{ip} replace {network} $route"));
            format!("route={route}; {replace}")
        }
    };
    match advertised(target) {
        None => set,
        Some(is_advertised) => {
            let problem = "router advertisements set this route, and would renew neither it nor addresses: \
                           tune a part of what it leads to, such as 2000::/3";
            unless(&is_advertised, problem, &set)
        }
    }
}

/// Fails with `problem` if `test` holds; does `command` otherwise.
fn unless(test: &str, problem: &str, command: &str) -> String {
    format!("if {test}; then echo '{problem}' >&2; false; else {command}; fi")
}

/// The test whether router advertisements have set the target's own route, which `ip` does not show: the kernel lists one with the same
/// metric and device, and `RTF_ADDRCONF` among its flags. `None` where there are none.
fn advertised(target: Target) -> Option<String> {
    let (address, length) = match target {
        Target::Default { is_ipv6: true } => (Ipv6Addr::UNSPECIFIED, 0),
        Target::Network(network) => match network.address() {
            IpAddr::V6(address) => (address, network.length()),
            IpAddr::V4(_) => return None,
        },
        Target::Default { is_ipv6: false } => return None,
    };
    let read = "count = split(ENVIRON[\"shown\"], word); for (n = 1; n < count; n++) of[word[n]] = word[n + 1]";
    let destination = format!("$1 == \"{:032x}\" && $2 == \"{length:02x}\"", u128::from(address));
    let is_shown = "$6 == sprintf(\"%08x\", of[\"metric\"]) && $10 == of[\"dev\"] && of[\"proto\"] ~ /^(ra|kernel)$/";
    let is_advertised = "substr($9, 4, 1) ~ /[4-7c-f]/";
    Some(format!(
        "shown=$({}) awk 'BEGIN {{{read}}} {destination} && {is_shown} && {is_advertised} {{found = 1}} END {{exit !found}}' \
         /proc/net/ipv6_route",
        shown_route(target)
    ))
}

/// The command that shows the target's route in a line.
fn shown_route(target: Target) -> String {
    match target {
        // One for a type of service is not that of all packets.
        Target::Default { .. } => format!(
            "ip {} -o route show default | awk '!/ tos / {{first = $0; exit}} !other {{other = $0}} \
             END {{if (NR) print first ? first : other}}'",
            family_option(target)
        ),
        Target::Network(network) if network.is_host() => format!("ip -o route get fibmatch {}", network.address()),
        Target::Network(network) => {
            // A part of the network, such as the host's own, may have a route of its own: then another address has the network's.
            let samples: Vec<_> = network.samples().iter().map(ToString::to_string).collect();
            let length = format!("$1 == \"default\" ? 0 : split($1, part, \"/\") > 1 ? part[2] : {}", network.bits());
            let table = "match($0, / table [^ ]+/) ? substr($0, RSTART, RLENGTH) : \"\"";
            // No route leads to all of it if routing rules choose different tables.
            format!(
                "for address in {}; do ip -o route get fibmatch $address || :; done \
                 | awk '({length}) <= {} {{table = {table}; if (!shown) {{shown = $0; first = table}} else if (table != first) differ = 1}} \
                 END {{if (shown && !differ) print shown}}'",
                samples.join(" "),
                network.length()
            )
        }
    }
}

/// What a shell substitutes by the target's route with `attributes`: without the destination if the target is a network, and with the
/// attributes before the next hops if there are several. Left out is what `ip` shows and does not read, and the next hop where an object
/// has it, beside which the kernel refuses it.
fn route_with(attributes: &str, target: Target) -> String {
    const IN_A_LINE: &str = r"s/\\//g; s/$/ /";
    const UNREADABLE: &str =
        "expires [0-9]+sec|dead|linkdown|offload|trap|unresolved|rt_offload|rt_offload_failed|rt_trap";
    const WITHOUT_HOPS_OF_OBJECT: &str = r"s/( nhid [0-9]+)( via .*)? dev [^ ]+/\1/; / nhid /s/[[:space:]]nexthop .*//";
    // A route of the network's own has another destination, and is not of the daemon or the kernel that has made the general one.
    let own = match target {
        Target::Default { .. } => String::new(),
        Target::Network(network) => {
            format!(" -e '\\,^{network} ,!s/ proto [^ ]+/ proto static/' -e 's/^[^ ]+ //'")
        }
    };
    let shown = shown_route(target);
    let insert = format!("s/[[:space:]]nexthop |$/ {attributes}&/");
    let readable = format!("-e ':a' -e 's/ ({UNREADABLE}) / /' -e 'ta'");
    format!("$({shown} | sed -E -e '{IN_A_LINE}' {readable} -e '{WITHOUT_HOPS_OF_OBJECT}; {insert}'{own})")
}

/// The option of `ip` for the target's family: without it, `ip` takes that of the next hop for a default route.
fn family_option(target: Target) -> &'static str {
    match target {
        Target::Default { is_ipv6: true } => "-6",
        Target::Network(network) if network.address().is_ipv6() => "-6",
        _ => "-4",
    }
}

/// All of it, as a file that `sh` runs.
pub fn text(commands: &[Command], made_by: &str, warnings: &[String]) -> String {
    let mut text = format!("#!/bin/sh\n# {made_by}\n# Review it, then run it as root at both ends of the link.\n");
    for warning in warnings {
        text.push_str(&format!("# Warning: {warning}.\n"));
    }
    text.push_str("set -e\n");
    for command in commands {
        for why in &command.why {
            text.push_str(&format!("# {why}\n"));
        }
        text.push_str(&format!("{}\n", command.line));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> String {
        let output = std::process::Command::new("sh").args(["-ec", script]).output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// What `ip` shows (iproute2 6.1) and what it then reads.
    #[test]
    fn the_route_that_is_shown_is_given_back_as_ip_reads_it() {
        let shown_and_read = [
            ("default via 192.0.2.1 dev eth0 proto dhcp ", "default via 192.0.2.1 dev eth0 proto dhcp initcwnd 40"),
            (
                "default via fe80::1 dev eth0 proto ra metric 100 expires 1798sec pref medium",
                "default via fe80::1 dev eth0 proto ra metric 100 pref medium initcwnd 40",
            ),
            ("default nhid 5 via 192.0.2.1 dev eth0 metric 7 ", "default nhid 5 metric 7 initcwnd 40"),
            (
                "default via dead:beef::1 dev deadsat0 dead linkdown",
                "default via dead:beef::1 dev deadsat0 initcwnd 40",
            ),
            ("default nhid 5 dev eth0 linkdown ", "default nhid 5 initcwnd 40"),
            (
                "default nhid 9 metric 7 \\\\\tnexthop via 192.0.2.1 dev a weight 1 ",
                "default nhid 9 metric 7 initcwnd 40",
            ),
            (
                "default proto static \\\\\tnexthop via 192.0.2.1 dev a weight 1 \\\\\tnexthop via 192.0.2.5 dev b weight 1 ",
                "default proto static initcwnd 40 nexthop via 192.0.2.1 dev a weight 1 nexthop via 192.0.2.5 dev b weight 1",
            ),
        ];
        for (shown, read) in shown_and_read {
            let route = route_with("initcwnd 40", Target::Default { is_ipv6: false });
            assert_eq!(sh(&format!("ip() {{ printf '{shown}\\n'; }}; echo {route}")), read);
        }
        let network = Target::Network("198.18.0.0/24".parse().unwrap());
        for (shown, read) in [
            ("198.18.0.0/16 via 192.0.2.1 dev eth0 ", "via 192.0.2.1 dev eth0 initcwnd 40"),
            (
                "default via 192.0.2.1 dev eth0 proto dhcp src 192.0.2.9 ",
                "via 192.0.2.1 dev eth0 proto static src 192.0.2.9 initcwnd 40",
            ),
            ("198.18.0.0/24 via 192.0.2.1 dev eth0 proto bgp ", "via 192.0.2.1 dev eth0 proto bgp initcwnd 40"),
        ] {
            let route = route_with("initcwnd 40", network);
            assert_eq!(sh(&format!("ip() {{ echo '{shown}'; }}; echo {route}")), read);
        }
    }

    #[test]
    fn of_default_routes_that_of_all_packets_is_shown() {
        let shown = shown_route(Target::Default { is_ipv6: false });
        let run = |routes: &[&str]| sh(&format!("ip() {{ printf '%s\\n' {}; }}; {shown}", routes.join(" ")));
        let [service, all, later] = ["'default tos 0x10 via b'", "'default via a'", "'default via c metric 9'"];
        assert_eq!(run(&[service, all, later]), "default via a");
        assert_eq!(run(&[all, later]), "default via a");
        assert_eq!(run(&[service]), "default tos 0x10 via b");
        assert_eq!(sh(&format!("ip() {{ :; }}; {shown}")), "");
    }

    #[test]
    fn a_network_gets_the_route_of_all_of_it_and_not_that_of_a_part() {
        let network = Target::Network("10.0.0.0/8".parse().unwrap());
        let run = |lowest: &str, highest: &str| {
            let routes = format!("10.0.0.0) echo '{lowest}';; 10.255.255.255) echo '{highest}';; *) false;;");
            let ip = format!("ip() {{ if [ \"$1\" = -o ]; then case $5 in {routes} esac; else echo \"$@\"; fi; }}");
            sh(&format!("{ip}; if x=$({}); then echo \"$x\"; fi 2>&1", set_route("initcwnd 40", network)))
        };
        let (part, all) = ("10.0.0.0/24 dev eth1 proto kernel scope link", "default via 192.0.2.1 dev eth0");
        let set = "-4 route replace 10.0.0.0/8 via 192.0.2.1 dev eth0 initcwnd 40";
        assert_eq!(run(part, all), set);
        assert_eq!(run(all, part), set);
        assert_eq!(run("10.0.0.0/8 via 192.0.2.1 dev eth0", part), set);
        assert_eq!(
            run("default nhid 5 via 192.0.2.1 dev eth0", part),
            "-4 route replace 10.0.0.0/8 nhid 5 initcwnd 40"
        );
        assert_eq!(run(part, "10.255.255.255 dev eth1"), "no route leads to all of 10.0.0.0/8");
    }

    /// Lines of /proc/net/ipv6_route of a host with a router that advertises itself, and as `ip` has changed the route.
    #[test]
    fn a_route_that_router_advertisements_renew_is_not_changed() {
        let [zero, hop] = ["0".repeat(32), format!("fe80{}1", "0".repeat(27))];
        let line = |flags: &str| format!("{zero} 00 {zero} 00 {hop} 00000400 00000001 00000000 {flags}     eth0");
        let unreachable = format!("{zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200       lo");
        let is_advertised = |target: Target, shown: &str, text: &str| {
            let test = advertised(target).unwrap().replace("/proc/net/ipv6_route", "-");
            sh(&format!("ip() {{ echo '{shown}'; }}; if echo '{text}' | {test}; then echo yes; fi")) == "yes"
        };
        let default = Target::Default { is_ipv6: true };
        let shown = "default via fe80::1 dev eth0 proto ra metric 1024 expires 1798sec hoplimit 64 pref medium";
        let advertised_line = format!("{}\n{unreachable}", line("00450003"));
        assert!(is_advertised(default, shown, &advertised_line));
        assert!(!is_advertised(default, shown, &format!("{}\n{unreachable}", line("00000003"))));
        // Another route than the advertised one comes first.
        for first in [
            "default via fe80::2 dev eth0 metric 1024 pref medium",
            "default via fe80::2 dev eth0 proto ra metric 100 pref medium",
            "default via fe80::1 dev eth1 proto ra metric 1024 pref medium",
        ] {
            assert!(!is_advertised(default, first, &advertised_line), "{first}");
        }
        let network = Target::Network("2001:db8::/32".parse().unwrap());
        assert!(!is_advertised(network, shown, &advertised_line));
        assert!(is_advertised(
            network,
            "2001:db8::/32 dev eth0 proto kernel metric 1024 expires 1798sec pref medium",
            &line("00450003").replacen(&format!("{zero} 00"), &format!("20010db8{} 20", "0".repeat(24)), 1)
        ));
        assert_eq!(advertised(Target::Default { is_ipv6: false }), None);
    }

    #[test]
    fn a_configured_queue_discipline_and_a_kernel_without_fq_are_left_alone() {
        let run_with = |route: &str, qdisc: &str, result: &str| {
            let ip = format!("ip() {{ printf '{route}\\n'; }}");
            let tc = format!("tc() {{ if [ $2 = show ]; then echo '{qdisc}'; else echo \"$@\"; {result}; fi; }}");
            let line = root_qdisc("fq", Target::Default { is_ipv6: false });
            sh(&format!("{ip}; {tc}; {line} 2>&1; echo go on"))
        };
        let run = |qdisc, result| run_with("default via 192.0.2.1 dev eth0 proto dhcp", qdisc, result);
        let replaced = "qdisc replace dev eth0 root fq\ngo on";
        assert_eq!(run("qdisc fq_codel 0: root refcnt 2", "true"), replaced);
        assert_eq!(run("qdisc noqueue 0: root refcnt 2", "true"), replaced);
        assert!(run("qdisc pfifo_fast 0: root refcnt 2", "false").contains("eth0: fq cannot be set"));
        assert!(run("qdisc mq 0: root ", "true").starts_with("eth0 keeps a queue discipline for each of its queues"));
        assert!(run("qdisc mq 0: root ", "true").contains("then 'tc qdisc replace dev eth0 root mq', make them fq"));
        let several = "default \\\\\tnexthop via 192.0.2.1 dev a weight 1 \\\\\tnexthop via 192.0.2.5 dev b weight 1";
        let by_hand = "there is not one interface: give those that lead there fq by hand\ngo on";
        assert_eq!(run_with(several, "qdisc noqueue 0: root", "true"), by_hand);
        assert_eq!(run("qdisc htb 1: root refcnt 2", "true"), "eth0 keeps its queue discipline\ngo on");
    }

    #[test]
    fn a_maximum_is_raised_and_never_lowered() {
        // A host on which a maximum is 4,194,304.
        let run = |key, most| sh(&format!("sysctl() {{ echo 4096 131072 4194304; }}; echo {}", at_least(key, most)));
        assert_eq!(run("net.core.rmem_max", "412500"), "4194304");
        assert_eq!(run("net.ipv4.tcp_rmem", "33554432"), "33554432");
    }

    fn setting(place: Place, value: &str) -> Setting {
        Setting { place, value: value.to_owned(), default: None, why: format!("because of {}", place.name()) }
    }

    #[test]
    fn a_route_is_changed_at_once_and_every_line_has_its_reason() {
        let settings = [
            setting(Place::Route("initcwnd"), "40"),
            setting(Place::Route("congctl"), "bbr"),
            setting(Place::Sysctl("net.ipv4.tcp_rmem"), "4096 131072 8388608"),
            setting(Place::RootQdisc, "fq"),
        ];
        let commands = commands(&settings, Target::Network("198.18.0.0/24".parse().unwrap()));
        let lines: Vec<_> = commands.iter().map(|command| command.line.as_str()).collect();
        assert!(
            lines[0].starts_with("route=$(for address in 198.18.0.0 198.18.0.128 198.18.0.255; do ip "),
            "{}",
            lines[0]
        );
        assert!(lines[0].ends_with(" ip -4 route replace 198.18.0.0/24 $route; fi"), "{}", lines[0]);
        assert!(lines[0].contains(" initcwnd 40 congctl bbr&"), "{}", lines[0]);
        let most = "$(sysctl -n net.ipv4.tcp_rmem | awk '{print ($NF > 8388608) ? $NF : 8388608}')";
        assert_eq!(lines[1], format!("sysctl -w net.ipv4.tcp_rmem=\"4096 131072 {most}\""));
        assert!(lines[2].contains("root fq"), "{}", lines[2]);
        let text = text(&commands, "bentpipe tune", &["beware".to_owned()]);
        assert!(text.starts_with("#!/bin/sh\n"));
        assert_eq!(text.matches("because of").count(), settings.len());
        assert!(text.contains("# Warning: beware."));
    }
}
