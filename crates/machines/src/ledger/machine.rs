//! The ledger as a [`Machine`](crate::Machine): dispatches commands and events.

use super::codec::EventError;
use super::command::Command;
use super::event::Event;
use super::mismatch::Mismatch;
use super::outcome::Ruling;
use super::snapshot::SnapshotError;
use super::state::Ledger;
use crate::{Decision, Machine, Place, ShardIndex, Tie, TimeMs};

/// Of a [`Place`], the ledger keeps the position: histories are chains of positions. Of a mend it keeps the sequence,
/// too, which is what operators are told.
impl Machine for Ledger {
    type Command<'a> = Command<'a>;
    /// The newest journaled event about the command's transfer or hold id on this shard, found by the shard. It must be
    /// given whenever there is one, and is needed only for commands that carry such an id.
    type With<'a> = Option<&'a Event<'a>>;
    type Event<'a> = Event<'a>;
    type Outcome = Ruling;
    type Mismatch = Mismatch;
    type EventError = EventError;
    type SnapshotError = SnapshotError;

    fn new(shard: ShardIndex, shards: u16) -> Ledger {
        Ledger::new(shard, shards)
    }

    /// Decides at `now`, or at the time of the newest event if the clock went back.
    ///
    /// Panics on what only a bug can ask: a debit that does not live here, a prior of another id, an open hold without
    /// its prior.
    #[inline]
    fn decide<'a>(
        &self,
        command: &Self::Command<'a>,
        prior: Self::With<'a>,
        now: TimeMs,
    ) -> Decision<Self::Event<'a>, Ruling> {
        let now = self.time_of(now);
        match *command {
            Command::Transfer { ref transfer, credit_missing, guess } => {
                self.decide_transfer(transfer, (credit_missing, guess), prior, now)
            }
            Command::PlaceHold { ref hold, credit_missing, open_holds_max } => {
                self.decide_place(hold, credit_missing, open_holds_max, prior, now)
            }
            Command::PostHold { id, amount } => self.decide_post(id, amount, prior, now),
            Command::VoidHold { id } => self.decide_void(id, prior, now),
            Command::ExpireHold { id } => self.decide_expire(id, prior, now),
            Command::ClaimId { id, owner, digest } => self.decide_claim(id, owner, digest, prior, now),
            Command::OpenAccount { id, asset, kind } => self.decide_open(id, asset, kind, now),
            Command::AdoptAccount { id, asset, kind, home } => self.decide_adopt(id, asset, kind, home, now),
            Command::ChangeAccount { id, ref change, is_settled } => self.decide_change(id, change, is_settled, now),
            Command::AdoptChange { id, revision, rules } => self.decide_adopt_change(id, revision, rules, now),
            Command::DeclareAsset { asset, decimals } => self.decide_declare(asset, decimals, now),
            Command::ReceiveCredit(ref credit) => self.decide_receive(credit, now),
            Command::ConfirmCredits { to, number } => self.decide_confirm(to, number, now),
        }
    }

    #[inline]
    fn apply(&mut self, event: &Self::Event<'_>, at: Place) {
        if let Err(wrong) = self.fold(event, at) {
            panic!("{}", self.mismatch(wrong, event, at.position));
        }
        self.drift(event);
    }

    /// Slots, previous records, balances, numbers and rules are compared with the state.
    #[inline]
    fn apply_checked(&mut self, event: &Self::Event<'_>, at: Place) -> Result<(), Mismatch> {
        self.fold(event, at).map_err(|wrong| self.mismatch(wrong, event, at.position))
    }

    #[inline]
    fn encode(event: &Self::Event<'_>, into: &mut Vec<u8>) {
        event.encode(into);
    }

    #[inline]
    fn expect(&self, event: &Event<'_>) {
        event.touched().into_iter().flatten().for_each(|slot| self.accounts.expect(slot));
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Result<Event<'_>, EventError> {
        Event::decode(bytes)
    }

    fn decided_at(event: &Event<'_>) -> Option<TimeMs> {
        Some(event.time())
    }

    fn mended_from(event: &Event<'_>) -> Option<TimeMs> {
        match event {
            Event::TimeMended { was, .. } => Some(*was),
            _ => None,
        }
    }

    fn ties(event: &Event<'_>, shard: ShardIndex, each: &mut dyn FnMut(Tie)) {
        super::ties::ties(event, shard, each);
    }

    fn time(&self) -> TimeMs {
        Ledger::time(self)
    }

    fn over_at(&self, time: TimeMs, each: &mut dyn FnMut(&'static str, u64)) {
        let over = self.holds.by_expiry_after(None).take_while(|hold| hold.expires_at <= time).count();
        if over > 0 {
            each("open holds", over as u64);
        }
    }

    fn next_due(&self) -> Option<TimeMs> {
        self.next_expiry()
    }

    fn write_snapshot(&self, part: &mut dyn FnMut(&[u8])) {
        Ledger::write_snapshot(self, part);
    }

    fn read_snapshot(body: &[u8]) -> Result<Ledger, SnapshotError> {
        Ledger::decode_snapshot(body)
    }

    fn assert_sound(&self) {
        self.assert_all_sound();
    }
}
