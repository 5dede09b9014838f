//! A row of the table of numbers, and how its value is written.

use units::Duration;

/// A row of the table.
pub(crate) type Limit = (&'static str, String);

pub(crate) fn limit(name: &'static str, value: impl Shown) -> Limit {
    (name, value.shown())
}

/// A value as the table has it.
pub(crate) trait Shown {
    fn shown(&self) -> String;
}

macro_rules! shown {
    ($($kind:ty),*) => {
        $(impl Shown for $kind {
            fn shown(&self) -> String {
                let digits = self.to_string();
                let groups = digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group).into_owned());
                groups.collect::<Vec<_>>().join(",")
            }
        })*
    };
}

shown!(u8, u16, u32, u64, usize);

impl Shown for Duration {
    fn shown(&self) -> String {
        let millis = self.as_nanos() / 1_000_000;
        if millis.is_multiple_of(1000) { format!("{} s", millis / 1000) } else { format!("{millis} ms") }
    }
}

impl Shown for &str {
    fn shown(&self) -> String {
        (*self).to_owned()
    }
}

#[test]
fn numbers_are_shown_in_groups_and_times_with_their_unit() {
    assert_eq!((1_234_567u64.shown(), 12u8.shown()), ("1,234,567".into(), "12".into()));
    assert_eq!(
        (Duration::from_millis(1500).shown(), Duration::from_secs(600).shown()),
        ("1500 ms".into(), "600 s".into())
    );
}
