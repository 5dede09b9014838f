//! Clients that no peer lets through to the servers behind it, as where the far gateway's routes name other networks than there are here:
//! their connections go end to end, which the log has to say, for nothing else is wrong.

use crate::relays::log_limit::LogLimit;
use ipnet::IpNet;
use relay::engine::Intercepted;
use units::Instant;

/// Networks of clients that a line of the log names at most.
const MAX_NAMED: usize = 16;

/// What was seen of their connections, and what the log has said.
#[derive(Debug, Default)]
pub(crate) struct OtherClients {
    /// How many connections the firewall had counted at the last look.
    counted: u64,
    /// The clients that the peers let through when the log had its last line.
    warned_of: Vec<IpNet>,
    lines: LogLimit,
}

impl OtherClients {
    /// The firewall has `counted` connections of other clients than those of `accelerated`. Warns of the first one, and again only when
    /// the peers let other clients through.
    pub(crate) fn look(&mut self, now: Instant, counted: u64, accelerated: &[Intercepted]) {
        if let Some(permitted) = self.news(now, counted, accelerated) {
            let named: Vec<_> = permitted.iter().take(MAX_NAMED).map(ToString::to_string).collect();
            tracing::warn!(
                permitted = named.join(", "),
                "a client outside all networks that the peers permit: connections of such clients go end to end; name their network in the \
                 routes (or allow_sources) of this gateway's [[peer]] at the far gateway"
            );
        }
    }

    /// The clients that the peers let through, if a line is due.
    fn news(&mut self, now: Instant, counted: u64, accelerated: &[Intercepted]) -> Option<Vec<IpNet>> {
        let before = std::mem::replace(&mut self.counted, counted);
        // A table that was set up again counts from zero.
        let are_new = if counted < before { counted > 0 } else { counted > before };
        let permitted = IpNet::aggregate(&accelerated.iter().flat_map(|group| group.clients.clone()).collect());
        if !are_new || permitted.is_empty() || permitted == self.warned_of {
            return None;
        }
        self.lines.admit(now)?;
        self.warned_of.clone_from(&permitted);
        Some(permitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Duration;

    #[test]
    fn the_first_connection_of_another_client_is_warned_of_until_the_peers_let_others_through() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let nets = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpNet>>();
        let group = |clients: &[&str]| [Intercepted { clients: nets(clients), servers: nets(&["0.0.0.0/0"]) }];
        let (one, other) = (group(&["10.1.0.0/24"]), group(&["10.2.0.0/24"]));
        let mut others = OtherClients::default();
        assert_eq!(others.news(at(0), 0, &one), None, "there is no such connection");
        assert_eq!(others.news(at(5), 3, &one), Some(nets(&["10.1.0.0/24"])));
        assert_eq!((others.news(at(10), 9, &one), others.news(at(900), 10, &one)), (None, None), "the log says so");
        assert_eq!(others.news(at(905), 10, &other), None, "no connection came since");
        assert_eq!(others.news(at(910), 2, &other), Some(nets(&["10.2.0.0/24"])), "the table was set up again");
        assert_eq!(others.news(at(915), 4, &one), None, "once a minute, however often the peers change");
        assert_eq!(others.news(at(970), 5, &one), Some(nets(&["10.1.0.0/24"])));
        assert_eq!(others.news(at(1100), 6, &group(&[])), None, "all clients are let through");
    }
}
