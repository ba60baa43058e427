//! Which credits of earlier rows may not have arrived yet.
//!
//! ```text
//!   A pays B ─▶ queued ─answered: applied─▶ sent ─the server says that it has arrived─▶ forgotten
//!   B pays C ─▶ is B among these? then what is queued is sent, and what B was sent must arrive first
//! ```
//!
//! Promise: a row is sent when its debit account has what earlier rows of the file paid to it. Why: with several shards
//! a transfer is answered before its credit arrives, and `insufficient_funds` is remembered for ever for the row's id.
//!
//! Credits between two shards arrive in the order of their debits, so that the last one stands for all. Whose token may
//! not read how many shards there are is served as if each account had its own: correct, and slower.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use tidegate_machines::ledger::shard_of;

/// Credits that are kept, at most. If there are more, all must arrive before the next row is sent.
pub const CREDITS_MAX: usize = 65_536;

/// What is known about the number of shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shards {
    /// Not asked yet: most files have no row that needs it.
    NotAsked,
    /// So many.
    Known(u16),
    /// The server does not tell.
    Untold,
}

/// A row that was applied, and the line where it stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sent {
    /// Its line.
    pub line: u64,
    /// Its id.
    pub id: String,
}

/// Credits of earlier rows, by account.
#[derive(Debug)]
pub struct Credits {
    shards: Shards,
    /// Accounts that rows credit which are not sent yet.
    queued: HashSet<String>,
    /// Credited account; debited account, and whether it was done by an import before: the last row between them. Those
    /// of two imports need not have been decided in the order of their lines.
    sent: HashMap<String, HashMap<(String, bool), Sent>>,
    pairs: usize,
}

impl Credits {
    /// None, of a ledger of so many shards.
    pub fn new(shards: Shards) -> Credits {
        Credits { shards, queued: HashSet::new(), sent: HashMap::new(), pairs: 0 }
    }

    /// What is known about the number of shards.
    pub fn shards(&self) -> Shards {
        self.shards
    }

    /// Takes in how many shards there are. With one, a credit is there when its transfer is answered.
    pub fn learn(&mut self, shards: Shards) {
        self.shards = shards;
        if shards == Shards::Known(1) {
            self.queued.clear();
            self.take_all();
        }
    }

    /// Whether the debit account of `row` may miss a credit of an earlier row, or there is no room for more credits.
    pub fn are_awaited(&self, row: &Value) -> bool {
        let debit = row["debit"].as_str().unwrap_or_default();
        self.queued.contains(debit) || self.sent.contains_key(debit) || self.is_full()
    }

    /// Whether there is no room for more credits.
    pub fn is_full(&self) -> bool {
        self.pairs + self.queued.len() >= CREDITS_MAX
    }

    /// A row that will be sent with the next request.
    pub fn queue(&mut self, row: &Value) {
        if let Some((_, credit)) = self.pair(row) {
            self.queued.insert(credit.to_owned());
        }
    }

    /// All that was queued has its answer.
    pub fn answered(&mut self) {
        self.queued.clear();
    }

    /// The row of `line` was applied, now or `before` this import.
    pub fn applied(&mut self, line: u64, row: &Value, before: bool) {
        let Some((debit, credit)) = self.pair(row) else { return };
        let id = row["id"].as_str().unwrap_or_default().to_owned();
        let payers = self.sent.entry(credit.to_owned()).or_default();
        self.pairs += usize::from(payers.insert((debit.to_owned(), before), Sent { line, id }).is_none());
    }

    /// The rows that must have arrived before the debit account of `row` has all that was sent to it.
    pub fn take(&mut self, row: &Value) -> Vec<Sent> {
        let debit = row["debit"].as_str().unwrap_or_default();
        let payers = self.sent.remove(debit).unwrap_or_default();
        self.pairs -= payers.len();
        self.last(payers.into_iter().map(|(payer, sent)| (payer, debit.to_owned(), sent)))
    }

    /// The same for all accounts.
    pub fn take_all(&mut self) -> Vec<Sent> {
        self.pairs = 0;
        let sent = std::mem::take(&mut self.sent);
        self.last(
            sent.into_iter().flat_map(|(credit, payers)| {
                payers.into_iter().map(move |(payer, sent)| (payer, credit.clone(), sent))
            }),
        )
    }

    /// The last row of each pair of homes, of this import and of those before: debited account, credited account, row.
    fn last(&self, rows: impl Iterator<Item = ((String, bool), String, Sent)>) -> Vec<Sent> {
        let mut last: HashMap<(String, String, bool), Sent> = HashMap::new();
        for ((debit, before), credit, sent) in rows {
            let pair = (self.home(&debit), self.home(&credit), before);
            // Before the number of shards was known, pairs of one home were kept as well.
            if pair.0 != pair.1 && last.get(&pair).is_none_or(|other| *other < sent) {
                last.insert(pair, sent);
            }
        }
        last.into_values().collect()
    }

    /// Debit and credit account of a row that may pay to another shard.
    fn pair<'a>(&self, row: &'a Value) -> Option<(&'a str, &'a str)> {
        let (debit, credit) = (row["debit"].as_str()?, row["credit"].as_str()?);
        (self.shards != Shards::Known(1) && self.home(debit) != self.home(credit)).then_some((debit, credit))
    }

    /// What accounts of one shard share, as far as it is known.
    fn home(&self, account: &str) -> String {
        match self.shards {
            Shards::Known(count) => shard_of(account, count).to_string(),
            Shards::NotAsked | Shards::Untold => account.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(id: &str, debit: &str, credit: &str) -> Value {
        json!({ "id": id, "debit": debit, "credit": credit, "amount": 1 })
    }

    fn lines(mut rows: Vec<Sent>) -> Vec<u64> {
        rows.sort();
        rows.into_iter().map(|row| row.line).collect()
    }

    #[test]
    fn a_debit_waits_for_what_earlier_rows_paid_to_it_and_for_nothing_else() {
        let mut credits = Credits::new(Shards::NotAsked);
        credits.learn(Shards::Untold);
        let (sale, other, spent) = (row("1", "shop", "a"), row("2", "shop", "b"), row("3", "a", "c"));
        [&sale, &other].into_iter().for_each(|row| credits.queue(row));
        assert!(credits.are_awaited(&spent) && !credits.are_awaited(&sale));
        credits.answered();
        assert!(!credits.are_awaited(&spent), "a refused row credits nobody");
        credits.applied(1, &sale, false);
        credits.applied(2, &other, false);
        assert!(credits.are_awaited(&spent));
        assert_eq!(lines(credits.take(&spent)), [1]);
        assert!(!credits.are_awaited(&spent));
        assert_eq!(lines(credits.take_all()), [2]);
    }

    #[test]
    fn of_two_shards_only_the_last_credit_of_each_pair_is_asked_for_and_of_one_shard_none() {
        let mut credits = Credits::new(Shards::NotAsked);
        for line in 0..1_000 {
            let row = row(&line.to_string(), &format!("payer:{line}"), &format!("wallet:{}", line % 7));
            credits.applied(line, &row, false);
        }
        let mut alone = Credits { sent: credits.sent.clone(), pairs: credits.pairs, ..Credits::new(Shards::NotAsked) };
        credits.learn(Shards::Known(2));
        assert_eq!(credits.take(&row("x", "wallet:0", "y")).len(), 1);
        let rest = lines(credits.take_all());
        assert!(rest.len() == 2 && rest[1] > 980, "{rest:?}");
        alone.learn(Shards::Known(1));
        alone.queue(&row("x", "payer:1", "wallet:0"));
        alone.applied(1, &row("x", "payer:1", "wallet:0"), false);
        assert!(!alone.are_awaited(&row("y", "wallet:0", "z")) && alone.take_all().is_empty());
    }

    #[test]
    fn what_was_done_before_does_not_stand_for_what_is_done_now() {
        let mut credits = Credits::new(Shards::Untold);
        let (now, before) = (row("1", "shop", "a"), row("2", "shop", "a"));
        credits.applied(1, &now, false);
        credits.applied(2, &before, true);
        assert_eq!(lines(credits.take(&row("3", "a", "c"))), [1, 2]);
    }

    #[test]
    fn the_credits_that_are_kept_are_bounded() {
        let mut credits = Credits::new(Shards::NotAsked);
        for line in 0..CREDITS_MAX as u64 {
            assert!(!credits.are_awaited(&row("x", "shop", "y")), "line {line}");
            credits.applied(line, &row("x", "shop", &format!("wallet:{line}")), false);
        }
        assert!(credits.is_full() && credits.are_awaited(&row("x", "shop", "y")));
        credits.learn(Shards::Known(2));
        assert_eq!(credits.take_all().len(), 1);
        assert!(!credits.is_full());
    }
}
