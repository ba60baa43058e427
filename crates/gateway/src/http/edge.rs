//! One edge thread: its listener, its tokio runtime, its connections.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::backend::Backend;
use super::connection::{self, Stopping};
use super::door::Door;
use super::limits::HttpLimits;
use super::metrics::HttpMetrics;
use super::problem::Problem;
use super::websocket::WebSocketDoor;
use crate::auth::Authenticator;

/// How long accepting pauses when the system has no descriptor left: trying at once would only burn the core.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What an edge thread needs.
pub struct EdgeOptions<B> {
    /// A listening socket, one per edge thread (`SO_REUSEPORT`).
    pub listener: TcpListener,
    /// Certificates, to serve HTTPS.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Who may come in.
    pub authenticator: Arc<Authenticator>,
    /// The ledger.
    pub backend: B,
    /// Bounds.
    pub limits: HttpLimits,
    /// Shared by all edge threads.
    pub metrics: HttpMetrics,
    /// Paths served without a token besides `/healthz` and `/v1/login`: of `/openapi.json`, `/metrics` and `/demo`.
    pub open_paths: Vec<Box<str>>,
    /// MQTT over WebSocket, if it is served.
    pub websocket: Option<WebSocketDoor>,
    /// Becomes true when the process stops; a sender that is gone means the same.
    pub stop: watch::Receiver<bool>,
}

/// Serves until `stop`, then lets connections finish within the drain time-out. Blocks its thread.
///
/// `companion` runs on the same thread, as long as there is a door: what carries requests from the backend to the shards. It
/// should end when the last clone of the backend is gone; it gets the drain time-out for that.
pub fn serve_edge<B, C>(options: EdgeOptions<B>, companion: C) -> io::Result<()>
where
    B: Backend,
    C: Future<Output = ()> + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let drain_timeout = options.limits.drain_timeout;
    runtime.block_on(async {
        let companion = tokio::spawn(companion);
        let served = serve(options).await;
        if tokio::time::timeout(drain_timeout, companion).await.is_err() {
            tracing::warn!("requests were still under way when the time to drain was over");
        }
        served
    })
}

async fn serve<B: Backend>(options: EdgeOptions<B>) -> io::Result<()> {
    let EdgeOptions { listener, tls, authenticator, backend, limits, metrics, open_paths, websocket, stop } = options;
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let acceptor = tls.map(TlsAcceptor::from);
    let door = Door::new(backend, authenticator, limits, metrics.clone(), open_paths, websocket);
    let router = door.router();
    let stopping = Stopping::new(stop);
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            // Stop first: a flood of connections must not keep the process alive.
            biased;
            () = stopping.wait() => break,
            accepted = listener.accept() => accepted,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, _)) if connections.len() >= limits.connections_max => {
                metrics.connections_refused.increment();
                turn_away(&stream, acceptor.is_some());
            }
            Ok((stream, _)) => {
                metrics.connections_accepted.increment();
                let connection =
                    connection::serve(stream, acceptor.clone(), door.clone(), router.clone(), stopping.clone());
                connections.spawn(connection);
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept HTTP connections for a moment");
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

/// The peer was gone before we accepted it; the listener is fine.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}

/// Says "busy" in one packet that fits any socket's buffer, without waiting and without keeping anything.
fn turn_away(stream: &TcpStream, tls: bool) {
    if tls {
        return;
    }
    let body = Problem::busy_body();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.try_write(answer.as_bytes());
}
