//! What all shards know of each other's credits, laid side by side before any of them serves.
//!
//! ```text
//!   recover-ledger-0 ─▶ figures ─┐
//!   recover-ledger-1 ─▶ figures ─┴─▶ the last one compares each pair ─▶ Err: a log has lost records
//! ```
//!
//! Why: when one of two logs was put back from an older copy, nothing in itself shows it. A credit that was confirmed
//! is never sent again, and one that was taken in is never asked for again: money would be lost without a word.

use std::collections::BTreeMap;
use std::sync::Mutex;

use anyhow::{Result, anyhow};
use tidegate_machines::ledger::{Exchanged, ExchangedSums, Ledger, LossSide, losses};
use tidegate_machines::{OutboundNumber, ShardIndex};
use tidegate_planted::{Bug, is_planted};

/// The figures of the shards that are recovered so far.
pub struct Exchanges {
    shards: u16,
    /// By shard: what it knows of each other one.
    figures: Mutex<BTreeMap<u16, Vec<Known>>>,
}

/// What a shard knows of another.
type Known = (Exchanged, ExchangedSums);

impl Exchanges {
    /// For so many shards.
    pub fn of(shards: usize) -> Exchanges {
        Exchanges { shards: shards as u16, figures: Mutex::default() }
    }

    /// Takes the figures of one shard; with those of the last one, all are compared. `Err` names every loss, and
    /// `accept_loss`, the command that lets a start go on nevertheless.
    pub fn note(&self, ledger: &Ledger, accept_loss: &str) -> Result<()> {
        let others = (0..self.shards).map(ShardIndex);
        let figures = others.map(|other| (ledger.exchanged(other), ledger.exchanged_sums(other))).collect();
        let mut all = self.figures.lock().expect("no recovery panicked");
        all.insert(ledger.shard().0, figures);
        if all.len() < usize::from(self.shards) {
            return Ok(());
        }
        let found = compare(&all);
        if is_planted(Bug::PeerLossNotSeen) {
            return Ok(());
        }
        if found.is_empty() {
            return match strangers(&all).join("; ") {
                none if none.is_empty() => Ok(()),
                found => Err(anyhow!("{found}. Nothing is served. Put back the logs of all shards from one backup")),
            };
        }
        Err(anyhow!(
            "{}. Nothing is served. Put back the newest segment files of the logs named; or, to go on without what is \
             lost, run `{accept_loss}`",
            found.join("; ")
        ))
    }
}

/// What the shards have lost, judged by each other, in words.
fn compare(all: &BTreeMap<u16, Vec<Known>>) -> Vec<String> {
    let mut found = Vec::new();
    for (here, figures) in all {
        for (there, theirs) in all.iter().filter(|(there, _)| *there != here) {
            let lost = losses(figures[usize::from(*there)].0, theirs[usize::from(*here)].0);
            found.extend(lost.map(|(side, reached, number)| in_words(*here, *there, side, reached.0, number.0)));
        }
    }
    found
}

/// Shards whose numbers fit each other and whose sums do not, in words: each log is sound, and they are of two
/// histories.
fn strangers(all: &BTreeMap<u16, Vec<Known>>) -> Vec<String> {
    let mut found = Vec::new();
    for (from, figures) in all {
        for (to, theirs) in all.iter().filter(|(to, _)| *to != from) {
            let (_, sent) = &figures[usize::from(*to)];
            let (knows, received) = &theirs[usize::from(*from)];
            found.extend(strange_sums(*from, *to, sent, (knows.watermark, received)));
        }
    }
    found
}

/// What shard `from` has sent and shard `to` has taken in up to the same credit, where that differs, in words.
pub fn strange_sums(
    from: u16,
    to: u16,
    sent: &ExchangedSums,
    (number, received): (OutboundNumber, &ExchangedSums),
) -> Vec<String> {
    let differences = sent.differences(number, received).into_iter();
    let in_words = differences.map(|(asset, sent, received)| {
        format!(
            "ledger shards {from} and {to} are of two histories: up to credit {}, shard {from} has sent {sent} {asset} \
             to shard {to}, which has taken in {received}",
            number.0
        )
    });
    in_words.collect()
}

/// What shard `here` has lost, judged by shard `there`.
pub fn in_words(here: u16, there: u16, side: LossSide, reached: u64, number: u64) -> String {
    match side {
        LossSide::Sent => format!(
            "records of ledger shard {here} are lost: shard {there} has taken in its credits up to {number}, and \
             journal/ledger-{here} has only those up to {reached}"
        ),
        LossSide::Received => format!(
            "records of ledger shard {here} are lost: it has confirmed the credits of shard {there} up to {number}, \
             and journal/ledger-{here} has taken in only those up to {reached}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchanged([sent, confirmed, watermark]: [u64; 3]) -> Exchanged {
        let [sent, confirmed, watermark] = [sent, confirmed, watermark].map(OutboundNumber);
        Exchanged { sent, confirmed, watermark }
    }

    /// Two shards, each with what it knows of the other: sent, confirmed, watermark.
    fn two(first: [u64; 3], second: [u64; 3]) -> Vec<String> {
        let known = |figures| (exchanged(figures), ExchangedSums::default());
        let none = || known([0, 0, 0]);
        compare(&BTreeMap::from([(0, vec![none(), known(first)]), (1, vec![known(second), none()])]))
    }

    #[test]
    fn each_direction_of_a_loss_is_named_with_the_shard_that_lost() {
        assert_eq!(two([57, 50, 8], [9, 7, 57]), [] as [String; 0]);
        assert_eq!(
            two([21, 21, 8], [9, 7, 57]),
            ["records of ledger shard 0 are lost: shard 1 has taken in its credits up to 57, and journal/ledger-0 \
                 has only those up to 21"]
        );
        assert_eq!(
            two([57, 57, 8], [9, 7, 21]),
            ["records of ledger shard 1 are lost: it has confirmed the credits of shard 0 up to 57, and \
              journal/ledger-1 has taken in only those up to 21"]
        );
        // Of two copies of different days, each may have lost something.
        assert_eq!(two([21, 21, 3], [9, 7, 57]).len(), 2);
    }
}
