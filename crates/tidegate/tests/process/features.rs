//! Labels, look-ups, settings of accounts, assets and batches of holds, over HTTP and by the operator's commands.

use std::net::TcpStream;
use std::process::Command;

use serde_json::{Value, json};
use tidegate_client::AccountKind;

use crate::http::{Answer, Http};
use crate::rights::{DAVE, log_in};
use crate::votes::{connect, open_show};
use crate::{PATIENCE, SERVICE, Server, Settings, folder};

/// Several shards, so that rules are told to others and ids are looked up over two of them.
fn show(folder: &std::path::Path, shards: u16) -> (Settings, Server, Http<TcpStream>) {
    let settings = Settings { shards, workers: 2, sections: DAVE.into(), ..Settings::new(folder) };
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    let http = Http::connect(server.http).expect("the door is open");
    (settings, server, http)
}

fn said(answer: &Answer) -> String {
    format!("{} {}", answer.status, answer.code())
}

fn get(http: &mut Http<TcpStream>, path: &str) -> Value {
    let answer = http.get(path).expect("the door answers");
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    answer.body
}

fn post(http: &mut Http<TcpStream>, path: &str, body: Value) -> Answer {
    http.post(path, &body).expect("the door answers")
}

/// The rows of all pages: one may be short and not the last.
fn changes(http: &mut Http<TcpStream>, query: &str) -> Vec<Value> {
    let (mut rows, mut after) = (Vec::new(), "start".to_owned());
    loop {
        let page = get(http, &format!("/v1/changes?{query}&after={after}"));
        rows.extend(page["changes"].as_array().expect("rows").iter().cloned());
        after = page["next"].as_str().expect("always").to_owned();
        if page["at_end"] == true {
            return rows;
        }
    }
}

fn pay(id: &str, debit: &str, credit: &str, amount: u64) -> Value {
    json!({"id": id, "debit": debit, "credit": credit, "amount": amount})
}

fn over(server: &Server, token: &str) -> Http<TcpStream> {
    let stream = TcpStream::connect(server.http).expect("the door is open");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes a time-out");
    Http::over(stream, token)
}

#[test]
fn a_label_is_content_and_is_found_wherever_the_transfer_is() {
    let folder = folder();
    let (settings, server, mut http) = show(folder.path(), 3);
    let labelled = json!({"id": "t1", "debit": "wallet:dave", "credit": "candidate:1", "amount": 3, "code": 7,
                          "user_data": "order-17", "memo": "m"});
    assert_eq!(post(&mut http, "/v1/transfers", labelled.clone()).status, 201);
    assert_eq!(post(&mut http, "/v1/transfers", labelled.clone()).status, 200);
    let other = json!({"id": "t1", "debit": "wallet:dave", "credit": "candidate:1", "amount": 3, "code": 8,
                       "user_data": "order-17", "memo": "m"});
    assert_eq!(said(&post(&mut http, "/v1/transfers", other)), "409 id_reused");
    let much = pay("much", "wallet:dave", "candidate:1", 1 << 60);
    assert_eq!(said(&post(&mut http, "/v1/transfers", much)), "409 insufficient_funds");

    let found = get(&mut http, "/v1/transfers/t1");
    for field in ["debit", "credit", "amount", "code", "user_data", "memo"] {
        assert_eq!(found[field], labelled[field], "{field}: {found}");
    }
    assert_eq!(found["outcome"], "applied");
    let refused = get(&mut http, "/v1/transfers/much");
    assert_eq!((&refused["outcome"], &refused["refusal"]), (&json!("refused"), &json!("insufficient_funds")));
    assert_eq!(said(&http.get("/v1/transfers/t2").unwrap()), "404 transfer_not_found");
    let history = get(&mut http, "/v1/accounts/wallet:dave/transfers");
    assert_eq!(
        (&history["transfers"][0]["code"], &history["transfers"][0]["user_data"]),
        (&json!(7), &json!("order-17"))
    );
    assert_eq!(changes(&mut http, "kinds=transfer&accounts=candidate:1")[0]["user_data"], "order-17");

    // A viewer finds what it did itself, by its own id, and a service by the viewer's id space.
    let token = log_in(&server, "dave", "dave");
    let mut dave = over(&server, &token);
    assert_eq!(post(&mut dave, "/v1/transfers", pay("v1", "wallet:dave", "candidate:1", 1)).status, 201);
    assert_eq!(get(&mut dave, "/v1/transfers/v1")["id"], "v1");
    let of_dave = get(&mut http, "/v1/transfers/v1?id_space=dave");
    assert_eq!((&of_dave["id"], &of_dave["id_space"]), (&json!("v1"), &json!("dave")));
    assert_eq!(said(&http.get("/v1/transfers/v1").unwrap()), "404 transfer_not_found");
    assert_eq!(post(&mut http, "/v1/transfers", pay("c1", "wallet:carol", "candidate:1", 1)).status, 201);
    for id in ["/v1/transfers/c1", "/v1/transfers/c1?id_space=", "/v1/transfers/none"] {
        assert_eq!(said(&dave.get(id).unwrap()), "404 transfer_not_found", "{id}: not his, or not there");
    }

    // It is in the journal, so a restart knows it.
    server.kill();
    let server = Server::start(&settings);
    let mut http = Http::connect(server.http).expect("the door is open");
    assert_eq!(get(&mut http, "/v1/transfers/t1"), found);
}

#[test]
fn holds_come_in_batches_linked_or_not_and_are_looked_up() {
    let folder = folder();
    let (settings, server, mut http) = show(folder.path(), 1);
    let hold = |id: &str, amount: u64| {
        let mut hold = pay(id, "wallet:dave", "candidate:1", amount);
        hold["expires_in_ms"] = json!(3_600_000);
        hold["user_data"] = json!("seat");
        hold["code"] = json!(4);
        hold
    };
    let outcomes = |answer: Answer| -> Vec<String> {
        assert_eq!(answer.status, 200, "{}", answer.body);
        let lines = answer.body["outcomes"].as_array().expect("a line for each").clone();
        let word = |line: &Value| line["code"].as_str().or(line["outcome"].as_str()).unwrap().to_owned();
        lines.iter().map(word).collect()
    };
    let batch = json!({"holds": [hold("h1", 10), hold("h2", 20), hold("h3", 5), hold("h1", 10)]});
    assert_eq!(outcomes(post(&mut http, "/v1/holds", batch)), ["applied", "applied", "applied", "duplicate"]);
    let linked = json!({"linked": true, "holds": [hold("l1", 10), hold("l2", 1 << 60)]});
    assert_eq!(outcomes(post(&mut http, "/v1/holds", linked)), ["linked_failed", "insufficient_funds"]);
    let linked = json!({"linked": true, "holds": [hold("l3", 1), hold("l4", 2)]});
    assert_eq!(outcomes(post(&mut http, "/v1/holds", linked)), ["applied", "applied"]);
    let posts = json!({"posts": [{"id": "h1"}, {"id": "h2", "amount": 7}, {"id": "none"}]});
    assert_eq!(outcomes(post(&mut http, "/v1/holds/post", posts)), ["applied", "applied", "hold_not_found"]);
    assert_eq!(outcomes(post(&mut http, "/v1/holds/void", json!({"ids": ["h3", "h1"]}))), ["applied", "hold_posted"]);
    assert_eq!(said(&post(&mut http, "/v1/holds", json!({"holds": []}))), "422 batch_size_invalid");

    let h2 = get(&mut http, "/v1/holds/h2");
    assert_eq!((&h2["state"], &h2["posted"], &h2["amount"]), (&json!("posted"), &json!(7), &json!(20)));
    assert_eq!((&h2["remaining"], &h2["user_data"]), (&json!(0), &json!("seat")));
    assert_eq!(get(&mut http, "/v1/holds/h3")["state"], "voided");
    assert_eq!(get(&mut http, "/v1/holds/l3")["state"], "open");
    assert_eq!(said(&http.get("/v1/holds/l1").unwrap()), "404 hold_not_found");
    let first = get(&mut http, "/v1/accounts/wallet:dave/holds?limit=1");
    assert_eq!(first["holds"][0]["id"], "l3");
    let next = first["next"].as_str().expect("there is one more");
    let second = get(&mut http, &format!("/v1/accounts/wallet:dave/holds?after={next}"));
    assert_eq!((second["holds"].as_array().unwrap().len(), &second["holds"][0]["id"]), (1, &json!("l4")));
    assert!(second.get("next").is_none(), "{second}");
    assert_eq!((&second["holds"][0]["user_data"], &second["holds"][0]["code"]), (&json!("seat"), &json!(4)));
    assert_eq!(said(&http.get("/v1/accounts/wallet:none/holds").unwrap()), "404 account_not_found");

    // A viewer's hold is of its id space: the service settles it there, also in a batch.
    let token = log_in(&server, "dave", "dave");
    let mut dave = over(&server, &token);
    assert_eq!(post(&mut dave, "/v1/holds", hold("d1", 4)).status, 201);
    let listed = get(&mut dave, "/v1/accounts/wallet:dave/holds");
    let ids: Vec<&Value> = listed["holds"].as_array().unwrap().iter().map(|hold| &hold["id"]).collect();
    assert_eq!(ids, ["l3", "l4", "d1"]);
    assert!(!listed.to_string().contains("id_space"), "a viewer learns no names of others: {listed}");
    assert_eq!(outcomes(post(&mut http, "/v1/holds/post", json!({"posts": [{"id": "d1"}]}))), ["hold_not_found"]);
    let posts = json!({"posts": [{"id": "d1"}]});
    assert_eq!(outcomes(post(&mut http, "/v1/holds/post?id_space=dave", posts)), ["applied"]);
    assert_eq!(get(&mut dave, "/v1/holds/d1")["state"], "posted");

    server.kill();
    let server = Server::start(&settings);
    let mut http = Http::connect(server.http).expect("the door is open");
    assert_eq!(get(&mut http, "/v1/holds/h2"), h2);
}

#[test]
fn a_frozen_account_stays_frozen_on_every_shard_and_over_kills() {
    let folder = folder();
    let (settings, server, mut http) = show(folder.path(), 3);
    let mut client = connect(&server);
    let wallets: Vec<String> = (0..9).map(|number| format!("wallet:{number}")).collect();
    for wallet in &wallets {
        client.open_account(wallet, "credit", AccountKind::Wallet).expect("it opens");
        let sale = pay(&format!("sale-{wallet}"), "source:shop", wallet, 10);
        assert_eq!(post(&mut http, "/v1/transfers", sale).status, 201);
    }
    let set = |http: &mut Http<TcpStream>, id: &str, body: Value| {
        http.patch(&format!("/v1/accounts/{id}"), &body).expect("the door answers")
    };
    let frozen = set(&mut http, "wallet:0", json!({"status": "frozen", "metadata": {"why": "lost card"}}));
    assert_eq!((frozen.status, &frozen.body["revision"]), (200, &json!(1)), "{}", frozen.body);
    let check = |http: &mut Http<TcpStream>, round: &str| {
        for wallet in &wallets[1..] {
            let from = pay(&format!("{round}-from-{wallet}"), "wallet:0", wallet, 1);
            assert_eq!(said(&post(http, "/v1/transfers", from)), "409 debit_account_frozen");
            let to = pay(&format!("{round}-to-{wallet}"), wallet, "wallet:0", 1);
            assert_eq!(said(&post(http, "/v1/transfers", to)), "409 credit_account_frozen", "{wallet}");
        }
        let account = get(http, "/v1/accounts/wallet:0");
        assert_eq!((&account["status"], &account["metadata"]["why"]), (&json!("frozen"), &json!("lost card")));
        assert_eq!(account["balance"], 10);
    };
    check(&mut http, "first");
    server.kill();
    let server = Server::start(&settings);
    let mut http = Http::connect(server.http).expect("the door is open");
    check(&mut http, "second");

    let stale = set(&mut http, "wallet:0", json!({"if_revision": 0, "status": "open"}));
    assert_eq!((said(&stale), &stale.body["revision"]), ("409 revision_stale".into(), &json!(1)));
    assert_eq!(set(&mut http, "wallet:0", json!({"if_revision": 1, "status": "open"})).body["revision"], 2);
    assert_eq!(said(&set(&mut http, "wallet:0", json!({"status": "closed"}))), "409 account_not_empty");
    let back = pay("back", "wallet:0", "candidate:1", 10);
    assert_eq!(post(&mut http, "/v1/transfers", back).status, 201);
    let closed = set(&mut http, "wallet:0", json!({"status": "closed", "metadata": {"why": null}}));
    assert_eq!((closed.status, &closed.body["status"]), (200, &json!("closed")), "{}", closed.body);
    let late = pay("late", "source:shop", "wallet:0", 1);
    assert_eq!(said(&post(&mut http, "/v1/transfers", late)), "409 credit_account_closed");
    assert_eq!(said(&set(&mut http, "candidate:1", json!({"balance_max": 5}))), "422 setting_not_allowed");
    assert_eq!(said(&set(&mut http, "wallet:none", json!({"status": "frozen"}))), "404 account_not_found");
    assert_eq!(said(&set(&mut over(&server, "no-such-token"), "wallet:1", json!({}))), "401 token_invalid");
    let token = log_in(&server, "dave", "dave");
    assert_eq!(said(&set(&mut over(&server, &token), "wallet:dave", json!({"status": "open"}))), "403 forbidden");

    // Readers of changes get each change once, from the account's home.
    let rows = changes(&mut http, "kinds=account_changed&accounts=wallet:0");
    let seen: Vec<_> =
        rows.iter().map(|row| (row["revision"].as_u64().unwrap(), row["status"].as_str().unwrap())).collect();
    assert_eq!(seen.last(), Some(&(seen.len() as u64, "closed")));
    assert!(seen.iter().map(|row| row.0).eq(1..=seen.len() as u64), "{seen:?}");
    assert_eq!(rows[0]["metadata"], json!({"why": "lost card"}));
}

#[test]
fn an_asset_is_declared_once_and_its_sums_are_told() {
    let folder = folder();
    let (settings, server, mut http) = show(folder.path(), 3);
    let declare = |http: &mut Http<TcpStream>, decimals: u8| {
        post(http, "/v1/assets", json!({"name": "credit", "decimals": decimals}))
    };
    assert_eq!((declare(&mut http, 2).status, declare(&mut http, 2).status), (201, 200));
    assert_eq!(said(&declare(&mut http, 3)), "409 asset_exists");
    assert_eq!(said(&declare(&mut http, 19)), "422 decimals_invalid");
    let assets = get(&mut http, "/v1/assets");
    let issued = assets["assets"][0]["issued"].as_i64().expect("a number");
    assert_eq!(
        assets,
        json!({"assets": [{"name": "credit", "decimals": 2, "declared": true, "issued": issued, "held": 0}]})
    );
    let shop = get(&mut http, "/v1/accounts/source:shop");
    assert_eq!(shop["balance"], -issued);
    let token = log_in(&server, "dave", "dave");
    let seen = get(&mut over(&server, &token), "/v1/assets");
    assert_eq!(seen, json!({"assets": [{"name": "credit", "decimals": 2, "declared": true}]}));
    let declared = changes(&mut http, "kinds=asset_declared");
    assert_eq!((&declared[0]["asset"], &declared[0]["decimals"]), (&json!("credit"), &json!(2)));
    server.kill();
    let server = Server::start(&settings);
    assert_eq!(get(&mut Http::connect(server.http).unwrap(), "/v1/assets"), assets);
}

#[test]
fn an_operator_sets_looks_up_and_declares() {
    let folder = folder();
    let (_, server, _) = show(folder.path(), 1);
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(arguments).args(["--output", "json"]);
        command.env("TIDEGATE_SERVER", format!("http://{}", server.http)).env("TIDEGATE_TOKEN", SERVICE);
        let output = command.output().expect("it runs");
        let text = String::from_utf8(output.stdout).expect("text");
        let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        (output.status.code().expect("no signal"), rows, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let done = |arguments: &[&str]| {
        let (code, mut rows, error) = run(arguments);
        assert_eq!((code, rows.len()), (0, 1), "{arguments:?}: {rows:?} {error}");
        rows.remove(0)
    };
    assert_eq!(done(&["account", "freeze", "wallet:carol", "--debits-only"])["status"], "debits_frozen");
    assert_eq!(done(&["account", "freeze", "wallet:carol"])["status"], "frozen");
    assert_eq!(done(&["account", "unfreeze", "wallet:carol"])["status"], "open");
    let set = ["account", "set", "wallet:carol", "--balance-max", "2000000", "--balance-min", "0"];
    let set = done(&[&set[..], &["--metadata", "plan=gold", "--metadata", "seat=4"]].concat());
    assert_eq!((&set["balance_max"], &set["metadata"]["plan"]), (&json!(2_000_000), &json!("gold")));
    let unset = done(&["account", "set", "wallet:carol", "--balance-max", "none", "--unset", "plan"]);
    assert_eq!((unset.get("balance_max"), &unset["metadata"]), (None, &json!({"seat": "4"})));
    let (code, _, error) = run(&["account", "close", "wallet:carol"]);
    assert!(code == 3 && error.contains("account_not_empty"), "{code}: {error}");
    done(&["account", "open", "wallet:empty", "--asset", "credit", "--kind", "wallet"]);
    assert_eq!(done(&["account", "close", "wallet:empty"])["status"], "closed");

    let between = ["--debit", "wallet:dave", "--credit", "candidate:1", "--amount", "5", "--memo", "m"];
    done(&[&["transfer", "make", "t/1"], &between[..]].concat());
    let transfer = done(&["transfer", "get", "t/1"]);
    assert_eq!(
        (&transfer["outcome"], &transfer["amount"], &transfer["memo"]),
        (&json!("applied"), &json!(5), &json!("m"))
    );
    done(&[&["hold", "place", "h/1", "--expires-in-ms", "60000"], &between[..]].concat());
    assert_eq!(done(&["hold", "get", "h/1"])["state"], "open");
    let open = done(&["account", "holds", "wallet:dave"]);
    assert_eq!((&open["id"], &open["memo"]), (&json!("h/1"), &json!("m")));
    done(&["hold", "void", "h/1"]);
    assert_eq!(done(&["hold", "get", "h/1"])["state"], "voided");
    assert_eq!(run(&["hold", "get", "none"]).0, 3);
    assert_eq!(done(&["asset", "declare", "credit", "--decimals", "2"])["decimals"], 2);
    let listed = done(&["asset", "list"]);
    assert_eq!(
        (&listed["name"], &listed["decimals"], &listed["declared"]),
        (&json!("credit"), &json!(2), &json!(true))
    );
}

#[test]
fn assets_of_the_configuration_are_declared_at_the_start_and_never_change() {
    let folder = folder();
    let of = |decimals: u8| format!("[[seed.asset]]\nname = \"credit\"\ndecimals = {decimals}\n");
    let settings = Settings { sections: of(2), ..Settings::new(folder.path()) };
    for _ in 0..2 {
        let server = Server::start(&settings);
        let mut http = Http::connect(server.http).expect("the door is open");
        let assets = get(&mut http, "/v1/assets");
        assert_eq!((&assets["assets"][0]["name"], &assets["assets"][0]["decimals"]), (&json!("credit"), &json!(2)));
        assert!(server.terminate().status.success());
    }
}
