//! Against a server with a script.

use tidegate_wire::pacer::{BidsWriter, FAMILY, NoticeOutcomesWriter, PacerRequestRef, read_request};
use tidegate_wire::{BodyRef, RoomRef, Split, decode_request, encode_room, limits, split};

use super::*;
use crate::script::{Say, Script, client, error};

const TOKEN: Token = [7; TOKEN_BYTES];

fn bids(correlation: u64, answers: &[Result<u32, NoBidReason>]) -> Say {
    let mut out = Vec::new();
    let mut frame = BidsWriter::begin(&mut out, correlation);
    for answer in answers {
        match answer {
            Ok(price_micros) => frame.bid(*price_micros, &TOKEN),
            Err(reason) => frame.no_bid(*reason),
        }
    }
    frame.finish();
    Say::Bytes(out)
}

fn outcomes(correlation: u64, outcomes: &[NoticeOutcome]) -> Say {
    let mut out = Vec::new();
    let mut frame = NoticeOutcomesWriter::begin(&mut out, correlation);
    outcomes.iter().for_each(|outcome| frame.push(*outcome));
    frame.finish();
    Say::Bytes(out)
}

/// A reply with this body.
fn body(correlation: u64, body: &[u8]) -> Say {
    let mut out = Vec::new();
    encode_room(&mut out, correlation, RoomRef { family: FAMILY, body });
    Say::Bytes(out)
}

/// The frames behind the Hello: what was asked, in the form that `Debug` prints.
fn heard(client: &Client<Script>) -> Vec<String> {
    let mut rest = &client.stream().heard[..];
    let mut all = Vec::new();
    while let Ok(Split::Frame(range)) = split(rest, limits::FRAME_BYTES_MAX) {
        let end = range.end;
        if let BodyRef::Room(RoomRef { family: FAMILY, body }) = decode_request(&rest[range]).unwrap().body {
            all.push(match read_request(body).unwrap() {
                PacerRequestRef::Bids(requests) => {
                    let requests: Vec<_> = requests.map(|request| (request.id, request.campaign)).collect();
                    format!("bids {requests:?}")
                }
                PacerRequestRef::Wins(wins) => {
                    let wins: Vec<_> = wins.map(|win| (win.token == TOKEN, win.price_micros)).collect();
                    format!("wins {wins:?}")
                }
                PacerRequestRef::Losses(tokens) => {
                    format!("losses {:?}", tokens.map(|token| token == TOKEN).collect::<Vec<_>>())
                }
                PacerRequestRef::PutCampaign(put) => {
                    format!("put {} {}", put.id, String::from_utf8_lossy(put.plan))
                }
                PacerRequestRef::EndCampaign(id) => format!("end {id}"),
            });
        }
        rest = &rest[end..];
    }
    assert!(rest.is_empty(), "half a frame");
    all
}

fn request(id: u64, campaign: u32) -> BidRequest {
    BidRequest { id, campaign, ..BidRequest::default() }
}

#[test]
fn each_call_asks_once_and_gives_what_was_answered() {
    let put = CampaignPut { number: 7, version: 3, is_new: true };
    let mut client = client([
        body(2, &[0x1a, 6, 0x08, 7, 0x10, 3, 0x18, 1]),
        bids(3, &[Ok(2_500), Err(NoBidReason::Throttled)]),
        outcomes(4, &[NoticeOutcome::Taken]),
        outcomes(5, &[NoticeOutcome::Won, NoticeOutcome::Late]),
        body(6, &[0x22, 0]),
    ]);
    assert_eq!(client.put_campaign("shoes", b"{}").unwrap(), put);
    let answered = client.bids(&[request(1, 7), request(2, 300)]).unwrap();
    assert_eq!(answered, [Ok(Bid { price_micros: 2_500, token: TOKEN }), Err(NoBidReason::Throttled)]);
    let win = Win { token: TOKEN, price_micros: 2_100 };
    assert_eq!(client.wins(&[win]).unwrap(), [NoticeOutcome::Taken]);
    assert_eq!(client.losses(&[TOKEN, [0; TOKEN_BYTES]]).unwrap(), [NoticeOutcome::Won, NoticeOutcome::Late]);
    client.end_campaign("shoes").unwrap();
    let asked = ["put shoes {}", "bids [(1, 7), (2, 300)]", "wins [(true, 2100)]", "losses [true, false]", "end shoes"];
    assert_eq!(heard(&client), asked);
}

#[test]
fn packets_in_flight_are_answered_in_any_order() {
    let no = Err(NoBidReason::NoLease);
    let mut client = client([bids(4, &[no]), outcomes(3, &[NoticeOutcome::Taken]), error(2, "busy", 50)]);
    let first = client.send_bids(&[request(1, 7)]).unwrap();
    let losses = client.send_losses(&[TOKEN]).unwrap();
    let last = client.send_bids(&[request(2, 7)]).unwrap();
    assert_eq!(client.receive().unwrap(), (last, Reply::Bids(vec![Err(NoBidReason::NoLease)])));
    assert_eq!(client.receive().unwrap(), (losses, Reply::Notices(vec![NoticeOutcome::Taken])));
    let (correlation, Reply::Error(refused)) = client.receive().unwrap() else { panic!("busy") };
    assert_eq!((correlation, &*refused.code), (first, "busy"));
    assert_eq!(client.in_flight(), 0);
}

#[test]
fn a_packet_that_would_be_refused_whole_is_not_sent() {
    let mut client = client([]);
    assert!(matches!(client.bids(&[]), Err(ClientError::NoItems)));
    assert!(matches!(client.wins(&[]), Err(ClientError::NoItems)));
    assert!(matches!(client.losses(&[]), Err(ClientError::NoItems)));
    let too_many = client.bids(&[request(1, 7); PACER_ITEMS_MAX + 1]);
    assert!(matches!(too_many, Err(ClientError::TooManyItems { items: 257, items_max: 256 })));
    // The script's server reads frames of 1,000 bytes.
    let too_long = client.losses(&[TOKEN; 30]);
    assert!(matches!(too_long, Err(ClientError::RequestTooLarge { bytes_max: 1_000, .. })));
    assert!(matches!(client.put_campaign("shoes", &[b' '; 1_000]), Err(ClientError::RequestTooLarge { .. })));
    client.flush().unwrap();
    assert!(heard(&client).is_empty());
    assert_eq!(client.in_flight(), 0);
}

#[test]
fn what_does_not_answer_the_request_is_no_answer() {
    let token_of_31_bytes = [&[0x0a, 0x23, 0x0a, 0x21, 0x12, 31][..], &[7; 31]].concat();
    let fails = |say: Say, ask: &dyn Fn(&mut Client<Script>) -> Result<(), ClientError>| {
        matches!(ask(&mut client([say])), Err(ClientError::ReplyMismatch(_)))
    };
    let ask_bids = |client: &mut Client<Script>| client.bids(&[request(1, 7); 2]).map(drop);
    let ask_wins = |client: &mut Client<Script>| client.wins(&[Win { token: TOKEN, price_micros: 1 }]).map(drop);
    assert!(fails(bids(2, &[Ok(1)]), &ask_bids), "one bid for two requests");
    assert!(fails(bids(2, &[Ok(1), Ok(1), Ok(1)]), &ask_bids), "three");
    assert!(fails(outcomes(2, &[NoticeOutcome::Taken; 2]), &ask_bids), "outcomes");
    assert!(fails(body(2, &token_of_31_bytes), &ask_bids), "a token that cannot be sent back");
    assert!(fails(outcomes(2, &[NoticeOutcome::Taken; 2]), &ask_wins), "two outcomes for one win");
    assert!(fails(bids(2, &[Ok(1)]), &ask_wins), "a bid");
    assert!(fails(bids(2, &[Ok(1)]), &|client| client.put_campaign("shoes", b"{}").map(drop)), "a bid for a plan");
    assert!(fails(bids(2, &[Ok(1)]), &|client| client.end_campaign("shoes")), "a bid for an end");
    let malformed = client([body(2, &[0x0a, 2, 0x0a, 9])]).bids(&[request(1, 7)]);
    assert!(matches!(malformed, Err(ClientError::Reply(_))), "{malformed:?}");
}

#[test]
fn a_lost_connection_says_what_may_be_sent_again() {
    let error = client([]).bids(&[request(1, 7)]).unwrap_err();
    assert!(matches!(error, ClientError::Closed { in_flight: 1 }));
    assert!(error.to_string().ends_with("send again what has an id or a token, but no bid requests"), "{error}");
}
