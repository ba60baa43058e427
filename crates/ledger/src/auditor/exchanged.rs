//! Whether what one shard sent to another has arrived there, while both are served.
//!
//! ```text
//!   folds of both:   sent up to credit n there  =  taken in up to credit n here      at any moment, exactly
//!   live figures:    taken in here ── does not move for a minute ──▶ a credit sent before is stuck
//! ```
//!
//! Why besides conservation: each shard is balanced by itself, so money that has left one and never comes to the other
//! is in transit for ever, and in transit is where money may be.
//!
//! Invariant: no clock here; times are arguments. What two logs of one history say is never called different, whatever
//! is under way: sums are compared only where both sides know them up to the same credit.

use std::collections::BTreeMap;

use tidegate_machines::ledger::{Ledger, PeerFigures};
use tidegate_machines::{OutboundNumber, ShardIndex};

use crate::message::{ARRIVED, AuditDifference};

/// A credit that is not taken in for so long, by a shard that takes in none and has a reason for none, is stuck.
/// Shards ask each other twice a second.
pub const STUCK_MS_MIN: u64 = 60_000;

/// What the live shards say of each other's credits: of one shard, its figures for each other one, and whether it knows
/// why credits wait (a full disk, a debit that is damaged).
pub type LivePeers = (Vec<PeerFigures>, bool);

/// A difference, in the report of the shard that should have taken in what it is about.
pub type Found = (ShardIndex, AuditDifference);

/// Each asset of which `from` has sent another sum to `to` than `to` has taken in, up to the same credit. Nothing where
/// the two states are of moments at which `from` cannot say what it had sent by then.
pub fn differing_sums(from: &Ledger, to: &Ledger) -> Vec<Found> {
    let (sent, taken) = (from.exchanged(to.shard()), to.exchanged(from.shard()));
    if !(sent.confirmed..=sent.sent).contains(&taken.watermark) {
        return Vec::new();
    }
    let (sent, received) = (from.exchanged_sums(to.shard()), to.exchanged_sums(from.shard()));
    let number = taken.watermark.0;
    let differences = sent.differences(taken.watermark, &received).into_iter();
    let found = differences.map(|(asset, sent, received)| {
        let texts = (format!("{received} {asset} taken in up to credit {number}"), format!("{sent} {asset} sent"));
        (to.shard(), AuditDifference { texts: Some((texts.0.into(), texts.1.into())), ..of_shard(from.shard()) })
    });
    found.collect()
}

fn of_shard(from: ShardIndex) -> AuditDifference {
    AuditDifference {
        account: format!("(shard {from})").into(),
        figure: ARRIVED,
        live: 0,
        journal: 0,
        agreed_at_sequence: 0,
        hold: None,
        texts: None,
    }
}

/// Credits that were on their way when the shards were last asked.
#[derive(Debug, Default)]
pub struct Waiting {
    /// By sender and receiver: the last credit that the receiver had then taken in, and since when that has been so
    /// while there was another to take.
    since: BTreeMap<(ShardIndex, ShardIndex), (OutboundNumber, u64)>,
}

impl Waiting {
    /// Takes what each shard says at `now_ms`, in the order of shards; the stuck credits.
    pub fn observe(&mut self, shards: &[LivePeers], now_ms: u64) -> Vec<Found> {
        let mut found = Vec::new();
        for (from, (figures, from_waits)) in (0..).map(ShardIndex).zip(shards) {
            for sent in figures {
                let to = sent.shard;
                let Some((theirs, to_waits)) = shards.get(usize::from(to.0)) else { continue };
                let Some(taken) = theirs.iter().find(|peer| peer.shard == from) else { continue };
                let key = (from, to);
                if taken.watermark >= sent.outbound || *from_waits || *to_waits {
                    self.since.remove(&key);
                    continue;
                }
                let (watermark, since) = self.since.entry(key).or_insert((taken.watermark, now_ms));
                if *watermark != taken.watermark {
                    (*watermark, *since) = (taken.watermark, now_ms);
                }
                if now_ms.saturating_sub(*since) >= STUCK_MS_MIN {
                    let (live, journal) = (taken.watermark.0.into(), sent.outbound.0.into());
                    found.push((to, AuditDifference { live, journal, ..of_shard(from) }));
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = STUCK_MS_MIN;

    fn peer(shard: u16, outbound: u64, watermark: u64) -> PeerFigures {
        let (outbound, watermark) = (OutboundNumber(outbound), OutboundNumber(watermark));
        let (sent, received) = (Vec::new(), Vec::new());
        PeerFigures { shard: ShardIndex(shard), watermark, outbound, confirmed: OutboundNumber(0), sent, received }
    }

    /// Shard 0 has sent up to one credit, and shard 1 has taken in up to another.
    fn shards(sent: u64, taken: u64) -> [LivePeers; 2] {
        [(vec![peer(1, sent, 0)], false), (vec![peer(0, 0, taken)], false)]
    }

    #[test]
    fn a_credit_that_nobody_takes_in_for_a_minute_is_stuck() {
        let mut waiting = Waiting::default();
        assert_eq!(waiting.observe(&shards(9, 7), 1_000), []);
        assert_eq!(waiting.observe(&shards(9, 7), 1_000 + MINUTE - 1), []);
        let found = waiting.observe(&shards(12, 7), 1_000 + MINUTE);
        let [(shard, difference)] = &found[..] else { panic!("{found:?}") };
        assert_eq!((*shard, &*difference.account, difference.figure), (ShardIndex(1), "(shard 0)", "arrived"));
        assert_eq!((difference.live, difference.journal), (7, 12));
        assert_eq!(waiting.observe(&shards(12, 12), 2_000 + MINUTE), [], "it has arrived");
    }

    #[test]
    fn who_goes_on_is_not_stuck_however_far_it_is_behind() {
        let mut waiting = Waiting::default();
        for round in 0..10 {
            let found = waiting.observe(&shards(1_000_000, round), 1_000 + round * 10 * MINUTE);
            assert_eq!(found, [], "round {round}");
        }
    }

    #[test]
    fn a_reason_to_wait_is_not_counted() {
        for reason in 0..2 {
            let mut waiting = Waiting::default();
            let mut known = shards(9, 7);
            known[reason].1 = true;
            assert_eq!(waiting.observe(&shards(9, 7), 0), []);
            assert_eq!(waiting.observe(&known, MINUTE), []);
            assert_eq!(waiting.observe(&shards(9, 7), 2 * MINUTE), [], "the minute begins again");
            assert_eq!(waiting.observe(&shards(9, 7), 3 * MINUTE).len(), 1);
        }
    }
}
