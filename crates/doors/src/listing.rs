//! A page of accounts as its reader may see it.
//!
//! ```text
//!   wanted: 2 ─▶ asked: 1,000, for who sees some ─▶ candidate:1, wallet:carol, …, wallet:zoe ─▶ what the reader sees
//!                                                             next: the last one shown, or a sealed place ◀┘
//! ```
//!
//! Promise: a page and its cursor name only accounts that the reader may see, and are the same whether an account that
//! the reader may not see exists or not, up to a thousand of them. Why so many are looked at for a page of two: if the
//! page ended behind the first hidden account, a list of one prefix and one row would tell whether there is one.

use tidegate_ledger::limits::PAGE_ROWS_MAX;
use tidegate_machines::ledger::AccountView;

use crate::auth::{CursorSeal, Identity};

/// A page that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Rows that the reader wants.
    wanted: u32,
    /// Rows that the ledger is asked for.
    asked: u32,
}

impl Listing {
    /// A page of `wanted` rows for `reader`.
    pub fn new(reader: &Identity, wanted: u32) -> Listing {
        let asked = if reader.rights().may_read_everything() { wanted } else { PAGE_ROWS_MAX };
        Listing { wanted, asked }
    }

    /// Rows to ask the ledger for.
    pub fn asked(&self) -> u32 {
        self.asked
    }

    /// What `reader` sees of what the ledger gave, and where the next page begins.
    pub fn page(
        &self,
        reader: &Identity,
        cursors: &CursorSeal,
        mut accounts: Vec<AccountView>,
    ) -> (Vec<AccountView>, Option<String>) {
        let is_whole = accounts.len() < self.asked as usize;
        let looked_at = accounts.last().map(|last| last.id.clone());
        accounts.retain(|account| reader.rights().may_see(account));
        let is_cut = accounts.len() > self.wanted as usize;
        accounts.truncate(self.wanted as usize);
        let shown = accounts.last().map(|last| &*last.id);
        let next = match looked_at {
            _ if is_cut => shown.map(str::to_owned),
            _ if is_whole => None,
            Some(place) if shown == Some(&*place) => Some(place.into()),
            Some(place) => Some(cursors.seal(reader.name(), &place)),
            None => None,
        };
        (accounts, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{Grant, Rights, Secret};
    use tidegate_machines::ledger::AccountKind;

    fn account(id: String, kind: AccountKind) -> AccountView {
        let (asset, settings) = ("credit".into(), None);
        AccountView { id: id.into(), asset, kind, balance: 0, held: 0, credited: 0, debited: 0, settings }
    }

    fn wallets(count: usize) -> Vec<AccountView> {
        (0..count).map(|n| account(format!("wallet:{n:04}"), AccountKind::Wallet)).collect()
    }

    fn dave() -> Identity {
        Identity::new("dave", Rights::Viewer { wallets: vec!["wallet:0005".into()] })
    }

    fn seal() -> CursorSeal {
        CursorSeal::new(&Secret::from_bytes(&[1; 32]).unwrap())
    }

    #[test]
    fn a_page_of_a_foreign_wallet_is_that_of_no_wallet() {
        for limit in [1, 100] {
            let listing = Listing::new(&dave(), limit);
            let none = listing.page(&dave(), &seal(), Vec::new());
            let foreign = listing.page(&dave(), &seal(), vec![account("wallet:carol".into(), AccountKind::Wallet)]);
            assert_eq!((none.0.len(), none.1), (foreign.0.len(), foreign.1));
        }
    }

    #[test]
    fn a_page_goes_on_behind_hidden_accounts_without_naming_them() {
        let listing = Listing::new(&dave(), 10);
        assert_eq!(listing.asked(), PAGE_ROWS_MAX);
        let (seen, next) = listing.page(&dave(), &seal(), wallets(1_000));
        assert_eq!(seen.len(), 1);
        let next = next.unwrap();
        assert!(next.starts_with('/') && !next.contains("0999"));
        assert_eq!(seal().open("dave", &next).as_deref(), Some("wallet:0999"));
    }

    #[test]
    fn a_page_that_is_cut_goes_on_behind_what_it_shows() {
        let mut accounts = wallets(20);
        accounts.iter_mut().for_each(|account| account.kind = AccountKind::Collector);
        let (seen, next) = Listing::new(&dave(), 3).page(&dave(), &seal(), accounts);
        assert_eq!((seen.len(), next.as_deref()), (3, Some("wallet:0002")));
    }

    #[test]
    fn who_sees_all_reads_no_more_than_asked() {
        let service = Identity::new("shop", Rights::Service { grants: vec![Grant::Everything] });
        let listing = Listing::new(&service, 7);
        assert_eq!(listing.asked(), 7);
        assert_eq!(listing.page(&service, &seal(), wallets(7)).1.as_deref(), Some("wallet:0006"));
        assert_eq!(listing.page(&service, &seal(), wallets(6)).1, None);
    }
}
