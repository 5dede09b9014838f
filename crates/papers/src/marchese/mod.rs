//! Marchese: tuning the initial window and the buffers of TCP over a geostationary satellite.
//!
//! One file over one connection at 2048 kbit/s. The paper gives neither round-trip time nor router queue nor when its clock
//! stops; the remarks say what is taken here, one value for all tables, and why.

mod figures;
mod gains;
mod readings;
mod rounds;
mod transfers;

use crate::printed::{Content, Item};
use crate::{Context, Error, Reproduction, Study};
use transfers::{Experiment, Setting};

/// The study.
pub struct Marchese;

/// An experiment by the name of its file and what its entries do not name.
macro_rules! experiment {
    ($file:literal, $iw:literal, $buf:literal) => {
        Experiment {
            file: $file,
            text: include_str!(concat!("../../../../scenarios/papers/marchese/", $file)),
            fixed: Setting { iw: $iw, buf: $buf },
        }
    };
}

const TABLE_3: Experiment = experiment!("table-3.toml", 1, 64);
const TABLE_4: Experiment = experiment!("table-4.toml", 1, 64);
const TABLE_5: Experiment = experiment!("table-5.toml", 6, 64);
const TABLE_6: Experiment = experiment!("table-6.toml", 6, 64);
const TABLE_7: Experiment = experiment!("table-7.toml", 6, 64);
const TABLE_8: Experiment = experiment!("table-8.toml", 1, 64);
const FIGURE_3: Experiment = experiment!("figure-3.toml", 1, 64);

impl Study for Marchese {
    fn name(&self) -> &'static str {
        "marchese"
    }

    fn printed(&self) -> &'static str {
        include_str!("../../../../scenarios/papers/marchese/printed.toml")
    }

    fn reproduce(&self, item: &Item, context: &Context<'_>) -> Result<Reproduction, Error> {
        match item.name.as_str() {
            "table-3" => table(TABLE_3, item, context, &[CHOICES, SEGMENTS]),
            "table-4" => table_4(item, context),
            "table-5" => table(TABLE_5, item, context, &[CHOICES]),
            "table-6" => table(TABLE_6, item, context, &[CHOICES, SEGMENTS]),
            "table-7" => table(TABLE_7, item, context, &[CHOICES, EMULATOR]),
            "table-8" => table(TABLE_8, item, context, &[CHOICES, LATE]),
            "figure-3" => figures::figure_3(item, context),
            "figure-4" => figures::figure_4(item, context),
            "figure-5" => figures::figure_5(item, context),
            "figure-6" => figures::figure_6(item, context),
            "gains" => gains::gains(item, context),
            "readings" => readings::readings(item),
            name => Err(Error::Input(format!("item `{name}` is printed, but not reproduced"))),
        }
    }
}

const CHOICES: &str = "Not printed, and the same for all tables: a round-trip time of 0.535 s besides the time of transmission, \
                       segments of 1024 bytes, and a clock that runs from the established connection to the sender's last \
                       acknowledgement (the item readings says why). The window is half the buffer, as Linux 2.2 advertises it.";
const SEGMENTS: &str = "With 1024-byte segments, half of 64 kB is 32 segments, and 100 kB take 8, 7, 6, 5, 5 and 5 round trips: the \
                        printed times. With 1448-byte segments it would be 22, and the times with 6 and 8 a round trip (18 %) \
                        longer than those with 10.";
const LATE: &str = "With an initial window of 1, every printed time is one round trip and up to 0.1 s longer than ours: the paper's \
                    transfers of 2.8 MB lost a round trip at their start, those of 100 kB (table III) did not.";
const EMULATOR: &str = "Measured with the emulator, the other tables over the satellite. With 256 and 320 kB the window no longer \
                        binds: the line rate would be reached, as in table V, but the emulator gave 77 % of it.";
const QUEUE: &str = "The router's queue, not printed, holds 100 packets. From 96 to 192 agree with the paper that 384 kB do not \
                     overflow it and 640 kB do.";

/// Without `--full`, transfers that take longer (seconds) are not measured: those of table VII do.
const LONGEST_MEASURED: f64 = 55.0;

/// A table of transmission times.
fn table(experiment: Experiment, item: &Item, context: &Context<'_>, remarks: &[&str]) -> Result<Reproduction, Error> {
    let longest = if context.full() { f64::INFINITY } else { LONGEST_MEASURED };
    let found = experiment.times(item, context, longest)?;
    let remarks = remarks.iter().map(|remark| (*remark).to_owned()).collect();
    Ok(Reproduction { found, charts: Vec::new(), remarks })
}

/// Table IV has the buffer that overflows the router.
fn table_4(item: &Item, context: &Context<'_>) -> Result<Reproduction, Error> {
    let mut reproduction = table(TABLE_4, item, context, &[CHOICES, LATE, QUEUE])?;
    let without_sack = figures::newreno_alone(Setting { iw: 1, buf: 640 }, context)?.time().unwrap_or(f64::NAN);
    if let Some(found) = reproduction.found.iter_mut().find(|found| found.key == "buf=640") {
        let note = format!("SACK repairs the overflow in one round; NewReno alone needs {without_sack:.2} s");
        *found = std::mem::take(found).note(note);
    }
    Ok(reproduction)
}

/// What the paper prints for `key` of `item`.
fn printed_value(item: &str, key: &str) -> Result<f64, Error> {
    let values = values(item)?.into_iter().find(|value| value.0 == key);
    values.map(|value| value.1).ok_or_else(|| Error::failed(format!("marchese {item} prints no `{key}`")))
}

/// The values of `item` that do not contradict the paper itself, by key.
fn consistent_values(item: &str) -> Result<Vec<(String, f64)>, Error> {
    Ok(values(item)?.into_iter().filter(|value| !value.2).map(|(key, value, _)| (key, value)).collect())
}

/// Key, printed value and whether that is inconsistent.
fn values(item: &str) -> Result<Vec<(String, f64, bool)>, Error> {
    let printed = crate::printed(&Marchese)?;
    let entries = printed.items.into_iter().filter(|other| other.name == item).flat_map(|item| item.entries);
    let value = |entry: crate::printed::Entry| match entry.content {
        Content::Value { printed, inconsistent, .. } => Some((entry.key, printed, inconsistent.is_some())),
        Content::Claim { .. } | Content::Ours(_) => None,
    };
    Ok(entries.filter_map(value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Verdict};
    use replicas::Pool;

    fn options() -> Options {
        let pool = Pool {
            jobs: replicas::Jobs::new(1),
            interrupt: replicas::Interrupt::default(),
            shows_progress: false,
            huge_pages: false,
        };
        Options { pool, seeds: None, full: false, lab: None }
    }

    fn verdicts(item: &str) -> Vec<(String, Option<Verdict>)> {
        let report = crate::run(&Marchese, &[item.to_owned()], &options()).expect("it runs");
        let rows = report.items.into_iter().flat_map(|item| item.rows);
        rows.map(|row| (row.entry.key, row.verdict)).collect()
    }

    #[test]
    fn tables_are_found_again_but_for_what_contradicts_itself() {
        let inconsistent = [("table-4", &["buf=640"][..]), ("table-7", &["buf=256", "buf=320"])];
        for item in ["table-3", "table-4", "table-5", "table-6", "table-7", "table-8", "figure-6"] {
            let inconsistent = inconsistent.iter().find(|one| one.0 == item).map_or(&[][..], |one| one.1);
            for (key, verdict) in verdicts(item) {
                let expected =
                    if inconsistent.contains(&key.as_str()) { Verdict::Inconsistent } else { Verdict::Within };
                assert_eq!(verdict, Some(expected), "{item} {key}");
            }
        }
    }

    #[test]
    fn claims_hold() {
        for item in ["figure-3", "figure-4", "figure-5"] {
            for (key, verdict) in verdicts(item) {
                assert_eq!(verdict, Some(Verdict::Holds), "{item} {key}");
            }
        }
    }

    /// Without one of its choices some table would be more than 5 % off.
    #[test]
    fn one_reading_fits_all_tables() {
        let report = crate::run(&Marchese, &["readings".to_owned()], &options()).expect("it runs");
        for row in &report.items[0].rows {
            let largest = row.found.model.expect("by the model");
            if row.entry.key.starts_with("C, 0.535 s") {
                assert!(largest < 5.0, "{}: {largest}", row.entry.key);
            }
            if row.entry.key == "A, 0.57 s, table III" {
                assert!(largest < 2.0, "{largest}");
            }
        }
    }

    #[test]
    fn the_papers_gains_follow_from_its_times() {
        for (key, verdict) in verdicts("gains") {
            let expected = if key == "table IV, buf=640" { Verdict::Inconsistent } else { Verdict::Within };
            assert_eq!(verdict, Some(expected), "{key}");
        }
    }
}
