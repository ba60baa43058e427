//! What a reader of changes has seen: every record that concerns clients, once, in the order of its journal.
//!
//! ```text
//!   rows as they come ─▶ each behind the one before it on its shard, and of something that was asked
//!   at a census       ─▶ the rows of all histories, refusals and settings: each has its change, and no change is left
//! ```
//!
//! Why both: a row that is missing shows only beside the histories, and only while nothing is under way; a row that
//! comes twice, or is taken back by a crash, shows at once.

use std::collections::{BTreeMap, HashMap, HashSet};

use tidegate_ledger::changes::{Change, ChangeKind, ChangedAccount};
use tidegate_machines::ledger::{AccountKind, HistoryRow, RowKind};

use super::hold::Fate;
use super::id::Verdict;
use super::{AccountStory, Census, Model};
use crate::ledger::ask::Content;
use crate::violation::{Violation, must};

const ONCE: &str = "a reader of changes sees each record once, in order";
const ALL: &str = "a reader of changes misses nothing";
const AS_ASKED: &str = "a change is of what was asked";

/// All changes that a reader has taken, by shard and sequence.
#[derive(Clone, Default)]
pub struct SeenChanges(BTreeMap<(u16, u64), Change>);

impl SeenChanges {
    /// Takes the next one.
    pub fn take(&mut self, change: Change) -> Result<(), Violation> {
        let last = self.last_of(change.shard);
        must(last < change.sequence, ONCE, || format!("behind {last}: {change:?}"))?;
        self.0.insert((change.shard, change.sequence), change);
        Ok(())
    }

    /// The number of the last record of a shard that was taken; 0 if none was.
    pub fn last_of(&self, shard: u16) -> u64 {
        self.0.range((shard, 0)..=(shard, u64::MAX)).next_back().map_or(0, |(place, _)| place.1)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Model {
    /// Takes a change that a reader has seen. It is durable: from now on it is known.
    pub fn change_seen(&mut self, change: &Change) -> Result<(), Violation> {
        self.stamp.count += 1;
        let told = || format!("{change:?}");
        match (change.kind, change.id.as_deref()) {
            (ChangeKind::AccountOpened | ChangeKind::AccountChanged, None) => {
                let account = change.account.as_deref().and_then(|id| self.accounts.get(id));
                must(account.is_some_and(AccountStory::was_asked_for), AS_ASKED, told)
            }
            (ChangeKind::Transfer, Some(id)) => self.transfer_seen(id, change, &told),
            (ChangeKind::CreditReceived, Some(id)) if self.hold_content(id, change).is_none() => {
                self.transfer_seen(id, change, &told)
            }
            (
                ChangeKind::HoldPlaced
                | ChangeKind::HoldPosted
                | ChangeKind::HoldVoided
                | ChangeKind::HoldExpired
                | ChangeKind::CreditReceived,
                Some(id),
            ) => self.hold_seen(id, change, &told),
            (ChangeKind::Refused, Some(id)) => match change.refusal {
                Some(refusal) => self.refusal_seen(id, refusal, change.time_ms, &told),
                None => Err(Violation::of(AS_ASKED, told())),
            },
            (ChangeKind::TimeMended, None) => must(self.mends() > 0, AS_ASKED, told),
            _ => Err(Violation::of(AS_ASKED, told())),
        }
    }

    fn transfer_seen(&mut self, id: &str, change: &Change, told: &impl Fn() -> String) -> Result<(), Violation> {
        let content = Content {
            debit: id_of(&change.debit),
            credit: id_of(&change.credit),
            amount: change.amount.unwrap_or(0),
            memo: change.memo.to_string(),
            expires_in_ms: None,
        };
        self.check_read(id, &content, (change.code, &change.user_data), change.time_ms, told)?;
        let (now, story) = (self.stamp, self.ids.get_mut(id).expect("its content was asked"));
        if story.witnessed(id, &content, now)? {
            self.account(&content.debit).note_debit(content.amount);
        }
        Ok(())
    }

    /// The content of the hold that a change is of, if such a hold was asked.
    fn hold_content(&self, id: &str, change: &Change) -> Option<Content> {
        let (debit, credit) = (id_of(&change.debit), id_of(&change.credit));
        let is_its = |content: &&Content| {
            let amount = change.held.or(change.amount).unwrap_or(0);
            let is_whole = change.kind != ChangeKind::CreditReceived;
            content.expires_in_ms.is_some()
                && (&content.debit, &content.credit, &*content.memo) == (&debit, &credit, &*change.memo)
                && if is_whole { content.amount == amount } else { content.amount >= amount }
        };
        self.ids.get(id)?.asked.iter().map(|asked| &asked.content).find(is_its).cloned()
    }

    fn hold_seen(&mut self, id: &str, change: &Change, told: &impl Fn() -> String) -> Result<(), Violation> {
        let Some(content) = self.hold_content(id, change) else { return Err(Violation::of(AS_ASKED, told())) };
        self.check_read(id, &content, (change.code, &change.user_data), change.time_ms, told)?;
        let (now, story) = (self.stamp, self.ids.get_mut(id).expect("its content was asked"));
        let fate = match change.kind {
            ChangeKind::HoldPlaced => {
                let expires_at = change.time_ms + content.expires_in_ms.unwrap_or(0);
                must(change.expires_at_ms == Some(expires_at), "a hold lives as long as was asked", told)?;
                return story.witnessed(id, &content, now).map(|_| ());
            }
            ChangeKind::HoldVoided => Fate::Voided,
            ChangeKind::HoldExpired => Fate::Expired,
            _ => Fate::Posted(change.amount),
        };
        if let Some(posted) = story.end_witnessed(id, &content, fate, now)? {
            self.account(&content.debit).note_debit(posted);
        }
        Ok(())
    }

    /// Compares all changes up to now with a census of now.
    pub fn compare_changes(&self, seen: &SeenChanges, census: &Census) -> Result<(), Violation> {
        let mut by_id: HashMap<(&str, ChangeKind), &Change> = HashMap::new();
        let mut revisions: HashMap<&str, Vec<u64>> = HashMap::new();
        let is_mend = |change: &&Change| change.kind == ChangeKind::TimeMended;
        let mends = seen.0.values().filter(is_mend).count();
        must(mends == self.mends() * usize::from(self.shard_count), ALL, || format!("{mends} shards were mended"))?;
        for change in seen.0.values().filter(|change| !is_mend(change)) {
            let of = change.id.as_deref().or(change.account.as_deref()).unwrap_or("");
            match &change.settings {
                Some(settings) => revisions.entry(of).or_default().push(settings.revision),
                None => {
                    let before = by_id.insert((of, change.kind), change);
                    must(before.is_none(), ONCE, || format!("{before:?}, and then {change:?}"))?;
                }
            }
        }
        let mut expected: HashSet<(u16, u64)> = HashSet::new();
        let (mut other, missing) = (mends, |what: String| Err(Violation::of(ALL, what)));
        for (account, (view, rows)) in census {
            match by_id.get(&(account.as_str(), ChangeKind::AccountOpened)) {
                Some(_) => other += 1,
                None => return missing(format!("{account} was opened")),
            }
            let revision = view.settings.as_ref().map_or(0, |settings| settings.revision);
            let changed = revisions.remove(account.as_str()).unwrap_or_default();
            must(changed.iter().copied().eq(1..=revision), ALL, || {
                format!("{account} is at revision {revision}, and was seen to change to {changed:?}")
            })?;
            other += changed.len();
            let is_merged = view.kind == AccountKind::Collector && self.shard_count > 1;
            let mut last = 0;
            for row in rows.iter().rev() {
                let Some((change, side)) = change_of(&by_id, account, row) else {
                    return missing(format!("{account}: {row:?}"));
                };
                let is_so = change.amount == Some(row.amount) && (is_merged || side == Some(row.balance_after));
                must(is_so, "a change says what the history says", || format!("{account}: {row:?} but {change:?}"))?;
                must(is_merged || last < change.sequence, ONCE, || format!("{account}: {last} before {change:?}"))?;
                last = change.sequence;
                expected.insert((change.shard, change.sequence));
            }
        }
        for (id, story) in &self.ids {
            let refused = story.asked.iter().any(|asked| match asked.verdict {
                Some((Verdict::Refused(refusal), _)) => refusal.is_journaled(),
                _ => false,
            });
            match by_id.contains_key(&(id.as_str(), ChangeKind::Refused)) {
                true => other += 1,
                false if refused => return missing(format!("{id} was refused: {story:?}")),
                false => {}
            }
        }
        must(expected.len() + other == seen.len(), "a reader of changes sees what happened and nothing else", || {
            let of_history = |change: &&Change| {
                !expected.contains(&(change.shard, change.sequence))
                    && change.account.is_none()
                    && !is_mend(change)
                    && change.kind != ChangeKind::Refused
            };
            let extra = seen.0.values().find(of_history);
            format!("{} of histories and {other} others, but {} were seen: {extra:?}", expected.len(), seen.len())
        })
    }
}

/// The change that a row of an account's history is, and the balance that it shows for that account.
fn change_of<'a>(
    by_id: &HashMap<(&str, ChangeKind), &'a Change>,
    account: &str,
    row: &HistoryRow,
) -> Option<(&'a Change, Option<i64>)> {
    let kind = match row.kind {
        RowKind::Transfer => ChangeKind::Transfer,
        RowKind::Hold => ChangeKind::HoldPlaced,
        RowKind::Post => ChangeKind::HoldPosted,
        RowKind::Void => ChangeKind::HoldVoided,
        RowKind::Expire => ChangeKind::HoldExpired,
    };
    let balance = |side: &Option<ChangedAccount>| side.as_ref().and_then(|side| side.balance_after);
    let decided = by_id.get(&(&*row.id, kind)).copied();
    if *row.debit == *account {
        return decided.map(|change| (change, balance(&change.debit)));
    }
    match decided.filter(|change| balance(&change.credit).is_some()) {
        Some(change) => Some((change, balance(&change.credit))),
        // The debit is another shard's: its journal names the account and does not know its balance.
        None => {
            let received = by_id.get(&(&*row.id, ChangeKind::CreditReceived)).copied()?;
            Some((received, balance(&received.credit)))
        }
    }
}

fn id_of(account: &Option<ChangedAccount>) -> String {
    account.as_ref().map(|account| account.id.to_string()).unwrap_or_default()
}
