//! The auditor sees every figure that drifts in the live state, a snapshot that was forged, and rot in old segments;
//! and it says that all agree only after it has compared all.

use std::sync::Arc;

use tidegate_journal::{LogReader, LogStore, Position};
use tidegate_machines::OutboundNumber;
use tidegate_machines::ledger::{AssetView, HoldFigures, Ledger, Mends, PeerFigures};
use tidegate_runtime::scrub::LogScrub;
use tidegate_shard::CompactionRule;

use super::*;
use crate::auditor::exchanged::differing_sums;
use crate::auditor::{Audit, ShardAuditor, conservation};
use crate::ids::IdDigest;
use crate::message::{AuditDifference, AuditReport, AuditState};
use crate::operation::{Answer, Figures, Operation};

pub type Reader = <StepLog<FakeDisk> as LogStore>::Reader;
pub type Auditor = ShardAuditor<FakeDisk, Reader>;

const HOUR_MS: u64 = 3_600_000;

/// Two shards with accounts of two assets, sales between them, and open holds.
fn show() -> TestWorker {
    show_with(1)
}

/// The same; the last sale is of `last_amount`.
fn show_with(last_amount: u64) -> TestWorker {
    let of = |shard: u16, name: &str| {
        let mut ids = (0..).map(|number| format!("{name}-{number}"));
        ids.find(|id| shard_of(id, 2) == ShardIndex(shard)).expect("each shard is some id's home")
    };
    let mut node = TestWorker::open(2);
    let (source, wallet, near) = (of(0, "source"), of(1, "wallet"), of(0, "near"));
    node.ask_all(vec![
        open(&source, AccountKind::Source),
        open(&wallet, AccountKind::Wallet),
        open(&near, AccountKind::Wallet),
        Request::OpenAccount { id: of(0, "gold").into(), asset: "gold".into(), kind: AccountKind::Wallet },
    ]);
    let sales: Vec<_> = (0..40).map(|number| format!("sale-{number}")).collect();
    let sale = |(number, id)| Transfer {
        id,
        debit: &source,
        credit: &wallet,
        amount: if number == 39 { last_amount } else { 1 },
        memo: "a sale",
        label: Default::default(),
    };
    let batch = TransferBatch::copy_of(sales.iter().map(String::as_str).enumerate().map(sale));
    node.ask(Request::Transfers { linked: false, batch });
    let hold = |number: u64| HoldRequest {
        debit: source.as_str().into(),
        credit: near.as_str().into(),
        amount: 2,
        expires_in_ms: HOUR_MS + number,
        ..small_hold(&format!("hold-{number}"))
    };
    node.ask(Request::PlaceHolds((0..5).map(hold).collect()));
    node.begin(Vec::new(), &mut Finished::new());
    node
}

impl TestWorker {
    /// Asks a shard itself.
    pub fn call(&mut self, shard: usize, operation: Operation) -> Answer {
        let me = self.worker.me;
        self.worker.shards_mut()[shard].call(Ticket::Call { from: me, ticket: 7, caller: Caller::SERVER }, operation);
        for _ in 0..64 {
            let called = &mut self.worker.shards_mut()[shard];
            called.step(self.now);
            let _ = called.log_mut().step();
            self.keep_rotten();
            let called = &mut self.worker.shards_mut()[shard];
            while let Some((ticket, answer)) = called.released() {
                if let Ticket::Call { ticket: 7, .. } = ticket {
                    return answer.expect("the shard serves").into_inner().into_answer();
                }
            }
            while let Some(job) = self.worker.take_job() {
                self.run(job);
            }
        }
        panic!("a shard answers")
    }

    pub fn auditor(&mut self, shard: usize) -> Auditor {
        let Answer::DurableEnd { durable } = self.call(shard, Operation::ReadDurableEnd) else { unreachable!() };
        let reader = logs(&self.disk).reader(log_id(shard as u16)).expect("the disk works");
        let shards = self.worker.shards().len() as u16;
        ShardAuditor::open(snapshots(&self.disk, shard as u16), reader, &durable, shards)
    }

    /// A reconciliation of a shard whose live answers are as `drift` makes them.
    pub fn audit(&mut self, auditor: &mut Auditor, drift: impl Fn(&mut Answer)) -> AuditReport {
        let mut next = auditor.begin();
        loop {
            match next {
                Audit::Finished(report) => return report,
                Audit::Ask(operation) => {
                    let mut answer = self.call(auditor.shard().0.into(), operation);
                    drift(&mut answer);
                    next = auditor.take(answer, 5);
                }
            }
        }
    }
}

#[test]
fn nothing_is_said_to_agree_before_all_was_compared() {
    assert_eq!(AuditReport::default().state(), AuditState::NeverRun);
    let mut node = show();
    let mut reports = Vec::new();
    for shard in 0..2 {
        let mut auditor = node.auditor(shard);
        let report = node.audit(&mut auditor, |_| {});
        assert_eq!((report.state(), &report.differences[..]), (AuditState::Agreed, &[][..]));
        assert_eq!(report.sequence, node.worker.shards()[shard].appended().0);
        reports.push(report);
    }
    assert_eq!((reports[0].accounts_compared, reports[0].holds_compared), (3, 5));
    let sent = [0, 1].map(|shard| match node.call(shard, Operation::ReadPeers) {
        Answer::Peers { peers, .. } => peers,
        other => panic!("{other:?}"),
    });
    let mut totals: Vec<_> = reports.iter().map(|report| report.totals.clone()).collect();
    let credit = |totals: &[_]| {
        let all = conservation(totals, &sent);
        let of = all.into_iter().find(|of| &*of.asset == "credit").expect("it is an asset");
        (of.sum, of.in_transit)
    };
    assert_eq!(credit(&totals), (0, 0));
    // More is taken in than was sent, and a balance comes out of nothing.
    totals[1][0].received[0].1 += 1;
    assert_eq!(credit(&totals), (-1, -1));
    totals[0][0].balances += 3;
    assert_eq!(credit(&totals), (2, -1));
}

/// Two logs, each of which is sound, of two days of which each saw another amount leave.
#[test]
fn money_that_left_one_shard_and_did_not_come_to_the_other_is_found() {
    let mut day = show();
    let folded = |node: &mut TestWorker, shard: usize| {
        let mut auditor = node.auditor(shard);
        assert_eq!(node.audit(&mut auditor, |_| {}).state(), AuditState::Agreed);
        auditor
    };
    let (from, to) = (folded(&mut day, 0), folded(&mut day, 1));
    assert!(from.folded().exchanged(ShardIndex(1)).sent.0 == 40, "each sale is a credit");
    assert_eq!(differing_sums(from.folded(), to.folded()), []);
    assert_eq!(differing_sums(to.folded(), from.folded()), []);
    // As many credits, and one of them is of another amount.
    let mut other_day = show_with(3);
    let other = folded(&mut other_day, 1);
    let found = differing_sums(from.folded(), other.folded());
    let [(shard, difference)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((*shard, &*difference.account, difference.figure), (ShardIndex(1), "(shard 0)", "arrived"));
    assert_eq!(difference.journal_text(), "40 credit sent");
    assert_eq!(difference.live_text(), "42 credit taken in up to credit 40");
    // Before the first, nothing was sent and nothing taken in; of a fold behind it, nothing can be said.
    let mut nothing = TestWorker::open(2);
    assert_eq!(differing_sums(from.folded(), folded(&mut nothing, 1).folded()), []);
}

/// Each live figure drifts in turn; the auditor names it, and agrees again when it is right again.
#[test]
fn every_figure_that_drifts_is_named() {
    type Drift = fn(&mut Answer);
    let drifts: &[(&str, Drift)] = &[
        ("balance", |answer| with_figures(answer, |figures| figures[0].balance += 1)),
        ("held", |answer| with_figures(answer, |figures| figures[0].held -= 1)),
        ("credited", |answer| with_figures(answer, |figures| figures[1].credited += 1)),
        ("debited", |answer| with_figures(answer, |figures| figures[0].debited -= 1)),
        ("asset", |answer| with_figures(answer, |figures| figures[1].asset = "gold".into())),
        ("kind", |answer| with_figures(answer, |figures| figures[1].kind = AccountKind::Collector)),
        ("present", |answer| with_figures(answer, |figures| drop(figures.remove(1)))),
        ("present", |answer| with_figures(answer, |figures| figures[1].id = "nobody".into())),
        ("present", |answer| with_holds(answer, |holds| drop(holds.remove(2)))),
        ("present", |answer| with_holds(answer, |holds| drop(holds.pop()))),
        ("amount", |answer| with_holds(answer, |holds| holds[1].amount += 1)),
        ("expires_at_ms", |answer| with_holds(answer, |holds| holds[4].expires_at.0 += 1)),
        ("credit", |answer| with_holds(answer, |holds| holds[0].credit = "thief".into())),
        ("watermark", |answer| with_peer(answer, |peer| peer.watermark = OutboundNumber(peer.watermark.0 + 1))),
        ("outbound", |answer| with_peer(answer, |peer| peer.outbound = OutboundNumber(peer.outbound.0 - 1))),
        ("confirmed", |answer| with_peer(answer, |peer| peer.confirmed = OutboundNumber(peer.confirmed.0 + 1))),
        ("sent", |answer| with_peer(answer, |peer| peer.sent[0].1 += 1)),
        ("settings", |answer| with_figures(answer, |figures| figures[1].settings = Some(Arc::default()))),
        ("settings", |answer| with_rest(answer, |_, settings| settings[0] ^= 1)),
        ("asset", |answer| with_rest(answer, |assets, _| assets[0].decimals = Some(2))),
        ("asset", |answer| with_rest(answer, |assets, _| assets[0].issued += 1)),
        ("asset", |answer| with_rest(answer, |assets, _| drop(assets.pop()))),
        ("received", |answer| with_peer(answer, |peer| peer.received.push(("gold".into(), 1)))),
    ];
    let mut node = show();
    let mut auditor = node.auditor(0);
    assert_eq!(node.audit(&mut auditor, |_| {}).state(), AuditState::Agreed);
    for (number, (figure, drift)) in drifts.iter().enumerate() {
        let report = node.audit(&mut auditor, drift);
        assert_eq!(report.state(), AuditState::Differs, "{number}: {figure}");
        let named: Vec<&AuditDifference> = report.differences.iter().filter(|of| of.figure == *figure).collect();
        assert!(!named.is_empty(), "{number}: {figure} is not among {:?}", report.differences);
        assert_eq!(named[0].agreed_at_sequence, report.sequence, "{number}: it was right a moment ago");
        assert_eq!(node.audit(&mut auditor, |_| {}).state(), AuditState::Agreed);
    }
}

fn with_figures(answer: &mut Answer, act: impl FnOnce(&mut Vec<Figures>)) {
    if let Answer::Figures { figures, .. } = answer {
        act(figures);
    }
}

fn with_holds(answer: &mut Answer, act: impl FnOnce(&mut Vec<HoldFigures>)) {
    if let Answer::OpenHolds { holds, .. } = answer {
        act(holds);
    }
}

/// Assets, and the digest of what was set on accounts.
fn with_rest(answer: &mut Answer, act: impl FnOnce(&mut Vec<AssetView>, &mut [u8; 32])) {
    if let Answer::Peers { assets, settings, .. } = answer {
        act(assets, settings);
    }
}

pub fn with_mends(answer: &mut Answer, act: impl FnOnce(&mut Mends)) {
    if let Answer::Peers { mends, .. } = answer {
        act(mends);
    }
}

fn with_peer(answer: &mut Answer, act: impl FnOnce(&mut PeerFigures)) {
    if let Answer::Peers { peers, .. } = answer {
        act(&mut peers[0]);
    }
}

/// A node of one shard, its log of several segments, whose start began from a snapshot that `forge` made.
fn restarted_from(forge: impl Fn(Ledger) -> Ledger) -> TestWorker {
    let mut node = TestWorker::with_a_durable_vote();
    for batch in 0..400 {
        let items: Vec<_> = (0..50).map(|n| (format!("v-{batch}-{n}."), "source".into(), "wallet".into())).collect();
        node.ask(transfers(&items));
    }
    node.worker.into_logs().into_iter().for_each(|log| _ = log.close().expect("the disk works"));
    let mut node = TestWorker::over(with_snapshot(node.disk, forge), 1);
    assert!(node.replayed.snapshot_sequence > 12_000, "{:?}", node.replayed);
    node.ask(sale("after the start"));
    node
}

/// The same disk, with a snapshot of the end of its log that `forge` made.
pub fn with_snapshot(disk: FakeDisk, forge: impl Fn(Ledger) -> Ledger) -> FakeDisk {
    let open: OpenShard<LedgerFamily, _, _> =
        OpenShard::open(&logs(&disk), snapshots(&disk, 0), SMALL).expect("the log is whole");
    let end = open.recovered().end;
    let back = open.replay(1, &mut NothingDerived, |_| {}).expect("the log is whole");
    let stand = tidegate_shard::Stand { cursor: end, ..tidegate_shard::Stand::default() };
    snapshots(&disk, 0).write(&stand, &forge(back.state), |_| Ok(true)).expect("there is room");
    disk
}

/// Reads all of the log again, in small steps.
pub fn read_all(auditor: &mut Auditor, scrub: &mut LogScrub<Reader>) {
    let is_over = (0..10_000).any(|_| auditor.read_again(scrub, 20_000, 9));
    assert!(is_over, "a pass comes to its end");
}

#[test]
fn the_fold_from_the_first_record_agrees_with_a_true_snapshot() {
    let mut node = restarted_from(|ledger| ledger);
    let mut auditor = node.auditor(0);
    let mut scrub = auditor.scrub(Default::default()).expect("the disk works");
    let report = node.audit(&mut auditor, |_| {});
    assert_eq!((report.state(), report.first_fold.agreed_at_sequence), (AuditState::Agreed, 0), "not shown yet");
    read_all(&mut auditor, &mut scrub);
    assert_eq!(auditor.rests_on_the_first_record(), Some(true));
    let report = node.audit(&mut auditor, |_| {});
    assert_eq!((report.state(), report.first_fold.agreed_at_sequence), (AuditState::Agreed, report.sequence));
    assert_eq!(report.scrub.last_full_at_ms, 9);
}

#[test]
fn a_forged_snapshot_is_found_by_the_fold_from_the_first_record() {
    let mut node = restarted_from(forged);
    let mut auditor = node.auditor(0);
    let mut scrub = auditor.scrub(Default::default()).expect("the disk works");
    let report = node.audit(&mut auditor, |_| {});
    assert_eq!(report.state(), AuditState::Agreed, "both began from the same file: {:?}", report.differences);
    read_all(&mut auditor, &mut scrub);
    assert_eq!(auditor.rests_on_the_first_record(), Some(false));
    let report = node.audit(&mut auditor, |_| {});
    assert_eq!(report.state(), AuditState::Differs);
    let wallet = report.differences.iter().find(|of| &*of.account == "wallet" && of.figure == "balance");
    let wallet = wallet.unwrap_or_else(|| panic!("{:?}", report.differences));
    assert_eq!((wallet.live - wallet.journal, wallet.agreed_at_sequence), (1_000, 0));
    assert!(report.differences.iter().all(|of| of.figure != "bytes"), "what differs is known: {report:?}");
    assert!(matches!(auditor.snapshot(), Ok(None)), "no snapshot is made of it");
    let mut refreshed = AuditReport::default();
    auditor.refresh(&mut refreshed);
    assert_eq!(refreshed.state(), AuditState::Differs, "it is told at once");
}

/// A ledger with a thousand more in the wallet, issued by the source: no sum shows it.
fn forged(true_one: Ledger) -> Ledger {
    let zigzag = |value: i64| varint(((value << 1) ^ (value >> 63)) as u64 as u128);
    let mut body = Vec::new();
    true_one.write_snapshot(&mut |part| body.extend_from_slice(part));
    for (id, more) in [("wallet", 1_000i64), ("source", -1_000)] {
        let account = true_one.account(id).expect("it is open");
        let figures = |balance: i64, credited: u128, debited: u128| {
            [zigzag(balance), varint(0), varint(credited), varint(debited)].concat()
        };
        let (up, down) = (more.max(0) as u128, (-more).max(0) as u128);
        let before = figures(account.balance, account.credited, account.debited);
        let after = figures(account.balance + more, account.credited + up, account.debited + down);
        let at = body.windows(before.len()).position(|window| window == before).expect("its figures stand there");
        body.splice(at..at + before.len(), after);
    }
    Ledger::decode_snapshot(&body).expect("it breaks no rule")
}

pub fn varint(mut value: u128) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

#[test]
fn rot_in_an_old_segment_is_found_named_and_taken_back_when_it_is_put_right() {
    let mut node = restarted_from(|ledger| ledger);
    let segments = node.disk.files().into_iter().filter(|(path, _)| path.to_string_lossy().contains("/segment-"));
    assert!(segments.count() > 1, "some are sealed");
    node.rot("memo of v-3-7.");
    let mut auditor = node.auditor(0);
    let mut scrub = auditor.scrub(Default::default()).expect("the disk works");
    read_all(&mut auditor, &mut scrub);
    let report = node.audit(&mut auditor, |_| {});
    assert_eq!((report.state(), report.differences.len()), (AuditState::Damaged, 0));
    let [place] = &report.scrub.damage[..] else { panic!("{:?}", report.scrub) };
    assert!(place.file.starts_with("journal/ledger-0/segment-") && place.lost.starts_with("records "), "{place:?}");
    assert_eq!(auditor.rests_on_the_first_record(), None, "it cannot be shown");
    assert!(matches!(auditor.snapshot(), Ok(Some(_))), "the next start reads less of what is damaged");

    node.heal();
    read_all(&mut auditor, &mut scrub);
    let report = node.audit(&mut auditor, |_| {});
    assert_eq!(report.state(), AuditState::Agreed, "{:?} {:?}", report.damage, report.scrub);
    assert_eq!(auditor.rests_on_the_first_record(), Some(true));
}

#[test]
fn a_newest_segment_without_a_header_does_not_keep_the_fold_from_the_first_record_from_going_on() {
    let mut node = restarted_from(|ledger| ledger);
    let segments = node.disk.files().into_iter().map(|(path, _)| path);
    let newest = segments.filter(|path| path.to_string_lossy().contains("/segment-")).max().expect("there are some");
    let mut auditor = node.auditor(0);
    let mut scrub = auditor.scrub(Default::default()).expect("the disk works");
    assert!(!auditor.read_again(&mut scrub, 1, 9), "there is more than one group");
    assert!(node.disk.spoil_sector(&newest, 0));
    read_all(&mut auditor, &mut scrub);
    assert_eq!(auditor.rests_on_the_first_record(), Some(true));
    let report = node.audit(&mut auditor, |_| {});
    assert_eq!((report.state(), report.differences.len()), (AuditState::Damaged, 0));
    node.disk.mend_sectors();
    read_all(&mut auditor, &mut scrub);
    assert_eq!(node.audit(&mut auditor, |_| {}).state(), AuditState::Agreed);
}

#[test]
fn what_the_fold_could_not_read_is_read_again_from_the_file() {
    let mut node = TestWorker::with_a_durable_vote();
    assert_eq!(node.ask(sale("after")), Reply::Outcomes(vec![Outcome::Applied]));
    node.rot("memo of vote");
    let mut auditor = node.auditor(0);
    for _ in 0..2 {
        assert_eq!(node.audit(&mut auditor, |_| {}).state(), AuditState::Damaged);
    }
    node.heal();
    let report = node.audit(&mut auditor, |_| {});
    assert_eq!((report.state(), &report.damage), (AuditState::Agreed, &None));
    assert!(matches!(auditor.snapshot(), Ok(Some(_))));
}

#[test]
fn the_ids_of_the_log_are_compared_with_those_of_its_index_pass_by_pass() {
    let mut node = restarted_from(|ledger| ledger);
    let mut auditor = node.auditor(0);
    let mut scrub = auditor.scrub(Default::default()).expect("the disk works");
    let mut runs = node.worker.shards()[0].service().ids().scrub();
    node.audit(&mut auditor, |_| {});
    let mut ends = Vec::new();
    for pass in 1..=2 {
        auditor.begin_ids(runs.begin_digest());
        let before = scrub.facts().bytes;
        read_all(&mut auditor, &mut scrub);
        assert!(scrub.facts().bytes - before > 500_000, "pass {pass} has read the log");
        let end = auditor.end_ids().expect("nothing was left out");
        runs.sum_up_to(end);
        let of_runs = (0..10_000).find_map(|_| runs.step(1 << 20).digest).expect("a pass comes to its end");
        assert_eq!((auditor.compare_ids(of_runs), auditor.ids_compared()), (None, pass));
        ends.push(end);
    }
    assert!(ends[0] > Position(500_000), "{ends:?}");
    // An index that has none of them.
    auditor.begin_ids(runs.begin_digest());
    read_all(&mut auditor, &mut scrub);
    let end = auditor.end_ids().expect("nothing was left out");
    let what = auditor.compare_ids(IdDigest::up_to(end)).expect("it differs");
    assert!(what.starts_with(&format!("up to position {end} it has 0 records")), "{what}");
    let report = node.audit(&mut auditor, |_| {});
    assert_eq!((report.state(), report.differences[0].figure), (AuditState::Differs, "ids"));
}

#[test]
fn a_pass_behind_the_first_one_ends_where_the_log_is_settled() {
    let mut node = restarted_from(|ledger| ledger);
    let mut auditor = node.auditor(0);
    let mut scrub = auditor.scrub(Default::default()).expect("the disk works");
    node.audit(&mut auditor, |_| {});
    read_all(&mut auditor, &mut scrub);
    assert_eq!(auditor.rests_on_the_first_record(), Some(true));
    read_all(&mut auditor, &mut scrub);
    let settled = logs(&node.disk).reader(log_id(0)).and_then(|reader| reader.settled_end()).expect("the disk works");
    let Answer::DurableEnd { durable } = node.call(0, Operation::ReadDurableEnd) else { unreachable!() };
    assert_eq!(scrub.facts().of, settled.position().0);
    assert!(durable.position() > settled.position(), "a segment is still written");
}

#[test]
fn a_snapshot_is_due_when_what_was_audited_behind_the_newest_one_is_worth_it() {
    let mut node = restarted_from(|ledger| ledger);
    let mut auditor = node.auditor(0);
    let rule = |floor_bytes| CompactionRule { floor_bytes, ratio: 0 };
    assert!(!auditor.is_snapshot_due(rule(1)), "nothing was read yet");
    node.audit(&mut auditor, |_| {});
    assert!(auditor.is_snapshot_due(rule(1)) && !auditor.is_snapshot_due(rule(1 << 30)));
}
