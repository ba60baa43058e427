//! Accepts MQTT over WebSocket. A connection begins as an HTTP request: it is checked, the upgrade is answered, and the
//! socket (with its TLS session) is taken over from the HTTP server. From then on it costs what any MQTT connection
//! costs.
//!
//! The settings' [`Origins`] say which pages may do this. A browser sends the origin of its page. Without this check,
//! any page on the internet could connect through the browser of somebody who can reach the server. Programs that are
//! not browsers send no origin, and may connect.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Version, header};
use tidegate_wire::websocket::{SUBPROTOCOL, accept_key, offers_mqtt};

use super::settings::{Origins, WebSocketSettings};
use crate::admission::{AddressMark, Admission, Arrival, Entry, ListenerIndex, Standing, monotonic_ns};
use crate::http::{Accepted, Health, Upgrade, Upgraded};
use crate::json::{Problem, codes};
use crate::stream::Stream;

/// Where MQTT over WebSocket is served, and the counts of its clients.
#[derive(Clone)]
pub struct WebSocketDoor {
    settings: WebSocketSettings,
    admission: Arc<Admission>,
    listener: ListenerIndex,
}

/// A [`WebSocketDoor`], and the function that hands its clients over. `adopt` returns `false` if no worker takes a
/// client.
struct Upgrading<A> {
    door: WebSocketDoor,
    adopt: Arc<A>,
}

impl WebSocketDoor {
    /// A door with these `settings`, whose clients are counted in `admission` as those of `listener`.
    pub fn new(settings: WebSocketSettings, admission: Arc<Admission>, listener: ListenerIndex) -> WebSocketDoor {
        WebSocketDoor { settings, admission, listener }
    }

    /// For the HTTP door: each accepted client is given to `adopt`, which returns whether a worker takes it.
    pub fn handing_to(self, adopt: impl Fn(Box<Arrival>) -> bool + Send + Sync + 'static) -> Arc<dyn Upgrade> {
        Arc::new(Upgrading { door: self, adopt: Arc::new(adopt) })
    }

    /// Counts the client, or says that there are too many. HTTP can answer this, so no client is let in only to be
    /// told.
    fn admit(&self, address: IpAddr) -> Result<AddressMark, Problem> {
        let busy = |detail: &'static str| Err(Problem::new(codes::BUSY, detail).retry_after_s(1));
        if !self.admission.throttle(self.listener).take(monotonic_ns()) {
            return busy("too many clients connect at once; try again in a second");
        }
        match self.admission.enter(self.listener, address, None) {
            Entry::Admitted(mark) => Ok(mark),
            Entry::Refused(mark, _) => {
                self.admission.leave(self.listener, mark, Standing::Told);
                busy("as many clients are connected as may be")
            }
            Entry::Closed => busy("as many clients are connected as may be"),
        }
    }

    fn arrival(&self, upgraded: Upgraded, address: IpAddr, mark: AddressMark) -> Arrival {
        let Upgraded { tcp, tls, read } = upgraded;
        let is_own = tcp.peer_addr().is_ok_and(|peer| peer.ip() == address);
        let stream = Stream::websocket(tcp, tls, read);
        // What a proxy has said in HTTP has no port.
        let stream = if is_own { stream } else { stream.of_client(SocketAddr::new(address, 0)) };
        Arrival { stream, address, listener: self.listener, mark, refusal: None, bytes: Box::default() }
    }
}

impl<A: Fn(Box<Arrival>) -> bool + Send + Sync + 'static> Upgrade for Upgrading<A> {
    fn path(&self) -> &str {
        &self.door.settings.path
    }

    fn accept(&self, head: &Parts, address: IpAddr, health: &Health) -> Result<Accepted, Problem> {
        let accept = check(head, &self.door.settings)?;
        if let Some(problem) = health.problem() {
            return Err(problem);
        }
        let mark = self.door.admit(address)?;
        let (door, adopt) = (self.door.clone(), self.adopt.clone());
        let take = move |upgraded: Option<Upgraded>| {
            if !upgraded.is_some_and(|upgraded| adopt(Box::new(door.arrival(upgraded, address, mark)))) {
                door.admission.leave(door.listener, mark, Standing::Served);
            }
        };
        let mut headers = HeaderMap::new();
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        // [MQTT-6.0.0-4]: The server answers with the subprotocol name mqtt.
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
        Ok(Accepted { headers, take: Box::new(take) })
    }
}

/// The `Sec-WebSocket-Accept` of a good request (RFC 6455 4.2.1), or what is wrong with it.
fn check(head: &Parts, settings: &WebSocketSettings) -> Result<HeaderValue, Problem> {
    if head.method != Method::GET {
        return Err(Problem::method_not_allowed().allowing("GET"));
    }
    let headers = &head.headers;
    // RFC 9110, 7.8: an upgrade in a request of HTTP/1.0 is ignored.
    let upgrades = head.version >= Version::HTTP_11
        && lists(headers, header::CONNECTION, "upgrade")
        && lists(headers, header::UPGRADE, "websocket");
    if !upgrades || headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        let detail = "MQTT over WebSocket is spoken here: connect with a WebSocket, version 13";
        return Err(Problem::new(codes::UPGRADE_REQUIRED, detail));
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).and_then(|key| key.to_str().ok()).filter(|key| is_key(key));
    let key =
        key.ok_or_else(|| Problem::new(codes::WEBSOCKET_KEY_INVALID, "Sec-WebSocket-Key must be 16 bytes in base64"))?;
    // [MQTT-6.0.0-3]: The client must offer the subprotocol mqtt.
    let offers = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    if !offers.filter_map(|offer| offer.to_str().ok()).any(offers_mqtt) {
        let detail = "the client must offer the subprotocol `mqtt` in Sec-WebSocket-Protocol";
        return Err(Problem::new(codes::SUBPROTOCOL_MISSING, detail));
    }
    if !may_come_from(headers, settings) {
        let detail = "pages of this origin may not connect here; see the configuration of the WebSocket listener";
        return Err(Problem::new(codes::ORIGIN_FORBIDDEN, detail));
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

/// Whether the page that asks may, if it is one.
///
/// That it came from the same host proves nothing where clients need no credentials: whoever owns a name can have it
/// stand for this machine once a page of it is in a browser here (DNS rebinding). The browser then says that name, as
/// origin and as host. Only names that nobody can own are believed there; others must be listed.
fn may_come_from(headers: &HeaderMap, settings: &WebSocketSettings) -> bool {
    let WebSocketSettings { origins, anonymous, .. } = settings;
    let mut sent = headers.get_all(header::ORIGIN).iter();
    let Some(origin) = sent.next() else { return true };
    if *origins == Origins::Any {
        return true;
    }
    let (Ok(origin), None) = (origin.to_str(), sent.next()) else { return false };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.filter(|host| !anonymous || is_of_this_machine(host));
    let same_host =
        origin.split_once("://").is_some_and(|(_, from)| host.is_some_and(|host| host.eq_ignore_ascii_case(from)));
    let listed = |origins: &[Box<str>]| origins.iter().any(|listed| listed.eq_ignore_ascii_case(origin));
    same_host || matches!(origins, Origins::Listed(origins) if listed(origins))
}

/// Whether this host, with its port if it has one, is this machine whoever is asked.
fn is_of_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    let name = name.to_ascii_lowercase();
    name == "localhost"
        || name.ends_with(".localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use axum::response::IntoResponse;

    use super::*;

    fn request(headers: &[(&str, &str)]) -> Parts {
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
        request.into_parts().0
    }

    fn settings(origins: Origins) -> WebSocketSettings {
        WebSocketSettings { path: "/mqtt".into(), origins, anonymous: false, connections_max: 1, connections_per_s: 0 }
    }

    /// A name that its owner lets stand for this machine.
    #[test]
    fn who_needs_no_credentials_comes_from_a_name_that_nobody_owns() {
        let anonymous = WebSocketSettings { anonymous: true, ..settings(Origins::SameHost) };
        let is_let_in = |host: &str, settings: &WebSocketSettings| {
            let origin = format!("http://{host}");
            check(&request(&[("host", host), ("origin", &origin)]), settings).is_ok()
        };
        for host in ["localhost:8080", "LOCALHOST", "tide.localhost:8080", "127.0.0.1:8080", "127.8.8.8", "[::1]:8080"]
        {
            assert!(is_let_in(host, &anonymous), "{host}");
        }
        let foreign =
            ["rebound.example:8080", "localhost.example", "10.0.0.1", "[2001:db8::1]:80", "127.0.0.1.example", ""];
        for host in foreign {
            assert!(!is_let_in(host, &anonymous), "{host}");
        }
        assert!(is_let_in("rebound.example:8080", &settings(Origins::SameHost)), "with credentials");
        let listed = Origins::Listed(vec!["http://own.example".into()]);
        assert!(is_let_in("own.example", &WebSocketSettings { origins: listed, ..anonymous }));
    }

    #[test]
    fn a_good_request_is_accepted_as_the_rfc_says() {
        let accept = check(&request(&[]), &settings(Origins::SameHost)).unwrap();
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
            let problem = check(&request(&[(name, value)]), &settings(Origins::SameHost)).unwrap_err();
            assert_eq!(problem.code().status(), status, "{name}: {value}");
        }
    }

    #[test]
    fn what_cannot_be_upgraded_is_told_how_it_can() {
        let answer = |change: fn(&mut Parts)| {
            let mut request = request(&[]);
            change(&mut request);
            check(&request, &settings(Origins::SameHost)).unwrap_err().into_response()
        };
        let old = answer(|request| request.version = Version::HTTP_10);
        let other_version = answer(|request| {
            request.headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("8"));
        });
        for answer in [old, other_version] {
            assert_eq!(answer.status(), StatusCode::UPGRADE_REQUIRED);
            let said = |name: header::HeaderName| answer.headers()[name].to_str().unwrap().to_owned();
            assert_eq!((said(header::UPGRADE), said(header::SEC_WEBSOCKET_VERSION)), ("websocket".into(), "13".into()));
            assert_eq!(said(header::CONNECTION), "upgrade");
        }
        let posted = answer(|request| request.method = Method::POST);
        assert_eq!(
            (posted.status(), &posted.headers()[header::ALLOW]),
            (StatusCode::METHOD_NOT_ALLOWED, &HeaderValue::from_static("GET"))
        );
    }

    #[test]
    fn pages_come_from_where_the_configuration_says() {
        let from = |origin: &str, origins: &Origins| {
            check(&request(&[("origin", origin)]), &settings(origins.clone())).is_ok()
        };
        let listed = Origins::Listed(vec!["https://show.example".into()]);
        assert!(from("http://tide.example:8080", &Origins::SameHost));
        assert!(!from("http://tide.example", &Origins::SameHost), "another port is another origin");
        assert!(from("https://show.example", &listed) && from("http://TIDE.example:8080", &listed));
        assert!(!from("https://show.example.evil", &listed));
        assert!(from("https://elsewhere.example", &Origins::Any));
    }
}
