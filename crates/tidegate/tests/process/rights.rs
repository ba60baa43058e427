//! A viewer's rights on the binary door: debits only own wallets, credits only collectors, reads own wallets and
//! collectors.

use std::fmt::Debug;
use std::io::{Read, Write};
use std::net::TcpStream;

use tidegate_client::{Client, ClientError, Hold, Outcome, Transfer};
use tidegate_wire::limits::FRAME_BYTES_MAX;
use tidegate_wire::proto::{self, reply_frame, request_frame};
use tidegate_wire::{ReplyBodyRef, Split, decode_reply, encode_request, split};

use crate::http::Http;
use crate::votes::{connect, open_show};
use crate::{PATIENCE, Server, Settings, folder};

/// As in the development configuration: password `dave`.
pub const DAVE: &str = r#"
[[user]]
name = "dave"
password_hash = "$argon2id$v=19$m=19456,t=2,p=1$CJt3yfrPNZBo81/EHS8ETg$vjEVQU7YS/rhzs0z9ZJeOBpXyxPFPSw8HR0Zxp2pLt0"
role = "viewer"
wallets = ["wallet:dave"]
"#;

#[test]
fn a_viewer_may_vote_and_nothing_else() {
    let folder = folder();
    let settings = Settings { sections: DAVE.into(), ..Settings::new(folder.path()) };
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    let token = log_in(&server, "dave", "dave");
    let mut dave = Client::connect(server.binary, &token).expect("the token is good");

    let transfer = |id, debit, credit| Transfer { id, debit, credit, amount: 1, memo: "", code: 0, user_data: "" };
    let vote = transfer("vote", "wallet:dave", "candidate:1");
    assert_eq!(dave.transfer(&vote).expect("a vote"), Outcome::Applied);
    assert_eq!(dave.transfer(&vote).expect("a vote"), Outcome::Duplicate);
    assert_eq!(dave.account("wallet:dave").expect("his own").debited, 1);
    assert_eq!(dave.account("candidate:1").expect("a collector").credited, 1);
    assert_eq!(dave.history("wallet:dave", "", 10).expect("his own").rows.len(), 2);

    forbidden(dave.transfer(&transfer("theft", "wallet:carol", "candidate:1")));
    forbidden(dave.transfer(&transfer("print", "source:shop", "candidate:1")));
    refused(dave.transfer(&transfer("gift", "wallet:dave", "wallet:carol")), "credit_account_not_found");
    refused(dave.transfer(&transfer("refund", "wallet:dave", "source:shop")), "credit_account_not_found");
    // If one transfer is forbidden, nothing of the request is done.
    let mixed = [transfer("good", "wallet:dave", "candidate:1"), transfer("bad", "wallet:carol", "candidate:1")];
    forbidden(dave.transfers(&mixed));
    forbidden(dave.linked_transfers(&mixed));
    let foreign = [transfer("good", "wallet:dave", "candidate:1"), transfer("gift", "wallet:dave", "wallet:carol")];
    match dave.transfers(&foreign).expect_err("the batch is refused as a whole") {
        ClientError::Server(error) => {
            assert_eq!(error.code, "credit_account_not_found");
            assert!(error.detail.contains("item 1, id \"gift\""), "{error:?}");
        }
        other => panic!("{other:?}"),
    }
    let asset = dave.assets().expect("a list").remove(0);
    assert_eq!((&*asset.name, &*asset.issued, &*asset.held), ("credit", "", ""), "no sums, and no false ones");
    let asset = connect(&server).assets().expect("a list").remove(0);
    assert!(asset.issued.parse::<u64>().is_ok_and(|issued| issued > 0) && asset.held == "0", "{asset:?}");
    forbidden(dave.hold(&Hold { transfer: transfer("hold", "wallet:carol", "candidate:1"), expires_in_ms: 1_000 }));
    forbidden(dave.post("hold", None));
    forbidden(dave.void("hold"));
    refused(dave.account("wallet:carol"), "account_not_found");
    refused(dave.history("source:shop", "", 10), "account_not_found");
    forbidden(dave.open_account("wallet:eve", "credit", tidegate_client::AccountKind::Wallet));
    forbidden(dave.audit());
    let seen: Vec<_> = dave.accounts("", "", 0).expect("a list").into_iter().map(|account| account.id).collect();
    assert_eq!(seen, ["candidate:1", "wallet:dave"]);

    assert_eq!(connect(&server).account("wallet:carol").expect("it is there").debited, 0);
    assert_eq!(dave.account("wallet:dave").expect("his own").debited, 1);
    let stranger = Client::connect(server.binary, "no-such-token").expect_err("a bad token");
    assert!(matches!(&stranger, ClientError::Server(error) if error.code == "unauthenticated"), "{stranger}");
}

#[test]
fn a_viewers_list_goes_on_behind_what_he_may_not_see() {
    let folder = folder();
    let settings = Settings { sections: DAVE.into(), ..Settings::new(folder.path()) };
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    let token = log_in(&server, "dave", "dave");
    let mut stream = TcpStream::connect(server.binary).expect("the door is open");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes a time-out");
    Client::over(stream.try_clone().expect("a socket can be shared"), &token).expect("the token is good");

    // One account a page: candidate:1, source:shop, wallet:carol, wallet:dave, in this order.
    let mut pages = Vec::new();
    let mut after = String::new();
    loop {
        let page = page_of_one(&mut stream, &after);
        pages.push(page.accounts.iter().map(|account| account.id.clone()).collect::<Vec<_>>());
        if page.next.is_empty() {
            break;
        }
        assert!(page.next > after, "{} does not come after {after}", page.next);
        after = page.next;
    }
    // Pages and cursors are as if the others were not there.
    assert_eq!(pages, [vec!["candidate:1"], vec!["wallet:dave"]]);
}

/// The wire's own page, with its `next`.
fn page_of_one(stream: &mut TcpStream, after: &str) -> proto::Accounts {
    let mut question = Vec::new();
    let list = proto::ListAccounts { prefix: String::new(), after: after.into(), limit: 1 };
    encode_request(&mut question, 1, request_frame::Body::ListAccounts(list));
    stream.write_all(&question).expect("the server reads");
    let mut said = Vec::new();
    let frame = loop {
        if let Split::Frame(range) = split(&said, FRAME_BYTES_MAX).expect("the server frames well") {
            break said[range].to_vec();
        }
        let mut some = [0; 4096];
        let count = stream.read(&mut some).expect("the server answers");
        assert!(count > 0, "the server ended the connection");
        said.extend_from_slice(&some[..count]);
    };
    match decode_reply(&frame).expect("the server encodes well").body {
        ReplyBodyRef::Other(reply_frame::Body::Accounts(page)) => page,
        other => panic!("accounts expected, {other:?}"),
    }
}

/// The token that a password is good for.
pub fn log_in(server: &Server, user: &str, password: &str) -> String {
    let login = serde_json::json!({"user": user, "password": password});
    let mut http = Http::connect(server.http).expect("the door is open");
    let answer = http.post("/v1/login", &login).expect("the door answers");
    answer.body["token"].as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned()
}

fn forbidden<T: Debug>(answer: Result<T, ClientError>) {
    refused(answer, "forbidden");
}

fn refused<T: Debug>(answer: Result<T, ClientError>, code: &str) {
    match answer {
        Err(ClientError::Server(error)) if error.code == code => {}
        other => panic!("{code} expected, {other:?}"),
    }
}

#[test]
fn a_user_of_role_service_shares_the_ids_of_services_that_name_no_space() {
    let folder = folder();
    let boss = DAVE.replace("viewer", "service").replace("wallets = [\"wallet:dave\"]", "grants = [\"*\"]");
    let shop =
        "[[service]]\nname = \"shop\"\ntoken = \"another-service-token\"\ngrants = [\"*\"]\nid_space = \"shop\"\n";
    let settings = Settings { sections: format!("{boss}\n{shop}"), ..Settings::new(folder.path()) };
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    let outcome = |token: &str| {
        let sale = Transfer {
            id: "order-17",
            debit: "source:shop",
            credit: "wallet:dave",
            amount: 5,
            memo: "",
            code: 0,
            user_data: "",
        };
        Client::connect(server.binary, token).expect("the token is good").transfer(&sale).expect("it is decided")
    };
    assert_eq!(outcome(&log_in(&server, "dave", "dave")), Outcome::Applied);
    assert_eq!(outcome(crate::SERVICE), Outcome::Duplicate, "the common space");
    assert_eq!(outcome("another-service-token"), Outcome::Applied, "a space of its own");
    let mut http = Http::connect(server.http).expect("the door is open");
    let transfer = http.get("/v1/transfers/order-17?id_space=").expect("an answer");
    assert_eq!((transfer.status, &transfer.body["outcome"]), (200, &"applied".into()), "{transfer:?}");
    let said = http.get("/openapi.json").expect("an answer").body["info"]["description"].clone();
    assert!(said.as_str().is_some_and(|said| said.contains("and of users of role service")), "{said}");
}
