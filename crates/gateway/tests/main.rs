//! The integration tests of the crate, as one program.

mod modem;
mod monitoring_page;
