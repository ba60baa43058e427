//! Writes an answer as hyper writes it, byte for byte.

use std::io::Write;
use std::time::{Duration, SystemTime};

use axum::body::Bytes;
use axum::http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;

/// Bytes of most heads.
const HEAD_BYTES: usize = 256;

/// The `date` of answers, made once a second.
#[derive(Debug)]
pub(in crate::http) struct DateLine {
    text: String,
    /// When it is no longer true.
    until: SystemTime,
}

impl Default for DateLine {
    fn default() -> DateLine {
        DateLine { text: String::new(), until: SystemTime::UNIX_EPOCH }
    }
}

impl DateLine {
    /// Of now. A clock that was put back is followed within a second of its own time.
    fn at(&mut self, now: SystemTime) -> &str {
        let second = Duration::from_secs(1);
        if now >= self.until || self.until > now + second {
            self.text = httpdate::fmt_http_date(now);
            let within = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().subsec_nanos();
            self.until = now + second - Duration::from_nanos(within.into());
        }
        &self.text
    }
}

/// Appends `answer`. Returns whether the connection ends with it: because `is_last`, or because it says so itself.
pub(in crate::http) fn append(
    bytes: &mut Vec<u8>,
    answer: Response<Full<Bytes>>,
    is_last: bool,
    date: &mut DateLine,
) -> bool {
    let (mut head, body) = answer.into_parts();
    let body = body.into_inner().unwrap_or_default();
    let says_so = head.headers.get(header::CONNECTION).is_some_and(|value| value.as_bytes() == b"close");
    if is_last && !says_so {
        head.headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    bytes.reserve(HEAD_BYTES + body.len());
    for part in ["HTTP/1.1 ", head.status.as_str(), " ", head.status.canonical_reason().unwrap_or("<none>"), "\r\n"] {
        bytes.extend_from_slice(part.as_bytes());
    }
    for (name, value) in &head.headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            bytes.extend_from_slice(part);
        }
    }
    let (length, date) = (body.len(), date.at(SystemTime::now()));
    // RFC 9110, 8.6: an answer 204 has no length.
    if head.status != StatusCode::NO_CONTENT {
        write!(bytes, "content-length: {length}\r\n").expect("memory takes what is written");
    }
    write!(bytes, "date: {date}\r\n\r\n").expect("memory takes what is written");
    bytes.extend_from_slice(&body);
    is_last || says_so
}

#[cfg(test)]
mod tests;
