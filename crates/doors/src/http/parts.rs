//! Answers in parts, for what is too long to be in memory at once.
//!
//! ```text
//!   Parts ─one at a time─▶ task ─▶ a place for one part ─▶ body ─▶ connection
//! ```
//!
//! Promise: the next part is asked for when the connection has taken the one before. A body that lacks its last part
//! breaks the connection: no client takes a piece for the whole. When the process stops, a body ends with its last
//! word, while there is time for its client to read that.
//!
//! Why a task: the time that a client takes to read must be bounded, and hyper does not look at a body while there
//! is no room for it.
//!
//! Why blank lines: a client that has gone is noticed when something is written to it, and parts may say nothing for
//! long, as those of rows that nobody asked for. So a client that has closed its side, and may only have sent all that
//! it has to, gets a blank line instead of nothing.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use hyper::body::Frame;
use tidegate_telemetry::SharedGauge;
use tokio::sync::{mpsc, watch};

use super::door::Door;
use super::silence::Silence;
use crate::json::{Problem, codes};

/// Says nothing, in lines and in events.
const BLANK_LINE: &[u8] = b"\n";
/// How long a last word that the connection has taken may take to be sent.
const LAST_WORD_SENT_WITHIN: Duration = Duration::from_secs(1);

/// A part of a body.
pub struct Part {
    /// What it says.
    pub bytes: Vec<u8>,
    /// Whether the body ends with it.
    pub is_last: bool,
}

/// Where the parts of a body come from.
pub trait Parts: Send + 'static {
    /// The next part. It is not asked for after the last one, nor after a problem. Dropping the future ends the answer.
    fn next(&mut self) -> impl Future<Output = Result<Part, Problem>> + Send;

    /// Resolves when the answer is to end although parts are left, whether or not its client reads. What the parts come
    /// from is dropped then.
    fn cut(&self) -> Option<Cut> {
        None
    }

    /// What an answer says last, before its connection breaks: because of a problem, or because it is cut.
    fn last_word(&self, _problem: Option<&Problem>) -> Vec<u8> {
        Vec::new()
    }
}

/// Tells an answer in parts that it is to end.
#[derive(Clone, Debug)]
pub struct Cut(watch::Receiver<()>);

/// Keeps an answer in parts going until it is dropped.
#[derive(Debug)]
pub struct GoesOn {
    _until_dropped: watch::Sender<()>,
}

impl GoesOn {
    /// An answer that goes on, and how it learns of its end.
    pub fn new() -> (GoesOn, Cut) {
        let (sender, receiver) = watch::channel(());
        (GoesOn { _until_dropped: sender }, Cut(receiver))
    }
}

impl Cut {
    /// Resolves when the answer is to end.
    pub async fn wait(mut self) {
        // Nothing is ever sent: an error says that the sender is gone.
        while self.0.changed().await.is_ok() {}
    }

    /// Whether the answer is to end.
    pub fn is_cut(&self) -> bool {
        self.0.has_changed().is_err()
    }
}

/// The answer was broken off: no further part came, or the client did not read.
#[derive(Debug, thiserror::Error)]
#[error("the answer was broken off")]
struct BrokenOff;

impl Door {
    /// A body that begins with `first` and goes on with `others`. A client that does not take the next part within
    /// [`HttpLimits::reader_timeout`](super::HttpLimits::reader_timeout) is not waited for, nor is one that has gone;
    /// `silence` is that of its connection.
    pub fn body_in_parts(&self, first: Part, others: impl Parts, silence: Arc<Silence>) -> Body {
        if first.is_last {
            return Body::from(first.bytes);
        }
        let (taken, parts) = mpsc::channel(1);
        let sent = taken.try_send(self.waiting(first));
        sent.unwrap_or_else(|_| unreachable!("there is room for one"));
        let door = self.clone();
        tokio::spawn(async move {
            if let Err(problem) = door.carry(others, taken, &silence).await {
                tracing::debug!(code = problem.code().name(), detail = problem.detail(), "an answer was broken off");
            }
        });
        Body::new(BodyInParts { parts, is_over: false })
    }

    /// A part that waits for its connection.
    fn waiting(&self, part: Part) -> Waiting {
        self.metrics.unread_bytes.add(part.bytes.len() as i64);
        Waiting { part, counted: self.metrics.unread_bytes.clone() }
    }

    /// Carries parts to a body until the last one, until the body is gone, until they are cut, or until the process
    /// stops.
    async fn carry(
        &self,
        mut parts: impl Parts,
        body: mpsc::Sender<Waiting>,
        silence: &Silence,
    ) -> Result<(), Problem> {
        let cut = parts.cut();
        let is_cut = async move {
            match cut {
                Some(cut) => cut.wait().await,
                None => std::future::pending().await,
            }
        };
        let problem = tokio::select! {
            carried = self.carry_all(&mut parts, &body, silence) => match carried? {
                Carried::All => return Ok(()),
                Carried::UpTo(problem) => Some(problem),
            },
            () = is_cut => None,
            () = self.stopping.wait() => Some(stopping()),
        };
        let bytes = parts.last_word(problem.as_ref());
        drop(parts);
        if !bytes.is_empty() {
            let room = tokio::time::timeout(self.limits.reader_timeout, body.reserve());
            let Ok(room) = room.await.map_err(|_| Problem::body_unread())? else { return Ok(()) };
            room.send(self.waiting(Part { bytes, is_last: false }));
            // hyper does not send what it has taken of a body that breaks off at once.
            let _taken = tokio::time::timeout(self.limits.reader_timeout, body.reserve()).await;
            let _gone = tokio::time::timeout(LAST_WORD_SENT_WITHIN, body.closed()).await;
        }
        problem.map_or(Ok(()), Err)
    }

    /// An error if the client does not read.
    async fn carry_all(
        &self,
        parts: &mut impl Parts,
        body: &mpsc::Sender<Waiting>,
        silence: &Silence,
    ) -> Result<Carried, Problem> {
        loop {
            let room = tokio::time::timeout(self.limits.reader_timeout, body.reserve());
            let Ok(room) = room.await.map_err(|_| Problem::body_unread())? else { return Ok(Carried::All) };
            let part = tokio::select! {
                part = self.in_time(parts.next()) => part.and_then(|part| part),
                () = body.closed() => return Ok(Carried::All),
            };
            let mut part = match part {
                Ok(part) => part,
                Err(problem) => return Ok(Carried::UpTo(problem)),
            };
            let is_last = part.is_last;
            if part.bytes.is_empty() && !is_last {
                if !silence.is_told() {
                    continue;
                }
                part.bytes = BLANK_LINE.to_vec();
            }
            room.send(self.waiting(part));
            if is_last {
                return Ok(Carried::All);
            }
        }
    }
}

/// Why an answer ends when the process stops. It could be too long for the time that connections get to finish.
fn stopping() -> Problem {
    let detail = "the server is stopping; ask again, from the last row on if there may be many";
    Problem::new(codes::STOPPING, detail).retry_after_s(1)
}

/// How far an answer was carried.
enum Carried {
    /// To its end, or until its body was gone.
    All,
    /// Until this happened.
    UpTo(Problem),
}

/// A part that waits for its connection to take it.
struct Waiting {
    part: Part,
    counted: SharedGauge,
}

impl Waiting {
    fn take(mut self) -> Part {
        let taken = Part { bytes: Vec::new(), is_last: self.part.is_last };
        self.counted.add(-(self.part.bytes.len() as i64));
        std::mem::replace(&mut self.part, taken)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.counted.add(-(self.part.bytes.len() as i64));
    }
}

struct BodyInParts {
    parts: mpsc::Receiver<Waiting>,
    is_over: bool,
}

impl hyper::body::Body for BodyInParts {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let part = ready!(self.parts.poll_recv(context)).map(Waiting::take);
        self.is_over = part.as_ref().is_none_or(|part| part.is_last);
        let part = part.ok_or(BrokenOff);
        Poll::Ready(Some(part.map(|part| Frame::data(part.bytes.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over
    }
}
