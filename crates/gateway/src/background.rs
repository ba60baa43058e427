//! A thread that may wait: it asks one thing at a time. The seeds and the auditor live on it.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use tidegate_ledger::message::{Reply, Request, Unavailable};
use tidegate_ledger::operation::Outgoing;
use tidegate_ledger::operation::{Answer, EndpointIndex, Message, Operation};
use tidegate_ledger::router::{CursorKey, Finished, Router};
use tidegate_machines::ShardIndex;

use crate::mesh::Endpoint;
use crate::parcel::Parcel;

/// How long one look for an answer lasts before the thread checks whether it should stop.
const PATIENCE: Duration = Duration::from_millis(200);

/// An endpoint that asks and waits.
pub struct Background {
    endpoint: Endpoint<Parcel>,
    router: Router,
    workers: u16,
    woken: mpsc::Receiver<()>,
}

impl Background {
    /// Takes its end of the rings.
    pub fn new(endpoint: Endpoint<Parcel>, shard_count: u16, workers: u16, cursors: CursorKey) -> Background {
        let (wake, woken) = mpsc::sync_channel(1);
        endpoint.bed().set_wake(move || {
            // One wake-up that waits is as good as many.
            let _ = wake.try_send(());
        });
        let router = Router::new(endpoint.index(), shard_count, workers, cursors);
        Background { endpoint, router, workers, woken }
    }

    /// Asks as a client would, and waits. `None` once `stopped` says so.
    pub fn request(&mut self, request: Request, stopped: &dyn Fn() -> bool) -> Option<Reply> {
        let mut out: Outgoing = Vec::new();
        let mut finished: Finished = Vec::new();
        self.router.start(0, request, &mut out, &mut finished);
        loop {
            self.endpoint.send(&mut out);
            if let Some((_, reply)) = finished.pop() {
                return Some(reply);
            }
            let router = &mut self.router;
            let any = self.endpoint.receive(|_, parcel| match parcel {
                Parcel::Shard(Message::Answer { ticket, shard, answer }) => {
                    router.answer(ticket, shard, answer, &mut out, &mut finished)
                }
                _ => unreachable!("everything else is for workers"),
            });
            if !any && !self.wait(stopped) {
                return None;
            }
        }
    }

    /// Asks one shard, and waits. `None` once `stopped` says so.
    pub fn call(
        &mut self,
        shard: ShardIndex,
        operation: Operation,
        stopped: &dyn Fn() -> bool,
    ) -> Option<Result<Answer, Unavailable>> {
        let worker = EndpointIndex(shard.0 % self.workers);
        let call = Message::Call { from: self.endpoint.index(), ticket: 0, shard, operation };
        self.endpoint.send(&mut vec![(worker, call)]);
        let mut answered = None;
        while answered.is_none() {
            let any = self.endpoint.receive(|_, parcel| {
                if let Parcel::Shard(Message::Answer { answer, .. }) = parcel {
                    answered = Some(answer.map(|answer| answer.into_inner()));
                }
            });
            if !any && !self.wait(stopped) {
                return None;
            }
        }
        answered
    }

    /// Sleeps until there may be something to do, or for `time`; `false` once `stopped` says so.
    fn wait(&mut self, stopped: &dyn Fn() -> bool) -> bool {
        if self.endpoint.sleep_unless(|| false) {
            let _ = self.woken.recv_timeout(PATIENCE);
            self.endpoint.awake();
        }
        !stopped()
    }

    /// Where it sleeps; who wants it to stop wakes it.
    pub fn bed(&self) -> Arc<crate::mesh::Bed> {
        self.endpoint.bed().clone()
    }
}
