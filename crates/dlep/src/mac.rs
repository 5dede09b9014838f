//! MAC addresses, by which destinations are named (§13.7).

use std::fmt::Write as _;

/// An EUI-48 or EUI-64 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mac {
    /// Six octets.
    Eui48([u8; 6]),
    /// Eight octets.
    Eui64([u8; 8]),
}

/// A text that is no MAC address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a MAC address of six or eight octets such as 02:00:5e:10:00:01")]
pub struct MacError;

impl Mac {
    /// The octets.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Eui48(octets) => octets,
            Self::Eui64(octets) => octets,
        }
    }

    /// From six or eight octets.
    pub fn from_bytes(octets: &[u8]) -> Option<Self> {
        let eui48 = octets.try_into().map(Self::Eui48);
        eui48.or_else(|_| octets.try_into().map(Self::Eui64)).ok()
    }
}

impl std::fmt::Display for Mac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, octet) in self.as_bytes().iter().enumerate() {
            if at > 0 {
                f.write_char(':')?;
            }
            write!(f, "{octet:02x}")?;
        }
        Ok(())
    }
}

impl std::str::FromStr for Mac {
    type Err = MacError;

    fn from_str(text: &str) -> Result<Self, MacError> {
        let is_octet = |part: &str| part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit());
        let octet = |part: &str| match is_octet(part) {
            true => u8::from_str_radix(part, 16).map_err(|_| MacError),
            false => Err(MacError),
        };
        let octets = text.split([':', '-']).map(octet).collect::<Result<Vec<_>, _>>()?;
        Self::from_bytes(&octets).ok_or(MacError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes_and_nothing_else() {
        for text in ["02:00:5e:10:00:01", "02:00:5e:ff:fe:10:00:01"] {
            assert_eq!(text.parse::<Mac>().unwrap().to_string(), text);
        }
        for text in
            ["", "02:00:5e:10:00", "02:00:5e:10:00:01:02", "2:0:5e:10:0:1", "+2:00:5e:10:00:01", "0é:00:5e:10:00:01"]
        {
            assert!(text.parse::<Mac>().is_err(), "{text}");
        }
    }
}
