//! Shares of principals: what one service takes of the queues, schedules, messages and ids of a shard leaves room for
//! others, however many queues it makes.

use std::thread;

use serde_json::json;

use super::*;
use crate::SERVICE;

const FLOODER: &str = "a-token-of-the-flooder";
const VICTIM: &str = "a-token-of-the-victim";
const SENDER: &str = "a-token-that-may-only-send";
/// Queues and schedules that one owner may make on a shard.
const QUEUES: usize = 7_500;
const SCHEDULES: usize = 750;

fn two_services(folder: &Path, keys: &str) -> Settings {
    let services = [
        ("flooder", FLOODER, r#""admin:m*", "send:m*""#),
        ("victim", VICTIM, r#""admin:v*", "send:v*", "admin:shared""#),
        ("sender", SENDER, r#""send:m*""#),
    ];
    let services = services.map(|(name, token, grants)| {
        format!("[[service]]\nname = \"{name}\"\ntoken = \"{token}\"\ngrants = [{grants}]\n")
    });
    Settings { sections: format!("[queues]\n{keys}\n{}", services.concat()), ..Settings::new(folder) }
}

fn refusals(http: &mut Http<TcpStream>, bound: &str) -> u64 {
    labelled(http, "tidegate_queue_refused_total", bound)
}

/// The text of a refusal.
fn detail(answer: std::io::Result<crate::http::Answer>) -> String {
    text(&answer.expect("the door answers").body["detail"])
}

#[test]
fn schedules_of_one_service_leave_room_for_others() {
    let folder = folder();
    let settings = two_services(folder.path(), "");
    let server = Server::start(&settings);
    let [mut operator, mut flooder, mut victim] = [SERVICE, FLOODER, VICTIM].map(|token| over(&server, token));
    for queue in ["m1", "m2"] {
        put(&mut flooder, queue, &json!({}));
    }
    put(&mut operator, "m3", &json!({}));
    put(&mut victim, "v1", &json!({}));
    let schedule = json!({"cron": "0 9 1 1 *", "zone": "UTC", "message": {"body": "hello"}});
    let path = |queue: &str, number: usize| format!("/v1/queues/{queue}/schedules/s{number}");
    for number in 0..SCHEDULES {
        ok(flooder.put(&path(["m1", "m2", "m3"][number % 3], number), &schedule));
    }
    for queue in ["m1", "m3"] {
        assert_eq!(said(flooder.put(&path(queue, SCHEDULES), &schedule)), "409 queue_schedules_of_owner_too_many");
    }
    let why = detail(flooder.put(&path("m1", SCHEDULES), &schedule));
    assert!(why.contains("750 of 1000") && why.contains("remove some"), "{why}");
    let made = ok(victim.put(&path("v1", 0), &schedule));
    assert_eq!(made["owner"], "victim");
    // Who puts another one in its place does not take it over, so it does not count for them.
    let other = json!({"cron": "0 9 2 1 *", "zone": "UTC", "message": {"body": "hello"}});
    assert_eq!(ok(operator.put(&path("m1", 0), &other))["owner"], "flooder");
    wait_for("they are counted", || (refusals(&mut operator, "schedules_of_owner") == 3).then_some(()));
    server.says("one owner has made as many schedules of a shard as it may, 750");
    server.says("flooder");
    wait_for("they are shown", || (metric(&mut operator, "tidegate_queue_schedules") == 751).then_some(()));
    assert_eq!(metric(&mut operator, "tidegate_queue_schedules_max"), 1_000);
    // One that is removed makes room, also after a start.
    ok(flooder.delete(&path("m1", 0)));
    assert!(server.terminate().status.success());
    let server = Server::start(&settings);
    let mut flooder = over(&server, FLOODER);
    ok(flooder.put(&path("m1", 0), &schedule));
    assert_eq!(said(flooder.put(&path("m1", SCHEDULES), &schedule)), "409 queue_schedules_of_owner_too_many");
    end(server, &settings);
}

#[test]
fn two_queues_of_one_service_leave_messages_and_ids_to_others() {
    let folder = folder();
    let settings = two_services(folder.path(), "messages_max = 8\nids_max = 4\n");
    let server = Server::start(&settings);
    let [mut operator, mut flooder, mut victim] = [SERVICE, FLOODER, VICTIM].map(|token| over(&server, token));
    for queue in ["m1", "m2"] {
        put(&mut flooder, queue, &json!({"id_window_ms": null}));
    }
    put(&mut victim, "v1", &json!({"id_window_ms": null}));
    let with_id = |id: &str| json!({"messages": [{"body": "", "id": id}]});
    let without = json!({"messages": [{"body": ""}]});
    for (queue, id) in [("m1", "1"), ("m1", "2"), ("m2", "1")] {
        ok(flooder.post(&format!("/v1/queues/{queue}/messages"), &with_id(id)));
    }
    let refused = flooder.post("/v1/queues/m2/messages", &with_id("2")).expect("the door answers");
    assert_eq!(refused.code(), "queue_full");
    let why = text(&refused.body["detail"]);
    assert!(why.starts_with("as many ids of messages") && why.contains("queues.ids_of_owner_max"), "{why}");
    for queue in ["m1", "m2", "m2"] {
        ok(flooder.post(&format!("/v1/queues/{queue}/messages"), &without));
    }
    let why = detail(flooder.post("/v1/queues/m1/messages", &without));
    assert!(why.contains("messages together") && why.contains("queues.messages_of_owner_max"), "{why}");
    ok(victim.post("/v1/queues/v1/messages", &with_id("1")));
    ok(victim.post("/v1/queues/v1/messages", &without));
    for bound in ["ids_of_owner", "messages_of_owner"] {
        wait_for(bound, || (refusals(&mut operator, bound) == 1).then_some(()));
    }
    server.says("(queues.ids_of_owner_max)");
    server.says("(queues.messages_of_owner_max)");
    end(server, &settings);
}

#[test]
fn an_owner_is_shown_to_who_manages_the_queue_and_stays_when_others_change_it() {
    let folder = folder();
    let settings = two_services(folder.path(), "");
    let server = Server::start(&settings);
    let [mut operator, mut flooder, mut sender] = [SERVICE, FLOODER, SENDER].map(|token| over(&server, token));
    assert_eq!(put(&mut flooder, "m1", &json!({}))["owner"], "flooder");
    assert_eq!(put(&mut operator, "m1", &json!({"lease_ms": 1_000}))["owner"], "flooder");
    assert_eq!(ok(operator.patch("/v1/queues/m1", &json!({"paused": true})))["owner"], "flooder");
    let seen = ok(sender.get("/v1/queues/m1"));
    assert_eq!((&seen["name"], seen.get("owner")), (&json!("m1"), None), "who only sends need not know");
    assert!(server.terminate().status.success());
    // The configuration takes it.
    let declared = Settings { sections: format!("{}\n[[queue]]\nname = \"m1\"\n", settings.sections), ..settings };
    let server = Server::start(&declared);
    let mut operator = over(&server, SERVICE);
    wait_for("it is taken", || ok(operator.get("/v1/queues/m1")).get("owner").is_none().then_some(()));
    assert_eq!(ok(operator.patch("/v1/queues/m1", &json!({"paused": true}))).get("owner"), None);
    end(server, &declared);
}

#[test]
fn queues_of_one_service_leave_room_for_others_and_for_the_configuration() {
    let folder = folder();
    let settings = two_services(folder.path(), "");
    let server = Server::start(&settings);
    // Several connections, as they share what a write costs.
    let make = |token: &'static str, letter: &'static str, count: usize| {
        thread::scope(|scope| {
            for part in 0..16 {
                let mut http = over(&server, token);
                scope.spawn(move || {
                    for number in (part..count).step_by(16) {
                        put(&mut http, &format!("{letter}{number}"), &json!({}));
                    }
                });
            }
        });
    };
    make(FLOODER, "m", QUEUES);
    let [mut operator, mut flooder, mut victim] = [SERVICE, FLOODER, VICTIM].map(|token| over(&server, token));
    let refused = flooder.put("/v1/queues/more", &json!({})).expect("the door answers");
    assert_eq!(refused.code(), "queues_of_owner_too_many");
    let why = text(&refused.body["detail"]);
    assert!(why.contains("7500 of 10000") && why.contains("delete some"), "{why}");
    make(VICTIM, "v", 9_000 - QUEUES);
    let refused = victim.put("/v1/queues/vv", &json!({})).expect("the door answers");
    assert_eq!(refused.code(), "queues_too_many");
    for bound in ["queues_of_owner", "queues"] {
        wait_for(bound, || (refusals(&mut operator, bound) == 1).then_some(()));
    }
    wait_for("they are shown", || (metric(&mut operator, "tidegate_queues") == 9_000).then_some(()));
    assert_eq!(metric(&mut operator, "tidegate_queues_max"), 10_000);
    server.says("one owner has made as many queues of a shard as it may, 7,500");
    assert!(server.terminate().status.success());
    let declared = Settings { sections: format!("{}\n[[queue]]\nname = \"new\"\n", settings.sections), ..settings };
    let server = Server::start(&declared);
    let mut operator = over(&server, SERVICE);
    wait_for("it is made", || operator.get("/v1/queues/new").ok().filter(|answer| answer.status == 200));
    end(server, &declared);
}
