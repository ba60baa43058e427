//! What is refused: by whom, with which code, beyond which bound, and in which configuration.

use std::fs;

use serde_json::json;

use super::*;
use crate::services::over;

/// A key that no shard gave.
pub(super) const NO_KEY: &str = "01KB3V5X2M000000000000000G";

#[test]
fn each_refusal_has_its_code() {
    let folder = folder();
    let settings = settings(folder.path(), "messages_max = 3\nmessages_of_owner_max = 4\n");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "dead", &json!({}));
    put(&mut http, "jobs", &json!({"dead_letter": "dead", "messages_max": 2}));
    put(&mut http, "plain", &json!({}));
    put(&mut http, "many", &json!({}));
    let long = "n".repeat(81);
    for name in ["a%20b", "a%2Fb", "%C3%A4", &long] {
        assert_eq!(said(http.put(&format!("/v1/queues/{name}"), &json!({}))), "422 queue_name_invalid", "{name}");
    }
    assert_eq!(said(http.put("/v1/queues/%FF", &json!({}))), "400 path_invalid");
    for (body, refused) in [
        (json!({"lease_ms": 0}), "422 queue_setting_invalid"),
        (json!({"lease_ms": LONG_MS + 1}), "422 queue_setting_invalid"),
        (json!({"attempts_max": 0, "dead_letter": "dead"}), "422 queue_setting_invalid"),
        (json!({"attempts_max": 3}), "422 queue_setting_invalid"),
        (json!({"dead_letter": "new"}), "422 queue_setting_invalid"),
        (json!({"dead_letter": "a b"}), "422 queue_setting_invalid"),
        (json!({"dead_letter": "none"}), "404 queue_not_found"),
        (json!({"retry_ms": 2, "retry_max_ms": 1}), "422 queue_setting_invalid"),
        (json!({"rate_per_s": 0}), "422 queue_setting_invalid"),
        (json!({"burst": 0}), "422 queue_setting_invalid"),
        (json!({"consumer_rate_per_s": 0}), "422 queue_setting_invalid"),
        (json!({"consumer_burst": 0}), "422 queue_setting_invalid"),
        (json!({"delivery_window": ""}), "422 queue_setting_invalid"),
        (json!({"delivery_window": "08:00-20:00"}), "422 queue_setting_invalid"),
        (json!({"delivery_window": "08:00-20:00 Europe/Berlim"}), "422 queue_setting_invalid"),
        (json!({"delivery_window": format!("08:00-20:00{:200}UTC", "")}), "422 queue_setting_invalid"),
        (json!({"delivery_window": 8}), "422 field_invalid"),
        (json!({"expiry_ms": 0}), "422 queue_setting_invalid"),
        (json!({"lease": 1}), "422 field_invalid"),
        (json!({"attempts_max": 65_536}), "422 field_invalid"),
        (json!({"paused": 1}), "422 field_invalid"),
    ] {
        assert_eq!(said(http.put("/v1/queues/new", &body)), refused, "{body}");
    }
    assert_eq!(said(http.get("/v1/queues/new")), "404 queue_not_found", "nothing of it was done");
    let attributes = |count: usize| {
        let named: serde_json::Map<_, _> = (0..count).map(|nth| (format!("a{nth}"), json!(""))).collect();
        json!({"messages": [{"body": "", "attributes": named}]})
    };
    let refused = http.post("/v1/queues/plain/messages", &attributes(65)).expect("it is answered");
    assert!(refused.body.to_string().contains("at most 64 attributes"), "{}", refused.body);
    assert_eq!(refused.code(), "field_invalid");
    ok(http.post("/v1/queues/many/messages", &attributes(64)));
    ok(http.post("/v1/queues/many/purge", &json!({})));
    let missing = json!({"messages": [{"body": ""}]});
    for (path, body) in [
        ("none/messages", &missing),
        ("none/receive", &json!({})),
        ("none/acknowledge", &json!({"leases": [format!("{NO_KEY}.1")]})),
        ("none/purge", &json!({})),
        ("none/redrive", &json!({"to": "jobs"})),
        ("jobs/redrive", &json!({"to": "none"})),
    ] {
        assert_eq!(said(http.post(&format!("/v1/queues/{path}"), body)), "404 queue_not_found", "{path}");
    }
    assert_eq!(said(http.patch("/v1/queues/none", &json!({}))), "404 queue_not_found");
    assert_eq!(said(http.delete("/v1/queues/none")), "404 queue_not_found");
    assert_eq!(said(http.get("/v1/queues/none/messages")), "404 queue_not_found");
    assert_eq!(said(http.delete("/v1/queues/dead")), "409 queue_in_use");

    for (message, refused) in [
        (json!({}), "422 message_invalid"),
        (json!({"body": "", "body_base64": ""}), "422 message_invalid"),
        (json!({"body_base64": "!"}), "422 message_invalid"),
        (json!({"body": "", "priority": 10}), "422 message_invalid"),
        (json!({"body": "", "priority": 256}), "422 field_invalid"),
        (json!({"body": "", "id": ""}), "422 message_invalid"),
        (json!({"body": "", "id": "i".repeat(129)}), "422 message_invalid"),
        (json!({"body": "", "ordering_key": "a\nb"}), "422 message_invalid"),
        (json!({"body": "", "delay_ms": 1, "deliver_at_ms": 1}), "422 message_invalid"),
        (json!({"body": "", "delay_ms": u64::MAX}), "422 message_invalid"),
        (json!({"body": "", "expires_in_ms": 1, "expires_at_ms": 1}), "422 message_invalid"),
        (json!({"body": "", "expires_at_ms": 1}), "422 message_invalid"),
        (json!({"body": "b".repeat(262_145)}), "422 message_invalid"),
        (json!({"body": "", "attributes": {"a": 1}}), "422 field_invalid"),
        (json!({"body": "", "key": "k"}), "422 field_invalid"),
    ] {
        let answer = http.post("/v1/queues/jobs/messages", &json!({"messages": [{"body": ""}, message]}));
        let answer = answer.expect("the door answers");
        assert_eq!(format!("{} {}", answer.status, answer.code()), refused, "{:.80}", message.to_string());
        let which = answer.body.get("message").cloned().unwrap_or_else(|| json!(answer.body["detail"]));
        assert!(refused.contains("field") || which == 1 || text(&which).starts_with("message 1: "), "{answer:?}");
    }
    let many = |count: usize, body: &str| json!({"messages": vec![json!({"body": body}); count]});
    for (body, refused) in [
        (many(0, ""), "422 queue_request_invalid"),
        (many(1_001, ""), "422 messages_too_many"),
        (many(5, &"b".repeat(200_000)), "422 messages_too_many"),
        (many(3, ""), "409 queue_full"),
    ] {
        assert_eq!(said(http.post("/v1/queues/jobs/messages", &body)), refused, "{:.80}", body.to_string());
    }
    assert_eq!(counts(&mut http, "jobs"), [0, 0, 0], "all of a request is taken, or none");
    for body in [json!({"max": 0}), json!({"lease_ms": 0}), json!({"consumer": "c".repeat(65)})] {
        assert_eq!(said(http.post("/v1/queues/jobs/receive", &body)), "422 queue_request_invalid", "{body}");
    }
    for body in [json!({"max": 1_001}), json!({"wait_ms": 20_001})] {
        assert_eq!(said(http.post("/v1/queues/jobs/receive", &body)), "422 field_invalid", "{body}");
    }
    let lease = format!("{NO_KEY}.1");
    for path in ["acknowledge", "extend", "reject"] {
        let with = |leases: Value| match path {
            "extend" => json!({"leases": leases, "lease_ms": 1}),
            _ => json!({ "leases": leases }),
        };
        for leases in [json!([]), json!([lease, "x"]), json!([NO_KEY]), json!([format!("{NO_KEY}.+1")])] {
            let answer = http.post(&format!("/v1/queues/jobs/{path}"), &with(leases));
            assert_eq!(said(answer), "422 queue_request_invalid", "{path}");
        }
        assert_eq!(with_leases(&mut http, &format!("jobs/{path}"), &with(json!([lease]))), ["unknown"], "{path}");
    }
    for body in
        [json!({"leases": [lease], "dead": true, "delay_ms": 1}), json!({"leases": [lease], "reason": "r".repeat(257)})]
    {
        assert_eq!(said(http.post("/v1/queues/jobs/reject", &body)), "422 queue_request_invalid");
    }
    let nowhere = json!({"leases": [lease], "dead": true});
    assert_eq!(said(http.post("/v1/queues/plain/reject", &nowhere)), "422 queue_request_invalid");
    assert_eq!(said(http.post("/v1/queues/jobs/redrive", &json!({"to": "jobs"}))), "422 queue_request_invalid");

    assert_eq!(said(http.get("/v1/messages/x")), "422 queue_request_invalid");
    assert_eq!(said(http.get("/v1/queues/jobs/messages?after=x")), "422 query_invalid");
    assert_eq!(said(http.get("/v1/queues/jobs/messages?limit=0")), "422 query_invalid");
    assert_eq!(said(http.get("/v1/queues?limit=1001")), "422 query_invalid");
    let message = format!("/v1/messages/{NO_KEY}");
    assert_eq!(said(http.get(&message)), "404 message_not_found");
    assert_eq!(said(http.delete(&message)), "404 message_not_found");
    assert_eq!(said(http.patch(&message, &json!({"delay_ms": 1}))), "404 message_not_found");
    assert_eq!(said(http.get("/v1/queues/jobs/ids/x")), "404 message_not_found");

    // As many messages as the server may have, in all queues together.
    send(&mut http, "plain", &json!([{"body": ""}, {"body": ""}]));
    send_one(&mut http, "jobs", &json!({"body": ""}));
    let full = http.post("/v1/queues/jobs/messages", &json!({"messages": [{"body": ""}]})).expect("it is answered");
    assert!(full.code() == "queue_full" && full.body.to_string().contains("queues.messages_max"), "{full:?}");
    let got = receive(&mut http, "plain", 1, 0);
    acknowledge(&mut http, "plain", &got);
    send_one(&mut http, "jobs", &json!({"body": ""}));
    end(server, &settings);
}

#[test]
fn a_request_to_receive_that_cannot_be_is_refused_also_when_there_is_nothing() {
    let folder = folder();
    let settings = settings(folder.path(), "");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "jobs", &json!({"paused": true}));
    for body in [json!({"max": 0, "wait_ms": 20_000}), json!({"lease_ms": LONG_MS + 1}), json!({"lease_ms": 0})] {
        assert_eq!(said(http.post("/v1/queues/jobs/receive", &body)), "422 queue_request_invalid", "{body}");
    }
    end(server, &settings);
}

/// Services that may do one thing with the queue `jobs`, something with another queue, and nothing.
const SERVICES: &str = r#"
[[service]]
name = "sender"
token = "a-token-that-may-send"
grants = ["send:jobs"]

[[service]]
name = "receiver"
token = "a-token-that-may-receive"
grants = ["receive:job*"]

[[service]]
name = "admin"
token = "a-token-that-may-admin"
grants = ["admin:jobs"]

[[service]]
name = "other"
token = "a-token-for-another-queue"
grants = ["send:mail", "receive:mail", "admin:mail"]

[[service]]
name = "nobody"
token = "a-token-for-nothing"
grants = []
"#;

/// Also not as the place where the next page begins, and however many are between those that they may know of.
#[test]
fn a_list_of_queues_says_no_name_that_the_caller_may_not_know() {
    let folder = folder();
    let hidden: String = (0..1_100).map(|number| format!("[[queue]]\nname = \"hidden-{number}\"\n")).collect();
    let known: String = ["a", "i", "j", "z"].map(|name| format!("[[queue]]\nname = \"{name}\"\n")).concat();
    let service = "[[service]]\nname = \"one\"\ntoken = \"a-token-for-some-queues\"\n\
                   grants = [\"send:a\", \"send:i\", \"send:j\", \"send:z\"]\n";
    let sections = format!("{service}\n{known}{hidden}");
    let server = Server::start(&Settings { sections, ..settings(folder.path(), "") });
    let mut all = connect(&server);
    wait_for("they are made", || all.get("/v1/queues/z").ok().filter(|answer| answer.status == 200));
    let mut caller = over(&server, "a-token-for-some-queues");
    for (after, limit, names, next) in [
        ("", 1, json!(["a"]), json!("a")),
        ("a", 1, json!(["i"]), json!("i")),
        ("a", 2, json!(["i", "j"]), json!("j")),
        ("j", 2, json!(["z"]), Value::Null),
        ("", 4, json!(["a", "i", "j", "z"]), Value::Null),
        ("", 1_000, json!(["a", "i", "j", "z"]), Value::Null),
        ("z", 1, json!([]), Value::Null),
    ] {
        let page = ok(caller.get(&format!("/v1/queues?after={after}&limit={limit}")));
        let found: Vec<_> = list(&page["queues"]).iter().map(|queue| queue["name"].clone()).collect();
        assert_eq!((json!(found), &page["next"]), (names, &next), "after {after:?}, at most {limit}");
    }
    assert_eq!(list(&ok(all.get("/v1/queues?limit=1000"))["queues"]).len(), 1_000);
    assert!(server.terminate().status.success());
}

#[test]
fn each_grant_allows_its_own_and_no_more() {
    let folder = folder();
    let settings = Settings { sections: SERVICES.into(), ..settings(folder.path(), "") };
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "jobs", &json!({}));
    put(&mut http, "mail", &json!({}));
    let sent = send(&mut http, "jobs", &json!([{"body": "a", "id": "1"}, {"body": "b", "delay_ms": 9_999_999}]));
    let [key, later] = [0, 1].map(|nth| format!("/v1/messages/{}", text(&sent[nth]["key"])));
    let lease = leases(&receive(&mut http, "jobs", 1, 0)).remove(0);
    let [none, leases] = [json!({}), json!({"leases": [lease], "lease_ms": 60_000})];
    let only_leases = json!({"leases": [lease]});
    let message = json!({"messages": [{"body": "c"}]});
    let delay = json!({"delay_ms": 9_999_999});
    // What is asked, and who may: sender, receiver, admin. Those who may nothing of this queue see no message of it.
    let asked: [(&str, String, &Value, &str); 15] = [
        ("POST", "/v1/queues/jobs/messages".into(), &message, "s"),
        ("GET", "/v1/queues/jobs/messages".into(), &none, "a"),
        ("POST", "/v1/queues/jobs/receive".into(), &none, "r"),
        ("POST", "/v1/queues/jobs/extend".into(), &leases, "r"),
        ("POST", "/v1/queues/jobs/reject".into(), &only_leases, "r"),
        ("POST", "/v1/queues/jobs/acknowledge".into(), &only_leases, "r"),
        ("GET", "/v1/queues/jobs".into(), &none, "sra"),
        ("PUT", "/v1/queues/jobs".into(), &none, "a"),
        ("PATCH", "/v1/queues/jobs".into(), &none, "a"),
        ("GET", "/v1/queues/jobs/ids/1".into(), &none, "sra"),
        ("GET", key.clone(), &none, "sra"),
        ("PATCH", later.clone(), &delay, "s"),
        ("DELETE", later.clone(), &none, "s"),
        ("POST", "/v1/queues/jobs/purge".into(), &none, "a"),
        ("DELETE", "/v1/queues/jobs".into(), &none, "a"),
    ];
    // First those who may not, so that what is asked is still there.
    let callers = [
        ("a-token-for-nothing", 'n', "403 forbidden"),
        ("a-token-for-another-queue", 'o', "403 forbidden"),
        ("no-such-token", 'w', "401 token_invalid"),
        ("", 'm', "401 token_missing"),
        ("a-token-that-may-send", 's', "403 forbidden"),
        ("a-token-that-may-receive", 'r', "403 forbidden"),
        ("a-token-that-may-admin", 'a', "403 forbidden"),
    ];
    let mut callers = callers.map(|(token, who, refused)| (over(&server, token), who, refused));
    for (method, path, body, may) in &asked {
        for of_those_who_may in [false, true] {
            for (caller, who, refused) in &mut callers {
                if may.contains(*who) != of_those_who_may {
                    continue;
                }
                let answer = match *method {
                    "GET" => caller.get(path),
                    "PUT" => caller.put(path, body),
                    "PATCH" => caller.patch(path, body),
                    "DELETE" => caller.delete(path),
                    _ => caller.post(path, body),
                };
                let unknown = path.starts_with("/v1/messages/") && "no".contains(*who);
                let expected = match (of_those_who_may, unknown) {
                    (true, _) => "200 ",
                    (false, true) => "404 message_not_found",
                    (false, false) => refused,
                };
                assert_eq!(said(answer), expected, "{who}: {method} {path}");
            }
        }
    }
    drop(callers);
    end(server, &settings);
}

#[test]
fn what_a_caller_may_not_know_is_not_shown() {
    let folder = folder();
    let settings = Settings { sections: SERVICES.into(), ..settings(folder.path(), "") };
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "jobs", &json!({}));
    put(&mut http, "mail", &json!({}));
    put(&mut http, "jobs-dead", &json!({}));
    let key = send_one(&mut http, "jobs", &json!({"body": "a secret", "attributes": {"to": "another"}}));
    for (token, queues, shows_body) in [
        ("a-token-that-may-send", &["jobs"][..], false),
        ("a-token-that-may-receive", &["jobs", "jobs-dead"], true),
        ("a-token-that-may-admin", &["jobs"], true),
    ] {
        let mut caller = over(&server, token);
        let listed = list(&ok(caller.get("/v1/queues"))["queues"]);
        assert_eq!(listed.iter().map(|queue| text(&queue["name"])).collect::<Vec<_>>(), queues, "{token}");
        assert_eq!(look(&mut caller, &key).to_string().contains("a secret"), shows_body, "{token}");
    }
    for token in ["a-token-for-nothing", "a-token-for-another-queue"] {
        let mut caller = over(&server, token);
        let listed = list(&ok(caller.get("/v1/queues"))["queues"]);
        assert!(listed.iter().all(|queue| queue["name"] == "mail") && listed.len() < 2, "{token}");
        // Nobody learns from a refusal whether a queue is there.
        for (there, not) in [("/v1/queues/jobs", "/v1/queues/none"), ("/v1/queues/jobs/ids/1", "/v1/queues/none/ids/1")]
        {
            assert_eq!(said(caller.get(there)), said(caller.get(not)));
        }
    }
    // Who puts messages into another queue needs both.
    let mut admin = over(&server, "a-token-that-may-admin");
    assert_eq!(said(admin.post("/v1/queues/jobs/redrive", &json!({"to": "mail"}))), "403 forbidden");
    assert_eq!(said(admin.post("/v1/queues/mail/redrive", &json!({"to": "jobs"}))), "403 forbidden");
    for target in ["mail", "none"] {
        let dead_letters = json!({"dead_letter": target});
        assert_eq!(said(admin.put("/v1/queues/jobs", &dead_letters)), "403 forbidden");
        assert_eq!(said(admin.patch("/v1/queues/jobs", &dead_letters)), "403 forbidden");
    }
    ok(admin.patch("/v1/queues/jobs", &json!({"dead_letter": null})));
    end(server, &settings);
}

#[test]
fn queues_of_two_shards_need_a_tag_to_be_together() {
    let folder = folder();
    let settings = settings(folder.path(), "shards = 2\n");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "dead", &json!({}));
    let names: Vec<String> = (0..20).map(|nth| format!("jobs-{nth:02}")).collect();
    let mut apart = Vec::new();
    for name in &names {
        match &*said(http.put(&format!("/v1/queues/{name}"), &json!({"dead_letter": "dead"}))) {
            "200 " => {}
            refused => {
                assert_eq!(refused, "409 queues_on_two_shards");
                put(&mut http, name, &json!({}));
                assert_eq!(said(http.post(&format!("/v1/queues/{name}/redrive"), &json!({"to": "dead"}))), refused);
                apart.push(name.clone());
            }
        }
    }
    assert!(!apart.is_empty() && apart.len() < names.len(), "names are on both shards: {apart:?}");
    for tag in 0..20 {
        put(&mut http, &format!("{{{tag}}}-dead"), &json!({}));
        put(&mut http, &format!("mail-{{{tag}}}"), &json!({"dead_letter": format!("{{{tag}}}-dead")}));
    }
    // Lists are of all shards, and keys say which has a message.
    let listed = list(&ok(http.get("/v1/queues?limit=1000"))["queues"]);
    let listed: Vec<String> = listed.iter().map(|queue| text(&queue["name"])).collect();
    assert!(listed.len() == 61 && listed.is_sorted(), "{listed:?}");
    let keys: Vec<String> = names.iter().map(|name| send_one(&mut http, name, &json!({"body": name}))).collect();
    server.kill();
    let server = Server::start(&settings);
    let mut http = connect(&server);
    for (name, key) in names.iter().zip(&keys) {
        let found = look(&mut http, key);
        assert_eq!((&found["queue"], &found["message"]["body"]), (&json!(name), &json!(name)));
        assert_eq!(&received(&mut http, name, 10), std::slice::from_ref(name));
    }
    let lines = tidegate_says_two_shards(server, &settings);
    assert_eq!(lines, 2, "both are audited");
}

/// Ends the server; how many shards of queues the audit names.
fn tidegate_says_two_shards(server: Server, settings: &Settings) -> usize {
    assert!(server.terminate().status.success());
    let audited = audit(&settings.data);
    assert!(audited.status.success() && audited.log.contains("all agree"), "{audited}");
    let names: std::collections::BTreeSet<&str> = audited
        .log
        .lines()
        .filter(|line| line.starts_with("queues shard "))
        .filter_map(|line| line.get(..14))
        .collect();
    names.len()
}

#[test]
fn what_is_wrong_in_the_configuration_is_named_with_its_line() {
    let folder = folder();
    for (keys, words) in [
        ("node = 65536\n", "queues.node"),
        ("shards = 0\n", "queues.shards"),
        ("shards = 257\n", "queues.shards"),
        ("messages_max = \"many\"\n", "queues.messages_max"),
        ("bodies_bytes_max = 1048575\n", "queues.bodies_bytes_max"),
        ("receivers_max = 0\n", "queues.receivers_max"),
        ("ids_max = -1\n", "queues.ids_max"),
        ("bodies_max = 1\n", "bodies_bytes_max"),
    ] {
        let settings = settings(folder.path(), keys);
        let ended = Server::refused(&settings);
        let config = fs::read_to_string(settings.write()).expect("it was written");
        let line = 1 + config.lines().position(|line| line == keys.trim_end()).expect("the key is in the file");
        let place = format!("config.toml:{line}: ");
        assert!(ended.log.contains(&place) && ended.log.contains(words), "{keys:?}, {place}, {words}: {ended}");
        assert!(!settings.data.exists(), "nothing is made");
    }
}
