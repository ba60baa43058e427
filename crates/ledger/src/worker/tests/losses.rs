//! One shard's log is put back from an older copy, and an operator accepts the loss: what the other shard's log has of
//! it is written again, and the rest is booked as a loss.

use tidegate_machines::OutboundNumber;
use tidegate_machines::ledger::{Label, Ledger};
use tidegate_shard::loss::{examine, fold_to_end};

use super::alone::{HERE, THERE, on};
use super::*;
use crate::accepted_loss::{PeerLosses, Settled, Writing, settle, words};
use crate::audit::{audit_between, audit_shard};
use crate::room::Exchanges;

const DIRECTORY: u64 = 1;

/// All files of a disk with their bytes.
pub type Files = Vec<(PathBuf, Vec<u8>)>;

pub fn files(disk: &FakeDisk) -> Files {
    let bytes = |path: &PathBuf| disk.contents(path).expect("it is listed");
    disk.files().into_iter().map(|(path, _)| (path.clone(), bytes(&path))).collect()
}

/// A disk with what `now` has, but for one shard, which is as it was `then`.
pub fn put_back(shard: ShardIndex, then: &Files, now: &Files) -> FakeDisk {
    let name = format!("ledger-{}", shard.0);
    let is_of = |(path, _): &&(PathBuf, Vec<u8>)| path.to_string_lossy().contains(&name);
    let disk = FakeDisk::new(2);
    for (path, bytes) in then.iter().filter(is_of).chain(now.iter().filter(|file| !is_of(file))) {
        let folder = path.parent().expect("it is in a folder");
        disk.create_dir_all(folder).expect("the disk works");
        disk.create_new(path).expect("it is new");
        disk.overwrite(path, 0, bytes).expect("the disk works");
        disk.sync_dir(folder).expect("the disk works");
    }
    disk
}

/// Its memo and label are content: who asks again must say the same.
pub fn transfer(id: &str, debit: &str, credit: &str) -> Request {
    let (memo, label) = (format!("memo of {id}"), Label { code: 5, user_data: id });
    let item = Transfer { id, debit, credit, amount: 1, memo: &memo, label };
    Request::Transfers { linked: false, batch: TransferBatch::copy_of([item]) }
}

pub fn applied(node: &mut TestWorker, request: Request) {
    assert_eq!(node.ask(request), Reply::Outcomes(vec![Outcome::Applied]));
}

/// The accounts of the story: a source and a wallet on each shard, and a wallet that is opened after the copy.
struct Accounts {
    source_here: String,
    wallet_here: String,
    late_here: String,
    source_there: String,
    wallet_there: String,
}

impl Accounts {
    fn new() -> Accounts {
        Accounts {
            source_here: on(HERE, "source"),
            wallet_here: on(HERE, "wallet"),
            late_here: on(HERE, "late"),
            source_there: on(THERE, "source"),
            wallet_there: on(THERE, "wallet"),
        }
    }
}

/// What the disk had when it was copied, and what it has in the end.
fn story(all: &Accounts) -> (Files, Files) {
    let Accounts { source_here, wallet_here, late_here, source_there, wallet_there } = all;
    let mut node = TestWorker::open(2);
    node.ask(open(source_here, AccountKind::Source));
    node.ask(open(source_there, AccountKind::Source));
    node.ask(open(wallet_here, AccountKind::Wallet));
    node.ask(open(wallet_there, AccountKind::Wallet));
    applied(&mut node, transfer("sent-1", source_here, wallet_there));
    applied(&mut node, transfer("received-1", source_there, wallet_here));
    let hold = HoldRequest {
        debit: source_here.as_str().into(),
        credit: wallet_there.as_str().into(),
        amount: 2,
        expires_in_ms: 1_000_000,
        ..small_hold("held")
    };
    applied(&mut node, Request::PlaceHolds(vec![hold]));
    node.begin(Vec::new(), &mut Finished::new());
    let then = files(&node.disk);

    applied(&mut node, transfer("sent-2", source_here, wallet_there));
    applied(&mut node, transfer("received-2", source_there, wallet_here));
    node.ask(open(late_here, AccountKind::Wallet));
    applied(&mut node, transfer("received-3", source_there, late_here));
    node.begin(Vec::new(), &mut Finished::new());
    applied(&mut node, Request::PostHolds(vec![("held".into(), None)]));
    applied(&mut node, transfer("sent-4", late_here, wallet_there));
    node.begin(Vec::new(), &mut Finished::new());
    (then, files(&node.disk))
}

pub fn states(disk: &FakeDisk) -> Vec<Ledger> {
    states_of(disk, 2)
}

fn states_of(disk: &FakeDisk, shards: u16) -> Vec<Ledger> {
    let of = |shard| {
        let examined = examine(&logs(disk), &snapshots(disk, shard), &[]).expect("the log can be opened");
        fold_to_end(&logs(disk), &snapshots(disk, shard), shards, &examined).expect("the log can be folded")
    };
    (0..shards).map(of).collect()
}

pub fn find(disk: &FakeDisk) -> PeerLosses {
    PeerLosses::find_with_claims(&logs(disk), DIRECTORY, &states(disk)).expect("the logs are of one history")
}

/// What is written again, and what the operator is told.
pub fn accept(disk: &FakeDisk) -> (Settled, Vec<String>) {
    let mut said = Vec::new();
    let mut writing = Writing {
        options: SMALL,
        now: TimeMs(START.0 + 5_000),
        wait: &mut |log| panic!("{log}: one group takes all"),
        say: &mut |words| said.push(words),
    };
    let settled = settle(&logs(disk), DIRECTORY, states(disk), &find(disk), &mut writing);
    (settled.expect("it can be settled"), said)
}

fn balance(states: &[Ledger], shard: ShardIndex, account: &str) -> i128 {
    states[usize::from(shard.0)].account(account).expect("it is open").balance.into()
}

#[test]
fn nothing_is_lost_between_logs_of_one_moment_and_nothing_is_written() {
    let (then, now) = story(&Accounts::new());
    for files_of in [&then, &now] {
        let disk = put_back(HERE, files_of, files_of);
        let found = find(&disk);
        assert!(found.proofs.is_empty() && found.booked.is_empty() && found.known.is_empty(), "{:?}", found.proofs);
        let (settled, said) = accept(&disk);
        assert!(settled.regained.is_empty() && settled.booked == 0 && said.is_empty(), "{said:?}");
        assert_eq!(&files(&disk), files_of);
    }
}

#[test]
fn what_a_shard_has_lost_is_told_with_each_transfer_that_another_knows() {
    let all = Accounts::new();
    let (then, now) = story(&all);
    let found = find(&put_back(HERE, &then, &now));
    assert_eq!(found.proofs.iter().map(|(shard, _)| *shard).collect::<Vec<_>>(), [0, 0, 0], "{:?}", found.proofs);
    let booked: Vec<_> = found.booked.iter().map(|(shard, loss)| (*shard, loss.number.0, loss.amount.get())).collect();
    assert_eq!(booked, [(0, 4, 4), (0, 3, 2)], "debits of 4 in all, and credits of 2");
    let Accounts { source_here, wallet_here, late_here, source_there, wallet_there } = &all;
    let told = |kind: &str, amount: u64, from: &str, to: &str, side: &str| {
        format!(
            "ledger shard 0: {kind}: {amount} credit from {from} to {to}: shard 1 knows of it, and its {side} is lost \
             here"
        )
    };
    assert_eq!(
        found.known.iter().map(words).collect::<Vec<_>>(),
        [
            told("transfer sent-2", 1, source_here, wallet_there, "debit"),
            told("hold held", 2, source_here, wallet_there, "debit"),
            told("transfer sent-4", 1, late_here, wallet_there, "debit"),
            told("transfer received-2", 1, source_there, wallet_here, "credit"),
            told("transfer received-3", 1, source_there, late_here, "credit"),
        ]
    );
}

#[test]
fn what_another_shard_knows_is_written_again() {
    let all = Accounts::new();
    let (then, now) = story(&all);
    let disk = put_back(HERE, &then, &now);
    let (settled, said) = accept(&disk);
    let ids: Vec<&str> = settled.regained.iter().map(|credit| &*credit.id).collect();
    assert_eq!(settled.booked, 0, "nothing was lost");
    // What came from the other shard first: the last of the others spends it.
    assert_eq!(ids, ["received-2", "received-3", "sent-2", "held", "sent-4"]);
    let says = |part: &str| said.iter().any(|words| words.contains(part));
    assert!(says(&format!("account {} is opened again: shard 1 knows of it", all.late_here)), "{said:?}");

    let states = states(&disk);
    let (here, there) = (states[0].exchanged(THERE), states[1].exchanged(HERE));
    assert_eq!((here.sent, here.confirmed), (OutboundNumber(4), OutboundNumber(4)), "what the other has is confirmed");
    assert_eq!(
        (here.watermark, there.sent, there.watermark),
        (OutboundNumber(3), OutboundNumber(3), OutboundNumber(4))
    );
    assert!(states[0].accepted_loss_account("credit").1.is_none(), "nothing is booked as lost");
    let balances = [
        (HERE, &*all.source_here, -4),
        (HERE, &*all.wallet_here, 2),
        (HERE, &*all.late_here, 0),
        (THERE, &*all.source_there, -3),
        (THERE, &*all.wallet_there, 5),
    ];
    for (shard, account, expected) in balances {
        assert_eq!(balance(&states, shard, account), expected, "{account}");
    }
    assert_eq!(balances.iter().map(|(.., balance)| balance).sum::<i128>(), 0, "double entry holds");

    // Nothing is found lost any more, and who asks again pays nothing again.
    let found = find(&disk);
    assert!(found.proofs.is_empty() && found.booked.is_empty(), "{:?}", found.proofs);
    let mut node = TestWorker::over(disk, 2);
    for (id, debit, credit) in [
        ("sent-2", &all.source_here, &all.wallet_there),
        ("received-2", &all.source_there, &all.wallet_here),
        ("received-3", &all.source_there, &all.late_here),
        ("sent-4", &all.late_here, &all.wallet_there),
    ] {
        assert_eq!(node.ask(transfer(id, debit, credit)), Reply::Outcomes(vec![Outcome::Duplicate]), "{id}");
    }
    let posted = node.ask(Request::PostHolds(vec![("held".into(), None)]));
    assert_eq!(posted, Reply::Outcomes(vec![Outcome::Duplicate]));
}

#[test]
fn a_loss_is_booked_where_no_record_of_the_other_tells_of_it() {
    let (then, now) = story(&Accounts::new());
    let disk = put_back(HERE, &then, &now);
    let mut said = Vec::new();
    let mut writing = Writing {
        options: SMALL,
        now: START,
        wait: &mut |log| panic!("{log}: one group takes all"),
        say: &mut |words| said.push(words),
    };
    let settled = settle(&logs(&disk), DIRECTORY, states(&disk), &PeerLosses::default(), &mut writing)
        .expect("it can be settled");
    assert_eq!((settled.regained.len(), settled.booked), (0, 2));
    let states = states(&disk);
    let (loss, slot) = states[0].accepted_loss_account("credit");
    assert!(slot.is_some());
    // Nobody paid 4 that the other shard has, and 2 that it sent arrived nowhere.
    assert_eq!(balance(&states, HERE, &loss), 2 - 4);
    assert_eq!(
        said.last().map(String::as_str),
        Some(&*format!("ledger shard 0: 2 credit are booked as lost: {loss} has -2 credit"))
    );
    assert!(find(&disk).booked.is_empty());
    // Whoever reads the account sees what was lost, and between whom.
    let mut node = TestWorker::over(disk, 2);
    let read = Request::ReadHistory { id: loss.clone(), before: None, limit: 10, times: TimeSpan::ALL };
    let Reply::History { rows, .. } = node.ask(read) else { panic!("the account is open") };
    let rows: Vec<_> = rows.iter().map(|row| (&*row.debit, &*row.credit, row.amount, row.balance_after)).collect();
    assert_eq!(rows, [("shard:1", &*loss, 2, -2), (&*loss, "shard:1", 4, -4)]);
}

/// What the audit of a stopped ledger says is wrong between its shards.
fn audited(disk: &FakeDisk) -> Vec<String> {
    let audited = |shard| {
        let found = audit_shard(&logs(disk), &snapshots(disk, shard), 2, |_, _| {}).expect("the log can be opened");
        assert_eq!(found.problems, Vec::<String>::new(), "each log agrees with itself");
        found
    };
    audit_between(&[audited(0), audited(1)])
}

#[test]
fn an_audit_names_the_credits_that_one_shard_knows_and_another_has_lost() {
    let (then, now) = story(&Accounts::new());
    assert_eq!(audited(&put_back(HERE, &now, &now)), Vec::<String>::new());
    assert_eq!(
        audited(&put_back(HERE, &then, &now)),
        [
            "shard 1 applied credit 4 of shard 0, which sent only 1",
            "shard 0 has confirmed credit 3 of shard 1, and has applied only 1",
        ]
    );
    assert_eq!(
        audited(&put_back(THERE, &then, &now)),
        [
            "shard 1 has confirmed credit 4 of shard 0, and has applied only 1",
            "shard 0 applied credit 3 of shard 1, which sent only 1",
        ]
    );
    // Two histories with as many credits, of other amounts.
    let mut other = TestWorker::open(2);
    let all = Accounts::new();
    other.ask(open(&all.source_here, AccountKind::Source));
    other.ask(open(&all.wallet_there, AccountKind::Wallet));
    for number in 1..=4 {
        applied(&mut other, transfer(&format!("sent-{number}"), &all.source_here, &all.wallet_there));
    }
    other.begin(Vec::new(), &mut Finished::new());
    let strange = audited(&put_back(THERE, &files(&other.disk), &now));
    assert_eq!(strange.len(), 2, "{strange:?}");
    assert!(strange[0].contains("up to credit 4, shard 0 has sent 5 credit to shard 1, which has taken in 4"));
    assert_eq!(strange[1], "shard 0 applied credit 3 of shard 1, which sent only 0");
}

/// As the start of a server names it.
const ACCEPT: &str = "tidegate accept-loss --data here --reason TEXT";

/// What a start says of the states of all shards, as they are recovered one after the other.
fn start(states: &[Ledger]) -> Result<(), String> {
    let exchanges = Exchanges::of(states.len());
    states.iter().try_for_each(|state| exchanges.note(state, ACCEPT).map_err(|refused| refused.to_string()))
}

#[test]
fn a_start_is_refused_when_one_shard_knows_what_another_has_lost() {
    let (then, now) = story(&Accounts::new());
    assert_eq!(start(&states(&put_back(HERE, &now, &now))), Ok(()));
    let lost = states(&put_back(HERE, &then, &now));
    assert_eq!(
        start(&lost[..1]).and(Exchanges::of(2).note(&lost[1], ACCEPT).map_err(|refused| refused.to_string())),
        Ok(())
    );
    let refused = start(&lost).expect_err("records of one are lost");
    assert!(refused.contains("shard 1 has taken in its credits up to 4, and journal/ledger-0 has only those up to 1"));
    assert!(refused.contains("journal/ledger-0 has taken in only those up to 1"), "{refused}");
    assert!(refused.contains(&format!("run `{ACCEPT}`")), "{refused}");

    // As many credits, of other amounts: nobody has lost anything, and they are of two histories.
    let all = Accounts::new();
    let history = |amounts: [usize; 2]| {
        let mut node = TestWorker::open(2);
        node.ask(open(&all.source_here, AccountKind::Source));
        node.ask(open(&all.wallet_there, AccountKind::Wallet));
        for (number, amount) in amounts.into_iter().enumerate() {
            let id = format!("sent-{number}");
            let item = Transfer {
                id: &id,
                debit: &all.source_here,
                credit: &all.wallet_there,
                amount: amount as u64,
                memo: "",
                label: Default::default(),
            };
            applied(&mut node, Request::Transfers { linked: false, batch: TransferBatch::copy_of([item]) });
        }
        node.begin(Vec::new(), &mut Finished::new());
        files(&node.disk)
    };
    let strangers = states(&put_back(HERE, &history([3, 1]), &history([1, 1])));
    let refused = start(&strangers).expect_err("the sums differ");
    assert!(refused.contains("ledger shards 0 and 1 are of two histories: up to credit 2"), "{refused}");
    assert!(refused.contains("Put back the logs of all shards from one backup"), "{refused}");
}

/// Credits between two shards have the same numbers as those between others.
#[test]
fn what_others_exchanged_is_not_taken_for_what_was_lost() {
    let on = |shard: u16, name: &str| {
        let mut ids = (0..).map(|number| format!("{name}-{number}"));
        ids.find(|id| shard_of(id, 3) == ShardIndex(shard)).expect("each shard is some id's home")
    };
    // Those between the others come first and last, in the log that knows of what is lost.
    for order in [[(2, 1), (1, 2), (0, 1), (1, 0)], [(0, 1), (1, 0), (2, 1), (1, 2)]] {
        let mut node = TestWorker::open(3);
        for shard in 0..3 {
            node.ask(open(&on(shard, "source"), AccountKind::Source));
            node.ask(open(&on(shard, "wallet"), AccountKind::Wallet));
        }
        let mut pay = |from: u16, to: u16, day: u8| {
            let id = format!("{from}-{to}-{day}");
            applied(&mut node, transfer(&id, &on(from, "source"), &on(to, "wallet")));
        };
        let pairs = [(0, 1), (2, 1), (1, 0), (1, 2)];
        pairs.iter().for_each(|(from, to)| pay(*from, *to, 1));
        node.begin(Vec::new(), &mut Finished::new());
        let then = files(&node.disk);
        let mut pay = |from: u16, to: u16, day: u8| {
            let id = format!("{from}-{to}-{day}");
            applied(&mut node, transfer(&id, &on(from, "source"), &on(to, "wallet")));
        };
        order.iter().for_each(|(from, to)| pay(*from, *to, 2));
        node.begin(Vec::new(), &mut Finished::new());
        let disk = put_back(HERE, &then, &files(&node.disk));
        let found =
            PeerLosses::find(&logs(&disk), DIRECTORY, &states_of(&disk, 3)).expect("the logs are of one history");
        let known: Vec<(&str, u64)> = found.known.iter().map(|credit| (&*credit.id, credit.number.0)).collect();
        assert_eq!(known, [("0-1-2", 2), ("1-0-2", 2)]);
        let booked: Vec<_> =
            found.booked.iter().map(|(shard, loss)| (*shard, loss.peer.0, loss.amount.get())).collect();
        assert_eq!(booked, [(0, 1, 1), (0, 1, 1)]);
    }
}

#[test]
fn a_credit_to_an_account_that_was_not_known_when_it_was_copied_is_written_again() {
    let (source, first, later) = (on(HERE, "source"), on(THERE, "first"), on(THERE, "later"));
    let mut node = TestWorker::open(2);
    node.ask(open(&source, AccountKind::Source));
    node.ask(open(&first, AccountKind::Wallet));
    applied(&mut node, transfer("one", &source, &first));
    node.begin(Vec::new(), &mut Finished::new());
    let then = files(&node.disk);
    node.ask(open(&later, AccountKind::Wallet));
    applied(&mut node, transfer("two", &source, &later));
    node.begin(Vec::new(), &mut Finished::new());
    let disk = put_back(HERE, &then, &files(&node.disk));
    let (settled, said) = accept(&disk);
    assert_eq!((settled.regained.len(), settled.booked), (1, 0), "{said:?}");
    let states = states(&disk);
    let here = states[0].exchanged(THERE);
    assert_eq!((here.sent, here.confirmed), (OutboundNumber(2), OutboundNumber(2)), "what the other has is confirmed");
    assert_eq!((balance(&states, HERE, &source), balance(&states, THERE, &later)), (-2, 1));
    assert_eq!(audited(&disk), Vec::<String>::new());
}
