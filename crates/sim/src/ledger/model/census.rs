//! Everything that can be read through the door while all is quiet, compared with everything that is known.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_machines::ledger::{AccountView, HistoryRow, RowKind};

use super::hold::Fate;
use super::id::{IdStory, Verdict};
use super::page::{change, check_chain, kind_key};
use super::{AccountStory, Model};
use crate::ledger::ask::Item;
use crate::violation::{Violation, must};

/// All accounts with their whole histories, newest row first.
pub type Census = BTreeMap<String, (AccountView, Vec<HistoryRow>)>;

/// Where the rows of one id stand: account and kind.
type Places<'c> = BTreeSet<(&'c str, u8)>;

impl Model {
    /// Compares. `complete` says that every request was brought to an end and every hold's time is over.
    pub fn compare(&mut self, census: &Census, complete: bool) -> Result<(), Violation> {
        self.stamp.count += 1;
        for (id, account) in &self.accounts {
            must(!account.is_open() || census.contains_key(id), "no acknowledged account is lost", || id.clone())?;
        }
        let mut places: BTreeMap<&str, Places<'_>> = BTreeMap::new();
        for (id, (view, rows)) in census {
            must(self.accounts.get(id).is_some_and(AccountStory::was_asked_for), "only what was asked exists", || {
                format!("{view:?}")
            })?;
            check_account(view, rows)?;
            for row in rows {
                let new = places.entry(&row.id).or_default().insert((id, kind_key(row.kind)));
                must(new, "the same id is applied once", || format!("{id} has two rows like {row:?}"))?;
            }
            self.page_answered(id, u32::MAX, rows, false)?;
            let vanished = self.accounts[id].rows.keys().find(|(row, kind)| {
                places.get(row.as_str()).is_none_or(|places| !places.contains(&(id.as_str(), *kind)))
            });
            must(vanished.is_none(), "what was seen or acknowledged is never taken back", || {
                format!("{id} had a row {vanished:?}")
            })?;
        }
        let held = census.values().find(|(view, _)| complete && view.held > 0);
        must(held.is_none(), "a hold is released when its time is over", || {
            format!("{:?}", held.map(|(view, _)| view))
        })?;
        for (id, story) in &self.ids {
            let found = places.remove(id.as_str()).unwrap_or_default();
            let expected = expected_places(story);
            must(found == expected, "no acknowledged transfer is lost or applied twice", || {
                format!("{id}: rows at {found:?}, expected at {expected:?}, {story:?}")
            })?;
            must(!complete || is_complete(story), "every request comes to an end", || format!("{id}: {story:?}"))?;
        }
        for group in &self.groups {
            let present = |item: &&Item| self.ids[&item.id].is_applied(&item.content);
            let alone = group.iter().any(|item| self.ids[&item.id].was_sent_alone(&item.content));
            let applied = group.iter().filter(present).count();
            must(alone || applied == 0 || applied == group.len(), "a linked group is all or nothing", || {
                format!("{applied} of {group:?} are there")
            })?;
        }
        self.check_refused_funds(census)?;
        check_conservation(census)
    }
}

/// The figures of an account are the sums of its rows.
fn check_account(view: &AccountView, rows: &[HistoryRow]) -> Result<(), Violation> {
    check_chain(&view.id, rows, false)?;
    let told = || format!("{view:?}, rows {rows:?}");
    let newest = rows.first().map_or(0, |row| row.balance_after);
    must(newest == view.balance, "history adds up to the balance", told)?;
    let sum =
        |sign: i128| -> i128 { rows.iter().map(|row| change(&view.id, row) * sign).filter(|change| *change > 0).sum() };
    must(sum(1) == view.credited as i128 && sum(-1) == view.debited as i128, "history adds up to the totals", told)?;
    let ended: BTreeSet<&str> = rows
        .iter()
        .filter(|row| matches!(row.kind, RowKind::Post | RowKind::Void | RowKind::Expire))
        .map(|row| &*row.id)
        .collect();
    let open = rows.iter().filter(|row| row.kind == RowKind::Hold && !ended.contains(&*row.id));
    let held: u64 = open.map(|row| row.amount).sum();
    must(held == view.held, "what is held is what open holds reserve", told)
}

/// Where the rows of an id must stand, now that all rows were seen and nothing is on its way.
fn expected_places(story: &IdStory) -> Places<'_> {
    let mut places = Places::new();
    let applied = story.asked.iter().find(|asked| matches!(asked.verdict, Some((Verdict::Applied, _))));
    let Some(content) = applied.map(|asked| &asked.content) else { return places };
    let (debit, credit) = (content.debit.as_str(), content.credit.as_str());
    if content.expires_in_ms.is_none() {
        places.extend([(debit, kind_key(RowKind::Transfer)), (credit, kind_key(RowKind::Transfer))]);
        return places;
    }
    places.insert((debit, kind_key(RowKind::Hold)));
    match story.hold.fate() {
        Some(Fate::Posted(_)) => {
            places.extend([(debit, kind_key(RowKind::Post)), (credit, kind_key(RowKind::Post))]);
        }
        Some(Fate::Voided) => _ = places.insert((debit, kind_key(RowKind::Void))),
        Some(Fate::Expired) => _ = places.insert((debit, kind_key(RowKind::Expire))),
        None => {}
    }
    places
}

/// Whether every content has its answer, and an applied hold its end.
fn is_complete(story: &IdStory) -> bool {
    let hold = story.applied().is_some_and(|content| content.expires_in_ms.is_some());
    !hold || story.hold.fate().is_some()
}

/// Money that one account has, another lacks.
fn check_conservation(census: &Census) -> Result<(), Violation> {
    let mut sums: BTreeMap<&str, i128> = BTreeMap::new();
    for (view, _) in census.values() {
        *sums.entry(&view.asset).or_default() += i128::from(view.balance);
    }
    must(sums.values().all(|sum| *sum == 0), "conservation per asset", || format!("{sums:?}"))
}
