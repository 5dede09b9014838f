//! The event loop: one thread, one poll, bounded work per wake.
//!
//! Each wake goes through the same steps: what the satellite transport takes in, new connections, the transport's events, the relays'
//! turns, what the transport sends, the next deadline. Each step is bounded, and what is left over makes the next wait a zero
//! one, so that no busy socket keeps the others waiting.

mod beforehand;
mod bypassed;
mod changes;
mod claim;
mod report;
mod rest;
mod start;
mod succession;
mod undelivered;

use crate::config::Settings;
use crate::connection_log::BYPASSED_PERIOD;
use crate::control;
use crate::drain::Drain;
use crate::error::StartError;
use crate::handle::{Extent, Handle, Query, Request};
use crate::host_sockets::is_out_of_descriptors;
use crate::link_state::{LinkState, LinkUpdates};
use crate::measured::{Delays, Measured};
use crate::relays::Relays;
use crate::relays::log_limit::LogLimit;
use crate::rules::INTERCEPTED;
use crate::steering::{News, Steering};
use crate::takeover::beside::OldProcess;
use crate::takeover::{self, Heir, Predecessor};
use crate::transport::satpep::Satpep;
use crate::transport::tcp::TcpTransport;
use crate::transport::{SatelliteTransport, StreamEvent};
use crate::trouble;
use crate::watch::{Owner, Watch};
use bypassed::Bypassed;
use kernel::interfaces::Changes;
use kernel::removals::Removals;
use kernel::timer::Timer;
use kernel::transparent::Accepted;
use kernel::{clock, transparent};
use mio::{Events, Poll, Token};
use relay::cross_traffic::PERIOD;
use report::Facts;
use rest::Rest;
use socket2::Socket;
use status::{MissingInterface, Privileges, Snapshot};
use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc;
use std::time::SystemTime;
use succession::{HandedOver, Joining};
use tokio::sync::watch;
use undelivered::Undelivered;
use units::{Duration, Instant};

const TIMER: Token = Token(0);
const WAKER: Token = Token(1);
const LISTENERS: Token = Token(2);
const HELD_SYNS: Token = Token(3);
const INTERFACES: Token = Token(4);
const REMOVALS: Token = Token(5);
/// The first token of the relays' and the transport's descriptors.
const FIRST: usize = 6;

/// What one wake does at most: connections accepted, turns given.
const ACCEPTS: usize = 256;
const TURNS: usize = 64;
/// A tick may come so much earlier, with a wake for something else.
const EARLY_TICK: Duration = Duration::from_millis(12);
/// How often the firewall's counters are read at most, for who asks for all, and otherwise: each time starts a program.
const COUNT_PERIOD: Duration = Duration::from_secs(1);
const SAMPLED_COUNT_PERIOD: Duration = Duration::from_secs(10);
/// How often peers that are not up are looked at.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// How long a stopping gateway goes on sending, so that its peers learn of it.
const FAREWELL: Duration = Duration::from_millis(200);

/// A gateway that has been set up and waits to [`run`](Gateway::run).
#[derive(Debug)]
pub struct Gateway(Kind);

/// Which transport it has.
#[derive(Debug)]
enum Kind {
    Satpep(Box<Daemon<Satpep>>),
    Tcp(Box<Daemon<TcpTransport>>),
}

/// The gateway with its satellite transport.
struct Daemon<T: SatelliteTransport> {
    settings: Settings,
    poll: Poll,
    handle: Handle,
    requests: mpsc::Receiver<Request>,
    timer: Timer,
    timer_set_to: Option<Instant>,
    /// Whether sockets ended the last wait.
    is_busy: bool,
    listeners: Vec<Socket>,
    accepting: bool,
    /// Listeners may have clients that could not be accepted for want of room. Nothing reports when there is some again.
    clients_wait: bool,
    /// Whether SYNs may wait in the queue.
    syns_wait: bool,
    /// SYNs that the queue had no room for: any client can cause them.
    overflows: LogLimit,
    relays: Relays<T>,
    steering: Option<Steering>,
    /// News of the host's interfaces and addresses.
    changes: Changes,
    /// News of rules that others remove.
    removals: Removals,
    trouble: trouble::Watch,
    next_look: Instant,
    /// Samples of the peers' delays.
    delays: Delays,
    privileges: Privileges,
    updates: LinkUpdates,
    link_state: watch::Receiver<LinkState>,
    public_key: String,
    started: Instant,
    reloads: u64,
    next_tick: Instant,
    rest: Rest,
    /// Connections that have gone end to end.
    bypassed: Bypassed,
    undelivered: Undelivered,
    missing_interfaces: Vec<MissingInterface>,
    drain: Option<Drain>,
    /// The drain has yet to begin, for clients to be accepted first.
    drains_late: bool,
    /// Just begun, beside a process that this one takes over from.
    joining: Option<Joining>,
    predecessor: Option<Predecessor>,
    /// Of an upgrade whose new process has ended.
    old_process: Option<OldProcess>,
    /// Another process has new connections. The end of the stream notifies it of the end of this process.
    handed_over: Option<HandedOver>,
    control: Option<control::Control>,
    services: Vec<Box<dyn std::any::Any + Send>>,
    _claim: claim::Claim,
}

impl<T: SatelliteTransport> std::fmt::Debug for Daemon<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("name", &self.settings.name).finish_non_exhaustive()
    }
}

impl Gateway {
    /// Sets a gateway up in the network namespace of the calling thread: sockets, rules, services. Nothing is
    /// intercepted before a peer answers.
    ///
    /// # Errors
    /// If the machine lacks or refuses something; nothing stays behind then.
    pub fn start(settings: Settings) -> Result<Self, StartError> {
        Self::begin(settings, None)
    }

    /// The same, beside a running gateway of the same name, which leaves new connections to this one and finishes its own.
    ///
    /// # Errors
    /// Those of [`Gateway::start`], and if there is no such gateway or it hands nothing over. It goes on as before then.
    pub fn take_over(settings: Settings) -> Result<Self, StartError> {
        let heir = Heir::ask(&settings)?;
        Self::begin(settings, Some(heir))
    }

    /// [`Gateway::take_over`] if a gateway of this name runs, else [`Gateway::start`].
    ///
    /// # Errors
    /// As theirs.
    pub fn take_over_if_running(settings: Settings) -> Result<Self, StartError> {
        if takeover::is_running(&settings) { Self::take_over(settings) } else { Self::start(settings) }
    }

    fn begin(settings: Settings, heir: Option<Heir>) -> Result<Self, StartError> {
        Ok(Self(match settings.tcp.clone() {
            None => Kind::Satpep(Box::new(Daemon::start(settings, heir, Satpep::start)?)),
            Some(tcp) => {
                let start = |settings: &Settings, now, watch: &Watch, heir: Option<&mut Heir>| {
                    TcpTransport::start(settings, &tcp, now, watch, heir)
                };
                Kind::Tcp(Box::new(Daemon::start(settings, heir, start)?))
            }
        }))
    }

    /// A way to the gateway from other threads.
    pub fn handle(&self) -> Handle {
        match &self.0 {
            Kind::Satpep(daemon) => daemon.handle(),
            Kind::Tcp(daemon) => daemon.handle(),
        }
    }

    /// Relays until [`Handle::stop`]; then resets what it relays and removes its rules.
    ///
    /// # Errors
    /// If the poll fails.
    pub fn run(self) -> io::Result<()> {
        match self.0 {
            Kind::Satpep(daemon) => daemon.run(),
            Kind::Tcp(daemon) => daemon.run(),
        }
    }
}

impl<T: SatelliteTransport> Daemon<T> {
    fn handle(&self) -> Handle {
        self.handle.clone()
    }

    fn run(mut self) -> io::Result<()> {
        tracing::info!(name = self.settings.name, listen = %self.settings.listen, public_key = self.public_key, "started");
        let mut events = Events::with_capacity(1024);
        loop {
            self.wait(&mut events)?;
            self.rest.on_wake();
            let now = clock::now();
            for event in &events {
                self.on_event(now, event);
            }
            if self.answer_requests(now) {
                break;
            }
            self.step(now);
            if self.drain.is_some_and(|drain| drain.is_over(now, self.unfinished(now))) {
                break;
            }
        }
        self.stop();
        Ok(())
    }

    /// What a drain waits for.
    fn unfinished(&self, now: Instant) -> usize {
        self.relays.count() + self.relays.transport().unfinished(now) + usize::from(self.drains_late)
    }

    /// Waits until there is something to do. Where sockets keep the loop busy, the next thing has mostly come meanwhile: only where it
    /// has not is the timer set, which is dear on virtual machines.
    fn wait(&mut self, events: &mut Events) -> io::Result<()> {
        if self.has_more() {
            return self.poll(events, Some(std::time::Duration::ZERO));
        }
        if self.is_busy {
            self.poll(events, Some(std::time::Duration::ZERO))?;
            if !events.is_empty() {
                return Ok(());
            }
        }
        self.set_timer(clock::now());
        self.poll(events, None)?;
        self.is_busy = events.iter().any(|event| event.token() != TIMER);
        Ok(())
    }

    fn poll(&mut self, events: &mut Events, timeout: Option<std::time::Duration>) -> io::Result<()> {
        match self.poll.poll(events, timeout) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether something was left undone for the sake of the budget.
    fn has_more(&self) -> bool {
        self.relays.transport().has_more()
            || (self.accepting && self.joining.is_none())
            || (self.syns_wait && self.joining.is_none())
            || self.relays.engine.has_work()
    }

    fn on_event(&mut self, now: Instant, event: &mio::event::Event) {
        match event.token() {
            LISTENERS => self.accepting = true,
            HELD_SYNS => self.syns_wait = true,
            TIMER => {
                // `step` looks at the clock, and `wait` sets the timer again, which makes it forget that it has expired.
                self.timer_set_to = None;
            }
            WAKER => {}
            INTERFACES => {
                if let (true, Some(steering)) = (self.changes.take(), &self.steering) {
                    steering.look();
                }
            }
            REMOVALS => {
                if let (true, Some(steering)) = (self.removals.take(), &self.steering) {
                    steering.look();
                }
            }
            token => match Watch::owner(token, FIRST) {
                Owner::Relays(key) => self.relays.on_socket_event(now, key, event),
                Owner::Transport(at) => self.relays.transport_mut().on_descriptor(now, at, event),
            },
        }
    }

    fn step(&mut self, now: Instant) {
        if self.link_state.has_changed().unwrap_or(false) {
            let state = *self.link_state.borrow_and_update();
            self.relays.transport_mut().follow(now, &state);
        }
        // Before others take what they wait for.
        self.relays.engine.serve_waiting(now);
        let accepts = self.relays.engine.transport_intake(ACCEPTS);
        self.relays.transport_mut().take_in(now, accepts);
        self.relays.engine.handle_timeout(now);
        if self.next_tick <= now + EARLY_TICK {
            self.tick(now);
        }
        self.join(now);
        self.hold(now);
        self.accept(now);
        self.drain_late(now);
        self.take_events(now);
        self.relays.engine.run(now, TURNS);
        self.relays.engine.tell_shortage(now);
        self.relays.transport_mut().send_out(now);
        // What the relays did may have ended streams.
        self.take_events(now);
        self.relays.log(now);
    }

    fn tick(&mut self, now: Instant) {
        self.next_tick = self.next_tick.max(now) + PERIOD;
        self.relays.engine.sweep(now);
        self.relays.engine.look_at_limits(now);
        self.accepting |= self.clients_wait;
        self.relays.transport_mut().tick(now);
        if let Some(log) = &mut self.relays.connection_log {
            log.record_bypassed(now, SystemTime::now());
            self.count_bypassed(now, BYPASSED_PERIOD);
        }
        // For the log: nobody else may ask.
        self.count_bypassed(now, SAMPLED_COUNT_PERIOD);
        for query in self.bypassed.overdue(now) {
            self.show(now, query);
        }
        if self.next_look <= now {
            self.next_look = now + LOOK_PERIOD;
            self.relays.transport_mut().trim_memory(now);
            if self.rest.begins() {
                self.relays.transport_mut().give_back_memory();
                kernel::memory::give_back();
            }
            self.look_at_peers(now);
            self.sample_delays(now);
            for listener in &self.listeners {
                // It goes on with the backlog that it has.
                let _ = transparent::follow_somaxconn(listener);
            }
        }
        self.look_at_other_process(now);
    }

    /// Says what is wrong with peers. The sessions of a gateway that has been taken over from are the next process's to begin.
    fn look_at_peers(&mut self, now: Instant) {
        if self.handed_over.is_some() {
            return;
        }
        for (at, peer) in self.relays.peers() {
            let trouble = self.relays.transport().trouble(now, at);
            if let (Some(down), Some(trouble)) = (self.trouble.is_due(now, at, trouble.as_ref()), &trouble) {
                let (reason, seconds) = (trouble.reason.as_ref(), down.as_secs_f64().round());
                if self.relays.transport().is_up(at) {
                    tracing::warn!(
                        peer = peer.name,
                        reason,
                        "peer has been in trouble for {seconds} s: {}",
                        trouble.says
                    );
                } else {
                    tracing::warn!(peer = peer.name, reason, "peer has not been up for {seconds} s: {}", trouble.says);
                }
            }
        }
    }

    /// Counts the delays of the paths to peers that are up, if anybody may ask for them.
    fn sample_delays(&mut self, now: Instant) {
        if self.settings.metrics.is_none() {
            return;
        }
        let transport = self.relays.transport();
        for (at, peer) in self.relays.peers() {
            if let Some(delay) = transport.path_delay(now, at).filter(|_| transport.is_up(at)) {
                self.delays.sample(&peer.name, delay);
            }
        }
    }

    fn accept(&mut self, now: Instant) {
        if self.joining.is_some() || !std::mem::take(&mut self.accepting) {
            return;
        }
        let accepts = self.relays.engine.intake(ACCEPTS);
        self.clients_wait = false;
        for listener in &self.listeners {
            for _ in 0..accepts {
                // The others wait to be accepted.
                if !self.relays.engine.has_place() {
                    self.clients_wait = true;
                    return;
                }
                match transparent::accept(listener) {
                    // A program of this host has connected to the listener itself, for which there is no server.
                    Ok(Some(Accepted { called, client, .. })) if called.ip().is_loopback() => {
                        tracing::debug!(%client, %called, "a connection that was not intercepted is reset");
                    }
                    Ok(Some(accepted)) => self.relays.accept(now, accepted),
                    Ok(None) => break,
                    Err(error) if is_out_of_descriptors(&error) => {
                        tracing::debug!(%error, "clients wait for a free descriptor");
                        self.relays.engine.out_of_room(now);
                        self.clients_wait = true;
                        return;
                    }
                    // The client had gone before it was accepted.
                    Err(error) => tracing::debug!(%error, "accept"),
                }
                self.accepting = true;
            }
        }
    }

    fn hold(&mut self, now: Instant) {
        if self.joining.is_some() {
            return;
        }
        for _ in 0..ACCEPTS {
            let (true, Some(syns)) = (self.syns_wait, self.relays.held_syns()) else { return };
            match syns.receive() {
                Ok(Some((held, open))) => self.relays.hold(now, held, open),
                Ok(None) => self.syns_wait = false,
                // Some SYNs did not fit into the socket; their clients send others.
                Err(error) => {
                    if let Some(not_logged) = self.overflows.admit(now) {
                        tracing::warn!(%error, not_logged, "the queue of SYNs overflowed");
                    }
                }
            }
        }
    }

    /// Empties the transport's events.
    fn take_events(&mut self, now: Instant) {
        let mut peers_changed = false;
        while let Some(event) = self.relays.transport_mut().poll_event(now) {
            peers_changed |= event == StreamEvent::PeersChanged;
            self.relays.engine.on_stream_event(now, event);
        }
        peers_changed |= self.relays.engine.interception_changed();
        match &self.steering {
            Some(steering) if peers_changed && self.listeners.is_empty() => steering.look(),
            Some(_) if peers_changed => self.intercept(now),
            _ => {}
        }
    }

    /// Has new connections intercepted to destinations whose peer is up, and none while the gateway drains. Until this process has
    /// joined, what the one before had is intercepted.
    fn intercept(&mut self, now: Instant) {
        if self.joining.is_some() {
            return;
        }
        if let Some(steering) = &self.steering {
            let wanted = match &self.drain {
                Some(_) => {
                    self.relays.engine.decide_syns_again(now);
                    Vec::new()
                }
                None => {
                    self.relays.engine.leave_unserved_syns(now);
                    self.relays.engine.intercepted()
                }
            };
            steering.intercept(wanted);
        }
    }

    fn set_timer(&mut self, now: Instant) {
        let joined = self.joining.as_ref().map(|joining| joining.until);
        let deadlines = [
            self.relays.transport().next_timeout(now),
            self.relays.engine.next_timeout(),
            joined,
            Some(self.next_tick),
        ];
        let deadline = deadlines.into_iter().flatten().min();
        // A timer that is set too early costs a wake; setting it again each time costs more.
        let is_later = |set_to: Instant| deadline.is_none_or(|deadline| set_to <= deadline);
        if !self.timer_set_to.is_some_and(is_later) {
            if let Err(error) = self.timer.set(deadline) {
                tracing::error!(%error, "the timer could not be set");
            }
            self.timer_set_to = deadline;
        }
    }

    /// Answers other threads; returns whether one of them wants the gateway to stop.
    fn answer_requests(&mut self, now: Instant) -> bool {
        while let Ok(request) = self.requests.try_recv() {
            match request {
                Request::Stop => return true,
                Request::Respond(answer) => {
                    let _ = answer.send(());
                }
                Request::News(News::OwnAddresses(own)) => self.relays.engine.set_own_addresses(now, &own),
                Request::News(News::MissingInterfaces(missing)) => self.missing_interfaces = missing,
                Request::News(News::Bypassed(counts)) => {
                    let mut counts: BTreeMap<_, _> = counts.into_iter().collect();
                    let intercepted = counts.remove(INTERCEPTED).unwrap_or_default();
                    if self.joining.is_some() || self.clients_wait || self.handed_over.is_some() {
                        self.undelivered.restart();
                    }
                    self.undelivered.take(now, intercepted, self.relays.arrived(), self.settings.rules.deliver());
                    let waiting = self.bypassed.take(counts);
                    if let Some(log) = &mut self.relays.connection_log {
                        log.count_bypassed(self.bypassed.counts());
                    }
                    waiting.into_iter().for_each(|query| self.show(now, query));
                }
                Request::Reload(settings, answer) => {
                    // The asker may have gone.
                    let _ = answer.send(self.reload(now, *settings));
                }
                Request::Offer(answer) => {
                    let _ = answer.send(self.offer());
                }
                Request::WithdrawOffer => self.relays.transport_mut().end_offer(),
                Request::HandOver(stream, done) => {
                    let _ = done.send(self.hand_over(now, stream));
                }
                Request::Survey(name, answer) => {
                    let _ = answer.send(self.relays.survey(now, &name));
                }
                Request::Drain(within) => self.begin_drain(now, within),
                Request::Query(query) => self.show_counted(now, query),
            }
        }
        false
    }

    /// Answers `query`; one for everything once the firewall's counters are current.
    fn show_counted(&mut self, now: Instant, query: Query) {
        let query = if matches!(query, Query::Snapshot(Extent::Sample { .. }, _)) {
            self.count_bypassed(now, SAMPLED_COUNT_PERIOD);
            Some(query)
        } else {
            self.count_bypassed(now, COUNT_PERIOD);
            self.bypassed.hold(now, query)
        };
        if let Some(query) = query {
            self.show(now, query);
        }
    }

    /// Answers `query` at once. The client may have gone.
    fn show(&mut self, now: Instant, query: Query) {
        match query {
            Query::Snapshot(extent, answer) => {
                let _ = answer.send(self.snapshot(now, extent));
            }
            Query::Metrics(answer) => {
                let measured = Measured {
                    connections_open: self.relays.count(),
                    classes: self.relays.engine.class_accounts().to_vec(),
                    delays: self.delays.clone(),
                };
                let _ = answer.send((self.snapshot(now, Extent::Sample { has_streams: false }), measured));
            }
        }
    }

    /// As much of the state at `now` as `extent` says.
    fn snapshot(&self, now: Instant, extent: Extent) -> Snapshot {
        let facts = Facts {
            name: &self.settings.name,
            public_key: self.public_key.clone(),
            started: self.started,
            reloads: self.reloads,
            predecessor: self.predecessor.as_ref().map(|predecessor| predecessor.pid),
            drain: self.drain,
            link_state: *self.link_state.borrow(),
            link_updates: self.updates.counts(),
            modem: self.updates.modem(),
            bypassed: self.bypassed.counts(),
            undelivered: self.undelivered.count(),
            missing_interfaces: &self.missing_interfaces,
            privileges: &self.privileges,
        };
        report::snapshot(now, extent, &facts, &self.relays)
    }

    /// Has the counters of the firewall read, if that was `period` ago. They come as news.
    fn count_bypassed(&mut self, now: Instant, period: Duration) {
        let is_due = self.bypassed.is_due(now, period) && !self.listeners.is_empty();
        if let Some(steering) = self.steering.as_ref().filter(|_| is_due) {
            self.bypassed.ask(now);
            self.undelivered.ask(self.relays.arrived());
            steering.count();
        }
    }

    /// Has the connection log take over the firewall's counters that have been read last of all.
    fn log_last_counts(&mut self) {
        let Some(log) = &mut self.relays.connection_log else { return };
        while let Ok(request) = self.requests.try_recv() {
            if let Request::News(News::Bypassed(counts)) = request {
                log.count_bypassed(&counts.into_iter().filter(|(reason, _)| reason != INTERCEPTED).collect());
            }
        }
    }

    /// Leaves in order: nothing new is intercepted, what is relayed is reset on both sides, the rules are removed.
    fn stop(&mut self) {
        tracing::info!("stopping");
        self.services.clear();
        self.control = None;
        if let Some(steering) = &self.steering {
            // Of a process that has handed over, the counters are the other one's.
            if self.handed_over.is_none() {
                steering.count();
            }
            steering.stop();
        }
        self.log_last_counts();
        let now = clock::now();
        self.relays.engine.shut_down(now);
        self.relays.log(now);
        self.relays.connection_log = None;
        self.relays.transport_mut().leave(now + FAREWELL);
        self.listeners.clear();
        self.settle_rules();
        self.steering = None;
        tracing::info!("stopped");
    }
}
