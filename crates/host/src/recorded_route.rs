//! A route in the journal: in words for the reader of the file, and as the message by which the kernel takes it back.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kernel::route::Route;
use serde::{Deserialize, Serialize};

/// A route that can be recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Record", into = "Record")]
pub struct RecordedRoute(pub Route);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    /// In the words of `ip`, for people.
    route: String,
    /// The message about the route (rtnetlink), in base64.
    message: String,
}

impl From<RecordedRoute> for Record {
    fn from(RecordedRoute(route): RecordedRoute) -> Self {
        Self { route: route.to_string(), message: STANDARD.encode(route.to_bytes()) }
    }
}

impl TryFrom<Record> for RecordedRoute {
    type Error = String;
    fn try_from(record: Record) -> Result<Self, String> {
        let route = STANDARD.decode(&record.message).ok().and_then(|bytes| Route::from_bytes(&bytes));
        route.map(Self).ok_or_else(|| format!("`message` of the route {} is not a message about a route", record.route))
    }
}

impl std::fmt::Display for RecordedRoute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
