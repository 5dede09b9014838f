//! `[link] dscp`: DSCP of packets between gateways.

use relay::dscp::{Dscp, NotADscp};
use std::str::FromStr;

/// DSCP of packets between gateways (RFC 2983: the uniform model, or the pipe model).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DscpPolicy {
    /// As that of the clients' packets.
    #[default]
    Copy,
    /// All alike.
    Fixed(Dscp),
}

impl FromStr for DscpPolicy {
    type Err = NotADscp;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "copy" { Ok(DscpPolicy::Copy) } else { text.parse().map(DscpPolicy::Fixed) }
    }
}

impl std::fmt::Display for DscpPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DscpPolicy::Copy => f.write_str("copy"),
            DscpPolicy::Fixed(dscp) => write!(f, "{}", dscp.value()),
        }
    }
}

impl DscpPolicy {
    /// DSCP for what belongs to connections whose clients use `dscp`.
    pub fn of(self, dscp: Dscp) -> Dscp {
        match self {
            DscpPolicy::Copy => dscp,
            DscpPolicy::Fixed(fixed) => fixed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::minimal;
    use super::*;

    #[test]
    fn packets_are_marked_as_the_clients_unless_they_have_one_code_point() {
        let ef = Dscp::new(46).unwrap();
        for (line, expected) in [
            ("", DscpPolicy::Copy),
            ("dscp = \"copy\"", DscpPolicy::Copy),
            ("dscp = \"AF31\"", DscpPolicy::Fixed(Dscp::new(26).unwrap())),
            ("dscp = 0", DscpPolicy::Fixed(Dscp::default())),
        ] {
            let text = minimal().replace("[link]", &format!("[link]\n{line}"));
            let policy = super::super::parse(&text, "gateway.toml").expect("no faults").link.dscp;
            assert_eq!(policy, expected, "{line}");
            assert_eq!(policy.of(ef) == ef, expected == DscpPolicy::Copy);
        }
    }
}
