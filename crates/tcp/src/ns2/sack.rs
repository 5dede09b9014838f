//! `Agent/TCP/Sack1`: fast recovery by selective acknowledgements, with a counter for the packets in the pipe.

use super::holes::Holes;
use super::state::{Ack, DUPLICATES, State};
use super::variant::Variant;
use units::Instant;

#[derive(Debug, Default)]
pub(super) struct Sack {
    holes: Holes,
    recovering: bool,
    /// After a timeout and until new packets arrive, duplicates mean nothing.
    ignores_duplicates: bool,
    /// Packets believed in the network. Only a counter: it may fall below zero.
    pipe: i64,
    /// `una` as it was when the recovery began, while it lasts: the window outside recovery starts from it.
    base: u64,
}

impl Variant for Sack {
    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        if self.recovering {
            self.recover(state, ack);
            state.may_send(u64::MAX);
        } else {
            self.on_ordinary_ack(state, ack);
            if state.duplicates == 0 {
                state.may_send(u64::MAX);
            }
        }
    }

    fn on_timeout(&mut self, state: &mut State, now: Instant) {
        state.duplicates = 0;
        self.recovering = false;
        self.ignores_duplicates = true;
        self.base = state.una;
        self.holes.clear();
        state.time_out(now);
    }

    fn next(&mut self, state: &mut State) -> Option<u64> {
        if let Some(forced) = state.take_forced() {
            return Some(forced);
        }
        let (room, window) = if self.recovering {
            (self.pipe < state.cwnd as i64, state.window)
        } else {
            let window = state.whole_window();
            (state.nxt < self.base + window, window)
        };
        let may_send = room && self.base < state.available && state.take_burst();
        let packet = if may_send { self.choose(state, window) } else { None };
        match packet {
            Some(packet) => {
                state.nxt = state.nxt.max(packet + 1);
                self.pipe += 1;
            }
            None => state.end_burst(),
        }
        packet
    }
}

impl Sack {
    fn on_ordinary_ack(&mut self, state: &mut State, ack: &Ack) {
        if ack.una > self.base {
            state.on_new_ack(ack);
            self.on_progress(state);
        } else if ack.una == self.base && !self.ignores_duplicates && self.holes.update(state.una, ack.sacked) {
            state.duplicates += 1;
            if state.duplicates == DUPLICATES {
                if state.may_retransmit_fast() {
                    self.pipe = (state.high - state.una) as i64 - DUPLICATES as i64;
                    self.recovering = true;
                    self.holes.sent_again(state.una);
                    state.halve_and_retransmit(ack.now);
                }
            } else if state.duplicates < DUPLICATES {
                state.send_one();
            }
        }
    }

    fn recover(&mut self, state: &mut State, ack: &Ack) {
        self.pipe -= 1;
        if ack.una >= state.recover {
            state.recover = 1;
            self.recovering = false;
            state.on_new_ack_without_growth(ack);
            self.on_progress(state);
        } else if ack.una > state.una {
            state.una = ack.una;
            self.holes.update(ack.una, ack.sacked);
            self.pipe -= 1;
            state.clock.restart(ack.now);
            state.clock.end_backoff();
        } else if !self.ignores_duplicates && self.holes.update(state.una, ack.sacked) && state.duplicates > 0 {
            state.duplicates += 1;
        }
    }

    fn on_progress(&mut self, state: &State) {
        self.base = state.una;
        self.ignores_duplicates = false;
        self.holes.clear();
    }

    /// A hole within the receiver's window, else a new packet within `window`.
    fn choose(&mut self, state: &State, window: u64) -> Option<u64> {
        if let Some(hole) = self.holes.next() {
            let may = state.recover > 1 && hole < state.una + state.window;
            return may.then(|| {
                self.holes.sent_again(hole);
                hole
            });
        }
        (state.nxt < state.una + window && state.nxt < state.available).then_some(state.nxt)
    }
}
