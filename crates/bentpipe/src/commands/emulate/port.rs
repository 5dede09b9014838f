//! The interfaces that the emulator joins.

use crate::output::Failure;
use kernel::Namespace;
use kernel::packet::PacketSocket;
use std::io;
use std::str::FromStr;

/// An interface, perhaps in a named namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Port {
    pub(super) namespace: Option<String>,
    pub(super) interface: String,
}

impl FromStr for Port {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (namespace, interface) = match text.split_once(':') {
            Some((namespace, interface)) => (Some(namespace.to_owned()), interface),
            None => (None, text),
        };
        if interface.is_empty() || namespace.as_deref() == Some("") {
            return Err("write IF or NAMESPACE:IF".to_owned());
        }
        Ok(Self { namespace, interface: interface.to_owned() })
    }
}

impl Port {
    pub(super) fn open(&self) -> Result<PacketSocket, Failure> {
        let opened = match &self.namespace {
            None => emulator::open(&self.interface),
            Some(name) => {
                let namespace = Namespace::named(name)
                    .map_err(|error| Failure::usage(format!("network namespace {name}: {error}")))?;
                namespace.run(|| emulator::open(&self.interface)).map_err(lacking)?
            }
        };
        opened.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Failure::usage(error),
            io::ErrorKind::PermissionDenied => {
                Failure::missing(format!("{error}: emulating a link needs CAP_NET_RAW (run it as root)"))
            }
            _ => Failure::failed(error),
        })
    }
}

pub(super) fn lacking(error: kernel::Error) -> Failure {
    if error.is_missing() { Failure::missing(error) } else { Failure::failed(error) }
}
