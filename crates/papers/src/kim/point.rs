//! The points of the figures, simulated and for real.

/// A point of a figure.
pub(super) struct Point {
    pub(super) name: String,
    pub(super) settings: Vec<String>,
    pub(super) error_rate: f64,
    /// As settings have it.
    pub(super) error_rate_text: &'static str,
    pub(super) sessions: u32,
    /// Whether the closed forms are of what the settings say.
    pub(super) has_model: bool,
}

/// Both ways, since the paper's emulator had one rate.
pub(super) fn errors(rate: &str) -> String {
    format!("link.satellite.loss={{ bit_error_rate = {rate} }}")
}
