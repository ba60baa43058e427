//! Consistency check of the whole ledger: what must hold between its parts after any events.
//!
//! What one event changes is asserted where it changes. This visits everything, so it is for the end of a replay, for
//! tests and for simulation.

use std::collections::BTreeMap;

use super::asset::AssetIndex;
use super::hash::shard_of;
use super::peer::Peer;
use super::request::AccountKind;
use super::state::Ledger;
use super::validity::{check_expiry, is_known_account_id, is_known_asset};
use crate::{OutboundNumber, RecordPosition, ShardIndex};

impl Ledger {
    /// Panics, saying what disagrees, if the ledger is not one that events can have made.
    pub(super) fn assert_all_sound(&self) {
        self.assert_parts_fit();
        assert_eq!(self.check_sums(), Ok(()), "the sums of shard {}", self.shard);
        let mut held = vec![0u128; self.assets.len() as usize];
        for account in self.accounts.iter() {
            held[account.asset.0 as usize] += u128::from(account.held);
        }
        for (index, asset) in self.assets.iter() {
            assert_eq!(asset.held, held[index.0 as usize], "what holds of {} reserve", asset.name);
        }
    }

    /// All but the sums.
    pub(super) fn assert_parts_fit(&self) {
        assert!(self.shard.0 < self.shard_count, "shard {} of {}", self.shard, self.shard_count);
        assert_eq!(self.peers.len(), usize::from(self.shard_count), "one peer a shard");
        self.assert_accounts_sound();
        self.assert_assets_sound();
        self.assert_holds_sound();
        self.assert_settings_sound();
        self.mends.assert_sound(self.position);
        for (shard, peer) in (0..).map(ShardIndex).zip(&self.peers) {
            if shard == self.shard {
                assert!(peer.is_untouched(), "shard {shard} sent itself something");
            } else {
                self.assert_peer_sound(shard, peer);
            }
        }
    }

    fn assert_accounts_sound(&self) {
        self.accounts.assert_sound();
        for account in self.accounts.iter() {
            let id = &*account.id;
            assert!(is_known_account_id(id), "account {id:?} has no valid id");
            assert_eq!(account.home, shard_of(id, self.shard_count), "account {id} is at home elsewhere");
            assert!(account.asset.0 < self.assets.len(), "account {id} has an asset that is not there");
            assert!(account.last <= self.position, "the history of {id} goes beyond the newest event");
            if !account.is_on(self.shard) {
                let figures = (account.balance, account.held, account.credited, account.debited, account.last);
                assert_eq!(figures, (0, 0, 0, 0, RecordPosition::NONE), "the money of {id} is not here");
            }
        }
    }

    fn assert_assets_sound(&self) {
        self.assets.assert_sound();
        let mut reserves = vec![(0u64, 0i128); self.assets.len() as usize];
        for account in self.accounts.iter() {
            let (reserve, issued) = &mut reserves[account.asset.0 as usize];
            *reserve += account.reserve();
            if account.kind == AccountKind::Source {
                *issued -= i128::from(account.balance);
            }
        }
        for (index, asset) in self.assets.iter() {
            assert!(is_known_asset(&asset.name), "asset {:?} has no valid name", asset.name);
            let (reserve, issued) = reserves[index.0 as usize];
            assert_eq!(asset.reserve, reserve, "what sources of {} may still owe", asset.name);
            assert_eq!(asset.issued, issued, "what sources of {} gave out", asset.name);
            assert!(asset.reserve <= self.issuance_cap(), "sources of {} issued more than the cap", asset.name);
        }
    }

    fn assert_settings_sound(&self) {
        for (slot, settings) in self.settings.iter() {
            let account = self.accounts.get(slot).expect("settings are those of an account");
            let id = &*account.id;
            assert!(settings.revision > 0, "the settings of {id} were never set");
            assert_eq!(settings.rules.check(account.kind), Ok(()), "the settings of {id} do not fit its kind");
            assert!(account.home == self.shard || settings.metadata.is_empty(), "the metadata of {id} is not here");
        }
        for (slot, account) in (0..).map(super::AccountSlot).zip(self.accounts.iter()) {
            let rules = self.settings.rules(slot);
            assert_eq!(account.is_restricted, rules.restrict(), "account {} says what was set on it", &*account.id);
        }
    }

    fn assert_holds_sound(&self) {
        self.holds.assert_sound();
        for hold in self.holds.iter() {
            let id = hold.id.as_str();
            let (Some(from), Some(to)) = (self.accounts.get(hold.debit), self.accounts.get(hold.credit)) else {
                panic!("hold {id} is between accounts that are not there");
            };
            assert!(hold.debit != hold.credit && from.asset == to.asset, "hold {id} is between accounts that differ");
            assert!(from.home == self.shard, "hold {id} is on an account of another shard");
            assert!(from.held >= hold.amount.get(), "hold {id} is not in what {} has held", &*from.id);
            assert!(check_expiry(hold.expires_in_ms).is_ok(), "hold {id} lives for too long");
            let placed_at = hold.expires_at.0.checked_sub(hold.expires_in_ms);
            assert!(placed_at.is_some_and(|at| at <= self.time.0), "hold {id} was placed in the future");
            assert!(hold.placed <= self.position, "hold {id} was placed after the newest event");
        }
    }

    fn assert_peer_sound(&self, shard: ShardIndex, peer: &Peer) {
        assert!(peer.confirmed() <= peer.last(), "shard {shard} confirmed what was not sent");
        let mut under_way: BTreeMap<AssetIndex, u128> = BTreeMap::new();
        let mut before = RecordPosition::NONE;
        for (credit, number) in peer.after(peer.confirmed()).zip(peer.confirmed().0 + 1..) {
            assert_eq!(credit.number, OutboundNumber(number), "credits to shard {shard} have no gap");
            assert!(before < credit.position && credit.position <= self.position, "credit {number} to shard {shard}");
            let account = self.accounts.get(credit.slot).expect("a credit is for an account");
            assert!(account.home == shard && !account.is_on(self.shard), "credit {number} is not for shard {shard}");
            *under_way.entry(account.asset).or_default() += u128::from(credit.amount.get());
            before = credit.position;
        }
        for (asset, sum) in under_way {
            let sent = peer.sent.get(&asset).copied().unwrap_or(0);
            assert!(sum <= sent, "{sum} is under way to shard {shard}, {sent} was sent");
        }
        assert!(
            peer.last() != OutboundNumber(0) || peer.sent.is_empty(),
            "shard {shard} was sent money without a credit"
        );
        let is_received = peer.watermark != OutboundNumber(0) || peer.received.is_empty();
        assert!(is_received, "shard {shard} sent money without a credit");
    }
}
