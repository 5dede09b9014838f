//! The burst time plan of a superframe: whose slots are which.

use units::{Bytes, Duration, Instant};

/// What a terminal was given of a superframe, in slots or in bytes of them, by why it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Grant {
    /// Constant.
    pub cra: u64,
    /// By the rate that was asked for.
    pub rbdc: u64,
    /// By the volume that was asked for.
    pub vbdc: u64,
    /// Without a request.
    pub fca: u64,
}

impl Grant {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.cra + self.rbdc + self.vbdc + self.fca
    }

    /// Each of its parts times `factor`: bytes from slots.
    #[must_use]
    pub fn times(&self, factor: u64) -> Self {
        Self { cra: self.cra * factor, rbdc: self.rbdc * factor, vbdc: self.vbdc * factor, fca: self.fca * factor }
    }
}

impl std::ops::AddAssign for Grant {
    fn add_assign(&mut self, other: Grant) {
        self.cra += other.cra;
        self.rbdc += other.rbdc;
        self.vbdc += other.vbdc;
        self.fca += other.fca;
    }
}

/// Successive slots of a superframe in which one terminal sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    /// The superframe's number.
    pub superframe: u64,
    /// When the superframe begins at the terminal.
    pub start: Instant,
    /// How long it lasts.
    pub length: Duration,
    /// How many slots it has.
    pub slots: u64,
    /// The first slot of the burst, from 0.
    pub first: u64,
    /// How many slots the burst has.
    pub count: u64,
    /// What a slot carries.
    pub slot: Bytes,
}

impl Burst {
    /// When slot `number` of the superframe begins; the slot before ends then.
    pub(crate) fn slot_start(&self, number: u64) -> Instant {
        self.start + Duration::from_nanos(self.length.as_nanos().saturating_mul(number) / self.slots.max(1))
    }
}

/// Where the slots lie that each terminal was given: one terminal after the other.
pub(super) fn lay_out(grants: &[Grant]) -> impl Iterator<Item = (u64, u64)> + '_ {
    grants.iter().scan(0, |next, grant| {
        let first = *next;
        *next += grant.total();
        Some((first, grant.total()))
    })
}
