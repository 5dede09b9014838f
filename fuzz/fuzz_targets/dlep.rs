//! What a DLEP peer may say to either role, in session or not; and datagrams of discovery.
#![no_main]

use dlep::{Mac, Message, MessageKind, Metrics, Modem, Participant, Router, Settings, Signal};
use units::{Duration, Instant, Rate};

const MAC: Mac = Mac::Eui48([2, 0, 0, 0, 0, 1]);

fn settings() -> Settings {
    Settings { heartbeat: Duration::from_secs(1), name: "fuzz".into() }
}

/// The modem begins whatever session is asked for.
fn hear(modem: &mut Modem, now: Instant, bytes: &[u8]) {
    modem.handle_bytes(now, bytes);
    modem.accept(now);
}

// The first byte chooses the role, whether it is in session, and whether the modem has news of that; each further piece of the
// stream begins with its length and with how long it takes to come.
libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = Signal::parse(input);
    let Some((choice, mut stream)) = input.split_first() else { return };
    let rate = Some(Rate::from_bps(6_000_000));
    let metrics = Metrics {
        max_receive: rate,
        max_transmit: rate,
        receive: rate,
        transmit: rate,
        latency: Some(Duration::from_millis(275)),
        ..Metrics::default()
    };
    let mut now = Instant::ZERO;
    let (mut modem, mut router) = (Modem::new(now, settings(), metrics), Router::new(now, settings(), None));
    if choice & 2 != 0 {
        while let Some(bytes) =
            router.poll_transmit().inspect(|bytes| hear(&mut modem, now, bytes)).and(modem.poll_transmit())
        {
            router.handle_bytes(now, &bytes);
        }
        modem.set_destination(MAC, Some(metrics));
    }
    if choice & 4 != 0 {
        modem.set_session(now, Metrics { latency: Some(Duration::from_millis(20)), ..metrics });
    }
    while let [length, wait, rest @ ..] = stream {
        let (piece, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        stream = rest;
        now += Duration::from_millis(u64::from(*wait) * 10);
        let check = |bytes: Option<Vec<u8>>| {
            let Some(bytes) = bytes else { return false };
            let said = Message::parse(u16::from_be_bytes([bytes[0], bytes[1]]), &bytes[4..]);
            assert!(said.is_ok_and(|message| MessageKind::ALL.contains(&message.kind)), "what is sent is well-formed");
            true
        };
        if choice & 1 == 0 {
            router.handle_timeout(now);
            router.handle_bytes(now, piece);
            while check(router.poll_transmit()) {}
            while router.poll_event().is_some() {}
            assert!(router.destinations().count() <= Router::MAX_DESTINATIONS);
        } else {
            modem.handle_timeout(now);
            hear(&mut modem, now, piece);
            while check(modem.poll_transmit()) {}
            while modem.poll_event().is_some() {}
        }
    }
});
