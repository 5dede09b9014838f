//! How much of the satellite link other traffic takes: what leaves its interface, less what we have sent ourselves.

use crate::daemon::{StartError, while_doing};
use kernel::interfaces::{Interface, Interfaces};
use std::io;
use units::{Bytes, Duration, Instant, Rate};

/// How often the interface is read.
pub(crate) const PERIOD: Duration = Duration::from_millis(100);
/// Weight of the newest reading: the estimate follows a change within about half a second.
const GAIN: f64 = 0.3;

/// Reads an interface's counter and keeps a smoothed rate.
#[derive(Debug)]
pub(crate) struct OutsideTraffic {
    name: String,
    interfaces: Interfaces,
    last: Option<Reading>,
    /// Bytes that we had sent by the last reading and that the interface had not counted yet.
    on_the_way: u64,
    smoothed_bps: f64,
    is_missing: bool,
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Instant,
    /// Which interface had the name.
    index: u32,
    interface_bytes: u64,
    interface_packets: u64,
    own_bytes: u64,
}

impl OutsideTraffic {
    /// Measures `interface` of the network namespace of the calling thread.
    pub(crate) fn new(interface: &str) -> Result<Self, StartError> {
        let mut interfaces = Interfaces::new()?;
        let doing = || while_doing(format!("[link] interface {interface}"));
        if interfaces.get(interface).map_err(doing())?.is_none() {
            let names = interfaces.all().map_err(doing())?.into_iter().map(|one| one.name).collect::<Vec<_>>();
            let there = format!("there is no such interface, but {}", names.join(", "));
            return Err(doing()(io::Error::new(io::ErrorKind::NotFound, there)));
        }
        let name = interface.to_owned();
        Ok(Self { name, interfaces, last: None, on_the_way: 0, smoothed_bps: 0.0, is_missing: false })
    }

    /// Takes a reading; `own_bytes` are the IP bytes that we have sent so far. Returns the rate of all other traffic.
    pub(crate) fn update(&mut self, now: Instant, own_bytes: u64) -> Rate {
        if let Some(interface) = self.read() {
            self.take(now, &interface, own_bytes);
        }
        Rate::from_bps(self.smoothed_bps as u64)
    }

    /// The interface, while there is one: it may go and come again.
    fn read(&mut self) -> Option<Interface> {
        let Ok(found) = self.interfaces.get(&self.name) else { return None };
        match (&found, self.is_missing) {
            (None, false) => tracing::warn!(
                interface = self.name,
                "the interface of [link] has gone: other traffic on it counts as none until it is back"
            ),
            (Some(_), true) => tracing::info!(interface = self.name, "the interface of [link] is back"),
            _ => {}
        }
        self.is_missing = found.is_none();
        if self.is_missing {
            (self.last, self.on_the_way, self.smoothed_bps) = (None, 0, 0.0);
        }
        found
    }

    fn take(&mut self, now: Instant, interface: &Interface, own_bytes: u64) {
        let reading = Reading {
            at: now,
            index: interface.index,
            interface_bytes: interface.sent_bytes,
            interface_packets: interface.sent_packets,
            own_bytes,
        };
        // One that was made anew has counted from 0.
        match self.last.filter(|last| last.index == reading.index) {
            Some(last) => {
                let (others, on_the_way) = others(last, reading, self.on_the_way);
                self.on_the_way = on_the_way;
                let bps = Rate::from_transfer(Bytes::new(others), now.since(last.at)).as_bps() as f64;
                self.smoothed_bps += GAIN * (bps - self.smoothed_bps);
            }
            None => self.on_the_way = 0,
        }
        self.last = Some(reading);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_made_anew_counts_from_zero_and_one_that_is_gone_has_no_traffic() {
        let Some(namespace) = kernel::testing::namespace() else { return };
        let ip = |command: &str| kernel::network::IpBatch::new(&namespace).add(command).run().unwrap();
        ip("link add sat type veth peer name far");
        let mut outside = namespace.run(|| OutsideTraffic::new("sat")).unwrap().unwrap();
        let refusal = namespace.run(|| OutsideTraffic::new("sta")).unwrap().unwrap_err().to_string();
        assert!(refusal.contains("[link] interface sta: there is no such interface") && refusal.contains("sat"));
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let index = outside.read().unwrap().index;
        let counted = |index, sent_bytes| Interface {
            index,
            name: "sat".into(),
            mtu: 1500,
            is_up: true,
            is_running: true,
            sent_bytes,
            sent_packets: 0,
        };
        outside.take(at(0), &counted(index, 0), 0);
        outside.take(at(100), &counted(index, 125_000), 0);
        assert_eq!(outside.smoothed_bps, GAIN * 10e6);
        // Others have sent less since it was made than before.
        outside.take(at(200), &counted(index + 1, 62_500), 0);
        outside.take(at(300), &counted(index + 1, 187_500), 0);
        assert!(outside.smoothed_bps > GAIN * 10e6, "{}", outside.smoothed_bps);
        ip("link del sat");
        assert_eq!(outside.update(at(400), 0), Rate::from_bps(0));
        ip("link add sat type veth peer name far");
        outside.update(at(500), 0);
        assert!(!outside.is_missing);
    }

    #[test]
    fn own_bytes_and_ethernet_headers_are_not_others_traffic() {
        let at = |ms, interface_bytes, interface_packets, own_bytes| Reading {
            at: Instant::ZERO + Duration::from_millis(ms),
            index: 7,
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
            index: 7,
            interface_bytes: interface_packets * 1_514,
            interface_packets,
            own_bytes,
        };
        let (first, on_the_way) = others(at(0, 0), at(0, 1_500), 0);
        assert_eq!((first, on_the_way), (0, 1_500));
        assert_eq!(others(at(0, 1_500), at(1, 1_500), on_the_way), (0, 0));
    }
}
