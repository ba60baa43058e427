//! A shard without disk: a ledger, its records in memory, and the newest record of each id.

use std::collections::HashMap;

use crate::ledger::{Command, Content, Event, Guess, HistoryRow, Ledger, Outcome, Ruling};
use crate::machine::tests as machine;
use crate::{Decision, Machine, RecordPosition, ShardIndex, TimeMs};

#[derive(Clone)]
pub struct Node {
    pub ledger: Ledger,
    pub records: Vec<Vec<u8>>,
    latest: HashMap<String, usize>,
    pub now: u64,
}

impl Node {
    pub fn new(shard: u16, shard_count: u16) -> Node {
        let ledger = Ledger::new(ShardIndex(shard), shard_count);
        Node { ledger, records: Vec::new(), latest: HashMap::new(), now: 1_000_000 }
    }

    pub fn prior(&self, id: &str) -> Option<Event<'_>> {
        self.latest.get(id).map(|&nth| Ledger::decode(&self.records[nth]).expect("was encoded"))
    }

    /// Decides and appends.
    pub fn ask(&mut self, command: Command<'_>) -> Ruling {
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
        let prior = prior_record.as_deref().map(|record| Ledger::decode(record).expect("was encoded"));
        match machine::ask(&mut self.ledger, &mut self.records, &command, prior.as_ref(), TimeMs(self.now)) {
            Decision::Append { event, outcome } => {
                assert!(matches!(outcome, Ruling::Outcome(_)), "an event answers somebody");
                assert_eq!(event.id(), Some(id).filter(|id| !id.is_empty()), "an event is about what was asked");
                assert_eq!(event.time(), self.ledger.time(), "an event is the newest");
                assert!(event.time() >= TimeMs(self.now).min(TimeMs::MAX), "and was not decided in the past");
                self.note(&event);
                outcome
            }
            Decision::Answer(ruling) => ruling,
        }
    }

    pub fn outcome(&mut self, command: Command<'_>) -> Outcome {
        match self.ask(command) {
            Ruling::Outcome(outcome) => outcome.as_if_new(),
            other => panic!("{command:?} came to {other:?}"),
        }
    }

    /// The newest record is the latest about its id.
    fn note(&mut self, event: &Event<'_>) {
        if let Some(id) = event.id() {
            self.latest.insert(id.into(), self.records.len() - 1);
        }
    }

    /// Appends an event that nobody decided here.
    pub fn append(&mut self, event: &Event<'_>) {
        machine::append(&mut self.ledger, &mut self.records, event);
        self.note(event);
    }

    /// Sets the time, as an operator does with a stopped shard.
    pub fn mend_time(&mut self, time: u64) {
        let event = self.ledger.mend_time(TimeMs(time), "the clock was wrong");
        machine::append(&mut self.ledger, &mut self.records, &event);
    }

    /// All or nothing, as a shard does it. Ids are new.
    pub fn linked(&mut self, items: &[Content<'_>]) -> Vec<Outcome> {
        self.linked_within(items, u32::MAX)
    }

    /// The same, where an account may have so many open holds.
    pub fn linked_within(&mut self, items: &[Content<'_>], open_holds_max: u32) -> Vec<Outcome> {
        let now = TimeMs(self.now);
        let Err((culprit, refusal)) = self.ledger.check_linked(items.iter().copied(), open_holds_max, now) else {
            let command = |item| match item {
                Content::Transfer(transfer) => Command::Transfer { transfer, credit_missing: true, guess: Guess::NONE },
                Content::Hold(hold) => Command::PlaceHold { hold, credit_missing: true, open_holds_max },
            };
            return items.iter().map(|item| self.outcome(command(*item))).collect();
        };
        let mut outcomes = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let refusal = if index == culprit { refusal } else { crate::ledger::Refusal::LinkedFailed };
            if let Some(event) = self.ledger.decide_refused(item, refusal, now) {
                machine::append(&mut self.ledger, &mut self.records, &event);
                self.note(&event);
            }
            outcomes.push(Outcome::Refused(refusal));
        }
        outcomes
    }

    /// The ledger of this shard before any record.
    pub fn new_ledger(&self) -> Ledger {
        Ledger::new(self.ledger.shard(), self.ledger.shard_count())
    }

    /// The fold of all records from the first, checked as records from outside are.
    pub fn replay(&self) -> Ledger {
        machine::fold(self.new_ledger(), 0, &self.records)
    }

    /// The hold that expired first.
    pub fn expired_hold(&self) -> Option<String> {
        self.ledger.expired_holds(TimeMs(self.now)).next().map(String::from)
    }

    /// What every machine promises.
    pub fn check(&self) {
        machine::check(&self.ledger, || self.new_ledger(), &self.records);
    }

    /// An account's rows, newest first.
    pub fn history(&self, account: &str) -> Vec<HistoryRow> {
        let mut rows = Vec::new();
        let mut at = self.ledger.last_position(account).expect("an account");
        while at != RecordPosition::NONE {
            let event = Ledger::decode(&self.records[machine::nth(at)]).expect("was encoded");
            let (row, previous) = self.ledger.history_row(account, &event).expect("a row of this account");
            assert!(previous < at, "the chain goes back");
            rows.push(row);
            at = previous;
        }
        rows
    }
}
