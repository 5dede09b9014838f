//! What each setting of a host costs, were the others as they should be.

use super::{Buffer, Host, Link, Workload, course};
use units::Duration;

/// Something of a host that can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Knob {
    /// The initial window, and the first receive window that takes it.
    InitialWindow,
    /// How far the receive buffer goes.
    ReceiveBuffer,
    /// How far the send buffer goes.
    SendBuffer,
    /// Whether windows are scaled.
    WindowScaling,
    /// The congestion control.
    Control,
}

impl Knob {
    /// All of them.
    pub const ALL: [Knob; 5] =
        [Knob::InitialWindow, Knob::ReceiveBuffer, Knob::SendBuffer, Knob::WindowScaling, Knob::Control];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Knob::InitialWindow => "initial window",
            Knob::ReceiveBuffer => "receive buffer",
            Knob::SendBuffer => "send buffer",
            Knob::WindowScaling => "window scaling",
            Knob::Control => "congestion control",
        }
    }

    /// Its setting, in words.
    pub fn of(self, host: &Host) -> String {
        match self {
            Knob::InitialWindow => {
                format!("{} segments, first advertised window {}", host.initial_window, host.first_window())
            }
            Knob::ReceiveBuffer if host.grows => format!("grows to {}", host.receive.most),
            Knob::ReceiveBuffer => format!("fixed at {}", host.receive.start),
            Knob::SendBuffer => format!("grows to {}", host.send.most),
            Knob::WindowScaling => if host.scales_windows { "on" } else { "off" }.to_owned(),
            Knob::Control => host.control.name().to_owned(),
        }
    }

    /// `recommended` with this as `now` has it.
    fn left(self, now: &Host, recommended: &Host) -> Host {
        let mut host = *recommended;
        match self {
            Knob::InitialWindow => {
                host.initial_window = now.initial_window;
                host.initial_receive_window = now.initial_receive_window;
                host.receive = Buffer { start: now.receive.start, ..host.receive };
            }
            Knob::ReceiveBuffer => {
                host.receive = Buffer { most: now.receive.most, ..host.receive };
                if !now.grows {
                    host.receive.start = now.receive.start;
                    host.grows = false;
                }
            }
            Knob::SendBuffer => host.send = now.send,
            Knob::WindowScaling => host.scales_windows = now.scales_windows,
            Knob::Control => host.control = now.control,
        }
        host
    }
}

/// What leaving one setting as it is costs a transfer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// The setting.
    pub knob: Knob,
    /// How much longer each transfer takes than with all settings as recommended.
    pub time: Duration,
}

/// The cost of each setting of `now`, were all others as in `recommended`.
pub fn costs(link: &Link, workload: &Workload, now: &Host, recommended: &Host) -> Vec<Cost> {
    let time = |host: &Host| course::of(link, workload, host).time();
    let best = time(recommended);
    let cost = |knob: Knob| Cost { knob, time: time(&knob.left(now, recommended)).saturating_sub(best) };
    Knob::ALL.map(cost).into()
}
