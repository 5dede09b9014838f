//! One route through rtnetlink(7), kept as the kernel reports it, so that it can be put back whatever attributes it has.

use crate::Error;
use crate::interfaces::Interfaces;
use crate::netlink::{self, Message, NetlinkSocket};
use crate::route_text;
use ipnet::IpNet;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of the header of a message about a route (`rtmsg`), and where it has what.
const HEADER: usize = 12;
const FAMILY: usize = 0;
const PREFIX_LENGTH: usize = 1;
pub(crate) const TOS: usize = 3;
pub(crate) const PROTOCOL: usize = 5;
const TYPE: usize = 7;
const FLAGS: usize = 8;

/// `rtm_type` of a route to other hosts.
const UNICAST: u8 = 1;
/// `rtm_protocol` of a route that the kernel has made, and of one that an administrator has.
const BY_KERNEL: u8 = 2;
const STATIC: u8 = 4;
/// `rtm_flags` of a request: report the route of the table instead of what it resolves to.
const FIB_MATCH: u32 = 0x2000;
/// `rtm_flags` of a request: report the table of the route. Without it, IPv4 reports the main one, whatever the routing rules say.
const LOOKUP_TABLE: u32 = 0x1000;
/// Addresses of a network that [`Route::covering`] asks for at most, from each sample on.
const MOST_LOOKUPS: usize = 1024;
/// The one flag of a next hop that is a setting; the others report its state.
const ONLINK: u8 = 4;
/// Bytes of the header of a next hop among several (`rtnexthop`).
pub(crate) const NEXT_HOP: usize = 8;

/// Attributes (`RTA_*`) that libc does not name for every C library.
pub(crate) const NEXT_HOP_ID: u16 = 30;
const VIA: u16 = 18;
const ENCAP_TYPE: u16 = 21;
const ENCAP: u16 = 22;
const EXPIRES: u16 = 23;

/// Attributes that the kernel derives from the object that [`NEXT_HOP_ID`] names, and refuses beside it.
const OF_NEXT_HOP: [u16; 7] =
    [libc::RTA_OIF, libc::RTA_GATEWAY, libc::RTA_MULTIPATH, libc::RTA_FLOW, VIA, ENCAP_TYPE, ENCAP];

/// The IPv6 routes of the network namespace of the calling thread, with flags that rtnetlink leaves out.
const IPV6_ROUTES: &str = "/proc/thread-self/net/ipv6_route";
/// The flag of routes by router advertisements (`RTF_ADDRCONF`).
const ADVERTISED: u32 = 0x0004_0000;

/// Ticks of a second in what the kernel reports to programs (`USER_HZ`).
const TICKS_PER_SECOND: i32 = 100;

/// A route in the network namespace of the calling thread.
#[derive(Debug, Clone)]
pub struct Route {
    pub(crate) header: [u8; HEADER],
    /// By kind.
    pub(crate) attributes: Vec<(u16, Vec<u8>)>,
    /// Numbers and names of the interfaces that it leaves by, when it was read.
    pub(crate) devices: Vec<(u32, String)>,
}

/// The same settings; how long the kernel will keep a route is not one.
impl PartialEq for Route {
    fn eq(&self, other: &Self) -> bool {
        let settings = |route: &Self| -> Vec<_> {
            route.attributes.iter().filter(|(kind, _)| *kind != EXPIRES).cloned().collect()
        };
        self.header == other.header && settings(self) == settings(other)
    }
}

impl Eq for Route {}

impl Route {
    /// The route that packets to `address` take by the routing rules; `None` if there is none, or one that refuses them.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn towards(address: IpAddr) -> Result<Option<Self>, Error> {
        let doing = || format!("asking for the route to {address}");
        let mut header = header_for(IpNet::from(address));
        header[FLAGS..].copy_from_slice(&(FIB_MATCH | LOOKUP_TABLE).to_ne_bytes());
        let request = [&header[..], &netlink::attribute(libc::RTA_DST, &octets(address))].concat();
        match ask(false, &request, |_| true) {
            Err(error) if is_refused(&error) => Ok(None),
            result => Ok(result.map_err(Error::while_doing(doing()))?.into_iter().next()),
        }
    }

    /// The route to all of `network`: the one that packets to it take, apart from those to parts of it that have routes of their own.
    /// `None` if there is none, if more parts have routes than can be asked for, or if routing rules choose different tables for the
    /// [`samples`] of `network`.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn covering(network: IpNet) -> Result<Option<Self>, Error> {
        let mut found: Option<Self> = None;
        for sample in samples(network) {
            let Some(route) = Self::covering_from(sample, network)? else { continue };
            if found.as_ref().is_some_and(|other| other.table() != route.table()) {
                return Ok(None);
            }
            found.get_or_insert(route);
        }
        Ok(found)
    }

    /// The route to all of `network` that packets take to `address`, or to the first address after the parts there that have routes of
    /// their own. `None` as well if packets to that address are refused: how large a part that is, the kernel does not report.
    fn covering_from(address: IpAddr, network: IpNet) -> Result<Option<Self>, Error> {
        let mut address = Some(address);
        for _ in 0..MOST_LOOKUPS {
            let Some(route) = address.map(Self::towards).transpose()?.flatten() else { break };
            if route.destination().contains(&network) {
                return Ok(Some(route));
            }
            address = successor(route.destination().broadcast()).filter(|next| network.contains(next));
        }
        Ok(None)
    }

    /// The route of the main table to exactly `destination` that is used: the one of least metric, of those for packets of any type of
    /// service if there are such.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn exactly(destination: IpNet) -> Result<Option<Self>, Error> {
        let routes = Self::all(destination)?.into_iter();
        let of_main = routes.filter(|route| route.table() == u32::from(libc::RT_TABLE_MAIN));
        Ok(of_main.min_by_key(|route| (route.header[TOS] != 0, route.number(libc::RTA_PRIORITY).unwrap_or(0))))
    }

    /// The route that the kernel has in the place of this one: to the same destination, in the same table, with the same metric and type
    /// of service.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn in_its_place(&self) -> Result<Option<Self>, Error> {
        Ok(Self::all(self.destination())?.into_iter().find(|route| self.has_place_of(route)))
    }

    fn has_place_of(&self, other: &Self) -> bool {
        let place =
            |route: &Self| (route.destination(), route.table(), route.number(libc::RTA_PRIORITY), route.header[TOS]);
        place(self) == place(other)
    }

    /// All routes to exactly `destination`.
    fn all(destination: IpNet) -> Result<Vec<Self>, Error> {
        let mut request = header_for(destination);
        request[PREFIX_LENGTH] = 0;
        let is_wanted = |route: &Self| route.destination() == destination.trunc();
        ask(true, &request, is_wanted).map_err(Error::while_doing("asking for the routes"))
    }

    /// The route of a message as [`Self::to_bytes`] makes them; `None` if that is none.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Self::parse(bytes).filter(|route| route.to_bytes() == bytes)
    }

    /// The route as a message about routes has it, without the header of the message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let attributes = self.attributes.iter().flat_map(|(kind, value)| netlink::attribute(*kind, value));
        self.header.iter().copied().chain(attributes).collect()
    }

    /// What the kernel reports of a route, without its state.
    fn parse(payload: &[u8]) -> Option<Self> {
        let mut header: [u8; HEADER] = *payload.first_chunk()?;
        let is_known = matches!(i32::from(header[FAMILY]), libc::AF_INET | libc::AF_INET6);
        let longest = if i32::from(header[FAMILY]) == libc::AF_INET { 32 } else { 128 };
        if !is_known || header[PREFIX_LENGTH] > longest {
            return None;
        }
        let mut attributes: Vec<_> = netlink::attributes(payload, HEADER).filter_map(setting).collect();
        let has_next_hop_id = attributes.iter().any(|(kind, _)| *kind == NEXT_HOP_ID);
        attributes.retain(|(kind, _)| !(has_next_hop_id && OF_NEXT_HOP.contains(kind)));
        attributes.sort_by_key(|(kind, _)| *kind);
        let onlink = if has_next_hop_id { 0 } else { header[FLAGS] & ONLINK };
        header[FLAGS..].copy_from_slice(&u32::from(onlink).to_ne_bytes());
        Some(Self { header, attributes, devices: Vec::new() })
    }

    pub(crate) fn value(&self, kind: u16) -> Option<&[u8]> {
        self.attributes.iter().find(|(of, _)| *of == kind).map(|(_, value)| value.as_slice())
    }

    pub(crate) fn number(&self, kind: u16) -> Option<u32> {
        self.value(kind).and_then(|value| netlink::i32_at(value, 0)).map(|number| number as u32)
    }

    fn set(&mut self, kind: u16, value: Vec<u8>) {
        self.attributes.retain(|(of, _)| *of != kind);
        let at = self.attributes.partition_point(|(of, _)| *of < kind);
        self.attributes.insert(at, (kind, value));
    }

    /// The routing table.
    pub fn table(&self) -> u32 {
        // rtm_table holds tables up to 255 only.
        self.number(libc::RTA_TABLE).unwrap_or(u32::from(self.header[4]))
    }

    /// Where it leads.
    pub fn destination(&self) -> IpNet {
        let any = if self.is_ipv6() { IpAddr::from([0; 16]) } else { IpAddr::from([0; 4]) };
        let address = self.value(libc::RTA_DST).and_then(address).unwrap_or(any);
        IpNet::new(address, self.header[PREFIX_LENGTH]).map_or(IpNet::from(any), |destination| destination.trunc())
    }

    /// Whether packets leave by it to other hosts: it is neither this host's own address nor one that refuses packets.
    pub fn is_unicast(&self) -> bool {
        self.header[TYPE] == UNICAST
    }

    /// Whether the kernel has made it for an address of this host: it leads to the host itself, or to a network that it is connected to.
    pub fn is_of_own_address(&self) -> bool {
        self.header[PROTOCOL] == BY_KERNEL && self.gateway().is_none()
    }

    pub(crate) fn kind(&self) -> u8 {
        self.header[TYPE]
    }

    /// The interface that it leaves by; `None` if it has several next hops.
    pub fn device(&self) -> Option<&str> {
        match &self.devices[..] {
            [(_, name)] => Some(name),
            _ => None,
        }
    }

    /// The address of its next hop, if it has one of its own.
    pub fn gateway(&self) -> Option<IpAddr> {
        self.value(libc::RTA_GATEWAY).and_then(address)
    }

    /// Its metric: of two routes to one destination the lower one is used.
    pub fn priority(&self) -> Option<u32> {
        self.number(libc::RTA_PRIORITY)
    }

    /// The setting of TCP (`RTAX_*`) that `ip` calls `name`, as `ip` prints it without `lock`; `None` if the route does not set it.
    pub fn metric(&self, name: &str) -> Option<String> {
        self.metrics().into_iter().find(|metric| metric.name == name).map(|metric| metric.value)
    }

    /// The names of all settings of TCP that the route has.
    pub fn metric_names(&self) -> impl Iterator<Item = &'static str> {
        self.metrics().into_iter().map(|metric| metric.name)
    }

    /// Whether all interfaces that the route leaves by are there still: a route ends with them.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn has_interfaces(&self) -> Result<bool, Error> {
        let mut interfaces = Interfaces::new()?;
        for index in interfaces_of(&self.to_bytes()) {
            if interfaces.name(index).map_err(Error::while_doing("asking for an interface"))?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether router advertisements have set the route and renew it, which rtnetlink does not show. Once another takes its place, the
    /// kernel (`ndisc_router_discovery`) takes in nothing more of that router's advertisements: no lifetimes of addresses either.
    ///
    /// # Errors
    /// If the kernel does not list its routes.
    pub fn is_advertised(&self) -> Result<bool, Error> {
        if !self.is_ipv6() {
            return Ok(false);
        }
        let text = fs::read_to_string(IPV6_ROUTES).map_err(Error::while_doing(format!("reading {IPV6_ROUTES}")))?;
        Ok(text.lines().any(|line| self.is_advertised_by(line)))
    }

    /// Whether a line of [`IPV6_ROUTES`] is about this route, and has it from a router advertisement.
    fn is_advertised_by(&self, line: &str) -> bool {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [destination, length, _, _, hop, metric, _, _, flags, device] = fields[..] else { return false };
        let number = |text| u32::from_str_radix(text, 16).ok();
        let address = |text| u128::from_str_radix(text, 16).ok().map(|bits| IpAddr::from(bits.to_be_bytes()));
        let own = self.destination();
        address(destination) == Some(own.network())
            && number(length) == Some(own.prefix_len().into())
            && address(hop).filter(|hop| !hop.is_unspecified()) == self.gateway()
            && number(metric) == self.priority()
            && Some(device) == self.device()
            && number(flags).is_some_and(|flags| flags & ADVERTISED != 0)
    }

    /// All settings of TCP.
    pub(crate) fn metrics(&self) -> Vec<route_text::Metric> {
        self.value(libc::RTA_METRICS).map(route_text::metrics).unwrap_or_default()
    }

    /// This route with the setting of TCP `name` in place of what it had there, or without one.
    ///
    /// # Errors
    /// If there is no setting of that name, or `value` is none of its values.
    pub fn with_metric(&self, name: &str, value: Option<&str>) -> Result<Self, Error> {
        let (kind, value) = route_text::metric(name, value).ok_or_else(|| Error::Failed {
            doing: format!("setting {name} {} of a route", value.unwrap_or_default()),
            source: io::ErrorKind::InvalidInput.into(),
        })?;
        let mut metrics: Vec<_> = self.value(libc::RTA_METRICS).into_iter().flat_map(route_text::nested).collect();
        metrics.retain(|(of, _)| *of != kind);
        metrics.extend(value.map(|value| (kind, value)));
        metrics.sort_by_key(|(kind, _)| *kind);
        let mut route = self.clone();
        let bytes: Vec<u8> = metrics.iter().flat_map(|(kind, value)| netlink::attribute(*kind, value)).collect();
        if bytes.is_empty() {
            route.attributes.retain(|(kind, _)| *kind != libc::RTA_METRICS);
        } else {
            route.set(libc::RTA_METRICS, bytes);
        }
        Ok(route)
    }

    /// A route to `destination` by the same next hop, which stays until it is deleted: without a lifetime, which router advertisements
    /// would renew for this route only, and not of the kernel or a daemon, which may remove their own.
    #[must_use]
    pub fn leading_to(&self, destination: IpNet) -> Self {
        let mut route = self.clone();
        route.header[PROTOCOL] = STATIC;
        route.attributes.retain(|(kind, _)| *kind != EXPIRES);
        route.header[PREFIX_LENGTH] = destination.prefix_len();
        route.set(libc::RTA_DST, octets(destination.network()));
        route
    }

    /// Whether it is a route of IPv6.
    pub fn is_ipv6(&self) -> bool {
        i32::from(self.header[FAMILY]) == libc::AF_INET6
    }

    /// Puts the route in place of the one to the same destination with the same metric, if there is one.
    ///
    /// # Errors
    /// [`Error::Missing`] if the process may not change routes; if the kernel refuses, with `ENODEV` if the interface is gone.
    pub fn replace(&self) -> Result<(), Error> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        if self.value(NEXT_HOP_ID).is_some() && self.value(libc::RTA_METRICS).is_none() {
            // Without settings, the kernel would take those of any other route by this next hop; 0 is none.
            return self.with_metric("initcwnd", Some("0"))?.change(libc::RTM_NEWROUTE, flags, "setting");
        }
        self.change(libc::RTM_NEWROUTE, flags, "setting")
    }

    /// Takes the route away.
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub fn delete(&self) -> Result<(), Error> {
        self.change(libc::RTM_DELROUTE, 0, "deleting")
    }

    fn change(&self, kind: u16, flags: i32, doing: &str) -> Result<(), Error> {
        let request = || NetlinkSocket::new(&[])?.request(kind, flags | libc::NLM_F_ACK, &self.to_bytes(), |_| {});
        request().map_err(|error| match error.raw_os_error() {
            Some(libc::EPERM) => Error::Missing(format!(
                "{doing} the route {self}: the process may not change the network (it needs CAP_NET_ADMIN)"
            )),
            _ => Error::Failed { doing: format!("{doing} the route {self}"), source: error },
        })
    }
}

impl std::fmt::Display for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        route_text::write(self, f)
    }
}

/// Of the networks for documentation (RFC 5737, RFC 3849, RFC 9637), which lead nowhere. A host may have addresses of them nevertheless, and
/// its own addresses are delivered without a rule: what is true of all of these is due to the rule.
const NOWHERE: [[IpAddr; 3]; 2] = [
    [
        IpAddr::V4(Ipv4Addr::new(192, 0, 2, 251)),
        IpAddr::V4(Ipv4Addr::new(198, 51, 100, 251)),
        IpAddr::V4(Ipv4Addr::new(203, 0, 113, 251)),
    ],
    [
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0xffff, 0, 0, 0, 0x251)),
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0xfffe, 0xffff, 0, 0, 0, 0x251)),
        IpAddr::V6(Ipv6Addr::new(0x3fff, 0xfff, 0xffff, 0xffff, 0, 0, 0, 0x251)),
    ],
];

/// Whether packets with the fwmark `mark` are delivered to this host whatever their destination, as a routing rule and a local default
/// route see to.
///
/// # Errors
/// If the kernel does not answer.
pub fn is_delivered_here(mark: u32, ipv6: bool) -> Result<bool, Error> {
    for destination in NOWHERE[usize::from(ipv6)] {
        if !is_local(mark, destination).map_err(Error::while_doing("asking where marked packets go"))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether `table` has a default route that delivers packets to this host.
///
/// # Errors
/// If the kernel does not answer.
pub fn has_local_default(table: u32, ipv6: bool) -> Result<bool, Error> {
    let any: IpAddr = if ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let default = IpNet::new_assert(any, 0);
    Ok(Route::all(default)?.iter().any(|route| route.table() == table && route.header[TYPE] == libc::RTN_LOCAL))
}

/// Whether packets to `destination` with the fwmark `mark` are delivered to this host.
fn is_local(mark: u32, destination: IpAddr) -> io::Result<bool> {
    let header = header_for(IpNet::from(destination));
    let address = netlink::attribute(libc::RTA_DST, &octets(destination));
    let request = [&header[..], &address, &netlink::attribute(libc::RTA_MARK, &mark.to_ne_bytes())].concat();
    let mut is_local = false;
    let answer = NetlinkSocket::new(&[])?.ask(libc::RTM_GETROUTE, false, &request, |(_, payload)| {
        is_local = payload.get(TYPE) == Some(&libc::RTN_LOCAL);
    });
    match answer {
        Err(error) if is_refused(&error) => Ok(false),
        result => result.map(|()| is_local),
    }
}

/// Whether the kernel says that there is no route, or one that refuses packets: `unreachable`, `blackhole` (`EINVAL`) or `prohibit`.
fn is_refused(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EINVAL | libc::EACCES))
}

/// Sends a request for routes and takes in those that are `wanted`, with the names of their interfaces.
fn ask(is_dump: bool, request: &[u8], wanted: impl Fn(&Route) -> bool) -> io::Result<Vec<Route>> {
    let mut found = Vec::new();
    let take = |(kind, payload): Message<'_>| {
        let route = (kind == libc::RTM_NEWROUTE).then(|| Route::parse(payload)).flatten();
        found.extend(route.filter(|route| wanted(route)).map(|route| (route, interfaces_of(payload))));
    };
    NetlinkSocket::new(&[])?.ask(libc::RTM_GETROUTE, is_dump, request, take)?;
    let mut interfaces = Interfaces::new().map_err(io::Error::other)?;
    for (route, indices) in &mut found {
        for index in indices {
            // One that is gone in between leaves a number without a name.
            route.devices.extend(interfaces.name(*index)?.map(|name| (*index, name)));
        }
    }
    Ok(found.into_iter().map(|(route, _)| route).collect())
}

/// The header of a request about `destination`.
fn header_for(destination: IpNet) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[FAMILY] = if destination.addr().is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u8;
    header[PREFIX_LENGTH] = destination.prefix_len();
    header
}

/// The numbers of the interfaces that a route leaves by.
fn interfaces_of(payload: &[u8]) -> Vec<u32> {
    let mut found = Vec::new();
    for (kind, value) in netlink::attributes(payload, HEADER) {
        match kind {
            libc::RTA_OIF => found.extend(netlink::i32_at(&value, 0).map(|index| index as u32)),
            libc::RTA_MULTIPATH => found.extend(next_hops(&value).map(|hop| hop.interface)),
            _ => {}
        }
    }
    found
}

/// An attribute as a setting of a route; `None` if it reports a state.
fn setting((kind, mut value): (u16, Vec<u8>)) -> Option<(u16, Vec<u8>)> {
    match kind {
        libc::RTA_CACHEINFO => {
            // The third number of `rta_cacheinfo`; negative ones are past, 0 is none.
            let ticks = netlink::i32_at(&value, 8).filter(|ticks| *ticks > 0)?;
            Some((EXPIRES, ((ticks / TICKS_PER_SECOND).max(1) as u32).to_ne_bytes().to_vec()))
        }
        libc::RTA_MULTIPATH => {
            let hops: Vec<usize> = next_hops(&value).map(|hop| hop.at).collect();
            for at in hops {
                value[at + 2] &= ONLINK;
            }
            Some((kind, value))
        }
        _ => Some((kind, value)),
    }
}

/// One of several next hops.
pub(crate) struct NextHop<'a> {
    /// Where its header is.
    at: usize,
    pub(crate) interface: u32,
    /// Its share of the packets, as `ip` prints it.
    pub(crate) weight: u32,
    /// Header and attributes.
    pub(crate) bytes: &'a [u8],
}

/// The next hops of `RTA_MULTIPATH`; what is cut off ends the iteration.
pub(crate) fn next_hops(value: &[u8]) -> impl Iterator<Item = NextHop<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let header: [u8; NEXT_HOP] = *value.get(at..)?.first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let bytes = value.get(at..at + length.max(NEXT_HOP))?;
        let interface = netlink::i32_at(&header, 4)? as u32;
        let hop = NextHop { at, interface, weight: u32::from(header[3]) + 1, bytes };
        at += length.max(NEXT_HOP).next_multiple_of(4);
        Some(hop)
    })
}

pub(crate) fn address(value: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(value).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(value).map(IpAddr::from)).ok()
}

/// Addresses of `network` whose routes show whether one leads to all of it: the lowest, the middle and the highest one, in this order. The
/// lowest one of a network that begins with the unspecified address, which the kernel takes for the host itself, is the one after that.
pub fn samples(network: IpNet) -> Vec<IpAddr> {
    let lowest = network.network();
    let lowest = if lowest.is_unspecified() { successor(lowest) } else { Some(lowest) };
    let upper_half = network.subnets(network.prefix_len() + 1).ok().and_then(|mut halves| halves.nth(1));
    let samples = [lowest, upper_half.map(|half| half.network()), Some(network.broadcast())].into_iter().flatten();
    let mut samples: Vec<_> = samples.filter(|sample| network.contains(sample)).collect();
    samples.dedup();
    samples
}

/// The address after `address`.
fn successor(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) => u32::from(address).checked_add(1).map(|next| IpAddr::V4(next.into())),
        IpAddr::V6(address) => u128::from(address).checked_add(1).map(|next| IpAddr::V6(next.into())),
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_samples_of_a_network_are_its_ends_and_its_middle() {
        for (network, expected) in [
            ("198.18.0.0/15", &["198.18.0.0", "198.19.0.0", "198.19.255.255"][..]),
            ("192.0.2.6/31", &["192.0.2.6", "192.0.2.7"]),
            ("192.0.2.7/32", &["192.0.2.7"]),
            ("0.0.0.0/0", &["0.0.0.1", "128.0.0.0", "255.255.255.255"]),
            ("2001:db8::/127", &["2001:db8::", "2001:db8::1"]),
            ("2001:db8::1/128", &["2001:db8::1"]),
        ] {
            let samples: Vec<_> = samples(network.parse().unwrap()).iter().map(ToString::to_string).collect();
            assert_eq!(samples, expected, "{network}");
        }
    }
}
