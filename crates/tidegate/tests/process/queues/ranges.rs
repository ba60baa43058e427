//! Messages by a range of their keys: on pages and as lines, of one queue and of all, also when they are gone.

use std::io::Read;
use std::net::TcpStream;

use serde_json::{Value, json};

use super::*;
use crate::history_lines::{ask_for_lines, rows};
use crate::services::over;

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
    for query in ["from=U", "to=key", "after=-", "limit=0", "limit=1001", "gone=1", "until=1"] {
        assert_eq!(said(http.get(&format!("/v1/messages?{query}"))), "422 query_invalid", "{query}");
    }
    assert!(by_pages(&mut http, "/v1/messages?from=7&to=0", 10).is_empty(), "an empty range");
    super::end(server, &settings);
}
