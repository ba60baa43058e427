//! Planted faults of the live state: what memory that flips, or code that runs only in the live shard, would do. No
//! journal shows them, and only an auditor that really compares can find them.
//!
//! Promise: in a release this is empty code, as [`is_planted`] is the constant `false`.

use tidegate_planted::{Bug, is_planted};

use super::asset::AssetIndex;
use super::event::{CreditStep, Event};
use super::mends::Mends;
use super::state::Ledger;
use crate::OutboundNumber;

impl Ledger {
    /// Harms the state behind `event`, which was just applied to the live state.
    #[inline(always)]
    pub(super) fn drift(&mut self, event: &Event<'_>) {
        match *event {
            Event::Transferred { credit: CreditStep::Here(step), .. } if is_planted(Bug::LiveCreditTooMany) => {
                let account = self.accounts.get_mut(step.slot).expect("it was just credited");
                account.credited += 1;
            }
            Event::Transferred { .. } if is_planted(Bug::LiveMendLost) => self.mends = Mends::default(),
            Event::HoldPlaced { hold, .. } if is_planted(Bug::LiveHoldLost) => self.holds.remove(hold.id),
            Event::AccountOpened { slot, .. } if is_planted(Bug::LiveAssetMixed) => {
                let account = self.accounts.get_mut(slot).expect("it was just opened");
                account.asset = AssetIndex((account.asset.0 + 1) % self.assets.len());
            }
            Event::CreditReceived { from, number, .. } if is_planted(Bug::LiveWatermarkOff) => {
                self.peers[usize::from(from.0)].watermark = OutboundNumber(number.0 + 1);
            }
            _ => {}
        }
    }
}
