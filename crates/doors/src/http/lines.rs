//! Whether a client wants an answer as a stream: a JSON object on each line (NDJSON), or another content type.

use axum::http::{HeaderMap, Version, header};

/// The content type of JSON objects on lines.
pub const NDJSON: &str = "application/x-ndjson";

/// Whether a client wants lines: it names them, and does not like JSON as well. Where a body of unknown length ends
/// with the connection (HTTP/1.0), nobody could tell a piece from the whole, so there are none.
pub fn are_lines_wanted(version: Version, headers: &HeaderMap) -> bool {
    is_wanted(NDJSON, version, headers)
}

/// The same for a stream of another content type.
pub fn is_wanted(content_type: &str, version: Version, headers: &HeaderMap) -> bool {
    version >= Version::HTTP_11 && quality_of(content_type, headers) > quality_of("application/json", headers)
}

/// How much a client wants a content type, in thousandths (RFC 9110, 12.4.2); zero if it does not name it.
fn quality_of(content_type: &str, headers: &HeaderMap) -> u16 {
    let values = headers.get_all(header::ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    let named = values.flat_map(|value| value.split(',')).filter_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let is_named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(content_type));
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let quality = weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0_f32));
        is_named.then_some((quality.clamp(0.0, 1.0) * 1_000.0) as u16)
    });
    named.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn lines_are_for_those_who_ask_for_them_and_pages_are_the_default() {
        for (accept, wanted) in [
            ("", false),
            ("*/*", false),
            ("application/*", false),
            ("application/json", false),
            ("application/x-ndjson", true),
            ("Application/X-NDJSON; charset=utf-8", true),
            ("application/x-ndjson, */*", true),
            ("application/json, application/x-ndjson", false),
            ("application/json;q=0.5, application/x-ndjson", true),
            ("application/json, application/x-ndjson;q=0.9", false),
            ("application/x-ndjson;q=0", false),
            ("application/x-ndjson;q=nonsense", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(are_lines_wanted(Version::HTTP_11, &headers), wanted, "{accept:?}");
            assert!(!are_lines_wanted(Version::HTTP_10, &headers), "{accept:?}");
        }
        let mut two = HeaderMap::new();
        two.append(header::ACCEPT, HeaderValue::from_static("text/html"));
        two.append(header::ACCEPT, HeaderValue::from_static("application/x-ndjson"));
        assert!(are_lines_wanted(Version::HTTP_11, &two), "a list may stand in several fields");
    }
}
