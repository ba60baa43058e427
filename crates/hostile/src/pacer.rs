//! The body of a request to the pacer, and of its reply, decoded in place.

use tidegate_wire::limits::PACER_ITEMS_MAX;
use tidegate_wire::pacer::{
    BidRequestRef, BidsWriter, NoBidReason, NoticeOutcome, NoticeOutcomesWriter, PacerReplyRef, PacerRequestRef,
    TOKEN_BYTES, WinRef, encode_bid_requests, encode_end_campaign, encode_losses, encode_put_campaign, encode_wins,
    read_reply, read_request,
};
use tidegate_wire::{BodyRef, ReplyBodyRef, Split, decode_reply, decode_request, limits, split};

/// Reads the bytes as the body of a request and of a reply. What was read says the same when it is written and read
/// again.
pub fn check(bytes: &[u8]) {
    if let Ok(request) = read_request(bytes) {
        check_request(&request);
    }
    if let Ok(reply) = read_reply(bytes) {
        check_reply(&reply);
    }
}

fn check_request(request: &PacerRequestRef<'_>) {
    let mut out = Vec::new();
    match request.clone() {
        PacerRequestRef::Bids(bids) => {
            assert!((1..=PACER_ITEMS_MAX).contains(&bids.len()));
            encode_bid_requests(&mut out, 1, bids);
        }
        PacerRequestRef::Wins(wins) if wins.clone().all(|win| win.token.len() <= TOKEN_BYTES) => {
            encode_wins(&mut out, 1, wins);
        }
        PacerRequestRef::Losses(tokens) if tokens.clone().all(|token| token.len() <= TOKEN_BYTES) => {
            encode_losses(&mut out, 1, tokens);
        }
        PacerRequestRef::PutCampaign(put) => encode_put_campaign(&mut out, 1, put.id, put.plan),
        PacerRequestRef::EndCampaign(id) => encode_end_campaign(&mut out, 1, id),
        // A longer token is read, to be refused, and never written.
        PacerRequestRef::Wins(wins) => return assert_eq!(wins.len(), wins.count()),
        PacerRequestRef::Losses(tokens) => return assert_eq!(tokens.len(), tokens.count()),
    }
    let request_again = decode_request(only_frame(&out)).expect("a frame that was written is read");
    let BodyRef::Room(room) = request_again.body else { panic!("a room") };
    let again = read_request(room.body).expect("a body that was written is read");
    match (request.clone(), again) {
        (PacerRequestRef::Bids(bids), PacerRequestRef::Bids(again)) => assert!(bids.eq(again)),
        (PacerRequestRef::Wins(wins), PacerRequestRef::Wins(again)) => assert!(wins.eq(again)),
        (PacerRequestRef::Losses(tokens), PacerRequestRef::Losses(again)) => assert!(tokens.eq(again)),
        (PacerRequestRef::PutCampaign(put), PacerRequestRef::PutCampaign(again)) => assert_eq!(put, again),
        (PacerRequestRef::EndCampaign(id), PacerRequestRef::EndCampaign(again)) => assert_eq!(id, again),
        (request, again) => panic!("{request:?} became {again:?}"),
    }
}

fn check_reply(reply: &PacerReplyRef<'_>) {
    let mut out = Vec::new();
    match reply.clone() {
        PacerReplyRef::Bids(bids) => {
            assert!((1..=PACER_ITEMS_MAX).contains(&bids.len()));
            let mut frame = BidsWriter::begin(&mut out, 1);
            for bid in bids {
                match bid.token.try_into() {
                    Ok(token) => frame.bid(bid.price_micros, token),
                    Err(_) => frame.no_bid(bid.no_bid),
                }
            }
            frame.finish();
        }
        PacerReplyRef::Outcomes(outcomes) => {
            let mut frame = NoticeOutcomesWriter::begin(&mut out, 1);
            outcomes.for_each(|outcome| frame.push(outcome));
            frame.finish();
        }
        // Only the server writes them, with prost.
        PacerReplyRef::CampaignPut(_) | PacerReplyRef::CampaignEnded => return,
    }
    let reply_again = decode_reply(only_frame(&out)).expect("a frame that was written is read");
    let ReplyBodyRef::Room(room) = reply_again.body else { panic!("a room") };
    let again = read_reply(room.body).expect("a body that was written is read");
    match (reply.clone(), again) {
        (PacerReplyRef::Bids(bids), PacerReplyRef::Bids(again)) => {
            assert_eq!(bids.len(), again.len());
            // A writer writes a bid or a reason; a reader is told what is there.
            assert!(bids.zip(again).all(|(bid, again)| bid.token.len() != TOKEN_BYTES
                || (bid.price_micros, bid.token) == (again.price_micros, again.token)));
        }
        (PacerReplyRef::Outcomes(outcomes), PacerReplyRef::Outcomes(again)) => assert!(outcomes.eq(again)),
        (reply, again) => panic!("{reply:?} became {again:?}"),
    }
}

fn only_frame(bytes: &[u8]) -> &[u8] {
    let Ok(Split::Frame(range)) = split(bytes, limits::FRAME_BYTES_MAX) else { panic!("a whole frame") };
    assert_eq!(range.end, bytes.len());
    &bytes[range]
}

/// Bodies to begin with, by name.
pub fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let (token, price_micros) = ([7; TOKEN_BYTES], 2_500);
    let bid = BidRequestRef { id: 1 << 40, campaign: 300, user: 9, key: 5, price_micros };
    let few = BidRequestRef { id: 2, campaign: 1, ..BidRequestRef::default() };
    // Of a client that writes fields in another order, and one that this version does not know.
    let unordered = [&[0x28, 1, 0x10, 7, 0x09][..], &[3; 8], &[0x3a, 1, 0xff]].concat();
    let unordered = [&[0x0a, unordered.len() as u8 + 2, 0x0a, unordered.len() as u8][..], &unordered].concat();
    vec![
        ("bid_requests", body_of(|out| encode_bid_requests(out, 1, [bid, few]))),
        ("wins", body_of(|out| encode_wins(out, 1, [WinRef { token: &token, price_micros }; 2]))),
        ("losses", body_of(|out| encode_losses(out, 1, [&token[..], &[1]]))),
        (
            "bids",
            body_of(|out| {
                let mut frame = BidsWriter::begin(out, 1);
                frame.bid(price_micros, &token);
                frame.no_bid(NoBidReason::NoLease);
                frame.finish();
            }),
        ),
        (
            "outcomes",
            body_of(|out| {
                let mut frame = NoticeOutcomesWriter::begin(out, 1);
                [NoticeOutcome::Taken, NoticeOutcome::Late].into_iter().for_each(|outcome| frame.push(outcome));
                frame.finish();
            }),
        ),
        ("unordered", unordered),
    ]
}

/// What the frame that `write` appends holds for the pacer. Requests and replies have the same bytes around it.
fn body_of(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    let BodyRef::Room(room) = decode_request(only_frame(&out)).expect("a frame").body else { panic!("a room") };
    room.body.to_vec()
}
