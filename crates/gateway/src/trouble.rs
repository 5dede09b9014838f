//! Why a peer is not up, said to people in time: what was seen of it, and what to check.

use satpep::Versions;
use status::Trouble;
use std::borrow::Cow;
use units::{Duration, Instant};

/// How long a peer may take to come up before anything is said.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same trouble is said again after this time, and another one no sooner than after the time below.
const AGAIN: Duration = Duration::from_secs(600);
const NEXT: Duration = Duration::from_secs(30);

/// The reason of [`other_versions`].
pub(crate) const OTHER_VERSION: &str = "other_version";

/// That two gateways speak no version of the protocol in common, and whether the peer has proved that it is so.
pub(crate) fn other_versions(ours: Versions, theirs: Versions, is_proven: bool) -> Trouble {
    let doubt = if is_proven { "" } else { " (not authenticated: anyone who knows the public keys can forge this)" };
    let says = format!(
        "it speaks version {theirs} of the protocol and this gateway version {ours}{doubt}: {}",
        remedy(ours, theirs)
    );
    Trouble::new(OTHER_VERSION, says)
}

/// What the system says of the way to a peer, as far as it says that there is none.
pub(crate) fn of_way(error: &std::io::Error) -> Option<Trouble> {
    use std::io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, PermissionDenied};
    Some(match error.kind() {
        ConnectionRefused => Trouble::new(
            "port_closed",
            "its host answers that nothing listens at that port: check that the gateway runs there, its listen and \
             transport, and the port in address",
        ),
        HostUnreachable => Trouble::new(
            "host_unreachable",
            "the network answers that the host cannot be reached: check address, the far modem and its router",
        ),
        NetworkUnreachable => {
            Trouble::new("no_route", "this host has no route to it: check address, and `ip route get` with it")
        }
        PermissionDenied => Trouble::new(
            "prohibited",
            "a firewall refuses it: check the rules of this host and of routers on the path for the port in address",
        ),
        _ => return None,
    })
}

/// What to do where two gateways have no version in common.
pub(crate) fn remedy(ours: Versions, theirs: Versions) -> &'static str {
    if theirs.are_older_than(ours) { "it is older, upgrade it" } else { "this gateway is older, upgrade it" }
}

/// When to say what about each peer.
#[derive(Debug)]
pub(crate) struct Watch {
    peers: Vec<Watched>,
}

#[derive(Debug, Clone, Default)]
struct Watched {
    /// Since when it has not been up.
    down_since: Option<Instant>,
    said: Option<(Instant, Cow<'static, str>)>,
}

impl Watch {
    /// Of so many peers, none of which is up.
    pub(crate) fn new(peers: usize) -> Self {
        Self { peers: vec![Watched::default(); peers] }
    }

    /// Peer `at` is no more: its place may be another's.
    pub(crate) fn forget(&mut self, at: usize) {
        if let Some(watched) = self.peers.get_mut(at) {
            *watched = Watched::default();
        }
    }

    /// Takes in how it stands with peer `at`: `trouble` is `None` while it is up. Returns for how long it has not been, if
    /// that is to be said now.
    pub(crate) fn is_due(&mut self, now: Instant, at: usize, trouble: Option<&Trouble>) -> Option<Duration> {
        if at >= self.peers.len() {
            self.peers.resize(at + 1, Watched::default());
        }
        let watched = &mut self.peers[at];
        let Some(trouble) = trouble else {
            *watched = Watched::default();
            return None;
        };
        let down = now.since(*watched.down_since.get_or_insert(now));
        let is_due = match &watched.said {
            None => true,
            Some((when, reason)) => now.since(*when) >= if *reason == trouble.reason { AGAIN } else { NEXT },
        };
        if down < PATIENCE || !is_due {
            return None;
        }
        watched.said = Some((now, trouble.reason.clone()));
        Some(down)
    }
}

/// Says things about strangers, of whom there may be any number, a few at a time.
#[derive(Debug, Default)]
pub(crate) struct Rarely {
    /// What was said, and when.
    said: Vec<(Instant, String)>,
}

impl Rarely {
    /// As many different things are said in the time after which each may be said again.
    const MAX: usize = 16;

    /// Whether to say `what` now.
    pub(crate) fn is_due(&mut self, now: Instant, what: &str) -> bool {
        self.said.retain(|(when, _)| now.since(*when) < AGAIN);
        let is_due = self.said.len() < Self::MAX && !self.said.iter().any(|(_, said)| said == what);
        if is_due {
            self.said.push((now, what.to_owned()));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn trouble_is_said_after_ten_seconds_then_rarely_and_at_once_when_it_is_another() {
        let (silent, closed) = (Trouble::new("no_answer", "silent"), Trouble::new("port_closed", "closed"));
        let mut watch = Watch::new(1);
        let mut said = Vec::new();
        for second in 0..1300 {
            let trouble = if (100..200).contains(&second) { &closed } else { &silent };
            if watch.is_due(at(second), 0, Some(trouble)).is_some() {
                said.push((second, trouble.reason.clone()));
            }
        }
        let expected = [(10, "no_answer"), (100, "port_closed"), (200, "no_answer"), (800, "no_answer")];
        assert_eq!(said, expected.map(|(second, reason)| (second, reason.into())));
        assert_eq!(watch.is_due(at(1300), 0, None), None);
        assert_eq!(watch.is_due(at(1301), 0, Some(&silent)), None, "it has been up: its patience starts again");
        assert_eq!(watch.is_due(at(1311), 0, Some(&silent)), Some(Duration::from_secs(10)));
    }

    #[test]
    fn trouble_with_a_peer_that_takes_the_place_of_another_is_said() {
        let silent = Trouble::new("no_answer", "silent");
        let mut watch = Watch::new(1);
        let is_due = |watch: &mut Watch, second| watch.is_due(at(second), 0, Some(&silent)).is_some();
        assert!(!is_due(&mut watch, 0) && is_due(&mut watch, 10) && !is_due(&mut watch, 20));
        watch.forget(0);
        assert!(!is_due(&mut watch, 21) && is_due(&mut watch, 31));
    }

    #[test]
    fn of_two_versions_the_older_one_is_named() {
        let (older, newer) = (Versions::new(3, 3).unwrap(), Versions::new(4, 5).unwrap());
        let says = |ours, theirs, is_proven| other_versions(ours, theirs, is_proven).says;
        assert_eq!(
            says(older, newer, true),
            "it speaks version 4 to 5 of the protocol and this gateway version 3: this gateway is older, upgrade it"
        );
        assert!(says(newer, older, true).ends_with("it is older, upgrade it"));
        assert!(says(newer, older, false).contains("not authenticated"));
    }

    #[test]
    fn any_number_of_strangers_is_said_rarely_and_takes_little_memory() {
        let mut rarely = Rarely::default();
        let said = (0..100_000).filter(|n| rarely.is_due(at(n / 1000), &n.to_string())).count();
        assert_eq!((said, rarely.said.len()), (Rarely::MAX, Rarely::MAX));
        assert!(rarely.is_due(at(700), "0") && !rarely.is_due(at(701), "0"));
    }

    #[test]
    fn what_the_network_says_of_the_way_leads_to_what_to_check() {
        for (number, reason, check) in [
            (libc::ECONNREFUSED, "port_closed", "transport"),
            (libc::EHOSTUNREACH, "host_unreachable", "modem"),
            (libc::ENETUNREACH, "no_route", "ip route get"),
            (libc::EACCES, "prohibited", "firewall"),
            (libc::EPERM, "prohibited", "firewall"),
        ] {
            let trouble = of_way(&std::io::Error::from_raw_os_error(number)).unwrap();
            assert_eq!(trouble.reason, reason);
            assert!(trouble.says.contains(check), "{}", trouble.says);
        }
        // These say nothing of the way: the socket is full, or a packet too large.
        for number in [libc::EAGAIN, libc::EMSGSIZE, libc::ENOBUFS] {
            assert_eq!(of_way(&std::io::Error::from_raw_os_error(number)), None);
        }
    }

    #[test]
    fn a_peer_that_comes_later_has_its_own_patience() {
        let trouble = Trouble::new("no_answer", "silent");
        let mut watch = Watch::new(1);
        assert_eq!(watch.is_due(at(0), 0, Some(&trouble)), None);
        assert_eq!(watch.is_due(at(9), 3, Some(&trouble)), None);
        assert_eq!(watch.is_due(at(10), 0, Some(&trouble)), Some(PATIENCE));
        assert_eq!(watch.is_due(at(18), 3, Some(&trouble)), None);
        assert_eq!(watch.is_due(at(19), 3, Some(&trouble)), Some(PATIENCE));
    }
}
