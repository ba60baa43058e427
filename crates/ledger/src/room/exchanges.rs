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
use tidegate_machines::ShardIndex;
use tidegate_machines::ledger::{Exchanged, Ledger, LossSide, losses};
use tidegate_planted::{Bug, is_planted};

/// The figures of the shards that are recovered so far.
pub struct Exchanges {
    shards: u16,
    /// By shard: what it knows of each other one.
    figures: Mutex<BTreeMap<u16, Vec<Exchanged>>>,
}

impl Exchanges {
    /// For so many shards.
    pub fn of(shards: usize) -> Exchanges {
        Exchanges { shards: shards as u16, figures: Mutex::default() }
    }

    /// Takes the figures of one shard; with those of the last one, all are compared. `Err` names every loss.
    pub fn note(&self, ledger: &Ledger) -> Result<()> {
        let figures = (0..self.shards).map(|other| ledger.exchanged(ShardIndex(other))).collect();
        let mut all = self.figures.lock().expect("no recovery panicked");
        all.insert(ledger.shard().0, figures);
        if all.len() < usize::from(self.shards) {
            return Ok(());
        }
        let found = compare(&all);
        if found.is_empty() || is_planted(Bug::PeerLossNotSeen) {
            return Ok(());
        }
        Err(anyhow!(
            "{}. Nothing is served. Put back the newest segment files of the logs named; or, to go on without what is \
             lost, run `tidegate accept-loss --data DIR --reason TEXT`",
            found.join("; ")
        ))
    }
}

/// What the shards have lost, judged by each other, in words.
fn compare(all: &BTreeMap<u16, Vec<Exchanged>>) -> Vec<String> {
    let mut found = Vec::new();
    for (here, figures) in all {
        for (there, theirs) in all.iter().filter(|(there, _)| *there != here) {
            let lost = losses(figures[usize::from(*there)], theirs[usize::from(*here)]);
            found.extend(lost.map(|(side, reached, number)| in_words(*here, *there, side, reached.0, number.0)));
        }
    }
    found
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
    use tidegate_machines::OutboundNumber;

    use super::*;

    fn exchanged([sent, confirmed, watermark]: [u64; 3]) -> Exchanged {
        let [sent, confirmed, watermark] = [sent, confirmed, watermark].map(OutboundNumber);
        Exchanged { sent, confirmed, watermark }
    }

    /// Two shards, each with what it knows of the other: sent, confirmed, watermark.
    fn two(first: [u64; 3], second: [u64; 3]) -> Vec<String> {
        let none = exchanged([0, 0, 0]);
        compare(&BTreeMap::from([(0, vec![none, exchanged(first)]), (1, vec![exchanged(second), none])]))
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
