//! Repair of all data while the link is full, where retransmissions are lost themselves in most round trips: a block at a
//! time, and few datagrams of it at a time, so that the link never waits for the code.

use super::Session;
use crate::payload::Payload;
use crate::repair::{BlockShape, Encoder, MAX_BLOCK, MAX_RECOVERY, Symbol};
use std::fmt;
use std::ops::Range;
use units::Instant;

/// A block in the making.
pub(super) struct Coding {
    datagrams: Range<u64>,
    /// Of the datagrams taken up so far.
    symbols: Vec<Symbol>,
    /// There once all symbols are.
    encoder: Option<Encoder>,
    /// How many of them it has.
    added: usize,
}

impl fmt::Debug for Coding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coding").field("datagrams", &self.datagrams).finish_non_exhaustive()
    }
}

impl<P: Payload> Session<P> {
    /// Datagrams that one step takes up.
    const BULK_STEP: usize = 32;
    /// The oldest datagrams under way, which are acknowledged before a block of them could be made.
    const BULK_MARGIN: u64 = 256;

    /// Takes the repair of all data one step further.
    pub(super) fn cover_bulk(&mut self, now: Instant) {
        self.repairs.coding = match self.repairs.coding.take() {
            Some(coding) => self.code(now, coding),
            None => self.next_bulk(),
        };
    }

    /// The next block to make, if it is time.
    fn next_bulk(&self) -> Option<Coding> {
        let under_way = self.under_way();
        let from = self.repairs.covered_to.max(under_way.start + Self::BULK_MARGIN);
        let datagrams = from..from + MAX_BLOCK as u64;
        let process = self.ledger.loss_process();
        let lost_again = (under_way.end - under_way.start) as f64 * process.probability().powi(2);
        let due = datagrams.end <= under_way.end && process.is_measured() && lost_again >= 1.0;
        due.then(|| Coding { datagrams, symbols: Vec::with_capacity(MAX_BLOCK), encoder: None, added: 0 })
    }

    /// One step of a block; `None` when its symbols wait to be sent, or it was given up because something that it was to
    /// cover has been acknowledged or is not kept any more.
    fn code(&mut self, now: Instant, mut coding: Coding) -> Option<Coding> {
        if coding.symbols.len() < MAX_BLOCK {
            self.collect(&mut coding)?;
        } else if let Some(encoder) = &mut coding.encoder {
            let mut step = coding.symbols.iter().skip(coding.added).take(Self::BULK_STEP);
            step.try_for_each(|symbol| encoder.add(symbol))?;
            coding.added += Self::BULK_STEP;
        } else {
            coding.encoder = Some(Encoder::new(self.bulk_shape(coding.datagrams.start), coding.symbols.iter())?);
        }
        if coding.added < MAX_BLOCK {
            return Some(coding);
        }
        let block = coding.encoder?.finish()?;
        self.repairs.covered_to = coding.datagrams.end;
        self.send_blocks(now, coding.datagrams, vec![block]);
        None
    }

    /// The next few symbols of a block.
    fn collect(&self, coding: &mut Coding) -> Option<()> {
        let from = coding.datagrams.start + coding.symbols.len() as u64;
        if from < self.under_way().start {
            return None;
        }
        let mut scratch = Vec::new();
        for (_, frames) in self.ledger.frames_from(from).take(Self::BULK_STEP) {
            coding.symbols.push(self.symbol(frames, &mut scratch)?);
        }
        Some(())
    }

    fn bulk_shape(&self, first: u64) -> BlockShape {
        let process = self.ledger.loss_process();
        let most = (process.probability() + self.repair_share) * MAX_BLOCK as f64;
        let recovery = process.recovery_for(MAX_BLOCK, Self::MAY_FAIL, (most as usize).clamp(1, MAX_RECOVERY));
        BlockShape { first, count: MAX_BLOCK, stride: 1, recovery }
    }
}
