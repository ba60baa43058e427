//! Reading a request's body in bounded memory and time.

use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, header};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};

use super::coming::Coming;
use super::door::Door;
use super::limits::HttpLimits;
use crate::auth::Identity;
use crate::held_bytes::{Held, NoRoom};
use crate::json::{Problem, codes};
use crate::turns::CallerName;

/// Why the rest of a body is not there. Whoever reads it cannot tell an end too early from a chunk that is none.
const BROKEN: &str = "the body ended too early, or is not in chunks as its head says. Send it whole with \
                      `Content-Length`; or in chunks (RFC 9112, 7.1), each as its size in hexadecimal, CR LF, so many \
                      bytes, CR LF, and a chunk of size 0 and CR LF at the end";

/// Bytes of a body for each transfer or hold that it may carry: the longest fields with all their characters escaped,
/// and as much again of spaces.
const BYTES_PER_ITEM_MAX: usize = 8 << 10;
/// What any caller may send, bytes: the sender of a smaller body is not looked up.
const BYTES_OF_ANYBODY: usize = 64 << 10;

/// What a body is read from.
pub trait Readable: Body<Data = Bytes> + Send + 'static {
    /// Takes the whole body, if it has come already and is known to have.
    fn take_whole(&mut self) -> Option<Bytes> {
        None
    }
}

impl Readable for Coming {}

impl Readable for axum::body::Body {}

/// The body of a hot request.
pub enum HotBody {
    /// It is coming.
    Coming(Coming),
    /// It was read with its head; `None` once it is taken.
    Whole(Option<Bytes>),
}

impl Readable for HotBody {
    fn take_whole(&mut self) -> Option<Bytes> {
        match self {
            HotBody::Coming(_) => None,
            HotBody::Whole(body) => body.take(),
        }
    }
}

impl Body for HotBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut *self {
            HotBody::Coming(body) => Pin::new(body).poll_frame(context),
            HotBody::Whole(body) => Poll::Ready(body.take().map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            HotBody::Coming(body) => body.is_end_stream(),
            HotBody::Whole(body) => body.as_ref().is_none_or(Bytes::is_empty),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            HotBody::Coming(body) => body.size_hint(),
            HotBody::Whole(body) => SizeHint::with_exact(body.as_ref().map_or(0, Bytes::len) as u64),
        }
    }
}

impl Door {
    /// The whole body, which must be JSON by its content type (or have none): at most [`HttpLimits::body_bytes_max`]
    /// bytes, and no more than its sender's bounds let one request ask, within [`HttpLimits::body_timeout`]. Of one
    /// that comes in pieces, bytes are counted among those of its sender.
    pub async fn read_json<B: Readable>(&self, headers: &HeaderMap, body: B) -> Result<Bytes, Problem> {
        let hint = body.size_hint();
        let is_small = hint.exact().is_some_and(|bytes| bytes <= BYTES_OF_ANYBODY as u64);
        let bytes_max = match is_small {
            true => self.limits.body_bytes_max,
            false => self.body_bytes_max(self.known(headers).as_ref()),
        };
        let hold = || {
            let name = self.known(headers).map(|caller| CallerName::of_identity(&caller));
            // Whoever has shown a token is known, unless many others have come since.
            self.bodies.hold(name.unwrap_or(CallerName::Stranger(IpAddr::V4(Ipv4Addr::UNSPECIFIED))))
        };
        read_json(headers, body, bytes_max, &self.limits, Some(&hold)).await
    }

    /// Bytes of the largest body of this caller.
    fn body_bytes_max(&self, caller: Option<&Identity>) -> usize {
        let items_max = caller.and_then(Identity::items_max);
        let of_caller = items_max.map(|items| (items as usize + 1).saturating_mul(BYTES_PER_ITEM_MAX));
        of_caller.map_or(self.limits.body_bytes_max, |most| most.max(BYTES_OF_ANYBODY).min(self.limits.body_bytes_max))
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
        let body = fitting(body, bytes_max)?;
        let _held = self.authenticator.hold(address, bytes_max).ok_or_else(|| {
            let detail = "too many log-ins of this address are being read; send each at once, and then the next";
            Problem::new(codes::BUSY, detail).retry_after_s(1)
        })?;
        read_json(headers, body, bytes_max, &self.limits, None).await
    }

    /// The whole body of a request that is signed, and so cannot be known before it is read, from `address`: of the
    /// content type `content_type`, and in the bounds of [`Door::read_json`]. Bytes of one that comes in pieces are
    /// counted among those of the address.
    pub async fn read_signed<B: Readable>(
        &self,
        headers: &HeaderMap,
        body: B,
        content_type: &'static str,
        address: IpAddr,
    ) -> Result<Bytes, Problem> {
        let hold = || self.bodies.hold(CallerName::of_address(address));
        let essence = essence(headers);
        if essence.is_none_or(|essence| !essence.eq_ignore_ascii_case(content_type.as_bytes())) {
            let detail = format!("send the body with the header `Content-Type: {content_type}`");
            return Err(Problem::new(codes::CONTENT_TYPE_UNSUPPORTED, detail));
        }
        let bytes_max = self.limits.body_bytes_max;
        read_whole(headers, body, bytes_max, &self.limits, Some(&hold)).await
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
    hold: Option<&Hold<'_>>,
) -> Result<Bytes, Problem> {
    check_content_type(headers)?;
    read_whole(headers, body, bytes_max, limits, hold).await
}

async fn read_whole<B: Readable>(
    headers: &HeaderMap,
    body: B,
    bytes_max: usize,
    limits: &HttpLimits,
    hold: Option<&Hold<'_>>,
) -> Result<Bytes, Problem> {
    let mut body = fitting(body, bytes_max)?;
    check_content_encoding(headers)?;
    if let Some(whole) = body.take_whole() {
        return Ok(whole);
    }
    let read = tokio::time::timeout(limits.body_timeout, read(body, bytes_max, hold));
    read.await.unwrap_or_else(|_| {
        let detail = format!("the body did not arrive within {} ms", limits.body_timeout.as_millis());
        Err(Problem::new(codes::BODY_TIMEOUT, detail))
    })
}

async fn read<B: Readable>(body: B, bytes_max: usize, hold: Option<&Hold<'_>>) -> Result<Bytes, Problem> {
    let mut body = Box::pin(body);
    let mut held: Option<Held> = None;
    let mut whole = Bytes::new();
    let mut joined: Vec<u8> = Vec::new();
    let mut seen = 0;
    while let Some(frame) = body.frame().await {
        let broken = |_| Problem::new(codes::BODY_BROKEN, BROKEN);
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        seen += data.len();
        if seen > bytes_max {
            return Err(too_large(seen as u64, bytes_max));
        }
        if let Some(hold) = hold
            && !body.is_end_stream()
            && let Err(no_room) = held.get_or_insert_with(hold).more(data.len())
        {
            return Err(no_room.into());
        }
        if seen == data.len() {
            // Nearly every body comes in one piece and is not copied.
            whole = data;
        } else {
            // Not all that the head says is reserved: whoever announces much and sends little takes little.
            if joined.is_empty() {
                joined.extend_from_slice(&whole);
                whole = Bytes::new();
            }
            joined.extend_from_slice(&data);
        }
    }
    Ok(if joined.is_empty() { whole } else { joined.into() })
}

/// Begins to count a body that comes in pieces.
type Hold<'d> = dyn Fn() -> Held + Sync + 'd;

impl From<NoRoom> for Problem {
    fn from(no_room: NoRoom) -> Problem {
        let (code, detail) = match no_room {
            NoRoom::OfCaller => (
                codes::TOO_MANY_REQUESTS,
                "this caller is sending as many bytes of bodies at once as it may; send each body whole, and then the \
                 next",
            ),
            NoRoom::OfAll => {
                (codes::BUSY, "too many bytes of bodies are being received; send smaller bodies, or one after another")
            }
        };
        Problem::new(code, detail).retry_after_s(1)
    }
}

/// The body, if its head does not say that it is too large: then it is refused before any of it has come.
fn fitting<B: Readable>(body: B, bytes_max: usize) -> Result<B, Problem> {
    let declared = body.size_hint().lower();
    if declared > bytes_max as u64 {
        return Err(too_large(declared, bytes_max));
    }
    Ok(body)
}

/// The refusal of a body of which `bytes` are known.
fn too_large(bytes: u64, bytes_max: usize) -> Problem {
    let detail = format!("the body has {bytes} bytes or more; here a body may have at most {bytes_max} bytes");
    Problem::new(codes::BODY_TOO_LARGE, detail)
}

/// A body is taken as it is: one that is compressed would be larger than it says.
fn check_content_encoding(headers: &HeaderMap) -> Result<(), Problem> {
    let is_plain = |value: &HeaderValue| {
        let mut codings = value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        codings.all(|coding| coding.is_empty() || coding.eq_ignore_ascii_case(b"identity"))
    };
    if headers.get_all(header::CONTENT_ENCODING).iter().all(is_plain) {
        return Ok(());
    }
    let detail = "send the body as it is, without the header `Content-Encoding`: no coding is taken";
    Err(Problem::new(codes::CONTENT_ENCODING_UNSUPPORTED, detail))
}

fn check_content_type(headers: &HeaderMap) -> Result<(), Problem> {
    if essence(headers).is_none_or(|essence| essence.eq_ignore_ascii_case(b"application/json")) {
        return Ok(());
    }
    let detail = "send the body as JSON, with the header `Content-Type: application/json`";
    Err(Problem::new(codes::CONTENT_TYPE_UNSUPPORTED, detail))
}

/// The content type without its parameters, if there is one.
fn essence(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::CONTENT_TYPE)?;
    Some(value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii())
}
