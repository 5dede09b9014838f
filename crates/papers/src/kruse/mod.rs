//! Kruse: what a flow-control window and slow start leave of a T1 over a geostationary satellite.
//!
//! The study's experiment is FTP between two SunOS workstations; of its figures the text gives one number, 321 kbit/s, so
//! that most entries are ours, beside what the paper says of them. Two kinds of TCP are simulated: one whose window grows by
//! acknowledgements, as BSD's code did, and one that doubles in each round, as the paper's equation 3.7 says.

mod claims;
mod figure_3;
mod figure_6;
mod figures_4_5;
mod figures_7_8;
mod ftp;
mod real;
mod setting;
mod table_1;
mod theory;
mod transfer;

use crate::{Context, Error, Found, Reproduction, Study, Verdict, printed::Item};

/// The study.
pub struct Kruse;

impl Study for Kruse {
    fn name(&self) -> &'static str {
        "kruse"
    }

    fn printed(&self) -> &'static str {
        include_str!("../../../../scenarios/papers/kruse/printed.toml")
    }

    fn reproduce(&self, item: &Item, context: &Context<'_>) -> Result<Reproduction, Error> {
        match item.name.as_str() {
            "setting" => setting::setting(context),
            "table-1" => table_1::table_1(context),
            "transfer" => transfer::transfer(context),
            "figure-3" => figure_3::figure_3(context),
            "figure-4" => figures_4_5::figure_4(context),
            "figure-5" => figures_4_5::figure_5(context),
            "figure-6" => figure_6::figure_6(context),
            "figure-7" => figures_7_8::figure_7(context),
            "figure-8" => figures_7_8::figure_8(context),
            "claims" => claims::claims(context),
            name => Err(Error::Input(format!("item `{name}` is printed, but not reproduced"))),
        }
    }
}

/// A claim that holds or does not.
fn judged(key: &str, holds: bool, note: impl Into<String>) -> Found {
    let verdict = if holds { Verdict::Holds } else { Verdict::DoesNotHold };
    Found::new(key).verdict(verdict).note(note)
}

/// A claim that holds of some of what was tried: of both, it holds; of neither, it does not.
fn depending(key: &str, holds: [bool; 2], note: impl Into<String>) -> Found {
    match holds {
        [first, second] if first == second => judged(key, first, note),
        _ => Found::new(key).verdict(Verdict::DependsOn).note(note),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ItemReport, Options, Row};

    fn item(name: &str) -> ItemReport {
        let pool = replicas::Pool {
            jobs: replicas::Jobs::new(2),
            interrupt: Default::default(),
            shows_progress: false,
            huge_pages: false,
        };
        let options = Options { pool, seeds: None, full: false, lab: None };
        crate::run(&Kruse, &[name.to_owned()], &options).expect("it runs").items.remove(0)
    }

    fn row<'a>(item: &'a ItemReport, key: &str) -> &'a Row {
        item.rows.iter().find(|row| row.entry.key == key).unwrap()
    }

    #[test]
    fn the_models_table_comes_out_to_the_digit_but_for_its_last_entry() {
        let table = item("table-1");
        for row in &table.rows {
            let verdict = match row.entry.key.as_str() {
                "W=95,000 at 1.536 Mbit/s" => Verdict::Inconsistent,
                "W=65,000 at 768 kbit/s" | "W=95,000 at 768 kbit/s" => Verdict::Holds,
                key if key.ends_with("of 512") => Verdict::Unprinted,
                _ => Verdict::Within,
            };
            assert_eq!(row.verdict, Some(verdict), "{}", row.entry.key);
            if let (Verdict::Within, Some(printed), Some(model)) =
                (verdict, crate::verdict::reference(&row.entry), row.found.model)
            {
                assert_eq!(format!("{printed:.1}"), format!("{model:.1}"));
            }
        }
    }

    /// The windows of BSD's code make the measured transfer, and the factor between figures 4 and 5; doubling ones do not.
    #[test]
    fn the_measurements_are_those_of_windows_that_grow_by_acknowledgements() {
        let transfer = item("transfer");
        let simulated = row(&transfer, "sender done").found.simulated.unwrap().mean;
        assert!((simulated - 321.0).abs() < 1.0, "{simulated}");
        assert!(transfer.rows.iter().all(|row| row.found.measured.is_none()), "nothing real without being asked");
        let later = item("figure-5");
        let claim = row(&later, "more than five times");
        assert_eq!(claim.verdict, Some(Verdict::DependsOn), "{:?}", claim.found.note);
    }
}
