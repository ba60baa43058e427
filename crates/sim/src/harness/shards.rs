//! A process that is nothing but shards of one service: for machines that need no more of a node.

use std::collections::VecDeque;

use tidegate_journal::disk::FakeDisk;
use tidegate_journal::{JournalError, LogId, LogStore, Logs, Options};
use tidegate_machines::{ShardIndex, TimeMs};
use tidegate_shard::{
    CompactionRule, Durable, JobId, NothingDerived, OpenShard, Service, Shard, ShardFamily, Snapshots, Unavailable,
    audit, compact,
};

use super::store::Store;
use super::workload::Process;
use super::{Site, data};
use crate::note;
use crate::violation::Violation;

/// The machine of a service.
type MachineOf<V> = <<V as Service>::Family as ShardFamily>::Machine;

/// An answer that left a shard: which shard, the ticket, and what was answered, or why nothing was.
pub type Answered<V> = (u16, <V as Service>::Ticket, Result<Durable<<V as Service>::Answer>, Unavailable>);

/// A read that a shard wants done, and the tick in which it is done.
struct Read<V: Service> {
    shard: usize,
    id: JobId,
    job: V::Job,
    at: u64,
}

/// All shards of one family, without threads.
pub struct Shards<V: Service, S: Store> {
    shards: Vec<Shard<V, S::Log>>,
    logs: Vec<LogId>,
    reads: Vec<Read<V>>,
    answered: VecDeque<Answered<V>>,
}

impl<V: Service, S: Store> Shards<V, S> {
    /// Opens and replays every shard of the family, and gives it a service. `Err` in the words that an operator would
    /// read.
    pub fn start(
        site: &mut Site<S>,
        options: Options,
        service: impl Fn(&MachineOf<V>) -> V,
    ) -> Result<Shards<V, S>, String> {
        let family = <V::Family as ShardFamily>::FAMILY;
        let logs: Vec<_> = site.setup.logs().into_iter().filter(|log| log.family == family.number).collect();
        let mut shards = Vec::new();
        for log in &logs {
            let opened =
                OpenShard::<V::Family, _, _>::open(&site.store.served(), snapshots::<V>(&site.disk, *log), options);
            let opened = opened.map_err(|error| error.to_string())?;
            let back =
                opened.replay(logs.len() as u16, &mut NothingDerived, |_| {}).map_err(|error| error.to_string())?;
            note!(site.trace, "  shard {}: {:?}", log.shard, back.report);
            let service = service(&back.state);
            let shard = Shard::new(ShardIndex(log.shard), back.state, service, back.log);
            shards.push(shard.map_err(|error| error.to_string())?);
        }
        Ok(Shards { shards, logs, reads: Vec::new(), answered: VecDeque::new() })
    }

    /// Asks a shard. Its answer comes from [`Shards::answered`], with the ticket.
    pub fn call(&mut self, shard: u16, ticket: V::Ticket, call: V::Call) {
        self.shards[usize::from(shard)].call(ticket, call);
    }

    /// Tells a shard's service something that is not answered, or is answered by the way.
    pub fn note(&mut self, shard: u16, note: V::Note) {
        self.shards[usize::from(shard)].note(note);
    }

    /// Lets every shard do what it can, and does the reads that they want done, some of them late. What they made of it
    /// leaves, unless the machine stopped meanwhile: then nothing did.
    pub fn step(&mut self, site: &mut Site<S>) {
        for (index, (shard, log)) in self.shards.iter_mut().zip(&self.logs).enumerate() {
            let now_ms = site.clock.now_ms();
            shard.service_mut().observe_wall(TimeMs(now_ms - site.setup.faults.shards_ahead_ms));
            shard.step(TimeMs(now_ms));
            while let Some((id, job)) = shard.take_job() {
                self.reads.push(Read { shard: index, id, job, at: site.tick + site.ticks_of_a_job() });
            }
            let (tick, is_calm) = (site.tick, site.is_calm());
            let is_due = |read: &mut Read<V>| read.shard == index && (is_calm || read.at <= tick);
            for read in self.reads.extract_if(.., is_due) {
                let Ok(reader) = site.store.served().reader(*log) else { continue };
                shard.fetched(read.id, V::run(read.job, &reader));
            }
            while let Some((ticket, answer)) = shard.released() {
                self.answered.push_back((log.shard, ticket, answer));
            }
        }
        if site.disk.has_stopped() {
            self.answered.clear();
        }
    }

    /// The next answer.
    pub fn answered(&mut self) -> Option<Answered<V>> {
        self.answered.pop_front()
    }

    /// A snapshot of one shard, and the end of what lies behind it, if `rule` says that it is time.
    pub fn compact(&mut self, site: &mut Site<S>, shard: u16, rule: CompactionRule) -> Result<(), Violation> {
        let log = self.logs[usize::from(shard)];
        let files = snapshots::<V>(&site.disk, log);
        let reader = site.store.served().reader(log).map_err(|error| error.to_string());
        let shards = self.logs.len() as u16;
        let made = reader
            .and_then(|reader| compact(&files, &reader, shards, rule, || true).map_err(|error| error.to_string()));
        match made {
            Ok(None) => Ok(()),
            Ok(Some(made)) => {
                note!(site.trace, "shard {shard}: a snapshot at sequence {}", made.cursor.sequence);
                site.tally.add("a compaction", 1);
                Ok(())
            }
            // A disk without room, or that stops, keeps what it has; damage is found by whoever reads.
            Err(_) if site.is_full() || site.disk.has_stopped() || site.may_stop_a_shard() => Ok(()),
            Err(error) => Err(Violation::of("a log can be compacted while it is written", error)),
        }
    }

    /// The machine of a shard, ahead of the disk by the groups in flight.
    pub fn state(&self, shard: u16) -> &MachineOf<V> {
        self.shards[usize::from(shard)].state_ahead()
    }

    /// What a shard keeps beside its machine.
    pub fn service(&self, shard: u16) -> &V {
        self.shards[usize::from(shard)].service()
    }

    /// Whether everything that was asked was decided, made durable and answered.
    pub fn is_idle(&self) -> bool {
        self.shards.iter().all(Shard::is_idle)
    }
}

/// What an audit finds on a log that nobody serves: for [`super::Workload::audit`].
pub fn audit_log<F: ShardFamily, S: Store>(site: &Site<S>, log: LogId, shards: u16) -> Vec<String> {
    let files = Snapshots::<F, FakeDisk>::new(site.disk.clone(), data(), log);
    match audit(&site.store.served(), &files, shards, |_, _| {}) {
        Ok(findings) => findings.problems,
        Err(error) => vec![error.to_string()],
    }
}

fn snapshots<V: Service>(disk: &FakeDisk, log: LogId) -> Snapshots<V::Family, FakeDisk> {
    Snapshots::new(disk.clone(), data(), log)
}

impl<V: Service, S: Store> Process for Shards<V, S> {
    fn failure(&self) -> Option<String> {
        self.shards.iter().find_map(|shard| shard.failure()).map(ToString::to_string)
    }

    fn stop(self) -> Result<(), JournalError> {
        self.shards.into_iter().map(Shard::into_log).try_for_each(|log| log.close().map(|_| ()))
    }
}
