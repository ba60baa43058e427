//! Which message is handed out when: times, ordering keys, priorities, pauses; and looking through those that wait.

use serde_json::json;

use super::*;

#[test]
fn a_message_is_not_handed_out_before_its_time() {
    let folder = folder();
    let settings = settings(folder.path(), "");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "orders", &json!({"delay_ms": 200}));
    let at = now_ms() + 300;
    let messages = json!([{"body": "at", "deliver_at_ms": at}, {"body": "delayed"}, {"body": "now", "delay_ms": 0}]);
    let keys: Vec<String> = send(&mut http, "orders", &messages).iter().map(|sent| text(&sent["key"])).collect();
    let scheduled = look(&mut http, &keys[0]);
    assert_eq!((&scheduled["state"], &scheduled["until_ms"]), (&json!("scheduled"), &json!(at)));
    assert_eq!(received(&mut http, "orders", 10), ["now"], "what its sender says goes before what the queue says");
    let delayed = receive(&mut http, "orders", 10, 20_000);
    assert!(bodies(&delayed) == ["delayed"] && now_ms() >= number(&delayed[0]["sent_at_ms"]) + 200, "{delayed:?}");
    assert!(bodies(&receive(&mut http, "orders", 10, 20_000)) == ["at"] && now_ms() >= at);

    // Its time passes while the server is down.
    let down = send_one(&mut http, "orders", &json!({"body": "down", "delay_ms": 50}));
    send_one(&mut http, "orders", &json!({"body": "far", "delay_ms": 100_000_000}));
    server.kill();
    let server = Server::start(&settings);
    let mut http = connect(&server);
    let got = receive(&mut http, "orders", 10, 20_000);
    assert_eq!((bodies(&got), &got[0]["key"]), (vec!["down".to_owned()], &json!(down)));
    assert_eq!(counts(&mut http, "orders"), [0, 1, 4]);
    end(server, &settings);
}

#[test]
fn messages_of_a_key_go_one_after_the_other_and_others_pass() {
    let folder = folder();
    let settings = settings(folder.path(), "");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "orders", &json!({}));
    let of = |key: &str, body: &str| json!({"body": body, "ordering_key": key});
    let messages = json!([of("k", "1"), of("k", "2"), of("l", "a"), {"body": "free"}, of("k", "3"), of("l", "b")]);
    let keys: Vec<String> = send(&mut http, "orders", &messages).iter().map(|sent| text(&sent["key"])).collect();
    assert_eq!(look(&mut http, &keys[1])["state"], "held");
    let got = receive(&mut http, "orders", 10, 0);
    assert_eq!(bodies(&got), ["1", "a", "free"]);
    assert_eq!(got[0]["ordering_key"], "k");
    // A rejected one holds those behind it up, as long as it waits.
    let body = json!({"leases": [got[0]["lease"]], "delay_ms": 60_000_000});
    assert_eq!(with_leases(&mut http, "orders/reject", &body), ["done"]);
    assert_eq!(acknowledge(&mut http, "orders", &got[1..2]), ["done"]);
    assert_eq!(received(&mut http, "orders", 10), ["b"]);
    server.kill();

    let server = Server::start(&settings);
    let mut http = connect(&server);
    assert_eq!(received(&mut http, "orders", 10), [""; 0]);
    assert_eq!(ok(http.patch(&format!("/v1/messages/{}", keys[0]), &json!({"delay_ms": 0})))["state"], "ready");
    let got = receive(&mut http, "orders", 10, 0);
    assert_eq!((bodies(&got), &got[0]["attempts"]), (vec!["1".to_owned()], &json!(2)));
    assert_eq!(ok(http.delete(&format!("/v1/messages/{}", keys[1])))["state"], "cancelled");
    assert_eq!(received(&mut http, "orders", 10), [""; 0], "the first is not done");
    assert_eq!(acknowledge(&mut http, "orders", &got), ["done"]);
    assert_eq!(received(&mut http, "orders", 10), ["3"]);
    end(server, &settings);
}

#[test]
fn the_highest_priority_goes_first_and_the_lowest_goes_too() {
    let folder = folder();
    let settings = settings(folder.path(), "");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "orders", &json!({}));
    let of = |priority: u8, body: String| json!({"body": body, "priority": priority});
    let mut messages = vec![of(0, "low".into()), of(3, "middle".into())];
    messages.extend((0..20).map(|nth| of(9, format!("high {nth}"))));
    send(&mut http, "orders", &json!(messages));
    let got = received(&mut http, "orders", 22);
    let high: Vec<&str> = got.iter().map(|body| &**body).filter(|body| body.starts_with("high")).collect();
    assert_eq!(high, (0..20).map(|nth| format!("high {nth}")).collect::<Vec<_>>(), "in their order");
    assert!(got[..7].iter().all(|body| body.starts_with("high")), "{got:?}");
    let behind = |body: &str| got.iter().position(|of| of == body).expect("it is handed out");
    assert!(behind("middle") < 21 && behind("low") < 21, "one of eight is of a lower level: {got:?}");
    end(server, &settings);
}

#[test]
fn a_paused_queue_takes_messages_and_hands_out_none() {
    let folder = folder();
    let settings = settings(folder.path(), "");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "orders", &json!({"lease_ms": 77_000, "retry_ms": 5, "expiry_ms": 1_000_000}));
    let paused = ok(http.patch("/v1/queues/orders", &json!({"paused": true, "expiry_ms": null})));
    let settings_now = &paused["settings"];
    let expected = (&json!(true), &json!(77_000), &json!(5), &json!(null));
    let (lease_ms, retry_ms) = (&settings_now["lease_ms"], &settings_now["retry_ms"]);
    assert_eq!((&settings_now["paused"], lease_ms, retry_ms, &settings_now["expiry_ms"]), expected);
    send_one(&mut http, "orders", &json!({"body": "a"}));
    assert_eq!(received(&mut http, "orders", 10), [""; 0]);
    server.kill();
    let server = Server::start(&settings);
    let mut http = connect(&server);
    assert_eq!((received(&mut http, "orders", 10), counts(&mut http, "orders")), (Vec::new(), [1, 0, 0]));
    ok(http.patch("/v1/queues/orders", &json!({"paused": false})));
    assert_eq!(received(&mut http, "orders", 10), ["a"]);
    end(server, &settings);
}

#[test]
fn a_message_that_nobody_has_is_delivered_at_another_time_or_not_at_all() {
    let folder = folder();
    let settings = settings(folder.path(), "");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "orders", &json!({}));
    let messages = json!([{"body": "a", "delay_ms": 1_000_000}, {"body": "b"}, {"body": "c", "priority": 9}]);
    let sent = send(&mut http, "orders", &messages);
    let [a, b, c] = [0, 1, 2].map(|nth| format!("/v1/messages/{}", text(&sent[nth]["key"])));
    let at = now_ms() + 2_000_000;
    let later = ok(http.patch(&b, &json!({"deliver_at_ms": at})));
    assert_eq!(
        (&later["state"], &later["until_ms"], &later["message"]["body"]),
        (&json!("scheduled"), &json!(at), &json!("b"))
    );
    assert_eq!(ok(http.patch(&a, &json!({"delay_ms": 0})))["state"], "ready");
    assert_eq!(bodies(&receive(&mut http, "orders", 1, 0)), ["c"]);
    assert_eq!(said(http.patch(&c, &json!({"delay_ms": 0}))), "409 message_leased");
    assert_eq!(said(http.delete(&c)), "409 message_leased");
    let cancelled = ok(http.delete(&b));
    assert_eq!((&cancelled["state"], cancelled.get("message")), (&json!("cancelled"), None));
    assert_eq!(said(http.delete(&b)), "404 message_not_found");
    assert_eq!(said(http.patch(&b, &json!({"delay_ms": 0}))), "404 message_not_found");
    let trail = ok(http.get(&b));
    assert_eq!(
        (&trail["state"], steps(&trail)),
        (&json!("cancelled"), ["sent", "rescheduled", "cancelled"].map(String::from).into())
    );
    for body in [json!({}), json!({"delay_ms": 1, "deliver_at_ms": 1})] {
        let code = if body == json!({}) { "422 queue_request_invalid" } else { "422 message_invalid" };
        assert_eq!(said(http.patch(&a, &body)), code);
    }
    assert_eq!(received(&mut http, "orders", 10), ["a"]);
    assert_eq!(ok(http.get("/v1/queues/orders"))["totals"]["removed"], 1);
    end(server, &settings);
}

/// Whoever sends need not write down the keys of what is scheduled.
#[test]
fn a_scheduled_message_is_found_scheduled_anew_and_taken_back_by_its_senders_id() {
    let folder = folder();
    let settings = settings(folder.path(), "");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "orders", &json!({"id_window_ms": 1, "ids_until_due": true}));
    put(&mut http, "short", &json!({"id_window_ms": 1}));
    let reminder = json!([{"body": "pay", "id": "bill 17", "delay_ms": 86_400_000}]);
    let key = text(&send(&mut http, "orders", &reminder)[0]["key"]);
    send(&mut http, "short", &reminder);
    let path = |queue: &str| format!("/v1/queues/{queue}/ids/bill%2017");
    let not_found = "404 message_not_found";
    wait_for("the window is over", || (said(http.get(&path("short"))) == not_found).then_some(()));
    assert_eq!(ok(http.get(&path("orders")))["key"], *key);
    assert_eq!(ok(http.get("/v1/queues/orders"))["settings"]["ids_until_due"], true);
    let again = send(&mut http, "orders", &reminder);
    assert_eq!((text(&again[0]["key"]), &again[0]["duplicate"]), (key.clone(), &json!(true)));
    let at = now_ms() + 2_000_000;
    let later = ok(http.patch(&path("orders"), &json!({"deliver_at_ms": at})));
    assert_eq!((&later["state"], &later["until_ms"]), (&json!("scheduled"), &json!(at)));
    assert_eq!(said(http.patch(&path("orders"), &json!({}))), "422 queue_request_invalid");
    assert_eq!(said(http.patch(&path("nowhere"), &json!({"delay_ms": 0}))), not_found);
    let by_hand = |what: &[&str]| {
        said_as_json(&server, &[&["message"], what, &["bill 17", "--queue", "orders", "--json"]].concat())
    };
    for (what, state) in [(&["reschedule", "--delay-ms", "5000000"][..], "scheduled"), (&["cancel"], "cancelled")] {
        let message = by_hand(what);
        assert_eq!((&message["key"], &message["state"]), (&json!(key), &json!(state)));
    }
    assert_eq!(ok(http.get(&format!("/v1/messages/{key}")))["state"], "cancelled");
    assert_eq!(said(http.delete(&path("orders"))), not_found);
    // What was taken back by its id needs that no longer.
    wait_for("the window is over", || (text(&send(&mut http, "orders", &reminder)[0]["key"]) != key).then_some(()));
    assert_eq!(ok(http.get(&path("orders")))["state"], "scheduled");
    end(server, &settings);
}

#[test]
fn queues_and_messages_are_looked_through_page_by_page() {
    let folder = folder();
    let settings = settings(folder.path(), "");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    for name in ["b", "a", "d", "c"] {
        put(&mut http, name, &json!({}));
    }
    let page = |http: &mut Http<TcpStream>, path: &str, rows: &str, name: &str| {
        let page = ok(http.get(path));
        let names: Vec<String> = list(&page[rows]).iter().map(|row| text(&row[name])).collect();
        (names, page.get("next").map(text))
    };
    let (names, next) = page(&mut http, "/v1/queues?limit=3", "queues", "name");
    assert_eq!((names, next.as_deref()), (["a", "b", "c"].map(String::from).into(), Some("c")));
    assert_eq!(page(&mut http, "/v1/queues?limit=3&after=c", "queues", "name"), (vec!["d".into()], None));
    let last = page(&mut http, "/v1/queues?limit=2&after=b", "queues", "name");
    assert_eq!(last, (["c", "d"].map(String::from).into(), None), "a full page, and nothing behind it");
    assert_eq!(page(&mut http, "/v1/queues?limit=1000", "queues", "name").1, None);

    let messages = json!([{"body": "1"}, {"body": "2", "delay_ms": 9_999_999}, {"body": "3"}, {"body": "4"}]);
    let keys: Vec<String> = send(&mut http, "a", &messages).iter().map(|sent| text(&sent["key"])).collect();
    assert_eq!(bodies(&receive(&mut http, "a", 1, 0)), ["1"]);
    let two = page(&mut http, "/v1/queues/a/messages?limit=2", "messages", "key");
    assert_eq!(two.0, keys[..2]);
    for after in [&keys[1], &two.1.expect("there are more")] {
        let rest = page(&mut http, &format!("/v1/queues/a/messages?limit=2&after={after}"), "messages", "key");
        assert_eq!(rest, (keys[2..].to_vec(), None), "a full page, and nothing behind it");
    }
    let all = list(&ok(http.get("/v1/queues/a/messages"))["messages"]);
    let seen: Vec<_> = all.iter().map(|row| (text(&row["state"]), text(&row["message"]["body"]))).collect();
    let expected = [("leased", "1"), ("scheduled", "2"), ("ready", "3"), ("ready", "4")];
    assert_eq!(seen, expected.map(|(state, body)| (state.to_owned(), body.to_owned())));
    assert!(all.iter().all(|row| row.get("trail").is_none()));
    assert_eq!(bodies(&receive(&mut http, "a", 10, 0)), ["3", "4"], "looking takes nothing");
    // A page of long bodies is shorter, and goes on.
    let long = "x".repeat(250_000);
    (0..6).for_each(|_| drop(send(&mut http, "b", &json!([{"body": long}, {"body": long}, {"body": long}]))));
    let (first, next) = page(&mut http, "/v1/queues/b/messages", "messages", "key");
    let after = next.expect("there are more");
    let (second, end_of_all) = page(&mut http, &format!("/v1/queues/b/messages?after={after}"), "messages", "key");
    assert!(first.len() < 18 && first.len() + second.len() == 18 && end_of_all.is_none(), "{}", first.len());
    end(server, &settings);
}
