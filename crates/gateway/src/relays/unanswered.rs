//! Servers that never answer connections made in clients' names: their replies take another path than through this gateway.

use super::log_limit::LogLimit;
use std::collections::BTreeSet;
use std::net::IpAddr;
use units::Instant;

/// The connections in a row to which no server has answered.
#[derive(Debug, Default)]
pub(super) struct Unanswered {
    count: u64,
    servers: BTreeSet<IpAddr>,
    /// How many connections had been made to servers before them.
    connected: u64,
    limit: LogLimit,
}

impl Unanswered {
    /// Fewer in a row may be servers that are down, or that a client looks for in vain.
    const FEW: u64 = 8;
    const FEW_SERVERS: usize = 3;

    /// `server` has not answered in time, while `connected` connections have been made in all. Returns how many in a row, if that is to be
    /// logged at `now`.
    pub(super) fn count(&mut self, now: Instant, connected: u64, server: IpAddr) -> Option<u64> {
        if connected != self.connected {
            self.servers.clear();
            (self.connected, self.count) = (connected, 0);
        }
        self.count += 1;
        if self.servers.len() < Self::FEW_SERVERS {
            self.servers.insert(server);
        }
        let is_rule = self.count >= Self::FEW && self.servers.len() >= Self::FEW_SERVERS;
        (is_rule && self.limit.admit(now).is_some()).then_some(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Duration;

    #[test]
    fn many_connections_to_several_servers_count_until_one_is_made() {
        let mut unanswered = Unanswered::default();
        let mut count = |second, connected, servers: u8| {
            let now = Instant::ZERO + Duration::from_secs(second);
            let one = |host: u8| unanswered.count(now, connected, IpAddr::from([192, 0, 2, host % servers]));
            (0..20).filter_map(one).collect::<Vec<_>>()
        };
        assert!(count(0, 0, 2).is_empty(), "two servers may be down");
        assert_eq!(count(1, 1, 3), [8], "once a minute");
        assert_eq!(count(62, 1, 3), [21]);
        assert_eq!(count(200, 2, 3), [8], "one was made before");
        assert!(count(201, 3, 1).is_empty());
    }
}
