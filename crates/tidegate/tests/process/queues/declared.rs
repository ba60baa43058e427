//! Queues of the configuration.

use serde_json::json;

use super::*;

/// A server with these sections.
fn with_queues(folder: &Path, sections: &str) -> Settings {
    Settings { sections: sections.to_owned(), ..Settings::new(folder) }
}

#[test]
fn two_queues_may_be_the_dead_letter_queues_of_each_other() {
    let folder = folder();
    let both = "[[queue]]\nname = \"a\"\ndead_letter = \"b\"\nattempts_max = 3\n\n\
                [[queue]]\nname = \"b\"\ndead_letter = \"a\"\nattempts_max = 5\n";
    let settings = with_queues(folder.path(), both);
    for _ in 0..2 {
        let server = Server::start(&settings);
        let mut http = connect(&server);
        for (queue, dead_letter, attempts_max) in [("a", "b", 3), ("b", "a", 5)] {
            let of = wait_for("it is made", || {
                let answer = http.get(&format!("/v1/queues/{queue}")).ok()?;
                Some(answer.body["settings"].clone()).filter(|settings| settings["dead_letter"] == dead_letter)
            });
            assert_eq!(of["attempts_max"], attempts_max);
        }
        end(server, &settings);
    }
}

#[test]
fn a_change_of_a_queue_of_the_configuration_is_said_to_last_until_the_next_start() {
    let folder = folder();
    let settings = with_queues(folder.path(), "[[queue]]\nname = \"jobs\"\n");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    let jobs = "/v1/queues/jobs";
    wait_for("it is made", || http.get(jobs).ok().filter(|answer| answer.status == 200));
    ok(http.patch(jobs, &json!({"paused": false})));
    assert!(!server.log().contains("the next start undoes this"), "nothing was changed");
    ok(http.patch(jobs, &json!({"paused": true})));
    server.says("the next start undoes this");
    assert!(server.terminate().status.success());
    let server = Server::start(&settings);
    server.says("the queue has the settings of its [[queue]] in the configuration again");
    assert_eq!(ok(connect(&server).get(jobs))["settings"]["paused"], false);
    end(server, &settings);
}

#[test]
fn another_number_of_shards_than_the_directory_has_is_refused() {
    let folder = folder();
    let server = Server::start(&settings(folder.path(), "shards = 2\n"));
    assert!(server.terminate().status.success());
    let ended = Server::refused(&settings(folder.path(), "shards = 3\n"));
    assert!(ended.log.contains("queues.shards") && ended.log.contains('2'), "{ended}");
}

/// Done or refused, as all that operators do.
#[test]
fn what_is_done_with_a_queue_is_in_the_operator_log_and_one_of_the_configuration_comes_back() {
    let folder = folder();
    let service = "[[service]]\nname = \"sender\"\ntoken = \"a-token-that-may-send\"\ngrants = [\"send:jobs\"]\n";
    let settings = with_queues(folder.path(), &format!("[[queue]]\nname = \"jobs\"\n\n{service}"));
    let server = Server::start(&settings);
    let mut http = connect(&server);
    wait_for("it is made", || http.get("/v1/queues/jobs").ok().filter(|answer| answer.status == 200));
    ok(http.put("/v1/queues/other", &json!({})));
    ok(http.patch("/v1/queues/other", &json!({"paused": true})));
    send_one(&mut http, "other", &json!({"body": "a"}));
    assert_eq!(said(http.delete("/v1/queues/other")), "409 queue_not_empty");
    ok(http.post("/v1/queues/other/redrive", &json!({"to": "jobs"})));
    send_one(&mut http, "other", &json!({"body": "b"}));
    ok(http.post("/v1/queues/other/purge", &json!({})));
    ok(http.delete("/v1/queues/other"));
    let mut sender = Http::over(TcpStream::connect(server.http).expect("the door is open"), "a-token-that-may-send");
    assert_eq!(said(sender.delete("/v1/queues/jobs")), "403 forbidden");
    assert_eq!(said(http.put("/v1/queues/jobs", &json!({"lease_ms": 0}))), "422 queue_setting_invalid");
    for (act, what, outcome) in [
        ("set queue", "other", "done"),
        ("change queue", "other", "done"),
        ("delete queue", "other", "queue_not_empty"),
        ("redrive queue", "other", "done"),
        ("purge queue", "other", "done"),
        ("delete queue", "other", "done"),
    ] {
        let line = format!("act=\"{act}\" what=\"{what}\" outcome=\"{outcome}\"");
        server.says(&format!("who=\"test\" address=127.0.0.1 {line}"));
    }
    server.says("who=\"sender\" address=127.0.0.1 act=\"delete queue\" what=\"jobs\" outcome=\"forbidden\"");
    assert!(!server.log().contains("the next start makes it again"), "the configuration does not have it");
    ok(http.post("/v1/queues/jobs/purge", &json!({})));
    ok(http.delete("/v1/queues/jobs"));
    server.says("the next start makes it again");
    assert!(server.terminate().status.success());
    let server = Server::start(&settings);
    let mut http = connect(&server);
    wait_for("it is made again", || http.get("/v1/queues/jobs").ok().filter(|answer| answer.status == 200));
    end(server, &settings);
}

/// A route that moves all messages of `in`, and one that moves some of `jobs`.
const ROUTED: &str = r#"
[[queue]]
name = "in"
[[queue]]
name = "first"
[[queue]]
name = "second"
[[queue]]
name = "jobs"
[[queue]]
name = "rest"
[[route]]
name = "sms"
from = "in"
[[route_rule]]
route = "sms"
prefix = ["+1"]
to = ["jobs"]
[[route_rule]]
route = "sms"
to = ["first", "second"]
choose = "failover"
[[route]]
name = "some"
from = "jobs"
[[route_rule]]
route = "some"
prefix = ["+49"]
to = ["first"]
"#;

#[test]
fn what_routes_need_cannot_be_taken_from_them() {
    let folder = folder();
    let settings = with_queues(folder.path(), ROUTED);
    let server = Server::start(&settings);
    let mut http = connect(&server);
    wait_for("they are made", || http.get("/v1/queues/rest").ok().filter(|answer| answer.status == 200));
    // As the check of the configuration refuses it: what no rule of `jobs` fits would go to `in`, and come back.
    for settings in [json!({"dead_letter": "in"}), json!({"dead_letter": "in", "attempts_max": 3})] {
        assert_eq!(said(http.patch("/v1/queues/jobs", &settings)), "409 queues_go_round");
        assert_eq!(said(http.put("/v1/queues/jobs", &settings)), "409 queues_go_round");
    }
    assert_eq!(ok(http.get("/v1/queues/jobs"))["settings"]["dead_letter"], Value::Null);
    ok(http.patch("/v1/queues/jobs", &json!({"dead_letter": "rest"})));
    // All messages of `in` fit its rule, so it may have any.
    ok(http.patch("/v1/queues/in", &json!({"dead_letter": "jobs"})));
    for queue in ["in", "first", "second", "jobs"] {
        let refused = http.delete(&format!("/v1/queues/{queue}")).expect("the door answers");
        assert_eq!((refused.status, refused.code()), (409, "queue_in_use"), "{queue}");
        assert!(text(&refused.body["detail"]).contains("\"sms\""), "{refused:?}");
    }
    let sent = send_one(&mut http, "in", &json!({"body": "it is routed"}));
    wait_for("it is routed", || (look(&mut http, &sent)["queue"] == "first").then_some(()));
    end(server, &settings);
}
