//! The end of a connection whose client is still sending: it is read a little longer, so that the answer arrives.
//!
//! Closing a socket that holds unread bytes resets it, and a client that is still writing then sees a broken pipe where
//! an answer was waiting for it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Clients that read what they are sent have the answer by then.
const AT_MOST: Duration = Duration::from_secs(2);
/// What is read and dropped meanwhile: as much as the largest body that any operation takes.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// Whether something of a request was left unread on the connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unread(Arc<AtomicBool>);

impl Unread {
    pub(crate) fn mark(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A socket that is closed with patience where it has to be.
#[derive(Debug)]
pub(crate) struct Lingering<S> {
    socket: S,
    unread: Unread,
    until: Option<Pin<Box<Sleep>>>,
    dropped: usize,
}

impl<S: AsyncRead + Unpin> Lingering<S> {
    pub(crate) fn new(socket: S, unread: Unread) -> Self {
        Self { socket, unread, until: None, dropped: 0 }
    }

    fn drain(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let until = self.until.get_or_insert_with(|| Box::pin(tokio::time::sleep(AT_MOST)));
        let mut space = [0; 16 * 1024];
        while self.dropped < MOST_BYTES && until.as_mut().poll(cx).is_pending() {
            let mut buffer = ReadBuf::new(&mut space);
            match ready!(Pin::new(&mut self.socket).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => self.dropped += buffer.filled().len(),
                // The client has closed its side, or is gone.
                Ok(()) | Err(_) => break,
            }
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lingering<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.until.is_none() {
            ready!(Pin::new(&mut self.socket).poll_shutdown(cx))?;
        }
        if self.unread.0.load(Ordering::Relaxed) {
            ready!(self.drain(cx));
        }
        Poll::Ready(Ok(()))
    }
}
