//! The first of two shards, driven alone: what it asks of the other and says to it, and when.

use tidegate_machines::{OutboundNumber, RecordPosition};
use tidegate_shard::Durable;

use super::*;
use crate::limits::{DAMAGE_RETRY_MS, PULL_RETRY_MS};
use crate::operation::{AccountFact, Answer, Credit, Operation, Selection};
use crate::service::{Note, Output};

const HERE: ShardIndex = ShardIndex(0);
const THERE: ShardIndex = ShardIndex(1);
const NOTHING: [u64; 0] = [];

/// A shard and what the test does in place of its owner and of the other shard.
struct Alone {
    disk: FakeDisk,
    shard: TestShard,
    now: TimeMs,
}

impl Alone {
    fn open() -> Alone {
        let disk = FakeDisk::new(1);
        logs(&disk).create(log_id(0)).expect("the disk is new");
        let (shard, _) = open_shard(&disk, 0, 2, COLD);
        Alone { disk, shard, now: START }
    }

    /// One step of the shard, and all that its journal then does.
    fn step(&mut self) {
        self.shard.step(self.now);
        while self.shard.log_mut().step().is_ok_and(|step| step != tidegate_journal::step::Step::Idle) {}
    }

    /// Steps until nothing more happens, and returns what left meanwhile.
    fn settle(&mut self) -> Vec<(Ticket, Output)> {
        let mut left = Vec::new();
        for _ in 0..16 {
            self.step();
            while let Some((ticket, released)) = self.shard.released() {
                left.push((ticket, released.map(Durable::into_inner).expect("the shard works")));
            }
        }
        left
    }

    fn call(&mut self, operation: Operation) {
        self.shard.call(Ticket::Call { from: Address::new(7, 0), ticket: 1 }, operation);
    }

    fn answer(&mut self, operation: Operation) -> Answer {
        self.call(operation);
        let answered = self.settle().into_iter().find_map(|(_, output)| match output {
            Output::Answer(answer) => Some(answer),
            _ => None,
        });
        answered.expect("it is answered")
    }

    /// Opens a source here and debits it for an account of the other shard, so many times.
    fn owing(&mut self, credits: usize) {
        let (source, there) = (on(HERE, "source"), on(THERE, "wallet"));
        let open =
            Operation::OpenAccount { id: source.as_str().into(), asset: "credit".into(), kind: AccountKind::Source };
        assert!(matches!(self.answer(open), Answer::Opened { created: true, .. }));
        let items: Vec<_> = (0..credits).map(|n| (format!("t{n}"), source.clone(), there.clone())).collect();
        let Request::Transfers { batch, .. } = transfers(&items) else { unreachable!() };
        let facts =
            vec![AccountFact { id: there.as_str().into(), found: Some(("credit".into(), AccountKind::Wallet)) }];
        let selection = Selection::All;
        let batch = batch.into();
        let asked = Operation::Transfers { batch, selection, linked: false, failed: false, facts };
        let outcomes = vec![Outcome::Applied; credits];
        assert_eq!(self.answer(asked), Answer::Outcomes { outcomes, need_credit: Vec::new() });
    }

    /// Reads that the shard began and that were not done yet.
    fn jobs(&mut self) -> Vec<(JobId, Job<FakeDisk>)> {
        std::iter::from_fn(|| self.shard.take_job()).collect()
    }

    fn run(&mut self, jobs: Vec<(JobId, Job<FakeDisk>)>) {
        for (id, job) in jobs {
            let reader = logs(&self.disk).reader(log_id(0)).expect("the disk works");
            self.shard.fetched(id, TestService::run(job, &reader));
        }
    }
}

/// The id of an account that lives on one of two shards.
fn on(shard: ShardIndex, name: &str) -> String {
    let mut ids = (0..).map(|number| format!("{name}-{number}"));
    ids.find(|id| shard_of(id, 2) == shard).expect("each shard is some id's home")
}

fn credit(number: u64, to: &str) -> Credit {
    Credit {
        number: OutboundNumber(number),
        posted: false,
        id: format!("credit-{number}").into(),
        debit: on(THERE, "source").into(),
        credit: to.into(),
        memo: "".into(),
        code: 0,
        user_data: "".into(),
        amount: 1,
        debit_position: RecordPosition(number),
        time_ms: START.0,
    }
}

fn pull(after: u64) -> Note {
    Note::Pull { by: THERE, after: OutboundNumber(after) }
}

/// The watermarks that left.
fn pulls(left: Vec<(Ticket, Output)>) -> Vec<u64> {
    let watermark = |(ticket, output)| match (ticket, output) {
        (Ticket::Pull { from: THERE }, Output::Watermark(number)) => Some(number.0),
        _ => None,
    };
    left.into_iter().filter_map(watermark).collect()
}

/// The numbers of the credits that left.
fn given(left: Vec<(Ticket, Output)>) -> Vec<u64> {
    let numbers = |(_, output)| match output {
        Output::Credits(credits) => credits.into_iter().map(|credit| credit.number.0).collect(),
        _ => Vec::new(),
    };
    left.into_iter().flat_map(numbers).collect()
}

#[test]
fn a_question_that_is_not_answered_is_asked_again_after_a_while_and_no_sooner() {
    let mut alone = Alone::open();
    assert_eq!(pulls(alone.settle()), [0]);
    alone.now.0 += PULL_RETRY_MS - 1;
    assert_eq!(pulls(alone.settle()), NOTHING);
    alone.now.0 += 1;
    assert_eq!(pulls(alone.settle()), [0]);
    alone.now.0 += 1;
    assert_eq!(pulls(alone.settle()), NOTHING);
}

#[test]
fn credits_are_asked_for_behind_those_that_are_durable() {
    let mut alone = Alone::open();
    let wallet = on(HERE, "wallet");
    alone.answer(Operation::OpenAccount {
        id: wallet.as_str().into(),
        asset: "credit".into(),
        kind: AccountKind::Wallet,
    });
    assert!(alone.shard.is_idle());
    let credits = vec![credit(1, &wallet), credit(2, &wallet)];
    alone.shard.note(Note::Credits { from: THERE, credits });
    assert!(!alone.shard.is_idle(), "they are to be applied");
    // Without the journal's steps nothing becomes durable.
    alone.shard.step(alone.now);
    assert!(alone.shard.released().is_none());
    assert_eq!(pulls(alone.settle()), [2]);
    assert_eq!(alone.shard.state_ahead().account(&wallet).map(|view| view.balance), Some(2));
}

#[test]
fn credits_that_are_not_the_next_ones_stop_the_shard() {
    let mut alone = Alone::open();
    alone.settle();
    let credits = vec![credit(5, &on(HERE, "wallet")), credit(6, &on(HERE, "wallet"))];
    alone.shard.note(Note::Credits { from: THERE, credits });
    alone.step();
    let stop = alone.shard.failure().map(|stop| format!("{stop:?}")).unwrap_or_default();
    assert_eq!(stop, "PeerAhead { peer: ShardIndex(1), number: 4, reached: 0 }");
}

#[test]
fn a_debit_that_is_damaged_is_read_again_after_a_while_and_no_sooner() {
    let mut alone = Alone::open();
    alone.owing(1);
    let segment =
        alone.disk.files().into_iter().map(|(path, _)| path).find(|path| path.to_string_lossy().contains("/segment-"));
    alone.disk.fail_reads_of(segment.as_deref());
    alone.shard.note(pull(0));
    alone.settle();
    let reads = alone.jobs();
    assert_eq!(reads.len(), 1, "nothing that is durable is in memory");
    alone.run(reads);
    assert_eq!(given(alone.settle()), NOTHING);
    assert_eq!((alone.shard.service().credits_stuck(), alone.jobs().len()), (1, 0));

    alone.now.0 += DAMAGE_RETRY_MS - 1;
    alone.settle();
    assert_eq!(alone.jobs().len(), 0);
    alone.disk.fail_reads_of(None);
    alone.now.0 += 1;
    alone.settle();
    let reads = alone.jobs();
    assert_eq!(reads.len(), 1);
    alone.run(reads);
    assert_eq!((given(alone.settle()), alone.shard.service().credits_stuck()), (vec![1], 0));
}

#[test]
fn what_the_other_has_applied_is_journaled_once_there_is_room() {
    let mut alone = Alone::open();
    alone.owing(3);
    let confirmed = |alone: &Alone| alone.shard.state_ahead().outbound_confirmed(THERE).0;
    alone.shard.note(pull(2));
    alone.settle();
    assert_eq!(confirmed(&alone), 2);
    let appended = alone.shard.appended();
    alone.shard.note(pull(1));
    alone.settle();
    assert_eq!((confirmed(&alone), alone.shard.appended()), (2, appended), "what is old is no news");

    alone.disk.set_capacity(alone.disk.used_bytes());
    fill(&mut alone);
    let appended = alone.shard.appended();
    alone.shard.note(pull(3));
    alone.settle();
    assert_eq!((confirmed(&alone), alone.shard.appended()), (2, appended), "it waits");
    alone.disk.set_capacity(u64::MAX);
    alone.settle();
    assert_eq!(confirmed(&alone), 3);
    assert!(alone.shard.failure().is_none());
}

/// Opens accounts until the log takes no more.
fn fill(alone: &mut Alone) {
    for n in 0..10_000 {
        let id = on(HERE, &format!("{}{n}", "x".repeat(60)));
        alone.call(Operation::OpenAccount { id: id.into(), asset: "credit".into(), kind: AccountKind::Wallet });
        alone.step();
        while let Some((_, released)) = alone.shard.released() {
            if let Err(reason) = released {
                assert_eq!(reason, Unavailable::DiskFull);
                alone.settle();
                return;
            }
        }
    }
    panic!("the disk does not get full");
}

#[test]
fn on_a_full_disk_what_is_read_is_answered_and_what_is_written_is_turned_away() {
    let mut alone = Alone::open();
    alone.owing(1);
    alone.disk.set_capacity(alone.disk.used_bytes());
    fill(&mut alone);
    let source = on(HERE, "source");
    let read = alone.answer(Operation::ReadAccount { id: source.as_str().into() });
    assert!(matches!(read, Answer::Account(Some(account)) if account.balance == -1), "it is there");
    alone.call(Operation::VoidHolds { ids: vec![Box::from("h")].into(), selection: Selection::All });
    alone.step();
    let released = alone.shard.released().expect("it is turned away at once").1;
    assert_eq!(released.map(|_| ()), Err(Unavailable::DiskFull));
}

#[test]
fn a_hold_whose_time_is_over_waits_for_room_on_the_disk() {
    let mut alone = Alone::open();
    alone.owing(1);
    let (source, wallet) = (on(HERE, "source"), on(THERE, "wallet"));
    let hold = HoldRequest {
        id: "h".into(),
        debit: source.as_str().into(),
        credit: wallet.as_str().into(),
        amount: 2,
        expires_in_ms: 1_000,
        memo: "".into(),
        code: 0,
        user_data: "".into(),
        open_holds_max: u32::MAX,
    };
    let place = Operation::PlaceHolds { holds: vec![hold].into(), selection: Selection::All, facts: Vec::new() };
    let applied = Answer::Outcomes { outcomes: vec![Outcome::Applied], need_credit: Vec::new() };
    assert_eq!(alone.answer(place), applied);
    let capacity = alone.disk.used_bytes();
    alone.disk.set_capacity(capacity);
    fill(&mut alone);
    let open = |alone: &Alone| alone.shard.state_ahead().open_holds();
    alone.now.0 += 1_000;
    for _ in 0..3 {
        alone.settle();
        let reads = alone.jobs();
        alone.run(reads);
    }
    assert!(alone.shard.failure().is_none());
    assert_eq!(open(&alone), 1);
    alone.disk.set_capacity(u64::MAX);
    for _ in 0..3 {
        alone.settle();
        let reads = alone.jobs();
        alone.run(reads);
    }
    assert_eq!(open(&alone), 0);
}

#[test]
fn the_member_that_fails_a_linked_group_gets_its_own_refusal() {
    let mut alone = Alone::open();
    let (source, wallet) = (on(HERE, "source"), on(HERE, "wallet"));
    for (id, kind) in [(&source, AccountKind::Source), (&wallet, AccountKind::Wallet)] {
        alone.answer(Operation::OpenAccount { id: id.as_str().into(), asset: "credit".into(), kind });
    }
    let linked = |alone: &mut Alone, items: &[(&str, &str, &str)]| {
        let owned = |(id, debit, credit): &(&str, &str, &str)| (id.to_string(), debit.to_string(), credit.to_string());
        let Request::Transfers { batch, .. } = transfers(&items.iter().map(owned).collect::<Vec<_>>()) else {
            unreachable!()
        };
        let (selection, facts) = (Selection::All, Vec::new());
        let asked = Operation::Transfers { batch: batch.into(), selection, linked: true, failed: false, facts };
        match alone.answer(asked) {
            Answer::Outcomes { outcomes, need_credit } if need_credit.is_empty() => {
                outcomes.into_iter().map(Outcome::as_if_new).collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        }
    };
    let [failed, short] = [Refusal::LinkedFailed, Refusal::InsufficientFunds { available: 0 }].map(Outcome::Refused);
    let pay = [("a", &*source, &*wallet), ("b", &*wallet, &*source), ("c", &*wallet, &*source)];
    assert_eq!(linked(&mut alone, &pay), [failed, failed, short]);
    let twice = [("d", &*source, &*wallet), ("d", &*source, &*wallet)];
    assert_eq!(linked(&mut alone, &twice), [failed, failed], "an id stands once");
    let fine = [("e", &*source, &*wallet), ("f", &*wallet, &*source)];
    assert_eq!(linked(&mut alone, &fine), [Outcome::Applied; 2]);
}
