//! The forms that all files share: quantities with the units of [`units`], and names.

use crate::{Form, form};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::str::FromStr;
use units::{Bytes, Duration, Rate};

/// The pattern of a number with one of `$units`, a regular expression.
#[macro_export]
macro_rules! quantity_pattern {
    ($units:literal) => {
        concat!(r"^\s*[0-9.]+([eE][-+]?[0-9]+)?\s*", $units, r"\s*$")
    };
}

/// The highest rate that a file may name.
const MAX_RATE: Rate = Rate::from_bps(1_000_000_000_000);

fn positive_rate(text: &str) -> Result<Rate, String> {
    match Rate::parse(text) {
        Ok(rate) if rate > Rate::ZERO && rate <= MAX_RATE => Ok(rate),
        Ok(_) => Err("it is not above 0bit/s and at most 1Tbit/s".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn size(text: &str) -> Result<Bytes, String> {
    match Bytes::parse(text) {
        Ok(bytes) if bytes > Bytes::ZERO && bytes <= Bytes::new(1 << 50) => Ok(bytes),
        Ok(_) => Err("it is not above 0B and at most 1048576GiB".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// A time of at most ten years.
fn time(text: &str) -> Result<Duration, String> {
    match Duration::parse(text) {
        Ok(time) if time <= Duration::from_secs(10 * 366 * 86_400) => Ok(time),
        Ok(_) => Err("it is longer than ten years".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    match time(text) {
        Ok(Duration::ZERO) => Err("it is not above 0s".to_owned()),
        other => other,
    }
}

form!(
    /// A rate above zero.
    #[derive(Copy)]
    PositiveRate(Rate), "rate", "a rate above 0bit/s and at most 1Tbit/s, such as \"6Mbit/s\"",
    quantity_pattern!("[kMGT]?bit/s"), positive_rate
);
form!(
    /// A rate from zero.
    #[derive(Copy)]
    AnyRate(Rate), "any-rate", "a rate, such as \"6Mbit/s\" or \"0bit/s\"", quantity_pattern!("[kMGT]?bit/s"),
    |text| Rate::parse(text).map_err(|error| error.to_string())
);
form!(
    /// A size above zero.
    #[derive(Copy)]
    Size(Bytes), "size", "a size above 0B, such as \"1MB\" or \"64KiB\"", quantity_pattern!("(k|M|G|Ki|Mi|Gi)?B"), size
);
form!(
    /// A size from zero.
    #[derive(Copy)]
    AnySize(Bytes), "any-size", "a size, such as \"6B\" or \"0B\"", quantity_pattern!("(k|M|G|Ki|Mi|Gi)?B"),
    |text| Bytes::parse(text).map_err(|error| error.to_string())
);
form!(
    /// A point in time or a delay, from 0.
    #[derive(Copy)]
    Time(Duration), "time", "a time, such as \"550ms\" or \"0s\"", quantity_pattern!("(ns|us|µs|ms|s|min|h)"), time
);
form!(
    /// A time above zero.
    #[derive(Copy)]
    Interval(Duration), "interval", "a time above 0s, such as \"100ms\"", quantity_pattern!("(ns|us|µs|ms|s|min|h)"),
    interval
);
form!(
    /// A name of a node, a link, a flow, a gateway pair, a configuration or a variant.
    #[derive(Eq, PartialOrd, Ord)]
    Name(String), "name", "a name of letters, digits, - and _, at most 48, not digits alone",
    "^(?=.*[A-Za-z_-])[A-Za-z0-9_-]{1,48}$",
    |text| if is_name(text) { Ok(text.to_owned()) } else { Err(format!("it is not {}", Name::EXPECTED)) }
);

form!(
    /// A text for people, which may reach a terminal or a picture.
    #[derive(Eq)]
    Line(String), "line", "a text of one line without control characters", r"^[^\x00-\x1f\x7f-\x9f]*$",
    |text| if text.contains(char::is_control) { Err(format!("it is not {}", Line::EXPECTED)) } else { Ok(text.to_owned()) }
);

fn is_name(text: &str) -> bool {
    (1..=48).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        && !text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A rate above zero, or `unlimited`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimit(
    /// `None` is unlimited.
    pub Option<Rate>,
);

impl FromStr for RateLimit {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "unlimited" { Ok(Self(None)) } else { positive_rate(text).map(|rate| Self(Some(rate))) }
    }
}

impl Form for RateLimit {
    const NAME: &'static str = "rate-limit";
    const EXPECTED: &'static str = "a rate above 0bit/s and at most 1Tbit/s, such as \"6Mbit/s\", or \"unlimited\"";
    const PATTERN: &'static str = r"^(unlimited|\s*[0-9.]+([eE][-+]?[0-9]+)?\s*[kMGT]?bit/s\s*)$";
}

impl JsonSchema for RateLimit {
    fn schema_name() -> Cow<'static, str> {
        "RateLimit".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        Self::schema()
    }
}

impl<'de> Deserialize<'de> for RateLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl Serialize for RateLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(rate) => rate.serialize(serializer),
            None => serializer.serialize_str("unlimited"),
        }
    }
}

/// `text`, of the form named `form`, as a number that can be compared with others of the form; `None` if the form has no
/// bounds.
pub(crate) fn magnitude(form: &str, text: &str) -> Option<u64> {
    match form {
        PositiveRate::NAME | AnyRate::NAME => text.parse::<Rate>().ok().map(Rate::as_bps),
        Size::NAME | AnySize::NAME => text.parse::<Bytes>().ok().map(Bytes::as_u64),
        Time::NAME | Interval::NAME => text.parse::<Duration>().ok().map(|time| time.as_nanos()),
        _ => None,
    }
}

/// What a quantity of the form named `form` is called.
pub(crate) fn noun(form: &str) -> &'static str {
    match form {
        PositiveRate::NAME | AnyRate::NAME => "a rate",
        Size::NAME | AnySize::NAME => "a size",
        _ => "a time",
    }
}
