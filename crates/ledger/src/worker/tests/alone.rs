//! The first of two shards, driven alone: the test is its owner and the other shard.

use tidegate_shard::Durable;

use super::*;
use crate::operation::{AccountFact, Answer, Operation, Selection};
use crate::service::Output;

pub const HERE: ShardIndex = ShardIndex(0);
pub const THERE: ShardIndex = ShardIndex(1);

/// A shard and what the test does in place of its owner and of the other shard.
pub struct Alone {
    pub disk: FakeDisk,
    pub shard: TestShard,
    pub now: TimeMs,
}

impl Alone {
    pub fn open() -> Alone {
        Alone::with_ids(ids_options())
    }

    /// The same with an id index of these sizes.
    pub fn with_ids(ids: IdsOptions) -> Alone {
        let disk = FakeDisk::new(1);
        logs(&disk).create(log_id(0)).expect("the disk is new");
        let (shard, _) = open_shard_with(&disk, (0, 2), COLD, ids);
        Alone { disk, shard, now: START }
    }

    /// One step of the shard, and all that its journal then does.
    pub fn step(&mut self) {
        self.shard.step(self.now);
        while self.shard.log_mut().step().is_ok_and(|step| step != tidegate_journal::step::Step::Idle) {}
    }

    /// Steps until nothing more happens, and returns what left meanwhile.
    pub fn settle(&mut self) -> Vec<(Ticket, Output)> {
        let mut left = Vec::new();
        for _ in 0..16 {
            self.step();
            while let Some((ticket, released)) = self.shard.released() {
                left.push((ticket, released.map(Durable::into_inner).expect("the shard works")));
            }
        }
        left
    }

    pub fn call(&mut self, operation: Operation) {
        self.shard.call(Ticket::Call { from: Address::new(7, 0), ticket: 1, caller: Caller::SERVER }, operation);
    }

    /// The answer to a call, with all that it reads.
    pub fn answer(&mut self, operation: Operation) -> Answer {
        self.call(operation);
        for _ in 0..64 {
            let left = self.settle();
            let answered = left.into_iter().find_map(|(_, output)| match output {
                Output::Answer(answer) => Some(answer),
                _ => None,
            });
            if let Some(answer) = answered {
                return answer;
            }
            let reads = self.jobs();
            self.run(reads);
        }
        panic!("it is not answered");
    }

    /// Opens a source here and debits it for an account of the other shard, so many times.
    pub fn owing(&mut self, credits: usize) {
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
    pub fn jobs(&mut self) -> Vec<(JobId, Job<FakeDisk>)> {
        std::iter::from_fn(|| self.shard.take_job()).collect()
    }

    pub fn run(&mut self, jobs: Vec<(JobId, Job<FakeDisk>)>) {
        for (id, job) in jobs {
            let reader = logs(&self.disk).reader(log_id(0)).expect("the disk works");
            self.shard.fetched(id, TestService::run(job, &reader));
        }
    }
}

/// The id of an account that lives on one of two shards.
pub fn on(shard: ShardIndex, name: &str) -> String {
    let mut ids = (0..).map(|number| format!("{name}-{number}"));
    ids.find(|id| shard_of(id, 2) == shard).expect("each shard is some id's home")
}

/// Opens accounts until the log takes no more.
pub fn fill(alone: &mut Alone) {
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
