//! Units of measure, and how much of each this shard's sources may still issue.

use std::collections::BTreeMap;
use std::sync::Arc;

/// An asset's number on its shard, in the order of first use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct AssetIndex(pub u32);

#[derive(Clone, Debug)]
pub(super) struct Asset {
    pub name: Arc<str>,
    /// Sum over this shard's sources of [`Account::reserve`](super::account::Account::reserve). Never above the cap,
    /// which is why no credit anywhere can overflow a balance: all money that exists came below zero somewhere.
    pub reserve: u64,
    /// What this shard's sources gave out and did not get back: the sum of their balances, negated.
    pub issued: i128,
    /// Sum of what this shard's open holds reserve.
    pub held: u128,
    /// Digits behind the point, if somebody declared them here.
    pub decimals: Option<u8>,
}

/// A unit of measure, and how much of it one shard has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssetView {
    /// Its name.
    pub name: Box<str>,
    /// Digits of an amount behind the point; `None` if nobody declared them on this shard.
    pub decimals: Option<u8>,
    /// What sources gave out and did not get back, minor units.
    pub issued: i128,
    /// What open holds reserve, minor units.
    pub held: u128,
}

/// All assets, by number and by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Assets {
    by_index: Vec<Asset>,
    by_name: BTreeMap<Arc<str>, AssetIndex>,
}

impl Assets {
    pub fn find(&self, name: &str) -> Option<AssetIndex> {
        self.by_name.get(name).copied()
    }

    pub fn find_or_add(&mut self, name: &str) -> AssetIndex {
        if let Some(index) = self.find(name) {
            return index;
        }
        let index = AssetIndex(self.len());
        let name: Arc<str> = name.into();
        let before = self.by_name.insert(name.clone(), index);
        assert!(before.is_none(), "an asset that was not found was there");
        self.by_index.push(Asset { name, reserve: 0, issued: 0, held: 0, decimals: None });
        assert_eq!(self.by_index.len(), self.by_name.len(), "every asset is found by its name");
        index
    }

    /// A source of the asset counted `before` in its reserve and counts `after` now.
    #[inline]
    pub fn replace_reserve(&mut self, index: AssetIndex, before: u64, after: u64) {
        let reserve = &mut self.by_index[index.0 as usize].reserve;
        let others = reserve.checked_sub(before).expect("every source is in the sum");
        *reserve = others.checked_add(after).expect("what sources issue is capped");
    }

    /// The balance of a source of the asset was `before` and is `after` now.
    #[inline]
    pub fn replace_issued(&mut self, index: AssetIndex, before: i64, after: i64) {
        self.by_index[index.0 as usize].issued += i128::from(before) - i128::from(after);
    }

    /// Open holds reserve `placed` more and `released` less.
    #[inline]
    pub fn change_held(&mut self, index: AssetIndex, placed: u64, released: u64) {
        let held = &mut self.by_index[index.0 as usize].held;
        *held = (*held + u128::from(placed)).checked_sub(u128::from(released)).expect("open holds are in the sum");
    }

    #[inline]
    pub fn get(&self, index: AssetIndex) -> &Asset {
        &self.by_index[index.0 as usize]
    }

    #[inline]
    pub fn get_mut(&mut self, index: AssetIndex) -> &mut Asset {
        &mut self.by_index[index.0 as usize]
    }

    pub fn iter(&self) -> impl Iterator<Item = (AssetIndex, &Asset)> {
        self.by_index.iter().enumerate().map(|(index, asset)| (AssetIndex(index as u32), asset))
    }

    pub fn len(&self) -> u32 {
        u32::try_from(self.by_index.len()).expect("there are fewer assets than accounts")
    }

    /// Walks all and panics if the two indices do not fit each other.
    pub fn assert_sound(&self) {
        assert_eq!(self.by_index.len(), self.by_name.len(), "every asset is found by its name");
        for (index, asset) in self.iter() {
            assert_eq!(self.find(&asset.name), Some(index), "asset {} is not found", asset.name);
        }
    }
}
