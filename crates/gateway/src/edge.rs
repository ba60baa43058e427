//! How the edge threads, which may wait, reach the shards, which may not.
//!
//! ```text
//!   axum handlers ─call─▶ bounded channel ─▶ pump ─▶ Router ─▶ rings ─▶ workers
//!                 ◀─ oneshot per request ──── pump ◀─ Router ◀─ rings ◀─ workers
//! ```
//!
//! One pump per edge thread, a task of its runtime; it is the edge's only owner of rings.

use std::sync::Arc;

use slab::Slab;
use tidegate_ledger::limits::ENDPOINT_REQUESTS_MAX;
use tidegate_ledger::message::{Reply, Request, Unavailable};
use tidegate_ledger::operation::Outgoing;
use tidegate_ledger::operation::{EndpointIndex, Message};
use tidegate_ledger::router::{CursorKey, Finished, Router};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::admission::Arrival;
use crate::http::{DrainStatus, Health, Operations};
use crate::ledger_http::Backend;
use crate::mesh::Endpoint;
use crate::metrics::NodeMetrics;
use crate::parcel::Parcel;
use crate::status::{Phase, Status};

/// What a door wants of the workers.
enum Asked {
    Request(Request, oneshot::Sender<Reply>),
    Adopt(Box<Arrival>),
}

/// The shards, as a door on an edge thread reaches them.
#[derive(Clone)]
pub struct EdgeBackend {
    ask: mpsc::Sender<Asked>,
    status: Arc<Status>,
    metrics: Arc<NodeMetrics>,
}

/// The other end of an [`EdgeBackend`], to be run by the same thread's runtime.
pub struct Pump {
    asked: mpsc::Receiver<Asked>,
    endpoint: Endpoint<Parcel>,
    router: Router,
    waiting: Slab<oneshot::Sender<Reply>>,
    woken: Arc<Notify>,
    workers: u16,
    /// Which worker gets the next connection.
    next_worker: u16,
}

/// Connects a door with the shards through `endpoint`.
pub fn edge(
    endpoint: Endpoint<Parcel>,
    shard_count: u16,
    workers: u16,
    cursors: CursorKey,
    status: Arc<Status>,
    metrics: Arc<NodeMetrics>,
) -> (EdgeBackend, Pump) {
    let (ask, asked) = mpsc::channel(ENDPOINT_REQUESTS_MAX);
    let woken = Arc::new(Notify::new());
    let wake = woken.clone();
    endpoint.bed().set_wake(move || wake.notify_one());
    let router = Router::new(endpoint.index(), shard_count, workers, cursors);
    (
        EdgeBackend { ask, status, metrics },
        Pump { asked, endpoint, router, waiting: Slab::new(), woken, workers, next_worker: 0 },
    )
}

impl Backend for EdgeBackend {
    fn call(&self, request: Request) -> impl Future<Output = Reply> + Send + 'static {
        let answer = self.begin(request);
        async move {
            match answer {
                Err(reason) => Reply::Unavailable(reason),
                // A pump that is gone has left its requests undecided.
                Ok(answer) => answer.await.unwrap_or(Reply::Unavailable(Unavailable::Stopping)),
            }
        }
    }
}

impl Operations for EdgeBackend {
    fn health(&self) -> Health {
        match self.status.phase() {
            Phase::Serving => Health::Serving,
            Phase::Stopping => Health::Stopping,
            Phase::Failed => Health::Failed { reason: self.status.failure() },
            Phase::Recovering => {
                let (done, total) = self.status.replayed();
                Health::Recovering { progress: if total == 0 { 0.0 } else { done as f64 / total as f64 } }
            }
        }
    }

    fn metrics(&self) -> String {
        self.metrics.render()
    }

    fn drain(&self, per_second: u32) {
        self.status.drain(per_second);
    }

    fn drain_status(&self) -> DrainStatus {
        DrainStatus { per_second: self.status.drain_per_second(), clients: self.status.clients() }
    }
}

impl EdgeBackend {
    /// Gives a connection that has become a WebSocket to a worker. `false`: nobody takes it.
    pub fn adopt(&self, arrival: Box<Arrival>) -> bool {
        self.ask.try_send(Asked::Adopt(arrival)).is_ok()
    }

    fn begin(&self, request: Request) -> Result<oneshot::Receiver<Reply>, Unavailable> {
        match self.status.phase() {
            Phase::Recovering => return Err(Unavailable::Recovering),
            Phase::Failed => return Err(Unavailable::ShardFailed),
            Phase::Serving | Phase::Stopping => {}
        }
        let (reply, answer) = oneshot::channel();
        match self.ask.try_send(Asked::Request(request, reply)) {
            Ok(()) => Ok(answer),
            Err(mpsc::error::TrySendError::Full(_)) => Err(Unavailable::Busy),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(Unavailable::Stopping),
        }
    }
}

impl Pump {
    /// Carries requests and replies until every [`EdgeBackend`] is gone and all that was asked is answered.
    pub async fn run(mut self) {
        let mut out: Outgoing = Vec::new();
        let mut finished: Finished = Vec::new();
        let mut open = true;
        while open || !self.waiting.is_empty() {
            let sleeps = self.endpoint.sleep_unless(|| !self.asked.is_empty());
            if sleeps {
                tokio::select! {
                    asked = self.asked.recv(), if open => match asked {
                        Some(asked) => self.start(asked, &mut out, &mut finished),
                        None => open = false,
                    },
                    () = self.woken.notified() => {}
                }
                self.endpoint.awake();
            } else {
                tokio::task::yield_now().await;
            }
            while let Ok(asked) = self.asked.try_recv() {
                self.start(asked, &mut out, &mut finished);
            }
            self.endpoint.receive(|_, parcel| match parcel {
                Parcel::Shard(Message::Answer { ticket, shard, answer }) => {
                    self.router.answer(ticket, shard, answer, &mut out, &mut finished);
                }
                _ => unreachable!("everything else is for workers"),
            });
            for (token, reply) in finished.drain(..) {
                // A client that went away no longer listens.
                let _ = self.waiting.remove(token as usize).send(reply);
            }
            self.endpoint.send(&mut out);
        }
    }

    fn start(&mut self, asked: Asked, out: &mut Outgoing, finished: &mut Finished) {
        match asked {
            Asked::Request(request, reply) => {
                let token = self.waiting.insert(reply) as u64;
                self.router.start(token, request, out, finished);
            }
            // Any worker will do: it sends the connection on to the one that has its session.
            Asked::Adopt(arrival) => {
                let worker = EndpointIndex(self.next_worker);
                self.next_worker = (self.next_worker + 1) % self.workers;
                self.endpoint.send(&mut vec![(worker, arrival)]);
            }
        }
    }
}
