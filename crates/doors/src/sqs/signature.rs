//! AWS Signature Version 4 in the `Authorization` header.
//!
//! ```text
//!   method, path, query, headers, hash of the body ─▶ canonical request ─▶ hash ─┐
//!   secret ─▶ day ─▶ region ─▶ service ─▶ key ────────────────────────────────────┴─▶ HMAC: the signature
//! ```
//!
//! The rule is AWS's "Create a signed AWS API request". Regions may be any; the service is `sqs`.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use tidegate_machines::TimeMs;

use super::Done;
use super::error::{AwsError, codes};
use crate::auth::SigningSecret;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const SERVICE: &str = "sqs";
/// How far the clock of a client may be from ours, in seconds.
const SKEW_S_MAX: u64 = 15 * 60;
/// What a signature must cover: without these, it could be used for another request.
const SIGNED_AT_LEAST: [&str; 3] = ["host", "x-amz-date", "x-amz-target"];
/// Headers that one signature may cover.
const SIGNED_MAX: usize = 64;

/// A signature as it was shown.
pub struct Shown<'a> {
    access_key: &'a str,
    /// Day, region, service, and `aws4_request`.
    scope: Scope<'a>,
    signed: Vec<&'a str>,
    signature: [u8; 32],
    /// `20261127T193000Z`.
    date: &'a str,
}

/// What a key is made for.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// `20261127`.
    pub day: &'a str,
    /// Any.
    pub region: &'a str,
    /// `sqs`.
    pub service: &'a str,
}

fn incomplete(what: &str) -> AwsError {
    AwsError::new(codes::INCOMPLETE_SIGNATURE, format!("Authorization: {what}"))
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

impl<'a> Shown<'a> {
    /// Reads what the head of a request shows.
    pub fn of(head: &'a Parts) -> Done<Shown<'a>> {
        let header = text(&head.headers, AUTHORIZATION.as_str()).ok_or_else(|| {
            AwsError::new(codes::MISSING_TOKEN, "sign the request with an access key; see docs/sqs.md")
        })?;
        let rest = header.strip_prefix(ALGORITHM).and_then(|rest| rest.strip_prefix(' '));
        let rest =
            rest.ok_or_else(|| incomplete("expected AWS4-HMAC-SHA256 Credential=…, SignedHeaders=…, Signature=…"))?;
        let part = |name: &str| {
            let mut parts = rest.split(',').filter_map(|part| part.trim().split_once('='));
            parts.find(|(found, _)| *found == name).map(|(_, value)| value)
        };
        let credential = part("Credential").ok_or_else(|| incomplete("Credential is missing"))?;
        let signed = part("SignedHeaders").ok_or_else(|| incomplete("SignedHeaders is missing"))?;
        let signature =
            part("Signature").and_then(from_hex).ok_or_else(|| incomplete("Signature has 64 hex digits"))?;
        let fields: Vec<&str> = credential.splitn(6, '/').collect();
        let [access_key, day, region, service, "aws4_request"] = fields[..] else {
            return Err(incomplete("Credential is KEY/DAY/REGION/sqs/aws4_request"));
        };
        if service != SERVICE {
            return Err(incomplete("the service of the credential's scope is sqs"));
        }
        let signed: Vec<&str> = signed.split(';').take(SIGNED_MAX + 1).collect();
        if signed.len() > SIGNED_MAX {
            return Err(incomplete("SignedHeaders has at most 64 names"));
        }
        if let Some(missing) = SIGNED_AT_LEAST.into_iter().find(|name| !signed.contains(name)) {
            return Err(incomplete(&format!("the header {missing} must be signed")));
        }
        let date = text(&head.headers, "x-amz-date").ok_or_else(|| incomplete("the header X-Amz-Date is missing"))?;
        Ok(Shown { access_key, scope: Scope { day, region, service }, signed, signature, date })
    }

    /// Whose it claims to be.
    pub fn access_key(&self) -> &str {
        self.access_key
    }

    /// Whether the secret's owner has signed this request, not long before or after `now`.
    pub fn check(&self, head: &Parts, body: &[u8], secret: &SigningSecret, now: TimeMs) -> Done<()> {
        let mismatch = |what: &'static str| AwsError::new(codes::SIGNATURE_DOES_NOT_MATCH, what);
        let signed_at = seconds_of(self.date).ok_or_else(|| incomplete("X-Amz-Date is as 20261127T193000Z"))?;
        if !self.date.starts_with(self.scope.day) || self.scope.day.len() != 8 {
            return Err(mismatch("the day of the credential's scope is not that of X-Amz-Date"));
        }
        if signed_at.abs_diff(now.0 / 1_000) > SKEW_S_MAX {
            let what =
                format!("Signature expired: X-Amz-Date {} is more than 15 minutes from this server's time", self.date);
            return Err(AwsError::new(codes::SIGNATURE_DOES_NOT_MATCH, what));
        }
        let canonical = canonical_request(head, &self.signed, body);
        let to_sign = to_sign(self.date, self.scope, &canonical);
        let mac = mac(secret.text(), self.scope, &to_sign);
        // Compares in constant time.
        mac.verify_slice(&self.signature).map_err(|_| {
            mismatch("the signature is not that of this request and the key's secret; check the secret access key")
        })
    }
}

/// The request as it is signed.
pub fn canonical_request(head: &Parts, signed: &[&str], body: &[u8]) -> String {
    let mut canonical = format!("{}\n{}\n", head.method, coded(head.uri.path().as_bytes(), true));
    canonical += &canonical_query(head.uri.query().unwrap_or_default());
    canonical.push('\n');
    for name in signed {
        let values: Vec<String> = head.headers.get_all(*name).iter().map(|value| spaced(value.as_bytes())).collect();
        canonical += &format!("{name}:{}\n", values.join(","));
    }
    canonical += &format!("\n{}\n{}", signed.join(";"), hex(&Sha256::digest(body)));
    canonical
}

/// What the key signs.
pub fn to_sign(date: &str, scope: Scope<'_>, canonical: &str) -> String {
    let Scope { day, region, service } = scope;
    let hash = hex(&Sha256::digest(canonical));
    format!("{ALGORITHM}\n{date}\n{day}/{region}/{service}/aws4_request\n{hash}")
}

/// The signature of a text, by the key that is made of a secret for a scope.
pub fn mac(secret: &str, scope: Scope<'_>, text: &str) -> Hmac<Sha256> {
    let step = |key: &[u8], text: &str| {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
        mac.update(text.as_bytes());
        mac
    };
    let first = format!("AWS4{secret}").into_bytes();
    let parts = [scope.day, scope.region, scope.service, "aws4_request"];
    let key = parts.iter().fold(first, |key, part| step(&key, part).finalize().into_bytes().to_vec());
    step(&key, text)
}

/// A value without spaces at its ends, and with one where there are more.
fn spaced(value: &[u8]) -> String {
    let value = String::from_utf8_lossy(value);
    value.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Bytes with all but letters, digits, `-._~` and perhaps slashes percent-encoded.
fn coded(bytes: &[u8], keeps_slashes: bool) -> String {
    let mut coded = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => coded.push(char::from(*byte)),
            b'/' if keeps_slashes => coded.push('/'),
            _ => coded += &format!("%{byte:02X}"),
        }
    }
    coded
}

/// A query's parameters, encoded anew, in the order of their names and values.
fn canonical_query(query: &str) -> String {
    let parameter = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (coded(&decoded(name), false), coded(&decoded(value), false))
    };
    let mut parameters: Vec<_> = query.split('&').filter(|part| !part.is_empty()).map(parameter).collect();
    parameters.sort();
    parameters.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

/// The bytes that a percent-encoded text stands for; what is no code stays.
fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = after.get(..2).filter(|_| *first == b'%').and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
            u8::from_str_radix(digits, 16).ok()
        });
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let text = text.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut bytes = [0; 32];
    if text.len() != 64 {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.chunks(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

/// The seconds since 1970 of a time such as `20261127T193000Z`.
fn seconds_of(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    if bytes.len() != 16 || bytes[8] != b'T' || bytes[15] != b'Z' {
        return None;
    }
    let number = |from: usize, to: usize| {
        let digits = &bytes[from..to];
        let is_number = digits.iter().all(u8::is_ascii_digit);
        is_number.then(|| digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
    };
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(9, 11)?, number(11, 13)?, number(13, 15)?);
    let is_time = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_time || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Days since 1970, in years that begin with March, so that the leap day is the last one.
    let (years, months) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = years * 365 + years / 4 - years / 100 + years / 400 + (months * 153 + 2) / 5 + day - 1;
    Some((days.checked_sub(719_468)?) * 86_400 + hour * 3_600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn head(method: &str, uri: &str, headers: &[(&str, &str)]) -> Parts {
        let request = headers
            .iter()
            .fold(Request::builder().method(method).uri(uri), |request, (name, value)| request.header(*name, *value));
        request.body(()).unwrap().into_parts().0
    }

    /// AWS's own test suite: `get-vanilla` and `post-vanilla`.
    #[test]
    fn the_examples_of_aws_are_signed_as_they_say() {
        let (date, scope) = ("20150830T123600Z", Scope { day: "20150830", region: "us-east-1", service: "service" });
        for (method, wanted) in [
            ("GET", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
            ("POST", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        ] {
            let head = head(method, "/", &[("host", "example.amazonaws.com"), ("x-amz-date", date)]);
            let canonical = canonical_request(&head, &["host", "x-amz-date"], b"");
            let mac = mac("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", scope, &to_sign(date, scope, &canonical));
            assert_eq!(hex(&mac.finalize().into_bytes()), wanted, "{method}");
        }
    }

    const SIGNED: &str = "AWS4-HMAC-SHA256 Credential=dev/20261127/eu-central-1/sqs/aws4_request, \
        SignedHeaders=content-type;host;x-amz-date;x-amz-target, \
        Signature=7ee8f504a8edfeaef2cabd665a938bc541748d47b5623f3d0ecd79720c3264f1";
    const BODY: &str = r#"{"QueueUrl":"http://localhost:8080/000000000000/jobs","MessageBody":"héllo"}"#;
    /// 2026-11-27 19:30:00.
    const SIGNED_AT: TimeMs = TimeMs(1_795_807_800_000);

    fn signed(authorization: &str, target: &str) -> Parts {
        let headers = [
            ("authorization", authorization),
            ("host", "localhost:8080"),
            ("content-type", "application/x-amz-json-1.0"),
            ("x-amz-date", "20261127T193000Z"),
            ("x-amz-target", target),
        ];
        head("POST", "/", &headers)
    }

    fn check(head: &Parts, body: &str, secret: &str, now: TimeMs) -> Result<(), &'static str> {
        let shown = Shown::of(head).map_err(|error| error.code.name)?;
        assert_eq!(shown.access_key(), "dev");
        shown.check(head, body.as_bytes(), &SigningSecret::new(secret), now).map_err(|error| error.code.name)
    }

    /// Made with botocore 1.44.5.
    #[test]
    fn what_botocore_has_signed_is_good_for_that_request_alone() {
        const NO: Result<(), &str> = Err("SignatureDoesNotMatch");
        let (head, secret) = (signed(SIGNED, "AmazonSQS.SendMessage"), "dev-service-secret");
        assert_eq!(check(&head, BODY, secret, SIGNED_AT), Ok(()));
        assert_eq!(check(&head, &BODY.replace("llo", "LLO"), secret, SIGNED_AT), NO);
        assert_eq!(check(&head, BODY, "another-secret-key", SIGNED_AT), NO);
        assert_eq!(check(&signed(SIGNED, "AmazonSQS.DeleteQueue"), BODY, secret, SIGNED_AT), NO);
        assert_eq!(check(&head, BODY, secret, TimeMs(SIGNED_AT.0 + 900_000)), Ok(()), "15 minutes late");
        assert_eq!(check(&head, BODY, secret, TimeMs(SIGNED_AT.0 + 901_000)), NO);
        assert_eq!(check(&head, BODY, secret, TimeMs(SIGNED_AT.0 - 901_000)), NO);
        let of_another_day = signed(&SIGNED.replace("dev/20261127", "dev/20261126"), "AmazonSQS.SendMessage");
        assert_eq!(check(&of_another_day, BODY, secret, SIGNED_AT), NO);
    }

    #[test]
    fn paths_queries_and_spaces_are_signed_as_botocore_does() {
        let (date, scope) = ("20261127T193000Z", Scope { day: "20261127", region: "eu-central-1", service: "sqs" });
        let headers = [
            ("host", "localhost:8080"),
            ("content-type", "application/x-amz-json-1.0"),
            ("x-amz-date", date),
            ("x-amz-meta", "  two   spaces "),
            ("x-amz-target", "AmazonSQS.SendMessage"),
        ];
        let head = head("POST", "/a%7Bb%7D?b=2&a=1&a=%20x", &headers);
        let signed = ["content-type", "host", "x-amz-date", "x-amz-meta", "x-amz-target"];
        let mac = mac("dev-service-secret", scope, &to_sign(date, scope, &canonical_request(&head, &signed, b"{}")));
        let wanted = "ec360cd05bac28d19e2ba3da5d365b429aa48fce0841266effd0061318f1410d";
        assert_eq!(hex(&mac.finalize().into_bytes()), wanted);
    }

    #[test]
    fn what_is_no_signature_is_refused() {
        let all = SIGNED.replace("AWS4-HMAC-SHA256 ", "");
        for other in [
            "",
            "Bearer dev-service-token",
            &all,
            "AWS4-HMAC-SHA256 ",
            &SIGNED.replace("Signature=7", "Signature="),
            &SIGNED.replace(";x-amz-target", ""),
            &SIGNED.replace("host;", ""),
            &SIGNED.replace("/sqs/", "/s3/"),
            &SIGNED.replace("/aws4_request", ""),
            &SIGNED.replace("Signature=7e", "Signature=+e"),
            &SIGNED.replace("host;", &"a;".repeat(65)),
        ] {
            let head = signed(other, "AmazonSQS.SendMessage");
            assert_eq!(check(&head, BODY, "dev-service-secret", SIGNED_AT), Err("IncompleteSignature"), "{other}");
        }
    }

    #[test]
    fn a_header_may_be_cut_anywhere() {
        for end in 1..SIGNED.len() {
            for text in [&SIGNED[..end], &SIGNED[end..]] {
                assert!(Shown::of(&signed(text, "AmazonSQS.SendMessage")).is_err(), "{text}");
                assert!(canonical_query(text).len() <= 3 * text.len() + 64);
            }
        }
        assert_eq!(String::from_utf8_lossy(&decoded("%41%zz%4%+1%")), "A%zz%4%+1%");
    }

    #[test]
    fn times_are_read() {
        for (text, seconds) in [
            ("19700101T000000Z", Some(0)),
            ("20000229T120000Z", Some(951_825_600)),
            ("20150830T123600Z", Some(1_440_938_160)),
            ("20261127T193000Z", Some(SIGNED_AT.0 / 1_000)),
            ("20261327T193000Z", None),
            ("2026112zT193000Z", None),
            ("20261127 193000Z", None),
            ("héllo-héllo-héll", None),
        ] {
            assert_eq!(seconds_of(text), seconds, "{text}");
        }
    }
}
