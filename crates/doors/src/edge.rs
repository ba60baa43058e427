//! What the HTTP door of one edge thread uses of the node.

mod caller_streams;
mod changes;
mod feeds;

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_journal::directory::GuardFault;
use tidegate_ledger::changes::{After, ChangeFilter};
use tidegate_ledger::message::{CallerRequest, Reply, Unavailable};
use tidegate_ledger::router::Router;
use tidegate_runtime::pump::{EdgeHandle, ReplyStream};
use tidegate_runtime::threads::now_ms;
use tidegate_runtime::{Address, Client, Outgoing, Phase, Replies, Site, Status};
use tidegate_telemetry::{Exposition, Registry, render};

use crate::admission::Arrival;
use crate::http::{DrainStatus, Health, Operations};
use crate::ledger_http;
use crate::ledger_http::Backend;
use crate::turns::CallerName;

pub use changes::{ChangeParts, ChangeReaderMetrics, EdgeChanges};
pub use feeds::{ChangeFeeds, ChangeFeedsRoom};

/// The ledger behind a door.
#[derive(Clone)]
pub struct EdgeBackend {
    /// Asks it.
    pub ledger: EdgeHandle<Router>,
    /// Follows its journals.
    pub changes: EdgeChanges,
}

/// What operators ask of a node.
pub struct NodeOperations {
    status: Arc<Status>,
    registry: Registry,
}

impl NodeOperations {
    /// Of the node that is built at `site`.
    pub fn of<P: Send + 'static>(site: &Site<P>) -> NodeOperations {
        NodeOperations { status: site.status().clone(), registry: site.registry().clone() }
    }
}

impl Backend for EdgeBackend {
    fn call(&self, request: CallerRequest) -> impl Future<Output = Reply> + Send + 'static {
        let answer = self.ledger.ask(request);
        async move { answer.await.unwrap_or_else(|unasked| Reply::Unavailable(unasked.into())) }
    }

    type Replies = ReplyStream<Router>;

    fn open(&self, request: CallerRequest, window: usize) -> Result<ReplyStream<Router>, Unavailable> {
        self.ledger.open(request, window).map_err(Unavailable::from)
    }

    type Changes = ChangeParts;

    fn changes(&self, caller: CallerName, after: After, filter: ChangeFilter) -> Result<ChangeParts, Unavailable> {
        Ok(self.changes.read(caller, after, filter))
    }
}

impl ledger_http::Replies for ReplyStream<Router> {
    fn next(&mut self) -> impl Future<Output = Option<Reply>> + Send {
        ReplyStream::next(self)
    }
}

impl Operations for NodeOperations {
    fn damage(&self) -> usize {
        self.status.damages().count()
    }

    fn full_journals(&self) -> u32 {
        self.status.full_logs()
    }

    fn full_since_ms(&self) -> Option<u64> {
        self.status.full_since().map(|since| since.0)
    }

    fn lost_witnesses(&self) -> u32 {
        self.status.lost_witnesses()
    }

    fn differing_shards(&self) -> u32 {
        self.status.differing_shards()
    }

    fn wrong_shards(&self) -> u32 {
        self.status.wrong_shards()
    }

    fn unread_shards(&self) -> u32 {
        self.status.unread_shards()
    }

    fn archive_fails(&self) -> bool {
        self.status.archive_fails()
    }

    fn clock_is_off(&self) -> bool {
        self.status.clock_is_off()
    }

    fn shards_ahead(&self) -> u32 {
        self.status.shards_ahead()
    }

    fn failing_snapshots(&self) -> u32 {
        self.status.failing_snapshots()
    }

    fn failing_ids(&self) -> u32 {
        self.status.failing_ids()
    }

    fn room_faults(&self) -> BTreeMap<&'static str, &'static str> {
        self.status.room_faults()
    }

    fn misplaced_snapshots(&self) -> u32 {
        self.status.misplaced_snapshots()
    }

    fn directory_fault(&self) -> Option<&'static str> {
        self.status.directory_fault().map(GuardFault::words)
    }

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

    fn is_overloaded(&self) -> bool {
        self.status.is_overloaded()
    }

    fn metrics(&self, exposition: Exposition) -> String {
        render(&self.registry.snapshot(), exposition)
    }

    fn drain(&self, per_second: u32) {
        self.status.drain(per_second);
    }

    fn end_drain(&self) {
        self.status.end_drain();
    }

    fn run_audit(&self) -> u64 {
        self.status.ask_audit();
        now_ms().0
    }

    fn drain_status(&self) -> DrainStatus {
        DrainStatus { per_second: self.status.drain_per_second(), clients: self.status.clients() }
    }
}

/// Gives connections to the MQTT ports of the workers, in turn. Any of them will do: it sends the connection on to the
/// one that has its session.
pub struct ArrivalClient {
    ports: Vec<Address>,
    next: usize,
}

impl ArrivalClient {
    /// To these ports.
    pub fn new(ports: Vec<Address>) -> ArrivalClient {
        assert!(!ports.is_empty(), "somebody takes what arrives");
        ArrivalClient { ports, next: 0 }
    }
}

impl Client for ArrivalClient {
    type Request = Box<Arrival>;
    type Reply = ();
    type Message = Box<Arrival>;

    fn has_room(&self) -> bool {
        true
    }

    fn pending(&self) -> usize {
        0
    }

    fn start(
        &mut self,
        token: u64,
        arrival: Box<Arrival>,
        out: &mut Outgoing<Box<Arrival>>,
        replies: &mut Replies<()>,
    ) {
        out.push((self.ports[self.next], arrival));
        self.next = (self.next + 1) % self.ports.len();
        replies.push((token, ()));
    }

    fn deliver(&mut self, _: Address, _: Box<Arrival>, _: &mut Outgoing<Box<Arrival>>, _: &mut Replies<()>) {
        unreachable!("ports give nothing back");
    }
}
