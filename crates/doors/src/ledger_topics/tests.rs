//! The ledger's topics; the tests themselves answer for the shards.

use serde_json::{Value, json};
use tidegate_ledger::message::CallerRequest;
use tidegate_machines::ledger::{Outcome, Refusal};

use super::*;
use crate::auth::Rights;
use crate::auth::quota::{Quota, QuotaLimits, Rate};

const VOTE: &str = r#"{"id":"vote-1","debit":"wallet:dave","credit":"candidate:3","amount":1}"#;

fn dave() -> Identity {
    Identity::new("dave", Rights::Viewer { wallets: vec!["wallet:dave".into()] })
}

fn account(id: &str, kind: AccountKind, balance: i64) -> AccountView {
    let credited = balance as u128;
    AccountView { id: id.into(), asset: "credit".into(), kind, balance, held: 0, credited, debited: 0, settings: None }
}

fn changed(account: AccountView) -> Announcement {
    Announcement { account, news: News::Changed }
}

/// The questions that came to the shards, and the answer when there is one.
struct Exchange {
    topics: LedgerTopics,
    asked: Vec<(u64, Request)>,
}

impl Exchange {
    fn new() -> Exchange {
        Exchange { topics: LedgerTopics::new(1), asked: Vec::new() }
    }

    fn transfer(&mut self, identity: Option<&Identity>, payload: &str) -> Option<Value> {
        self.ask(TRANSFERS, identity, payload)
    }

    fn ask(&mut self, topic: &str, identity: Option<&Identity>, payload: &str) -> Option<Value> {
        let topic = REQUEST_TOPICS.iter().position(|known| *known == topic).expect("it is listed");
        let ticket = RequestTicket(7);
        let Exchange { topics, asked } = self;
        let mut start = |token, asks: CallerRequest| asked.push((token, asks.request));
        let answer = topics.request(RequestTopic(topic as u16), ticket, identity, payload.as_bytes(), &mut start);
        answer.map(|answer| body(&answer))
    }

    /// Answers the oldest question.
    fn reply(&mut self, reply: Reply) -> Option<LedgerAnswer> {
        let (token, _) = self.asked.remove(0);
        let Exchange { topics, asked } = self;
        topics.reply(token, reply, &mut |token, asks| asked.push((token, asks.request)))
    }
}

fn body(answer: &LedgerAnswer) -> Value {
    match answer {
        LedgerAnswer::Transfer { ticket, body, .. } if *ticket == RequestTicket(7) => {
            serde_json::from_slice(body).expect("an answer is JSON")
        }
        other => panic!("{other:?} does not answer the transfer"),
    }
}

#[test]
fn a_vote_is_answered_in_the_words_of_http() {
    let mut exchange = Exchange::new();
    assert_eq!(exchange.transfer(Some(&dave()), VOTE), None);
    let is_collector = Reply::Account(account("candidate:3", AccountKind::Collector, 0));
    assert_eq!(exchange.reply(is_collector), None, "the vote itself is asked now");
    let answer = exchange.reply(Reply::Outcomes(vec![Outcome::Applied])).map(|answer| body(&answer));
    assert_eq!(answer, Some(json!({"id": "vote-1", "outcome": "applied"})));
    assert_eq!(exchange.transfer(Some(&dave()), VOTE), None, "the kind is remembered");
    let refused = Outcome::Refused(Refusal::InsufficientFunds { available: 0 });
    let answer = exchange.reply(Reply::Outcomes(vec![refused])).map(|answer| body(&answer)).unwrap();
    assert_eq!(
        (&answer["code"], &answer["available"], &answer["id"]),
        (&json!("insufficient_funds"), &json!(0), &json!("vote-1"))
    );
    assert!(exchange.topics.is_quiet());
}

#[test]
fn who_may_not_is_told_so_and_the_shards_hear_nothing() {
    let mut exchange = Exchange::new();
    let theft = VOTE.replace("wallet:dave", "wallet:carol");
    for (identity, payload, code) in [
        (None, VOTE, "forbidden"),
        (Some(dave()), &*theft, "forbidden"),
        (Some(dave()), "{", "json_invalid"),
        (Some(dave()), "{}", "field_invalid"),
        (Some(dave()), "", "json_invalid"),
    ] {
        let answer = exchange.transfer(identity.as_ref(), payload).unwrap();
        assert_eq!(answer["code"], code, "{payload:?} of {identity:?}: {answer}");
    }
    assert!(exchange.asked.is_empty() && exchange.topics.is_quiet());
}

#[test]
fn holds_and_openings_are_asked_for_as_over_http() {
    let service = || {
        let grants = ["*".parse().expect("a grant")].into();
        Some(Identity::new("shop", Rights::Service { grants }))
    };
    const HOLD: &str = r#"{"id":"h","debit":"wallet:carol","credit":"shop","amount":2,"expires_in_ms":1000}"#;
    let holds = format!(r#"{{"holds":[{HOLD}],"linked":true}}"#);
    let line = json!({"id": "h", "outcome": "applied"});
    let lines = json!({"outcomes": [line]});
    for (topic, payload, expected) in [
        (HOLDS, HOLD, &line),
        (HOLDS, &*holds, &lines),
        (HOLDS_POST, r#"{"id":"h","amount":1}"#, &line),
        (HOLDS_POST, r#"{"posts":[{"id":"h"}]}"#, &lines),
        (HOLDS_VOID, r#"{"ids":["h"]}"#, &lines),
        (OPENINGS, r#"{"accounts":[{"id":"h","asset":"credit","kind":"wallet"}]}"#, &lines),
    ] {
        let mut exchange = Exchange::new();
        assert_eq!(exchange.ask(topic, service().as_ref(), payload), None, "{topic} {payload}");
        let answer = exchange.reply(Reply::Outcomes(vec![Outcome::Applied])).map(|answer| body(&answer));
        assert_eq!(answer.as_ref(), Some(expected), "{topic} {payload}");
        let refused = exchange.ask(topic, Some(&dave()), payload);
        assert_eq!(refused.map(|problem| problem["code"].clone()), Some(json!("forbidden")), "{topic} of a viewer");
        let wrong = exchange.ask(topic, service().as_ref(), "{}");
        assert!(wrong.is_some_and(|problem| problem["status"] == 422), "{topic} of nothing");
        assert!(exchange.asked.is_empty() && exchange.topics.is_quiet());
    }
    let mut exchange = Exchange::new();
    let one = r#"{"id":"wallet:new","asset":"credit","kind":"wallet"}"#;
    assert_eq!(exchange.ask(OPENINGS, service().as_ref(), one), None);
    let opened = Reply::AccountOpened { created: true, account: account("wallet:new", AccountKind::Wallet, 0) };
    let answer = exchange.reply(opened).map(|answer| body(&answer)).expect("an answer");
    assert_eq!((&answer["id"], &answer["balance"]), (&json!("wallet:new"), &json!(0)));
}

#[test]
fn whether_an_account_is_a_collector_is_asked_of_the_ledger() {
    for (reply, is_collector) in [
        (Reply::Account(account("candidate:3", AccountKind::Collector, 0)), true),
        (Reply::Account(account("candidate:3", AccountKind::Wallet, 0)), false),
        (Reply::Refused(Refusal::AccountNotFound), false),
    ] {
        let mut exchange = Exchange::new();
        let key = ConnectionKey { index: 1, generation: 2 };
        let asked = &mut exchange.asked;
        exchange.topics.collector(key, "candidate:3".into(), &mut |token, asks| asked.push((token, asks.request)));
        let account = "candidate:3".into();
        assert_eq!(exchange.reply(reply), Some(LedgerAnswer::Collector { key, account, is_collector }));
    }
}

#[test]
fn a_collectors_parts_are_announced_as_one_account() {
    let mut topics = LedgerTopics::new(2);
    let unheard = changed(account("candidate:3", AccountKind::Collector, 1));
    assert_eq!(topics.announcement(ShardIndex(0), unheard), None, "nobody listens");
    topics.watched(&WatchedFilter { filter: "$ledger/accounts/#".into(), is_wanted: true });
    let mut announce = |shard, balance| {
        let part = changed(account("candidate:3", AccountKind::Collector, balance));
        let (topic, payload, _) = topics.announcement(ShardIndex(shard), part).unwrap();
        assert_eq!(topic, "$ledger/accounts/candidate:3");
        serde_json::from_slice::<Value>(&payload).unwrap()["balance"].as_i64().unwrap()
    };
    assert_eq!([announce(0, 2), announce(1, 5), announce(0, 3), announce(1, 5)], [2, 7, 8, 8]);
    assert!(
        topics.announcement(ShardIndex(0), changed(account("a+b", AccountKind::Wallet, 1))).is_none(),
        "no topic has this name"
    );
}

#[test]
fn a_part_that_completes_a_sum_is_a_change_of_it() {
    let mut topics = LedgerTopics::new(3);
    topics.watched(&WatchedFilter { filter: "$ledger/accounts/#".into(), is_wanted: true });
    let mut announce = |shard, news| {
        let account = account("candidate:3", AccountKind::Collector, 1);
        topics.announcement(ShardIndex(shard), Announcement { account, news }).map(|(_, _, news)| news).unwrap()
    };
    use News::{Changed, Told};
    assert_eq!(announce(0, Told), Told);
    assert_eq!(announce(0, Changed), Changed);
    assert_eq!(announce(1, Told), Changed, "whoever hears changes alone was told a sum without it");
    assert_eq!([announce(1, Told), announce(0, Told)], [Told, Told]);
    assert_eq!(announce(2, Changed), Changed);
}

#[test]
fn who_asks_more_than_it_may_is_told_so_and_the_ledger_is_not_asked() {
    let requests = Rate { per_s: 1, burst: 2 };
    let quota = Quota::new(QuotaLimits { requests, ..QuotaLimits::NONE });
    let dave = dave().with_quota(quota, u32::MAX);
    let mut exchange = Exchange::new();
    for _ in 0..2 {
        assert!(exchange.transfer(Some(&dave), VOTE).is_none(), "the ledger is asked");
    }
    let asked = exchange.asked.len();
    let Exchange { topics, asked: questions } = &mut exchange;
    let mut start = |token, asks: CallerRequest| questions.push((token, asks.request));
    let answer = topics.request(RequestTopic(0), RequestTicket(7), Some(&dave), VOTE.as_bytes(), &mut start);
    let answer = answer.expect("it is answered at once");
    assert!(
        matches!(answer, LedgerAnswer::Transfer { over: Some("requests"), refused: Some("too_many_requests"), .. }),
        "{answer:?}"
    );
    assert_eq!(body(&answer)["code"], "too_many_requests");
    assert_eq!(exchange.asked.len(), asked);
}

#[test]
fn what_was_not_decided_is_not_acknowledged_as_success() {
    use tidegate_ledger::message::Unavailable::{Busy, DiskFull, Recovering, ShardFailed, StateDiffers, Stopping};
    let applied = Reply::Outcomes(vec![Outcome::Applied]);
    let refused = Reply::Outcomes(vec![Outcome::Refused(Refusal::IdReused)]);
    let decided = [(applied, ReasonCode::SUCCESS), (refused, ReasonCode::SUCCESS)];
    let full = [Busy, DiskFull].map(|why| (Reply::Unavailable(why), ReasonCode::QUOTA_EXCEEDED));
    let failed = [ShardFailed, StateDiffers, Recovering, Stopping]
        .map(|why| (Reply::Unavailable(why), ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR));
    for (reply, said) in decided.into_iter().chain(full).chain(failed) {
        let mut exchange = Exchange::new();
        assert_eq!(exchange.transfer(Some(&dave()), VOTE), None, "the kind of the credited account is asked");
        exchange.reply(Reply::Account(account("candidate:3", AccountKind::Collector, 0)));
        let answer = exchange.reply(reply.clone());
        assert!(
            matches!(&answer, Some(LedgerAnswer::Transfer { reason, .. }) if *reason == said),
            "{reply:?}: {answer:?}"
        );
    }
}

#[test]
fn the_shards_are_told_what_is_wanted_until_they_know() {
    let mut exchange = Exchange::new();
    let watched = |exchange: &mut Exchange, filter: &str, is_wanted| {
        exchange.topics.watched(&WatchedFilter { filter: filter.into(), is_wanted });
        let Exchange { topics, asked } = exchange;
        topics.tell_wants(&mut |token, asks| asked.push((token, asks.request)));
    };
    let asked = |exchange: &Exchange| match &exchange.asked[..] {
        [(_, Request::Announce(want))] => (want.account.clone(), want.is_wanted),
        other => panic!("{other:?}"),
    };
    watched(&mut exchange, "$ledger/accounts/wallet:dave", true);
    assert_eq!(asked(&exchange), (Some("wallet:dave".into()), true));
    assert_eq!(exchange.reply(Reply::Unavailable(tidegate_ledger::message::Unavailable::Busy)), None);
    assert!(exchange.topics.has_changes(), "it is told again");
    watched(&mut exchange, "$ledger/transfers", true);
    assert_eq!(asked(&exchange), (Some("wallet:dave".into()), true));
    assert_eq!(exchange.reply(Reply::Announced), None);
    assert!(!exchange.topics.has_changes() && exchange.topics.is_quiet());

    let figures = || changed(account("wallet:dave", AccountKind::Wallet, 3));
    assert!(exchange.topics.announcement(ShardIndex(0), figures()).is_some());
    watched(&mut exchange, "$ledger/accounts/wallet:dave", false);
    assert_eq!(asked(&exchange), (Some("wallet:dave".into()), false));
    assert_eq!(exchange.topics.take_unwanted(), ["$ledger/accounts/wallet:dave"]);
    assert_eq!(exchange.topics.announcement(ShardIndex(0), figures()), None, "it was on its way");
}
