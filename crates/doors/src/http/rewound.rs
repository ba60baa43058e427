//! A stream of which some bytes were read by somebody else, and how long its first head may still take.
//!
//! ```text
//!   the lane: read, and not answered ─▶ unread ┐
//!                                     stream ──┴─▶ hyper
//! ```

use std::io;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use hyper::rt::{Sleep, Timer};
use hyper_util::rt::TokioTimer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream with bytes in front of it.
pub struct Rewound<S> {
    unread: Bytes,
    stream: S,
}

impl<S> Rewound<S> {
    /// `stream` behind `unread`.
    pub fn new(unread: Bytes, stream: S) -> Rewound<S> {
        Rewound { unread, stream }
    }

    /// What nobody has read of the bytes in front, and the stream.
    pub fn into_parts(self) -> (Bytes, S) {
        (self.unread, self.stream)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Rewound<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.unread.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, into);
        }
        let bytes = self.unread.len().min(into.remaining());
        into.put_slice(&self.unread.split_to(bytes));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Rewound<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// hyper's timer of a connection whose first head has been awaited for a while already. hyper uses it for nothing but
/// heads.
pub struct HeadTimer {
    /// Until when the first head must be there; `None` behind it.
    first: Mutex<Option<Instant>>,
}

impl HeadTimer {
    /// The first head is to be there by `first`.
    pub fn new(first: Instant) -> HeadTimer {
        HeadTimer { first: Mutex::new(Some(first)) }
    }
}

impl Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(Instant::now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        let first = self.first.lock().expect("no thread panics while it holds it").take();
        TokioTimer::new().sleep_until(first.map_or(deadline, |first| first.min(deadline)))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn the_bytes_in_front_come_first_and_what_is_left_of_them_is_given_back() {
        let mut stream = Rewound::new(Bytes::from_static(b"in front"), &b" and behind"[..]);
        let mut piece = [0; 3];
        stream.read_exact(&mut piece).await.unwrap();
        assert_eq!(&piece, b"in ");
        let (unread, stream) = stream.into_parts();
        let mut whole = String::new();
        Rewound::new(unread, stream).read_to_string(&mut whole).await.unwrap();
        assert_eq!(whole, "front and behind");
    }

    #[tokio::test]
    async fn the_first_head_has_no_more_time_than_is_left() {
        let (now, hour) = (Instant::now(), Duration::from_secs(3_600));
        let timer = HeadTimer::new(now);
        let (mut first, mut second) = (timer.sleep_until(now + hour), timer.sleep_until(now + hour));
        first.as_mut().await;
        assert!(second.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
}
