//! `Agent/TCP/Vegas`: the window follows the difference between expected and actual rate, once in a round trip, and a fine timer for each
//! packet finds losses before the third duplicate.

use super::state::{Ack, Action, DUPLICATES, Parameters, State};
use super::variant::Variant;
use units::Instant;

/// The window after a timeout (`v_slowstart_`).
const RESTART_WINDOW: f64 = 2.0;

/// Times are in seconds since [`Vegas::start`].
#[derive(Debug)]
pub(super) struct Vegas {
    alpha: f64,
    beta: f64,
    gamma: f64,
    /// When the first packet left, for the first time or again.
    start: Instant,
    /// One slot for each packet of the receiver's window.
    slots: Vec<Slot>,
    base_rtt: f64,
    estimate: FineTimeout,
    /// Sum and number of the samples of this round trip.
    samples: (f64, u32),
    /// The round trip ends when this packet has arrived; it began at this time.
    round: (u64, f64),
    increment: f64,
    /// In slow start the window grows in every other round trip.
    grows_this_round: bool,
    /// So many acknowledgements after a retransmission have the fine timer checked.
    worried: u64,
    window_changed: f64,
    /// The window without what duplicates have added.
    deflated: f64,
    /// The first acknowledgement has given the first estimates.
    had_ack: bool,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    sent: f64,
    transmissions: u32,
}

const EMPTY: Slot = Slot { sent: -1.0, transmissions: 0 };

/// Smoothed round-trip time (in eighths), deviation (in quarters) and the timeout that follows.
#[derive(Debug)]
struct FineTimeout {
    smoothed: f64,
    deviation: f64,
    value: f64,
}

impl Vegas {
    pub(super) fn new(parameters: &Parameters) -> Self {
        let [alpha, beta, gamma] = parameters.vegas;
        Self {
            alpha,
            beta,
            gamma,
            start: Instant::ZERO,
            slots: vec![EMPTY; parameters.window as usize],
            base_rtt: 1e9,
            estimate: FineTimeout { smoothed: 0.0, deviation: 0.0, value: 1000.0 },
            samples: (0.0, 0),
            round: (0, 0.0),
            increment: 0.0,
            grows_this_round: true,
            worried: 0,
            window_changed: 0.0,
            deflated: 0.0,
            had_ack: false,
        }
    }
}

impl Variant for Vegas {
    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        let now = self.time(ack.now);
        if !self.had_ack {
            self.had_ack = true;
            self.base_rtt = now;
            self.estimate = FineTimeout { smoothed: 8.0 * now, deviation: now, value: 1.5 * now };
        }
        if ack.una > state.una {
            self.on_new_ack(state, ack, now);
        } else if ack.una == state.una {
            self.on_duplicate(state, ack.now, now);
        }
        if state.duplicates == 0 || state.duplicates >= DUPLICATES {
            state.may_send(u64::MAX);
        }
    }

    fn on_timeout(&mut self, state: &mut State, now: Instant) {
        if !state.has_outstanding() && state.nxt >= state.available {
            return state.time_out(now);
        }
        state.duplicates = 0;
        state.recover = state.high;
        state.action = Action::Timeout;
        state.clock.back_off();
        state.timeouts += u64::from(state.has_outstanding());
        state.go_back(now);
        state.halve_threshold();
        state.cwnd = RESTART_WINDOW;
        self.deflated = 0.0;
        self.window_changed = self.time(now);
        state.may_send(u64::MAX);
    }

    fn on_sent(&mut self, state: &mut State, packet: u64, now: Instant) {
        if packet == 0 {
            self.start = now;
            self.slots.fill(EMPTY);
        }
        let sent = self.time(now);
        let slot = self.slot(packet);
        slot.sent = sent;
        slot.transmissions += 1;
        state.time_packet(packet, now);
        state.clock.restart_if_idle(now);
    }
}

impl Vegas {
    fn time(&self, now: Instant) -> f64 {
        now.since(self.start).as_secs_f64()
    }

    fn slot(&mut self, packet: u64) -> &mut Slot {
        let slots = self.slots.len() as u64;
        &mut self.slots[(packet % slots) as usize]
    }

    fn on_new_ack(&mut self, state: &mut State, ack: &Ack, now: f64) {
        if state.una == 1 {
            state.cwnd = state.initial_window;
        }
        if state.duplicates > DUPLICATES && state.cwnd > self.deflated {
            state.cwnd = self.deflated;
            state.ssthresh = 2;
        }
        let before = state.una;
        state.on_new_ack_without_growth(ack);
        if state.una > self.round.0 {
            self.end_round(state, now);
        }
        self.grow(state);
        self.measure(before, state.una, now);
        if self.worried > 0 {
            self.worried -= 1;
            if self.has_expired(state, now) {
                state.duplicates = DUPLICATES;
                retransmit(state);
            } else {
                self.worried = 0;
            }
        }
    }

    /// Once in a round trip: what does the difference between expected and actual rate say of the window?
    fn end_round(&mut self, state: &mut State, now: f64) {
        let (sum, count) = std::mem::take(&mut self.samples);
        let (first, began) = std::mem::replace(&mut self.round, (state.nxt, now));
        let rtt = if count > 0 { sum / f64::from(count) } else { now - began };
        if rtt <= 0.0 {
            return;
        }
        let sent = state.nxt - first;
        if rtt < self.base_rtt || sent <= 1 {
            self.base_rtt = rtt;
        }
        let expected = outstanding(state) as f64 / self.base_rtt;
        let actual = sent as f64 / rtt;
        let queued = ((expected - actual) * self.base_rtt + 0.5).trunc();
        if state.cwnd < state.ssthresh as f64 {
            self.grows_this_round = !self.grows_this_round;
            self.increment = 0.0;
            if self.grows_this_round && queued > self.gamma {
                state.ssthresh = 2;
                state.cwnd = (state.cwnd - state.cwnd / 8.0).max(2.0);
            } else if self.grows_this_round {
                self.increment = 1.0;
            }
        } else if queued > self.beta {
            state.cwnd = (state.cwnd - 1.0).max(2.0);
            self.increment = 0.0;
        } else if queued < self.alpha {
            self.increment = 1.0 / state.cwnd;
        } else {
            self.increment = 0.0;
        }
    }

    /// The window grows with each acknowledgement of the round trip, unless it is not used.
    fn grow(&mut self, state: &mut State) {
        if self.increment == 1.0 && state.cwnd >= state.ssthresh as f64 {
            self.increment = 0.0;
        }
        if self.increment > 0.0 && state.cwnd - outstanding(state) as f64 <= 2.0 {
            state.cwnd += self.increment;
        }
    }

    /// A sample from the last packet acknowledged, if it was sent once; the slots of all acknowledged ones are cleared, but not when they
    /// run over the table's end.
    fn measure(&mut self, before: u64, una: u64, now: f64) {
        let Slot { sent, transmissions } = *self.slot(una - 1);
        let slots = self.slots.len() as u64;
        let (from, to) = ((before % slots) as usize, ((una - 1) % slots) as usize);
        if from <= to {
            let count = (una - before).min((to - from + 1) as u64) as usize;
            self.slots[from..from + count].fill(EMPTY);
        }
        if sent == 0.0 || transmissions != 1 {
            return;
        }
        let rtt = now - sent;
        self.samples = (self.samples.0 + rtt, self.samples.1 + 1);
        if rtt > 0.0 {
            self.base_rtt = self.base_rtt.min(rtt);
            self.estimate.sample(rtt);
        }
    }

    fn on_duplicate(&mut self, state: &mut State, at: Instant, now: f64) {
        state.duplicates += 1;
        if self.has_expired(state, now) || state.duplicates == DUPLICATES {
            if state.una > state.recover || state.action != Action::Timeout {
                self.on_loss(state, at, now);
            }
        } else if state.duplicates > DUPLICATES {
            state.cwnd += 1.0;
        }
    }

    fn on_loss(&mut self, state: &mut State, at: Instant, now: f64) {
        let Slot { sent, transmissions } = *self.slot(state.una);
        let window = state.whole_window();
        state.on_fast_retransmission();
        self.worried = outstanding(state).min(2);
        self.estimate.value *= if transmissions > 1 { 2.0 } else { 1.125 };
        if self.window_changed < sent {
            let window = match window {
                ..=3 => 2,
                _ if transmissions > 1 => window / 2,
                _ => window - window / 4,
            };
            self.deflated = window as f64;
            state.cwnd = self.deflated + state.duplicates as f64;
            self.window_changed = now;
        }
        state.clock.back_off();
        state.clock.restart(at);
        state.clock.forget_timing();
        retransmit(state);
        if transmissions == 1 {
            state.duplicates = DUPLICATES;
        }
    }

    /// Whether the fine timer of the first outstanding packet has run out.
    fn has_expired(&mut self, state: &State, now: f64) -> bool {
        now - self.slot(state.una).sent >= self.estimate.value
    }
}

fn retransmit(state: &mut State) {
    if state.una < state.available {
        state.force(state.una);
    }
}

/// ns-2's count of packets in transit, one more than there are.
fn outstanding(state: &State) -> u64 {
    state.nxt - state.una + 1
}

impl FineTimeout {
    fn sample(&mut self, rtt: f64) {
        let error = rtt - self.smoothed / 8.0;
        self.smoothed += error;
        self.deviation += error.abs() - self.deviation / 4.0;
        self.value = (self.smoothed / 4.0 + self.deviation) / 2.0 * (17.0 / 16.0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::agent::Agent;
    use super::super::clock::Bounds;
    use super::*;
    use crate::kinds::Ns2Agent;
    use crate::rtt::RttRules;

    #[test]
    fn a_window_deflated_to_nothing_is_two_again_after_the_timeout() {
        let timeout = Bounds::of(&RttRules::ns2());
        let parameters = Parameters { window: 20, ssthresh: 20, initial_window: 2.0, vegas: [1.0, 3.0, 1.0], timeout };
        let mut agent = Agent::new(Ns2Agent::Vegas, &parameters);
        agent.state.available = 100;
        agent.state.may_send(u64::MAX);
        assert_eq!(agent.poll_transmit(Instant::ZERO), Some(0));
        let second = |second| Instant::ZERO + units::Duration::from_secs(second);
        agent.handle_ack(&Ack { now: second(1), una: 1, sacked: &[] });
        // After a timeout the deflated window is nothing: the end of an inflation leaves none, all having arrived.
        agent.state.cwnd = 0.0;
        assert_eq!(agent.poll_transmit(second(1)), None);
        agent.handle_timeout(second(3));
        assert_eq!(agent.state.cwnd, 2.0);
        assert_eq!([(); 3].map(|()| agent.poll_transmit(second(3))), [Some(1), Some(2), None]);
        assert_eq!(agent.state.timeouts, 0);
    }
}
