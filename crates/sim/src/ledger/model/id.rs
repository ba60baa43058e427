//! What clients know of one transfer or hold id.

use tidegate_machines::ledger::{Outcome, Refusal};

use super::Stamp;
use super::hold::{Close, Fate, HoldEnd};
use crate::ledger::ask::Content;
use crate::violation::{Violation, must};

/// The answer for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Done, once.
    Applied,
    /// Refused for what the state was.
    Refused(Refusal),
    /// The id stands for another content.
    Reused,
}

/// One content that was asked under the id.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub content: Content,
    pub sends: u32,
    /// How many of these were not as a member of a linked group.
    pub alone: u32,
    first_sent: Stamp,
    pub verdict: Option<(Verdict, Stamp)>,
    applied_answers: u32,
    refused_answers: u32,
    /// When its refusal was decided, as a later answer says.
    pub decided_at: Option<u64>,
}

/// One id as clients know it.
#[derive(Clone, Debug, Default)]
pub(super) struct IdStory {
    pub asked: Vec<Asked>,
    pub hold: HoldEnd,
}

impl IdStory {
    pub fn sent(&mut self, content: &Content, linked: bool, stamp: Stamp) {
        if !self.asked.iter().any(|asked| asked.content == *content) {
            self.asked.push(Asked {
                content: content.clone(),
                sends: 0,
                alone: 0,
                first_sent: stamp,
                verdict: None,
                applied_answers: 0,
                refused_answers: 0,
                decided_at: None,
            });
        }
        let asked = self.asked.iter_mut().find(|asked| asked.content == *content).expect("pushed when it was missing");
        asked.sends += 1;
        asked.alone += u32::from(!linked);
    }

    /// Whether the content was applied by its linked group; `None` when nobody knows, or when it may have been applied
    /// alone.
    pub fn fate_in_group(&self, content: &Content) -> Option<bool> {
        let asked = self.asked.iter().find(|asked| asked.content == *content)?;
        let (verdict, _) = asked.verdict?;
        match verdict == Verdict::Applied {
            true if asked.alone > 0 => None,
            applied => Some(applied),
        }
    }

    pub fn first_sent(&self, content: &Content) -> Option<Stamp> {
        self.asked.iter().find(|asked| asked.content == *content).map(|asked| asked.first_sent)
    }

    /// Since when the verdict on this content is known.
    pub fn known_since(&self, content: &Content) -> Option<Stamp> {
        self.asked.iter().find(|asked| asked.content == *content)?.verdict.map(|(_, since)| since)
    }

    pub fn is_settled(&self) -> bool {
        self.asked.iter().any(|asked| asked.verdict.is_some())
    }

    /// The content, if the id was only ever asked as one hold.
    pub fn only_hold(&self) -> Option<&Content> {
        match &self.asked[..] {
            [asked] if asked.content.expires_in_ms.is_some() => Some(&asked.content),
            _ => None,
        }
    }

    /// The content that is known to be applied.
    pub fn applied(&self) -> Option<&Content> {
        let is_applied = |asked: &&Asked| matches!(asked.verdict, Some((Verdict::Applied, _)));
        self.asked.iter().find(is_applied).map(|asked| &asked.content)
    }

    /// Whether this content is known to be applied.
    pub fn is_applied(&self, content: &Content) -> bool {
        self.applied() == Some(content)
    }

    /// Whether this content was ever sent outside of a linked group.
    pub fn was_sent_alone(&self, content: &Content) -> bool {
        self.asked.iter().any(|asked| asked.content == *content && asked.alone > 0)
    }

    /// Whether this content was ever sent as a member of a linked group.
    pub fn was_sent_linked(&self, content: &Content) -> bool {
        self.asked.iter().any(|asked| asked.content == *content && asked.alone < asked.sends)
    }

    /// Takes an answer; true when it is the first to say that the content is applied.
    pub fn answered(
        &mut self,
        id: &str,
        content: &Content,
        outcome: Outcome,
        sent: Stamp,
        now: Stamp,
    ) -> Result<bool, Violation> {
        let which =
            self.asked.iter().position(|asked| asked.content == *content).expect("only what was sent is answered");
        let others = self.asked.len() > 1;
        let asked = &mut self.asked[which];
        let known_before = asked.verdict.is_some_and(|(verdict, since)| verdict == Verdict::Applied && since < sent);
        let told = format!("{id} {content:?} was answered {outcome:?}, known: {:?}", asked.verdict);
        match outcome {
            Outcome::Refused(refusal) if refusal.is_journaled() => {
                asked.refused_answers += 1;
                let known_before = asked.verdict.is_some_and(|(_, since)| since < sent);
                let once = asked.refused_answers == 1 && !known_before;
                must(once, "a remembered refusal says that it is one", || told.clone())?;
            }
            Outcome::RefusedBefore { decided_at, .. } => {
                must(asked.sends > 1, "nothing is done before it is asked", || told.clone())?;
                let known = *asked.decided_at.get_or_insert(decided_at.0);
                must(known == decided_at.0, "a remembered refusal says when it was decided", || {
                    format!("{told}: {known} before")
                })?;
            }
            _ => {}
        }
        let verdict = match outcome.as_if_new() {
            Outcome::RefusedBefore { .. } => unreachable!("taken as if new"),
            Outcome::Applied => {
                asked.applied_answers += 1;
                let once = asked.applied_answers == 1 && !known_before;
                must(once, "the same id is applied once", || told.clone())?;
                Verdict::Applied
            }
            Outcome::Duplicate => {
                must(asked.sends > 1, "nothing is done before it is asked", || told.clone())?;
                Verdict::Applied
            }
            Outcome::Refused(Refusal::IdReused) => {
                must(others, "an id that was used once is not reused", || told.clone())?;
                Verdict::Reused
            }
            Outcome::Refused(refusal) => Verdict::Refused(refusal),
        };
        self.settle(id, which, verdict, now).map_err(|violation| Violation { detail: told, ..violation })
    }

    /// A row of history shows that `content` was applied.
    pub fn witnessed(&mut self, id: &str, content: &Content, now: Stamp) -> Result<bool, Violation> {
        let Some(which) = self.asked.iter().position(|asked| asked.content == *content) else {
            let asked = &self.asked;
            return Err(Violation::of("history shows what was asked", format!("{id}: {content:?}, asked: {asked:?}")));
        };
        self.settle(id, which, Verdict::Applied, now)
    }

    /// A read of the id shows that what was asked is refused, since `decided_at`. With several contents nobody can tell
    /// which one is.
    pub fn refusal_read(&mut self, id: &str, refusal: Refusal, decided_at: u64, now: Stamp) -> Result<(), Violation> {
        let verdict = Verdict::Refused(refusal);
        let is_refused = |asked: &Asked| matches!(asked.verdict, Some((Verdict::Refused(_), _)));
        let which = match self.asked.iter().position(is_refused) {
            None if self.asked.len() > 1 => {
                let told = || format!("{id} is read as {verdict:?}, known: {:?}", self.asked);
                return must(self.applied().is_none(), "the same id has the same answer", told);
            }
            which => which.unwrap_or(0),
        };
        self.settle(id, which, verdict, now)?;
        let known = *self.asked[which].decided_at.get_or_insert(decided_at);
        must(known == decided_at, "a refusal that is read says when it was decided", || {
            format!("{id}: {refusal:?} at {decided_at}, {known} before")
        })
    }

    /// Whether it was known before `sent` that a read finds the id, as a hold or as a transfer.
    pub fn was_known(&self, hold: bool, sent: Stamp) -> bool {
        self.asked.iter().any(|asked| match asked.verdict {
            Some((Verdict::Applied, since)) => since < sent && asked.content.expires_in_ms.is_some() == hold,
            // What was refused is no hold, whatever was asked.
            Some((Verdict::Refused(refusal), since)) => since < sent && refusal.is_journaled() && !hold,
            Some((Verdict::Reused, _)) | None => false,
        })
    }

    fn settle(&mut self, id: &str, which: usize, verdict: Verdict, now: Stamp) -> Result<bool, Violation> {
        let story = || format!("{id}: content {which} is {verdict:?} in {:?}", self.asked);
        if let Some((known, _)) = self.asked[which].verdict {
            must(known == verdict, "the same id has the same answer", story)?;
            return Ok(false);
        }
        if verdict != Verdict::Reused {
            let owned = self.asked.iter().any(|asked| asked.verdict.is_some_and(|(known, _)| known != Verdict::Reused));
            must(!owned, "an id stands for one content", story)?;
        }
        self.asked[which].verdict = Some((verdict, now));
        Ok(verdict == Verdict::Applied)
    }

    /// Takes the answer to a post or void; the debit account and the amount, when it is the first to say that money
    /// moved.
    pub fn closed(
        &mut self,
        id: &str,
        close: Close,
        outcome: Outcome,
        sent: Stamp,
        now: Stamp,
    ) -> Result<Option<(String, u64)>, Violation> {
        let told =
            || format!("{close:?} of {id} was answered {outcome:?}; asked {:?}, known {:?}", self.asked, self.hold);
        if outcome == Outcome::Refused(Refusal::HoldNotFound) {
            let placed = self.asked.iter().any(|asked| {
                asked.content.expires_in_ms.is_some()
                    && asked.verdict.is_some_and(|(verdict, since)| verdict == Verdict::Applied && since < sent)
            });
            return must(!placed, "no acknowledged hold is lost", told).map(|()| None);
        }
        let Some(content) = self.asked.iter().map(|asked| &asked.content).find(|c| c.expires_in_ms.is_some()).cloned()
        else {
            return Err(Violation::of("only holds are posted or voided", told()));
        };
        let amount = content.amount;
        let told = told();
        if outcome == Outcome::Refused(Refusal::HoldExpired) {
            self.check_lifetime(id, now)?;
        }
        let posted = self
            .hold
            .answered(close, amount, outcome, sent, now)
            .map_err(|violation| Violation { detail: told, ..violation })?;
        // A hold that has an end has a beginning.
        if self.hold.fate().is_some() && self.only_hold().is_some() {
            self.witnessed(id, &content, now)?;
        }
        Ok(posted.map(|posted| (content.debit, posted)))
    }

    /// A hold that expired has lived for as long as was asked, whatever the wall clock did meanwhile.
    fn check_lifetime(&self, id: &str, now: Stamp) -> Result<(), Violation> {
        let Some(content) = self.only_hold() else { return Ok(()) };
        let since = self.first_sent(content).unwrap_or_default();
        let (lived_ms, asked_ms) = (now.aged_ms - since.aged_ms, content.expires_in_ms.unwrap_or(0));
        must(lived_ms >= asked_ms, "a hold lives as long as was asked", || {
            format!("{id} expired after {lived_ms} ms of {asked_ms}")
        })
    }

    /// A row of history shows how the hold ended.
    pub fn end_witnessed(
        &mut self,
        id: &str,
        content: &Content,
        fate: Fate,
        now: Stamp,
    ) -> Result<Option<u64>, Violation> {
        if fate == Fate::Expired {
            self.check_lifetime(id, now)?;
        }
        self.witnessed(id, content, now)?;
        self.hold.witnessed(id, fate, now)
    }
}
