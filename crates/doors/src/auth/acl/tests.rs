//! Rules as they are read, and names that try to get around them.

use std::sync::Arc;

use tidegate_broker::{Access, Rights as _};
use tidegate_wire::mqtt::{filter_covers, filter_matches};

use super::pattern::Names;
use super::*;
use crate::auth::{Grant, Identity, Pattern, Rights};

fn rule(effect: Effect, verbs: Verbs, topic: &str) -> Rule {
    Rule { who: Who::default(), verbs, topics: vec![topic.parse().unwrap()], effect }
}

fn permit(topic: &str) -> Rule {
    rule(Effect::Permit, Verbs::Both, topic)
}

fn deny(topic: &str) -> Rule {
    rule(Effect::Deny, Verbs::Both, topic)
}

fn of(role: Role, rule: Rule) -> Rule {
    Rule { who: Who { role: Some(role), ..rule.who }, ..rule }
}

fn acl(ordinary_topics: OrdinaryTopics, rules: impl IntoIterator<Item = Rule>) -> Arc<Acl> {
    Arc::new(Acl { rules: rules.into_iter().collect(), ordinary_topics, ..Acl::default() })
}

fn dave() -> Holder {
    Holder::User(Identity::new("dave", Rights::Viewer { wallets: vec!["wallet:dave".into()] }), Shown::Certificate)
}

fn service(grants: &[&str]) -> Holder {
    let grants = grants.iter().map(|grant| grant.parse::<Grant>().unwrap()).collect();
    Holder::Service(Identity::new("shop", Rights::Service { grants }), [0; 32])
}

/// What `holder` may do, as client `c1`, in one line: `P` publish, `S` subscribe, `?` if it hangs on the account.
fn may(acl: &Arc<Acl>, holder: Holder, topic: &str) -> String {
    may_as(acl, holder, "c1", topic)
}

fn may_as(acl: &Arc<Acl>, holder: Holder, client_id: &str, topic: &str) -> String {
    let rights = ClientRights::new(holder, acl.clone());
    let word = |access, yes: &str| match access {
        Access::Allowed => yes.to_owned(),
        Access::Denied => "-".to_owned(),
        Access::AllowedInPart => format!("{yes}~"),
        Access::IfConfirmed(account) => format!("?{account}"),
    };
    let publishes = match topic.contains(['+', '#']) {
        true => " ".to_owned(),
        false => word(rights.may_publish(client_id, topic), "P"),
    };
    format!("{publishes}{}", word(rights.may_subscribe(client_id, topic), "S"))
}

#[test]
fn without_rules_ordinary_topics_are_free_and_the_servers_own_are_not() {
    let anyone = acl(OrdinaryTopics::Anyone, []);
    for (holder, topic, expected) in [
        (Holder::Anonymous, "chat/1", "PS"),
        (Holder::Anonymous, "#", " S"),
        (Holder::Anonymous, "$SYS/broker/uptime", "--"),
        (Holder::Anonymous, "$SYS/#", " -"),
        (Holder::Anonymous, "$other/a", "--"),
        (Holder::Anonymous, "$ledger/transfers", "--"),
        (Holder::Anonymous, "$ledger/accounts/candidate:1", "--"),
        (Holder::Anonymous, "$ledger/#", " -"),
        (Holder::Certificate("sensor".into()), "chat/1", "PS"),
        (Holder::Certificate("sensor".into()), "$ledger/transfers", "--"),
        (dave(), "chat/1", "PS"),
        (dave(), "$ledger/transfers", "P-"),
        (dave(), "$ledger/accounts/wallet:dave", "-S"),
        (dave(), "$ledger/accounts/wallet:carol", "-?wallet:carol"),
        (dave(), "$ledger/accounts/candidate:1", "-?candidate:1"),
        (dave(), "$ledger/accounts/+", " -"),
        (dave(), "$ledger/accounts/#", " -"),
        (dave(), "$ledger/+/wallet:dave", " -"),
        (dave(), "$ledger/#", " -"),
        (dave(), "$SYS/#", " -"),
    ] {
        assert_eq!(may(&anyone, holder.clone(), topic), expected, "{holder:?} {topic}");
    }
    let authenticated = acl(OrdinaryTopics::Authenticated, []);
    assert_eq!(may(&authenticated, Holder::Anonymous, "chat/1"), "--");
    assert_eq!(may(&authenticated, dave(), "chat/1"), "PS");
    assert_eq!(may(&authenticated, Holder::Certificate("sensor".into()), "chat/1"), "PS");
    let nobody = acl(OrdinaryTopics::Nobody, [permit("news")]);
    assert_eq!(may(&nobody, dave(), "chat/1"), "--");
    assert_eq!(may(&nobody, dave(), "news"), "PS");
    assert_eq!(may(&nobody, dave(), "$ledger/accounts/wallet:dave"), "-S");
}

/// Grants are about queues, and not about the topics that lead to them; a rule is about topics.
#[test]
fn queues_are_open_to_who_may_send_and_receive() {
    let none = acl(OrdinaryTopics::Anyone, []);
    for (grants, topic, expected) in [
        (&["send:jobs"][..], "$queue-in/jobs", "P-"),
        (&["send:jobs"], "$queue-in/other", "--"),
        (&["send:jobs"], "$queue-out/jobs", "--"),
        (&["send:*"], "$queue-in/", "P-"),
        (&["receive:jobs-*"], "$queue-out/jobs-1", "-S"),
        (&["receive:jobs-*"], "$queue-out/jobs", "--"),
        (&["receive:jobs-*"], "$queue-out/#", " -"),
        (&["receive:jobs-*"], "$queue-in/jobs-1", "--"),
        (&["admin:*"], "$queue-out/jobs", "--"),
        (&["publish:$queue-in/#", "subscribe:$queue-out/#"], "$queue-in/jobs", "--"),
        (&["publish:$queue-out/#", "subscribe:$queue-out/#"], "$queue-out/jobs", "--"),
        (&["*"], "$queue-out/jobs", "-S"),
        (&["*"], "$queue-in/jobs", "PS"),
    ] {
        assert_eq!(may(&none, service(grants), topic), expected, "{grants:?} {topic}");
    }
    for holder in [dave(), Holder::Anonymous, Holder::Certificate("sensor".into())] {
        assert_eq!(may(&none, holder.clone(), "$queue-in/jobs"), "--", "{holder:?}");
        assert_eq!(may(&none, holder.clone(), "$queue-out/jobs"), "--", "{holder:?}");
    }
    let ruled =
        acl(OrdinaryTopics::Anyone, [deny("$queue-in/closed"), permit("$queue-in/+"), permit("$queue-out/jobs")]);
    assert_eq!(may(&ruled, Holder::Anonymous, "$queue-in/jobs"), "PS");
    assert_eq!(may(&ruled, Holder::Anonymous, "$queue-out/jobs"), "-S", "nobody publishes there");
    assert_eq!(may(&ruled, service(&["send:*"]), "$queue-in/closed"), "--");
    let everything = acl(OrdinaryTopics::Anyone, [permit("#")]);
    assert_eq!(may(&everything, Holder::Anonymous, "$queue-in/jobs"), "--", "# is not about topics with $");
    let rights = ClientRights::new(Holder::Anonymous, ruled);
    assert!(rights.may_any_publish("$queue-in/jobs") && !rights.may_any_publish("$queue-out/jobs"));
}

#[test]
fn a_service_has_the_topics_of_its_grants() {
    let anyone = acl(OrdinaryTopics::Anyone, []);
    for (grants, topic, expected) in [
        (&["metrics"][..], "chat/1", "--"),
        (&["publish:chat/#"], "chat/1", "P-"),
        (&["subscribe:chat/#"], "chat/1", "-S"),
        (&["subscribe:chat/#"], "chat/#", " S"),
        (&["subscribe:chat/#"], "#", " -"),
        (&["subscribe:%c/%u"], "c1/shop", "-S"),
        (&["subscribe:%c/%u"], "c2/shop", "--"),
        (&["sys"], "$SYS/#", " S"),
        (&["sys"], "$SYS/broker/uptime", "-S"),
        (&["sys"], "#", " -"),
        (&["read:wallet:*"], "$ledger/accounts/wallet:a", "-S"),
        (&["read:wallet:*"], "$ledger/accounts/source:a", "--"),
        (&["read:wallet:*"], "$ledger/accounts/+", " -"),
        (&["read:*"], "$ledger/accounts/+", " S"),
        (&["read:*"], "$ledger/accounts/#", " S"),
        (&["read:*"], "$ledger/#", " -"),
        (&["publish:$ledger/accounts/#"], "$ledger/accounts/a", "P-"),
        (&[], "$ledger/transfers", "P-"),
        (&["*"], "chat/1", "PS"),
        (&["*"], "#", " S"),
        (&["*"], "$SYS/#", " S"),
        (&["*"], "$ledger/#", " S"),
        (&["*"], "$ledger/transfers", "PS"),
        // Even a grant of everything does not allow publishing in the server's name.
        (&["*"], "$SYS/broker/uptime", "-S"),
        (&["*"], "$ledger/accounts/candidate:1", "-S"),
    ] {
        assert_eq!(may(&anyone, service(grants), topic), expected, "{grants:?} {topic}");
    }
}

#[test]
fn changes_are_for_whom_may_read_what_they_are_about() {
    let none = acl(OrdinaryTopics::Anyone, []);
    let follows = |holder: &dyn Fn() -> Holder, levels: &[&str]| -> String {
        let of = |level: &&str| may(&none, holder(), &format!("$ledger/changes/{level}"))[1..].to_owned();
        levels.iter().map(of).collect()
    };
    let viewer = ["*", "#", "+", "wallet:dave", "wallet:d*", "wallet:*"];
    assert_eq!(follows(&dave, &viewer), "SSSSSS");
    assert_eq!(follows(&dave, &["wallet:carol", "wallet:c*", "candidate:1", "source:*", "", "a/b", "*x"]), "-------");
    let reads = || service(&["read:wallet:d*", "read:shop"]);
    assert_eq!(follows(&reads, &["*", "wallet:*", "wallet:dave", "wallet:da*", "shop", "s*"]), "SSSSSS");
    assert_eq!(follows(&reads, &["wallet:carol", "wallet:c*", "shops", "shop:*"]), "----");
    let all = || service(&["*"]);
    assert_eq!(follows(&all, &["*", "#", "wallet:carol"]), "SSS");
    let topics_only = || service(&["subscribe:$ledger/#", "accounts:open"]);
    assert_eq!(follows(&topics_only, &["*", "wallet:dave"]), "--", "topics open no journal");
    assert_eq!(follows(&|| Holder::Anonymous, &["*", "wallet:dave"]), "--");
    assert_eq!(may(&none, all(), "$ledger/changes/*"), "-S", "nobody publishes there");
    let closed = acl(OrdinaryTopics::Anyone, [deny("$ledger/changes/#")]);
    assert_eq!(may(&closed, dave(), "$ledger/changes/wallet:dave"), "--");
}

#[test]
fn the_first_rule_that_fits_decides() {
    let rules = acl(
        OrdinaryTopics::Anyone,
        [
            permit("chat/public/#"),
            deny("chat/#"),
            of(Role::Anonymous, rule(Effect::Permit, Verbs::Subscribe, "$SYS/#")),
            rule(Effect::Deny, Verbs::Publish, "news/#"),
        ],
    );
    for (topic, expected) in [
        ("chat/public/a", "PS"),
        ("chat/public/#", " S"),
        ("chat/a", "--"),
        // All of it is denied by one rule, though another permits a part.
        ("chat/+", " -"),
        ("chat/#", " -"),
        // A filter that matches denied topics among others is granted but for those.
        ("#", " S~"),
        ("+/a", " S~"),
        ("+/a/b/#", " S~"),
        ("news/a", "-S"),
        ("other", "PS"),
        ("$SYS/#", " S"),
        ("$SYS/broker/uptime", "-S"),
    ] {
        assert_eq!(may(&rules, Holder::Anonymous, topic), expected, "{topic}");
    }
    assert_eq!(may(&rules, dave(), "$SYS/#"), " -", "the rule is about anonymous clients");
}

#[test]
fn a_filter_of_which_a_part_is_denied_can_be_refused() {
    let rules = || [permit("a/b"), deny("a/+"), deny("x/secret")];
    let filtering = acl(OrdinaryTopics::Anyone, rules());
    let refusing = Acl { partly_denied: PartlyDenied::Refuse, ..(*filtering).clone() };
    let refusing = Arc::new(refusing);
    for (filter, filtered, refused) in [
        ("#", " S~", " -"),
        ("a/#", " S~", " -"),
        ("x/+", " S~", " -"),
        ("a/+", " -", " -"),
        ("a/b", "PS", "PS"),
        ("a/c", "--", "--"),
        ("x/secret", "--", "--"),
        ("x/open", "PS", "PS"),
        ("y/#", " S", " S"),
    ] {
        assert_eq!(may(&filtering, dave(), filter), filtered, "{filter}");
        assert_eq!(may(&refusing, dave(), filter), refused, "{filter}");
    }
    let nobody = acl(OrdinaryTopics::Nobody, [deny("a/secret"), permit("a/#")]);
    assert_eq!(may(&nobody, dave(), "a/#"), " S~");
    assert_eq!(may(&nobody, dave(), "#"), " -", "nothing grants it");
}

#[test]
fn no_topic_comes_through_a_filter_of_which_a_part_is_denied_that_is_denied_alone() {
    let topics = all(&["a", "b", "$s"], |_| true);
    let filters = all(&["a", "b", "+", "#"], |text| !text.contains("#/"));
    for denied in &filters {
        let acl = acl(OrdinaryTopics::Anyone, [deny(denied)]);
        for topic in topics.iter().filter(|topic| filter_matches(denied, topic)) {
            assert_eq!(may(&acl, dave(), topic), "--", "{denied} denies {topic}");
        }
    }
}

/// What is left behind is judged without a client id: as what one client of the user may do.
#[test]
fn what_any_client_may_publish_is_what_one_of_them_may() {
    let rules = acl(
        OrdinaryTopics::Nobody,
        [
            deny("closed/#"),
            deny("devices/%c/secret"),
            permit("devices/%c/#"),
            permit("%u/%c/out"),
            Rule { who: Who { client_id: Pattern::parse("sensor-*"), ..Who::default() }, ..permit("sensors/a") },
        ],
    );
    let dave = ClientRights::new(dave(), rules.clone());
    for topic in ["devices/c1/a", "devices/c2/secret", "dave/c1/out", "sensors/a"] {
        assert!(dave.may_any_publish(topic), "{topic}");
    }
    for topic in ["closed/a", "other", "carol/c1/out", "sensors/b", "$SYS/a"] {
        assert!(!dave.may_any_publish(topic), "{topic}");
    }
    let nobody = ClientRights::new(Holder::Anonymous, rules);
    assert!(!nobody.may_any_publish("+/c1/out") && !nobody.may_any_publish("dave/c1/out"), "nobody has no name");
    let granted = ClientRights::new(service(&["publish:%c/%u"]), acl(OrdinaryTopics::Anyone, []));
    assert!(granted.may_any_publish("c9/shop") && !granted.may_any_publish("c9/other"));
}

#[test]
fn rules_concern_whom_they_name() {
    let who = |who: Who| acl(OrdinaryTopics::Nobody, [Rule { who, ..permit("a") }]);
    let user = who(Who { user: Some("dave".into()), ..Who::default() });
    let client = who(Who { client_id: Pattern::parse("sensor-*"), ..Who::default() });
    let role = who(Who { role: Some(Role::Service), ..Who::default() });
    let both = who(Who { role: Some(Role::Service), user: Some("dave".into()), client_id: None });
    for (acl, holder, client_id, expected) in [
        (&user, dave(), "x", "PS"),
        (&user, Holder::Certificate("dave".into()), "x", "PS"),
        (&user, Holder::Anonymous, "dave", "--"),
        (&client, Holder::Anonymous, "sensor-1", "PS"),
        (&client, Holder::Anonymous, "1-sensor-", "--"),
        (&role, service(&[]), "x", "PS"),
        (&role, dave(), "x", "--"),
        (&both, dave(), "x", "--"),
        (&both, service(&[]), "x", "--"),
    ] {
        assert_eq!(may_as(acl, holder.clone(), client_id, "a"), expected, "{acl:?} {holder:?} {client_id}");
    }
}

#[test]
fn a_name_never_widens_a_permit_and_never_escapes_a_deny() {
    let permits = acl(OrdinaryTopics::Nobody, [permit("devices/%c/#"), permit("%u/inbox")]);
    let denies = acl(OrdinaryTopics::Anyone, [deny("devices/%c/secret")]);
    assert_eq!(may_as(&permits, dave(), "c1", "devices/c1/a"), "PS");
    assert_eq!(may_as(&permits, dave(), "c1", "devices/c2/a"), "--");
    assert_eq!(may_as(&permits, dave(), "c1", "dave/inbox"), "PS");
    assert_eq!(may_as(&denies, dave(), "c1", "devices/c1/secret"), "--");
    assert_eq!(may_as(&denies, dave(), "c1", "devices/c2/secret"), "PS");
    for evil in ["+", "#", "c1/x", "c1/#", "a+", "$SYS", "", "/"] {
        for topic in ["devices/c2/a", "devices/+/a", "devices/#", "#", "devices/c1/x/a"] {
            assert_eq!(may_as(&permits, dave(), evil, topic).replace(' ', "-"), "--", "{evil:?} {topic}");
        }
        assert_eq!(may_as(&denies, dave(), evil, "devices/c2/secret"), "--", "{evil:?}");
        let certified = Holder::Certificate(evil.into());
        for topic in ["x/inbox", "+/inbox", "#", "$SYS/inbox"] {
            assert_eq!(may_as(&permits, certified.clone(), "c1", topic).replace(' ', "-"), "--", "{evil:?} {topic}");
        }
    }
    assert_eq!(may_as(&permits, Holder::Anonymous, "c1", "/inbox"), "--", "nobody is not a user");
    // A client id that looks like a place is a name and nothing else.
    assert_eq!(may_as(&permits, dave(), "%u", "devices/dave/a"), "--");
    assert_eq!(may_as(&permits, dave(), "%u", "devices/%u/a"), "PS");
}

#[test]
fn patterns_are_filters() {
    for text in ["", "a/#/b", "a+", "%c#", "a/b#", "$share/g/a", "$queue/a", "a\0b"] {
        assert!(text.parse::<TopicPattern>().is_err(), "{text:?}");
    }
    let names = Names { client_id: "c", user: Some("u") };
    for (text, filter) in [("a/%c-%u/#", "a/c-u/#"), ("100%/%d", "100%/%d"), ("%%c%c", "%cc"), ("%c", "c")] {
        assert_eq!(text.parse::<TopicPattern>().unwrap().narrow(names).unwrap(), filter, "{text}");
    }
}

/// Every topic and filter of up to three levels over a small alphabet.
fn all(levels: &[&str], ok: impl Fn(&str) -> bool) -> Vec<String> {
    let mut all: Vec<String> = levels.iter().map(|level| (*level).to_owned()).collect();
    for _ in 0..2 {
        let longer: Vec<String> =
            all.iter().flat_map(|begin| levels.iter().map(move |level| format!("{begin}/{level}"))).collect();
        all.extend(longer);
    }
    all.sort();
    all.dedup();
    all.retain(|text| ok(text));
    all
}

#[test]
fn overlap_and_cover_agree_with_matching() {
    let topics = all(&["a", "b", "", "$s"], |_| true);
    let filters = all(&["a", "", "$s", "+", "#"], |text| !text.contains("#/"));
    for one in &filters {
        for other in &filters {
            let mut both = topics.iter().filter(|topic| filter_matches(one, topic) && filter_matches(other, topic));
            assert_eq!(filter_overlaps(one, other), both.next().is_some(), "{one} and {other}");
            // Topics here are short; a cover says more than they can refute, so one way only.
            if filter_covers(one, other) {
                let outside = topics.iter().find(|topic| filter_matches(other, topic) && !filter_matches(one, topic));
                assert_eq!(outside, None, "{one} covers {other}");
            }
        }
    }
}
