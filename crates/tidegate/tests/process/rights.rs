//! A viewer's rights on the binary door: debits only own wallets, credits only collectors, reads own wallets and collectors.

use std::fmt::Debug;

use tidegate_client::{Client, ClientError, Hold, Outcome, Transfer};

use crate::http::Http;
use crate::votes::{connect, open_show};
use crate::{Server, Settings, folder};

/// As in the development configuration: password `dave`.
const DAVE: &str = r#"
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
    let login = serde_json::json!({"user": "dave", "password": "dave"});
    let mut http = Http::connect(server.http).expect("the door is open");
    let answer = http.post("/v1/login", &login).expect("the door answers");
    let token = answer.body["token"].as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned();
    let mut dave = Client::connect(server.binary, &token).expect("the token is good");

    let transfer = |id, debit, credit| Transfer { id, debit, credit, amount: 1, memo: "" };
    let vote = transfer("vote", "wallet:dave", "candidate:1");
    assert_eq!(dave.transfer(&vote).expect("a vote"), Outcome::Applied);
    assert_eq!(dave.transfer(&vote).expect("a vote"), Outcome::Duplicate);
    assert_eq!(dave.account("wallet:dave").expect("his own").debited, 1);
    assert_eq!(dave.account("candidate:1").expect("a collector").credited, 1);
    assert_eq!(dave.history("wallet:dave", "", 10).expect("his own").rows.len(), 2);

    forbidden(dave.transfer(&transfer("theft", "wallet:carol", "candidate:1")));
    forbidden(dave.transfer(&transfer("print", "source:shop", "candidate:1")));
    forbidden(dave.transfer(&transfer("gift", "wallet:dave", "wallet:carol")));
    forbidden(dave.transfer(&transfer("refund", "wallet:dave", "source:shop")));
    // One that is forbidden spoils the request: none of it is done.
    let mixed = [transfer("good", "wallet:dave", "candidate:1"), transfer("bad", "wallet:carol", "candidate:1")];
    forbidden(dave.transfers(&mixed));
    forbidden(dave.linked_transfers(&mixed));
    forbidden(dave.hold(&Hold { transfer: transfer("hold", "wallet:carol", "candidate:1"), expires_in_ms: 1_000 }));
    forbidden(dave.post("hold", None));
    forbidden(dave.void("hold"));
    forbidden(dave.account("wallet:carol"));
    forbidden(dave.history("source:shop", "", 10));
    forbidden(dave.open_account("wallet:eve", "credit", tidegate_client::AccountKind::Wallet));
    forbidden(dave.audit());
    let seen: Vec<_> = dave.accounts("", "", 0).expect("a list").into_iter().map(|account| account.id).collect();
    assert_eq!(seen, ["candidate:1", "wallet:dave"]);

    assert_eq!(connect(&server).account("wallet:carol").expect("it is there").debited, 0);
    assert_eq!(dave.account("wallet:dave").expect("his own").debited, 1);
    let stranger = Client::connect(server.binary, "no-such-token").expect_err("a bad token");
    assert!(matches!(&stranger, ClientError::Server(error) if error.code == "unauthenticated"), "{stranger}");
}

fn forbidden<T: Debug>(answer: Result<T, ClientError>) {
    match answer {
        Err(ClientError::Server(error)) if error.code == "forbidden" => {}
        other => panic!("forbidden expected, {other:?}"),
    }
}
