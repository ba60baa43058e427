//! Decides a command. Reads only: the same state, command, prior event and time give the same decision.
//!
//! ```text
//!   form wrong? ─▶ Answer(refused)      the same for ever, so not journaled
//!   prior event? ─▶ Answer(duplicate | the refusal of then | id_reused)
//!   rules ─▶ Append(event)              also a refusal that state gave: it is the answer for ever
//! ```

use tidegate_planted::{Bug, is_planted};

use super::AccountSlot;
use super::accounts::Guess;
use super::command::InboundCredit;
use super::event::{AccountStep, CreditStep, Event, HoldFacts};
use super::hash::{Content, ContentDigest, content_digest, shard_of};
use super::hold::OpenHold;
use super::outcome::{Outcome, Refusal, Ruling};
use super::request::{AccountKind, Hold, Transfer};
use super::rules::Verdict;
use super::state::Ledger;
use super::validity::{
    check_expiry, check_form, check_known_accounts, check_label, is_account_id, is_asset, is_known_account_id,
    is_known_asset, is_known_id, is_transfer_id,
};
use crate::{Amount, Decision, OutboundNumber, ShardIndex, TimeMs};

pub(super) type Decided<'a> = Decision<Event<'a>, Ruling>;

pub(super) const fn refused<'a>(refusal: Refusal) -> Decided<'a> {
    Decision::Answer(Ruling::Outcome(Outcome::Refused(refusal)))
}

/// A refusal of `decided_at`; `newest` is the time of the newest record.
fn remembered<'a>(refusal: Refusal, decided_at: TimeMs, newest: TimeMs) -> Decided<'a> {
    let decided_at = if is_planted(Bug::RefusalTimeForgotten) { newest } else { decided_at };
    Decision::Answer(Ruling::Outcome(Outcome::RefusedBefore { refusal, decided_at }))
}

pub(super) const DUPLICATE: Decided<'static> = Decision::Answer(Ruling::Outcome(Outcome::Duplicate));
pub(super) const APPLIED: Ruling = Ruling::Outcome(Outcome::Applied);

impl Ledger {
    #[inline]
    pub(super) fn decide_transfer<'a>(
        &self,
        transfer: &Transfer<'a>,
        (credit_missing, guess): (bool, Guess),
        prior: Option<&Event<'a>>,
        now: TimeMs,
    ) -> Decided<'a> {
        let Transfer { id, debit, credit, amount, memo, label } = *transfer;
        let form = check_form(id, prior.is_some(), debit, credit, amount, memo)
            .and_then(|amount| check_label(&label).map(|()| amount));
        let amount = match form {
            Ok(amount) => amount,
            Err(refusal) => return refused(refusal),
        };
        if let Some(prior) = prior {
            return self.repeat_transfer(transfer, prior);
        }
        let (debit, credit) = match self.weigh((debit, credit), guess, amount, credit_missing, self) {
            Verdict::Admit { debit, credit } => (debit, credit),
            verdict => return not_admitted(verdict, id, transfer.into(), now),
        };
        let debit = self.step(debit, -i128::from(amount.get()));
        let credit = self.credit_step(credit, amount);
        let event = Event::Transferred { time: now, id, debit, credit, amount, memo, label };
        Decision::Append { event, outcome: APPLIED }
    }

    #[cold]
    fn repeat_transfer<'a>(&self, transfer: &Transfer<'a>, prior: &Event<'a>) -> Decided<'a> {
        assert_eq!(prior.id(), Some(transfer.id), "the prior event is about another id");
        if let Err(refusal) = check_known_accounts(transfer.debit, transfer.credit) {
            return refused(refusal);
        }
        match *prior {
            Event::Transferred { debit, credit, amount, memo, label, .. } => {
                let same = self.is(debit.slot, transfer.debit)
                    && self.is(credit.slot(), transfer.credit)
                    && amount.get() == transfer.amount
                    && memo == transfer.memo
                    && label == transfer.label;
                if same { DUPLICATE } else { refused(Refusal::IdReused) }
            }
            Event::Refused { time, digest, refusal, .. } if digest == content_digest(transfer) => {
                remembered(refusal, time, self.time)
            }
            _ => refused(Refusal::IdReused),
        }
    }

    pub(super) fn decide_place<'a>(
        &self,
        hold: &Hold<'a>,
        credit_missing: bool,
        open_holds_max: u32,
        prior: Option<&Event<'a>>,
        now: TimeMs,
    ) -> Decided<'a> {
        let Hold { id, debit, credit, amount, expires_in_ms, memo, label } = *hold;
        let form = check_form(id, prior.is_some(), debit, credit, amount, memo)
            .and_then(|amount| check_label(&label).and_then(|()| check_expiry(expires_in_ms)).map(|()| amount));
        let amount = match form {
            Ok(amount) => amount,
            Err(refusal) => return refused(refusal),
        };
        if let Some(prior) = prior {
            return self.repeat_place(hold, prior);
        }
        let (debit, credit) = match self.weigh((debit, credit), Guess::NONE, amount, credit_missing, self) {
            Verdict::Admit { debit, .. } if self.holds.count_of(debit) >= open_holds_max => {
                return not_admitted(Verdict::Refuse(Refusal::TooManyHolds), id, hold.into(), now);
            }
            Verdict::Admit { debit, credit } => (debit, credit),
            verdict => return not_admitted(verdict, id, hold.into(), now),
        };
        Decision::Append {
            event: Event::HoldPlaced {
                time: now,
                hold: HoldFacts { id, credit, amount, expires_in_ms, memo, label },
                debit: self.step(debit, 0),
            },
            outcome: APPLIED,
        }
    }

    fn repeat_place<'a>(&self, asked: &Hold<'a>, prior: &Event<'a>) -> Decided<'a> {
        assert_eq!(prior.id(), Some(asked.id), "the prior event is about another id");
        if let Err(refusal) = check_known_accounts(asked.debit, asked.credit) {
            return refused(refusal);
        }
        match *prior {
            Event::HoldPlaced { hold, debit, .. }
            | Event::HoldPosted { hold, debit, .. }
            | Event::HoldVoided { hold, debit, .. }
            | Event::HoldExpired { hold, debit, .. } => {
                let same = self.is(debit.slot, asked.debit)
                    && self.is(hold.credit, asked.credit)
                    && hold.amount.get() == asked.amount
                    && hold.expires_in_ms == asked.expires_in_ms
                    && hold.memo == asked.memo
                    && hold.label == asked.label;
                if same { DUPLICATE } else { refused(Refusal::IdReused) }
            }
            Event::Refused { time, digest, refusal, .. } if digest == content_digest(asked) => {
                remembered(refusal, time, self.time)
            }
            _ => refused(Refusal::IdReused),
        }
    }

    pub(super) fn decide_post<'a>(
        &self,
        id: &'a str,
        amount: Option<u64>,
        prior: Option<&Event<'a>>,
        now: TimeMs,
    ) -> Decided<'a> {
        if !is_known_id(id) {
            return refused(Refusal::IdInvalid);
        }
        let asked = match amount.map(Amount::new) {
            Some(None) => return refused(Refusal::AmountInvalid),
            Some(some) => some,
            None => None,
        };
        let (open, facts) = match self.open_hold(id, prior) {
            Ok(found) => found,
            Err(Some(Event::HoldPosted { hold, posted, .. })) if *posted == asked.unwrap_or(hold.amount) => {
                return DUPLICATE;
            }
            Err(closed) => return refused(closed_hold_refusal(closed)),
        };
        if open.expires_at <= now {
            return self.expire_late(open, facts, now);
        }
        let posted = asked.unwrap_or(open.amount);
        if posted > open.amount {
            return refused(Refusal::PostExceedsHold);
        }
        if let Err(refusal) = self.check_post(open.debit, open.credit, posted) {
            return refused(refusal);
        }
        Decision::Append {
            event: Event::HoldPosted {
                time: now,
                hold: facts,
                posted,
                debit: self.step(open.debit, -i128::from(posted.get())),
                credit: self.credit_step(open.credit, posted),
            },
            outcome: APPLIED,
        }
    }

    pub(super) fn decide_void<'a>(&self, id: &'a str, prior: Option<&Event<'a>>, now: TimeMs) -> Decided<'a> {
        if !is_known_id(id) {
            return refused(Refusal::IdInvalid);
        }
        let (open, facts) = match self.open_hold(id, prior) {
            Ok(found) => found,
            Err(Some(Event::HoldVoided { .. })) => return DUPLICATE,
            Err(closed) => return refused(closed_hold_refusal(closed)),
        };
        if open.expires_at <= now {
            return self.expire_late(open, facts, now);
        }
        Decision::Append {
            event: Event::HoldVoided { time: now, hold: facts, debit: self.step(open.debit, 0) },
            outcome: APPLIED,
        }
    }

    pub(super) fn decide_expire<'a>(&self, id: &'a str, prior: Option<&Event<'a>>, now: TimeMs) -> Decided<'a> {
        match self.open_hold(id, prior) {
            Ok((open, facts)) if open.expires_at <= now => Decision::Append {
                event: Event::HoldExpired { time: now, hold: facts, debit: self.step(open.debit, 0) },
                outcome: APPLIED,
            },
            _ => Decision::Answer(Ruling::AppliedBefore),
        }
    }

    /// A post or void that came too late journals the expiry that the tick has not got to yet. So the refusal stays
    /// true even if the clock goes back after a restart.
    fn expire_late<'a>(&self, open: &OpenHold, hold: HoldFacts<'a>, now: TimeMs) -> Decided<'a> {
        assert!(open.expires_at <= now, "hold {} is not over", hold.id);
        Decision::Append {
            event: Event::HoldExpired { time: now, hold, debit: self.step(open.debit, 0) },
            outcome: Ruling::Outcome(Outcome::Refused(Refusal::HoldExpired)),
        }
    }

    /// The open hold with what its placement said, or the event that closed it (`None` when there never was one).
    fn open_hold<'s, 'p, 'a>(
        &'s self,
        id: &str,
        prior: Option<&'p Event<'a>>,
    ) -> Result<(&'s OpenHold, HoldFacts<'a>), Option<&'p Event<'a>>> {
        match (self.holds.find(id), prior) {
            (Some(open), Some(Event::HoldPlaced { hold, .. })) => {
                assert_eq!(hold.id, id, "the prior event is about another id");
                // Checked again, and in release, when it is applied.
                debug_assert_eq!(
                    (hold.credit, hold.amount, hold.expires_in_ms),
                    (open.credit, open.amount, open.expires_in_ms),
                    "hold {id} was placed otherwise"
                );
                Ok((open, *hold))
            }
            (None, closed) => Err(closed),
            (Some(_), prior) => panic!("hold {id} is open, but the newest event about it is said to be {prior:?}"),
        }
    }

    pub(super) fn decide_claim<'a>(
        &self,
        id: &'a str,
        owner: ShardIndex,
        digest: ContentDigest,
        prior: Option<&Event<'a>>,
        now: TimeMs,
    ) -> Decided<'a> {
        if !is_transfer_id(id) {
            return refused(Refusal::IdInvalid);
        }
        assert!(owner != self.shard && owner.0 < self.shard_count, "a claim of {id} for shard {owner}");
        match prior {
            None => Decision::Append { event: Event::IdClaimed { time: now, id, owner, digest }, outcome: APPLIED },
            Some(Event::IdClaimed { owner: by, digest: of, .. }) if *by == owner && *of == digest => DUPLICATE,
            Some(_) => refused(Refusal::IdReused),
        }
    }

    pub(super) fn decide_open<'a>(&self, id: &'a str, asset: &'a str, kind: AccountKind, now: TimeMs) -> Decided<'a> {
        let known = self.accounts.find(id);
        // An account of an older journal may have an id that none may have now.
        if known.is_none() && !is_account_id(id) {
            return refused(Refusal::AccountIdInvalid);
        }
        if !is_asset(asset) {
            return refused(Refusal::AssetInvalid);
        }
        if let Some(slot) = known {
            return self.repeat_open(slot, asset, kind);
        }
        let home = shard_of(id, self.shard_count);
        assert!(home == self.shard, "account {id} came to shard {}, not its home {home}", self.shard);
        let slot = AccountSlot(self.accounts.len());
        Decision::Append { event: Event::AccountOpened { time: now, slot, id, asset, kind }, outcome: APPLIED }
    }

    pub(super) fn decide_adopt<'a>(
        &self,
        id: &'a str,
        asset: &'a str,
        kind: AccountKind,
        home: ShardIndex,
        now: TimeMs,
    ) -> Decided<'a> {
        if let Some(slot) = self.accounts.find(id) {
            return self.repeat_open(slot, asset, kind);
        }
        let is_account = is_known_account_id(id) && is_known_asset(asset);
        assert!(is_account, "the home of {id:?} says that it has the asset {asset:?}");
        assert!(home != self.shard && home == shard_of(id, self.shard_count), "shard {home} is not the home of {id}");
        let slot = AccountSlot(self.accounts.len());
        Decision::Append { event: Event::AccountAdopted { time: now, slot, id, asset, kind, home }, outcome: APPLIED }
    }

    fn repeat_open<'a>(&self, slot: AccountSlot, asset: &str, kind: AccountKind) -> Decided<'a> {
        let account = self.accounts.get(slot).expect("found accounts are there");
        let same = account.kind == kind && &*self.assets.get(account.asset).name == asset;
        if same { DUPLICATE } else { refused(Refusal::AccountExists) }
    }

    pub(super) fn decide_receive<'a>(&self, credit: &InboundCredit<'a>, now: TimeMs) -> Decided<'a> {
        let InboundCredit { from, number, posted, id, debit, credit, amount, memo, label, debit_position, decided_at } =
            *credit;
        assert!(from != self.shard, "shard {from} sends itself credit {}", number.0);
        let expected = OutboundNumber(self.watermark(from).0 + 1);
        if number < expected {
            return Decision::Answer(Ruling::AppliedBefore);
        }
        if number > expected {
            return Decision::Answer(Ruling::Gap { expected });
        }
        let Some(slot) = self.accounts.find(credit) else { return refused(Refusal::CreditAccountNotFound) };
        let amount = match check_form(id, true, debit, credit, amount, memo) {
            Ok(amount) => amount,
            Err(refusal) => return refused(refusal),
        };
        Decision::Append {
            event: Event::CreditReceived {
                time: now,
                from,
                number,
                posted,
                id,
                debit,
                credit: self.step(slot, i128::from(amount.get())),
                amount,
                memo,
                label,
                debit_position,
                decided_at,
            },
            outcome: APPLIED,
        }
    }

    pub(super) fn decide_confirm<'a>(&self, to: ShardIndex, number: OutboundNumber, now: TimeMs) -> Decided<'a> {
        assert!(to != self.shard, "shard {to} confirms what it sent itself");
        let peer = self.peer(to);
        assert!(number <= peer.last(), "shard {to} confirms credit {} of {}", number.0, peer.last().0);
        if number <= peer.confirmed() {
            return Decision::Answer(Ruling::AppliedBefore);
        }
        Decision::Append { event: Event::CreditsConfirmed { time: now, to, number }, outcome: APPLIED }
    }

    /// The refusal to journal for a transfer or hold of a linked group that was not applied: its own, or
    /// [`Refusal::LinkedFailed`]. `None` when there is nothing to journal, because the refusal (or the transfer's form)
    /// is the same for ever anyway.
    pub fn decide_refused<'a>(&self, item: &Content<'a>, refusal: Refusal, now: TimeMs) -> Option<Event<'a>> {
        if !refusal.is_journaled() || item.check().is_err() {
            return None;
        }
        Some(Event::Refused { time: self.time_of(now), id: item.id(), digest: content_digest(*item), refusal })
    }

    /// The event that sets this shard's time to `time`, or to the latest that a record can carry. Open holds keep the
    /// time that is left to them. `memo` says why, in at most [`MEMO_BYTES_MAX`](super::limits::MEMO_BYTES_MAX) bytes.
    pub fn mend_time<'a>(&self, time: TimeMs, memo: &'a str) -> Event<'a> {
        Event::TimeMended { time: time.min(TimeMs::MAX), was: self.time, memo }
    }

    /// The next link of an account's history. Never overflows: a debit was weighed, and all credits together are capped
    /// by what sources may issue.
    #[inline]
    fn step(&self, slot: AccountSlot, change: i128) -> AccountStep {
        let account = self.accounts.get(slot).expect("found accounts are there");
        debug_assert!(account.is_on(self.shard), "the history of an account is where its money is");
        let after = i64::try_from(i128::from(account.balance) + change).expect("what sources issue is capped");
        AccountStep { slot, prev: account.last, after }
    }

    #[inline]
    fn credit_step(&self, slot: AccountSlot, amount: Amount) -> CreditStep {
        let account = self.accounts.get(slot).expect("found accounts are there");
        if account.is_on(self.shard) {
            CreditStep::Here(self.step(slot, i128::from(amount.get())))
        } else {
            CreditStep::Outbound { slot, number: self.peer(account.home).next() }
        }
    }

    fn is(&self, slot: AccountSlot, id: &str) -> bool {
        self.accounts.get(slot).is_some_and(|account| account.id.as_bytes() == id.as_bytes())
    }
}

#[cold]
fn not_admitted<'a>(verdict: Verdict, id: &'a str, content: Content<'a>, now: TimeMs) -> Decided<'a> {
    match verdict {
        Verdict::Refuse(refusal) => Decision::Append {
            event: Event::Refused { time: now, id, digest: content_digest(content), refusal },
            outcome: Ruling::Outcome(Outcome::Refused(refusal)),
        },
        Verdict::Invalid(refusal) => refused(refusal),
        Verdict::NeedAccount => Decision::Answer(Ruling::NeedAccount),
        Verdict::Admit { .. } => unreachable!("admitted"),
    }
}

fn closed_hold_refusal(prior: Option<&Event<'_>>) -> Refusal {
    match prior {
        Some(Event::HoldPosted { .. }) => Refusal::HoldPosted,
        Some(Event::HoldVoided { .. }) => Refusal::HoldVoided,
        Some(Event::HoldExpired { .. }) => Refusal::HoldExpired,
        _ => Refusal::HoldNotFound,
    }
}
