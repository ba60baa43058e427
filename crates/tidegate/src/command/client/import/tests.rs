//! Rows of files: where they stand, what they become, and what is wrong with them.

use std::io::{self, Read};
use std::path::Path;

use clap::Parser;
use serde_json::json;
use tidegate_machines::ledger::Refusal;

use super::super::connection::Connection;
use super::super::door::Door;
use super::file::{self, Found};
use super::row::Kind;
use super::{Import, ImportArguments};

fn read(name: &str, text: &str) -> Vec<String> {
    let rows = match file::rows(text.as_bytes(), Path::new(name), None) {
        Ok(rows) => rows,
        Err(error) => return vec![format!("{error:#}")],
    };
    let show = |Found { line, offset, fields }| {
        assert!(
            text.is_char_boundary(offset as usize) && (offset == 0 || text.as_bytes()[offset as usize - 1] == b'\n')
        );
        match Kind::of(|name| fields.contains_key(name)).map(|kind| kind.body(fields)) {
            None => format!("{line}: no kind"),
            Some(Ok(body)) => format!("{line}: {body}"),
            Some(Err(what)) => format!("{line}: WRONG {what}"),
        }
    };
    rows.map(|row| row.map_or_else(|error| format!("{error:#}"), show)).collect()
}

#[test]
fn a_name_that_stands_twice_in_a_row_is_refused() {
    let rows = read("x.ndjson", "{\"id\":\"t\",\"debit\":\"a\",\"credit\":\"b\",\"amount\":1,\"amount\":7}\n");
    assert_eq!(rows.len(), 1);
    assert!(rows[0].starts_with("x.ndjson:1: ") && rows[0].contains("\"amount\" stands twice in it"), "{rows:?}");
}

#[test]
fn each_row_has_its_line_and_what_is_wrong_with_it() {
    let csv = "id, debit ,credit,amount,memo,code,user_data\n\
               t1,a,b,5,\"two\nlines, and a comma\",7,order-1\n\
               t2,a,b,0,,,\n\
               t3,a,,1,,,\n\
               t4,a,b,1.5,,,\n\
               t5,a,b,18446744073709551616,,,\n\
               t6,a,b,1,,4294967296,\n\
               t7,a,b\n";
    let rows = read("x.csv", csv);
    let first = concat!(
        r#"2: {"amount":5,"code":7,"credit":"b","debit":"a","id":"t1","#,
        r#""memo":"two\nlines, and a comma","user_data":"order-1"}"#
    );
    assert_eq!(rows[0], first);
    assert_eq!(rows[1], "4: WRONG amount = 0: expected 1 or more minor units");
    assert_eq!(rows[2], "5: WRONG missing field `credit`");
    assert!(rows[3].starts_with("6: WRONG amount = \"1.5\""), "{}", rows[3]);
    assert!(rows[4].starts_with("7: WRONG amount = \"18446744073709551616\""), "{}", rows[4]);
    assert_eq!(rows[5], "8: WRONG code = \"4294967296\": expected a whole number, at most 4294967295");
    assert_eq!(rows[6], "x.csv:9: this row has 3 cells, and the head has 7");

    // Empty lines count, however lines end; what a row is asked for again with is where it is.
    for end in ["\n", "\r\n"] {
        let csv = ["id,asset,kind", "", "a,x,wallet", "", "", "b,x,wallet", "c,x,", "", "d,x"].join(end);
        let rows = read("x.csv", &csv);
        assert!(rows[0].starts_with("3: {") && rows[1].starts_with("6: {"), "{rows:?}");
        assert_eq!(rows[2..], ["7: no kind", "x.csv:9: this row has 2 cells, and the head has 3"]);
    }

    let lines = "{\"id\":\"a\",\"asset\":\"x\",\"kind\":\"wallet\"}\n\n\
                 {\"id\":\"a\",\"asset\":7,\"kind\":\"wallet\"}\n\
                 {\"id\":\"a\",\"asset\":\"x\",\"kind\":\"wallet\",\"colour\":\"red\"}\n\
                 {\"id\":\"t\",\"debit\":\"a\",\"credit\":\"b\",\"amount\":-1}\n\
                 {\"id\":\"h\",\"debit\":\"a\",\"credit\":\"b\",\"amount\":1,\"code\":2,\
                 \"expires_in_ms\":60000}\nnonsense\n";
    let rows = read("x.ndjson", lines);
    assert_eq!(rows[0], r#"1: {"asset":"x","id":"a","kind":"wallet"}"#);
    assert_eq!(rows[1], "3: WRONG asset = 7: expected a text");
    assert_eq!(rows[2], "4: WRONG \"colour\" is no field of accounts, which have id, asset, kind");
    assert_eq!(rows[3], "5: WRONG amount = -1: expected a whole number, minor units");
    assert_eq!(rows[4], r#"6: {"amount":1,"code":2,"credit":"b","debit":"a","expires_in_ms":60000,"id":"h"}"#);
    assert!(rows[5].starts_with("x.ndjson:7: not a JSON object: expected ident, in column 2"), "{}", rows[5]);
    let rows = read("x.csv", "id,asset,kind\na,x,walet\n");
    assert_eq!(rows, ["2: WRONG kind = \"walet\": expected wallet, source, collector"]);
}

#[test]
fn what_no_server_takes_is_known_without_one() {
    let text = |count: usize| "x".repeat(count);
    let transfer = |id: &str, debit: &str, credit: &str, amount: u64, memo: &str, user_data: &str| {
        let body = json!({
            "id": id, "debit": debit, "credit": credit, "amount": amount, "memo": memo, "user_data": user_data,
        });
        (Kind::Transfers, body)
    };
    let hold = json!({"id": "h", "debit": "a", "credit": "b", "amount": 1, "expires_in_ms": u64::MAX});
    let account = |id: &str, asset: &str| (Kind::Accounts, json!({"id": id, "asset": asset, "kind": "wallet"}));
    for ((kind, body), refused) in [
        (transfer("t", "a", "b", 9_223_372_036_854_775_807, &text(256), &text(64)), Ok(())),
        (transfer(" t", "a", "b", 1, "", ""), Err(Refusal::IdInvalid)),
        (transfer(&text(65), "a", "b", 1, "", ""), Err(Refusal::IdInvalid)),
        (transfer("s\u{1f}t", "a", "b", 1, "", ""), Err(Refusal::IdInvalid)),
        (transfer("t", "a", "a", 1, "", ""), Err(Refusal::SameAccount)),
        (transfer("t", "a", "b", 1, &text(257), ""), Err(Refusal::MemoTooLong)),
        (transfer("t", "a", "b", 9_223_372_036_854_775_808, "", ""), Err(Refusal::AmountInvalid)),
        (transfer("t", "a/b", "b", 1, "", ""), Err(Refusal::AccountIdInvalid)),
        (transfer("t", "a", "b", 1, "", &text(65)), Err(Refusal::UserDataTooLong)),
        ((Kind::Holds, hold), Err(Refusal::ExpiryInvalid)),
        (account("wallet:a", "x"), Ok(())),
        (account("wallet/a", "x"), Err(Refusal::AccountIdInvalid)),
        (account("wallet:a", &text(33)), Err(Refusal::AssetInvalid)),
    ] {
        assert_eq!(kind.check(&body), refused, "{body}");
    }
    let CommandLine { connection, arguments } = CommandLine::parse_from(["import", "x.csv", "--dry-run"]);
    let door = Door::new(&connection).expect("nothing is asked yet");
    let mut import = Import::new(&door, true, &arguments, 0);
    let rows = "id,debit,credit,amount\nt1,a,b,1\nt2,a,a,1\n..,a,b,1\n";
    assert!(import.file(rows.as_bytes()).is_ok());
    assert_eq!((import.counts.rows, import.counts.refused), (3, 2));
}

#[test]
fn a_head_with_a_column_that_is_none_is_refused_before_anything_is_sent() {
    let known = "which have id, debit, credit, amount, memo, code, user_data";
    assert_eq!(
        read("x.csv", "id,debit,credit,amount,note\n"),
        [format!("x.csv:1: \"note\" is no field of transfers, {known}")]
    );
    assert!(read("x.csv", "from,to\n")[0].starts_with("x.csv:1: neither accounts (id, asset, kind) nor"));
    assert!(read("x.txt", "")[0].contains("expected a name that ends with .csv"));
    assert_eq!(read("x.csv", "id;asset;kind\n"), ["x.csv:1: the columns are separated by ';'; expected commas"]);
    assert_eq!(read("x.csv", "id,asset,kind,id\n"), ["x.csv:1: there are two columns \"id\""]);
    assert!(read("x.csv", "")[0].starts_with("x.csv: the file is empty"));
}

#[test]
fn an_open_quote_swallows_no_rows() {
    let head = "id,debit,credit,amount,memo\n";
    let rows = read("x.csv", &format!("{head}t1,a,b,1,\nt2,a,b,1,\"a gift\nt3,a,b,1,\n"));
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!(rows[0], r#"2: {"amount":1,"credit":"b","debit":"a","id":"t1"}"#);
    assert!(rows[1].starts_with("x.csv:3: a quote that opens in this line is never closed"), "{}", rows[1]);
    // The next quote of the file does not close it.
    let rows = read("x.csv", &format!("{head}t1,a,b,1,\nt2,a,b,1,\"a gift\nt3,a,b,1,\"for you\"\n"));
    assert!(rows[1].starts_with("x.csv:3: a quote that opens in this line is closed in line 4"), "{}", rows[1]);
    assert!(read("x.csv", "id,\"debit,credit\n1,2,3\n")[0].starts_with("x.csv:1: a quote that opens"));
}

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    arguments: ImportArguments,
}

/// What a disk does not give.
struct BadSector;

impl Read for BadSector {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("a bad sector"))
    }
}

#[test]
fn the_bar_and_the_line_to_go_on_with_are_behind_what_is_done_and_not_what_is_read() {
    let line = |id: &str| format!("{{\"id\":\"{id}\",\"asset\":\"x\",\"kind\":\"wallet\"}}\n");
    let rows: Vec<String> = ["a", "b", "c", "d", "e"].map(line).into();
    let text = rows.concat();
    for (from_line, done_bytes, line_done, counted) in
        [(1, rows[..4].concat().len(), 4, 5), (4, rows[..3].concat().len(), 3, 2)]
    {
        let from_line = from_line.to_string();
        let line = ["import", "x.ndjson", "--dry-run", "--batch", "2", "--from-line", &from_line];
        let CommandLine { connection, arguments } = CommandLine::parse_from(line);
        let door = Door::new(&connection).expect("nothing is asked yet");
        let mut import = Import::new(&door, true, &arguments, text.len() as u64);
        assert!(import.file(text.as_bytes().chain(BadSector)).is_err(), "what follows cannot be read");
        assert_eq!((import.bar.position(), import.line_done), (done_bytes as u64, line_done), "from {from_line}");
        assert_eq!(import.counts.rows, counted);
    }
    for (name, text, from_line, words) in [
        ("x.csv", "id,asset,kind\n", "1", "x.csv: there is no row in it"),
        ("x.ndjson", "\n\n", "1", "x.ndjson: there is no row in it"),
        ("x.ndjson", &*rows.concat(), "6", "x.ndjson: no row begins in line 6 or behind it, the last one in line 5"),
    ] {
        let CommandLine { connection, arguments } =
            CommandLine::parse_from(["import", name, "--dry-run", "--from-line", from_line]);
        let door = Door::new(&connection).expect("nothing is asked yet");
        let refused = Import::new(&door, true, &arguments, text.len() as u64).file(text.as_bytes());
        let refused = refused.expect_err("there is nothing to do").to_string();
        assert!(refused.starts_with(words), "{refused}");
    }
    let whole = rows.concat();
    let CommandLine { connection, arguments } = CommandLine::parse_from(["import", "x.ndjson", "--dry-run"]);
    let door = Door::new(&connection).expect("nothing is asked yet");
    let mut import = Import::new(&door, true, &arguments, whole.len() as u64);
    assert!(import.file(whole.as_bytes()).is_ok());
    assert_eq!((import.bar.position(), import.line_done), (whole.len() as u64, 5));
}
