//! What a gateway decides between TCP and the satellite transport, sans-IO.
//!
//! | module | decides |
//! | --- | --- |
//! | [`preamble`] | how a stream says which connection it carries, and how the far side answers |
//! | [`engine`] | all relayed connections of a gateway: table, deadlines, work queue, policy, limits, interception |
//! | [`classes`] | which connections belong to a class |
//! | [`connection`] | what happens next to one relayed connection, each direction alone |
//! | [`cross_traffic`] | how much of the link others take |
//! | [`policy`] | which addresses a peer may use |
//! | [`reach`] | how a peer is told which addresses it may use |
//! | [`routes`] | which peer a destination lies behind, and which destinations are intercepted while some peers are down |
//! | [`streams`] | relayed connections on the streams of the satellite transport |
//! | [`told`] | what the modem, a script or the configuration says of the link, and whose word counts |
//!
//! No socket, clock or thread: the daemon brings events and carries out the answers.

pub mod classes;
pub mod connection;
pub mod cross_traffic;
pub mod engine;
pub mod hop;
pub mod policy;
pub mod preamble;
pub mod reach;
pub mod routes;
pub mod streams;
pub mod told;

pub use satpep::dscp;
