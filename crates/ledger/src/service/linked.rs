//! Linked groups: transfers, or holds, of which all are applied, or none.
//!
//! ```text
//!   room for all in one commit group ─▶ accounts known? ─▶ ids new? ─▶ check as a whole ─┬─▶ decide all
//!                                                                                        └─▶ refuse all, with reasons
//! ```
//!
//! Promise: the whole group stands in one commit group, which a crash keeps or loses as one. All ids are looked up
//! before the first record of the group is appended, and none that is new behind it: a group that waits for a page of
//! the index in its middle would find its own beginning when it goes on.

use hashbrown::HashSet;
use tidegate_disk::Disk;
use tidegate_journal::LogStore;
use tidegate_machines::DamagedPlace;
use tidegate_machines::ledger::{Command, Content, Guess, Outcome, Refusal};
use tidegate_planted::{Bug, is_planted};
use tidegate_shard::{Room, Served};

use super::batch::SEEK_AHEAD;
use super::decide::{PAUSED, STEP_OVER, done, is_missing};
use super::records::Halt;
use super::{LedgerService, LedgerTurn, Output};
use crate::ids::IdHash;
use crate::limits::RECORD_OVERHEAD_BYTES;
use crate::operation::{AccountFact, Answer};

impl<D: Disk> LedgerService<D> {
    /// All or nothing. Bytes of all texts come with the items, and how many open holds an account may have.
    pub(super) fn serve_linked<'a, L: LogStore>(
        &mut self,
        turn: &mut LedgerTurn<'_, L>,
        items: impl ExactSizeIterator<Item = Content<'a>> + Clone,
        (text_bytes, open_holds_max): (usize, u32),
        facts: &[AccountFact],
        failed: bool,
    ) -> Result<Served<Output>, Halt> {
        if !self.adopt(turn, facts)? {
            return Ok(PAUSED);
        }
        // It is decided as one, so it begins while this step may still decide something, and ends it.
        if self.decisions_left == 0 {
            return Ok(STEP_OVER);
        }
        let count = items.len();
        match turn.room(text_bytes + count * RECORD_OVERHEAD_BYTES) {
            Room::Available => {}
            Room::DiskFull if self.unwritable.is_some() => {}
            Room::NextGroup | Room::DiskFull => return Ok(PAUSED),
            Room::TooLarge => return Ok(done(Answer::Refused(Refusal::BatchSizeInvalid))),
        }
        let need_credit: Vec<u32> = items
            .clone()
            .enumerate()
            .filter(|(_, item)| self.needs_credit(turn.state(), item.credit(), facts))
            .map(|(n, _)| n as u32)
            .collect();
        if !failed && !need_credit.is_empty() {
            let outcomes = vec![Outcome::Refused(Refusal::LinkedFailed); count];
            return Ok(done(Answer::Outcomes { outcomes, need_credit }));
        }

        // A member that was decided before, alone or in another group, keeps its answer, so the group cannot be applied
        // any more.
        let mut known = HashSet::new();
        let hashes: Vec<IdHash> = items.clone().map(|item| self.ids.hash(item.id().as_bytes())).collect();
        for (n, item) in items.clone().enumerate() {
            if let Some(ahead) = hashes.get(n + SEEK_AHEAD) {
                self.ids.prefetch(*ahead);
            }
            if self.ids.is_new(hashes[n]) {
                continue;
            }
            // Nothing is journaled for the group, so that all of it can be decided once the file is put right.
            match self.with_prior(turn, item.id(), |prior| prior.is_some()) {
                Err(Halt::Damaged(place)) => return Ok(done(self.refuse_group(count, place))),
                is_known => is_known?.then(|| known.insert(item.id())),
            };
        }
        let in_vain = failed || !known.is_empty() || has_repeated_id(items.clone());
        let culprit = match in_vain {
            true => None,
            false => match turn.state().check_linked(items.clone(), open_holds_max, turn.now()) {
                Ok(()) => return self.decide_all(turn, items.zip(hashes), facts),
                Err(culprit) => Some(culprit),
            },
        };
        // It costs as much as one that is applied, and ends the step as well.
        self.decisions_left = self.decisions_left.saturating_sub(count);
        let mut outcomes = Vec::with_capacity(count);
        for (n, item) in items.enumerate() {
            outcomes.push(match culprit {
                // It keeps its answer, which is at hand: it was found above, or stands in memory since.
                _ if known.contains(item.id()) => self.decide_one(turn, &asking(item, true), Some(item.id()))?,
                Some((index, refusal)) if index == n => self.refuse_new(turn, &item, refusal, &mut known)?,
                Some(_) if is_planted(Bug::LinkedHoldsSplit) && matches!(item, Content::Hold(_)) => {
                    self.decide_one(turn, &asking(item, is_missing(item.credit(), facts)), Some(item.id()))?
                }
                _ => self.refuse_new(turn, &item, Refusal::LinkedFailed, &mut known)?,
            });
        }
        assert!(outcomes.len() == count, "an outcome for each item asked");
        Ok(done(Answer::Outcomes { outcomes, need_credit: Vec::new() }))
    }

    fn refuse_group(&mut self, count: usize, place: &'static DamagedPlace) -> Answer {
        let refused = Outcome::Refused(Refusal::Damaged(place));
        self.count(refused);
        Answer::Outcomes { outcomes: vec![refused; count], need_credit: Vec::new() }
    }

    fn decide_all<'a, L: LogStore>(
        &mut self,
        turn: &mut LedgerTurn<'_, L>,
        items: impl ExactSizeIterator<Item = (Content<'a>, IdHash)>,
        facts: &[AccountFact],
    ) -> Result<Served<Output>, Halt> {
        let mut outcomes = Vec::with_capacity(items.len());
        for (item, hash) in items {
            outcomes.push(self.decide_new(turn, &asking(item, is_missing(item.credit(), facts)), hash)?);
        }
        Ok(done(Answer::Outcomes { outcomes, need_credit: Vec::new() }))
    }

    /// Refuses an item on whose id nothing was decided. It is known from now on if that stands in the journal.
    fn refuse_new<'a, L: LogStore>(
        &mut self,
        turn: &mut LedgerTurn<'_, L>,
        item: &Content<'a>,
        refusal: Refusal,
        known: &mut HashSet<&'a str>,
    ) -> Result<Outcome, Halt> {
        if let Err(malformed) = item.check() {
            return Ok(Outcome::Refused(malformed));
        }
        if let Some(event) = turn.state().decide_refused(item, refusal, turn.now()) {
            if self.unwritable.is_some() {
                return Err(Halt::NoRoom);
            }
            let hash = self.named(item.id()).hash;
            self.append(turn, &event, Some(hash));
            self.count(Outcome::Refused(refusal));
            known.insert(item.id());
        }
        Ok(Outcome::Refused(refusal))
    }
}

fn has_repeated_id<'a>(mut items: impl ExactSizeIterator<Item = Content<'a>>) -> bool {
    let mut seen = HashSet::with_capacity(items.len());
    !items.all(|item| seen.insert(item.id()))
}

fn asking(item: Content<'_>, credit_missing: bool) -> Command<'_> {
    match item {
        Content::Transfer(transfer) => Command::Transfer { transfer, credit_missing, guess: Guess::NONE },
        // The group was checked as a whole.
        Content::Hold(hold) => Command::PlaceHold { hold, credit_missing, open_holds_max: u32::MAX },
    }
}
