//! The modem: reports destinations, and the capacity of the links to them, to a router.

use crate::session::{Fault, Requests, Session, participant};
use crate::{End, Item, Mac, Message, MessageKind, Metrics, PeerInfo, Settings, Status};
use std::collections::{BTreeMap, VecDeque};
use units::Instant;

/// A modem's session over one connection.
#[derive(Debug)]
pub struct Modem {
    session: Session,
    /// What holds for the session; its metrics are those that the modem can report.
    metrics: Metrics,
    /// The latest of them that the router has.
    reported: Metrics,
    updates: Updates,
    destinations: BTreeMap<Mac, Destination>,
    /// What a router says of itself that waits for an answer.
    request: Option<Vec<Item>>,
    events: VecDeque<ModemEvent>,
}

/// What the driver should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModemEvent {
    /// A router asks for a session: answer by [`Modem::accept`] or [`Modem::decline`].
    Requested,
    /// The session is up.
    Up(PeerInfo),
    /// The session is over.
    Ended(End),
}

/// The metrics of a destination that the router has, and those that it is to have.
#[derive(Debug)]
struct Destination {
    /// As it is; `None` if it is down.
    wanted: Option<Metrics>,
    reported: Metrics,
    state: State,
    /// The kind of response that a request waits for. Requests of the router may cross it and change the state meanwhile.
    awaited: Option<MessageKind>,
}

/// What the router has of a destination once it has read everything that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing.
    Unknown,
    Up,
    /// It does not want to hear of it.
    Declined,
}

/// The outcome of Session Updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Updates {
    /// The router takes them.
    Taken,
    /// One waits for its response, until then.
    Pending(Instant),
    /// The router has refused one: it gets no more of them.
    Refused,
    /// It has not answered one in time: it gets no more of them, either.
    Unanswered,
}

participant!(Modem);

impl Requests for Modem {
    fn overdue_at(&self) -> Option<Instant> {
        match self.updates {
            Updates::Pending(due) => Some(due),
            Updates::Taken | Updates::Refused | Updates::Unanswered => None,
        }
    }

    fn give_up(&mut self) {
        self.updates = Updates::Unanswered;
        self.tell_each();
    }
}

impl Modem {
    /// A session over a connection that a router has made at `now`. `metrics` must have all rates and the latency, and every
    /// other metric that any destination will have (§12.6).
    pub fn new(now: Instant, settings: Settings, metrics: Metrics) -> Self {
        Self {
            session: Session::awaiting(now, settings),
            metrics,
            reported: metrics,
            updates: Updates::Taken,
            destinations: BTreeMap::new(),
            request: None,
            events: VecDeque::new(),
        }
    }

    /// What the driver should know.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<ModemEvent> {
        self.events.pop_front().or_else(|| self.session.take_end().map(ModemEvent::Ended))
    }

    /// Begins the session that a router has asked for.
    pub fn accept(&mut self, now: Instant) {
        let Some(request) = self.take_request() else { return };
        match self.session.begin(now, &request) {
            Ok(peer) => self.events.push_back(ModemEvent::Up(peer)),
            Err(fault) => return self.session.terminate(now, fault),
        }
        self.reported = self.metrics;
        self.answer(Status::SUCCESS, String::new());
        self.advance_all();
    }

    /// Refuses the session that a router has asked for. The router ends it then (§7.2).
    pub fn decline(&mut self, now: Instant, why: &str) {
        if self.take_request().is_some() {
            self.answer(Status::REQUEST_DENIED, why.to_owned());
            self.session.end_by(now, Fault(Status::REQUEST_DENIED, why.to_owned()));
        }
    }

    /// What a router asks for, unless the connection has ended meanwhile.
    fn take_request(&mut self) -> Option<Vec<Item>> {
        self.request.take().filter(|_| self.session.is_initializing())
    }

    /// Answers the router's Session Initialization.
    fn answer(&mut self, status: Status, why: String) {
        let mut items = vec![Item::Status(status, why)];
        items.extend(self.session.introduction());
        items.extend(self.metrics.items());
        self.session.send(&Message::new(MessageKind::SessionInitializationResponse, items));
    }

    /// What holds for the session is now as `metrics` say, among those that it began with. A router takes what has changed for
    /// all destinations (Session Update, §12.7), so say with [`Modem::set_destination`] after it what each has: only whose is
    /// not what the session has is then reported by itself. A router that refuses it, or does not answer for two heartbeat intervals,
    /// gets a Destination Update for each from then on.
    pub fn set_session(&mut self, now: Instant, metrics: Metrics) {
        self.metrics = metrics;
        self.update(now);
    }

    /// Tells the router what has changed for the session: one request at a time (§8).
    fn update(&mut self, now: Instant) {
        if !self.session.is_in_session() || self.updates != Updates::Taken {
            return;
        }
        let news = self.metrics.news(self.reported);
        if news == Metrics::default() {
            return;
        }
        self.updates = Updates::Pending(self.session.answer_due(now));
        self.reported = news.or(self.reported);
        self.destinations.values_mut().for_each(|destination| destination.reported = news.or(destination.reported));
        self.session.send(&Message::new(MessageKind::SessionUpdate, news.items()));
    }

    /// The router's answer to a Session Update.
    fn on_updated(&mut self, now: Instant, status: Status, message: &Message) -> Result<(), Fault> {
        match self.updates {
            Updates::Pending(_) if status == Status::SUCCESS => {
                self.updates = Updates::Taken;
                self.update(now);
                self.advance_all();
            }
            // If it cannot go on, it ends the session.
            Updates::Pending(_) => {
                self.updates = Updates::Refused;
                self.tell_each();
            }
            Updates::Unanswered => self.updates = Updates::Refused,
            Updates::Taken | Updates::Refused => return Err(Fault::unexpected(message)),
        }
        Ok(())
    }

    /// Whatever the router has of the destinations now, each is reported by itself.
    fn tell_each(&mut self) {
        self.destinations.values_mut().for_each(|destination| destination.reported = Metrics::default());
        self.advance_all();
    }

    fn advance_all(&mut self) {
        let macs: Vec<Mac> = self.destinations.keys().copied().collect();
        macs.into_iter().for_each(|mac| self.advance(mac));
    }

    /// Destination `mac` is up and its link as `metrics` say, or it is down.
    pub fn set_destination(&mut self, mac: Mac, metrics: Option<Metrics>) {
        let new = || Destination { wanted: None, reported: Metrics::default(), state: State::Unknown, awaited: None };
        self.destinations.entry(mac).or_insert_with(new).wanted = metrics;
        self.advance(mac);
    }

    /// Reports to the router what it can of `mac` now: one request at a time (§8).
    fn advance(&mut self, mac: Mac) {
        if !self.session.is_in_session() {
            return;
        }
        let Some(destination) = self.destinations.get_mut(&mac) else { return };
        if destination.awaited.is_some() {
            return;
        }
        let (kind, metrics) = match (destination.state, destination.wanted) {
            (State::Unknown, Some(metrics)) => {
                destination.state = State::Up;
                destination.awaited = Some(MessageKind::DestinationUpResponse);
                (MessageKind::DestinationUp, metrics)
            }
            (State::Up, Some(metrics)) if metrics != destination.reported => (MessageKind::DestinationUpdate, metrics),
            (State::Up, None) => {
                destination.state = State::Unknown;
                destination.awaited = Some(MessageKind::DestinationDownResponse);
                (MessageKind::DestinationDown, Metrics::default())
            }
            (State::Unknown | State::Declined, None) => {
                self.destinations.remove(&mac);
                return;
            }
            _ => return,
        };
        destination.reported = metrics;
        let mut items = vec![Item::MacAddress(mac)];
        items.extend(metrics.items());
        self.session.send(&Message::new(kind, items));
    }

    fn on_message(&mut self, now: Instant, message: &Message) -> Result<(), Fault> {
        if self.session.is_initializing() {
            return self.on_initialization(message);
        }
        let status = message.status().unwrap_or(Status::SUCCESS);
        match (message.kind, message.mac()) {
            (MessageKind::SessionUpdate, _) => {
                let items = vec![Item::Status(Status::SUCCESS, String::new())];
                self.session.send(&Message::new(MessageKind::SessionUpdateResponse, items));
            }
            (MessageKind::SessionUpdateResponse, _) => self.on_updated(now, status, message)?,
            (MessageKind::DestinationUpResponse, Some(mac)) => {
                let state = if status == Status::SUCCESS { State::Up } else { State::Declined };
                self.on_response(mac, message)?.state = state;
                self.advance(mac);
            }
            (MessageKind::DestinationDownResponse, Some(mac)) => {
                self.on_response(mac, message)?;
                self.advance(mac);
            }
            (MessageKind::DestinationDown, Some(mac)) => {
                let destination = self.destinations.get_mut(&mac).ok_or_else(|| Fault::no_destination(message))?;
                destination.state = State::Declined;
                self.respond(MessageKind::DestinationDownResponse, mac, Status::SUCCESS, Metrics::default());
            }
            (MessageKind::DestinationAnnounce, Some(mac)) => {
                let metrics = self.destinations.get(&mac).and_then(|destination| destination.wanted);
                let status = if metrics.is_some() { Status::SUCCESS } else { Status::REQUEST_DENIED };
                if let (Some(destination), Some(metrics)) = (self.destinations.get_mut(&mac), metrics) {
                    (destination.state, destination.reported) = (State::Up, metrics);
                }
                self.respond(MessageKind::DestinationAnnounceResponse, mac, status, metrics.unwrap_or_default());
            }
            (MessageKind::LinkCharacteristicsRequest, Some(mac)) => {
                let destination = self.destinations.get(&mac).ok_or_else(|| Fault::no_destination(message))?;
                let reported = destination.reported;
                self.respond(MessageKind::LinkCharacteristicsResponse, mac, Status::REQUEST_DENIED, reported);
            }
            _ => return Err(Fault::unexpected(message)),
        }
        Ok(())
    }

    fn on_initialization(&mut self, message: &Message) -> Result<(), Fault> {
        if message.kind != MessageKind::SessionInitialization || self.request.is_some() {
            return Err(Fault::unexpected(message));
        }
        self.request = Some(message.items.clone());
        self.events.push_back(ModemEvent::Requested);
        Ok(())
    }

    /// The destination to whose request `message` is the response.
    fn on_response(&mut self, mac: Mac, message: &Message) -> Result<&mut Destination, Fault> {
        let destination = self.destinations.get_mut(&mac).ok_or_else(|| Fault::no_destination(message))?;
        if destination.awaited != Some(message.kind) {
            return Err(Fault::unexpected(message));
        }
        destination.awaited = None;
        Ok(destination)
    }

    fn respond(&mut self, kind: MessageKind, mac: Mac, status: Status, metrics: Metrics) {
        let mut items = vec![Item::MacAddress(mac), Item::Status(status, String::new())];
        items.extend(metrics.items());
        self.session.send(&Message::new(kind, items));
    }
}
