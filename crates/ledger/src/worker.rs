//! One worker's part of the node: its shards, and the router of its own connections.
//!
//! ```text
//!   connections ─▶ start ─▶ Router ─┬─ own shard: at once ─▶ Shard ─▶ step ─▶ Router ─▶ finished replies
//!                                   └─ another's: Outgoing ─▶ ring ─▶ deliver (there)
//! ```
//!
//! Invariant: no thread, socket, clock or ring here. The gateway drives it from a poll loop, the simulator from a seed;
//! both carry its outgoing messages, in order per pair of endpoints.

use tidegate_disk::Disk;
use tidegate_journal::LogStore;
use tidegate_machines::ledger::AccountView;
use tidegate_machines::{ShardIndex, TimeMs};
use tidegate_shard::{JobId, Released, Shard};

use crate::message::{Request, Unavailable};
use crate::operation::{EndpointIndex, Message, Outgoing};
use crate::router::{CursorKey, Finished, Router};
use crate::service::{Fetched, Job, LedgerService, Note, Output, ShardError, Ticket};

/// A shard of the ledger.
pub type LedgerShard<D, L> = Shard<LedgerService<D>, L>;

/// Who hears [`Message::Figures`] of all shards: one worker, because the parts of a collector are added up there.
const ANNOUNCING_WORKER: EndpointIndex = EndpointIndex(0);

/// A worker without its thread.
pub struct Worker<D: Disk, L: LogStore> {
    endpoint: EndpointIndex,
    workers: u16,
    shards: Vec<LedgerShard<D, L>>,
    router: Router,
    /// New figures of accounts, for whoever announces them; only on worker 0.
    figures: Vec<(ShardIndex, AccountView)>,
    /// Messages made in this step, before those to ourselves are taken out.
    made: Outgoing,
}

impl<D: Disk, L: LogStore> Worker<D, L> {
    /// A worker that owns `shards` (those whose index modulo `workers` is its own).
    pub fn new(
        endpoint: EndpointIndex,
        shard_count: u16,
        workers: u16,
        cursors: CursorKey,
        shards: Vec<LedgerShard<D, L>>,
    ) -> Worker<D, L> {
        for shard in &shards {
            assert!(shard.index().0 < shard_count, "a shard is one of all");
            assert!(shard.index().0 % workers == endpoint.0, "a worker has the shards that are its own");
        }
        let router = Router::new(endpoint, shard_count, workers, cursors);
        Worker { endpoint, workers, shards, router, figures: Vec::new(), made: Vec::new() }
    }

    /// Whether another request of a connection may start; if not, stop reading.
    pub fn has_room(&self) -> bool {
        self.router.has_room()
    }

    /// Starts a request of a connection. Its reply appears in `finished`, here or in a later call, with `token`.
    pub fn start(&mut self, token: u64, request: Request, out: &mut Outgoing, finished: &mut Finished) {
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
                if to == self.endpoint {
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
        while let Some((ticket, answer)) = self.shards[index].released() {
            worked = true;
            let shard = self.shards[index].index();
            self.made.extend(self.message_of(shard, (ticket, answer)));
        }
        worked
    }

    fn message_of(
        &self,
        shard: ShardIndex,
        (ticket, released): Released<LedgerService<D>>,
    ) -> Option<(EndpointIndex, Message)> {
        Some(match (ticket, released) {
            (Ticket::Call { from, ticket }, answer) => {
                let answer = answer.map(|output| output.map(Output::into_answer));
                (from, Message::Answer { ticket, shard, answer })
            }
            // No client waits for these: the other shard asks again.
            (Ticket::Credits { .. } | Ticket::Pull { .. } | Ticket::Figures, Err(_)) => return None,
            (Ticket::Credits { to }, Ok(output)) => {
                let credits = output.map(Output::into_credits);
                (self.worker_of(to), Message::Credits { shard: to, from: shard, credits })
            }
            (Ticket::Pull { from }, Ok(output)) => {
                let after = output.map(Output::into_watermark).into_inner();
                (self.worker_of(from), Message::Pull { shard: from, by: shard, after })
            }
            (Ticket::Figures, Ok(output)) => {
                let accounts = output.map(Output::into_figures);
                (ANNOUNCING_WORKER, Message::Figures { shard, accounts })
            }
        })
    }

    fn worker_of(&self, shard: ShardIndex) -> EndpointIndex {
        EndpointIndex(shard.0 % self.workers)
    }

    fn place_of(&self, shard: ShardIndex) -> Option<usize> {
        self.shards.iter().position(|owned| owned.index() == shard)
    }

    fn take(&mut self, message: Message, finished: &mut Finished) {
        match message {
            Message::Call { shard, .. } | Message::Pull { shard, .. } | Message::Credits { shard, .. }
                if self.worker_of(shard) != self.endpoint =>
            {
                panic!("a message to a shard goes to its worker")
            }
            Message::Call { from, ticket, shard, operation } => match self.place_of(shard) {
                Some(place) => {
                    self.shards[place].call(Ticket::Call { from, ticket }, operation);
                    // A call that was refused on arrival is answered at once.
                    self.release(place);
                }
                None => {
                    let answer = Err(Unavailable::ShardFailed);
                    self.made.push((from, Message::Answer { ticket, shard, answer }));
                }
            },
            Message::Answer { ticket, shard, answer } => {
                self.router.answer(ticket, shard, answer, &mut self.made, finished);
            }
            Message::Pull { shard, by, after } => {
                if let Some(place) = self.place_of(shard) {
                    self.shards[place].note(Note::Pull { by, after });
                }
            }
            Message::Credits { shard, from, credits } => {
                if let Some(place) = self.place_of(shard) {
                    self.shards[place].note(Note::Credits { from, credits: credits.into_inner() });
                }
            }
            Message::Figures { shard, accounts } => {
                self.figures.extend(accounts.into_inner().into_iter().map(|account| (shard, account)));
            }
        }
    }

    /// The next read that a shard of this worker wants done, on a thread that may wait: by `LedgerService::run`.
    pub fn take_job(&mut self) -> Option<(ShardIndex, JobId, Job)> {
        self.shards.iter_mut().find_map(|shard| shard.take_job().map(|(id, job)| (shard.index(), id, job)))
    }

    /// Takes what a read found. The next step goes on with it.
    pub fn fetched(&mut self, shard: ShardIndex, job: JobId, found: Fetched) {
        let place = self.place_of(shard).expect("a job comes back to the worker of its shard");
        self.shards[place].fetched(job, found);
    }

    /// Takes the figures that shards have announced since the last call, in order: the shard, and the account or its
    /// part there.
    pub fn take_figures(&mut self) -> Vec<(ShardIndex, AccountView)> {
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
