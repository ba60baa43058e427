//! One HTTP connection: TLS if configured, then HTTP/1.1 with every wait bounded. Also how each request gets its
//! answer.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::Request as HttpRequest;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, Version, header};
use axum::response::IntoResponse;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower::Service;

use super::answer_clock::AnswerClock;
use super::body::HotBody;
use super::ciphertext::Ciphertext;
use super::coming::{self, Coming};
use super::door::Door;
use super::host::is_host;
use super::lane::plain::is_chunked_at_most;
use super::lane::{self, ForHyper};
use super::parting::EdgePlace;
use super::patient::Patient;
use super::rewound::HeadTimer;
use super::rooms::{Answer, NO_OPERATION, Operation, Routing};
use super::silence::Silence;
use super::turns::{ReadBy, RequestTurns};
use super::{proxied, turns, upgrade};
use crate::auth::Identity;
use crate::json::{Problem, ProblemCode, Unauthorized, codes};
use crate::security::{self, SecurityEvent};
use crate::stream::DoorTls;
use crate::turns::{CallerMark, CallerName};

/// Tells when the process stops.
#[derive(Clone)]
pub struct Stopping(watch::Receiver<bool>);

impl Stopping {
    /// Follows this channel.
    pub fn new(stop: watch::Receiver<bool>) -> Stopping {
        Stopping(stop)
    }

    /// Waits until the process stops.
    pub async fn wait(&self) {
        // An error means that the sender was dropped; nothing can ask this thread to stop any more.
        let _ = self.0.clone().wait_for(|stop| *stop).await;
    }

    /// Whether it stops.
    pub fn is_told(&self) -> bool {
        self.0.has_changed().is_err() || *self.0.borrow()
    }
}

/// Serves one connection to its end, the `number`-th of its thread; or until it gives way, if it shows no token.
pub(super) async fn serve(
    mut stream: TcpStream,
    place: EdgePlace,
    number: u32,
    tls: Option<DoorTls>,
    door: Door,
    routing: Arc<Routing>,
    stopping: Stopping,
) {
    let metrics = door.metrics.clone();
    metrics.connections_open.add(1);
    // An answer is one write; waiting for more to send with it would only add Nagle's delay.
    let _ = stream.set_nodelay(true);
    let Some(address) = proxied::meet(&mut stream, &place, &door, tls.is_some()).await else {
        metrics.connections_open.add(-1);
        return;
    };
    let limits = door.limits;
    let parting = place.parting.clone();
    // A connection that goes on as a WebSocket is counted as one when this has ended.
    let clock = Arc::new(AnswerClock::new(door.clone()));
    let refusal_delay = refusal_delay(number);
    let silence = Arc::new(Silence::default());
    let (place, told) = (Arc::new(place), silence.clone());
    let over_tls = OverTls(tls.is_some());
    let sender =
        Connection { door, routing, address, over_tls, place, refusal_delay, clock: clock.clone(), silence: told };
    let sender = Arc::new(sender);
    let last_word = tls.is_none().then(|| parting.clone());
    let stream = Patient::new(stream, limits.reader_timeout, last_word, clock, silence);
    let turns = sender.door.turns.clone();
    let served = async {
        let Some(tls) = tls else { return serve_http(stream, sender, stopping).await };
        match tokio::time::timeout(limits.handshake_timeout, shake_hands(stream, &tls, address, turns)).await {
            Ok(Ok(Some(stream))) => serve_http(stream, sender, stopping).await,
            Ok(Ok(None)) => {}
            Ok(Err(error)) => {
                metrics.handshakes_failed.increment();
                // A client that only goes says nothing about itself.
                if error.kind() == io::ErrorKind::InvalidData {
                    security::tell(SecurityEvent::HandshakeFailed, "http", address, "", &error.to_string());
                }
            }
            Err(_) => metrics.handshakes_failed.increment(),
        }
    };
    tokio::select! {
        // Looked at first: whoever waits for a request is told why it ends.
        biased;
        () = served => {}
        () = parting.wait() => {}
    }
    metrics.connections_open.add(-1);
}

/// The stream under TLS; `None` if the client's address may not begin a handshake now.
async fn shake_hands(
    stream: Patient,
    tls: &DoorTls,
    address: IpAddr,
    turns: Arc<RequestTurns>,
) -> io::Result<Option<TlsStream<Ciphertext<Patient>>>> {
    stream.begins().await?;
    if !tls.gate.may_begin(address) {
        return Ok(None);
    }
    let caller = turns.mark(&CallerName::of_address(address));
    let stream = Ciphertext::new(stream, turns, caller);
    let mut stream = TlsAcceptor::from(tls.config.clone()).accept(stream).await?;
    stream.get_mut().0.shaken();
    Ok(Some(stream))
}

async fn serve_http<S>(stream: S, connection: Arc<Connection>, stopping: Stopping)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    if let Some(rest) = lane::serve(stream, &connection, &stopping).await {
        serve_by_hyper(rest, connection, stopping).await;
    }
}

async fn serve_by_hyper<S>(rest: ForHyper<S>, connection: Arc<Connection>, stopping: Stopping)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = connection.door.limits;
    // Not `pipeline_flush`: with it, the answer to a head that cannot be parsed never leaves (hyper 1.12).
    let connection = http1::Builder::new()
        .timer(HeadTimer::new(rest.head_until))
        .header_read_timeout(limits.head_timeout)
        .max_buf_size(limits.head_bytes_max)
        .max_headers(limits.headers_max)
        // One `send` of one buffer costs the kernel less than a `writev` of a head and a small body.
        .writev(false)
        // A client that has sent all its requests may say so: they are answered.
        .half_close(true)
        .serve_connection(TokioIo::new(rest.stream), ConnectionService(connection))
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        // Looked at first: what the lane has read is under way when the process stops.
        biased;
        // An error here is the client's: it broke off, or did not speak HTTP. hyper has answered what can be answered.
        _ = connection.as_mut() => return,
        () = stopping.wait() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

/// How long a client waits at least for the answer that it is not known, or asks too much.
const REFUSAL_DELAY_MIN_MS: u32 = 50;
/// By how much longer some clients wait than others: answers to connections that flood at once do not come at once.
const REFUSAL_DELAY_SPREAD_MS: u32 = 64;

/// How long refusals on the `number`-th connection of a thread wait. Any connections in a row have them as far apart as
/// may be, because the step and the spread have no common divisor.
fn refusal_delay(number: u32) -> Duration {
    const STEP: u32 = 23;
    let later_ms = number.wrapping_mul(STEP) % REFUSAL_DELAY_SPREAD_MS;
    Duration::from_millis(u64::from(REFUSAL_DELAY_MIN_MS + later_ms))
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub struct PeerAddress(pub IpAddr);

/// Whether the client that a request comes from speaks TLS, here or to the proxy that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverTls(pub bool);

/// Marks an answer that is given late, because its sender asks too much and is answered nevertheless.
#[derive(Clone, Copy, Debug)]
pub struct Late;

/// Marks an answer to a request that its sender signed: nothing in its headers tells before that whose it is.
#[derive(Clone, Debug)]
pub struct SignedBy(pub Identity);

/// One connection's way to the rooms, behind hyper.
struct ConnectionService(Arc<Connection>);

/// The turn of a request.
pub(super) struct Turn {
    caller: CallerMark,
    /// Its sender has shown this token before.
    is_known: bool,
}

/// One connection, whoever reads its requests.
#[derive(Clone)]
pub(super) struct Connection {
    pub door: Door,
    pub routing: Arc<Routing>,
    /// The client's.
    address: IpAddr,
    over_tls: OverTls,
    place: Arc<EdgePlace>,
    refusal_delay: Duration,
    clock: Arc<AnswerClock>,
    silence: Arc<Silence>,
}

impl hyper::service::Service<hyper::Request<Incoming>> for ConnectionService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn call(&self, request: hyper::Request<Incoming>) -> Self::Future {
        let (connection, since) = (self.0.of_sender(request.headers()), Instant::now());
        let (request, rest) = coming::split(request);
        let rest = rest.map(|rest| (rest, Sender::of(request.headers(), connection.address)));
        Box::pin(async move {
            let mut answer = connection.answer_in_turn(request, since).await;
            if let Some((rest, sender)) = rest {
                let is_known = connection.door.known(&sender.headers()).is_some();
                rest.settle(&mut answer, is_known, &connection.door.limits).await;
            }
            Ok(answer)
        })
    }
}

/// A request, of whoever has read it.
pub(super) trait Asked: Sized {
    /// The body of its answer.
    type Body: hyper::body::Body;

    /// Its header fields.
    fn headers(&self) -> &HeaderMap;

    /// Bytes of its body, if it says how many.
    fn body_bytes(&self) -> Option<u64>;

    /// The answer to come, and its operation if that is known already.
    fn begin(self, connection: &Connection) -> (Answer<Self::Body>, Option<Operation>);
}

impl Asked for hyper::Request<Coming> {
    type Body = Body;

    fn headers(&self) -> &HeaderMap {
        hyper::Request::headers(self)
    }

    fn body_bytes(&self) -> Option<u64> {
        self.body().size_hint().exact()
    }

    fn begin(self, connection: &Connection) -> (Answer, Option<Operation>) {
        if let Some(hot) = connection.routing.hot(self.method(), self.uri().path())
            && names_host(&self)
            && is_chunked_at_most(&self)
        {
            let (head, body) = self.into_parts();
            let answer = hot.answer(Arc::new(head), HotBody::Coming(body));
            return (Box::pin(async move { answer.await.map(Body::new) }), Some(hot.operation()));
        }
        (connection.answer_by_route(self), None)
    }
}

impl Connection {
    /// The connection, as one of the request's sender: a proxy forwards requests of many.
    pub fn of_sender(self: &Arc<Connection>, headers: &HeaderMap) -> Arc<Connection> {
        let Some(address) = proxied::sender(&self.door, self.address, headers) else { return self.clone() };
        let over_tls = proxied::over_tls(&self.door, self.address, headers).map_or(self.over_tls, OverTls);
        Arc::new(Connection { address, over_tls, ..Connection::clone(self) })
    }

    /// An answer that leaves others their turn, and is counted. A client that is refused for what it is, or for how
    /// much it asks, waits for that answer: so that a flood of such requests costs its sender more than those who share
    /// the thread with it. The request came at `since`.
    pub async fn answer_in_turn<R: Asked>(&self, request: R, since: Instant) -> Response<R::Body> {
        let turn = self.turn(request.headers(), request.body_bytes(), ReadBy::Hyper).await;
        self.answer(request, turn, since).await
    }

    /// Waits until it is the turn of a request with these header fields, and a body of so many bytes if it says so.
    pub async fn turn(&self, headers: &HeaderMap, body_bytes: Option<u64>, read_by: ReadBy) -> Turn {
        let known = self.door.known(headers);
        let caller = self.door.mark(known.as_ref(), self.address);
        // What is too large is refused unread.
        let body_bytes_max = self.door.limits.body_bytes_max as u64;
        let body_bytes = body_bytes.map(|bytes| if bytes > body_bytes_max { 0 } else { bytes });
        self.door.turns.take(caller, turns::rounds_of_request(read_by, body_bytes)).await;
        Turn { caller, is_known: known.is_some() }
    }

    /// The answer to a request whose turn it is; see [`Connection::answer_in_turn`].
    pub async fn answer<R: Asked>(&self, request: R, turn: Turn, since: Instant) -> Response<R::Body> {
        let Turn { caller, is_known } = turn;
        let shared = self.door.cors.of(request.headers());
        self.look_for_token(is_known, request.headers());
        let sender = Sender::of(request.headers(), self.address);
        let (answer, hot) = request.begin(self);
        let mut answer = answer.await;
        if let Some(shared) = shared {
            shared.tell(&mut answer);
        }
        let operation = hot.or_else(|| answer.extensions().get().copied());
        self.tell_refusal(&sender, &answer, operation);
        let answer_bytes = answer.body().size_hint().exact().unwrap_or(0);
        let requests = turns::requests_of_answer(answer_bytes);
        match answer.extensions().get::<SignedBy>() {
            Some(SignedBy(caller)) => {
                if !self.place.is_known() {
                    self.place.show(&CallerName::of_identity(caller));
                }
                if requests > 0 {
                    caller.charge(requests);
                }
            }
            None if requests > 0 => self.door.charge(&sender.headers(), sender.address, requests),
            None => {}
        }
        let rounds = turns::rounds_of_answer(answer_bytes);
        if rounds > 0 {
            self.door.turns.take(caller, rounds).await;
        }
        if is_late(&answer) {
            tokio::time::sleep(self.refusal_delay).await;
        }
        self.door.answered(&answer);
        self.clock.answered(since, operation.unwrap_or(NO_OPERATION));
        answer
    }

    /// The security log has who is not known, and who may not do what they ask.
    fn tell_refusal<B>(&self, sender: &Sender, answer: &Response<B>, operation: Option<Operation>) {
        let code = || answer.extensions().get::<ProblemCode>().map_or("", |code| code.name());
        match answer.status() {
            // A log-in that is refused has a line of its own, and who shows nothing is no intruder.
            StatusCode::UNAUTHORIZED
                if code() == codes::TOKEN_INVALID.name() || code() == codes::TOKEN_EXPIRED.name() =>
            {
                let why = answer.extensions().get::<Unauthorized>().map_or("", |Unauthorized(why)| why);
                let detail = format!("{}: {why}", code());
                security::tell(SecurityEvent::TokenRefused, "http", self.address, "", &detail);
            }
            StatusCode::FORBIDDEN => {
                let signed = answer.extensions().get::<SignedBy>().map(|SignedBy(caller)| caller.clone());
                let caller = signed.or_else(|| self.door.known(&sender.headers()));
                let name = caller.as_ref().map_or("", |caller| caller.name());
                let operation = operation.map_or("", |Operation(operation)| operation);
                security::tell(SecurityEvent::Denied, "http", self.address, name, operation);
            }
            _ => {}
        }
    }

    /// A connection on which a good token is shown stays when the door is full. `is_known`: this one was shown before.
    fn look_for_token(&self, is_known: bool, headers: &HeaderMap) {
        if self.place.is_known() && is_known {
            return;
        }
        if let Some(caller) = self.door.shown(headers, self.address)
            && !self.place.is_known()
        {
            self.place.show(&caller);
        }
    }

    fn answer_by_route(&self, request: hyper::Request<Coming>) -> Answer {
        if !names_host(&request) {
            let detail = "a request of HTTP/1.1 has the header `Host`, once: a host, and perhaps a port";
            return self.refuse(request.headers(), Problem::new(codes::HOST_INVALID, detail));
        }
        if !is_chunked_at_most(&request) {
            let detail = "a body may be sent in one coding at most, once: `chunked`";
            let refused = self.refuse(request.headers(), Problem::new(codes::BODY_BROKEN, detail));
            return Box::pin(async {
                let mut answer = refused.await;
                // Where this request ends may not be where a proxy between takes it to.
                answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                answer
            });
        }
        // Whatever its path: a browser asks so before each kind of request, and shows no token.
        if let Some(answer) = self.door.cors.preflight(&request) {
            let counted = self.door.count(request.headers(), self.address);
            let answer = counted.map_or_else(IntoResponse::into_response, |()| answer);
            return Box::pin(std::future::ready(answer));
        }
        // Past the routes, because it must have hyper's own request.
        if let Some(handler) = self.door.upgrade.as_ref().filter(|handler| *handler.path() == *request.uri().path()) {
            let sender = Sender::of(request.headers(), self.address);
            return match upgrade::begin(handler, request, self.address, &self.door.operations.health()) {
                Ok(answer) => Box::pin(std::future::ready(answer)),
                Err(problem) => self.refuse(&sender.headers(), problem),
            };
        }
        // Cloning the routes costs as much as a small request; only requests that need them pay.
        let router = self.routing.router().clone();
        let mut request = request;
        request.extensions_mut().insert(PeerAddress(self.address));
        request.extensions_mut().insert(self.over_tls);
        request.extensions_mut().insert(self.silence.clone());
        let (door, sender) = (self.door.clone(), Sender::of(request.headers(), self.address));
        Box::pin(async move {
            let answer = explain_method(route(router, request).await);
            match is_of_no_room(&answer).then(|| door.count(&sender.headers(), sender.address)) {
                Some(Err(problem)) => problem.into_response(),
                _ => answer,
            }
        })
    }

    /// Refuses a request that no room has seen; it is counted like those that one has.
    fn refuse(&self, headers: &HeaderMap, problem: Problem) -> Answer {
        let counted = self.door.count(headers, self.address);
        let answer = counted.err().unwrap_or(problem).into_response();
        Box::pin(std::future::ready(answer))
    }
}

/// Who has sent a request, as far as it says so: kept while the request is answered.
struct Sender {
    address: IpAddr,
    authorization: Option<HeaderValue>,
}

impl Sender {
    fn of(headers: &HeaderMap, address: IpAddr) -> Sender {
        Sender { address, authorization: headers.get(header::AUTHORIZATION).cloned() }
    }

    fn headers(&self) -> HeaderMap {
        self.authorization.iter().map(|token| (header::AUTHORIZATION, token.clone())).collect()
    }
}

/// Whether no room has looked at the request that is answered so: there is no such path, or method on it.
fn is_of_no_room(answer: &Response<Body>) -> bool {
    answer.status() == StatusCode::METHOD_NOT_ALLOWED
        || answer.extensions().get::<ProblemCode>() == Some(&codes::PATH_UNKNOWN)
}

/// Whether the request has the `Host` that its version asks for: RFC 9112, 3.2: a server answers 400 to a request of
/// HTTP/1.1 without it, and to any with more than one, or with one that is no host.
fn names_host<B>(request: &hyper::Request<B>) -> bool {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let has_one = hosts.next().map_or(request.version() < Version::HTTP_11, |host| is_host(host.as_bytes()));
    has_one && hosts.next().is_none()
}

/// Whether the client waits for this answer longer than it takes.
fn is_late<B>(answer: &Response<B>) -> bool {
    matches!(answer.status(), StatusCode::UNAUTHORIZED | StatusCode::TOO_MANY_REQUESTS)
        || answer.extensions().get::<Late>().is_some()
}

async fn route(mut router: Router, request: hyper::Request<Coming>) -> Response<Body> {
    // Routers are always ready.
    let ready = Service::<HttpRequest>::poll_ready(&mut router, &mut Context::from_waker(std::task::Waker::noop()));
    debug_assert!(matches!(ready, Poll::Ready(Ok(()))));
    let answer: Result<_, Infallible> = router.call(request.map(Body::new)).await;
    answer.unwrap_or_else(|never| match never {})
}

/// axum answers a wrong method with `Allow` and no body; the body is ours.
fn explain_method(response: Response<Body>) -> Response<Body> {
    if response.status() != StatusCode::METHOD_NOT_ALLOWED {
        return response;
    }
    let mut explained = Problem::method_not_allowed().into_response();
    if let Some(allow) = response.headers().get(header::ALLOW) {
        explained.headers_mut().insert(header::ALLOW, allow.clone());
    }
    explained
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_connections_that_come_at_once_go_at_different_times() {
        for first in [0, 1, 1_000, u32::MAX - 100] {
            let mut answers = [0; (REFUSAL_DELAY_MIN_MS + REFUSAL_DELAY_SPREAD_MS) as usize];
            for n in 0..200 {
                answers[refusal_delay(first.wrapping_add(n)).as_millis() as usize] += 1;
            }
            assert!(answers.iter().all(|count| *count <= 4), "of 200, four in a millisecond: {answers:?}");
        }
    }
}
