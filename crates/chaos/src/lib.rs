//! Gateways and their transfers under faults at random, in virtual time: no socket, clock or thread.
//!
//! A *case* is a hub with one to three terminals, the links between them, some dozens of transfers and the faults that
//! befall them, all drawn from one seed. The endpoints of the transport are the real ones, with real keys and bytes, and
//! so are the connect request and the state machine of each relayed connection; only hosts, links and time are made up.
//!
//! What must hold, whatever happens: no host ever reads a byte that the other did not send there; an end in order comes
//! only behind the last byte; every transfer is over soon after the last fault; a transfer ends early only for a reason
//! (a host, a server or a gateway gave up); and in the end nothing is left of any transfer, and the gateways are quiet.

mod air;
mod fault;
mod gateway;
mod host;
mod plan;
mod report;
mod strangers;
mod world;

pub use report::{Failure, Leaks, Report};
pub use testkit::{Dice, pattern};

use std::panic::{AssertUnwindSafe, catch_unwind};

/// How many transfers the case of `seed` has.
pub fn transfers(seed: u64) -> u64 {
    plan::Plan::draw(seed).transfers.len() as u64
}

/// Runs the case of `seed`. A panic is reported as a failure of the case.
pub fn run(seed: u64) -> Report {
    catch_unwind(AssertUnwindSafe(|| world::run(seed))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        let mut report = Report::new(seed);
        report.cases = 1;
        report.broken = 1;
        report.fail(format!("panic: {}", text.unwrap_or("of an unknown kind")));
        report
    })
}
