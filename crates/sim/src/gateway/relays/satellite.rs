//! The satellite transport of one gateway in virtual time: lengths instead of bytes.

use super::hosts::{FlowTcp, SimulatedHosts};
use relay::classes::Class;
use relay::connect::ConnectRequest;
use relay::engine::{ConnectReply, Progress, ReceivedRequest, StreamEvent, Transport};
use relay::reach::Reach;
use satpep::{Elided, ResetReason, StreamId};
use streams::Streams;
use units::{Duration, Instant};

/// An endpoint of the transport, whose clock is ahead of the run's.
#[derive(Debug)]
pub(super) struct Satellite {
    pub(super) streams: Streams<Elided>,
    /// How much later it is for the endpoint than in the run.
    pub(super) ahead: Duration,
}

impl Satellite {
    /// What the engine is to know.
    pub(super) fn poll_event(&mut self, now: Instant) -> Option<StreamEvent<StreamId>> {
        loop {
            let reported = self.streams.poll_event(now + self.ahead)?;
            if let Some(event) = reported.for_engine() {
                return Some(event);
            }
        }
    }
}

impl Transport<SimulatedHosts> for Satellite {
    type Stream = StreamId;

    fn is_up(&self, peer: usize) -> bool {
        self.streams.is_up(peer)
    }

    fn room(&self, peer: usize) -> (u64, u64) {
        self.streams.room(peer)
    }

    fn memory_left(&self, peer: usize) -> Option<(u64, u64)> {
        self.streams.memory_left(peer)
    }

    /// The pair has been up for long: what each lets the other reach, which is every flow, has been announced.
    fn tell_reach(&mut self, _: Instant, _: usize, _: &Reach) {}

    fn allows(&self, peer: usize) -> Option<&Reach> {
        self.streams.allows(peer)
    }

    fn open(&mut self, now: Instant, peer: usize, request: &ConnectRequest, class: Option<&Class>) -> Option<StreamId> {
        self.streams.open(now + self.ahead, peer, request, class)
    }

    fn classify(&mut self, now: Instant, stream: StreamId, class: &Class) {
        self.streams.endpoint.set_class(now + self.ahead, stream, &class.settings);
    }

    fn read_request(&mut self, now: Instant, stream: StreamId) -> ReceivedRequest {
        self.streams.read_request(now + self.ahead, stream)
    }

    fn read_reply(&mut self, now: Instant, stream: StreamId) -> ConnectReply {
        self.streams.read_reply(now + self.ahead, stream)
    }

    fn reply(&mut self, now: Instant, stream: StreamId) {
        self.streams.reply(now + self.ahead, stream);
    }

    fn finish(&mut self, now: Instant, stream: StreamId) {
        self.streams.endpoint.finish(now + self.ahead, stream);
    }

    fn reset(&mut self, now: Instant, stream: StreamId, reason: ResetReason) {
        self.streams.endpoint.reset(now + self.ahead, stream, reason);
    }

    fn reset_behind_data(&mut self, now: Instant, stream: StreamId) {
        self.streams.endpoint.reset_behind_data(now + self.ahead, stream, ResetReason::Aborted);
    }

    fn undelivered(&self, stream: StreamId) -> Option<u64> {
        self.streams.endpoint.undelivered(stream)
    }

    fn unacknowledged(&self, stream: StreamId) -> u64 {
        self.streams.endpoint.unacknowledged(stream)
    }

    fn takes_data(&self, stream: StreamId) -> bool {
        self.streams.endpoint.takes_data(stream)
    }

    fn forget(&mut self, stream: StreamId) {
        self.streams.forget(stream);
    }

    /// From TCP's receive buffer into the stream's send buffer. What finds no space there stays, and closes TCP's window.
    fn send(
        &mut self,
        now: Instant,
        stream: StreamId,
        hosts: &mut SimulatedHosts,
        tcp: &mut FlowTcp,
    ) -> (u64, Progress) {
        hosts.touch(*tcp);
        let Some(half) = hosts.half_mut(*tcp) else { return (0, Progress::Blocked) };
        let (waiting, mut taken) = (half.tcp.readable(), 0);
        if waiting > 0 {
            let length = usize::try_from(waiting).unwrap_or(usize::MAX);
            taken = self.streams.endpoint.write_elided(now + self.ahead, stream, length) as u64;
            half.tcp.read(now, taken);
        }
        (taken, if half.is_at_end() { Progress::Ended } else { Progress::Blocked })
    }

    /// From the stream's receive buffer into TCP's send buffer.
    fn receive(
        &mut self,
        now: Instant,
        stream: StreamId,
        hosts: &mut SimulatedHosts,
        tcp: &mut FlowTcp,
    ) -> (u64, Progress) {
        hosts.touch(*tcp);
        let Some(half) = hosts.half_mut(*tcp) else { return (0, Progress::Blocked) };
        let endpoint = &mut self.streams.endpoint;
        let (waiting, mut taken) = (endpoint.readable_len(stream), 0);
        if waiting > 0 {
            taken = half.tcp.write(waiting);
            endpoint.consume(now + self.ahead, stream, taken as usize);
        }
        (taken, if endpoint.is_read_finished(stream) { Progress::Ended } else { Progress::Blocked })
    }

    fn number(&self, stream: StreamId) -> u64 {
        stream.number()
    }
}
