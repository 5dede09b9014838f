//! How much of the satellite link cross traffic takes: what leaves its interface, less what we have sent ourselves.

use crate::error::{StartError, while_doing};
use kernel::interfaces::{Interface, Interfaces};
use relay::cross_traffic::{CrossTraffic, Reading};
use std::io;
use units::{Bytes, Instant, Rate};

/// Reads an interface's counter.
#[derive(Debug)]
pub(crate) struct CrossTrafficMeter {
    name: String,
    interfaces: Interfaces,
    traffic: CrossTraffic,
    /// Which interface had the name at the last reading.
    index: Option<u32>,
}

impl CrossTrafficMeter {
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
        Ok(Self { name, interfaces, traffic: CrossTraffic::default(), index: Some(0) })
    }

    /// IP bytes of cross traffic in all readings so far.
    pub(crate) fn total(&self) -> Bytes {
        self.traffic.total()
    }

    /// Takes a reading; `own_bytes` are the IP bytes that we have sent so far. Returns the rate of all cross traffic.
    pub(crate) fn update(&mut self, now: Instant, own_bytes: u64) -> Rate {
        if let Some(interface) = self.read() {
            self.take(now, &interface, own_bytes);
        }
        self.traffic.rate()
    }

    /// The interface, while there is one: it may go and come again.
    fn read(&mut self) -> Option<Interface> {
        let Ok(found) = self.interfaces.get(&self.name) else { return None };
        if found.is_none() {
            (self.index, self.traffic) = (None, CrossTraffic::default());
        }
        found
    }

    fn take(&mut self, now: Instant, interface: &Interface, own_bytes: u64) {
        // One that was made again has counted from 0.
        if self.index.replace(interface.index) != Some(interface.index) {
            self.traffic.restart();
        }
        let link = interface.sent_bytes.saturating_sub(interface.sent_packets * interface.header_bytes);
        self.traffic.take(Reading { at: now, link, own: own_bytes });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Duration;

    #[test]
    fn an_interface_that_is_made_anew_counts_from_zero_and_one_that_is_gone_has_no_traffic() {
        let Some(namespace) = kernel::testing::namespace() else { return };
        let ip = |command: &str| kernel::network::IpBatch::new(&namespace).add(command).run().unwrap();
        ip("link add sat type veth peer name far");
        let mut meter = namespace.run(|| CrossTrafficMeter::new("sat")).unwrap().unwrap();
        let refusal = namespace.run(|| CrossTrafficMeter::new("sta")).unwrap().unwrap_err().to_string();
        assert!(refusal.contains("[link] interface sta: there is no such interface") && refusal.contains("sat"));
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let index = meter.read().unwrap().index;
        let counted = |index, sent_bytes| Interface {
            index,
            name: "sat".into(),
            mtu: 1500,
            is_up: true,
            is_running: true,
            is_bridge: false,
            is_port: false,
            is_loopback: false,
            master: None,
            link: None,
            header_bytes: 14,
            sent_bytes,
            sent_packets: 0,
        };
        meter.take(at(0), &counted(index, 0), 0);
        meter.take(at(100), &counted(index, 125_000), 0);
        assert_eq!(meter.traffic.rate().as_bps(), 3_000_000);
        // Others have sent less since it was made than before.
        meter.take(at(200), &counted(index + 1, 62_500), 0);
        meter.take(at(300), &counted(index + 1, 187_500), 0);
        assert!(meter.traffic.rate().as_bps() > 3_000_000, "{:?}", meter.traffic);
        ip("link del sat");
        assert_eq!(meter.update(at(400), 0), Rate::from_bps(0));
        ip("link add sat type veth peer name far");
        meter.update(at(500), 0);
        assert!(meter.index.is_some());
    }

    #[test]
    fn ethernet_headers_are_no_traffic() {
        let Some(namespace) = kernel::testing::namespace() else { return };
        let counted = |header_bytes, sent_bytes, sent_packets| Interface {
            index: 1,
            name: "lo".into(),
            mtu: 1500,
            is_up: true,
            is_running: true,
            is_bridge: false,
            is_port: false,
            is_loopback: false,
            master: None,
            link: None,
            header_bytes,
            sent_bytes,
            sent_packets,
        };
        // Of ten packets of 1,500 bytes, all are ours, and then, without headers, half.
        for (header_bytes, sent_bytes, others_bps) in [(14, 15_140, 0), (0, 15_000, 0), (0, 30_000, 1_200_000)] {
            let mut meter = namespace.run(|| CrossTrafficMeter::new("lo")).unwrap().unwrap();
            let after = |tenths| Instant::ZERO + Duration::from_millis(100 * tenths);
            meter.take(after(0), &counted(header_bytes, 1000, 5), 700);
            for tenths in 1..100 {
                let counted = counted(header_bytes, 1000 + tenths * sent_bytes, 5 + 10 * tenths);
                meter.take(after(tenths), &counted, 700 + tenths * 15_000);
            }
            let bps = meter.traffic.rate().as_bps();
            assert!(bps.abs_diff(others_bps) <= 1, "{header_bytes} {sent_bytes}: {bps}");
        }
    }
}
