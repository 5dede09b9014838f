//! The rules of policy routing through rtnetlink(7), as `ip rule` lists them.

use crate::Error;
use crate::netlink::{self, Message, NetlinkSocket};

/// Bytes of the header of a message about a rule (`fib_rule_hdr`), and where it has what.
const HEADER: usize = 12;
const FAMILY: usize = 0;
const TABLE: usize = 4;

/// Attributes (`FRA_*`, linux/fib_rules.h).
const PRIORITY: u16 = 6;
const MARK: u16 = 10;
const LARGE_TABLE: u16 = 15;
const MARK_MASK: u16 = 16;

/// A rule of policy routing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoutingRule {
    /// Its priority: rules of lower ones come first, and of those of one priority the older.
    pub priority: u32,
    /// The routing table that it leads to.
    pub table: u32,
    /// The fwmark of the packets that it is about, and the bits of it that count; `None` if it asks for none.
    pub mark: Option<(u32, u32)>,
}

impl RoutingRule {
    /// Whether it may be about packets with the fwmark `mark`.
    pub fn may_match(&self, mark: u32) -> bool {
        self.mark.is_none_or(|(wanted, mask)| mark & mask == wanted)
    }

    /// Whether it may be about packets with the fwmark `mark`, and is not about packets without one.
    pub fn is_for_mark(&self, mark: u32) -> bool {
        self.may_match(mark) && !self.may_match(0)
    }
}

/// The routing rules, in the order in which a packet meets them. The rule for the table `local` is none of them.
///
/// # Errors
/// If the kernel does not answer.
pub fn list(ipv6: bool) -> Result<Vec<RoutingRule>, Error> {
    let mut request = [0; HEADER];
    request[FAMILY] = if ipv6 { libc::AF_INET6 } else { libc::AF_INET } as u8;
    let mut found = Vec::new();
    let take = |(kind, payload): Message<'_>| {
        found.extend((kind == libc::RTM_NEWRULE).then(|| read(payload)).flatten());
    };
    NetlinkSocket::new(&[])
        .and_then(|mut socket| socket.ask(libc::RTM_GETRULE, true, &request, take))
        .map_err(Error::while_doing("listing routing rules"))?;
    found.retain(|rule| rule.table != libc::RT_TABLE_LOCAL.into());
    Ok(found)
}

/// Reads a rule; `None` if the kernel has cut it off.
fn read(rule: &[u8]) -> Option<RoutingRule> {
    let (mut priority, mut table, mut wanted, mut mask) = (0, u32::from(*rule.get(TABLE)?), None, u32::MAX);
    for (kind, value) in netlink::attributes(rule, HEADER) {
        let number = netlink::i32_at(&value, 0).map(|number| number as u32);
        match kind {
            PRIORITY => priority = number?,
            MARK => wanted = number,
            LARGE_TABLE => table = number?,
            MARK_MASK => mask = number?,
            _ => {}
        }
    }
    Some(RoutingRule { priority, table, mark: wanted.map(|wanted| (wanted, mask)) })
}
