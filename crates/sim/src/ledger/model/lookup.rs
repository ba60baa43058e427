//! What a read of an id may show: what was asked under it, and what became of that, the same each time.
//!
//! ```text
//!   known before the question left ─▶ found, with that content and that end
//!   not known                      ─▶ what is found is known from now on: every later answer and row agrees with it
//! ```

use tidegate_machines::ledger::{HoldState, HoldView, Label, Refusal, TransferState, TransferView};

use super::hold::Fate;
use super::{Model, Sent};
use crate::ledger::ask::Content;
use crate::violation::{Violation, must};

/// The promise of the content that is read.
const AS_ASKED: &str = "what is read by its id is what was asked";

impl Model {
    /// Nothing was found under `id`, as a hold or as a transfer.
    pub(super) fn not_found(&self, id: &str, hold: bool, sent: &Sent) -> Result<(), Violation> {
        let story = self.ids.get(id);
        let was_known = story.is_some_and(|story| story.was_known(hold, sent.stamp));
        must(!was_known, "what was decided is found by its id", || format!("{id} is not found: {story:?}"))
    }

    /// What became of a transfer.
    pub(super) fn transfer_read(&mut self, id: &str, view: &TransferView) -> Result<(), Violation> {
        let told = || format!("{id} was read as {view:?}");
        must(*view.id == *id, "a read is about what was asked", told)?;
        match view.state {
            TransferState::Applied => {
                let content = Content {
                    debit: view.debit.to_string(),
                    credit: view.credit.to_string(),
                    amount: view.amount,
                    memo: view.memo.to_string(),
                    expires_in_ms: None,
                };
                self.check_read(id, &content, (view.code, &view.user_data), view.time_ms, &told)?;
                let (now, story) = (self.stamp, self.ids.get_mut(id).expect("its content was asked"));
                if story.witnessed(id, &content, now)? {
                    self.account(&content.debit).note_debit(content.amount);
                }
                Ok(())
            }
            TransferState::Refused(refusal) => self.refusal_seen(id, refusal, view.time_ms, &told),
        }
    }

    /// What was asked under `id` was refused at `time_ms`.
    pub(super) fn refusal_seen(
        &mut self,
        id: &str,
        refusal: Refusal,
        time_ms: u64,
        told: &impl Fn() -> String,
    ) -> Result<(), Violation> {
        must(refusal.is_journaled(), "a refusal has its reason", told)?;
        let (now, Some(story)) = (self.stamp, self.ids.get(id)) else {
            return Err(Violation::of(AS_ASKED, told()));
        };
        let may_be = story.asked.iter().any(|asked| {
            let (content, linked) = (&asked.content, story.was_sent_linked(&asked.content));
            self.may_refuse(content, refusal, linked, self.first_sent(id, content))
                || self.may_be_frozen(content, refusal, None)
        });
        must(may_be, "a refusal has its reason", told)?;
        let first_sent = story.asked.iter().map(|asked| self.first_sent(id, &asked.content)).min();
        self.check_decided_at(time_ms, first_sent.unwrap_or_default(), None, told)?;
        self.ids.get_mut(id).expect("found above").refusal_read(id, refusal, time_ms, now)
    }

    /// A hold and its state.
    pub(super) fn hold_read(&mut self, id: &str, view: &HoldView, sent: &Sent) -> Result<(), Violation> {
        let told = || format!("{id} was read as {view:?}");
        must(*view.id == *id, "a read is about what was asked", told)?;
        let content = Content {
            debit: view.debit.to_string(),
            credit: view.credit.to_string(),
            amount: view.amount,
            memo: view.memo.to_string(),
            expires_in_ms: Some(view.expires_in_ms),
        };
        self.check_read(id, &content, (view.code, &view.user_data), view.time_ms, &told)?;
        let (now, story) = (self.stamp, self.ids.get_mut(id).expect("its content was asked"));
        let fate = match view.state {
            HoldState::Open { expires_at_ms } => {
                let had_ended = story.hold.ended_before(sent.stamp);
                must(!had_ended, "a hold that has ended is not open again", || format!("{}: {story:?}", told()))?;
                let lives_as_asked = expires_at_ms == view.time_ms + view.expires_in_ms
                    || self.moments.may_have_moved(expires_at_ms, view.expires_in_ms);
                must(lives_as_asked, "a hold lives as long as was asked", told)?;
                return story.witnessed(id, &content, now).map(|_| ());
            }
            HoldState::Posted { amount } => Fate::Posted(Some(amount)),
            HoldState::Voided => Fate::Voided,
            HoldState::Expired => Fate::Expired,
        };
        if let Some(posted) = story.end_witnessed(id, &content, fate, now)? {
            must(posted <= content.amount, "a post moves at most what was held", told)?;
            self.account(&content.debit).note_debit(posted);
        }
        Ok(())
    }

    /// The content that is read was asked under this id, with this label, and not later than it was decided.
    pub(super) fn check_read(
        &self,
        id: &str,
        content: &Content,
        (code, user_data): (u32, &str),
        time_ms: u64,
        told: &impl Fn() -> String,
    ) -> Result<(), Violation> {
        let story = self.ids.get(id);
        let Some(first_sent) = story.and_then(|story| story.first_sent(content)) else {
            return Err(Violation::of(AS_ASKED, format!("{}, asked: {story:?}", told())));
        };
        must(content.label() == Label { code, user_data }, AS_ASKED, told)?;
        self.check_decided_at(time_ms, first_sent, None, told)
    }
}
