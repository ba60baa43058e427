//! One connection: TLS if asked for, then HTTP/1.1 with every wait bounded.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};

use axum::Router;
use axum::body::Body;
use axum::http::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::backend::Backend;
use super::door::{Door, DoorService};
use super::limits::HttpLimits;

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
        // An error means that the sender is gone, and with it whoever could stop us.
        let _ = self.0.clone().wait_for(|stop| *stop).await;
    }
}

/// Serves one connection to its end.
pub async fn serve<B: Backend>(
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    door: Door<B>,
    router: Router,
    stopping: Stopping,
) {
    let metrics = door.metrics.clone();
    metrics.connections_open.add(1);
    // An answer is one write; waiting for more to send with it would only add Nagle's delay.
    let _ = stream.set_nodelay(true);
    // A client that is gone already has no address; what it asks for matters to nobody.
    let address = stream.peer_addr().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.ip());
    let service = ConnectionService(DoorService::new(door.clone(), router, address));
    match acceptor {
        None => serve_http(stream, door.limits, service, stopping).await,
        Some(acceptor) => match tokio::time::timeout(door.limits.handshake_timeout, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => serve_http(stream, door.limits, service, stopping).await,
            Ok(Err(_)) | Err(_) => {
                metrics.handshakes_failed.increment();
            }
        },
    }
    metrics.connections_open.add(-1);
}

async fn serve_http<B, S>(stream: S, limits: HttpLimits, service: ConnectionService<B>, stopping: Stopping)
where
    B: Backend,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // Not `pipeline_flush`: with it, the answer to a head that cannot be parsed never leaves (hyper 1.12).
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_buf_size(limits.head_bytes_max)
        .max_headers(limits.headers_max)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        // An error here is the client's: it broke off, or did not speak HTTP. hyper has answered what can be answered.
        _ = connection.as_mut() => return,
        () = stopping.wait() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

struct ConnectionService<B>(DoorService<B>);

impl<B: Backend> hyper::service::Service<hyper::Request<Incoming>> for ConnectionService<B> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn call(&self, request: hyper::Request<Incoming>) -> Self::Future {
        Box::pin(self.0.answer(request))
    }
}
