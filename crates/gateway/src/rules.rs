//! The gateway's own nftables table, routing rules and routes: how TCP connections reach it, and how they pass it by.
//!
//! The decision falls at the SYN and is kept in the connection's fwmark, so that whatever starts, stops or comes back later
//! moves no connection from one way to the other:
//!
//! | fwmark | on | meaning |
//! | --- | --- | --- |
//! | `deliver` | packets | route to this host whatever the destination (`ip rule`, a local default route) |
//! | `near` | connections | intercepted: the client talks to our listener |
//! | `far` | connections | made by us in a client's name; the server's packets come to our socket |
//! | `bypass` | connections | not to be intercepted when they were seen first (`rules/decision.rs`): end to end for ever |
//! | `made` | packets | set on our own sockets towards servers, so that their connections become `far` |
//! | `crossing` | packets | of the `tcp` transport under the cross-layer congestion control; no rule is about it |
//! | `accepted` | packets | of our listener where sockets take a SYN's mark over (`net.ipv4.tcp_fwmark_accept`): `deliver` would bring answers back |
//! | `refused` | packets | a held SYN that is to be answered with a reset |
//!
//! Of a connection's mark only the bits count that these have, and no others are changed: programs that keep something of their own there
//! (`CONNMARK --save-mark --mask`, as mwan3 does) and the gateway leave each other in peace, if their bits differ.
//!
//! Conntrack may forget a connection that lives in the gateway's sockets: half-closed ones after a minute without a packet. Of the
//! first packet that is picked up then, the socket decides, and the mark is set again. Where conntrack picks nothing up, and takes such
//! packets for invalid, the socket alone decides; so it does for servers' packets that an operator has excepted from it (`notrack`).
//!
//! A SYN that comes to be forwarded with the addresses and ports of a connection made by us is the client's own: that connection goes end
//! to end from then on.
//!
//! The host sends no redirects (ICMP): where clients, gateway and the router to the satellite share a network, one for any packet would
//! lead a client's or server's connections past the gateway's sockets.
//!
//! Packets of intercepted connections, and of those made by us, are dropped where they would be forwarded: while the routing rule or the
//! route is missing, and when the other gateway's rules are, they would reach the other end past the gateways. There, the numbers of the
//! other connection with the same addresses and ports count, and a few of them would be taken for its data.
//!
//! When the listener is gone (a killed gateway), `tproxy` does not match: a new connection then goes end to end, and a
//! packet of an intercepted one is answered with a reset, as is a server's packet without a socket.

mod decision;
mod preceding;

use decision::OTHER_CLIENTS;
pub(crate) use decision::{INTERCEPTED, reason};
pub(crate) use preceding::{Astray, Preceding, preceding, remedy};

use kernel::routing_rules::RoutingRule;
use kernel::{Error, nftables, route, routes, routing_rules};
use relay::classes::Conditions;
use relay::engine::Intercepted;
use std::fmt::Write;

/// Matches the packet that asks for a connection.
const SYN: &str = "tcp flags & (fin|syn|rst|ack) == syn";
/// Priority of the chain that marks packets to be delivered: behind the reverse-path filters of firewalls, which use the packet's mark
/// (`fib saddr . mark . iif`, as firewalld and NixOS do at `filter + 10` and `mangle + 10`). With the mark they would find this host.
const DELIVERY: u32 = 250;

/// What the rules depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Name of the nftables table.
    pub table: String,
    /// Interfaces on which connections to intercept arrive.
    pub interfaces: Vec<String>,
    /// The satellite link, on which the MSS of bypassed connections is clamped to the path's MTU.
    pub satellite: Option<String>,
    /// Interfaces that lead to the satellite: what the routing table sends elsewhere is not intercepted. All lead there if empty.
    pub towards: Vec<String>,
    /// Port of the transparent listeners on 127.0.0.1 and ::1.
    pub port: u16,
    /// Base of the fwmarks.
    pub mark: u32,
    /// Routing table that delivers everything locally.
    pub routing_table: u32,
    /// Priority of the routing rule.
    pub priority: u32,
    /// Whether IPv6 connections can be delivered to this host; they go end to end if not.
    pub ipv6: bool,
    /// Whether SYNs are held, in the queue with the number of `port`, until the server has answered.
    pub hold: Option<Hold>,
}

/// Connections that are never intercepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bypass {
    /// Its name in status and metrics.
    pub name: String,
    /// What such connections are like.
    pub conditions: Conditions,
}

/// How SYNs are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// By nftables' own `queue`.
    Nftables,
    /// By the target NFQUEUE of iptables, for kernels without the former.
    Iptables,
}

impl Rules {
    /// fwmark of packets to be delivered to this host.
    pub fn deliver(&self) -> u32 {
        self.mark + 1
    }

    /// The option of `ip` for each family that the host speaks, and all of its addresses.
    fn families(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        [("-4", "0.0.0.0/0"), ("-6", "::/0")].into_iter().take(if self.ipv6 { 2 } else { 1 })
    }

    fn near(&self) -> u32 {
        self.mark + 2
    }

    fn far(&self) -> u32 {
        self.mark + 3
    }

    fn bypass(&self) -> u32 {
        self.mark + 4
    }

    /// The bits of a connection's mark that are the gateway's.
    fn connection_bits(&self) -> u32 {
        self.near() | self.far() | self.bypass()
    }

    /// Matches packets of connections with this mark; of those without one for 0.
    fn has(&self, mark: u32) -> String {
        format!("ct mark & {:#x} == {mark:#x}", self.connection_bits())
    }

    /// Gives the packet's connection this mark.
    fn set(&self, mark: u32) -> String {
        format!("ct mark set ct mark & {:#x} | {mark:#x}", !self.connection_bits())
    }

    /// Matches a packet of a connection that conntrack had forgotten, or had not seen the beginning of.
    fn picked_up(&self) -> String {
        format!("ct state new {} tcp flags & (fin|syn|rst|ack) != syn", self.has(0))
    }

    /// fwmark of the sockets that the gateway makes towards servers.
    pub fn made(&self) -> u32 {
        self.mark + 5
    }

    /// fwmark of held SYNs that are to be answered with a reset.
    pub fn refused(&self) -> u32 {
        self.mark + 6
    }

    /// fwmark of the connections of the `tcp` transport across the satellite, by which the cross-layer congestion control knows them.
    pub fn crossing(&self) -> u32 {
        self.mark + 7
    }

    /// fwmark of the listeners for clients, and of what they accept, where accepted sockets would take over that of the SYN.
    pub fn accepted(&self) -> u32 {
        self.mark + 8
    }

    /// The script that sets up the table, in place of one that a killed predecessor may have left. Nothing is
    /// intercepted until [`Rules::intercept_script`] names destinations.
    pub fn setup_script(&self) -> String {
        let Self { table, port, .. } = self;
        let (deliver, made, picked_up) = (self.deliver(), self.made(), self.picked_up());
        let [is_undecided, is_near, is_far] = [0, self.near(), self.far()].map(|mark| self.has(mark));
        let [set_near, set_far, set_bypass] = [self.near(), self.far(), self.bypass()].map(|mark| self.set(mark));
        let decision = self.decision_chains();
        // Behind the rules of others that mark packets for policy routing, where SYNs are not to be held by iptables at that place.
        let arrival = if self.hold == Some(Hold::Iptables) { "mangle - 10" } else { "mangle + 5" };
        let lan = quoted_list(&self.interfaces);
        let (mut arrival_rules, mut near_rules) = (String::new(), String::new());
        if !self.interfaces.is_empty() {
            arrival_rules = format!("    iifname {lan} {SYN} {is_undecided} fib daddr type != local jump decide\n");
            if self.hold == Some(Hold::Nftables) {
                let _ = writeln!(arrival_rules, "    iifname {lan} {SYN} {is_near} queue flags bypass to {port}");
            }
            if self.hold.is_some() {
                near_rules = format!("    meta mark {:#x} meta l4proto tcp reject with tcp reset\n", self.refused());
            }
            let mut tproxy6 = String::new();
            if self.ipv6 {
                let _ = writeln!(
                    tproxy6,
                    "    iifname {lan} {is_near} meta l4proto tcp meta nfproto ipv6 tproxy ip6 to [::1]:{port} meta mark set {deliver:#x} accept"
                );
            }
            let _ = write!(
                near_rules,
                "    iifname {lan} {picked_up} socket transparent 1 {set_near}
    {is_near} socket transparent 1 meta mark set {deliver:#x} accept
    iifname {lan} {is_near} meta l4proto tcp meta nfproto ipv4 tproxy ip to 127.0.0.1:{port} meta mark set {deliver:#x} accept
{tproxy6}    iifname {lan} {is_near} {SYN} {set_bypass} accept
    iifname {lan} {is_near} meta l4proto tcp reject with tcp reset
"
            );
        }
        let forward_rules = self.satellite.as_ref().map_or(String::new(), |sat| {
            format!(
                "    oifname \"{sat}\" tcp flags & (syn|rst) == syn tcp option maxseg size set rt mtu
    iifname \"{sat}\" tcp flags & (syn|rst) == syn tcp option maxseg size set rt mtu
"
            )
        });
        format!(
            "table inet {table} {{}}
delete table inet {table}
table inet {table} {{
{decision}  chain arrival {{
    type filter hook prerouting priority {arrival}; policy accept;
{arrival_rules}  }}
  chain prerouting {{
    type filter hook prerouting priority {DELIVERY}; policy accept;
{near_rules}    {is_far} ct direction original {SYN} {set_bypass} accept
    {picked_up} socket transparent 1 {set_far}
    {is_far} socket transparent 1 meta mark set {deliver:#x} accept
    ct state {{ invalid, untracked }} meta l4proto tcp socket transparent 1 meta mark set {deliver:#x} accept
    {is_far} ct direction reply meta l4proto tcp fib daddr type != local reject with tcp reset
  }}
  chain output {{
    type filter hook output priority mangle; policy accept;
    meta mark {made:#x} {set_far}
    {picked_up} fib saddr type != local {set_near}
    icmp type redirect drop
    icmpv6 type nd-redirect drop
  }}
  chain forward {{
    type filter hook forward priority mangle; policy accept;
    meta mark {deliver:#x} drop
    {is_near} meta l4proto tcp drop
    {is_far} meta l4proto tcp drop
{forward_rules}  }}
}}
"
        )
    }

    /// The script that removes the table, whether or not it exists.
    pub fn removal_script(&self) -> String {
        let table = &self.table;
        format!("table inet {table} {{}}\ndelete table inet {table}\n")
    }

    /// The `ip` commands (without the word `ip`) that deliver marked packets to this host.
    pub fn setup_commands(&self) -> Vec<String> {
        let Self { routing_table, priority, .. } = self;
        let deliver = self.deliver();
        self.families()
            .flat_map(|(family, everything)| {
                [
                    format!("{family} route replace local {everything} dev lo table {routing_table}"),
                    format!("{family} rule add fwmark {deliver:#x} lookup {routing_table} priority {priority}"),
                ]
            })
            .collect()
    }

    /// Whether `rule` is the one of [`Rules::setup_commands`].
    fn is_own(&self, rule: &RoutingRule) -> bool {
        (rule.table, rule.priority, rule.mark) == (self.routing_table, self.priority, Some((self.deliver(), u32::MAX)))
    }

    /// The `ip` commands that undo [`Rules::setup_commands`]; each fails harmlessly where there is nothing to undo.
    pub fn removal_commands(&self) -> Vec<String> {
        let Self { routing_table, priority, .. } = self;
        let deliver = self.deliver();
        self.families()
            .flat_map(|(family, everything)| {
                [
                    format!("{family} rule del fwmark {deliver:#x} lookup {routing_table} priority {priority}"),
                    format!("{family} route del local {everything} dev lo table {routing_table}"),
                ]
            })
            .collect()
    }

    /// The commands that put SYNs to be held into the queue where nftables cannot: between the chain that decides and
    /// the one that delivers. Program and arguments. `verb` is `-I` to insert, `-D` to delete, `-C` to check for the rule.
    pub fn hold_commands(&self, verb: &str) -> Vec<(&'static str, String)> {
        if self.hold != Some(Hold::Iptables) {
            return Vec::new();
        }
        let (near, bits, port) = (self.near(), self.connection_bits(), self.port);
        let command = |interface: &String| {
            format!(
                "-w -t mangle {verb} PREROUTING -i {interface} -p tcp --syn -m connmark --mark {near:#x}/{bits:#x} \
                 -j NFQUEUE --queue-num {port} --queue-bypass"
            )
        };
        let each = |program| self.interfaces.iter().map(move |interface| (program, command(interface)));
        let programs: &[_] = if self.ipv6 { &["iptables", "ip6tables"] } else { &["iptables"] };
        programs.iter().copied().flat_map(each).collect()
    }

    /// Everything that a start runs, as an operator would type it.
    pub fn dry_run(&self, accelerated: &[Intercepted], exempt: &[Bypass]) -> String {
        let mut text = String::new();
        for command in self.removal_commands() {
            let _ = writeln!(text, "ip {command} 2>/dev/null");
        }
        for command in self.setup_commands() {
            let _ = writeln!(text, "ip {command}");
        }
        for (program, arguments) in self.hold_commands("-I") {
            let _ = writeln!(text, "{program} {arguments}");
        }
        let scripts = self.setup_script() + &self.exempt_script(exempt, &[]);
        let _ = write!(text, "nft -f - <<'EOF'\n{scripts}EOF\n");
        let script = self.intercept_script(accelerated);
        let _ = write!(text, "# once every peer answers:\nnft -f - <<'EOF'\n{script}EOF\n");
        text
    }
}

/// The rules in force; removed when dropped.
#[derive(Debug)]
pub struct Installed {
    rules: Rules,
    accelerated: Vec<Intercepted>,
    exempt: Vec<Bypass>,
    /// The table has been in force.
    is_set_up: bool,
    /// The table is this process's, and not still the one of a process before it.
    is_own: bool,
    /// The table's number in the kernel: one that another program has loaded in its place has another.
    handle: Option<u64>,
    /// What keeps packets from being delivered, as of the last [`Installed::repair`].
    astray: Astray,
    /// Another process answers for them.
    is_disowned: bool,
}

impl Installed {
    /// Sets up `rules` in the network namespace of the calling thread, in place of leftovers of a predecessor.
    ///
    /// # Errors
    /// If `nft` or `ip` is missing or refuses; nothing stays behind then.
    pub fn new(rules: Rules) -> Result<Self, Error> {
        let mut installed = Self {
            rules,
            accelerated: Vec::new(),
            exempt: Vec::new(),
            is_set_up: false,
            is_own: false,
            handle: None,
            astray: Astray::default(),
            is_disowned: false,
        };
        installed.remove_commands();
        for command in installed.rules.setup_commands() {
            routes::ip(&command)?;
        }
        installed.set_up()?;
        installed.is_set_up = true;
        Ok(installed)
    }

    /// Takes the place of a process that leaves its rules, which are `rules` but for the interfaces; the next [`Installed::repair`] puts
    /// them in force and has `accelerated` intercepted. Relayed connections notice nothing: the table changes in one step, and routes
    /// stay as they are.
    pub fn adopt(rules: Rules, accelerated: Vec<Intercepted>, exempt: Vec<Bypass>) -> Self {
        let (handle, astray) = (None, Astray::default());
        Self { rules, accelerated, exempt, is_set_up: true, is_own: false, handle, astray, is_disowned: false }
    }

    /// Checks that the rules of a gateway could take the place of another's: nothing changes.
    ///
    /// # Errors
    /// If `nft` is missing or refuses.
    pub fn check(rules: &Rules, exempt: &[Bypass]) -> Result<(), Error> {
        // What holds SYNs depends on the kernel; the running gateway has found it out.
        let rules = Rules { hold: rules.hold.map(|_| Hold::Iptables), ..rules.clone() };
        let exempt = if exempt.is_empty() { String::new() } else { rules.exempt_script(exempt, &[]) };
        nftables::check_script(&(rules.setup_script() + &exempt))
    }

    /// Puts all of the table in force in one step, for the first time: it is found out how this kernel can hold packets.
    fn set_up(&mut self) -> Result<(), Error> {
        if let Err(error) = self.set_up_again() {
            if self.rules.hold != Some(Hold::Nftables) {
                return Err(error);
            }
            self.rules.hold = Some(Hold::Iptables);
            if let Err(error) = self.set_up_again() {
                // The next attempt begins with nftables again.
                self.rules.hold = Some(Hold::Nftables);
                return Err(error);
            }
        }
        self.is_own = true;
        Ok(())
    }

    /// Puts all of the table in force in one step.
    fn set_up_again(&mut self) -> Result<(), Error> {
        nftables::run_script(&self.script())?;
        self.handle = nftables::table_handle(&self.rules.table)?;
        self.hold_by_iptables()
    }

    fn script(&self) -> String {
        let Self { rules, accelerated, exempt, .. } = self;
        let exempt = if exempt.is_empty() { String::new() } else { rules.exempt_script(exempt, &[]) };
        let intercept = if accelerated.is_empty() { String::new() } else { rules.intercept_script(accelerated) };
        rules.setup_script() + &exempt + &intercept
    }

    /// Leaves the rules to another process, or answers for them again.
    pub fn set_owned(&mut self, is_owned: bool) {
        if is_owned && self.is_disowned {
            // The other process may have put a table of its own in the place of this one's. Without an answer, it is replaced.
            self.handle = nftables::table_handle(&self.rules.table).unwrap_or_default();
        }
        self.is_disowned = !is_owned;
    }

    /// Whether this process answers for the rules.
    pub fn is_owned(&self) -> bool {
        !self.is_disowned
    }

    /// Sets up the rules that a kernel needs whose nftables cannot hold packets.
    fn hold_by_iptables(&self) -> Result<(), Error> {
        for (program, arguments) in self.rules.hold_commands("-D") {
            // A leftover may or may not exist.
            let _ = routes::run(program, &arguments);
        }
        for (program, arguments) in self.rules.hold_commands("-I") {
            routes::run(program, &arguments).map_err(|error| {
                Error::Missing(format!("accept = \"confirmed\" needs nftables' queue or iptables' NFQUEUE: {error}"))
            })?;
        }
        Ok(())
    }

    fn remove_commands(&self) {
        for command in self.rules.removal_commands() {
            // What does not exist need not be removed.
            let _ = routes::ip(&command);
        }
        for (program, arguments) in self.rules.hold_commands("-D") {
            let _ = routes::run(program, &arguments);
        }
    }

    /// Sets up again what others have removed or replaced; returns what that was. Connections that were relayed before go on.
    ///
    /// # Errors
    /// If the kernel does not say what is there, or `nft` or `ip` refuses.
    pub fn repair(&mut self) -> Result<Vec<&'static str>, Error> {
        if self.is_disowned {
            return Ok(Vec::new());
        }
        let mut repaired = Vec::from_iter(self.repair_table()?);
        let mut astray = Astray::default();
        let names = ["IPv4 routing rule or route", "IPv6 routing rule or route"];
        let families: &[bool] = if self.rules.ipv6 { &[false, true] } else { &[false] };
        for (ipv6, name) in families.iter().zip(names) {
            if self.repair_routing(*ipv6, &mut astray)? {
                repaired.push(name);
            }
        }
        self.astray = astray;
        Ok(repaired)
    }

    /// Sets up the table, or what holds SYNs instead of it, if it is missing or not the one that was set up; returns what that was.
    fn repair_table(&mut self) -> Result<Option<&'static str>, Error> {
        if !self.is_own {
            self.set_up()?;
            return Ok(None);
        }
        let handle = nftables::table_handle(&self.rules.table)?;
        if handle.is_none() || handle != self.handle {
            self.set_up_again()?;
            return Ok(Some("nftables table"));
        }
        let checks = self.rules.hold_commands("-C");
        if !checks.iter().all(|(program, arguments)| routes::run(program, arguments).is_ok()) {
            self.hold_by_iptables()?;
            return Ok(Some("iptables rules that hold SYNs"));
        }
        Ok(None)
    }

    /// Sets up the routing rule and the route of a family if packets are not delivered; returns whether one of them was missing. Adds to
    /// `astray` what leads packets elsewhere.
    fn repair_routing(&self, ipv6: bool, astray: &mut Astray) -> Result<bool, Error> {
        let rules = &self.rules;
        let is_delivered = || route::is_delivered_here(rules.deliver(), ipv6);
        let mut found = routing_rules::list(ipv6)?;
        let mut was_missing = false;
        if !is_delivered()? {
            let is_there = found.iter().any(|rule| rules.is_own(rule));
            let family = if ipv6 { "-6" } else { "-4" };
            // One route takes the place of the other, but a second rule would stand beside the first.
            let is_needed =
                |command: &&String| command.starts_with(family) && !(is_there && command.contains(" rule add "));
            rules.setup_commands().iter().filter(is_needed).try_for_each(|command| routes::ip(command))?;
            let is_mended = is_delivered()?;
            was_missing = is_mended || !is_there;
            found = routing_rules::list(ipv6)?;
            // Another program may have removed what was set up here: the next look finds that, and sets it up.
            astray.is_certain |= !is_mended && self.is_routed(ipv6, &found)?;
        }
        astray.priorities.extend(preceding(rules, &found).iter().map(|rule| rule.priority));
        Ok(was_missing)
    }

    /// Whether the gateway's routing rule is among those of a family, and its route is there.
    fn is_routed(&self, ipv6: bool, family: &[RoutingRule]) -> Result<bool, Error> {
        let has_rule = family.iter().any(|rule| self.rules.is_own(rule));
        Ok(has_rule && route::has_local_default(self.rules.routing_table, ipv6)?)
    }

    /// What keeps packets from being delivered, as of the last [`Installed::repair`].
    pub(crate) fn astray(&self) -> &Astray {
        &self.astray
    }

    /// What is in force.
    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Intercepts the new connections that are `accelerated`, and no others. Connections that exist stay on their way.
    ///
    /// # Errors
    /// If `nft` refuses; what is intercepted is then what it was.
    pub fn intercept(&mut self, accelerated: Vec<Intercepted>) -> Result<(), Error> {
        if accelerated != self.accelerated && !self.is_disowned {
            nftables::run_script(&self.rules.intercept_script(&accelerated))?;
            self.accelerated = accelerated;
        }
        Ok(())
    }

    /// Leaves new connections alone that one of `exempt` names, and no others for that reason.
    ///
    /// # Errors
    /// If `nft` refuses; what is left alone is then what it was.
    pub fn exempt(&mut self, exempt: Vec<Bypass>) -> Result<(), Error> {
        if exempt != self.exempt && !self.is_disowned {
            nftables::run_script(&self.rules.exempt_script(&exempt, &self.exempt))?;
            self.exempt = exempt;
        }
        Ok(())
    }

    /// How many connections have gone end to end, by the reason.
    ///
    /// # Errors
    /// If `nft` refuses.
    pub fn counters(&self) -> Result<Vec<(String, u64)>, Error> {
        let counters = nftables::counters(&self.rules.table)?.into_iter().filter(|(name, _)| name != OTHER_CLIENTS);
        Ok(counters.map(|(name, packets)| (reason(&name), packets)).collect())
    }

    /// How many of those that no peer takes were to servers behind a peer that does not let their clients through.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub(crate) fn of_other_clients(&self) -> Result<u64, Error> {
        let counters = nftables::counters(&self.rules.table)?;
        Ok(counters.into_iter().find(|(name, _)| name == OTHER_CLIENTS).map_or(0, |(_, packets)| packets))
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        // Those of another process that were never taken over are its own.
        if self.is_disowned || self.is_set_up && !self.is_own {
            return;
        }
        let removed = nftables::run_script(&self.rules.removal_script());
        // Where the table could not be set up, for want of `nft` or of a capability, that is said already.
        if let (Err(error), true) = (removed, self.is_set_up) {
            tracing::warn!(%error, "the nftables table could not be removed");
        }
        self.remove_commands();
    }
}

fn quoted_list(names: &[String]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
    format!("{{ {} }}", quoted.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn rules() -> Rules {
        Rules {
            table: "bentpipe".into(),
            interfaces: vec!["lan0".into(), "lan1".into()],
            satellite: Some("sat0".into()),
            towards: vec!["sat0".into()],
            port: 4501,
            mark: 0x6270_0000,
            routing_table: 25_200,
            priority: 10,
            ipv6: true,
            hold: None,
        }
    }

    #[test]
    fn a_gateway_without_clients_intercepts_nothing() {
        let script = Rules { interfaces: Vec::new(), ..rules() }.setup_script();
        assert!(!script.contains("tproxy") && !script.contains("iifname {"), "{script}");
        assert!(script.contains("socket transparent 1"), "servers' answers still reach its sockets: {script}");
    }

    #[test]
    fn syns_are_held_between_the_decision_and_the_delivery() {
        let nftables = Rules { hold: Some(Hold::Nftables), ..rules() };
        assert!(nftables.setup_script().contains("queue flags bypass to 4501"));
        assert!(nftables.hold_commands("-I").is_empty());
        let iptables = Rules { hold: Some(Hold::Iptables), ..rules() };
        assert!(!iptables.setup_script().contains("queue"));
        assert_eq!(iptables.hold_commands("-I").len(), 4, "two interfaces, two families");
        assert!(iptables.hold_commands("-C").iter().all(|(_, arguments)| arguments.contains(" -C PREROUTING ")));
        for rules in [nftables, iptables] {
            assert!(rules.setup_script().contains("meta mark 0x62700006 meta l4proto tcp reject with tcp reset"));
        }
        assert!(!rules().setup_script().contains("0x62700006"));
    }

    #[test]
    fn a_host_without_ipv6_is_asked_for_none() {
        let rules = Rules { ipv6: false, hold: Some(Hold::Iptables), ..rules() };
        let script = rules.setup_script();
        assert!(script.contains("tproxy ip to 127.0.0.1:4501") && !script.contains("::1"), "{script}");
        assert!(script.contains("@near4") && !script.contains("@near6"), "{script}");
        let commands = [rules.setup_commands(), rules.removal_commands()].concat();
        assert!(commands.iter().all(|command| command.starts_with("-4")), "{commands:?}");
        assert!(rules.hold_commands("-I").iter().all(|(program, _)| *program == "iptables"));
    }

    /// Runs `act` with the rules set up in a network namespace of their own.
    fn with_installed(act: impl FnOnce(&mut Installed) + Send) {
        let Some(namespace) = kernel::testing::namespace() else { return };
        let act = || {
            routes::ip("link set lo up").unwrap();
            let mut installed = Installed::new(rules()).unwrap();
            assert_eq!(installed.repair().unwrap(), [""; 0]);
            act(&mut installed);
        };
        namespace.run(act).unwrap();
    }

    #[test]
    fn a_rule_that_comes_first_is_no_reason_to_set_up_what_is_there() {
        with_installed(|installed| {
            for ip in ["rule add table 100", "route add unreachable default table 100"] {
                routes::ip(ip).unwrap();
            }
            assert_eq!(installed.repair().unwrap(), [""; 0]);
            assert_eq!(*installed.astray(), Astray { priorities: [9].into(), is_certain: true });
            routes::ip("route flush table 25200").unwrap();
            assert_eq!(installed.repair().unwrap(), [""; 0], "packets still go elsewhere");
            routes::ip("rule delete table 100").unwrap();
            assert_eq!(installed.repair().unwrap(), [""; 0], "the route was set up");
            assert_eq!(*installed.astray(), Astray::default());
            routes::ip("rule delete priority 10").unwrap();
            assert_eq!(installed.repair().unwrap(), ["IPv4 routing rule or route"]);
        });
    }

    #[test]
    fn rule_and_route_of_either_family_are_found_as_long_as_they_are_there() {
        with_installed(|installed| {
            for (ipv6, family) in [(false, "-4"), (true, "-6")] {
                let is_routed = || installed.is_routed(ipv6, &routing_rules::list(ipv6).unwrap()).unwrap();
                assert!(is_routed());
                routes::ip(&format!("{family} route flush table 25200")).unwrap();
                assert!(!is_routed());
                routes::ip(&format!("{family} route add unreachable default table 25200")).unwrap();
                assert!(!is_routed());
            }
            installed.repair().unwrap();
            routes::ip("rule delete priority 10").unwrap();
            assert!(!installed.is_routed(false, &routing_rules::list(false).unwrap()).unwrap());
        });
    }

    #[test]
    fn what_is_removed_while_it_is_set_up_is_no_misrouting() {
        with_installed(|installed| {
            let is_over = std::sync::atomic::AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                        // What is not there need not be removed.
                        let _ = routes::ip("rule delete priority 10");
                        let _ = routes::ip("route flush table 25200");
                    }
                });
                let looks: Vec<Astray> =
                    (0..100).map(|_| installed.repair().map(|_| installed.astray().clone()).unwrap()).collect();
                is_over.store(true, std::sync::atomic::Ordering::Relaxed);
                assert!(looks.iter().all(|found| *found == Astray::default()), "{looks:?}");
            });
            installed.repair().unwrap();
            assert_eq!((installed.repair().unwrap(), installed.astray()), (vec![], &Astray::default()));
        });
    }

    #[test]
    fn a_rule_that_may_come_first_for_some_connections_is_found() {
        with_installed(|installed| {
            routes::ip("rule add from 198.18.1.0/24 table 100").unwrap();
            routes::ip("-6 rule add fwmark 7 table 100").unwrap();
            assert_eq!(installed.repair().unwrap(), [""; 0]);
            assert_eq!(*installed.astray(), Astray { priorities: [9].into(), is_certain: false });
        });
    }

    /// As a reload of the firewall from what `nft list ruleset` has once shown.
    #[test]
    fn a_table_that_another_program_has_loaded_is_replaced() {
        with_installed(|installed| {
            let nft = |words: &[&str]| kernel::program::command("nft").args(words).output().unwrap();
            let saved = nft(&["list", "table", "inet", "bentpipe"]).stdout;
            assert!(!saved.is_empty());
            let saved = String::from_utf8(saved).unwrap();
            nftables::run_script(&format!("flush ruleset\n{saved}")).unwrap();
            assert_eq!(installed.repair().unwrap(), ["nftables table"]);
            assert_eq!(installed.repair().unwrap(), [""; 0]);
            // Another process of the gateway has had its own in the meantime.
            installed.set_owned(false);
            nftables::run_script(&format!("flush ruleset\n{saved}")).unwrap();
            installed.set_owned(true);
            assert_eq!(installed.repair().unwrap(), [""; 0]);
        });
    }

    #[test]
    fn every_command_that_sets_up_has_one_that_removes() {
        let (setup, removal) = (rules().setup_commands(), rules().removal_commands());
        assert_eq!(setup.len(), removal.len());
        for family in ["-4 rule", "-6 rule", "-4 route", "-6 route"] {
            assert!(setup.iter().any(|c| c.starts_with(family)) && removal.iter().any(|c| c.starts_with(family)));
        }
    }
}
