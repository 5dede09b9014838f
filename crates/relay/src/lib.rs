//! What a gateway decides between TCP and the satellite transport, sans-IO.
//!
//! | module | decides |
//! | --- | --- |
//! | [`connect`] | the connect request, the first bytes of a stream, and the reply to it |
//! | [`engine`] | all relayed connections of a gateway: table, deadlines, work queue, policy, limits, interception |
//! | [`histogram`] | how times are distributed |
//! | [`classes`] | which connections belong to a class |
//! | [`connection`] | what happens next to one relayed connection, each direction alone |
//! | [`cross_traffic`] | how much of the link others take |
//! | [`policy`] | which addresses a peer may use |
//! | [`reach`] | announcements of the addresses that a peer may use |
//! | [`routes`] | which peer a destination lies behind, and which destinations are intercepted while some peers are down |
//! | [`link_state`] | the capacity and round-trip time in force: by the modem, a program, or the configuration |
//!
//! No socket, clock or thread: the daemon brings events and carries out the answers.
//! # Example
//! A client behind a terminal calls a server: which peer the connection goes to, whether the far gateway may make it, and what
//! that gateway does next.
//! ```
//! use relay::connection::{Action, Event, State};
//! use relay::policy::Policy;
//! use relay::connect::ConnectRequest;
//! use relay::routes::Routes;
//!
//! let open = ConnectRequest::new("10.1.0.7:40000".parse()?, "203.0.113.5:443".parse()?);
//!
//! let routes = Routes::new([("0.0.0.0/0".parse()?, "hub"), ("10.2.0.0/16".parse()?, "branch")])?;
//! assert_eq!(routes.peer_of(open.destination.ip()), Some("hub"));
//!
//! let policy = Policy::new(&["10.1.0.0/24".parse()?], &["203.0.113.0/24".parse()?], &[]);
//! assert!(policy.check(&open).is_ok());
//! let metadata = ConnectRequest::new(open.source, "169.254.169.254:80".parse()?);
//! assert!(policy.check(&metadata).is_err(), "not among the destinations");
//!
//! let step = State::Opening.on(Event::RequestValid)?;
//! assert_eq!((step.next, step.actions), (State::Connecting, [Some(Action::Connect), None]));
//! let step = step.next.on(Event::TcpConnected)?;
//! assert_eq!((step.next, step.actions), (State::Established, [Some(Action::Reply), None]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod classes;
pub mod connect;
pub mod connection;
pub mod cross_traffic;
pub mod engine;
pub mod histogram;
pub mod link_state;
pub mod policy;
pub mod reach;
pub mod routes;

pub use peering::dscp;
