//! Routing rules of other programs that come before the gateway's: packets that are to be delivered to the gateway meet them first.
//!
//! The kernel gives a rule that is added without a priority one just before the first rule behind that for the table `local`, which is
//! mostly the gateway's.

use super::Rules;
use kernel::routing_rules::RoutingRule;
use std::collections::BTreeSet;

/// Those of a family's rules that packets to be delivered to the gateway may meet before the gateway's rule. While that is not there,
/// it comes behind all of its priority.
pub(crate) fn preceding(rules: &Rules, family: &[RoutingRule]) -> Vec<RoutingRule> {
    let own = family.iter().position(|rule| rules.is_own(rule)).unwrap_or(family.len());
    let may_lead = |rule: &&RoutingRule| rule.priority <= rules.priority && rule.may_match(rules.deliver());
    family[..own].iter().filter(may_lead).copied().collect()
}

/// How to have the gateway's rule come before others, the first of which has the priority `first`.
pub(crate) fn remedy(first: u32) -> String {
    match first {
        0 | 1 => "give those rules a larger number, such as 1000".to_owned(),
        _ => format!("set [intercept] rule_priority = {}, or give those rules a larger number", first - 1),
    }
}

/// What may lead, or leads, packets elsewhere that are to be delivered to the gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Astray {
    /// Priorities of the rules that come before the gateway's.
    pub(super) priorities: BTreeSet<u32>,
    /// Packets are led elsewhere, although the gateway's rule and route are there.
    pub(super) is_certain: bool,
}

impl Astray {
    /// The priorities, as a list for people.
    fn listed(&self) -> String {
        self.priorities.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
    }
}

/// Logs what leads packets elsewhere, once for each change.
#[derive(Debug, Default)]
pub(crate) struct Preceding {
    logged: Astray,
}

impl Preceding {
    /// Takes over what was found for `rules`.
    pub(crate) fn look(&mut self, rules: &Rules, found: &Astray) {
        if *found == self.logged {
            return;
        }
        let before = std::mem::replace(&mut self.logged, found.clone());
        let (priorities, own) = (found.listed(), rules.priority);
        let table = rules.routing_table;
        match found.priorities.first() {
            Some(first) if found.is_certain => tracing::error!(
                priorities,
                own,
                "routing rules before the gateway's misroute intercepted connections, which hang (ip rule): {}",
                remedy(*first)
            ),
            Some(first) => tracing::warn!(
                priorities,
                own,
                "routing rules come before the gateway's and may misroute intercepted connections (ip rule): {}",
                remedy(*first)
            ),
            None if found.is_certain => tracing::error!(
                "intercepted connections are misrouted although the gateway's routing rule and route are there: see ip rule, and ip route \
                 show table {table}"
            ),
            None if before.priorities.is_empty() => {
                tracing::info!("intercepted connections are delivered to the gateway again");
            }
            None => tracing::info!("no routing rule comes before the gateway's any more"),
        }
    }
}
