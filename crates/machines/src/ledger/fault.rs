//! A fault that tests plant to see it found. Compiled only with the feature `fault-injection`.

use super::state::Ledger;

impl Ledger {
    /// Changes a live balance in memory, as a flipped bit would: no event, no other figure. Returns whether there is such an
    /// account. The next event about it finds that its figures do not agree, and panics.
    #[doc(hidden)]
    pub fn tamper_for_test(&mut self, account: &str, change: i64) -> bool {
        let Some(slot) = self.slot(account) else { return false };
        let account = self.accounts.get_mut(slot).expect("found accounts are there");
        account.balance = account.balance.wrapping_add(change);
        true
    }
}
