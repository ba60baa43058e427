//! Bounds of messages and ids: what one queue takes leaves room for others, and whoever runs the server is told.

use serde_json::json;

use super::*;

#[test]
fn a_queue_that_takes_all_it_may_leaves_room_for_others() {
    let folder = folder();
    // All of them have one owner, whose share is not met here.
    let keys = "messages_max = 8\nids_max = 4\nmessages_of_owner_max = 9\nids_of_owner_max = 5\n";
    let settings = settings(folder.path(), keys);
    let server = Server::start(&settings);
    let mut http = connect(&server);
    for queue in ["flood", "jobs.fifo", "target"] {
        put(&mut http, queue, &json!({"id_window_ms": null}));
    }
    let mut send = |queue: &str, message: Value| {
        said(http.post(&format!("/v1/queues/{queue}/messages"), &json!({"messages": [message]})))
    };
    let with_id = |id: &str| json!({"body": "", "id": id});
    for id in ["1", "2"] {
        assert_eq!(send("flood", with_id(id)), "200 ");
    }
    assert_eq!(send("flood", with_id("3")), "409 queue_full");
    // A queue whose messages have an order and are taken once, and what a link sends, with a key of another server.
    assert_eq!(send("jobs.fifo", json!({"body": "", "id": "1", "ordering_key": "a"})), "200 ");
    for _ in 2..4 {
        assert_eq!(send("flood", json!({"body": ""})), "200 ");
    }
    assert_eq!(send("flood", json!({"body": ""})), "409 queue_full");
    assert_eq!(send("target", with_id("5")), "200 ");
    assert_eq!(send("target", with_id("6")), "409 queue_full", "ids of all");
    for _ in 6..8 {
        assert_eq!(send("target", json!({"body": ""})), "200 ");
    }
    assert_eq!(send("target", json!({"body": ""})), "409 queue_full", "messages of all");
    let mut http = connect(&server);
    for (bound, times) in [("ids_of_queue", 1), ("messages_of_queue", 1), ("ids", 1), ("messages", 1)] {
        let name = "tidegate_queue_refused_total";
        wait_for(bound, || (labelled(&mut http, name, bound) == times).then_some(()));
    }
    assert_eq!(metric(&mut http, "tidegate_queue_ids"), 4);
    server.says("as many ids of messages of a queue are remembered as may be of one (queues.ids_of_queue_max)");
    server.says("a queue has as many messages as any one may have (queues.messages_of_queue_max)");
    end(server, &settings);
}
