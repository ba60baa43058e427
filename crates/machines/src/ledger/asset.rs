//! Units of measure, and how much of each this shard's sources may still issue.

use std::collections::BTreeMap;
use std::sync::Arc;

/// An asset's number on its shard, in the order of first use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct AssetIndex(pub u32);

#[derive(Clone, Debug)]
pub(super) struct Asset {
    pub name: Arc<str>,
    /// Sum over this shard's sources of [`Account::reserve`](super::account::Account::reserve). Never above the cap, which is
    /// why no credit anywhere can overflow a balance: all money that exists came below zero somewhere.
    pub reserve: u64,
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
        let index = AssetIndex(self.by_index.len() as u32);
        let name: Arc<str> = name.into();
        self.by_name.insert(name.clone(), index);
        self.by_index.push(Asset { name, reserve: 0 });
        index
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
        self.by_index.len() as u32
    }
}
