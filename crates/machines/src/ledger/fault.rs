//! Faults that tests plant to see them found. Compiled only with the feature `fault-injection`.

use super::state::Ledger;

/// A bug of the machine that the simulation must find.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// A void or expiry closes the hold and leaves its amount held.
    HoldNotReleased,
    /// A credit taken in leaves the watermark one too low, so that the sender's next one is the same again.
    WatermarkOffByOne,
}

impl Ledger {
    /// Changes a live balance in memory, as a flipped bit would: no event, no other figure. Returns whether there is such an
    /// account.
    #[doc(hidden)]
    pub fn tamper_for_test(&mut self, account: &str, change: i64) -> bool {
        let Some(slot) = self.slot(account) else { return false };
        let account = self.accounts.get_mut(slot).expect("found accounts are there");
        account.balance = account.balance.wrapping_add(change);
        true
    }

    /// Makes this ledger, until it is dropped, fold events with a bug. Not part of snapshots.
    #[doc(hidden)]
    pub fn plant_for_test(&mut self, bug: PlantedBug) {
        self.planted = Some(bug);
    }

    pub(super) fn has_planted(&self, bug: PlantedBug) -> bool {
        self.planted == Some(bug)
    }
}
