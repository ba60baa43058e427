//! Bytes as the body of every request that takes one, sent over a loopback socket to the real HTTP door in front of a
//! ledger that applies everything. The door must answer with a status that fits, and keep serving.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tidegate_doors::auth::quota::QuotaLimits;
use tidegate_doors::auth::{
    AuthSettings, Authenticator, Grant, LoginLimits, Rights, Secret, ServiceSettings, StrangerLimits, TopicAccess,
    service_token_hash,
};
use tidegate_doors::http::{DrainStatus, Edge, EdgeOptions, Health, HttpLimits, HttpMetrics, HttpProxies, Operations};
use tidegate_doors::ledger_http::{
    Backend, CallerName, ChangePart, Changes, ChangesEnded, LedgerHttpMetrics, LedgerRoom, Replies,
};
use tidegate_doors::refusal_metrics::RefusalMetrics;
use tidegate_doors::request_metrics::RequestMetrics;
use tidegate_ledger::changes::{After, ChangeFilter};
use tidegate_ledger::message::{BalanceAt, CallerRequest, Reply, Request, Unavailable};
use tidegate_machines::IdSpace;
use tidegate_machines::TimeMs;
use tidegate_machines::ledger::{AccountKind, AccountView, Outcome, Refusal};
use tidegate_telemetry::Registry;

const TOKEN: &str = "fuzz";
const PATHS: [&str; 10] = [
    "/v1/transfers",
    "/v1/accounts",
    "/v1/holds",
    "/v1/holds/post",
    "/v1/holds/void",
    "/v1/holds/h/post",
    "/v1/holds/h/void",
    "/v1/assets",
    "/v1/login",
    "/v1/nothing",
];
/// Far beyond what an answer takes: reached only when the door hangs.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

static DOOR: LazyLock<SocketAddr> = LazyLock::new(open_door);

/// Sends the bytes to each path; then the first line of them as a path of its own.
pub fn check(bytes: &[u8]) {
    let mut socket = TcpStream::connect(*DOOR).expect("the door is open");
    socket.set_read_timeout(Some(ANSWER_TIME_MAX)).expect("a socket option");
    for path in PATHS {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: fuzz\r\nauthorization: Bearer {TOKEN}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            bytes.len()
        );
        socket.write_all(&[head.as_bytes(), bytes].concat()).expect("the door reads");
        let status = read_answer(&mut socket);
        let is_known = matches!(status, 200 | 201 | 400 | 401 | 403 | 404 | 409 | 413 | 422 | 429 | 503);
        assert!(is_known, "{path} answered {status}");
    }
    // As bytes of the protocol itself: any answer, or a closed connection, but no panic behind it.
    let mut socket = TcpStream::connect(*DOOR).expect("the door is open");
    socket.set_read_timeout(Some(ANSWER_TIME_MAX)).expect("a socket option");
    let _ = socket.write_all(bytes);
    let _ = socket.shutdown(std::net::Shutdown::Write);
    socket.read_to_end(&mut Vec::new()).ok();
    assert!(TcpStream::connect(*DOOR).is_ok(), "the door stays open");
}

/// Reads one whole answer and returns its status.
fn read_answer(socket: &mut TcpStream) -> u16 {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(head) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
            break head + 4;
        }
        let mut more = [0; 4096];
        let read = socket.read(&mut more).expect("an answer in time");
        assert!(read > 0, "the door closed without an answer");
        bytes.extend_from_slice(&more[..read]);
    };
    let text = String::from_utf8(bytes[..head].to_vec()).expect("a head is text").to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.expect("a content-length").parse().expect("a number");
    let missing = (head + length).saturating_sub(bytes.len());
    socket.read_exact(&mut vec![0; missing]).expect("the rest of the answer");
    text.split(' ').nth(1).expect("a status").parse().expect("a number")
}

/// A ledger that finds everything and applies everything.
#[derive(Clone)]
struct Agreeable;

impl Backend for Agreeable {
    fn call(&self, CallerRequest { request, .. }: CallerRequest) -> impl Future<Output = Reply> + Send + 'static {
        let account = |id: Box<str>| AccountView {
            id,
            asset: "credit".into(),
            kind: AccountKind::Wallet,
            balance: 1,
            held: 0,
            credited: 1,
            debited: 0,
            settings: None,
        };
        let reply = match request {
            Request::OpenAccount { id, .. } => Reply::AccountOpened { created: true, account: account(id) },
            Request::OpenAccounts(batch) => Reply::Outcomes(vec![Outcome::Applied; batch.len()]),
            Request::Transfers { batch, .. } => Reply::Outcomes(vec![Outcome::Applied; batch.len()]),
            Request::PlaceHolds(holds) => Reply::Outcomes(vec![Outcome::Applied; holds.len()]),
            Request::PostHolds(posts) => Reply::Outcomes(vec![Outcome::Applied; posts.len()]),
            Request::VoidHolds(voids) => Reply::Outcomes(vec![Outcome::Applied; voids.len()]),
            Request::ReadAccount { id } => Reply::Account(account(id)),
            Request::ListAccounts { .. } => Reply::Accounts(Vec::new()),
            Request::ReadHistory { .. } => Reply::History { rows: Vec::new(), next: None, held: None, rows_read: 0 },
            Request::ReadBalanceAt { .. } => {
                let found = BalanceAt::Known { last: None, written_by: TimeMs(0), held: Some(0) };
                Reply::BalanceAt { found, rows_read: 0 }
            }
            Request::StreamHistory { .. } => {
                Reply::HistoryPart { rows: Vec::new(), written_by: Vec::new(), is_last: true }
            }
            Request::PlaceLinkedHolds(holds) => Reply::Outcomes(vec![Outcome::Applied; holds.len()]),
            Request::ReadTransfer { .. } => Reply::Refused(Refusal::TransferNotFound),
            Request::ReadHold { .. } => Reply::Refused(Refusal::HoldNotFound),
            Request::ListHolds { .. } => Reply::Holds { holds: Vec::new(), next: None },
            Request::ChangeAccount { id, .. } => Reply::AccountChanged { changed: true, account: account(id) },
            Request::DeclareAsset { .. } => Reply::AssetDeclared { created: true },
            Request::ListAssets => Reply::Assets(Vec::new()),
            Request::Announce(_) => Reply::Announced,
            Request::ReadAudit => Reply::Audit(Vec::new()),
        };
        std::future::ready(reply)
    }

    type Replies = OneReply;

    fn open(&self, CallerRequest { request, .. }: CallerRequest, _window: usize) -> Result<Self::Replies, Unavailable> {
        let Request::StreamHistory { .. } = request else { panic!("{request:?} has one reply") };
        Ok(OneReply(Some(Reply::HistoryPart { rows: Vec::new(), written_by: Vec::new(), is_last: true })))
    }

    type Changes = NoChanges;

    fn changes(&self, _caller: CallerName, _after: After, _filter: ChangeFilter) -> Result<Self::Changes, Unavailable> {
        Ok(NoChanges)
    }
}

/// A journal without records.
struct NoChanges;

impl Changes for NoChanges {
    async fn next(&mut self) -> Result<ChangePart, ChangesEnded> {
        Ok(ChangePart { rows: Vec::new(), cursor: "0".into(), is_at_end: true })
    }
}

/// A stream of one reply.
struct OneReply(Option<Reply>);

impl Replies for OneReply {
    async fn next(&mut self) -> Option<Reply> {
        self.0.take()
    }
}

impl Operations for Agreeable {
    fn health(&self) -> Health {
        Health::Serving
    }

    fn metrics(&self, _: tidegate_telemetry::Exposition) -> String {
        String::new()
    }

    fn drain(&self, _per_second: u32) {}

    fn end_drain(&self) {}

    fn run_audit(&self) -> u64 {
        0
    }

    fn drain_status(&self) -> DrainStatus {
        DrainStatus::default()
    }
}

fn open_door() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound socket");
    let service = ServiceSettings {
        name: "fuzz".into(),
        token_sha256: service_token_hash(TOKEN),
        rights: Rights::Service { grants: vec![Grant::Everything] },
        id_space: IdSpace::default(),
        quota: None,
    };
    let settings = AuthSettings {
        users: Vec::new(),
        services: vec![service],
        signing_keys: Vec::new(),
        identity_providers: Vec::new(),
        auth_hook: None,
        secret: Secret::from_bytes(&[7; 32]).expect("32 bytes"),
        token_ttl: Duration::from_secs(60),
        expiry_ends_connections: true,
        login_limits: LoginLimits { concurrent_max: 1, waiting_max: 8, ..LoginLimits::default() },
        topics: TopicAccess::default(),
        viewer_quota: QuotaLimits::NONE,
        service_quota: QuotaLimits::NONE,
        api_grants: Vec::new(),
        api_wallets: Vec::new(),
        strangers: StrangerLimits::NONE,
    };
    let (never_stops, stop) = tokio::sync::watch::channel(false);
    let registry =
        Registry::of(&[HttpMetrics::ROWS, LedgerHttpMetrics::ROWS, RefusalMetrics::ROWS, RequestMetrics::ROWS]);
    let options = EdgeOptions {
        listener,
        tls: None,
        authenticator: Arc::new(Authenticator::new(settings)),
        operations: Arc::new(Agreeable),
        proxies: HttpProxies::default(),
        rooms: vec![Box::new(LedgerRoom::new(Agreeable, LedgerHttpMetrics::register(&registry)))],
        limits: HttpLimits::default(),
        addresses: HttpLimits::default().of_connections(1).addresses(),
        metrics: HttpMetrics::register(&registry),
        open_paths: Vec::new(),
        cors: Default::default(),
        upgrade: None,
        demo: Arc::default(),
        refused: RefusalMetrics::register(&registry, "http", "edge-0"),
        requests: RequestMetrics::register(&registry, "http"),
        stop,
    };
    let edge = Edge::open(options).expect("the rooms fit");
    std::thread::spawn(move || {
        let _until_the_process_ends = never_stops;
        edge.serve(std::future::ready(())).expect("the door serves");
    });
    address
}
