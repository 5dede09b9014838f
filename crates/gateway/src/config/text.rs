//! The forms of texts that only a gateway's configuration has: names, addresses, keys, ports.

use super::dscp::DscpPolicy;
use dlep::Mac as MacAddress;
use document::form;
use ipnet::IpNet;
use relay::classes::Ports;
use satpep::dscp::Dscp;
use satpep::{PrivateKey, PublicKey};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Declares a form whose faults say what was expected.
macro_rules! text {
    ($(#[$attribute:meta])* $name:ident($type:ty), $form:literal, $expected:literal, $pattern:expr, $parse:expr, |$value:ident| $write:expr) => {
        form!(
            $(#[$attribute])*
            $name($type), $form, $expected, $pattern,
            |text| {
                let parse: fn(&str) -> Option<$type> = $parse;
                parse(text).ok_or_else(|| concat!("expected ", $expected).to_owned())
            },
            |$value| $write
        );
    };
}

text!(
    /// A name of the gateway, of a peer, of an account.
    ShortName(String), "short-name", "letters, digits, - and _, at most 32", "^[A-Za-z0-9_-]{1,32}$",
    |text| is_name(text, 32).then(|| text.to_owned()), |name| name
);
text!(
    /// A name of a class.
    ClassName(String), "class-name", "letters, digits, - and _, at most 32, and not \"default\"", "^[A-Za-z0-9_-]{1,32}$",
    |text| (is_name(text, 32) && text != "default").then(|| text.to_owned()), |name| name
);
text!(
    /// The name of a congestion control.
    ControlName(String), "congestion-control", "a name of at most 15 letters, digits, - and _, such as \"cubic\"",
    "^[A-Za-z0-9_-]{1,15}$", |text| is_name(text, 15).then(|| text.to_owned()), |name| name
);
text!(
    /// A network interface.
    Interface(String), "interface", "an interface name", "^[A-Za-z0-9_.@:-]{1,15}$",
    |text| is_interface(text).then(|| text.to_owned()), |name| name
);
text!(
    /// An address and port to listen at.
    Listen(SocketAddr), "listen", "an address and port such as \"[::]:4500\"", "^.+:[0-9]{1,5}$",
    |text| text.parse().ok(), |address| address
);
form!(
    /// A peer's address and port.
    Address(SocketAddr), "address", ADDRESS, "^.+:[0-9]{1,5}$",
    |text| text.parse().map_err(|_| match text {
        _ if is_name_and_port(text) => format!("names are not looked up: expected {ADDRESS}"),
        _ if names_link(text) => LINK_LOCAL.to_owned(),
        _ => format!("expected {ADDRESS}"),
    }),
    |address| address
);
text!(
    /// A modem's address, whose port may be left out.
    ModemAddress(SocketAddr), "modem-address", "an address such as \"192.0.2.1\", with a port if it is not 854", "^.+$",
    |text| {
        let plain = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, dlep::PORT));
        plain.ok().or_else(|| text.parse().ok())
    },
    |address| address
);
text!(
    /// The address of a modem's destination.
    Mac(MacAddress), "mac", "a MAC address such as \"02:00:5e:10:00:01\"", "^[0-9A-Fa-f:-]+$",
    |text| text.parse().ok(), |address| address.to_string()
);
text!(
    /// A prefix of addresses.
    Prefix(IpNet), "prefix", "a prefix such as \"10.0.0.0/8\"", "^.+/[0-9]{1,3}$", |text| text.parse().ok(), |prefix| prefix
);
text!(
    /// A private key.
    Private(PrivateKey), "private-key", "a private key in base64, as `bentpipe keygen` prints it", "^[A-Za-z0-9+/]{43}=$",
    |text| text.parse().ok(), |key| key.to_base64()
);
text!(
    /// A public key.
    Public(PublicKey), "public-key", "a public key in base64, as `bentpipe keygen --public` prints it",
    "^[A-Za-z0-9+/]{43}=$", |text| text.parse().ok(), |key| key.to_string()
);
text!(
    /// The path of a file.
    Path(String), "path", "a path", "^.+$", |text| (!text.is_empty()).then(|| text.to_owned()), |path| path
);
text!(
    /// The path of a Unix socket.
    SocketPath(String), "socket", "a path of at most 100 bytes", "^.{1,100}$",
    |text| (1..=100).contains(&text.len()).then(|| text.to_owned()), |path| path
);
text!(
    /// A port, or several in a row.
    PortRange(Ports), "ports", "a port from 1 to 65535 or a range of them, such as \"5060-5069\"", "^[0-9]+(-[0-9]+)?$",
    |text| text.parse().ok(), |ports| ports.to_string()
);
text!(
    /// A code point of the Differentiated Services field.
    CodePoint(Dscp), "dscp", "a code point from 0 to 63 or its name, such as \"af41\", \"cs6\", \"le\"", "^[A-Za-z0-9-]+$",
    |text| text.parse().ok(), |dscp| dscp.value()
);
text!(
    /// DSCP of packets.
    DscpPolicyText(DscpPolicy), "DSCP", "\"copy\", or a code point from 0 to 63 or its name, such as 26, \"af31\", \"cs1\"", "^[A-Za-z0-9-]+$",
    |text| text.parse().ok(), |policy| policy.to_string()
);

/// What a peer's address is, in words.
const ADDRESS: &str = "an address and port such as \"198.51.100.1:4500\"";

/// What is expected instead of an address that is valid on a link only.
pub(super) const LINK_LOCAL: &str = "a link-local address needs the number of its interface (`ip link`), such as \"[fe80::1%2]:4500\", which changes when the \
     interface is made again: give both gateways global or unique local addresses (fd00::/8) instead";

/// Whether `text` is an address of a link, as others write it: with the interface's name.
fn names_link(text: &str) -> bool {
    let parts = text.strip_prefix('[').and_then(|text| text.split_once('%'));
    parts.is_some_and(|(address, rest)| {
        rest.contains("]:") && address.parse().is_ok_and(|address: Ipv6Addr| address.is_unicast_link_local())
    })
}

/// Whether `text` has the name of a host where an address belongs, with or without a port.
fn is_name_and_port(text: &str) -> bool {
    let host = text.rsplit_once(':').map_or(text, |(host, _)| host);
    host.starts_with(|first: char| first.is_ascii_alphabetic())
        && host.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.')
}

fn is_name(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// Linux takes almost any byte in an interface's name; those that could end a quoted string in a rule are refused. Names of
/// directories are none (dev_valid_name in net/core/dev.c).
fn is_interface(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'@' | b':');
    (1..=15).contains(&text.len()) && text.bytes().all(plain) && !matches!(text, "." | "..")
}
