//! HTTP with bounds: what the gateway's page, its metrics and its link updates are served by.
//!
//! Connections are bounded in number, and [`Connection`] ends those on which nothing is answered for too long, so that
//! half a request takes neither descriptors nor memory for ever.

use crate::connection::Connection;
use crate::tls::Tls;
use axum::Router;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Connections at a time; others wait to be accepted.
const CONNECTIONS: usize = 128;
/// How long to leave the listener alone if it cannot accept, for want of descriptors.
const RESPITE: Duration = Duration::from_millis(100);

/// Serves `router` on `listener` until the future is dropped; by HTTPS if there is a certificate.
///
/// # Errors
/// If the system refuses the listener.
pub async fn serve(listener: TcpListener, tls: Option<Tls>, router: Router) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let listener = Bounded { listener: tokio::net::TcpListener::from_std(listener)?, tls, places };
    axum::serve(listener, router).await
}

/// A listener with a bounded number of connections.
struct Bounded {
    listener: tokio::net::TcpListener,
    tls: Option<Tls>,
    places: Arc<Semaphore>,
}

impl axum::serve::Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            let place = Arc::clone(&self.places).acquire_owned().await;
            match self.listener.accept().await {
                Ok((stream, address)) => return (Connection::new(stream, self.tls.as_ref(), place.ok()), address),
                Err(error) => {
                    tracing::debug!(%error, "HTTP listen");
                    tokio::time::sleep(RESPITE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}
