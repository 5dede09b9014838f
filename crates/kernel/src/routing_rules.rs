//! The rules of policy routing through rtnetlink(7), as `ip rule` lists them.

use crate::Error;
use crate::netlink::{self, Message, NetlinkSocket};

/// Bytes of the header of a message about a rule (`fib_rule_hdr`), and where it has what.
const HEADER: usize = 12;
const FAMILY: usize = 0;
const DESTINATION_LENGTH: usize = 1;
const SOURCE_LENGTH: usize = 2;
const TRAFFIC_CLASS: usize = 3;
const TABLE: usize = 4;
const FLAGS: usize = 8;

/// Flag of a rule that is about all packets that it does not describe (`FIB_RULE_INVERT`).
const INVERTED: u32 = 2;

/// Attributes (`FRA_*`, linux/fib_rules.h).
const GOTO: u16 = 4;
const PRIORITY: u16 = 6;
const MARK: u16 = 10;
const FLOW: u16 = 11;
const SUPPRESSED_GROUP: u16 = 13;
const SUPPRESSED_LENGTH: u16 = 14;
const LARGE_TABLE: u16 = 15;
const MARK_MASK: u16 = 16;
const PADDING: u16 = 18;
const PROTOCOL: u16 = 21;

/// A rule of policy routing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoutingRule {
    /// Its priority: rules of lower ones come first, and of those of one priority the older.
    pub priority: u32,
    /// The routing table that it leads to.
    pub table: u32,
    /// The fwmark of the packets that it describes, and the bits of it that count; `None` if it asks for none.
    pub mark: Option<(u32, u32)>,
    /// Whether it describes packets by something else as well, such as their source.
    pub has_other_selectors: bool,
    /// Whether it is about all packets but those that it describes.
    pub is_inverted: bool,
}

impl RoutingRule {
    /// Whether it may be about packets with the fwmark `mark`.
    pub fn may_match(&self, mark: u32) -> bool {
        let is_described = self.mark.is_none_or(|(wanted, mask)| mark & mask == wanted);
        if self.is_inverted { !is_described || self.has_other_selectors } else { is_described }
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
    let flags = netlink::i32_at(rule, FLAGS)? as u32;
    let mut found = RoutingRule {
        priority: 0,
        table: u32::from(rule[TABLE]),
        mark: None,
        has_other_selectors: [DESTINATION_LENGTH, SOURCE_LENGTH, TRAFFIC_CLASS].iter().any(|at| rule[*at] != 0),
        is_inverted: flags & INVERTED != 0,
    };
    let (mut wanted, mut mask) = (None, u32::MAX);
    for (kind, value) in netlink::attributes(rule, HEADER) {
        let number = netlink::i32_at(&value, 0).map(|number| number as u32);
        match kind {
            PRIORITY => found.priority = number?,
            MARK => wanted = number,
            LARGE_TABLE => found.table = number?,
            MARK_MASK => mask = number?,
            GOTO | FLOW | SUPPRESSED_GROUP | SUPPRESSED_LENGTH | PADDING | PROTOCOL => {}
            _ => found.has_other_selectors = true,
        }
    }
    found.mark = wanted.map(|wanted| (wanted, mask));
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::IpBatch;
    use crate::testing;

    #[test]
    fn an_inverted_rule_is_about_what_it_does_not_name() {
        let Some(namespace) = testing::namespace() else { return };
        // As wg-quick adds it, and then two that name more than a mark, and nothing.
        for rule in ["not fwmark 51820", "not from 198.18.0.0/15 fwmark 7", "not from all", "fwmark 0x4/0xff"] {
            IpBatch::new(&namespace).add(format!("rule add {rule} table 77 priority 9")).run().unwrap();
        }
        let rules = namespace.run(|| list(false).unwrap()).unwrap();
        let may_match: Vec<_> = rules
            .iter()
            .filter(|rule| rule.priority == 9)
            .map(|rule| [1, 4, 7, 51_820].map(|mark| rule.may_match(mark)))
            .collect();
        assert_eq!(
            may_match,
            [[true, true, true, false], [true; 4], [false; 4], [false, true, false, false]],
            "{rules:?}"
        );
        assert!(!rules.iter().any(|rule| rule.is_for_mark(1)), "unmarked packets meet the same rules");
    }
}
