//! How much of the satellite link other traffic takes: what leaves its interface, less what we have sent ourselves.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use units::{Bytes, Duration, Instant, Rate};

/// How often the interface is read.
pub(crate) const PERIOD: Duration = Duration::from_millis(100);
/// Weight of the newest reading: the estimate follows a change within about half a second.
const GAIN: f64 = 0.3;

/// Reads an interface's counter and keeps a smoothed rate.
#[derive(Debug)]
pub(crate) struct OutsideTraffic {
    interface: String,
    file: File,
    last: Option<Reading>,
    /// Bytes that we had sent by the last reading and that the interface had not counted yet.
    on_the_way: u64,
    smoothed_bps: f64,
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Instant,
    interface_bytes: u64,
    interface_packets: u64,
    own_bytes: u64,
}

impl OutsideTraffic {
    /// Measures `interface` of the network namespace of the calling thread.
    pub(crate) fn new(interface: &str) -> io::Result<Self> {
        let file = File::open("/proc/thread-self/net/dev")?;
        let mut outside = Self { interface: interface.to_owned(), file, last: None, on_the_way: 0, smoothed_bps: 0.0 };
        match outside.read()? {
            Some(_) => Ok(outside),
            None => Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no interface {interface}"))),
        }
    }

    /// Takes a reading; `own_bytes` are the IP bytes that we have sent so far. Returns the rate of all other traffic.
    pub(crate) fn update(&mut self, now: Instant, own_bytes: u64) -> Rate {
        if let Ok(Some((interface_bytes, interface_packets))) = self.read() {
            let reading = Reading { at: now, interface_bytes, interface_packets, own_bytes };
            if let Some(last) = self.last {
                let (others, on_the_way) = others(last, reading, self.on_the_way);
                self.on_the_way = on_the_way;
                let bps = Rate::from_transfer(Bytes::new(others), now.since(last.at)).as_bps() as f64;
                self.smoothed_bps += GAIN * (bps - self.smoothed_bps);
            }
            self.last = Some(reading);
        }
        Rate::from_bps(self.smoothed_bps as u64)
    }

    /// Bytes and packets that have left the interface.
    fn read(&mut self) -> io::Result<Option<(u64, u64)>> {
        let mut text = vec![0; 16_384];
        let length = self.file.read_at(&mut text, 0)?;
        Ok(parse(&String::from_utf8_lossy(&text[..length]), &self.interface))
    }
}

/// IP bytes that others have sent between two readings, given those of ours that the interface had yet to count at the
/// first; and those that it has yet to count at the second.
fn others(last: Reading, now: Reading, on_the_way: u64) -> (u64, u64) {
    /// The interface counts the Ethernet header, too.
    const ETHERNET: u64 = 14;
    let packets = now.interface_packets.saturating_sub(last.interface_packets);
    let all = now.interface_bytes.saturating_sub(last.interface_bytes).saturating_sub(packets * ETHERNET);
    let own = now.own_bytes.saturating_sub(last.own_bytes);
    (all.saturating_sub(own + on_the_way), own.saturating_sub(all))
}

/// Transmitted bytes and packets of `interface` in the text of /proc/net/dev.
fn parse(text: &str, interface: &str) -> Option<(u64, u64)> {
    let fields = text.lines().find_map(|line| {
        let (name, fields) = line.split_once(':')?;
        (name.trim() == interface).then_some(fields)
    })?;
    let mut transmitted = fields.split_whitespace().skip(8).map(str::parse);
    Some((transmitted.next()?.ok()?, transmitted.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:     100       2    0    0    0     0          0         0      100       2    0    0    0     0       0          0
  sat0: 5000 10 0 0 0 0 0 0 77014 51 0 0 0 0 0 0
";

    #[test]
    fn reads_what_was_transmitted() {
        assert_eq!(parse(TEXT, "sat0"), Some((77_014, 51)));
        assert_eq!(parse(TEXT, "sat"), None);
    }

    #[test]
    fn own_bytes_and_ethernet_headers_are_not_others_traffic() {
        let at = |ms, interface_bytes, interface_packets, own_bytes| Reading {
            at: Instant::ZERO + Duration::from_millis(ms),
            interface_bytes,
            interface_packets,
            own_bytes,
        };
        // 10 packets of 1,500 bytes, 6 of them ours.
        let (last, now) = (at(0, 1000, 5, 700), at(100, 1000 + 15_140, 15, 700 + 9_000));
        assert_eq!(others(last, now, 0), (6_000, 0));
    }

    #[test]
    fn what_we_have_sent_is_not_taken_for_others_when_it_is_counted_late() {
        let at = |interface_packets, own_bytes| Reading {
            at: Instant::ZERO,
            interface_bytes: interface_packets * 1_514,
            interface_packets,
            own_bytes,
        };
        let (first, on_the_way) = others(at(0, 0), at(0, 1_500), 0);
        assert_eq!((first, on_the_way), (0, 1_500));
        assert_eq!(others(at(0, 1_500), at(1, 1_500), on_the_way), (0, 0));
    }
}
