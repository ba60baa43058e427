//! A worker over a fake disk, stepped by the test: its answers when a shard fails, and when a batch has more accounts
//! than a group holds.

mod alone;
mod announced;
mod audits;
mod callers;
mod claims;
mod collectors;
mod damage;
mod deciding;
mod exchange;
mod history_times;
mod ids;
mod large_audits;
mod linked;
mod losses;
mod mended;
mod reading;
mod restored;
mod settings;
mod streams;
mod told;
mod wrong_state;

use std::path::{Path, PathBuf};

use tidegate_disk::{Disk, DiskFile, FakeDisk};
use tidegate_journal::{Cursor, LogId, Logs, Notice, NoticeKind, Options, StepLog, StepLogs};
use tidegate_machines::ShardIndex;
use tidegate_machines::ledger::{AccountKind, Outcome, Refusal, Transfer, shard_of};

use super::*;
use crate::announcer::{AnnounceRules, Want};
use crate::family::LEDGER;
use crate::family::LedgerFamily;
use crate::ids::{BuilderKind, IdIndex, IdSeed, IdsOptions};
use crate::message::{HoldRequest, OpenBatch, Reply, Request, TimeSpan, TransferBatch};
use tidegate_shard::{Caller, NothingDerived, OpenShard, ReplayReport, Service, Snapshots};

const DATA: &str = "/data";
const START: TimeMs = TimeMs(1_000);
/// Small groups and segments, so that a test fills them with little.
const SMALL: Options = Options {
    allocation_step_bytes: 64 << 10,
    group_bytes_max: 16 << 10,
    record_bytes_max: 8 << 10,
    recent_bytes_max: 8 << 20,
    ..Options::small(1 << 20)
};
/// Far more than any request here takes.
const STEPS_MAX: usize = 100_000;

/// Two credits of `source` for `wallet`, for a second.
fn small_hold(id: &str) -> HoldRequest {
    HoldRequest {
        id: id.into(),
        debit: "source".into(),
        credit: "wallet".into(),
        amount: 2,
        expires_in_ms: 1_000,
        memo: "".into(),
        code: 0,
        user_data: "".into(),
        open_holds_max: u32::MAX,
    }
}

/// One worker that owns all shards of a disk.
struct TestWorker {
    disk: FakeDisk,
    worker: Worker<FakeDisk, StepLog<FakeDisk>>,
    now: TimeMs,
    /// Reads that no fetch thread does, until the test lets it; `None` when they are done at once.
    held: Option<Vec<(ShardIndex, JobId, Job<FakeDisk>)>>,
    /// What the last start said of shard 0.
    replayed: ReplayReport,
    /// Bytes that rotted, and what they are since.
    rotten: Vec<(PathBuf, u64, u8)>,
}

impl TestWorker {
    fn open(shard_count: u16) -> TestWorker {
        let disk = FakeDisk::new(1);
        for shard in 0..shard_count {
            logs(&disk).create(log_id(shard)).expect("the disk is new");
        }
        TestWorker::over(disk, shard_count)
    }

    /// What a start finds on this disk.
    fn over(disk: FakeDisk, shard_count: u16) -> TestWorker {
        TestWorker::with(disk, shard_count, SMALL)
    }

    fn with(disk: FakeDisk, shard_count: u16, options: Options) -> TestWorker {
        let opened = (0..shard_count).map(|shard| open_shard(&disk, shard, shard_count, options));
        let (shards, reports): (Vec<_>, Vec<_>) = opened.unzip();
        let me = Address::new(0, 0);
        let addresses = ShardAddresses::new((0..shard_count).map(|_| me));
        let worker = Worker::new(me, addresses, me, CursorKey([1, 2]), shards);
        let replayed = reports.into_iter().next().expect("there is a shard");
        TestWorker { disk, worker, now: START, held: None, replayed, rotten: Vec::new() }
    }

    /// One turn of the worker and of each journal.
    fn turn(&mut self, finished: &mut Finished) {
        let mut out = Outgoing::new();
        self.worker.step(self.now, &mut out, finished);
        assert!(out.is_empty(), "there is no other worker: {out:?}");
        while let Some(job) = self.worker.take_job() {
            match &mut self.held {
                Some(held) => held.push(job),
                None => self.run(job),
            }
        }
        // A failed journal says so to its shard.
        self.worker.shards_mut().iter_mut().for_each(|shard| drop(shard.log_mut().step()));
        self.keep_rotten();
    }

    /// A writer writes the last block of its log again, with the bytes that it had. What rotted stays rotten here.
    fn keep_rotten(&self) {
        for (path, at, byte) in &self.rotten {
            if self.byte(path, *at).is_some_and(|now| now != *byte) {
                assert!(self.disk.flip_bit(path, *at, 0));
            }
        }
    }

    fn byte(&self, path: &Path, at: u64) -> Option<u8> {
        self.disk.contents(path).ok()?.get(at as usize).copied()
    }

    fn run(&mut self, (shard, id, job): (ShardIndex, JobId, Job<FakeDisk>)) {
        let reader = logs(&self.disk).reader(log_id(shard.0)).expect("the disk works");
        self.worker.fetched(shard, id, TestService::run(job, &reader));
    }

    /// Starts `requests` and takes turns until nothing happens but reads that are held.
    fn begin(&mut self, requests: Vec<Request>, finished: &mut Finished) {
        let mut out = Outgoing::new();
        for (token, request) in requests.into_iter().enumerate() {
            self.worker.start(token as u64, request, &mut out, finished);
        }
        (0..64).for_each(|_| self.turn(finished));
    }

    /// The replies to `requests`, which are sent together.
    fn ask_all(&mut self, requests: Vec<Request>) -> Vec<Reply> {
        let (mut out, mut finished) = (Outgoing::new(), Finished::new());
        let count = requests.len();
        for (token, request) in requests.into_iter().enumerate() {
            self.worker.start(token as u64, request, &mut out, &mut finished);
        }
        for _ in 0..STEPS_MAX {
            if finished.len() == count {
                finished.sort_by_key(|(token, _)| *token);
                return finished.into_iter().map(|(_, reply)| reply).collect();
            }
            self.turn(&mut finished);
        }
        panic!("{} of {count} requests were answered", finished.len());
    }

    fn ask(&mut self, request: Request) -> Reply {
        self.ask_all(vec![request]).remove(0)
    }

    /// A source, a wallet, and one vote that is durable. After a start no memory knows its record: it is read from the
    /// disk.
    fn with_a_durable_vote() -> TestWorker {
        let mut node = TestWorker::open(1);
        node.ask_all(vec![open("source", AccountKind::Source), open("wallet", AccountKind::Wallet)]);
        assert_eq!(node.ask(sale("vote")), Reply::Outcomes(vec![Outcome::Applied]));
        TestWorker::over(node.disk, 1)
    }

    /// Flips a bit of the only record with this memo.
    fn rot(&mut self, memo: &str) {
        self.rot_in(DATA, memo);
    }

    /// Flips a bit of the first place below `folder` that has this text.
    fn rot_in(&mut self, folder: &str, memo: &str) {
        let found = self.disk.files().into_iter().filter(|(path, _)| path.starts_with(folder)).find_map(|(path, _)| {
            let bytes = self.disk.contents(&path).expect("it is listed");
            let at = bytes.windows(memo.len()).position(|window| window == memo.as_bytes())?;
            Some((path, at as u64))
        });
        let (path, at) = found.expect("the record is on the disk");
        assert!(self.disk.flip_bit(&path, at, 0));
        let byte = self.byte(&path, at).expect("it was found there");
        self.rotten.push((path, at, byte));
    }

    /// Puts right what rotted last.
    fn heal(&mut self) {
        let (path, at, _) = self.rotten.pop().expect("something rotted");
        assert!(self.disk.flip_bit(&path, at, 0));
    }
}

fn log_id(shard: u16) -> LogId {
    LEDGER.log(1, shard)
}

fn logs(disk: &FakeDisk) -> StepLogs<FakeDisk> {
    StepLogs::new(disk.clone(), Path::new(DATA), &[LEDGER])
}

type TestShard = LedgerShard<FakeDisk, StepLog<FakeDisk>>;
type TestService = LedgerService<FakeDisk>;

fn snapshots(disk: &FakeDisk, shard: u16) -> Snapshots<LedgerFamily, FakeDisk> {
    Snapshots::new(disk.clone(), Path::new(DATA), log_id(shard))
}

fn ids_options() -> IdsOptions {
    IdsOptions { builder: BuilderKind::Stepped, freeze_at: 1 << 12, ..IdsOptions::new(IdSeed([3, 4]), log_id(0)) }
}

fn open_shard(disk: &FakeDisk, shard: u16, shard_count: u16, options: Options) -> (TestShard, ReplayReport) {
    open_shard_with(disk, (shard, shard_count), options, ids_options())
}

fn open_shard_with(
    disk: &FakeDisk,
    (shard, shard_count): (u16, u16),
    options: Options,
    ids: IdsOptions,
) -> (TestShard, ReplayReport) {
    let open = OpenShard::open(&logs(disk), snapshots(disk, shard), options).expect("it was created");
    let folder = Path::new(DATA).join("ids").join(format!("ledger-{shard}"));
    let durable = open.recovered().durability().position();
    let ids = IdsOptions { log: log_id(shard), ..ids };
    let opened = IdIndex::open(disk.clone(), &folder, ids, durable, &mut |_, _| {});
    let mut ids = opened.expect("the index is whole").index;
    let back = open.replay(shard_count, &mut ids, |_| {}).expect("the journal is whole");
    let service = LedgerService::new(&back.state, ids, back.log.last_sequence());
    let shard = Shard::new(ShardIndex(shard), back.state, service, back.log).expect("the log goes on");
    (shard, back.report)
}

fn open(id: &str, kind: AccountKind) -> Request {
    Request::OpenAccount { id: id.into(), asset: "credit".into(), kind }
}

fn transfers(items: &[(String, String, String)]) -> Request {
    let memos: Vec<String> = items.iter().map(|(id, ..)| format!("memo of {id}")).collect();
    let all = items.iter().zip(&memos);
    let batch = all.map(|((id, debit, credit), memo)| Transfer {
        id,
        debit,
        credit,
        amount: 1,
        memo,
        label: Default::default(),
    });
    Request::Transfers { linked: false, batch: TransferBatch::copy_of(batch) }
}

fn sale(id: &str) -> Request {
    transfers(&[(id.into(), "source".into(), "wallet".into())])
}

fn history() -> Request {
    Request::ReadHistory { id: "wallet".into(), before: None, limit: 10, times: TimeSpan::ALL }
}

const FAILED: Reply = Reply::Unavailable(Unavailable::ShardFailed);

#[test]
fn all_that_wait_for_a_sync_that_fails_are_told() {
    let mut node = TestWorker::with_a_durable_vote();
    node.disk.fail_next_sync();
    assert_eq!(node.ask_all(vec![sale("a"), sale("b"), history()]), [FAILED, FAILED, FAILED]);
    assert!(node.worker.failure().is_some());
    assert!(node.worker.is_idle(), "a stop must not wait for a failed shard");
    assert_eq!(node.ask(sale("c")), FAILED);
}

#[test]
fn a_batch_that_brings_more_foreign_accounts_than_a_group_holds_is_decided() {
    const ACCOUNTS: usize = 2_000;
    let tag_of = |shard: u16| {
        let mut tags = (0..).map(|number| format!("{{{number}}}"));
        tags.find(|tag| shard_of(tag, 2) == ShardIndex(shard)).expect("each shard is some tag's home")
    };
    let (here, there) = (tag_of(0), tag_of(1));
    let source = format!("{here}source");
    let foreign: Vec<String> = (0..ACCOUNTS).map(|number| format!("{there}{number:0>100}")).collect();
    let mut node = TestWorker::open(2);
    node.ask(open(&source, AccountKind::Source));
    let opened = node.ask_all(foreign.iter().map(|id| open(id, AccountKind::Collector)).collect());
    assert!(opened.iter().all(|reply| matches!(reply, Reply::AccountOpened { created: true, .. })), "{:?}", opened[0]);

    let sale = |(number, credit): (usize, &String)| (format!("{here}sale-{number}"), source.clone(), credit.clone());
    let sales: Vec<_> = foreign.iter().enumerate().map(sale).collect();
    // The first fills the group on the way, so that the adoptions of the second meet one that is nearly full.
    let (before, batch) = sales.split_at(ACCOUNTS / 4);
    let replies = node.ask_all(vec![transfers(before), transfers(batch)]);
    let applied = |count: usize| Reply::Outcomes(vec![Outcome::Applied; count]);
    assert_eq!(replies, [applied(before.len()), applied(batch.len())]);
    assert_eq!(node.ask(transfers(batch)), Reply::Outcomes(vec![Outcome::Duplicate; batch.len()]));
}

/// Nothing that is durable stays in memory.
const COLD: Options = Options { recent_bytes_max: 0, ..SMALL };

#[test]
fn a_batch_that_waits_for_old_records_is_not_overtaken_and_each_id_is_decided_once() {
    let mut node = TestWorker::with(TestWorker::with_a_durable_vote().disk, 1, COLD);
    let old: Vec<String> = (0..40).map(|number| format!("old-{number}")).collect();
    let sell = |ids: &[&str], credit: &str| {
        let items: Vec<_> = ids.iter().map(|id| (id.to_string(), "source".into(), credit.into())).collect();
        transfers(&items)
    };
    let old: Vec<&str> = old.iter().map(String::as_str).collect();
    node.ask_all(vec![sell(&old, "wallet"), open("other", AccountKind::Wallet)]);
    let (first, second) = old.split_at(20);

    // One waits for twenty records, then brings an id that is new; one behind it waits for the others, and names the
    // same id.
    node.held = Some(Vec::new());
    let mut finished = Finished::new();
    let waits = sell(&[first, &["both"]].concat(), "wallet");
    let behind = sell(&[second, &["both"]].concat(), "other");
    node.begin(vec![waits, behind, sale("last")], &mut finished);
    assert!(finished.is_empty(), "nothing passes a call that waits: {finished:?}");
    let mut held = node.held.take().expect("reads are held");
    assert_eq!(held.len(), 2, "the one behind is prepared meanwhile, and each reads for its whole batch");
    held.reverse();
    held.into_iter().for_each(|job| node.run(job));
    node.begin(Vec::new(), &mut finished);

    finished.sort_by_key(|(token, _)| *token);
    let replies: Vec<Reply> = finished.into_iter().map(|(_, reply)| reply).collect();
    let applied_last = [vec![Outcome::Duplicate; 20], vec![Outcome::Applied]].concat();
    let reused = vec![Outcome::Refused(Refusal::IdReused); 21];
    assert_eq!(replies, [applied_last, reused, vec![Outcome::Applied]].map(Reply::Outcomes));
}

#[test]
fn a_history_on_the_disk_lets_votes_pass() {
    let mut node = TestWorker::with(TestWorker::with_a_durable_vote().disk, 1, COLD);
    node.held = Some(Vec::new());
    let mut finished = Finished::new();
    node.begin(vec![history(), sale("another")], &mut finished);
    assert_eq!(finished, [(1, Reply::Outcomes(vec![Outcome::Applied]))]);
    let held = node.held.take().expect("reads are held");
    held.into_iter().for_each(|job| node.run(job));
    node.begin(Vec::new(), &mut finished);
    let (0, Reply::History { rows, next: None, .. }) = &finished[1] else { panic!("{finished:?}") };
    assert_eq!(rows.iter().map(|row| &*row.id).collect::<Vec<_>>(), ["vote"], "as it was when it was asked");
}

#[test]
fn holds_expire_though_their_records_are_cold() {
    const HOLDS: usize = 50;
    let mut node = TestWorker::with(TestWorker::with_a_durable_vote().disk, 1, COLD);
    let hold = |number: usize| small_hold(&format!("hold-{number}"));
    let placed = node.ask(Request::PlaceHolds((0..HOLDS).map(hold).collect()));
    assert_eq!(placed, Reply::Outcomes(vec![Outcome::Applied; HOLDS]));
    let held_by = |node: &mut TestWorker| match node.ask(Request::ReadAccount { id: "source".into() }) {
        Reply::Account(account) => account.held,
        other => panic!("{other:?}"),
    };
    assert_eq!(held_by(&mut node), 2 * HOLDS as u64);
    node.now = TimeMs(START.0 + 1_000);
    node.begin(Vec::new(), &mut Finished::new());
    assert_eq!(held_by(&mut node), 0);
    assert_eq!(node.worker.shards()[0].state_ahead().open_holds(), 0);
}

#[test]
fn accounts_are_opened_in_batches_and_listed() {
    for shard_count in [1, 3] {
        let mut worker = TestWorker::open(shard_count);
        let ids: Vec<String> = (0..3_000).map(|n| format!("wallet:{n:04}")).collect();
        let open = |ids: &[String], asset: &str| {
            Request::OpenAccounts(OpenBatch::copy_of(ids.iter().map(|id| (&**id, asset, AccountKind::Wallet))))
        };
        assert_eq!(worker.ask(open(&ids, "credit")), Reply::Outcomes(vec![Outcome::Applied; 3_000]));
        let again = [ids[..2].to_vec(), vec!["wallet:new".into(), "a/b".into()]].concat();
        let expected =
            [Outcome::Duplicate, Outcome::Duplicate, Outcome::Applied, Outcome::Refused(Refusal::AccountIdInvalid)];
        assert_eq!(worker.ask(open(&again, "credit")), Reply::Outcomes(expected.to_vec()));
        let other = worker.ask(open(&ids[7..8], "euro"));
        assert_eq!(other, Reply::Outcomes(vec![Outcome::Refused(Refusal::AccountExists)]));
        assert_eq!(worker.ask(open(&[], "credit")), Reply::Refused(Refusal::BatchSizeInvalid));

        let list = Request::ListAccounts { prefix: "wallet:".into(), after: Some("wallet:2997".into()), limit: 9 };
        let Reply::Accounts(listed) = worker.ask(list) else { panic!("accounts are listed") };
        let listed: Vec<&str> = listed.iter().map(|account| &*account.id).collect();
        assert_eq!(listed, ["wallet:2998", "wallet:2999", "wallet:new"]);
    }
}

#[test]
fn a_list_right_after_a_start_is_answered() {
    let mut worker = TestWorker::open(1);
    let count = 2 * crate::limits::ACCOUNTS_SORTED_PER_STEP as usize;
    let ids: Vec<String> = (0..count).map(|n| format!("wallet:{n}")).collect();
    let open = OpenBatch::copy_of(ids.iter().map(|id| (&**id, "credit", AccountKind::Wallet)));
    assert_eq!(worker.ask(Request::OpenAccounts(open)), Reply::Outcomes(vec![Outcome::Applied; count]));
    (0..64).for_each(|_| worker.turn(&mut Finished::new()));
    // More accounts than one step sorts.
    let mut worker = TestWorker::over(worker.disk.clone(), 1);
    let answer = worker.ask(Request::ListAccounts { prefix: "".into(), after: None, limit: 1 });
    assert!(matches!(answer, Reply::Accounts(_)), "{answer:?}");
}

/// A node of two shards, each with a part of the collector, and a source on each.
fn collector_of_two_shards(collector: &str) -> (TestWorker, [String; 2]) {
    let mut node = TestWorker::open(2);
    let sources = [0, 1].map(|shard| {
        let mut ids = (0..).map(|number| format!("source:{number}"));
        ids.find(|id| shard_of(id, 2) == ShardIndex(shard)).expect("each shard is some id's home")
    });
    node.ask_all(sources.iter().map(|id| open(id, AccountKind::Source)).collect());
    node.ask(open(collector, AccountKind::Collector));
    (node, sources)
}
