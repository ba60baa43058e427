//! A stream whose reader must take something in time: else the connection ends.
//!
//! Why: who sends requests and reads no answers would hold a connection, and what is to be sent on it, for as long as
//! it likes. hyper waits for a socket to take bytes without end.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A stream, and how long its reader may take nothing.
pub struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Ends the wait for a reader that takes nothing now.
    waits: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    /// Waits so long for each part that the reader takes.
    pub fn new(stream: S, patience: Duration) -> Patient<S> {
        Patient { stream, patience, waits: None }
    }

    /// The stream alone.
    pub fn into_inner(self) -> S {
        self.stream
    }

    /// What `polled` is, or that the reader has taken nothing for too long.
    fn wait<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.waits = None;
            return polled;
        }
        let patience = self.patience;
        let waits = self.waits.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(waits.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read its answers")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wait(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.wait(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.wait(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.wait(context, polled)
    }
}
