//! The claims of sections 6 and 7 as sentences about shares.

use super::shares::{Group, Shares};
use super::truth::{Measure, Truth};
use super::worlds::SHORT_PERIOD;
use std::collections::BTreeMap;
use std::ops::Range;

/// The variants of the paper, each on both ends of the comparison, in its order.
pub const VARIANTS: [&str; 7] = ["tahoe", "reno", "sack", "newreno", "vegas", "westwood", "tibet"];
/// TIBET over the satellite, Reno on the ground.
pub const MIXED: &str = "tibet-reno";

/// Less than this, in per cent of the bottleneck, is starvation: a tenth of the fair half.
const STARVED: f64 = 5.0;
/// Less than this is no match: half of the fair half.
const UNFAIR: f64 = 25.0;
/// More than this is nearly all, and more than that all.
const NEARLY_ALL: f64 = 95.0;
const ALL: f64 = 99.0;

/// The shares of each variant's runs in one reading of what is open.
pub struct Observed<'a> {
    /// Of each variant.
    pub shares: &'a BTreeMap<&'static str, Vec<Shares>>,
}

impl Observed<'_> {
    /// The share of `group` with `variant` from one time to another, in periods.
    fn share(&self, variant: &str, group: Group, time: Range<f64>) -> Measure {
        let (from, to) = (time.start * SHORT_PERIOD, time.end * SHORT_PERIOD);
        let runs = self.shares.get(variant).into_iter().flatten();
        Measure::of(&runs.map(|shares| shares.between(group, from, to)).collect::<Vec<_>>())
    }

    /// The satellite's in the first period, when it is alone.
    fn alone(&self, variant: &str) -> Measure {
        self.share(variant, Group::Satellite, 0.0..1.0)
    }

    /// The satellite's in the second, beside terrestrial connections.
    fn beside(&self, variant: &str) -> Measure {
        self.share(variant, Group::Satellite, 1.0..2.0)
    }

    /// The satellite's in the third, with UDP, too.
    fn with_udp(&self, variant: &str) -> Measure {
        self.share(variant, Group::Satellite, 2.0..3.0)
    }

    /// Whether the satellite's share in the second period is below the terrestrial one.
    fn is_beaten(&self, variant: &str) -> Truth {
        self.share(variant, Group::Terrestrial, 1.0..2.0).exceeds(self.beside(variant))
    }

    /// Whether `of` is larger for each of `these` than for every other variant.
    fn largest(&self, these: &[&str], of: impl Fn(&Self, &str) -> Measure) -> Truth {
        let others = || VARIANTS.into_iter().filter(|other| !these.contains(other));
        let exceeds = |one: &str| Truth::all(others().map(|other| of(self, one).exceeds(of(self, other))));
        Truth::all(these.iter().map(|one| exceeds(one)))
    }
}

/// A sentence, and the figure that it is most about.
pub struct Statement {
    /// Its key in `printed.toml`.
    pub key: &'static str,
    /// Whether it is true.
    pub truth: fn(&Observed<'_>) -> Truth,
    /// The variant whose satellite's share in a period it is about, if it is about one.
    pub about: Option<(&'static str, f64)>,
    /// What it takes to be true.
    pub criterion: &'static str,
}

const fn statement(
    key: &'static str,
    about: Option<(&'static str, f64)>,
    criterion: &'static str,
    truth: fn(&Observed<'_>) -> Truth,
) -> Statement {
    Statement { key, truth, about, criterion }
}

/// The claims, in the order of `printed.toml`.
pub const STATEMENTS: [Statement; 21] = [
    statement("full use", None, "each above 95 %", |seen| {
        Truth::all(VARIANTS.map(|variant| seen.alone(variant).above(NEARLY_ALL)))
    }),
    statement("fullest use", None, "each above 99 % and above all others", |seen| {
        let these = ["vegas", "westwood", "tibet"];
        let full = Truth::all(these.map(|variant| seen.alone(variant).above(ALL)));
        Truth::all([full, seen.largest(&these, Observed::alone)])
    }),
    statement("starved: tahoe", Some(("tahoe", 2.0)), "below 5 %", |seen| seen.beside("tahoe").below(STARVED)),
    statement("starved: reno", Some(("reno", 2.0)), "below 5 %", |seen| seen.beside("reno").below(STARVED)),
    statement("starved: newreno", Some(("newreno", 2.0)), "below 5 %", |seen| seen.beside("newreno").below(STARVED)),
    statement("starved: vegas", Some(("vegas", 2.0)), "below 5 %", |seen| seen.beside("vegas").below(STARVED)),
    statement("served: sack", Some(("sack", 2.0)), "above 5 %", |seen| seen.beside("sack").above(STARVED)),
    statement("served: westwood", Some(("westwood", 2.0)), "above 5 %", |seen| seen.beside("westwood").above(STARVED)),
    statement("served: tibet", Some(("tibet", 2.0)), "above 5 %", |seen| seen.beside("tibet").above(STARVED)),
    statement("tibet recovers", Some(("tibet", 2.0)), "above 95 % in the period's second half", |seen| {
        seen.share("tibet", Group::Satellite, 1.5..2.0).above(NEARLY_ALL)
    }),
    statement("westwood is fair", Some(("westwood", 2.0)), "above 25 % and below the terrestrial share", |seen| {
        Truth::all([seen.beside("westwood").above(UNFAIR), seen.is_beaten("westwood")])
    }),
    statement(
        "udp helps",
        None,
        "more than without UDP, with most of the variants whose terrestrial share was the larger",
        |seen| {
            let beaten = VARIANTS.into_iter().filter(|variant| seen.is_beaten(variant) == Truth::Holds);
            Truth::most(beaten.map(|variant| seen.with_udp(variant).exceeds(seen.beside(variant))))
        },
    ),
    statement("best with udp", None, "each above all other variants", |seen| {
        seen.largest(&["westwood", "tibet"], Observed::with_udp)
    }),
    statement("terrestrial blocked", None, "each leaves below 5 %", |seen| {
        let terrestrial = |variant| seen.share(variant, Group::Terrestrial, 2.0..3.0);
        Truth::all(["westwood", "tibet"].map(|variant| terrestrial(variant).below(STARVED)))
    }),
    statement("tibet is best", Some(("tibet", 2.0)), "above all others", |seen| {
        seen.largest(&["tibet"], Observed::beside)
    }),
    statement("mixed", Some((MIXED, 2.0)), "below 25 %, half of the fair share", |seen| {
        seen.beside(MIXED).below(UNFAIR)
    }),
    statement("fast recovery", Some(("reno", 2.0)), "above Tahoe's", |seen| {
        seen.beside("reno").exceeds(seen.beside("tahoe"))
    }),
    statement("estimation: tibet", Some(("tibet", 2.0)), "above Reno's", |seen| {
        seen.beside("tibet").exceeds(seen.beside("reno"))
    }),
    statement("estimation: vegas", Some(("vegas", 2.0)), "above Reno's", |seen| {
        seen.beside("vegas").exceeds(seen.beside("reno"))
    }),
    statement("estimation: westwood", Some(("westwood", 2.0)), "above Reno's", |seen| {
        seen.beside("westwood").exceeds(seen.beside("reno"))
    }),
    statement("long round trips", None, "below the terrestrial share with each variant", |seen| {
        Truth::all(VARIANTS.map(|variant| seen.is_beaten(variant)))
    }),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::palermo::Palermo;

    #[test]
    fn every_printed_claim_is_judged() {
        let printed = crate::printed(&Palermo).expect("sound");
        let claims = printed.items.iter().find(|item| item.name == "claims").expect("there is one");
        let keys: Vec<_> = claims.entries.iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(keys, STATEMENTS.map(|statement| statement.key));
    }

    /// Shares of 40 % for Tahoe's satellite connections in the second period, of less for the others': 10 % and on.
    fn observed() -> BTreeMap<&'static str, Vec<Shares>> {
        let all = VARIANTS.into_iter().chain([MIXED]).enumerate();
        let runs = |at: usize| {
            let satellite = if at == 0 { 40.0 } else { 10.0 + at as f64 };
            let run = |scatter: f64| {
                Shares::of_periods([[100.0, 0.0, 0.0], [satellite + scatter, 90.0 - satellite, 0.0], [5.0, 40.0, 50.0]])
            };
            vec![run(-0.1), run(0.0), run(0.1)]
        };
        all.map(|(at, variant)| (variant, runs(at))).collect()
    }

    #[test]
    fn statements_are_about_shares() {
        let shares = observed();
        let seen = Observed { shares: &shares };
        let truth = |key: &str| {
            let statement = STATEMENTS.iter().find(|statement| statement.key == key).expect("a key");
            (statement.truth)(&seen)
        };
        for (key, expected) in [
            ("full use", Truth::Holds),
            ("starved: reno", Truth::Fails),
            ("served: tibet", Truth::Holds),
            ("tibet is best", Truth::Fails),
            ("udp helps", Truth::Fails),
            ("fast recovery", Truth::Fails),
            ("estimation: tibet", Truth::Holds),
            ("mixed", Truth::Holds),
            ("long round trips", Truth::Holds),
        ] {
            assert_eq!(truth(key), expected, "{key}");
        }
    }
}
