//! The accounts of the load: one shop, the wallets of an audience, and three candidates, of whom one gets most votes.

use tidegate_client::{AccountKind, Client, Transfer};

use crate::chance::Chance;

/// Wallets; few, so that they run dry and meet each other.
const WALLETS: usize = 24;
/// What each wallet begins with.
const FIRST_CREDITS: u64 = 2_000;

/// An account by its index.
pub type AccountIndex = usize;

/// All accounts.
#[derive(Debug)]
pub struct Show {
    /// Ids and kinds; the shop is the first, then wallets, then candidates.
    pub accounts: Vec<(String, AccountKind)>,
}

impl Show {
    /// The same for every run.
    pub fn new() -> Show {
        let shop = ("source:shop".to_owned(), AccountKind::Source);
        let wallets = (0..WALLETS).map(|n| (format!("wallet:{n}"), AccountKind::Wallet));
        let candidates = (1..=3).map(|n| (format!("candidate:{n}"), AccountKind::Collector));
        Show { accounts: std::iter::once(shop).chain(wallets).chain(candidates).collect() }
    }

    /// The account's id.
    pub fn id(&self, account: AccountIndex) -> &str {
        &self.accounts[account].0
    }

    /// Opens all accounts.
    pub fn open(&self, client: &mut Client<std::net::TcpStream>) {
        for (id, kind) in &self.accounts {
            client.open_account(id, "credit", *kind).expect("a new ledger opens accounts");
        }
    }

    /// The first sale to every wallet, as the moves that it is.
    pub fn first_sales(&self) -> Vec<Move> {
        let sale =
            |wallet| Move { id: format!("first-sale-{wallet}"), debit: SHOP, credit: wallet, amount: FIRST_CREDITS };
        self.wallets().map(sale).collect()
    }

    /// A vote (mostly for the hot candidate), a gift to another wallet, or a sale.
    pub fn random_move(&self, id: String, chance: &mut Chance) -> Move {
        let wallet = chance.below(WALLETS as u64) as AccountIndex + 1;
        match chance.below(100) {
            0..8 => Move { id, debit: SHOP, credit: wallet, amount: 1 + chance.below(40) },
            8..30 => {
                let other = (wallet + chance.below(WALLETS as u64 - 1) as AccountIndex) % WALLETS + 1;
                Move { id, debit: wallet, credit: other, amount: 1 + chance.below(200) }
            }
            90.. => Move { id, debit: wallet, credit: WALLETS + 2 + chance.below(2) as usize, amount: 1 },
            _ => Move { id, debit: wallet, credit: HOT, amount: 1 + chance.below(3) },
        }
    }

    /// The wallets.
    pub fn wallets(&self) -> std::ops::RangeInclusive<AccountIndex> {
        1..=WALLETS
    }
}

const SHOP: AccountIndex = 0;
const HOT: AccountIndex = WALLETS + 1;

/// One movement of money, by transfer or by hold.
#[derive(Clone, Debug)]
pub struct Move {
    /// Transfer or hold id.
    pub id: String,
    /// From.
    pub debit: AccountIndex,
    /// To.
    pub credit: AccountIndex,
    /// Minor units.
    pub amount: u64,
}

/// Long, so that segments of the journal fill and roll.
const MEMO: &str = "with regards to all who sing tonight, to the band that carries them, \
                    to the one who turns the pages, and to the one who counts: may the best song win, \
                    may every vote for it be counted, and none of them be counted twice";

impl Move {
    fn memo(&self) -> &'static str {
        if self.amount % 2 == 1 { MEMO } else { "" }
    }

    /// As the client asks it.
    pub fn as_transfer<'a>(&'a self, show: &'a Show) -> Transfer<'a> {
        let (debit, credit) = (show.id(self.debit), show.id(self.credit));
        Transfer { id: &self.id, debit, credit, amount: self.amount, memo: self.memo(), code: 0, user_data: "" }
    }
}
