//! The study's transfers for real: the kernel's TCP over the emulated link.

use super::ftp::Plan;
use super::theory;
use crate::{Context, Error};
use model::kruse::End;

/// A transfer by the kernel.
#[derive(Debug, Clone, Copy)]
pub(super) struct RealTransfer {
    bytes: f64,
    /// From connect() to the receiver's last byte, in s.
    time: f64,
    kbits: u64,
}

/// Makes the transfers one after the other, in real time, if the user wants real ones; else gives nothing for each.
///
/// # Errors
/// If the machine lacks something, or a transfer fails.
pub(super) fn run(plans: &[(Plan, u64)], context: &Context<'_>) -> Result<Vec<Option<RealTransfer>>, Error> {
    let Some(lab) = context.lab() else { return Ok(vec![None; plans.len()]) };
    plans
        .iter()
        .map(|(plan, kbits)| {
            let plan = plan.clone().at(*kbits);
            let run = lab.run(&plan.name(), &plan.of_kernel().replica()?.scenario, 1)?;
            let flow = run.flows.first().ok_or_else(|| Error::failed("there was no flow"))?;
            Ok(Some(RealTransfer { bytes: flow.bytes as f64, time: flow.end_s - flow.start_s, kbits: *kbits }))
        })
        .collect()
}

impl RealTransfer {
    /// Throughput until `end`, in kbit/s. The receiver's end is what was measured; the others are a one-way delay
    /// before and an acknowledgement's way after it, and the handshake is taken off.
    pub(super) fn throughput(&self, end: End) -> f64 {
        let way = theory::SATELLITE.as_secs_f64();
        let later = match end {
            End::SenderDone => -way,
            End::ReceiverDone => 0.0,
            End::AllAcked => way + theory::header_s(self.kbits),
        };
        let handshake = 2.0 * (way + theory::header_s(self.kbits));
        self.kbits(self.time - handshake + later)
    }

    /// Throughput from connect() to the last byte, in kbit/s.
    pub(super) fn goodput(&self) -> f64 {
        self.kbits(self.time)
    }

    fn kbits(&self, time: f64) -> f64 {
        self.bytes * 8.0 / time / 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::scenario::RealScenario;

    #[test]
    fn the_kernel_is_given_all_that_transfers_by_it_set() {
        for variant in ["45kB", "2MB", "bypass", "2MB-doubling"] {
            let replica = Plan::new(variant).of_kernel().replica().expect("a variant");
            RealScenario::new(&replica.scenario).expect("it runs for real");
        }
    }
}
