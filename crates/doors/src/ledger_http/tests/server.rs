//! A real edge thread on a free port with the fake ledger, and a client that writes bytes and reads answers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, LazyLock};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use tidegate_machines::IdSpace;
use tidegate_telemetry::Registry;
use tokio::sync::watch;

use super::fake::FakeBackend;
use crate::auth::quota::QuotaLimits;
use crate::auth::tests::nobody;
use crate::auth::{
    AuthSettings, Authenticator, Grant, PasswordHash, Rights, Secret, ServiceSettings, StrangerLimits, UserSettings,
    hash_password, service_token_hash,
};
use crate::handshakes::{HandshakeLimits, HandshakeMetrics, Handshakes};
use crate::http::{Cors, Edge, EdgeOptions, HttpLimits, HttpMetrics, HttpProxies, HttpRoom, RoomsError};
use crate::ledger_http::{LedgerHttpMetrics, LedgerRoom};
use crate::proxy::TrustedProxies;
use crate::refusal_metrics::RefusalMetrics;
use crate::request_metrics::RequestMetrics;
use crate::stream::DoorTls;

/// Token of a service that may do everything.
pub const SERVICE: &str = "dev-service-token";
/// Token of a service that may sell credits to wallets.
pub const SHOP: &str = "shop-service-token";

/// Token of a service that may read all counters and add to those of `hits:`.
pub const COUNTING: &str = "counting-service-token";

/// Token of a service that may read all accounts.
pub const READER: &str = "reader-service-token";

/// Hashing is slow; one hash serves all tests.
static DAVES_HASH: LazyLock<PasswordHash> = LazyLock::new(|| hash_password("dave"));

/// Users `dave` and `carol` (both with password `dave`) and the two services.
pub fn settings() -> AuthSettings {
    let viewer = |name: &str| UserSettings {
        name: name.into(),
        password_hash: DAVES_HASH.clone(),
        rights: Rights::Viewer { wallets: vec![format!("wallet:{name}").into()] },
    };
    let service = |name: &str, token: &str, grants: &[&str]| ServiceSettings {
        name: name.into(),
        token_sha256: service_token_hash(token),
        rights: Rights::Service { grants: grants.iter().map(|grant| grant.parse::<Grant>().unwrap()).collect() },
        id_space: IdSpace::default(),
        quota: None,
    };
    AuthSettings {
        users: vec![viewer("dave"), viewer("carol")],
        services: vec![
            service("dev", SERVICE, &["*"]),
            service("reader", READER, &["read:*"]),
            service("counting", COUNTING, &["room:counters:read:*", "room:counters:write:hits:*"]),
            service("shop", SHOP, &["debit:source:shop", "credit:wallet:*", "accounts:open:wallet:*"]),
        ],
        secret: Secret::from_bytes(&[7; 32]).unwrap(),
        token_ttl: Duration::from_secs(60),
        ..nobody()
    }
}

/// An HTTP server that serves until it is dropped.
pub struct TestServer {
    /// The fake ledger.
    pub backend: FakeBackend,
    /// What the door counted.
    pub metrics: HttpMetrics,
    /// Who may come in.
    pub authenticator: Arc<Authenticator>,
    address: SocketAddr,
    stop: watch::Sender<bool>,
    edge: Option<JoinHandle<std::io::Result<()>>>,
}

impl TestServer {
    /// A server with a seeded ledger and the default bounds.
    pub fn open() -> TestServer {
        TestServer::with(HttpLimits::default())
    }

    /// A server with a seeded ledger and these bounds.
    pub fn with(limits: HttpLimits) -> TestServer {
        TestServer::build(limits, None)
    }

    /// A server with a seeded ledger and these bounds, over TLS if certificates are given.
    pub fn build(limits: HttpLimits, tls: Option<Arc<rustls::ServerConfig>>) -> TestServer {
        TestServer::with_rooms(limits, tls, Vec::new()).unwrap()
    }

    /// The same with rooms behind the ledger's.
    pub fn with_rooms(
        limits: HttpLimits,
        tls: Option<Arc<rustls::ServerConfig>>,
        others: Vec<Box<dyn HttpRoom>>,
    ) -> Result<TestServer, RoomsError> {
        TestServer::start(settings(), limits, tls, others)
    }

    /// A server whose viewers may use up so much.
    pub fn with_quota(viewer_quota: QuotaLimits) -> TestServer {
        let settings = AuthSettings { viewer_quota, ..settings() };
        TestServer::start(settings, HttpLimits::default(), None, Vec::new()).unwrap()
    }

    /// A server where those without a token may use up so much, and `/metrics` is open.
    pub fn with_strangers(strangers: StrangerLimits) -> TestServer {
        let settings = AuthSettings { strangers, ..settings() };
        let open_paths = ["/openapi.json", "/metrics", "/demo"];
        TestServer::start_open(settings, HttpLimits::default(), None, Vec::new(), &open_paths, Cors::default()).unwrap()
    }

    /// One that pages of others may ask.
    pub fn start_shared(cors: Cors) -> TestServer {
        TestServer::start_open(settings(), HttpLimits::default(), None, Vec::new(), &["/demo"], cors).unwrap()
    }

    fn start(
        settings: AuthSettings,
        limits: HttpLimits,
        tls: Option<Arc<rustls::ServerConfig>>,
        others: Vec<Box<dyn HttpRoom>>,
    ) -> Result<TestServer, RoomsError> {
        TestServer::start_open(settings, limits, tls, others, &["/openapi.json", "/demo"], Cors::default())
    }

    fn start_open(
        settings: AuthSettings,
        limits: HttpLimits,
        tls: Option<Arc<rustls::ServerConfig>>,
        others: Vec<Box<dyn HttpRoom>>,
        open_paths: &[&str],
        cors: Cors,
    ) -> Result<TestServer, RoomsError> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let registry =
            Registry::of(&[HttpMetrics::ROWS, LedgerHttpMetrics::ROWS, RefusalMetrics::ROWS, RequestMetrics::ROWS]);
        let counts = Registry::of(&[HandshakeMetrics::ROWS]);
        let gate = Handshakes::new(HandshakeLimits::default(), &counts).at("http", TrustedProxies::default());
        let metrics = HttpMetrics::register(&registry);
        let refused = RefusalMetrics::register(&registry, "http", "edge-0");
        let ledger_metrics = LedgerHttpMetrics::register(&registry);
        let requests = RequestMetrics::register(&registry, "http");
        let backend = FakeBackend::new(registry);
        backend.seed();
        let (stop, stopped) = watch::channel(false);
        let authenticator = Arc::new(Authenticator::new(settings));
        let ledger: Box<dyn HttpRoom> = Box::new(LedgerRoom::new(backend.clone(), ledger_metrics));
        let options = EdgeOptions {
            listener,
            tls: tls.map(|config| DoorTls { config, gate }),
            authenticator: authenticator.clone(),
            operations: Arc::new(backend.clone()),
            proxies: HttpProxies::default(),
            rooms: std::iter::once(ledger).chain(others).collect(),
            limits,
            addresses: limits.of_connections(1).addresses(),
            metrics: metrics.clone(),
            refused,
            requests,
            open_paths: open_paths.iter().map(|path| (*path).into()).collect(),
            cors,
            demo: Arc::default(),
            upgrade: None,
            stop: stopped,
        };
        let edge = Edge::open(options)?;
        let edge = std::thread::spawn(move || edge.serve(async {}));
        Ok(TestServer { backend, metrics, authenticator, address, stop, edge: Some(edge) })
    }

    /// A new connection.
    pub fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Client { stream, unread: Vec::new() }
    }

    /// The same from another address of this host.
    pub fn connect_from(&self, address: [u8; 4]) -> Client {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((address, 0)).into()).unwrap();
        socket.connect(&self.address.into()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Client { stream: socket.into(), unread: Vec::new() }
    }

    /// One request on a connection of its own.
    pub fn ask(&self, token: &str, method: &str, path: &str, body: &str) -> Answer {
        self.connect().ask(token, method, path, body)
    }

    /// The token of a viewer.
    pub fn log_in(&self, user: &str) -> String {
        let body = format!(r#"{{"user":"{user}","password":"dave"}}"#);
        let answer = self.ask("", "POST", "/v1/login", &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["token"].as_str().unwrap().to_owned()
    }

    /// Tells the edge to stop and does not wait.
    pub fn begin_stop(&self) {
        // No receiver is left when the edge is done already.
        let _ = self.stop.send(true);
    }

    /// Stops and waits until the edge is done.
    pub fn stop(mut self) {
        self.begin_stop();
        self.edge.take().unwrap().join().unwrap().unwrap();
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
    }
}

/// One connection.
pub struct Client {
    /// The socket.
    pub stream: TcpStream,
    unread: Vec<u8>,
}

/// One answer.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Head, lower case.
    pub head: String,
    /// Body.
    pub body: String,
}

impl Client {
    /// Sends a request and reads its answer.
    pub fn ask(&mut self, token: &str, method: &str, path: &str, body: &str) -> Answer {
        self.send(&request(token, method, path, body));
        self.read_answer().expect("an answer")
    }

    /// Writes bytes as they are.
    pub fn send(&mut self, bytes: &str) {
        self.stream.write_all(bytes.as_bytes()).unwrap();
    }

    /// Reads one answer; `None` when the connection ends before one.
    pub fn read_answer(&mut self) -> Option<Answer> {
        let head_end = loop {
            if let Some(end) = self.unread.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            self.read_more()?;
        };
        let head = String::from_utf8(self.unread[..head_end].to_vec()).unwrap().to_ascii_lowercase();
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
        while self.unread.len() < head_end + length {
            self.read_more()?;
        }
        let body = String::from_utf8(self.unread[head_end..head_end + length].to_vec()).unwrap();
        self.unread.drain(..head_end + length);
        Some(Answer { status: head[9..12].parse().unwrap(), head, body })
    }

    /// Whether the server ends the connection, within the read time-out.
    pub fn is_closed(&mut self) -> bool {
        while self.read_more().is_some() {}
        true
    }

    fn read_more(&mut self) -> Option<()> {
        let mut piece = [0; 4096];
        match self.stream.read(&mut piece) {
            Ok(0) => None,
            Ok(length) => {
                self.unread.extend_from_slice(&piece[..length]);
                Some(())
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("the server neither answered nor closed: {error}"),
        }
    }
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// `status code`, as `409 insufficient_funds`, or just the status of an answer without problem.
    #[track_caller]
    pub fn summary(&self) -> String {
        if self.status < 400 {
            return self.status.to_string();
        }
        assert!(self.head.contains("content-type: application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{self:?}");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.len() > 10), "{self:?}");
        format!("{} {}", self.status, problem["code"].as_str().unwrap())
    }
}

/// A request's bytes.
pub fn request(token: &str, method: &str, path: &str, body: &str) -> String {
    let authorization = if token.is_empty() { String::new() } else { format!("authorization: Bearer {token}\r\n") };
    let content = match body {
        "" if method != "POST" => String::new(),
        _ => format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()),
    };
    format!("{method} {path} HTTP/1.1\r\nhost: tidegate\r\n{authorization}{content}\r\n{body}")
}
