//! Link updates of a modem that is truthful, of one that is not, and of one that goes away. Where the machine
//! may not create network namespaces, the test says so and passes.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real sockets, threads and waiting")]

use dlep::Metrics;
use dlep_io::{LinkReport, Modem, ModemSettings};
use gateway::config;
use gateway::link_state::{LinkState, LinkUpdates, Source};
use kernel::Namespace;
use kernel::network::IpBatch;
use kernel::testing::namespace;
use std::io::ErrorKind;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use units::Rate;

const PATIENCE: Duration = Duration::from_secs(20);

fn settings() -> config::Settings {
    let [key, peer] = [7, 6].map(|byte| satpep::PrivateKey::from_random([byte; 32]));
    let text = format!(
        "[gateway]\nprivate_key = \"{}\"\n[link]\nrate = \"6Mbit/s\"\nrtt = \"550ms\"\n\
         [dlep]\ninterface = \"eth0\"\nmodem = \"198.18.0.1\"\nheartbeat = \"1s\"\n\
         [[peer]]\nname = \"hub\"\npublic_key = \"{}\"\n",
        key.to_base64(),
        peer.public_key()
    );
    config::parse(&text, "test").unwrap()
}

fn metrics(bps: u64, latency_ms: u64) -> Metrics {
    let rate = Some(Rate::from_bps(bps));
    let latency = Some(units::Duration::from_millis(latency_ms));
    Metrics { max_receive: rate, max_transmit: rate, receive: rate, transmit: rate, latency, ..Metrics::default() }
}

/// Waits until `bps` is reported by `source`.
fn wait(link_state: &watch::Receiver<LinkState>, bps: u64, source: Source) -> LinkState {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let now = *link_state.borrow();
        if (now.rate.as_bps(), now.source) == (bps, source) {
            return now;
        }
        assert!(Instant::now() < deadline, "{now:?} instead of {bps} by {source:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Opens the modem, whose port a program that another test starts may have for a moment: it has all sockets until it runs.
fn open_modem(host: &Namespace, settings: &ModemSettings) -> Modem {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match host.run(|| Modem::open(settings.clone())).unwrap() {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(10));
            }
            modem => return modem.unwrap(),
        }
    }
}

#[test]
fn updates_of_the_modem_count_while_it_is_there_and_they_are_plausible() {
    let (Some(modem_host), Some(gateway_host)) = (namespace(), namespace()) else { return };
    IpBatch::new(&modem_host).add_veth("eth0", &gateway_host, "eth0").run().unwrap();
    for (host, number) in [(&modem_host, 1), (&gateway_host, 2)] {
        let address = format!("address add 198.18.0.{number}/24 dev eth0");
        IpBatch::new(host).add(address).add("link set eth0 up").run().unwrap();
    }
    let modem_settings = ModemSettings {
        interface: "eth0".into(),
        port: dlep::PORT,
        destination: "02:00:5e:10:00:01".parse().unwrap(),
        session: dlep::Settings { heartbeat: units::Duration::from_millis(500), name: "modem".into() },
    };
    let start_modem = |first: Metrics| {
        let (sender, reports) = watch::channel(LinkReport { session: first, link: Some(first) });
        let modem = open_modem(&modem_host, &modem_settings);
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(modem.run(reports)).unwrap();
        };
        (sender, modem_host.spawn("modem", run).unwrap())
    };
    let (reports, thread) =
        start_modem(Metrics { quality_transmit: Some(95), mtu: Some(1500), ..metrics(4_000_000, 300) });

    let updates = gateway_host.run(|| LinkUpdates::start(&settings(), || {})).unwrap().unwrap();
    let link_state = updates.state();
    let first = wait(&link_state, 4_000_000, Source::Dlep);
    assert_eq!((first.receive_rate, first.rtt), (Rate::from_bps(4_000_000), units::Duration::from_millis(600)));
    let modem = updates.modem().unwrap();
    assert_eq!((modem.name.as_deref(), modem.link_is_up, modem.sessions), (Some("modem"), true, 1));
    assert_eq!((modem.quality, modem.mtu), (Some(95), Some(1500)));

    // Lies: nothing at all of a link that may have more, more than the link can be, a round trip of hours.
    let nothing = Metrics { transmit: Some(Rate::ZERO), ..metrics(3_000_000, 300) };
    let session = metrics(4_000_000, 300);
    let of_link = |link: Option<Metrics>| {
        reports.send_replace(LinkReport { session, link });
    };
    let lies = [nothing, metrics(u64::MAX, 300), metrics(3_000_000, 7_200_000)];
    for lie in lies {
        of_link(Some(lie));
        wait(&link_state, 6_000_000, Source::Configured);
        of_link(Some(metrics(5_000_000, 300)));
        wait(&link_state, 5_000_000, Source::Dlep);
    }
    assert_eq!(updates.counts()[1].rejected, 3);
    of_link(None);
    wait(&link_state, 6_000_000, Source::Configured);
    assert!(updates.modem().unwrap().address.is_some() && !updates.modem().unwrap().link_is_up);
    assert_eq!((updates.modem().unwrap().quality, updates.modem().unwrap().mtu), (None, None), "of no link");
    of_link(Some(metrics(2_000_000, 300)));
    wait(&link_state, 2_000_000, Source::Dlep);
    // And the same of all destinations together, in Session Updates.
    let of_all = |all: Metrics| {
        reports.send_replace(LinkReport { session: all, link: Some(all) });
    };
    for lie in lies {
        of_all(metrics(3_000_000, 200));
        assert_eq!(wait(&link_state, 3_000_000, Source::Dlep).rtt, units::Duration::from_millis(400));
        of_all(lie);
        wait(&link_state, 6_000_000, Source::Configured);
    }
    assert!(updates.counts()[1].rejected >= 6, "{:?}", updates.counts());

    // It stops in order, comes back, and is cut off.
    drop(reports);
    wait(&link_state, 6_000_000, Source::Configured);
    thread.join().unwrap();
    assert_eq!(updates.modem().unwrap().last_end.as_deref(), Some("ended by the peer: shutting down"));
    let (_reports, _thread) = start_modem(metrics(3_000_000, 300));
    wait(&link_state, 3_000_000, Source::Dlep);
    IpBatch::new(&modem_host).add("link set eth0 down").run().unwrap();
    let cut = Instant::now();
    wait(&link_state, 6_000_000, Source::Configured);
    assert!(cut.elapsed() < Duration::from_secs(5), "two heartbeats of 500 ms: {:?}", cut.elapsed());
}
