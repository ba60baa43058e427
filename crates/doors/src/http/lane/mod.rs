//! The short way of the hot requests: what is plain is read, answered and written here, without hyper.
//!
//! ```text
//!   stream ─▶ read ─┬─ plain ──────────▶ Connection::turn, ::answer ─▶ encode ─┬─▶ one write ─▶ read …
//!                   │  next ◀── one more was read with it, and can be answered ─┘
//!                   └─ anything else ──▶ hyper, with the unread bytes in front, to the end
//! ```
//!
//! Promise: no client can tell. A request is answered by the same code as behind hyper, in the same turn, with the same
//! bytes; what is not plain goes to hyper unread. So the lane refuses nothing, and knows no error of HTTP.
//!
//! Why: an edge thread is busy with hot requests, and much of what hyper does for each (a channel for its body, a timer
//! for its head, fields made and taken apart again) is for requests of other kinds.
//!
//! Invariant: nothing here knows what a hot request is about.

pub(super) mod encode;
pub mod plain;

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Request};
use http_body_util::Full;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Sleep;

use self::plain::{HEAD_BYTES_MAX, PlainBytes, PlainHead, PlainLimits, Seen};
use super::body::HotBody;
use super::connection::{Asked, Connection, Stopping};
use super::rewound::Rewound;
use super::rooms::{Answer, HotPath, Operation};
use super::turns::ReadBy;

/// Room for what is read at once: a read that does not fill it has found all there is.
const READ_BYTES: usize = 4 << 10;
/// How long the lane waits for a body behind its head before hyper does: a client with Nagle's delay may take as long
/// for its second segment.
const BODY_WAIT: Duration = Duration::from_millis(100);
/// Bytes of answers that are written together, to a client that does not wait for one before it asks the next.
const WRITE_BYTES: usize = 16 << 10;
/// Answers of one connection before others have a turn, as hyper has it.
const ANSWERS_IN_TURN_MAX: u32 = 16;

/// A connection that hyper serves from here on.
pub(super) struct ForHyper<S> {
    /// Begins with what was not answered.
    pub stream: Rewound<S>,
    /// Until when its next head must be whole.
    pub head_until: Instant,
}

/// Serves plain requests as long as nothing else comes; `None` if the connection has ended.
pub(super) async fn serve<S>(stream: S, connection: &Arc<Connection>, stopping: &Stopping) -> Option<ForHyper<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let head_timeout = connection.door.limits.head_timeout;
    let mut head_until = Instant::now() + head_timeout;
    let (alarm, stop) = (pin!(tokio::time::sleep(head_timeout)), pin!(stopping.wait()));
    let mut waits = Waits { alarm, stop };
    let mut lane = Lane { stream, read: Vec::new(), unsent: Vec::new(), known: None };
    let mut answers: u32 = 0;
    loop {
        let request = match lane.next(connection, &mut waits, head_until).await {
            Next::Request(request) => request,
            Next::ForHyper => {
                lane.send().await?;
                return Some(ForHyper { stream: Rewound::new(lane.read.into(), lane.stream), head_until });
            }
            Next::End => break,
            Next::Broken => return None,
        };
        let is_last = lane.answer(request, connection, stopping).await?;
        if is_last {
            lane.send().await?;
            break;
        }
        head_until = Instant::now() + head_timeout;
        answers = answers.wrapping_add(1);
        if answers.is_multiple_of(ANSWERS_IN_TURN_MAX) {
            lane.send().await?;
            tokio::task::yield_now().await;
        }
    }
    // Whoever has gone is not told that the connection ends.
    let _ = lane.stream.shutdown().await;
    None
}

/// What comes next on a connection.
enum Next<'c> {
    Request(PlainRequest<'c>),
    /// Something else, or nothing more while a request is not whole.
    ForHyper,
    /// Nothing more behind the last request.
    End,
    /// It broke, or no head came in time.
    Broken,
}

/// What comes next of its bytes.
enum Read {
    Bytes,
    /// None: the client sends no more, or the process stops.
    End,
    Late,
    Broken,
}

/// What a connection without bytes waits for beside them.
struct Waits<'w, T> {
    /// Set again only when it goes off too early, not for each request.
    alarm: Pin<&'w mut Sleep>,
    stop: Pin<&'w mut T>,
}

struct Lane<'c, S> {
    stream: S,
    /// Not answered yet.
    read: Vec<u8>,
    /// Answers that wait for those behind them: for a turn of the thread, and for nothing that takes longer.
    unsent: Vec<u8>,
    /// The head of the request before: most clients send the same one with each, but for the length of its body.
    known: Option<(PlainBytes, Known<'c>)>,
}

/// A head that was looked at.
#[derive(Clone)]
struct Known<'c> {
    head_bytes: usize,
    body_bytes: usize,
    parts: Arc<Parts>,
    path: &'c HotPath,
}

impl<'c, S: AsyncRead + AsyncWrite + Unpin> Lane<'c, S> {
    async fn next<T>(&mut self, connection: &'c Connection, waits: &mut Waits<'_, T>, head_until: Instant) -> Next<'c>
    where
        T: Future<Output = ()>,
    {
        // Bytes in which no head ends.
        let mut looked = 0;
        let mut head: Option<(Known<'c>, Instant)> = None;
        loop {
            if head.is_none() && !self.read.is_empty() && (looked == 0 || ends_head(&self.read, looked)) {
                match self.head(connection) {
                    Head::Known(known) => head = Some((known, Instant::now())),
                    Head::Part => {}
                    Head::Other => return Next::ForHyper,
                }
            }
            looked = self.read.len();
            let until = match head.take() {
                Some((known, since)) if known.head_bytes + known.body_bytes <= looked => {
                    return Next::Request(self.take(known, since));
                }
                Some((known, since)) => {
                    head = Some((known, since));
                    since + BODY_WAIT
                }
                None if looked >= HEAD_BYTES_MAX => return Next::ForHyper,
                None => head_until,
            };
            if self.send().await.is_none() {
                return Next::Broken;
            }
            match self.read(waits, until).await {
                Read::Bytes => {}
                Read::End if looked == 0 => return Next::End,
                Read::Late if head.is_none() => return Next::Broken,
                Read::End | Read::Late => return Next::ForHyper,
                Read::Broken => return Next::Broken,
            }
        }
    }

    /// What the bytes begin with.
    fn head(&mut self, connection: &'c Connection) -> Head<'c> {
        let limits = connection.door.limits;
        let limits = PlainLimits { headers_max: limits.headers_max, body_bytes_max: limits.body_bytes_max };
        if let Some((before, known)) = &self.known
            && let Some((head_bytes, body_bytes)) = before.again(&self.read, limits)
        {
            return Head::Known(Known { head_bytes, body_bytes, ..known.clone() });
        }
        for path in connection.routing.hot_paths() {
            match plain::head(path.request_line(), &self.read, limits) {
                Seen::Plain(head) => {
                    let bytes = PlainBytes::of(&head, &self.read);
                    let (_, known) = self.known.insert((bytes, known(head, path)));
                    return Head::Known(known.clone());
                }
                Seen::Part => return Head::Part,
                Seen::Other => {}
            }
        }
        Head::Other
    }

    /// Takes a request that is whole.
    fn take(&mut self, head: Known<'c>, since: Instant) -> PlainRequest<'c> {
        let end = head.head_bytes + head.body_bytes;
        let body = Bytes::copy_from_slice(&self.read[head.head_bytes..end]);
        self.read.drain(..end);
        PlainRequest { path: head.path, head: head.parts, body, since }
    }

    /// Reads what there is, until then.
    async fn read<T>(&mut self, waits: &mut Waits<'_, T>, until: Instant) -> Read
    where
        T: Future<Output = ()>,
    {
        self.read.reserve(READ_BYTES);
        poll_fn(|context| {
            match pin!(self.stream.read_buf(&mut self.read)).poll(context) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Read::End),
                Poll::Ready(Ok(_)) => return Poll::Ready(Read::Bytes),
                Poll::Ready(Err(_)) => return Poll::Ready(Read::Broken),
                Poll::Pending => {}
            }
            if waits.stop.as_mut().poll(context).is_ready() {
                return Poll::Ready(Read::End);
            }
            let alarm = &mut waits.alarm;
            if until < alarm.deadline().into_std() {
                alarm.as_mut().reset(until.into());
            }
            while alarm.as_mut().poll(context).is_ready() {
                if Instant::now() >= until {
                    return Poll::Ready(Read::Late);
                }
                alarm.as_mut().reset(until.into());
            }
            Poll::Pending
        })
        .await
    }

    /// Writes the answers that there are; `None` if the client has gone.
    async fn send(&mut self) -> Option<()> {
        if !self.unsent.is_empty() {
            self.stream.write_all(&self.unsent).await.ok()?;
            self.stream.flush().await.ok()?;
            self.unsent.clear();
        }
        Some(())
    }

    /// Answers a request; `None` if the client has gone. Returns whether the connection ends with the answer. What is
    /// unsent goes before it, unless the answer is there as soon as it is the request's turn.
    async fn answer(
        &mut self,
        request: PlainRequest<'c>,
        connection: &Arc<Connection>,
        stopping: &Stopping,
    ) -> Option<bool> {
        let (connection, since) = (connection.of_sender(&request.head.headers), request.since);
        let turn =
            self.while_connected(pin!(connection.turn(request.headers(), request.body_bytes(), ReadBy::Lane))).await?;
        let answer = {
            let mut answering = pin!(connection.answer(request, turn, since));
            match poll_fn(|context| Poll::Ready(answering.as_mut().poll(context))).await {
                Poll::Ready(answer) => answer,
                Poll::Pending => {
                    self.send().await?;
                    self.while_connected(answering).await?
                }
            }
        };
        let is_last = connection.door.encode(&mut self.unsent, answer, stopping.is_told());
        if self.unsent.len() >= WRITE_BYTES {
            self.send().await?;
        }
        Some(is_last)
    }

    /// Waits for a turn or an answer; `None` if the client goes meanwhile.
    async fn while_connected<A>(&mut self, mut answering: Pin<&mut impl Future<Output = A>>) -> Option<A> {
        poll_fn(|context| match answering.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            // The stream says when its client has gone altogether; nobody waits for the answer then.
            Poll::Pending => match Pin::new(&mut self.stream).poll_flush(context) {
                Poll::Ready(Err(_)) => Poll::Ready(None),
                _ => Poll::Pending,
            },
        })
        .await
    }
}

/// What bytes begin with.
enum Head<'c> {
    Known(Known<'c>),
    Part,
    Other,
}

fn known(head: PlainHead, path: &HotPath) -> Known<'_> {
    let PlainHead { head_bytes, body_bytes, headers, .. } = head;
    let (mut parts, ()) = Request::new(()).into_parts();
    (parts.method, parts.uri, parts.headers) = (path.method().clone(), path.uri().clone(), headers);
    Known { head_bytes, body_bytes, parts: Arc::new(parts), path }
}

/// Whether a head may end in `bytes`, but not within the first `looked`: so that each byte is looked at about once,
/// however few come at once.
fn ends_head(bytes: &[u8], looked: usize) -> bool {
    let fresh = &bytes[looked.saturating_sub(3)..];
    fresh.windows(2).any(|end| end == b"\n\n") || fresh.windows(3).any(|end| end == b"\n\r\n")
}

/// A request that needs no hyper.
struct PlainRequest<'c> {
    path: &'c HotPath,
    head: Arc<Parts>,
    body: Bytes,
    /// When its head was whole.
    since: Instant,
}

impl Asked for PlainRequest<'_> {
    type Body = Full<Bytes>;

    fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    fn body_bytes(&self) -> Option<u64> {
        Some(self.body.len() as u64)
    }

    fn begin(self, _: &Connection) -> (Answer<Full<Bytes>>, Option<Operation>) {
        (self.path.answer(self.head, HotBody::Whole(Some(self.body))), Some(self.path.operation()))
    }
}
