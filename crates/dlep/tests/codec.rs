//! Messages and signals as bytes: the RFC's own layouts, round trips, and what is refused.
#![allow(clippy::unwrap_used, reason = "a test")]

use dlep::{Framer, Item, ItemKind, Mac, Message, MessageKind, ParseError, RateKind, Signal, SignalKind, Status};
use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr};

const MAC: Mac = Mac::Eui48([2, 0, 0x5e, 0x10, 0, 1]);

#[test]
fn messages_are_laid_out_as_the_rfc_says() {
    // §11.2 and §11.3: type and length, then items of type, length and value; §12.17, §13.7, §13.15.
    let update = Message::new(
        MessageKind::DestinationUpdate,
        vec![Item::MacAddress(MAC), Item::DataRate(RateKind::CurrentTransmit, 6_000_000)],
    );
    let bytes = [
        0, 13, 0, 22, // Destination Update of 22 bytes
        0, 7, 0, 6, 2, 0, 0x5e, 0x10, 0, 1, // MAC Address
        0, 15, 0, 8, 0, 0, 0, 0, 0, 0x5b, 0x8d, 0x80, // Current Data Rate (Transmit)
    ];
    assert_eq!(update.encode(), bytes);
    assert_eq!(Message::new(MessageKind::Heartbeat, vec![]).encode(), [0, 16, 0, 0]);
    // §11.1: signals begin with four letters.
    assert_eq!(&dlep::discovery("r"), &[b"DLEP".as_slice(), &[0, 1, 0, 6, 0, 4, 0, 2, 0, b'r']].concat());
}

#[test]
fn items_that_do_not_belong_are_refused() {
    let mac = Item::MacAddress(MAC);
    let refused = |kind: MessageKind, items: Vec<Item>| {
        let bytes = Message::new(kind, items).encode();
        Message::parse(kind as u16, &bytes[4..]).unwrap_err()
    };
    let twice = refused(MessageKind::DestinationDown, vec![mac.clone(), mac.clone()]);
    assert_eq!(twice, ParseError::Misplaced(ItemKind::MacAddress));
    assert_eq!(refused(MessageKind::DestinationUp, vec![]), ParseError::Missing(ItemKind::MacAddress));
    assert_eq!(refused(MessageKind::Heartbeat, vec![mac.clone()]), ParseError::Misplaced(ItemKind::MacAddress));
    let request = refused(MessageKind::LinkCharacteristicsRequest, vec![mac, Item::Resources(1)]);
    assert_eq!(request, ParseError::Misplaced(ItemKind::Resources));
    assert_eq!(Message::parse(17, &[]), Err(ParseError::UnknownType(17)));
    assert_eq!(ParseError::UnknownType(17).status(), Status::UNKNOWN_MESSAGE);
    assert_eq!(ParseError::UnknownItem(21).status(), Status::INVALID_DATA);
}

#[test]
fn datagrams_that_are_no_signal_are_told_apart_from_those_that_end_early() {
    let discovery = dlep::discovery("r");
    assert_eq!(Signal::parse(&discovery).unwrap().kind, SignalKind::PeerDiscovery);
    let longer = [&discovery, [0].as_slice()].concat();
    let shorter = &discovery[..discovery.len() - 1];
    for wrong in [b"".as_slice(), b"DLE", b"dlep\0\x01\0\0", &longer, shorter] {
        assert_eq!(Signal::parse(wrong), Err(ParseError::NoSignal), "{wrong:?}");
    }
    // §11.1: the header is four letters, a type and a length.
    assert_eq!(Signal::parse(&discovery[..7]), Err(ParseError::Truncated));
    assert_eq!(Signal::parse(b"DLEP\0\x03\0\0"), Err(ParseError::UnknownType(3)));
    for (error, text) in [
        (ParseError::NoSignal, "it is no signal of DLEP"),
        (ParseError::Truncated, "it ends too early"),
        (ParseError::UnknownType(3), "unknown type 3"),
    ] {
        assert_eq!(
            (error.to_string().as_str(), error.status()),
            (
                text,
                match error {
                    ParseError::UnknownType(_) => Status::UNKNOWN_MESSAGE,
                    _ => Status::INVALID_DATA,
                }
            )
        );
    }
}

#[test]
fn items_of_wrong_length_or_value_are_refused() {
    let update = MessageKind::DestinationUpdate as u16;
    let mac = [0, 7, 0, 6, 2, 0, 0x5e, 0x10, 0, 1];
    for (item, error) in [
        (vec![0, 15, 0, 4, 0, 0, 0, 1], ParseError::ItemLength(ItemKind::CurrentDataRateTransmit, 4)),
        (vec![0, 17, 0, 1, 101], ParseError::ItemValue(ItemKind::Resources)),
        (vec![0, 18, 0, 2, 1, 1], ParseError::ItemLength(ItemKind::RelativeLinkQualityReceive, 2)),
        (vec![0, 10, 0, 6, 1, 10, 0, 0, 0, 33], ParseError::ItemValue(ItemKind::Ipv4AttachedSubnet)),
        (vec![0, 15, 0, 9, 0], ParseError::Truncated),
        (vec![0, 15, 0], ParseError::Truncated),
        (vec![0, 21, 0, 0], ParseError::UnknownItem(21)),
        (vec![0, 0, 0, 0], ParseError::UnknownItem(0)),
    ] {
        let body = [mac.as_slice(), &item].concat();
        assert_eq!(Message::parse(update, &body), Err(error), "{item:?}");
    }
    let up = |text: &[u8], ms: u32| {
        let peer_type = [&[0, 4, 0, 1 + text.len() as u8, 0], text].concat();
        let heartbeat = [[0, 5, 0, 4].as_slice(), &ms.to_be_bytes()].concat();
        Message::parse(MessageKind::SessionInitialization as u16, &[peer_type, heartbeat].concat())
    };
    assert!(up("Router é".as_bytes(), 1000).is_ok());
    assert_eq!(up(&[0xff], 1000), Err(ParseError::ItemValue(ItemKind::PeerType)));
    assert_eq!(up(b"", 0), Err(ParseError::ItemValue(ItemKind::HeartbeatInterval)));
}

#[test]
fn items_of_extensions_that_are_offered_are_left_out_until_the_session_is_up() {
    let kind = MessageKind::SessionInitialization;
    let known = [Item::HeartbeatInterval(1000), Item::PeerType(false, "r".into())];
    let with = |foreign: u8, extensions: Option<Vec<u16>>| {
        let items = known.iter().cloned().chain(extensions.map(Item::ExtensionsSupported)).collect();
        let bytes = Message::new(kind, items).encode();
        let foreign = [foreign, 0x83, 0, 2, 1, 2];
        Message::parse(kind as u16, &[&bytes[4..], &foreign].concat()).map(|message| message.items.len())
    };
    assert_eq!(with(1, Some(vec![2])), Ok(3));
    assert_eq!(with(1, Some(vec![])), Err(ParseError::UnknownItem(0x183)));
    assert_eq!(with(1, None), Err(ParseError::UnknownItem(0x183)));
    // Private use.
    assert_eq!(with(0xff, None), Ok(2));
    let up = Message::new(MessageKind::DestinationUp, vec![Item::MacAddress(MAC)]).encode();
    let body = [&up[4..], &[0xff, 0x83, 0, 0]].concat();
    assert_eq!(Message::parse(MessageKind::DestinationUp as u16, &body), Err(ParseError::UnknownItem(0xff83)));
}

#[test]
fn offers_name_connection_points_in_their_order() {
    let from: IpAddr = "198.18.0.1".parse().unwrap();
    let point = |address: &str, tls| dlep::ConnectionPoint { address: address.parse::<SocketAddr>().unwrap(), tls };
    let points = [point("[2001:db8::1]:854", false), point("198.18.0.1:900", true)];
    let offer = dlep::offer("modem", &points);
    assert_eq!(dlep::connection_points(&offer, from), points);
    assert_eq!(dlep::connection_points(&dlep::offer("modem", &[]), from), [point("198.18.0.1:854", false)]);
    assert_eq!(dlep::connection_points(&dlep::discovery("router"), from), []);
    assert!(dlep::wants_offer(&dlep::discovery("router")) && !dlep::wants_offer(&offer));
    for damaged in [&offer[1..], &offer[..offer.len() - 1], b"DLEP", &[]] {
        assert_eq!(dlep::connection_points(damaged, from), []);
    }
}

fn item() -> impl Strategy<Value = Item> {
    let rates =
        [RateKind::MaximumReceive, RateKind::MaximumTransmit, RateKind::CurrentReceive, RateKind::CurrentTransmit];
    prop_oneof![
        (any::<u8>(), ".{0,40}").prop_map(|(code, text)| Item::Status(Status(code), text)),
        any::<(bool, [u8; 4], Option<u16>)>().prop_map(|(tls, ip, port)| Item::Ipv4ConnectionPoint(
            tls,
            ip.into(),
            port
        )),
        any::<(bool, [u8; 16], Option<u16>)>().prop_map(|(tls, ip, port)| Item::Ipv6ConnectionPoint(
            tls,
            ip.into(),
            port
        )),
        (any::<bool>(), ".{0,40}").prop_map(|(secured, text)| Item::PeerType(secured, text)),
        (1..=u32::MAX).prop_map(Item::HeartbeatInterval),
        prop::collection::vec(any::<u16>(), 0..5).prop_map(Item::ExtensionsSupported),
        any::<[u8; 6]>().prop_map(|octets| Item::MacAddress(Mac::Eui48(octets))),
        any::<[u8; 8]>().prop_map(|octets| Item::MacAddress(Mac::Eui64(octets))),
        any::<(bool, [u8; 4])>().prop_map(|(add, ip)| Item::Ipv4Address(add, ip.into())),
        any::<(bool, [u8; 16])>().prop_map(|(add, ip)| Item::Ipv6Address(add, ip.into())),
        (any::<(bool, [u8; 4])>(), 0..=32_u8).prop_map(|((add, ip), n)| Item::Ipv4AttachedSubnet(add, ip.into(), n)),
        (any::<(bool, [u8; 16])>(), 0..=128_u8).prop_map(|((add, ip), n)| Item::Ipv6AttachedSubnet(add, ip.into(), n)),
        (prop::sample::select(rates.to_vec()), any::<u64>()).prop_map(|(kind, bps)| Item::DataRate(kind, bps)),
        any::<u64>().prop_map(Item::Latency),
        (0..=100_u8).prop_map(Item::Resources),
        (0..=100_u8).prop_map(Item::RelativeLinkQualityReceive),
        (0..=100_u8).prop_map(Item::RelativeLinkQualityTransmit),
        any::<u16>().prop_map(Item::MaximumTransmissionUnit),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is accepted reads the same when it is written again, in pieces of any size.
    #[test]
    fn what_is_read_can_be_written_and_read_again(
        kind in prop::sample::select(MessageKind::ALL.to_vec()),
        items in prop::collection::vec(item(), 0..12),
        piece in 1..40_usize,
    ) {
        let bytes = Message::new(kind, items).encode();
        let parsed = Message::parse(kind as u16, &bytes[4..]);
        let mut framer = Framer::default();
        let mut read = None;
        for piece in bytes.chunks(piece) {
            prop_assert!(read.is_none());
            framer.push(piece);
            read = framer.next_message();
        }
        prop_assert_eq!(read.unwrap(), parsed.clone());
        if let Ok(message) = parsed {
            prop_assert_eq!(message.encode(), bytes);
        }
    }

    #[test]
    fn garbage_is_read_or_refused(code in 0..20_u16, body in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(message) = Message::parse(code, &body) {
            prop_assert_eq!(message.kind as u16, code);
        }
        let datagram = [b"DLEP".as_slice(), &code.to_be_bytes(), &(body.len() as u16).to_be_bytes(), &body].concat();
        if let Ok(signal) = Signal::parse(&datagram) {
            prop_assert!(matches!(signal.kind, SignalKind::PeerDiscovery | SignalKind::PeerOffer));
        }
    }
}
