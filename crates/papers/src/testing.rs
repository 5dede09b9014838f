//! What tests of studies share.

use crate::{Options, Row, Study, Verdict};
use replicas::{Interrupt, Jobs, Pool};

/// An item of `study`, reproduced with so many seeds.
pub fn rows(study: &dyn Study, item: &str, seeds: u64) -> Vec<Row> {
    let pool = Pool { jobs: Jobs::new(2), interrupt: Interrupt::default(), shows_progress: false, huge_pages: false };
    let options = Options { pool, seeds: Some(seeds), full: false, lab: None };
    let report = crate::run(study, &[item.to_owned()], &options).expect("it runs");
    report.items.into_iter().flat_map(|item| item.rows).collect()
}

/// The verdict on the entry `key`.
pub fn verdict(rows: &[Row], key: &str) -> Option<Verdict> {
    rows.iter().find(|row| row.entry.key == key).expect("an entry").verdict
}

/// The simulated mean of the entry `key`.
pub fn mean(rows: &[Row], key: &str) -> f64 {
    let row = rows.iter().find(|row| row.entry.key == key).expect("an entry");
    row.found.simulated.unwrap_or_else(|| panic!("{key} was not simulated")).mean
}
