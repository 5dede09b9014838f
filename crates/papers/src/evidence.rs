//! What simulations with many seeds say of a claim: more, less, or undecided.

use crate::{Estimate, Found, Readings, Verdict};

/// One case of a claim that a value is above a bound.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// What notes call it.
    pub name: String,
    /// The value.
    pub value: Estimate,
    /// What the claim wants it to be above.
    pub bound: f64,
}

/// Where a value is beside its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Above,
    /// As near as the margin, or within the confidence interval.
    Level,
    Below,
}

impl Case {
    /// That `value` is above `bound`.
    pub fn above(name: impl Into<String>, value: Estimate, bound: f64) -> Self {
        Self { name: name.into(), value, bound }
    }

    fn place(&self, margin: f64) -> Place {
        let (low, high) = self.value.interval.unwrap_or((self.value.mean, self.value.mean));
        let margin = margin * self.bound.abs();
        if low > self.bound + margin {
            Place::Above
        } else if high < self.bound - margin {
            Place::Below
        } else {
            Place::Level
        }
    }
}

/// `a / b`, whose interval joins those of the two as if they were independent: with the same losses in both it is too
/// wide rather than too narrow.
pub fn ratio(a: &Estimate, b: &Estimate) -> Estimate {
    let relative = |of: &Estimate| of.interval.map_or(0.0, |(low, high)| (high - low) / 2.0 / of.mean.abs());
    let mean = a.mean / b.mean;
    let half = mean.abs() * relative(a).hypot(relative(b));
    let has_interval = a.interval.is_some() && b.interval.is_some();
    Estimate { mean, interval: has_interval.then_some((mean - half, mean + half)), runs: a.runs.min(b.runs) }
}

/// The claim `key`, judged by its cases: it holds if every value is above its bound by more than the relative `margin`
/// with its whole confidence interval, it does not if none is and at least one is below, and else depends on the case.
/// The note names the cases and says `what` the values are.
pub fn judge(key: &str, what: &str, cases: &[Case], margin: f64) -> Found {
    let at = |place: Place| cases.iter().filter(move |case| case.place(margin) == place);
    let (above, level, below) = (at(Place::Above).count(), at(Place::Level).count(), at(Place::Below).count());
    let verdict = match (above, below) {
        _ if above == cases.len() => Verdict::Holds,
        (0, 1..) => Verdict::DoesNotHold,
        _ => Verdict::DependsOn,
    };
    let mut note = format!("{what}: {}", range(cases.iter().map(|case| case.value.mean)));
    for (place, count, word) in [
        (Place::Above, above, "above"),
        (Place::Level, level, "level (within the margin or the confidence interval)"),
        (Place::Below, below, "below"),
    ] {
        if count > 0 && count < cases.len() {
            let names: Vec<_> = at(place).map(|case| format!("{} ({})", case.name, number(case.value.mean))).collect();
            note.push_str(&format!("; {word}: {}", names.join(", ")));
        }
    }
    Found::new(key).verdict(verdict).note(note)
}

/// The claim `key` that no value is below its bound by more than the relative `margin` (with its whole confidence interval, where
/// it has one): it holds if none is, it does not if all are, and else depends on the case. The note names those that are.
pub fn judge_never_below(key: &str, what: &str, cases: &[Case], margin: f64) -> Found {
    let below: Vec<_> = cases.iter().filter(|case| case.place(margin) == Place::Below).collect();
    let verdict = match below.len() {
        0 => Verdict::Holds,
        count if count == cases.len() => Verdict::DoesNotHold,
        _ => Verdict::DependsOn,
    };
    let mut note = format!("{what}: {}", range(cases.iter().map(|case| case.value.mean)));
    if !below.is_empty() {
        let names: Vec<_> = below.iter().map(|case| format!("{} ({})", case.name, number(case.value.mean))).collect();
        note.push_str(&format!("; below: {}", names.join(", ")));
    }
    Found::new(key).verdict(verdict).note(note)
}

/// The claim `key` under several readings of what a paper leaves open, judged by each alone with `judge`: the note of the first,
/// where it holds, and what the others fall short of.
pub fn judge_readings(key: &str, readings: &[(&str, Vec<Case>)], judge: impl Fn(&str, &[Case]) -> Found) -> Found {
    let judged: Vec<_> = readings.iter().map(|(name, cases)| (*name, judge(key, cases))).collect();
    let holds = |found: &Found| found.verdict == Some(Verdict::Holds);
    let holding: Vec<_> = judged.iter().filter(|(_, found)| holds(found)).map(|(name, _)| *name).collect();
    let mut note =
        if holding.is_empty() { "holds in none".to_owned() } else { format!("holds with {}", holding.join(", ")) };
    for (name, found) in &judged {
        note.push_str(&format!("; {name}: {}", found.note.as_deref().unwrap_or_default()));
    }
    Found::new(key).over(Readings { holds: holding.len(), of: judged.len() }).note(note)
}

/// `least to most` of values.
fn range(values: impl Iterator<Item = f64> + Clone) -> String {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(f64::NEG_INFINITY, f64::max);
    if number(least) == number(most) { number(least) } else { format!("{} to {}", number(least), number(most)) }
}

/// A number with some four digits.
pub fn number(value: f64) -> String {
    let digits = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    format!("{value:.*}", (3 - digits).clamp(0, 6) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &str, low: f64, high: f64) -> Case {
        let value = Estimate { mean: (low + high) / 2.0, interval: Some((low, high)), runs: 10 };
        Case::above(name, value, 1.0)
    }

    #[test]
    fn what_is_level_is_not_below() {
        let verdict = |cases: &[Case]| judge_never_below("k", "what", cases, 0.01).verdict;
        let alone = |mean| Case::above("alone", Estimate { mean, interval: None, runs: 1 }, 1.0);
        assert_eq!(verdict(&[case("level", 0.98, 0.995), alone(0.991), alone(1.2)]), Some(Verdict::Holds));
        assert_eq!(verdict(&[alone(0.989), alone(1.2)]), Some(Verdict::DependsOn));
        assert_eq!(verdict(&[case("less", 0.9, 0.98)]), Some(Verdict::DoesNotHold));
    }

    #[test]
    fn readings_are_counted_and_named() {
        let readings = [("small", vec![case("a", 1.2, 1.4)]), ("large", vec![case("a", 0.5, 0.6)])];
        let found = judge_readings("k", &readings, |key, cases| judge(key, "ratio", cases, 0.01));
        assert_eq!(found.readings, Some(Readings { holds: 1, of: 2 }));
        assert_eq!(found.verdict, Some(Verdict::DependsOn));
        assert_eq!(found.note.expect("a note"), "holds with small; small: ratio: 1.300; large: ratio: 0.5500");
    }

    #[test]
    fn a_claim_holds_only_where_the_whole_interval_is_beyond_the_margin() {
        let verdict = |cases: &[Case]| judge("k", "ratio", cases, 0.01).verdict;
        let (above, level, below) = (case("a", 1.2, 1.4), case("b", 0.9, 1.3), case("c", 0.5, 0.6));
        assert_eq!(verdict(&[above.clone(), above.clone()]), Some(Verdict::Holds));
        assert_eq!(verdict(&[below.clone(), level.clone()]), Some(Verdict::DoesNotHold));
        assert_eq!(verdict(&[above.clone(), level.clone()]), Some(Verdict::DependsOn));
        assert_eq!(verdict(&[above.clone(), below]), Some(Verdict::DependsOn));
        assert_eq!(verdict(&[case("d", 1.005, 1.2)]), Some(Verdict::DependsOn), "within the margin");
        let note = judge("k", "ratio", &[above, level], 0.01).note.expect("a note");
        assert_eq!(
            note,
            "ratio: 1.100 to 1.300; above: a (1.300); level (within the margin or the confidence interval): b (1.100)"
        );
    }

    #[test]
    fn a_ratio_is_as_unsure_as_both() {
        let of = |mean: f64, half: f64| Estimate { mean, interval: Some((mean - half, mean + half)), runs: 5 };
        let found = ratio(&of(30.0, 0.9), &of(10.0, 0.4));
        let (low, high) = found.interval.expect("both have one");
        assert!((found.mean - 3.0).abs() < 1e-12 && (high - low - 2.0 * 3.0 * 0.05).abs() < 1e-12);
        assert_eq!(ratio(&of(30.0, 0.9), &Estimate { mean: 10.0, interval: None, runs: 1 }).interval, None);
    }

    #[test]
    fn numbers_have_four_digits() {
        for (value, text) in
            [(0.99812, "0.9981"), (12.3456, "12.35"), (4321.9, "4322"), (0.0, "0.000"), (5e-4, "0.000500")]
        {
            assert_eq!(number(value), text);
        }
    }
}
