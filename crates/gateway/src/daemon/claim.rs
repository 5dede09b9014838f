//! What a gateway has for itself in its network namespace. Two that both had it would undo each other's work: each takes the other's routing rule
//! and route for leftovers of a process that has died, and peers take two gateways with one key for one that restarts again and again.
//!
//! A claim is an abstract Unix socket, of which only the name counts. It ends with its process, however that ends.

use crate::config::Settings;
use crate::error::{StartError, while_doing};
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The sockets of this network namespace, one a line; names of abstract ones begin with `@`.
const SOCKETS: &str = "/proc/thread-self/net/unix";
const PREFIX: &str = "bentpipe-gateway";
/// Of a public key, what is enough to know it by.
const KEY_LETTERS: usize = 12;
/// Marks of two gateways are so far apart.
const MARKS: u32 = 16;
/// The longest name of an abstract socket.
const LONGEST: usize = 107;

/// What this process claims, until it is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    /// None where this process has the same claim already.
    _socket: Option<UnixDatagram>,
}

impl Claim {
    /// Claims what `settings` say, unless a gateway of another name has some of it.
    ///
    /// # Errors
    /// If one has, or the kernel refuses the socket.
    pub(super) fn stake(settings: &Settings) -> Result<Self, StartError> {
        let own = Claimed::of(settings);
        let doing = || while_doing("claiming the routing table and the key");
        let address = SocketAddr::from_abstract_name(own.text()).map_err(doing())?;
        let socket = match UnixDatagram::bind_addr(&address) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => None,
            socket => Some(socket.map_err(doing())?),
        };
        // Without an answer, nothing is known of others, as before there were claims.
        let sockets = std::fs::read_to_string(SOCKETS).unwrap_or_default();
        match sockets.lines().filter_map(Claimed::read).find_map(|other| own.clash(&other)) {
            Some(clash) => Err(clash),
            None => Ok(Self { _socket: socket }),
        }
    }
}

/// What a claim says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Claimed {
    pid: u32,
    table: u32,
    priority: u32,
    mark: u32,
    key: String,
    name: String,
}

impl Claimed {
    fn of(settings: &Settings) -> Self {
        let rules = &settings.rules;
        Self {
            pid: std::process::id(),
            table: rules.routing_table,
            priority: rules.priority,
            mark: rules.mark,
            key: settings.private_key.public_key().to_string().chars().take(KEY_LETTERS).collect(),
            name: settings.name.clone(),
        }
    }

    fn text(&self) -> String {
        let Self { pid, table, priority, mark, key, name } = self;
        let mut text = format!("{PREFIX}:{pid}:{table}:{priority}:{mark}:{key}:{name}");
        text.truncate(LONGEST);
        text
    }

    /// The claim in a line of [`SOCKETS`], if it is one's.
    fn read(line: &str) -> Option<Self> {
        let (_, name) = line.split_once('@')?;
        let mut parts = name.strip_prefix(PREFIX)?.strip_prefix(':')?.splitn(6, ':');
        let mut number = || parts.next()?.parse().ok();
        let (pid, table, priority, mark) = (number()?, number()?, number()?, number()?);
        Some(Self { pid, table, priority, mark, key: parts.next()?.to_owned(), name: parts.next()?.to_owned() })
    }

    /// How both cannot run here, if they cannot. A process of the same name is one that this one follows, or one that the control socket and
    /// the nftables table show.
    fn clash(&self, other: &Self) -> Option<StartError> {
        let settings = [
            ("table", self.table == other.table),
            ("mark", self.mark.abs_diff(other.mark) < MARKS),
            ("rule_priority", self.priority == other.priority),
        ];
        let shared: Vec<_> = settings.iter().filter(|(_, is_shared)| *is_shared).map(|(name, _)| *name).collect();
        let Self { name, pid, .. } = other.clone();
        match () {
            () if name == self.name => None,
            () if self.key == other.key => Some(StartError::KeyTaken { name, pid }),
            () if shared.is_empty() => None,
            () => Some(StartError::RoutingTaken { settings: shared.join(", "), name, pid }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimed() -> Claimed {
        let (key, name) = ("abcdefghijkl".to_owned(), "first".to_owned());
        Claimed { pid: 7, table: 25_200, priority: 10, mark: 0x6270_0000, key, name }
    }

    #[test]
    fn a_claim_is_read_from_the_list_of_sockets_as_it_was_staked() {
        let line = |text: &str| format!("0000000000000000: 00000002 00000000 00000000 0002 01 12345 @{text}");
        assert_eq!(Claimed::read(&line(&claimed().text())), Some(claimed()));
        for other in
            ["/run/bentpipe/first.sock", "bentpipe-gateway:x:1:2:3:k:n", "bentpipe-gateway:1:2", "other:1:2:3:4:k:n"]
        {
            assert_eq!(Claimed::read(&line(other)), None, "{other}");
        }
        let long = Claimed { name: "n".repeat(200), ..claimed() };
        assert_eq!(long.text().len(), LONGEST);
        assert!(SocketAddr::from_abstract_name(long.text()).is_ok());
    }

    #[test]
    fn gateways_clash_that_share_a_setting_and_not_the_name() {
        let clash = |other: Claimed| claimed().clash(&other).map(|clash| clash.to_string());
        let apart = Claimed {
            pid: 8,
            table: 25_201,
            priority: 11,
            mark: 0x6270_0010,
            key: "bcdefghijklm".into(),
            name: "second".into(),
        };
        assert_eq!(clash(apart.clone()), None);
        assert_eq!(clash(Claimed { pid: 8, ..claimed() }), None, "it is followed");
        let said = |other: Claimed, what: &str| {
            let clash = clash(other).expect("a clash");
            assert!(clash.contains("gateway second (pid 8)") && clash.contains(what), "{clash}");
        };
        said(Claimed { key: claimed().key, ..apart.clone() }, "the private key");
        said(Claimed { mark: 0x626f_fff1, ..apart.clone() }, "[intercept] mark");
        said(Claimed { table: 25_200, priority: 10, ..apart.clone() }, "[intercept] table, rule_priority");
    }
}
