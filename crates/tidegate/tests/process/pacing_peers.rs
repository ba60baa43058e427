//! Notices that come to another server than the one that has made the bid, as they do behind a load balancer.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::http::Http;
use crate::links::free_address;
use crate::metrics::metric;
use crate::openrtb::{BANNER, WITH_URLS, bids, notice, outcome, put, request};
use crate::pacing::{campaign, connect};
use crate::services::over;
use crate::{Server, Settings, audit, folder, wait_for};

const BIDDER: &str = "a-token-that-may-bid";

/// One of two servers, each of which is the other's peer.
fn peer(folder: &Path, name: &str, own: SocketAddr, other: SocketAddr) -> Settings {
    let root = folder.join(name);
    std::fs::create_dir_all(&root).expect("the folder is there");
    let service = format!(
        "[[service]]\nname = \"exchange\"\ntoken = \"{BIDDER}\"\ngrants = [\"room:pacer:write:bids\"]\n\n\
         [[pacing.peer]]\nurl = \"http://{other}\"\ntoken = \"{BIDDER}\"\n"
    );
    let pacing = "[pacing]\nlease_ms = 200\nwin_deadline_ms = 600000\n\n[pacing.openrtb]\n";
    Settings { http: own.to_string(), sections: format!("{pacing}{WITH_URLS}\n\n{service}"), ..Settings::new(&root) }
}

fn notices(http: &mut Http<TcpStream>, path: &str, field: &str, rows: &Value) -> Vec<String> {
    let answer = http.post(path, &json!({ field: rows })).expect("the door answers");
    let words = |word: &Value| word.as_str().expect("a word").to_owned();
    match answer.status {
        200 => answer.body["outcomes"].as_array().expect("a list").iter().map(words).collect(),
        status => vec![format!("{status} {}", answer.code())],
    }
}

#[test]
fn a_notice_that_comes_to_another_server_is_judged_by_the_one_that_has_bid() {
    let folder = folder();
    let [here, there] = [free_address(), free_address()];
    let settings = [peer(folder.path(), "here", here, there), peer(folder.path(), "there", there, here)];
    let [one, two] = settings.each_ref().map(Server::start);
    let mut door = connect(&one);
    put(&mut door, "shoes", 2_500, &json!({"sites": ["daily-paper.example"]}));
    let banner = request(BANNER, &json!({}));
    let bid = |exchange: &mut Http<TcpStream>| bids(exchange, &banner, 1).remove(0);
    let (mut exchange, mut other) = (over(&one, BIDDER), over(&two, BIDDER));
    let tokens: Vec<Value> = (0..2).map(|_| bid(&mut exchange)["id"].clone()).collect();
    let spent = |http: &mut Http<TcpStream>| campaign(http, "shoes")["spent_micros"].clone();

    // A service says it in JSON.
    let win = |token: &Value, price: u64| json!({"token": token, "price_micros": price});
    let wins = json!([win(&tokens[0], 2_000), win(&json!("zz"), 1), win(&tokens[1], 9_000_000)]);
    let said_of = ["taken", "token_invalid", "price_above_bid"];
    assert_eq!(notices(&mut other, "/v1/wins", "wins", &wins), said_of);
    assert_eq!(notices(&mut exchange, "/v1/wins", "wins", &wins), ["duplicate", said_of[1], said_of[2]], "once");
    assert_eq!(notices(&mut other, "/v1/losses", "losses", &json!([{"token": tokens[1]}])), ["taken"]);
    assert_eq!(notices(&mut other, "/v1/losses", "losses", &json!([{"token": tokens[0]}])), ["won"]);

    // An exchange, or a device that shows the ad, by the URLs of the bid.
    let mut stranger = over(&two, "");
    let offered = bid(&mut exchange);
    let billed = notice(&offered["burl"], "2.5");
    assert_eq!(outcome(&mut stranger, &notice(&offered["burl"], "AUDIT")), "ignored");
    assert_eq!(outcome(&mut stranger, &billed), "taken");
    assert_eq!(outcome(&mut stranger, &billed), "duplicate");
    let lost = bid(&mut exchange);
    let path = notice(&lost["lurl"], "");
    let forged = path.replace("proof=", "proof=1");
    let said = "422 openrtb_notice_invalid \"proof\"";
    assert_eq!(outcome(&mut stranger, &forged), said, "the token alone is not enough, and who has bid says so");
    let above = notice(&lost["burl"], "9");
    assert_eq!(outcome(&mut stranger, &above), "422 openrtb_notice_invalid \"price\"");
    // What cannot be a notice of another server stays here.
    let long = format!("{path}&more={}", "x".repeat(4_000));
    assert_eq!(outcome(&mut stranger, &long), "422 openrtb_notice_invalid \"token\"");
    assert_eq!(outcome(&mut stranger, &path), "taken");
    wait_for("it is spent there", || (spent(&mut door) == json!(4_500)).then_some(()));
    // Who judges a notice counts it.
    let taken = |server| metric(server, "tidegate_pacer_win_notices_total{outcome=\"taken\"}");
    assert_eq!([taken(&one), taken(&two)], [2, 0]);
    let unknown = |server| metric(server, "tidegate_pacer_win_notices_total{outcome=\"token_invalid\"}");
    assert_eq!([unknown(&one), unknown(&two)], [1, 1], "where it came, of what nobody has made");

    // Where the server that may have bid is away, nobody says that there was no such bid.
    let late = bid(&mut exchange);
    one.kill();
    let billed = notice(&late["burl"], "2.5");
    assert_eq!(outcome(&mut stranger, &billed), "503 pacer_peer_unavailable null");
    let win_late = json!([win(&late["id"], 2_500)]);
    assert_eq!(notices(&mut other, "/v1/wins", "wins", &win_late), ["503 pacer_peer_unavailable"]);
    let one = Server::start(&settings[0]);
    wait_for("it is heard again", || (outcome(&mut stranger, &billed) == "taken").then_some(()));
    // What says that it comes from a peer is passed on to nobody.
    let mut raw = TcpStream::connect(two.http).expect("the door is open");
    let head =
        format!("GET {billed} HTTP/1.1\r\nHost: localhost\r\nX-Tidegate-Notice-Of: peer\r\nConnection: close\r\n\r\n");
    raw.write_all(head.as_bytes()).expect("it is read");
    let mut answer = String::new();
    raw.read_to_string(&mut answer).expect("it is answered");
    assert!(answer.starts_with("HTTP/1.1 422 "), "{answer}");
    for (server, settings) in [one, two].into_iter().zip(&settings) {
        assert!(server.terminate().status.success());
        let audited = audit(&settings.data);
        assert!(audited.status.success() && audited.log.contains("all agree"), "{audited}");
    }
}

/// What stands between two servers may say, with the same status as a pacer, that it does not let something through.
#[test]
fn what_is_no_pacer_does_not_say_that_there_was_no_such_bid() {
    let folder = folder();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let between = listener.local_addr().expect("it has one");
    let stop = Arc::new(AtomicBool::new(false));
    let is_over = stop.clone();
    let proxy = std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("somebody connects");
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            let _request = stream.read(&mut [0; 4_096]).expect("it asks");
            let body = "{\"code\": \"blocked\", \"field\": \"token\"}";
            let head = format!(
                "HTTP/1.1 422 Unprocessable Entity\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
                 Connection: close\r\n\r\n",
                body.len()
            );
            stream.write_all(format!("{head}{body}").as_bytes()).expect("it listens");
        }
    });
    let server = Server::start(&peer(folder.path(), "here", free_address(), between));
    let mut exchange = over(&server, BIDDER);
    let wins = json!([{"token": "zz", "price_micros": 1}]);
    assert_eq!(notices(&mut exchange, "/v1/wins", "wins", &wins), ["503 pacer_peer_unavailable"]);
    let path = format!("/openrtb/2.6/win?token={}&price=1&proof=zz", "A".repeat(43));
    assert_eq!(outcome(&mut over(&server, ""), &path), "503 pacer_peer_unavailable null");
    stop.store(true, Ordering::Relaxed);
    drop(TcpStream::connect(between));
    proxy.join().expect("it was served");
    assert!(server.terminate().status.success());
}

#[test]
fn a_peer_is_listed_once() {
    let folder = folder();
    let [here, there] = [free_address(), free_address()];
    let settings = peer(folder.path(), "here", here, there);
    let again = format!("\n[[pacing.peer]]\nurl = \"http://{there}/\"\ntoken = \"{BIDDER}\"\n");
    let ended = Server::refused(&Settings { sections: settings.sections.clone() + &again, ..settings });
    assert!(ended.log.contains("a server is listed once, and this one is twice"), "{ended}");
}
