//! A client's socket that does not wait without end: its reader must take something in time, it ends when it gives way
//! to another connection, and when its client has gone while a request is under way.
//!
//! Why: who sends requests and reads no answers would hold a connection, and what is to be sent on it, for as long as
//! it likes. hyper waits for a socket to take bytes without end.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use super::answer_clock::AnswerClock;
use super::parting::{self, Parting};
use super::silence::Silence;

/// A socket, and how long its reader may take nothing.
pub struct Patient {
    stream: TcpStream,
    patience: Duration,
    /// Ends the wait for a reader that takes nothing now.
    waits: Option<Pin<Box<Sleep>>>,
    /// Tells that it gives way; `None` if its client cannot be told so, because it is under TLS.
    parting: Option<Arc<Parting>>,
    /// Is told when something was written.
    clock: Arc<AnswerClock>,
    /// Is told when its client sends no more, while a request is under way.
    silence: Arc<Silence>,
}

impl Patient {
    /// Waits so long for each part that the reader takes, and ends when `parting` says so.
    pub fn new(
        stream: TcpStream,
        patience: Duration,
        parting: Option<Arc<Parting>>,
        clock: Arc<AnswerClock>,
        silence: Arc<Silence>,
    ) -> Patient {
        Patient { stream, patience, waits: None, parting, clock, silence }
    }

    /// Waits until its client has sent something, or has ended.
    pub async fn begins(&self) -> io::Result<()> {
        self.stream.readable().await
    }

    /// The socket alone.
    pub fn into_inner(self) -> TcpStream {
        self.stream
    }

    /// Whether the client has gone altogether: it takes no answer any more. One that only sends nothing more is there.
    /// The connection is looked at when this changes.
    fn is_gone(&self, context: &mut Context<'_>) -> bool {
        // Registers whoever asks; what there is to read is read when the next request is wanted. One that has gone
        // would send no more, which is something to read.
        if self.stream.poll_read_ready(context).is_pending() {
            return false;
        }
        let ready = std::pin::pin!(self.stream.ready(Interest::READABLE | Interest::WRITABLE));
        let Poll::Ready(Ok(ready)) = ready.poll(context) else { return false };
        if ready.is_read_closed() {
            self.silence.tell();
        }
        ready.is_write_closed()
    }

    /// Ends a connection that gives way, with a last answer unless its client takes another one just now.
    fn leave(&self) -> io::Result<()> {
        if !self.parting.as_ref().is_some_and(|parting| parting.is_told()) {
            return Ok(());
        }
        if self.waits.is_none() {
            // It is one packet; a socket that does not take it has lost nothing.
            let _ = self.stream.try_write(parting::last_answer().as_bytes());
        }
        Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the connection gives way to a new one"))
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

impl AsyncRead for Patient {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.leave()?;
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        if polled.is_ready() {
            self.clock.wrote();
        }
        self.wait(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        if polled.is_ready() {
            self.clock.wrote();
        }
        self.wait(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_gone(context) {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionReset, "the client has gone")));
        }
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.wait(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.wait(context, polled)
    }
}
