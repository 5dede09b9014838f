//! Interfaces at which the kernel drops what is to be delivered to the gateway: those where it looks for a packet's source by the packet's
//! fwmark (`src_valid_mark`). By the mark of packets to be delivered, every address is this host's own.
//!
//! With routing rules, as the gateway has one, the kernel does so even without `rp_filter`, and drops packets whose source is its own unless
//! the interface has `accept_local`; with `rp_filter = 1` it drops them in any case (`fib_validate_source` of Linux).

use crate::rules::Rules;
use kernel::interfaces::Interface;
use kernel::{Error, sysctl};

/// What holds at an interface. The kernel combines its settings with those of `all`: of `src_valid_mark` and `accept_local` either is enough,
/// and the larger `rp_filter` counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReversePath {
    interface: String,
    /// Whether all interfaces have `src_valid_mark`.
    marks_all: bool,
    /// Whether the interface has it, for itself or as all have.
    marks: bool,
    accepts_local: bool,
    filter: u32,
}

impl ReversePath {
    /// Reads the settings that hold at `interface`.
    ///
    /// # Errors
    /// If the kernel does not show them.
    pub(crate) fn read(interface: &str) -> Result<Self, Error> {
        let read = |name: &str, setting: &str| -> Result<u32, Error> {
            let key = key(name, setting);
            let value = sysctl::read(&key)?;
            value.parse().map_err(|_| Error::Missing(format!("{key} is {value}, which is no number")))
        };
        let larger = |setting: &str| Ok::<_, Error>(read("all", setting)?.max(read(interface, setting)?));
        Ok(Self {
            interface: interface.to_owned(),
            marks_all: read("all", "src_valid_mark")? != 0,
            marks: larger("src_valid_mark")? != 0,
            accepts_local: larger("accept_local")? != 0,
            filter: larger("rp_filter")?,
        })
    }

    /// Whether packets to be delivered to the gateway are dropped there.
    pub(crate) fn drops(&self) -> bool {
        self.marks && (!self.accepts_local || self.filter == 1)
    }

    /// The settings that hold, in words.
    pub(crate) fn says(&self) -> String {
        let [marks, accepts_local] = [self.marks, self.accepts_local].map(u32::from);
        format!("src_valid_mark {marks}, accept_local {accepts_local}, rp_filter {}", self.filter)
    }

    /// The command that has nothing dropped any more. The marks of all interfaces stay: other programs depend on them (wg-quick).
    pub(crate) fn remedy(&self) -> String {
        if !self.marks_all {
            return format!("sysctl -w {}=0", key(&self.interface, "src_valid_mark"));
        }
        let loose = if self.filter == 1 { format!(" {}=2", key(&self.interface, "rp_filter")) } else { String::new() };
        format!("sysctl -w {}=1{loose}", key(&self.interface, "accept_local"))
    }
}

/// With slashes: names of interfaces may have dots.
fn key(interface: &str, setting: &str) -> String {
    format!("net/ipv4/conf/{interface}/{setting}")
}

/// Logs at which interfaces packets begin to be dropped: other programs set these settings while the gateway runs (wg-quick).
#[derive(Debug, Default)]
pub(crate) struct DroppingInterfaces {
    logged: Vec<ReversePath>,
}

impl DroppingInterfaces {
    /// Looks at the interfaces of `present` that `rules` are about.
    pub(crate) fn look(&mut self, rules: &Rules, present: &[Interface]) {
        let concerned = concerned(rules, present);
        // Hosts may have thousands of interfaces: of most, one setting says enough.
        let marks = |name: &str| sysctl::read(&key(name, "src_valid_mark")).is_ok_and(|value| value != "0");
        let marks_all = marks("all");
        let read = concerned.iter().filter(|name| marks_all || marks(name)).map(|name| ReversePath::read(name));
        let dropping: Vec<ReversePath> = read.filter_map(Result::ok).filter(ReversePath::drops).collect();
        for found in dropping.iter().filter(|found| !self.logged.contains(found)) {
            tracing::warn!(
                interface = found.interface,
                "{}: the kernel drops intercepted packets: {}",
                found.says(),
                found.remedy()
            );
        }
        if dropping.is_empty() && !self.logged.is_empty() {
            tracing::info!("the kernel drops no intercepted packets by src_valid_mark any more");
        }
        self.logged = dropping;
    }
}

/// Of the interfaces `present`, those on which packets for the gateway arrive: the configured ones of clients; without any, all by which
/// servers may be reached.
pub(crate) fn concerned(rules: &Rules, present: &[Interface]) -> Vec<String> {
    let configured = &rules.interfaces;
    let is_link = |name: &str| rules.satellite.as_deref() == Some(name) || rules.towards.iter().any(|one| one == name);
    let is_concerned = |one: &&Interface| {
        if configured.is_empty() {
            !one.is_loopback && !one.is_port && !is_link(&one.name)
        } else {
            configured.contains(&one.name)
        }
    };
    present.iter().filter(is_concerned).map(|one| one.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;
    use crate::config::tests::minimal;
    use kernel::interfaces::Interfaces;
    use kernel::network::{IpBatch, set_sysctls};

    #[test]
    fn an_interface_that_begins_to_drop_packets_is_noticed() {
        let Some(namespace) = kernel::testing::namespace() else { return };
        IpBatch::new(&namespace).add("link add lan0 type veth peer name lan1").run().unwrap();
        let rules = parse(&(minimal() + "[intercept]\ninterfaces = [\"lan0\"]\n"), "x").unwrap().rules;
        let mut dropping = DroppingInterfaces::default();
        for (value, count) in [("0", 0), ("1", 1), ("1", 1), ("0", 0)] {
            set_sysctls(&namespace, &[("ipv4/conf/all/src_valid_mark", value)]).unwrap();
            namespace.run(|| dropping.look(&rules, &Interfaces::new().unwrap().all().unwrap())).unwrap();
            assert_eq!(dropping.logged.len(), count, "src_valid_mark {value}");
        }
    }
}
