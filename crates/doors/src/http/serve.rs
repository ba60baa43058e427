//! One edge thread: its listener, its tokio runtime, its connections.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::connection::{self, Stopping};
use super::cors::Cors;
use super::demo::DemoShow;
use super::door::{Door, DoorOptions};
use super::limits::HttpLimits;
use super::metrics::HttpMetrics;
use super::operations::Operations;
use super::parting::{self, EdgePlaces};
use super::proxied::HttpProxies;
use super::rooms::{HttpRoom, RoomsError, Routing};
use super::upgrade::Upgrade;
use crate::admission::{Addresses, Crowded};
use crate::auth::Authenticator;
use crate::reading;
use crate::refusal_metrics::RefusalMetrics;
use crate::request_metrics::RequestMetrics;
use crate::stream::DoorTls;

/// When the next timer of an idle thread is due: sooner than any time-out of a request.
const TIMER_AHEAD: Duration = Duration::from_millis(500);
/// How long accepting pauses when the system has no descriptor left: trying at once would only use up CPU time.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Between two words about it.
const TELL_INTERVAL: Duration = Duration::from_secs(10);

/// What an edge thread needs.
pub struct EdgeOptions {
    /// A listening socket, one per edge thread (`SO_REUSEPORT`).
    pub listener: TcpListener,
    /// Certificates, to serve HTTPS.
    pub tls: Option<DoorTls>,
    /// Load balancers that say whose connections and requests they forward.
    pub proxies: HttpProxies,
    /// Who may come in.
    pub authenticator: Arc<Authenticator>,
    /// What operators ask.
    pub operations: Arc<dyn Operations>,
    /// Who serves what, beside the door's own paths.
    pub rooms: Vec<Box<dyn HttpRoom>>,
    /// Bounds.
    pub limits: HttpLimits,
    /// How many connections each address has, over all edge threads.
    pub addresses: Arc<Addresses>,
    /// Shared by all edge threads.
    pub metrics: HttpMetrics,
    /// Of this one.
    pub refused: RefusalMetrics,
    /// Of this one.
    pub requests: RequestMetrics,
    /// Paths served without a token besides `/healthz` and `/v1/login`: of `/openapi.json`, `/metrics`, `/demo` and
    /// `/pacing`.
    pub open_paths: Vec<Box<str>>,
    /// Which web pages of others may ask.
    pub cors: Cors,
    /// What the pages of `/demo` show.
    pub demo: Arc<DemoShow>,
    /// Who takes connections that stop being HTTP.
    pub upgrade: Option<Arc<dyn Upgrade>>,
    /// Becomes true when the process stops; a sender that is gone means the same.
    pub stop: watch::Receiver<bool>,
}

/// One edge thread before it runs.
pub struct Edge {
    listener: TcpListener,
    tls: Option<DoorTls>,
    door: Door,
    routing: Arc<Routing>,
    places: EdgePlaces,
    stopping: Stopping,
}

impl Edge {
    /// Opens the rooms, so that what is wrong with them is known before a thread serves them.
    pub fn open(options: EdgeOptions) -> Result<Edge, RoomsError> {
        let EdgeOptions { listener, tls, authenticator, operations, rooms, .. } = options;
        let EdgeOptions { limits, addresses, metrics, refused, requests, open_paths, demo, .. } = options;
        let EdgeOptions { proxies, cors, upgrade, stop, .. } = options;
        let stopping = Stopping::new(stop);
        let options = DoorOptions {
            authenticator,
            operations,
            proxies,
            limits,
            metrics,
            refused,
            requests,
            open_paths,
            cors,
            demo,
            upgrade,
            stopping: stopping.clone(),
        };
        let (door, routing) = Door::open(options, rooms)?;
        let routing = Arc::new(routing);
        let places = EdgePlaces::new(limits.connections_max, addresses);
        Ok(Edge { listener, tls, door, routing, places, stopping })
    }

    /// The OpenAPI document that it serves, as JSON.
    pub fn openapi(&self) -> &str {
        self.door.document()
    }

    /// Serves until it is told to stop, then lets connections finish within the drain time-out. Blocks its thread.
    ///
    /// `companion` runs on the same thread, as long as there is a door: what carries requests from the rooms to the
    /// shards. It should end when the last room is gone; it gets the drain time-out for that.
    pub fn serve<C>(self, companion: C) -> io::Result<()>
    where
        C: Future<Output = ()> + Send + 'static,
    {
        let runtime = reading::runtime().enable_io().build()?;
        let drain_timeout = self.door.limits.drain_timeout;
        runtime.block_on(async {
            let companion = tokio::spawn(companion);
            let served = serve(self).await;
            if tokio::time::timeout(drain_timeout, companion).await.is_err() {
                tracing::warn!("requests were still under way when the time to drain was over");
            }
            served
        })
    }
}

async fn serve(edge: Edge) -> io::Result<()> {
    let Edge { listener, tls, door, routing, places, stopping } = edge;
    let (limits, metrics) = (door.limits, door.metrics.clone());
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let turns = door.turns.clone();
    // Both end with the runtime: connections need them until the last of them is gone.
    tokio::spawn(async move { turns.begin_all().await });
    tokio::spawn(keep_a_timer_ahead());
    let mut connections = JoinSet::new();
    let mut number: u32 = 0;
    let mut failures = Failures::default();
    loop {
        let accepted = tokio::select! {
            // Stop first: a flood of connections must not keep the process alive.
            biased;
            () = stopping.wait() => break,
            accepted = listener.accept() => accepted,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, peer)) => {
                match places.enter(peer.ip()) {
                    Ok((place, gives_way)) => {
                        metrics.connections_accepted.increment();
                        number = number.wrapping_add(1);
                        let (tls, door) = (tls.clone(), door.clone());
                        let (routing, stopping) = (routing.clone(), stopping.clone());
                        connections.spawn(connection::serve(stream, place, number, tls, door, routing, stopping));
                        if gives_way {
                            metrics.connections_gave_way.increment();
                            // It goes before the next one comes.
                            tokio::task::yield_now().await;
                        }
                    }
                    Err(crowded) => {
                        metrics.connections_refused.increment();
                        turn_away(&stream, tls.is_some(), crowded);
                    }
                }
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                failures.tell(&error);
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    let finished = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.drain_timeout, finished).await.is_err() {
        tracing::warn!("HTTP connections were still open when the time to drain was over");
        connections.shutdown().await;
    }
    Ok(())
}

/// Has a timer that is due sooner than any time-out of a request. Without one, tokio writes to its own eventfd at each
/// time-out that begins while none is under way, so that the thread need not sleep longer: a system call a request.
async fn keep_a_timer_ahead() {
    loop {
        tokio::time::sleep(TIMER_AHEAD).await;
    }
}

/// The peer was gone before we accepted it; the listener is fine.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}

/// Says now and then that connections cannot be accepted, and how often that was: for as long as descriptors have run
/// out, each try fails.
#[derive(Default)]
struct Failures {
    told: Option<Instant>,
    since_told: u64,
}

impl Failures {
    fn tell(&mut self, error: &io::Error) {
        if let Some(times) = self.count(Instant::now()) {
            tracing::warn!(%error, times, "cannot accept HTTP connections; see the limit of open files at the start");
        }
    }

    /// One more; `Some` with how many there were, if it is time to say so.
    fn count(&mut self, now: Instant) -> Option<u64> {
        self.since_told += 1;
        let is_due = self.told.is_none_or(|told| now.duration_since(told) >= TELL_INTERVAL);
        is_due.then(|| {
            self.told = Some(now);
            std::mem::take(&mut self.since_told)
        })
    }
}

/// Says "busy" in one packet that fits any socket's buffer, without waiting and without keeping anything.
pub(super) fn turn_away(stream: &TcpStream, tls: bool, crowded: Crowded) {
    if tls {
        return;
    }
    let detail = match crowded {
        Crowded::Door => "the server has as many connections as it may; try again in a second",
        Crowded::Address => "your address has as many connections as one address may; close some, or use them again",
    };
    let _ = stream.try_write(parting::busy(detail).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_accept_are_told_once_in_ten_seconds() {
        let (mut failures, began) = (Failures::default(), Instant::now());
        let told = (0..1_000).filter_map(|n| failures.count(began + n * ACCEPT_PAUSE));
        assert_eq!(told.collect::<Vec<u64>>(), [1, 200, 200, 200, 200]);
    }
}
