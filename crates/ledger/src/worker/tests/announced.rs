//! Figures of accounts that are announced.

use super::*;

/// The figures announced since the last call, as "account balance".
fn heard(node: &mut TestWorker) -> Vec<String> {
    // More than a write, a sync and their report take.
    (0..16).for_each(|_| node.turn(&mut Finished::new()));
    let figures = node.worker.take_figures();
    figures.into_iter().map(|(_, Announcement { account, .. })| format!("{} {}", account.id, account.balance)).collect()
}

fn announcing(accounts: &[&str]) -> TestWorker {
    let mut node = TestWorker::open(1);
    let opened = [open("source", AccountKind::Source), open("wallet", AccountKind::Wallet)];
    node.ask_all(opened.to_vec());
    let accounts = accounts.iter().map(|pattern| Box::from(*pattern)).collect();
    node.worker.shards_mut()[0].service_mut().announce(AnnounceRules { accounts, interval_ms: 100 });
    assert_eq!(node.ask(Request::Announce(Want { account: None, is_wanted: true })), Reply::Announced);
    node
}

#[test]
fn figures_are_announced_at_once_then_once_per_interval() {
    let mut node = announcing(&["wal*"]);
    assert_eq!(heard(&mut node), ["wallet 0"], "who starts to listen hears what is there");
    node.ask(sale("too soon"));
    node.ask(sale("still too soon"));
    assert_eq!(heard(&mut node), [""; 0]);
    node.now = TimeMs(START.0 + 100);
    assert_eq!(heard(&mut node), ["wallet 2"], "what happened in the interval comes once, at its end");
    node.now = TimeMs(START.0 + 300);
    assert_eq!(heard(&mut node), [""; 0]);
    node.ask(sale("after a quiet time"));
    assert_eq!(heard(&mut node), ["wallet 3"]);
}

#[test]
fn figures_that_are_not_durable_are_not_announced() {
    let mut node = announcing(&["*"]);
    assert_eq!(heard(&mut node), ["source 0", "wallet 0"]);
    node.now = TimeMs(START.0 + 1_000);
    let (mut out, mut finished) = (Outgoing::new(), Finished::new());
    node.worker.start(0, sale("vote"), &mut out, &mut finished);
    node.worker.step(node.now, &mut out, &mut finished);
    node.disk.fail_next_sync();
    assert_eq!(heard(&mut node), [""; 0]);
    assert!(node.worker.failure().is_some());
}

#[test]
fn an_account_is_announced_by_its_own_shard_and_not_by_those_that_know_of_it() {
    let mut node = TestWorker::open(2);
    let (source, wallet) = (alone::on(alone::HERE, "source"), alone::on(alone::THERE, "wallet"));
    node.ask_all(vec![open(&source, AccountKind::Source), open(&wallet, AccountKind::Wallet)]);
    let item = Transfer { id: "one", debit: &source, credit: &wallet, amount: 1, memo: "", label: Default::default() };
    let batch = TransferBatch::copy_of([item]);
    assert_eq!(node.ask(Request::Transfers { linked: false, batch }), Reply::Outcomes(vec![Outcome::Applied]));
    node.begin(Vec::new(), &mut Finished::new());
    for shard in node.worker.shards_mut() {
        shard.service_mut().announce(AnnounceRules { accounts: vec!["*".into()], interval_ms: 100 });
    }
    assert_eq!(node.ask(Request::Announce(Want { account: None, is_wanted: true })), Reply::Announced);
    let mut figures = heard(&mut node);
    figures.sort();
    assert_eq!(figures, [format!("{source} -1"), format!("{wallet} 1")]);
}
