//! The same conversations through two gateways that run and through two that are simulated: the relay engine goes through the same
//! transitions, in the same order. Where the machine may not create network namespaces, the tests say so and pass.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real processes, sockets and waiting")]

mod pair;

use lab::{Family, Satellite};
use link::{LinkConfig, LossModel, QueueLimit};
use pair::{End, Pair};
use serde_json::Value;
use sim::{
    Application, FlowConfig, GatewayConfig, Network, SatpepSettings, Settings, Simulation, Start, Stop, Traffic,
    Transfer, Transport,
};
use socket2::SockRef;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use units::{Bytes, Duration, Instant, Probability, Rate};

/// An event and the state after it.
type Transition = (String, String);

/// What the near gateway and the far one went through.
type Both = [Vec<Transition>; 2];

const RATE: Rate = Rate::from_bps(20_000_000);
const RTT: Duration = Duration::from_millis(100);
/// What a client sends: for longer than an answer takes.
const UPLOAD: u64 = 4_000_000;
const REQUEST: u64 = 300;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Conversation {
    /// The client uploads and ends; the server ends then.
    Upload,
    /// The client asks; the server answers and ends; the client ends then.
    Download,
    /// The client resets the connection while it uploads.
    Aborted,
    /// The server's host answers nothing.
    Unanswered,
    /// A rule keeps the connection end to end.
    Bypassed,
}

use Conversation::*;

#[test]
fn gateways_that_run_and_gateways_that_are_simulated_go_through_the_same_transitions() {
    let Some(mut pair) = pair::across(Satellite { forward: satellite(), return_link: satellite() }) else {
        return;
    };
    pair.runner.logged = Some("gateway=info,gateway::relays=trace");
    pair.sections = "[[bypass]]\nname = \"by-rule\"\nports = [7005]";
    let pair = pair.start_both("");
    let mut reset = 0;
    for (number, conversation) in [Upload, Download, Aborted, Unanswered, Bypassed].into_iter().enumerate() {
        // A machine that is busy elsewhere may have kept a gateway from its peer for a moment.
        [End::Hub, End::Terminal].into_iter().for_each(|end| pair.wait_until(end, true));
        let client = held_for_real(&pair, conversation, 7001 + number as u16);
        let real = [End::Terminal, End::Hub].map(|end| transitions_of(&pair, end, client));
        let simulated = simulated(conversation);
        assert_eq!(
            real,
            simulated,
            "{conversation:?}\n{}\n{}",
            notices(&pair, End::Terminal),
            notices(&pair, End::Hub)
        );
        assert_eq!(real[0].is_empty(), conversation == Bypassed, "{real:?}");
        reset += usize::from(real[0].iter().any(|(event, _)| event == "StreamReset" || event == "TcpReset"));
    }
    assert_eq!(reset, 2, "the one that was aborted and the one without an answer");
}

fn satellite() -> LinkConfig {
    LinkConfig { queue: QueueLimit::bandwidth_delay_product(RATE, RTT), ..LinkConfig::new(RATE, RTT / 2) }
}

/// Holds the conversation with a server at `port`. Returns the client's address.
fn held_for_real(pair: &Pair, conversation: Conversation, port: u16) -> SocketAddr {
    if conversation == Unanswered {
        let drop = "add table inet deaf; add chain inet deaf input { type filter hook input priority 0; }; \
                    add rule inet deaf input tcp dport 7004 drop";
        assert!(pair.server().host.command("nft").arg(drop).status().unwrap().success());
    }
    let server = pair.serve(Family::V4, port, move |mut stream| serve(conversation, &mut stream));
    let mut stream = pair.connect(server);
    let client = stream.local_addr().unwrap();
    // These gateways are configured with a higher rate, with which the near one would take all that is sent before the far one answers.
    std::thread::sleep((RTT * 5).into());
    match conversation {
        Upload | Bypassed => {
            stream.write_all(&vec![7; UPLOAD as usize]).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        }
        Download => {
            stream.write_all(&[7; REQUEST as usize]).unwrap();
            assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), UPLOAD as usize);
        }
        Aborted => {
            stream.write_all(&vec![7; UPLOAD as usize / 2]).unwrap();
            SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
        }
        Unanswered => {
            stream.write_all(&[7; REQUEST as usize]).unwrap();
            assert!(stream.read(&mut [0]).is_err());
        }
    }
    drop(stream);
    pair.wait_for(|pair| {
        [End::Hub, End::Terminal].iter().all(|end| pair.status(*end)["streams"].as_array().unwrap().is_empty())
    });
    client
}

fn serve(conversation: Conversation, stream: &mut TcpStream) {
    if conversation == Download {
        stream.read_exact(&mut [0; REQUEST as usize]).unwrap();
        stream.write_all(&vec![7; UPLOAD as usize]).unwrap();
    } else {
        // The reset of one that is aborted is none of the server's business.
        let _ = stream.read_to_end(&mut Vec::new());
    }
}

/// What the log of the gateway at `end` says of the client's connection.
fn transitions_of(pair: &Pair, end: End, client: SocketAddr) -> Vec<Transition> {
    let log = std::fs::read_to_string(pair.log(end)).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["fields"].clone());
    let of_client = lines.filter(|fields| fields["message"] == "transition" && fields["client"] == client.to_string());
    let text = |fields: &Value, key: &str| fields[key].as_str().unwrap().to_owned();
    of_client.map(|fields| (text(&fields, "event"), text(&fields, "to"))).collect()
}

/// What else the gateway at `end` logged: why a connection was left alone.
fn notices(pair: &Pair, end: End) -> String {
    let log = std::fs::read_to_string(pair.log(end)).unwrap();
    log.lines().filter(|line| !line.contains(r#""message":"transition""#)).collect::<Vec<_>>().join("\n")
}

/// The conversation in virtual time.
fn simulated(conversation: Conversation) -> Both {
    let mut network = Network::new();
    let [client, near, far, server] = ["client", "near", "far", "server"].map(|name| network.add_node(name).unwrap());
    let lan = LinkConfig {
        queue: QueueLimit::Unlimited,
        ..LinkConfig::new(Rate::from_bps(1_000_000_000), Duration::from_micros(50))
    };
    let mut to_server = lan.clone();
    if conversation == Unanswered {
        to_server.loss = LossModel::Bernoulli(Probability::new(1.0).unwrap());
    }
    network.add_link("left", client, near, lan.clone(), lan.clone()).unwrap();
    network.add_link("satellite", near, far, satellite(), satellite()).unwrap();
    network.add_link("right", far, server, to_server, lan).unwrap();
    let host = Arc::new(tcp::Config::new(tcp::Profile::Linux));
    let download = Transfer::Download { request: Bytes::new(REQUEST) };
    let (size, transfer, stop) = match conversation {
        Upload | Bypassed => (Some(UPLOAD), Transfer::Upload, None),
        Download | Unanswered => (Some(UPLOAD), download, None),
        Aborted => (None, Transfer::Upload, Some(Instant::from_nanos(800_000_000))),
    };
    let flow = FlowConfig {
        name: "flow".to_owned(),
        from: client,
        to: server,
        start: Start::default(),
        stop,
        traffic: Traffic::Tcp {
            client: host.clone(),
            server: host,
            application: Application::Bulk { size: size.map(Bytes::new), transfer },
        },
        record: false,
    };
    let transport = SatpepSettings {
        bypass: if conversation == Bypassed { vec![0] } else { Vec::new() },
        connect_timeout: Duration::from_secs(3),
        report_transitions: true,
        ..SatpepSettings::default()
    };
    let gateways = vec![GatewayConfig::new("pair", [near, far], Transport::Satpep(transport))];
    let stop = Stop { at: Some(Instant::from_nanos(30_000_000_000)), when_complete: false };
    let settings = Settings { stop, ..Settings::default() };
    let mut simulation = Simulation::with_gateways(network, vec![flow], gateways, settings).unwrap();
    simulation.run();
    let transitions = simulation.report().gateways.remove(0).transitions;
    ["near", "far"].map(|node| {
        let at_node = transitions.iter().filter(|one| one.node == node);
        at_node.map(|one| (one.event.clone(), one.to.clone())).collect()
    })
}
