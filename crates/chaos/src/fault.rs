//! The faults of a case.

use testkit::Dice;
use units::Duration;

/// The first of a case is the hub's side.
pub(crate) const HUB: usize = 0;

/// A fault. `way` 0 is what the hub sends, 1 what terminals send; `side` 0 is the hub.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// Datagrams are lost, each with this probability.
    Loss { way: usize, probability: f64, lasts: Duration },
    /// All is lost for some datagrams in a row, again and again.
    Bursts { way: usize, mean_well: f64, mean_lost: f64, lasts: Duration },
    /// Datagrams are held back for up to this time while others overtake them.
    Reorder { way: usize, probability: f64, delay: Duration, lasts: Duration },
    /// Datagrams arrive twice.
    Duplicate { way: usize, probability: f64, lasts: Duration },
    /// A bit is wrong.
    Corrupt { way: usize, probability: f64, lasts: Duration },
    /// The end is missing.
    Truncate { way: usize, probability: f64, lasts: Duration },
    /// Nothing arrives, by one way or by both.
    Outage { way: Option<usize>, lasts: Duration },
    /// The link carries only a share of its rate.
    Rate { way: usize, share: f64, lasts: Duration },
    /// The link's delay is longer.
    Delay { way: usize, more: Duration, lasts: Duration },
    /// Only smaller IP packets pass.
    Mtu { way: usize, bytes: usize, lasts: Duration },
    /// A terminal is seen at another address.
    Rebind { side: usize },
    /// A gateway's clock jumps ahead.
    Jump { side: usize, by: Duration },
    /// A gateway does not run, while datagrams wait for it.
    Pause { side: usize, lasts: Duration },
    /// A gateway dies, and starts again after a while.
    Kill { side: usize, lasts: Duration },
    /// A gateway stops in order, and starts again after a while.
    Stop { side: usize, lasts: Duration },
    /// A stranger sends garbage.
    Garbage { side: usize, per_second: u64, lasts: Duration },
    /// A stranger repeats what was sent by others.
    Replay { side: usize, per_second: u64, lasts: Duration },
    /// Strangers from many addresses begin handshakes.
    Inits { side: usize, per_second: u64, lasts: Duration },
    /// A stranger answers a terminal's inits, before the hub does, with cookies as a busy hub would.
    ForgedCookies { side: usize, lasts: Duration },
    /// A gateway takes other settings over: rates and caps of this share of what they were.
    Reload { side: usize, share: f64 },
    /// A gateway takes no more connections, ends with the last, and starts again after a while.
    Drain { side: usize, lasts: Duration },
}

/// The kinds of faults, in the order of their names in reports.
pub(crate) const KINDS: [&str; 21] = [
    "loss",
    "bursts",
    "reorder",
    "duplicate",
    "corrupt",
    "truncate",
    "outage",
    "rate",
    "delay",
    "mtu",
    "rebind",
    "clock_jump",
    "pause",
    "kill",
    "stop",
    "garbage",
    "replay",
    "handshake_flood",
    "forged_cookies",
    "reload",
    "drain",
];

impl Fault {
    /// One at random for a hub with so many terminals.
    pub(crate) fn draw(dice: &mut Dice, terminals: usize, rtt: Duration) -> Self {
        let way = dice.index(2);
        let lasts = dice.millis(50.0, 8_000.0);
        let terminal = dice.index(terminals) + 1;
        let side = if dice.chance(0.5) { HUB } else { terminal };
        let per_second = dice.spread(5.0, 400.0) as u64;
        match dice.index(KINDS.len()) {
            0 => Fault::Loss { way, probability: dice.spread(0.001, 0.3), lasts },
            1 => {
                let (mean_well, mean_lost) = (dice.spread(20.0, 500.0), dice.spread(2.0, 60.0));
                Fault::Bursts { way, mean_well, mean_lost, lasts }
            }
            2 => Fault::Reorder { way, probability: dice.spread(0.005, 0.3), delay: dice.millis(0.5, 300.0), lasts },
            3 => Fault::Duplicate { way, probability: dice.spread(0.01, 0.5), lasts },
            4 => Fault::Corrupt { way, probability: dice.spread(0.005, 0.2), lasts },
            5 => Fault::Truncate { way, probability: dice.spread(0.005, 0.2), lasts },
            6 => Fault::Outage { way: dice.pick(&[None, Some(0), Some(1)]), lasts },
            7 => Fault::Rate { way, share: dice.spread(0.1, 0.9), lasts },
            8 => Fault::Delay { way, more: rtt.mul_f64(dice.spread(0.1, 2.0)), lasts },
            9 => Fault::Mtu { way, bytes: dice.between(1280, 1499) as usize, lasts },
            10 => Fault::Rebind { side: terminal },
            11 => Fault::Jump { side, by: dice.millis(10.0, 5_000.0) },
            12 => Fault::Pause { side, lasts: dice.millis(10.0, 3_000.0) },
            13 => Fault::Kill { side, lasts: dice.millis(1.0, 6_000.0) },
            14 => Fault::Stop { side, lasts: dice.millis(1.0, 6_000.0) },
            15 => Fault::Garbage { side, per_second, lasts },
            16 => Fault::Replay { side, per_second, lasts },
            17 => Fault::Inits { side, per_second, lasts },
            18 => Fault::ForgedCookies { side: terminal, lasts },
            19 => Fault::Reload { side, share: dice.spread(0.6, 1.0) },
            _ => Fault::Drain { side, lasts },
        }
    }

    /// Its place in [`KINDS`].
    pub(crate) fn kind(&self) -> usize {
        match self {
            Fault::Loss { .. } => 0,
            Fault::Bursts { .. } => 1,
            Fault::Reorder { .. } => 2,
            Fault::Duplicate { .. } => 3,
            Fault::Corrupt { .. } => 4,
            Fault::Truncate { .. } => 5,
            Fault::Outage { .. } => 6,
            Fault::Rate { .. } => 7,
            Fault::Delay { .. } => 8,
            Fault::Mtu { .. } => 9,
            Fault::Rebind { .. } => 10,
            Fault::Jump { .. } => 11,
            Fault::Pause { .. } => 12,
            Fault::Kill { .. } => 13,
            Fault::Stop { .. } => 14,
            Fault::Garbage { .. } => 15,
            Fault::Replay { .. } => 16,
            Fault::Inits { .. } => 17,
            Fault::ForgedCookies { .. } => 18,
            Fault::Reload { .. } => 19,
            Fault::Drain { .. } => 20,
        }
    }

    /// From its beginning to its end.
    pub(crate) fn lasts(&self) -> Duration {
        match self {
            Fault::Rebind { .. } | Fault::Jump { .. } | Fault::Reload { .. } => Duration::ZERO,
            Fault::Loss { lasts, .. }
            | Fault::Bursts { lasts, .. }
            | Fault::Reorder { lasts, .. }
            | Fault::Duplicate { lasts, .. }
            | Fault::Corrupt { lasts, .. }
            | Fault::Truncate { lasts, .. }
            | Fault::Outage { lasts, .. }
            | Fault::Rate { lasts, .. }
            | Fault::Delay { lasts, .. }
            | Fault::Mtu { lasts, .. }
            | Fault::Pause { lasts, .. }
            | Fault::Kill { lasts, .. }
            | Fault::Stop { lasts, .. }
            | Fault::Garbage { lasts, .. }
            | Fault::Replay { lasts, .. }
            | Fault::Inits { lasts, .. }
            | Fault::ForgedCookies { lasts, .. }
            | Fault::Drain { lasts, .. } => *lasts,
        }
    }
}
