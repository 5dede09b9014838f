//! The network control centre: keeps what terminals asked for, and divides each superframe.

use super::request::Request;
use super::share::{max_min, share};
use super::{CarrierConfig, Grant, Sharing, TerminalConfig};
use units::{Bytes, Duration, Rate};

/// What the NCC knows of all terminals.
#[derive(Debug)]
pub(super) struct Ncc {
    terminals: Vec<State>,
    superframe: Duration,
    slot: Bytes,
    rbdc_timeout: u32,
    sharing: Sharing,
    fca: bool,
    /// Whose turn it is to get what cannot be divided.
    turn: usize,
}

/// What the NCC knows of one terminal.
#[derive(Debug)]
struct State {
    cra: Flow,
    rbdc: Flow,
    rbdc_max: Rate,
    /// For how many superframes the latest rate still holds.
    rbdc_left: u32,
    /// Volume asked for and not yet given.
    backlog: u64,
    backlog_max: u64,
}

/// A rate as slots. What is not given of those that are due is not made up for later.
#[derive(Debug)]
struct Flow {
    rate: Rate,
    /// What is due beyond the slots until now, in bits times 10^9.
    due: i128,
    /// Whether the first slot comes at once or when all of it is due: a request that is too small for a slot in a superframe
    /// would otherwise be over before it is met.
    rounds_up: bool,
}

impl Flow {
    /// The slots that are due in another `superframe`.
    fn slots(&mut self, superframe: Duration, slot: Bytes) -> u64 {
        self.due += i128::from(self.rate.as_bps()) * i128::from(superframe.as_nanos());
        let work = i128::from(slot.bits()) * 1_000_000_000;
        let round = if self.rounds_up { work - 1 } else { 0 };
        let slots = (self.due + round).max(0) / work;
        self.due -= slots * work;
        slots as u64
    }

    fn set(&mut self, rate: Rate) {
        self.rate = rate;
        if rate == Rate::ZERO {
            self.due = 0;
        }
    }
}

impl Ncc {
    pub(super) fn new<'a>(config: &CarrierConfig, terminals: impl Iterator<Item = &'a TerminalConfig>) -> Self {
        let state = |terminal: &TerminalConfig| State {
            cra: Flow { rate: terminal.cra, due: 0, rounds_up: false },
            rbdc: Flow { rate: Rate::ZERO, due: 0, rounds_up: true },
            rbdc_max: terminal.rbdc,
            rbdc_left: 0,
            backlog: 0,
            backlog_max: terminal.vbdc.as_u64(),
        };
        Self {
            terminals: terminals.map(state).collect(),
            superframe: config.superframe,
            slot: config.slot,
            rbdc_timeout: config.rbdc_timeout,
            sharing: config.sharing,
            fca: config.fca,
            turn: 0,
        }
    }

    /// A request of `terminal` has come.
    pub(super) fn apply(&mut self, terminal: usize, request: &Request) {
        let state = &mut self.terminals[terminal];
        if let Some(rate) = request.rate {
            state.rbdc.set(rate.min(state.rbdc_max));
            state.rbdc_left = self.rbdc_timeout;
        }
        if let Some(whole) = request.whole_volume {
            state.backlog = whole.as_u64();
        }
        state.backlog = state.backlog.saturating_add(request.volume.as_u64()).min(state.backlog_max);
    }

    /// Divides a superframe of `slots` slots. Returns for each terminal what it asks for in this superframe, in bytes, and
    /// what it is given, in slots.
    pub(super) fn plan(&mut self, slots: u64) -> Vec<(Bytes, Grant)> {
        let (superframe, slot, turn) = (self.superframe, self.slot, self.turn);
        self.turn = (turn + 1) % self.terminals.len().max(1);
        let asked: Vec<_> = self.terminals.iter().map(|state| state.asked(superframe)).collect();
        let mut budget = slots;
        let mut give = |demands: Vec<u64>, sharing| {
            let gets = share(sharing, &demands, budget, turn);
            budget -= gets.iter().sum::<u64>();
            gets
        };
        let cra =
            give(self.terminals.iter_mut().map(|state| state.cra.slots(superframe, slot)).collect(), Sharing::MaxMin);
        let rbdc =
            give(self.terminals.iter_mut().map(|state| state.rbdc.slots(superframe, slot)).collect(), self.sharing);
        let wanted = self.terminals.iter().map(|state| state.backlog.div_ceil(slot.as_u64())).collect();
        let vbdc = give(wanted, Sharing::MaxMin);
        let spare = if self.fca { budget } else { 0 };
        let fca = max_min(&vec![spare; self.terminals.len()], spare, turn);
        for (state, given) in self.terminals.iter_mut().zip(&vbdc) {
            state.close(slot, *given);
        }
        let grant = |at: usize| Grant { cra: cra[at], rbdc: rbdc[at], vbdc: vbdc[at], fca: fca[at] };
        asked.into_iter().enumerate().map(|(at, asked)| (asked, grant(at))).collect()
    }
}

impl State {
    /// What it asks for in a superframe.
    fn asked(&self, superframe: Duration) -> Bytes {
        self.rbdc.rate.bytes_in(superframe) + Bytes::new(self.backlog)
    }

    /// A superframe has been planned, with `given` slots for its volume.
    fn close(&mut self, slot: Bytes, given: u64) {
        self.rbdc_left = self.rbdc_left.saturating_sub(1);
        if self.rbdc_left == 0 {
            self.rbdc.set(Rate::ZERO);
        }
        self.backlog = self.backlog.saturating_sub(given * slot.as_u64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten slots of 100 bytes each 100 ms: 80 kbit/s.
    fn carrier() -> CarrierConfig {
        CarrierConfig { slot: Bytes::new(100), ..CarrierConfig::new(kbps(80)) }
    }

    fn kbps(rate: u64) -> Rate {
        Rate::from_bps(rate * 1000)
    }

    fn terminal(cra: u64, rbdc: u64, vbdc: u64) -> TerminalConfig {
        let (cra, rbdc, vbdc) = (kbps(cra), kbps(rbdc), Bytes::new(vbdc));
        TerminalConfig { cra, rbdc, vbdc, ..TerminalConfig::new("return") }
    }

    fn rate(kbit: u64) -> Request {
        Request { rate: Some(kbps(kbit)), ..Request::default() }
    }

    fn volume(bytes: u64) -> Request {
        Request { volume: Bytes::new(bytes), ..Request::default() }
    }

    fn grants(ncc: &mut Ncc) -> Vec<Grant> {
        ncc.plan(10).into_iter().map(|(_, grant)| grant).collect()
    }

    #[test]
    fn a_constant_rate_is_given_without_a_request_and_in_full_over_time() {
        let mut ncc = Ncc::new(&carrier(), [&terminal(20, 0, 0), &terminal(4, 0, 0)].into_iter());
        let slots: Vec<_> = (0..4).map(|_| grants(&mut ncc)).collect();
        // 4 kbit/s is half a slot of each superframe.
        assert_eq!(slots.iter().map(|grants| grants[0].total()).collect::<Vec<_>>(), [2, 3, 2, 3]);
        assert_eq!(slots.iter().map(|grants| grants[1].total()).sum::<u64>(), 2);
    }

    #[test]
    fn a_rate_replaces_the_one_before_is_capped_and_expires() {
        let mut ncc = Ncc::new(&carrier(), [&terminal(0, 40, 0)].into_iter());
        ncc.apply(0, &rate(80));
        assert_eq!(grants(&mut ncc)[0], Grant { rbdc: 5, ..Grant::default() });
        ncc.apply(0, &rate(16));
        let slots: Vec<_> = (0..4).map(|_| grants(&mut ncc)[0].rbdc).collect();
        assert_eq!(slots, [2, 2, 0, 0]);
    }

    #[test]
    fn volumes_add_up_and_are_given_once_and_a_whole_volume_replaces_them() {
        let mut ncc = Ncc::new(&carrier(), [&terminal(0, 0, 2_500)].into_iter());
        (0..2).for_each(|_| ncc.apply(0, &volume(700)));
        assert_eq!([grants(&mut ncc)[0].vbdc, grants(&mut ncc)[0].vbdc], [10, 4]);
        assert_eq!(grants(&mut ncc)[0].vbdc, 0);
        (0..10).for_each(|_| ncc.apply(0, &volume(700)));
        ncc.apply(0, &Request { whole_volume: Some(Bytes::new(300)), ..Request::default() });
        assert_eq!([grants(&mut ncc)[0].vbdc, grants(&mut ncc)[0].vbdc], [3, 0]);
        (0..10).for_each(|_| ncc.apply(0, &volume(700)));
        assert_eq!((0..5).map(|_| grants(&mut ncc)[0].vbdc).sum::<u64>(), 25, "the cap of the backlog");
    }

    #[test]
    fn constant_rates_come_before_rates_before_volumes_before_free_capacity() {
        let config = CarrierConfig { fca: true, ..carrier() };
        let terminals = [terminal(24, 0, 0), terminal(0, 80, 0), terminal(0, 0, 1_000_000)];
        let mut ncc = Ncc::new(&config, terminals.iter());
        let total = |grants: &[Grant]| grants.iter().map(Grant::total).sum::<u64>();
        let free = grants(&mut ncc);
        assert_eq!((total(&free), free[0].cra, free.iter().map(|grant| grant.fca).sum::<u64>()), (10, 3, 7));
        ncc.apply(1, &rate(40));
        ncc.apply(2, &volume(600));
        let shared = grants(&mut ncc);
        assert_eq!((shared[0].cra, shared[1].rbdc, shared[2].vbdc, total(&shared)), (3, 5, 2, 10));
        assert!(shared.iter().all(|grant| grant.fca == 0));
    }

    #[test]
    fn free_capacity_is_shared_evenly() {
        let config = CarrierConfig { fca: true, ..carrier() };
        let terminals = [terminal(0, 0, 0), terminal(0, 0, 0), terminal(0, 0, 0)];
        let mut ncc = Ncc::new(&config, terminals.iter());
        let mut sums = [0; 3];
        for _ in 0..30 {
            grants(&mut ncc).iter().zip(&mut sums).for_each(|(grant, sum)| *sum += grant.fca);
        }
        assert_eq!(sums, [100; 3]);
    }

    #[test]
    fn rates_that_exceed_the_carrier_are_shared_as_configured() {
        for (sharing, expected) in [(Sharing::MaxMin, [2, 4, 4]), (Sharing::Proportional, [1, 3, 6])] {
            let terminals = [terminal(0, 80, 0), terminal(0, 80, 0), terminal(0, 80, 0)];
            let mut ncc = Ncc::new(&CarrierConfig { sharing, ..carrier() }, terminals.iter());
            for (at, kbit) in [16, 48, 80].into_iter().enumerate() {
                ncc.apply(at, &rate(kbit));
            }
            let given: Vec<_> = grants(&mut ncc).iter().map(|grant| grant.rbdc).collect();
            assert_eq!(given.iter().sum::<u64>(), 10);
            let near = given.iter().zip(expected).all(|(given, expected)| given.abs_diff(expected) <= 1);
            assert!(near, "{sharing:?}: {given:?}");
        }
    }
}
