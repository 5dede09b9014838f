//! The epoch that transport parameters name: one run of a gateway's process, between two losses of its sessions.
//!
//! The upper two bits say what kind of run it is, the others are random: a clock may say the same at two starts. The bits are
//! clear in epochs of gateways that know nothing of them: their runs are fresh, and what asks for knowledge of the bits is
//! not said to them.

/// Bits that distinguish one run from another.
const NONCE: u64 = (1 << 62) - 1;

/// What a run of a gateway has found of the run before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Run {
    /// Nothing: whatever sessions peers have with the key are over.
    #[default]
    Fresh,
    /// A process of the other generation, which finishes its own sessions while this one has new ones. A fresh run has
    /// generation 0.
    Beside {
        /// This run's generation: 0 or 1.
        generation: u32,
    },
}

impl Run {
    /// The generation: 0 or 1.
    pub fn generation(self) -> u32 {
        match self {
            Run::Fresh => 0,
            Run::Beside { generation } => generation & 1,
        }
    }

    /// The epoch of such a run, with so many bits of `nonce` as there is room for.
    pub(crate) fn epoch(self, nonce: u64) -> u64 {
        let kind = match self {
            Run::Fresh => 1,
            Run::Beside { generation } => 2 + u64::from(generation & 1),
        };
        nonce & NONCE | kind << 62
    }

    /// The run that `epoch` names.
    pub(crate) fn of(epoch: u64) -> Self {
        match epoch >> 62 {
            0 | 1 => Run::Fresh,
            kind => Run::Beside { generation: (kind & 1) as u32 },
        }
    }
}

/// Whether the gateway that named this epoch knows of generations, and of the frame that says that it drains.
pub(crate) fn knows_of_runs(epoch: u64) -> bool {
    epoch >> 62 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_tells_its_run_and_stays_itself() {
        let now = 1_790_000_000_000_000_000;
        let runs = [Run::Fresh, Run::Beside { generation: 0 }, Run::Beside { generation: 1 }];
        for run in runs {
            assert_eq!(Run::of(run.epoch(now)), run);
            assert!(knows_of_runs(run.epoch(now)));
            assert_eq!(Run::of(run.epoch(now) + 1), run, "the epoch after a session that was given up");
        }
        assert_eq!(Run::of(now), Run::Fresh, "a gateway that knows nothing of runs");
        assert!(!knows_of_runs(now));
    }
}
