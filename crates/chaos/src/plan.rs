//! What a case is, drawn from its seed: the link, the gateways' settings, the transfers and the faults.

use crate::fault::{Fault, HUB};
use testkit::Dice;
use units::{Duration, Rate};

/// A case: everything that happens in it follows from this.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) terminals: usize,
    /// What the hub, and what all terminals together, can send.
    pub(crate) rates: [Rate; 2],
    pub(crate) rtt: Duration,
    pub(crate) settings: Settings,
    pub(crate) transfers: Vec<TransferPlan>,
    /// Faults and when they begin, in order.
    pub(crate) faults: Vec<(Duration, Fault)>,
    /// When the last fault is over.
    pub(crate) well_after: Duration,
    /// An outage may last longer than sessions endure.
    pub(crate) outlasts: bool,
}

/// Settings that all gateways of a case have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) is_clear: bool,
    pub(crate) repair: bool,
    pub(crate) capacity_is_fixed: bool,
    /// Receive memory of a session in bytes.
    pub(crate) receive_memory: Option<u64>,
    pub(crate) outage_limit: Duration,
    /// The near gateway answers a client only when the server has.
    pub(crate) is_confirmed: bool,
}

/// One transfer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TransferPlan {
    /// When the client connects.
    pub(crate) at: Duration,
    /// The client's gateway, and the server's.
    pub(crate) sides: [usize; 2],
    /// Bytes that the client, and the server, sends.
    pub(crate) bytes: [u64; 2],
    pub(crate) ending: Ending,
    /// Who gives the connection up after so many bytes in both directions.
    pub(crate) abort: Option<(usize, u64)>,
    /// Who stops reading, after how many bytes and for how long.
    pub(crate) stall: Option<(usize, u64, Duration)>,
    /// How long the server takes to accept; `None` if it refuses.
    pub(crate) accepts: Option<Duration>,
}

/// In which order a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Each end behind its last byte.
    Independent,
    /// The server only after the client.
    ClientFirst,
    /// The client only after the server.
    ServerFirst,
}

impl Plan {
    /// The case of `seed`.
    pub(crate) fn draw(seed: u64) -> Self {
        let mut dice = Dice::new(seed, 1);
        let terminals = dice.pick(&[1, 1, 1, 1, 2, 3]);
        let forward = Rate::from_bps(dice.spread(256e3, 60e6) as u64);
        let back = forward.mul_f64(dice.pick(&[1.0, 1.0, 0.5, 0.2]));
        let rtt = dice.millis(2.0, 1200.0);
        let outlasts = dice.chance(0.04);
        let settings = Settings {
            is_clear: dice.chance(0.3),
            repair: dice.chance(0.75),
            capacity_is_fixed: dice.chance(0.25),
            receive_memory: dice.chance(0.2).then(|| dice.between(70_000, 2_000_000)),
            outage_limit: Duration::from_secs(if outlasts { 15 } else { dice.between(120, 600) }),
            is_confirmed: dice.chance(0.25),
        };
        let span = dice.millis(4_000.0, 40_000.0);
        let mut plan = Self {
            seed,
            terminals,
            rates: [forward, back],
            rtt,
            settings,
            transfers: Vec::new(),
            faults: Vec::new(),
            well_after: span,
            outlasts,
        };
        plan.draw_transfers(&mut dice, span);
        plan.draw_faults(&mut dice, span);
        plan
    }

    /// Number of gateways.
    pub(crate) fn sides(&self) -> usize {
        1 + self.terminals
    }

    fn draw_transfers(&mut self, dice: &mut Dice, span: Duration) {
        let count = dice.between(30, 120);
        // What the links carry in the case's time, so that thin ones end, too.
        let each = self.rates.map(|rate| rate.bytes_in(span + Duration::from_secs(10)).as_u64() / count + 2000);
        for _ in 0..count {
            let terminal = dice.index(self.terminals) + 1;
            let sides = if dice.chance(0.3) { [HUB, terminal] } else { [terminal, HUB] };
            let bytes = sides.map(|side| {
                let most = (each[usize::from(side != HUB)] * 8).min(4_000_000) as f64;
                if dice.chance(0.12) { 0 } else { dice.spread(1.0, most) as u64 }
            });
            let total = bytes[0] + bytes[1];
            self.transfers.push(TransferPlan {
                at: span.mul_f64(dice.between(0, 1000) as f64 / 1000.0),
                sides,
                bytes,
                ending: dice.pick(&[
                    Ending::Independent,
                    Ending::Independent,
                    Ending::ClientFirst,
                    Ending::ServerFirst,
                ]),
                abort: dice.chance(0.08).then(|| (dice.index(2), dice.between(0, total + 1))),
                stall: dice
                    .chance(0.15)
                    .then(|| (dice.index(2), dice.between(0, total / 2 + 1), dice.millis(10.0, 8_000.0))),
                accepts: (!dice.chance(0.03)).then(|| dice.millis(0.1, 400.0)),
            });
        }
    }

    fn draw_faults(&mut self, dice: &mut Dice, span: Duration) {
        for _ in 0..dice.between(3, 14) {
            let at = Duration::from_millis(200) + span.mul_f64(dice.between(0, 1000) as f64 / 1000.0);
            let fault = Fault::draw(dice, self.terminals, self.rtt);
            self.well_after = self.well_after.max(at + fault.lasts());
            self.faults.push((at, fault));
        }
        if self.outlasts {
            let (at, lasts) = (span.mul_f64(0.5), Duration::from_secs(dice.between(10, 40)));
            self.well_after = self.well_after.max(at + lasts);
            self.faults.push((at, Fault::Outage { way: None, lasts }));
        }
        self.faults.sort_by_key(|(at, _)| *at);
    }
}
