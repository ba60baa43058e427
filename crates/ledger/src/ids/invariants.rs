//! Invariants between the parts, asserted where data moves from one part to another: a table that is full, a run that
//! is published, a manifest that is written.
//!
//! ```text
//!   runs (tier 2, 1, 1, 0)  ≤ covered <  frozen tables  <  recent table  ≤ newest        positions, without overlap
//!   entries of runs + frozen + recent = all that were inserted
//! ```
//!
//! Why also in release: each is a sum over some dozens of runs once in half a million ids, and a violation would mean a
//! transfer that is applied twice.

use tidegate_disk::Disk;
use tidegate_journal::Position;

use super::IdIndex;
use super::run::RunHeader;

/// Whether runs stand oldest first, without overlap, those merged more often before the others, each with a number of
/// its own.
pub(super) fn are_in_order<'a>(runs: impl IntoIterator<Item = &'a RunHeader>) -> bool {
    first_out_of_order(runs).is_none()
}

/// Panics unless [`are_in_order`].
pub(super) fn assert_in_order<'a>(runs: impl IntoIterator<Item = &'a RunHeader>) {
    let wrong = first_out_of_order(runs);
    assert!(wrong.is_none(), "ids: runs out of order: {wrong:?}");
}

fn first_out_of_order<'a>(runs: impl IntoIterator<Item = &'a RunHeader>) -> Option<(RunHeader, RunHeader)> {
    let mut runs = runs.into_iter();
    let mut before = runs.next()?;
    for run in runs {
        let follows = before.last < run.first && before.tier >= run.tier && before.number != run.number;
        if !follows {
            return Some((*before, *run));
        }
        before = run;
    }
    None
}

impl<D: Disk> IdIndex<D> {
    /// Panics unless runs, tables, filter and journal agree.
    pub(super) fn assert_consistent(&self) {
        let covered = self.view.covered;
        let durable = self.durable.position;
        assert!(covered <= durable, "ids: covered {covered} is beyond durable {durable}");
        assert_in_order(self.view.runs.iter().map(|run| run.header()));
        let last_run = self.view.runs.last().map_or(Position(0), |run| run.last());
        assert!(last_run <= covered, "ids: runs reach up to {last_run}, beyond {covered}");

        assert!(self.released <= self.frozen.len(), "ids: the builder has {} of {}", self.released, self.frozen.len());
        let mut last = covered;
        for table in &self.frozen {
            let (first, end) = table.range().expect("ids: what is frozen holds something");
            assert!(last < first, "ids: a table from {first} of {} follows {last}", table.len());
            last = end;
        }
        if let Some((first, end)) = self.recent.range() {
            assert!(last < first, "ids: the recent table from {first} follows {last}");
            last = end;
        }
        assert!(
            self.newest == last || last == covered,
            "ids: the newest record {} is the last one, {last}",
            self.newest
        );

        let in_runs: u64 = self.view.runs.iter().map(|run| run.entries()).sum();
        let in_tables: usize = self.frozen.iter().map(|table| table.len()).sum::<usize>() + self.recent.len();
        assert_eq!(self.entries, in_runs + in_tables as u64, "ids: what was inserted is in runs and tables");
        let kept = self.kept.iter().all(|table| table.range().is_some_and(|(_, end)| end <= covered));
        assert!(kept, "ids: what is kept for lookups is covered");
    }
}
