//! Seeds are asked before anyone else may ask, weighed once, and stop a start that they do not fit.

use tidegate_machines::DamagedPlace;
use tidegate_machines::ledger::{Outcome, Refusal, content_digest};

use super::super::told::told;
use super::*;
use crate::operation::SeedId;

const AT: &str = "dev.toml:7";

fn seed(what: SeedKind) -> Seed {
    Seed { at: AT.into(), what }
}

fn account(id: &str, kind: AccountKind) -> Seed {
    seed(SeedKind::Account { id: id.into(), asset: "credit".into(), kind })
}

fn transfer(id: &str, debit: &str, credit: &str, amount: u64) -> Seed {
    let (id, debit, credit) = (id.into(), debit.into(), credit.into());
    seed(SeedKind::Transfer { id, debit, credit, amount, memo: "".into() })
}

fn seeded(seed: Vec<Seed>) -> LedgerOptions {
    LedgerOptions { seed, ..options() }
}

/// Accounts whose debits are decided by shard 0, and ids that shard 1 is the home of.
fn show() -> (Vec<Seed>, [String; 3], [String; 2]) {
    let accounts @ [source, wallet, candidate] = &[id_of(0, "source"), id_of(0, "wallet"), "candidate".to_owned()];
    let ids @ [gift, vote] = &[id_of(1, "gift"), id_of(1, "vote")];
    let seeds = vec![
        seed(SeedKind::Asset { name: "credit".into(), decimals: 2 }),
        account(source, AccountKind::Source),
        account(wallet, AccountKind::Wallet),
        account(candidate, AccountKind::Collector),
        transfer(gift, source, wallet, 10),
        transfer(vote, wallet, candidate, 10),
    ];
    (seeds, accounts.clone(), ids.clone())
}

#[test]
fn seeds_are_sown_once_however_often_a_node_starts() {
    let folder = folder();
    let (seeds, accounts, [gift, vote]) = show();
    let [source, wallet, candidate] = &accounts;
    for _ in 0..2 {
        let mut node = TestNode::start(folder.path(), 2, seeded(seeds.clone())).expect("the seeds fit");
        let balances = [source, wallet, candidate].map(|id| node.balance(id));
        assert_eq!(balances, [-10, 0, 10]);
        let Reply::Assets(assets) = node.ask(Request::ListAssets) else { unreachable!("assets were asked for") };
        assert_eq!((&*assets[0].name, assets[0].decimals), ("credit", Some(2)));
        node.stop();
    }
    // The wallet has spent what it got. A vote that was made is not weighed again; a new one is.
    let again = vec![transfer(&vote, wallet, candidate, 10)];
    TestNode::start(folder.path(), 2, seeded(again)).expect("it was made before").stop();
    let refused = |seeds| TestNode::start(folder.path(), 2, seeded(seeds)).err().expect("it does not fit").to_string();
    let new = refused(vec![transfer("new", wallet, candidate, 10)]);
    assert!(new.starts_with("dev.toml:7: ") && new.contains("has 0 left, not 10"), "{new}");
    // So is one that was claimed where its id is at home, and never decided.
    let mut node = TestNode::start(folder.path(), 2, options()).expect("it starts");
    let claimed = id_of(1, "claimed");
    let what = Transfer { id: &claimed, debit: wallet, credit: candidate, amount: 10, memo: "", label: Label::NONE };
    node.call(1, Operation::ClaimIds(vec![(claimed.as_str().into(), ShardIndex(0), content_digest(&what))]));
    node.stop();
    let undecided = refused(vec![transfer(&claimed, wallet, candidate, 10)]);
    assert!(undecided.contains("has 0 left, not 10"), "{undecided}");
    let decimals = refused(vec![seed(SeedKind::Asset { name: "credit".into(), decimals: 3 })]);
    assert!(decimals.contains("is declared with 2 decimals"), "{decimals}");
    let other = refused(vec![transfer(&gift, source, wallet, 11)]);
    assert!(
        other.contains("id_reused") && other.contains("stands for 10 from") && other.ends_with("nothing was seeded"),
        "{other}"
    );
}

#[test]
fn a_seed_whose_id_was_refused_before_stops_the_start() {
    let folder = folder();
    let (seeds, [_, wallet, candidate], _) = show();
    let mut node = TestNode::start(folder.path(), 2, seeded(seeds)).expect("the seeds fit");
    let what = Transfer { id: "late", debit: &wallet, credit: &candidate, amount: 1, memo: "", label: Label::NONE };
    let reply = node.ask(Request::Transfers { linked: false, batch: TransferBatch::copy_of([what]) });
    assert!(matches!(&reply, Reply::Outcomes(outcomes) if outcomes[0].refusal().is_some()), "{reply:?}");
    node.stop();
    let late = vec![transfer("late", &wallet, &candidate, 1)];
    let refused = TestNode::start(folder.path(), 2, seeded(late)).err().expect("it was refused").to_string();
    assert!(refused.contains("\"late\" is refused: insufficient_funds; its id was refused"), "{refused}");
}

fn place() -> &'static DamagedPlace {
    Box::leak(Box::new(DamagedPlace {
        file: "journal/ledger-0/segment-1".into(),
        offset: 4096,
        what: "the checksum is wrong".into(),
        lost: "records 7 to 9".into(),
        is_away: false,
    }))
}

#[test]
fn a_seed_of_which_nobody_can_tell_whether_it_was_made_is_left_undone_and_told() {
    let folder = folder();
    let calls = |me, shards| OperationClient::new(me, shards);
    let (node, mut background, between) = TestNode::beside(folder.path(), 1, calls);
    let seeds = [transfer("gift", "source", "wallet", 10)];
    between.play(|_, _| {
        How::Change(|answer| match answer {
            Answer::Seeds(_) => Answer::Seeds(vec![SeedId::Damaged(place())]),
            other => other,
        })
    });
    let mut before = None;
    let lines = told(|| before = seeds::look_for_ids(&seeds, 1, &mut background).ok());
    let line = lines.join("\n");
    let says = "WARN seed=\"dev.toml:7\" id=\"gift\" file=\"journal/ledger-0/segment-1\" offset=4096";
    assert!(line.contains("nobody can tell whether") && says.split(' ').all(|word| line.contains(word)), "{line}");

    // It is not asked, although its accounts are not even there.
    between.play(|_, _| How::Ask);
    let mut background =
        background.with_client(|me| Router::new(me, ShardAddresses::new([Address::new(0, 0)]), CursorKey([1, 2])));
    let accounts = [account("source", AccountKind::Source), account("wallet", AccountKind::Wallet)];
    let all = accounts.into_iter().chain(seeds).collect();
    between.heard();
    seeds::sow(all, before.expect("it was looked for"), 1, &mut background).expect("it keeps nobody from starting");
    let heard = between.heard();
    assert!(heard.iter().any(|(_, call)| matches!(call, Operation::OpenAccount { .. })), "{heard:?}");
    assert!(!heard.iter().any(|(_, call)| matches!(call, Operation::Transfers { .. })), "{heard:?}");
    node.stop();
}

#[test]
fn a_seed_whose_record_cannot_be_read_by_who_decided_it_is_left_undone_and_told() {
    let folder = folder();
    let router = |me, shards| Router::new(me, shards, CursorKey([1, 2]));
    let (mut node, mut background, between) = TestNode::beside(folder.path(), 1, router);
    node.open("source", AccountKind::Source);
    node.open("wallet", AccountKind::Wallet);
    between.play(|_, call| match call {
        Operation::Transfers { .. } => How::Change(|answer| match answer {
            Answer::Outcomes { need_credit, .. } => {
                Answer::Outcomes { outcomes: vec![Outcome::Refused(Refusal::Damaged(place()))], need_credit }
            }
            other => other,
        }),
        _ => How::Ask,
    });
    let seeds = vec![transfer("gift", "source", "wallet", 10)];
    let mut sown = None;
    let lines = told(|| sown = Some(seeds::sow(seeds, Default::default(), 1, &mut background))).join("\n");
    sown.expect("it was asked").expect("it keeps nobody from starting");
    assert!(lines.contains("nobody can tell whether") && lines.contains("id=\"gift\""), "{lines}");
    node.stop();
}
