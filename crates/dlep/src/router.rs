//! The router: receives destinations and the metrics of the links to them.

use crate::session::{Fault, Requests, Session, participant};
use crate::{End, Item, Mac, Message, MessageKind, Metrics, PeerInfo, Settings, Status};
use std::collections::{BTreeMap, BTreeSet};
use units::Instant;

/// A router's session over one connection.
#[derive(Debug)]
pub struct Router {
    session: Session,
    /// The only destination of interest; all of them without.
    interest: Option<Mac>,
    /// What holds for all destinations that say nothing else.
    of_modem: Metrics,
    /// What is up; without metrics if it is of no interest.
    destinations: BTreeMap<Mac, Option<Metrics>>,
    /// Some destination had no place among them.
    has_overflowed: bool,
    peer: Option<PeerInfo>,
    changed: BTreeSet<Mac>,
}

/// What the driver should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouterEvent {
    /// The session is up.
    Up(PeerInfo),
    /// A destination has come up, gone down or changed: see [`Router::destination`].
    Changed(Mac),
    /// The session is over.
    Ended(End),
}

participant!(Router);
impl Requests for Router {}

impl Router {
    /// Destinations beyond this number are declined, other than the one of interest.
    pub const MAX_DESTINATIONS: usize = 256;

    /// A session over a connection to a modem that was made at `now`. Destinations other than `interest` are declined.
    pub fn new(now: Instant, settings: Settings, interest: Option<Mac>) -> Self {
        let mut session = Session::opening(now, settings);
        let introduction = session.introduction();
        session.send(&Message::new(MessageKind::SessionInitialization, introduction));
        Self {
            session,
            interest,
            of_modem: Metrics::default(),
            destinations: BTreeMap::new(),
            has_overflowed: false,
            peer: None,
            changed: BTreeSet::new(),
        }
    }

    /// What the driver should know.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<RouterEvent> {
        let up = self.peer.take().map(RouterEvent::Up);
        let changed = |router: &mut Self| router.changed.pop_first().map(RouterEvent::Changed);
        up.or_else(|| changed(self)).or_else(|| self.session.take_end().map(RouterEvent::Ended))
    }

    /// What the link to `mac` carries; `None` if it is not up.
    pub fn destination(&self, mac: &Mac) -> Option<Metrics> {
        *self.destinations.get(mac).filter(|_| self.session.is_in_session())?
    }

    /// What is up, in the order of their addresses.
    pub fn destinations(&self) -> impl Iterator<Item = (Mac, Metrics)> {
        let reported = |(mac, metrics): (&Mac, &Option<Metrics>)| Some((*mac, (*metrics)?));
        self.destinations.iter().filter(|_| self.session.is_in_session()).filter_map(reported)
    }

    fn on_message(&mut self, now: Instant, message: &Message) -> Result<(), Fault> {
        if self.session.is_initializing() {
            return self.on_answer(now, message);
        }
        let metrics = Metrics::of(&message.items);
        match (message.kind, message.mac()) {
            (MessageKind::SessionUpdate, _) => {
                self.of_modem = metrics.or(self.of_modem);
                for (mac, destination) in &mut self.destinations {
                    if let Some(earlier) = destination {
                        *earlier = metrics.or(*earlier);
                        self.changed.insert(*mac);
                    }
                }
                self.respond(MessageKind::SessionUpdateResponse, None, Status::SUCCESS);
            }
            (MessageKind::DestinationUp, Some(mac)) => {
                let status = self.bring_up(mac, metrics);
                self.respond(MessageKind::DestinationUpResponse, Some(mac), status);
            }
            (MessageKind::DestinationUpdate, Some(mac)) => match self.destinations.get_mut(&mac) {
                Some(Some(earlier)) => {
                    *earlier = metrics.or(*earlier);
                    self.changed.insert(mac);
                }
                // It was on its way when the destination was declined.
                Some(None) => {}
                None if self.has_overflowed => {}
                None => return Err(Fault::no_destination(message)),
            },
            (MessageKind::DestinationDown, Some(mac)) => {
                match self.destinations.remove(&mac) {
                    Some(Some(_)) => {
                        self.changed.insert(mac);
                    }
                    Some(None) => {}
                    None if self.has_overflowed => {}
                    None => return Err(Fault::no_destination(message)),
                }
                self.respond(MessageKind::DestinationDownResponse, Some(mac), Status::SUCCESS);
            }
            _ => return Err(Fault::unexpected(message)),
        }
        Ok(())
    }

    /// The modem's Session Initialization Response.
    fn on_answer(&mut self, now: Instant, message: &Message) -> Result<(), Fault> {
        if message.kind != MessageKind::SessionInitializationResponse {
            return Err(Fault::unexpected(message));
        }
        match message.status() {
            Some(Status::SUCCESS) | None => {
                self.peer = Some(self.session.begin(now, &message.items)?);
                self.of_modem = Metrics::of(&message.items);
                Ok(())
            }
            Some(status) => {
                let why = message.status_text();
                let why = if why.is_empty() { status.to_string() } else { format!("{status}: {why}") };
                Err(Fault(Status::SHUTTING_DOWN, format!("the modem declines: {why}")))
            }
        }
    }

    fn bring_up(&mut self, mac: Mac, metrics: Metrics) -> Status {
        let is_wanted = self.interest.is_none_or(|wanted| wanted == mac);
        // The one of interest has a place however many others were declined.
        let has_place = self.interest == Some(mac)
            || self.destinations.len() < Self::MAX_DESTINATIONS
            || self.destinations.contains_key(&mac);
        if has_place {
            self.destinations.insert(mac, is_wanted.then(|| metrics.or(self.of_modem)));
        } else {
            self.has_overflowed = true;
        }
        match (is_wanted, has_place) {
            (false, _) => Status::NOT_INTERESTED,
            (true, false) => Status::REQUEST_DENIED,
            (true, true) => {
                self.changed.insert(mac);
                Status::SUCCESS
            }
        }
    }

    fn respond(&mut self, kind: MessageKind, mac: Option<Mac>, status: Status) {
        let mut items: Vec<Item> = mac.map(Item::MacAddress).into_iter().collect();
        items.push(Item::Status(status, String::new()));
        self.session.send(&Message::new(kind, items));
    }
}
