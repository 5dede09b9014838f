//! Nodes and the duplex links between them.

use crate::routing::{Routing, UpTimes};
use ::link::LinkConfig;
use ::link::dama::{Carrier, CarrierConfig, Member};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use units::{Duration, Instant, Rate};

/// A node of a [`Network`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

/// One direction of a link of a [`Network`]: link `n` in the order of their making has the directions `2 n` (from its
/// first node to its second) and `2 n + 1` (back).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirectionId(u32);

impl NodeId {
    /// Its number, in the order in which the nodes were added, from 0.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl DirectionId {
    /// The direction with this number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Its number, from 0.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The other direction of the same link.
    #[must_use]
    pub const fn reverse(self) -> Self {
        Self(self.0 ^ 1)
    }
}

/// What cannot be part of a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// Two nodes of one name.
    #[error("node `{0}` is defined twice: names must differ")]
    DuplicateNode(String),
    /// Two links of one name.
    #[error("link `{0}` is defined twice: names must differ")]
    DuplicateLink(String),
    /// A link from a node to itself.
    #[error("link `{link}` joins node `{node}` to itself: a link needs two nodes")]
    Loop {
        /// The link.
        link: String,
        /// The node at both its ends.
        node: String,
    },
    /// Two carriers of one name.
    #[error("carrier `{0}` is defined twice: names must differ")]
    DuplicateCarrier(String),
    /// A carrier that is none, or that cannot serve its terminals.
    #[error("carrier `{carrier}`: {source}")]
    Carrier {
        /// The carrier.
        carrier: String,
        /// What is wrong.
        source: link::ConfigError,
    },
    /// A direction that sends on a carrier which is not there.
    #[error("link `{link}`: there is no carrier `{carrier}`")]
    UnknownCarrier {
        /// The link.
        link: String,
        /// The carrier that it names.
        carrier: String,
    },
    /// A link that comes and goes, and shares a carrier.
    #[error("link `{0}` shares a carrier on demand, which is always there: leave `up` or `dama` out")]
    ComesAndGoesOnCarrier(String),
    /// A direction of a link that is no link.
    #[error("link `{link}`, from `{from}` to `{to}`: {source}")]
    Direction {
        /// The link.
        link: String,
        /// Where the direction starts.
        from: String,
        /// Where it ends.
        to: String,
        /// What is wrong.
        source: link::ConfigError,
    },
}

/// One direction of a link, as it was configured.
#[derive(Debug, Clone)]
pub struct Direction {
    /// The link's name.
    pub link: String,
    /// Where it starts.
    pub from: NodeId,
    /// Where it ends.
    pub to: NodeId,
    /// Rate, delay, queue, losses.
    pub config: LinkConfig,
    /// When it is there, if it comes and goes.
    pub up: Option<UpTimes>,
}

/// Nodes joined by duplex links, each made of two [`link::Link`]s, one for each direction.
///
/// ```
/// use link::LinkConfig;
/// use scenario::Network;
/// use units::{Duration, Rate};
///
/// let mut network = Network::new();
/// let earth = network.add_node("earth")?;
/// let moon = network.add_node("moon")?;
/// let there = LinkConfig::new(Rate::from_bps(10_000_000), Duration::from_millis(1282));
/// network.add_link("laser", earth, moon, there.clone(), LinkConfig { stream: 1, ..there })?;
/// assert_eq!(network.path(earth, moon).map(|path| path.len()), Some(1));
/// # Ok::<(), scenario::NetworkError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Network {
    nodes: Vec<String>,
    directions: Vec<Direction>,
    nodes_by_name: BTreeMap<String, NodeId>,
    links_by_name: BTreeMap<String, DirectionId>,
    /// Carriers shared on demand, by name.
    carriers: Vec<(String, CarrierConfig)>,
    /// The directions that end at each node.
    incoming: Vec<Vec<DirectionId>>,
}

impl Network {
    /// Without nodes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a node.
    ///
    /// # Errors
    /// If there is one of that name.
    pub fn add_node(&mut self, name: &str) -> Result<NodeId, NetworkError> {
        let id = NodeId(self.nodes.len() as u32);
        if self.nodes_by_name.contains_key(name) {
            return Err(NetworkError::DuplicateNode(name.to_owned()));
        }
        self.nodes_by_name.insert(name.to_owned(), id);
        self.nodes.push(name.to_owned());
        self.incoming.push(Vec::new());
        Ok(id)
    }

    /// Adds a duplex link between `a` and `b`: `ab` is the direction from `a` to `b`, `ba` the one back. Give the two
    /// different streams, or they meet the same random losses. Returns the direction from `a` to `b`.
    ///
    /// # Errors
    /// If there is a link of that name, if both ends are one node, or if a configuration makes no link.
    ///
    /// # Panics
    /// If a node is of another network.
    pub fn add_link(
        &mut self,
        name: &str,
        a: NodeId,
        b: NodeId,
        ab: LinkConfig,
        ba: LinkConfig,
    ) -> Result<DirectionId, NetworkError> {
        let id = DirectionId(self.directions.len() as u32);
        if self.links_by_name.contains_key(name) {
            return Err(NetworkError::DuplicateLink(name.to_owned()));
        }
        if a == b {
            return Err(NetworkError::Loop { link: name.to_owned(), node: self.node_name(a).to_owned() });
        }
        for (from, to, config) in [(a, b, &ab), (b, a, &ba)] {
            config.validate().map_err(|source| NetworkError::Direction {
                link: name.to_owned(),
                from: self.node_name(from).to_owned(),
                to: self.node_name(to).to_owned(),
                source,
            })?;
        }
        self.links_by_name.insert(name.to_owned(), id);
        self.directions.push(Direction { link: name.to_owned(), from: a, to: b, config: ab, up: None });
        self.directions.push(Direction { link: name.to_owned(), from: b, to: a, config: ba, up: None });
        self.incoming[b.index()].push(id);
        self.incoming[a.index()].push(id.reverse());
        Ok(id)
    }

    /// Lets a link, both its directions, come and go. A direction that shares a carrier cannot: the carrier's plans would not know.
    ///
    /// # Errors
    /// If it shares a carrier.
    ///
    /// # Panics
    /// If the link is of another network.
    pub fn set_up_times(&mut self, link: DirectionId, times: &UpTimes) -> Result<(), NetworkError> {
        let pair = [link, link.reverse()].map(DirectionId::index);
        if pair.iter().any(|at| self.directions[*at].config.dama.is_some()) {
            return Err(NetworkError::ComesAndGoesOnCarrier(self.directions[pair[0]].link.clone()));
        }
        for at in pair {
            self.directions[at].up = Some(times.clone());
        }
        Ok(())
    }

    /// Whether packets between two nodes may take another way later.
    pub fn has_routes_that_change(&self, routing: Routing) -> bool {
        routing.every.is_some() || self.directions.iter().any(|direction| direction.up.is_some())
    }

    /// Adds a carrier that directions of links may share: those whose configuration names it.
    ///
    /// # Errors
    /// If there is one of that name, or the configuration makes none.
    pub fn add_carrier(&mut self, name: &str, config: CarrierConfig) -> Result<(), NetworkError> {
        if self.carriers.iter().any(|(known, _)| known == name) {
            return Err(NetworkError::DuplicateCarrier(name.to_owned()));
        }
        config.validate().map_err(|source| NetworkError::Carrier { carrier: name.to_owned(), source })?;
        self.carriers.push((name.to_owned(), config));
        Ok(())
    }

    /// All carriers and their names.
    pub fn carriers(&self) -> &[(String, CarrierConfig)] {
        &self.carriers
    }

    /// Carrier `number` as it is at `start`, and the directions that send on it, which are its terminals in that order. Its
    /// NCC is at the far end of each: requests take the direction's delay, plans that of the way back.
    ///
    /// # Errors
    /// If the carrier cannot serve its terminals.
    pub fn carrier(&self, number: usize, start: Instant) -> Result<(Carrier, Vec<DirectionId>), NetworkError> {
        let (name, config) = &self.carriers[number];
        let (mut members, mut directions) = (Vec::new(), Vec::new());
        for (at, direction) in self.directions.iter().enumerate() {
            let id = DirectionId(at as u32);
            if let Some(terminal) = direction.config.dama.as_ref().filter(|dama| dama.carrier == *name) {
                let [there, back] = [id, id.reverse()].map(|way| self.directions[way.index()].config.nominal_delay());
                members.push(Member { config: terminal.clone(), to_ncc: there, from_ncc: back });
                directions.push(id);
            }
        }
        let carrier = Carrier::new(start, config.clone(), members)
            .map_err(|source| NetworkError::Carrier { carrier: name.clone(), source })?;
        Ok((carrier, directions))
    }

    /// Checks that every carrier that a link names is there and can serve its terminals.
    ///
    /// # Errors
    /// With the first that is not or cannot.
    pub fn check_carriers(&self) -> Result<(), NetworkError> {
        for direction in &self.directions {
            let Some(dama) = &direction.config.dama else { continue };
            if self.carriers.iter().all(|(name, _)| *name != dama.carrier) {
                let (link, carrier) = (direction.link.clone(), dama.carrier.clone());
                return Err(NetworkError::UnknownCarrier { link, carrier });
            }
        }
        (0..self.carriers.len()).try_for_each(|number| self.carrier(number, Instant::ZERO).map(|_| ()))
    }

    /// The highest rate at which a direction may send ([`LinkConfig::highest_rate`]), without free capacity where it shares a carrier;
    /// `None` if nothing limits it.
    pub fn highest_rate(&self, direction: DirectionId) -> Option<Rate> {
        let config = &self.directions[direction.index()].config;
        let on_carrier = || {
            let dama = config.dama.as_ref()?;
            let (_, carrier) = self.carriers.iter().find(|(name, _)| *name == dama.carrier)?;
            Some(dama.most(carrier))
        };
        config.highest_rate().or_else(on_carrier)
    }

    /// The same network, whose links and carriers draw by `seed`.
    #[must_use]
    pub fn seeded(&self, seed: u64) -> Self {
        let mut network = self.clone();
        network.directions.iter_mut().for_each(|direction| direction.config.seed = seed);
        network.carriers.iter_mut().for_each(|(_, config)| config.seed = seed);
        network
    }

    /// The node of that name.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.nodes_by_name.get(name).copied()
    }

    /// The link of that name: its direction from the first node that it was given to the second.
    pub fn link(&self, name: &str) -> Option<DirectionId> {
        self.links_by_name.get(name).copied()
    }

    /// A node's name.
    pub fn node_name(&self, node: NodeId) -> &str {
        &self.nodes[node.index()]
    }

    /// The names of all nodes, in the order of their numbers.
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// Both directions of all links, in the order of their numbers.
    pub fn directions(&self) -> &[Direction] {
        &self.directions
    }

    /// The way that packets take from one node to another: the one with the least nominal propagation delay, among those the one
    /// with the fewest links, among those at each node the one over the link added first. `None` if there is none.
    pub fn path(&self, from: NodeId, to: NodeId) -> Option<Vec<DirectionId>> {
        let next = self.next_directions(to);
        let mut path = Vec::new();
        let mut node = from;
        while node != to {
            let direction = next[node.index()]?;
            path.push(direction);
            node = self.directions[direction.index()].to;
        }
        Some(path)
    }

    /// The first direction of the way from each node to `end`.
    fn next_directions(&self, end: NodeId) -> Vec<Option<DirectionId>> {
        let none = (Duration::MAX, u32::MAX, u32::MAX);
        let mut best = vec![none; self.nodes.len()];
        let mut next = vec![None; self.nodes.len()];
        best[end.index()] = (Duration::ZERO, 0, 0);
        let mut frontier = BinaryHeap::from([Reverse((Duration::ZERO, 0, end))]);
        while let Some(Reverse((far, links, node))) = frontier.pop() {
            if (far, links) > (best[node.index()].0, best[node.index()].1) {
                continue;
            }
            for &direction in &self.incoming[node.index()] {
                let Direction { from, config, .. } = &self.directions[direction.index()];
                let cost = (far + config.nominal_delay(), links + 1, direction.index() as u32);
                if cost < best[from.index()] {
                    best[from.index()] = cost;
                    next[from.index()] = Some(direction);
                    frontier.push(Reverse((cost.0, cost.1, *from)));
                }
            }
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::link::Handover;
    use ::link::dama::TerminalConfig;
    use units::Bytes;

    fn link(delay_ms: u64) -> LinkConfig {
        LinkConfig::new(Rate::from_bps(1_000_000), Duration::from_millis(delay_ms))
    }

    fn named_path(network: &Network, from: &str, to: &str) -> Option<Vec<String>> {
        let id = |name| network.node(name).expect("a node");
        let path = network.path(id(from), id(to))?;
        Some(path.iter().map(|direction| network.directions()[direction.index()].link.clone()).collect())
    }

    #[test]
    fn packets_take_the_way_of_least_delay_then_of_fewest_links_then_the_first_link() {
        let mut network = Network::new();
        let ids: Vec<_> =
            ["a", "b", "c", "island"].into_iter().map(|name| network.add_node(name).expect("new")).collect();
        for (name, from, to, delay) in
            [("ab", 0, 1, 10), ("bc", 1, 2, 10), ("ac-slow", 0, 2, 21), ("ac", 0, 2, 20), ("ac-twin", 0, 2, 20)]
        {
            network.add_link(name, ids[from], ids[to], link(delay), link(delay)).expect("valid");
        }
        assert_eq!(named_path(&network, "a", "c"), Some(vec!["ac".to_owned()]));
        assert_eq!(named_path(&network, "c", "a"), Some(vec!["ac".to_owned()]));
        assert_eq!(named_path(&network, "a", "a"), Some(vec![]));
        assert_eq!(named_path(&network, "a", "island"), None);
        let d = network.add_node("d").expect("new");
        network.add_link("cd", ids[2], d, link(1), link(1)).expect("valid");
        assert_eq!(named_path(&network, "b", "d"), Some(vec!["bc".to_owned(), "cd".to_owned()]));
    }

    #[test]
    fn faults_name_the_culprit() {
        let mut network = Network::new();
        let a = network.add_node("alpha").expect("new");
        let b = network.add_node("beta").expect("new");
        assert!(network.add_node("alpha").expect_err("twice").to_string().contains("`alpha`"));
        network.add_link("sat", a, b, link(1), link(1)).expect("valid");
        let error = |result: Result<_, NetworkError>| result.map(|_: DirectionId| ()).expect_err("a fault").to_string();
        assert!(error(network.add_link("sat", a, b, link(1), link(1))).contains("`sat`"));
        assert!(error(network.add_link("loop", a, a, link(1), link(1))).contains("`alpha`"));
        let dead = LinkConfig { rate: Some(Rate::ZERO), ..link(1) };
        let message = error(network.add_link("dead", a, b, link(1), dead));
        assert!(["`dead`", "from `beta` to `alpha`", "`rate`"].iter().all(|part| message.contains(part)), "{message}");
        assert_eq!(network.directions().len(), 2, "what was refused is not there");
    }

    /// A direction that sends on this carrier, at a constant rate of `kbit`.
    fn on_carrier(carrier: &str, kbit: u64) -> LinkConfig {
        let terminal = TerminalConfig {
            carrier: carrier.to_owned(),
            cra: Rate::from_bps(kbit * 1000),
            rbdc: Rate::ZERO,
            vbdc: Bytes::ZERO,
            avbdc: Duration::from_secs(1),
            every: Duration::from_millis(100),
        };
        LinkConfig { rate: None, dama: Some(terminal), ..link(250) }
    }

    #[test]
    fn handovers_may_have_the_only_rates_of_a_link() {
        let mut network = Network::new();
        let [one, two] = ["one", "two"].map(|name| network.add_node(name).expect("new"));
        let times = [Duration::from_millis(20), Duration::from_millis(40)];
        let rate = Some([30, 100].map(|n| Rate::from_bps(n * 1_000_000)));
        let handover = Handover { period: Duration::from_secs(15), delay: times, rate, outage: Duration::ZERO };
        let leo = LinkConfig { rate: None, handover: Some(handover), ..link(1) };
        let direction = network.add_link("leo", one, two, leo, link(1)).expect("valid");
        assert_eq!(network.highest_rate(direction), Some(Rate::from_bps(100_000_000)));
    }

    #[test]
    fn carriers_have_one_name_each_and_serve_all_that_send_on_them() {
        let mut network = Network::new();
        let [one, two, hub] = ["one", "two", "hub"].map(|name| network.add_node(name).expect("new"));
        let carrier = || CarrierConfig::new(Rate::from_bps(1_000_000));
        network.add_carrier("return", carrier()).expect("new");
        let twice = network.add_carrier("return", carrier());
        assert_eq!(twice, Err(NetworkError::DuplicateCarrier("return".to_owned())));
        let dead = CarrierConfig { slot: Bytes::ZERO, ..carrier() };
        let error = network.add_carrier("dead", dead).expect_err("no slots").to_string();
        assert!(error.starts_with("carrier `dead`: link: `slot`: 0B is not from"), "{error}");
        assert_eq!(network.carriers().len(), 1, "what was refused is not there");

        network.add_link("first", one, hub, on_carrier("return", 600), link(250)).expect("valid");
        assert_eq!(network.check_carriers(), Ok(()));
        assert_eq!(network.highest_rate(DirectionId::new(0)), Some(Rate::from_bps(600_000)));
        network.add_link("second", two, hub, on_carrier("return", 600), link(250)).expect("valid by itself");
        let error = network.check_carriers().expect_err("1.2 Mbit/s of 1");
        assert!(matches!(&error, NetworkError::Carrier { carrier, .. } if carrier == "return"), "{error:?}");
        assert!(error.to_string().starts_with("carrier `return`: link: `dama.cra`: "), "{error}");

        network.add_link("third", two, hub, on_carrier("retrun", 1), link(250)).expect("valid by itself");
        let unknown = NetworkError::UnknownCarrier { link: "third".to_owned(), carrier: "retrun".to_owned() };
        assert_eq!(network.check_carriers(), Err(unknown.clone()));
        assert_eq!(unknown.to_string(), "link `third`: there is no carrier `retrun`");
        assert_eq!(network.highest_rate(DirectionId::new(4)), None, "nobody knows its rate");
    }
}
