//! A shard without disk: a ledger, its records in memory, and the newest record of each id.

use std::collections::HashMap;

use crate::ledger::{Command, Decision, Event, HistoryRow, Ledger, Outcome, Transfer};
use crate::{OutboundNumber, RecordPosition, ShardIndex, TimeMs};

/// What came of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    Outcome(Outcome),
    NeedAccount,
    Gap(OutboundNumber),
    Nothing,
}

#[derive(Clone)]
pub struct Node {
    pub ledger: Ledger,
    pub records: Vec<Vec<u8>>,
    latest: HashMap<String, usize>,
    pub now: u64,
}

/// Where the nth record stands: increasing, not dense, never zero.
pub fn position(nth: usize) -> RecordPosition {
    RecordPosition(1_000 + 70 * nth as u64)
}

pub fn nth(position: RecordPosition) -> usize {
    ((position.0 - 1_000) / 70) as usize
}

impl Node {
    pub fn new(shard: u16, shard_count: u16) -> Node {
        let ledger = Ledger::new(ShardIndex(shard), shard_count);
        Node { ledger, records: Vec::new(), latest: HashMap::new(), now: 1_000_000 }
    }

    pub fn prior(&self, id: &str) -> Option<Event<'_>> {
        self.latest.get(id).map(|&nth| Event::decode(&self.records[nth]).expect("was encoded"))
    }

    /// Decides, twice to see that it is the same, and appends.
    pub fn ask(&mut self, command: Command<'_>) -> Answered {
        let id = match command {
            Command::Transfer { transfer, .. } => transfer.id,
            Command::PlaceHold { hold, .. } => hold.id,
            Command::PostHold { id, .. }
            | Command::VoidHold { id }
            | Command::ExpireHold { id }
            | Command::ClaimId { id, .. } => id,
            _ => "",
        };
        let prior_record = self.latest.get(id).map(|&nth| self.records[nth].clone());
        let prior = prior_record.as_deref().map(|record| Event::decode(record).expect("was encoded"));
        let decision = self.ledger.decide(&command, prior.as_ref(), TimeMs(self.now));
        assert_eq!(decision, self.ledger.decide(&command, prior.as_ref(), TimeMs(self.now)), "decide is a function");
        match decision {
            Decision::Append { event, outcome } => {
                self.append(&event);
                Answered::Outcome(outcome)
            }
            Decision::Answer(outcome) => Answered::Outcome(outcome),
            Decision::NeedAccount => Answered::NeedAccount,
            Decision::Gap { expected } => Answered::Gap(expected),
            Decision::Nothing => Answered::Nothing,
        }
    }

    pub fn outcome(&mut self, command: Command<'_>) -> Outcome {
        match self.ask(command) {
            Answered::Outcome(outcome) => outcome,
            other => panic!("{command:?} came to {other:?}"),
        }
    }

    fn append(&mut self, event: &Event<'_>) {
        let mut record = Vec::new();
        event.encode(&mut record);
        let decoded = Event::decode(&record).expect("encoded just now");
        assert_eq!(decoded, *event);
        let nth = self.records.len();
        if let Some(id) = event.id() {
            self.latest.insert(id.into(), nth);
        }
        self.ledger.apply(event, position(nth));
        self.records.push(record);
    }

    /// All or nothing, as a shard does it. Ids are new.
    pub fn linked(&mut self, transfers: &[Transfer<'_>]) -> Vec<Outcome> {
        let now = TimeMs(self.now);
        let Err((culprit, refusal)) = self.ledger.check_linked(transfers.iter().copied(), now) else {
            let command = |transfer| Command::Transfer { transfer, credit_missing: true };
            return transfers.iter().map(|transfer| self.outcome(command(*transfer))).collect();
        };
        let mut outcomes = Vec::new();
        for (index, transfer) in transfers.iter().enumerate() {
            let refusal = if index == culprit { refusal } else { crate::ledger::Refusal::LinkedFailed };
            if let Some(event) = self.ledger.decide_refused(transfer, refusal, now) {
                self.append(&event);
            }
            outcomes.push(Outcome::Refused(refusal));
        }
        outcomes
    }

    /// The fold of all records from the first, checked as records from outside are.
    pub fn replay(&self) -> Ledger {
        let mut ledger = Ledger::new(self.ledger.shard(), self.ledger.shard_count());
        for (nth, record) in self.records.iter().enumerate() {
            let event = Event::decode(record).expect("was encoded");
            ledger.apply_checked(&event, position(nth)).expect("was applied");
        }
        ledger
    }

    /// An account's rows, newest first.
    pub fn history(&self, account: &str) -> Vec<HistoryRow> {
        let mut rows = Vec::new();
        let mut at = self.ledger.last_position(account).expect("an account");
        while at != RecordPosition::NONE {
            let event = Event::decode(&self.records[nth(at)]).expect("was encoded");
            let (row, previous) = self.ledger.history_row(account, &event).expect("a row of this account");
            assert!(previous < at, "the chain goes back");
            rows.push(row);
            at = previous;
        }
        rows
    }
}

pub fn snapshot(ledger: &Ledger) -> Vec<u8> {
    let mut bytes = Vec::new();
    ledger.write_snapshot(&mut |chunk| bytes.extend_from_slice(chunk));
    bytes
}
