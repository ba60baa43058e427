//! Whose ids they are: senders of one queue do not take each other's, and nobody takes those that links give.

use serde_json::json;

use super::refusals::NO_KEY;
use super::*;

/// Two services that send, each with a space of its own, and a link.
const SERVICES: &str = r#"
[[queue]]
name = "jobs"

[[service]]
name = "shop"
token = "a-token-of-the-shop"
id_space = "shop"
grants = ["send:jobs"]

[[service]]
name = "sender"
token = "a-token-that-may-send"
grants = ["send:jobs"]

[[service]]
name = "link"
token = "a-token-of-a-link"
grants = ["relay:jobs"]
"#;

/// Whether each of these sends was taken for one that was there before.
fn duplicates(http: &mut Http<TcpStream>, message: &Value) -> [bool; 2] {
    [0, 1].map(|_| send(http, "jobs", &json!([message]))[0]["duplicate"] == true)
}

#[test]
fn the_same_id_of_several_spaces_and_the_key_of_a_link_are_several_messages() {
    let folder = folder();
    let settings = Settings { sections: SERVICES.into(), ..Settings::new(folder.path()) };
    let mut server = Server::start(&settings);
    let mut http = connect(&server);
    wait_for("it is made", || http.get("/v1/queues/jobs").ok().filter(|answer| answer.status == 200));
    let senders = ["a-token-of-the-shop", "a-token-that-may-send", "a-token-of-a-link"];
    for (number, token) in senders.into_iter().enumerate() {
        let mut sender = over(&server, token);
        let message = |id: &str| json!({"id": id, "body": format!("{number}")});
        // As long as one may be; who sends it does not pay for the name of its space.
        let longest = "i".repeat(128);
        assert_eq!(duplicates(&mut sender, &message(NO_KEY)), [false, true], "{token}");
        assert_eq!(duplicates(&mut sender, &message("order-17")), [number == 2, true], "{token}");
        assert_eq!(duplicates(&mut sender, &message(&longest)), [number == 2, true], "{token}");
        let long = json!({"id": "long", "body": "b".repeat(262_140)});
        assert_eq!(duplicates(&mut sender, &long), [number == 2, true], "{token}");
        let foreign = json!({"messages": [{"id": "shop\u{1f}order-17", "body": ""}]});
        assert_eq!(said(sender.post("/v1/queues/jobs/messages", &foreign)), "422 message_invalid", "{token}");
    }
    // It is so after a restart from the log, and after one from a snapshot.
    for _ in 0..2 {
        assert!(server.terminate().status.success());
        server = Server::start(&settings);
        for token in senders {
            let mut sender = over(&server, token);
            assert_eq!(duplicates(&mut sender, &json!({"id": NO_KEY, "body": ""})), [true, true], "{token}");
        }
    }
    let mut http = connect(&server);
    let found = |http: &mut Http<TcpStream>, query: &str| {
        let message = ok(http.get(&format!("/v1/queues/jobs/ids/{query}")));
        let [id, space] = ["id", "id_space"].map(|field| message["message"][field].clone());
        (text(&message["message"]["body"]), id, space)
    };
    let of_shop = json!("shop");
    assert_eq!(found(&mut http, NO_KEY), ("2".into(), json!(NO_KEY), Value::Null), "that of the link");
    assert_eq!(found(&mut http, &format!("{NO_KEY}?id_space=")), ("1".into(), json!(NO_KEY), Value::Null));
    assert_eq!(found(&mut http, &format!("{NO_KEY}?id_space=shop")), ("0".into(), json!(NO_KEY), of_shop.clone()));
    assert_eq!(found(&mut http, "order-17"), ("1".into(), json!("order-17"), Value::Null));
    assert_eq!(found(&mut http, "order-17?id_space=shop"), ("0".into(), json!("order-17"), of_shop));
    assert_eq!(said(http.get("/v1/queues/jobs/ids/order-17?id_space=other")), "404 message_not_found");
    assert_eq!(said(http.get("/v1/queues/jobs/ids/order-17?space=shop")), "422 query_invalid");
    let mut bodies = bodies(&receive(&mut http, "jobs", 100, 0));
    bodies.retain(|body| body.len() == 1);
    bodies.sort();
    assert_eq!(bodies, ["0", "0", "0", "1", "1", "1", "2"], "each was taken once");
    end(server, &settings);
}

/// Keys can be guessed, and ids of others, too.
#[test]
fn who_may_only_send_knows_of_messages_of_their_own_space() {
    let folder = folder();
    let receiver =
        "\n[[service]]\nname = \"receiver\"\ntoken = \"a-token-that-may-receive\"\ngrants = [\"receive:jobs\"]\n";
    let settings = Settings { sections: format!("{SERVICES}{receiver}"), ..Settings::new(folder.path()) };
    let server = Server::start(&settings);
    let mut http = connect(&server);
    wait_for("it is made", || http.get("/v1/queues/jobs").ok().filter(|answer| answer.status == 200));
    let [mut shop, mut sender, mut link, mut receiver] =
        ["a-token-of-the-shop", "a-token-that-may-send", "a-token-of-a-link", "a-token-that-may-receive"]
            .map(|token| over(&server, token));
    let key_of = |http: &mut Http<TcpStream>, message: Value| text(&send(http, "jobs", &json!([message]))[0]["key"]);
    let path = |key: &str| format!("/v1/messages/{key}");
    let of_shop = key_of(&mut shop, json!({"id": "order-17", "body": "a"}));
    let of_link = key_of(&mut link, json!({"id": NO_KEY, "body": "b"}));
    let plain = key_of(&mut sender, json!({"body": "c"}));
    for key in [&of_shop, &of_link] {
        for answer in [sender.get(&path(key)), sender.delete(&path(key))] {
            assert_eq!(said(answer), "404 message_not_found", "{key}");
        }
        assert_eq!(said(sender.patch(&path(key), &json!({"delay_ms": 60_000}))), "404 message_not_found", "{key}");
        assert_eq!(ok(receiver.get(&path(key)))["state"], "ready", "{key}");
    }
    assert_eq!(said(sender.get("/v1/queues/jobs/ids/order-17?id_space=shop")), "404 message_not_found");
    assert_eq!(said(shop.get(&path(&plain))), "404 message_not_found", "one without an id is of the common space");
    assert_eq!(ok(shop.get("/v1/queues/jobs/ids/order-17"))["key"], json!(of_shop));
    // Each takes back their own, and finds what became of it; of others' they learn nothing then either.
    assert_eq!(ok(shop.delete(&path(&of_shop)))["state"], "cancelled");
    assert_eq!(ok(sender.delete(&path(&plain)))["state"], "cancelled");
    assert_eq!(ok(shop.get(&path(&of_shop)))["state"], "cancelled");
    assert_eq!(said(sender.get(&path(&of_shop))), "404 message_not_found");
    end(server, &settings);
}
