//! Networks, flows and pairs of gateways of which no simulation can be made: what is at fault is named, and why.

use link::dama::TerminalConfig;
use link::{LinkConfig, Opportunities};
use sim::satpep2003::Satpep2003;
use sim::{
    Application, DirectionId, FlowConfig, GatewayConfig, Network, NodeId, SatpepSettings, Settings, SetupError,
    Simulation, Start, Traffic, Transfer, Transport,
};
use std::sync::Arc;
use units::{Bytes, Duration, Rate};

/// client - near - far - server, and an island; no link leads there.
struct World {
    network: Network,
    client: NodeId,
    near: NodeId,
    far: NodeId,
    server: NodeId,
    island: NodeId,
}

fn link() -> LinkConfig {
    LinkConfig::new(Rate::from_bps(6_000_000), Duration::from_millis(275))
}

impl World {
    fn new(satellite: LinkConfig) -> Self {
        let mut network = Network::new();
        let [client, near, far, server, island] =
            ["client", "near", "far", "server", "island"].map(|name| network.add_node(name).expect("new"));
        network.add_link("left", client, near, link(), link()).expect("valid");
        network.add_link("satellite", near, far, satellite.clone(), satellite).expect("valid");
        network.add_link("right", far, server, link(), link()).expect("valid");
        Self { network, client, near, far, server, island }
    }

    fn flow(&self, name: &str, to: NodeId) -> FlowConfig {
        let tcp = Arc::new(tcp::Config::new(tcp::Profile::Linux));
        let application = Application::Bulk { size: Some(Bytes::new(1_000)), transfer: Transfer::Upload };
        FlowConfig {
            name: name.to_owned(),
            from: self.client,
            to,
            start: Start::default(),
            stop: None,
            traffic: Traffic::Tcp { client: tcp.clone(), server: tcp, application },
            record: false,
        }
    }

    fn refusal(&self, flows: Vec<FlowConfig>, gateways: Vec<GatewayConfig>) -> SetupError {
        let simulation = Simulation::with_gateways(self.network.clone(), flows, gateways, Settings::default());
        simulation.map(|_| ()).expect_err("it cannot be")
    }

    /// What is said of a pair between these nodes that a flow from the client to the server passes.
    fn pair_refusal(&self, nodes: [NodeId; 2], protocol: Transport) -> String {
        let error =
            self.refusal(vec![self.flow("file", self.server)], vec![GatewayConfig::new("pep", nodes, protocol)]);
        assert!(matches!(error, SetupError::Gateway(_)), "{error:?}");
        error.to_string()
    }
}

fn satpep() -> Transport {
    Transport::Satpep(SatpepSettings::default())
}

fn tcp_tunnel() -> Transport {
    Transport::Tcp(Arc::new(tcp::Config::new(tcp::Profile::Linux)))
}

#[test]
fn flows_of_one_name_and_flows_without_a_way_are_named() {
    let world = World::new(link());
    for (flows, expected) in [
        (
            vec![("file", world.server), ("file", world.server)],
            "flow `file`: there are two flows of this name: names must differ",
        ),
        (
            vec![("lost", world.island)],
            "flow `lost`: node `island` cannot be reached from node `client`: no links lead there",
        ),
        (vec![("loop", world.client)], "flow `loop`: it begins and ends at node `client`: it needs two nodes"),
    ] {
        let flows = flows.into_iter().map(|(name, to)| world.flow(name, to)).collect();
        let error = world.refusal(flows, Vec::new());
        assert!(matches!(error, SetupError::Flow(_)), "{error:?}");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn pairs_of_one_name_and_pairs_of_one_node_are_named() {
    let world = World::new(link());
    let pair = |name: &str, nodes| GatewayConfig::new(name, nodes, satpep());
    let twice = vec![pair("pep", [world.near, world.far]), pair("pep", [world.near, world.far])];
    let error = world.refusal(Vec::new(), twice).to_string();
    assert_eq!(error, "gateway `pep`: there are two pairs of this name: names must differ");
    let error = world.pair_refusal([world.near, world.near], satpep());
    assert_eq!(error, "gateway `pep`: both its nodes are `near`: a pair has two");
}

#[test]
fn a_transport_needs_a_rate_that_its_links_or_its_pair_give() {
    let world = World::new(LinkConfig { rate: None, ..link() });
    let nodes = [world.near, world.far];
    let error = world.pair_refusal(nodes, satpep());
    assert_eq!(error, "gateway `pep`: the links from `near` to `far` have no rate: give the pair its `rate`");
    let error = world.pair_refusal(nodes, Transport::Satpep2003(Box::default()));
    assert!(error.ends_with("have no rate to divide"), "{error}");
    let rate = [Some(Rate::from_bps(1_000_000)); 2];
    let transport = SatpepSettings { rate, ..SatpepSettings::default() };
    let pair = GatewayConfig::new("pep", nodes, Transport::Satpep(transport));
    let flows = vec![world.flow("file", world.server)];
    assert!(Simulation::with_gateways(world.network.clone(), flows, vec![pair], Settings::default()).is_ok());
}

#[test]
fn a_pair_of_satpep_takes_links_that_lead_from_one_of_its_nodes_to_the_other() {
    let world = World::new(link());
    let nodes = [world.near, world.far];
    let left = Some(DirectionId::new(0));
    let elsewhere = Satpep2003 { via: [left, None], ..Satpep2003::default() };
    let error = world.pair_refusal(nodes, Transport::Satpep2003(Box::new(elsewhere)));
    assert_eq!(error, "gateway `pep`: link `left` does not lead from node `near` to `far`");
    let plain = Satpep2003 { satellite: tcp::Config::new(tcp::Profile::Linux), ..Satpep2003::default() };
    let error = world.pair_refusal(nodes, Transport::Satpep2003(Box::new(plain)));
    assert_eq!(error, "gateway `pep`: `satellite` is no TCP of SaTPEP: set `satpep`, with recovery `nack`");
}

#[test]
fn a_pair_follows_an_allocation_only_where_there_is_one() {
    let world = World::new(link());
    let mut pair = GatewayConfig::new("pep", [world.near, world.far], tcp_tunnel());
    pair.follow_allocation = true;
    let error = world.refusal(vec![world.flow("file", world.server)], vec![pair]).to_string();
    assert_eq!(error, "gateway `pep`: there is no allocation to follow: no link between its nodes has `dama`");
}

#[test]
fn a_carrier_that_cannot_serve_its_terminals_is_named() {
    let mut world = World::new(link());
    let carrier = link::dama::CarrierConfig::new(Rate::from_bps(500_000));
    world.network.add_carrier("return", carrier).expect("new");
    let terminal = TerminalConfig {
        carrier: "return".to_owned(),
        cra: Rate::from_bps(600_000),
        rbdc: Rate::ZERO,
        vbdc: Bytes::ZERO,
        avbdc: Duration::from_secs(1),
        every: Duration::from_millis(100),
    };
    let direction = LinkConfig { rate: None, dama: Some(terminal), ..link() };
    world.network.add_link("terminal", world.island, world.far, direction, link()).expect("valid by itself");
    let error = world.refusal(Vec::new(), Vec::new());
    assert!(matches!(error, SetupError::Network(_)), "{error:?}");
    assert!(error.to_string().starts_with("carrier `return`: link: `dama.cra`: "), "{error}");
}

#[test]
fn a_path_over_which_no_session_comes_up_is_refused_soon_and_by_its_figures() {
    let slow = LinkConfig::new(Rate::from_bps(100), Duration::from_millis(275));
    let impatient = SatpepSettings { outage_limit: Some(Duration::from_nanos(1)), ..SatpepSettings::default() };
    for (satellite, transport, figures) in [
        (slow, SatpepSettings::default(), ["100bit/s", "550ms"]),
        (
            link(),
            SatpepSettings { rtt: Some(Duration::from_secs(360_000)), ..SatpepSettings::default() },
            ["6Mbit/s", "360000s"],
        ),
        (link(), impatient, ["550ms", "`outage_limit`"]),
    ] {
        let world = World::new(satellite);
        let error = world.pair_refusal([world.near, world.far], Transport::Satpep(transport));
        assert!(error.starts_with("gateway `pep`: no session comes up at "), "{error}");
        assert!(figures.iter().all(|figure| error.contains(figure)), "{error}");
    }
}

#[test]
fn a_pair_over_a_recorded_link_is_told_its_mean_rate() {
    let recorded = Opportunities { millis: vec![2; 10], file: None };
    let world = World::new(LinkConfig { rate: None, opportunities: Some(recorded), ..link() });
    let pair = GatewayConfig::new("pep", [world.near, world.far], satpep());
    let flows = vec![world.flow("file", world.server)];
    let made = Simulation::with_gateways(world.network.clone(), flows, vec![pair], Settings::default());
    assert!(made.is_ok(), "{:?}", made.map(|_| ()));
}
