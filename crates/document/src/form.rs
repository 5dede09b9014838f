//! The forms of texts: quantities with units, names, addresses. The schema names a text's form under `x-form`, and the check
//! reads the text again by it, to say what is wrong.

use schemars::Schema;
use serde_json::json;
use std::str::FromStr;

/// A form of text: its name in the schema, and what it says.
pub trait Form: FromStr<Err = String> {
    /// The schema's `x-form`.
    const NAME: &'static str;
    /// What fits, for people: completes "expected …".
    const EXPECTED: &'static str;
    /// What fits, for programs: a regular expression.
    const PATTERN: &'static str;

    /// The schema of a text of this form.
    fn schema() -> Schema {
        let schema =
            json!({ "type": "string", "x-form": Self::NAME, "pattern": Self::PATTERN, "x-expected": Self::EXPECTED });
        Schema::try_from(schema).expect("an object is a schema")
    }
}

/// Declares a form of text: a type that holds what a function makes of a text.
///
/// The function returns `Result<_, String>`, whose error completes `KEY = "…": `. The type has a [schema](Form::schema), and
/// is deserialised by way of the function; it is serialised as what it holds, or as what a last argument such as
/// `|value| value.to_string()` makes of it.
///
/// ```
/// document::form!(
///     /// A port.
///     Port(u16), "port", "a port such as \"4500\"", "^[0-9]+$",
///     |text| text.parse().map_err(|_| "it is no number from 0 to 65535".to_owned())
/// );
/// assert_eq!("4500".parse::<Port>().map(|port| port.0), Ok(4500));
/// ```
#[macro_export]
macro_rules! form {
    ($(#[$attribute:meta])* $name:ident($type:ty), $form:literal, $expected:expr, $pattern:expr, $parse:expr) => {
        $crate::form!($(#[$attribute])* $name($type), $form, $expected, $pattern, $parse, |value| value);
    };
    ($(#[$attribute:meta])* $name:ident($type:ty), $form:literal, $expected:expr, $pattern:expr, $parse:expr, |$value:ident| $write:expr) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name(
            /// What the text says.
            pub $type,
        );

        impl ::std::str::FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                let parse: fn(&str) -> Result<$type, String> = $parse;
                parse(text).map(Self)
            }
        }

        impl $crate::Form for $name {
            const NAME: &'static str = $form;
            const EXPECTED: &'static str = $expected;
            const PATTERN: &'static str = $pattern;
        }

        impl $crate::external::schemars::JsonSchema for $name {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn inline_schema() -> bool {
                true
            }
            fn json_schema(
                _: &mut $crate::external::schemars::SchemaGenerator,
            ) -> $crate::external::schemars::Schema {
                <Self as $crate::Form>::schema()
            }
        }

        impl<'de> $crate::external::serde::Deserialize<'de> for $name {
            fn deserialize<D: $crate::external::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <::std::borrow::Cow<'de, str> as $crate::external::serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err($crate::external::serde::de::Error::custom)
            }
        }

        impl $crate::external::serde::Serialize for $name {
            fn serialize<S: $crate::external::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let $value = &self.0;
                $crate::external::serde::Serialize::serialize(&$write, serializer)
            }
        }
    };
}
