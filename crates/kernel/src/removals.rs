//! News of tables of nftables, routing rules and routes that are removed, through netlink: programs that set up a host's firewall or
//! network may remove what others have added.

use crate::Error;
use crate::netlink::{Message, NetlinkSocket};
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

/// Tells that a table of nftables, a routing rule or a route that delivers everything to this host has been removed, of the network
/// namespace of the thread that has made it: one of its descriptors is readable then.
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
        let open =
            || Ok(Self { firewall: NetlinkSocket::of_firewall(&[NFTABLES])?, routing: NetlinkSocket::new(&ROUTING)? });
        open().map_err(Error::while_doing("following the firewall and routing rules by netlink"))
    }

    /// Takes in all news; returns whether something has been removed. News that were lost for want of room count, too.
    pub fn take(&mut self) -> bool {
        let is_firewall = self.firewall.receive_all(|message| message.0 == TABLE_REMOVED);
        self.routing.receive_all(is_rule_or_local_default) | is_firewall
    }

    /// Its descriptors.
    pub fn descriptors(&self) -> [RawFd; 2] {
        [&self.firewall, &self.routing].map(|one| one.socket().as_raw_fd())
    }
}

/// Routers remove many other routes each second.
fn is_rule_or_local_default((kind, payload): Message<'_>) -> bool {
    let at = |at: usize| payload.get(at).copied();
    match kind {
        libc::RTM_DELRULE => true,
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
    fn what_others_remove_is_news_and_what_they_add_is_none() {
        let Some(namespace) = testing::namespace() else { return };
        let ip = |command: &str| IpBatch::new(&namespace).add(command).run().unwrap();
        let nft = |script: &str| namespace.run(|| nftables::run_script(script).unwrap()).unwrap();
        let mut removals = namespace.run(|| Removals::new().unwrap()).unwrap();
        ip("link set lo up");
        ip("route add local default dev lo table 25200");
        ip("rule add fwmark 1 lookup 25200 priority 10");
        ip("route add blackhole default table 25201");
        ip("route delete blackhole default table 25201");
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
