//! Why a peer of the `tcp` transport is not up, and who else connects.

use super::TcpTransport;
use super::session::Initiator;
use super::tunnel::Tunnel;
use crate::trouble::remedy;
use ::satpep::Versions;
use status::Trouble;
use std::io;
use std::net::IpAddr;
use tcp_tunnel::{ChallengeError, GreetingError, SPOKEN};
use units::Instant;

/// The first byte of a connection that begins with TLS (RFC 8446, section 5.1).
const TLS_HANDSHAKE: u8 = 22;

impl TcpTransport {
    /// Why `peer` is not up at `now`, by what was seen of it last; `None` if it is, or as long as its session lasts that it has begun, unless
    /// it is heard there and does not answer at its address.
    pub(super) fn trouble_of(&self, now: Instant, peer: usize) -> Option<Trouble> {
        let known = &self.peers[peer];
        if known.is_direct() || known.initiator.as_ref().is_some_and(Initiator::is_up) {
            return None;
        }
        if known.responder.is_some() {
            let silence = now.since(known.silent_since(self.probe_timers.keepalive));
            let is_heard = known.heard_at > known.lost_at && silence < self.probe_timers.unresponsive_after;
            return known.trouble.clone().filter(|_| known.initiator.is_some() && is_heard).map(in_one_direction);
        }
        let says = if known.initiator.is_some() {
            "it has not answered yet"
        } else {
            "it has no address here, so that it must initiate the session, and it has not: check that its gateway runs, and its address, \
             port, public_key, transport and mode for this one"
        };
        let reason = if known.initiator.is_some() { "no_answer" } else { "not_initiated" };
        Some(known.trouble.clone().unwrap_or_else(|| Trouble::new(reason, says)))
    }

    /// The version of the session with `peer`: of the one that this gateway has begun, else of the one that the peer has.
    pub(super) fn version(&self, peer: usize) -> Option<u8> {
        let known = &self.peers[peer];
        match &known.initiator {
            Some(Initiator::Up { key, .. }) => key.version(),
            _ => known.sessions.back().and_then(|session| self.sessions.get(session)?.key.version()),
        }
    }

    /// The control connection with `peer` has failed before it was up.
    pub(super) fn note_failure(&mut self, peer: usize, error: &io::Error) {
        let trouble = match error.kind() {
            io::ErrorKind::TimedOut => no_answer(),
            io::ErrorKind::InvalidData if is_unknown_key(error) => wrong_key(),
            io::ErrorKind::InvalidData if is_denied(error) => not_accepted(),
            io::ErrorKind::InvalidData => Trouble::new(
                "tls",
                format!(
                    "TLS fails ({error}): check mode and cipher, which are the same on both sides, and each public_key"
                ),
            ),
            io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => not_accepted(),
            _ => crate::trouble::of_way(error).unwrap_or_else(|| Trouble::new("cannot_connect", error.to_string())),
        };
        self.peers[peer].trouble = Some(trouble);
    }

    /// `peer` has ended the control connection before it was up.
    pub(super) fn note_end(&mut self, peer: usize) {
        self.peers[peer].trouble = Some(not_accepted());
    }

    /// `peer` has said nothing for too long.
    pub(super) fn note_unresponsive(&mut self, peer: usize) {
        self.peers[peer].trouble = Some(no_answer());
    }

    /// What answers at `peer`'s address leads to no session.
    pub(super) fn note_answer(&mut self, peer: usize, error: ChallengeError) {
        self.peers[peer].trouble = Some(match error {
            ChallengeError::NotAuthentic => wrong_key(),
            ChallengeError::Versions(theirs) => crate::trouble::other_versions(SPOKEN, theirs, true),
        });
    }

    /// The connection `at` says hello as `peer` and speaks none of this gateway's versions. Only TLS proves who says so: in clear it counts for
    /// a peer that nothing else is known of, and is logged of others.
    pub(super) fn note_versions(&mut self, now: Instant, at: usize, peer: usize, theirs: Versions) {
        let Tunnel { from, ref tls, .. } = self.tunnels[at];
        let trouble = crate::trouble::other_versions(SPOKEN, theirs, tls.is_some());
        let known = &mut self.peers[peer];
        if tls.is_some() || (known.initiator.is_none() && !known.has_been_up) {
            known.trouble = Some(trouble);
        } else if self.rarely.is_due(now, &format!("{from}")) {
            tracing::warn!(peer = known.settings.name, %from, "hello with an unsupported version ignored: {}", trouble.says);
        }
    }

    /// Someone who said hello is none of the peers: said, though not often.
    pub(super) fn say_stranger(&mut self, now: Instant, from: IpAddr, key: &dyn std::fmt::Display) {
        if self.rarely.is_due(now, &format!("{key}")) {
            tracing::warn!(
                %from,
                public_key = %key,
                "hello with an unknown key: no [[peer]] has it; if it is a gateway of yours, add it"
            );
        }
    }

    /// Someone has shown a key in TLS that no peer has: said, though not often.
    pub(super) fn say_unknown_key(&mut self, now: Instant, from: IpAddr) {
        if self.rarely.is_due(now, &format!("{from}")) {
            tracing::warn!(%from, "TLS with an unknown key: no [[peer]] has it; if it is a gateway of yours, compare its public_key");
        }
    }

    /// Someone has refused the key that this gateway has shown in TLS: said, though not often.
    pub(super) fn say_denied(&mut self, now: Instant, from: IpAddr) {
        if self.rarely.is_due(now, &format!("{from}")) {
            tracing::warn!(
                %from,
                "TLS refused: the initiator expects another public key than this gateway's; if it is a gateway of yours, check this \
                 gateway's public_key in its [[peer]]"
            );
        }
    }

    /// Someone connects from an address that no peer may have: said, though not often.
    pub(super) fn say_address(&mut self, now: Instant, from: IpAddr) {
        if self.rarely.is_due(now, &format!("{from}")) {
            tracing::warn!(%from, "connection from outside all accept_from: if it is a gateway of yours, add its address to its [[peer]]");
        }
    }

    /// What someone said is no greeting of this version and mode: said, though not often.
    pub(super) fn say_malformed(&mut self, now: Instant, from: IpAddr, error: &dyn std::fmt::Display) {
        if self.rarely.is_due(now, &format!("{from}")) {
            tracing::warn!(
                %from,
                "malformed greeting ({error}): if it is a gateway of yours, check that transport, mode, \
                 cipher and version are the same on both sides"
            );
        }
    }
}

/// What an error in a greeting means, for the operator who has to correct it.
pub(super) fn in_words(error: &GreetingError) -> String {
    match error {
        GreetingError::Format(TLS_HANDSHAKE) => {
            "it speaks TLS, mode = \"encrypted\"; here mode is \"clear\"".to_owned()
        }
        // Before version 3 the first byte was the version.
        GreetingError::Format(version @ 1..=2) => match Versions::new(*version, *version) {
            Some(theirs) => format!("it speaks version {theirs} of the protocol: {}", remedy(SPOKEN, theirs)),
            None => error.to_string(),
        },
        other => other.to_string(),
    }
}

/// What is wrong with the way to a peer whose own connections arrive.
fn in_one_direction(Trouble { reason, says }: Trouble) -> Trouble {
    let says = format!("its connections are relayed, but those of this site to it are not: {says}");
    Trouble { reason, says }
}

fn no_answer() -> Trouble {
    let says = "nothing answers at its address: check address and port, firewalls on the path, and that its gateway runs with \
                transport = \"tcp\"";
    Trouble::new("no_answer", says)
}

fn wrong_key() -> Trouble {
    let says =
        "who answers at its address does not hold the private key to its public_key: check public_key and address";
    Trouble::new("wrong_key", says)
}

/// Whether TLS has failed because the other end has shown a key that is not expected of it.
pub(super) fn is_unknown_key(error: &io::Error) -> bool {
    use rustls::{CertificateError::ApplicationVerificationFailure, Error::InvalidCertificate};
    matches!(of_tls(error), Some(InvalidCertificate(ApplicationVerificationFailure)))
}

/// Whether the other end has said that it does not know the key of this one, or expects another one.
pub(super) fn is_denied(error: &io::Error) -> bool {
    use rustls::{AlertDescription::AccessDenied, Error::AlertReceived};
    matches!(of_tls(error), Some(AlertReceived(AccessDenied)))
}

fn of_tls(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

fn not_accepted() -> Trouble {
    let says = "it ends the connection before it is up: check that its [[peer]] has this gateway's public_key (and that its \
                accept_from, if it is set, contains this one's address), and that mode and version are the same on both sides; if it does \
                so again and again after it was up, another gateway uses this one's private key";
    Trouble::new("not_accepted", says)
}
