//! The simulator's view of a worker of the ledger: the only file here that knows how the shards of a process are
//! driven.

use tidegate_journal::disk::FakeDisk;
use tidegate_journal::{JournalError, LogStore};
use tidegate_ledger::LedgerShard;
use tidegate_ledger::message::CallerRequest;
use tidegate_ledger::operation::{Message, Outgoing};
use tidegate_ledger::router::{CursorKey, Finished};
use tidegate_ledger::service::{Fetched, Job};
use tidegate_machines::{ShardIndex, TimeMs};
use tidegate_runtime::{Address, ShardAddresses};
use tidegate_shard::JobId;

use crate::harness::Store;

/// A shard over a store.
pub type SimShard<S> = LedgerShard<FakeDisk, <S as Store>::Log>;

/// The address of a thread, each of which has one member here.
pub fn endpoint(index: u16) -> Address {
    Address::new(index, 0)
}

/// Where the shards live: shard n with worker n modulo the number of workers, which are the first endpoints.
pub fn shard_addresses(shards: u16, workers: u16) -> ShardAddresses {
    ShardAddresses::new((0..shards).map(|shard| endpoint(shard % workers)))
}

/// A worker: some shards, and the router of its own connections.
pub struct Worker<S: Store>(tidegate_ledger::worker::Worker<FakeDisk, S::Log>);

impl<S: Store> Worker<S> {
    /// Worker `index` of `workers`, which owns `shards`.
    pub fn new(index: u16, shard_count: u16, workers: u16, cursors: CursorKey, shards: Vec<SimShard<S>>) -> Worker<S> {
        let addresses = shard_addresses(shard_count, workers);
        let announcer = endpoint(0);
        Worker(tidegate_ledger::worker::Worker::new(endpoint(index), addresses, announcer, cursors, shards))
    }

    /// Starts a request of one of its connections.
    pub fn start(&mut self, token: u64, request: CallerRequest, out: &mut Outgoing, finished: &mut Finished) {
        self.0.start(token, request, out, finished);
    }

    /// Takes a message of another endpoint.
    pub fn deliver(&mut self, message: Message, out: &mut Outgoing, finished: &mut Finished) {
        self.0.deliver(message, out, finished);
    }

    /// Lets every shard do what it can.
    pub fn step(&mut self, now: TimeMs, out: &mut Outgoing, finished: &mut Finished) {
        self.0.step(now, out, finished);
    }

    /// The next read that a shard wants done.
    pub fn take_job(&mut self) -> Option<(ShardIndex, JobId, Job<FakeDisk>)> {
        self.0.take_job()
    }

    /// Takes what a read found.
    pub fn fetched(&mut self, shard: ShardIndex, job: JobId, found: Fetched) {
        self.0.fetched(shard, job, found);
    }

    /// Its shards.
    pub fn shards(&self) -> &[SimShard<S>] {
        self.0.shards()
    }

    /// Requests of its connections under way.
    pub fn pending(&self) -> usize {
        self.0.pending()
    }

    /// Whether all that was accepted is decided, durable and answered.
    pub fn is_idle(&self) -> bool {
        self.0.is_idle()
    }

    /// Why one of its shards has stopped.
    pub fn failure(&self) -> Option<String> {
        self.0.failure().map(ToString::to_string)
    }

    /// Makes everything submitted durable and closes the logs.
    pub fn stop(self) -> Result<(), JournalError> {
        self.0.into_logs().into_iter().try_for_each(|log| log.close().map(|_| ()))
    }
}
