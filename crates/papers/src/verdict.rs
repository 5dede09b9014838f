//! From what is printed and what was found to deviation and verdict.

use crate::printed::{Content, Entry};
use crate::study::{Found, Verdict};

/// What a found value is held against: the corrected one where the printed one contradicts its paper.
pub fn reference(entry: &Entry) -> Option<f64> {
    match &entry.content {
        Content::Value { printed, corrected, .. } => Some(corrected.unwrap_or(*printed)),
        Content::Claim { .. } | Content::Ours(_) => None,
    }
}

/// The relative deviation of what was found from what is printed, positive if more was found. It is that of the
/// simulation; without one, that of the model; without either, that of the measurement. A difference from a printed zero
/// has no such deviation.
pub fn deviation(entry: &Entry, found: &Found) -> Option<f64> {
    let value = found.simulated.map(|estimate| estimate.mean).or(found.model).or(found.measured)?;
    let reference = reference(entry)?;
    (reference != 0.0).then(|| (value - reference) / reference.abs())
}

/// The verdict: the study's own if it gave one, else by deviation and tolerance. An entry that was not run has none.
pub fn verdict(entry: &Entry, found: &Found, item_tolerance: f64) -> Option<Verdict> {
    if found.verdict.is_some() {
        return found.verdict;
    }
    match &entry.content {
        Content::Ours(_) => Some(Verdict::Unprinted),
        Content::Claim { .. } => None,
        Content::Value { inconsistent: Some(_), .. } => Some(Verdict::Inconsistent),
        Content::Value { tolerance, .. } => {
            let is_within = deviation(entry, found)?.abs() <= tolerance.unwrap_or(item_tolerance);
            Some(if is_within { Verdict::Within } else { Verdict::Off })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(inconsistent: bool, corrected: Option<f64>, tolerance: Option<f64>) -> Entry {
        let inconsistent = inconsistent.then(|| "why".to_owned());
        Entry {
            key: "k".into(),
            content: Content::Value { printed: 10.0, inconsistent, corrected, tolerance },
            documented: None,
        }
    }

    #[test]
    fn a_value_is_within_up_to_the_tolerance() {
        let verdict_of = |value: f64, own| verdict(&entry(false, None, own), &Found::new("k").model(value), 0.05);
        assert_eq!(verdict_of(10.5, None), Some(Verdict::Within));
        assert_eq!(verdict_of(9.4, None), Some(Verdict::Off));
        assert_eq!(verdict_of(9.4, Some(0.1)), Some(Verdict::Within));
    }

    #[test]
    fn simulation_comes_before_model_and_measurement() {
        let entry = entry(false, None, None);
        let found = Found::new("k").measured(Some(12.0));
        assert_eq!(deviation(&entry, &found), Some(0.2));
        let found = found.model(11.0);
        assert_eq!(deviation(&entry, &found), Some(0.1));
        assert_eq!(deviation(&entry, &found.simulated([9.0])), Some(-0.1));
        assert_eq!(deviation(&entry, &Found::new("k")), None);
    }

    #[test]
    fn an_inconsistent_value_is_held_against_the_corrected_one() {
        let entry = entry(true, Some(20.0), None);
        let found = Found::new("k").model(21.0);
        assert_eq!(deviation(&entry, &found), Some(0.05));
        assert_eq!(verdict(&entry, &found, 0.05), Some(Verdict::Inconsistent));
    }

    #[test]
    fn claims_are_judged_by_the_study() {
        let claim =
            Entry { key: "k".into(), content: Content::Claim { text: "x".into(), section: None }, documented: None };
        assert_eq!(verdict(&claim, &Found::new("k"), 0.05), None);
        let found = Found::new("k").verdict(Verdict::DependsOn);
        assert_eq!(verdict(&claim, &found, 0.05), Some(Verdict::DependsOn));
    }
}
