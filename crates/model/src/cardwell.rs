//! Transfers that may end in slow start (Cardwell, Savage and Anderson, "Modeling TCP Latency", INFOCOM 2000).

use crate::estimate::{Estimate, Invalid};
use crate::lossy_path::LossyPath;
use crate::pftk;
use units::Duration;

/// What a transfer of `segments` segments over a [`LossyPath`] begins with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transfer {
    /// Data, in segments: `d`.
    pub segments: f64,
    /// The first window, in segments: `w1`.
    pub initial: f64,
    /// What a delayed acknowledgement of a lone first segment costs: 100 ms on average in BSD, 150 ms in Windows.
    pub delayed_ack: Duration,
    /// The handshake; none where the connection is open already.
    pub handshake: Option<Handshake>,
}

/// The opening of a connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Handshake {
    /// The first timeout of a SYN: `Ts`, 1 s now and 3 s then.
    pub timeout: Duration,
}

/// Where the time goes, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Latency {
    /// Opening the connection.
    pub handshake_s: f64,
    /// Slow start: `E[Tss]`.
    pub slow_start_s: f64,
    /// The first loss: `E[Tloss]`.
    pub loss_s: f64,
    /// What is left, at the rate of a long transfer: `E[Tca]`.
    pub avoidance_s: f64,
    /// A delayed acknowledgement: `E[Tdelack]`.
    pub delayed_ack_s: f64,
    /// Segments sent before the first loss is seen: `E[dss]`.
    pub slow_start_segments: f64,
}

impl Latency {
    /// All of it.
    pub fn total(&self) -> Duration {
        let parts = self.handshake_s + self.slow_start_s + self.loss_s + self.avoidance_s + self.delayed_ack_s;
        Duration::from_secs_f64(parts)
    }
}

/// The expected time of a transfer. The link's rate does not enter: a caller that knows a lower rate must doubt it
/// than the windows want.
///
/// # Errors
/// If a parameter is outside what [`LossyPath`] says, there is no data or less than one segment in the first window.
pub fn latency(path: &LossyPath, transfer: &Transfer) -> Result<Estimate<Latency>, Invalid> {
    path.check_all_but_loss()?;
    Invalid::unless(transfer.segments > 0.0, "size", format!("{} segments", transfer.segments), "above 0 segments")?;
    let initial = transfer.initial;
    Invalid::unless(initial >= 1.0, "initial window", format!("{initial} segments"), "1 segment or more")?;
    let (p, data) = (path.p(), transfer.segments);
    let before_loss = slow_start_segments(p, data);
    let window = reached_window(path, initial, before_loss);
    let latency = Latency {
        handshake_s: transfer.handshake.map_or(0.0, |handshake| handshake_s(path, handshake)),
        slow_start_s: slow_start_s(path, initial, before_loss),
        loss_s: if p > 0.0 { first_loss_s(path, data, window) } else { 0.0 },
        avoidance_s: match data - before_loss {
            rest if p > 0.0 && rest > 0.0 => rest / pftk::segments_per_second(path, pftk::Counted::Received),
            _ => 0.0,
        },
        delayed_ack_s: transfer.delayed_ack.as_secs_f64(),
        slow_start_segments: before_loss,
    };
    let reason = || format!("loss {} is above {}: hardly a window is left to speak of", path.loss, pftk::MAX_LOSS);
    Ok(Estimate::unless(latency, p > pftk::MAX_LOSS, reason))
}

/// Segments sent until the first loss is seen, that loss included: `E[dss]`.
pub(crate) fn slow_start_segments(p: f64, data: f64) -> f64 {
    if p == 0.0 {
        return data;
    }
    let any = -(data * (-p).ln_1p()).exp_m1();
    (any * (1.0 - p) / p + 1.0).min(data)
}

/// By what the window grows in a round trip: `gamma = 1 + 1/b`.
fn growth(path: &LossyPath) -> f64 {
    1.0 + 1.0 / path.b()
}

/// The window at the end of slow start without a receiver's: `E[Wss]`.
pub(crate) fn reached_window(path: &LossyPath, initial: f64, segments: f64) -> f64 {
    let growth = growth(path);
    segments * (growth - 1.0) / growth + initial / growth
}

/// `E[Tss]`.
fn slow_start_s(path: &LossyPath, initial: f64, segments: f64) -> f64 {
    let growth = growth(path);
    let most = path.window.unwrap_or(f64::INFINITY);
    let rounds = if initial >= most {
        segments / most
    } else if reached_window(path, initial, segments) > most {
        let growing = (growth * most - initial) / (growth - 1.0);
        (most / initial).log(growth) + 1.0 + (segments - growing) / most
    } else {
        (segments * (growth - 1.0) / initial + 1.0).log(growth)
    };
    rounds * path.rtt.as_secs_f64()
}

/// `E[Tloss]`: a timeout, or a round trip of fast retransmit.
fn first_loss_s(path: &LossyPath, data: f64, window: f64) -> f64 {
    let p = path.p();
    let any = -(data * (-p).ln_1p()).exp_m1();
    let timeout = pftk::timeout_probability(p, window.min(path.window.unwrap_or(f64::INFINITY)));
    let timeouts = pftk::timeouts_length(p) * path.rto.as_secs_f64() / (1.0 - p);
    any * (timeout * timeouts + (1.0 - timeout) * path.rtt.as_secs_f64())
}

/// A round trip, and the timeouts of lost SYNs either way; those of a path that loses half of them never end.
fn handshake_s(path: &LossyPath, handshake: Handshake) -> f64 {
    let p = path.p();
    let waits = 2.0 * ((1.0 - p) / (1.0 - 2.0 * p).max(f64::MIN_POSITIVE) - 1.0);
    path.rtt.as_secs_f64() + handshake.timeout.as_secs_f64() * waits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lossy_path::geostationary;
    use proptest::prelude::*;
    use units::Probability;

    fn transfer(segments: f64) -> Transfer {
        Transfer { segments, initial: 1.0, delayed_ack: Duration::ZERO, handshake: None }
    }

    fn seconds(path: &LossyPath, transfer: &Transfer) -> f64 {
        latency(path, transfer).unwrap().value.total().as_secs_f64()
    }

    #[test]
    fn check_values_without_loss() {
        let path = LossyPath { rtt: Duration::from_millis(570), ..geostationary(0.0, 1) };
        assert!((seconds(&path, &transfer(69.0)) - 3.4937).abs() < 5e-5);
        let windowed = LossyPath { ack_every: 2, window: Some(22.0), ..path };
        assert!((seconds(&windowed, &transfer(69.0)) - 5.0449).abs() < 5e-5);
    }

    #[test]
    fn the_handshake_and_the_delayed_acknowledgement_are_added() {
        let path = geostationary(0.01, 1);
        let opened = Transfer {
            delayed_ack: Duration::from_millis(100),
            handshake: Some(Handshake { timeout: Duration::from_secs(1) }),
            ..transfer(69.0)
        };
        let more = seconds(&path, &opened) - seconds(&path, &transfer(69.0));
        assert!((more - (0.1 + 0.55 + 2.0 * (0.99 / 0.98 - 1.0))).abs() < 1e-9, "{more}");
    }

    #[test]
    fn long_transfers_come_to_the_rate_of_pftk() {
        let path = geostationary(1e-3, 2);
        let rate = pftk::segments_per_second(&path, pftk::Counted::Received);
        assert!((1e6 / seconds(&path, &transfer(1e6)) / rate - 1.0).abs() < 0.01);
    }

    #[test]
    fn what_means_nothing_is_refused() {
        let path = geostationary(0.01, 1);
        assert_eq!(latency(&path, &transfer(0.0)).unwrap_err().parameter, "size");
        let none = Transfer { initial: 0.0, ..transfer(1.0) };
        assert_eq!(latency(&path, &none).unwrap_err().parameter, "initial window");
        assert!(!latency(&geostationary(0.4, 1), &transfer(5.0)).unwrap().is_valid());
    }

    proptest! {
        #[test]
        fn more_data_or_delay_takes_longer(
            p in 0.0f64..0.1, data in 1.0f64..5000.0, more in 1.0f64..500.0, window in 4.0f64..1000.0, initial in 1.0f64..4.0,
        ) {
            let loss = Probability::new(p).unwrap();
            let path = LossyPath { loss, window: Some(window), ..geostationary(0.0, 1) };
            let of = |path: &LossyPath, data| seconds(path, &Transfer { initial, ..transfer(data) });
            let now = of(&path, data);
            prop_assert!(now.is_finite() && now > 0.0);
            prop_assert!(of(&path, data + more) >= now * (1.0 - 1e-9));
            let farther = LossyPath { rtt: path.rtt * 2, ..path };
            prop_assert!(of(&farther, data) >= now * (1.0 - 1e-9));
        }
    }
}
