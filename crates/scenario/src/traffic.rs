//! What flows do, from the words of the format.

use crate::format::flow::{Bulk, OnOff, Ping, RequestResponse, Udp, Way};
use crate::{Application, Distribution, Quantity, Traffic, Transfer};
use document::{Interval, Size, Time};
use units::{Bytes, Duration};

/// A value of the format that holds a quantity.
pub(crate) trait Held: Copy {
    /// The quantity.
    type Quantity: Quantity;
    /// Takes it out.
    fn held(self) -> Self::Quantity;
}

impl Held for Size {
    type Quantity = Bytes;
    fn held(self) -> Bytes {
        self.0
    }
}

impl Held for Time {
    type Quantity = Duration;
    fn held(self) -> Duration {
        self.0
    }
}

impl Held for Interval {
    type Quantity = Duration;
    fn held(self) -> Duration {
        self.0
    }
}

/// As the simulator draws it.
fn drawn<T: Held>(written: &Distribution<T>) -> Result<Distribution<T::Quantity>, String> {
    let drawn = written.map(Held::held);
    drawn.validate().map(|()| drawn)
}

/// The request of a download.
const DEFAULT_REQUEST: Bytes = Bytes::new(100);

impl Bulk {
    pub(crate) fn resolve(&self) -> Result<Application, String> {
        let request = self.request.map_or(DEFAULT_REQUEST, |size| size.0);
        let transfer = match self.direction.unwrap_or(Way::Up) {
            Way::Up if request != DEFAULT_REQUEST => {
                return Err("`request` is of downloads: add direction = \"down\", or leave it out".to_owned());
            }
            Way::Up => Transfer::Upload,
            Way::Down => Transfer::Download { request },
        };
        Ok(Application::Bulk { size: self.size.map(|size| size.0), transfer })
    }
}

impl OnOff {
    pub(crate) fn resolve(&self) -> Result<Application, String> {
        Ok(Application::OnOff { rate: self.rate.0, on_off: on_off(&self.on, &self.off)? })
    }
}

fn on_off(on: &Distribution<Interval>, off: &Distribution<Time>) -> Result<crate::OnOff, String> {
    Ok(crate::OnOff { on: drawn(on)?, off: drawn(off)? })
}

impl RequestResponse {
    pub(crate) fn resolve(&self) -> Result<Application, String> {
        let request = self.request.as_ref().map(drawn).transpose()?;
        let think = self.think.as_ref().map(drawn).transpose()?;
        Ok(Application::Web {
            requests: self.requests,
            request: request.unwrap_or(Distribution::Constant(Bytes::new(400))),
            response: drawn(&self.response)?,
            think: think.unwrap_or(Distribution::Constant(Duration::ZERO)),
        })
    }
}

impl Udp {
    pub(crate) fn resolve(&self) -> Result<Traffic, String> {
        let on_off = match (&self.on, &self.off) {
            (Some(on), Some(off)) => Some(on_off(on, off)?),
            (None, None) => None,
            _ => return Err("give both `on` and `off`, or neither".to_owned()),
        };
        Ok(Traffic::Udp { rate: self.rate.0, packet_size: packet_size(self.packet_size, 1500)?, on_off })
    }
}

impl Ping {
    pub(crate) fn resolve(&self) -> Result<Traffic, String> {
        Ok(Traffic::Ping {
            interval: self.interval.map_or(Duration::from_secs(1), |interval| interval.0),
            packet_size: packet_size(self.packet_size, 84)?,
            count: self.requests,
        })
    }
}

fn packet_size(size: Option<Size>, default: u64) -> Result<Bytes, String> {
    let size = size.map_or(Bytes::new(default), |size| size.0);
    if (28..=65_535).contains(&size.as_u64()) {
        Ok(size)
    } else {
        Err(format!("packet_size {size} is not from 28B to 65535B"))
    }
}
