//! Which of the gateways that run on this host is meant.

use crate::output::Failure;
use gateway::config;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Which gateway is meant.
#[derive(clap::Args)]
pub struct Running {
    /// The gateway's name [default: the only gateway on this host]
    #[arg(long)]
    name: Option<String>,
    /// The gateway's control socket [default: /run/bentpipe/NAME.sock]
    #[arg(long, value_name = "PATH", conflicts_with = "name")]
    socket: Option<PathBuf>,
}

/// The name of a gateway whose configuration has none.
const USUAL: &str = "bentpipe";

impl Running {
    /// Its control socket.
    ///
    /// # Errors
    /// If there are several gateways and none is named.
    pub fn socket(&self) -> Result<PathBuf, Failure> {
        match (&self.socket, &self.name) {
            (Some(path), _) => Ok(path.clone()),
            (None, Some(name)) => Ok(config::control_socket(name)),
            (None, None) => {
                let usual = config::control_socket(USUAL);
                only(usual.parent().map(served).unwrap_or_default(), usual)
            }
        }
    }
}

/// The only one of `found`; of none the usual one, whose absence is reported when it is asked.
fn only(mut found: Vec<PathBuf>, usual: PathBuf) -> Result<PathBuf, Failure> {
    match found.len() {
        0 => Ok(usual),
        1 => Ok(found.remove(0)),
        _ => Err(Failure::usage(format!("several gateways run on this host, choose one: {}", options(found)))),
    }
}

/// The options that choose each of the gateways with these sockets.
fn options(mut sockets: Vec<PathBuf>) -> String {
    sockets.sort();
    sockets.iter().map(|socket| option(socket)).collect::<Vec<_>>().join(", ")
}

fn option(socket: &Path) -> String {
    match socket.file_stem().and_then(|name| name.to_str()) {
        Some(name) if config::control_socket(name) == socket => format!("--name {name}"),
        _ => format!("--socket {}", socket.display()),
    }
}

/// `; gateways that run: --name X` of the gateways whose sockets are beside `socket`, which none serves.
pub fn others(socket: &Path) -> String {
    let found = socket.parent().map(served).unwrap_or_default();
    if found.is_empty() { String::new() } else { format!("; gateways that run: {}", options(found)) }
}

/// The control sockets in `directory` that a process serves. One that this user may not use counts: "permission denied" helps
/// more than "no gateway".
fn served(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let sockets = entries.filter(|path| path.extension().is_some_and(|extension| extension == "sock"));
    sockets
        .filter(|path| match UnixStream::connect(path) {
            Ok(_) => true,
            Err(error) => error.kind() == ErrorKind::PermissionDenied,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn the_only_served_socket_is_found_and_several_are_listed() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let usual = path("bentpipe.sock");
        assert_eq!(only(served(directory.path()), usual.clone()).unwrap(), usual);
        // What a gateway has left that was killed, what is no socket, and the socket for link updates.
        drop(UnixListener::bind(path("killed.sock")).unwrap());
        std::fs::write(path("text.sock"), "").unwrap();
        let _updates = UnixListener::bind(path("hub.updates")).unwrap();
        let _hub = UnixListener::bind(path("hub.sock")).unwrap();
        assert_eq!(only(served(directory.path()), usual.clone()).unwrap(), path("hub.sock"));
        let elsewhere = |name: &str| format!("--socket {}", path(name).display());
        assert_eq!(others(&path("hbu.sock")), format!("; gateways that run: {}", elsewhere("hub.sock")));
        let _terminal = UnixListener::bind(path("terminal.sock")).unwrap();
        let failure = only(served(directory.path()), usual).unwrap_err();
        let both = [elsewhere("hub.sock"), elsewhere("terminal.sock")].join(", ");
        assert!(failure.to_string().ends_with(&format!("choose one: {both}")), "{failure}");
    }

    #[test]
    fn a_gateway_is_named_where_its_name_leads_to_its_socket() {
        let sockets = vec![config::control_socket("hub"), PathBuf::from("/run/other/hub.sock")];
        assert_eq!(options(sockets), "--name hub, --socket /run/other/hub.sock");
    }
}
