//! What a request is worth: how many things it asks, how many bytes of the journal they may take, and how many of them
//! were refused.

use tidegate_machines::ledger::Transfer;

use crate::limits::RECORD_OVERHEAD_BYTES;
use crate::message::{Reply, Request};

impl Request {
    /// Transfers, holds, posts or voids; any other request is one.
    pub fn items(&self) -> usize {
        match self {
            Request::Transfers { batch, .. } => batch.len(),
            Request::OpenAccounts(batch) => batch.len(),
            Request::PlaceHolds(holds) | Request::PlaceLinkedHolds(holds) => holds.len(),
            Request::PostHolds(posts) => posts.len(),
            Request::VoidHolds(ids) => ids.len(),
            _ => 1,
        }
    }

    /// Bytes of its records in the journal, about: zero for what only reads.
    pub fn journal_bytes(&self) -> usize {
        let texts = match self {
            // Accounts are journaled as small numbers.
            Request::Transfers { batch, .. } => {
                let texts = |item: Transfer<'_>| item.id.len() + item.memo.len() + item.label.user_data.len();
                batch.iter().map(texts).sum()
            }
            Request::PlaceHolds(holds) | Request::PlaceLinkedHolds(holds) => {
                holds.iter().map(|hold| hold.text_bytes()).sum()
            }
            Request::ChangeAccount { id, change } => id.len() + change.metadata.len(),
            Request::DeclareAsset { asset, .. } => asset.len(),
            Request::PostHolds(posts) => posts.iter().map(|(id, _)| id.len()).sum(),
            Request::VoidHolds(ids) => ids.iter().map(|id| id.len()).sum(),
            Request::OpenAccount { id, asset, .. } => id.len() + asset.len(),
            Request::OpenAccounts(batch) => batch.ids().map(str::len).sum(),
            Request::Announce(_)
            | Request::ReadAccount { .. }
            | Request::ListAccounts { .. }
            | Request::ReadHistory { .. }
            | Request::ReadBalanceAt { .. }
            | Request::StreamHistory { .. }
            | Request::ReadTransfer { .. }
            | Request::ReadHold { .. }
            | Request::ListHolds { .. }
            | Request::ListAssets
            | Request::ReadAudit => return 0,
        };
        texts + self.items() * RECORD_OVERHEAD_BYTES / 2
    }
}

impl Reply {
    /// How many items were refused.
    pub fn refusals(&self) -> usize {
        match self {
            Reply::Refused(_) => 1,
            Reply::Outcomes(outcomes) => outcomes.iter().filter(|outcome| outcome.refusal().is_some()).count(),
            _ => 0,
        }
    }

    /// Rows of histories, lists of accounts and lists of holds that were read for it: what a page has cost.
    pub fn rows_read(&self) -> usize {
        match self {
            Reply::History { rows_read, .. } | Reply::BalanceAt { rows_read, .. } => *rows_read,
            Reply::HistoryPart { rows, .. } => rows.len(),
            Reply::Accounts(accounts) => accounts.len(),
            Reply::Holds { holds, .. } => holds.len(),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests;
