//! The hosts at both ends of a transfer: what they send, read, check and end.

use crate::plan::{Ending, TransferPlan};
use satpep::ResetReason;
use testkit::pattern;
use units::{Duration, Instant};

/// The client's place in a transfer.
pub(crate) const CLIENT: usize = 0;
/// The server's.
pub(crate) const SERVER: usize = 1;

/// A host and its TCP connection to its gateway.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    /// Whose bytes it sends, and whose it should get.
    keys: [u64; 2],
    to_send: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Bytes that differed from what the other end sent.
    pub(crate) wrong: u64,
    /// It ends only after the other end has.
    waits: bool,
    /// It gives up after so many bytes in both directions.
    abort_after: Option<u64>,
    stall: Option<(u64, Duration)>,
    stalled_until: Option<Instant>,
    /// The gateway has taken the connection, or made it.
    pub(crate) is_connected: bool,
    /// Its end was taken by the gateway.
    pub(crate) has_ended: bool,
    /// The other end's end arrived.
    pub(crate) saw_end: bool,
    /// The gateway reset the connection.
    pub(crate) was_reset: bool,
    /// It reset the connection itself.
    pub(crate) has_aborted: bool,
}

impl Host {
    /// The host of a transfer at its end `role`.
    pub(crate) fn new(plan: &TransferPlan, number: u32, role: usize) -> Self {
        let key = |role: usize| u64::from(number) * 2 + role as u64;
        let first = match plan.ending {
            Ending::Independent => role,
            Ending::ClientFirst => CLIENT,
            Ending::ServerFirst => SERVER,
        };
        Self {
            keys: [key(role), key(1 - role)],
            to_send: plan.bytes[role],
            sent: 0,
            received: 0,
            wrong: 0,
            waits: first != role,
            abort_after: plan.abort.filter(|(who, _)| *who == role).map(|(_, after)| after),
            stall: plan.stall.filter(|(who, ..)| *who == role).map(|(_, after, lasts)| (after, lasts)),
            stalled_until: None,
            is_connected: false,
            has_ended: false,
            saw_end: false,
            was_reset: false,
            has_aborted: false,
        }
    }

    /// Writes what it sends next into `out`; returns how many bytes that was.
    pub(crate) fn offer(&mut self, out: &mut [u8]) -> usize {
        let length = out.len().min(usize::try_from(self.to_send - self.sent).unwrap_or(usize::MAX));
        pattern::fill(self.keys[0], self.sent, &mut out[..length]);
        self.sent += length as u64;
        self.lose_patience();
        length
    }

    /// Whether everything was offered, and it ends its direction now.
    pub(crate) fn is_at_end(&self) -> bool {
        self.sent == self.to_send && (!self.waits || self.saw_end)
    }

    /// Whether it sent all that it meant to.
    pub(crate) fn has_sent_all(&self) -> bool {
        self.sent == self.to_send
    }

    /// Reads what it can of `bytes`; returns how many it took. It takes none while it stalls.
    pub(crate) fn take(&mut self, now: Instant, bytes: &[u8]) -> usize {
        if self.stalled_until.is_some_and(|until| now < until) {
            return 0;
        }
        let room = self.stall.map_or(u64::MAX, |(after, _)| after.saturating_sub(self.received));
        let taken = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        self.wrong += pattern::count_wrong(self.keys[1], self.received, &bytes[..taken]);
        self.received += taken as u64;
        if let Some((_, lasts)) = self.stall.take_if(|(after, _)| self.received >= *after) {
            self.stalled_until = Some(now + lasts);
        }
        self.lose_patience();
        taken
    }

    /// When it reads again.
    pub(crate) fn wakes_at(&self, now: Instant) -> Option<Instant> {
        self.stalled_until.filter(|until| *until > now)
    }

    /// Whether nothing more happens here.
    pub(crate) fn is_over(&self) -> bool {
        self.was_reset || self.has_aborted || (self.has_ended && self.saw_end)
    }

    fn lose_patience(&mut self) {
        if self.abort_after.is_some_and(|after| self.sent + self.received >= after) {
            self.has_aborted = true;
        }
    }
}

/// A transfer as it stands.
#[derive(Debug, Clone)]
pub(crate) struct Transfer {
    pub(crate) plan: TransferPlan,
    pub(crate) hosts: [Host; 2],
    pub(crate) has_begun: bool,
    /// Something happened that may end it early.
    pub(crate) is_excused: bool,
    /// A gateway was notified of the other's end.
    pub(crate) saw_gateway_end: bool,
    /// Why the transport reset its stream, as reported to each end.
    pub(crate) resets: [Option<ResetReason>; 2],
}

impl Transfer {
    pub(crate) fn new(plan: TransferPlan, number: u32) -> Self {
        Self {
            plan,
            hosts: [CLIENT, SERVER].map(|role| Host::new(&plan, number, role)),
            has_begun: false,
            is_excused: false,
            saw_gateway_end: false,
            resets: [None; 2],
        }
    }

    /// Which end of it a gateway has.
    pub(crate) fn role(&self, side: usize) -> usize {
        usize::from(self.plan.sides[CLIENT] != side)
    }

    /// Whether both hosts are done with it.
    pub(crate) fn is_over(&self) -> bool {
        let [client, server] = &self.hosts;
        client.is_over() && (!server.is_connected || server.is_over())
    }

    /// Whether every byte arrived and both ends ended in order.
    pub(crate) fn is_complete(&self) -> bool {
        let complete = |host: &Host, other: &Host| {
            host.has_ended && host.saw_end && host.has_sent_all() && host.received == other.sent
        };
        let [client, server] = &self.hosts;
        complete(client, server) && complete(server, client) && !client.was_reset && !server.was_reset
    }

    /// Bytes that were wrong, and ends that came in order before all that should come before them.
    pub(crate) fn wrong_bytes(&self) -> u64 {
        let missing = |host: &Host, other: &Host| {
            let is_early = host.saw_end && !(other.has_ended && host.received == other.sent);
            u64::from(is_early) * (other.sent - host.received.min(other.sent)).max(1)
        };
        let [client, server] = &self.hosts;
        client.wrong + server.wrong + missing(client, server) + missing(server, client)
    }
}
