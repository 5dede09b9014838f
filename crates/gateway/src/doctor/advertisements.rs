//! IPv6 router advertisements, by which a host may have its default route. Once an interface forwards, Linux accepts none on it, and removes
//! the routes of earlier ones, unless its sysctl `accept_ra` is 2 (Documentation/networking/ip-sysctl.rst).

use super::Check;
use ipnet::Ipv4Net;
use kernel::interfaces::{Interface, Interfaces};
use kernel::route::Route;
use kernel::sysctl;
use std::io;

/// Whether all interfaces forward IPv6.
pub(super) const FORWARDING: &str = "net.ipv6.conf.all.forwarding";

/// What lets this host accept router advertisements while it forwards; `None` if no interface depends on them.
pub(super) fn settings_while_forwarding() -> Option<String> {
    settings(&dependent().unwrap_or_default())
}

/// The default route that is missing because the host forwards.
pub(super) fn missing_route() -> Option<Check> {
    if sysctl::read(FORWARDING).is_ok_and(|value| value == "0") {
        return None;
    }
    let settings = settings_while_forwarding()?;
    let says = "this host has no IPv6 default route: interfaces that forward do not accept router advertisements, and it has addresses by them";
    let remedy = format!(
        "sysctl -w {settings}, and put it into /etc/sysctl.d; the next router advertisement then sets the default route"
    );
    Some(Check::bad("router advertisements", says, remedy))
}

/// The default route that may be missing because the host forwards: addresses by router advertisements end as these do, and then nothing is
/// left of them but interfaces that could have had them. `link` is the satellite interface.
pub(super) fn perhaps_missing_route(link: Option<&str>) -> Option<Check> {
    if sysctl::read(FORWARDING).is_ok_and(|value| value == "0") {
        return None;
    }
    let names = outward_without_ipv6(link).unwrap_or_default();
    let settings = settings(&names)?;
    let says = format!(
        "this host has no IPv6 default route: perhaps it had one by router advertisements on {}, which interfaces that forward do not accept",
        names.join(", ")
    );
    let remedy = format!(
        "nothing, if no router announces IPv6 there; otherwise sysctl -w {settings}, and put it into /etc/sysctl.d"
    );
    Some(Check { remedy: Some(remedy), ..Check::good("router advertisements", says) })
}

/// What lets these interfaces accept router advertisements while they forward, if there are any.
fn settings(names: &[String]) -> Option<String> {
    let settings: Vec<_> = names.iter().map(|name| format!("{}=2", accept_ra(name))).collect();
    (!settings.is_empty()).then(|| settings.join(" "))
}

/// The interfaces that lead outwards, to the satellite or by the IPv4 default route, which have no IPv6 address of a network that somebody has
/// set, and accept router advertisements only while they do not forward.
fn outward_without_ipv6(link: Option<&str>) -> io::Result<Vec<String>> {
    let default = Route::exactly(Ipv4Net::default().into()).ok().flatten();
    let outward = [link, default.as_ref().and_then(Route::device)];
    let mut interfaces = Interfaces::new().map_err(io::Error::other)?;
    let with_addresses = interfaces.with_permanent_ipv6()?;
    let is_meant = |one: &Interface| {
        let is_outward = one.is_up && !one.is_loopback && outward.contains(&Some(one.name.as_str()));
        is_outward && !with_addresses.contains(&one.index) && has_ipv6(&one.name)
    };
    let all = interfaces.all()?.into_iter().filter(is_meant);
    Ok(all.map(|one| one.name).filter(|name| stops_while_forwarding(name)).collect())
}

/// The interfaces with addresses by router advertisements that accept these only while they do not forward.
fn dependent() -> io::Result<Vec<String>> {
    let mut interfaces = Interfaces::new().map_err(io::Error::other)?;
    let with_addresses = interfaces.autoconfigured()?;
    let all = interfaces.all()?.into_iter().filter(|one| one.is_up && with_addresses.contains(&one.index));
    Ok(all.map(|one| one.name).filter(|name| stops_while_forwarding(name)).collect())
}

/// Whether an interface accepts router advertisements only while it does not forward.
fn stops_while_forwarding(name: &str) -> bool {
    sysctl::read(&accept_ra(name)).is_ok_and(|value| value == "1")
}

fn has_ipv6(interface: &str) -> bool {
    sysctl::read(&format!("net/ipv6/conf/{interface}/disable_ipv6")).is_ok_and(|value| value == "0")
}

/// The sysctl; names of interfaces may have dots.
fn accept_ra(interface: &str) -> String {
    format!("net/ipv6/conf/{interface}/accept_ra")
}
