//! The integration tests of the crate, as one program.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests: real sockets, threads and waiting")]

mod attacks;
mod chromium;
mod http;
mod page;
mod replay;
mod site;
mod tls;
