//! Assets of all shards, as one list.

use tidegate_machines::ledger::AssetView;

/// One line an asset, by name in byte order: the sums of all shards, and the decimals that its home has.
pub(super) fn sum_assets(mut assets: Vec<AssetView>) -> Vec<AssetView> {
    assets.sort_by(|a, b| a.name.cmp(&b.name));
    let mut sums: Vec<AssetView> = Vec::new();
    for asset in assets {
        match sums.last_mut() {
            Some(sum) if sum.name == asset.name => {
                assert!(sum.decimals.is_none() || asset.decimals.is_none(), "only the home of a name has its decimals");
                sum.decimals = sum.decimals.or(asset.decimals);
                sum.issued += asset.issued;
                sum.held += asset.held;
            }
            _ => sums.push(asset),
        }
    }
    sums
}
