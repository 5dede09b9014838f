//! ARRIVALS: what the receiver has accepted so far, and when some packets of it arrived (docs/protocol.md, section 10).
//!
//! Stamps are in the order of arrival, so that times only rise: the first is written in full, those after it as differences.

use super::varint;
use crate::packet_number::PacketNumber;
use smallvec::SmallVec;
use units::Duration;

/// Stamps of one frame at most.
pub(crate) const MAX_STAMPS: usize = 40;
/// Counters and times are sent modulo this.
pub(crate) const TURN: u64 = 1 << 30;
/// Differences of times count in this many microseconds.
const TICK: u64 = 8;

/// What the receiver has accepted in the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) packets: u64,
    /// Their IP bytes.
    pub(crate) bytes: u64,
    /// How many of them carried the congestion mark CE; `None` where marks cannot be read.
    pub(crate) ce: Option<u64>,
}

/// The frame as read. Stamps are decoded while iterating, so that reading allocates nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArrivalsFrame<'a> {
    /// Packets and bytes modulo [`TURN`].
    pub(crate) counters: Counters,
    /// When the first stamped packet arrived, in microseconds modulo [`TURN`].
    pub(crate) first_micros: u64,
    first: PacketNumber,
    count: u64,
    /// What follows the first stamp.
    rest: &'a [u8],
}

impl<'a> ArrivalsFrame<'a> {
    /// Reads the fields from the start of `input`, which then begins after them; `None` if they are not well formed.
    pub(super) fn read(input: &mut &'a [u8]) -> Option<Self> {
        let mut low = || varint::read(input).filter(|value| *value < TURN);
        let (packets, bytes) = (low()?, low()?);
        let ce = varint::read(input)?.checked_sub(1);
        let count = varint::read(input).filter(|count| *count <= MAX_STAMPS as u64)?;
        let (mut first, mut first_micros) = (PacketNumber::ZERO, 0);
        if count > 0 {
            first = PacketNumber::new(varint::read(input)?);
            first_micros = varint::read(input).filter(|micros| *micros < TURN)?;
        }
        let before = *input;
        for _ in 1..count {
            varint::read(input)?;
            varint::read(input)?;
        }
        let rest = &before[..before.len() - input.len()];
        let frame = Self { counters: Counters { packets, bytes, ce }, first_micros, first, count, rest };
        (frame.stamps().count() as u64 == count).then_some(frame)
    }

    /// Which packets are stamped, and how long after the first each arrived. All of them, since [`Self::read`] has checked that
    /// they are well formed.
    pub(crate) fn stamps(&self) -> impl Iterator<Item = (PacketNumber, Duration)> + use<'_> {
        let mut input = self.rest;
        let (mut number, mut ticks) = (self.first.get(), 0);
        (0..self.count).map_while(move |at| {
            if at > 0 {
                let step = signed(varint::read(&mut input)?);
                number = number.checked_add_signed(step).filter(|number| *number <= varint::MAX)?;
                // What is later than a turn has no place in one frame.
                ticks = varint::read(&mut input)?.checked_add(ticks).filter(|ticks| *ticks < TURN / TICK)?;
            }
            Some((PacketNumber::new(number), Duration::from_micros(ticks * TICK)))
        })
    }
}

/// The integers of a frame, in their order.
pub(super) type Fields = SmallVec<[u64; 4 + 2 * MAX_STAMPS]>;

/// The fields for `counters` and `stamps`: packets and the microseconds of their arrival, which do not fall.
pub(super) fn fields(counters: &Counters, stamps: &[(PacketNumber, u64)]) -> Fields {
    let Counters { packets, bytes, ce } = *counters;
    // Older ones make way.
    let stamps = &stamps[stamps.len().saturating_sub(MAX_STAMPS)..];
    let last = stamps.last().map_or(0, |(_, micros)| *micros);
    let stamps = &stamps[stamps.partition_point(|(_, micros)| last - micros >= TURN - TICK)..];
    let mut fields =
        Fields::from_slice(&[packets % TURN, bytes % TURN, ce.map_or(0, |ce| ce + 1), stamps.len() as u64]);
    let Some((&(first, first_micros), stamps)) = stamps.split_first() else { return fields };
    fields.extend([first.get(), first_micros % TURN]);
    let (mut before, mut ticks_before) = (first.get(), 0);
    for (number, micros) in stamps {
        let ticks = (micros - first_micros) / TICK;
        fields.extend([unsigned(number.get().wrapping_sub(before) as i64), ticks - ticks_before]);
        (before, ticks_before) = (number.get(), ticks);
    }
    fields
}

/// A signed difference as an unsigned integer that is small if it is: 0, -1, 1, -2, ...
fn unsigned(step: i64) -> u64 {
    ((step << 1) ^ (step >> 63)) as u64
}

fn signed(field: u64) -> i64 {
    (field >> 1) as i64 ^ -((field & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Counters, the time of the first stamp, and the stamps with the microseconds since then.
    type Told = (Counters, u64, Vec<(u64, u64)>);

    fn read(fields: &[u64]) -> Option<Told> {
        let mut bytes = [0; 1000];
        let length = fields.iter().fold(0, |at, field| at + varint::write(*field, &mut bytes[at..]));
        let mut input = &bytes[..length];
        let frame = ArrivalsFrame::read(&mut input)?;
        assert!(input.is_empty());
        let stamps = frame.stamps().map(|(number, after)| (number.get(), after.as_nanos() / 1000)).collect();
        Some((frame.counters, frame.first_micros, stamps))
    }

    #[test]
    fn counters_and_the_first_time_turn_over_and_differences_do_not() {
        let counters = Counters { packets: TURN + 5, bytes: 3 * TURN + 7, ce: Some(0) };
        let stamps = [(10, TURN - 4), (8, TURN + 4), (11, TURN + 804)].map(|(n, at)| (PacketNumber::new(n), at));
        let (counters, first_micros, stamps) = read(&fields(&counters, &stamps)).expect("well formed");
        assert_eq!(counters, Counters { packets: 5, bytes: 7, ce: Some(0) });
        assert_eq!((first_micros, stamps), (TURN - 4, vec![(10, 0), (8, 8), (11, 808)]));
    }

    #[test]
    fn no_more_stamps_are_written_than_are_read_nor_such_as_lie_a_turn_apart() {
        let counters = Counters { packets: 100, bytes: 100_000, ce: None };
        let many: Vec<_> = (0..60).map(|n| (PacketNumber::new(n), n * 1000)).collect();
        let (read_counters, _, stamps) = read(&fields(&counters, &many)).expect("well formed");
        assert_eq!((read_counters, stamps.len(), stamps[0].0), (counters, MAX_STAMPS, 20));
        let apart = [(1, 0), (2, TURN), (3, TURN + 5000)].map(|(n, at)| (PacketNumber::new(n), at));
        let (_, first_micros, stamps) = read(&fields(&counters, &apart)).expect("well formed");
        assert_eq!((first_micros, stamps), (0, vec![(2, 0), (3, 5000)]));
        assert_eq!(read(&fields(&counters, &[])).expect("well formed").2, []);
    }

    #[test]
    fn what_is_out_of_range_is_malformed() {
        let sound = [1, 1, 1, 2, 7, 100, 2, 5];
        assert!(read(&sound).is_some());
        let with = |at: usize, value: u64| {
            let mut fields = sound;
            fields[at] = value;
            fields
        };
        for (at, value) in [(0, TURN), (1, TURN), (3, 41), (5, TURN), (6, 17), (6, varint::MAX), (7, TURN / TICK)] {
            assert_eq!(read(&with(at, value)), None, "field {at}: {value}");
        }
        assert_eq!(read(&sound[..7]), None, "cut off");
    }

    proptest! {
        #[test]
        fn any_stamps_in_order_of_arrival_are_read_as_written(
            steps in proptest::collection::vec((0u64..1 << 40, 0u64..20_000_000), 0..40),
        ) {
            let mut at = 0;
            let stamps: Vec<_> = steps
                .iter()
                .map(|(number, later)| {
                    at += later;
                    (PacketNumber::new(*number), at)
                })
                .collect();
            let counters = Counters { packets: 1, bytes: 1, ce: Some(3) };
            let (_, _, read) = read(&fields(&counters, &stamps)).expect("well formed");
            let began = stamps.first().map_or(0, |first| first.1);
            let expected: Vec<_> = stamps.iter().map(|(n, at)| (n.get(), (at - began) / TICK * TICK)).collect();
            prop_assert_eq!(read, expected);
        }
    }
}
