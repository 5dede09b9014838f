//! The parts of the estimator, which an experiment can leave out one at a time to show what each brings.

/// A part of the capacity estimator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum EstimatorPart {
    /// A train of padding when a session comes up that has nothing to send.
    StartProbe,
    /// The bound on what a guess sends before the link has answered.
    StartLimit,
    /// Packet trains, and with them the start probe and pushes, which follow what trains find.
    Trains,
    /// Sending at a much higher rate before the estimate adopts it.
    Trials,
    /// Sending a little more than the estimate while no queue forms.
    Pushes,
    /// Larger pushes for some seconds after a queue has lowered the estimate.
    Recovery,
    /// A queue that grows.
    Growth,
    /// A queue that stays.
    StandingQueue,
    /// Holding data back until a queue that has grown is gone.
    Drain,
    /// A pause in sending that tells a queue from a longer path.
    QueueTest,
    /// Losses: those of a trial and those of a queue that overflows.
    Losses,
    /// A lower rate for a moment that tells whether losses are a policer's.
    Experiments,
    /// Reports that are overdue: an outage.
    Silence,
    /// Thresholds that grow with how much the delay wanders by itself.
    Noise,
    /// The own path of each of several peers.
    Paths,
}

/// The parts of the estimator that are in use. Default: all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EstimatorParts {
    left_out: u16,
}

impl EstimatorPart {
    /// All parts.
    pub const ALL: [Self; 15] = [
        Self::StartProbe,
        Self::StartLimit,
        Self::Trains,
        Self::Trials,
        Self::Pushes,
        Self::Recovery,
        Self::Growth,
        Self::StandingQueue,
        Self::Drain,
        Self::QueueTest,
        Self::Losses,
        Self::Experiments,
        Self::Silence,
        Self::Noise,
        Self::Paths,
    ];

    /// Its name, in lower case and with hyphens.
    pub fn name(self) -> &'static str {
        self.words()[0]
    }

    /// What it is, in a few words.
    pub fn description(self) -> &'static str {
        self.words()[1]
    }

    fn words(self) -> [&'static str; 2] {
        match self {
            Self::StartProbe => ["start-probe", "a packet train before there is anything to send"],
            Self::StartLimit => ["start-limit", "the bound on what is sent before the link has answered"],
            Self::Trains => ["trains", "packet trains, and with them start probes and pushes"],
            Self::Trials => ["trials", "sending at a much higher rate before the estimate adopts it"],
            Self::Pushes => ["pushes", "sending a little more than the estimate while no queue forms"],
            Self::Recovery => ["recovery", "larger pushes for some seconds after a fall"],
            Self::Growth => ["growth", "the signal of a queue that grows"],
            Self::StandingQueue => ["standing-queue", "the signal of a queue that stays"],
            Self::Drain => ["drain", "holding data back until a queue is gone"],
            Self::QueueTest => ["queue-test", "a pause that tells a queue from a longer path"],
            Self::Losses => ["losses", "losses of trials and of queues that overflow"],
            Self::Experiments => ["experiments", "a lower rate for a moment that finds a policer"],
            Self::Silence => ["silence", "the signal of overdue reports: outages"],
            Self::Noise => ["noise", "thresholds that grow with the noise of the delay"],
            Self::Paths => ["paths", "the own path of each of several peers"],
        }
    }
}

impl EstimatorParts {
    /// All of them.
    pub const ALL: Self = Self { left_out: 0 };

    /// These without `part`.
    #[must_use]
    pub const fn without(self, part: EstimatorPart) -> Self {
        Self { left_out: self.left_out | 1 << part as u8 }
    }

    /// Whether `part` is in use.
    pub const fn has(self, part: EstimatorPart) -> bool {
        self.left_out & (1 << part as u8) == 0
    }
}

impl Default for EstimatorParts {
    fn default() -> Self {
        Self::ALL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_left_out_alone_and_names_are_distinct() {
        for part in EstimatorPart::ALL {
            let rest = EstimatorParts::ALL.without(part);
            assert!(EstimatorPart::ALL.iter().all(|other| rest.has(*other) == (*other != part)), "{part:?}");
            assert_eq!(EstimatorPart::ALL.iter().filter(|other| other.name() == part.name()).count(), 1, "{part:?}");
        }
    }
}
