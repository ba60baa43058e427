//! How a hold ends: posted, voided or expired, once.

use tidegate_machines::ledger::{Outcome, Refusal};

use super::Stamp;
use crate::violation::{Violation, must};

/// What is asked of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Close {
    /// All, or so much.
    Post(Option<u64>),
    /// Nothing.
    Void,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// So much was moved; `None` while nobody knows how much.
    Posted(Option<u64>),
    /// Released on request.
    Voided,
    /// Released by time.
    Expired,
}

/// The end of one hold as clients know it.
#[derive(Clone, Debug, Default)]
pub(super) struct HoldEnd {
    sends: Vec<(Close, u32)>,
    fate: Option<(Fate, Stamp)>,
    applied_answers: u32,
}

impl HoldEnd {
    pub fn sent(&mut self, close: Close) {
        match self.sends.iter_mut().find(|(asked, _)| *asked == close) {
            Some((_, sends)) => *sends += 1,
            None => self.sends.push((close, 1)),
        }
    }

    pub fn fate(&self) -> Option<Fate> {
        self.fate.map(|(fate, _)| fate)
    }

    /// Whether its end was known before `stamp`.
    pub fn ended_before(&self, stamp: Stamp) -> bool {
        self.fate.is_some_and(|(_, since)| since < stamp)
    }

    /// Takes an answer about a hold of `amount`; how much was moved, when it is the first to say so.
    pub fn answered(
        &mut self,
        close: Close,
        amount: u64,
        outcome: Outcome,
        sent: Stamp,
        now: Stamp,
    ) -> Result<Option<u64>, Violation> {
        let asked = |fate: &HoldEnd| format!("{close:?} {outcome:?} {fate:?}");
        let done = match close {
            Close::Post(asked) => Fate::Posted(Some(asked.unwrap_or(amount))),
            Close::Void => Fate::Voided,
        };
        match outcome.as_if_new() {
            Outcome::RefusedBefore { .. } => unreachable!("taken as if new"),
            Outcome::Applied => {
                self.applied_answers += 1;
                let known_before = self.fate.is_some_and(|(_, since)| since < sent);
                must(self.applied_answers == 1 && !known_before, "a hold ends once", || asked(self))?;
                self.end(done, now)
            }
            Outcome::Duplicate => {
                // "All" and the whole amount are the same wish.
                let wish = |close: Close| match close {
                    Close::Post(asked) => Fate::Posted(Some(asked.unwrap_or(amount))),
                    Close::Void => Fate::Voided,
                };
                let sends: u32 =
                    self.sends.iter().filter(|(sent, _)| wish(*sent) == done).map(|(_, sends)| sends).sum();
                must(sends > 1, "nothing is done before it is asked", || asked(self))?;
                self.end(done, now)
            }
            Outcome::Refused(Refusal::HoldPosted) => {
                must(self.fate() != Some(done), "the same wish has the same answer", || asked(self))?;
                self.end(Fate::Posted(None), now)
            }
            Outcome::Refused(Refusal::HoldVoided) => {
                must(close != Close::Void, "the same wish has the same answer", || asked(self))?;
                self.end(Fate::Voided, now)
            }
            Outcome::Refused(Refusal::HoldExpired) => self.end(Fate::Expired, now),
            Outcome::Refused(Refusal::PostExceedsHold) => {
                let exceeds = matches!(close, Close::Post(Some(asked)) if asked > amount);
                must(exceeds, "a refusal has its reason", || asked(self)).map(|()| None)
            }
            Outcome::Refused(Refusal::AmountInvalid) => {
                must(close == Close::Post(Some(0)), "a refusal has its reason", || asked(self)).map(|()| None)
            }
            Outcome::Refused(_) => Err(Violation::of("a refusal has its reason", asked(self))),
        }
    }

    /// A row of history shows the end.
    pub fn witnessed(&mut self, id: &str, fate: Fate, now: Stamp) -> Result<Option<u64>, Violation> {
        self.end(fate, now)
            .map_err(|violation| Violation { detail: format!("{id}: {}", violation.detail), ..violation })
    }

    fn end(&mut self, fate: Fate, now: Stamp) -> Result<Option<u64>, Violation> {
        let agrees = match (self.fate(), fate) {
            (None, _) => true,
            (Some(Fate::Posted(known)), Fate::Posted(told)) => known.is_none() || told.is_none() || known == told,
            (Some(known), told) => known == told,
        };
        must(agrees, "a hold ends once", || format!("{fate:?} after {:?}", self.fate))?;
        let amount = |fate: Option<Fate>| match fate {
            Some(Fate::Posted(amount)) => amount,
            _ => None,
        };
        let (before, told) = (amount(self.fate()), amount(Some(fate)));
        let since = self.fate.map_or(now, |(_, since)| since);
        if before.is_none() {
            self.fate = Some((fate, since));
        }
        Ok(if before.is_none() { told } else { None })
    }
}
