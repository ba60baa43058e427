//! Changes as their readers get them: nothing lost and nothing doubled, over kills, restores and lost rights.

mod followers;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tidegate_client::{AccountKind, Hold, Transfer};

use crate::http::Http;
use crate::rights::{DAVE, log_in};
use crate::stream::Stream;
use crate::timeline::{copy, forget_ends};
use crate::votes::{connect, ids, open_show, votes};
use crate::{SERVICE, Server, Settings, folder, wait_for};

const LINES: &str = "application/x-ndjson";
const EVENTS: &str = "text/event-stream";

/// A stream of lines behind `after`.
fn follow(server: &Server, token: &str, query: &str) -> Stream {
    let stream = Stream::open(server.http, token, &format!("/v1/changes?{query}"), LINES, "");
    assert_eq!(stream.status(), 200, "{}", stream.head);
    stream
}

/// Whether a row is a change.
fn is_change(row: &Value) -> bool {
    !["heartbeat", "end"].contains(&row["kind"].as_str().expect("each row has a kind"))
}

/// All changes behind `query`'s cursor, up to now.
fn all(server: &Server, token: &str, query: &str) -> Vec<Value> {
    let mut stream = follow(server, token, &format!("follow=false&{query}"));
    let rows: Vec<Value> = std::iter::from_fn(|| stream.row()).collect();
    assert_eq!(rows.last().expect("at least the end")["kind"], "end", "a stream that does not follow has an end");
    rows.into_iter().filter(is_change).collect()
}

fn cursor(row: &Value) -> &str {
    row["cursor"].as_str().expect("each change has a cursor")
}

#[test]
fn a_reader_that_is_cut_off_by_kills_misses_nothing_and_gets_nothing_twice() {
    let folder = folder();
    let settings = Settings { workers: 2, ..Settings::new(folder.path()) };
    let mut server = Server::start(&settings);
    open_show(&mut connect(&server));
    let (mut seen, mut acknowledged): (Vec<Value>, Vec<String>) = (Vec::new(), Vec::new());
    for life in 0..4 {
        let stop = Arc::new(AtomicBool::new(false));
        let mut client = connect(&server);
        let stopped = stop.clone();
        let writer = std::thread::spawn(move || {
            let mut done = Vec::new();
            for number in 0.. {
                let batch = ids(&format!("life-{life}-{number}"), 37);
                match client.transfers(&votes(&batch)) {
                    Ok(_) => done.extend(batch),
                    Err(_) => return done,
                }
                if stopped.load(Ordering::Relaxed) {
                    return done;
                }
            }
            done
        });
        let after = seen.last().map_or("start".to_owned(), |row: &Value| cursor(row).to_owned());
        let mut stream = follow(&server, SERVICE, &format!("after={after}"));
        let enough = seen.len() + 2_000;
        while seen.len() < enough {
            let row = stream.row().expect("the server lives");
            if is_change(&row) {
                seen.push(row);
            }
        }
        // In the middle of groups, parts and lines.
        server.kill();
        stop.store(true, Ordering::Relaxed);
        // What was on its way still counts; half a line does not.
        while let Some(line) = stream.line() {
            match serde_json::from_str(&line) {
                Ok(row) if is_change(&row) => seen.push(row),
                _ => {}
            }
        }
        acknowledged.extend(writer.join().expect("the writer ends with its connection"));
        server = Server::start(&settings);
    }
    let after = cursor(seen.last().expect("there are some")).to_owned();
    seen.extend(all(&server, SERVICE, &format!("after={after}")));

    let whole = all(&server, SERVICE, "");
    assert!(seen == whole, "{} rows were seen, and the journal has {}", seen.len(), whole.len());
    let sequences: Vec<u64> = whole.iter().map(|row| row["sequence"].as_u64().expect("a number")).collect();
    assert!(sequences.iter().copied().eq(1..=whole.len() as u64), "one shard's records, without gaps");
    let mut given: Vec<&str> = whole.iter().filter_map(|row| row["id"].as_str()).collect();
    given.sort_unstable();
    assert!(given.windows(2).all(|two| two[0] != two[1]), "each transfer once");
    for id in &acknowledged {
        assert!(given.binary_search(&id.as_str()).is_ok(), "{id} was acknowledged");
    }
    // The rows add up to what the ledger says.
    let last = whole.iter().rev().find(|row| row["debit"] == "wallet:dave").expect("he voted");
    let balance = connect(&server).account("wallet:dave").expect("it is there").balance;
    assert_eq!(last["debit_balance_after"], balance);
    assert!(server.terminate().status.success());
}

#[test]
fn every_cursor_of_several_shards_goes_on_where_it_stands() {
    let folder = folder();
    let settings = Settings { shards: 3, workers: 2, ..Settings::new(folder.path()) };
    let server = Server::start(&settings);
    let mut client = connect(&server);
    open_show(&mut client);
    for wallet in 0..9 {
        let wallet = format!("wallet:{wallet}");
        client.open_account(&wallet, "credit", AccountKind::Wallet).expect("it opens");
        for number in 0..5 {
            let id = format!("{wallet}-{number}");
            let sale = Transfer {
                id: &id,
                debit: "source:shop",
                credit: &wallet,
                amount: 5,
                memo: "",
                code: 0,
                user_data: "",
            };
            assert!(client.transfer(&sale).expect("credits are sold").is_done());
        }
    }
    // Credits between shards arrive after their debits were answered.
    let count_of = |rows: &[Value], kind: &str| rows.iter().filter(|row| row["kind"] == kind).count();
    let whole = wait_for("each credit for another shard arrives", || {
        let rows = all(&server, SERVICE, "");
        let abroad = rows.iter().filter(|row| row["kind"] == "transfer" && row.get("credit_balance_after").is_none());
        (abroad.count() == count_of(&rows, "credit_received")).then_some(rows)
    });
    assert_eq!(count_of(&whole, "transfer"), 2 + 45);
    assert!(count_of(&whole, "credit_received") > 0, "some wallets are on other shards than the source");
    for shard in 0..3 {
        let of_shard: Vec<u64> =
            whole.iter().filter(|row| row["shard"] == shard).map(|row| row["sequence"].as_u64().unwrap()).collect();
        assert!(of_shard.is_sorted_by(|a, b| a < b), "each shard in its order");
    }
    let key = |row: &Value| (row["shard"].as_u64(), row["sequence"].as_u64());
    for at in (0..whole.len()).step_by(7) {
        let rest = all(&server, SERVICE, &format!("after={}", cursor(&whole[at])));
        let mut both: Vec<_> = whole[..=at].iter().chain(&rest).map(key).collect();
        both.sort_unstable();
        let mut expected: Vec<_> = whole.iter().map(key).collect();
        expected.sort_unstable();
        assert_eq!(both, expected, "behind row {at}");
    }
    // The same by pages of one.
    let mut http = Http::connect(server.http).expect("the door is open");
    let (mut after, mut paged) = ("start".to_owned(), Vec::new());
    loop {
        let page = http.get(&format!("/v1/changes?after={after}&limit=1")).expect("a page").body;
        paged.extend(page["changes"].as_array().expect("rows").iter().map(key));
        after = page["next"].as_str().expect("always").to_owned();
        if page["at_end"] == true {
            break;
        }
    }
    paged.sort_unstable();
    let mut expected: Vec<_> = whole.iter().map(key).collect();
    expected.sort_unstable();
    assert_eq!(paged, expected);
}

#[test]
fn rows_say_what_happened_and_a_reader_chooses_among_them() {
    let folder = folder();
    let server = Server::start(&Settings::new(folder.path()));
    let mut client = connect(&server);
    open_show(&mut client);
    let now = follow(&server, SERVICE, "after=now&kinds=transfer,hold_posted");
    let hold = |id, amount| Hold {
        transfer: Transfer {
            id,
            debit: "wallet:dave",
            credit: "candidate:1",
            amount,
            memo: "m",
            code: 0,
            user_data: "",
        },
        expires_in_ms: 3_600_000,
    };
    assert!(client.hold(&hold("h1", 10)).expect("a hold").is_done());
    assert!(client.hold(&hold("h2", 20)).expect("a hold").is_done());
    assert!(client.post("h1", Some(4)).expect("a post").is_done());
    assert!(client.void("h2").expect("a void").is_done());
    let much = Transfer {
        id: "t1",
        debit: "wallet:dave",
        credit: "candidate:1",
        amount: u64::MAX >> 2,
        memo: "",
        code: 0,
        user_data: "",
    };
    assert!(!client.transfer(&much).expect("a refusal").is_done());
    let little = Transfer { id: "t2", amount: 1, ..much };
    assert!(client.transfer(&little).expect("a vote").is_done());

    let rows = all(&server, SERVICE, "");
    let kinds: Vec<&str> = rows.iter().map(|row| row["kind"].as_str().unwrap()).collect();
    assert_eq!(
        kinds[4..],
        ["transfer", "transfer", "hold_placed", "hold_placed", "hold_posted", "hold_voided", "refused", "transfer"]
    );
    let mut opened = rows[0].clone();
    let told = opened.as_object_mut().unwrap();
    assert!(told.remove("cursor").is_some() && told.remove("time_ms").is_some());
    assert_eq!(
        opened,
        json!({"shard": 0, "sequence": 1, "kind": "account_opened", "account": "source:shop", "account_kind": "source",
               "asset": "credit"})
    );
    assert_eq!((&rows[8]["amount"], &rows[8]["held"], &rows[8]["id"]), (&json!(4), &json!(10), &json!("h1")));
    assert_eq!((&rows[8]["debit_balance_after"], &rows[8]["credit_balance_after"]), (&json!(999_996), &json!(4)));
    assert_eq!(rows[6]["memo"], "m");
    assert!(rows[6]["expires_at_ms"].as_u64() > rows[6]["time_ms"].as_u64());
    assert_eq!((&rows[10]["refusal"], &rows[10]["available"]), (&json!("insufficient_funds"), &json!(999_996)));

    let only = |query: &str| -> Vec<u64> {
        all(&server, SERVICE, query).iter().map(|row| row["sequence"].as_u64().unwrap()).collect()
    };
    assert_eq!(only("accounts=candidate:1"), [4, 7, 8, 9, 10, 12]);
    assert_eq!(only("accounts=wallet:c*"), [3, 6]);
    assert_eq!(only("kinds=refused,hold_voided"), [10, 11]);
    assert_eq!(only("kinds=refused&accounts=wallet:dave"), [] as [u64; 0]);
    let mut three = follow(&server, SERVICE, "limit=3");
    let some: Vec<u64> = std::iter::from_fn(|| three.row()).map(|row| row["sequence"].as_u64().unwrap()).collect();
    assert_eq!(some, [1, 2, 3], "and then the stream has ended");
    let mut now = now;
    let heard = std::iter::from_fn(|| now.row()).filter(is_change).take(2);
    assert_eq!(heard.map(|row| row["sequence"].as_u64().unwrap()).collect::<Vec<_>>(), [9, 12]);

    let problem = |query: &str| {
        let mut http = Http::connect(server.http).expect("the door is open");
        let answer = http.get(&format!("/v1/changes?{query}")).expect("the door answers");
        format!("{} {}", answer.status, answer.code())
    };
    assert_eq!(problem("after=yesterday"), "422 cursor_unknown");
    assert_eq!(problem("accounts=a*b*"), "422 query_invalid");
    assert_eq!(problem("kinds=transfers"), "422 query_invalid");
    assert_eq!(problem("limit=0"), "422 query_invalid");
    assert_eq!(problem("since=1"), "422 query_invalid");
}

#[test]
fn events_have_the_cursor_as_their_id_and_go_on_behind_the_last_one() {
    let folder = folder();
    let server = Server::start(&Settings::new(folder.path()));
    open_show(&mut connect(&server));
    let events = |more: &str| {
        let stream = Stream::open(server.http, SERVICE, "/v1/changes?after=start", EVENTS, more);
        assert_eq!(stream.status(), 200, "{}", stream.head);
        assert!(stream.head.contains("content-type: text/event-stream\r\n"), "{}", stream.head);
        stream
    };
    let next = |stream: &mut Stream| loop {
        let line = stream.line().expect("it goes on");
        let Some(id) = line.strip_prefix("id: ") else { continue };
        let id = id.to_owned();
        if let Some(data) = stream.line().expect("it goes on").strip_prefix("data: ") {
            let row: Value = serde_json::from_str(data).expect("JSON");
            assert_eq!((cursor(&row), stream.line()), (&*id, Some(String::new())));
            return row;
        }
    };
    let mut first = events("");
    let rows: Vec<Value> = (0..3).map(|_| next(&mut first)).collect();
    let mut second = events(&format!("last-event-id: {}\r\n", cursor(&rows[2])));
    assert_eq!(next(&mut second)["sequence"], 4, "the address still says start");
    assert_eq!((next(&mut second)["sequence"].clone(), next(&mut second)["sequence"].clone()), (json!(5), json!(6)));
    // A stream at the end hears what happens.
    assert!(connect(&server).transfers(&votes(&ids("later", 1))).expect("a vote")[0].is_done());
    assert_eq!(next(&mut second)["id"], "later-0");
    // A stop does not wait for those who follow.
    assert!(server.terminate().status.success());
    assert_eq!(std::iter::from_fn(|| second.line()).filter(|line| line.starts_with("data")).count(), 0);
}

#[test]
fn a_viewer_follows_his_own_wallet_until_his_rights_are_taken() {
    let folder = folder();
    let shop = "[[service]]\nname = \"shop\"\ntoken = \"shop-service-token\"\ngrants = [\"transfers:*\"]\n";
    let settings = Settings { sections: format!("{DAVE}{shop}"), ..Settings::new(folder.path()) };
    let server = Server::start(&settings);
    let mut client = connect(&server);
    open_show(&mut client);
    let carols =
        Transfer { id: "c", debit: "wallet:carol", credit: "candidate:1", amount: 1, memo: "", code: 0, user_data: "" };
    assert!(client.transfer(&carols).expect("a vote").is_done());
    assert!(client.transfers(&votes(&ids("daves", 1))).expect("a vote")[0].is_done());
    let token = log_in(&server, "dave", "dave");
    let rows = all(&server, &token, "");
    let seen: Vec<&str> = rows.iter().map(|row| row["id"].as_str().or(row["account"].as_str()).unwrap()).collect();
    assert_eq!(seen, ["wallet:dave", "wallet:dave", "daves-0"]);
    assert_eq!((&rows[2]["debit_balance_after"], rows[2].get("credit_balance_after")), (&json!(999_999), None));
    assert!(all(&server, &token, "accounts=wallet:carol").is_empty(), "not his");
    assert_eq!(Stream::open(server.http, "shop-service-token", "/v1/changes", LINES, "").status(), 403);
    assert_eq!(Stream::open(server.http, "no-such-token", "/v1/changes", LINES, "").status(), 401);

    let mut his = follow(&server, &token, "after=now");
    assert_eq!(his.row().expect("it has begun")["kind"], "heartbeat");
    Settings { sections: shop.into(), ..settings }.write();
    // SAFETY: the process is our child and lives.
    assert_eq!(unsafe { libc::kill(server.pid() as i32, libc::SIGHUP) }, 0);
    wait_for("the reload", || server.log().contains("reloaded").then_some(()));
    assert!(client.transfers(&votes(&ids("secret", 1))).expect("a vote")[0].is_done());
    let rest: Vec<Value> = std::iter::from_fn(|| his.row()).collect();
    assert!(rest.iter().all(|row| row["kind"] == "heartbeat"), "{rest:?}");
}

#[test]
fn a_cursor_of_another_history_is_told_so() {
    let folder = folder();
    let settings = Settings::new(folder.path());
    let journal = settings.data.join("journal");
    let backup = folder.path().join("backup");
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    let genuine = cursor(all(&server, SERVICE, "").last().expect("some")).to_owned();
    assert!(server.terminate().status.success());
    copy(&journal, &backup);

    let server = Server::start(&settings);
    let vote = |server: &Server, name: &str| {
        assert!(connect(server).transfers(&votes(&ids(name, 3))).expect("votes")[0].is_done());
    };
    vote(&server, "lost-1");
    vote(&server, "lost-2");
    let lost: Vec<String> =
        all(&server, SERVICE, &format!("after={genuine}")).iter().map(|row| cursor(row).to_owned()).collect();
    assert_eq!(lost.len(), 6);
    assert!(server.terminate().status.success());
    fs::remove_dir_all(&journal).expect("nobody uses it");
    copy(&backup, &journal);
    fs::remove_dir_all(settings.data.join("snapshots/ledger-0")).ok();
    forget_ends(&settings.data);

    let problem = |server: &Server, cursor: &str| {
        let mut http = Http::connect(server.http).expect("the door is open");
        let answer = http.get(&format!("/v1/changes?after={cursor}")).expect("the door answers");
        format!("{} {}", answer.status, answer.code())
    };
    let server = Server::start(&settings);
    assert_eq!(problem(&server, lost.last().unwrap()), "410 cursor_of_other_history", "beyond the end");
    // The same lengths, other bytes; then more than there was.
    vote(&server, "kept-1");
    vote(&server, "kept-2");
    vote(&server, "kept-3");
    for cursor in &lost[2..] {
        assert_eq!(problem(&server, cursor), "410 cursor_of_other_history");
    }
    assert_eq!(all(&server, SERVICE, &format!("after={genuine}")).len(), 9, "from before they parted");
    assert!(server.terminate().status.success());
}

#[test]
fn a_page_is_as_full_as_was_asked_where_requests_came_one_by_one() {
    let folder = folder();
    let server = Server::start(&Settings::new(folder.path()));
    let mut client = connect(&server);
    open_show(&mut client);
    // Each vote is answered before the next one is sent, so each is a group of its own.
    for id in ids("slow", 300) {
        assert!(client.transfers(&votes(&[id])).expect("the server serves")[0].is_done());
    }
    let page = |query: &str| {
        let page = Http::connect(server.http).and_then(|mut http| http.get(&format!("/v1/changes?{query}")));
        let page = page.expect("the door answers").body;
        let rows = page["changes"].as_array().expect("a page has changes").clone();
        (rows, page["next"].as_str().expect("it says where to go on").to_owned(), page["at_end"] == true)
    };
    // Four accounts, two sales, the votes.
    let (whole, _, at_end) = page("limit=1000");
    assert_eq!((whole.len(), at_end), (306, true));
    let (first, next, _) = page("limit=200");
    assert_eq!(first[..], whole[..200]);
    let (rest, _, at_end) = page(&format!("limit=1000&after={next}"));
    assert!(rest[..] == whole[200..] && at_end, "{} rows, {at_end}", rest.len());
}

/// A gauge, over all its labels.
fn gauge(server: &Server, name: &str) -> i64 {
    let metrics = Http::connect(server.http).and_then(|mut http| http.get("/metrics")).expect("the door answers");
    let text = metrics.body.as_str().expect("a text").to_owned();
    let lines = text.lines().filter_map(|line| line.strip_prefix(name)).filter(|rest| rest.starts_with(['{', ' ']));
    lines.map(|rest| rest.rsplit_once(' ').expect("a value").1.parse::<f64>().expect("a number") as i64).sum()
}

/// Streams that their clients never read, behind groups of megabytes: each holds one small part, and what was read
/// ahead for it is given back.
#[test]
fn streams_that_nobody_reads_hold_a_part_each_and_give_it_back() {
    const STREAMS: i64 = 6;
    let folder = folder();
    let server = Server::start(&Settings { workers: 1, ..Settings::new(folder.path()) });
    let mut client = connect(&server);
    open_show(&mut client);
    for batch in 0..8 {
        client.transfers(&votes(&ids(&format!("vote-{batch}"), 8_000))).expect("they are decided");
    }
    let unread = |path: &str| -> Vec<Stream> {
        let open = |_| Stream::open(server.http, SERVICE, path, LINES, "");
        (0..STREAMS).map(open).inspect(|stream| assert_eq!(stream.status(), 200, "{}", stream.head)).collect()
    };
    let held = || gauge(&server, "tidegate_change_readers_held_bytes");
    let waiting = || gauge(&server, "tidegate_http_unread_bytes");

    let changes = unread("/v1/changes");
    wait_for("what was read ahead is given back", || {
        let (held, waiting) = (held(), waiting());
        let is_stuck = waiting >= STREAMS * (16 << 10);
        assert!(waiting <= STREAMS * (128 << 10), "{waiting} bytes wait for connections");
        (is_stuck && held <= STREAMS * (64 << 10)).then_some(())
    });
    let histories = unread("/v1/accounts/wallet:dave/transfers");
    wait_for("all are stuck", || {
        let waiting = waiting();
        assert!(waiting <= 2 * STREAMS * (128 << 10), "{waiting} bytes wait for connections");
        (waiting >= 2 * STREAMS * (16 << 10)).then_some(())
    });
    drop((changes, histories));
    wait_for("nothing is held for whoever has gone", || (held() == 0 && waiting() == 0).then_some(()));
    assert!(server.terminate().status.success());
}
