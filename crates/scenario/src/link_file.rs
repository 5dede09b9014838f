//! Link files: the links up and down that `bentpipe emulate` starts from. Their settings are those of links in scenarios.

use crate::Reader;
use crate::format::carrier::CarrierSettings;
use crate::format::link::Direction;
use crate::link::{self, NoQueue};
use crate::problem::Problem;
use crate::text::Queue;
use ::link::LinkConfig;
use ::link::dama::CarrierConfig;
use document::{Document, Faults, Form, Format, Name, Node, Origin, RateLimit, Section, form, item_name, suggestion};
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use units::Duration;

/// The links up and down.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkFile {
    /// From the terminal's side to the hub's.
    pub up: UpLink,
    /// From the hub's side to the terminal's.
    pub down: LinkConfig,
}

/// What packets from the terminal's side to the hub's go through.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum UpLink {
    /// One link.
    Link(Box<LinkConfig>),
    /// A carrier that terminals share.
    Carrier {
        /// The carrier.
        carrier: CarrierConfig,
        /// Its terminals.
        terminal: Vec<Terminal>,
    },
}

/// A terminal of the carrier.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Terminal {
    /// Its name.
    pub name: String,
    /// Packets from these networks are its.
    pub networks: Vec<IpNet>,
    /// Its queue, and its part of the carrier.
    pub up: LinkConfig,
    /// The interface (`IF` or `NAMESPACE:IF`) at which routers receive its allocation by DLEP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dlep: Option<String>,
}

form!(
    /// An IP network.
    Network(IpNet), "network", "a network such as \"198.18.1.0/24\" or \"2001:db8::/32\"", "^[0-9a-fA-F.:]+/[0-9]+$",
    |text| text.parse().map_err(|_| format!("expected {}", Network::EXPECTED))
);
form!(
    /// An interface, perhaps in a named network namespace.
    Interface(String), "interface", "an interface such as \"eth0\" or \"terminal:eth0\"", "^([^:]+:)?.+$",
    |text| match text.split_once(':') {
        Some(("", _) | (_, "")) => Err("write IF or NAMESPACE:IF".to_owned()),
        None if text.is_empty() => Err("write IF or NAMESPACE:IF".to_owned()),
        _ => Ok(text.to_owned()),
    }
);

/// The links up and down that `bentpipe emulate --link FILE` starts from.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes: `link` reads the values as they stand")]
#[schemars(title = "bentpipe link file")]
struct File {
    /// The link from the first interface (the terminal's side) to the second (the hub's).
    up: Option<LinkSection>,
    /// The link from the second interface to the first.
    down: Option<LinkSection>,
    /// Each of the two links that has no table of its own.
    both: Option<LinkSection>,
    /// The return carrier that terminals share instead of `up`: one table, with a name of your choice.
    #[serde(default)]
    carrier: BTreeMap<String, CarrierSection>,
    /// The terminals of the carrier.
    #[serde(default)]
    terminal: Vec<TerminalSection>,
}

/// One direction of the link.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes: `link` reads the values as they stand")]
struct LinkSection {
    #[serde(flatten)]
    settings: Direction,
    #[serde(flatten)]
    randomness: Randomness,
}

/// A return carrier that terminals share on demand, as in DVB-RCS.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes: `link` reads the values as they stand")]
struct CarrierSection {
    #[serde(flatten)]
    settings: CarrierSettings,
    #[serde(flatten)]
    randomness: Randomness,
}

/// What random processes depend on.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes: `link` reads the values as they stand")]
struct Randomness {
    /// The seed of random processes: equal seeds, equal outcomes.
    #[schemars(range(min = 0), extend("default" = 0))]
    seed: Option<u64>,
    /// Separates links that share a seed. Links for which it is not set have the lowest numbers that no other has, the link down first.
    #[schemars(range(min = 0), extend("default" = 0))]
    stream: Option<u64>,
}

/// A terminal of the carrier.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes: `link` reads the values as they stand")]
struct TerminalSection {
    /// Its name.
    name: Name,
    /// The networks of its hosts: a packet belongs to the terminal with the longest prefix of its source address.
    networks: Vec<Network>,
    /// The terminal's link up, with its part of the carrier under `dama`.
    up: LinkSection,
    /// The interface at which the terminal's modem reports its allocation to routers by DLEP (RFC 8175).
    dlep: Option<Interface>,
}

fn format() -> &'static Format {
    static FORMAT: LazyLock<Format> =
        LazyLock::new(|| Format::of::<File>().with::<Queue>().with::<Network>().with::<Interface>());
    &FORMAT
}

/// The JSON Schema (draft 2020-12) of a link file.
pub fn json_schema() -> Json {
    format().json().clone()
}

/// The reference of link files as Markdown: what they have beside the settings of links in scenarios.
pub fn reference() -> String {
    const SECTIONS: &[Section] =
        &[Section { heading: "The file", of: None }, Section::new("terminal", "TerminalSection")];
    document::reference(format(), SECTIONS)
}

/// What holds for a direction in place of what a link file says.
#[derive(Debug, Clone, Copy, Default)]
pub struct InPlace {
    /// The rate.
    pub rate: Option<RateLimit>,
    /// The propagation delay one way.
    pub delay: Option<Duration>,
}

/// Reads the link file `text`, called `file` in faults. `read` gives the content of files that it names; `in_place` is for the directions
/// up and down.
///
/// # Errors
/// With every fault, in the order of their places.
pub fn load(text: &str, file: &str, read: Reader<'_>, in_place: [InPlace; 2]) -> Result<LinkFile, Faults> {
    let mut loader = Loader { document: Document::read(text, file, format())?, read, in_place };
    let links = loader.links();
    loader.document.finish(links)
}

/// Reads one text.
struct Loader<'a> {
    document: Document<'a>,
    read: Reader<'a>,
    in_place: [InPlace; 2],
}

/// Keys that set a rate, or a delay, which nothing can replace then.
const SET_RATE: [&str; 3] = ["rate_steps", "opportunities", "handover.rate"];
const SET_DELAY: [&str; 2] = ["delay_steps", "handover"];

impl Loader<'_> {
    fn links(&mut self) -> Option<LinkFile> {
        let down_key = self.key_of("down");
        let down = down_key.and_then(|key| self.document.node(&[key]).cloned());
        if down.is_none() {
            self.document.fault(&[], "write [up] and [down], or [both]");
        }
        let [in_place_up, in_place_down] = self.in_place;
        let delay_down = down.as_ref().map_or(Duration::ZERO, |down| self.delay(down, in_place_down));
        let up = self.up(delay_down, in_place_up);
        let delay_up = up.as_ref().map_or(Duration::ZERO, |up| up.delay());
        let down = self.link(&down?, &[down_key?], delay_up + delay_down, in_place_down);
        let mut links = LinkFile { up: up?, down: down? };
        self.separate(&mut links);
        Some(links)
    }

    /// Gives each link a stream of its own, for links with one stream would lose the same packets: what its table sets, else the
    /// first from there on that no other has.
    fn separate(&mut self, file: &mut LinkFile) {
        let tables = self.tables(&file.up);
        let links: Vec<_> = std::iter::once(&mut file.down).chain(file.up.links_mut()).zip(tables).collect();
        let mut taken = BTreeMap::new();
        for (link, (name, set)) in &links {
            let Some(origin) = set else { continue };
            if let Some(other) = taken.insert(link.stream, name.clone()) {
                let path: Vec<_> = name.split('.').chain(["stream"]).collect();
                let problem = format!(" = {}: {other} has the same; links of one file must differ", link.stream);
                self.document.fault_at(origin.clone(), &path, &problem);
            }
        }
        for (link, (name, _)) in links.into_iter().filter(|(_, (_, set))| set.is_none()) {
            let mut streams = (link.stream..LinkConfig::STREAMS).chain(0..link.stream);
            if let Some(stream) = streams.find(|stream| !taken.contains_key(stream)) {
                link.stream = stream;
                taken.insert(stream, name);
            }
        }
    }

    /// The tables of the link down and of those up: their keys, and where each sets its stream.
    fn tables(&self, up: &UpLink) -> Vec<(String, Option<Origin>)> {
        let named = |name: String, table: Option<&Node>| {
            (name, table.and_then(|table| table.get("stream")).map(|stream| stream.origin.clone()))
        };
        let [down_key, up_key] = ["down", "up"].map(|own| self.key_of(own).unwrap_or(own));
        let [down, link_up] = [down_key, up_key].map(|key| named(key.to_owned(), self.document.root().get(key)));
        let mut tables = vec![down];
        match up {
            // A stream that [both] sets for two links is that of the first.
            UpLink::Link(_) => tables.push((link_up.0, link_up.1.filter(|_| up_key != down_key))),
            UpLink::Carrier { .. } => {
                let items = self.document.items("terminal");
                let table =
                    |(at, item): (usize, &Node)| named(format!("terminal.{}.up", item_name(item, at)), item.get("up"));
                tables.extend(items.iter().enumerate().map(table));
            }
        }
        tables
    }

    /// The table that describes the link `own`: its own, or that of both.
    fn key_of(&self, own: &'static str) -> Option<&'static str> {
        [own, "both"].into_iter().find(|key| self.document.root().get(key).is_some())
    }

    fn up(&mut self, delay_down: Duration, in_place: InPlace) -> Option<UpLink> {
        let carriers = self.document.root().get("carrier").map_or_else(Vec::new, |table| table.entries().to_vec());
        let [carrier] = &carriers[..] else {
            if let Some(second) = carriers.get(1) {
                let origin = second.key_origin.clone();
                self.document.fault_at(origin, &["carrier", &second.key], ": terminals share one carrier");
                return None;
            }
            if !self.document.items("terminal").is_empty() {
                self.document.fault(&["terminal"], ": they share no [carrier.NAME]");
            }
            let Some(key) = self.key_of("up") else {
                if self.key_of("down").is_some() {
                    self.document.fault(&[], "write [up] and [down], or [both]");
                }
                return None;
            };
            let node = self.document.node(&[key])?.clone();
            let round_trip = self.delay(&node, in_place) + delay_down;
            return Some(UpLink::Link(Box::new(self.link(&node, &[key], round_trip, in_place)?)));
        };
        if self.document.root().get("up").is_some() {
            let problem = format!(": write each [[terminal]]'s own, which shares carrier.{}", carrier.key);
            self.document.fault(&["up"], &problem);
        }
        let config = self.carrier(&carrier.node, &carrier.key);
        let items = self.document.items("terminal");
        let terminals: Vec<_> = items
            .iter()
            .enumerate()
            .map(|(at, node)| self.terminal(node, at, &carrier.key, delay_down, in_place))
            .collect();
        Some(UpLink::Carrier { carrier: config?, terminal: terminals.into_iter().collect::<Option<_>>()? })
    }

    fn carrier(&mut self, node: &Node, name: &str) -> Option<CarrierConfig> {
        if self.document.is_faulty(&["carrier", name]) {
            return None;
        }
        let carrier = crate::carrier::resolve(node, self.read);
        self.sound(carrier, node, &["carrier", name])
    }

    fn terminal(
        &mut self,
        node: &Node,
        at: usize,
        carrier: &str,
        delay_down: Duration,
        in_place: InPlace,
    ) -> Option<Terminal> {
        let name = item_name(node, at);
        let path = ["terminal", &name, "up"];
        let up = node.get("up")?;
        if let Some(named) = up.get("dama").and_then(|dama| dama.get("carrier"))
            && let Some(other) = named.text()
            && other != carrier
        {
            let problem = format!(": there is no [carrier.{other}]{}", suggestion(other, [carrier].into_iter()));
            self.document.fault_at(named.origin.clone(), &["terminal", &name, "up", "dama", "carrier"], &problem);
        }
        let up = self.link(up, &path, self.delay(up, in_place) + delay_down, in_place)?;
        let networks: Vec<Network> =
            self.document.typed_node(node.get("networks")?, &["terminal", &name, "networks"])?;
        let dlep = match node.get("dlep") {
            Some(dlep) => Some(self.document.typed_node::<Interface>(dlep, &["terminal", &name, "dlep"])?.0),
            None => None,
        };
        let networks = networks.into_iter().map(|network| network.0).collect();
        Some(Terminal { name, networks, up, dlep })
    }

    /// The nominal propagation delay of the link that the table `node` describes, but for what is `in_place` of that.
    fn delay(&self, node: &Node, in_place: InPlace) -> Duration {
        in_place.delay.unwrap_or_else(|| link::nominal_delay(&settings(node), self.read))
    }

    /// The link that the table `node` at `path` describes, but for what is `in_place` of that.
    fn link(&mut self, node: &Node, path: &[&str], round_trip: Duration, in_place: InPlace) -> Option<LinkConfig> {
        if self.document.is_faulty(path) || self.is_set_otherwise(node, path, in_place) {
            return None;
        }
        let mut settings = settings(node);
        if let Some(delay) = in_place.delay {
            settings.insert("delay".into(), serde_json::json!(delay));
        }
        if let Some(RateLimit(rate)) = in_place.rate {
            settings.remove("rate");
            settings.extend(rate.map(|rate| ("rate".into(), serde_json::json!(rate))));
        }
        let link = link::resolve(settings, round_trip, NoQueue::Unlimited, self.read);
        self.sound(link, node, path)
    }

    /// Whether the table `node` at `path` sets what is to be replaced by a key for which there is no replacement: a fault.
    fn is_set_otherwise(&mut self, node: &Node, path: &[&str], in_place: InPlace) -> bool {
        let has = |key: &&&str| {
            let (key, inner) = key.split_once('.').map_or((**key, None), |(key, inner)| (key, Some(inner)));
            node.get(key).is_some_and(|node| inner.is_none_or(|inner| node.get(inner).is_some()))
        };
        let rate = in_place.rate.and_then(|_| SET_RATE.iter().find(has)).map(|key| (*key, "rate"));
        let delay = in_place.delay.and_then(|_| SET_DELAY.iter().find(has)).map(|key| (*key, "delay"));
        let Some((key, what)) = rate.or(delay) else { return false };
        let outer = key.split('.').next().unwrap_or(key);
        if let Some(found) = node.get(outer) {
            let problem = format!(": it sets the {what}, which an option cannot replace: change it here");
            self.document.fault_at(found.origin.clone(), &[path, &[outer]].concat(), &problem);
        }
        true
    }

    /// What has no problem; else the problem becomes a fault at its key in `node`.
    fn sound<T>(&mut self, result: Result<T, Problem>, node: &Node, path: &[&str]) -> Option<T> {
        let problem = match result {
            Ok(value) => return Some(value),
            Err(problem) => problem,
        };
        let at = problem.key.and_then(|key| node.get(key.split('.').next().unwrap_or(key))).unwrap_or(node);
        self.document.fault_at(at.origin.clone(), path, &format!(": {}", problem.text));
        None
    }
}

/// The settings in the table `node`, which describes a link.
fn settings(node: &Node) -> serde_json::Map<String, serde_json::Value> {
    node.entries().iter().map(|entry| (entry.key.to_string(), entry.node.to_json())).collect()
}

impl UpLink {
    /// The links of which it consists.
    pub fn links_mut(&mut self) -> Box<dyn Iterator<Item = &mut LinkConfig> + '_> {
        match self {
            Self::Link(link) => Box::new(std::iter::once(link.as_mut())),
            Self::Carrier { terminal, .. } => Box::new(terminal.iter_mut().map(|terminal| &mut terminal.up)),
        }
    }

    /// The nominal propagation delay, of the first terminal if there are several.
    pub fn delay(&self) -> Duration {
        match self {
            Self::Link(link) => link.nominal_delay(),
            Self::Carrier { terminal, .. } => {
                terminal.first().map_or(Duration::ZERO, |terminal| terminal.up.nominal_delay())
            }
        }
    }
}
