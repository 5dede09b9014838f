//! What may happen to two gateways and the hop between them, as two bytes each, so that a fuzzer and a property test can
//! both write it.

use testkit::Fault;

/// One thing that happens. `side` 0 is the hub, 1 the terminal that calls it; `pick` chooses among what there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Time passes: this many milliseconds.
    Wait(u64),
    /// A side opens a stream.
    Open { side: usize },
    /// The user of a stream offers so many bytes.
    Write { side: usize, pick: usize, bytes: u64 },
    /// The user of a stream ends it.
    Finish { side: usize, pick: usize },
    /// The user of a stream gives it up.
    Reset { side: usize, pick: usize },
    /// The readers of a side stop reading, or go on.
    Stall { side: usize },
    /// What a side sends suffers from now on so many per cent of this.
    Weather { side: usize, fault: Fault, per_cent: u64 },
    /// Nothing that a side sends arrives, or something does again.
    Cut { side: usize },
    /// The terminal gets another address; what was in flight to the old one is lost.
    Move,
    /// A side's clock jumps ahead by so many milliseconds.
    Jump { side: usize, millis: u64 },
    /// Neither side is run for so many milliseconds, while datagrams pile up.
    Freeze(u64),
    /// Someone repeats a datagram to a side, from an address of theirs.
    Replay { side: usize, pick: usize },
    /// Someone is faster than the next datagram to a side, and sends it from an address of theirs.
    Divert { side: usize },
}

impl Operation {
    /// The operation that two bytes stand for; two zeros are the least of them.
    pub fn decode((kind, argument): (u8, u8)) -> Self {
        let side = usize::from(kind >> 7);
        let pick = usize::from(argument);
        let amount = u64::from(argument);
        match kind & 0x1f {
            0..=5 => Operation::Wait(amount * amount / 40 + 1),
            6..=8 => Operation::Open { side },
            9..=15 => Operation::Write { side, pick, bytes: 1 + amount * amount / 2 },
            16 | 17 => Operation::Finish { side, pick },
            18 => Operation::Reset { side, pick },
            19 => Operation::Stall { side },
            20 => Operation::Weather { side, fault: Fault::Drop, per_cent: amount % 41 },
            21 => Operation::Weather { side, fault: Fault::Duplicate, per_cent: amount % 41 },
            22 => Operation::Weather { side, fault: Fault::Corrupt, per_cent: amount % 31 },
            23 => Operation::Weather { side, fault: Fault::Delay, per_cent: amount % 61 },
            24 | 25 => Operation::Cut { side },
            26 => Operation::Move,
            27 => Operation::Jump { side, millis: amount * 50 },
            28 => Operation::Freeze(amount * 10),
            29 | 30 => Operation::Replay { side, pick },
            _ => Operation::Divert { side },
        }
    }
}
