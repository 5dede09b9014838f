//! Where two traces of the same transfer part.

use serde::Serialize;

/// A transfer at a time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct State {
    /// Since the client connected, in seconds.
    pub time_s: f64,
    /// What the receiver has.
    pub delivered_bytes: u64,
    /// The sender's congestion window, in segments.
    pub cwnd: u64,
}

/// The first difference of the windows that lasts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Parting {
    /// The kernel's state then.
    pub kernel: State,
    /// The simulator's.
    pub simulated: State,
}

/// Windows differ by more than so many segments, and by more than this share of the larger one.
const SEGMENTS: u64 = 2;
const SHARE: f64 = 0.15;
/// For so many samples in a row: the worlds are not looked at at the same instants.
const SAMPLES: usize = 5;

impl Parting {
    /// Where the windows of the kernel and of the simulator part; `None` if they do not.
    pub(super) fn of(kernel: &[State], simulated: &[State]) -> Option<Self> {
        let mut run = 0;
        let mut first = None;
        for kernel in kernel {
            let after = simulated.partition_point(|state| state.time_s <= kernel.time_s);
            // The simulation's samples end with the transfer.
            if after == simulated.len() {
                break;
            }
            let Some(simulated) = simulated[..after].last() else { continue };
            if !differ(kernel.cwnd, simulated.cwnd) {
                run = 0;
                continue;
            }
            if run == 0 {
                first = Some(Self { kernel: *kernel, simulated: *simulated });
            }
            run += 1;
            if run == SAMPLES {
                return first;
            }
        }
        None
    }
}

fn differ(one: u64, other: u64) -> bool {
    let difference = one.abs_diff(other);
    difference > SEGMENTS && difference as f64 > SHARE * one.max(other) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(windows: impl IntoIterator<Item = u64>) -> Vec<State> {
        let state = |(number, cwnd)| State { time_s: number as f64 / 100.0, delivered_bytes: 0, cwnd };
        windows.into_iter().enumerate().map(state).collect()
    }

    #[test]
    fn traces_part_where_the_windows_differ_for_a_while() {
        let kernel = trace((0..100).map(|at| if at < 40 { 10 } else { 20 }));
        let simulated = trace((0..100).map(|_| 10));
        let parting = Parting::of(&kernel, &simulated).expect("they part");
        assert_eq!((parting.kernel.time_s, parting.kernel.cwnd, parting.simulated.cwnd), (0.4, 20, 10));
    }

    #[test]
    fn a_shift_of_a_sample_and_a_difference_of_little_are_none() {
        let kernel = trace((0..100).map(|at| if at < 40 { 10 } else { 20 }));
        let simulated = trace((0..100).map(|at| if at < 42 { 11 } else { 21 }));
        assert_eq!(Parting::of(&kernel, &simulated), None);
    }
}
