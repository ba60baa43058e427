//! Writes the seeds, small and well-formed, from which the fuzzer starts: `cargo test --no-default-features -- --ignored write_seeds`.
//! They are checked in, so this runs only when a format changes.

use std::fs;
use std::path::Path;
use tidegate_fuzz::event::STORY;
use tidegate_wire::proto::{self, AccountKind, reply_frame, request_frame};
use tidegate_wire::{
    HoldsEncoder, OutcomesEncoder, PostHoldsEncoder, TransferRef, TransfersEncoder, encode_reply, encode_request,
};

#[test]
#[ignore = "writes into the tree"]
fn write_seeds() {
    frames();
    for (index, event) in STORY.events.iter().enumerate() {
        write("event", &format!("{index}"), event);
        write("group", &format!("one_record_{index}"), &group_of(&[event]));
    }
    write("group", "all_records", &group_of(&STORY.events.iter().map(Vec::as_slice).collect::<Vec<_>>()));
    write("group", "empty", &group_of(&[]));
    let mut snapshot = Vec::new();
    STORY.ledger.write_snapshot(&mut |part| snapshot.extend_from_slice(part));
    write("snapshot", "story", &snapshot);
    write("snapshot", "cut", &snapshot[..snapshot.len() / 2]);
    let mut flipped = snapshot.clone();
    flipped[snapshot.len() / 3] ^= 4;
    write("snapshot", "flipped", &flipped);
    // Offsets: the segment's header, the first group's, a record, the chain of a later group, the mark behind the last one.
    for (name, offset) in
        [("header", 3u16), ("first_group", 4096), ("record", 4096 + 130), ("chain", 4096 + 400), ("tail", 5900)]
    {
        write("segment", name, &[&offset.to_le_bytes()[..], b"\xff\0\xff\0"].concat());
    }
    http_bodies();
}

fn frames() {
    let transfer = TransferRef { id: b"t1", debit: b"wallet:dave", credit: b"candidate:1", amount: 5, memo: b"hello" };
    let mut out = Vec::new();
    let mut frame = TransfersEncoder::begin(&mut out, 7, true);
    frame.push(&transfer);
    frame.push(&TransferRef { id: "über".as_bytes(), memo: b"", ..transfer });
    frame.finish();
    write("frames", "transfers", &out);

    out.clear();
    let mut frame = HoldsEncoder::begin(&mut out, 8);
    frame.push(&transfer, 60_000);
    frame.finish();
    let mut frame = PostHoldsEncoder::begin(&mut out, 9);
    frame.push(b"t1", Some(2));
    frame.push(b"t2", None);
    frame.finish();
    write("frames", "holds_then_posts", &out);

    out.clear();
    let account =
        |id: &str| proto::OpenAccount { id: id.into(), asset: "credit".into(), kind: AccountKind::Wallet as i32 };
    encode_request(&mut out, 1, request_frame::Body::Hello(proto::Hello { token: "token".into() }));
    encode_request(&mut out, 2, request_frame::Body::OpenAccount(account("wallet:dave")));
    encode_request(&mut out, 3, request_frame::Body::VoidHolds(proto::VoidHolds { ids: vec!["a".into(), "b".into()] }));
    let history = proto::ReadHistory { id: "wallet:dave".into(), before: "x".into(), limit: 5 };
    encode_request(&mut out, 4, request_frame::Body::ReadHistory(history));
    write("frames", "conversation", &out);

    out.clear();
    let mut frame = OutcomesEncoder::begin(&mut out, 7, 3);
    frame.applied();
    frame.duplicate();
    frame.refused("insufficient_funds", 3);
    frame.finish();
    let error = proto::Error { code: "busy".into(), detail: "later".into(), retry_after_ms: 100 };
    encode_reply(&mut out, 8, reply_frame::Body::Error(error));
    write("frames", "replies", &out);
}

/// As the target wants it: the number of records, then the records with their length and room for a checksum.
fn group_of(records: &[&[u8]]) -> Vec<u8> {
    let mut bytes = (records.len() as u32).to_le_bytes().to_vec();
    for record in records {
        bytes.extend_from_slice(&(record.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(record);
    }
    bytes
}

fn http_bodies() {
    for (name, body) in [
        ("transfer", r#"{"id":"t1","debit":"wallet:dave","credit":"candidate:1","amount":1,"memo":"hello"}"#),
        ("batch", r#"{"transfers":[{"id":"t1","debit":"a","credit":"b","amount":1}],"linked":true}"#),
        ("account", r#"{"id":"wallet:dave","asset":"credit","kind":"wallet"}"#),
        ("hold", r#"{"id":"h1","debit":"a","credit":"b","amount":1,"expires_in_ms":1000}"#),
        ("post", r#"{"amount":1}"#),
        ("login", r#"{"user":"dave","password":"dave"}"#),
        ("escapes", r#"{"id":"\u0000\ud83d\ude00","debit":"\"","credit":"b","amount":1e3}"#),
        ("deep", &format!("{}1{}", "[".repeat(200), "]".repeat(200))),
        ("large_number", r#"{"id":"t","debit":"a","credit":"b","amount":18446744073709551616}"#),
    ] {
        write("http_body", name, body.as_bytes());
    }
}

fn write(target: &str, name: &str, bytes: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name), bytes).unwrap();
}
