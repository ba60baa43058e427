//! A whole history as lines, read slowly through a socket: the same rows as by pages, also while votes go on.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::http::Http;
use crate::votes::{connect, ids, open_show, votes};
use crate::{PATIENCE, SERVICE, Server, Settings, folder};

/// Several parts of a thousand rows, and a rest.
const VOTES: usize = 5_200;
const PATH: &str = "/v1/accounts/wallet:dave/transfers";

#[test]
fn a_whole_history_read_slowly_has_the_rows_of_the_pages() {
    let folder = folder();
    let server = Server::start(&Settings::new(folder.path()));
    let mut client = connect(&server);
    open_show(&mut client);
    for batch in ids("vote", VOTES).chunks(400) {
        assert!(client.transfers(&votes(batch)).expect("votes are decided").iter().all(|outcome| outcome.is_done()));
    }
    let expected = by_pages(&server);
    assert_eq!(expected.len(), VOTES + 1, "the votes and the sale");

    let mut stream = ask_for_lines(&server, PATH);
    let mut text = Vec::new();
    let mut piece = [0; 16 << 10];
    let mut later = 0;
    while !text.ends_with(b"\r\n0\r\n\r\n") {
        let length = stream.read(&mut piece).expect("it goes on");
        assert!(length > 0, "a clean end");
        text.extend_from_slice(&piece[..length]);
        std::thread::sleep(Duration::from_millis(2));
        if later < 10 {
            // What comes after the first row was read is not part of it.
            assert!(
                client.transfers(&votes(&ids(&format!("later-{later}"), 1))).expect("a vote is decided")[0].is_done()
            );
            later += 1;
        }
    }
    let (head, rows) = rows(&text);
    assert!(head.contains("content-type: application/x-ndjson"), "{head}");
    assert!(rows == expected, "{} rows", rows.len());

    let mut some = ask_for_lines(&server, &format!("{PATH}?limit=1500"));
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n0\r\n\r\n") {
        let length = some.read(&mut piece).expect("it goes on");
        assert!(length > 0, "a clean end");
        text.extend_from_slice(&piece[..length]);
    }
    assert_eq!(self::rows(&text).1, by_pages(&server)[..1_500]);
    // Whoever goes away leaves nothing behind that a stop would wait for.
    drop(ask_for_lines(&server, PATH));
    let ended = server.terminate();
    assert!(ended.status.success(), "{ended}");
}

/// The rows by pages, as far as the newest of them goes.
fn by_pages(server: &Server) -> Vec<Value> {
    let mut http = Http::connect(server.http).expect("the door is open");
    let mut all = Vec::new();
    let mut query = "limit=777".to_owned();
    loop {
        let page = http.get(&format!("{PATH}?{query}")).expect("the door answers");
        all.extend(page.body["transfers"].as_array().unwrap_or_else(|| panic!("{page:?}")).iter().cloned());
        match page.body["next"].as_str() {
            Some(next) => query = format!("limit=777&before={next}"),
            None => return all,
        }
    }
}

/// A request for lines, of which nothing is read yet.
pub fn ask_for_lines(server: &Server, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.http).expect("the door is open");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes time-outs");
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {SERVICE}\r\n\
         Accept: application/x-ndjson\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("the door reads");
    stream
}

/// The head of an answer in lower case, and the rows in its chunks.
pub fn rows(answer: &[u8]) -> (String, Vec<Value>) {
    let end_of = |bytes: &[u8], what: &[u8]| {
        let found = bytes.windows(what.len()).position(|window| window == what);
        found.expect("it is whole") + what.len()
    };
    let (head, mut rest) = answer.split_at(end_of(answer, b"\r\n\r\n"));
    let mut text = Vec::new();
    loop {
        let (length, chunk) = rest.split_at(end_of(rest, b"\r\n"));
        let length = std::str::from_utf8(length).expect("digits").trim_end();
        let length = usize::from_str_radix(length, 16).expect("a length");
        text.extend_from_slice(&chunk[..length]);
        rest = &chunk[length + 2..];
        if length == 0 {
            break;
        }
    }
    let rows = std::str::from_utf8(&text).expect("text").lines();
    let rows = rows.map(|line| serde_json::from_str(line).expect("a row"));
    (String::from_utf8_lossy(head).to_ascii_lowercase(), rows.collect())
}
