//! A change of an account: its home decides it, then all other shards are told before the client is answered.
//!
//! ```text
//!   home: change ─▶ others: told ─▶ reply
//!
//!   closing, with more than one shard:
//!   home: frozen ─▶ others: told; credits under way? ─▶ none: home: closed ─▶ others: told ─▶ reply
//!                                                    └▶ some: account_in_transit, and the account stays frozen
//! ```
//!
//! Why in this order: once every shard refuses new credits and none is under way, the balance of zero that the home
//! sees is the truth. A request that ends half-way has told some shards; who repeats it tells all of them again.

use tidegate_machines::ShardIndex;
use tidegate_machines::ledger::{AccountStatus, AccountView, Refusal, shard_of};

use super::stage::{Next, add_part};
use crate::message::{ChangeRequest, Reply};
use crate::operation::{Answer, Operation};

/// A change in progress.
pub(super) struct Changing {
    id: Box<str>,
    change: ChangeRequest,
    home: ShardIndex,
    shard_count: u16,
    /// The home's last answer: whether anything was changed, and how the account is now.
    answered: Option<(bool, AccountView)>,
    refused: Option<Refusal>,
    /// Whether the home was just asked, so that the others are told next.
    home_answers: bool,
    /// Other shards may still send credits: some are under way, or one does not know yet that it must not.
    is_unsettled: bool,
    /// Of a collector, the parts of the other shards.
    parts: Vec<AccountView>,
}

impl Changing {
    pub(super) fn new(id: Box<str>, change: ChangeRequest, shard_count: u16) -> Changing {
        let home = shard_of(&id, shard_count);
        Changing {
            id,
            change,
            home,
            shard_count,
            answered: None,
            refused: None,
            home_answers: true,
            is_unsettled: false,
            parts: Vec::new(),
        }
    }

    pub(super) fn begin(&self) -> Vec<(ShardIndex, Operation)> {
        self.ask_home(self.change.clone(), false)
    }

    fn ask_home(&self, change: ChangeRequest, is_settled: bool) -> Vec<(ShardIndex, Operation)> {
        vec![(self.home, Operation::ChangeAccount { id: self.id.clone(), change: Box::new(change), is_settled })]
    }

    pub(super) fn collect(&mut self, answer: Answer) {
        match answer {
            Answer::Changed { changed, account } => {
                let before = self.answered.as_ref().is_some_and(|(changed, _)| *changed);
                self.answered = Some((changed || before, account));
            }
            Answer::Adopted { under_way, is_frozen, part } => {
                self.is_unsettled |= under_way > 0 || !is_frozen;
                self.parts.extend(part.map(|part| *part));
            }
            Answer::Refused(refusal) => self.refused = Some(refusal),
            other => unreachable!("{other:?} answers another question"),
        }
    }

    pub(super) fn complete(&mut self) -> Next {
        if let Some(refusal) = self.refused {
            return Next::Reply(Reply::Refused(refusal));
        }
        let (changed, account) = self.answered.clone().expect("the home has answered");
        if self.home_answers && self.shard_count > 1 && account.settings.is_some() {
            self.home_answers = false;
            self.is_unsettled = false;
            self.parts.clear();
            return Next::Calls(self.tell_others(&account));
        }
        let closing = self.change.status == Some(AccountStatus::Closed) && account.status() != AccountStatus::Closed;
        if !closing {
            let mut account = account;
            self.parts.iter().for_each(|part| add_part(&mut account, part));
            return Next::Reply(Reply::AccountChanged { changed, account });
        }
        if self.is_unsettled {
            return Next::Reply(Reply::Refused(Refusal::AccountInTransit));
        }
        // Only the revision that the others were told is closed.
        let if_revision = account.settings.as_ref().map(|settings| settings.revision);
        self.home_answers = true;
        let close = ChangeRequest { if_revision, status: Some(AccountStatus::Closed), ..ChangeRequest::default() };
        Next::Calls(self.ask_home(close, true))
    }

    fn tell_others(&self, account: &AccountView) -> Vec<(ShardIndex, Operation)> {
        let settings = account.settings.as_ref().expect("it was looked at");
        let tell = Operation::AdoptRules {
            id: account.id.clone(),
            asset: account.asset.clone(),
            kind: account.kind,
            revision: settings.revision,
            rules: Box::new(settings.rules),
        };
        let others = (0..self.shard_count).map(ShardIndex).filter(|shard| *shard != self.home);
        others.map(|shard| (shard, tell.clone())).collect()
    }
}

#[cfg(test)]
mod tests;
