//! The body of a request as it comes, and the rest of one that is answered before it was read.
//!
//! ```text
//!   request ─▶ Coming ─┬─ read to its end ───────────────────────────────▶ answer, the next request
//!                      └─ given up ─▶ Rest ─┬─ short, and coming: read ──▶ answer, the next request
//!                                           └─ else ──▶ answer with `Connection: close`, and what still comes is read
//!                                                       for a while and thrown away
//! ```
//!
//! Promise: behind an answer that does not say that the connection ends, the next request is read (RFC 9112, 9.6).
//! Whoever is still sending sees the answer, and no reset, unless it sends much more.
//!
//! Why here: hyper ends a connection whose request was not read to its end, after an answer that does not say so; and a
//! refusal (no such path, no such method, no token) needs no body.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::limits::HttpLimits;

/// Bytes of a body that is read although it is not wanted, so that its connection may go on.
const SHORT_BYTES_MAX: usize = 64 << 10;
/// How long the answer waits for the next part of such a body: Nagle's delay may take as long.
const SHORT_PAUSE: Duration = Duration::from_millis(100);
/// The same where the client is told that there is no room for what it sends: long enough for what has come.
const BUSY_PAUSE: Duration = Duration::from_millis(10);
/// What is read and thrown away behind the last answer, as a multiple of the largest body. A client that is still
/// sending when we close sees a reset instead of the answer; one that sends a little too much shall see 413.
const DISCARD_FACTOR: usize = 8;
/// How long we wait for the next part of that before we close.
const DISCARD_PAUSE: Duration = Duration::from_millis(500);

/// A body on its way.
pub struct Coming {
    /// `None` when it was read to its end.
    body: Option<Incoming>,
    left: Arc<Mutex<Left>>,
}

/// What is left of a body when nobody reads it any more.
enum Left {
    Nothing,
    Body(Incoming),
    /// It is not what its head says: no request can be found behind it.
    Broken,
}

/// The rest of a request's body, when the request has an answer.
pub(super) struct Rest {
    left: Arc<Mutex<Left>>,
    /// The client sends the body only if it is asked for.
    is_awaited: bool,
}

/// The request with its body, and what will be left of that; `None` if it has none.
pub(super) fn split(request: Request<Incoming>) -> (Request<Coming>, Option<Rest>) {
    let is_awaited = request.headers().contains_key(header::EXPECT);
    let left = Arc::new(Mutex::new(Left::Nothing));
    let rest = (!request.body().is_end_stream()).then(|| Rest { left: left.clone(), is_awaited });
    (request.map(|body| Coming { body: Some(body), left }), rest)
}

impl Coming {
    fn leave(&self, left: Left) {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = left;
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) {
            self.leave(Left::Body(body));
        }
    }
}

impl Body for Coming {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(context);
        match &polled {
            Poll::Ready(None) => self.body = None,
            Poll::Ready(Some(Err(_))) => {
                self.body = None;
                self.leave(Left::Broken);
            }
            Poll::Ready(Some(Ok(_))) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Incoming::size_hint)
    }
}

impl Rest {
    /// Reads the rest of the body before its answer leaves, or has that say that it is the last one. `is_known`: its
    /// sender has shown a token, and may send more for nothing.
    pub async fn settle<B>(self, answer: &mut Response<B>, is_known: bool, limits: &HttpLimits) {
        let left = std::mem::replace(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner), Left::Nothing);
        match left {
            Left::Nothing => return,
            Left::Broken => {}
            Left::Body(mut body) => {
                if !self.is_awaited && !is_last(answer) && read_short(&mut body, pause_of(answer)).await {
                    return;
                }
                discard(body, is_known, limits);
            }
        }
        if !is_last(answer) {
            answer.headers_mut().append(header::CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

fn is_last<B>(answer: &Response<B>) -> bool {
    answer.headers().get_all(header::CONNECTION).iter().any(|value| value.as_bytes() == b"close")
}

/// How long the next part of a body is waited for that is answered so.
fn pause_of<B>(answer: &Response<B>) -> Duration {
    match answer.status() {
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => BUSY_PAUSE,
        _ => SHORT_PAUSE,
    }
}

/// Reads a body to its end, if that is near and comes now. Whether it did.
async fn read_short(body: &mut Incoming, pause: Duration) -> bool {
    if body.size_hint().lower() > SHORT_BYTES_MAX as u64 {
        return false;
    }
    let mut left = SHORT_BYTES_MAX;
    loop {
        match tokio::time::timeout(pause, body.frame()).await {
            Ok(None) => return true,
            Ok(Some(Ok(frame))) => match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
                Some(less) => left = less,
                None => return false,
            },
            Ok(Some(Err(_))) | Err(_) => return false,
        }
    }
}

/// Reads on for a while what the client is sending of a body that was refused. Those who have shown no token may send
/// no more than a large log-in.
fn discard(mut body: Incoming, is_known: bool, limits: &HttpLimits) {
    let bytes_max = if is_known { limits.body_bytes_max } else { limits.login_body_bytes_max };
    let discard = async move {
        let mut left = bytes_max.saturating_mul(DISCARD_FACTOR);
        while let Ok(Some(Ok(frame))) = tokio::time::timeout(DISCARD_PAUSE, body.frame()).await {
            left = match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
                Some(left) => left,
                None => break,
            };
        }
    };
    tokio::spawn(tokio::time::timeout(limits.body_timeout, discard));
}
