//! A node with the ledger and nothing else, on its real threads and files in a folder that is gone afterwards.
//!
//! ```text
//!   test ─▶ TestNode::requests (router), calls (a shard itself) ─▶ worker ─▶ shards
//!   test ─▶ AuditLoop ─▶ Between: asks the shard, or changes its answer, or fails ─▶ worker ─▶ shards
//! ```
//!
//! Invariant: no result depends on time. What another thread does is waited for by asking for it.

mod asked;
mod between;
mod seeded;
mod served;

use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tidegate_journal::directory::{Directory, ShardCount, Wanted};
use tidegate_machines::ledger::{AccountKind, Label, Transfer, shard_of};
use tidegate_runtime::node::NodeOptions;
use tidegate_runtime::{
    Client, ClockMetrics, DirectoryMetrics, DiskMetrics, Endpoint, LoopMetrics, MemberIndex, Node, PortClockMetrics,
    RoomMetrics, ShardMetrics, SnapshotMetrics, Status, WitnessMetrics, mesh,
};
use tidegate_shard::Durable;
use tidegate_telemetry::Registry;

use super::*;
use crate::message::{AuditReport, HoldRequest, Reply, Request, TransferBatch, Unavailable};
use crate::operation::{Answer, Operation};

pub use asked::RawClient;
pub use between::{Between, How};

tidegate_runtime::parcels! {
    /// What threads of a test's node send each other.
    pub enum Parcel { Ledger(Message) }
}

/// How long a test asks for what another thread is to bring about: no sound program comes near.
const ASKED_MAX: Duration = Duration::from_secs(60);

/// A node that is served.
pub struct TestNode {
    node: Node<Parcel>,
    /// Asks shards themselves.
    pub calls: Background<Parcel, RawClient>,
    /// Asks as a door does.
    pub requests: Background<Parcel, Router>,
    /// Its metrics.
    pub registry: Registry,
    /// The journals, for readers of changes.
    pub changes: Arc<ChangeLogs<NodeReader>>,
}

/// The test's ways to the shards.
struct Ways {
    calls: Background<Parcel, RawClient>,
    between: Background<Parcel, RawClient>,
    requests: Background<Parcel, Router>,
}

/// Hands them out.
struct Visitor(Sender<Ways>);

impl Room<Parcel> for Visitor {
    fn endpoints(&self) -> u16 {
        3
    }

    fn begin(&mut self, site: &mut Site<Parcel>) -> Result<()> {
        let shards = site.placement().shards(LEDGER);
        let [calls, between] =
            [(); 2].map(|()| Background::new(site.take_endpoint(), |me| RawClient::new(me, shards.clone())));
        let endpoint = site.take_endpoint();
        let requests = Background::new(endpoint, |me| client(site, me));
        assert!(self.0.send(Ways { calls, between, requests }).is_ok(), "the test waits for it");
        Ok(())
    }
}

/// The ledger's room, whose audits the test makes itself.
struct Stepped(LedgerRoom, Sender<(AuditLoop<Parcel>, Endpoint<Parcel>)>);

impl Room<Parcel> for Stepped {
    fn families(&self) -> Vec<(Family, Home)> {
        Room::<Parcel>::families(&self.0)
    }

    fn recover(&mut self, site: &mut Site<Parcel>) -> Result<()> {
        self.0.recover(site)
    }

    fn begin(&mut self, site: &mut Site<Parcel>) -> Result<()> {
        let (worker, end, shards) = ends(site.placement().shards(LEDGER).count());
        let background = Background::new(end, |me| OperationClient::new(me, shards));
        let is_wanted = self.1.send((self.0.audits(site, background)?, worker)).is_ok();
        assert!(is_wanted, "the test waits for it");
        Ok(())
    }
}

/// Two ends that are connected: that of all shards, and that of who asks them.
fn ends(shards: u16) -> (Endpoint<Parcel>, Endpoint<Parcel>, ShardAddresses) {
    let mut ends = mesh(1, 1).into_iter();
    let (Some(worker), Some(end)) = (ends.next(), ends.next()) else { unreachable!("two were asked for") };
    let here = Address { endpoint: worker.index(), member: MemberIndex(0) };
    (worker, end, ShardAddresses::new((0..shards).map(|_| here)))
}

/// Nothing on a schedule, no seeds.
pub fn options() -> LedgerOptions {
    LedgerOptions {
        segment_bytes: 16 << 20,
        ids_filter_bytes_max: 1 << 20,
        announce: None,
        schedule: Schedule { audit_interval: None, snapshot_interval: None },
        seed: Vec::new(),
        shown: Vec::new(),
    }
}

/// A folder for data.
pub fn folder() -> TempDir {
    tempfile::tempdir().expect("there is room for a folder")
}

fn directory(data: &Path, shards: u16) -> Directory {
    let count = ShardCount::Fixed { setting: "data.shards" };
    let wanted = [Wanted { family: LEDGER, shards, count }];
    Directory::open_or_create(data, &wanted, now_ms().0).expect("the folder is the test's own")
}

fn node_options(workers: u16) -> NodeOptions {
    let registry = Registry::of(&[
        ShardMetrics::ROWS,
        LedgerMetrics::ROWS,
        tidegate_runtime::metrics::ScrubMetrics::ROWS,
        SnapshotMetrics::ROWS,
        DirectoryMetrics::ROWS,
        DiskMetrics::ROWS,
        RoomMetrics::ROWS,
        WitnessMetrics::ROWS,
        LoopMetrics::ROWS,
        ClockMetrics::ROWS,
        PortClockMetrics::ROWS,
    ]);
    // Whatever the clock says, there is something to read again.
    NodeOptions { workers, registry, witness: None, scrub_bytes_per_s: u64::MAX, disk_reserve_bytes: 0 }
}

impl TestNode {
    /// Starts the ledger with `shards` shards on as many workers.
    pub fn start(data: &Path, shards: u16, options: LedgerOptions) -> Result<TestNode> {
        let room = LedgerRoom::new(options);
        let changes = room.changes();
        Ok(TestNode::of(data, shards, Box::new(room), changes)?.0)
    }

    /// The same, but for the thread of the audits.
    pub fn stepped(data: &Path, shards: u16) -> (TestNode, AuditLoop<Parcel>, Between) {
        let room = LedgerRoom::new(options());
        let (changes, (give, given)) = (room.changes(), channel());
        let (node, calls) = TestNode::of(data, shards, Box::new(Stepped(room, give)), changes).expect("it starts");
        let (audits, worker) = given.recv().expect("the room has begun");
        (node, audits, Between::start(worker, calls))
    }

    /// A served ledger, and a client that `make` makes, with the test between it and the shards.
    pub fn beside<C: Client<Message = Message>>(
        data: &Path,
        shards: u16,
        make: impl FnOnce(Address, ShardAddresses) -> C,
    ) -> (TestNode, Background<Parcel, C>, Between) {
        let room = LedgerRoom::new(options());
        let changes = room.changes();
        let (node, calls) = TestNode::of(data, shards, Box::new(room), changes).expect("it starts");
        let (worker, end, addresses) = ends(shards);
        (node, Background::new(end, |me| make(me, addresses)), Between::start(worker, calls))
    }

    fn of(
        data: &Path,
        shards: u16,
        room: Box<dyn Room<Parcel>>,
        changes: Arc<ChangeLogs<NodeReader>>,
    ) -> Result<(TestNode, Background<Parcel, RawClient>)> {
        let (options, (give, given)) = (node_options(shards), channel());
        let rooms = vec![room, Box::new(Visitor(give))];
        let node = Node::start(&options, directory(data, shards), rooms, &mut |_| {})?;
        let Ways { calls, between, requests } = given.recv().expect("the room has begun");
        Ok((TestNode { node, calls, requests, registry: options.registry, changes }, between))
    }

    /// Stops as a server does.
    pub fn stop(self) {
        let TestNode { node, calls, requests, .. } = self;
        drop((calls, requests));
        node.stop().expect("all logs close");
    }

    /// What health asks.
    pub fn status(&self) -> &Status {
        self.node.status()
    }

    /// Asks as a door does.
    pub fn ask(&mut self, request: Request) -> Reply {
        self.requests.ask(request, &|| false).expect("it serves")
    }

    /// Asks a shard itself.
    pub fn call(&mut self, shard: u16, operation: Operation) -> Answer {
        let answer = self.calls.ask((ShardIndex(shard), operation), &|| false).expect("it serves");
        answer.map(Durable::into_inner).expect("the shard serves")
    }

    /// The reports that the shards keep.
    pub fn reports(&mut self) -> Vec<AuditReport> {
        let Reply::Audit(reports) = self.ask(Request::ReadAudit) else { unreachable!("it was asked for") };
        reports
    }

    /// Waits until the reports are as `is_so` says.
    pub fn wait_for_reports(&mut self, is_so: impl Fn(&[AuditReport]) -> bool) -> Vec<AuditReport> {
        wait_for(|| Some(self.reports()).filter(|reports| is_so(reports)))
    }

    /// A metric of a shard now.
    pub fn metric(&self, name: &str, shard: u16) -> i64 {
        metric(&self.registry, name, &shard.to_string())
    }

    /// Opens an account.
    pub fn open(&mut self, id: &str, kind: AccountKind) {
        let request = Request::OpenAccount { id: id.into(), asset: "credit".into(), kind };
        assert!(matches!(self.ask(request), Reply::AccountOpened { created: true, .. }));
    }

    /// Balance of an account.
    pub fn balance(&mut self, id: &str) -> i64 {
        match self.ask(Request::ReadAccount { id: id.into() }) {
            Reply::Account(account) => account.balance,
            other => panic!("{other:?}"),
        }
    }

    /// Transfers one unit from `debit` to `credit`, under each of these ids.
    pub fn sell(&mut self, ids: &[String], debit: &str, credit: &str) {
        ids.iter().for_each(|id| self.transfer(id, debit, credit, 1));
    }

    /// Transfers so many units.
    pub fn transfer(&mut self, id: &str, debit: &str, credit: &str, amount: u64) {
        let what = Transfer { id, debit, credit, amount, memo: "", label: Label::NONE };
        let batch = TransferBatch::copy_of([what]);
        let reply = self.ask(Request::Transfers { linked: false, batch });
        assert!(matches!(&reply, Reply::Outcomes(outcomes) if outcomes[0].refusal().is_none()), "{reply:?}");
    }

    /// Reserves two units, for an hour.
    pub fn hold(&mut self, id: &str, debit: &str, credit: &str) {
        let hold = HoldRequest {
            id: id.into(),
            debit: debit.into(),
            credit: credit.into(),
            amount: 2,
            expires_in_ms: 3_600_000,
            memo: "".into(),
            code: 0,
            user_data: "".into(),
            open_holds_max: u32::MAX,
        };
        let reply = self.ask(Request::PlaceHolds(vec![hold]));
        assert!(matches!(&reply, Reply::Outcomes(outcomes) if outcomes[0].refusal().is_none()), "{reply:?}");
    }
}

/// A counter or gauge whose labels end with this value.
pub fn metric(registry: &Registry, name: &str, label: &str) -> i64 {
    use tidegate_telemetry::Reading;
    let snapshot = registry.snapshot();
    let family = snapshot.family(name).expect("it is declared");
    let of_label = |labels: &[Box<str>]| labels.last().is_some_and(|last| **last == *label);
    let series = family.series().iter().find(|series| of_label(series.label_values()));
    match series.unwrap_or_else(|| panic!("{name} has no series of {label}")).reading() {
        Reading::Counter(count) => *count as i64,
        Reading::Gauge(value) => *value,
        Reading::Histogram(_) => panic!("{name} is no number"),
    }
}

/// Asks again and again for what another thread is to bring about.
pub fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    while began.elapsed() < ASKED_MAX {
        if let Some(found) = look() {
            return found;
        }
        std::thread::yield_now();
    }
    panic!("it never comes")
}

/// The first id with this name whose home is that shard of two.
pub fn id_of(shard: u16, name: &str) -> String {
    let mut ids = (0..).map(|number| format!("{name}-{number}"));
    ids.find(|id| shard_of(id, 2) == ShardIndex(shard)).expect("each shard is some id's home")
}

#[test]
fn memory_of_filters_is_shared_out_and_none_has_too_little() {
    assert_eq!((filter_bytes_of(1 << 20, 1), filter_bytes_of(1 << 20, 3)), (1 << 20, 349_525));
    assert_eq!(
        (filter_bytes_of(1 << 20, 16), filter_bytes_of(1 << 20, 17), filter_bytes_of(0, 1)),
        (1 << 16, 1 << 16, 1 << 16)
    );
}

#[test]
fn an_index_is_of_another_history_if_it_had_records_and_has_none_of_them_now() {
    let is = |covered, has_inherited| is_of_another_history(Position(covered), has_inherited);
    assert_eq!([is(0, false), is(0, true), is(1, true), is(1, false)], [false, false, false, true]);
}
