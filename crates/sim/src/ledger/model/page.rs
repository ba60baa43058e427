//! What a page may show: rows that lead from one balance to the next, of things that were asked, the same each time.

use tidegate_machines::ledger::{AccountKind, AccountView, HistoryRow, RowKind};

use super::hold::Fate;
use super::{AccountStory, Model};
use crate::ledger::ask::Content;
use crate::violation::{Violation, must};

/// A row's kind as a key.
pub(super) fn kind_key(kind: RowKind) -> u8 {
    match kind {
        RowKind::Transfer => 0,
        RowKind::Hold => 1,
        RowKind::Post => 2,
        RowKind::Void => 3,
        RowKind::Expire => 4,
    }
}

/// What the row does to the balance of `account`.
pub(super) fn change(account: &str, row: &HistoryRow) -> i128 {
    match row.kind {
        RowKind::Transfer | RowKind::Post if *row.debit == *account => -i128::from(row.amount),
        RowKind::Transfer | RowKind::Post => i128::from(row.amount),
        RowKind::Hold | RowKind::Void | RowKind::Expire => 0,
    }
}

impl Model {
    /// Takes a page of the history of `account`; `more` says that older rows follow.
    pub(super) fn page_answered(
        &mut self,
        account: &str,
        limit: u32,
        rows: &[HistoryRow],
        more: bool,
    ) -> Result<(), Violation> {
        must(rows.len() <= limit as usize, "a page keeps its limit", || format!("{} rows, limit {limit}", rows.len()))?;
        check_chain(account, rows, more)?;
        rows.iter().try_for_each(|row| self.row_seen(account, row))
    }

    fn row_seen(&mut self, account: &str, row: &HistoryRow) -> Result<(), Violation> {
        let told = || format!("{account}: {row:?}");
        must(*row.debit == *account || *row.credit == *account, "a row is of its account's history", told)?;
        self.remember(account, row)?;
        let now = self.stamp;
        let Some(story) = self.ids.get_mut(&*row.id) else {
            return Err(Violation::of("history shows what was asked", told()));
        };
        let posted = match row.kind {
            RowKind::Transfer => {
                let content = content_of(row, None);
                let new = story.witnessed(&row.id, &content, now)?;
                new.then_some(row.amount)
            }
            RowKind::Hold | RowKind::Post | RowKind::Void | RowKind::Expire => {
                let placed = story.asked.iter().map(|asked| &asked.content).find(|content| is_hold_of(content, row));
                let Some(content) = placed.cloned() else {
                    return Err(Violation::of("history shows what was asked", told()));
                };
                match row.kind {
                    RowKind::Post => {
                        must(row.amount <= content.amount, "a post moves at most what was held", told)?;
                        story.end_witnessed(&row.id, &content, Fate::Posted(Some(row.amount)), now)?
                    }
                    RowKind::Void => story.end_witnessed(&row.id, &content, Fate::Voided, now)?,
                    RowKind::Expire => story.end_witnessed(&row.id, &content, Fate::Expired, now)?,
                    _ => story.witnessed(&row.id, &content, now).map(|_| None)?,
                }
            }
        };
        let content = self.ids[&*row.id].applied();
        let is_labelled = content.is_none_or(|content| {
            let label = content.label();
            (label.code, label.user_data) == (row.code, &*row.user_data)
        });
        must(is_labelled, "a row has the label that was asked for", told)?;
        if let Some(amount) = posted {
            self.account(&row.debit).note_debit(amount);
        }
        Ok(())
    }

    /// A row is the same whenever it is seen. Where parts of a collector are merged, only its balance may depend on
    /// what came in between.
    fn remember(&mut self, account: &str, row: &HistoryRow) -> Result<(), Violation> {
        let merged = self.shard_count > 1
            && self
                .accounts
                .get(account)
                .and_then(AccountStory::content)
                .is_some_and(|(_, k)| k == AccountKind::Collector);
        let rows = &mut self.account(account).rows;
        let known = rows.entry((row.id.to_string(), kind_key(row.kind))).or_insert_with(|| row.clone());
        let mut expected = known.clone();
        if merged {
            expected.balance_after = row.balance_after;
        }
        must(expected == *row, "a row of history never changes", || format!("{account}: {row:?}, before: {expected:?}"))
    }
}

/// Each row leads from the balance before it to the balance after it.
pub(super) fn check_chain(account: &str, rows: &[HistoryRow], more: bool) -> Result<(), Violation> {
    for (index, row) in rows.iter().enumerate() {
        let before = match rows.get(index + 1) {
            Some(older) => i128::from(older.balance_after),
            None if more => continue,
            None => 0,
        };
        let after = before + change(account, row);
        must(after == i128::from(row.balance_after), "history adds up to the balance", || {
            format!("{account}: {before} before {row:?}")
        })?;
    }
    Ok(())
}

fn content_of(row: &HistoryRow, expires_in_ms: Option<u64>) -> Content {
    Content {
        debit: row.debit.to_string(),
        credit: row.credit.to_string(),
        amount: row.amount,
        memo: row.memo.to_string(),
        expires_in_ms,
    }
}

fn is_hold_of(content: &Content, row: &HistoryRow) -> bool {
    content.expires_in_ms.is_some()
        && *content.debit == *row.debit
        && *content.credit == *row.credit
        && *content.memo == *row.memo
        && (row.kind == RowKind::Post || content.amount == row.amount)
}

/// A list is in the byte order of its ids, within what was asked.
pub(super) fn check_list(
    prefix: &str,
    after: Option<&str>,
    limit: u32,
    views: &[AccountView],
) -> Result<(), Violation> {
    let told = || format!("prefix {prefix:?} after {after:?} limit {limit}: {views:?}");
    let in_order = views.windows(2).all(|pair| pair[0].id < pair[1].id);
    let within = views.iter().all(|view| view.id.starts_with(prefix) && after.is_none_or(|after| *view.id > *after));
    must(in_order && within && views.len() <= limit as usize, "a list is in order and within what was asked", told)
}
