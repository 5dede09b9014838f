//! Differentiated services code points: what the marking of a client's packets asks for (RFC 2474).

use std::str::FromStr;

/// A code point, from 0 to 63.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Dscp(u8);

/// Those with names (RFC 4594; RFC 5865 for voice-admit; RFC 8622 for le). Class selectors and assured forwarding follow
/// rules.
const NAMES: [(&str, u8); 4] = [("default", 0), ("le", 1), ("voice-admit", 44), ("ef", 46)];

/// A text that is no code point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a code point from 0 to 63, nor a name such as ef, af41, cs6 or le")]
pub struct NotADscp;

impl Dscp {
    /// The code point in a byte of traffic class (or type of service), whose lower bits are for congestion notification.
    pub fn of_traffic_class(byte: u8) -> Self {
        Self(byte >> 2)
    }

    /// The code point of this value; `None` above 63.
    pub fn new(value: u8) -> Option<Self> {
        (value < 64).then_some(Self(value))
    }

    /// Its value, from 0 to 63.
    pub fn value(self) -> u8 {
        self.0
    }

    /// Which of two markings asks to go first: the one with the larger figure. That is the order of the class selectors (RFC
    /// 2474, section 4.2.2), `ef` first in its class, within assured forwarding the smaller drop precedence, and with `cs1` (RFC
    /// 4594, section 4.10) and `le` (RFC 8622) below what has no marking.
    fn urgency(self) -> u8 {
        match self.0 {
            1 => 0,
            8 => 1,
            46 => 50,
            value => 2 + (value & 0b11_1000) + (!value & 0b111),
        }
    }

    /// The one of two markings that asks to go first.
    pub fn more_urgent(self, other: Self) -> Self {
        if other.urgency() > self.urgency() { other } else { self }
    }

    fn by_name(name: &str) -> Option<Self> {
        let digit = |byte: &u8, most: u8| byte.checked_sub(b'0').filter(|digit| *digit <= most);
        match name.as_bytes() {
            [b'c', b's', class] => digit(class, 7).map(|class| Self(8 * class)),
            [b'a', b'f', class, drop] => {
                let (class, drop) = (digit(class, 4)?, digit(drop, 3)?);
                (class > 0 && drop > 0).then_some(Self(8 * class + 2 * drop))
            }
            _ => NAMES.iter().find(|(known, _)| *known == name).map(|(_, value)| Self(*value)),
        }
    }
}

impl FromStr for Dscp {
    type Err = NotADscp;

    fn from_str(text: &str) -> Result<Self, NotADscp> {
        let number = text.parse().ok().and_then(Self::new);
        number.or_else(|| Self::by_name(&text.to_ascii_lowercase())).ok_or(NotADscp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_registry() {
        for (text, value) in [
            ("0", 0),
            ("63", 63),
            ("EF", 46),
            ("cs0", 0),
            ("cs7", 56),
            ("af11", 10),
            ("af43", 38),
            ("le", 1),
            ("voice-admit", 44),
        ] {
            assert_eq!(text.parse(), Ok(Dscp(value)), "{text}");
        }
        for wrong in ["64", "-1", "cs8", "af10", "af51", "af1", "", "e f", "256"] {
            assert_eq!(wrong.parse::<Dscp>(), Err(NotADscp), "{wrong}");
        }
        assert_eq!(Dscp::of_traffic_class(0xb9), Dscp(46), "expedited forwarding, with a congestion mark");
    }

    #[test]
    fn voice_goes_before_video_before_files_before_what_can_wait() {
        let order: Vec<Dscp> =
            ["cs7", "cs6", "ef", "cs5", "af41", "af43", "af31", "af21", "af11", "default", "cs1", "le"]
                .map(|name| name.parse().unwrap())
                .to_vec();
        assert!(order.is_sorted_by(|one, other| one.urgency() > other.urgency()), "{order:?}");
        assert_eq!(order[9].more_urgent(order[2]), order[2]);
        assert_eq!(order[9].more_urgent(order[10]), order[9]);
    }

    #[test]
    fn there_are_64_code_points_and_the_bits_of_congestion_are_none_of_them() {
        for value in 0..=u8::MAX {
            assert_eq!(Dscp::new(value).map(Dscp::value), (value < 64).then_some(value));
            assert_eq!(Dscp::of_traffic_class(value).value(), value / 4, "RFC 2474, section 3: the upper six bits");
        }
        assert_eq!(Dscp::default().value(), 0);
        let refused = "ef1".parse::<Dscp>().expect_err("no name").to_string();
        assert!(refused.contains("0 to 63") && refused.contains("af41"), "{refused}");
    }
}
