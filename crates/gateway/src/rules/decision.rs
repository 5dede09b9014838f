//! What is decided of a connection at its SYN: the scripts that say which ones are accelerated, and which never are.
//!
//! In the order of the rules, a connection goes end to end
//!
//! - if its packets carry a signature of the whole of TCP (TCP-MD5, TCP-AO), which no proxy can make;
//! - if the routing table does not send it out of one of the interfaces that lead to the satellite;
//! - if one of the operator's `[[bypass]]` names it;
//! - if no peer that is up has it behind it, or none that lets it through.
//!
//! Each of these has a counter in the table, as have those that are intercepted.

use super::{Bypass, Rules};
use ipnet::IpNet;
use relay::classes::Ports;
use relay::engine::Intercepted;
use std::fmt::Write;

/// Counter of connections whose segments are signed.
const SIGNED: &str = "signed";
/// Counter of connections that do not cross the satellite.
const ELSEWHERE: &str = "elsewhere";
/// Counter of connections that are to come to the gateway.
pub(crate) const INTERCEPTED: &str = "intercepted";
/// Counter of connections that no peer takes now.
const UNSERVED: &str = "unserved";
/// Counter of those of them that are to servers behind a peer which does not let their clients through.
pub(super) const OTHER_CLIENTS: &str = "other_clients";
/// What the counter of a `[[bypass]]` begins with.
const RULE: &str = "rule_";

/// One of the two versions of the Internet Protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Family {
    const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// What nftables calls its header.
    fn header(self) -> &'static str {
        if self == Self::V4 { "ip" } else { "ip6" }
    }

    /// The set of the destinations that are looked at more closely.
    fn set(self) -> &'static str {
        if self == Self::V4 { "near4" } else { "near6" }
    }

    fn of(self, prefixes: &[IpNet]) -> Vec<IpNet> {
        prefixes.iter().filter(|prefix| matches!(prefix, IpNet::V4(_)) == (self == Self::V4)).copied().collect()
    }
}

impl Rules {
    /// The chains that decide, and their counters; no connect request can name port 0, which its server is to refuse itself. `exempt` and `accelerate` are filled by the scripts below.
    pub(super) fn decision_chains(&self) -> String {
        let [is_near, is_bypassed] = [self.near(), self.bypass()].map(|mark| self.has(mark));
        let set_bypass = self.set(self.bypass());
        let elsewhere = if self.towards.is_empty() {
            String::new()
        } else {
            let out = super::quoted_list(&self.towards);
            // The fwmark, because policy routing goes by it; the rules of `ip rule` that name the interface of arrival cannot be asked.
            format!("    fib daddr . mark oifname != {out} counter name {ELSEWHERE} {set_bypass} return\n")
        };
        // A client that may reach the server is marked by now.
        let families: &[Family] = if self.ipv6 { &Family::BOTH } else { &[Family::V4] };
        let of_near = |verdict: &str| -> String {
            families
                .iter()
                .map(|family| format!("    {} daddr @{} {verdict}\n", family.header(), family.set()))
                .collect()
        };
        let (look, count_others) = (of_near("jump accelerate"), of_near(&format!("counter name {OTHER_CLIENTS}")));
        let mut signed = String::new();
        // The kinds of the option: TCP-MD5 (RFC 2385), TCP-AO (RFC 5925).
        for kind in [19, 29] {
            let _ = writeln!(signed, "    tcp option {kind} exists counter name {SIGNED} {set_bypass} return");
        }
        format!(
            "  counter {SIGNED} {{ }}
  counter {ELSEWHERE} {{ }}
  counter {UNSERVED} {{ }}
  counter {OTHER_CLIENTS} {{ }}
  counter {INTERCEPTED} {{ }}
  set near4 {{ type ipv4_addr; flags interval; }}
  set near6 {{ type ipv6_addr; flags interval; }}
  chain exempt {{ }}
  chain accelerate {{ }}
  chain decide {{
    tcp sport 0 {set_bypass} return
    tcp dport 0 {set_bypass} return
{signed}{elsewhere}    jump exempt
    {is_bypassed} return
{look}    {is_near} return
{count_others}    counter name {UNSERVED} {set_bypass}
  }}
"
        )
    }

    /// The script that makes `accelerated` the new connections to intercept, all at once.
    pub fn intercept_script(&self, accelerated: &[Intercepted]) -> String {
        let (table, set_near) = (&self.table, self.set(self.near()));
        let mut script = format!(
            "flush chain inet {table} accelerate\nflush set inet {table} near4\nflush set inet {table} near6\n"
        );
        for family in Family::BOTH {
            let header = family.header();
            let groups: Vec<_> = accelerated
                .iter()
                .map(|group| (family.of(&group.clients), family.of(&group.servers), group.clients.is_empty()))
                .filter(|(clients, servers, from_all)| !servers.is_empty() && (*from_all || !clients.is_empty()))
                .collect();
            let all: Vec<_> = groups.iter().flat_map(|(_, servers, _)| servers.clone()).collect();
            if all.is_empty() {
                continue;
            }
            let _ = writeln!(script, "add element inet {table} {} {{ {} }}", family.set(), list(&all));
            for (clients, servers, from_all) in &groups {
                let from = if *from_all { String::new() } else { format!("{header} saddr {{ {} }} ", list(clients)) };
                // The set says as much as the only group.
                let to =
                    if groups.len() == 1 { String::new() } else { format!("{header} daddr {{ {} }} ", list(servers)) };
                // Both families come through the one chain.
                let version = match family {
                    Family::V4 => "meta nfproto ipv4 ",
                    Family::V6 => "meta nfproto ipv6 ",
                };
                let _ = writeln!(
                    script,
                    "add rule inet {table} accelerate {version}{from}{to}counter name {INTERCEPTED} {set_near}"
                );
            }
        }
        script
    }

    /// The script that makes `rules` the connections never to intercept, in place of those `before`.
    pub fn exempt_script(&self, rules: &[Bypass], before: &[Bypass]) -> String {
        let (table, set_bypass) = (&self.table, self.set(self.bypass()));
        let mut script = format!("flush chain inet {table} exempt\n");
        for old in before.iter().filter(|old| rules.iter().all(|rule| rule.name != old.name)) {
            let _ = writeln!(script, "delete counter inet {table} {RULE}{}", old.name);
        }
        for rule in rules {
            let name = &rule.name;
            let _ = writeln!(script, "add counter inet {table} {RULE}{name}");
            for conditions in matches(rule) {
                let _ = writeln!(
                    script,
                    "add rule inet {table} exempt {conditions}counter name {RULE}{name} {set_bypass} return"
                );
            }
        }
        script
    }
}

/// What the counter called `name` is called for people.
pub(crate) fn reason(name: &str) -> String {
    name.strip_prefix(RULE).map_or_else(|| name.to_owned(), |rule| format!("rule {rule}"))
}

/// The conditions of `rule` as nftables writes them: for each family for which they can hold.
fn matches(rule: &Bypass) -> Vec<String> {
    let conditions = &rule.conditions;
    let ports = Ports::merged(&conditions.ports).iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let ports = if ports.is_empty() { String::new() } else { format!("tcp dport {{ {ports} }} ") };
    let is_of_both = conditions.clients.is_empty() && conditions.servers.is_empty() && conditions.dscp.is_empty();
    if is_of_both {
        return vec![ports];
    }
    let of = |family: Family| {
        let header = family.header();
        let mut text = ports.clone();
        for (field, prefixes) in [("saddr", &conditions.clients), ("daddr", &conditions.servers)] {
            let those = family.of(prefixes);
            if those.is_empty() && !prefixes.is_empty() {
                return None;
            }
            if !those.is_empty() {
                let _ = write!(text, "{header} {field} {{ {} }} ", list(&IpNet::aggregate(&those)));
            }
        }
        if !conditions.dscp.is_empty() {
            let mut values: Vec<_> = conditions.dscp.iter().map(|dscp| dscp.value()).collect();
            values.sort_unstable();
            values.dedup();
            let values: Vec<_> = values.iter().map(ToString::to_string).collect();
            let _ = write!(text, "{header} dscp {{ {} }} ", values.join(", "));
        }
        Some(text)
    };
    Family::BOTH.into_iter().filter_map(of).collect()
}

fn list(prefixes: &[IpNet]) -> String {
    prefixes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::tests::rules;
    use super::*;
    use relay::classes::Conditions;

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn group(clients: &[&str], servers: &[&str]) -> Intercepted {
        Intercepted { clients: nets(clients), servers: nets(servers) }
    }

    #[test]
    fn a_bypass_is_an_empty_list_of_destinations() {
        let nothing =
            "flush chain inet bentpipe accelerate\nflush set inet bentpipe near4\nflush set inet bentpipe near6\n";
        assert_eq!(rules().intercept_script(&[]), nothing);
        let script = rules().intercept_script(&[group(&[], &["10.0.0.0/8", "::/0"])]);
        for line in [
            "add element inet bentpipe near4 { 10.0.0.0/8 }\n",
            "add element inet bentpipe near6 { ::/0 }\n",
            "add rule inet bentpipe accelerate meta nfproto ipv4 counter name intercepted ct mark set ct mark & 0x9d8ffff8 | 0x62700002\n",
        ] {
            assert!(script.contains(line), "{script}");
        }
    }

    #[test]
    fn clients_that_a_peer_does_not_let_through_go_end_to_end() {
        let one = rules().intercept_script(&[group(&["10.1.0.0/16"], &["0.0.0.0/0", "::/0"])]);
        assert!(
            one.contains(
                "accelerate meta nfproto ipv4 ip saddr { 10.1.0.0/16 } counter name intercepted ct mark set ct mark & 0x9d8ffff8 | 0x62700002\n"
            ),
            "{one}"
        );
        assert!(!one.contains("::/0") && !one.contains("ip6"), "no client of that family may: {one}");
        let two = [group(&["10.1.0.0/16"], &["192.0.2.0/24"]), group(&[], &["203.0.113.0/24"])];
        let two = rules().intercept_script(&two);
        for line in [
            "near4 { 192.0.2.0/24, 203.0.113.0/24 }\n",
            "accelerate meta nfproto ipv4 ip saddr { 10.1.0.0/16 } ip daddr { 192.0.2.0/24 } counter name intercepted ct mark set ct mark & 0x9d8ffff8 | 0x62700002\n",
            "accelerate meta nfproto ipv4 ip daddr { 203.0.113.0/24 } counter name intercepted ct mark set ct mark & 0x9d8ffff8 | 0x62700002\n",
        ] {
            assert!(two.contains(line), "{two}");
        }
    }

    #[test]
    fn connections_to_accelerated_servers_from_other_clients_are_counted_of_those_that_no_peer_takes() {
        let text = rules().setup_script();
        let [near, other, unserved] =
            ["ip6 daddr @near6 jump", "ip6 daddr @near6 counter name other_clients\n", "counter name unserved"]
                .map(|rule| text.find(rule).unwrap_or_else(|| panic!("{text}")));
        assert!(near < other && other < unserved, "{text}");
        let of_ipv4 = Rules { ipv6: false, ..rules() }.setup_script();
        assert!(
            of_ipv4.contains("ip daddr @near4 counter name other_clients\n") && !of_ipv4.contains("@near6"),
            "{of_ipv4}"
        );
    }

    #[test]
    fn only_what_leaves_by_the_satellites_interfaces_is_intercepted() {
        let text = rules().setup_script();
        let route = "fib daddr . mark oifname != { \"sat0\" } counter name elsewhere ct mark set ct mark & 0x9d8ffff8 | 0x62700004 return";
        assert!(text.contains(route), "{text}");
        assert!(text.find(route) < text.find("jump exempt"));
        let all = Rules { towards: Vec::new(), ..rules() };
        assert!(!all.setup_script().contains("oifname !="));
    }

    #[test]
    fn a_bypass_is_matched_for_each_family_for_which_it_can_hold() {
        let rule = |name: &str, conditions| Bypass { name: name.into(), conditions };
        let ports = rule(
            "sip",
            Conditions { ports: vec!["5060-5069".parse().unwrap(), "22".parse().unwrap()], ..Conditions::default() },
        );
        let voice = rule(
            "voice",
            Conditions {
                clients: nets(&["10.1.0.0/16", "10.1.2.0/24"]),
                dscp: vec!["ef".parse().unwrap()],
                ..Conditions::default()
            },
        );
        let marked = rule("marked", Conditions { dscp: vec!["cs1".parse().unwrap()], ..Conditions::default() });
        let old = rule("old", Conditions::default());
        let script = rules().exempt_script(&[ports, voice.clone(), marked], &[old, voice]);
        assert_eq!(
            script,
            "flush chain inet bentpipe exempt\n\
             delete counter inet bentpipe rule_old\n\
             add counter inet bentpipe rule_sip\n\
             add rule inet bentpipe exempt tcp dport { 22, 5060-5069 } counter name rule_sip ct mark set ct mark & 0x9d8ffff8 | 0x62700004 return\n\
             add counter inet bentpipe rule_voice\n\
             add rule inet bentpipe exempt ip saddr { 10.1.0.0/16 } ip dscp { 46 } counter name rule_voice ct mark set ct mark & 0x9d8ffff8 | 0x62700004 return\n\
             add counter inet bentpipe rule_marked\n\
             add rule inet bentpipe exempt ip dscp { 8 } counter name rule_marked ct mark set ct mark & 0x9d8ffff8 | 0x62700004 return\n\
             add rule inet bentpipe exempt ip6 dscp { 8 } counter name rule_marked ct mark set ct mark & 0x9d8ffff8 | 0x62700004 return\n"
        );
        assert_eq!((reason("rule_sip"), reason("unserved")), ("rule sip".into(), "unserved".into()));
    }
}
