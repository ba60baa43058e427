//! Refusals that are remembered: when they were decided, and what was available then.
//!
//! ```text
//!   sent ───── decided ───── answered "refused" ────────── answered "refused before", decided_at
//!   └─ not before this ─┘ └─ not after this ─┘             the same each time
//!
//!   history of the wallet:   row ─ row ─┊ decided_at ┊─ row      available there = what the refusal says
//! ```
//!
//! Credits of other shards have the time of their debits there, and arrive at another: so there may be several figures.
//!
//! Why with the history: while clients work, a refusal for want of funds can hardly be called wrong when it comes. With
//! the moment of its decision it can: every figure of that moment is in the rows.

use std::collections::BTreeMap;

use tidegate_machines::ledger::{HistoryRow, Refusal, RowKind, shard_of};

use super::id::{Asked, Verdict};
use super::moments::Moments;
use super::page::change;
use super::{Census, Model, Stamp};
use crate::violation::{Violation, must};

/// What the time of a decision may be.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    /// No shard's time is beyond this.
    latest_ms: u64,
    now_ms: u64,
    /// When the process's time went back: after which stamp, and to what.
    back: Vec<(Stamp, u64)>,
}

impl Times {
    /// Hears the process's time, and by how much anything may have grown older since it was heard last.
    pub fn pass(&mut self, stamp: Stamp, now_ms: u64, aged_ms: u64) {
        if now_ms < self.now_ms {
            self.back.push((stamp, now_ms));
        }
        self.now_ms = now_ms;
        self.latest_ms = now_ms.max(self.latest_ms + aged_ms);
    }

    /// The time of the process, and the latest time of a shard.
    pub fn now(&self) -> (u64, u64) {
        (self.now_ms, self.latest_ms)
    }

    /// The earliest time of anything that was decided since `from`.
    pub fn earliest_since(&self, from: Stamp) -> u64 {
        let later = self.back.iter().filter(|(at, _)| *at >= from).map(|(_, ms)| *ms);
        later.fold(from.now_ms, u64::min)
    }
}

impl Model {
    /// A refusal is said to have been decided at `decided_at`, for a content that was sent first at `first_sent` and
    /// whose verdict was known since `known`.
    pub(super) fn check_decided_at(
        &self,
        decided_at: u64,
        first_sent: Stamp,
        known: Option<Stamp>,
        told: impl Fn() -> String,
    ) -> Result<(), Violation> {
        let (earliest, latest) = (self.times.earliest_since(first_sent), known.unwrap_or(self.stamp).latest_ms);
        must((earliest..=latest).contains(&decided_at), "a remembered refusal says when it was decided", || {
            format!("{}: expected {earliest} to {latest}", told())
        })
    }

    /// Compares the funds that refusals name with those that the histories have at the moments of their decisions.
    pub(super) fn check_refused_funds(&mut self, census: &Census) -> Result<(), Violation> {
        let mut checked = 0;
        for (id, story) in &self.ids {
            for asked in &story.asked {
                let Some((Verdict::Refused(Refusal::InsufficientFunds { available }), _)) = asked.verdict else {
                    continue;
                };
                let Some(at) = asked.decided_at.filter(|_| asked.was_only_sent_alone()) else { continue };
                let Some((_, rows)) = census.get(&asked.content.debit) else { continue };
                let could_be = funds_at(&asked.content.debit, self.shard_count, rows, &self.moments, at);
                must(could_be.contains(&i128::from(available)), "a refusal names what was available then", || {
                    format!("{id} at {at}: {available}, but the history has {could_be:?}; {asked:?}")
                })?;
                checked += 1;
            }
        }
        self.refusals_checked = checked;
        Ok(())
    }
}

/// What was available on `account` at the moments that may be `at`: before or after each row of that millisecond. A
/// credit that another shard decided has the time of that decision, by the clock of that shard: it says nothing here.
fn funds_at(account: &str, shards: u16, newest_first: &[HistoryRow], moments: &Moments, at: u64) -> Vec<i128> {
    let came_from_elsewhere =
        |row: &HistoryRow| *row.credit == *account && shard_of(&row.debit, shards) != shard_of(account, shards);
    let rows: Vec<&HistoryRow> = newest_first.iter().rev().collect();
    let (mut available, mut could_be) = (0, Vec::new());
    let mut held: BTreeMap<&str, i128> = BTreeMap::new();
    for behind in 0..=rows.len() {
        let last = rows[..behind].iter().rfind(|row| !came_from_elsewhere(row)).map(|row| row.time_ms);
        let next = rows[behind..].iter().find(|row| !came_from_elsewhere(row)).map(|row| row.time_ms);
        let is_between = last.is_none_or(|last| last <= at) && next.is_none_or(|next| next >= at);
        if is_between || moments.may_be_mended_between(last, next, at) {
            could_be.push(available);
        }
        let Some(row) = rows.get(behind) else { break };
        available += change(account, row);
        if *row.debit == *account {
            match row.kind {
                RowKind::Transfer => {}
                RowKind::Hold => {
                    held.insert(&row.id, i128::from(row.amount));
                    available -= i128::from(row.amount);
                }
                RowKind::Post | RowKind::Void | RowKind::Expire => available += held.remove(&*row.id).unwrap_or(0),
            }
        }
    }
    could_be
}

impl Asked {
    /// Whether it was never a member of a linked group, which is weighed as a whole.
    pub fn was_only_sent_alone(&self) -> bool {
        self.alone == self.sends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, kind: RowKind, amount: u64, time_ms: u64) -> HistoryRow {
        HistoryRow {
            id: id.into(),
            id_space: "".into(),
            kind,
            debit: if id == "in" { "source:x" } else { "wallet:a" }.into(),
            credit: "wallet:a".into(),
            amount,
            memo: "".into(),
            time_ms,
            balance_after: 0,
            code: 0,
            user_data: "".into(),
        }
    }

    #[test]
    fn funds_follow_from_the_rows_before_a_moment() {
        let mut rows = vec![
            row("in", RowKind::Transfer, 10, 5),
            row("h", RowKind::Hold, 4, 7),
            row("out", RowKind::Transfer, 3, 7),
            row("h", RowKind::Post, 1, 9),
        ];
        rows.reverse();
        let at = |ms| funds_at("wallet:a", 1, &rows, &Moments::default(), ms);
        assert_eq!(at(4), [0]);
        assert_eq!(at(5), [0, 10]);
        assert_eq!(at(6), [10]);
        assert_eq!(at(7), [10, 6, 3], "within the millisecond nobody can tell");
        assert_eq!(at(8), [3]);
        assert_eq!(at(10), [6], "a post releases what it does not move");
    }
}
