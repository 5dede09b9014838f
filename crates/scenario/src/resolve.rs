//! From the words of a file to what the simulator runs: names are looked up, defaults filled in, and what no single key
//! shows is checked (that names are unique and known, that flows reach their ends).

use crate::Reader;
use crate::format::{self, flow::Start};
use crate::link::NoQueue;
use crate::preset::Preset;
use crate::quic_endpoint;
use crate::routing::{Routing, UnderWay, UpTimes};
use crate::{
    Accept, DirectionId, FlowClass, FlowConfig, GatewayConfig, Limits, Network, NodeId, Profile, Record, Satpep2003,
    SatpepSettings, Settings, Stop, Traffic, Transport, Ways,
};
use ::link::LinkConfig;
use ::link::dama::CarrierConfig;
use document::Node;
use document::item_name;
use document::{Fault, Name, Origin, suggestion};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use units::{Duration, Instant};

/// One variant of an experiment, ready to be run with any seed.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The variant's name, if the file has any.
    pub variant: Option<String>,
    /// The seeds that the file asks for.
    pub seeds: RangeInclusive<u64>,
    /// Nodes and links. Their seed is that of a run: a run sets it.
    pub network: Arc<Network>,
    /// Flows, those of a `count` one by one.
    pub flows: Vec<FlowConfig>,
    /// The name in the file of each of `flows`.
    pub groups: Arc<[String]>,
    /// Pairs of gateways.
    pub gateways: Vec<GatewayConfig>,
    /// When to end and what to record. The seed is that of `seeds` that a run has.
    pub settings: Settings,
}

/// A document without faults, and what comes of it.
pub(crate) struct Sound {
    pub(crate) document: Node,
    pub(crate) scenario: Scenario,
    endpoints: Endpoints,
    quic: QuicEndpoints,
    /// The settings that change nothing in this scenario: faults if they change nothing in any variant either.
    pub(crate) unused: Vec<Fault>,
}

/// The endpoints that flows may name.
type Endpoints = Arc<BTreeMap<String, Arc<tcp::Config>>>;
/// The same of QUIC.
type QuicEndpoints = Arc<BTreeMap<String, Arc<quic::Config>>>;

/// Resolves `document`, whose faults so far are `faults`, and adds to them. What is the same in `sound` is taken from there.
pub(crate) fn resolve(
    document: Node,
    variant: Option<&str>,
    sound: Option<&Sound>,
    read: Reader<'_>,
    faults: &mut Vec<Fault>,
) -> Option<Sound> {
    let (network, endpoints, quic) = (Arc::default(), Endpoints::default(), QuicEndpoints::default());
    let (complete, unused) = (true, Vec::new());
    let mut resolver =
        Resolver { document: &document, sound, read, faults, network, endpoints, quic, complete, unused };
    resolver.network();
    resolver.endpoints();
    resolver.quic_endpoints();
    let (flows, groups) = resolver.flows();
    let gateways = resolver.gateways(&flows, &groups);
    let (seeds, settings) = (resolver.seeds(), resolver.settings());
    let Resolver { network, endpoints, quic, unused, .. } = resolver;
    let variant = variant.map(str::to_owned);
    let scenario = Scenario { variant, seeds: seeds?, network, flows, groups, gateways, settings: settings? };
    Some(Sound { document, scenario, endpoints, quic, unused })
}

struct Resolver<'a> {
    document: &'a Node,
    sound: Option<&'a Sound>,
    read: Reader<'a>,
    faults: &'a mut Vec<Fault>,
    network: Arc<Network>,
    endpoints: Endpoints,
    quic: QuicEndpoints,
    /// Whether every node and link of the document is in the network.
    complete: bool,
    /// As [`Sound::unused`].
    unused: Vec<Fault>,
}

impl<'a> Resolver<'a> {
    /// The sound document, if it has the same under all of `keys`.
    fn sound_with(&self, keys: &[&str]) -> Option<&'a Sound> {
        let is_same = |sound: &&Sound, key: &str| match (sound.document.get(key), self.document.get(key)) {
            (Some(one), Some(other)) => one.is_same(other),
            (one, other) => one.is_none() && other.is_none(),
        };
        self.sound.filter(|sound| keys.iter().all(|key| is_same(sound, key)))
    }

    /// The items of the list `key`.
    fn items(&self, key: &str) -> &'a [Node] {
        self.document.get(key).map_or(&[], Node::items)
    }

    fn fault(&mut self, node: &Node, text: String) {
        self.faults.push(Fault::new(node.origin.clone(), text));
    }

    /// The value that `path` leads to, unless it has faults already.
    fn typed<T: DeserializeOwned>(&mut self, node: &Node, path: &[&str]) -> Option<T> {
        if self.faults.iter().any(|fault| fault.lies_within(path)) {
            return None;
        }
        match serde_json::from_value(node.to_json()) {
            Ok(value) => Some(value),
            Err(error) => {
                self.fault(node, format!("{}: {error}", path.join(".")));
                None
            }
        }
    }

    /// A section that may be left out.
    fn section<T: DeserializeOwned + Default>(&mut self, key: &str) -> Option<T> {
        self.document.get(key).map_or_else(|| Some(T::default()), |node| self.typed(node, &[key]))
    }

    /// The items of the list `key` with their names, each name once.
    fn named(&mut self, key: &str) -> Vec<(String, &'a Node)> {
        let mut seen = BTreeSet::new();
        let mut named = Vec::new();
        for (at, item) in self.items(key).iter().enumerate() {
            if let Some(name) = item.get("name")
                && let Some(text) = name.text()
                && !seen.insert(text)
            {
                let text = format!("{key}.{text}: there is another {key} of this name");
                self.faults.push(Fault::new(name.origin.clone(), text));
            }
            named.push((item_name(item, at), item));
        }
        named
    }

    /// Nodes, carriers and links.
    fn network(&mut self) {
        if let Some(sound) = self.sound_with(&["nodes", "carrier", "link"]) {
            self.network = Arc::clone(&sound.scenario.network);
            return;
        }
        let mut network = Network::new();
        self.nodes(&mut network);
        self.carriers(&mut network);
        self.links(&mut network);
        self.network = Arc::new(network);
        self.check_carriers();
    }

    fn nodes(&mut self, network: &mut Network) {
        for node in self.items("nodes") {
            match node.text() {
                Some(name) => {
                    if network.add_node(name).is_err() {
                        self.fault(node, format!("nodes: there is another node called {name}"));
                    }
                }
                None => self.complete = false,
            }
        }
    }

    /// The node whose name `name` holds, a value of `path`.
    fn node(&mut self, name: Option<&Node>, path: &str) -> Option<NodeId> {
        let network = Arc::clone(&self.network);
        self.node_of(&network, name, path)
    }

    fn node_of(&mut self, network: &Network, name: Option<&Node>, path: &str) -> Option<NodeId> {
        let name = name?;
        let text = name.text()?;
        let found = network.node(text);
        if found.is_none() {
            let known = suggestion(text, network.nodes().iter().map(String::as_str));
            self.fault(name, format!("{path}: there is no node called {text}{known}"));
        }
        found
    }

    fn carriers(&mut self, network: &mut Network) {
        for (stream, (name, node)) in self.named("carrier").into_iter().enumerate() {
            if self.faults.iter().any(|fault| fault.lies_within(&["carrier", &name])) {
                continue;
            }
            match crate::carrier::resolve(node, self.read) {
                Ok(config) => drop(network.add_carrier(&name, CarrierConfig { stream: stream as u64, ..config })),
                Err(problem) => {
                    let at = problem.key.and_then(|key| node.get(key.split('.').next().unwrap_or(key))).unwrap_or(node);
                    self.fault(at, format!("carrier.{name}: {}", problem.text));
                }
            }
        }
    }

    /// Whether the carriers that links name are there, and can serve them.
    fn check_carriers(&mut self) {
        let written: Vec<_> =
            self.items("carrier").iter().enumerate().map(|(at, node)| (item_name(node, at), node)).collect();
        for link in self.items("link") {
            for way in ["forward", "reverse"] {
                let named = crate::link::setting(link, way, "dama").and_then(|dama| dama.get("carrier"));
                let Some((named, name)) = named.and_then(|named| Some((named, named.text()?))) else { continue };
                if written.iter().all(|(known, _)| known != name) {
                    let near = suggestion(name, written.iter().map(|(known, _)| known.as_str()));
                    self.fault(named, format!("there is no carrier called {name}{near}"));
                }
            }
        }
        let network = Arc::clone(&self.network);
        for (number, (name, _)) in network.carriers().iter().enumerate() {
            let Err(error) = network.carrier(number, Instant::ZERO) else { continue };
            if let Some((_, node)) = written.iter().find(|(known, _)| known == name) {
                self.fault(node, error.to_string());
            }
        }
    }

    fn links(&mut self, network: &mut Network) {
        let sound = self.sound_with(&["nodes"]);
        for (at, (name, node)) in self.named("link").into_iter().enumerate() {
            let same = sound.filter(|sound| {
                sound
                    .document
                    .get("link")
                    .and_then(|links| links.items().get(at))
                    .is_some_and(|link| link.is_same(node))
            });
            let is_added = match same {
                Some(sound) => {
                    let [there, back] = [0, 1].map(|way| &sound.scenario.network.directions()[2 * at + way]);
                    let added =
                        network.add_link(&name, there.from, there.to, there.config.clone(), back.config.clone());
                    let up = there.up.as_ref();
                    added.is_ok_and(|link| up.is_none_or(|up| network.set_up_times(link, up).is_ok()))
                }
                None => self.link(network, &name, node).is_some(),
            };
            self.complete &= is_added;
        }
    }

    fn link(&mut self, network: &mut Network, name: &str, node: &Node) -> Option<()> {
        let between = node.get("between").map_or(&[][..], Node::items);
        let path = format!("link.{name}.between");
        let ends: Vec<_> = between.iter().map(|end| self.node_of(network, Some(end), &path)).collect();
        if let [Some(a), Some(b)] = ends[..]
            && a == b
        {
            self.fault(&between[1], format!("{path}: a link joins two nodes, not one to itself"));
            return None;
        }
        if self.faults.iter().any(|fault| fault.lies_within(&["link", name])) {
            return None;
        }
        let delays =
            ["forward", "reverse"].map(|way| crate::link::nominal_delay(&crate::link::settings(node, way), self.read));
        let stream = network.directions().len() as u64;
        let mut configs = Vec::new();
        let mut problems: Vec<(&Node, String, Option<&str>)> = Vec::new();
        for (way, stream) in [("forward", stream), ("reverse", stream + 1)] {
            match crate::link::resolve(
                crate::link::settings(node, way),
                delays[0] + delays[1],
                NoQueue::Refused,
                self.read,
            ) {
                Ok(config) => configs.push(LinkConfig { stream, ..config }),
                Err(problem) => {
                    let at = problem.key.and_then(|key| crate::link::setting(node, way, key)).unwrap_or(node);
                    // What both directions have is one problem.
                    match problems.iter_mut().find(|(of, text, _)| std::ptr::eq(*of, at) && *text == problem.text) {
                        Some((.., way)) => *way = None,
                        None => problems.push((at, problem.text, Some(way))),
                    }
                }
            }
        }
        for (at, text, way) in problems {
            let way = way.map(|way| format!(" ({way})")).unwrap_or_default();
            self.fault(at, format!("link.{name}{way}: {text}"));
        }
        let ([Some(a), Some(b)], [forward, reverse]) = (&ends[..], &configs[..]) else { return None };
        let up = match node.get("up") {
            Some(up) => Some((up, self.up_times(name, up)?)),
            None => None,
        };
        let link = network.add_link(name, *a, *b, forward.clone(), reverse.clone()).ok()?;
        if let Some((at, times)) = up
            && let Err(error) = network.set_up_times(link, &times)
        {
            self.fault(at, error.to_string());
            return None;
        }
        Some(())
    }

    /// When a link is there.
    fn up_times(&mut self, name: &str, node: &Node) -> Option<UpTimes> {
        let up: format::link::Up = self.typed(node, &["link", name, "up"])?;
        let steps = up.steps.iter().map(|(at, is_up)| (at.0, *is_up)).collect();
        let times = UpTimes::new(steps, up.repeat.map(|repeat| repeat.0));
        times.map_err(|problem| self.fault(node, format!("link.{name}.up: {problem}"))).ok()
    }

    /// Every flow, and what the document calls it.
    fn flows(&mut self) -> (Vec<FlowConfig>, Arc<[String]>) {
        if let Some(Sound { scenario, .. }) = self.sound_with(&["nodes", "link", "flow", "tcp", "quic", "record"]) {
            return (scenario.flows.clone(), Arc::clone(&scenario.groups));
        }
        let recorded = self.document.get("record").and_then(|record| record.get("flows"));
        let recorded = recorded.map(|names| names.items().iter().filter_map(Node::text).collect::<BTreeSet<_>>());
        let (mut configs, mut groups) = (Vec::new(), Vec::new());
        for (name, node) in self.named("flow") {
            let record = recorded.as_ref().is_none_or(|names| names.contains(&*name));
            for config in self.flow(&name, node).unwrap_or_default() {
                configs.push(FlowConfig { record, ..config });
                groups.push(name.clone());
            }
        }
        (configs, groups.into())
    }

    fn flow(&mut self, name: &str, node: &Node) -> Option<Vec<FlowConfig>> {
        let from = self.node(node.get("from"), &format!("flow.{name}.from"));
        let to = self.node(node.get("to"), &format!("flow.{name}.to"));
        if let (Some(from), Some(to)) = (from, to) {
            self.reach(name, node, from, to);
        }
        let does: Vec<_> = APPLICATIONS.into_iter().filter(|key| node.get(key).is_some()).collect();
        if does.len() != 1 {
            let found = if does.is_empty() { "none".to_owned() } else { does.join(" and ") };
            let list = APPLICATIONS.join(", ");
            self.fault(node, format!("flow.{name}: expected exactly one of {list}; there is {found}"));
            return None;
        }
        let known = self.known_endpoints(name, node, does[0]);
        let flow: format::flow::Flow = self.typed(node, &["flow", name]).filter(|_| known)?;
        let traffic = match self.traffic(&flow).and_then(|traffic| traffic.validate().map(|()| traffic)) {
            Ok(traffic) => traffic,
            Err(problem) => {
                let node = node.get(does[0]).unwrap_or(node);
                self.fault(node, format!("flow.{name}.{}: {problem}", does[0]));
                return None;
            }
        };
        let (from, to) = (from?, to?);
        let (at, every, spread) = start(flow.start.as_ref());
        let count = flow.count.unwrap_or(1);
        let latest = at + every * u64::from(count.saturating_sub(1)) + spread;
        if let Some(stop) = flow.stop.filter(|stop| stop.0 <= latest) {
            let (stop, node) = (stop.0, node.get("stop").unwrap_or(node));
            self.fault(
                node,
                if stop > at {
                    format!("flow.{name}.stop = {stop}: expected a time after the latest start of its flows, {latest}")
                } else {
                    format!("flow.{name}.stop = {stop}: it would send nothing: expected a time after its start, {at}")
                },
            );
            return None;
        }
        let config = |number: u32| FlowConfig {
            name: if count == 1 { name.to_owned() } else { format!("{name}-{}", number + 1) },
            from,
            to,
            start: crate::Start { at: Instant::ZERO + at + every * u64::from(number), spread },
            stop: flow.stop.map(|time| Instant::ZERO + time.0),
            traffic: traffic.clone(),
            record: true,
        };
        Some((0..count).map(config).collect())
    }

    fn reach(&mut self, name: &str, node: &Node, from: NodeId, to: NodeId) {
        if from == to {
            let at = node.get("to").unwrap_or(node);
            self.fault(at, format!("flow.{name}: `from` and `to` are one node"));
        } else if self.complete && self.network.path(from, to).is_none() {
            let (from, to) = (self.network.node_name(from).to_owned(), self.network.node_name(to).to_owned());
            self.fault(node, format!("flow.{name}: no links lead from {from} to {to}"));
        }
    }

    fn traffic(&self, flow: &format::flow::Flow) -> Result<Traffic, String> {
        if let Some(udp) = &flow.udp {
            return udp.resolve();
        }
        if let Some(ping) = &flow.ping {
            return ping.resolve();
        }
        let application = match (&flow.bulk, &flow.on_off, &flow.request_response) {
            (Some(bulk), _, _) => bulk.resolve()?,
            (_, Some(on_off), _) => on_off.resolve()?,
            (_, _, Some(exchange)) => exchange.resolve()?,
            _ => return Err(format!("expected one of {}", APPLICATIONS.join(", "))),
        };
        if let Some(name) = &flow.quic {
            let ends = self.quic.get(&*name.0).cloned().ok_or_else(|| format!("quic {} has a fault", name.0))?;
            return Ok(Traffic::Quic { ends, application });
        }
        let name = flow.tcp.as_ref().map_or(DEFAULT_TCP, |name| &name.0);
        let server = flow.server_tcp.as_ref().map_or(name, |name| &name.0);
        let endpoint = |name: &str| self.endpoints.get(name).cloned().ok_or_else(|| format!("tcp {name} has a fault"));
        Ok(Traffic::Tcp { client: endpoint(name)?, server: endpoint(server)?, application })
    }

    /// The endpoints that flows may name: the presets, and those of the file, which come first.
    fn endpoints(&mut self) {
        if let Some(sound) = self.sound_with(&["tcp"]) {
            self.endpoints = Arc::clone(&sound.endpoints);
            return;
        }
        let mut endpoints: BTreeMap<_, _> = Preset::all()
            .filter_map(|preset| Some((preset.name, Preset::config(preset.name)?)))
            .map(|(name, config)| (name.to_owned(), Arc::new(config)))
            .collect();
        let sections = self.document.get("tcp").map_or(&[][..], Node::entries);
        for entry in sections {
            let name = &*entry.key;
            if let Some(config) = self.sound_endpoint(name, &entry.node) {
                endpoints.insert(name.to_owned(), config);
                continue;
            }
            endpoints.remove(name);
            let Some(section) = self.typed::<format::tcp::Tcp>(&entry.node, &["tcp", name]) else { continue };
            match section.resolve(name) {
                Ok(config) => {
                    endpoints.insert(name.to_owned(), Arc::new(config));
                }
                Err((key, problem)) => self.fault(entry.node.at(key), format!("tcp.{name}.{key}: {problem}")),
            }
        }
        self.endpoints = Arc::new(endpoints);
    }

    /// That of the sound document, if its section `name` is the same as `section`.
    fn sound_endpoint(&self, name: &str, section: &Node) -> Option<Arc<tcp::Config>> {
        let sound = self.sound?;
        sound.document.get("tcp")?.get(name).filter(|known| known.is_same(section))?;
        sound.endpoints.get(name).cloned()
    }

    /// Whether the endpoints that a flow names are there.
    fn known_endpoints(&mut self, flow: &str, node: &Node, does: &str) -> bool {
        let mut known = true;
        for key in ["tcp", "server_tcp"] {
            let Some(value) = node.get(key) else { continue };
            if matches!(does, "udp" | "ping") {
                self.fault(value, format!("flow.{flow}.{key}: {does} has no TCP"));
            }
            known &= self.endpoint(value, &format!("flow.{flow}.{key}")).is_some();
        }
        let Some(value) = node.get("quic") else { return known };
        let path = format!("flow.{flow}.quic");
        if matches!(does, "udp" | "ping") {
            self.fault(value, format!("{path}: {does} has no QUIC"));
        }
        for key in ["tcp", "server_tcp"] {
            if node.get(key).is_some() {
                self.fault(value, format!("{path}: the flow has `{key}`, too: give one of them"));
            }
        }
        self.is_quic_known(value, &path) && known
    }

    /// Whether there are QUIC endpoints of the name that `value` holds, a value of `path`.
    fn is_quic_known(&mut self, value: &Node, path: &str) -> bool {
        let Some(name) = value.text() else { return false };
        let sections = self.document.get("quic").map_or(&[][..], Node::entries);
        let controls: Vec<&str> = quic_endpoint::controls().collect();
        let names = sections.iter().map(|entry| &*entry.key).chain(controls.iter().copied());
        if names.clone().all(|known| known != name) {
            let near = suggestion(name, names);
            self.fault(value, format!("{path}: there is no control and no [quic.{name}]{near}"));
        }
        self.quic.contains_key(name)
    }

    /// The QUIC endpoints that flows may name: one for each control, and those of the file, which come first.
    fn quic_endpoints(&mut self) {
        if let Some(sound) = self.sound_with(&["quic"]) {
            self.quic = Arc::clone(&sound.quic);
            return;
        }
        let presets = quic_endpoint::controls().filter_map(|name| Some((name, quic_endpoint::preset(name)?)));
        let mut endpoints: BTreeMap<_, _> = presets.map(|(name, config)| (name.to_owned(), Arc::new(config))).collect();
        for entry in self.document.get("quic").map_or(&[][..], Node::entries) {
            let name = &*entry.key;
            endpoints.remove(name);
            let Some(section) = self.typed::<format::quic::Quic>(&entry.node, &["quic", name]) else { continue };
            match section.resolve(name) {
                Ok(config) => {
                    endpoints.insert(name.to_owned(), Arc::new(config));
                }
                Err((key, problem)) => self.fault(entry.node.at(key), format!("quic.{name}.{key}: {problem}")),
            }
        }
        self.quic = Arc::new(endpoints);
    }

    /// The endpoints whose name `value` holds, a value of `path`.
    fn endpoint(&mut self, value: &Node, path: &str) -> Option<Arc<tcp::Config>> {
        let name = value.text()?;
        let sections = self.document.get("tcp").map_or(&[][..], Node::entries);
        let names = sections.iter().map(|entry| &*entry.key).chain(Preset::all().map(|preset| preset.name));
        if names.clone().all(|known| known != name) {
            let near = suggestion(name, names);
            self.fault(value, format!("{path}: there is no preset and no [tcp.{name}]{near}"));
        }
        self.endpoints.get(name).cloned()
    }

    /// The pairs; `groups` are the names under which the flows stand in the document.
    fn gateways(&mut self, flows: &[FlowConfig], groups: &[String]) -> Vec<GatewayConfig> {
        if let Some(sound) = self.sound_with(&["nodes", "link", "flow", "tcp", "quic", "gateway"]) {
            self.unused.clone_from(&sound.unused);
            return sound.scenario.gateways.clone();
        }
        let (mut gateways, mut ways) = (Vec::new(), Ways::default());
        for (name, node) in self.named("gateway") {
            let Some(gateway) = self.gateway(&name, node, groups) else { continue };
            if !flows.iter().any(|flow| gateway.splits(&self.network, &mut ways, flow).is_some()) {
                self.note_idle_pair(&name, node);
            }
            gateways.push(gateway);
        }
        gateways
    }

    /// Notes a pair that splits nothing, unless an override has moved it, or a flow, out of the way.
    fn note_idle_pair(&mut self, name: &str, node: &Node) {
        let flows = self.document.get("flow").map_or(&[][..], Node::items);
        let places = flows.iter().flat_map(|flow| ["from", "to"].map(|end| flow.get(end))).chain([node.get("nodes")]);
        if places.flatten().any(|place| matches!(place.origin, Origin::Override(_))) {
            return;
        }
        let text = format!(
            "gateway.{name} splits no flow: gateways are nodes that a TCP flow passes on its way from one host to another"
        );
        self.unused.push(Fault::new(node.origin.clone(), text));
    }

    fn gateway(&mut self, name: &str, node: &Node, groups: &[String]) -> Option<GatewayConfig> {
        let path = format!("gateway.{name}.nodes");
        let nodes = node.get("nodes").map_or(&[][..], Node::items);
        let ends: Vec<_> = nodes.iter().map(|end| self.node(Some(end), &path)).collect();
        let mut endpoint = |key: &str| {
            let value = node.get(key)?;
            self.endpoint(value, &format!("gateway.{name}.{key}"))
        };
        let (hosts, between) = (endpoint("hosts_tcp"), endpoint("tcp"));
        let gateway: format::gateway::Gateway = self.typed(node, &["gateway", name])?;
        let [Some(a), Some(b)] = ends[..] else { return None };
        if a == b {
            self.fault(&nodes[1], format!("{path}: a pair has two nodes"));
            return None;
        }
        if self.complete && self.network.path(a, b).is_none() {
            self.fault(node, format!("gateway.{name}: no links lead from one to the other"));
            return None;
        }
        let paper = self.satpep_2003(name, node, [a, b], &gateway.satpep_2003)?;
        let classes = self.classes(name, node, gateway.satpep.class.as_deref().unwrap_or_default(), groups)?;
        let bypass = self.bypass(name, node, gateway.satpep.bypass.as_deref().unwrap_or_default(), groups)?;
        let satpep = SatpepSettings { classes, bypass, ..gateway.satpep.resolve() };
        let config = GatewayConfig::new(name, [a, b], Transport::Satpep(satpep));
        let terrestrial = hosts.unwrap_or(config.terrestrial);
        let chosen = gateway.transport.unwrap_or(format::gateway::Transport::Satpep);
        self.note_settings_of_other_transports(name, node, chosen);
        let transport = match chosen {
            format::gateway::Transport::Satpep => config.transport,
            format::gateway::Transport::Satpep2003 => Transport::Satpep2003(Box::new(paper)),
            format::gateway::Transport::Tcp => Transport::Tcp(between.unwrap_or_else(|| Arc::clone(&terrestrial))),
        };
        let follow_allocation = gateway.follow_allocation.unwrap_or(false);
        if let (true, Some(value), false) =
            (follow_allocation, node.get("follow_allocation"), matches!(transport, Transport::Tcp(_)))
        {
            self.fault(
                value,
                format!("gateway.{name}.follow_allocation: only the transport tcp follows an allocation so"),
            );
        }
        Some(GatewayConfig { name: config.name, nodes: config.nodes, terrestrial, transport, follow_allocation })
    }

    /// Notes what is set for transports that the pair does not have. If an override chooses the transport, the file's settings are
    /// those of the transport that it replaces.
    fn note_settings_of_other_transports(&mut self, name: &str, node: &Node, chosen: format::gateway::Transport) {
        use format::gateway::Transport::{Satpep, Satpep2003, Tcp};
        let is_override = |node: &Node| matches!(node.origin, Origin::Override(_));
        let is_replaced = node.get("transport").is_some_and(is_override);
        for (key, transport) in [("satpep", Satpep), ("satpep-2003", Satpep2003), ("tcp", Tcp)] {
            let set = node.get(key).filter(|set| transport != chosen && !set.is_empty_table());
            if let Some(set) = set.filter(|set| !is_replaced || is_override(set)) {
                let remedy = format!("set gateway.{name}.transport to {key:?}, or leave it out");
                let text = format!("gateway.{name}.{key} is for another transport: {remedy}");
                self.unused.push(Fault::new(set.origin.clone(), text));
            }
        }
    }

    /// The classes of a pair, whose flows are looked up among the document's.
    fn classes(
        &mut self,
        pair: &str,
        node: &Node,
        written: &[format::gateway::Class],
        groups: &[String],
    ) -> Option<Vec<FlowClass>> {
        let sections = node.get("satpep").and_then(|satpep| satpep.get("class")).map_or(&[][..], Node::items);
        let flows = self.document.get("flow").map_or(&[][..], Node::items);
        let known: Vec<_> = flows.iter().enumerate().map(|(at, flow)| item_name(flow, at)).collect();
        let path = format!("gateway.{pair}.satpep.class");
        let classes = crate::class::resolve(&path, written.iter().zip(sections), &known, groups);
        classes.map_err(|mut faults| self.faults.append(&mut faults)).ok()
    }

    /// The numbers of the flows that go end to end past a pair, which are looked up among the document's.
    fn bypass(&mut self, pair: &str, node: &Node, written: &[Name], groups: &[String]) -> Option<Vec<usize>> {
        let names = node.get("satpep").and_then(|satpep| satpep.get("bypass")).map_or(&[][..], Node::items);
        let flows = self.document.get("flow").map_or(&[][..], Node::items);
        let known: Vec<_> = flows.iter().enumerate().map(|(at, flow)| item_name(flow, at)).collect();
        let mut is_sound = true;
        for flow in names {
            let called = flow.text().unwrap_or_default();
            if !known.iter().any(|known| known == called) {
                let near = suggestion(called, known.iter().map(String::as_str));
                self.fault(flow, format!("gateway.{pair}.satpep.bypass: there is no flow called {called}{near}"));
                is_sound = false;
            }
        }
        let is_past = |group: &String| written.iter().any(|flow| flow.0 == *group);
        let past = groups.iter().enumerate().filter(|(_, group)| is_past(group)).map(|(number, _)| number).collect();
        is_sound.then_some(past)
    }

    /// Settings of satpep-2003, whose links are looked up.
    fn satpep_2003(
        &mut self,
        pair: &str,
        node: &Node,
        [a, b]: [NodeId; 2],
        written: &format::gateway::Satpep2003,
    ) -> Option<Satpep2003> {
        let section = node.get("satpep-2003");
        let mut via = [None; 2];
        for (via, (key, ends)) in via.iter_mut().zip([("there", (a, b)), ("back", (b, a))]) {
            let Some(name) = section.and_then(|section| section.get(key)) else { continue };
            *via = Some(self.direction(name, &format!("gateway.{pair}.satpep-2003.{key}"), ends)?);
        }
        Some(Satpep2003 { via, ..written.resolve() })
    }

    /// The direction of a link that leads from one node to another.
    fn direction(&mut self, name: &Node, path: &str, ends: (NodeId, NodeId)) -> Option<DirectionId> {
        let written = name.text()?;
        let Some(link) = self.network.link(written) else {
            if self.complete {
                let known = self.network.directions().iter().map(|direction| direction.link.as_str());
                let text = format!("{path}: there is no link called {written}{}", suggestion(written, known));
                self.fault(name, text);
            }
            return None;
        };
        let leads = |id: &DirectionId| {
            let direction = &self.network.directions()[id.index()];
            (direction.from, direction.to) == ends
        };
        let found = [link, link.reverse()].into_iter().find(leads);
        if found.is_none() {
            let [from, to] = [ends.0, ends.1].map(|end| self.network.node_name(end));
            self.fault(name, format!("{path}: link {written} does not lead from {from} to {to}"));
        }
        found
    }

    fn seeds(&mut self) -> Option<RangeInclusive<u64>> {
        let seeds: format::Seeds = self.section("seeds")?;
        let first = seeds.first.unwrap_or(1);
        Some(first..=first.saturating_add(seeds.count.unwrap_or(1) - 1))
    }

    fn settings(&mut self) -> Option<Settings> {
        if let Some(sound) = self.sound_with(&["nodes", "flow", "stop", "record", "routing"]) {
            return Some(sound.scenario.settings.clone());
        }
        let stop: Option<format::Stop> = self.section("stop");
        let record = self.record();
        let routing: format::Routing = self.section("routing")?;
        let stop = stop?;
        let limits = Limits::default();
        Some(Settings {
            seed: 0,
            stop: Stop {
                at: Some(Instant::ZERO + stop.time.map_or(Duration::from_secs(3600), |time| time.0)),
                when_complete: stop.complete.unwrap_or(true),
            },
            limits: Limits {
                events: stop.max_events.unwrap_or(limits.events),
                memory: stop.max_memory.map_or(limits.memory, |size| size.0),
                ..limits
            },
            routing: Routing {
                every: routing.every.map(|every| every.0),
                under_way: match routing.under_way {
                    None | Some(format::UnderWay::Keep) => UnderWay::Keep,
                    Some(format::UnderWay::Lose) => UnderWay::Lose,
                },
            },
            record: record?,
        })
    }

    /// Reports names that stand twice in a list.
    fn check_once(&mut self, names: &[Node], path: &str) {
        let mut seen = BTreeSet::new();
        for name in names {
            if let Some(text) = name.text().filter(|text| !seen.insert(*text)) {
                self.fault(name, format!("{path}: {text} is there already"));
            }
        }
    }

    fn record(&mut self) -> Option<Record> {
        let node = self.document.get("record");
        let list = |key: &str| node.and_then(|node| node.get(key)).map_or(&[][..], Node::items);
        self.check_once(list("flows"), "record.flows");
        self.check_once(list("packets"), "record.packets");
        let flows = self.items("flow").iter().enumerate();
        let known: BTreeSet<_> = flows.map(|(at, flow)| item_name(flow, at)).collect();
        for flow in list("flows") {
            if let Some(name) = flow.text().filter(|name| !known.contains(*name)) {
                let near = suggestion(name, known.iter().map(String::as_str));
                self.fault(flow, format!("record.flows: there is no flow called {name}{near}"));
            }
        }
        let packets: Vec<_> = list("packets").iter().map(|name| self.node(Some(name), "record.packets")).collect();
        let record: format::Record = self.section("record")?;
        Some(Record {
            flow_interval: record.interval.map(|interval| interval.0),
            window_changes: record.window_changes.unwrap_or(false),
            queue_interval: record.queue_interval.map(|interval| interval.0),
            capacity: record.capacity.unwrap_or(false),
            packets_at: packets.into_iter().flatten().collect(),
        })
    }
}

/// How TCP behaves where a flow does not say.
const DEFAULT_TCP: &str = "sack";
/// The keys that say what a flow does.
const APPLICATIONS: [&str; 5] = ["bulk", "on_off", "request_response", "udp", "ping"];

/// The earliest start, by how much each flow starts later than the one before, and by how much more at random.
fn start(start: Option<&Start>) -> (Duration, Duration, Duration) {
    match start {
        None => Default::default(),
        Some(Start::At(at)) => (at.0, Duration::ZERO, Duration::ZERO),
        Some(Start::Spread(spread)) => {
            let of = |time: Option<document::Time>| time.map_or(Duration::ZERO, |time| time.0);
            (of(spread.at), of(spread.every), of(spread.spread))
        }
    }
}

impl format::gateway::Satpep2003 {
    /// All but the links.
    fn resolve(&self) -> Satpep2003 {
        let plain = Satpep2003::default();
        let nack = match self.nack {
            None | Some(format::gateway::NackRule::Fig1) => tcp::NackRule::Fig1,
            Some(format::gateway::NackRule::Fig1Literal) => tcp::NackRule::Fig1Literal,
            Some(format::gateway::NackRule::PerSegment) => tcp::NackRule::PerSegment,
        };
        Satpep2003 {
            accept: match self.accept {
                None | Some(format::gateway::Accept::Confirmed) => Accept::Confirmed,
                Some(format::gateway::Accept::Immediate) => Accept::Immediate,
            },
            profile: match self.profile {
                None | Some(format::gateway::DivisionProfile::Paper) => Profile::Paper,
                Some(format::gateway::DivisionProfile::Deploy) => Profile::Deploy,
            },
            headroom: self.headroom.or(plain.headroom),
            packet_pair: self.packet_pair.unwrap_or(plain.packet_pair),
            satellite: tcp::Config { tuning: tcp::Tuning { nack, ..plain.satellite.tuning }, ..plain.satellite },
            buffer: self.buffer.map(|buffer| buffer.0),
            via: plain.via,
        }
    }
}

impl format::gateway::SatpepSettings {
    fn resolve(&self) -> SatpepSettings {
        let plain = SatpepSettings::default();
        let rate = match self.rate.as_deref() {
            Some([there, back]) => [Some(there.0), Some(back.0)],
            _ => plain.rate,
        };
        SatpepSettings {
            rate,
            rate_confidence: self.rate_confidence.unwrap_or_default(),
            capacity: self.capacity.unwrap_or_default(),
            link_updates: self.link_updates.unwrap_or(plain.link_updates),
            rtt: self.rtt.map(|rtt| rtt.0),
            pacing_gain: self.pacing_gain.unwrap_or(plain.pacing_gain),
            receive_memory: self.receive_memory.map(|size| size.0),
            outage_limit: self.outage_limit.map(|limit| limit.0),
            repair: self.repair.unwrap_or(plain.repair),
            repair_overhead: self.repair_overhead.unwrap_or(plain.repair_overhead),
            cross_traffic: self.cross_traffic.unwrap_or_default(),
            connect_timeout: self.connect_timeout.map_or(plain.connect_timeout, |limit| limit.0),
            max_streams: self.max_streams,
            max_connections: self.max_connections,
            report_transitions: self.report_transitions.unwrap_or(plain.report_transitions),
            ..plain
        }
    }
}
