//! Logs put back from an older copy: one beside newer ones, or all of them.
//!
//! ```text
//!   one log      ─▶ the start is refused, because the other shards know more; the newer log is put back, or first the
//!                    loss is accepted for a while (`peer_loss`)
//!   all logs     ─▶ the start is refused if a snapshot or the ids stand behind the end; a notice accepts the loss
//!                    └─▶ clients are told of nothing that came after the copy, and all goes on from there:
//!                        what is of the abandoned timeline is never served
//! ```
//!
//! Copies are made, and put back, at the end of a census: nothing is under way then, so what each shard knows of the
//! others is known here, too.

use std::collections::BTreeSet;

use tidegate_journal::{Lost, Notice, NoticeKind, Sequence};
use tidegate_machines::ShardIndex;
use tidegate_machines::ledger::Exchanged;
use tidegate_shard::loss::{Examined, examine};

use super::LedgerWorld;
use super::follow::Kept;
use super::wire::INSPECTOR;
use crate::harness::{End, LogFiles, Store, StoreName, Workload};
use crate::ledger::client::Wishes;
use crate::ledger::model::Model;
use crate::ledger::node::{claim_of_ids, log_id, snapshots};
use crate::note;
use crate::violation::{Violation, must};

/// What a log that was put back is called, and what is written into it.
const REASON: &str = "the disk was put back from a copy";

/// Everything as it was at a census.
pub(super) struct OldCopy {
    files: LogFiles,
    /// By shard: what it knew of each other one.
    exchanged: Vec<Vec<Exchanged>>,
    model: Model,
    wishes: Wishes,
    cursors: Vec<(String, String)>,
    changes: Kept,
    /// By shard: the number of its last record, written or under way.
    pub(super) ends: Vec<u64>,
    /// The time of then, if the clock of this seed is right: whatever was decided later says a later one.
    pub(super) at_ms: Option<u64>,
}

impl OldCopy {
    /// How often clocks had been mended.
    pub(super) fn mends(&self) -> usize {
        self.model.mends()
    }
}

pub(super) fn failed(cause: std::io::Error) -> Violation {
    Violation::of("the fake disk can be tampered with", cause.to_string())
}

impl<S: Store> LedgerWorld<S> {
    /// At the end of a census: makes a copy, or puts one back.
    pub(super) fn copy_or_put_back(&mut self) -> Result<(), Violation> {
        let unfit = S::NAME != StoreName::Local || self.node.is_none() || self.site.disk.has_stopped();
        if unfit || self.site.is_full() || self.site.may_refuse_for_damage() {
            return Ok(());
        }
        match self.load.copy.take() {
            Some(copy) if self.site.chance.happens(900) => match self.site.chance.below(3) {
                0 => self.put_back_one(copy),
                1 => self.put_back_all(&copy),
                _ => self.restore_at(copy),
            },
            Some(copy) if self.site.chance.happens(500) => {
                self.load.copy = Some(copy);
                Ok(())
            }
            _ => self.copy_everything(),
        }
    }

    fn copy_everything(&mut self) -> Result<(), Violation> {
        note!(self.site.trace, "the logs are copied");
        let copy = OldCopy {
            files: self.site.copy_logs().map_err(failed)?,
            exchanged: self.exchanged(),
            model: self.load.model.clone(),
            wishes: self.load.wishes.clone(),
            cursors: self.load.workload.cursors.clone(),
            changes: self.load.follower.kept().clone(),
            ends: self.ends(),
            at_ms: self.has_a_clock_to_go_by().then(|| self.site.clock.right_ms()),
        };
        self.load.copy = Some(copy);
        Ok(())
    }

    fn ends(&self) -> Vec<u64> {
        let Some(node) = &self.node else { return Vec::new() };
        (0..self.load.plan.shards).map(|shard| node.shard(shard).appended().0).collect()
    }

    fn exchanged(&self) -> Vec<Vec<Exchanged>> {
        let Some(node) = &self.node else { return Vec::new() };
        let shards = self.load.plan.shards;
        let of = |shard: u16| {
            let state = node.shard(shard).state_ahead();
            (0..shards).map(|other| state.exchanged(ShardIndex(other))).collect()
        };
        (0..shards).map(of).collect()
    }

    /// One log is put back and the start tried; then the newer one is put back.
    fn put_back_one(&mut self, copy: OldCopy) -> Result<(), Violation> {
        let shard = self.site.chance.below(u64::from(self.load.plan.shards)) as u16;
        let (now, then) = (&self.exchanged()[usize::from(shard)], &copy.exchanged[usize::from(shard)]);
        // What it sent was taken in, and what it took in was confirmed: others know of both.
        let is_newer = |(now, then): (&Exchanged, &Exchanged)| now.sent > then.sent || now.watermark > then.watermark;
        let is_proven = now.iter().zip(then).any(is_newer);
        let log = format!("ledger-{shard}");
        self.end(End::Kill)?;
        if self.site.disk.has_stopped() {
            return Ok(());
        }
        note!(self.site.trace, "{log} alone is put back from a copy; others know more: {is_proven}");
        let newest = self.site.copy_data().map_err(failed)?;
        self.site.put_back(&copy.files, Some(&log)).map_err(failed)?;
        let refusal = self.try_start();
        if is_proven {
            let told = || format!("{log}: {refusal:?}");
            must(refusal.is_some(), "an older log is not served beside newer ones", told)?;
            self.site.tally.add("a log put back alone that was refused", 1);
        }
        self.check_refusal(refusal.as_deref())?;
        if is_proven && self.site.chance.happens(700) {
            self.go_on_without_for_a_while()?;
        }
        self.site.put_data_back(&newest).map_err(failed)?;
        self.load.copy = Some(copy);
        Ok(())
    }

    /// All logs are put back, the loss is accepted where it is seen, and clients know what they knew then.
    fn put_back_all(&mut self, copy: &OldCopy) -> Result<(), Violation> {
        self.end(End::Kill)?;
        if self.site.disk.has_stopped() {
            return Ok(());
        }
        note!(self.site.trace, "all logs are put back from a copy");
        self.site.put_back(&copy.files, None).map_err(failed)?;
        self.site.tally.add("a rollback to an older timeline", 1);
        let refusal = self.try_start();
        self.check_refusal(refusal.as_deref())?;
        if refusal.is_some() {
            self.accept_losses(&BTreeSet::new())?;
            self.site.tally.add("a loss that was accepted", 1);
        }
        self.roll_clients_back(copy);
        Ok(())
    }

    /// Clients know what they knew then.
    pub(super) fn roll_clients_back(&mut self, copy: &OldCopy) {
        self.load.wire.clear();
        self.load.heard.clear();
        self.load.model = copy.model.clone();
        self.load.wishes.roll_back_to(&copy.wishes, |client| client != INSPECTOR);
        self.load.workload.cursors.clone_from(&copy.cursors);
        self.load.follower.roll_back_to(&copy.changes, &copy.ends);
    }

    /// A start that is ended at once; why it was refused, if it was.
    pub(super) fn try_start(&mut self) -> Option<String> {
        self.site.process_starts();
        let started = Workload::start(&mut self.load, &mut self.site);
        let refusal = started.map(drop).err();
        self.site.store.ended(End::Kill);
        self.site.disk.kill();
        note!(self.site.trace, "the start was tried: {refusal:?}");
        refusal
    }

    /// Whoever has lost records is told so.
    fn check_refusal(&self, refusal: Option<&str>) -> Result<(), Violation> {
        let told = refusal.is_none_or(|words| words.contains(" lost"));
        must(told, "who has lost records is told which log, and that they are lost", || format!("{refusal:?}"))
    }

    /// What `tidegate accept-loss` finds out about a log.
    pub(super) fn examine(&self, shard: u16) -> Result<Examined, Violation> {
        let claims: Vec<_> = claim_of_ids(&self.site.disk, shard).into_iter().collect();
        let files = snapshots(&self.site.disk, shard);
        let examined = examine(&self.site.store.logs(), &files, &claims);
        examined.map_err(|error| Violation::of("a loss can be accepted", error.to_string()))
    }

    /// What `tidegate accept-loss` does: a notice in each log that has lost its end, as what is beside it proves, or as
    /// other shards do.
    pub(super) fn accept_losses(&mut self, proven_by_others: &BTreeSet<u16>) -> Result<(), Violation> {
        let logs = self.site.store.logs();
        for shard in 0..self.load.plan.shards {
            let failed = |error: String| Violation::of("a loss can be accepted", error);
            let examined = self.examine(shard)?;
            if examined.proofs.is_empty() && !proven_by_others.contains(&shard) {
                continue;
            }
            let lost = Lost { from: Sequence(examined.report.end.sequence.0 + 1), to: None };
            let (kind, time_ms) = (NoticeKind::LossAccepted, self.site.clock.now_ms());
            let notice = Notice { kind, time_ms, lost: Some(lost), text: REASON.into() };
            note!(self.site.trace, "  shard {shard}: {notice}");
            let written = tidegate_journal::Logs::append_notice(
                &logs,
                log_id(shard),
                examined.since,
                self.load.plan.journal,
                &notice,
            );
            written.map_err(|error| failed(error.to_string()))?;
        }
        self.site.disk.kill();
        Ok(())
    }
}
