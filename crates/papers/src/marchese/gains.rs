//! The gains beside the times of tables III to VIII.

use super::figures::gain;
use super::transfers::Experiment;
use super::{TABLE_3, TABLE_4, TABLE_5, TABLE_6, TABLE_7, TABLE_8, printed_value};
use crate::{Context, Error, Found, Reproduction, printed::Item};
use std::collections::BTreeMap;

/// The tables by number, with the entry that their gains refer to.
pub const TABLES: [(&str, &str, &str, Experiment); 6] = [
    ("table III", "table-3", "IW=1", TABLE_3),
    ("table IV", "table-4", "buf=64", TABLE_4),
    ("table V", "table-5", "buf=64", TABLE_5),
    ("table VI", "table-6", "buf=64", TABLE_6),
    ("table VII", "table-7", "buf=64", TABLE_7),
    ("table VIII", "table-8", "IW=1, buf=64", TABLE_8),
];

/// The printed gains by the paper's formula from its printed times; those of the simulated times in the notes.
pub fn gains(item: &Item, context: &Context<'_>) -> Result<Reproduction, Error> {
    let mut simulated = BTreeMap::new();
    for (table, name, reference, experiment) in TABLES {
        let keys: Vec<&str> = entries_of(item, table).chain([reference]).collect();
        let settings = keys.iter().map(|key| experiment.fixed.with_key(key)).collect::<Result<Vec<_>, _>>()?;
        for (key, run) in keys.iter().zip(experiment.simulate(&settings, context)?) {
            simulated.insert((name, *key), run.time().unwrap_or(f64::NAN));
        }
    }
    let mut found = Vec::new();
    for (table, name, reference, _) in TABLES {
        for key in entries_of(item, table) {
            let of_printed = gain(printed_value(name, reference)?, printed_value(name, key)?);
            let of_simulated = gain(simulated[&(name, reference)], simulated[&(name, key)]);
            let note = format!("{of_simulated:.2} % in simulation");
            found.push(Found::new(format!("{table}, {key}")).model(of_printed).note(note));
        }
    }
    let remarks = vec![
        "The model column is the paper's formula, 100 (Tref - T) / Tref, applied to its own times: whether the paper agrees \
         with itself."
            .to_owned(),
    ];
    Ok(Reproduction { found, charts: Vec::new(), remarks })
}

/// The keys in `table` of the entries of `item`.
fn entries_of<'a>(item: &'a Item, table: &'a str) -> impl Iterator<Item = &'a str> {
    item.entries.iter().filter_map(move |entry| entry.key.strip_prefix(table)?.strip_prefix(", "))
}
