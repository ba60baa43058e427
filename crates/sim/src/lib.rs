//! Whole nodes in one thread from one seed: the real shards, journals, recovery, id indexes, snapshots and auditors,
//! over stores that break their promises wherever real ones may, with a simulated clock, and with clients that never
//! believe silence.
//!
//! ```text
//!   seed ─▶ Chance ─▶ harness: clock, faults, life ──▶ Store: LocalStore over FakeDisk, StreamStore over FakeStreams
//!                        ▲                                   └─▶ Trace ─▶ hash: the same seed, the same bytes
//!                        │ Workload: clients, oracle
//!              ┌─────────┼─────────┬─────────────────────┐
//!            ledger    gateway  queue, links   a machine from outside
//! ```
//!
//! A machine brings a [`harness::Workload`]; [`harness`] says how. Those of this crate are [`ledger`], [`gateway`] and
//! [`queue`]; each runs on each kind of store. [`links`] joins three nodes with queues.
//!
//! # A failure, and what to do with it
//!
//! ```text
//!   the last events:
//!     1700000000142 send 182 wish 168 Transfers { … }
//!     …
//!   seed 64 breaks a promise
//!     an id stands for one content
//!     c0-79 Content { debit: "wallet:credit-1", … } was answered Refused(InsufficientFunds { … }), known: None
//!   replay it:  make sim SEED=64 WORLD=ledger STORE=local
//! ```
//!
//! 1. The command in the last line prints every event of that run, the same each time. The number in front is simulated
//!    milliseconds.
//! 2. Search it for the id (`c0-79`): `send` is a client's request with its token, `hear` the answer to that token. Two
//!    sends of one wish are a retry; an answer that is missing was lost with a crash or on the wire.
//! 3. Around it stands what the machine did: `log 1/1 Synced` (a journal's sync), `somebody takes over` (another
//!    process fences the log), `the process ends by Power` (a crash; what was not synced is lost, kept or torn), `the
//!    process starts`, with what recovery found per shard, `audit`, `snapshot`.
//! 4. The first lines are what the seed decided: how many shards, which sizes, and how often each fault happens (absent
//!    if 0).
//! 5. The property in the second line is checked where its words stand in the source: in [`ledger::model`] for what a
//!    client of the ledger can see, in `gateway/oracle.rs` for one of MQTT, in [`harness`] for what holds for all
//!    machines.
//!
//! # What is checked of the ledger
//!
//! * At every answer: the same id has the same answer; an id stands for one content; nothing is applied twice, nor
//!   answered before it was asked; a refusal has its reason, and a remembered one says when it was decided; nothing
//!   moves that a freeze forbids which was answered before; reads are never older than what was seen or acknowledged
//!   before; history rows lead from balance to balance and never change.
//! * Every few ticks, in memory: every shard is balanced by itself; what one shard sent and another has not applied is
//!   on its way; no wallet is below zero or below what is held.
//! * In a census, some times in a run and at its end, when all is quiet: every account is read through the door with
//!   its whole history. Every acknowledged transfer is there once, every refused one is not, figures are the sums of
//!   rows, all balances of an asset sum up to zero, open holds are what is held. What a refusal says was available is
//!   what the history has at the moment of its decision. Some wallets are spent to the last unit, limited and frozen.
//! * Time: at some censuses what all accounts have is kept, and asked for at later ones, by its time. Between two the
//!   clock may be wrong until an operator mends the time: then it is that of then all the same, or it is said from when
//!   to when nobody can tell.
//! * All the while: the ids of each journal are summed up and compared with those of its index. Somebody follows the
//!   changes, dies and goes on at a cursor: each record comes once, in order; a census shows that none is missing.
//! * Ids: what is read by its id is what was asked, in the state that answers say. Two clients use the same id, each in
//!   its own id space, and each for something else.
//! * At the end: every request ever made is made again and gets the answer it got; all holds expire; online and offline
//!   audits agree; the node stops gracefully and starts once more.
//! * Damage: a log that rots is refused at the start or stops its shard, and the offline audit names the segment or
//!   message. What cannot be read is refused by name, and served again once it can. Nothing else may stop a shard or
//!   keep a node from starting, but another writer that took its log over, and a log that was put back from an older
//!   copy: beside newer ones it is refused, or, once that loss is accepted, told again what others know; all of them
//!   together go on once the loss is accepted, and so do the clients.
//! * How often each fault fired: below its floor (`ledger/world/floors.rs`) the test fails.
//!
//! # What is not real
//!
//! Threads (a node here takes turns: workers, the journals' companions, the ids' builders), rings (messages are
//! carried, in order per pair), sockets, the servers of a stream, and the data directory's lock; its description is
//! there for backups, restores and moved directories, which are done on files of the real disk. Loom checks the rings,
//! the kill test the whole binary.

pub mod chance;
pub mod gateway;
pub mod harness;
pub mod ledger;
pub mod links;
pub mod queue;
mod run;
pub mod trace;
pub mod violation;

pub use run::{Run, hush_panics_in_runs, report_failure, report_panics};
