//! The file with the link to start from.

use super::port::Port;
use crate::output::Failure;
use emulator::{PathModel, SharedCarrier, Terminal};
use ipnet::IpNet;
use link::LinkConfig;
use link::dama::CarrierConfig;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::path::Path;

/// The links up and down.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Links {
    pub(super) up: Up,
    pub(super) down: LinkConfig,
}

/// What packets go through from the terminal's side to the hub's.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Up {
    /// One link.
    Link(Box<LinkConfig>),
    /// A carrier that terminals share.
    Carrier { carrier: CarrierConfig, terminal: Vec<TerminalSection> },
}

/// A terminal of the carrier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TerminalSection {
    /// What it is called.
    pub(super) name: String,
    /// Where its packets come from.
    pub(super) networks: Vec<IpNet>,
    /// Its queue, and its part of the carrier.
    pub(super) up: LinkConfig,
    /// The interface at which routers receive its allocation by DLEP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) dlep: Option<Port>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    up: Option<LinkConfig>,
    down: Option<LinkConfig>,
    both: Option<LinkConfig>,
    #[serde(default)]
    carrier: BTreeMap<String, CarrierConfig>,
    #[serde(default)]
    terminal: Vec<TerminalSection>,
}

/// Reads the links up and down, and the traces that they name (relative to the file).
pub(super) fn read(path: &Path) -> Result<Links, Failure> {
    let error = |problem: &dyn Display| Failure::usage(format!("--link {}: {problem}", path.display()));
    let text = fs::read_to_string(path).map_err(|problem| error(&problem))?;
    let document: Document = toml::from_str(&text).map_err(|problem| {
        let line = problem.span().map_or(1, |span| text[..span.start].lines().count().max(1));
        error(&format!("line {line}: {}", problem.message().replace('\n', ", ")))
    })?;
    let mut links = document.links().map_err(|problem| error(&problem))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let read = |name: &str| fs::read_to_string(folder.join(name)).map_err(|problem| problem.to_string());
    if let Up::Carrier { carrier, .. } = &mut links.up {
        carrier.read_files(read).map_err(|problem| error(&problem))?;
    }
    links.all_mut().try_for_each(|link| link.read_files(read)).map_err(|problem| error(&problem))?;
    // Directions with one stream would lose the same packets.
    let down = links.down.stream;
    for (number, link) in links.up.links_mut().enumerate() {
        if link.stream == down || number > 0 {
            link.stream = down + 1 + number as u64;
        }
    }
    Ok(links)
}

impl Document {
    fn links(self) -> Result<Links, String> {
        let Some(down) = self.down.or(self.both.clone()) else {
            return Err("write [up] and [down], or [both]".into());
        };
        let Some((name, carrier)) = self.carrier.into_iter().next() else {
            if !self.terminal.is_empty() {
                return Err("terminal: they share no [carrier.NAME]".into());
            }
            let up = self.up.or(self.both).ok_or("write [up] and [down], or [both]")?;
            return Ok(Links { up: Up::Link(Box::new(up)), down });
        };
        if self.up.is_some() {
            return Err(format!("up: write each [[terminal]]'s own, which shares carrier.{name}"));
        }
        for terminal in &self.terminal {
            if let Some(dama) = terminal.up.dama.as_ref().filter(|dama| dama.carrier != name) {
                return Err(format!("terminal {}: up.dama.carrier: {} is not {name}", terminal.name, dama.carrier));
            }
        }
        Ok(Links { up: Up::Carrier { carrier, terminal: self.terminal }, down })
    }
}

impl Up {
    /// The links of which it consists.
    pub(super) fn links_mut(&mut self) -> Box<dyn Iterator<Item = &mut LinkConfig> + '_> {
        match self {
            Up::Link(link) => Box::new(std::iter::once(link.as_mut())),
            Up::Carrier { terminal, .. } => Box::new(terminal.iter_mut().map(|terminal| &mut terminal.up)),
        }
    }
}

impl Links {
    fn all_mut(&mut self) -> impl Iterator<Item = &mut LinkConfig> {
        self.up.links_mut().chain([&mut self.down])
    }

    /// What goes up, as the emulator takes it.
    pub(super) fn path_up(&self) -> PathModel {
        match &self.up {
            Up::Link(link) => PathModel::Link(link.clone()),
            Up::Carrier { carrier, terminal } => {
                let terminals = terminal.iter().map(|section| Terminal {
                    name: section.name.clone(),
                    networks: section.networks.clone(),
                    link: section.up.clone(),
                });
                let (config, terminals) = (carrier.clone(), terminals.collect());
                PathModel::Carrier(SharedCarrier { config, terminals, from_ncc: self.down.delay })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CARRIER: &str = "[carrier.return]\nrate = \"4Mbit/s\"\n[down]\nrate = \"20Mbit/s\"\ndelay = \"260ms\"\n";
    const TERMINAL: &str = "[[terminal]]\nname = \"one\"\nnetworks = [\"198.18.1.0/24\"]\n\
        up = { delay = \"260ms\", dama = { carrier = \"return\", rbdc = \"4Mbit/s\" } }\n";

    fn read_text(name: &str, text: &str) -> Result<Links, String> {
        let directory = std::env::temp_dir().join(format!("bentpipe-links-{}-{name}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        let path = directory.join("link.toml");
        fs::write(&path, text).expect("a file");
        let links = read(&path).map_err(|failure| failure.to_string());
        fs::remove_dir_all(directory).expect("its removal");
        links
    }

    #[test]
    fn terminals_share_a_carrier() {
        let links =
            read_text("shared", &format!("{CARRIER}{TERMINAL}{}", TERMINAL.replace("one", "two"))).expect("links");
        let Up::Carrier { terminal, .. } = &links.up else { panic!("{links:?}") };
        assert_eq!(terminal.iter().map(|terminal| &terminal.name[..]).collect::<Vec<_>>(), ["one", "two"]);
        assert_ne!(terminal[0].up.stream, terminal[1].up.stream);
        assert!(links.path_up().validate().is_err(), "both have one network");
    }

    #[test]
    fn a_carrier_that_does_not_fit_together_is_refused() {
        for (text, hint) in [
            (TERMINAL.to_owned(), "[both]"),
            (format!("[both]\ndelay = \"1ms\"\n{TERMINAL}"), "[carrier.NAME]"),
            (format!("{CARRIER}{TERMINAL}[up]\ndelay = \"1ms\""), "up: write each"),
            (format!("{CARRIER}{}", TERMINAL.replace("\"return\"", "\"back\"")), "back is not return"),
            (format!("{CARRIER}{}", TERMINAL.replace("198.18.1.0/24", "198.18.1.0/33")), "line 8"),
        ] {
            let error = read_text("wrong", &text).expect_err("refused");
            assert!(error.contains(hint), "{error} for {hint}");
        }
    }
}
