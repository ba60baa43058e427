//! Reading a request's body in bounded memory and time.

use std::net::IpAddr;
use std::pin::Pin;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, header};
use http_body_util::BodyExt;
use hyper::body::Body;

use super::door::Door;
use super::limits::HttpLimits;
use crate::json::{Problem, codes};

/// What is read and thrown away of a body that is refused for its size, as a multiple of the bound. A client that is
/// still sending when we close sees a reset instead of the answer; one that sends a little too much shall see 413.
const DISCARD_FACTOR: usize = 8;
/// How long we wait for the next part of such a body before we close.
const DISCARD_PAUSE: Duration = Duration::from_millis(500);

/// What a body is read from.
pub trait Readable: Body<Data = Bytes> + Send + 'static {}

impl<B: Body<Data = Bytes> + Send + 'static> Readable for B {}

impl Door {
    /// The whole body, which must be JSON by its content type (or have none): at most [`HttpLimits::body_bytes_max`]
    /// bytes, within [`HttpLimits::body_timeout`]. Few large ones of one caller are read at the same time.
    pub async fn read_json<B: Readable>(&self, headers: &HeaderMap, body: B) -> Result<Bytes, Problem> {
        let bytes_max = self.limits.body_bytes_max;
        let body = fitting(body, bytes_max, &self.limits)?;
        // Of one whose length nobody has said, the most that it may have.
        let bytes = body.size_hint().exact().map_or(bytes_max, |bytes| usize::try_from(bytes).unwrap_or(bytes_max));
        let _held = self.bodies.hold(self.mark_of_known(headers), bytes).ok_or_else(|| {
            let detail = "too many large bodies of this caller are being read; send each at once, and then the next";
            Problem::new(codes::BUSY, detail).retry_after_s(1)
        })?;
        read_json(headers, body, bytes_max, &self.limits).await
    }

    /// The same for the body of a log-in, of somebody at `address` who need not be known: at most
    /// [`HttpLimits::login_body_bytes_max`] bytes, and few at once of one address.
    pub async fn read_login<B: Readable>(
        &self,
        headers: &HeaderMap,
        body: B,
        address: IpAddr,
    ) -> Result<Bytes, Problem> {
        let bytes_max = self.limits.login_body_bytes_max;
        let body = fitting(body, bytes_max, &self.limits)?;
        let _held = self.authenticator.hold(address, bytes_max).ok_or_else(|| {
            let detail = "too many log-ins of this address are being read; send each at once, and then the next";
            Problem::new(codes::BUSY, detail).retry_after_s(1)
        })?;
        read_json(headers, body, bytes_max, &self.limits).await
    }

    /// The same for a request that needs no body; empty if there is none, and then the content type is not looked at.
    pub async fn read_optional_json<B: Readable>(&self, headers: &HeaderMap, body: B) -> Result<Bytes, Problem> {
        if body.is_end_stream() {
            return Ok(Bytes::new());
        }
        self.read_json(headers, body).await
    }
}

async fn read_json<B: Readable>(
    headers: &HeaderMap,
    body: B,
    bytes_max: usize,
    limits: &HttpLimits,
) -> Result<Bytes, Problem> {
    let body = fitting(body, bytes_max, limits)?;
    check_content_type(headers)?;
    let read = tokio::time::timeout(limits.body_timeout, read(body, bytes_max, limits));
    read.await.unwrap_or_else(|_| {
        let detail = format!("the body did not arrive within {} ms", limits.body_timeout.as_millis());
        Err(Problem::new(codes::BODY_TIMEOUT, detail))
    })
}

async fn read<B: Readable>(body: B, bytes_max: usize, limits: &HttpLimits) -> Result<Bytes, Problem> {
    let mut body = Box::pin(body);
    let declared = body.size_hint().lower();
    let mut whole = Bytes::new();
    let mut joined: Vec<u8> = Vec::new();
    let mut seen = 0;
    while let Some(frame) = body.frame().await {
        let broken = |_| Problem::new(codes::BODY_BROKEN, "the connection broke within the body");
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        seen += data.len();
        if seen > bytes_max {
            return Err(too_large(body, seen as u64, bytes_max, limits));
        }
        if seen == data.len() {
            // Nearly every body comes in one piece and is not copied.
            whole = data;
        } else {
            if joined.is_empty() {
                joined.reserve(declared.min(bytes_max as u64) as usize);
                joined.extend_from_slice(&whole);
            }
            joined.extend_from_slice(&data);
        }
    }
    Ok(if joined.is_empty() { whole } else { joined.into() })
}

/// The body, if its head does not say that it is too large: then it is refused before any of it has come.
fn fitting<B: Readable>(body: B, bytes_max: usize, limits: &HttpLimits) -> Result<B, Problem> {
    let declared = body.size_hint().lower();
    if declared > bytes_max as u64 {
        return Err(too_large(Box::pin(body), declared, bytes_max, limits));
    }
    Ok(body)
}

/// The refusal of a body of which `bytes` are known. It leaves at once; what the client is sending is read on for a
/// while.
fn too_large<B: Readable>(mut body: Pin<Box<B>>, bytes: u64, bytes_max: usize, limits: &HttpLimits) -> Problem {
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
    let detail = format!("the body has {bytes} bytes or more; here a body may have at most {bytes_max} bytes");
    Problem::new(codes::BODY_TOO_LARGE, detail)
}

fn check_content_type(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let essence = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if essence.eq_ignore_ascii_case(b"application/json") {
        return Ok(());
    }
    let detail = "send the body as JSON, with the header `Content-Type: application/json`";
    Err(Problem::new(codes::CONTENT_TYPE_UNSUPPORTED, detail))
}
