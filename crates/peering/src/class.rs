//! Classes of streams: who shares a session with whom, and how.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Rate;

/// A class of streams. The busy classes of a session share it by weight, the streams of a class share that equally.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Class {
    /// Identifies a class; streams are of class 0 by default. The latest settings of a class hold for all of
    /// its streams.
    pub id: u8,
    /// Who goes first while it takes less than its share.
    pub priority: Priority,
    /// Its share relative to other classes, from 1 to [`Class::MAX_WEIGHT`]; what lies beyond counts as the nearest.
    pub weight: u32,
    /// The most that is sent of it to one peer, in stream bytes and their frames' heads.
    pub cap: Option<Rate>,
}

/// Which streams of a class pass others without waiting. What they send is charged to the class all the same: none gets
/// more than its share by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// None: they take turns.
    Bulk,
    /// New ones, and those that send less than their share of the class.
    #[default]
    Normal,
    /// As `Normal`, and before those; and all of them while the class takes less than its share.
    Interactive,
}

impl Class {
    /// The largest weight. A class sends as many packets in each round.
    pub const MAX_WEIGHT: u32 = 100;
    /// The class of streams of which nothing is said.
    pub const DEFAULT: Self = Self { id: 0, priority: Priority::Normal, weight: 1, cap: None };
}

impl Default for Class {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Priority {
    /// All of them with the names that configurations use.
    pub const NAMES: [(&'static str, Priority); 3] =
        [("interactive", Priority::Interactive), ("normal", Priority::Normal), ("bulk", Priority::Bulk)];
}

impl std::fmt::Display for Priority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(Self::NAMES.iter().find(|(_, priority)| priority == self).map_or("normal", |(name, _)| name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::IntoDeserializer as _;
    use serde::de::value::{Error, StrDeserializer};

    fn read(name: &str) -> Result<Priority, Error> {
        let deserializer: StrDeserializer<'_, Error> = name.into_deserializer();
        Priority::deserialize(deserializer)
    }

    #[test]
    fn a_priority_has_one_name_in_configurations_and_in_output() {
        for (name, priority) in Priority::NAMES {
            assert_eq!((priority.to_string(), format!("{priority:>12}")), (name.to_owned(), format!("{name:>12}")));
            assert_eq!(read(name), Ok(priority));
        }
        assert!(read("urgent").is_err());
    }

    #[test]
    fn a_stream_of_which_nothing_is_said_shares_alike_and_has_no_cap() {
        assert_eq!(Class::default(), Class { id: 0, priority: Priority::default(), weight: 1, cap: None });
        assert_eq!(Priority::default(), Priority::Normal);
        assert!(Priority::Bulk < Priority::Normal && Priority::Normal < Priority::Interactive);
    }
}
