//! Connections that stop being HTTP: answers 101, and hands over the socket, without tokio and hyper.
//!
//! ```text
//!   request at the handler's path ─▶ Upgrade::accept ─┬─ a problem: the connection stays HTTP
//!                                                     └─ 101 ─▶ hyper lets go ─▶ Accepted::take(Upgraded)
//! ```

use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Response, StatusCode};
use hyper::upgrade::Upgraded as HyperUpgraded;
use hyper_util::rt::TokioIo;
use rustls::ServerConnection;
use tokio_rustls::server::TlsStream;

use super::ciphertext::Ciphertext;
use super::coming::Coming;
use super::operations::Health;
use super::patient::Patient;
use super::rewound::Rewound;
use crate::json::Problem;

/// How long sending the answer to the upgrade may take.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);

/// Who takes connections at one path.
pub trait Upgrade: Send + Sync {
    /// The path.
    fn path(&self) -> &str;

    /// Looks at the head of a request of a client at `address`, while the server is as `health` says. The error is the
    /// answer, and the connection stays HTTP.
    fn accept(&self, head: &Parts, address: IpAddr, health: &Health) -> Result<Accepted, Problem>;
}

/// A connection that may stop being HTTP.
pub struct Accepted {
    /// Headers of the answer 101.
    pub headers: HeaderMap,
    /// Takes the connection, once, after the answer; `None` if it broke before.
    pub take: Box<dyn FnOnce(Option<Upgraded>) + Send>,
}

/// A connection that was HTTP's.
pub struct Upgraded {
    /// The socket, which never waits.
    pub tcp: TcpStream,
    /// Its TLS, if it has one.
    pub tls: Option<ServerConnection>,
    /// The bytes that were read already after the request (under TLS: decrypted).
    pub read: Vec<u8>,
}

/// Asks `handler`, answers, and hands the connection over when the answer is on its way.
pub(super) fn begin(
    handler: &Arc<dyn Upgrade>,
    request: hyper::Request<Coming>,
    address: IpAddr,
    health: &Health,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let Accepted { headers, take } = handler.accept(&head, address, health)?;
    let upgrade = hyper::upgrade::on(hyper::Request::from_parts(head, body));
    tokio::spawn(async move {
        let upgraded = tokio::time::timeout(UPGRADE_TIMEOUT, upgrade).await;
        take(upgraded.ok().and_then(Result::ok).and_then(take_out));
    });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *response.headers_mut() = headers;
    Ok(response)
}

/// The socket behind an upgraded connection, and what was read of it already, by hyper and before.
fn take_out(upgraded: HyperUpgraded) -> Option<Upgraded> {
    let (tcp, tls, read, unread) = match upgraded.downcast::<TokioIo<Rewound<Patient>>>() {
        Ok(parts) => {
            let (unread, stream) = parts.io.into_inner().into_parts();
            (stream.into_inner(), None, parts.read_buf, unread)
        }
        Err(upgraded) => {
            let parts = upgraded.downcast::<TokioIo<Rewound<TlsStream<Ciphertext<Patient>>>>>().ok()?;
            let (unread, stream) = parts.io.into_inner().into_parts();
            let (tcp, tls) = stream.into_inner();
            (tcp.into_inner()?.into_inner(), Some(tls), parts.read_buf, unread)
        }
    };
    Some(Upgraded { tcp: tcp.into_std().ok()?, tls, read: [&*read, &*unread].concat() })
}
