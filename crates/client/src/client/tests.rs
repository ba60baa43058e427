//! Against a server with a script.

use super::*;
use crate::reply::Outcome;
use crate::script::{Say, Script, client, error, reply};
use tidegate_wire::proto::reply_frame;
use tidegate_wire::{BodyRef, OutcomesEncoder, Split, decode_request, split};

fn applied(correlation: u64, count: usize) -> Say {
    let mut out = Vec::new();
    let mut frame = OutcomesEncoder::begin(&mut out, correlation, count);
    (0..count).for_each(|_| frame.applied());
    frame.finish();
    Say::Bytes(out)
}

const VOTE: Transfer<'_> =
    Transfer { id: "v", debit: "wallet:a", credit: "candidate:1", amount: 1, memo: "", code: 0, user_data: "" };

#[test]
fn hello_comes_first_and_carries_the_token() {
    let client = client([]);
    let heard = &client.stream().heard;
    let Ok(Split::Frame(frame)) = split(heard, 100) else { panic!("one frame") };
    assert_eq!(frame.end, heard.len());
    let request = decode_request(&heard[frame]).unwrap();
    assert!(matches!(request.body, BodyRef::Hello { token: "token" }));
    assert_eq!(client.in_flight(), 0);
}

#[test]
fn a_token_that_is_refused_is_an_error_with_the_servers_code() {
    // The server may answer with the correlation or, when it closes at once, without.
    for correlation in [0, 1] {
        let script = Script { says: [error(correlation, "unauthenticated", 0)].into(), heard: vec![] };
        let error = Client::over(script, "x").err().expect("refused");
        assert!(matches!(&error, ClientError::Server(error) if error.code == "unauthenticated"), "{error}");
    }
}

#[test]
fn calls_find_their_reply_among_those_of_requests_before() {
    let mut client = client([applied(4, 1), applied(2, 2), applied(3, 3)]);
    assert_eq!(client.send_transfers(&[VOTE; 2], false).unwrap(), 2);
    assert_eq!(client.send_transfers(&[VOTE; 3], true).unwrap(), 3);
    assert_eq!(client.transfer(&VOTE).unwrap(), Outcome::Applied);
    assert_eq!(client.in_flight(), 2);
    assert_eq!(client.receive_reply_to(3).unwrap(), Reply::Outcomes(vec![Outcome::Applied; 3]));
    assert_eq!(client.in_flight(), 1);
    assert_eq!(client.receive().unwrap(), (2, Reply::Outcomes(vec![Outcome::Applied; 2])));
    assert_eq!(client.in_flight(), 0);
}

#[test]
fn silence_is_a_time_out_and_the_reply_can_still_come() {
    let mut client = client([Say::Nothing, applied(2, 1)]);
    let correlation = client.send_transfers(&[VOTE], false).unwrap();
    assert!(matches!(client.receive(), Err(ClientError::TimedOut)));
    assert_eq!(client.receive().unwrap().0, correlation);
}

#[test]
fn an_end_in_the_middle_says_how_many_outcomes_are_unknown() {
    let Say::Bytes(mut half) = applied(2, 1) else { unreachable!() };
    half.pop();
    let mut client = client([Say::Bytes(half)]);
    client.send_transfers(&[VOTE], false).unwrap();
    client.send_ping().unwrap();
    assert!(matches!(client.receive(), Err(ClientError::Closed { in_flight: 2 })));
}

#[test]
fn the_servers_bounds_are_kept_before_anything_is_sent() {
    let mut client = client([]);
    let heard = client.stream().heard.len();
    assert!(matches!(
        client.send_transfers(&[VOTE; 4], false),
        Err(ClientError::TooManyItems { items: 4, items_max: 3 })
    ));
    let long = "m".repeat(1_000);
    let too_long = Transfer { memo: &long, ..VOTE };
    assert!(matches!(client.transfer(&too_long), Err(ClientError::RequestTooLarge { bytes_max: 1_000, .. })));
    client.flush().unwrap();
    assert_eq!(client.stream().heard.len(), heard);
    for _ in 0..4 {
        client.send_ping().unwrap();
    }
    assert!(matches!(client.send_ping(), Err(ClientError::TooManyInFlight { in_flight_max: 4 })));
}

#[test]
fn busy_says_when_to_come_back() {
    let mut client = client([error(2, "busy", 50)]);
    let Err(ClientError::Server(error)) = client.transfer(&VOTE) else { panic!("busy") };
    assert_eq!(error.retry_after, Some(std::time::Duration::from_millis(50)));
    assert_eq!(error.to_string(), "busy: d (ask again in 50 ms, with the same ids)");
}

#[test]
fn a_reply_that_does_not_fit_is_not_taken_for_an_answer() {
    let mut client = client([applied(2, 2), reply(3, reply_frame::Body::Pong(proto::Pong {})), applied(4, 0)]);
    let fails = |client: &mut Client<Script>| matches!(client.transfer(&VOTE), Err(ClientError::ReplyMismatch(_)));
    assert!(fails(&mut client), "two outcomes for one transfer");
    assert!(fails(&mut client), "a pong");
    assert!(fails(&mut client), "no outcome");
}

#[test]
fn totals_beyond_64_bits_arrive_whole() {
    let figures = proto::Account {
        id: "a".into(),
        kind: AccountKind::Source as i32,
        balance: -5,
        available: -5,
        credited: "170141183460469231731687303715884105727".into(),
        debited: "170141183460469231731687303715884105732".into(),
        ..Default::default()
    };
    let bad = proto::Account { credited: "much".into(), ..figures.clone() };
    let mut client = client([reply(2, reply_frame::Body::Account(figures)), reply(3, reply_frame::Body::Account(bad))]);
    let account = client.account("a").unwrap();
    assert_eq!((account.kind, account.balance), (AccountKind::Source, -5));
    assert_eq!(account.debited - account.credited, 5);
    assert!(matches!(client.account("a"), Err(ClientError::ReplyMismatch(_))));
}

#[test]
fn a_room_s_answer_comes_as_it_was_said() {
    let said = |correlation, family, body: &[u8]| {
        let mut out = Vec::new();
        encode_room(&mut out, correlation, RoomRef { family, body });
        Say::Bytes(out)
    };
    let mut client = client([said(2, 2_000, b"3"), said(3, 2_001, b"3"), error(4, "room_unknown", 0)]);
    assert_eq!(client.room(2_000, b"add").unwrap(), b"3");
    assert!(matches!(client.room(2_000, b"add"), Err(ClientError::ReplyMismatch(_))), "of another room");
    let Err(ClientError::Server(error)) = client.room(7, b"") else { panic!("no such room") };
    assert_eq!(error.code, "room_unknown");
    let asked: Vec<u8> = [&[8, 2, 0x7a, 8, 8, 0xd0, 0x0f, 0x12, 3][..], b"add"].concat();
    assert!(client.stream().heard.windows(asked.len()).any(|window| window == asked), "{:02x?}", client.stream().heard);
    assert!(matches!(client.room(7, &[0; 1_000]), Err(ClientError::RequestTooLarge { .. })));
}
