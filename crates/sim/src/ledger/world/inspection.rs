//! A census: faults pause, everything on its way arrives, and then every account is read through the door, with its
//! history.

use std::collections::BTreeMap;

use tidegate_ledger::message::Reply;
use tidegate_machines::ledger::{AccountView, HistoryRow, RowKind};

use super::LedgerWorld;
use super::wire::INSPECTOR;
use crate::harness::Store;
use crate::ledger::ask::Ask;
use crate::ledger::model::Census;
use crate::ledger::plan::Weather;
use crate::note;
use crate::violation::{Violation, must};

/// Ticks within which a node without faults comes to rest, whatever it was doing.
const REST_BUDGET: u64 = 40_000;

/// By account: what each page of its history says was held after its first row, and which row of all that is.
type HeldAt = BTreeMap<String, Vec<(usize, Option<u64>)>>;

/// Whole histories by account, newest row first, and what their pages say was held.
type Histories = (BTreeMap<String, Vec<HistoryRow>>, HeldAt);

/// Ticks within which every log has claimed room on a disk that has some.
const TICKS_TO_CLAIM_ROOM: u64 = 20;

impl<S: Store> LedgerWorld<S> {
    /// Nothing new goes wrong from here on, neither with the machine nor on the way.
    pub(super) fn become_calm_everywhere(&mut self) -> Result<(), Violation> {
        self.load.weather = Weather::calm();
        self.become_calm()
    }

    /// Lets everything on its way arrive, and everything accepted be finished.
    pub(super) fn come_to_rest(&mut self) -> Result<(), Violation> {
        self.tick_until("a node without faults comes to rest", REST_BUDGET, |world| world.is_at_rest())
    }

    /// Whether nothing is on its way and nothing accepted is unfinished.
    pub(super) fn is_at_rest(&self) -> bool {
        let load = &self.load;
        load.wire.is_empty()
            && load.network.is_quiet()
            && self.node.as_ref().is_some_and(|node| node.is_idle() && node.has_settled(load.plan.shards))
    }

    /// Pauses the faults and the clients, reads everything, and compares it with what is known.
    pub(super) fn inspect(&mut self, complete: bool) -> Result<(), Violation> {
        note!(self.site.trace, "census");
        let (calm, weather) = (self.site.is_calm(), self.load.weather.clone());
        self.become_calm_everywhere()?;
        self.come_to_rest()?;
        // A log that found its disk full claims room again, so that holds whose time is over can expire.
        for _ in 0..TICKS_TO_CLAIM_ROOM {
            self.tick()?;
        }
        self.site.clock.stand_still();
        // Whose time is over by now expires in the next step of its shard.
        self.tick()?;
        self.come_to_rest()?;
        self.check_cut()?;
        let (census, held_at) = self.read_everything()?;
        self.load.model.compare(&census, complete)?;
        for (id, pages) in &held_at {
            check_held(id, census.get(id).map_or(&[], |(_, rows)| rows), pages)?;
        }
        self.check_changes(&census)?;
        self.probe(&census)?;
        self.ask_for_moments()?;
        self.site.clock.go_on();
        self.keep_moment()?;
        self.site.tally.add("a census", 1);
        self.load.weather = weather;
        if !calm {
            self.end_calm();
        }
        Ok(())
    }

    fn read_everything(&mut self) -> Result<(Census, HeldAt), Violation> {
        let ids: Vec<String> =
            self.load.workload.population().accounts().iter().map(|account| account.id.clone()).collect();
        let views = self.read_views(&ids)?;
        self.compare_with_list(&views)?;
        let (histories, held_at) = self.read_histories(views.keys().cloned().collect())?;
        let with_history = |(id, view): (String, AccountView)| {
            let rows = histories.get(&id).cloned().unwrap_or_default();
            (id, (view, rows))
        };
        Ok((views.into_iter().map(with_history).collect(), held_at))
    }

    pub(super) fn read_views(&mut self, ids: &[String]) -> Result<BTreeMap<String, AccountView>, Violation> {
        let asks = ids.iter().map(|id| Ask::Read { id: id.clone() }).collect();
        let mut views = BTreeMap::new();
        for reply in self.ask_all(asks)? {
            match reply {
                Reply::Account(view) => _ = views.insert(view.id.to_string(), view),
                Reply::Refused(_) => {}
                other => unreachable!("the model lets {other:?} pass"),
            }
        }
        Ok(views)
    }

    /// A list, page by page, shows the same accounts with the same figures.
    fn compare_with_list(&mut self, views: &BTreeMap<String, AccountView>) -> Result<(), Violation> {
        let mut listed: Vec<AccountView> = Vec::new();
        let limit = *self.site.chance.one_of(&[3, 10, 1_000]);
        loop {
            let after = listed.last().map(|view| view.id.to_string());
            let page = self.ask_all(vec![Ask::List { prefix: String::new(), after, limit }])?;
            match page.into_iter().next() {
                Some(Reply::Accounts(page)) if page.is_empty() => break,
                Some(Reply::Accounts(page)) => listed.extend(page),
                other => unreachable!("the model lets {other:?} pass"),
            }
        }
        must(listed.iter().eq(views.values()), "a list shows every account", || format!("{listed:?} but {views:?}"))
    }

    fn read_histories(&mut self, ids: Vec<String>) -> Result<Histories, Violation> {
        let mut histories: BTreeMap<String, Vec<HistoryRow>> = BTreeMap::new();
        let mut held_at = HeldAt::new();
        let mut unread: Vec<(String, Option<String>)> = ids.into_iter().map(|id| (id, None)).collect();
        while !unread.is_empty() {
            let limit = *self.site.chance.one_of(&[5, 40, 1_000]);
            let page_of = |(id, before): &(String, Option<String>)| Ask::History {
                id: id.clone(),
                before: before.clone(),
                limit,
            };
            let replies = self.ask_all(unread.iter().map(page_of).collect())?;
            let mut more = Vec::new();
            for ((id, _), reply) in unread.into_iter().zip(replies) {
                let Reply::History { rows, next, held, .. } = reply else {
                    return Err(Violation::of("an account that can be read has a history", format!("{id}: {reply:?}")));
                };
                let place = histories.get(&id).map_or(0, Vec::len);
                held_at.entry(id.clone()).or_default().push((place, held));
                histories.entry(id.clone()).or_default().extend(rows);
                more.extend(next.map(|next| (id, Some(next.to_string()))));
            }
            unread = more;
        }
        Ok((histories, held_at))
    }

    /// Asks like any client, all at once, and waits for all answers.
    pub(super) fn ask_all(&mut self, asks: Vec<Ask>) -> Result<Vec<Reply>, Violation> {
        let wishes: Vec<usize> = asks.into_iter().map(|ask| self.load.wishes.add(INSPECTOR, ask)).collect();
        let last = wishes.clone();
        self.tick_until("a request is answered in the end", REST_BUDGET, |world| {
            last.iter().all(|wish| world.load.heard.contains_key(wish))
        })?;
        Ok(wishes.iter().map(|wish| self.load.heard.remove(wish).expect("waited for")).collect())
    }
}

/// Each page says what was held after its first row: what the rows up to there have placed and not ended.
fn check_held(account: &str, newest_first: &[HistoryRow], pages: &[(usize, Option<u64>)]) -> Result<(), Violation> {
    let (mut open, mut held_after): (BTreeMap<&str, u64>, Vec<u64>) = Default::default();
    for row in newest_first.iter().rev() {
        if *row.debit == *account {
            match row.kind {
                RowKind::Transfer => {}
                RowKind::Hold => _ = open.insert(&row.id, row.amount),
                RowKind::Post | RowKind::Void | RowKind::Expire => _ = open.remove(&*row.id),
            }
        }
        held_after.push(open.values().sum());
    }
    held_after.reverse();
    for (place, held) in pages {
        let expected = held_after.get(*place).copied().unwrap_or(0);
        must(*held == Some(expected), "a history says what was held at each moment", || {
            format!("{account}: {held:?} after row {place} from the newest, expected {expected}")
        })?;
    }
    Ok(())
}
