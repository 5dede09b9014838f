//! One connection of an HTTP client: TCP, with TLS if there is a certificate, and an end if nothing is answered for too long.

use crate::tls::Tls;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};

/// A connection on which nothing has been written for so long ends: one whose request does not come to its end, byte by
/// byte or not at all, would keep its place for ever. A page is written to each second.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection that has one of the places.
pub(crate) struct Connection {
    stream: Stream,
    patience: Pin<Box<Sleep>>,
    _place: Option<OwnedSemaphorePermit>,
}

enum Stream {
    Plain(TcpStream),
    Handshake(Box<Accept<TcpStream>>),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection {
    /// The handshake, if there is to be one, begins with the first read, so that it keeps no others waiting.
    pub(crate) fn new(stream: TcpStream, tls: Option<&Tls>, place: Option<OwnedSemaphorePermit>) -> Self {
        let stream = match tls {
            Some(tls) => Stream::Handshake(Box::new(TlsAcceptor::from(Arc::clone(&tls.0)).accept(stream))),
            None => Stream::Plain(stream),
        };
        Self { stream, patience: Box::pin(tokio::time::sleep(PATIENCE)), _place: place }
    }

    /// The stream, once its handshake is over.
    fn poll_stream(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Pin<&mut dyn Io>>> {
        if let Stream::Handshake(accept) = &mut self.stream {
            self.stream = Stream::Tls(Box::new(ready!(Pin::new(&mut **accept).poll(context))?));
        }
        Poll::Ready(match &mut self.stream {
            Stream::Plain(stream) => Ok(Pin::new(stream)),
            Stream::Tls(stream) => Ok(Pin::new(&mut **stream)),
            Stream::Handshake(_) => Err(io::ErrorKind::NotConnected.into()),
        })
    }

    /// `poll`, or an error if that takes longer than [`PATIENCE`].
    fn within_patience<T>(&mut self, context: &mut Context<'_>, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if poll.is_pending() {
            ready!(self.patience.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        poll
    }
}

trait Io: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Io for T {}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Bytes that come in do not prolong it.
        if self.patience.is_elapsed() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let poll = self.poll_stream(context)?.map(|stream| stream.poll_read(context, buffer));
        let poll = if let Poll::Ready(poll) = poll { poll } else { Poll::Pending };
        self.within_patience(context, poll)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let poll = self.poll_stream(context)?.map(|stream| stream.poll_write(context, bytes));
        let poll = if let Poll::Ready(poll) = poll { poll } else { Poll::Pending };
        if matches!(poll, Poll::Ready(Ok(count)) if count > 0) {
            self.patience.as_mut().reset(Instant::now() + PATIENCE);
        }
        self.within_patience(context, poll)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = self.poll_stream(context)?.map(|stream| stream.poll_flush(context));
        let poll = if let Poll::Ready(poll) = poll { poll } else { Poll::Pending };
        self.within_patience(context, poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = self.poll_stream(context)?.map(|stream| stream.poll_shutdown(context));
        let poll = if let Poll::Ready(poll) = poll { poll } else { Poll::Pending };
        // With TLS, it waits for room for what is yet to be written.
        self.within_patience(context, poll)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    use rustls::{ClientConfig, RootCertStore};
    use std::path::Path;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpSocket;
    use tokio::time::timeout;
    use tokio_rustls::{TlsConnector, client};

    /// The server's side of a connection, and a client that has completed the handshake.
    async fn connected() -> (Connection, client::TlsStream<TcpStream>) {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
        let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| data.join(name));
        let tls = Tls::read(&certificate, &key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&certificate).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
        let [listener, client] = [(); 2].map(|()| {
            // They are soon full.
            let socket = TcpSocket::new_v4().unwrap();
            socket.set_send_buffer_size(8 << 10).unwrap();
            socket.set_recv_buffer_size(8 << 10).unwrap();
            socket
        });
        listener.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = listener.listen(1).unwrap();
        let client = client.connect(listener.local_addr().unwrap()).await.unwrap();
        let mut server = Connection::new(listener.accept().await.unwrap().0, Some(&tls), None);
        let call = async {
            let connector = TlsConnector::from(config);
            let mut client = connector.connect("localhost".try_into().unwrap(), client).await.unwrap();
            client.write_all(b"a").await.unwrap();
            client
        };
        let (client, read) = tokio::join!(call, server.read_u8());
        assert_eq!(read.unwrap(), b'a');
        (server, client)
    }

    #[test]
    fn the_end_of_a_connection_whose_client_does_not_read_comes_in_time() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (mut server, _client) = connected().await;
            let bytes = [0; 16 << 10];
            while matches!(timeout(Duration::from_millis(100), server.write(&bytes)).await, Ok(Ok(_))) {}
            server.patience.as_mut().reset(Instant::now() + Duration::from_millis(100));
            let outcome = timeout(PATIENCE, server.shutdown()).await.expect("it ends");
            assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::TimedOut);
        });
    }
}
