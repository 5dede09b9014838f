//! `[link] dscp`: how packets between gateways are marked.

use relay::dscp::{Dscp, NotADscp};
use std::str::FromStr;

/// How packets between gateways are marked (RFC 2983: the uniform model, or the pipe model).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Marking {
    /// As the clients of the connections that they carry mark theirs.
    #[default]
    Copy,
    /// All alike.
    Fixed(Dscp),
}

impl FromStr for Marking {
    type Err = NotADscp;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "copy" { Ok(Marking::Copy) } else { text.parse().map(Marking::Fixed) }
    }
}

impl std::fmt::Display for Marking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Marking::Copy => f.write_str("copy"),
            Marking::Fixed(dscp) => write!(f, "{}", dscp.value()),
        }
    }
}

impl Marking {
    /// How to mark what belongs to connections whose clients use `dscp`.
    pub fn of(self, dscp: Dscp) -> Dscp {
        match self {
            Marking::Copy => dscp,
            Marking::Fixed(fixed) => fixed,
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
            ("", Marking::Copy),
            ("dscp = \"copy\"", Marking::Copy),
            ("dscp = \"AF31\"", Marking::Fixed(Dscp::new(26).unwrap())),
            ("dscp = 0", Marking::Fixed(Dscp::default())),
        ] {
            let text = minimal().replace("[link]", &format!("[link]\n{line}"));
            let marking = super::super::parse(&text, "gateway.toml").expect("no faults").link.dscp;
            assert_eq!(marking, expected, "{line}");
            assert_eq!(marking.of(ef) == ef, expected == Marking::Copy);
        }
    }
}
