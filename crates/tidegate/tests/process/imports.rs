//! Imports against a real server: each row once, whatever breaks off, and none passed over without a word.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::commands::{Operator, command, recorder};
use crate::votes::{CREDITS, connect, open_show};
use crate::{Server, Settings, folder, wait_for};

#[test]
fn an_import_is_done_once_and_names_the_lines_that_are_refused() {
    let folder = folder();
    let server = Server::start(&Settings::new(folder.path()));
    let operator = Operator::of(&server);
    let write = |name: &str, text: String| -> String {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("there is room");
        path.display().to_string()
    };
    let mut accounts = "id,asset,kind\nsource:till,point,source\n".to_owned();
    (0..20).for_each(|number| accounts += &format!("wallet:{number},point,wallet\n"));
    let accounts = write("accounts.csv", accounts);
    assert_eq!(operator.done(&["import", &accounts]), "21 rows: 21 applied, 0 done before, 0 refused\n");

    let mut transfers = String::new();
    for number in 0..20_000 {
        let (debit, amount) = if number == 12_345 { ("wallet:7", CREDITS) } else { ("source:till", 3) };
        let credit = number % 20;
        let credit = if number == 77 { "wallet:none".to_owned() } else { format!("wallet:{credit}") };
        let credit = if number == 12_345 { "wallet:8".to_owned() } else { credit };
        transfers +=
            &format!("{{\"id\":\"row-{number}\",\"debit\":\"{debit}\",\"credit\":\"{credit}\",\"amount\":{amount}}}\n");
        if number == 15_000 {
            // An id that no server takes: the request that has it is refused as a whole or in part.
            transfers += &format!("{{\"id\":\"{}\",\"debit\":\"a\",\"credit\":\"b\",\"amount\":1}}\n", "x".repeat(65));
            transfers += "{\"id\":\"no-amount\",\"debit\":\"a\",\"credit\":\"b\"}\n";
        }
    }
    let transfers = write("transfers.ndjson", transfers);
    let (code, out, error) = operator.run(&["import", &transfers, "--dry-run"]);
    assert_eq!((code, out.as_str()), (3, "20002 rows read, 2 of them not good; nothing was sent\n"), "{error}");
    let (code, out, error) = operator.run(&["import", &transfers]);
    assert_eq!((code, out.as_str()), (3, "20002 rows: 19998 applied, 0 done before, 4 refused\n"), "{error}");
    for wrong in [
        ":78: credit_account_not_found",
        ":12346: insufficient_funds: only ",
        ":15002: ",
        ":15003: missing field `amount`",
    ] {
        assert!(error.contains(&format!("transfers.ndjson{wrong}")), "{wrong}: {error}");
    }
    let again = operator.run(&["import", &transfers, "--output", "json"]);
    let summary: Value = serde_json::from_str(again.1.lines().last().expect("a summary")).expect("JSON");
    assert_eq!((again.0, &summary["duplicates"], &summary["refused"]), (3, &19_998.into(), &4.into()), "{}", again.1);
    let rest = operator.json(&["import", &transfers, "--from-line", "19003"]);
    assert_eq!(
        rest,
        [json!({"rows": 1_000, "applied": 0, "duplicates": 1_000, "sent_twice": 0, "refused": 0, "dry_run": false})]
    );
    // A refusal that is remembered says so: trying again does not help.
    let poor = again.1.lines().find(|line| line.contains("insufficient_funds")).expect("it is refused again");
    assert!(poor.contains("\"remembered\":true") && poor.contains("give the row a new one"), "{poor}");
    let source = operator.json(&["account", "get", "source:till"]);
    assert_eq!(source[0]["debited"], 19_998 * 3);
    assert!(Path::new(&transfers).exists());
}

#[test]
fn rows_go_many_in_a_request_with_all_that_they_can_carry() {
    let folder = folder();
    let write = |name: &str, text: &str| -> String {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("there is room");
        path.display().to_string()
    };
    let applied = r#"{"outcomes":[{"id":"a","outcome":"applied"},{"id":"b","outcome":"duplicate"}]}"#;
    let (server, requests) = recorder(applied);
    let operator = Operator { server };
    for (name, text, path, expected) in [
        (
            "accounts.csv",
            "id,asset,kind\na,x,wallet\nb,x,source\n",
            "/v1/accounts",
            json!({"accounts": [
                {"id": "a", "asset": "x", "kind": "wallet"},
                {"id": "b", "asset": "x", "kind": "source"},
            ]}),
        ),
        (
            "transfers.csv",
            "id,debit,credit,amount,code,user_data,memo\na,x,y,5,7,order-1,m\nb,x,y,6,,,\n",
            "/v1/transfers",
            json!({"transfers": [
                {"id": "a", "debit": "x", "credit": "y", "amount": 5, "code": 7, "user_data": "order-1", "memo": "m"},
                {"id": "b", "debit": "x", "credit": "y", "amount": 6},
            ]}),
        ),
        (
            "holds.csv",
            "id,debit,credit,amount,expires_in_ms,code\na,x,y,5,9,7\nb,x,y,6,9,\n",
            "/v1/holds",
            json!({"holds": [
                {"id": "a", "debit": "x", "credit": "y", "amount": 5, "expires_in_ms": 9, "code": 7},
                {"id": "b", "debit": "x", "credit": "y", "amount": 6, "expires_in_ms": 9},
            ]}),
        ),
    ] {
        let file = write(name, text);
        assert_eq!(operator.done(&["import", &file]), "2 rows: 1 applied, 1 done before, 0 refused\n");
        let (line, body) = requests.recv().expect("it was asked");
        assert_eq!(line, format!("POST {path} HTTP/1.1"));
        assert_eq!(serde_json::from_str::<Value>(&body).expect("JSON"), expected, "{name}");
    }
    assert!(requests.try_recv().is_err(), "one request for a file");
    let (code, out, error) = operator.run(&["import", &write("x.csv", "id,debit,credit,amount,note\na,x,y,5,n\n")]);
    assert!(code == 1 && error.contains("x.csv:1: \"note\" is no field of transfers"), "{out}{error}");
    assert!(requests.try_recv().is_err(), "nothing is sent of a file with a column that is none");
}

#[test]
fn a_row_is_sent_when_what_earlier_rows_paid_to_its_account_has_come_from_another_shard() {
    let folder = folder();
    let service = |name: &str, grants: &str| {
        format!("[[service]]\nname = \"{name}\"\ntoken = \"a-token-that-is-{name}\"\ngrants = {grants}\n")
    };
    let sections = service("unaudited", r#"["transfers:*", "read:*"]"#) + &service("blind", r#"["transfers:*"]"#);
    let settings = Settings { shards: 2, workers: 2, sections, ..Settings::new(folder.path()) };
    let server = Server::start(&settings);
    let operator = Operator::of(&server);
    let write = |name: &str, text: String| -> String {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("there is room");
        path.display().to_string()
    };
    let wallets = (0..20).map(|number| format!("wallet:{number},point,wallet\n")).collect::<String>();
    let accounts = write("accounts.csv", format!("id,asset,kind\nsource:till,point,source\n{wallets}"));
    operator.done(&["import", &accounts]);
    // The same ten points go round, so that each row needs the one before.
    let rounds = |name: &str| {
        let pay = |row: u64| format!("{name}-{row},wallet:{},wallet:{},10\n", row % 20, (row + 1) % 20);
        let rounds = (0..200).map(pay).collect::<String>();
        write(name, format!("id,debit,credit,amount\n{name}-sale,source:till,wallet:0,10\n{rounds}"))
    };
    let transfers = rounds("first.csv");
    assert_eq!(operator.done(&["import", &transfers]), "201 rows: 201 applied, 0 done before, 0 refused\n");
    assert_eq!(operator.done(&["import", &transfers]), "201 rows: 0 applied, 201 done before, 0 refused\n");
    // The last row pays from another shard, and nobody waits for it.
    let balance = || operator.json(&["account", "get", "wallet:0"])[0]["balance"].as_u64();
    wait_for("the last credit has arrived", || (balance() == Some(10)).then_some(()));

    // Who may not see how many shards there are waits for each credit; who may not see transfers either is stopped.
    let transfers = rounds("second.csv");
    let (code, out, error) = operator.run(&["import", &transfers, "--token", "a-token-that-is-unaudited"]);
    assert_eq!((code, out.as_str()), (0, "201 rows: 201 applied, 0 done before, 0 refused\n"), "{error}");
    assert!(error.contains("without the right \"audit\""), "{error}");
    let transfers = rounds("third.csv");
    let blind = ["import", &transfers, "--token", "a-token-that-is-blind"];
    let (code, out, error) = operator.run(&blind);
    assert!(code == 1 && error.contains("third.csv:2: this token cannot see"), "{out}{error}");
    assert!(error.contains("the right to read the accounts, or say --one-shard"), "{error}");
    assert!(out.starts_with("2 rows: 1 applied, 0 done before, 0 refused"), "{out}");
    // Somebody who may see it does the rest.
    assert_eq!(operator.done(&["import", &transfers]), "201 rows: 200 applied, 1 done before, 0 refused\n");
    let (code, out, error) = operator.run(&[&blind[..], &["--one-shard"]].concat());
    assert_eq!((code, out.as_str()), (0, "201 rows: 0 applied, 201 done before, 0 refused\n"), "{error}");
}

#[test]
fn what_a_later_row_spends_is_sent_and_asked_for_before_it() {
    let folder = folder();
    let file = folder.path().join("spent.csv");
    fs::write(&file, "id,debit,credit,amount\na,x,y,1\nb,y,z,1\n").expect("there is room");
    let (server, requests) = recorder(r#"{"outcomes":[{"id":"a","outcome":"applied"}]}"#);
    let done = Operator { server }.done(&["import", &file.display().to_string()]);
    assert_eq!(done, "2 rows: 2 applied, 0 done before, 0 refused\n");
    let asked: Vec<String> = requests.try_iter().map(|(line, _)| line.replace(" HTTP/1.1", "")).collect();
    assert_eq!(asked, ["GET /v1/audit", "POST /v1/transfers", "GET /v1/transfers/a", "POST /v1/transfers"]);
    // A hold credits nobody.
    fs::write(&file, "id,debit,credit,amount,expires_in_ms\na,x,y,1,9\nb,y,z,1,9\n").expect("there is room");
    let (server, requests) = recorder(r#"{"outcomes":[{"id":"a","outcome":"applied"}]}"#);
    Operator { server }.done(&["import", &file.display().to_string(), "--batch", "1"]);
    assert_eq!(requests.try_iter().map(|(line, _)| line).collect::<Vec<_>>(), ["POST /v1/holds HTTP/1.1"; 2]);
}

/// So many rows, in requests so small that a kill comes between them.
const ROWS: u64 = 20_000;

#[test]
fn an_import_goes_on_when_the_server_comes_back_and_does_each_row_once() {
    let folder = folder();
    let settings = Settings::new(folder.path());
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    let operator = Operator::of(&server);
    let rows = (0..ROWS).map(|row| format!("row-{row},source:shop,wallet:dave,1,{row}\n")).collect::<String>();
    let file = folder.path().join("rows.csv");
    fs::write(&file, format!("id,debit,credit,amount,user_data\n{rows}")).expect("there is room");
    let file = file.display().to_string();

    let mut import = command(&operator.server, &["import", &file, "--batch", "20", "--json"]);
    let import = import.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let balance = |operator: &Operator| operator.json(&["account", "get", "wallet:dave"])[0]["balance"].as_u64();
    wait_for("some rows are done", || balance(&operator).is_some_and(|has| has > CREDITS + 100).then_some(()));
    let again = Settings { http: server.http.to_string(), ..settings };
    server.kill();
    let server = Server::start(&again);
    let done = import.wait_with_output().expect("it ends");
    let out = String::from_utf8(done.stdout).expect("text");
    assert_eq!(done.status.code(), Some(0), "{out}{}", String::from_utf8_lossy(&done.stderr));
    let summary: Value = serde_json::from_str(out.lines().last().expect("a summary")).expect("JSON");
    let count = |name: &str| summary[name].as_u64().expect("a number");
    assert_eq!((count("rows"), count("applied") + count("duplicates"), count("refused")), (ROWS, ROWS, 0), "{summary}");
    assert!(count("duplicates") == count("sent_twice") && count("sent_twice") <= 20, "{summary}");
    assert_eq!(balance(&operator), Some(CREDITS + ROWS));

    // A server that does not come back stops the import, which says where to go on.
    let http = server.http.to_string();
    server.kill();
    let (code, out, error) = operator.run(&["import", &file, "--from-line", "500", "--retry-for-s", "0", "--json"]);
    let summary: Value = serde_json::from_str(&out).expect("JSON");
    assert!(code == 1 && error.contains("nobody listens"), "{error}");
    assert_eq!((&summary["next_line"], &summary["applied"]), (&json!(500), &json!(0)), "{summary}");
    let _server = Server::start(&Settings { http, ..again });
    let rest = operator.json(&["import", &file, "--from-line", "500"]);
    assert_eq!((&rest[0]["rows"], &rest[0]["duplicates"]), (&json!(ROWS - 498), &json!(ROWS - 498)), "{rest:?}");
}

#[test]
fn an_import_that_somebody_ends_says_how_far_it_is() {
    let folder = folder();
    let server = Server::start(&Settings::new(folder.path()));
    open_show(&mut connect(&server));
    let operator = Operator::of(&server);
    let rows = (0..ROWS).map(|row| format!("row-{row},source:shop,wallet:dave,1\n")).collect::<String>();
    let file = folder.path().join("rows.csv");
    fs::write(&file, format!("id,debit,credit,amount\n{rows}")).expect("there is room");
    let file = file.display().to_string();
    let mut import = command(&operator.server, &["import", &file, "--batch", "1"]);
    let import = import.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let paid = || operator.json(&["account", "get", "wallet:dave"])[0]["balance"].as_u64().expect("a number") - CREDITS;
    wait_for("some rows are done", || (paid() > 100).then_some(()));
    // SAFETY: the child was not waited for, so its id is still its own.
    assert_eq!(unsafe { libc::kill(import.id() as libc::pid_t, libc::SIGINT) }, 0);
    let ended = import.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let (out, error) = (text(ended.stdout), text(ended.stderr));
    assert!(ended.status.code() == Some(1) && error.contains("rows.csv: ended by a signal"), "{out}{error}");
    let done = paid();
    assert!(out.contains(&format!(" rows: {done} applied, 0 done before, 0 refused")), "{done}: {out}");
    // The first row stands in line 2.
    assert!(
        error.contains(&format!("Or go on with --from-line {} if the ledger has one shard", done + 2)),
        "{done}: {error}"
    );
    operator.done(&["import", &file, "--from-line", &(done + 2).to_string()]);
    assert_eq!(paid(), ROWS);
}

#[test]
fn a_file_that_cannot_be_right_is_refused_with_its_line_and_what_was_sent_of_it() {
    let folder = folder();
    let write = |name: &str, text: &str| -> String {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("there is room");
        path.display().to_string()
    };
    let (server, requests) = recorder(r#"{"outcomes":[{"id":"a","outcome":"applied"}]}"#);
    let operator = Operator { server };
    let head = "id,debit,credit,amount,memo\n";
    for (name, text, words) in [
        ("quote.csv", format!("{head}a,x,y,1,\nb,x,y,1,\"a gift\nc,x,y,1,\n"), "quote.csv:3: a quote that opens in"),
        (
            "text.ndjson",
            "{\"id\":1\n".to_owned(),
            "text.ndjson:1: not a JSON object: EOF while parsing an object, in column",
        ),
        ("head.csv", head.to_owned(), "head.csv: there is no row in it"),
        ("empty.csv", String::new(), "empty.csv: the file is empty"),
        ("empty.ndjson", "\n".to_owned(), "empty.ndjson: there is no row in it"),
    ] {
        let file = write(name, &text);
        for more in [&[][..], &["--dry-run"], &["--json"]] {
            let (code, out, error) = operator.run(&[&["import", &file], more].concat());
            // A broken row does not keep a check from looking at the others.
            let ends = if name == "text.ndjson" && more == ["--dry-run"] { 3 } else { 1 };
            assert!(code == ends && error.contains(words), "{name}: {code} {out}{error}");
            assert!(requests.try_recv().is_err(), "nothing was sent of {name}");
        }
    }
    let broken = write("broken.csv", &format!("{head}a,x,y,1,\nb,x,y\nc,x,y,0,\nd,x,y,1,,\ne,x,y,1,\n"));
    let (code, out, error) = operator.run(&["import", &broken, "--dry-run"]);
    assert_eq!((code, out.as_str()), (3, "5 rows read, 3 of them not good; nothing was sent\n"), "{error}");
    for words in ["broken.csv:3: this row has 3 cells, and the head has 5", "broken.csv:4: ", "broken.csv:5: this row"]
    {
        assert!(error.contains(words), "{error}");
    }
    let late = write("late.csv", &format!("{head}a,x,y,1,\nb,x,y,1,\nc,x,y,1,\"a gift\nd,x,y,1,\n"));
    let (code, out, error) = operator.run(&["import", &late, "--batch", "1"]);
    let said = "2 rows: 1 applied, 0 done before, 0 refused, 1 read and not sent, or not answered\n";
    assert_eq!((code, out.as_str()), (1, said), "{error}");
    assert!(error.contains("late.csv:4: a quote") && error.contains("go on with --from-line 3"), "{error}");
    assert!(requests.recv().is_ok() && requests.try_recv().is_err(), "one row was sent");
}
