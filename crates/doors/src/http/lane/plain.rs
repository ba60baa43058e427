//! Which bytes are a plain request on a hot path: those of which nothing is left to doubt.
//!
//! Promise: a request that is plain here is the same request to whoever else reads it by the letter of RFC 9112: same
//! method, path, header fields and end. So a proxy in front of the door cannot see another one in it. What is unusual
//! is not refused here, only left to hyper.

use std::ops::Range;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use httparse::{EMPTY_HEADER, Status};

use crate::http::host::is_host;

/// Bytes of the longest head that is plain.
pub const HEAD_BYTES_MAX: usize = 4 << 10;
/// Bytes of the largest body that is plain.
pub const BODY_BYTES_MAX: usize = 8 << 10;
/// Header fields of a plain request.
pub const HEADERS_MAX: usize = 32;
/// Digits of the length of a body.
const LENGTH_DIGITS_MAX: usize = 5;

const _: () = assert!(BODY_BYTES_MAX < 10_usize.pow(LENGTH_DIGITS_MAX as u32));

/// Bounds of the door that are below those of the lane.
#[derive(Clone, Copy, Debug)]
pub struct PlainLimits {
    /// Header fields of a request.
    pub headers_max: usize,
    /// Bytes of a body.
    pub body_bytes_max: usize,
}

impl PlainLimits {
    /// Bytes of the largest body of a plain request.
    fn body_bytes(self) -> usize {
        BODY_BYTES_MAX.min(self.body_bytes_max)
    }
}

/// What bytes begin with.
#[derive(Debug, PartialEq)]
pub enum Seen {
    /// The whole head of a plain request.
    Plain(PlainHead),
    /// A part of what may become one.
    Part,
    /// Something else.
    Other,
}

/// The head of a plain request.
#[derive(Debug, PartialEq)]
pub struct PlainHead {
    /// Bytes of the head, with the empty line.
    pub head_bytes: usize,
    /// Bytes of the body behind it.
    pub body_bytes: usize,
    /// Where the digits stand that say so.
    pub length_at: Range<usize>,
    /// All its other header fields, in order.
    pub headers: HeaderMap,
}

/// A head that was plain. The next one of its client is mostly the same, but for the length of its body.
#[derive(Clone, Debug)]
pub struct PlainBytes {
    bytes: Box<[u8]>,
    length_at: Range<usize>,
}

impl PlainBytes {
    /// Of a head, which `bytes` begin with.
    pub fn of(head: &PlainHead, bytes: &[u8]) -> PlainBytes {
        PlainBytes { bytes: bytes[..head.head_bytes].into(), length_at: head.length_at.clone() }
    }

    /// Bytes of the head and of the body, if `bytes` begin with the same head, whatever the length of the body.
    pub fn again(&self, bytes: &[u8], limits: PlainLimits) -> Option<(usize, usize)> {
        let rest = bytes.strip_prefix(&self.bytes[..self.length_at.start])?;
        let digits = rest.iter().take(LENGTH_DIGITS_MAX).take_while(|byte| byte.is_ascii_digit()).count();
        let behind = &self.bytes[self.length_at.end..];
        if !rest[digits..].starts_with(behind) {
            return None;
        }
        let head_bytes = self.length_at.start + digits + behind.len();
        let body_bytes = length(&rest[..digits]).filter(|bytes| *bytes <= limits.body_bytes())?;
        (head_bytes <= HEAD_BYTES_MAX).then_some((head_bytes, body_bytes))
    }
}

/// The only first line that a plain request for `method` on `path` has.
pub fn request_line(method: &Method, path: &str) -> Box<[u8]> {
    format!("{method} {path} HTTP/1.1\r\n").into_bytes().into()
}

/// What `bytes` begin with, if the first line of a plain request is `line`.
pub fn head(line: &[u8], bytes: &[u8], limits: PlainLimits) -> Seen {
    let common = line.len().min(bytes.len());
    if bytes[..common] != line[..common] {
        return Seen::Other;
    }
    let part = if bytes.len() < HEAD_BYTES_MAX { Seen::Part } else { Seen::Other };
    if bytes.len() < line.len() {
        return part;
    }
    let mut fields = [EMPTY_HEADER; HEADERS_MAX];
    // What httparse takes is within what hyper takes: both refuse folded lines and spaces before the colon.
    match httparse::parse_headers(&bytes[line.len()..], &mut fields) {
        Ok(Status::Complete((length, fields))) => {
            let head_bytes = line.len() + length;
            plain(&bytes[..head_bytes], fields, limits).unwrap_or(Seen::Other)
        }
        Ok(Status::Partial) => part,
        Err(_) => Seen::Other,
    }
}

fn plain(head: &[u8], fields: &[httparse::Header<'_>], limits: PlainLimits) -> Option<Seen> {
    if head.len() > HEAD_BYTES_MAX || fields.len() > limits.headers_max || has_bare_line_feed(head) {
        return None;
    }
    let mut headers = HeaderMap::with_capacity(fields.len());
    let (mut hosts, mut connections, mut body) = (0, 0, None);
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        match name {
            header::HOST if is_host(field.value) => hosts += 1,
            header::CONTENT_LENGTH if body.is_none() => {
                body = Some((length(field.value)?, place_in(head, field.value)));
                continue;
            }
            header::CONNECTION if field.value.eq_ignore_ascii_case(b"keep-alive") => connections += 1,
            // What decides how far a request goes, what becomes of the connection, or how it is answered.
            header::CONTENT_LENGTH
            | header::CONNECTION
            | header::HOST
            | header::TRANSFER_ENCODING
            | header::TE
            | header::TRAILER
            | header::EXPECT
            | header::UPGRADE => return None,
            _ => {}
        }
        headers.append(name, HeaderValue::from_bytes(field.value).ok()?);
    }
    let (body_bytes, length_at) = body.filter(|(bytes, _)| *bytes <= limits.body_bytes())?;
    let is_plain = hosts == 1 && connections <= 1;
    is_plain.then(|| Seen::Plain(PlainHead { head_bytes: head.len(), body_bytes, length_at, headers }))
}

/// Where a part of the head stands in it.
fn place_in(head: &[u8], part: &[u8]) -> Range<usize> {
    let begin = part.as_ptr().addr() - head.as_ptr().addr();
    begin..begin + part.len()
}

/// Whether a line ends without a carriage return, which some would not see as an end.
fn has_bare_line_feed(head: &[u8]) -> bool {
    // Without a way out of the middle: so the compiler looks at many bytes at once.
    let pairs = head.iter().zip(&head[1..]);
    head.first() == Some(&b'\n') || pairs.fold(false, |has, (before, byte)| has | (*byte == b'\n' && *before != b'\r'))
}

fn length(digits: &[u8]) -> Option<usize> {
    let is_number = (1..=LENGTH_DIGITS_MAX).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| digits.iter().fold(0, |length, digit| length * 10 + usize::from(digit - b'0')))
}

/// Whether the body is as it is, or in chunks: RFC 9112, 6.1. In another coding, somebody between may read another one.
pub(crate) fn is_chunked_at_most<B>(request: &hyper::Request<B>) -> bool {
    let mut codings = request.headers().get_all(header::TRANSFER_ENCODING).iter();
    let is_chunked = |coding: &HeaderValue| coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
    codings.next().is_none_or(is_chunked) && codings.next().is_none()
}

#[cfg(test)]
mod tests;
