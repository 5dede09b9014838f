//! PEPsal, another split-TCP proxy, in the place of the gateways: to be measured beside them.

use crate::topology::{LAN_INTERFACE, SATELLITE_INTERFACE};
use crate::{Error, Site, Topology};
use kernel::network::IpBatch;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Instant;
use units::Duration;

/// Where it listens.
const PORT: u16 = 5000;
/// How long it may take until then.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);
/// Routing table and mark of what is for the proxy itself.
const TABLE: u8 = 100;

/// A PEPsal process in the gateway of every site; they end when this is dropped. IPv4 only.
pub struct Pepsal {
    running: Vec<Child>,
}

impl Pepsal {
    /// Starts `program` in every site of `topology`, to relay what the terminals' hosts open towards the hub's. Call it from
    /// the thread that lives as long as the processes are to.
    ///
    /// # Errors
    /// If the program does not start or ends, or the machine lacks something.
    pub fn start(program: &Path, topology: &Topology) -> Result<Self, Error> {
        let mut pepsal = Self { running: Vec::new() };
        pepsal.start_one(program, &topology.hub, [SATELLITE_INTERFACE, LAN_INTERFACE])?;
        for terminal in &topology.terminals {
            pepsal.start_one(program, terminal, [LAN_INTERFACE, SATELLITE_INTERFACE])?;
        }
        pepsal.running.iter_mut().try_for_each(wait_until_listening)?;
        Ok(pepsal)
    }

    /// Has `site` intercept what comes from the first interface; of what comes from the second, what answers is for the
    /// proxy.
    fn start_one(&mut self, program: &Path, site: &Site, [clients, servers]: [&str; 2]) -> Result<(), Error> {
        let script = format!(
            "table inet pepsal {{
                chain intercept {{
                    type filter hook prerouting priority mangle
                    iifname {servers} meta l4proto tcp socket transparent 1 meta mark set {TABLE} accept
                    iifname {clients} ip protocol tcp tproxy ip to 127.0.0.1:{PORT} meta mark set {TABLE} accept
                }}
            }}"
        );
        site.gateway.run(|| kernel::nftables::run_script(&script))??;
        IpBatch::new(&site.gateway)
            .add(format!("rule add fwmark {TABLE} lookup {TABLE}"))
            .add(format!("route add local 0.0.0.0/0 dev lo table {TABLE}"))
            .run()?;
        let child = site
            .gateway
            .command(program)
            .args(["-f", "-a", "127.0.0.1", "-p", &PORT.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| Error::failed(format!("cannot start {}: {error}", program.display())))?;
        self.running.push(child);
        Ok(())
    }

    /// Processor time, user and system, that all of them have used so far.
    ///
    /// # Errors
    /// If one has ended.
    pub fn cpu_time(&self) -> Result<Duration, Error> {
        let of = |child: &Child| kernel::process::cpu_time(child.id());
        self.running.iter().try_fold(Duration::ZERO, |sum, child| Ok(sum + of(child)?.into()))
    }
}

impl Drop for Pepsal {
    fn drop(&mut self) {
        for child in &mut self.running {
            // One that has ended already needs no signal.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn wait_until_listening(child: &mut Child) -> Result<(), Error> {
    let sockets = format!("/proc/{}/net/tcp", child.id());
    // On every address, whatever its arguments say: the port, no other end, and the state LISTEN.
    let listening = format!(":{PORT:04X} 00000000:0000 0A");
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Err(Error::failed(format!("PEPsal ended ({status})")));
        }
        if std::fs::read_to_string(&sockets).is_ok_and(|sockets| sockets.contains(&listening)) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(Error::failed(format!("PEPsal does not listen after {} s", PATIENCE.as_secs())));
        }
        thread::sleep(std::time::Duration::from_millis(5));
    }
}
