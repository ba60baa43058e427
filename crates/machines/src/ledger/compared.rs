//! What an auditor compares of two ledgers beside accounts: open holds, and what shards sent each other.

use super::asset::AssetIndex;
use super::hold::OpenHold;
use super::peer::Peer;
use super::state::Ledger;
use crate::{OutboundNumber, RecordPosition, ShardIndex, TimeMs};

/// An open hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldFigures {
    /// Its id.
    pub id: Box<str>,
    /// The account that it reserves on.
    pub debit: Box<str>,
    /// The account that a post credits.
    pub credit: Box<str>,
    /// Minor units.
    pub amount: u64,
    /// When it expires.
    pub expires_at: TimeMs,
    /// The record that placed it.
    pub placed: RecordPosition,
}

impl HoldFigures {
    /// Its place in the order of expiry, in which [`Ledger::holds_after`] goes.
    pub fn key(&self) -> (TimeMs, RecordPosition) {
        (self.expires_at, self.placed)
    }
}

/// The figures between one shard and another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerFigures {
    /// The other shard.
    pub shard: ShardIndex,
    /// The last of its credits that was taken in here.
    pub watermark: OutboundNumber,
    /// The last number given to a credit for it.
    pub outbound: OutboundNumber,
    /// The last credit that it confirmed.
    pub confirmed: OutboundNumber,
    /// Sum of all that was sent to it, minor units, by asset.
    pub sent: Vec<(Box<str>, u128)>,
    /// Sum of all that was taken in from it, minor units, by asset.
    pub received: Vec<(Box<str>, u128)>,
}

impl Ledger {
    /// The open holds behind `after` in the order of expiry.
    pub fn holds_after(&self, after: Option<(TimeMs, RecordPosition)>) -> impl Iterator<Item = HoldFigures> {
        self.holds.by_expiry_after(after).map(|hold| self.hold_figures(hold))
    }

    fn hold_figures(&self, hold: &OpenHold) -> HoldFigures {
        let id_of = |slot| self.accounts.get(slot).map_or_else(|| "".into(), |account| account.id.to_string().into());
        HoldFigures {
            id: hold.id.as_str().into(),
            debit: id_of(hold.debit),
            credit: id_of(hold.credit),
            amount: hold.amount.get(),
            expires_at: hold.expires_at,
            placed: hold.placed,
        }
    }

    /// The figures between this shard and each other one.
    pub fn peer_figures(&self) -> Vec<PeerFigures> {
        let others = (0..self.shard_count).map(ShardIndex).filter(|shard| *shard != self.shard);
        others.map(|shard| self.figures_of(shard, self.peer(shard))).collect()
    }

    fn figures_of(&self, shard: ShardIndex, peer: &Peer) -> PeerFigures {
        let named = |(asset, sum): (&AssetIndex, &u128)| (self.assets.get(*asset).name.to_string().into(), *sum);
        PeerFigures {
            shard,
            watermark: peer.watermark,
            outbound: peer.last(),
            confirmed: peer.confirmed(),
            sent: peer.sent.iter().map(named).collect(),
            received: peer.received.iter().map(named).collect(),
        }
    }
}
