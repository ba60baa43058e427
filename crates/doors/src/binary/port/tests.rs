//! The port over a real socket; the test itself answers for the shards.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tidegate_ledger::message::{Reply, Unavailable};
use tidegate_ledger::operation::Operation;
use tidegate_runtime::threads::now_ms;
use tidegate_wire::limits::FRAME_BYTES_MAX as FRAME_MAX;
use tidegate_wire::proto::reply_frame::Body;
use tidegate_wire::proto::{self, request_frame};
use tidegate_wire::{
    ReplyBodyRef, RoomRef, Split, TransferRef, TransfersEncoder, decode_reply, encode_request, encode_room, split,
};

use super::*;
use crate::auth::quota::{QuotaLimits, Rate};
use crate::binary::limits::REFUSAL_PAUSE_MS;
use crate::turns::limits::WORK_IN_TURN_MAX;

use door::{Door, PORT, Parcel, settings};

mod ahead;
mod door;

fn read_some(stream: &mut TcpStream, heard: &mut Vec<u8>) {
    let mut some = [0; 1 << 16];
    while let Ok(count) = stream.read(&mut some) {
        assert!(count > 0, "the port ended the connection");
        heard.extend_from_slice(&some[..count]);
    }
}

/// Whole frames in these bytes.
fn frames_in(bytes: &[u8]) -> u64 {
    let (mut rest, mut frames) = (bytes, 0);
    while let Ok(Split::Frame(range)) = split(rest, FRAME_MAX) {
        (rest, frames) = (&rest[range.end..], frames + 1);
    }
    frames
}

/// Reads frames until the one with this correlation; its error's code.
fn error_code(stream: &mut TcpStream, correlation: u64) -> String {
    let mut said = Vec::new();
    loop {
        while let Split::Frame(range) = split(&said, FRAME_MAX).unwrap() {
            let end = range.end;
            let frame = said[range].to_vec();
            let reply = decode_reply(&frame).unwrap();
            match reply.body {
                ReplyBodyRef::Other(Body::Error(error)) if reply.correlation == correlation => return error.code,
                ReplyBodyRef::Other(Body::Welcome(_)) => {}
                other => panic!("{other:?}"),
            }
            said.drain(..end);
        }
        let mut some = [0; 4096];
        let count = stream.read(&mut some).unwrap();
        assert!(count > 0, "the port ended the connection");
        said.extend_from_slice(&some[..count]);
    }
}

#[test]
fn a_vote_whose_credit_cannot_be_looked_at_now_is_told_why_and_not_that_it_is_missing() {
    let mut door = Door::open();
    let mut client = TcpStream::connect(door.address).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut frames = Vec::new();
    encode_request(&mut frames, 1, request_frame::Body::Hello(proto::Hello { token: door.token() }));
    client.write_all(&frames).unwrap();

    for (correlation, reason, code) in [(2, Unavailable::Busy, "busy"), (3, Unavailable::ShardFailed, "shard_failed")] {
        let mut frames = Vec::new();
        let mut votes = TransfersEncoder::begin(&mut frames, correlation, false);
        votes.push(&TransferRef {
            id: b"vote",
            debit: b"wallet:dave",
            credit: b"candidate:1",
            amount: 1,
            memo: b"",
            ..Default::default()
        });
        votes.finish();
        client.write_all(&frames).unwrap();
        let (ticket, asked) = door.question();
        assert!(matches!(&asked, Operation::ReadAccount { id } if &**id == "candidate:1"), "{asked:?}");
        door.turn_away(ticket, reason);
        assert_eq!(error_code(&mut client, correlation), code);
    }
    assert!(Resident::<Parcel>::is_quiet(&door.port));
}

#[test]
fn a_room_that_nobody_registered_is_answered_and_the_connection_lives_on() {
    let mut door = Door::open();
    let mut client = TcpStream::connect(door.address).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut frames = Vec::new();
    encode_request(&mut frames, 1, request_frame::Body::Hello(proto::Hello { token: door.token() }));
    encode_room(&mut frames, 2, RoomRef { family: 4_711, body: b"add" });
    encode_request(&mut frames, 3, request_frame::Body::ReadAccount(proto::ReadAccount { id: "wallet:dave".into() }));
    client.write_all(&frames).unwrap();
    let (_, asked) = door.question();
    assert!(matches!(&asked, Operation::ReadAccount { id } if &**id == "wallet:dave"), "{asked:?}");
    assert_eq!(error_code(&mut client, 2), "room_unknown");
}

/// Clients that have said Hello with the token of `name`, and heard the answer.
fn clients(door: &mut Door, count: usize, token: &str) -> Vec<TcpStream> {
    let mut hello = Vec::new();
    encode_request(&mut hello, 1, request_frame::Body::Hello(proto::Hello { token: token.into() }));
    let known = door.port.sessions.len();
    let mut clients = Vec::new();
    for _ in 0..count {
        let mut client = TcpStream::connect(door.address).unwrap();
        client.write_all(&hello).unwrap();
        clients.push(client);
        // The listener of a test holds few that were not accepted.
        door.turn();
    }
    while door.port.sessions.len() < known + count
        || door.port.sessions.iter().any(|(_, session)| session.identity().is_none())
    {
        door.turn();
    }
    for client in &mut clients {
        let mut welcome = [0; 4096];
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        assert!(client.read(&mut welcome).unwrap() > 0);
        client.set_nonblocking(true).unwrap();
    }
    clients
}

fn pings(count: u64) -> Vec<u8> {
    let mut frames = Vec::new();
    (0..count).for_each(|n| encode_request(&mut frames, 2 + n, request_frame::Body::Ping(proto::Ping {})));
    frames
}

/// Polls until so many connections have something to read.
fn until_lined_up(door: &mut Door, count: usize) {
    while door.port.sessions.iter().filter(|(_, session)| session.listed).count() < count {
        door.poll_for(Duration::from_millis(1));
    }
}

#[test]
fn one_request_is_answered_in_the_next_turn_whatever_two_hundred_connections_of_another_ask() {
    const FLOODERS: usize = 200;
    let mut door = Door::open();
    let (flood, mine) = (door.token_of("dave"), door.token_of("erin"));
    let mut flooders = clients(&mut door, FLOODERS, &flood);
    let mut me = clients(&mut door, 1, &mine).remove(0);
    let frames = pings(500);
    flooders.iter_mut().for_each(|flooder| flooder.write_all(&frames).unwrap());
    until_lined_up(&mut door, FLOODERS);
    // All of the flood is in line before I come.
    me.write_all(&pings(1)).unwrap();
    until_lined_up(&mut door, FLOODERS + 1);
    let frames_before = door.port.metrics.sent_bytes.get();
    door.port.serve_sessions();
    door.port.write_sessions();
    let mut heard = Vec::new();
    read_some(&mut me, &mut heard);
    assert_eq!(frames_in(&heard), 1, "in the first turn");
    let pong = heard.len() as u64;
    let served = (door.port.metrics.sent_bytes.get() - frames_before) / pong;
    assert!(served <= WORK_IN_TURN_MAX as u64, "and the turn was short: {served} frames");
    assert!(served * 2 > WORK_IN_TURN_MAX as u64, "but not wasted: {served} frames");
}

#[test]
fn a_flood_is_served_to_its_end() {
    let mut door = Door::open();
    let token = door.token_of("dave");
    let mut flooder = clients(&mut door, 1, &token).remove(0);
    let count = 4 * WORK_IN_TURN_MAX as u64;
    let (frames, mut written, mut heard) = (pings(count), 0, Vec::new());
    while frames_in(&heard) < count {
        written += flooder.write(&frames[written..]).unwrap_or(0);
        door.turn();
        read_some(&mut flooder, &mut heard);
    }
    assert_eq!(frames_in(&heard), count);
}

#[test]
fn who_asks_too_much_is_told_so_and_not_read_for_a_while() {
    let requests = Rate { per_s: 1, burst: 3 };
    let mut door = Door::with_quota(QuotaLimits { requests, ..QuotaLimits::NONE });
    let token = door.token_of("dave");
    let mut client = clients(&mut door, 1, &token).remove(0);
    client.write_all(&pings(100)).unwrap();
    until_lined_up(&mut door, 1);
    for _ in 0..5 {
        door.port.serve_sessions();
        door.port.write_sessions();
    }
    let mut heard = Vec::new();
    read_some(&mut client, &mut heard);
    assert_eq!(frames_in(&heard), 3 + 1, "three pongs, one refusal; the rest is not looked at");
    assert_eq!(door.port.refused.quota.get("requests"), 1);
    assert!(!Resident::<Parcel>::has_news(&mut door.port), "the worker may sleep meanwhile");
    // In time all are answered: 96 more refusals, one in each pause.
    let now_ms = door.port.now_ms;
    door.port.end_pauses(now_ms + REFUSAL_PAUSE_MS);
    door.port.serve_sessions();
    door.port.write_sessions();
    heard.clear();
    read_some(&mut client, &mut heard);
    assert_eq!(frames_in(&heard), 1);
}

#[test]
fn frames_that_are_none_count_as_refused_requests_and_are_waited_for() {
    let rate = Rate { per_s: 1, burst: 3 };
    for quota in
        [QuotaLimits { requests: rate, ..QuotaLimits::NONE }, QuotaLimits { refusals: rate, ..QuotaLimits::NONE }]
    {
        let mut door = Door::with_quota(quota);
        let token = door.token_of("dave");
        let mut client = clients(&mut door, 1, &token).remove(0);
        // Correlation 7, and a request with a wrong wire type.
        client.write_all(&[4, 0x08, 7, 0x13, 0xff].repeat(100)).unwrap();
        until_lined_up(&mut door, 1);
        for pause in 0..5 {
            door.port.serve_sessions();
            door.port.write_sessions();
            assert!(!Resident::<Parcel>::has_news(&mut door.port), "the worker may sleep meanwhile");
            let mut heard = Vec::new();
            read_some(&mut client, &mut heard);
            assert_eq!(frames_in(&heard), 1, "one answer in pause {pause}");
            let now_ms = door.port.now_ms;
            door.port.end_pauses(now_ms + REFUSAL_PAUSE_MS);
        }
        assert_eq!(door.port.refused.refusals.get("frame_malformed"), 3);
        assert_eq!(door.port.refused.refusals.get("too_many_requests"), 2);
    }
}

/// A frame of so many empty transfers, which asks nothing.
fn empty_transfers(count: usize) -> Vec<u8> {
    let mut frame = Vec::new();
    let transfers = vec![proto::Transfer::default(); count];
    encode_request(&mut frame, 9, request_frame::Body::Transfers(proto::Transfers { transfers, ..Default::default() }));
    frame
}

/// Sends `bytes` and serves until the client has so many answers, or is closed.
fn answers(door: &mut Door, client: &mut TcpStream, bytes: &[u8], count: u64) -> Vec<u8> {
    let (mut written, mut heard) = (0, Vec::new());
    while frames_in(&heard) < count {
        written += client.write(&bytes[written..]).unwrap_or(0);
        door.turn();
        read_some(client, &mut heard);
    }
    heard
}

#[test]
fn bytes_of_refused_frames_are_charged() {
    let requests = Rate { per_s: 1, burst: 200 };
    let mut door = Door::with_quota(QuotaLimits { requests, ..QuotaLimits::NONE });
    let token = door.token_of("dave");
    let mut client = clients(&mut door, 1, &token).remove(0);
    // Each is worth eleven requests.
    answers(&mut door, &mut client, &empty_transfers(80_000).repeat(30), 30);
    assert!(door.port.refused.refusals.get("batch_size_invalid") <= 21);
    assert!(door.port.refused.refusals.get("too_many_requests") >= 9);
}

#[test]
fn frames_that_ask_too_many_items_count_as_refused_requests() {
    let refusals = Rate { per_s: 1, burst: 3 };
    let mut door = Door::with_quota(QuotaLimits { refusals, ..QuotaLimits::NONE });
    let token = door.token_of("dave");
    let mut client = clients(&mut door, 1, &token).remove(0);
    answers(&mut door, &mut client, &empty_transfers(8_191).repeat(10), 10);
    assert!(door.port.refused.refusals.get("batch_size_invalid") <= 4);
    assert!(door.port.refused.refusals.get("too_many_requests") >= 6);
}

#[test]
fn who_is_not_known_waits_for_the_answer() {
    let mut door = Door::open();
    let mut client = TcpStream::connect(door.address).unwrap();
    let mut hello = Vec::new();
    encode_request(&mut hello, 1, request_frame::Body::Hello(proto::Hello { token: "guess".into() }));
    client.write_all(&hello).unwrap();
    client.set_nonblocking(true).unwrap();
    while door.port.sessions.iter().all(|(_, session)| !session.is_held()) {
        door.poll_for(Duration::from_millis(1));
        door.port.accept();
        door.port.serve_sessions();
        door.port.write_sessions();
    }
    assert!(client.read(&mut [0; 100]).is_err(), "nothing is said yet");
    // Its end is an event, and no reason to look at it again.
    client.shutdown(std::net::Shutdown::Write).unwrap();
    door.poll_for(Duration::from_millis(100));
    door.port.serve_sessions();
    assert!(door.port.sessions.iter().all(|(_, session)| !session.listed));
    let now_ms = door.port.now_ms;
    door.port.end_pauses(now_ms + REFUSAL_PAUSE_MS);
    door.port.write_sessions();
    client.set_nonblocking(false).unwrap();
    assert_eq!(error_code(&mut client, 1), "unauthenticated");
    assert!(door.port.sessions.is_empty());
}

/// Asks for a list and answers it with these wallets; what the client hears.
fn list(door: &mut Door, client: &mut TcpStream, after: &str, limit: u32, wallets: usize) -> (usize, String) {
    let mut frames = Vec::new();
    let list = proto::ListAccounts { prefix: "wallet:".into(), after: after.into(), limit };
    encode_request(&mut frames, 9, request_frame::Body::ListAccounts(list));
    client.write_all(&frames).unwrap();
    let (_, asked) = door.question();
    assert!(matches!(asked, Operation::ListAccounts { .. }), "{asked:?}");
    let wallets = (0..wallets).map(|n| tidegate_machines::ledger::AccountView {
        id: format!("wallet:{n:04}").into(),
        asset: "credit".into(),
        kind: tidegate_machines::ledger::AccountKind::Wallet,
        balance: 5,
        held: 0,
        credited: 5,
        debited: 0,
        settings: None,
    });
    // Only a shard can make a durable answer. It is the port's only request, so its number is known.
    door.port.reply(0, Reply::Accounts(wallets.collect()));
    door.port.write_sessions();
    client.set_nonblocking(false).unwrap();
    let mut said = Vec::new();
    loop {
        if let Split::Frame(range) = split(&said, FRAME_MAX).unwrap() {
            let ReplyBodyRef::Other(Body::Accounts(page)) = decode_reply(&said[range]).unwrap().body else { panic!() };
            return (page.accounts.len(), page.next);
        }
        let mut some = [0; 4096];
        let count = client.read(&mut some).unwrap();
        said.extend_from_slice(&some[..count]);
    }
}

#[test]
fn a_list_names_no_wallet_of_others_and_does_not_tell_whether_there_is_one() {
    let mut door = Door::open();
    let token = door.token_of("dave");
    let mut client = clients(&mut door, 1, &token).remove(0);
    assert_eq!(list(&mut door, &mut client, "", 1, 1), (0, String::new()), "as if there were none");
    let (seen, next) = list(&mut door, &mut client, "", 10, 1_000);
    assert_eq!(seen, 0);
    assert!(next.starts_with('/') && !next.contains("wallet"), "{next}");
    let mut frames = Vec::new();
    let list = proto::ListAccounts { prefix: "wallet:".into(), after: next, limit: 10 };
    encode_request(&mut frames, 9, request_frame::Body::ListAccounts(list));
    client.write_all(&frames).unwrap();
    let (_, asked) = door.question();
    let Operation::ListAccounts { after, .. } = asked else { panic!("{asked:?}") };
    assert_eq!(after.as_deref(), Some("wallet:0999"), "it goes on where it ended");
    let mut frames = Vec::new();
    let list = proto::ListAccounts { prefix: String::new(), after: "/forged".into(), limit: 10 };
    encode_request(&mut frames, 10, request_frame::Body::ListAccounts(list));
    client.write_all(&frames).unwrap();
    while door.port.refused.refusals.get("cursor_invalid") == 0 {
        door.turn();
    }
}

#[test]
fn a_reload_takes_rights_away_before_the_next_request() {
    let mut door = Door::open();
    let token = door.token_of("dave");
    let mut client = clients(&mut door, 1, &token).remove(0);
    door.authenticator.reload(settings(&["erin"], QuotaLimits::NONE));
    client.write_all(&pings(1)).unwrap();
    until_lined_up(&mut door, 1);
    // A turn without a tick.
    let mut context = Context::new(PORT, now_ms(), &mut door.endpoint, &mut door.own);
    door.port.serve(&mut context);
    door.port.write_sessions();
    client.set_nonblocking(false).unwrap();
    assert_eq!(error_code(&mut client, 0), "unauthenticated");
    assert!(door.own.is_empty());
}

#[test]
fn a_session_ends_when_its_token_expires() {
    let mut door = Door::open();
    let token = door.token();
    let mut client = clients(&mut door, 1, &token).remove(0);
    let now_ms = now_ms().0;
    door.port.end_expired(now_ms);
    assert!(door.port.sessions.iter().all(|(_, session)| session.is_heard()), "it is good for a hundred seconds");
    door.port.end_expired(now_ms + 101_000);
    door.port.write_sessions();
    client.set_nonblocking(false).unwrap();
    assert_eq!(error_code(&mut client, 0), "unauthenticated");
    assert_eq!(door.port.metrics.connections_refused.get("expired"), 1);
}

#[test]
fn nothing_is_answered_behind_a_frame_that_ends_the_connection() {
    let mut door = Door::open();
    let token = door.token_of("dave");
    let mut client = clients(&mut door, 1, &token).remove(0);
    let mut frames = Vec::new();
    encode_request(&mut frames, 5, request_frame::Body::Hello(proto::Hello { token: "guess".into() }));
    // Frames that are none, each of which would have an answer ten times its size.
    frames.extend_from_slice(&[4, 0x08, 7, 0x13, 0xff].repeat(1_000));
    client.write_all(&frames).unwrap();
    until_lined_up(&mut door, 1);
    let mut heard = Vec::new();
    for _ in 0..5 {
        door.port.serve_sessions();
        door.port.write_sessions();
        let now_ms = door.port.now_ms;
        door.port.end_pauses(now_ms + REFUSAL_PAUSE_MS);
    }
    client.set_nonblocking(false).unwrap();
    // The port closes with bytes unread, so that the end may be a reset.
    let _ = client.read_to_end(&mut heard);
    assert_eq!(frames_in(&heard), 1, "the Hello is refused");
    assert_eq!(door.port.refused.refusals.get("frame_malformed"), 0);
}
