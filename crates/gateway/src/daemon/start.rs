//! How a gateway begins: what it opens, in which order, and what it takes over from the process before.

use super::bypassed::Bypassed;
use super::claim::Claim;
use super::rest::Rest;
use super::succession::Joining;
use super::undelivered::Undelivered;
use super::{Daemon, FIRST, HELD_SYNS, INTERFACES, LISTENERS, REMOVALS, TIMER, WAKER, beforehand};
use crate::config::{Accept, Settings};
use crate::connection_log::ConnectionLog;
use crate::control;
use crate::error::{StartError, while_doing};
use crate::filtered_bridges::FilteredBridges;
use crate::handle::{Handle, Request, Source};
use crate::hold::HeldSyns;
use crate::late_listener;
use crate::link_state::LinkUpdates;
use crate::measured::Delays;
use crate::metrics;
use crate::missing_interfaces::MissingInterfaces;
use crate::page;
use crate::privileges::Plan;
use crate::relays::Relays;
use crate::relays::log_limit::LogLimit;
use crate::steering::{Seen, Steering};
use crate::sysctls;
use crate::takeover::beside::OldProcess;
use crate::takeover::{Heir, Predecessor};
use crate::transport::SatelliteTransport;
use crate::trouble;
use crate::watch::Watch;
use kernel::interfaces::Changes;
use kernel::removals::Removals;
use kernel::timer::Timer;
use kernel::{clock, process, routes, transparent};
use mio::unix::SourceFd;
use mio::{Interest, Poll, Waker};
use socket2::Socket;
use status::Privileges;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, mpsc};
use units::Instant;

/// How long a process that ends just now may have the address of the listeners for clients, as where one is started again at once.
const LEAVES_WITHIN: std::time::Duration = std::time::Duration::from_secs(1);

impl<T: SatelliteTransport> Daemon<T> {
    /// A gateway whose satellite transport is what `start_transport` starts. With an `heir` it takes over from another process.
    pub(super) fn start(
        settings: Settings,
        mut heir: Option<Heir>,
        start_transport: impl FnOnce(&Settings, Instant, &Watch, Option<&mut Heir>) -> Result<T, StartError>,
    ) -> Result<Self, StartError> {
        if heir.is_none() {
            beforehand::check_alone(&settings)?;
        }
        let claim = Claim::stake(&settings)?;
        let descriptors = process::raise_open_files()?;
        let plan = Plan::new(&settings)?;
        let early_demux = sysctls::prepare(&settings);
        let now = clock::now();
        let poll = Poll::new().map_err(while_doing("creating a poll"))?;
        let (handle, requests) = mailbox(&poll, &settings)?;
        let timer = Timer::new().map_err(while_doing("creating a timer"))?;
        let waker = Arc::clone(&handle.waker);
        let watch = Watch::new(poll.registry(), FIRST, waker).map_err(while_doing("creating a poll"))?;
        let transport = start_transport(&settings, now, &watch, heir.as_mut())?;
        let old_process = if heir.is_none() { OldProcess::noted(&settings) } else { None };
        // Before the addresses are read, so that no change is missed.
        let (changes, removals) = (Changes::new()?, Removals::new()?);
        let own = routes::own_addresses()?;
        let mut relays = Relays::new(transport, &settings, &own, watch, descriptors);
        let listeners = match &mut heir {
            None => listeners(&settings)?,
            Some(heir) => heir.take_listeners(),
        };
        let joining = heir.as_ref().map(|heir| Joining::new(now, settings.link.rtt, &heir.offer, &relays));
        let take_over = |heir| take_over(heir, &settings, &plan, &listeners, &mut relays);
        let predecessor = heir.map(take_over).transpose()?;
        let is_heir = predecessor.is_some();
        if settings.accept == Accept::Confirmed && !listeners.is_empty() {
            let syns = HeldSyns::open(settings.rules.port, settings.rules.refused()).map_err(StartError::from);
            served(syns, is_heir)?.into_iter().for_each(|syns| relays.hold_syns(syns));
        }
        let services = Services::start(&settings, &plan, &mut relays, &handle, is_heir)?;
        // Last of all: a second gateway of the same name must fail before it touches the first one's rules.
        let seen = Seen {
            addresses: own,
            interfaces: MissingInterfaces::new(&settings.interfaces),
            bridges: FilteredBridges::new(&settings.rules.interfaces),
            early_demux,
        };
        let steering = steering(&settings, seen, joining.as_ref(), &mut relays, handle.clone())?;
        let mut gateway = Self {
            poll,
            handle,
            requests,
            timer,
            timer_set_to: None,
            is_busy: false,
            listeners,
            accepting: false,
            clients_wait: false,
            syns_wait: false,
            overflows: LogLimit::default(),
            relays,
            steering: Some(steering),
            changes,
            removals,
            trouble: trouble::Watch::new(settings.peers.len()),
            next_look: now,
            delays: Delays::default(),
            privileges: services.privileges,
            link_state: services.updates.state(),
            updates: services.updates,
            public_key: settings.private_key.public_key().to_string(),
            started: now,
            reloads: 0,
            next_tick: now,
            rest: Rest::default(),
            bypassed: Bypassed::new(now),
            undelivered: Undelivered::default(),
            missing_interfaces: Vec::new(),
            drain: None,
            drains_late: false,
            joining,
            predecessor,
            old_process,
            handed_over: None,
            control: services.control,
            services: services.servers,
            _claim: claim,
            settings,
        };
        gateway.watch().map_err(while_doing("watching sockets"))?;
        gateway.relays.engine.tell_reach(now);
        Ok(gateway)
    }

    fn watch(&mut self) -> io::Result<()> {
        let registry = self.poll.registry();
        let watch = |fd: RawFd, token, interest| registry.register(&mut SourceFd(&fd), token, interest);
        watch(self.timer.as_raw_fd(), TIMER, Interest::READABLE)?;
        watch(self.changes.as_raw_fd(), INTERFACES, Interest::READABLE)?;
        self.removals.descriptors().into_iter().try_for_each(|fd| watch(fd, REMOVALS, Interest::READABLE))?;
        if let Some(syns) = &self.relays.engine.hosts.held_syns {
            watch(syns.as_raw_fd(), HELD_SYNS, Interest::READABLE)?;
        }
        self.listeners.iter().try_for_each(|listener| watch(listener.as_raw_fd(), LISTENERS, Interest::READABLE))
    }
}

/// How other threads ask for something, and where the loop takes it out. Each request wakes `poll`.
fn mailbox(poll: &Poll, settings: &Settings) -> Result<(Handle, mpsc::Receiver<Request>), StartError> {
    let waker = Waker::new(poll.registry(), WAKER).map_err(while_doing("creating a waker"))?;
    let (sender, requests) = mpsc::channel();
    let handle = Handle { requests: sender, waker: Arc::new(waker), source: Arc::new(Source::of(settings)) };
    Ok((handle, requests))
}

/// Takes over from the process before, which then has let go of what this one opens next.
fn take_over<T: SatelliteTransport>(
    heir: Heir,
    settings: &Settings,
    plan: &Plan,
    listeners: &[Socket],
    relays: &mut Relays<T>,
) -> Result<Predecessor, StartError> {
    beforehand::check(settings, plan)?;
    relays.transport().note(settings, plan).map_err(while_doing("noting the upgrade"))?;
    let (mut predecessor, estate) = heir.commit()?;
    predecessor.keep_only(&settings.peers);
    served(relays.inherit(&estate).map_err(while_doing("taking over")), true)?;
    set_up_inherited(listeners, settings);
    Ok(predecessor)
}

/// What decides which connections come here. A process that takes over adopts the rules of the one before.
fn steering<T: SatelliteTransport>(
    settings: &Settings,
    seen: Seen,
    joining: Option<&Joining>,
    relays: &mut Relays<T>,
    handle: Handle,
) -> Result<Steering, kernel::Error> {
    let (rules, exempt) = (settings.rules.clone(), settings.bypass.clone());
    let on_news = move |news| handle.send(Request::News(news));
    match joining {
        None => Steering::new(rules, exempt, seen, on_news),
        Some(joining) => Steering::adopt(rules, (joining.accelerated(relays), exempt), seen, on_news),
    }
}

/// What runs beside the relays, and the privileges that are left for it.
struct Services {
    control: Option<control::Control>,
    /// Threads that serve the metrics and the page until they are dropped.
    servers: Vec<Box<dyn std::any::Any + Send>>,
    privileges: Privileges,
    updates: LinkUpdates,
}

impl Services {
    /// Starts them. What needs privileges is opened first, then these are reduced.
    fn start<T: SatelliteTransport>(
        settings: &Settings,
        plan: &Plan,
        relays: &mut Relays<T>,
        handle: &Handle,
        is_heir: bool,
    ) -> Result<Self, StartError> {
        let control = served(control::listen(&settings.control, plan, is_heir), is_heir)?;
        // The token's file need not be readable for the user as whom the gateway goes on.
        let page = settings.web.as_ref().map(|web| page::listen(web, is_heir));
        let page = page.and_then(|page| served(page, is_heir).transpose()).transpose()?;
        let privileges = reduce(plan, settings, is_heir)?;
        // As the user who appends to it, and renames it.
        let log = settings.connection_log.as_ref().map(|log| ConnectionLog::open(&log.file, log.rotation));
        relays.connection_log = log.and_then(|log| served(log, is_heir).transpose()).transpose()?;
        let updates = start_updates(settings, &handle.waker, is_heir)?;
        let control = control.map(|control| control::serve(control, handle.clone()));
        let control = control.and_then(|control| served(control, is_heir).transpose()).transpose()?;
        let mut servers: Vec<Box<dyn std::any::Any + Send>> = Vec::new();
        if let Some(address) = settings.metrics {
            let server = metrics::serve(address, is_heir, settings.build, handle.clone());
            servers.extend(served(server, is_heir)?.map(|server| Box::new(server) as _));
        }
        if let Some(page) = page {
            let server = page.serve(handle.clone());
            servers.extend(served(server, is_heir)?.map(|server| Box::new(server) as _));
        }
        Ok(Self { control, servers, privileges, updates })
    }
}

/// What serves something beside the relays. A process that `is_heir` does without if it fails: the one before has let go.
fn served<T>(outcome: Result<T, StartError>, is_heir: bool) -> Result<Option<T>, StartError> {
    match outcome {
        Err(error) if is_heir => {
            tracing::error!(%error, "not served; restart the gateway once the cause is mended");
            Ok(None)
        }
        outcome => outcome.map(Some),
    }
}

/// Gives up what the gateway has no use for. A process that `is_heir` goes on as the user that has started it, if it may not become another.
fn reduce(plan: &Plan, settings: &Settings, is_heir: bool) -> Result<Privileges, StartError> {
    match plan.reduce(settings) {
        Err(error) if is_heir => {
            tracing::error!(%error, "the gateway goes on as the user that has started it");
            plan.as_oneself().reduce(settings)
        }
        outcome => outcome,
    }
}

/// Receives link updates, and has `waker` wake the loop for each. A process that `is_heir` does without those of `[updates]` if they
/// cannot be had.
fn start_updates(settings: &Settings, waker: &Arc<Waker>, is_heir: bool) -> Result<LinkUpdates, StartError> {
    let start = |settings: &Settings| {
        let waker = Arc::clone(waker);
        LinkUpdates::start(settings, move || {
            // Should it fail, the loop looks at its next tick.
            let _ = waker.wake();
        })
    };
    if let Some(updates) = served(start(settings), is_heir)? {
        return Ok(updates);
    }
    let mut settings = settings.clone();
    (settings.updates.socket, settings.updates.http) = (None, None);
    start(&settings)
}

/// Has `listener`, and what it accepts from now on, be as `settings` say.
fn set_up(listener: &Socket, settings: &Settings) -> io::Result<()> {
    let mark = if sysctls::sockets_take_marks() { settings.rules.accepted() } else { 0 };
    if listener.mark()? != mark {
        listener.set_mark(mark)?;
    }
    transparent::set_keepalive(listener, settings.host_keepalive.into())?;
    transparent::bound_backlog(listener, settings.host_backlog())
}

/// The same for the listeners of the process before.
fn set_up_inherited(listeners: &[Socket], settings: &Settings) {
    for listener in listeners {
        let listens = set_up(listener, settings).and_then(|()| transparent::follow_somaxconn(listener));
        if let Err(error) = listens {
            tracing::warn!(%error, "host_buffer, host_keepalive: clients' connections keep what they had");
        }
    }
}

fn listeners(settings: &Settings) -> Result<Vec<Socket>, StartError> {
    if settings.rules.interfaces.is_empty() {
        return Ok(Vec::new());
    }
    let port = settings.rules.port;
    let bounded = |address| {
        let bind = || transparent::listen(address, settings.host_keepalive.into());
        let socket = late_listener::as_soon_as_free(LEAVES_WITHIN, bind)?;
        set_up(&socket, settings)?;
        Ok(socket)
    };
    let listen = |address: SocketAddr| bounded(address).map_err(while_doing(format!("listening at {address}")));
    let mut listeners = vec![listen((Ipv4Addr::LOCALHOST, port).into())?];
    if settings.rules.ipv6 {
        listeners.push(listen((Ipv6Addr::LOCALHOST, port).into())?);
    }
    Ok(listeners)
}
