//! A TCP connection: an endpoint at each end, and the application that uses it.

use super::application::{App, Wish};
use super::ns2_clock::Ns2Clock;
use super::outcome::{Outcome, Progress};
use super::place::Place;
use crate::ns2_times::EventTime;
use crate::packet::{Body, CLIENT, SERVER};
use crate::wire::Wire;
use crate::{Application, FlowSample};
use std::sync::Arc;
use tcp::control::Control;
use tcp::{Connection, ControlError, Event, Segment, Window};
use units::{Bytes, CounterRandom, Instant};

/// Both ends of a connection.
#[derive(Debug)]
pub(crate) struct Tcp {
    place: Place,
    /// By port.
    ends: [Connection; 2],
    mss: [u32; 2],
    app: App,
    /// When the timer of each end goes off: at its deadline or before, since a deadline that has moved into the future (as
    /// that of a retransmission keeps doing) is not worth a change of the timer.
    armed: [Instant; 2],
    /// The clocks of the ends, if their events run in ns-2's order.
    ns2_clocks: Option<Box<[Ns2Clock; 2]>>,
    /// Payload that each end's application has read.
    received: [u64; 2],
    /// When the receiver read last.
    last: Option<Instant>,
    start: Option<Instant>,
    stop: Instant,
    failure: Option<String>,
    has_end: bool,
    has_ended: bool,
    is_complete: bool,
    /// An end that sends no FIN waits for none.
    is_bare: bool,
    /// The sender's window as last recorded, if its changes are to be recorded.
    recorded: Option<Window>,
}

impl Tcp {
    pub(crate) fn new(
        place: Place,
        configs: [Arc<tcp::Config>; 2],
        application: &Application,
        random: CounterRandom,
        stop: Instant,
        records_changes: bool,
    ) -> Self {
        let [client, server] = configs;
        let mss = [client.mss, server.mss];
        let has_ns2_order = client.delays_acks_as_ns2() || server.delays_acks_as_ns2();
        let is_bare = client.bare || server.bare;
        Self {
            place,
            ends: [Connection::connect(client, Instant::ZERO), Connection::listen(server)],
            mss,
            app: App::new(application, mss[0], random),
            armed: [Instant::FAR_FUTURE; 2],
            ns2_clocks: has_ns2_order.then(|| Box::new([Ns2Clock::new(); 2])),
            received: [0; 2],
            last: None,
            start: None,
            stop,
            failure: None,
            has_end: application.has_end(),
            has_ended: false,
            is_complete: false,
            is_bare,
            recorded: records_changes.then_some(Window { cwnd: 0.0, ssthresh: 0.0 }),
        }
    }

    /// Puts `control` in the place of the one with which the end that sends the flow's data does.
    pub(crate) fn set_control(&mut self, control: Box<dyn Control>) -> Result<(), ControlError> {
        self.ends[self.app.sender() as usize].set_control(control)
    }

    /// A segment has come to an end, which is then to be served.
    #[inline]
    pub(crate) fn take(&mut self, now: Instant, port: u32, segment: &Segment) {
        self.ends[port as usize].handle_segment(now, segment);
    }

    pub(crate) fn has_ns2_order(&self) -> bool {
        self.ns2_clocks.is_some()
    }

    /// A segment has come to an end at `arrival`, ns-2's time: the end's timer runs before, if ns-2 would run it before.
    pub(crate) fn handle_arrival(
        &mut self,
        wire: &mut Wire,
        port: u32,
        segment: &Segment,
        arrival: EventTime,
    ) -> Progress {
        let mut progress = Progress::GoesOn;
        if self.ns2_clocks.as_ref().is_some_and(|clocks| clocks[port as usize].is_due_before(arrival)) {
            progress = self.run_timer(wire, port);
        }
        let now = self.ns2_clocks.as_mut().map_or(wire.now, |clocks| clocks[port as usize].arrive(arrival));
        let last = wire.at(arrival.at, now, |wire| {
            self.take(now, port, segment);
            self.serve(wire, port)
        });
        progress.and(last)
    }

    /// The timer of an end went off: perhaps its deadline has moved into the future since.
    pub(crate) fn handle_timeout(&mut self, wire: &mut Wire, port: u32) -> Progress {
        let mut progress = Progress::GoesOn;
        if self.alarm(port) <= wire.now {
            progress = self.run_timer(wire, port);
        }
        let alarm = self.alarm(port);
        self.arm(wire, port, alarm);
        progress
    }

    fn run_timer(&mut self, wire: &mut Wire, port: u32) -> Progress {
        let run = |clocks: &mut Box<[Ns2Clock; 2]>| clocks[port as usize].run();
        let Some((time, now)) = self.ns2_clocks.as_mut().map(run) else {
            self.ends[port as usize].handle_timeout(wire.now);
            return self.serve(wire, port);
        };
        wire.at(time, now, |wire| {
            self.ends[port as usize].handle_timeout(now);
            self.serve(wire, port)
        })
    }

    #[inline]
    fn arm(&mut self, wire: &mut Wire, port: u32, alarm: Instant) {
        self.armed[port as usize] = alarm;
        wire.set_timer(self.place.timer + port, alarm);
    }

    /// The application's timer was due: the first time, it is time to connect.
    pub(crate) fn handle_application_timeout(&mut self, wire: &mut Wire) -> Progress {
        if self.start.is_none() {
            self.start = Some(wire.now);
            self.place.wake_application(wire, self.stop);
            self.app.on_connecting(&mut self.ends[CLIENT as usize]);
            return self.serve(wire, CLIENT);
        }
        if wire.now >= self.stop {
            self.place.wake_application(wire, Instant::FAR_FUTURE);
            if self.app.on_stop() == Wish::Abort {
                self.ends[CLIENT as usize].abort();
                // Behind gateways, the server learns of it from them.
                if self.place.peers[SERVER as usize].agent == self.place.agent {
                    self.ends[SERVER as usize].abort();
                    let _ = self.serve(wire, SERVER);
                }
            } else {
                self.ends[CLIENT as usize].finish();
            }
            return self.serve(wire, CLIENT);
        }
        let next = self.app.on_timer(wire.now, &mut self.ends[CLIENT as usize]);
        self.place.wake_application(wire, next.min(self.stop));
        self.serve(wire, CLIENT)
    }

    /// Tells the application what there is to know, sends what there is to send, and arms the end's timer.
    #[inline]
    pub(crate) fn serve(&mut self, wire: &mut Wire, port: u32) -> Progress {
        let mut progress = Progress::GoesOn;
        while let Some(event) = self.ends[port as usize].poll_event() {
            if self.handle_event(wire, port, event) == Progress::Ended {
                progress = Progress::Ended;
            }
        }
        while let Some(segment) = self.ends[port as usize].poll_transmit(wire.now) {
            wire.data_packets += u64::from(segment.len > 0);
            let size = segment.len + u32::from(segment.header);
            self.place.send(wire, port, size, Body::Tcp(segment));
        }
        if self.recorded.is_some() && port == self.app.sender() {
            self.record(wire);
        }
        let deadline = self.deadline(port);
        if let Some(clocks) = &mut self.ns2_clocks {
            clocks[port as usize].set(wire.now, wire.ns2_now(), deadline);
        }
        let alarm = self.alarm(port);
        if alarm < self.armed[port as usize] {
            self.arm(wire, port, alarm);
        }
        progress
    }

    /// When the timer of an end is to go off.
    #[inline]
    fn alarm(&self, port: u32) -> Instant {
        self.ns2_clocks.as_ref().map_or_else(|| self.deadline(port), |clocks| clocks[port as usize].alarm())
    }

    #[inline]
    fn deadline(&self, port: u32) -> Instant {
        self.ends[port as usize].next_at()
    }

    fn handle_event(&mut self, wire: &mut Wire, port: u32, event: Event) -> Progress {
        let end = &mut self.ends[port as usize];
        match event {
            Event::Connected => {
                let wish = self.app.on_connected(wire.now, port, end);
                return self.grant(wire, wish);
            }
            Event::Writable => self.app.on_writable(port, end),
            Event::Readable => return self.read(wire, port),
            Event::PeerFinished => end.finish(),
            Event::Closed => {}
            Event::Failed(failure) => {
                if self.failure.is_none() && wire.now < self.stop {
                    self.failure = Some(failure.to_string());
                }
                self.place.wake_application(wire, Instant::FAR_FUTURE);
                return self.end();
            }
        }
        Progress::GoesOn
    }

    fn read(&mut self, wire: &mut Wire, port: u32) -> Progress {
        let end = &mut self.ends[port as usize];
        self.received[port as usize] += end.read(wire.now, u64::MAX);
        if port == self.app.receiver() {
            self.last = Some(wire.now);
        }
        let wish = self.app.on_read(wire.now, port, self.received[port as usize], end);
        self.grant(wire, wish)
    }

    fn grant(&mut self, wire: &mut Wire, wish: Wish) -> Progress {
        match wish {
            Wish::Nothing | Wish::Abort => Progress::GoesOn,
            Wish::Wake(at) => {
                self.place.wake_application(wire, at.min(self.stop));
                Progress::GoesOn
            }
            Wish::End => {
                self.is_complete = true;
                self.end()
            }
        }
    }

    fn end(&mut self) -> Progress {
        let ends_now = self.has_end && !std::mem::replace(&mut self.has_ended, true);
        if ends_now { Progress::Ended } else { Progress::GoesOn }
    }

    /// Whether all is delivered and the two ends still have to agree that it is.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_complete && !self.is_bare && !self.ends.iter().all(Connection::is_closed)
    }

    /// Records the sender's window if it has changed.
    fn record(&mut self, wire: &mut Wire) {
        let window = self.ends[self.app.sender() as usize].window();
        if self.recorded != Some(window) {
            self.recorded = Some(window);
            wire.flow_samples.push(self.sample(wire.now));
        }
    }

    pub(crate) fn sample(&self, at: Instant) -> FlowSample {
        let sender = self.app.sender() as usize;
        let metrics = self.ends[sender].metrics();
        let bytes = |segments: f64| Bytes::new((segments * f64::from(self.mss[sender])) as u64);
        FlowSample {
            flow: self.place.agent,
            at,
            delivered: Bytes::new(self.received[self.app.receiver() as usize]),
            cwnd: bytes(metrics.window.cwnd),
            ssthresh: metrics.window.ssthresh.is_finite().then(|| bytes(metrics.window.ssthresh)),
            srtt: Some(metrics.srtt).filter(|srtt| !srtt.is_zero()),
            in_flight: Bytes::new(metrics.in_flight),
        }
    }

    pub(crate) fn outcome(&self) -> Outcome {
        let counters = self.ends.each_ref().map(|end| end.metrics().counters);
        let sum = |count: fn(&tcp::Counters) -> u64| counters.iter().map(count).sum();
        Outcome {
            start: self.start,
            end: self.last,
            bytes: self.received[self.app.receiver() as usize],
            complete: self.is_complete,
            failure: self.failure.clone(),
            data_packets: sum(|counters| counters.data_segments),
            retransmissions: sum(|counters| counters.retransmissions),
            rtos: sum(|counters| counters.timeouts),
            responses: self.app.responses(),
            rtt: self.app.response_times(),
            ..Outcome::default()
        }
    }
}
