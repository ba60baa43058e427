//! A client and shards in one place, without a thread: what a simulator and tests drive.
//!
//! ```text
//!   start ─▶ Router ─┬─ own shard: at once ─▶ Shard ─▶ step ─▶ Router ─▶ finished replies
//!                    └─ another's: Outgoing ─▶ carried by the caller ─▶ deliver (there)
//! ```
//!
//! On a node each shard is a member of its worker, and clients are elsewhere. Both speak through the same
//! [`LedgerProtocol`] and [`Router`].
//!
//! Invariant: no thread, socket, clock or ring here. Its caller carries the outgoing messages, in order per pair of
//! addresses.

use tidegate_disk::Disk;
use tidegate_journal::LogStore;
use tidegate_machines::{ShardIndex, TimeMs};
use tidegate_runtime::{Address, Protocol, Received, ShardAddresses};
use tidegate_shard::{JobId, Shard};

use crate::announcer::Announcement;
use crate::message::{CallerRequest, Unavailable};
use crate::operation::{Message, Outgoing};
use crate::protocol::LedgerProtocol;
use crate::router::{CursorKey, Finished, Router};
use crate::service::{Fetched, Job, LedgerService, ShardError, Ticket};

/// A shard of the ledger.
pub type LedgerShard<D, L> = Shard<LedgerService<D>, L>;

/// A client and the shards that live at the same address.
pub struct Worker<D: Disk, L: LogStore> {
    me: Address,
    addresses: ShardAddresses,
    protocol: LedgerProtocol,
    shards: Vec<LedgerShard<D, L>>,
    router: Router,
    /// New balances of accounts, for the announcer.
    figures: Vec<(ShardIndex, Announcement)>,
    /// Messages made in this step, before those to ourselves are taken out.
    made: Outgoing,
}

impl<D: Disk, L: LogStore> Worker<D, L> {
    /// The owner of `shards`, which are those whose address is `me`; `announcer` hears new figures.
    pub fn new(
        me: Address,
        addresses: ShardAddresses,
        announcer: Address,
        cursors: CursorKey,
        shards: Vec<LedgerShard<D, L>>,
    ) -> Worker<D, L> {
        for shard in &shards {
            assert!(addresses.of(shard.index()) == me, "a worker has the shards that are its own");
        }
        let router = Router::new(me, addresses.clone(), cursors);
        let protocol = LedgerProtocol::new(addresses.clone(), Some(announcer));
        Worker { me, addresses, protocol, shards, router, figures: Vec::new(), made: Vec::new() }
    }

    /// Whether another request of a connection may start; if not, stop reading.
    pub fn has_room(&self) -> bool {
        self.router.has_room()
    }

    /// Starts a request of a connection. Its reply appears in `finished`, here or in a later call, with `token`.
    pub fn start(
        &mut self,
        token: u64,
        request: impl Into<CallerRequest>,
        out: &mut Outgoing,
        finished: &mut Finished,
    ) {
        self.router.start(token, request, &mut self.made, finished);
        self.pass_on(out, finished);
    }

    /// Takes a message of another endpoint.
    pub fn deliver(&mut self, message: Message, out: &mut Outgoing, finished: &mut Finished) {
        self.take(message, finished);
        self.pass_on(out, finished);
    }

    /// Lets every shard do what it can. Returns whether anything happened, so that an idle worker may sleep.
    pub fn step(&mut self, now: TimeMs, out: &mut Outgoing, finished: &mut Finished) -> bool {
        let mut worked = false;
        for index in 0..self.shards.len() {
            worked |= self.shards[index].step(now);
            worked |= self.release(index);
        }
        self.pass_on(out, finished);
        worked
    }

    /// Messages to ourselves are taken at once; the rest goes out.
    fn pass_on(&mut self, out: &mut Outgoing, finished: &mut Finished) {
        while !self.made.is_empty() {
            for (to, message) in std::mem::take(&mut self.made) {
                if to == self.me {
                    self.take(message, finished);
                } else {
                    out.push((to, message));
                }
            }
        }
    }

    /// Sends off what a shard has released. Returns whether there was anything.
    fn release(&mut self, index: usize) -> bool {
        let mut worked = false;
        while let Some(released) = self.shards[index].released() {
            worked = true;
            let shard = self.shards[index].index();
            self.made.extend(Protocol::<LedgerService<D>>::answer(&self.protocol, shard, released));
        }
        worked
    }

    fn place_of(&self, shard: ShardIndex) -> Option<usize> {
        self.shards.iter().position(|owned| owned.index() == shard)
    }

    fn take(&mut self, message: Message, finished: &mut Finished) {
        let shard = match message {
            Message::Answer { ticket, shard, answer } => {
                return self.router.answer(ticket, shard, answer, &mut self.made, finished);
            }
            Message::Figures { shard, accounts } => {
                return self.figures.extend(accounts.into_inner().into_iter().map(|account| (shard, account)));
            }
            Message::Call { shard, .. } | Message::Pull { shard, .. } | Message::Credits { shard, .. } => shard,
        };
        assert!(self.addresses.of(shard) == self.me, "a message to a shard goes to its worker");
        let received: Received<LedgerService<D>> = self.protocol.receive(self.me, message);
        match (received, self.place_of(shard)) {
            (Received::Call(ticket, operation), Some(place)) => {
                self.shards[place].call(ticket, operation);
                // A call that was refused on arrival is answered at once.
                self.release(place);
            }
            (Received::Call(Ticket::Call { from, ticket, .. }, _), None) => {
                let answer = Err(Unavailable::ShardFailed);
                self.made.push((from, Message::Answer { ticket, shard, answer }));
            }
            (Received::Note(note), Some(place)) => self.shards[place].note(note),
            (Received::Note(_) | Received::Call(..), None) => {}
        }
    }

    /// The next read that a shard of this worker wants done, on a thread that may wait: by `LedgerService::run`.
    pub fn take_job(&mut self) -> Option<(ShardIndex, JobId, Job<D>)> {
        self.shards.iter_mut().find_map(|shard| shard.take_job().map(|(id, job)| (shard.index(), id, job)))
    }

    /// Takes what a read found. The next step goes on with it.
    pub fn fetched(&mut self, shard: ShardIndex, job: JobId, found: Fetched) {
        let place = self.place_of(shard).expect("a job comes back to the worker of its shard");
        self.shards[place].fetched(job, found);
    }

    /// Takes the figures that shards have announced since the last call, in order: the shard, and the account or its
    /// part there.
    pub fn take_figures(&mut self) -> Vec<(ShardIndex, Announcement)> {
        std::mem::take(&mut self.figures)
    }

    /// The shards of this worker.
    pub fn shards(&self) -> &[LedgerShard<D, L>] {
        &self.shards
    }

    /// The shards, to be stepped or harmed by a simulator.
    pub fn shards_mut(&mut self) -> &mut [LedgerShard<D, L>] {
        &mut self.shards
    }

    /// Whether a log became durable further since the last step.
    pub fn has_news(&self) -> bool {
        self.shards.iter().any(Shard::has_news)
    }

    /// Requests of its connections that are in progress.
    pub fn pending(&self) -> usize {
        self.router.pending()
    }

    /// Whether all that was accepted is decided, durable and answered.
    pub fn is_idle(&self) -> bool {
        self.router.pending() == 0 && self.shards.iter().all(Shard::is_idle)
    }

    /// The first journal failure among its shards.
    pub fn failure(&self) -> Option<&ShardError> {
        self.shards.iter().find_map(|shard| shard.failure()).map(|error| &**error)
    }

    /// Gives the logs back, to close them.
    pub fn into_logs(self) -> Vec<L> {
        self.shards.into_iter().map(Shard::into_log).collect()
    }
}

#[cfg(test)]
mod tests;
