//! Explicit congestion notification between the two ends: who has been told of which marks (RFC 3168, section 6.1; RFC 8257, section 3.2;
//! RFC 9768).

use crate::segment::{EcnBytes, Flags, Segment};
use units::Ecn;

/// How many marked packets there were before the first (RFC 9768, section 3.2.1).
const FIRST_COUNT: u8 = 5;
/// The counter's three bits.
const COUNT_MASK: u8 = 7;
/// Packets for each acknowledgement, on average, from which on a counter that stands still is not taken for one that went round (Linux 7.0,
/// `ACK_COMP_THRESH`).
const FEW_ACKS: u16 = 4;
/// The average moves by a share of 2^-6 of the difference, and is kept in 2^-6 packets (Linux 7.0, `PKTS_ACKED_WEIGHT` and `_PREC`).
const AVERAGE_SHIFT: u32 = 6;
/// Marked packets after which an acknowledgement leaves (RFC 9768, section 3.2.2.5.1).
const MARKS_PER_ACK: u8 = 2;
/// Bytes with a codepoint of ECT before the first (RFC 9768, section 3.2.1).
const FIRST_BYTES: u32 = 1;
/// Counters of bytes have 24 bits.
const BYTES_MASK: u32 = (1 << 24) - 1;

/// What the receiving half tells of the peer's marked packets.
#[derive(Debug, Default)]
pub(crate) enum Feedback {
    /// Nothing.
    #[default]
    None,
    /// Whether there were any.
    Echo(Echo),
    /// Whether what arrived last was marked.
    ExactEcho(Echo),
    /// How many there were. Most connections have no counters, and stay small.
    Count(Box<Count>),
}

/// One bit: congestion was experienced.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Echo {
    /// Acknowledgements say that congestion was experienced.
    pub(crate) is_on: bool,
}

impl Echo {
    /// A data segment arrives, marked or not, with CWR or without. Echoes go on until the sender says that it has acted. Returns whether
    /// they begin.
    pub(crate) fn on_data(&mut self, is_marked: bool, has_cwr: bool) -> bool {
        let was_on = self.is_on && !has_cwr;
        self.is_on = is_marked || was_on;
        is_marked && !was_on
    }

    /// The same where the sender wants to know the share of marked bytes: the echo is the state of what arrived last. Returns whether
    /// that is a change, which is acknowledged at once (RFC 8257, section 3.2).
    pub(crate) fn on_data_exactly(&mut self, is_marked: bool) -> bool {
        std::mem::replace(&mut self.is_on, is_marked) != is_marked
    }
}

/// A counter of three bits (ACE, RFC 9768, section 3.2.2).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Count {
    /// Marked packets so far, modulo 8.
    packets: u8,
    /// Those since the last acknowledgement.
    unreported: u8,
    /// Whether the latest data was marked.
    was_marked: bool,
    /// What the IP header of the peer's answer to the SYN said, until the handshake's last segment has told it.
    answer: Option<Ecn>,
    /// What the AccECN option says, and which of the two orders it has; `None` sends none.
    option: Option<(EcnBytes, Flags)>,
}

impl Count {
    /// None so far. The end that opened the connection repeats what the IP header of the `answer` to its SYN said.
    pub(crate) fn new(answer: Option<Ecn>) -> Self {
        Self { packets: FIRST_COUNT, unreported: 0, was_marked: false, answer, option: None }
    }

    /// The same, and bytes are counted beside packets, of a peer that sends with the codepoint `capable`.
    pub(crate) fn with_bytes(self, capable: Ecn) -> Self {
        let order = if capable == Ecn::Ect0 { Flags::ACCECN0 } else { Flags::ACCECN1 };
        Self { option: Some((EcnBytes { capable: FIRST_BYTES, marked: 0 }, order)), ..self }
    }

    /// The AccECN option, for a segment with room for it.
    pub(crate) fn option(&self) -> Option<(EcnBytes, Flags)> {
        self.option
    }

    /// A segment with `len` bytes of data arrives; returns whether it is to be acknowledged at once: the first that is marked after one that
    /// is not, and each second marked one; with bytes counted, the first that is not marked, too (RFC 9768, section 3.2.3.3).
    pub(crate) fn on_data(&mut self, ecn: Ecn, len: u32) -> bool {
        let is_marked = ecn.is_marked();
        let was_marked = std::mem::replace(&mut self.was_marked, is_marked);
        self.packets = self.packets.wrapping_add(u8::from(is_marked)) & COUNT_MASK;
        self.unreported += u8::from(is_marked);
        let mut counts_other = is_marked && !was_marked;
        if let Some((bytes, _)) = &mut self.option {
            let counter = if is_marked { &mut bytes.marked } else { &mut bytes.capable };
            *counter = counter.wrapping_add(if ecn.is_capable() || is_marked { len } else { 0 }) & BYTES_MASK;
            counts_other |= is_marked != was_marked;
        }
        counts_other || self.unreported >= MARKS_PER_ACK
    }

    /// An acknowledgement leaves, with payload or without; returns its bits.
    pub(crate) fn report(&mut self, has_data: bool) -> Flags {
        self.unreported = 0;
        match self.answer.take() {
            Some(ecn) if !has_data => feedback_flags(handshake_code(ecn)),
            _ => feedback_flags(self.packets),
        }
    }
}

/// What a SYN asks for.
pub(crate) const ASKS_FOR_COUNT: Flags = Flags::AE.with(Flags::CWR).with(Flags::ECE);

/// What the ends of a connection agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Agreement {
    /// One bit (RFC 3168).
    Echo,
    /// A counter (RFC 9768).
    Count,
}

/// What the flags of the peer's SYN mean to an end that uses ECN, with counters if it `counts`.
pub(crate) fn agreement(syn: &Segment, counts: bool) -> Option<Agreement> {
    let [ae, cwr, ece] = [Flags::AE, Flags::CWR, Flags::ECE].map(|flag| syn.has(flag));
    match (syn.has(Flags::ACK), counts, (ae, cwr, ece)) {
        // A peer that reflects what it was asked does not know what it means; to RFC 3168 the flag AE is nothing.
        (_, true, (false, false, false)) | (true, true, (true, true, true)) => None,
        (true, true, (false, false, true)) | (false, true, (false, true, true)) => Some(Agreement::Echo),
        // Combinations of the future count, too (RFC 9768, section 3.1.3).
        (_, true, _) => Some(Agreement::Count),
        (is_answer, false, (_, cwr, true)) if cwr != is_answer => Some(Agreement::Echo),
        (_, false, _) => None,
    }
}

/// The bits AE, CWR and ECE of a handshake for what the IP header of the peer's SYN, or answer to it, said (RFC 9768, tables 2 and 3).
pub(crate) fn handshake_code(ecn: Ecn) -> u8 {
    match ecn {
        Ecn::NotCapable => 0b010,
        Ecn::Ect1 => 0b011,
        Ecn::Ect0 => 0b100,
        Ecn::CongestionExperienced => 0b110,
    }
}

/// The flags AE, CWR and ECE, given as three bits.
pub(crate) fn feedback_flags(bits: u8) -> Flags {
    let none = Flags::default();
    none.with_if(bits & 4 != 0, Flags::AE).with_if(bits & 2 != 0, Flags::CWR).with_if(bits & 1 != 0, Flags::ECE)
}

/// The count that the flags of a segment say.
fn count_of(segment: &Segment) -> u8 {
    u8::from(segment.has(Flags::AE)) << 2 | u8::from(segment.has(Flags::CWR)) << 1 | u8::from(segment.has(Flags::ECE))
}

/// What the peer says of the marks that it saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Reports {
    #[default]
    Nothing,
    /// That there were some, until it hears of a reduction.
    Echoes,
    /// How many there were.
    Counts(Counter),
}

/// The peer's counter of marked packets, of which a segment has three bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counter {
    /// Those bits as last seen.
    last: u8,
    /// Whether it has ever counted.
    has_counted: bool,
    /// The average number of packets that an acknowledgement covers, in 2^-6 packets; 0 before the first.
    packets_per_ack: u16,
}

impl Counter {
    /// At its beginning.
    const FIRST: Self = Self { last: FIRST_COUNT, has_counted: false, packets_per_ack: 0 };

    /// How many of `packets`, which an acknowledgement newly reports as delivered, are marked if its counter is `count`: the most that
    /// can be, as far as that is likely (RFC 9768, section 3.2.2.5.2). The counter has not gone round on a path that never marked
    /// anything; and where acknowledgements are few in any case, that they are few says nothing of marks.
    fn take(&mut self, count: u8, packets: u64) -> u64 {
        let increase = u64::from(count.wrapping_sub(self.last) & COUNT_MASK);
        self.last = count;
        self.has_counted |= increase > 0;
        self.average(packets);
        let may_have_gone_round = self.has_counted && self.packets_per_ack <= FEW_ACKS << AVERAGE_SHIFT;
        if may_have_gone_round { wrapped(increase, packets) } else { increase.min(packets) }
    }

    fn average(&mut self, packets: u64) {
        let (sample, average) = (packets << AVERAGE_SHIFT, u64::from(self.packets_per_ack));
        let next = if average == 0 { sample } else { ((average << AVERAGE_SHIFT) - average + sample) >> AVERAGE_SHIFT };
        self.packets_per_ack = next.min(u16::MAX.into()) as u16;
    }
}

/// What the sending half has done about echoes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Answer {
    /// Echoes on acknowledgements up to this offset are answered: the window was lowered for them, or for a loss beside them.
    answered_to: u64,
    /// It was for a loss.
    is_for_loss: bool,
    /// The next new data segment says that the window was reduced.
    owes_cwr: bool,
    reports: Reports,
    /// The peer's counter of marked bytes, as far as it was taken.
    counted_bytes: u32,
}

impl Answer {
    /// The peer echoes marks.
    pub(crate) fn use_echoes(&mut self) {
        self.reports = Reports::Echoes;
    }

    /// The peer counts marked packets.
    pub(crate) fn use_counts(&mut self) {
        self.reports = Reports::Counts(Counter::FIRST);
    }

    /// How many bytes an acknowledgement reports as marked, of those that it newly acknowledges cumulatively or shows to have been
    /// delivered, in packets of `mss`.
    #[inline]
    pub(crate) fn marked(&mut self, segment: &Segment, acked: u64, delivered: u64, mss: u64) -> u64 {
        match &mut self.reports {
            Reports::Echoes if segment.has(Flags::ECE) => acked,
            Reports::Nothing | Reports::Echoes => 0,
            // What reports nothing new may be an old acknowledgement that comes late.
            Reports::Counts(_) if delivered == 0 || segment.has(Flags::SYN) => 0,
            Reports::Counts(counter) => {
                let packets = counter.take(count_of(segment), delivered.div_ceil(mss));
                let marked = match segment.accurate_ecn() {
                    Some(bytes) => ahead(bytes.marked, self.counted_bytes),
                    None => packets * mss,
                };
                let taken = marked.min(delivered);
                self.counted_bytes = (self.counted_bytes + (taken as u32 & BYTES_MASK)) & BYTES_MASK;
                taken
            }
        }
    }

    /// Whether echoes on an acknowledgement up to `una` are of a window of data for which nothing was done yet.
    pub(crate) fn is_news(&self, una: u64) -> bool {
        una > self.answered_to
    }

    /// Whether the window was lowered for marks on the data that begin at `una`.
    pub(crate) fn has_lowered(&self, una: u64) -> bool {
        !self.is_for_loss && !self.is_news(una)
    }

    /// Whether an acknowledgement up to `una` repeats the echo of marks that were answered.
    pub(crate) fn is_repeated(&self, una: u64) -> bool {
        self.reports == Reports::Echoes && !self.is_news(una)
    }

    /// The window is lowered for marks while `nxt` is the end of what was sent.
    pub(crate) fn on_reduced(&mut self, nxt: u64) {
        (self.answered_to, self.is_for_loss) = (nxt, false);
        self.owes_cwr = self.reports == Reports::Echoes;
    }

    /// The same for a loss: the peer hears of any reduction, and echoes of that window are answered with it (RFC 3168, section 6.1.2).
    pub(crate) fn on_loss(&mut self, nxt: u64) {
        if self.reports == Reports::Echoes {
            (self.answered_to, self.is_for_loss, self.owes_cwr) = (nxt, true, true);
        }
    }

    /// The loss was none, and the window is what it was: the peer goes on with its echoes, if there are any, so that they are answered
    /// when this window has passed (`tcp_ecn_withdraw_cwr` of Linux).
    pub(crate) fn withdraw(&mut self) {
        self.owes_cwr &= !self.is_for_loss;
    }

    /// Takes what the next new data segment owes.
    pub(crate) fn take_cwr(&mut self) -> bool {
        std::mem::take(&mut self.owes_cwr)
    }
}

/// How far a counter of bytes is ahead of what was `taken`; not at all where it is behind, in an old segment or beside marks that were
/// guessed from the counter of packets.
fn ahead(counter: u32, taken: u32) -> u64 {
    let difference = counter.wrapping_sub(taken) & BYTES_MASK;
    if difference <= BYTES_MASK / 2 { difference.into() } else { 0 }
}

/// The most marked packets of `packets` newly delivered that raise a counter of three bits by `increase`: it may have gone round while
/// acknowledgements were lost (RFC 9768, section 3.2.2.5.2 and appendix A.2).
fn wrapped(increase: u64, packets: u64) -> u64 {
    if packets <= increase { increase.min(packets) } else { packets - (packets - increase) % u64::from(COUNT_MASK + 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echoes_go_on_until_the_window_was_reduced_and_begin_again_with_a_mark() {
        let mut echo = Echo::default();
        let mut states = Vec::new();
        for (is_marked, has_cwr) in
            [(false, false), (true, false), (false, false), (false, true), (true, true), (false, false)]
        {
            echo.on_data(is_marked, has_cwr);
            states.push(echo.is_on);
        }
        assert_eq!(states, [false, true, true, false, true, true]);
    }

    #[test]
    fn a_window_of_data_is_answered_once() {
        let mut answer = Answer::default();
        answer.use_echoes();
        assert!(answer.is_news(1_000));
        answer.on_reduced(20_000);
        assert!(!answer.is_news(20_000) && answer.is_news(20_001));
        assert!(answer.take_cwr() && !answer.take_cwr());
    }

    #[test]
    fn a_loss_answers_the_echoes_of_its_window_and_one_that_was_none_does_not() {
        let mut answer = Answer::default();
        answer.on_loss(20_000);
        assert!(answer.is_news(1_000) && !answer.take_cwr(), "nothing is echoed");
        answer.use_echoes();
        answer.on_loss(20_000);
        assert!(answer.is_repeated(20_000) && !answer.is_repeated(20_001) && !answer.has_lowered(1_000));
        assert!(answer.take_cwr());
        answer.on_loss(20_000);
        answer.withdraw();
        assert!(!answer.take_cwr());
    }

    #[test]
    fn a_counter_of_three_bits_goes_round() {
        let mut count = Count::new(None);
        let bits: Vec<u16> = (0..9)
            .map(|_| {
                count.on_data(Ecn::CongestionExperienced, 1);
                count.report(true).0
            })
            .collect();
        let of = |flags: [bool; 3]| {
            let [ae, cwr, ece] = flags;
            Flags::default().with_if(ae, Flags::AE).with_if(cwr, Flags::CWR).with_if(ece, Flags::ECE).0
        };
        let [o, i] = [false, true];
        let expected =
            [[i, i, o], [i, i, i], [o, o, o], [o, o, i], [o, i, o], [o, i, i], [i, o, o], [i, o, i], [i, i, o]];
        assert_eq!(bits, expected.map(of));
    }

    #[test]
    fn what_the_counter_cannot_tell_apart_is_taken_for_the_most_that_it_can_be() {
        for (increase, packets, expected) in [
            (0, 2, 0),
            (1, 2, 1),
            (2, 2, 2),
            (3, 2, 2),
            (0, 7, 0),
            (0, 8, 8),
            (1, 8, 1),
            (1, 9, 9),
            (3, 20, 19),
            (0, 0, 0),
        ] {
            assert_eq!(wrapped(increase, packets), expected, "{increase} of {packets}");
        }
    }

    #[test]
    fn a_counter_that_never_counted_has_not_gone_round() {
        let mut counter = Counter::FIRST;
        assert_eq!([2, 9, 40].map(|packets| counter.take(FIRST_COUNT, packets)), [0, 0, 0]);
        let mut counter = Counter::FIRST;
        let taken = [(5, 2), (6, 2), (6, 2), (6, 9)].map(|(count, packets)| counter.take(count, packets));
        assert_eq!(taken, [0, 1, 0, 8], "acknowledgements are lost on a path that marks");
    }

    #[test]
    fn a_counter_has_not_gone_round_where_acknowledgements_are_few() {
        let mut counter = Counter::FIRST;
        let taken = [(5, 16), (6, 16), (6, 16), (0, 16)].map(|(count, packets)| counter.take(count, packets));
        assert_eq!(taken, [0, 1, 0, 2]);
        // 48 of two packets halve the average, roughly: of 16 it takes 117 to come below four.
        let frequent = (0..200).map(|_| counter.take(0, 2)).sum::<u64>();
        assert_eq!((frequent, counter.take(0, 16)), (0, 16));
    }

    #[test]
    fn a_counter_of_24_bits_goes_round_and_is_not_taken_back() {
        for (counter, taken, expected) in
            [(0, 0, 0), (1_448, 0, 1_448), (100, BYTES_MASK - 99, 200), (1_000, 2_448, 0), (0, BYTES_MASK, 1)]
        {
            assert_eq!(ahead(counter, taken), expected, "{counter} after {taken}");
        }
        let mut count = Count::new(None).with_bytes(Ecn::Ect0);
        for ecn in [Ecn::Ect0, Ecn::CongestionExperienced, Ecn::NotCapable, Ecn::Ect0] {
            count.on_data(ecn, BYTES_MASK);
        }
        // Of 24 bits, adding the largest number takes away one.
        let bytes = EcnBytes { capable: BYTES_MASK, marked: BYTES_MASK };
        assert_eq!(count.option(), Some((bytes, Flags::ACCECN0)));
    }

    #[test]
    fn the_first_mark_after_none_and_each_second_are_acknowledged_at_once() {
        let mut count = Count::new(None);
        let mut at_once = Vec::new();
        let [ect, ce] = [Ecn::Ect1, Ecn::CongestionExperienced];
        for ecn in [ect, ce, ce, ce, ect, ce] {
            let now = count.on_data(ecn, 1);
            at_once.push(now);
            if now {
                count.report(false);
            }
        }
        assert_eq!(at_once, [false, true, false, true, false, true]);
    }
}
