//! Bids that were made, what became of them, and what a notice may be answered.

use tidegate_machines::TimeMs;
use tidegate_pacer::machine::{Command, LossOutcome, Outcome, WinOutcome};
use tidegate_pacer::token::Bid;
use tidegate_pacer::units::PriceMicros;

use super::{DEADLINE_MS, World};

/// A bid that was made, as its token says, and what its notices were answered.
pub struct Made {
    pub bid: Bid,
    pub campaign: usize,
    /// When the money was leased.
    pub leased: TimeMs,
    pub fate: Fate,
    /// What its win has cost.
    pub paid: u64,
    /// A restore has taken back what was known of it. Its money may be gone: the ledger has settled its lease.
    pub is_restored: bool,
}

/// What became of a bid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Unknown,
    Won,
    Lost,
    /// Its lease was opened on a timeline that a restore has ended.
    Foreign,
}

/// What a notice is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    Taken,
    Duplicate,
    Contrary,
    Late,
    Unfunded,
}

impl From<WinOutcome> for Said {
    fn from(outcome: WinOutcome) -> Said {
        match outcome {
            WinOutcome::Taken => Said::Taken,
            WinOutcome::Duplicate => Said::Duplicate,
            WinOutcome::Lost => Said::Contrary,
            WinOutcome::Late => Said::Late,
            WinOutcome::Unfunded => Said::Unfunded,
        }
    }
}

impl From<LossOutcome> for Said {
    fn from(outcome: LossOutcome) -> Said {
        match outcome {
            LossOutcome::Taken => Said::Taken,
            LossOutcome::Duplicate => Said::Duplicate,
            LossOutcome::Won => Said::Contrary,
            LossOutcome::Late => Said::Late,
            LossOutcome::Unfunded => Said::Unfunded,
        }
    }
}

impl Made {
    /// Whether its win still counts, if nothing is known of it.
    pub fn is_in_time(&self, now: u64) -> bool {
        now - self.bid.at.0 <= DEADLINE_MS
    }

    /// Tells a shard that it was won at a price or lost, perhaps twice in one command.
    pub fn tell(&self, world: &World, win: Option<PriceMicros>, times: usize) -> Vec<Said> {
        let command = match win {
            Some(price) => Command::Win { wins: vec![self.bid.won(price, TimeMs(world.now.get())); times] },
            None => Command::Lose { bids: vec![self.bid; times] },
        };
        match world.decide(self.bid.lease.shard(), &command) {
            Outcome::Won(won) => won.into_iter().map(Said::from).collect(),
            Outcome::Lost(lost) => lost.into_iter().map(Said::from).collect(),
            other => panic!("it was judged: {other:?}"),
        }
    }

    /// Whether it may be answered so, for what was answered before.
    pub fn check(&self, is_win: bool, said: Said, now: u64) -> Result<(), String> {
        let is_in_time = self.is_in_time(now);
        let expected = match (self.fate, is_win) {
            (Fate::Unknown, true) if !is_in_time => Said::Late,
            (Fate::Unknown, _) => Said::Taken,
            (Fate::Won, true) | (Fate::Lost, false) => Said::Duplicate,
            (Fate::Won, false) | (Fate::Lost, true) => Said::Contrary,
            // As of a lease that is not known, or as of another lease of the same number.
            (Fate::Foreign, _) if said == Said::Late => Said::Late,
            (Fate::Foreign, _) => Said::Unfunded,
        };
        if said == expected || said == Said::Late && !is_in_time {
            return Ok(());
        }
        let (bid, age) = (&self.bid, now - self.bid.at.0);
        let notice = if is_win { "win" } else { "loss" };
        Err(format!("a {notice} of bid {bid:?} is {said:?} after {age} ms, and the bid is {:?} before", self.fate))
    }
}

/// Bids whose wins count now.
pub fn may_win(made: &[Made], now: u64) -> impl Iterator<Item = &Made> {
    let in_time = made.iter().rev().take_while(move |bid| bid.is_in_time(now));
    in_time.filter(|bid| bid.fate == Fate::Unknown)
}
