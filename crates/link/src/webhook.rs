//! `[[webhook]]`: a program of the operator's, over HTTP. Each message is one POST.
//!
//! ```text
//!   POST url                                         2xx                      taken
//!     content-type, the body of the message          410, other 4xx           never taken: a dead letter
//!     webhook-id, -timestamp, -signature             408, 425, 5xx, 3xx       another attempt
//!     tidegate-queue, -attempt, -attributes          429, 503 with Retry-After; no connection: uncounted, later
//! ```
//!
//! Promise: who has the secret can tell that a request is ours and is whole: the signature is that of the *Standard
//! Webhooks* (HMAC-SHA256 of id, time and body). The id is one for all attempts, and for all nodes behind the first, so
//! a program that remembers ids does each message once.
//!
//! The body is the body, not an envelope: what a sender puts into a queue is what the program gets, of any type, and
//! what is said beside it stands in headers.

use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, Mac};
use reqwest::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode, Url};
use sha2::Sha256;
use tidegate_config::{Count, Document, FilePath, Milliseconds, NoDefault, Optional, Required, Text, config};
use tidegate_queue::Received;

use crate::attributes::Attributes;
use crate::checks::{Checks, Row};
use crate::identity::id_of;
use crate::queue::Queue;
use crate::room::{Kind, Running, Start};
use crate::target::{Fate, LinkSettings, Session, Target};

config! {
    /// `[[webhook]]`
    pub struct WebhookKeys in [["webhook"]] {
        name: Required<Text> = NoDefault, .., restart, "name, for logs, metrics and trails; at most 55 bytes";
        from: Required<Text> = NoDefault, .., restart, "the queue here whose messages are posted, each by itself";
        url: Required<Text> = NoDefault, .., restart, "where to, with http or https";
        secret: Optional<Text> = NoDefault, .., restart,
            "secret that signs requests, as whsec_ and base64, or any text; only for development";
        secret_file: Optional<FilePath> = NoDefault, .., restart, "file with the secret";
        content_type: Text = "application/json", .., restart,
            "content-type of messages without the attribute content-type";
        timeout_ms: Milliseconds = 10_000, 100..=600_000, restart, "how long the other side has for an answer";
        concurrency: Count<usize> = 10, 1..=1_000, restart, "requests that are under way at once";
        lease_ms: Milliseconds = 60_000, 1_000..=43_200_000, restart,
            "how long messages are leased meanwhile: after a kill of this server they wait for so long";
        pause_max_ms: Milliseconds = 30_000, 100..=3_600_000, restart,
            "longest pause after a failure to connect; the first is 100 ms, each further one twice as long";
    }
}

/// The attribute that says what a body is.
const TYPE_ATTRIBUTE: &str = "content-type";
/// Bytes of the header with the attributes; more of them are left out.
const ATTRIBUTES_BYTES_MAX: usize = 8 * 1024;
/// Bytes of an answer that are quoted in a trail.
const QUOTED_BYTES_MAX: usize = 120;
/// When to try again if the other side has too much and does not say.
const TOO_MUCH_MS: u64 = 1_000;
/// The latest that a `Retry-After` is followed.
const RETRY_AFTER_MS_MAX: u64 = 24 * 3_600_000;

/// A webhook as it is used.
#[derive(Clone)]
pub struct Webhook {
    link: LinkSettings,
    url: Url,
    secret: Vec<u8>,
    content_type: HeaderValue,
    timeout: Duration,
    concurrency: usize,
}

/// Reads and checks all of them, and the files with their secrets.
pub fn webhooks(document: &Document) -> Result<Vec<Webhook>> {
    let keys: Vec<WebhookKeys> = document.list()?;
    let mut checks = Checks::new(document, "webhook");
    let webhook = |(index, keys): (usize, WebhookKeys)| {
        let row = checks.row(index, &keys.name, &keys.from)?;
        // A URL with a space would be read as another one.
        let is_plain = keys.url.bytes().all(|byte| byte.is_ascii_graphic() || !byte.is_ascii());
        let url = Url::parse(&keys.url).ok().filter(|url| is_plain && matches!(url.scheme(), "http" | "https"));
        let secret_key = if keys.secret.is_some() { "secret" } else { "secret_file" };
        Ok(Webhook {
            url: url.ok_or_else(|| {
                row.wrong(
                    "url",
                    "expected an address with http or https and no space, such as \"https://example.org/hook\"",
                )
            })?,
            secret: secret_of(&row.required_secret("secret", keys.secret, keys.secret_file)?, secret_key, &row)?,
            content_type: HeaderValue::from_str(&keys.content_type)
                .map_err(|_| row.wrong("content_type", "expected a type such as \"application/json\""))?,
            timeout: Duration::from_millis(keys.timeout_ms),
            concurrency: keys.concurrency,
            link: LinkSettings {
                kind: "webhook",
                name: keys.name,
                from: keys.from,
                lease_ms: keys.lease_ms,
                pause_max_ms: keys.pause_max_ms,
            },
        })
    };
    keys.into_iter().enumerate().map(webhook).collect()
}

/// The bytes of a secret: behind `whsec_` in base64, as the Standard Webhooks have it, or the text itself.
fn secret_of(text: &str, key: &str, row: &Row<'_>) -> Result<Vec<u8>> {
    let bytes = match text.strip_prefix("whsec_") {
        Some(coded) => BASE64.decode(coded).map_err(|_| row.wrong(key, "behind whsec_ it is no base64"))?,
        None => text.as_bytes().to_vec(),
    };
    if bytes.is_empty() { Err(row.wrong(key, "there is nothing behind whsec_")) } else { Ok(bytes) }
}

impl Kind for Webhook {
    fn start(self: Box<Self>, start: Start) -> Running {
        start.forward(*self)
    }
}

impl Target for Webhook {
    type Session = Poster;

    fn settings(&self) -> &LinkSettings {
        &self.link
    }

    async fn open(&mut self, _queue: &Queue) -> Result<Poster, String> {
        // Whoever was first has set it; there is one for the process.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // An address is the operator's word: an answer may not send elsewhere.
        // Who does not come to an end with a handshake is away, and has got no message: no attempt counts.
        let builder = Client::builder().timeout(self.timeout).connect_timeout(self.timeout / 2);
        let client = builder.redirect(Policy::none()).build();
        let client = client.context("no client for HTTP").map_err(|error| format!("{error:#}"))?;
        Ok(Poster { client, webhook: self.clone() })
    }
}

/// What posts messages. It is never over: a connection that ends is made anew.
pub struct Poster {
    client: Client,
    webhook: Webhook,
}

impl Session for Poster {
    fn gifts_max(&self) -> usize {
        self.webhook.concurrency
    }

    async fn give(self: Rc<Self>, messages: Vec<Received>) -> Vec<Fate> {
        let mut fates = Vec::with_capacity(messages.len());
        for message in &messages {
            fates.push(self.post(message).await);
        }
        fates
    }

    async fn over(&self) -> String {
        std::future::pending().await
    }

    async fn close(&self) {}
}

impl Poster {
    async fn post(&self, received: &Received) -> Fate {
        let (webhook, message) = (&self.webhook, &*received.message);
        let id = id_of(received);
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let attributes = Attributes::read(&message.attributes);
        let own_type = attributes.get(TYPE_ATTRIBUTE).and_then(|text| HeaderValue::from_str(text).ok());
        let mut request = self
            .client
            .post(webhook.url.clone())
            .header(CONTENT_TYPE, own_type.unwrap_or_else(|| webhook.content_type.clone()))
            .header("webhook-id", &id)
            .header("webhook-timestamp", seconds)
            .header("webhook-signature", signature(&webhook.secret, &id, seconds, &message.body))
            .header("tidegate-queue", &*webhook.link.from)
            .header("tidegate-attempt", received.attempts)
            .body(message.body.to_vec());
        if let Some(attributes) = header_of(&message.attributes) {
            request = request.header("tidegate-attributes", attributes);
        }
        match request.send().await {
            Ok(answer) => judged(answer).await,
            Err(error) if error.is_connect() => Fate::Back { why: told(&error), after_ms: 0, is_away: true },
            // Whether it was served is unknown.
            Err(error) => Fate::Again { why: told(&error), after_ms: None },
        }
    }
}

/// What an error says, and what is behind it, without the address.
fn told(error: &reqwest::Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    match causes.last() {
        _ if error.is_timeout() => "no answer in time".to_owned(),
        Some(cause) => cause.to_string(),
        None => error.to_string(),
    }
}

/// [Standard Webhooks] `v1,` and the base64 of the HMAC-SHA256 of `id.seconds.body`.
fn signature(secret: &[u8], id: &str, seconds: u64, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("a key of any length will do");
    mac.update(format!("{id}.{seconds}.").as_bytes());
    mac.update(body);
    format!("v1,{}", BASE64.encode(mac.finalize().into_bytes()))
}

/// Attributes as a header: their JSON, in ASCII. None if there are none, or too many.
fn header_of(attributes: &[u8]) -> Option<HeaderValue> {
    let text = std::str::from_utf8(attributes).ok().filter(|text| !text.is_empty())?;
    let mut ascii = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            ' '..='~' => ascii.push(letter),
            _ => letter.encode_utf16(&mut [0; 2]).iter().for_each(|unit| ascii.push_str(&format!("\\u{unit:04x}"))),
        }
    }
    HeaderValue::from_str(&ascii).ok().filter(|_| ascii.len() <= ATTRIBUTES_BYTES_MAX)
}

/// What follows from an answer.
async fn judged(mut answer: Response) -> Fate {
    let status = answer.status();
    let after_ms = answer.headers().get(RETRY_AFTER).and_then(|value| retry_after_ms(value.to_str().ok()?));
    let said = match answer.chunk().await {
        Ok(Some(chunk)) => String::from_utf8_lossy(&chunk[..chunk.len().min(QUOTED_BYTES_MAX)]).into_owned(),
        _ => String::new(),
    };
    let why = match said.trim() {
        "" => format!("the other side answered {status}"),
        said => format!("the other side answered {status}: {said}"),
    };
    fate_of(status, after_ms, why)
}

fn fate_of(status: StatusCode, after_ms: Option<u64>, why: String) -> Fate {
    match status.as_u16() {
        200..=299 => Fate::Taken { reference: Box::default() },
        429 => Fate::Back { why, after_ms: after_ms.unwrap_or(TOO_MUCH_MS), is_away: true },
        503 if after_ms.is_some() => Fate::Back { why, after_ms: after_ms.unwrap_or(0), is_away: true },
        408 | 425 => Fate::Again { why, after_ms },
        400..=499 => Fate::Dead { why },
        _ => Fate::Again { why, after_ms },
    }
}

/// Seconds, as almost all servers write it; a date is not followed.
fn retry_after_ms(text: &str) -> Option<u64> {
    let seconds: u64 = text.trim().parse().ok()?;
    Some(seconds.saturating_mul(1_000).min(RETRY_AFTER_MS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the Standard Webhooks.
    #[test]
    fn requests_are_signed_as_the_standard_says() {
        let secret = BASE64.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let (id, body) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", br#"{"test": 2432232314}"#);
        let signed = signature(&secret, id, 1_614_265_330, body);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn statuses_have_their_fates() {
        let fate = |status: u16, after_ms| match fate_of(StatusCode::from_u16(status).unwrap(), after_ms, String::new())
        {
            Fate::Taken { .. } => "taken".to_owned(),
            Fate::Back { after_ms, .. } => format!("back {after_ms}"),
            Fate::Again { after_ms, .. } => format!("again {after_ms:?}"),
            Fate::Dead { .. } => "dead".to_owned(),
            Fate::Routed | Fate::Later { .. } => unreachable!("a webhook knows neither"),
        };
        assert_eq!([fate(200, None), fate(204, None)], ["taken", "taken"]);
        assert_eq!([fate(400, None), fate(404, None), fate(410, None)], ["dead", "dead", "dead"]);
        assert_eq!(
            [fate(408, None), fate(425, Some(5)), fate(500, None)],
            ["again None", "again Some(5)", "again None"]
        );
        assert_eq!([fate(429, None), fate(429, Some(5)), fate(503, Some(7))], ["back 1000", "back 5", "back 7"]);
        assert_eq!([fate(503, None), fate(302, None)], ["again None", "again None"]);
        assert_eq!(
            (retry_after_ms(" 3 "), retry_after_ms("Fri, 27 Nov"), retry_after_ms("99999999")),
            (Some(3_000), None, Some(RETRY_AFTER_MS_MAX))
        );
    }

    #[test]
    fn attributes_are_a_header_of_ascii() {
        let header = |text: &str| header_of(text.as_bytes()).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(header(r#"{"a":"é🦀"}"#).as_deref(), Some(r#"{"a":"\u00e9\ud83e\udd80"}"#));
        assert_eq!((header(""), header(&"x".repeat(ATTRIBUTES_BYTES_MAX + 1))), (None, None));
    }
}
