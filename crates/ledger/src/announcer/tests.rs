use tidegate_machines::ledger::{AccountKind, Command, Guess, Label, Transfer};
use tidegate_machines::{Decision, Machine, Place, RecordPosition, RecordSequence, ShardIndex};

use super::*;

/// A ledger and the announcer beside it.
struct Pair {
    ledger: Ledger,
    announcer: Announcer,
    records: u64,
}

impl Pair {
    fn new(rules: &[&str]) -> Pair {
        let accounts = rules.iter().map(|rule| Box::from(*rule)).collect();
        let announcer = Announcer::new(AnnounceRules { accounts, interval_ms: 100 });
        Pair { ledger: Ledger::new(ShardIndex(0), 1), announcer, records: 0 }
    }

    fn open(&mut self, id: &str) {
        self.act(&Command::OpenAccount { id, asset: "credit", kind: AccountKind::Wallet });
    }

    /// Changes what an account has. It takes from a source that is opened before.
    fn credit(&mut self, id: &str) {
        let transfer_id = format!("t{}", self.records);
        let transfer =
            Transfer { id: &transfer_id, debit: "bank", credit: id, amount: 1, memo: "", label: Label::default() };
        self.act(&Command::Transfer { transfer, credit_missing: false, guess: Guess::NONE });
    }

    fn act(&mut self, command: &Command<'_>) {
        let Decision::Append { event, .. } = Machine::decide(&self.ledger, command, None, TimeMs(1)) else {
            panic!("{command:?} was not taken")
        };
        self.records += 1;
        let place = Place { position: RecordPosition(self.records), sequence: RecordSequence(self.records) };
        Machine::apply(&mut self.ledger, &event, place);
        self.announcer.note(&event, &self.ledger);
    }

    fn want(&mut self, account: Option<&str>, is_wanted: bool) {
        self.announcer.want(&Want { account: account.map(Into::into), is_wanted }, &self.ledger);
    }

    fn news(&mut self, now: u64) -> Vec<News> {
        self.announcer.take(TimeMs(now), &self.ledger).into_iter().map(|announced| announced.news).collect()
    }

    fn heard(&mut self, now: u64) -> Vec<Box<str>> {
        self.announcer.take(TimeMs(now), &self.ledger).into_iter().map(|announced| announced.account.id).collect()
    }
}

#[test]
fn nobody_wants_and_nothing_is_remembered() {
    let mut pair = Pair::new(&["*"]);
    (0..10_000).for_each(|n| pair.open(&format!("wallet:{n}")));
    assert_eq!(pair.heard(0), [] as [Box<str>; 0]);
    assert_eq!(pair.announcer.remembered(), 0);
    assert!(!pair.announcer.is_behind(&pair.ledger));
}

#[test]
fn one_account_is_wanted_before_it_is_there_and_after() {
    let mut pair = Pair::new(&["wallet:*"]);
    pair.want(Some("wallet:b"), true);
    pair.want(Some("source:x"), true);
    for id in ["wallet:a", "wallet:b", "source:x"] {
        pair.open(id);
    }
    assert_eq!(pair.heard(0), ["wallet:b".into()], "the rules do not allow the source");
    pair.want(Some("wallet:a"), true);
    assert_eq!(pair.heard(0), ["wallet:a".into()], "who begins to want is told what is there");
    pair.want(Some("wallet:b"), true);
    assert_eq!(pair.heard(99), [] as [Box<str>; 0], "again, and within the interval");
    assert_eq!(pair.heard(100), ["wallet:b".into()]);
    for id in ["wallet:a", "wallet:b"] {
        pair.want(Some(id), false);
    }
    assert_eq!(pair.heard(1_000), [] as [Box<str>; 0]);
    assert_eq!(pair.announcer.remembered(), 0);
}

#[test]
fn what_is_told_is_told_from_what_has_changed() {
    let mut pair = Pair::new(&["a", "b"]);
    pair.act(&Command::OpenAccount { id: "bank", asset: "credit", kind: AccountKind::Source });
    pair.open("a");
    pair.want(Some("a"), true);
    assert_eq!(pair.news(0), [News::Told], "somebody has begun to want it");
    pair.want(Some("a"), true);
    assert_eq!(pair.news(100), [News::Told], "it is wanted again within the interval");
    pair.want(Some("a"), true);
    pair.credit("a");
    pair.want(Some("a"), true);
    assert_eq!(pair.news(200), [News::Changed], "within the interval, between those who begin to want it");
    pair.want(Some("a"), true);
    pair.credit("a");
    pair.want(Some("a"), true);
    assert_eq!(pair.news(1_000), [News::Changed], "and after it");
    pair.want(Some("b"), true);
    pair.open("b");
    assert_eq!(pair.news(1_000), [News::Changed], "it was not there before");
    pair.want(None, true);
    pair.credit("b");
    assert_eq!(pair.news(2_000), [News::Changed, News::Told], "all are told, and one has changed");
}

#[test]
fn all_are_told_step_by_step_and_forgotten_when_quiet() {
    let mut pair = Pair::new(&["wallet:*"]);
    (0..3_000).for_each(|n| pair.open(&format!("wallet:{n}")));
    pair.open("source:x");
    pair.want(None, true);
    let mut heard = Vec::new();
    while pair.announcer.is_behind(&pair.ledger) {
        let step = pair.heard(0);
        assert!(step.len() <= ANNOUNCEMENTS_PER_STEP);
        heard.extend(step);
    }
    heard.extend(pair.heard(0));
    assert_eq!(heard.len(), 3_000);
    pair.open("wallet:new");
    assert_eq!(pair.heard(1), ["wallet:new".into()]);
    assert_eq!(pair.heard(200), [] as [Box<str>; 0]);
    assert_eq!(pair.announcer.remembered(), 0, "quiet accounts cost nothing");
    pair.want(None, false);
    pair.open("wallet:newer");
    assert_eq!(pair.heard(300), [] as [Box<str>; 0]);
}

#[test]
fn an_id_without_a_star_allows_that_account_alone() {
    let mut pair = Pair::new(&["wallet:a", "source:*"]);
    for id in ["wallet:a", "wallet:ab", "wallet:b", "source:x"] {
        pair.open(id);
    }
    pair.want(None, true);
    assert_eq!(pair.heard(0), ["wallet:a".into(), "source:x".into()]);
}

#[test]
fn whoever_wants_all_hears_no_more_in_a_step_when_many_were_touched_already() {
    let mut pair = Pair::new(&["*"]);
    let accounts = 3 * ANNOUNCEMENTS_PER_STEP;
    (0..accounts).for_each(|n| pair.open(&format!("wallet:{n}")));
    // Each alone first, so that all are touched before anyone wants all.
    (0..accounts).for_each(|n| pair.want(Some(&format!("wallet:{n}")), true));
    pair.want(None, true);
    let mut heard = Vec::new();
    for _ in 0..3 {
        assert!(pair.announcer.is_behind(&pair.ledger) || heard.len() == 2 * ANNOUNCEMENTS_PER_STEP);
        let step = pair.heard(0);
        assert_eq!(step.len(), ANNOUNCEMENTS_PER_STEP);
        heard.extend(step);
    }
    heard.sort();
    heard.dedup();
    assert_eq!(heard.len(), accounts, "each once");
}

#[test]
fn whoever_wants_one_account_is_not_told_of_it_again_when_others_are_gone_through() {
    let mut pair = Pair::new(&["*"]);
    (0..3 * ANNOUNCEMENTS_PER_STEP).for_each(|n| pair.open(&format!("wallet:{n}")));
    let one = format!("wallet:{}", 2 * ANNOUNCEMENTS_PER_STEP);
    pair.want(Some(&one), true);
    assert_eq!(pair.heard(0), [one.into()]);
    let later = (1..6).flat_map(|step| pair.heard(1_000 * step)).collect::<Vec<_>>();
    assert_eq!(later, [] as [Box<str>; 0]);
}
