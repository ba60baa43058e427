//! Messages by a range of their keys: on pages and as lines, of one queue and of all, also when they are gone.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::*;
use crate::history_lines::{ask_for_lines, rows};
use crate::services::over;
use crate::{PATIENCE, SERVICE};

/// Several pages of a stream, and a rest.
const MESSAGES: usize = 3_300;

/// All messages by pages of `limit`, each with its key.
fn by_pages(http: &mut Http<TcpStream>, path: &str, limit: usize) -> Vec<Value> {
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let joint = if path.contains('?') { '&' } else { '?' };
        let page = ok(http.get(&format!("{path}{joint}limit={limit}&after={after}")));
        let messages = list(&page["messages"]);
        assert!(messages.len() <= limit, "{}", messages.len());
        all.extend(messages);
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => return all,
        }
    }
}

/// The same as lines. What fits one page comes with its length.
fn by_lines(server: &Server, path: &str) -> Vec<Value> {
    let mut stream = ask_for_lines(server, path);
    let (mut answer, mut piece) = (Vec::new(), [0; 16 << 10]);
    loop {
        let length = stream.read(&mut piece).expect("it goes on");
        assert!(length > 0, "a clean end");
        answer.extend_from_slice(&piece[..length]);
        if answer.ends_with(b"\r\n0\r\n\r\n") {
            let (head, rows) = rows(&answer);
            assert!(head.contains("content-type: application/x-ndjson"), "{head}");
            return rows;
        }
        let text = String::from_utf8_lossy(&answer);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let head = head.to_ascii_lowercase();
        let known = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if known.is_some_and(|length| length.parse() == Ok(body.len())) {
            return body.lines().map(|line| serde_json::from_str(line).expect("a row")).collect();
        }
    }
}

fn keys(messages: &[Value]) -> Vec<String> {
    messages.iter().map(|message| text(&message["key"])).collect()
}

#[test]
fn all_messages_of_all_shards_come_in_the_order_of_their_keys() {
    let folder = folder();
    let settings = settings(folder.path(), "shards = 3\n");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    let queues = ["a", "b", "c", "d", "e"];
    queues.iter().for_each(|queue| drop(put(&mut http, queue, &json!({}))));
    let mut sent = Vec::new();
    for batch in 0..MESSAGES / 100 {
        let messages: Vec<Value> = (0..100).map(|nth| json!({"body": format!("{batch} {nth}")})).collect();
        let receipts = send(&mut http, queues[batch % queues.len()], &json!(messages));
        sent.extend(receipts.iter().map(|receipt| text(&receipt["key"])));
    }
    sent.sort();
    for (limit, path) in [(1_000, "/v1/messages"), (77, "/v1/messages"), (1_000, "/v1/messages?gone=true")] {
        assert!(keys(&by_pages(&mut http, path, limit)) == sent, "{path} by {limit}");
    }
    let all = by_lines(&server, "/v1/messages");
    assert!(keys(&all) == sent, "{} lines", all.len());
    assert!(all.iter().all(|message| message["message"]["body"].is_string() && message["state"] == "ready"));
    assert!(keys(&by_lines(&server, "/v1/messages?limit=1234")) == sent[..1_234]);
    assert!(keys(&by_lines(&server, &format!("/v1/messages?from={}", sent[1_500]))) == sent[1_500..]);
    assert!(keys(&by_lines(&server, &format!("/v1/messages?to={}", sent[1_500]))) == sent[..=1_500]);
    // The first ten characters of a key are a millisecond.
    let (begin, end) = (&sent[700][..10], &sent[2_000][..10]);
    let expected = sent.iter().filter(|key| (begin..=end).contains(&&key[..10]));
    let found = keys(&by_pages(&mut http, &format!("/v1/messages?from={begin}&to={end}"), 300));
    assert!(found.iter().eq(expected), "{} from {begin} to {end}", found.len());
    // Trails stand in many records: a page has few of them, whatever it asks for and however many shards there are.
    let page = ok(http.get("/v1/messages?trail=true&limit=1000"));
    assert_eq!(keys(&list(&page["messages"])), sent[..20]);
    assert_eq!(text(&page["next"]), sent[19]);
    assert!(keys(&by_pages(&mut http, "/v1/messages?trail=true", 1_000)) == sent);
    // Of lines, any number.
    assert!(keys(&by_lines(&server, "/v1/messages?limit=4294967296")) == sent);
    let of_queue = by_lines(&server, "/v1/queues/c/messages");
    assert_eq!(of_queue.len(), MESSAGES / 100 / 5 * 100 + 100);
    assert!(of_queue.iter().all(|message| message["queue"] == "c"));
    super::end(server, &settings);
}

#[test]
fn what_is_gone_is_found_with_its_trail_and_only_by_who_may() {
    let folder = folder();
    let services = "[[service]]\nname = \"mails\"\ntoken = \"a-token-for-the-mails\"\ngrants = [\"admin:mail\"]\n";
    let settings = Settings { sections: services.into(), ..settings(folder.path(), "") };
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "jobs", &json!({}));
    put(&mut http, "mail", &json!({}));
    let job = send_one(&mut http, "jobs", &json!({"body": "a job"}));
    let mail = send_one(&mut http, "mail", &json!({"body": "a mail"}));
    let got = receive(&mut http, "jobs", 1, 0);
    acknowledge(&mut http, "jobs", &got);

    assert_eq!(keys(&by_pages(&mut http, "/v1/messages", 10)), [&*mail]);
    assert!(by_pages(&mut http, "/v1/queues/jobs/messages", 10).is_empty());
    let gone = by_pages(&mut http, "/v1/queues/jobs/messages?gone=true&trail=true", 10);
    assert_eq!((keys(&gone), text(&gone[0]["state"])), (vec![job.clone()], "acknowledged".into()));
    assert_eq!(steps(&gone[0]), ["sent", "leased", "acknowledged"]);
    let all = by_lines(&server, "/v1/messages?gone=true&trail=true");
    assert_eq!(keys(&all), [job, mail.clone()]);
    assert_eq!(steps(&all[1]), ["sent"]);

    let mut other = over(&server, "a-token-for-the-mails");
    assert_eq!(keys(&by_pages(&mut other, "/v1/messages?gone=true", 1)), [mail]);
    assert_eq!(said(other.get("/v1/queues/jobs/messages?gone=true")), "403 forbidden");
    for query in [
        "from=U",
        "to=key",
        "after=-",
        "after=/",
        "after=/AAAA",
        "limit=0",
        "limit=4294967296",
        "limit=1001",
        "gone=1",
        "until=1",
    ] {
        assert_eq!(said(http.get(&format!("/v1/messages?{query}"))), "422 query_invalid", "{query}");
    }
    assert!(by_pages(&mut http, "/v1/messages?from=7&to=0", 10).is_empty(), "an empty range");
    super::end(server, &settings);
}

/// Messages that no socket takes before they are read: about 24 MB.
const LONG: usize = 2_400;
const LONG_BYTES: usize = 10_000;

fn send_long(http: &mut Http<TcpStream>, queue: &str) {
    put(http, queue, &json!({}));
    let body = "x".repeat(LONG_BYTES);
    for _ in 0..LONG / 80 {
        send(http, queue, &json!(vec![json!({ "body": body }); 80]));
    }
}

/// A request for lines by whoever has this token, of which the head and a little more is read.
fn begin_lines(server: &Server, token: &str, path: &str) -> (TcpStream, Vec<u8>) {
    let mut stream = TcpStream::connect(server.http).expect("the door is open");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes time-outs");
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
         Accept: application/x-ndjson\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("the door reads");
    let mut begun = vec![0; 1_024];
    let length = stream.read(&mut begun).expect("it begins");
    begun.truncate(length);
    (stream, begun)
}

/// Reads on to the end of the connection: all of it, and its last line.
fn to_the_end((mut stream, mut answer): (TcpStream, Vec<u8>)) -> (Vec<u8>, Value) {
    let mut piece = [0; 64 << 10];
    while let Ok(length @ 1..) = stream.read(&mut piece) {
        answer.extend_from_slice(&piece[..length]);
    }
    assert!(!answer.ends_with(b"0\r\n\r\n"), "never a clean end");
    let text = String::from_utf8_lossy(&answer[answer.len().saturating_sub(2_000)..]).into_owned();
    let last = text.lines().rev().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{text}"));
    (answer, serde_json::from_str(last).unwrap_or_else(|_| panic!("{last}")))
}

#[test]
fn a_stream_of_messages_ends_with_the_rights_of_its_caller() {
    let folder = folder();
    let settings = Settings { auth: r#"api_grants = ["admin:*"]"#.into(), ..settings(folder.path(), "") };
    let server = Server::start(&settings);
    let mut http = connect(&server);
    send_long(&mut http, "jobs");
    let made = |http: &mut Http<TcpStream>, name: &str| {
        text(&ok(http.put(&format!("/v1/services/{name}"), &json!({"grants": ["admin:*"]})))["token"])
    };
    let (gone, poorer, stays) = (made(&mut http, "gone"), made(&mut http, "poorer"), made(&mut http, "stays"));
    let of_gone = begin_lines(&server, &gone, "/v1/messages");
    let of_poorer = begin_lines(&server, &poorer, "/v1/queues/jobs/messages");
    let of_other = begin_lines(&server, &stays, "/v1/messages?limit=2400");
    assert_eq!(metric(&mut http, "tidegate_http_message_streams"), 3);
    ok(http.delete("/v1/services/gone"));
    ok(http.put("/v1/services/poorer", &json!({"grants": []})));
    send_one(&mut http, "jobs", &json!({"body": "sent when they had no rights any more"}));
    for (stream, code) in [(of_gone, "token_invalid"), (of_poorer, "forbidden")] {
        let (answer, last) = to_the_end(stream);
        assert_eq!(last["problem"]["code"], code, "{last}");
        assert!(answer.len() < LONG * LONG_BYTES, "{} bytes", answer.len());
    }
    // Nobody else has felt anything.
    let (mut stream, mut answer) = of_other;
    let mut piece = [0; 64 << 10];
    while !answer.ends_with(b"0\r\n\r\n") {
        let length = stream.read(&mut piece).expect("it goes on");
        assert!(length > 0, "a clean end");
        answer.extend_from_slice(&piece[..length]);
    }
    assert!(answer.len() > LONG * LONG_BYTES);
    wait_for("all streams have ended", || (metric(&mut http, "tidegate_http_message_streams") == 0).then_some(()));
    super::end(server, &settings);
}

#[test]
fn one_caller_has_some_streams_of_messages_and_others_get_theirs() {
    let folder = folder();
    let services = "[[service]]\nname = \"other\"\ntoken = \"a-token-of-another\"\ngrants = [\"admin:*\"]\n";
    let limits = "http_streams_of_caller_max = 2\nhttp_message_streams_max = 2\n";
    let settings = Settings { sections: services.into(), limits: limits.into(), ..settings(folder.path(), "") };
    let server = Server::start(&settings);
    let mut http = connect(&server);
    send_long(&mut http, "jobs");
    let first = begin_lines(&server, SERVICE, "/v1/messages");
    let second = begin_lines(&server, SERVICE, "/v1/queues/jobs/messages");
    let (_, third) = begin_lines(&server, SERVICE, "/v1/messages?limit=1");
    assert!(third.starts_with(b"HTTP/1.1 503"), "{}", String::from_utf8_lossy(&third));
    let (_stream, begun) = begin_lines(&server, "a-token-of-another", "/v1/messages");
    assert!(begun.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&begun));
    let (_, last) = to_the_end(second);
    assert_eq!(last["problem"]["code"], "busy", "{last}");
    let said: Vec<u64> =
        ["cut", "refused"].map(|what| metric(&mut http, &format!("tidegate_http_streams_{what}_total"))).into();
    assert_eq!(said, [1, 1]);
    drop(first);
    super::end(server, &settings);
}

#[test]
fn what_is_not_shown_is_not_read_and_is_charged() {
    const OTHERS: usize = 3_000;
    let folder = folder();
    let services = "[[service]]\nname = \"mails\"\ntoken = \"a-token-for-the-mails\"\ngrants = [\"admin:mail\"]\n\
                    requests_per_s = 1\nrequests_burst = 100\n\n\
                    [[service]]\nname = \"sender\"\ntoken = \"a-token-that-sends\"\ngrants = [\"send:jobs\"]\n\n\
                    [queues]\nbodies_bytes_max = 1048576\n";
    let settings = Settings { sections: services.into(), ..Settings::new(folder.path()) };
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "jobs", &json!({}));
    let body = "y".repeat(1_000);
    for _ in 0..OTHERS / 500 {
        send(&mut http, "jobs", &json!(vec![json!({ "body": body }); 500]));
    }
    let before = metric(&mut http, "tidegate_queue_bodies_read_total");
    for path in ["/v1/messages", "/v1/messages?gone=true&trail=true&limit=1"] {
        assert_eq!(said(over(&server, "a-token-that-sends").get(path)), "403 forbidden", "{path}");
    }
    let (_, begun) = begin_lines(&server, "a-token-that-sends", "/v1/messages?gone=true&trail=true");
    assert!(begun.starts_with(b"HTTP/1.1 403"), "{}", String::from_utf8_lossy(&begun));
    let mut other = over(&server, "a-token-for-the-mails");
    let page = ok(other.get("/v1/messages?gone=true&trail=true&limit=1000"));
    assert!(list(&page["messages"]).is_empty(), "{page}");
    assert_eq!(metric(&mut http, "tidegate_queue_bodies_read_total"), before);
    // Sixteen rows are worth a request.
    assert_eq!(said(other.get("/v1/messages")), "429 too_many_requests");
    super::end(server, &settings);
}

#[test]
fn where_a_list_goes_on_says_nothing_of_messages_that_are_not_shown() {
    const OTHERS: usize = 10_500;
    let folder = folder();
    let services = "[[service]]\nname = \"mails\"\ntoken = \"a-token-for-the-mails\"\ngrants = [\"admin:mail\"]\n\n\
                    [[service]]\nname = \"all\"\ntoken = \"a-token-of-whoever-sees-all\"\ngrants = [\"admin:*\"]\n";
    let settings = Settings { sections: services.into(), ..Settings::new(folder.path()) };
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "mail", &json!({}));
    put(&mut http, "jobs", &json!({}));
    let mut mails = vec![send_one(&mut http, "mail", &json!({"body": "one"}))];
    mails.push(send_one(&mut http, "mail", &json!({"body": "two"})));
    let mut jobs = Vec::new();
    for _ in 0..OTHERS / 500 {
        let receipts = send(&mut http, "jobs", &json!(vec![json!({"body": "a job"}); 500]));
        jobs.extend(receipts.iter().map(|receipt| text(&receipt["key"])));
    }
    mails.push(send_one(&mut http, "mail", &json!({"body": "three"})));

    let mut other = over(&server, "a-token-for-the-mails");
    for path in ["/v1/messages?gone=true", "/v1/messages?gone=true&trail=true", "/v1/queues/mail/messages?gone=true"] {
        let (mut seen, mut after, mut sealed) = (Vec::new(), String::new(), Vec::new());
        loop {
            let page = ok(other.get(&format!("{path}&limit=1&after={after}")));
            seen.extend(keys(&list(&page["messages"])));
            let Some(next) = page["next"].as_str() else { break };
            after = next.to_owned();
            match after.starts_with('/') {
                true => sealed.push(after.clone()),
                false => assert_eq!(Some(&after), seen.last(), "{path}"),
            }
        }
        assert_eq!((&seen, sealed.len()), (&mails, 1), "{path}: {sealed:?}");
        // It is good for nobody else, and not if it was changed.
        let path = format!("/v1/messages?after={}", sealed[0]);
        assert_eq!(said(over(&server, "a-token-of-whoever-sees-all").get(&path)), "422 query_invalid");
        assert_eq!(said(other.get(&format!("{path}A"))), "422 query_invalid");
    }
    let all = by_pages(&mut over(&server, "a-token-of-whoever-sees-all"), "/v1/messages?gone=true", 1_000);
    assert_eq!(all.len(), OTHERS + 3);
    super::end(server, &settings);
}

#[test]
fn a_stream_of_messages_says_that_the_server_stops() {
    let folder = folder();
    let settings = settings(folder.path(), "");
    let server = Server::start(&settings);
    send_long(&mut connect(&server), "jobs");
    let stream = begin_lines(&server, SERVICE, "/v1/messages");
    server.send_sigterm();
    wait_for("it stops", || TcpStream::connect(server.http).is_err().then_some(()));
    let (_, last) = to_the_end(stream);
    assert_eq!(last["problem"]["code"], "stopping", "{last}");
    let ended = server.ended();
    assert!(ended.status.success(), "{ended}");
}
