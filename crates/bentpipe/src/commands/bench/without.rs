//! `--without`: what a simulation lacks, so that a run shows its effect.

use crate::output::Failure;
use clap::ValueEnum;
use clap::builder::PossibleValue;
use experiments::capacity;
use experiments::limit::Mechanism;
use satpep::EstimatorPart;

/// A mechanism of the transport, or a part of the capacity's estimator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WithoutArg {
    Mechanism(Mechanism),
    Part(EstimatorPart),
}

const MECHANISMS: usize = 3;

/// All of them, the mechanisms first.
const ALL: [WithoutArg; MECHANISMS + EstimatorPart::ALL.len()] = {
    let mut all = [WithoutArg::Mechanism(Mechanism::Estimation); MECHANISMS + EstimatorPart::ALL.len()];
    all[0] = WithoutArg::Mechanism(Mechanism::Repair);
    all[1] = WithoutArg::Mechanism(Mechanism::RepairOverhead);
    let mut part = 0;
    while part < EstimatorPart::ALL.len() {
        all[MECHANISMS + part] = WithoutArg::Part(EstimatorPart::ALL[part]);
        part += 1;
    }
    all
};

impl WithoutArg {
    /// As the experiment on the limit has it.
    ///
    /// # Errors
    /// If it is a part of the estimator, which that experiment does not leave out.
    pub(super) fn of_limit(self) -> Result<Mechanism, Failure> {
        match self {
            Self::Mechanism(mechanism) => Ok(mechanism),
            Self::Part(part) => Err(refusal("limit", part.name(), |other| matches!(other, Self::Mechanism(_)))),
        }
    }

    /// As the experiment on the capacity has it.
    ///
    /// # Errors
    /// If it has nothing to do with the estimator.
    pub(super) fn of_capacity(self) -> Result<capacity::LeftOut, Failure> {
        let is_known = |other: Self| matches!(other, Self::Mechanism(Mechanism::Estimation) | Self::Part(_));
        match self {
            Self::Mechanism(Mechanism::Estimation) => Ok(capacity::LeftOut::Estimation),
            Self::Mechanism(_) => Err(refusal("capacity", self.name(), is_known)),
            Self::Part(part) => Ok(capacity::LeftOut::Part(part)),
        }
    }

    pub(super) fn name(self) -> &'static str {
        self.words().0
    }

    /// Its name, and its help.
    fn words(self) -> (&'static str, String) {
        match self {
            Self::Mechanism(Mechanism::Repair) => ("repair", "limit: FEC repair symbols".to_owned()),
            Self::Mechanism(Mechanism::RepairOverhead) => {
                ("repair-overhead", "limit: what repair takes of a full link beyond the losses".to_owned())
            }
            Self::Mechanism(Mechanism::Estimation) => ("estimation", "Following a capacity that varies".to_owned()),
            Self::Part(part) => (part.name(), format!("capacity: {}", part.description())),
        }
    }
}

fn refusal(experiment: &str, name: &str, is_known: impl Fn(WithoutArg) -> bool) -> Failure {
    let known: Vec<_> = ALL.into_iter().filter(|one| is_known(*one)).map(|one| one.name()).collect();
    Failure::usage(format!("--without {name}: {experiment} knows {}", known.join(", ")))
}

impl ValueEnum for WithoutArg {
    fn value_variants<'a>() -> &'a [Self] {
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = self.words();
        Some(PossibleValue::new(name).help(help))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_experiment_refuses_what_it_cannot_leave_out_and_names_what_it_can() {
        let of = |name: &str| WithoutArg::from_str(name, false).unwrap_or_else(|error| panic!("{error}"));
        let refused = of("trains").of_limit().unwrap_err().to_string();
        assert!(refused.contains("--without trains") && refused.contains("repair-overhead"), "{refused}");
        let refused = of("repair").of_capacity().unwrap_err().to_string();
        assert!(refused.contains("--without repair") && refused.contains("queue-test"), "{refused}");
        assert_eq!(of("trains").of_capacity().unwrap(), capacity::LeftOut::Part(EstimatorPart::Trains));
        assert_eq!(of("estimation").of_capacity().unwrap(), capacity::LeftOut::Estimation);
        assert_eq!(of("repair").of_limit().unwrap(), Mechanism::Repair);
    }
}
