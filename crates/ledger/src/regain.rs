//! What another shard knows of records that a shard has lost, and the records that say it again.
//!
//! ```text
//!   A, cut:  debits 22..57 lost   ◀── B's log: credit 22 received, id, debit, credit, amount …
//!            transferred 22, again ─▶ its id is known again, and its account has paid
//!   B, cut:  credits 22..57 lost  ◀── A's log: transferred 22 …   ─▶ credit 22 received, again
//! ```
//!
//! Promise: what can be said again keeps its id, its accounts and its number, so that a client who asks again gets the
//! first answer, and nobody pays twice. What cannot (its account is unknown to both, or has not enough) is left to a
//! booked loss ([`tidegate_machines::ledger::losses`]). An account whose opening is lost is opened again before.
//!
//! Why the other shard's log and not its state: a state has sums, and only the records have the ids.

use std::collections::{HashMap, HashSet};

use tidegate_journal::{Cursor, JournalError, LogReader, Logs};
use tidegate_machines::ledger::{
    Command, CreditStep, Event, Guess, InboundCredit, Label, Ledger, LossSide, OutboundCredit, Outcome, PeerLoss,
    Refusal, Ruling, Transfer, shard_of,
};
use tidegate_machines::{Amount, Decision, Machine, OutboundNumber, RecordPosition, ShardIndex, TimeMs};
use tidegate_planted::{Bug, is_planted};

use crate::family::LEDGER;

/// A credit between two shards that one of them has lost, as the other one's log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownCredit {
    /// The shard that has lost it.
    pub here: ShardIndex,
    /// The shard that knows it.
    pub there: ShardIndex,
    /// Whether the debit or the credit was lost.
    pub side: LossSide,
    /// Which of the credits between them.
    pub number: OutboundNumber,
    /// Whether a hold was posted (else: a transfer).
    pub posted: bool,
    /// Transfer or hold id, with its space.
    pub id: Box<str>,
    /// The debited account.
    pub debit: Box<str>,
    /// The credited account.
    pub credit: Box<str>,
    /// Unit of measure.
    pub asset: Box<str>,
    /// Minor units.
    pub amount: Amount,
    memo: Box<str>,
    code: u32,
    user_data: Box<str>,
    debit_position: RecordPosition,
    decided_at: TimeMs,
}

/// Why a credit cannot be written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unregained {
    /// As a transfer it would be refused now.
    Refused(Refusal),
    /// Its number is not the next one, or its account is unknown to both.
    OutOfPlace,
}

impl KnownCredit {
    fn of(there: &Ledger, here: ShardIndex, side: LossSide, credit: &InboundCredit<'_>) -> Option<KnownCredit> {
        // Each shard knows the asset of its own account, and both accounts have the same.
        let own = if side == LossSide::Sent { credit.credit } else { credit.debit };
        Some(KnownCredit {
            here,
            there: there.shard(),
            side,
            number: credit.number,
            posted: credit.posted,
            id: credit.id.into(),
            debit: credit.debit.into(),
            credit: credit.credit.into(),
            asset: there.account(own)?.asset,
            amount: Amount::new(credit.amount)?,
            memo: credit.memo.into(),
            code: credit.label.code,
            user_data: credit.label.user_data.into(),
            debit_position: credit.debit_position,
            decided_at: credit.decided_at,
        })
    }

    fn label(&self) -> Label<'_> {
        Label { code: self.code, user_data: &self.user_data }
    }

    fn transfer(&self) -> Transfer<'_> {
        let KnownCredit { id, debit, credit, amount, memo, .. } = self;
        let id = if is_planted(Bug::RegainedUnderOtherId) { id.get(1..).unwrap_or(id) } else { id };
        Transfer { id, debit, credit, amount: amount.get(), memo, label: self.label() }
    }

    fn inbound(&self) -> InboundCredit<'_> {
        let KnownCredit { number, posted, id, debit, credit, amount, memo, debit_position, decided_at, .. } = self;
        InboundCredit {
            from: self.there,
            number: *number,
            posted: *posted,
            id,
            debit,
            credit,
            amount: amount.get(),
            memo,
            label: self.label(),
            debit_position: *debit_position,
            decided_at: *decided_at,
        }
    }

    /// The loss that it is, if it cannot be written again.
    pub fn loss(&self) -> PeerLoss {
        let (peer, side, number) = (self.there, self.side, self.number);
        PeerLoss { peer, side, number, asset: self.asset.clone(), amount: self.amount }
    }

    /// The next event that says it again on `here`, the shard that lost it; the caller applies it, and asks again until
    /// [`KnownCredit::is_said`]. `there` knows the credited account. `placed`: the record of the hold that it posts, if
    /// that is still open here.
    pub fn again<'a>(
        &'a self,
        here: &Ledger,
        there: &Ledger,
        placed: Option<&'a Event<'a>>,
        now: TimeMs,
    ) -> Result<Event<'a>, Unregained> {
        let open = placed.filter(|placed| here.hold_of(placed, RecordPosition(0)).is_some());
        let (amount, transfer) = (Some(self.amount.get()), self.transfer());
        let decision = match (self.side, open) {
            (LossSide::Received, _) => here.decide(&Command::ReceiveCredit(self.inbound()), None, now),
            (LossSide::Sent, _) if here.account(&self.credit).is_none() => {
                let facts = there.account(&self.credit).ok_or(Unregained::OutOfPlace)?;
                let home = self.there;
                // The asset is that of the credit; the machine compares it with the account's.
                let adopt = Command::AdoptAccount { id: &self.credit, asset: &self.asset, kind: facts.kind, home };
                here.decide(&adopt, None, now)
            }
            (LossSide::Sent, Some(placed)) => {
                here.decide(&Command::PostHold { id: &self.id, amount }, Some(placed), now)
            }
            (LossSide::Sent, None) => {
                here.decide(&Command::Transfer { transfer, credit_missing: false, guess: Guess::NONE }, None, now)
            }
        };
        match decision {
            Decision::Append { event: Event::Refused { refusal, .. }, .. } => Err(Unregained::Refused(refusal)),
            Decision::Append { event, .. } if self.is_its(&event) => Ok(event),
            Decision::Answer(Ruling::Outcome(Outcome::Refused(refusal))) => Err(Unregained::Refused(refusal)),
            _ => Err(Unregained::OutOfPlace),
        }
    }

    /// Whether an event says no more than is known.
    fn is_its(&self, event: &Event<'_>) -> bool {
        match *event {
            Event::Transferred { credit, amount, .. } | Event::HoldPosted { credit, posted: amount, .. } => {
                let is_next = matches!(credit, CreditStep::Outbound { number, .. } if number == self.number);
                is_next && amount == self.amount
            }
            Event::CreditReceived { number, .. } => number == self.number,
            Event::AccountAdopted { .. } => true,
            _ => false,
        }
    }

    /// Whether the shard that lost it has it again.
    pub fn is_said(&self, here: &Ledger) -> bool {
        let knows = here.exchanged(self.there);
        let reached = if self.side == LossSide::Sent { knows.sent } else { knows.watermark };
        reached >= self.number
    }
}

/// The credits that `here` has lost and `there` knows of, in order: those with numbers behind `reached`, up to
/// `number`. Reads the whole log of `there`. Ends before the first one that is missing there, too.
pub fn known_credits<G: Logs>(
    logs: &G,
    directory: u64,
    (here, there): (&Ledger, &Ledger),
    (side, reached, number): (LossSide, OutboundNumber, OutboundNumber),
    shards: u16,
) -> Result<Vec<KnownCredit>, JournalError> {
    let mut found: HashMap<u64, KnownCredit> = HashMap::new();
    let is_lost = |of: OutboundNumber| of > reached && of <= number;
    read_all(logs, directory, there.shard(), &mut |at, event| {
        let credit = match side {
            LossSide::Sent => received(there, event).filter(|credit| credit.from == here.shard()),
            LossSide::Received => {
                sent(there, at, event, shards).filter(|(to, _)| *to == here.shard()).map(|(_, credit)| credit)
            }
        };
        let credit = credit.filter(|credit| is_lost(credit.number));
        if let Some(known) = credit.and_then(|credit| KnownCredit::of(there, here.shard(), side, &credit)) {
            found.insert(known.number.0, known);
        }
    })?;
    Ok((reached.0 + 1..=number.0).map_while(|number| found.remove(&number)).collect())
}

/// A credit that `from` has sent by this event, which stands at this place of its log, and to which shard.
pub(crate) fn sent<'a>(
    from: &'a Ledger,
    at: RecordPosition,
    event: &Event<'a>,
    shards: u16,
) -> Option<(ShardIndex, InboundCredit<'a>)> {
    let (Event::Transferred { credit: CreditStep::Outbound { slot, number }, amount, .. }
    | Event::HoldPosted { credit: CreditStep::Outbound { slot, number }, posted: amount, .. }) = *event
    else {
        return None;
    };
    let credit = from.credit_of(&OutboundCredit { number, position: at, slot, amount }, event)?;
    Some((shard_of(credit.credit, shards), credit))
}

/// What a received credit said when it came.
pub(crate) fn received<'a>(there: &'a Ledger, event: &Event<'a>) -> Option<InboundCredit<'a>> {
    let Event::CreditReceived {
        from,
        number,
        posted,
        id,
        debit,
        credit,
        amount,
        memo,
        label,
        debit_position,
        decided_at,
        ..
    } = *event
    else {
        return None;
    };
    let (credit, amount) = (there.id_at(credit.slot)?, amount.get());
    Some(InboundCredit { from, number, posted, id, debit, credit, amount, memo, label, debit_position, decided_at })
}

/// The records of holds that were placed on `here`, in its log, and are posted by some of `credits`, by id.
pub fn placed_holds<G: Logs>(
    logs: &G,
    directory: u64,
    here: &Ledger,
    credits: &[KnownCredit],
) -> Result<HashMap<Box<str>, Vec<u8>>, JournalError> {
    let wanted = |credit: &&KnownCredit| credit.posted && credit.side == LossSide::Sent;
    let wanted: HashSet<&str> = credits.iter().filter(wanted).map(|credit| &*credit.id).collect();
    let mut placed = HashMap::new();
    if !wanted.is_empty() {
        read_all(logs, directory, here.shard(), &mut |_, event| {
            if let Event::HoldPlaced { hold, .. } = event
                && wanted.contains(hold.id)
            {
                let mut record = Vec::new();
                Ledger::encode(event, &mut record);
                placed.insert(hold.id.into(), record);
            }
        })?;
    }
    Ok(placed)
}

/// All events of a shard's log, which nobody writes.
pub(crate) fn read_all<G: Logs>(
    logs: &G,
    directory: u64,
    shard: ShardIndex,
    each: &mut dyn FnMut(RecordPosition, &Event<'_>),
) -> Result<(), JournalError> {
    let log = LEDGER.log(directory, shard.0);
    let end = logs.inspect(log, Cursor::START)?.durability();
    let mut groups = logs.reader(log)?.groups(Cursor::START, &end)?;
    while let Some(group) = groups.next_group()? {
        for (_, position, record) in group.records() {
            // Whoever folded the log has judged its records.
            if let Ok(event) = Ledger::decode(record) {
                each(RecordPosition(position.0), &event);
            }
        }
    }
    Ok(())
}
