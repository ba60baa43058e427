//! The ids of the journal compared with those of the index, pass by pass.
//!
//! ```text
//!   pass over the log   ─▶ sum over its records, up to where runs had all when it began ─┐
//!   pass over the runs  ─▶ sum over their entries, up to there ──────────────────────────┴─▶ equal?
//! ```
//!
//! A pass that met damage, or runs that were merged meanwhile, says nothing: the next one does.

use tidegate_journal::{Cursor, GroupReader, Position};
use tidegate_machines::ledger::Event;

use crate::ids::{IdDigest, IdSeed};
use crate::message::AuditDifference;

/// The two sums.
#[derive(Default)]
pub(super) struct IdsCompared {
    /// Of the pass over the log under way, as long as it left nothing out.
    summing: Option<(IdSeed, IdDigest)>,
    /// Where the last group ended that was read in it.
    reached: Option<Cursor>,
    /// Of the last pass over the log.
    of_log: Option<IdDigest>,
    /// Sums that were compared.
    count: u64,
    difference: Option<AuditDifference>,
}

impl IdsCompared {
    /// A pass over the log begins with its first record; `empty` is what it is to sum up.
    pub fn begin(&mut self, empty: Option<(IdSeed, IdDigest)>) {
        (self.summing, self.reached, self.of_log) = (empty, Some(Cursor::START), None);
    }

    /// Whether records are to be shown.
    pub fn is_summing(&self) -> bool {
        self.summing.is_some()
    }

    /// A group is about to be read behind `at`. If that is not where the last one ended, something was left out.
    pub fn before(&mut self, at: Cursor) {
        if Some(at) != self.reached {
            self.summing = None;
        }
    }

    /// A record of it.
    pub fn note(&mut self, event: &Event<'_>, at: Position) {
        if let (Some((seed, digest)), Some(id)) = (&mut self.summing, event.id()) {
            digest.note(*seed, id, at);
        }
    }

    /// The group was read.
    pub fn after(&mut self, groups: &GroupReader) {
        self.reached = Some(groups.cursor());
    }

    /// The pass has ended: how far the runs are to be summed up, if it left nothing out.
    pub fn end(&mut self) -> Option<Position> {
        let (_, mut digest) = self.summing.take()?;
        digest.ends_at(self.reached?.position);
        self.of_log = Some(digest);
        Some(digest.end())
    }

    /// Compares with the sum over the runs; what differs, in words.
    pub fn compare(&mut self, of_runs: IdDigest) -> Option<String> {
        let of_log = self.of_log.take().filter(|of_log| of_log.end() == of_runs.end())?;
        self.count += 1;
        if of_log == of_runs {
            self.difference = None;
            return None;
        }
        let words = |digest: IdDigest| format!("{} records, sum {:016x}", digest.entries(), digest.sum());
        let (live, journal) = (words(of_runs), words(of_log));
        let what = format!("up to position {} it has {live}, and the journal {journal}", of_log.end());
        self.difference = Some(AuditDifference {
            account: "(index of ids)".into(),
            figure: "ids",
            live: of_runs.entries().into(),
            journal: of_log.entries().into(),
            agreed_at_sequence: 0,
            hold: None,
            texts: Some((live.into(), journal.into())),
        });
        Some(what)
    }

    /// How often the sums were compared.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// What differed when they were compared last.
    pub fn difference(&self) -> Option<&AuditDifference> {
        self.difference.as_ref()
    }
}

#[cfg(test)]
mod tests;
