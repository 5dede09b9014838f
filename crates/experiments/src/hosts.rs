//! Hosts of simulations.

use crate::Error;
use units::Bytes;

/// A host as Linux makes them, with buffers that a fast link can fill.
pub(crate) fn linux() -> Result<tcp::Config, Error> {
    let control = tcp::ControlKind::by_name("cubic").ok_or_else(|| Error::failed("there is no CUBIC"))?;
    let receive_buffer = tcp::ReceiveBuffer { size: Bytes::new(128 << 10), share: 1.0, most: Bytes::new(128 << 20) };
    let send_buffer = Bytes::new(128 << 20);
    Ok(tcp::Config { control, receive_buffer, send_buffer, ..tcp::Config::new(tcp::Profile::Linux) })
}
