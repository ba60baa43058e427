//! Money between shards.

use tidegate_machines::ledger::{Command, InboundCredit, Label};
use tidegate_machines::{OutboundNumber, RecordPosition, ShardIndex, TimeMs};

/// A credit on its way from the shard that decided to the shard of the credited account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credit {
    /// Its number between these two shards.
    pub number: OutboundNumber,
    /// Whether it comes from the post of a hold.
    pub posted: bool,
    /// Transfer or hold id.
    pub id: Box<str>,
    /// Account that was debited.
    pub debit: Box<str>,
    /// Account to credit.
    pub credit: Box<str>,
    /// Memo, empty for none.
    pub memo: Box<str>,
    /// Code; 0 for none.
    pub code: u32,
    /// User data, empty for none.
    pub user_data: Box<str>,
    /// Minor units.
    pub amount: u64,
    /// Record of the debit in its shard's journal.
    pub debit_position: RecordPosition,
    /// When the debit was decided.
    pub time_ms: u64,
}

impl Credit {
    /// The command that applies it on the shard of the credited account.
    pub(crate) fn command(&self, from: ShardIndex) -> Command<'_> {
        Command::ReceiveCredit(InboundCredit {
            from,
            number: self.number,
            posted: self.posted,
            id: &self.id,
            debit: &self.debit,
            credit: &self.credit,
            memo: &self.memo,
            label: Label { code: self.code, user_data: &self.user_data },
            amount: self.amount,
            debit_position: self.debit_position,
            decided_at: TimeMs(self.time_ms),
        })
    }
}
