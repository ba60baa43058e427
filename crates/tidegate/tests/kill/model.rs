//! The model: what balances and histories must be, if exactly the requests that were answered with "done" were done,
//! once each.

use std::collections::BTreeMap;

use tidegate_client::{Account, AccountKind, RowKind};

use crate::load::Connection;
use crate::question::{Asked, Question};
use crate::show::{AccountIndex, Move, Show};
use crate::{PATIENCE, within};

/// Rows of one page of history.
const PAGE_ROWS: u32 = 1_000;

/// What one account must show.
#[derive(Clone, Debug, Default)]
struct Figures {
    credited: u128,
    debited: u128,
    held: u64,
    /// Its rows, in no order: id, kind, and by how much the balance changes.
    rows: Vec<Row>,
}

type Row = (String, i32, i64);

/// All accounts.
#[derive(Debug)]
pub struct Model {
    accounts: Vec<Figures>,
    holds: BTreeMap<String, Move>,
}

impl Model {
    /// Before the first question.
    pub fn new(show: &Show) -> Model {
        Model { accounts: vec![Figures::default(); show.accounts.len()], holds: BTreeMap::new() }
    }

    /// Enters what was done.
    pub fn enter(&mut self, all: &[Asked]) {
        // Requests that settle holds are in the log of the client that placed the holds, always after them.
        for Asked { question, answer } in all {
            let answer = answer.as_ref().expect("every question has its answer by now");
            let done = answer.iter().enumerate().filter(|(_, outcome)| outcome.is_done()).map(|(item, _)| item);
            for item in done {
                self.enter_one(question, item);
            }
        }
    }

    fn enter_one(&mut self, question: &Question, item: usize) {
        match question {
            Question::Transfers(moves) | Question::Linked(moves) => {
                self.pay(&moves[item], moves[item].amount, RowKind::Transfer);
            }
            Question::Holds(moves) => {
                let hold = &moves[item];
                self.accounts[hold.debit].held += hold.amount;
                self.row(hold.debit, &hold.id, RowKind::Hold, 0);
                self.holds.insert(hold.id.clone(), hold.clone());
            }
            Question::Posts(posts) => {
                let (hold, amount) = &posts[item];
                self.release(hold);
                self.pay(hold, *amount, RowKind::Post);
            }
            Question::Voids(moves) => {
                self.release(&moves[item]);
                self.row(moves[item].debit, &moves[item].id, RowKind::Void, 0);
            }
        }
    }

    fn pay(&mut self, paid: &Move, amount: u64, kind: RowKind) {
        self.accounts[paid.debit].debited += u128::from(amount);
        self.accounts[paid.credit].credited += u128::from(amount);
        self.row(paid.debit, &paid.id, kind, -(amount as i64));
        self.row(paid.credit, &paid.id, kind, amount as i64);
    }

    fn release(&mut self, hold: &Move) {
        let open = self.holds.remove(&hold.id).expect("only open holds are settled");
        self.accounts[open.debit].held -= open.amount;
    }

    fn row(&mut self, account: AccountIndex, id: &str, kind: RowKind, change: i64) {
        self.accounts[account].rows.push((id.to_owned(), kind as i32, change));
    }

    /// Rows of all accounts.
    pub fn rows(&self) -> usize {
        self.accounts.iter().map(|account| account.rows.len()).sum()
    }

    /// Compares every figure of every account. Credits may be on their way between shards, so it waits until they have
    /// arrived.
    pub fn compare_figures(&self, client: &mut Connection, show: &Show, violations: &mut Vec<String>) {
        let right: u128 = self.accounts.iter().map(|account| account.credited).sum();
        let mut found = Vec::new();
        within(PATIENCE, || {
            found = client.accounts("", "", 1_000).expect("accounts are listed");
            // A sum above the right one is an error. A sum below it may be credits on their way.
            (found.iter().map(|account| account.credited).sum::<u128>() >= right).then_some(())
        });
        violations.extend(self.differences(&found, show));
    }

    /// What differs from the figures that the server shows.
    pub fn differences(&self, found: &[Account], show: &Show) -> Vec<String> {
        let mut differences = Vec::new();
        for (index, (id, kind)) in show.accounts.iter().enumerate() {
            let Figures { credited, debited, held, .. } = self.accounts[index];
            let balance = credited as i64 - debited as i64;
            let Some(account) = found.iter().find(|account| account.id == *id) else {
                differences.push(format!("{id} is gone"));
                continue;
            };
            let shown = (account.credited, account.debited, account.held, account.balance, account.available);
            let right = (credited, debited, held, balance, balance - held as i64);
            if shown != right {
                differences.push(format!(
                    "{id} shows (credited, debited, held, balance, available) = {shown:?}, but it must be {right:?}"
                ));
            }
            if *kind == AccountKind::Wallet && (account.balance < 0 || account.available < 0) {
                differences.push(format!("{id} is below zero: {account:?}"));
            }
        }
        differences
    }

    /// Reads an account's whole history: each row that must be there is there once, nothing else is, and each balance
    /// follows from the one before.
    pub fn compare_history(
        &self,
        client: &mut Connection,
        show: &Show,
        account: AccountIndex,
        violations: &mut Vec<String>,
    ) {
        let (id, kind) = &show.accounts[account];
        let mut rows = Vec::new();
        let mut before = String::new();
        loop {
            let page = client.history(id, &before, PAGE_ROWS).expect("a history is read");
            rows.extend(page.rows);
            match page.next {
                Some(next) => before = next,
                None => break,
            }
        }
        let mut balance = 0;
        let mut shown: Vec<Row> = Vec::with_capacity(rows.len());
        for row in rows.iter().rev() {
            let moves = matches!(row.kind(), RowKind::Transfer | RowKind::Post);
            let change = match row.debit == *id {
                _ if !moves => 0,
                true => -(row.amount as i64),
                false => row.amount as i64,
            };
            balance += change;
            if row.balance_after != balance {
                let after = row.balance_after;
                violations.push(format!("{id}: {} shows {after} after it, rows add up to {balance}", row.id));
                balance = after;
            }
            if *kind == AccountKind::Wallet && balance < 0 {
                violations.push(format!("{id} was below zero after {}: {balance}", row.id));
            }
            shown.push((row.id.clone(), row.kind, change));
        }
        let mut right = self.accounts[account].rows.clone();
        right.sort();
        shown.sort();
        if let Some(at) = (0..right.len().max(shown.len())).find(|at| right.get(*at) != shown.get(*at)) {
            let (right, shown) = (right.get(at), shown.get(at));
            violations.push(format!("{id}: history has {shown:?} where {right:?} must be (id, kind, change)"));
        }
    }
}
