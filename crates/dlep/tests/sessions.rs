//! Modem and router against each other and against peers that break the rules; all time is simulated.
#![allow(clippy::unwrap_used, reason = "a test")]

use dlep::{
    End, Item, Mac, Message, MessageKind, Metrics, Modem, ModemEvent, Participant, PeerInfo, Router, RouterEvent,
    Settings, Status,
};
use units::{Duration, Instant, Rate};

const MAC: Mac = Mac::Eui48([2, 0, 0x5e, 0x10, 0, 1]);
const OTHER: Mac = Mac::Eui48([2, 0, 0x5e, 0x10, 0, 2]);

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn settings(name: &str) -> Settings {
    Settings { heartbeat: Duration::from_secs(1), name: name.into() }
}

fn metrics(bps: u64) -> Metrics {
    let rate = Some(Rate::from_bps(bps));
    Metrics {
        max_receive: rate,
        max_transmit: rate,
        receive: rate,
        transmit: rate,
        latency: Some(Duration::from_millis(275)),
        resources: Some(100),
        ..Metrics::default()
    }
}

fn router(interest: Option<Mac>) -> Router {
    Router::new(at(0), settings("router"), interest)
}

/// Passes everything that waits between the two.
fn exchange(now: Instant, modem: &mut Modem, router: &mut Router) {
    loop {
        let (up, down) = (router.poll_transmit(), modem.poll_transmit());
        if up.is_none() && down.is_none() {
            return;
        }
        modem.handle_bytes(now, &up.unwrap_or_default());
        // Without a request it does nothing.
        modem.accept(now);
        router.handle_bytes(now, &down.unwrap_or_default());
    }
}

fn in_session(interest: Option<Mac>) -> (Modem, Router) {
    let (mut modem, mut router) = (Modem::new(at(0), settings("modem"), metrics(0)), router(interest));
    exchange(at(0), &mut modem, &mut router);
    let heartbeat = Duration::from_secs(1);
    assert_eq!(router.poll_event(), Some(RouterEvent::Up(PeerInfo { name: "modem".into(), heartbeat })));
    assert_eq!(modem.poll_event(), Some(ModemEvent::Requested));
    assert_eq!(modem.poll_event(), Some(ModemEvent::Up(PeerInfo { name: "router".into(), heartbeat })));
    (modem, router)
}

/// What the router says next.
fn said(router: &mut Router) -> Message {
    let bytes = router.poll_transmit().unwrap();
    Message::parse(u16::from_be_bytes([bytes[0], bytes[1]]), &bytes[4..]).unwrap()
}

fn hear(router: &mut Router, now: Instant, kind: MessageKind, items: Vec<Item>) {
    router.handle_bytes(now, &Message::new(kind, items).encode());
}

#[test]
fn a_destination_comes_up_changes_and_goes_down() {
    let (mut modem, mut router) = in_session(None);
    modem.set_destination(MAC, Some(metrics(6_000_000)));
    // Reported together with Destination Up, or once that is answered.
    modem.set_destination(MAC, Some(metrics(5_000_000)));
    modem.set_destination(MAC, Some(metrics(4_000_000)));
    exchange(at(10), &mut modem, &mut router);
    assert_eq!(router.poll_event(), Some(RouterEvent::Changed(MAC)));
    assert_eq!(router.poll_event(), None);
    assert_eq!(router.destination(&MAC), Some(metrics(4_000_000)));
    modem.set_destination(MAC, Some(metrics(4_000_000)));
    assert_eq!(modem.poll_transmit(), None, "nothing has changed");
    modem.set_destination(MAC, None);
    modem.set_destination(MAC, Some(metrics(3_000_000)));
    exchange(at(20), &mut modem, &mut router);
    assert_eq!(router.destinations().collect::<Vec<_>>(), [(MAC, metrics(3_000_000))]);
    modem.set_destination(MAC, None);
    exchange(at(30), &mut modem, &mut router);
    assert_eq!(router.poll_event(), Some(RouterEvent::Changed(MAC)));
    assert_eq!(router.destination(&MAC), None);
    assert!(modem.is_in_session() && router.is_in_session());
}

#[test]
fn what_an_update_leaves_out_stays_and_what_the_session_says_holds_for_all() {
    let (mut modem, mut router) = in_session(None);
    modem.set_destination(MAC, Some(metrics(6_000_000)));
    exchange(at(10), &mut modem, &mut router);
    let less = Metrics { transmit: Some(Rate::from_bps(1_000_000)), ..Metrics::default() };
    hear(&mut router, at(20), MessageKind::DestinationUpdate, vec![Item::MacAddress(MAC), Item::Latency(300_000)]);
    assert_eq!(router.destination(&MAC).unwrap().latency, Some(Duration::from_millis(300)));
    assert_eq!(router.destination(&MAC).unwrap().transmit, Some(Rate::from_bps(6_000_000)));
    let rate = Item::DataRate(dlep::RateKind::CurrentTransmit, 1_000_000);
    hear(&mut router, at(30), MessageKind::SessionUpdate, vec![rate]);
    assert_eq!(router.destination(&MAC).unwrap().transmit, less.transmit);
    assert_eq!(said(&mut router).kind, MessageKind::SessionUpdateResponse);
}

/// What the modem says next.
fn report(modem: &mut Modem) -> Message {
    let bytes = modem.poll_transmit().unwrap();
    Message::parse(u16::from_be_bytes([bytes[0], bytes[1]]), &bytes[4..]).unwrap()
}

#[test]
fn what_changes_for_the_session_is_told_once_and_holds_for_all_but_what_has_its_own() {
    let (mut modem, mut router) = in_session(None);
    modem.set_destination(MAC, Some(metrics(6_000_000)));
    modem.set_destination(OTHER, Some(metrics(5_000_000)));
    exchange(at(10), &mut modem, &mut router);
    let later = |of: Metrics, ms| Metrics { latency: Some(Duration::from_millis(ms)), ..of };
    // A metric that the session did not begin with is none of it.
    modem.set_session(at(11), Metrics { mtu: Some(1500), ..later(metrics(0), 300) });
    modem.set_destination(MAC, Some(later(metrics(6_000_000), 300)));
    modem.set_destination(OTHER, Some(metrics(5_000_000)));
    let update = report(&mut modem);
    assert_eq!((update.kind, &update.items[..]), (MessageKind::SessionUpdate, &[Item::Latency(300_000)][..]));
    let own = report(&mut modem);
    assert_eq!((own.kind, own.mac()), (MessageKind::DestinationUpdate, Some(OTHER)));
    assert_eq!(modem.poll_transmit(), None, "the other is as the session is");
    router.handle_bytes(at(20), &[update.encode(), own.encode()].concat());
    let latencies = |router: &Router| {
        router.destinations().map(|(_, metrics)| metrics.latency.unwrap().as_nanos() / 1_000_000).collect::<Vec<_>>()
    };
    assert_eq!(latencies(&router), [300, 275]);
    // One request at a time: what changes meanwhile is reported once it is answered, and then as it is.
    for ms in [310, 320] {
        modem.set_session(at(21), later(metrics(0), ms));
    }
    assert_eq!(modem.poll_transmit(), None);
    modem.handle_bytes(at(30), &said(&mut router).encode());
    assert_eq!(report(&mut modem).items, [Item::Latency(320_000)]);
    exchange(at(40), &mut modem, &mut router);
    assert_eq!(latencies(&router), [300, 275], "each has been reported by itself since");
    assert!(modem.is_in_session() && router.is_in_session());
}

#[test]
fn a_router_that_does_not_take_a_session_update_is_told_of_each_destination() {
    let answer = |status| Message::new(MessageKind::SessionUpdateResponse, vec![Item::Status(status, String::new())]);
    let updated = |status| {
        let (mut modem, mut router) = in_session(None);
        let quicker = Metrics { latency: Some(Duration::from_millis(20)), ..metrics(6_000_000) };
        modem.set_destination(MAC, Some(quicker));
        exchange(at(10), &mut modem, &mut router);
        modem.set_session(at(11), Metrics { latency: quicker.latency, ..metrics(0) });
        assert_eq!(report(&mut modem).items, [Item::Latency(20_000)]);
        assert_eq!(modem.poll_transmit(), None, "the destination is so already");
        modem.handle_bytes(at(20), &answer(status).encode());
        modem
    };
    assert_eq!(updated(Status::SUCCESS).poll_transmit(), None);
    for status in [Status::REQUEST_DENIED, Status::INVALID_DATA] {
        let mut refused = updated(status);
        let again = report(&mut refused);
        assert_eq!((again.kind, again.items.contains(&Item::Latency(20_000))), (MessageKind::DestinationUpdate, true));
        refused.set_session(at(21), metrics(0));
        refused.set_destination(MAC, Some(metrics(6_000_000)));
        let by_itself = report(&mut refused);
        assert_eq!((by_itself.kind, by_itself.mac()), (MessageKind::DestinationUpdate, Some(MAC)));
        assert!(refused.poll_transmit().is_none() && refused.is_in_session());
    }
    // An answer to nothing.
    let mut idle = updated(Status::SUCCESS);
    idle.handle_bytes(at(30), &answer(Status::SUCCESS).encode());
    assert_eq!(report(&mut idle).status(), Some(Status::UNEXPECTED_MESSAGE));
}

#[test]
fn a_router_that_does_not_answer_a_session_update_is_told_of_each_destination_in_the_end() {
    let (mut modem, mut router) = in_session(None);
    let quicker = Metrics { latency: Some(Duration::from_millis(20)), ..metrics(6_000_000) };
    modem.set_destination(MAC, Some(quicker));
    exchange(at(10), &mut modem, &mut router);
    modem.set_session(at(20), Metrics { latency: quicker.latency, ..metrics(0) });
    assert_eq!(report(&mut modem).kind, MessageKind::SessionUpdate);
    let silent = Message::new(MessageKind::Heartbeat, Vec::new()).encode();
    let due = std::iter::from_fn(|| {
        let now = modem.next_timeout().unwrap();
        modem.handle_bytes(now, &silent);
        modem.handle_timeout(now);
        Some((now, std::iter::from_fn(|| modem.poll_transmit()).collect::<Vec<_>>()))
    });
    let (when, said) = due.take(10).find(|(_, said)| said.iter().any(|bytes| bytes[..2] != silent[..2])).unwrap();
    assert!(when <= at(20) + Duration::from_secs(2), "{when:?}");
    let news = said.iter().map(|bytes| Message::parse(u16::from_be_bytes([bytes[0], bytes[1]]), &bytes[4..]).unwrap());
    let news = news.filter(|message| message.kind != MessageKind::Heartbeat).collect::<Vec<_>>();
    assert!(news.len() == 1 && news[0].kind == MessageKind::DestinationUpdate, "{news:?}");
    assert!(news[0].items.contains(&Item::Latency(20_000)));
    // A late answer is no fault, a second one is.
    let late =
        Message::new(MessageKind::SessionUpdateResponse, vec![Item::Status(Status::SUCCESS, String::new())]).encode();
    modem.handle_bytes(when, &late);
    assert!(modem.is_in_session() && modem.poll_transmit().is_none());
    modem.handle_bytes(when, &late);
    assert_eq!(report(&mut modem).status(), Some(Status::UNEXPECTED_MESSAGE));
}

#[test]
fn a_router_declines_what_it_has_no_interest_in() {
    let (mut modem, mut router) = in_session(Some(MAC));
    modem.set_destination(OTHER, Some(metrics(1)));
    modem.set_destination(MAC, Some(metrics(2)));
    exchange(at(10), &mut modem, &mut router);
    assert_eq!(router.destinations().collect::<Vec<_>>(), [(MAC, metrics(2))]);
    modem.set_destination(OTHER, Some(metrics(3)));
    assert_eq!(modem.poll_transmit(), None, "not interested: not reported again");
}

/// A router's request may cross one of the modem's: each is answered, and the answers are expected.
#[test]
fn requests_that_cross_keep_the_session() {
    let of_mac = |kind, status: Option<Status>| {
        let status = status.map(|status| Item::Status(status, String::new()));
        Message::new(kind, [Item::MacAddress(MAC)].into_iter().chain(status).collect()).encode()
    };
    let said = |modem: &mut Modem| {
        let said = report(modem);
        (said.kind, said.status())
    };
    let success = Some(Status::SUCCESS);
    let (mut modem, _) = in_session(None);
    modem.set_destination(MAC, Some(metrics(1_000)));
    assert_eq!(said(&mut modem).0, MessageKind::DestinationUp);
    modem.handle_bytes(at(10), &of_mac(MessageKind::DestinationAnnounce, None));
    assert_eq!(said(&mut modem), (MessageKind::DestinationAnnounceResponse, success));
    modem.set_destination(MAC, Some(metrics(2_000)));
    assert_eq!(modem.poll_transmit(), None, "one request at a time");
    modem.handle_bytes(at(20), &of_mac(MessageKind::DestinationUpResponse, success));
    assert_eq!(said(&mut modem).0, MessageKind::DestinationUpdate);

    modem.set_destination(MAC, None);
    assert_eq!(said(&mut modem).0, MessageKind::DestinationDown);
    modem.handle_bytes(at(30), &of_mac(MessageKind::DestinationDown, None));
    assert_eq!(said(&mut modem), (MessageKind::DestinationDownResponse, success));
    modem.set_destination(MAC, None);
    modem.handle_bytes(at(40), &of_mac(MessageKind::DestinationDownResponse, success));
    assert_eq!((modem.poll_transmit(), modem.is_in_session()), (None, true));

    // The router announces a destination that goes down and comes back: it ends up where the last message leaves it.
    modem.set_destination(MAC, Some(metrics(3_000)));
    assert_eq!(said(&mut modem).0, MessageKind::DestinationUp);
    modem.handle_bytes(at(50), &of_mac(MessageKind::DestinationUpResponse, success));
    modem.set_destination(MAC, None);
    assert_eq!(said(&mut modem).0, MessageKind::DestinationDown);
    modem.set_destination(MAC, Some(metrics(4_000)));
    modem.handle_bytes(at(60), &of_mac(MessageKind::DestinationAnnounce, None));
    assert_eq!(said(&mut modem), (MessageKind::DestinationAnnounceResponse, success));
    modem.handle_bytes(at(70), &of_mac(MessageKind::DestinationDownResponse, success));
    assert_eq!((modem.poll_transmit(), modem.is_in_session()), (None, true), "it is up already");
    modem.handle_bytes(at(80), &of_mac(MessageKind::DestinationUpResponse, success));
    assert_eq!(said(&mut modem), (MessageKind::SessionTermination, Some(Status::UNEXPECTED_MESSAGE)));
}

#[test]
fn heartbeats_keep_a_session_and_their_absence_ends_it() {
    let (mut modem, mut router) = in_session(None);
    let mut now = at(0);
    while now < at(10_000) {
        now = modem.next_timeout().unwrap().min(router.next_timeout().unwrap());
        modem.handle_timeout(now);
        router.handle_timeout(now);
        exchange(now, &mut modem, &mut router);
    }
    assert!(modem.is_in_session() && router.is_in_session());
    modem.set_destination(MAC, Some(metrics(6_000_000)));
    exchange(now, &mut modem, &mut router);
    while router.is_in_session() {
        let next = router.next_timeout().unwrap();
        assert!(next <= now + Duration::from_secs(2), "two intervals of the modem's, §7.3.1");
        router.handle_timeout(next);
    }
    assert_eq!(router.destination(&MAC), None);
    let ended = std::iter::from_fn(|| router.poll_event()).last().unwrap();
    assert!(matches!(ended, RouterEvent::Ended(End::ByUs(Status::TIMED_OUT, _))), "{ended:?}");
    let farewell = std::iter::from_fn(|| router.poll_transmit()).last().unwrap();
    assert_eq!(farewell[..2], [0, MessageKind::SessionTermination as u8]);
    assert!(!router.is_over(), "waits for the response");
    router.handle_timeout(router.next_timeout().unwrap());
    assert!(router.is_over());
}

#[test]
fn a_session_ends_in_order() {
    let (mut modem, mut router) = in_session(None);
    modem.terminate(at(10), Status::SHUTTING_DOWN, "off");
    exchange(at(10), &mut modem, &mut router);
    assert!(modem.is_over() && router.is_over());
    assert_eq!(router.poll_event(), Some(RouterEvent::Ended(End::ByPeer(Status::SHUTTING_DOWN))));
    assert_eq!(modem.poll_event(), Some(ModemEvent::Ended(End::ByUs(Status::SHUTTING_DOWN, "off".into()))));
    let (_, mut router) = in_session(None);
    router.lost();
    assert_eq!(router.poll_event(), Some(RouterEvent::Ended(End::Lost)));
    assert!(router.is_over());
}

#[test]
fn a_peer_that_does_not_read_the_end_of_a_session_does_not_hold_it_open() {
    let reason = vec![Item::Status(Status::SUCCESS, String::new())];
    let end = Message::new(MessageKind::SessionTermination, reason).encode();
    for is_ended_by_peer in [false, true] {
        let (mut modem, _) = in_session(None);
        if is_ended_by_peer {
            modem.handle_bytes(at(10), &end);
        } else {
            modem.terminate(at(10), Status::SHUTTING_DOWN, "off");
        }
        assert!(!modem.is_over(), "the last message is still to be sent");
        let deadline = modem.next_timeout().unwrap();
        assert_eq!(deadline, at(2_010));
        modem.handle_timeout(deadline);
        assert!(modem.is_over());
        assert_eq!((modem.poll_transmit(), modem.next_timeout()), (None, None));
    }
}

/// §12.1: what each breach ends the session with.
#[test]
fn breaches_end_the_session_with_their_status() {
    let mac = || Item::MacAddress(MAC);
    let message = |kind, items| Message::new(kind, items).encode();
    for (bytes, status) in [
        (vec![0, 99, 0, 0], Status::UNKNOWN_MESSAGE),
        (
            message(
                MessageKind::SessionInitialization,
                vec![Item::HeartbeatInterval(1), Item::PeerType(false, "x".into())],
            ),
            Status::UNEXPECTED_MESSAGE,
        ),
        (
            message(MessageKind::DestinationUpResponse, vec![mac(), Item::Status(Status::SUCCESS, String::new())]),
            Status::UNEXPECTED_MESSAGE,
        ),
        (message(MessageKind::DestinationUp, vec![mac(), mac()]), Status::INVALID_DATA),
        (vec![0, 7, 0, 5, 0, 99, 0, 1, 0], Status::INVALID_DATA),
        (vec![0, 7, 0, 5, 0, 7, 0, 99, 0], Status::INVALID_DATA),
        (message(MessageKind::DestinationUpdate, vec![mac()]), Status::INVALID_DESTINATION),
        (message(MessageKind::DestinationDown, vec![mac()]), Status::INVALID_DESTINATION),
    ] {
        let (_, mut router) = in_session(None);
        router.handle_bytes(at(10), &bytes);
        let farewell = said(&mut router);
        assert_eq!((farewell.kind, farewell.status()), (MessageKind::SessionTermination, Some(status)), "{bytes:?}");
        // Nothing that comes now counts, but the response.
        hear(&mut router, at(11), MessageKind::DestinationUp, vec![mac()]);
        assert_eq!(router.poll_transmit(), None);
        hear(&mut router, at(12), MessageKind::SessionTerminationResponse, vec![]);
        assert!(router.is_over());
    }
}

#[test]
fn a_session_begins_with_its_initialization_and_soon() {
    let mut early = router(None);
    hear(&mut early, at(1), MessageKind::DestinationUp, vec![Item::MacAddress(MAC)]);
    let _initialization = said(&mut early);
    assert_eq!(said(&mut early).status(), Some(Status::UNEXPECTED_MESSAGE));
    let mut silent = router(None);
    silent.handle_timeout(silent.next_timeout().unwrap());
    let _initialization = said(&mut silent);
    assert_eq!(said(&mut silent).status(), Some(Status::TIMED_OUT));
}

/// §7.2: what does not begin with a Session Initialization gets no answer.
#[test]
fn a_modem_closes_what_is_no_routers_connection_without_a_message() {
    let modem = || Modem::new(at(0), settings("modem"), metrics(0));
    let reason = vec![Item::Status(Status::SUCCESS, String::new())];
    let termination = Message::new(MessageKind::SessionTermination, reason).encode();
    let heartbeat = Message::new(MessageKind::Heartbeat, vec![]).encode();
    for (bytes, status) in [
        (heartbeat, Status::UNEXPECTED_MESSAGE),
        (termination, Status::UNEXPECTED_MESSAGE),
        (vec![0, 99, 0, 0], Status::UNKNOWN_MESSAGE),
    ] {
        let mut modem = modem();
        modem.handle_bytes(at(1), &bytes);
        let end = modem.poll_event();
        assert!(matches!(&end, Some(ModemEvent::Ended(End::ByUs(by, _))) if *by == status), "{end:?}");
        assert_eq!((modem.poll_transmit(), modem.is_over()), (None, true));
    }
    let mut silent = modem();
    let deadline = silent.next_timeout().unwrap();
    assert_eq!(deadline, at(3_000));
    silent.handle_timeout(deadline);
    assert!(matches!(silent.poll_event(), Some(ModemEvent::Ended(End::ByUs(Status::TIMED_OUT, _)))));
    assert_eq!((silent.poll_transmit(), silent.is_over()), (None, true));
}

#[test]
fn a_router_whose_session_is_declined_hears_why_and_ends_it() {
    let (mut modem, mut router) = (Modem::new(at(0), settings("modem"), metrics(0)), router(None));
    modem.set_destination(MAC, Some(metrics(6_000_000)));
    modem.handle_bytes(at(0), &router.poll_transmit().unwrap());
    assert_eq!((modem.poll_event(), modem.poll_transmit()), (Some(ModemEvent::Requested), None));
    modem.decline(at(0), "too many");
    let denied = report(&mut modem);
    let expected = (MessageKind::SessionInitializationResponse, Some(Status::REQUEST_DENIED));
    assert_eq!((denied.kind, denied.status()), expected);
    assert_eq!(modem.poll_event(), Some(ModemEvent::Ended(End::ByUs(Status::REQUEST_DENIED, "too many".into()))));
    modem.accept(at(0));
    assert!(modem.poll_transmit().is_none() && !modem.is_over(), "it waits for the router to end it");
    router.handle_bytes(at(0), &denied.encode());
    exchange(at(0), &mut modem, &mut router);
    assert!(modem.is_over() && router.is_over());
    let why = "the modem declines: request denied: too many".to_owned();
    assert_eq!(router.poll_event(), Some(RouterEvent::Ended(End::ByUs(Status::SHUTTING_DOWN, why))));
    assert_eq!(router.poll_event(), None, "no session was up");
}

#[test]
fn a_modem_whose_heartbeats_are_hours_apart_is_refused() {
    let mut router = router(None);
    let _initialization = said(&mut router);
    let mut modem = Modem::new(at(0), Settings { heartbeat: Duration::from_secs(7200), name: "m".into() }, metrics(0));
    let introduction = [Item::HeartbeatInterval(1000), Item::PeerType(false, "r".into())];
    modem.handle_bytes(at(0), &Message::new(MessageKind::SessionInitialization, introduction.to_vec()).encode());
    modem.accept(at(0));
    router.handle_bytes(at(0), &modem.poll_transmit().unwrap());
    assert_eq!(said(&mut router).status(), Some(Status::INVALID_DATA));
}

#[test]
fn a_peer_that_asks_without_reading_and_one_with_countless_destinations_stay_bounded() {
    let (_, mut router) = in_session(None);
    let numbered = |n: u32| Mac::from_bytes(&[[2, 0].as_slice(), &n.to_be_bytes()].concat()).unwrap();
    for n in 0..5_000 {
        hear(&mut router, at(1), MessageKind::DestinationUp, vec![Item::MacAddress(numbered(n))]);
        let expected = if n < 256 { Status::SUCCESS } else { Status::REQUEST_DENIED };
        assert_eq!(said(&mut router).status(), Some(expected));
    }
    assert_eq!(router.destinations().count(), Router::MAX_DESTINATIONS);
    for _ in 0..35_000 {
        hear(&mut router, at(1), MessageKind::SessionUpdate, vec![]);
    }
    assert!(!router.is_in_session(), "too much waits to be read");
    assert!(std::iter::from_fn(|| router.poll_event()).any(|event| matches!(event, RouterEvent::Ended(_))));
    assert!(router.is_over());
}

#[test]
fn the_destination_of_interest_has_a_place_however_many_others_were_declined() {
    let (_, mut router) = in_session(Some(MAC));
    let numbered = |n: u32| Mac::from_bytes(&[[2, 0].as_slice(), &n.to_be_bytes()].concat()).unwrap();
    for n in 0..1_000 {
        hear(&mut router, at(1), MessageKind::DestinationUp, vec![Item::MacAddress(numbered(n))]);
        assert_eq!(said(&mut router).status(), Some(Status::NOT_INTERESTED), "{n}");
    }
    hear(&mut router, at(2), MessageKind::DestinationUp, vec![Item::MacAddress(MAC)]);
    assert_eq!(said(&mut router).status(), Some(Status::SUCCESS));
    assert_eq!(router.poll_event(), Some(RouterEvent::Changed(MAC)));
    assert!(router.destination(&MAC).is_some());
    for n in 0..1_000 {
        hear(&mut router, at(3), MessageKind::DestinationDown, vec![Item::MacAddress(numbered(n))]);
    }
    assert!(router.is_in_session(), "those without a place were announced, too");
}
