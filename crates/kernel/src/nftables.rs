//! nftables, through the program `nft`: what it is given is what an operator can read and check. What is asked often is asked of the
//! kernel itself: whether a table is still there, and what its counters say. `nft` would read the rules of all tables for that.

use crate::Error;
use crate::netlink::{self, Message, NetlinkSocket};
use crate::program::{self, not_started, refused};
use std::ffi::CString;
use std::io::{self, Write};
use std::process::Stdio;

/// Runs `script` as one transaction in the network namespace of the calling thread: all of it takes effect, or nothing.
///
/// # Errors
/// If `nft` is not installed, the process may not change rules, or `nft` refuses the script (with what it says).
pub fn run_script(script: &str) -> Result<(), Error> {
    nft("-f", script)
}

/// Whether [`run_script`] would run `script`: nothing changes.
///
/// # Errors
/// Those of [`run_script`].
pub fn check_script(script: &str) -> Result<(), Error> {
    nft("-cf", script)
}

/// Has `nft` read `script`, as `option` says.
fn nft(option: &str, script: &str) -> Result<(), Error> {
    let mut child = program::command("nft")
        .args([option, "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| not_started("nft", "nftables", error))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If nft ends before it has read everything, its exit status shows why.
        let _ = stdin.write_all(script.as_bytes());
    }
    let output = child.wait_with_output().map_err(Error::while_doing("running `nft`"))?;
    if output.status.success() { Ok(()) } else { Err(refused(&format!("nft {option} -"), &output.stderr)) }
}

/// The message that asks for a table: the firewall's subsystem of nftables, and `NFT_MSG_GETTABLE`.
const GET_TABLE: u16 = (libc::NFNL_SUBSYS_NFTABLES as u16) << 8 | libc::NFT_MSG_GETTABLE as u16;
/// The header of such a message (`nfgenmsg`): the family `inet`, of version 0.
const OF_INET: [u8; 4] = [1, 0, 0, 0];
/// Its attribute with the name of the table (`NFTA_TABLE_NAME`), and that of the answer with its number (`NFTA_TABLE_HANDLE`).
const NAME: u16 = 1;
const HANDLE: u16 = 4;

/// The number of the table `inet NAME` in the network namespace of the calling thread; `None` if there is none. A table that is made
/// again under the same name has another number (0 for all tables from kernels before 4.16).
///
/// # Errors
/// If the process may not read rules, or the kernel does not answer.
pub fn table_handle(table: &str) -> Result<Option<u64>, Error> {
    let name = netlink::attribute(NAME, &[table.as_bytes(), &[0]].concat());
    let request = [&OF_INET[..], &name].concat();
    let mut handle = 0;
    let take = |(_, payload): Message<'_>| {
        let number = netlink::attributes(payload, OF_INET.len()).find(|(kind, _)| *kind == HANDLE);
        handle = number.and_then(|(_, value)| value.try_into().ok()).map_or(0, u64::from_be_bytes);
    };
    match NetlinkSocket::of_firewall(&[]).and_then(|mut socket| socket.ask(GET_TABLE, false, &request, take)) {
        Ok(()) => Ok(Some(handle)),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(Error::while_doing("asking for the firewall's table")(error)),
    }
}

/// The message that asks for the stateful objects of a table (`NFT_MSG_GETOBJ`).
const GET_OBJECTS: u16 = (libc::NFNL_SUBSYS_NFTABLES as u16) << 8 | 19;
/// The attributes of an object (`NFTA_OBJ_*`): its table, its name, its type, and what it holds.
const OBJECT_TABLE: u16 = 1;
const OBJECT_NAME: u16 = 2;
const OBJECT_TYPE: u16 = 3;
const OBJECT_DATA: u16 = 4;
/// The type of counters (`NFT_OBJECT_COUNTER`), and the attribute with a counter's packets (`NFTA_COUNTER_PACKETS`).
const COUNTER: u32 = 1;
const COUNTER_PACKETS: u16 = 2;

/// The named counters of the table `inet NAME` in the network namespace of the calling thread: how many packets each has seen.
///
/// # Errors
/// If the process may not read rules, there is no such table, or the kernel does not answer.
pub fn counters(table: &str) -> Result<Vec<(String, u64)>, Error> {
    let failed = Error::while_doing("asking for the counters of the firewall's table");
    if table_handle(table)?.is_none() {
        return Err(failed(io::Error::from_raw_os_error(libc::ENOENT)));
    }
    let name = [table.as_bytes(), &[0]].concat();
    let kind = netlink::attribute(OBJECT_TYPE, &COUNTER.to_be_bytes());
    let request = [&OF_INET[..], &netlink::attribute(OBJECT_TABLE, &name), &kind].concat();
    let mut counters = Vec::new();
    // Kernels before 4.10 hand over the objects of all tables.
    let take = |(_, payload): Message<'_>| counters.extend(counter_of(payload, &name));
    NetlinkSocket::of_firewall(&[])
        .and_then(|mut socket| socket.ask(GET_OBJECTS, true, &request, take))
        .map_err(failed)?;
    Ok(counters)
}

/// The name of the counter that `object` describes, and how many packets it has seen, if the counter belongs to `table` (with its final 0).
fn counter_of(object: &[u8], table: &[u8]) -> Option<(String, u64)> {
    let (mut own_table, mut name, mut packets) = (false, None, None);
    for (kind, value) in netlink::attributes(object, OF_INET.len()) {
        match kind {
            OBJECT_TABLE => own_table = value == table,
            OBJECT_NAME => name = CString::from_vec_with_nul(value).ok()?.into_string().ok(),
            OBJECT_DATA => {
                let value = netlink::attributes(&value, 0).find(|(kind, _)| *kind == COUNTER_PACKETS);
                packets = value.and_then(|(_, value)| value.try_into().ok()).map(u64::from_be_bytes);
            }
            _ => {}
        }
    }
    name.zip(packets).filter(|_| own_table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use std::net::UdpSocket;

    #[test]
    fn counters_are_those_of_the_table_and_count_packets() {
        let Some(namespace) = testing::namespace() else { return };
        let read = |table: &str| {
            let mut counters = namespace.run(|| counters(table)).unwrap()?;
            counters.sort();
            Ok::<_, Error>(counters)
        };
        assert!(namespace.command("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
        let script = "table inet own { counter sent { }; counter rule_a-b { }; quota much { 1 mbytes }
            chain out { type filter hook output priority 0; udp dport 9 counter name sent; }; }
            table inet other { counter sent { packets 9 bytes 9 }; }
            table ip own { counter sent { packets 8 bytes 8 }; }";
        namespace.run(|| run_script(script)).unwrap().unwrap();
        assert_eq!(read("own").unwrap(), [("rule_a-b".into(), 0), ("sent".into(), 0)]);
        let send = || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            (0..3).for_each(|_| assert!(socket.send_to(b"!", "127.0.0.1:9").is_ok()));
        };
        namespace.run(send).unwrap();
        assert_eq!(read("own").unwrap(), [("rule_a-b".into(), 0), ("sent".into(), 3)]);
        assert!(read("none").is_err());
    }
}
