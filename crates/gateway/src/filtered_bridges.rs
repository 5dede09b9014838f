//! Bridges among the interfaces of clients whose frames the kernel hands to the IP firewall (br_netfilter), as container engines have it
//! do.
//!
//! The gateway's rules then see a packet while it is still a frame of the bridge, and no second time as a packet of the host: it is to
//! be delivered to the gateway's listener, and the socket that the rules have found is forgotten on the way. Connections of such an
//! interface cannot be intercepted.

use kernel::interfaces::Interface;
use kernel::sysctl;

/// What hands frames to the firewall, of either family.
pub(crate) const KEYS: [&str; 2] = ["net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables"];

/// The interfaces of clients, and those among them that are such bridges.
#[derive(Debug)]
pub(crate) struct FilteredBridges {
    interfaces: Vec<String>,
    filtered: Vec<String>,
}

impl FilteredBridges {
    /// None of `interfaces` is one until the first look.
    pub(crate) fn new(interfaces: &[String]) -> Self {
        Self { interfaces: interfaces.to_vec(), filtered: Vec::new() }
    }

    /// Whether there is one.
    pub(crate) fn are_there(&self) -> bool {
        !self.filtered.is_empty()
    }

    /// Looks at the host's interfaces `present`, and logs what has changed. Returns whether something has.
    pub(crate) fn look(&mut self, present: &[Interface]) -> bool {
        let keys = filtering_keys();
        let filtered = if keys.is_empty() { Vec::new() } else { bridges(&self.interfaces, present) };
        if filtered == self.filtered {
            return false;
        }
        if filtered.is_empty() {
            tracing::info!("no intercepted bridge is filtered by iptables any more");
        } else {
            tracing::warn!(
                interfaces = filtered.join(", "),
                "{} is 1, and an intercepted interface is a bridge: no connection can be intercepted there, and all go end to end; set it \
                 to 0, or name another interface",
                keys.join(" and ")
            );
        }
        self.filtered = filtered;
        true
    }
}

/// Those of [`KEYS`] that are set.
pub(crate) fn filtering_keys() -> Vec<&'static str> {
    KEYS.into_iter().filter(|key| sysctl::read(key).is_ok_and(|value| value.trim() == "1")).collect()
}

/// Those of `interfaces` that are bridges.
pub(crate) fn bridges(interfaces: &[String], present: &[Interface]) -> Vec<String> {
    let is_bridge = |name: &&String| present.iter().any(|one| one.is_bridge && one.name == **name);
    interfaces.iter().filter(is_bridge).cloned().collect()
}
