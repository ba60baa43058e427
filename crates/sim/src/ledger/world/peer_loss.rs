//! One shard's log was put back from an older copy, and the operator goes on without what is lost.
//!
//! ```text
//!   A, older  ◀─ what B's log has of it is written again, the rest is booked as a loss ─▶ start: served, all adds up
//!        └─▶ who asks for a transfer that was written again is told "duplicate": nobody pays twice
//! ```
//!
//! Why only for a while: of what is lost between the copy and now, clients were told. What they may expect after that
//! is another story for each shard, and no oracle knows it. So nobody asks but the inspector, and then all is put back.

use std::collections::BTreeSet;

use tidegate_ledger::accepted_loss::{PeerLosses, Settled, Writing, settle};
use tidegate_ledger::claims::lost_claims_in_passes;
use tidegate_ledger::histories::compare_credits;
use tidegate_ledger::message::Reply;
use tidegate_machines::TimeMs;
use tidegate_machines::ledger::{Ledger, Outcome};
use tidegate_shard::loss::fold_to_end;

use super::LedgerWorld;
use crate::harness::{End, Store, Workload};
use crate::ledger::ask::{Ask, Item};
use crate::ledger::node::{DIRECTORY_ID, snapshots};
use crate::note;
use crate::violation::{Violation, must};

/// Few enough that the comparison of a run's claims takes several passes over the logs.
const CLAIMS_AT_A_TIME: usize = 16;

impl<S: Store> LedgerWorld<S> {
    /// Accepts what shards have lost of each other's credits, serves, checks, and forgets what clients were told
    /// meanwhile. The caller puts all files back.
    pub(super) fn go_on_without_for_a_while(&mut self) -> Result<(), Violation> {
        let (model, wishes) = (self.load.model.clone(), self.load.wishes.clone());
        let (calm, weather) = (self.site.is_calm(), self.load.weather.clone());
        self.load.wire.clear();
        let went = self.go_on_without();
        let stopped = self.site.disk.has_stopped();
        match self.node.is_some() {
            true => self.end(End::Kill)?,
            false if stopped => self.site.disk.crash(),
            false => self.site.disk.kill(),
        }
        self.load.wire.clear();
        self.load.heard.clear();
        (self.load.model, self.load.wishes, self.load.weather) = (model, wishes, weather);
        if !calm {
            self.end_calm();
        }
        // A power failure that was drawn before is nobody's fault.
        if stopped { Ok(()) } else { went }
    }

    fn go_on_without(&mut self) -> Result<(), Violation> {
        let regained = self.settle_losses()?;
        note!(self.site.trace, "the loss of one shard is accepted; {} transfers are known again", regained.len());
        self.site.process_starts();
        let started = Workload::start(&mut self.load, &mut self.site);
        let told = |refusal: String| Violation::of("a loss that was accepted stops no start", refusal);
        self.node = Some(started.map_err(told)?);
        self.become_calm_everywhere()?;
        self.come_to_rest()?;
        self.check_cut()?;
        self.ask_for_regained(regained)?;
        self.come_to_rest()?;
        self.check_cut()?;
        self.last_audits()?;
        self.end(End::Stop)?;
        self.audit_offline()?;
        self.audit_ties()?;
        self.site.tally.add("a loss of one shard that was accepted", 1);
        Ok(())
    }

    /// What `tidegate accept-loss` does. The transfers that are known again, as clients know them.
    fn settle_losses(&mut self) -> Result<Vec<Item>, Violation> {
        let failed = |error: String| Violation::of("a loss can be accepted", error);
        let (logs, states) = (self.site.store.logs(), self.fold_all()?);
        let found =
            PeerLosses::find_with_claims(&logs, DIRECTORY_ID, &states).map_err(|error| failed(error.to_string()))?;
        self.accept_losses(&found.proofs.iter().map(|(shard, _)| *shard).collect::<BTreeSet<u16>>())?;
        let (store, trace) = (self.site.store.clone(), self.site.trace.clone());
        let mut writing = Writing {
            options: self.load.plan.journal,
            now: TimeMs(self.site.clock.now_ms()),
            wait: &mut |log| _ = store.step(log),
            say: &mut |words| note!(trace, "  {words}"),
        };
        let settled = settle(&logs, DIRECTORY_ID, states, &found, &mut writing);
        let Settled { regained, booked, claimed } = settled.map_err(|error| failed(error.to_string()))?;
        self.site.disk.kill();
        self.site.tally.add("a credit that was written again", regained.len() as u64);
        self.site.tally.add("a loss between shards that was booked", booked);
        self.site.tally.add("an id that was claimed again", claimed);
        let as_known = |id: &str| self.load.model.applied_transfer(id);
        Ok(regained.iter().filter(|credit| !credit.posted).filter_map(|credit| as_known(&credit.id)).collect())
    }

    /// The states of all shards' logs, which nobody has open.
    fn fold_all(&self) -> Result<Vec<Ledger>, Violation> {
        let fold = |shard| {
            let files = snapshots(&self.site.disk, shard);
            let state = fold_to_end(&self.site.store.logs(), &files, self.load.plan.shards, &self.examine(shard)?);
            state.map_err(|error| Violation::of("a loss can be accepted", error.to_string()))
        };
        (0..self.load.plan.shards).map(fold).collect()
    }

    /// No log says of a credit what another one does not, and each decision has the claim of its id. Where something
    /// rots, the audits of the logs say so, and nobody can compare.
    pub(super) fn audit_ties(&mut self) -> Result<(), Violation> {
        let (logs, rots) = (self.site.store.logs(), self.site.setup.logs().into_iter().any(|log| self.site.rots(log)));
        if self.load.plan.shards < 2 || rots {
            return Ok(());
        }
        let states = self.fold_all()?;
        let compared = compare_credits(&logs, DIRECTORY_ID, &states).and_then(|histories| {
            Ok((histories.strange, lost_claims_in_passes(&logs, DIRECTORY_ID, &states, CLAIMS_AT_A_TIME)?))
        });
        // A bad sector is told by the audit of its log.
        let Ok((strange, lost)) = compared else { return Ok(()) };
        must(strange.is_empty(), "the logs of all shards are of one history", || strange.join("; "))?;
        must(lost.is_empty(), "each decision has the claim of its id", || format!("{lost:?}"))?;
        self.site.tally.add("a comparison of what shards know of each other", 1);
        Ok(())
    }

    /// Who asks again pays nothing again.
    fn ask_for_regained(&mut self, regained: Vec<Item>) -> Result<(), Violation> {
        let ask = |item: &Item| Ask::Transfers { linked: false, items: vec![item.clone()] };
        let replies = self.ask_all(regained.iter().map(ask).collect())?;
        for (item, reply) in regained.iter().zip(replies) {
            let is_known = matches!(&reply, Reply::Outcomes(outcomes) if outcomes[..] == [Outcome::Duplicate]);
            must(is_known, "what another shard's log has is written again", || format!("{item:?}: {reply:?}"))?;
        }
        Ok(())
    }
}
