//! Configured interfaces that the host does not have: removed, renamed, or not there yet.

use crate::config::Named;
use status::MissingInterface;

/// Compares the interfaces that the configuration names with those of the host.
#[derive(Debug)]
pub(crate) struct MissingInterfaces {
    configured: Vec<MissingInterface>,
    missing: Vec<MissingInterface>,
}

impl MissingInterfaces {
    /// All that `configured` names count as present until the first look.
    pub(crate) fn new(configured: &[Named]) -> Self {
        let configured =
            configured.iter().map(|named| MissingInterface { key: named.key.into(), name: named.name.clone() });
        Self { configured: configured.collect(), missing: Vec::new() }
    }

    /// Compares them with `present`, the names of the host's interfaces, and logs what has changed. Returns those that are missing, if
    /// they are not the same as before.
    pub(crate) fn look(&mut self, present: &[String]) -> Option<Vec<MissingInterface>> {
        let is_missing = |configured: &&MissingInterface| !present.contains(&configured.name);
        let missing: Vec<MissingInterface> = self.configured.iter().filter(is_missing).cloned().collect();
        if missing == self.missing {
            return None;
        }
        for gone in missing.iter().filter(|one| !self.missing.contains(one)) {
            tracing::warn!(
                interface = gone.name,
                "{} names an interface that this host does not have: {} until it is back; if it has another name now, restart the \
                 gateway with that name",
                gone.key,
                consequence(&gone.key)
            );
        }
        for back in self.missing.iter().filter(|one| !missing.contains(one)) {
            tracing::info!(interface = back.name, "the interface of {} is back", back.key);
        }
        self.missing.clone_from(&missing);
        Some(missing)
    }
}

/// What is not done without the interface that `key` names.
fn consequence(key: &str) -> &'static str {
    match key {
        "intercept.interfaces" => "connections from that network go end to end",
        "intercept.out_interfaces" => "connections that leave by another interface go end to end",
        "dlep.interface" => "no modem reports the link until it is there",
        _ => {
            "cross traffic counts as none, and connections go end to end unless [intercept] out_interfaces names other interfaces,"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_and_comes_back_is_news_once() {
        let named = |key, name: &str| Named { key, place: (1, 1), name: name.into() };
        let mut interfaces =
            MissingInterfaces::new(&[named("link.interface", "sat0"), named("intercept.interfaces", "lan0")]);
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(interfaces.look(&names(&["lo", "sat0", "lan0"])), None);
        let lan = MissingInterface { key: "intercept.interfaces".into(), name: "lan0".into() };
        let renamed = names(&["lo", "sat0", "lan7"]);
        assert_eq!(interfaces.look(&renamed), Some(vec![lan]));
        assert_eq!(interfaces.look(&renamed), None);
        assert_eq!(interfaces.look(&names(&["lo", "sat0", "lan0"])), Some(Vec::new()));
    }
}
