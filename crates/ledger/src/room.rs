//! The ledger as a room of a node: recovers and places its shards, requests its seeds, starts its auditor.
//!
//! ```text
//!   recover  log, id index, replay ─▶ ShardResident, a member of its worker
//!   begin    seeds ─▶ shards; then the auditor's thread: reconcile, write snapshots, sleep
//! ```

mod audit_loop;
mod claims;
mod clock;
mod exchanges;
mod operation_client;
mod seeds;
mod shown;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use tidegate_disk::{Disk, RealDisk};
use tidegate_journal::{DurableMark, Family, LogId, LogReader, LogStore, Options, Position};
use tidegate_machines::ShardIndex;
use tidegate_planted::{BalanceChange, Tampering};
use tidegate_runtime::background::Background;
use tidegate_runtime::recovery::{NodeLog, NodeReader, Recovery};
use tidegate_runtime::threads::{lower_priority, now_ms};
use tidegate_runtime::{
    Address, Carries, Home, LeadWatch, Resident, Room, ShardAddresses, ShardResident, Site, Status,
};
use tidegate_shard::{Claim, Shard};

use crate::announcer::AnnounceRules;
use crate::changes::{ChangeLog, ChangeLogs};
use crate::family::{LEDGER, LedgerFamily};
use crate::ids::{self, IdIndex, IdSeed, IdsOptions};
use crate::metrics::LedgerMetrics;
use crate::operation::Message;
use crate::protocol::LedgerProtocol;
use crate::router::{CursorKey, Router};
use crate::service::LedgerService;
use crate::worker::LedgerShard;

pub use audit_loop::Schedule;
use audit_loop::{AuditLoop, AuditedLog};
use claims::{Decisions, DecisionsOfShard};
pub use exchanges::{Exchanges, in_words as loss_in_words, strange_sums};
pub use operation_client::OperationClient;
pub use seeds::{Seed, SeedKind, check_alone as check_seeds};
pub use shown::ShownCollector;

/// Threads that read for one shard: a cold read of one history does not keep the next one waiting.
pub const FETCH_THREADS: usize = 2;
/// Memory of the filters of one shard, however little there is over all.
const FILTER_BYTES_MIN: usize = 1 << 16;
/// Separates the key of cursors from other uses of the directory's id.
const CURSORS: u64 = u64::from_le_bytes(*b"cursors\0");
/// The same for cursors of changes.
const CHANGES: u64 = u64::from_le_bytes(*b"changes\0");

/// What the ledger of a node is told.
pub struct LedgerOptions {
    /// Bytes of one journal segment.
    pub segment_bytes: u64,
    /// Memory of the filters over ids, over all shards.
    pub ids_filter_bytes_max: usize,
    /// Which accounts are announced when they change, and to whom.
    pub announce: Option<(AnnounceRules, Address)>,
    /// When to audit.
    pub schedule: Schedule,
    /// What to ask before anyone else may.
    pub seed: Vec<Seed>,
    /// What should be there when that is done; the log names what is not.
    pub shown: Vec<ShownCollector>,
}

/// The ledger of a node.
pub struct LedgerRoom {
    options: LedgerOptions,
    /// What the auditor needs of each recovered shard.
    audited: Arc<Mutex<Vec<AuditedLog>>>,
    /// The journals, for those who follow them.
    changes: Arc<ChangeLogs<NodeReader>>,
}

/// A client of the ledger for the member at `me` of a node.
pub fn client<P: Send + 'static>(site: &Site<P>, me: Address) -> Router {
    // The directory's random id: cursors outlive a restart, and nobody outside knows it.
    let cursors = CursorKey([site.directory().id(), CURSORS]);
    Router::new(me, site.placement().shards(LEDGER), cursors)
}

impl LedgerRoom {
    /// A room that does as `options` say.
    pub fn new(options: LedgerOptions) -> LedgerRoom {
        LedgerRoom { options, audited: Arc::default(), changes: Arc::default() }
    }

    /// The journals of its shards, for readers of changes; they can be read when the node serves.
    pub fn changes(&self) -> Arc<ChangeLogs<NodeReader>> {
        self.changes.clone()
    }

    /// Opens the journals for readers of changes, and makes what audits all shards.
    fn audits<P: Carries<Message>>(
        &self,
        site: &mut Site<P>,
        background: Background<P, OperationClient>,
    ) -> Result<AuditLoop<P>> {
        let mut audited = std::mem::take(&mut *self.audited.lock().expect("recovery is over"));
        audited.sort_by_key(|audited| audited.log.shard);
        let follow = |log: &AuditedLog| {
            Ok(ChangeLog { reader: Mutex::new(log.reader.another()?), mark: log.mark.clone(), seen: Arc::default() })
        };
        let followed = audited.iter().map(follow).collect::<Result<_>>()?;
        self.changes.open(followed, CursorKey([site.directory().id(), CHANGES]));
        let with_scrub = |log: AuditedLog| {
            let (scrub, watch) = (site.take_scrub(log.log)?, site.snapshot_watch(LEDGER.name, log.log));
            Some((log, scrub, watch))
        };
        let audited: Vec<_> = audited.into_iter().filter_map(with_scrub).collect();
        let (rate, status) = (site.scrub_bytes_per_s(), site.status().clone());
        Ok(AuditLoop::new(background, site.directory(), audited, self.options.schedule, rate, status))
    }
}

impl<P: Carries<Message>> Room<P> for LedgerRoom {
    fn families(&self) -> Vec<(Family, Home)> {
        vec![(LEDGER, Home::Member)]
    }

    fn endpoints(&self) -> u16 {
        1
    }

    fn recover(&mut self, site: &mut Site<P>) -> Result<()> {
        let logs: Vec<_> = site.directory().logs(LEDGER).collect();
        let filter_bytes_max = filter_bytes_of(self.options.ids_filter_bytes_max, logs.len());
        let journal = Options { segment_bytes: self.options.segment_bytes, ..Options::default() };
        let (exchanges, decisions) = (Arc::new(Exchanges::of(logs.len())), Arc::new(Decisions::default()));
        let begun = logs.into_iter().try_for_each(|log| {
            let recovering = Recovering {
                exchanges: exchanges.clone(),
                ids: IdsOptions { filter_bytes_max, ..IdsOptions::new(random_seed()?, log) },
                announce: self.options.announce.clone(),
                addresses: site.placement().shards(LEDGER),
                metrics: LedgerMetrics::register(site.registry(), log.shard),
                audited: self.audited.clone(),
                changes: self.changes.clone(),
                decisions: decisions.add(),
                status: site.status().clone(),
            };
            site.recover_member::<LedgerFamily>(log, journal, |recovery| recovering.finish(recovery))
        });
        decisions.close();
        begun
    }

    fn begin(&mut self, site: &mut Site<P>) -> Result<()> {
        let endpoint = site.take_endpoint();
        let shards = site.placement().shards(LEDGER);
        let (shard_count, of_audits) = (shards.count(), shards.clone());
        let mut background = Background::new(endpoint, |me| OperationClient::new(me, shards));
        let seeds = std::mem::take(&mut self.options.seed);
        let before = seeds::look_for_ids(&seeds, shard_count, &mut background)?;
        let mut background = background.with_client(|me| client(site, me));
        seeds::sow(seeds, before, shard_count, &mut background)?;
        shown::look(&self.options.shown, &mut background);
        let audits = self.audits(site, background.with_client(|me| OperationClient::new(me, of_audits)))?;
        let status = site.status().clone();
        site.spawn("background".into(), move || {
            lower_priority();
            audits.run(&|| status.is_stopping());
            Ok(())
        })
    }
}

/// What the recovery of one shard takes with it to its thread.
struct Recovering {
    ids: IdsOptions,
    exchanges: Arc<Exchanges>,
    announce: Option<(AnnounceRules, Address)>,
    addresses: ShardAddresses,
    metrics: LedgerMetrics,
    audited: Arc<Mutex<Vec<AuditedLog>>>,
    changes: Arc<ChangeLogs<NodeReader>>,
    decisions: DecisionsOfShard,
    status: Arc<Status>,
}

impl Recovering {
    fn finish<P: Carries<Message>>(self, recovery: Recovery<LedgerFamily>) -> Result<Box<dyn Resident<P>>> {
        let folder = ids_folder(recovery.data(), recovery.shard());
        let open = recovery.open_with(claim_of_ids(recovery.data(), recovery.log()).as_slice())?;
        let recovered = open.recovered().durability();
        let opened = IdIndex::open(RealDisk, &folder, self.ids, recovered.position(), &mut |_, _| {})?;
        if let Some(reason) = &opened.discarded {
            let (family, shard) = (recovery.family(), recovery.shard());
            tracing::warn!(family, shard, reason, "the id index is rebuilt from the journal");
        }
        let mut ids = opened.index;
        let back = recovery.replay(open, &mut ids)?;
        if let Some(reason) = ids.rebuilt_for() {
            let (family, shard) = (recovery.family(), recovery.shard());
            tracing::warn!(family, shard, reason, "the id index is rebuilt from the journal");
        } else if is_of_another_history(opened.covered, ids.has_inherited()) {
            let (family, shard, timeline) = (recovery.family(), recovery.shard(), back.report.timelines.current());
            tracing::warn!(family, shard, %timeline, "the id index was of another history, and is rebuilt");
        }
        clock::check(&back.state, recovery.data(), now_ms())?;
        self.exchanges.note(&back.state, &recovery.accept_loss())?;

        let reader = back.log.reader()?;
        let (ledger, log) = ((&back.state, self.addresses.count()), (&reader, &recovered));
        self.decisions.look(ledger, log, &ids, &recovery.accept_loss())?;
        let mark = Arc::new(DurableMark::new(&recovered, self.changes.listeners().clone()));
        let (log, reader_of_audit) = (recovery.log(), reader.another()?);
        let (mark_of_audit, runs) = (mark.clone(), ids.scrub());
        let audited = AuditedLog { log, reader: reader_of_audit, recovered, mark: mark_of_audit, runs };
        self.audited.lock().expect("no recovery panicked").push(audited);
        let mut service = LedgerService::new(&back.state, ids, back.log.last_sequence());
        service.show_durable(mark);
        let announcer = self.announce.map(|(rules, announcer)| {
            service.announce(rules);
            announcer
        });
        service.tell_damage_to(self.status.damages().clone(), recovery.log());
        let shard = Shard::new(ShardIndex(recovery.shard()), back.state, service, back.log)?;
        let protocol = LedgerProtocol::new(self.addresses, announcer);
        let parker = recovery.parker().clone();
        let (metrics, status, tampering) = (self.metrics, self.status, Tampering::from_env());
        let (mut was_failing, mut lead) = (false, LeadWatch::new(status.clone()));
        let resident = ShardResident::new(shard, protocol, recovery.into_metrics())
            .with_fetchers(FETCH_THREADS, &reader, parker)?
            .on_tick(move |shard, of_shard| {
                metrics.observe(shard, &of_shard.refusals);
                lead.look(shard.facts().time_ahead_ms);
                let is_failing = shard.service().ids().facts().is_failing;
                if std::mem::replace(&mut was_failing, is_failing) != is_failing {
                    status.count_failing_ids(is_failing);
                }
                tampering.look(|order| tamper(shard, order));
            });
        Ok(Box::new(resident))
    }
}

/// Changes a live balance because a test wants the auditor to find it. Never in a release.
fn tamper(shard: &mut LedgerShard<RealDisk, NodeLog>, order: &BalanceChange) -> bool {
    let done = shard.state_to_tamper_with(order).tamper(order);
    if done {
        tracing::warn!(account = order.account(), change = order.change(), "a test changed a live balance");
    }
    done
}

/// Memory of the filters of one shard, of so much over all shards.
fn filter_bytes_of(all: usize, shards: usize) -> usize {
    (all / shards).max(FILTER_BYTES_MIN)
}

/// Whether an index of ids that had records up to `covered` was emptied when the replay looked whose records they are.
fn is_of_another_history(covered: Position, has_inherited: bool) -> bool {
    covered > Position(0) && !has_inherited
}

/// Where the id index of a shard lives.
fn ids_folder(data: &Path, shard: u16) -> PathBuf {
    data.join("ids").join(format!("{}-{shard}", LEDGER.name))
}

/// Verifies the id index beside a log, and changes nothing.
pub fn verify_ids(data: &Path, log: LogId) -> ids::VerifiedIndex {
    ids::verify(&RealDisk, &ids_folder(data, log.shard), log)
}

/// How far the id index beside a log says that the log was durable.
pub fn claim_of_ids(data: &Path, log: LogId) -> Option<Claim> {
    claim_of_index(&RealDisk, ids_folder(data, log.shard), log)
}

/// The same of the id index in a folder. One that was made of another log, here or in another data directory, says
/// nothing of this one: whoever opens it throws it away.
pub fn claim_of_index<D: Disk>(disk: &D, source: PathBuf, log: LogId) -> Option<Claim> {
    let claim = ids::claim(disk, &source)?;
    if claim.log.is_some_and(|of| of != log) {
        return None;
    }
    // An index of an earlier version only says what it covers, or does not say of which log.
    let position = claim.stands_on.map_or(claim.covered, |place| place.position);
    let sequence = claim.stands_on.map(|place| place.sequence);
    let is_of_unknown_log = claim.stands_on.is_some() && claim.log.is_none();
    let doubt =
        is_of_unknown_log.then(|| "an earlier version wrote it, and did not say of which data directory it is".into());
    Some(Claim { source, timeline: claim.timeline, position, sequence, chain: None, doubt, is_kept: false })
}

fn random_seed() -> Result<IdSeed> {
    Ok(IdSeed([getrandom::u64()?, getrandom::u64()?]))
}

#[cfg(test)]
pub(crate) mod told;

#[cfg(test)]
mod tests;
