//! Ways in for the fuzzer: past the cipher, and to handshakes in virtual time.

use crate::PrivateKey;
use crate::capacity::{AcceptedPacket, Mark};
use crate::config::EndpointConfig;
use crate::event::{Event, PeerId};
use crate::handshake::TransportParameters;
use crate::packet_number::PacketNumber;
use crate::payload::Stored;
use crate::session::{Session, Urgency};
use peering::{Capabilities, ResetReason};
use units::{Bytes, Duration, Instant, Rate};

/// Has someone between a hub and two terminals do to their handshakes what the bytes of `input` say, two by two.
///
/// # Panics
/// If an answer is longer than what provoked it, inits are not paced, memory grows, or a terminal is not up soon after.
pub fn handshakes(input: &[u8]) {
    crate::endpoint::trial::attacker::attack(input);
}

/// Hands the pieces of `input` to a session as the frames of one datagram after the other, with a reader that takes what comes, and
/// sends what the session has to say to nobody. Before each piece come three bytes: its length, the datagram's number by
/// `number_after`, and how long it comes after the one before, in units of 8 ms.
pub fn session(mut input: &[u8]) {
    let rate = Rate::from_bps(6_000_000);
    let mut config = EndpointConfig::new(PrivateKey::from_random([1; 32]), rate, rate, Duration::from_millis(550));
    config.receive_memory = Some(Bytes::new(1 << 20));
    config.max_streams = 20;
    let parameters = TransportParameters { capabilities: Capabilities::READ_REPORTS, ..TransportParameters::modest() };
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut session =
        Session::<Stored>::new(&config, PeerId(0), 1, &parameters, (false, true), Default::default(), now);
    let own = session.open().expect("the first stream");
    session.write(own, &[7; 3000]);
    let mut buffer = [0; 1400];
    while let Some((&[length, step, wait], rest)) = input.split_first_chunk() {
        let (frames, rest) = rest.split_at(usize::from(length).min(rest.len()));
        input = rest;
        now += Duration::from_millis(8 * u64::from(wait));
        let number = number_after(session.received.expected(), step);
        if !session.received.is_new(number) {
            continue;
        }
        let packet = AcceptedPacket { number, arrived: now, ip_size: frames.len() + 53, mark: Mark::NotCe };
        if session.on_frames(now, &packet, frames, 0).is_err() {
            session.abandon(ResetReason::Protocol).for_each(drop);
            return;
        }
        session.feedback.deliver(|_| ());
        while let Some(event) = session.poll_event() {
            if let Event::Readable(id) = event {
                session.consume(now, id, 1000);
                session.finish(id);
            }
        }
        assert!(session.stats(now).receive_buffered <= 1 << 20, "more than the pool is held");
        session.on_timeout(now);
        for urgency in [Urgency::Now, Urgency::Paced, Urgency::Idle] {
            session.fill(now, 0, &mut buffer, 60, urgency);
        }
    }
}

/// The number of the packet that comes where `expected` would be next in order: mostly that, for 128 and more one beyond numbers that
/// are skipped, for 192 and more an earlier one.
pub(crate) fn number_after(expected: PacketNumber, step: u8) -> PacketNumber {
    match step {
        0..128 => expected,
        128..192 => expected + u64::from(step - 127),
        192.. => expected.saturating_before(4 * u64::from(step - 191)),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_fuzzers_way_in_is_open() {
        // A ping; padding and a ping after a skipped number; the skipped number; a frame of no kind.
        super::session(&[1, 0, 0, 1, 3, 128, 1, 0, 0, 1, 1, 192, 200, 1, 1, 0, 0, 0x3f, 1, 0, 0, 1]);
    }
}
