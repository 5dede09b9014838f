//! The interfaces that the emulator joins.

use crate::output::Failure;
use kernel::Namespace;
use kernel::interfaces::Interfaces;
use kernel::packet::PacketSocket;
use std::io;
use std::net::IpAddr;
use std::os::linux::fs::MetadataExt;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::str::FromStr;

/// An interface, perhaps in a named namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Port {
    pub(super) namespace: Option<String>,
    pub(super) interface: String,
}

impl FromStr for Port {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (namespace, interface) = match text.split_once(':') {
            Some((namespace, interface)) => (Some(namespace.to_owned()), interface),
            None => (None, text),
        };
        if interface.is_empty() || namespace.as_deref() == Some("") {
            return Err("write IF or NAMESPACE:IF".to_owned());
        }
        Ok(Self { namespace, interface: interface.to_owned() })
    }
}

/// An interface as a port of the emulator, for which no other emulator opens it.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) socket: PacketSocket,
    /// A name that one process of the network namespace can have, as long as it holds this socket.
    pub(super) claim: UnixDatagram,
}

impl Port {
    /// Whether both are one interface, which may have several names.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self == other || self.identity().is_some_and(|own| other.identity() == Some(own))
    }

    /// Whether both are the two ends of one pair: what is sent by the one comes in by the other. Of interfaces in different namespaces it
    /// does not know.
    pub(super) fn is_wired_to(&self, other: &Self) -> bool {
        let linked = |port: &Self, to: &Self| Some((to.identity()?.1, port.link()?));
        let is_linked = |port: &Self, to: &Self| linked(port, to).is_some_and(|(index, link)| index == link);
        let namespace = |port: &Self| Some(port.identity()?.0);
        namespace(self) == namespace(other) && is_linked(self, other) && is_linked(other, self)
    }

    /// The number of the interface of its namespace that it is linked to.
    fn link(&self) -> Option<u32> {
        let here = || Interfaces::new().ok()?.get(&self.interface).ok()??.link;
        match &self.namespace {
            None => here(),
            Some(name) => Namespace::named(name).ok()?.run(here).ok()?,
        }
    }

    /// The number of its namespace and its own; `None` if there is no such interface.
    fn identity(&self) -> Option<(u64, u32)> {
        let here = || {
            let namespace = std::fs::metadata("/proc/thread-self/ns/net").ok()?;
            Some((namespace.st_ino(), kernel::gtsm::index(&self.interface).ok()?))
        };
        match &self.namespace {
            None => here(),
            Some(name) => Namespace::named(name).ok()?.run(here).ok()?,
        }
    }

    pub(super) fn open(&self) -> Result<Opened, Failure> {
        match &self.namespace {
            None => self.open_here(),
            Some(name) => {
                let namespace = Namespace::named(name)
                    .map_err(|error| Failure::usage(format!("network namespace {name}: {error}")))?;
                namespace.run(|| self.open_here()).map_err(lacking)?
            }
        }
    }

    /// Opens the interface in the namespace of the calling thread.
    fn open_here(&self) -> Result<Opened, Failure> {
        let socket = emulator::open(&self.interface).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Failure::usage(error),
            io::ErrorKind::PermissionDenied => {
                Failure::missing(format!("{error}: emulating a link needs CAP_NET_RAW (run it as root)"))
            }
            _ => Failure::failed(error),
        })?;
        self.refuse_hosts_own()?;
        if !socket.is_ethernet().map_err(Failure::failed)? {
            return Err(Failure::usage(format!(
                "--between: packets of {} have no Ethernet header; expected an Ethernet interface (a network card, veth, tap or gretap): \
                 for a tunnel, that of a host or namespace that routes into it",
                self.interface
            )));
        }
        let claim = self.claim()?;
        self.warn_of_hosts_ipv6()?;
        Ok(Opened { socket, claim })
    }

    /// The host itself would answer for an address of the interface, and send from there past the emulated link, as a bridge would that
    /// it belongs to.
    fn refuse_hosts_own(&self) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::failed(format!("addresses of {}: {error}", self.interface));
        let mut interfaces = Interfaces::new().map_err(Failure::failed)?;
        let Some(interface) = interfaces.get(&self.interface).map_err(failed)? else { return Ok(()) };
        if interface.is_loopback {
            return Err(Failure::usage(format!(
                "--between: {} leads back to this host; expected two interfaces that lead to other hosts or namespaces",
                self.interface
            )));
        }
        if let Some(master) = interface.master {
            let master = interfaces.name(master).ok().flatten().unwrap_or_else(|| format!("interface {master}"));
            return Err(Failure::usage(format!(
                "--between: {0} belongs to {master}, which takes its packets, too; expected an interface that belongs to none ({1})",
                self.interface,
                self.inside(&format!("ip link set dev {} nomaster", self.interface))
            )));
        }
        let addresses = interfaces.addresses_of(interface.index).map_err(failed)?;
        // The kernel gives each interface a link-local one.
        let is_given = |address: &IpAddr| matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
        match addresses.into_iter().find(|address| !is_given(address)) {
            None => Ok(()),
            Some(address) => Err(Failure::usage(format!(
                "--between: {0} has the address {address}, so that this host would answer beside the hosts behind it; expected an \
                 interface without addresses ({1})",
                self.interface,
                // Flushed, it would come back with the next advertisement of a router.
                if address.is_ipv6() {
                    self.turning_ipv6_off(&interface.name)
                } else {
                    self.inside(&format!("ip addr flush dev {}", self.interface))
                }
            ))),
        }
    }

    /// A router that advertises itself across the link gives the host addresses and a default route there, by Linux's defaults.
    fn warn_of_hosts_ipv6(&self) -> Result<(), Failure> {
        let interface = Interfaces::new().map_err(Failure::failed)?.get(&self.interface).map_err(Failure::failed)?;
        // Settings know no other name.
        let Some(name) = interface.map(|interface| interface.name) else { return Ok(()) };
        let setting = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
        if std::fs::read_to_string(setting).is_ok_and(|value| value.trim() == "0") {
            tracing::warn!(
                interface = self.interface,
                "this host has IPv6 at this interface: it answers beside the hosts behind it, and routers that advertise themselves give it \
                 addresses and routes there; turn it off ({})",
                self.turning_ipv6_off(&name)
            );
        }
        Ok(())
    }

    /// The command that does it, for the interface's own name.
    fn turning_ipv6_off(&self, name: &str) -> String {
        self.inside(&format!("sysctl -w net/ipv6/conf/{name}/disable_ipv6=1"))
    }

    /// The command where the interface is.
    fn inside(&self, command: &str) -> String {
        match &self.namespace {
            None => command.to_owned(),
            Some(namespace) => format!("ip netns exec {namespace} {command}"),
        }
    }

    /// Two emulators of one interface would both forward each packet.
    fn claim(&self) -> Result<UnixDatagram, Failure> {
        let index = kernel::gtsm::index(&self.interface);
        let name = index.and_then(|index| SocketAddr::from_abstract_name(format!("bentpipe-emulate/{index}")));
        name.and_then(|name| UnixDatagram::bind_addr(&name)).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => {
                Failure::usage(format!("--between: another bentpipe emulate has {} already", self.interface))
            }
            _ => Failure::failed(format!("claiming {}: {error}", self.interface)),
        })
    }
}

pub(super) fn lacking(error: kernel::Error) -> Failure {
    if error.is_missing() { Failure::missing(error) } else { Failure::failed(error) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::network::IpBatch;
    use kernel::testing::namespace;

    #[test]
    fn an_interface_under_two_names_is_one() {
        let Some(namespace) = namespace() else { return };
        IpBatch::new(&namespace).add("link add one type veth peer name two").run().expect("a pair");
        let alias = IpBatch::new(&namespace).add("link property add dev one altname alias").run();
        if let Err(error) = alias {
            eprintln!("SKIPPED: {error}");
            return;
        }
        let [one, two, alias] = ["one", "two", "alias"].map(|name| name.parse::<Port>().expect("a port"));
        let inside = || {
            assert!(one.is_same(&alias) && !one.is_same(&two));
            assert!(one.is_wired_to(&two) && !one.is_wired_to(&one));
            let _opened = one.open().expect("a port");
            let refused = alias.open().expect_err("it is in use").to_string();
            assert!(refused.contains("another bentpipe emulate has alias already"), "{refused}");
            assert!(two.open().is_ok());
        };
        namespace.run(inside).expect("inside");
    }

    #[test]
    fn advice_is_for_the_interface_where_it_is_by_its_own_name() {
        let Some(namespace) = namespace() else { return };
        let mut batch = IpBatch::new(&namespace);
        batch.add("link add one type veth peer name two").add("link property add dev one altname alias");
        if let Err(error) = batch.add("addr add 2001:db8::1/64 dev one").run() {
            eprintln!("SKIPPED: {error}");
            return;
        }
        let refused = |namespace_name: Option<&str>| {
            let port = Port { namespace: namespace_name.map(str::to_owned), interface: "alias".to_owned() };
            namespace.run(|| port.refuse_hosts_own().expect_err("it has an address").to_string()).expect("inside")
        };
        let command = "sysctl -w net/ipv6/conf/one/disable_ipv6=1)";
        let (here, there) = (refused(None), refused(Some("there")));
        assert!(here.ends_with(&format!("({command}")), "{here}");
        assert!(there.ends_with(&format!("(ip netns exec there {command}")), "{there}");
    }

    #[test]
    fn an_interface_above_another_is_no_end_of_a_pair_with_it() {
        let Some(namespace) = namespace() else { return };
        let mut batch = IpBatch::new(&namespace);
        batch.add("link add one type veth peer name two").add("link add above link one type macvlan");
        if let Err(error) = batch.run() {
            eprintln!("SKIPPED: {error}");
            return;
        }
        let [one, above] = ["one", "above"].map(|name| name.parse::<Port>().expect("a port"));
        namespace.run(|| assert!(!one.is_wired_to(&above) && !above.is_wired_to(&one))).expect("inside");
    }

    #[test]
    fn an_interface_without_ethernet_headers_is_refused() {
        let Some(namespace) = namespace() else { return };
        if let Err(error) = IpBatch::new(&namespace).add("tuntap add name tunnel mode tun").run() {
            eprintln!("SKIPPED: {error}");
            return;
        }
        let tunnel: Port = "tunnel".parse().expect("a port");
        let refused = namespace.run(|| tunnel.open().expect_err("it has no Ethernet header")).expect("inside");
        assert!(matches!(refused, Failure::Usage(_)), "{refused:?}");
        assert!(refused.to_string().contains("packets of tunnel have no Ethernet header"), "{refused}");
    }
}
