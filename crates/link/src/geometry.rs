//! Delays from where satellites and ground stations are.

use crate::ConfigError;
use serde::Deserialize;
use units::Duration;

/// Radius of the Earth at the equator, in km (WGS 84).
const EARTH_RADIUS_KM: f64 = 6378.137;
/// Radius of the geostationary orbit, in km.
const GEO_RADIUS_KM: f64 = 42_164.17;
/// Speed of light in vacuum, in km/s.
const LIGHT_KM_PER_S: f64 = 299_792.458;

/// A point on the ground, in degrees: north and east are positive.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroundStation {
    /// From -90 (south pole) to 90 (north pole).
    pub latitude: f64,
    /// From -180 to 180; west is negative.
    pub longitude: f64,
}

/// A satellite as a ground station sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct View {
    /// The distance to the satellite.
    pub slant_km: f64,
    /// Its height above the horizon, in degrees.
    pub elevation: f64,
}

impl View {
    /// A satellite `altitude_km` above a spherical Earth, at `elevation` degrees.
    pub fn of_altitude(altitude_km: f64, elevation: f64) -> Self {
        let height = EARTH_RADIUS_KM * elevation.to_radians().sin();
        let slant_km = (height * height + 2.0 * EARTH_RADIUS_KM * altitude_km + altitude_km * altitude_km).sqrt();
        Self { slant_km: slant_km - height, elevation }
    }

    /// How long a signal takes.
    pub fn delay(&self) -> Duration {
        light_time(self.slant_km)
    }
}

impl GroundStation {
    /// How this station sees the geostationary satellite over `satellite_longitude` (degrees, east positive).
    pub fn view_of_geo(&self, satellite_longitude: f64) -> View {
        let cosine = self.latitude.to_radians().cos() * (self.longitude - satellite_longitude).to_radians().cos();
        let (earth, orbit) = (EARTH_RADIUS_KM, GEO_RADIUS_KM);
        let slant_km = (earth * earth + orbit * orbit - 2.0 * earth * orbit * cosine).sqrt();
        let sine = (1.0 - cosine * cosine).max(0.0).sqrt();
        View { slant_km, elevation: (cosine - earth / orbit).atan2(sine).to_degrees() }
    }

    fn validate(&self) -> Result<(), ConfigError> {
        if !(-90.0..=90.0).contains(&self.latitude) {
            return Err(ConfigError::new(
                "delay.geo.stations",
                &format!("latitude {} is not from -90 to 90", self.latitude),
            ));
        }
        check_longitude("delay.geo.stations", self.longitude)
    }
}

fn check_longitude(key: &'static str, longitude: f64) -> Result<(), ConfigError> {
    if (-180.0..=180.0).contains(&longitude) {
        return Ok(());
    }
    Err(ConfigError::new(key, &format!("longitude {longitude} is not from -180 to 180 (east is positive)")))
}

fn light_time(km: f64) -> Duration {
    Duration::from_secs_f64(km / LIGHT_KM_PER_S)
}

/// Where a bent pipe goes: from a ground station to a satellite, perhaps on to further satellites, and down to a ground
/// station. It takes the place of a delay:
/// `delay = { geo = { satellite_longitude = -34.5, stations = [{ latitude = 38.1157, longitude = 13.3615 }, …] } }` or
/// `delay = { leo = { altitude_km = 550, elevations = [25, 40], inter_satellite_km = [2000] } }`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Geometry {
    /// Over one geostationary satellite.
    Geo(GeoPath),
    /// Over satellites in low orbit.
    Leo(LeoPath),
}

/// A path over one geostationary satellite.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GeoPath {
    /// The satellite's longitude in degrees; west is negative.
    pub satellite_longitude: f64,
    /// The stations at both ends.
    pub stations: [GroundStation; 2],
}

/// A path over satellites in low orbit.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeoPath {
    /// Altitude of the satellites.
    pub altitude_km: f64,
    /// Elevation, in degrees, of the first satellite seen from the first station, and of the last from the second.
    pub elevations: [f64; 2],
    /// Lengths of the hops between satellites; none for a bent pipe over one.
    #[serde(default)]
    pub inter_satellite_km: Vec<f64>,
}

impl Geometry {
    /// The propagation delay of the whole path, one way.
    ///
    /// # Errors
    /// If a satellite is below a station's horizon, or a value is none that the Earth has.
    pub fn delay(&self) -> Result<Duration, ConfigError> {
        match self {
            Geometry::Geo(path) => path.delay(),
            Geometry::Leo(path) => path.delay(),
        }
    }
}

impl GeoPath {
    fn delay(&self) -> Result<Duration, ConfigError> {
        check_longitude("delay.geo.satellite_longitude", self.satellite_longitude)?;
        let mut km = 0.0;
        for station in self.stations {
            station.validate()?;
            let view = station.view_of_geo(self.satellite_longitude);
            if view.elevation < 0.0 {
                let problem = format!(
                    "the satellite at {}° is {:.1}° below the horizon of latitude {}, longitude {}",
                    self.satellite_longitude, -view.elevation, station.latitude, station.longitude
                );
                return Err(ConfigError::new("delay.geo.stations", &problem));
            }
            km += view.slant_km;
        }
        Ok(light_time(km))
    }
}

impl LeoPath {
    fn delay(&self) -> Result<Duration, ConfigError> {
        if !(100.0..=100_000.0).contains(&self.altitude_km) {
            return Err(ConfigError::new(
                "delay.leo.altitude_km",
                &format!("{} is not from 100 to 100000", self.altitude_km),
            ));
        }
        if let Some(elevation) = self.elevations.iter().find(|elevation| !(0.0..=90.0).contains(*elevation)) {
            return Err(ConfigError::new("delay.leo.elevations", &format!("{elevation} is not from 0 to 90 degrees")));
        }
        if let Some(km) = self.inter_satellite_km.iter().find(|km| !(0.0..=1e6).contains(*km)) {
            return Err(ConfigError::new("delay.leo.inter_satellite_km", &format!("{km} is not from 0 to 1000000")));
        }
        let slants = self.elevations.iter().map(|elevation| View::of_altitude(self.altitude_km, *elevation).slant_km);
        Ok(light_time(slants.chain(self.inter_satellite_km.iter().copied()).sum()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PALERMO: GroundStation = GroundStation { latitude: 38.1157, longitude: 13.3615 };
    const HOUSTON: GroundStation = GroundStation { latitude: 29.7604, longitude: -95.3698 };

    fn assert_near(value: f64, expected: f64, tolerance: f64) {
        assert!((value - expected).abs() <= tolerance, "{value} is not {expected}");
    }

    #[test]
    fn palermo_and_houston_over_34_5_west() {
        for (station, km, elevation, millis) in
            [(PALERMO, 39_173.76, 23.91, 130.670), (HOUSTON, 39_889.89, 16.67, 133.058)]
        {
            let view = station.view_of_geo(-34.5);
            assert_near(view.slant_km, km, 0.01);
            assert_near(view.elevation, elevation, 0.01);
            assert_near(view.delay().as_millis_f64(), millis, 0.001);
        }
        let path = GeoPath { satellite_longitude: -34.5, stations: [PALERMO, HOUSTON] };
        let delay = Geometry::Geo(path).delay().expect("both see it");
        assert_near(delay.as_millis_f64(), 263.728, 0.001);
        assert_near((delay * 2).as_millis_f64(), 527.456, 0.001);
    }

    #[test]
    fn a_geostationary_satellite_overhead_and_at_the_horizon() {
        let below = GroundStation { latitude: 0.0, longitude: 10.0 }.view_of_geo(10.0);
        assert_near(below.elevation, 90.0, 1e-6);
        assert_near(below.delay().as_millis_f64(), 119.37, 0.005);
        let horizon = (EARTH_RADIUS_KM / GEO_RADIUS_KM).acos().to_degrees();
        assert_near(horizon, 81.3, 0.05);
        let edge = GroundStation { latitude: 0.0, longitude: horizon }.view_of_geo(0.0);
        assert_near(edge.elevation, 0.0, 1e-6);
        assert_near(edge.delay().as_millis_f64(), 139.03, 0.005);
    }

    #[test]
    fn east_and_west_are_alike() {
        for longitude in [0.0, 17.5, 60.0] {
            let view = |longitude| GroundStation { latitude: 45.0, longitude }.view_of_geo(0.0);
            assert_near(view(longitude).slant_km, view(-longitude).slant_km, 1e-6);
        }
    }

    #[test]
    fn low_orbits_at_550_km() {
        for (elevation, km, millis) in [(25.0, 1123.42, 3.747), (40.0, 812.11, 2.709), (90.0, 550.0, 1.835)] {
            let view = View::of_altitude(550.0, elevation);
            assert_near(view.slant_km, km, 0.01);
            assert_near(view.delay().as_millis_f64(), millis, 0.001);
        }
        let path = LeoPath { altitude_km: 550.0, elevations: [25.0, 40.0], inter_satellite_km: vec![2000.0, 1000.0] };
        let hops = 3000.0 / LIGHT_KM_PER_S * 1e3;
        assert_near(Geometry::Leo(path).delay().expect("valid").as_millis_f64(), 3.747 + 2.709 + hops, 0.002);
    }

    #[test]
    fn refuses_what_no_station_sees() {
        let tokyo = GroundStation { latitude: 35.7, longitude: 139.7 };
        let geo = |stations| Geometry::Geo(GeoPath { satellite_longitude: -34.5, stations });
        let error = geo([PALERMO, tokyo]).delay().expect_err("below the horizon").to_string();
        assert!(error.contains("horizon") && error.contains("139.7"), "{error}");
        let pole = GroundStation { latitude: 95.0, longitude: 0.0 };
        assert!(geo([PALERMO, pole]).delay().expect_err("no latitude").to_string().contains("95"));
        let leo = |altitude_km, elevation| {
            Geometry::Leo(LeoPath { altitude_km, elevations: [elevation, 90.0], inter_satellite_km: vec![] })
        };
        for (geometry, key) in
            [(leo(550.0, -1.0), "delay.leo.elevations"), (leo(f64::NAN, 1.0), "delay.leo.altitude_km")]
        {
            assert_eq!(geometry.delay().expect_err(key).key(), key);
        }
    }
}
