//! What flows do, from the words of the format.

use crate::format::flow::{Bulk, Distribution, OnOff, Ping, Random, RequestResponse, Udp, Way};
use crate::{Application, Quantity, Traffic, Transfer};
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

impl<T: Held> Distribution<T> {
    /// As the simulator draws it.
    fn resolve(&self) -> Result<crate::Distribution<T::Quantity>, String> {
        use crate::Distribution as Drawn;
        let drawn = match *self {
            Distribution::Constant(value) => Drawn::Constant(value.held()),
            Distribution::Random(Random::Uniform { min, max }) => Drawn::Uniform { min: min.held(), max: max.held() },
            Distribution::Random(Random::Exponential { mean }) => Drawn::Exponential { mean: mean.held() },
            Distribution::Random(Random::Pareto { min, shape, max }) => {
                Drawn::Pareto { min: min.held(), shape, max: max.held() }
            }
            Distribution::Random(Random::LogNormal { median, sigma }) => {
                Drawn::LogNormal { median: median.held(), sigma }
            }
        };
        drawn.validate().map(|()| drawn)
    }
}

impl Bulk {
    pub(crate) fn resolve(&self) -> Application {
        let transfer = match self.direction.unwrap_or(Way::Up) {
            Way::Up => Transfer::Upload,
            Way::Down => Transfer::Download { request: self.request.map_or(Bytes::new(100), |size| size.0) },
        };
        Application::Bulk { size: self.size.map(|size| size.0), transfer }
    }
}

impl OnOff {
    pub(crate) fn resolve(&self) -> Result<Application, String> {
        Ok(Application::OnOff { rate: self.rate.0, on_off: on_off(&self.on, &self.off)? })
    }
}

fn on_off(on: &Distribution<Interval>, off: &Distribution<Time>) -> Result<crate::OnOff, String> {
    Ok(crate::OnOff { on: on.resolve()?, off: off.resolve()? })
}

impl RequestResponse {
    pub(crate) fn resolve(&self) -> Result<Application, String> {
        let request = self.request.as_ref().map(Distribution::resolve).transpose()?;
        let think = self.think.as_ref().map(Distribution::resolve).transpose()?;
        Ok(Application::Web {
            requests: self.requests,
            request: request.unwrap_or(crate::Distribution::Constant(Bytes::new(400))),
            response: self.response.resolve()?,
            think: think.unwrap_or(crate::Distribution::Constant(Duration::ZERO)),
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
