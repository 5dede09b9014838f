//! The host's interfaces, their counters and addresses, and news of their changes, through netlink (rtnetlink(7)): one
//! question costs microseconds, however many interfaces there are.

use crate::Error;
use crate::netlink::{self, ADDRESS_HEADER, LINK_HEADER, Message, NetlinkSocket, ROUTE_HEADER};
use ipnet::IpNet;
use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, RawFd};

/// Where `ifinfomsg` has the interface's type, its number and its flags.
const TYPE_AT: usize = 2;
const INDEX_AT: usize = 4;
const FLAGS_AT: usize = 8;
/// Where `ifaddrmsg` has the number of its interface.
const ADDRESS_INDEX_AT: usize = 4;
/// Where `ifaddrmsg` has the flags of the address and its scope.
const ADDRESS_LENGTH_AT: usize = 1;
const ADDRESS_FLAGS_AT: usize = 2;
const ADDRESS_SCOPE_AT: usize = 3;
/// Where `rtmsg` has the length of the destination's prefix, its table and its type.
const ROUTE_LENGTH_AT: usize = 1;
const ROUTE_TABLE_AT: usize = 4;
const ROUTE_TYPE_AT: usize = 7;
/// Where `rtnl_link_stats64` has what was transmitted.
const SENT_PACKETS_AT: usize = 8;
const SENT_BYTES_AT: usize = 24;
/// Kinds of interfaces that carry Ethernet frames in IP packets.
const TUNNELS_OF_FRAMES: [&[u8]; 4] = [b"vxlan", b"geneve", b"gretap", b"ip6gretap"];
/// Bytes of the header of an Ethernet frame, which the counters of interfaces that have one take in.
const ETHERNET_HEADER: u64 = 14;

/// One interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its number; one that is made again under the same name has another.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// The largest IP packet that it takes, in bytes.
    pub mtu: u32,
    /// Whether it has been set up.
    pub is_up: bool,
    /// Whether it has a carrier, as far as it knows.
    pub is_running: bool,
    /// Whether it is a bridge.
    pub is_bridge: bool,
    /// Whether it is a port of a bridge, a bond or a team, which is the interface that its packets arrive on.
    pub is_port: bool,
    /// Whether it leads back to this host.
    pub is_loopback: bool,
    /// The number of the bridge, or of what else, that it belongs to.
    pub master: Option<u32>,
    /// The number of the interface of this network namespace that it is linked to: its other end if it is one of a pair, or the one below it.
    pub link: Option<u32>,
    /// Bytes of the link-layer header of each packet that `sent_bytes` takes in: 0 for loopback, for one of IP packets alone (TUN, PPP,
    /// WireGuard, GRE) and for tunnels of frames (VXLAN).
    pub header_bytes: u64,
    /// Bytes that have left it, link-layer headers included.
    pub sent_bytes: u64,
    /// Packets that have left it.
    pub sent_packets: u64,
}

impl Interface {
    /// The bridge, the bond or the team of which it is a port, among `all`.
    pub fn whole<'a>(&self, all: &'a [Self]) -> Option<&'a Self> {
        let master = self.master.filter(|_| self.is_port)?;
        all.iter().find(|one| one.index == master)
    }
}

/// Answers questions about the interfaces of one network namespace.
#[derive(Debug)]
pub struct Interfaces(NetlinkSocket);

impl Interfaces {
    /// Those of the network namespace of the calling thread, wherever the questions are asked.
    ///
    /// # Errors
    /// If the kernel has no netlink.
    pub fn new() -> Result<Self, Error> {
        NetlinkSocket::new(&[]).map(Self).map_err(Error::while_doing("opening a netlink socket"))
    }

    /// The interface `name`; `None` if there is none.
    ///
    /// # Errors
    /// If the kernel answers something else.
    pub fn get(&mut self, name: &str) -> io::Result<Option<Interface>> {
        let mut named = name.as_bytes().to_vec();
        named.push(0);
        let request = [vec![0; LINK_HEADER], netlink::attribute(libc::IFLA_IFNAME, &named)].concat();
        let mut found = None;
        match self.0.ask(libc::RTM_GETLINK, false, &request, |message| found = interface(message)) {
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
            result => result.map(|()| found),
        }
    }

    /// The name of the interface with this number; `None` if there is none.
    ///
    /// # Errors
    /// If the kernel answers something else.
    pub fn name(&mut self, index: u32) -> io::Result<Option<String>> {
        let mut request = [0; LINK_HEADER];
        request[INDEX_AT..INDEX_AT + 4].copy_from_slice(&index.to_ne_bytes());
        let mut found = None;
        match self.0.ask(libc::RTM_GETLINK, false, &request, |message| found = interface(message)) {
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
            result => result.map(|()| found.map(|interface| interface.name)),
        }
    }

    /// All interfaces.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn all(&mut self) -> io::Result<Vec<Interface>> {
        let mut found = Vec::new();
        self.0.ask(libc::RTM_GETLINK, true, &[0; LINK_HEADER], |message| found.extend(interface(message)))?;
        Ok(found)
    }

    /// The addresses of all interfaces, sorted.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn addresses(&mut self) -> io::Result<Vec<IpAddr>> {
        let mut found = Vec::new();
        self.0.ask(libc::RTM_GETADDR, true, &[0; ADDRESS_HEADER], |message| {
            found.extend(address(message).map(|(_, address)| address));
        })?;
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// What the host itself is reached by, sorted: the addresses of all interfaces, and the prefixes that its table of local routes has
    /// beside them (`ip route add local`, an address with its prefix on `lo`, anycast addresses of routers).
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn local_prefixes(&mut self) -> io::Result<Vec<IpNet>> {
        let mut found: Vec<IpNet> = self.addresses()?.into_iter().map(IpNet::from).collect();
        self.0.filter_dumps();
        for family in [libc::AF_INET, libc::AF_INET6] {
            let mut request = [0; ROUTE_HEADER];
            (request[0], request[ROUTE_TABLE_AT]) = (family as u8, libc::RT_TABLE_LOCAL);
            match self.0.ask(libc::RTM_GETROUTE, true, &request, |message| found.extend(local_prefix(message))) {
                // A kernel without the family has no addresses of it either.
                Err(error) if family == libc::AF_INET => return Err(error),
                _ => {}
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// The addresses of the interface with this number.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn addresses_of(&mut self, index: u32) -> io::Result<Vec<IpAddr>> {
        let mut found = Vec::new();
        self.0.ask(libc::RTM_GETADDR, true, &[0; ADDRESS_HEADER], |message| {
            found.extend(address(message).filter(|(of, _)| *of == index).map(|(_, address)| address));
        })?;
        Ok(found)
    }

    /// The networks in which the interface with this number has an address.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn networks_of(&mut self, index: u32) -> io::Result<Vec<IpNet>> {
        let mut found = Vec::new();
        self.0.ask(libc::RTM_GETADDR, true, &[0; ADDRESS_HEADER], |message| {
            let length = message.1.get(ADDRESS_LENGTH_AT).copied().unwrap_or(u8::MAX);
            let own = address(message).filter(|(of, _)| *of == index);
            found.extend(own.and_then(|(_, address)| Some(IpNet::new(address, length).ok()?.trunc())));
        })?;
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// The numbers of the interfaces that have an IPv6 address with a lifetime, as router advertisements (RFC 4862) and DHCPv6 give it.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn autoconfigured(&mut self) -> io::Result<BTreeSet<u32>> {
        self.with_ipv6(false)
    }

    /// The numbers of the interfaces that have an IPv6 address of a network that somebody has set for good.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn with_permanent_ipv6(&mut self) -> io::Result<BTreeSet<u32>> {
        self.with_ipv6(true)
    }

    fn with_ipv6(&mut self, is_permanent: bool) -> io::Result<BTreeSet<u32>> {
        let mut request = [0; ADDRESS_HEADER];
        request[0] = libc::AF_INET6 as u8;
        let mut found = BTreeSet::new();
        self.0.ask(libc::RTM_GETADDR, true, &request, |message| {
            found.extend(
                address(message).filter(|_| has_lifetime(message.1) == Some(!is_permanent)).map(|(index, _)| index),
            );
        })?;
        Ok(found)
    }
}

/// Whether an address of an IPv6 network has a lifetime; `None` if it is another one, as that of a link.
fn has_lifetime(payload: &[u8]) -> Option<bool> {
    let [family, flags, scope] =
        [0, ADDRESS_FLAGS_AT, ADDRESS_SCOPE_AT].map(|at| payload.get(at).copied().unwrap_or_default());
    let is_of_network = i32::from(family) == libc::AF_INET6 && scope == libc::RT_SCOPE_UNIVERSE;
    is_of_network.then_some(u32::from(flags) & libc::IFA_F_PERMANENT == 0)
}

/// Tells that interfaces or addresses have changed, of the network namespace of the thread that has made it: its descriptor
/// is readable then.
#[derive(Debug)]
pub struct Changes(NetlinkSocket);

impl Changes {
    /// From now on.
    ///
    /// # Errors
    /// If the kernel has no netlink.
    pub fn new() -> Result<Self, Error> {
        let groups = [libc::RTNLGRP_LINK, libc::RTNLGRP_IPV4_IFADDR, libc::RTNLGRP_IPV6_IFADDR];
        NetlinkSocket::new(&groups).map(Self).map_err(Error::while_doing("following interfaces by netlink"))
    }

    /// Takes in all news; returns whether there were any. News that were lost for want of room count, too.
    pub fn take(&mut self) -> bool {
        self.0.receive_all(|_| true)
    }
}

impl AsRawFd for Changes {
    fn as_raw_fd(&self) -> RawFd {
        self.0.socket().as_raw_fd()
    }
}

fn interface((kind, payload): Message<'_>) -> Option<Interface> {
    if kind != libc::RTM_NEWLINK {
        return None;
    }
    let flags = netlink::i32_at(payload, FLAGS_AT)?;
    let hardware = u16::from_ne_bytes(*payload.get(TYPE_AT..)?.first_chunk()?);
    let mut interface = Interface {
        index: netlink::i32_at(payload, INDEX_AT)? as u32,
        name: String::new(),
        mtu: 0,
        is_up: flags & libc::IFF_UP != 0,
        is_running: flags & libc::IFF_RUNNING != 0,
        is_bridge: false,
        is_port: false,
        is_loopback: flags & libc::IFF_LOOPBACK != 0,
        master: None,
        link: None,
        header_bytes: if hardware == libc::ARPHRD_ETHER { ETHERNET_HEADER } else { 0 },
        sent_bytes: 0,
        sent_packets: 0,
    };
    let mut is_linked_elsewhere = false;
    for (kind, value) in netlink::attributes(payload, LINK_HEADER) {
        match kind {
            libc::IFLA_IFNAME => {
                let text = value.split(|byte| *byte == 0).next().unwrap_or_default();
                interface.name = String::from_utf8_lossy(text).into_owned();
            }
            libc::IFLA_LINKINFO => {
                for (kind, value) in netlink::attributes(&value, 0) {
                    let is = |name: &[u8]| value.strip_suffix(b"\0").unwrap_or(&value) == name;
                    interface.is_bridge |= kind == libc::IFLA_INFO_KIND && is(b"bridge");
                    // Tunnels count the IP packets in their frames alone (`iptunnel_xmit` of Linux).
                    if kind == libc::IFLA_INFO_KIND && TUNNELS_OF_FRAMES.iter().any(|name| is(name)) {
                        interface.header_bytes = 0;
                    }
                    interface.is_port |=
                        kind == libc::IFLA_INFO_SLAVE_KIND && (is(b"bridge") || is(b"bond") || is(b"team"));
                }
            }
            libc::IFLA_MASTER => interface.master = Some(netlink::i32_at(&value, 0)? as u32),
            libc::IFLA_LINK => interface.link = Some(netlink::i32_at(&value, 0)? as u32),
            libc::IFLA_LINK_NETNSID => is_linked_elsewhere = true,
            libc::IFLA_MTU => interface.mtu = netlink::i32_at(&value, 0)? as u32,
            libc::IFLA_STATS64 => {
                interface.sent_packets = netlink::u64_at(&value, SENT_PACKETS_AT)?;
                interface.sent_bytes = netlink::u64_at(&value, SENT_BYTES_AT)?;
            }
            _ => {}
        }
    }
    interface.link = interface.link.filter(|_| !is_linked_elsewhere);
    Some(interface)
}

/// The prefix of a route to the host itself.
fn local_prefix((kind, payload): Message<'_>) -> Option<IpNet> {
    let [length, table, of] = [ROUTE_LENGTH_AT, ROUTE_TABLE_AT, ROUTE_TYPE_AT].map(|at| payload.get(at).copied());
    let is_local = of.is_some_and(|of| of == libc::RTN_LOCAL || of == libc::RTN_ANYCAST);
    if kind != libc::RTM_NEWROUTE || table != Some(libc::RT_TABLE_LOCAL) || !is_local {
        return None;
    }
    let destination = netlink::attributes(payload, ROUTE_HEADER).find(|(kind, _)| *kind == libc::RTA_DST)?.1;
    let v4 = <[u8; 4]>::try_from(&destination[..]).map(IpAddr::from);
    let address = v4.or_else(|_| <[u8; 16]>::try_from(&destination[..]).map(IpAddr::from)).ok()?;
    IpNet::new(address, length?).ok()
}

/// The address of a message: the host's own end (`IFA_LOCAL`) where the interface leads to one other host.
fn address((kind, payload): Message<'_>) -> Option<(u32, IpAddr)> {
    if kind != libc::RTM_NEWADDR {
        return None;
    }
    let index = u32::from_ne_bytes(*payload.get(ADDRESS_INDEX_AT..)?.first_chunk()?);
    let (mut local, mut other) = (None, None);
    for (kind, value) in netlink::attributes(payload, ADDRESS_HEADER) {
        let address = || {
            let v4 = <[u8; 4]>::try_from(&value[..]).map(IpAddr::from);
            v4.or_else(|_| <[u8; 16]>::try_from(&value[..]).map(IpAddr::from)).ok()
        };
        match kind {
            libc::IFA_LOCAL => local = address(),
            libc::IFA_ADDRESS => other = address(),
            _ => {}
        }
    }
    Some((index, local.or(other)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::IpBatch;
    use crate::testing;
    use std::time::{Duration, Instant};

    /// /proc/net/dev has a line of about 120 bytes for each: the last ones do not fit into a page.
    const MANY: usize = 60;

    /// The interface `name` once it has sent a packet: the kernel drops what is sent for up to a second after a link is set
    /// up, until it has taken notice of the carrier.
    fn sent_by(interfaces: &mut Interfaces, name: &str, to: &str) -> Interface {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            // At least the question where the address is leaves.
            socket.send_to(&[0; 1000], to).unwrap();
            let interface = interfaces.get(name).unwrap().unwrap();
            if interface.sent_packets > 0 || Instant::now() > until {
                return interface;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn each_of_many_interfaces_is_found_with_its_counters_and_addresses() {
        let Some(namespace) = testing::namespace() else { return };
        let mut batch = IpBatch::new(&namespace);
        batch.add("link set lo up");
        for number in 0..MANY {
            batch.add(format!("link add wire{number} mtu {} type veth peer name far{number}", 1300 + number));
            batch.add(format!("addr add 198.18.{number}.1/24 dev wire{number}"));
        }
        batch.add("link set wire59 up").add("link set far59 up").run().unwrap();
        let (all, last, addresses) = namespace
            .run(|| {
                let mut interfaces = Interfaces::new().unwrap();
                let last = sent_by(&mut interfaces, "wire59", "198.18.59.2:9");
                assert_eq!(interfaces.get("wire60").unwrap(), None);
                let of_last = interfaces.addresses_of(last.index).unwrap();
                assert!(of_last.contains(&"198.18.59.1".parse().unwrap()), "{of_last:?}");
                assert!(of_last.iter().all(|address| address.is_ipv6() || address.to_string() == "198.18.59.1"));
                let networks = interfaces.networks_of(last.index).unwrap();
                assert_eq!(networks.first(), Some(&"198.18.59.0/24".parse().unwrap()), "{networks:?}");
                (interfaces.all().unwrap(), last, interfaces.addresses().unwrap())
            })
            .unwrap();
        assert_eq!(all.len(), 2 * MANY + 1);
        assert_eq!((last.mtu, last.is_up), (1359, true));
        assert!(last.sent_packets >= 1 && last.sent_bytes >= 42, "{last:?}");
        assert!(!all.iter().find(|one| one.name == "wire7").unwrap().is_up);
        for address in ["127.0.0.1", "198.18.0.1", "198.18.59.1"] {
            assert!(addresses.contains(&address.parse().unwrap()), "{address}: {addresses:?}");
        }
    }

    #[test]
    fn the_host_is_reached_by_what_its_local_routes_say() {
        let Some(namespace) = testing::namespace() else { return };
        let mut batch = IpBatch::new(&namespace);
        for command in [
            "link set lo up",
            "link add wire type veth peer name far",
            "addr add 198.18.1.1/24 dev wire",
            "addr add 198.18.7.1/24 dev lo",
            "route add local 198.18.5.0/24 dev lo",
            "route add local 2001:db8:77::/48 dev lo",
            "route add local 198.18.9.0/24 dev lo table 100",
            "link set wire up",
            "route add 198.18.10.0/24 dev wire",
        ] {
            batch.add(command);
        }
        batch.run().unwrap();
        let found = namespace.run(|| Interfaces::new().unwrap().local_prefixes().unwrap()).unwrap();
        let has = |prefix: &str| found.contains(&prefix.parse().unwrap());
        for prefix in ["127.0.0.1/32", "198.18.1.1/32", "198.18.7.0/24", "198.18.5.0/24", "2001:db8:77::/48", "::1/128"]
        {
            assert!(has(prefix), "{prefix}: {found:?}");
        }
        for prefix in ["198.18.1.0/24", "198.18.9.0/24", "198.18.10.0/24", "198.18.1.255/32"] {
            assert!(!has(prefix), "{prefix}: {found:?}");
        }
    }

    #[test]
    fn interfaces_with_ipv6_addresses_that_have_a_lifetime_are_found() {
        let Some(namespace) = testing::namespace() else { return };
        let mut batch = IpBatch::new(&namespace);
        for command in [
            "link add wire type veth peer name far",
            "link set wire up",
            "link set far up",
            "addr add 2001:db8:1::1/64 dev far",
            "addr add 198.18.1.1/24 dev far valid_lft 3600 preferred_lft 3600",
            "addr add 2001:db8:2::1/64 dev wire valid_lft 3600 preferred_lft 3600",
        ] {
            batch.add(command);
        }
        batch.run().unwrap();
        let (found, [wire, far]) = namespace
            .run(|| {
                let mut interfaces = Interfaces::new().unwrap();
                let found = [interfaces.autoconfigured().unwrap(), interfaces.with_permanent_ipv6().unwrap()];
                (found, ["wire", "far"].map(|name| interfaces.get(name).unwrap().unwrap().index))
            })
            .unwrap();
        assert_eq!(found, [wire, far].map(|index| BTreeSet::from([index])));
    }

    #[test]
    fn interfaces_of_ip_packets_alone_count_no_headers() {
        let Some(namespace) = testing::namespace() else { return };
        if IpBatch::new(&namespace).add("tuntap add dev tun0 mode tun").run().is_err() {
            return eprintln!("skipped: this machine has no TUN devices");
        }
        IpBatch::new(&namespace).add("link add eth0 type veth peer name eth1").run().unwrap();
        let all = namespace.run(|| Interfaces::new().unwrap().all().unwrap()).unwrap();
        for (name, header_bytes) in [("tun0", 0), ("eth0", 14), ("lo", 0)] {
            let found = all.iter().find(|one| one.name == name).unwrap();
            assert_eq!(found.header_bytes, header_bytes, "{name}");
        }
    }

    #[test]
    fn tunnels_of_frames_count_no_headers() {
        let Some(namespace) = testing::namespace() else { return };
        if IpBatch::new(&namespace).add("link add vxlan0 type vxlan id 7 dstport 4789").run().is_err() {
            return eprintln!("skipped: this kernel has no VXLAN");
        }
        let all = namespace.run(|| Interfaces::new().unwrap().all().unwrap()).unwrap();
        assert_eq!(all.iter().find(|one| one.name == "vxlan0").unwrap().header_bytes, 0);
    }

    #[test]
    fn an_interface_that_is_made_anew_is_news_and_another() {
        let Some(namespace) = testing::namespace() else { return };
        let ip = |command: &str| IpBatch::new(&namespace).add(command).run().unwrap();
        let (mut interfaces, mut changes) =
            namespace.run(|| (Interfaces::new().unwrap(), Changes::new().unwrap())).unwrap();
        ip("link add wire type veth peer name far");
        assert!(changes.take());
        assert!(!changes.take(), "each change is reported once");
        let first = interfaces.get("wire").unwrap().unwrap();
        ip("link del wire");
        assert!(changes.take());
        assert_eq!(interfaces.get("wire").unwrap(), None);
        ip("link add wire type veth peer name far");
        assert_ne!(interfaces.get("wire").unwrap().unwrap().index, first.index);
        ip("addr add 198.18.0.1/24 dev wire");
        assert!(changes.take());
    }
}
