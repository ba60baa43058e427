//! MQTT over WebSocket begins as an HTTP request: the door checks it, answers the upgrade, takes the socket (and its TLS) out of the
//! HTTP server and gives it away. From then on it costs what any MQTT connection costs.
//!
//! ```text
//!   GET /mqtt, Upgrade: websocket ─▶ checks ─▶ 101 ─▶ socket, TLS, bytes read ahead ─▶ Backend::adopt ─▶ a worker
//!                                       └─▶ problem+json
//! ```
//!
//! Which pages may do this is the settings' [`Origins`]: a browser sends the origin of its page along, and without a rule of ours every
//! page of the world could connect from inside somebody's network. Programs that are no browsers send none, and may.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use rustls::ServerConnection;
use tidegate_wire::websocket::{SUBPROTOCOL, accept_key, offers_mqtt};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::backend::{Backend, Health};
use super::problem::Problem;
use crate::mqtt::admission::{AddressMark, Entry, monotonic_ns};
use crate::mqtt::{Admission, Arrival, ListenerIndex, Origins, WebSocketSettings};
use crate::stream::Stream;

/// How long the answer to the upgrade may take to leave.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);

/// What the door knows of MQTT.
#[derive(Clone)]
pub struct WebSocketDoor {
    /// Where it is, and for whom.
    pub settings: WebSocketSettings,
    /// The counts of all clients.
    pub admission: Arc<Admission>,
    /// Which of its listeners this door counts as.
    pub listener: ListenerIndex,
}

impl WebSocketDoor {
    /// Answers a request for an upgrade from a client at `address`.
    pub(super) fn answer<B: Backend, R>(
        &self,
        backend: &B,
        request: hyper::Request<R>,
        address: IpAddr,
    ) -> Result<Response<Body>, Problem> {
        let accept = check(&request, &self.settings.origins)?;
        match backend.health() {
            Health::Serving => {}
            Health::Recovering { .. } => return Err(tidegate_ledger::message::Unavailable::Recovering.into()),
            Health::Failed { .. } => return Err(tidegate_ledger::message::Unavailable::ShardFailed.into()),
            Health::Stopping => return Err(tidegate_ledger::message::Unavailable::Stopping.into()),
        }
        let mark = self.admit(address)?;
        let (door, backend, upgrade) = (self.clone(), backend.clone(), hyper::upgrade::on(request));
        tokio::spawn(async move {
            let upgraded = tokio::time::timeout(UPGRADE_TIMEOUT, upgrade).await;
            let stream = upgraded.ok().and_then(Result::ok).and_then(take_out);
            let arrival = stream.map(|stream| Arrival {
                stream,
                listener: door.listener,
                mark,
                refusal: None,
                bytes: Box::default(),
            });
            if !arrival.is_some_and(|arrival| backend.adopt(Box::new(arrival))) {
                door.admission.leave(door.listener, mark);
            }
        });
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        // [MQTT-6.0.0-4]
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
        Ok(response)
    }

    /// Counts the client, or says that there are too many. HTTP has a word for it, so nobody is let in only to be told.
    fn admit(&self, address: IpAddr) -> Result<AddressMark, Problem> {
        let busy =
            |detail: &'static str| Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail).retry_after_s(1));
        if !self.admission.throttle(self.listener).take(monotonic_ns()) {
            return busy("too many clients connect at once; try again in a second");
        }
        match self.admission.enter(self.listener, address) {
            Entry::Welcome(mark) => Ok(mark),
            Entry::Polite(mark, _) => {
                self.admission.leave(self.listener, mark);
                busy("as many clients are connected as may be")
            }
            Entry::Shut => busy("as many clients are connected as may be"),
        }
    }
}

/// The `Sec-WebSocket-Accept` of a good request (RFC 6455 4.2.1), or what is wrong with it.
fn check<R>(request: &hyper::Request<R>, origins: &Origins) -> Result<HeaderValue, Problem> {
    if request.method() != Method::GET {
        return Err(Problem::method_not_allowed());
    }
    let headers = request.headers();
    let upgrades = lists(headers, header::CONNECTION, "upgrade") && lists(headers, header::UPGRADE, "websocket");
    if !upgrades || headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        let detail = "MQTT over WebSocket is spoken here: connect with a WebSocket, version 13";
        return Err(Problem::new(StatusCode::UPGRADE_REQUIRED, "upgrade_required", detail));
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).and_then(|key| key.to_str().ok()).filter(|key| is_key(key));
    let key =
        key.ok_or_else(|| Problem::malformed("websocket_key_invalid", "Sec-WebSocket-Key must be 16 bytes in base64"))?;
    // [MQTT-6.0.0-3]
    let offers = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    if !offers.filter_map(|offer| offer.to_str().ok()).any(offers_mqtt) {
        let detail = "the client must offer the subprotocol `mqtt` in Sec-WebSocket-Protocol";
        return Err(Problem::malformed("subprotocol_missing", detail));
    }
    if !may_come_from(headers, origins) {
        let detail = "pages of this origin may not connect here; see the configuration of the WebSocket listener";
        return Err(Problem::new(StatusCode::FORBIDDEN, "origin_forbidden", detail));
    }
    Ok(HeaderValue::from_str(&accept_key(key)).expect("base64 is a header's value"))
}

/// Whether a header that lists words has this one.
fn lists(headers: &HeaderMap, name: header::HeaderName, word: &str) -> bool {
    let values = headers.get_all(name);
    let words = values.iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    words.map(str::trim).any(|found| found.eq_ignore_ascii_case(word))
}

/// 16 bytes in base64: 22 characters and their padding.
fn is_key(key: &str) -> bool {
    let (text, padding) = key.as_bytes().split_at(key.len().min(22));
    padding == b"==" && text.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

fn may_come_from(headers: &HeaderMap, origins: &Origins) -> bool {
    let mut sent = headers.get_all(header::ORIGIN).iter();
    let Some(origin) = sent.next() else { return true };
    if *origins == Origins::Any {
        return true;
    }
    let (Ok(origin), None) = (origin.to_str(), sent.next()) else { return false };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let same_host =
        origin.split_once("://").is_some_and(|(_, from)| host.is_some_and(|host| host.eq_ignore_ascii_case(from)));
    let listed = |origins: &[Box<str>]| origins.iter().any(|listed| listed.eq_ignore_ascii_case(origin));
    same_host || matches!(origins, Origins::Listed(origins) if listed(origins))
}

/// The socket behind an upgraded connection, without tokio and without hyper, and what they had read of it already.
fn take_out(upgraded: Upgraded) -> Option<Stream<std::net::TcpStream>> {
    let (tcp, tls, read): (TcpStream, Option<ServerConnection>, Vec<u8>) =
        match upgraded.downcast::<TokioIo<TcpStream>>() {
            Ok(parts) => (parts.io.into_inner(), None, parts.read_buf.into()),
            Err(upgraded) => {
                let parts = upgraded.downcast::<TokioIo<TlsStream<TcpStream>>>().ok()?;
                let (tcp, tls) = parts.io.into_inner().into_inner();
                (tcp, Some(tls), parts.read_buf.into())
            }
        };
    Some(Stream::websocket(tcp.into_std().ok()?, tls, read))
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;

    use super::*;

    fn request(headers: &[(&str, &str)]) -> hyper::Request<()> {
        let good = [
            ("host", "tide.example:8080"),
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "WebSocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-protocol", "chat, mqtt"),
        ];
        let mut request = hyper::Request::new(());
        for (name, value) in good.iter().chain(headers) {
            let name: header::HeaderName = name.parse().unwrap();
            match value.is_empty() {
                true => request.headers_mut().remove(name),
                false => request.headers_mut().insert(name, value.parse().unwrap()),
            };
        }
        request
    }

    #[test]
    fn a_good_request_is_accepted_as_the_rfc_says() {
        let accept = check(&request(&[]), &Origins::SameHost).unwrap();
        assert_eq!(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "the example of RFC 6455 1.3");
    }

    #[test]
    fn anything_else_is_a_problem() {
        for (name, value, status) in [
            ("connection", "keep-alive", StatusCode::UPGRADE_REQUIRED),
            ("upgrade", "", StatusCode::UPGRADE_REQUIRED),
            ("sec-websocket-version", "8", StatusCode::UPGRADE_REQUIRED),
            ("sec-websocket-key", "", StatusCode::BAD_REQUEST),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ", StatusCode::BAD_REQUEST),
            ("sec-websocket-key", "short==", StatusCode::BAD_REQUEST),
            ("sec-websocket-protocol", "", StatusCode::BAD_REQUEST),
            ("sec-websocket-protocol", "mqttv3.1", StatusCode::BAD_REQUEST),
            ("origin", "https://elsewhere.example", StatusCode::FORBIDDEN),
            ("origin", "null", StatusCode::FORBIDDEN),
        ] {
            let problem = check(&request(&[(name, value)]), &Origins::SameHost).unwrap_err();
            assert_eq!(problem.into_response().status(), status, "{name}: {value}");
        }
    }

    #[test]
    fn pages_come_from_where_the_configuration_says() {
        let from = |origin: &str, origins: &Origins| check(&request(&[("origin", origin)]), origins).is_ok();
        let listed = Origins::Listed(vec!["https://show.example".into()]);
        assert!(from("http://tide.example:8080", &Origins::SameHost));
        assert!(!from("http://tide.example", &Origins::SameHost), "another port is another origin");
        assert!(from("https://show.example", &listed) && from("http://TIDE.example:8080", &listed));
        assert!(!from("https://show.example.evil", &listed));
        assert!(from("https://elsewhere.example", &Origins::Any));
    }
}
