//! Whether money of one asset was created or lost over all shards, without stopping any of them.
//!
//! ```text
//!   each shard, at its own record:   balances + sent - received = 0
//!   each pair, receiver asked first: received there <= sent here;   the rest is in transit
//! ```
//!
//! Why this needs no common moment: the first holds at every record of a shard. What was taken in was sent before, so a
//! sender that is asked later has sent at least as much.

use std::collections::BTreeMap;

use tidegate_machines::ledger::{AssetTotals, PeerFigures};

use crate::message::Conservation;

/// The sums per asset: `totals` of each shard, and what each had sent to each other when it was asked later.
pub fn conservation(totals: &[Vec<AssetTotals>], sent_later: &[Vec<PeerFigures>]) -> Vec<Conservation> {
    let mut by_asset: BTreeMap<&str, (i128, i128)> = BTreeMap::new();
    for totals in totals.iter().flatten() {
        let (sum, in_transit) = by_asset.entry(&totals.asset).or_default();
        *sum = sum.wrapping_add(totals.imbalance());
        for (_, received) in &totals.received {
            *in_transit = in_transit.wrapping_sub(*received as i128);
        }
    }
    for (asset, sent) in sent_later.iter().flatten().flat_map(|peer| &peer.sent) {
        let (_, in_transit) = by_asset.entry(asset).or_default();
        *in_transit = in_transit.wrapping_add(*sent as i128);
    }
    let of = |(asset, (sum, in_transit)): (&str, (i128, i128))| Conservation { asset: asset.into(), sum, in_transit };
    by_asset.into_iter().map(of).collect()
}
