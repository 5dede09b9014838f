//! The settings as commands that a person can read and run.

use host::Target;
use model::tuning::{Place, Setting};

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
        // `replace`, since a network may have no route of its own yet.
        let verb = if matches!(target, Target::Default { .. }) { "change" } else { "replace" };
        let line =
            format!("ip {}route {verb} {} {}", family_option(target), route_in_shell(target), attributes.join(" "));
        commands.push(Command { line, why });
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
            Place::RootQdisc => {
                let device = format!("$(echo {} | sed 's/.* dev \\([^ ]*\\).*/\\1/')", route_in_shell(target));
                format!("tc qdisc replace dev {device} root {}", setting.value)
            }
        };
        commands.push(Command { line, why: vec![setting.why.clone()] });
    }
    commands
}

/// What a shell substitutes by `most`, or by what the last number of `key` is if that is more: a host may have larger maxima by default.
fn at_least(key: &str, most: &str) -> String {
    format!("$(sysctl -n {key} | awk '{{print ($NF > {most}) ? $NF : {most}}}')")
}

/// What a shell substitutes by the route, to this target alone.
fn route_in_shell(target: Target) -> String {
    match target {
        Target::Default { is_ipv6: false } => "$(ip -o route show default | head -n 1)".to_owned(),
        Target::Default { is_ipv6: true } => "$(ip -6 -o route show default | head -n 1)".to_owned(),
        Target::Network(network) => {
            format!("{network} $(ip -o route get fibmatch {} | cut -d ' ' -f 2-)", network.address())
        }
    }
}

/// The option of `ip` for the target's family, with a space.
fn family_option(target: Target) -> &'static str {
    match target {
        Target::Default { is_ipv6: true } => "-6 ",
        Target::Network(network) if network.address().is_ipv6() => "-6 ",
        _ => "",
    }
}

/// All of it, as a file that `sh` runs.
pub fn text(commands: &[Command], made_by: &str, warnings: &[String]) -> String {
    let mut text = format!("#!/bin/sh\n# {made_by}\n# Review it, then run it as root at both ends of the link.\n");
    for warning in warnings {
        text.push_str(&format!("# Mind: {warning}.\n"));
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

    #[test]
    fn a_maximum_is_raised_and_never_lowered() {
        let run = |key, most| {
            // A host on which a maximum is 4,194,304.
            let shell = format!("sysctl() {{ echo 4096 131072 4194304; }}; echo {}", at_least(key, most));
            let output = std::process::Command::new("sh").args(["-c", &shell]).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
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
        assert_eq!(
            lines[0],
            "ip route replace 198.18.0.0/24 $(ip -o route get fibmatch 198.18.0.0 | cut -d ' ' -f 2-) initcwnd 40 congctl bbr"
        );
        let most = "$(sysctl -n net.ipv4.tcp_rmem | awk '{print ($NF > 8388608) ? $NF : 8388608}')";
        assert_eq!(lines[1], format!("sysctl -w net.ipv4.tcp_rmem=\"4096 131072 {most}\""));
        assert!(lines[2].starts_with("tc qdisc replace dev $(echo"));
        let text = text(&commands, "bentpipe tune", &["beware".to_owned()]);
        assert!(text.starts_with("#!/bin/sh\n"));
        assert_eq!(text.matches("because of").count(), settings.len());
        assert!(text.contains("# Mind: beware."));
    }
}
