//! Values that are written as text: quantities with units and names. Each has a form, which the schema names under
//! `x-form`, and which the checker reads again to say what is wrong with a text.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, de};
use serde_json::{Value as Json, json};
use std::borrow::Cow;
use std::str::FromStr;
use units::{Bytes, Duration, Rate};

/// A form of text: its name in the schema, and what it says.
pub(super) trait Form: FromStr<Err = String> {
    /// The schema's `x-form`.
    const NAME: &'static str;
    /// What fits, for people: completes "expected …".
    const EXPECTED: &'static str;
    /// What fits, for programs: a regular expression.
    const PATTERN: &'static str;
}

/// Numbers with the units of [`units`].
macro_rules! pattern {
    ($units:literal) => {
        concat!(r"^\s*[0-9.]+([eE][-+]?[0-9]+)?\s*", $units, r"\s*$")
    };
}

/// Declares a form: a text that `$parse` turns into a `$type`.
macro_rules! form {
    ($(#[$doc:meta])* $name:ident($type:ty), $form:literal, $expected:literal, $pattern:expr, $parse:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub(super) struct $name(pub(super) $type);

        impl FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                let parse: fn(&str) -> Result<$type, String> = $parse;
                parse(text).map(Self)
            }
        }

        impl Form for $name {
            const NAME: &'static str = $form;
            const EXPECTED: &'static str = $expected;
            const PATTERN: &'static str = $pattern;
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn inline_schema() -> bool {
                true
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                text_schema::<Self>()
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Cow::<str>::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    };
}

fn text_schema<F: Form>() -> Schema {
    let schema = json!({ "type": "string", "x-form": F::NAME, "pattern": F::PATTERN, "x-expected": F::EXPECTED });
    Schema::try_from(schema).expect("an object is a schema")
}

fn rate(text: &str) -> Result<Rate, String> {
    match Rate::parse(text) {
        Ok(rate) if rate > Rate::ZERO && rate <= Rate::from_bps(1_000_000_000_000) => Ok(rate),
        Ok(_) => Err("it is not above 0bit/s and at most 1Tbit/s".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn bytes(text: &str) -> Result<Bytes, String> {
    match Bytes::parse(text) {
        Ok(bytes) if bytes > Bytes::ZERO && bytes <= Bytes::new(1 << 50) => Ok(bytes),
        Ok(_) => Err("it is not above 0B and at most 1PiB".to_owned()),
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

fn positive_time(text: &str) -> Result<Duration, String> {
    match time(text) {
        Ok(Duration::ZERO) => Err("it is not above 0s".to_owned()),
        other => other,
    }
}

fn name(text: &str) -> bool {
    (1..=48).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        && !text.bytes().all(|byte| byte.is_ascii_digit())
}

form!(
    /// A rate above zero.
    PositiveRate(Rate), "rate", "a rate above 0bit/s and at most 1Tbit/s, such as \"6Mbit/s\"",
    pattern!("[kMGT]?bit/s"), rate
);
form!(
    /// A rate from zero.
    AnyRate(Rate), "any-rate", "a rate, such as \"6Mbit/s\" or \"0bit/s\"", pattern!("[kMGT]?bit/s"),
    |text| Rate::parse(text).map_err(|error| error.to_string())
);
form!(
    /// A rate above zero, or none.
    RateLimit(Option<Rate>), "rate-limit", "a rate above 0bit/s and at most 1Tbit/s, such as \"6Mbit/s\", or \"unlimited\"",
    r"^(unlimited|\s*[0-9.]+([eE][-+]?[0-9]+)?\s*[kMGT]?bit/s\s*)$",
    |text| if text == "unlimited" { Ok(None) } else { rate(text).map(Some) }
);
form!(
    /// A size above zero.
    Size(Bytes), "size", "a size above 0B, such as \"1MB\" or \"64KiB\"", pattern!("(k|M|G|Ki|Mi|Gi)?B"), bytes
);
form!(
    /// A size from zero.
    AnySize(Bytes), "any-size", "a size, such as \"6B\" or \"0B\"", pattern!("(k|M|G|Ki|Mi|Gi)?B"),
    |text| Bytes::parse(text).map_err(|error| error.to_string())
);
form!(
    /// A point in time or a delay, from 0.
    Time(Duration), "time", "a time, such as \"550ms\" or \"0s\"", pattern!("(ns|us|µs|ms|s|min|h)"), time
);
form!(
    /// A time above zero.
    Interval(Duration), "interval", "a time above 0s, such as \"100ms\"", pattern!("(ns|us|µs|ms|s|min|h)"), positive_time
);
form!(
    /// How much may wait for a transmitter.
    Queue(QueueSize), "queue", "a queue such as \"100packets\", \"320KiB\", \"1BDP\" or \"unlimited\"",
    r"^(unlimited|\s*[0-9.]+([eE][-+]?[0-9]+)?\s*(packets|BDP|(k|M|G|Ki|Mi|Gi)?B)\s*)$", queue
);
form!(
    /// Bytes, or segments of the connection's size.
    Window(WindowSize), "window", "a window such as \"64KiB\" or \"44segments\"",
    pattern!("(segments|(k|M|G|Ki|Mi|Gi)?B)"), window
);

/// The size of a queue as written: `100packets`, `320KiB`, `1BDP` or `unlimited`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum QueueSize {
    /// At most so many packets.
    Packets(u64),
    /// At most so many bytes.
    Bytes(Bytes),
    /// So many bandwidth-delay products of the link itself.
    BandwidthDelayProducts(f64),
    /// As much as comes.
    Unlimited,
}

/// A window as written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum WindowSize {
    Bytes(Bytes),
    Segments(u32),
}

impl FromStr for QueueSize {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        queue(text)
    }
}

fn queue(text: &str) -> Result<QueueSize, String> {
    if text == "unlimited" {
        return Ok(QueueSize::Unlimited);
    }
    if let Some(number) = text.strip_suffix("BDP") {
        return match number.trim().parse::<f64>() {
            Ok(products) if products > 0.0 && products <= 1000.0 => Ok(QueueSize::BandwidthDelayProducts(products)),
            _ => Err("it is not above 0BDP and at most 1000BDP".to_owned()),
        };
    }
    if let Some(number) = text.strip_suffix("packets") {
        return match number.trim().parse::<u64>() {
            Ok(packets) if (1..=1_000_000_000).contains(&packets) => Ok(QueueSize::Packets(packets)),
            _ => Err("it is not from 1packets to 1000000000packets".to_owned()),
        };
    }
    bytes(text).map(QueueSize::Bytes)
}

fn window(text: &str) -> Result<WindowSize, String> {
    if let Some(number) = text.strip_suffix("segments") {
        return match number.trim().parse::<u32>() {
            Ok(segments) if (1..=1_000_000).contains(&segments) => Ok(WindowSize::Segments(segments)),
            _ => Err("it is not from 1segments to 1000000segments".to_owned()),
        };
    }
    bytes(text).map(WindowSize::Bytes)
}

/// A name of a node, a link, a flow, a gateway pair, a configuration or a variant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name(pub(super) String);

impl FromStr for Name {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if name(text) { Ok(Self(text.to_owned())) } else { Err(format!("it is not {}", Self::EXPECTED)) }
    }
}

impl Form for Name {
    const NAME: &'static str = "name";
    const EXPECTED: &'static str = "a name of letters, digits, - and _, at most 48, not digits alone";
    const PATTERN: &'static str = "^(?=.*[A-Za-z_-])[A-Za-z0-9_-]{1,48}$";
}

impl JsonSchema for Name {
    fn schema_name() -> Cow<'static, str> {
        "Name".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        text_schema::<Self>()
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// What a name is.
pub(super) const NAME_EXPECTED: &str = Name::EXPECTED;

/// Whether `text` is a name.
///
/// # Errors
/// Says what is one.
pub(super) fn check_name(text: &str) -> Result<(), String> {
    text.parse::<Name>().map(|_| ())
}

/// What is wrong with `text` in the form that `schema` names, if anything; `None` if the schema names no form.
pub(super) fn check(schema: &Json, text: &str) -> Option<Result<(), String>> {
    fn of<F: Form>(text: &str) -> Result<(), String> {
        text.parse::<F>().map(|_| ())
    }
    let form = schema.get("x-form")?.as_str()?;
    Some(match form {
        AnyRate::NAME => of::<AnyRate>(text),
        AnySize::NAME => of::<AnySize>(text),
        PositiveRate::NAME => of::<PositiveRate>(text),
        RateLimit::NAME => of::<RateLimit>(text),
        Size::NAME => of::<Size>(text),
        Time::NAME => of::<Time>(text),
        Interval::NAME => of::<Interval>(text),
        Queue::NAME => of::<Queue>(text),
        Window::NAME => of::<Window>(text),
        _ => check_name(text),
    })
}
