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
        match self.poll_stream(context)? {
            Poll::Ready(stream) => stream.poll_shutdown(context),
            Poll::Pending => Poll::Pending,
        }
    }
}
