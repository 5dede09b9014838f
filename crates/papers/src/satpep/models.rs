//! What closed forms say of one file.

use model::limit;
use model::prediction::{self, Control, Direction, Link, Transfer};
use units::{Bytes, Duration, Probability, Rate};

/// A file and the path that it takes.
#[derive(Debug, Clone, Copy)]
pub struct Path {
    /// Its size in MB.
    pub size: f64,
    /// The satellite's rate in Mbit/s.
    pub rate: f64,
    /// The round-trip time between hosts in seconds.
    pub rtt: f64,
    /// The part of it from the sender to the receiver.
    pub one_way: f64,
    /// The probability that a packet is lost.
    pub loss: f64,
}

/// Goodput in Mbit/s: of SACK-TCP by the prediction, of the others the link's physical limit, to which the paper's protocol
/// adds a round trip for the opening.
pub fn goodput(variant: &str, path: &Path) -> Option<f64> {
    let size = Bytes::new((path.size * 1e6).round() as u64);
    let rate = Rate::from_bps((path.rate * 1e6).round() as u64);
    let rtt = Duration::from_secs_f64(path.rtt);
    let loss = Probability::new(path.loss).ok()?;
    let time = match variant {
        "satpep" => limit::time(0.5, size, rate, rtt, loss),
        "satpep-2003" => limit::time(1.5, size, rate, rtt, loss),
        tcp => {
            let segments: u64 = tcp.strip_prefix("sack-")?.parse().ok()?;
            let link = Link { rate, rtt, loss, queue: Some(Bytes::new(600 * 1500)) };
            prediction::predict(&link, &sack(size, segments)).ok()?.time.value
        }
    };
    // The models take half of the round trip for the last byte's way.
    let later = path.one_way - path.rtt / 2.0;
    Some(path.size * 8.0 / (time.as_secs_f64() + later))
}

/// As the scenario files have it.
fn sack(size: Bytes, window: u64) -> Transfer {
    Transfer {
        size,
        mss: Bytes::new(1460),
        header: Bytes::new(40),
        window: Some(Bytes::new(window * 1460)),
        initial_window: 2.0,
        ack_every: 1,
        rto: Duration::from_secs(1),
        control: Control::Reno,
        direction: Direction::Up,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deployed_transport_is_bounded_by_the_link_and_tcp_by_its_window_and_losses() {
        let path = |loss| Path { size: 1.0, rate: 6.0, rtt: 0.55, one_way: 0.275, loss };
        let of = |variant, loss| goodput(variant, &path(loss)).expect("known");
        assert!((of("satpep", 0.0) - 8.0 / 1.6562).abs() < 1e-3);
        assert!((of("satpep-2003", 0.0) - 8.0 / 2.2062).abs() < 1e-3);
        assert!(of("sack-500", 1e-2) < of("sack-500", 1e-3) && of("sack-100", 1e-6) < of("sack-500", 1e-6));
        assert_eq!(goodput("reno", &path(0.0)), None);
    }

    #[test]
    fn a_file_comes_by_satellite_where_acknowledgements_return_by_ground() {
        let path = |loss| Path { size: 1.0, rate: 6.0, rtt: 0.309, one_way: 0.277, loss };
        let of = |variant| goodput(variant, &path(0.0)).expect("known");
        // 1.3812 s on the line, and the way there; to the paper's protocol the round trip of the opening.
        assert!((of("satpep") - 8.0 / 1.6582).abs() < 1e-3, "{}", of("satpep"));
        assert!((of("satpep-2003") - 8.0 / 1.9672).abs() < 1e-3, "{}", of("satpep-2003"));
        let alike = goodput("sack-100", &Path { one_way: 0.1545, ..path(0.0) }).expect("known");
        assert!((8.0 / of("sack-100") - 8.0 / alike - 0.1225).abs() < 1e-9);
    }
}
