//! nftables, through the program `nft`: what it is given is what an operator can read and check. Only whether a table is
//! still there is asked of the kernel itself, since that is asked often.

use crate::Error;
use crate::netlink::{self, Message, NetlinkSocket};
use crate::program::{self, not_started, refused};
use std::io::Write;
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

/// The named counters of the table `inet NAME` in the network namespace of the calling thread: how many packets each has seen.
///
/// # Errors
/// If `nft` is not installed, the process may not read rules, or there is no such table.
pub fn counters(table: &str) -> Result<Vec<(String, u64)>, Error> {
    let output = program::run("nft", "nftables", ["list", "counters", "table", "inet", table])?;
    Ok(parse_counters(&String::from_utf8_lossy(&output.stdout)))
}

/// `counter NAME { packets N bytes M }`, over as many lines as `nft` likes.
fn parse_counters(text: &str) -> Vec<(String, u64)> {
    let mut words = text.split_whitespace();
    let mut counters = Vec::new();
    while words.by_ref().any(|word| word == "counter") {
        let name = words.next();
        let packets = words.by_ref().skip_while(|word| *word != "packets").nth(1);
        if let (Some(name), Some(Ok(packets))) = (name, packets.map(str::parse)) {
            counters.push((name.to_owned(), packets));
        }
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_as_nft_prints_them() {
        let text = "table inet t {\n\tcounter signed {\n\t\tpackets 3 bytes 180\n\t}\n\n\tcounter rule_a-b {\n\t\tpackets 0 bytes 0\n\t}\n}\n";
        assert_eq!(parse_counters(text), [("signed".into(), 3), ("rule_a-b".into(), 0)]);
        assert_eq!(parse_counters("table inet t {\n\tcounter cut {\n"), []);
    }
}
