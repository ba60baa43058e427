//! Cursors of histories: one that the server gave works, also after a restart; one that a client made is refused.

use std::net::TcpStream;

use serde_json::json;
use tidegate_client::{Client, ClientError};

use crate::http::{Answer, Http};
use crate::rights::{DAVE, log_in};
use crate::votes::{connect, open_show};
use crate::{Server, Settings, folder};

/// A memo that is a record in itself, as the journal lays them out: length, checksum left zero, and an event that
/// credits nobody. If a client could make the server read a record at the memo, it would read what the client wrote.
const RECORD_IN_A_MEMO: &str = "\x10\0\0\0\0\0\0\0\x03\x01\x01\x01\x01\x01\x01\x01f\x01\x01T\x03\0\x02\x07";
/// From the vote's record on, all positions where its memo may be.
const POSITIONS: u64 = 200;

#[test]
fn a_forged_cursor_is_refused_and_a_genuine_one_survives_a_restart() {
    let folder = folder();
    // Hundreds of forged cursors are more refusals than a viewer may have.
    let sections = format!("{DAVE}\n[quota.viewer]\nrequests_per_s = 0\nrefusals_per_s = 0\n");
    let settings = Settings { sections, ..Settings::new(folder.path()) };
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    let token = log_in(&server, "dave", "dave");
    let mut dave = viewer(&server, &token);
    for (id, memo) in [("first", RECORD_IN_A_MEMO), ("second", "")] {
        let vote = json!({"id": id, "debit": "wallet:dave", "credit": "candidate:1", "amount": 1, "memo": memo});
        let answer = dave.post("/v1/transfers", &vote).expect("the door answers");
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    let newest = dave.get("/v1/accounts/wallet:dave/transfers?limit=1").expect("the door answers");
    assert_eq!(ids(&newest), ["second"]);
    let genuine = newest.body["next"].as_str().unwrap_or_else(|| panic!("{newest:?}")).to_owned();
    let (position, signature) = genuine.split_once('.').expect("a position and its signature");
    let position: u64 = position.parse().expect("a number");

    let mut binary = Client::connect(server.binary, &token).expect("the token is good");
    for at in (position + 1)..(position + POSITIONS) {
        for forged in [format!("{at}"), format!("{at}.{signature}"), format!("{at}.0000000000000000")] {
            refused(&mut dave, "wallet:dave", &forged);
            match binary.history("wallet:dave", &forged, 5) {
                Err(ClientError::Server(error)) if error.code == "cursor_invalid" => {}
                other => panic!("{forged}: cursor_invalid expected, {other:?}"),
            }
        }
    }
    // Genuine, but of another account that he may read.
    refused(&mut dave, "candidate:1", &genuine);
    goes_on(&mut dave, &genuine);

    let ended = server.terminate();
    assert!(ended.status.success(), "{ended}");
    let server = Server::start(&settings);
    goes_on(&mut viewer(&server, &token), &genuine);
}

fn viewer(server: &Server, token: &str) -> Http<TcpStream> {
    Http::over(TcpStream::connect(server.http).expect("the door is open"), token)
}

fn ids(page: &Answer) -> Vec<&str> {
    let rows = page.body["transfers"].as_array().unwrap_or_else(|| panic!("{page:?}"));
    rows.iter().map(|row| row["id"].as_str().expect("an id")).collect()
}

fn refused(http: &mut Http<TcpStream>, account: &str, cursor: &str) {
    let answer = http.get(&format!("/v1/accounts/{account}/transfers?before={cursor}&limit=1"));
    let answer = answer.expect("the server goes on serving");
    assert_eq!((answer.status, answer.code()), (422, "cursor_invalid"), "{cursor}: {answer:?}");
}

fn goes_on(http: &mut Http<TcpStream>, cursor: &str) {
    let page = http.get(&format!("/v1/accounts/wallet:dave/transfers?before={cursor}&limit=1"));
    assert_eq!(ids(&page.expect("the door answers")), ["first"]);
}
