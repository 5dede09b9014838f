//! News of tables of nftables, routing rules and routes that are removed, through netlink: programs that set up a host's firewall or
//! network may remove what others have added. Routing rules that are added are news, too: they may come before others.

use crate::Error;
use crate::netlink::{HEADER, Message, NetlinkSocket};
use libc::{BPF_ABS, BPF_B, BPF_H, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET};
use socket2::SockFilter;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// The group of changes of nftables (`NFNLGRP_NFTABLES` in linux/netfilter/nfnetlink.h).
const NFTABLES: u32 = 7;
/// The groups of changes of routing rules and routes (rtnetlink(7)).
const ROUTING: [u32; 4] =
    [libc::RTNLGRP_IPV4_RULE, libc::RTNLGRP_IPV6_RULE, libc::RTNLGRP_IPV4_ROUTE, libc::RTNLGRP_IPV6_ROUTE];
/// The message about a table that is removed: the firewall's subsystem of nftables, and `NFT_MSG_DELTABLE`.
const TABLE_REMOVED: u16 = (libc::NFNL_SUBSYS_NFTABLES as u16) << 8 | libc::NFT_MSG_DELTABLE as u16;
/// Where `rtmsg` has the length of the destination's prefix and the type of the route.
const ROUTE_LENGTH_AT: usize = 1;
const ROUTE_TYPE_AT: usize = 7;
/// Where the header of a message (`nlmsghdr`) has its type.
const KIND_AT: usize = 4;

/// Tells that a table of nftables, a routing rule or a route that delivers everything to this host has been removed, or a routing rule
/// added, in the network namespace of the thread that has made it: one of its descriptors is readable then.
#[derive(Debug)]
pub struct Removals {
    firewall: NetlinkSocket,
    routing: NetlinkSocket,
}

impl Removals {
    /// From now on.
    ///
    /// # Errors
    /// If the kernel has no netlink, or none for its firewall.
    pub fn new() -> Result<Self, Error> {
        let open = || {
            let (firewall, routing) = (NetlinkSocket::of_firewall(&[NFTABLES])?, NetlinkSocket::new(&ROUTING)?);
            drop_other_routes(&routing)?;
            Ok(Self { firewall, routing })
        };
        open().map_err(Error::while_doing("following the firewall and routing rules by netlink"))
    }

    /// Takes in all news; returns whether there were any. News that were lost for want of room count, too.
    pub fn take(&mut self) -> bool {
        let is_firewall = self.firewall.receive_all(|message| message.0 == TABLE_REMOVED);
        self.routing.receive_all(is_rule_or_local_default) | is_firewall
    }

    /// Its descriptors.
    pub fn descriptors(&self) -> [RawFd; 2] {
        [&self.firewall, &self.routing].map(|one| one.socket().as_raw_fd())
    }
}

/// What [`is_rule_or_local_default`] says, for the kernel: routers change many routes each second, which need not wake this process.
fn drop_other_routes(routing: &NetlinkSocket) -> io::Result<()> {
    let load = |size: u32, at: usize| statement(BPF_LD | BPF_ABS | size, at as u32);
    // Loads are in network byte order, and the type of a message is in the host's.
    let kind = |kind: u16| u32::from(kind.to_be());
    routing.filter_news(&[
        load(BPF_H, KIND_AT),
        equals(kind(libc::RTM_DELRULE), 7, 0),
        equals(kind(libc::RTM_NEWRULE), 6, 0),
        equals(kind(libc::RTM_DELROUTE), 0, 4),
        load(BPF_B, HEADER + ROUTE_LENGTH_AT),
        equals(0, 0, 2),
        load(BPF_B, HEADER + ROUTE_TYPE_AT),
        equals(u32::from(libc::RTN_LOCAL), 1, 0),
        statement(BPF_RET | BPF_K, 0),
        statement(BPF_RET | BPF_K, u32::MAX),
    ])
}

fn statement(code: u32, value: u32) -> SockFilter {
    SockFilter::new(code as u16, 0, 0, value)
}

/// Skips `then` statements if what was loaded equals `value`, and `otherwise` if not.
fn equals(value: u32, then: u8, otherwise: u8) -> SockFilter {
    SockFilter::new((BPF_JMP | BPF_JEQ | BPF_K) as u16, then, otherwise, value)
}

fn is_rule_or_local_default((kind, payload): Message<'_>) -> bool {
    let at = |at: usize| payload.get(at).copied();
    match kind {
        libc::RTM_DELRULE | libc::RTM_NEWRULE => true,
        libc::RTM_DELROUTE => at(ROUTE_LENGTH_AT) == Some(0) && at(ROUTE_TYPE_AT) == Some(libc::RTN_LOCAL),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::IpBatch;
    use crate::{nftables, testing};

    #[test]
    fn what_others_remove_is_news_as_are_routing_rules_that_they_add() {
        let Some(namespace) = testing::namespace() else { return };
        let ip = |command: &str| IpBatch::new(&namespace).add(command).run().unwrap();
        let nft = |script: &str| namespace.run(|| nftables::run_script(script).unwrap()).unwrap();
        let mut removals = namespace.run(|| Removals::new().unwrap()).unwrap();
        ip("link set lo up");
        ip("route add local default dev lo table 25200");
        for family in ["-4", "-6"] {
            let rule = "rule add fwmark 1 lookup 25200 priority 10";
            assert!(namespace.command("ip").arg(family).args(rule.split(' ')).status().unwrap().success());
            assert!(removals.take(), "a rule may come before another one");
        }
        ip("route add blackhole default table 25201");
        ip("route delete blackhole default table 25201");
        ip("route add blackhole 2001:db8::/32 table 25201");
        ip("route delete blackhole 2001:db8::/32 table 25201");
        let is_woken =
            |removals: &Removals| removals.routing.socket().recv(&mut Vec::with_capacity(1), libc::MSG_PEEK).is_ok();
        assert!(!is_woken(&removals), "routes of others do not wake this process");
        nft("table inet one { chain any { }; }\nadd chain inet one other\nflush table inet one");
        assert!(!removals.take());
        for command in ["rule delete priority 10", "route flush table 25200"] {
            ip(command);
            assert!(removals.take(), "{command}");
            assert!(!removals.take(), "each removal is reported once");
        }
        nft("flush ruleset");
        assert!(removals.take());
    }
}
