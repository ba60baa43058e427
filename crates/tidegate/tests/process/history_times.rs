//! Histories by time over the binary port: the rows of a span, and balance and holds of a moment, as HTTP says them.

use std::net::TcpStream;
use std::time::Duration;

use tidegate_client::{Client, ClientError, HistoryRow, Hold, Transfer};

use crate::http::Http;
use crate::votes::{CREDITS, connect, ids, open_show, votes};
use crate::{Server, Settings, folder};

const WALLET: &str = "wallet:dave";
/// More than one page looks at.
const LATER: usize = 1_500;

fn hold(id: &str, amount: u64) -> Hold<'_> {
    let (debit, credit) = (WALLET, "candidate:1");
    let transfer = Transfer { id, debit, credit, amount, memo: "", code: 0, user_data: "" };
    Hold { transfer, expires_in_ms: 3_600_000 }
}

/// All rows of a span in pages of `limit`, and what was held after the first.
fn span(
    client: &mut Client<TcpStream>,
    limit: u32,
    times: (Option<u64>, Option<u64>),
) -> (Vec<HistoryRow>, Option<u64>) {
    let (mut rows, mut before, mut held) = (Vec::new(), String::new(), None);
    loop {
        let page = client.history_of(WALLET, &before, limit, times).expect("the history is read");
        if rows.is_empty() {
            held = page.held;
        }
        rows.extend(page.rows);
        match page.next {
            Some(next) => before = next,
            None => return (rows, held),
        }
    }
}

#[test]
fn a_span_and_a_moment_of_a_history_are_read_over_the_binary_port() {
    let folder = folder();
    let settings = Settings::new(folder.path());
    let server = Server::start(&settings);
    let mut client = connect(&server);
    open_show(&mut client);
    // Each at a time of its own.
    let pause = || std::thread::sleep(Duration::from_millis(5));
    pause();
    assert!(client.hold(&hold("h1", 40)).expect("it is placed").is_done());
    pause();
    assert!(client.hold(&hold("h2", 2)).expect("it is placed").is_done());
    pause();
    assert!(client.post("h1", Some(30)).expect("it is posted").is_done());
    pause();
    for batch in ids("later", LATER).chunks(400) {
        assert!(client.transfers(&votes(batch)).expect("votes are decided").iter().all(|outcome| outcome.is_done()));
    }

    let (all, _) = span(&mut client, 1_000, (None, None));
    assert_eq!(all.len(), LATER + 4);
    let early: Vec<HistoryRow> = all[LATER..].to_vec();
    let moments: Vec<u64> = early.iter().rev().map(|row| row.time_ms).collect();
    for limit in [1, 3, 1_000] {
        let (rows, held) = span(&mut client, limit, (Some(moments[0]), Some(moments[3])));
        assert_eq!((rows == early, held), (true, Some(2)), "by {limit}");
    }
    let between = (Some(moments[1]), Some(moments[2]));
    assert_eq!(span(&mut client, 10, between).0, early[1..3]);

    // Balance and holds of each moment, and one just before the next.
    let balances = [CREDITS, CREDITS, CREDITS, CREDITS - 30];
    let mut http = Http::connect(server.http).expect("the door is open");
    for (number, held) in [0, 40, 42, 2].into_iter().enumerate() {
        for at in [moments[number], moments[number] + 1] {
            let (rows, found) = span(&mut client, 1, (None, Some(at)));
            assert_eq!((rows[0].balance_after, found), (balances[number] as i64, Some(held)), "moment {number}");
            let answer = http.get(&format!("/v1/accounts/{WALLET}?at={at}")).expect("the door answers");
            let of = |field: &str| answer.body[field].as_u64();
            let expected = (Some(balances[number]), Some(held), Some(balances[number] - held));
            assert_eq!((of("balance"), of("held"), of("available")), expected, "moment {number}: {answer:?}");
        }
    }
    let (none, held) = span(&mut client, 1, (None, Some(moments[0] - 1)));
    assert_eq!((none.len(), held), (0, Some(0)), "before its first row");

    match client.history_of(WALLET, "", 1, (Some(2), Some(1))) {
        Err(ClientError::Server(error)) if error.code == "query_invalid" => {}
        other => panic!("query_invalid expected, {other:?}"),
    }
    // A cursor carries what is held over a restart.
    let newest = client.history(WALLET, "", LATER as u32 - 500).expect("the history is read");
    let ended = server.terminate();
    assert!(ended.status.success(), "{ended}");
    let server = Server::start(&settings);
    let mut client = connect(&server);
    let next = client.history(WALLET, &newest.next.expect("there is more"), 10).expect("the history is read");
    assert_eq!((next.held, next.rows.len()), (Some(2), 10));
}
