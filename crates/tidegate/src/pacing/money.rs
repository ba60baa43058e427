//! Money of campaigns in a ledger: a lease is a hold, and its settlement a post of what was spent.

use std::cell::Cell;

use tidegate_pacer::control::{Money, Paid, Settlement, lease_of};
use tidegate_pacer::keeper::{Held, LedgerSeen, PaidPage, Settled, Treasury};
use tidegate_pacer::units::BudgetMicros;

/// What a ledger says of one hold: nothing is wrong with it, now or when it was asked for before, or why it refuses.
pub type Decided = Result<(), Refused>;

/// Why a ledger refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The stable name.
    pub code: String,
    /// Of `insufficient_funds`: what there was.
    pub available: u64,
}

/// A ledger that is asked for holds. What it says is in the order of what is asked; an error says why it is not known
/// whether anything was done.
pub trait Ledger {
    /// Holds money. What was decided may be of the first holds alone: the others are to be asked for again.
    fn place(&self, holds: &[HoldOf<'_>]) -> impl Future<Output = Result<Vec<Decided>, String>>;

    /// Pays so much of holds, of the first as above.
    fn post(&self, posts: &[(Box<str>, u64)]) -> impl Future<Output = Result<Vec<Decided>, String>>;

    /// Gives back holds, of the first as above.
    fn void(&self, ids: &[Box<str>]) -> impl Future<Output = Result<Vec<Decided>, String>>;

    /// Open holds of an account that nobody but this pacer has placed.
    fn own(&self, account: &str) -> impl Future<Output = Result<Vec<OpenHold>, String>>;

    /// What holds have paid out of an account, by so many rows of its history, before where an earlier page has ended;
    /// as far as this pacer may know it.
    fn posts(
        &self,
        account: &str,
        before: Option<Box<str>>,
        rows: u32,
    ) -> impl Future<Output = Result<PostPage, String>>;

    /// What was paid of a hold, where it says so, and to this pacer.
    fn posted(&self, id: &str) -> impl Future<Output = Result<Option<u64>, String>>;

    /// How it is, while nothing is asked of it.
    fn look(&self) -> impl Future<Output = LedgerSeen>;
}

/// A hold that is open.
pub struct OpenHold {
    /// Its id.
    pub id: Box<str>,
    /// Where a post goes.
    pub credit: Box<str>,
    /// How much.
    pub amount: u64,
}

/// Posts of an account, newest first, and where they go on.
#[derive(Default)]
pub struct PostPage {
    /// They.
    pub posts: Vec<Post>,
    /// How many rows of the history were read for them.
    pub rows: usize,
    /// `None` at their end.
    pub next: Option<Box<str>>,
}

/// What was paid of a hold.
pub struct Post {
    /// Its id.
    pub id: Box<str>,
    /// What its client has written to it: see [`code_of`].
    pub code: u32,
    /// So much.
    pub amount: u64,
}

/// A hold of a lease's money.
pub struct HoldOf<'a> {
    /// Its id.
    pub id: Box<str>,
    /// What it is of.
    pub money: &'a Money,
}

/// The code of a hold: by it, what was paid of it can be told from what other campaigns have paid out of one account.
pub fn code_of(money: &Money) -> u32 {
    money.campaign.and_then(|number| number.checked_add(1)).unwrap_or(0)
}

/// A ledger as the pacer sees it.
pub struct LedgerMoney<L> {
    /// The ledger.
    pub ledger: L,
    /// By which the holds of this node differ from those of others.
    pub node: u16,
    /// Rows of a history that are asked for next.
    rows: Cell<u32>,
}

/// Rows of a history that are asked for, at most.
const ROWS_MAX: u32 = 1_000;
/// Those that are asked for first: mostly, the newest ones say that nothing is missing.
const FIRST_ROWS: u32 = 16;

impl<L: Ledger> LedgerMoney<L> {
    /// Of this ledger, where the holds of this node have this number.
    pub fn new(ledger: L, node: u16) -> LedgerMoney<L> {
        LedgerMoney { ledger, node, rows: Cell::new(ROWS_MAX) }
    }

    async fn posts(&self, account: &str, before: Option<Box<str>>) -> Result<PostPage, String> {
        loop {
            let rows = if before.is_none() { self.rows.get().min(FIRST_ROWS) } else { self.rows.get() };
            match self.ledger.posts(account, before.clone(), rows).await {
                // A row that cannot be read refuses its whole page: it need not be one of those that are wanted.
                Err(_) if rows > 1 => self.rows.set((rows / 4).max(1)),
                page => {
                    self.rows.set((2 * self.rows.get()).min(ROWS_MAX));
                    return page;
                }
            }
        }
    }
}

impl<L: Ledger> Treasury for LedgerMoney<L> {
    async fn hold(&self, money: Vec<Money>) -> Vec<Held> {
        let holds: Vec<_> = money.iter().map(|money| HoldOf { id: money.hold_id(self.node), money }).collect();
        match self.ledger.place(&holds).await {
            Ok(decided) => decided.into_iter().map(held).collect(),
            Err(why) => vec![Held::Unknown(why); money.len()],
        }
    }

    async fn held_of(&self, account: &str) -> Result<Vec<Money>, String> {
        let of_lease = |OpenHold { id, credit, amount }| {
            let (opened, node, lease) = lease_of(&id)?;
            let (account, spend, amount) = (account.into(), credit, BudgetMicros(amount));
            (node == self.node).then_some(Money { lease, opened, campaign: None, account, spend, amount })
        };
        Ok(self.ledger.own(account).await?.into_iter().filter_map(of_lease).collect())
    }

    async fn paid_of(&self, account: &str, before: Option<Box<str>>) -> Result<PaidPage, String> {
        let PostPage { posts, rows, next } = self.posts(account, before).await?;
        let of_lease = |Post { id, code, amount }| {
            let (opened, node, lease) = lease_of(&id)?;
            let (campaign, amount) = (u32::checked_sub(code, 1), BudgetMicros(amount));
            (node == self.node).then_some(Paid { lease, opened, campaign, amount })
        };
        Ok(PaidPage { paid: posts.into_iter().filter_map(of_lease).collect(), rows, next })
    }

    async fn look(&self) -> LedgerSeen {
        self.ledger.look().await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Vec<Settled> {
        let (paid, free): (Vec<_>, Vec<_>) =
            settlements.iter().enumerate().partition(|(_, settlement)| settlement.spent > BudgetMicros::ZERO);
        let id = |settlement: &Settlement| settlement.money.hold_id(self.node);
        // Of what is not decided, nobody knows.
        let unasked = Settled::Unknown("the ledger asks for a pause".to_owned());
        let mut settled = vec![unasked; settlements.len()];
        if !paid.is_empty() {
            let posts: Vec<_> = paid.iter().map(|(_, settlement)| (id(settlement), settlement.spent.0)).collect();
            note(&mut settled, &paid, self.ledger.post(&posts).await, posted);
        }
        if !free.is_empty() {
            let voids: Vec<_> = free.iter().map(|(_, settlement)| id(settlement)).collect();
            note(&mut settled, &free, self.ledger.void(&voids).await, voided);
        }
        for (settlement, settled) in settlements.iter().zip(&mut settled) {
            if let Settled::Otherwise { .. } = settled {
                *settled = match self.ledger.posted(&id(settlement)).await {
                    Ok(paid) => Settled::Otherwise { paid: paid.map(BudgetMicros) },
                    Err(why) => Settled::Unknown(why),
                };
            }
        }
        settled
    }
}

/// Puts what was decided to where its settlement stands.
fn note(
    settled: &mut [Settled],
    of: &[(usize, &Settlement)],
    decided: Result<Vec<Decided>, String>,
    read: fn(Decided) -> Settled,
) {
    match decided {
        Ok(decided) => of.iter().zip(decided).for_each(|((at, _), decided)| settled[*at] = read(decided)),
        Err(why) => of.iter().for_each(|(at, _)| settled[*at] = Settled::Unknown(why.clone())),
    }
}

fn held(decided: Decided) -> Held {
    match decided {
        Ok(()) => Held::Done,
        Err(Refused { code, available }) if code == "insufficient_funds" => {
            Held::Insufficient { available: BudgetMicros(available) }
        }
        Err(Refused { code, .. }) => Held::Refused(code),
    }
}

/// What a ledger says of a hold whose money is free again.
const ENDED: [&str; 2] = ["hold_voided", "hold_expired"];

fn posted(decided: Decided) -> Settled {
    match decided {
        Ok(()) => Settled::Done,
        Err(Refused { code, .. }) if code == "hold_not_found" => Settled::NotFound(code),
        Err(Refused { code, .. }) if ENDED.contains(&&*code) => Settled::NotHeld(code),
        // The same amount would be none.
        Err(Refused { code, .. }) if code == "hold_posted" => Settled::Otherwise { paid: None },
        Err(Refused { code, .. }) => Settled::Refused(code),
    }
}

fn voided(decided: Decided) -> Settled {
    match decided {
        Ok(()) => Settled::Done,
        // It was never held, or is free already.
        Err(Refused { code, .. }) if code == "hold_not_found" || ENDED.contains(&&*code) => Settled::Nothing,
        Err(Refused { code, .. }) if code == "hold_posted" => Settled::Otherwise { paid: None },
        Err(Refused { code, .. }) => Settled::Refused(code),
    }
}
