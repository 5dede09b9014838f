//! A connection of TCP or QUIC: an endpoint at each end, and the application that uses it.

use super::application::{App, Wish};
use super::endpoint::{Endpoint, Event, Standing, bytes};
use super::ns2_clock::Ns2Clock;
use super::outcome::{Outcome, Progress};
use super::place::Place;
use crate::ns2_times::EventTime;
use crate::packet::{CLIENT, SERVER};
use crate::wire::Wire;
use crate::{Application, FlowSample};
use std::sync::Arc;
use tcp::control::Control;
use tcp::{ControlError, Window};
use units::{Bytes, CounterRandom, Instant};

/// Both ends of a connection.
#[derive(Debug)]
pub(crate) struct Connection<E> {
    place: Place,
    /// By port.
    ends: [E; 2],
    app: App,
    /// When the timer of each end goes off: at its deadline or before, since a deadline that has moved into the future (as
    /// that of a retransmission keeps doing) is not worth a change of the timer.
    armed: [Instant; 2],
    /// The clocks of the ends, if their events run in ns-2's order.
    ns2_clocks: Option<Box<[Ns2Clock; 2]>>,
    /// Which ends are to finish once their applications have written what is under way.
    is_finishing: [bool; 2],
    /// Payload that each end's application has read.
    received: [u64; 2],
    /// When the receiver read last.
    last: Option<Instant>,
    start: Option<Instant>,
    stop: Instant,
    failure: Option<(Instant, String)>,
    has_end: bool,
    has_ended: bool,
    is_complete: bool,
    /// An end that sends no FIN waits for none.
    is_bare: bool,
    /// The sender's window as last recorded, if its changes are to be recorded.
    recorded: Option<Window>,
}

/// What a connection is made of, beside its ends.
pub(crate) struct Setup<'a> {
    pub(crate) place: Place,
    pub(crate) application: &'a Application,
    /// What its application draws from.
    pub(crate) random: CounterRandom,
    pub(crate) stop: Instant,
    /// Changes of the sender's window are to be recorded.
    pub(crate) records_changes: bool,
}

impl Connection<tcp::Connection> {
    pub(crate) fn tcp(setup: Setup<'_>, configs: [Arc<tcp::Config>; 2]) -> Self {
        let [client, server] = configs;
        let has_ns2_order = client.delays_acks_as_ns2() || server.delays_acks_as_ns2();
        let is_bare = client.bare || server.bare;
        let mss = client.mss;
        let ends = [tcp::Connection::connect(client, Instant::ZERO), tcp::Connection::listen(server)];
        let mut connection = Self::new(setup, ends, mss);
        connection.ns2_clocks = has_ns2_order.then(|| Box::new([Ns2Clock::new(); 2]));
        connection.is_bare = is_bare;
        connection
    }

    /// Puts `control` in the place of the one with which the end that sends the flow's data does.
    pub(crate) fn set_control(&mut self, control: Box<dyn Control>) -> Result<(), ControlError> {
        self.ends[self.app.sender() as usize].set_control(control)
    }
}

impl Connection<quic::Connection> {
    pub(crate) fn quic(setup: Setup<'_>, config: &Arc<quic::Config>) -> Self {
        let ends = [
            quic::Connection::connect(Arc::clone(config), Instant::ZERO),
            quic::Connection::listen(Arc::clone(config)),
        ];
        let mss = config.max_datagram_size();
        Self::new(setup, ends, mss)
    }

    /// Puts `control` in the place of the one with which the end that sends the flow's data does.
    pub(crate) fn set_control(&mut self, control: Box<dyn Control>) {
        self.ends[self.app.sender() as usize].set_control(control);
    }
}

impl<E: Endpoint> Connection<E> {
    fn new(setup: Setup<'_>, ends: [E; 2], mss: u32) -> Self {
        let Setup { place, application, random, stop, records_changes } = setup;
        Self {
            place,
            ends,
            app: App::new(application, mss, random),
            armed: [Instant::FAR_FUTURE; 2],
            ns2_clocks: None,
            is_finishing: [false; 2],
            received: [0; 2],
            last: None,
            start: None,
            stop,
            failure: None,
            has_end: application.has_end(),
            has_ended: false,
            is_complete: false,
            is_bare: false,
            recorded: records_changes.then_some(Window { cwnd: 0.0, ssthresh: 0.0 }),
        }
    }

    /// A packet has come to an end, which is then to be served.
    #[inline]
    pub(crate) fn take(&mut self, now: Instant, port: u32, packet: &E::Packet) {
        self.ends[port as usize].handle_packet(now, packet);
    }

    /// Starts to load what an event at an end needs.
    #[inline]
    pub(crate) fn prefetch(&self, port: u32) {
        prefetch::prefetch(&self.ends[port as usize]);
        prefetch::prefetch(&self.place);
        prefetch::prefetch(&self.app);
        prefetch::prefetch(&self.armed);
    }

    /// Starts to load what the end keeps elsewhere. Where the end is not loaded itself, this waits for it.
    #[inline]
    pub(crate) fn prefetch_parts(&self, port: u32) {
        self.ends[port as usize].prefetch();
    }

    pub(crate) fn has_ns2_order(&self) -> bool {
        self.ns2_clocks.is_some()
    }

    /// A packet has come to an end at `arrival`, ns-2's time: the end's timer runs before, if ns-2 would run it before.
    pub(crate) fn handle_arrival(
        &mut self,
        wire: &mut Wire,
        port: u32,
        packet: &E::Packet,
        arrival: EventTime,
    ) -> Progress {
        let mut progress = Progress::GoesOn;
        if self.ns2_clocks.as_ref().is_some_and(|clocks| clocks[port as usize].is_due_before(arrival)) {
            progress = self.run_timer(wire, port);
        }
        let now = self.ns2_clocks.as_mut().map_or(wire.now, |clocks| clocks[port as usize].arrive(arrival));
        let last = wire.at(arrival.at, now, |wire| {
            self.take(now, port, packet);
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
            return self.stop_application(wire);
        }
        let next = self.app.on_timer(wire.now, &mut self.ends[CLIENT as usize]);
        self.place.wake_application(wire, next.min(self.stop));
        self.serve(wire, CLIENT)
    }

    fn stop_application(&mut self, wire: &mut Wire) -> Progress {
        self.place.wake_application(wire, Instant::FAR_FUTURE);
        let mut progress = Progress::GoesOn;
        match self.app.on_stop() {
            Wish::Abort => {
                self.ends[CLIENT as usize].abort();
                // Behind gateways, the server learns of it from them.
                if self.place.peers[SERVER as usize].agent == self.place.agent {
                    self.ends[SERVER as usize].abort();
                    progress = self.serve(wire, SERVER);
                }
            }
            wish => {
                self.finish(CLIENT);
                progress = self.grant(wire, wish);
            }
        }
        progress.and(self.serve(wire, CLIENT))
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
        while self.ends[port as usize].transmit(wire, &self.place, port) {}
        if self.recorded.is_some() && port == self.app.sender() {
            self.record(wire);
        }
        let mut alarm = self.deadline(port);
        if let Some(clocks) = &mut self.ns2_clocks {
            let clock = &mut clocks[port as usize];
            clock.set(wire.now, wire.ns2_now(), alarm);
            alarm = clock.alarm();
        }
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
            Event::Writable => {
                let wish = self.app.on_writable(wire.now, port, end);
                self.finish_if_written(port);
                return self.grant(wire, wish);
            }
            Event::Readable => return self.read(wire, port),
            Event::PeerFinished => self.finish(port),
            // What was under way at the stop comes no more.
            Event::Closed if wire.now >= self.stop => return self.end(),
            Event::Closed => {}
            Event::Failed(failure) => {
                // What comes after all is delivered, as a lost acknowledgement of the close, is no failure of the flow.
                if self.failure.is_none() && !self.is_complete && wire.now < self.stop {
                    self.failure = Some((wire.now, failure));
                }
                self.place.wake_application(wire, Instant::FAR_FUTURE);
                return self.end();
            }
        }
        Progress::GoesOn
    }

    fn read(&mut self, wire: &mut Wire, port: u32) -> Progress {
        let end = &mut self.ends[port as usize];
        self.received[port as usize] += end.read(wire.now);
        if port == self.app.receiver() {
            self.last = Some(wire.now);
        }
        let wish = self.app.on_read(wire.now, port, self.received[port as usize], end);
        self.finish_if_written(port);
        self.grant(wire, wish)
    }

    /// Ends what an end sends, behind what is under way: all of that need not fit into its buffer yet.
    fn finish(&mut self, port: u32) {
        self.is_finishing[port as usize] = true;
        self.finish_if_written(port);
    }

    #[inline]
    fn finish_if_written(&mut self, port: u32) {
        if self.is_finishing[port as usize] && !self.app.is_writing(port) {
            self.ends[port as usize].finish();
        }
    }

    fn grant(&mut self, wire: &mut Wire, wish: Wish) -> Progress {
        match wish {
            Wish::Nothing | Wish::Abort => Progress::GoesOn,
            Wish::Wake(at) => {
                self.place.wake_application(wire, at.min(self.stop));
                Progress::GoesOn
            }
            Wish::GiveUp => self.end(),
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
        self.is_complete && !self.is_bare && !self.ends.iter().all(E::is_closed)
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
        let standing = self.ends[sender].standing();
        let bytes = |segments: f64| bytes(segments, self.ends[sender].mss());
        FlowSample {
            flow: self.place.agent,
            at,
            delivered: Bytes::new(self.received[self.app.receiver() as usize]),
            cwnd: bytes(standing.window.cwnd),
            ssthresh: standing.window.ssthresh.is_finite().then(|| bytes(standing.window.ssthresh)),
            srtt: Some(standing.srtt).filter(|srtt| !srtt.is_zero()),
            in_flight: Bytes::new(standing.in_flight),
        }
    }

    pub(crate) fn outcome(&self) -> Outcome {
        let standings = self.ends.each_ref().map(E::standing);
        let sum = |count: fn(&Standing) -> u64| standings.iter().map(count).sum();
        Outcome {
            start: self.start,
            end: self.last,
            bytes: self.received[self.app.receiver() as usize],
            complete: self.is_complete,
            failure: self.failure.clone(),
            data_packets: sum(|end| end.data_packets),
            retransmissions: sum(|end| end.retransmissions),
            rtos: sum(|end| end.timeouts),
            responses: self.app.responses(),
            rtt: self.app.response_times(),
            ..Outcome::default()
        }
    }
}
