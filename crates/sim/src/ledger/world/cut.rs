//! Checks that hold at any moment, on what the shards have in memory: a consistent cut needs no pause.

use std::collections::BTreeMap;

use tidegate_machines::OutboundNumber;
use tidegate_machines::ShardIndex;

use super::LedgerWorld;
use crate::harness::Store;
use crate::ledger::node::Node;
use crate::violation::{Violation, must};

impl<S: Store> LedgerWorld<S> {
    /// Every shard is balanced by itself, and what one has sent and another not yet taken in is on its way.
    pub(super) fn check_cut(&mut self) -> Result<(), Violation> {
        let Some(node) = &self.node else { return Ok(()) };
        for shard in 0..self.load.plan.shards {
            check_shard(node, shard)?;
            for other in (0..self.load.plan.shards).filter(|other| *other != shard) {
                check_between(node, shard, other)?;
            }
        }
        Ok(())
    }
}

fn check_shard<S: Store>(node: &Node<S>, shard: u16) -> Result<(), Violation> {
    let ledger = node.shard(shard).state_ahead();
    for totals in ledger.totals() {
        must(totals.imbalance() == 0, "conservation per asset at every cut", || format!("shard {shard}: {totals:?}"))?;
    }
    for view in ledger.figures(0, u32::MAX) {
        let sound =
            view.kind != tidegate_machines::ledger::AccountKind::Wallet || (view.balance >= 0 && view.available() >= 0);
        must(sound, "no wallet below zero or below what is held", || format!("shard {shard}: {view:?}"))?;
    }
    Ok(())
}

fn check_between<S: Store>(node: &Node<S>, from: u16, to: u16) -> Result<(), Violation> {
    let (sender, receiver) = (node.shard(from).state_ahead(), node.shard(to).state_ahead());
    let (last, watermark) = (sender.outbound_last(ShardIndex(to)), receiver.watermark(ShardIndex(from)));
    must(watermark <= last, "no credit is applied that was not sent", || {
        format!("shard {to} applied credit {} of shard {from}, which sent {}", watermark.0, last.0)
    })?;
    let mut on_their_way: BTreeMap<Box<str>, u128> = BTreeMap::new();
    for outbound in sender.outbound(ShardIndex(to), OutboundNumber(watermark.0), usize::MAX) {
        let account = sender.account_at(outbound.slot).expect("a credit goes to a known account");
        *on_their_way.entry(account.asset).or_default() += u128::from(outbound.amount.get());
    }
    let received: BTreeMap<Box<str>, u128> =
        receiver.totals().into_iter().map(|totals| (totals.asset, sum(&totals.received, from))).collect();
    for totals in sender.totals() {
        let (sent, got) = (sum(&totals.sent, to), received.get(&totals.asset).copied().unwrap_or(0));
        let between = on_their_way.get(&totals.asset).copied().unwrap_or(0);
        must(sent == got + between, "conservation over all shards, with what is in flight", || {
            format!("{}: shard {from} sent {sent} to shard {to}, which has {got}; on the way: {between}", totals.asset)
        })?;
    }
    Ok(())
}

fn sum(sums: &[(ShardIndex, u128)], of: u16) -> u128 {
    sums.iter().filter(|(shard, _)| shard.0 == of).map(|(_, sum)| *sum).sum()
}
