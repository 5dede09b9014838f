//! Which of a scenario's links are emulated: one, or several whose terminals share a carrier to the hub.

use crate::Error;
use crate::topology::{Topology, terminal_networks};
use emulator::{PathModel, SharedCarrier, Terminal};
use link::LinkConfig;
use link::dama::CarrierConfig;
use sim::{Direction, DirectionId, Network, NodeId};
use units::Duration;

/// The links that are more than wires.
#[derive(Debug)]
pub(super) struct Emulated {
    /// Each terminal's way to the hub.
    to_hub: Vec<DirectionId>,
    /// On which of the network's carriers they send.
    carrier: Option<usize>,
}

impl Emulated {
    /// Those of `network`.
    ///
    /// # Errors
    /// If there are none, or they make no one hub with its terminals.
    pub(super) fn of(network: &Network) -> Result<Self, Error> {
        let mut names: Vec<_> = network
            .directions()
            .iter()
            .filter(|direction| !is_wire(&direction.config))
            .map(|direction| direction.link.as_str())
            .collect();
        names.dedup();
        if let Some(direction) = network.directions().iter().find(|direction| direction.up.is_some()) {
            let link = &direction.link;
            return Err(Error::Input(format!("link `{link}` comes and goes (`up`): only simulated links do")));
        }
        if names.is_empty() {
            return Err(Error::Input("no link has a rate, a delay or losses: there is nothing to emulate".to_owned()));
        }
        let to_hub = names.iter().map(|name| to_hub(network, name)).collect::<Result<Vec<_>, _>>()?;
        let carrier_of = |at: usize| get(network, to_hub[at]).config.dama.as_ref().map(|dama| dama.carrier.as_str());
        let is_shared = |at| carrier_of(at).is_some() && carrier_of(at) == carrier_of(0);
        let ends_at_hub = |at: usize| get(network, to_hub[at]).to == get(network, to_hub[0]).to;
        if names.len() > 1 && !(0..names.len()).all(|at| is_shared(at) && ends_at_hub(at)) {
            return Err(Error::Input(format!(
                "links {} have a rate, a delay or losses: one link is emulated, or several that share a carrier (`dama`) to the same \
                 node; the others must be wires (no rate, no delay)",
                names.join(", ")
            )));
        }
        if names.len() > Topology::MAX_TERMINALS {
            let most = Topology::MAX_TERMINALS;
            return Err(Error::Input(format!(
                "{} terminals share a carrier: for real, at most {most} do",
                names.len()
            )));
        }
        let back = |direction: DirectionId| get(network, direction.reverse()).config.nominal_delay();
        if let Some(at) = (1..names.len()).find(|at| back(to_hub[*at]) != back(to_hub[0])) {
            return Err(Error::Input(format!(
                "links `{}` and `{}` have different delays from the hub: for real, plans take the same time to all terminals",
                names[0], names[at]
            )));
        }
        let carrier = carrier_of(0).map(|wanted| {
            let number = network.carriers().iter().position(|(name, _)| name == wanted);
            number.ok_or_else(|| Error::Input(format!("there is no carrier `{wanted}`")))
        });
        Ok(Self { carrier: carrier.transpose()?, to_hub })
    }

    /// How many terminals there are.
    pub(super) fn terminals(&self) -> usize {
        self.to_hub.len()
    }

    /// The way of terminal number `terminal` to the hub.
    pub(super) fn to_hub(&self, terminal: usize) -> DirectionId {
        self.to_hub[terminal]
    }

    /// The carrier's name, if there is one.
    pub(super) fn carrier<'a>(&self, network: &'a Network) -> Option<&'a (String, CarrierConfig)> {
        self.carrier.map(|number| &network.carriers()[number])
    }

    /// Where the only link ends, the terminal's end first; `None` if there are several.
    pub(super) fn ends(&self, network: &Network) -> Option<[NodeId; 2]> {
        let [only] = self.to_hub[..] else { return None };
        let direction = get(network, only);
        Some([direction.from, direction.to])
    }

    /// What the emulator does to the hub and from it, with the random numbers of `seed`.
    pub(super) fn paths(&self, network: &Network, seed: u64) -> [PathModel; 2] {
        let config = |direction: DirectionId| LinkConfig { seed, ..get(network, direction).config.clone() };
        let terminals = |back: bool| {
            let terminal = |(number, direction): (usize, &DirectionId)| Terminal {
                name: get(network, *direction).link.clone(),
                networks: terminal_networks(number),
                link: config(if back { direction.reverse() } else { *direction }),
            };
            self.to_hub.iter().enumerate().map(terminal).collect::<Vec<_>>()
        };
        let up = match self.carrier(network) {
            None => config(self.to_hub[0]).into(),
            Some((_, carrier)) => PathModel::Carrier(SharedCarrier {
                config: CarrierConfig { seed, ..carrier.clone() },
                terminals: terminals(false),
                from_ncc: self.delay_from_hub(network),
            }),
        };
        let down = match self.to_hub[..] {
            [only] => config(only.reverse()).into(),
            _ => PathModel::Apart(terminals(true)),
        };
        [up, down]
    }

    /// Whether the emulator takes these paths.
    ///
    /// # Errors
    /// Names the links, and what only simulated ones do.
    pub(super) fn validate(&self, network: &Network) -> Result<(), Error> {
        let links: Vec<_> = self.to_hub.iter().map(|way| format!("`{}`", get(network, *way).link)).collect();
        // No seed makes a difference.
        for (path, way) in self.paths(network, 0).iter().zip(["to the hub", "from the hub"]) {
            path.validate().map_err(|error| Error::Input(format!("link {}, {way}: {error}", links.join(", "))))?;
        }
        Ok(())
    }

    fn delay_from_hub(&self, network: &Network) -> Duration {
        get(network, self.to_hub[0].reverse()).config.nominal_delay()
    }
}

fn get(network: &Network, direction: DirectionId) -> &Direction {
    &network.directions()[direction.index()]
}

fn is_wire(config: &LinkConfig) -> bool {
    let LinkConfig { seed, stream, .. } = *config;
    let wire = LinkConfig {
        rate: None,
        queue: link::QueueLimit::Unlimited,
        seed,
        stream,
        ..LinkConfig::new(units::Rate::ZERO, Duration::ZERO)
    };
    *config == wire
}

/// The direction of link `name` that sends on a carrier, or else from its first node to its second.
fn to_hub(network: &Network, name: &str) -> Result<DirectionId, Error> {
    let there = network.link(name).ok_or_else(|| Error::failed(format!("link `{name}` is gone")))?;
    let [shares, back_shares] = [there, there.reverse()].map(|way| get(network, way).config.dama.is_some());
    match (shares, back_shares) {
        (true, true) => Err(Error::Input(format!(
            "link `{name}`: both paths share a carrier: for real, only the way to the hub does"
        ))),
        (false, true) => Ok(there.reverse()),
        _ => Ok(there),
    }
}
