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
const MARK_MASK: u16 = 16;

/// The priorities of the rules that a packet with the fwmark `mark` may meet before one of `priority`, in order. The rule for the table
/// `local` is none of them.
///
/// # Errors
/// If the kernel does not answer.
pub fn before(priority: u32, mark: u32, ipv6: bool) -> Result<Vec<u32>, Error> {
    let mut request = [0; HEADER];
    request[FAMILY] = if ipv6 { libc::AF_INET6 } else { libc::AF_INET } as u8;
    let mut found = Vec::new();
    let take = |(kind, payload): Message<'_>| {
        found.extend((kind == libc::RTM_NEWRULE).then(|| priority_for(payload, mark)).flatten());
    };
    NetlinkSocket::new(&[])
        .and_then(|mut socket| socket.ask(libc::RTM_GETRULE, true, &request, take))
        .map_err(Error::while_doing("listing routing rules"))?;
    found.retain(|of| *of < priority);
    Ok(found)
}

/// The priority of a rule, if it may be about packets with `mark`.
fn priority_for(rule: &[u8], mark: u32) -> Option<u32> {
    let is_local = rule.get(TABLE).is_some_and(|table| *table == libc::RT_TABLE_LOCAL);
    let (mut priority, mut wanted, mut mask) = (0, None, u32::MAX);
    for (kind, value) in netlink::attributes(rule, HEADER) {
        let number = netlink::i32_at(&value, 0).map(|number| number as u32);
        match kind {
            PRIORITY => priority = number?,
            MARK => wanted = number,
            MARK_MASK => mask = number?,
            _ => {}
        }
    }
    let is_other_mark = wanted.is_some_and(|wanted| mark & mask != wanted);
    (!is_local && !is_other_mark).then_some(priority)
}
