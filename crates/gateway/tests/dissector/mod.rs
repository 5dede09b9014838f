//! `contrib/wireshark/bentpipe.lua`: tshark reads what gateways sent each other. Where tshark is missing, the tests say so and end;
//! with `BENTPIPE_MUST_RUN` they fail.

mod tls;
mod transport;
mod tunnels;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use units::Instant;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/wireshark/bentpipe.lua");

/// An IPv4 packet of a capture.
pub struct Packet {
    pub at: Instant,
    /// Source and destination; the ports are in the payload.
    pub ends: [SocketAddr; 2],
    /// 6: TCP; 17: UDP.
    pub protocol: u8,
    /// The header of TCP or UDP, and what follows it.
    pub payload: Vec<u8>,
}

/// The packets as a capture (the classic pcap format, LINKTYPE_RAW).
pub fn pcap(packets: impl Iterator<Item = Packet>) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [0xa1b2_c3d4_u32, 2 | 4 << 16, 0, 0, 65_535, 101] {
        out.extend(word.to_le_bytes());
    }
    for packet in packets {
        let length = 20 + packet.payload.len() as u16;
        let micros = packet.at.as_nanos() / 1000;
        for word in [micros / 1_000_000, micros % 1_000_000, u64::from(length), u64::from(length)] {
            out.extend((word as u32).to_le_bytes());
        }
        out.extend([0x45, 0]);
        out.extend(length.to_be_bytes());
        out.extend([0, 0, 0, 0, 64, packet.protocol, 0, 0]);
        for end in packet.ends {
            if let IpAddr::V4(ip) = end.ip() {
                out.extend(ip.octets());
            }
        }
        out.extend(packet.payload);
    }
    out
}

/// Whether tshark is there.
pub fn has_tshark() -> bool {
    let is_there = Command::new("tshark").arg("--version").output().is_ok_and(|output| output.status.success());
    if !is_there {
        assert!(std::env::var_os("BENTPIPE_MUST_RUN").is_none(), "tshark is missing");
        eprintln!("skipped: tshark is missing");
    }
    is_there
}

/// A directory that is gone at the end.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("bentpipe-dissector-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).expect("a file");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What tshark says with these arguments, without the user's own settings.
pub fn tshark(scratch: &Scratch, arguments: &[&str]) -> String {
    let output = Command::new("tshark")
        .env("HOME", &scratch.0)
        .env("XDG_CONFIG_HOME", &scratch.0)
        .arg("-X")
        .arg(format!("lua_script:{SCRIPT}"))
        .args(arguments)
        .output()
        .expect("tshark runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !errors.contains("Lua"), "{errors}");
    String::from_utf8(output.stdout).expect("text")
}
