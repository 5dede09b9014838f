//! The cross-layer window (Kim et al.): what the link layer's allocation holds in a round trip, for each connection.

use crate::estimate::Invalid;
use units::{Bytes, Duration, Rate};

/// The least window, in segments: it takes two to be acknowledged at once.
pub const MIN: f64 = 2.0;

/// `max(2, floor(RTT R / (8 (1 + K) S N)))` segments: allocation `R`, payload `S` of a segment, `K` bytes of headers for
/// each byte of payload, `N` connections (0 counts as 1). The round-trip time is that of propagation: one with queues in it
/// would make the window, and the queues, grow without bound.
pub fn segments(capacity: Rate, rtt: Duration, header_share: f64, payload: Bytes, connections: u32) -> f64 {
    let bytes = bytes_per_second_each(capacity, header_share, connections) * rtt.as_secs_f64();
    (bytes / payload.as_u64().max(1) as f64).floor().max(MIN)
}

/// Payload bytes per second of each connection: `R / (8 (1 + K) N)`.
pub fn bytes_per_second_each(capacity: Rate, header_share: f64, connections: u32) -> f64 {
    capacity.as_bps() as f64 / (8.0 * (1.0 + header_share) * f64::from(connections.max(1)))
}

/// What a connection does with its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Nothing waits to be sent.
    Quiet,
    /// It has more to send, and has not filled its window.
    Growing,
    /// It has more to send than its window lets it.
    Full,
}

impl Use {
    /// Of a window of so many segments with `flight` under way. A window is full from 7/8 on, and until it is less than half full.
    pub fn of(has_more: bool, flight: f64, window: f64, before: Option<Use>) -> Self {
        let full = if before == Some(Use::Full) { window / 2.0 } else { window * 7.0 / 8.0 };
        match has_more {
            false => Use::Quiet,
            true if flight >= full => Use::Full,
            true => Use::Growing,
        }
    }
}

/// What of a link's capacity a connection uses: payload bytes per second that it has under way in a round trip. Of a full window
/// that is what the window makes. Over a round trip so short that its share is less than the least window, it is no more than that share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Claim {
    /// What it does.
    pub kind: Use,
    /// Payload bytes per second.
    pub rate: f64,
}

/// What the connections of a link do, by their use: how many they are and what they claim.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Account {
    connections: [u32; 3],
    rates: [f64; 3],
}

impl Account {
    /// Counts a connection.
    pub fn add(&mut self, claim: Claim) {
        self.connections[claim.kind as usize] += 1;
        self.rates[claim.kind as usize] += claim.rate;
    }

    /// Forgets what [`Account::add`] has counted.
    pub fn remove(&mut self, claim: Claim) {
        let at = claim.kind as usize;
        self.connections[at] = self.connections[at].saturating_sub(1);
        // Rounding does not add up: nobody uses nothing.
        self.rates[at] = if self.connections[at] == 0 { 0.0 } else { (self.rates[at] - claim.rate).max(0.0) };
    }

    /// The rate at which a connection that is not counted here may fill its window. Those that have not filled theirs do so together
    /// at the link's rate, for which those with full ones make way.
    pub fn pace(&self, all: f64, kind: Use) -> f64 {
        if kind == Use::Full { 0.0 } else { all / f64::from(self.connections[Use::Growing as usize] + 1) }
    }

    /// The window in segments of a connection that is not counted here and does this, where all may have `all` payload bytes per
    /// second and one segment in a round trip is `each`. What those use that have no more to send is theirs; what is left is
    /// divided between those that have (max-min fairness). Those with a full window divide also what the growing ones have not
    /// come to use yet: unused window is theirs until it is used. What is left of dividing whole segments goes to who comes
    /// first, so that all together have `all`.
    pub fn window(&self, all: f64, each: f64, kind: Use) -> f64 {
        let [quiet, growing, full] = self.rates;
        // A hair more: what are whole segments stays so.
        let whole = |rate: f64| (rate / each + 1e-6).floor();
        let window = whole(self.share(all, kind));
        let spare = kind == Use::Full && whole(all - quiet - growing - full) > window;
        (window + f64::from(u8::from(spare))).max(MIN)
    }

    /// The same in payload bytes per second, before it is divided into segments.
    fn share(&self, all: f64, kind: Use) -> f64 {
        let [quiet, growing, _] = self.rates;
        let [_, others, rivals] = self.connections.map(f64::from);
        let left = (all - quiet).max(0.0);
        let fair = left / (others + rivals + 1.0);
        if kind == Use::Full { fair.max((left - growing) / (rivals + 1.0)) } else { fair }
    }

    /// What a connection that is not counted here claims with so many segments under way.
    pub fn claim(&self, all: f64, each: f64, kind: Use, flight: f64) -> Claim {
        let used = each * if kind == Use::Full { self.window(all, each, kind) } else { flight };
        let share = self.share(all, kind);
        Claim { kind, rate: if share < MIN * each { used.min(share) } else { used } }
    }
}

/// [`segments`] for parameters that nobody has checked.
///
/// # Errors
/// If the segment has no payload, the share of headers is negative, or there is no connection.
pub fn checked(
    capacity: Rate,
    rtt: Duration,
    header_share: f64,
    payload: Bytes,
    connections: u32,
) -> Result<f64, Invalid> {
    Invalid::unless(payload > Bytes::ZERO, "mss", payload, "above 0B")?;
    Invalid::unless(header_share >= 0.0, "header share", header_share, "0 or more")?;
    Invalid::unless(connections > 0, "connections", connections, "1 or more")?;
    Ok(segments(capacity, rtt, header_share, payload, connections))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_windows_of_the_paper() {
        let of = |mbit: u64, connections| {
            let rate = Rate::from_bps(mbit * 1_000_000);
            checked(rate, Duration::from_millis(500), 0.0505, Bytes::new(1460), connections).unwrap()
        };
        for (connections, expected) in [(1, 326.0), (2, 163.0), (10, 32.0)] {
            assert_eq!(of(8, connections), expected);
        }
        assert_eq!((of(4, 1), of(0, 1)), (163.0, 2.0));
    }

    /// The windows of connections with so many segments to send in a round trip, once they no longer change.
    fn settled(wanted: &[f64], all: f64) -> Vec<f64> {
        let mut account = Account::default();
        let mut claims: Vec<Option<Claim>> = vec![None; wanted.len()];
        let mut windows = vec![MIN; wanted.len()];
        for _ in 0..20 {
            for (at, wanted) in wanted.iter().enumerate() {
                let before = claims[at].inspect(|claim| account.remove(*claim)).map(|claim| claim.kind);
                let flight = wanted.min(windows[at]);
                let kind = Use::of(*wanted > flight, flight, windows[at], before);
                windows[at] = account.window(all, 1.0, kind);
                let claim = account.claim(all, 1.0, kind, flight);
                account.add(claim);
                claims[at] = Some(claim);
            }
        }
        windows
    }

    #[test]
    fn a_flow_that_is_limited_has_what_others_leave() {
        assert_eq!(settled(&[f64::INFINITY], 333.0), [333.0]);
        let shared = settled(&[f64::INFINITY; 10], 333.0);
        assert!(shared.iter().sum::<f64>() == 333.0 && shared.iter().all(|w| [33.0, 34.0].contains(w)), "{shared:?}");
        // Two that use less than their shares, and one that has the rest.
        let beside = settled(&[14.0, f64::INFINITY, 3.0], 300.0);
        assert_eq!(beside[1], 283.0);
        assert!(beside[0] >= 100.0 && beside[2] >= 100.0, "{beside:?}");
        let two = settled(&[14.0, f64::INFINITY, 3.0, f64::INFINITY], 300.0);
        assert!(two[1] + two[3] == 283.0 && two[1] >= 141.0 && two[3] >= 141.0, "{two:?}");
    }

    #[test]
    fn who_begins_has_its_share_and_takes_only_what_it_uses() {
        let mut account = Account::default();
        account.add(Claim { kind: Use::Full, rate: 300.0 });
        assert_eq!(account.window(300.0, 1.0, Use::Growing), 150.0);
        let mut beside = Account::default();
        beside.add(Claim { kind: Use::Growing, rate: 10.0 });
        assert_eq!(beside.window(300.0, 1.0, Use::Full), 290.0);
        assert_eq!(beside.window(300.0, 1.0, Use::Growing), 150.0);
    }

    /// A segment under way for 0.2 ms stands for more than the whole link.
    #[test]
    fn a_short_round_trip_claims_no_more_than_its_share() {
        let (all, lan, satellite) = (952_000.0, 1448.0 / 0.2e-3, 1448.0 / 0.55);
        let mut account = Account::default();
        let transfer = account.claim(all, satellite, Use::Full, 361.0);
        account.add(transfer);
        let record = account.claim(all, lan, Use::Quiet, 1.0);
        account.add(record);
        account.remove(transfer);
        assert_eq!(account.window(all, satellite, Use::Full), 180.0);
    }

    #[test]
    fn what_means_nothing_is_refused() {
        let of = |share, payload, connections| {
            checked(Rate::from_bps(1), Duration::ZERO, share, Bytes::new(payload), connections).unwrap_err().parameter
        };
        assert_eq!(of(0.05, 0, 1), "mss");
        assert_eq!(of(-0.1, 1460, 1), "header share");
        assert_eq!(of(0.05, 1460, 0), "connections");
    }
}
