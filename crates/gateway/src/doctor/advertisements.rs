//! IPv6 router advertisements, by which a host may have its default route. Once an interface forwards, Linux accepts none on it, and removes
//! the routes of earlier ones, unless its sysctl `accept_ra` is 2 (Documentation/networking/ip-sysctl.rst).

use super::Check;
use kernel::interfaces::Interfaces;
use kernel::sysctl;
use std::io;

/// Whether all interfaces forward IPv6.
pub(super) const FORWARDING: &str = "net.ipv6.conf.all.forwarding";

/// What lets this host accept router advertisements while it forwards; `None` if no interface depends on them.
pub(super) fn settings_while_forwarding() -> Option<String> {
    let all = dependent().unwrap_or_default();
    let settings: Vec<_> = all.iter().map(|name| format!("{}=2", accept_ra(name))).collect();
    (!settings.is_empty()).then(|| settings.join(" "))
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

/// The interfaces with addresses by router advertisements that accept these only while they do not forward.
fn dependent() -> io::Result<Vec<String>> {
    let mut interfaces = Interfaces::new().map_err(io::Error::other)?;
    let with_addresses = interfaces.autoconfigured()?;
    let all = interfaces.all()?.into_iter().filter(|one| one.is_up && with_addresses.contains(&one.index));
    let stops = |name: &String| sysctl::read(&accept_ra(name)).is_ok_and(|value| value == "1");
    Ok(all.map(|one| one.name).filter(stops).collect())
}

/// The sysctl; names of interfaces may have dots.
fn accept_ra(interface: &str) -> String {
    format!("net/ipv6/conf/{interface}/accept_ra")
}
