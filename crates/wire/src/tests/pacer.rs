//! The pacer's frames: the handwritten codec compared with prost's, and what the handwritten one refuses.

use super::*;
use crate::pacer::proto::{self as schema, pacer_reply::Reply, pacer_request::Request};
use crate::pacer::*;

/// Numbers that take from no to all bytes.
fn money() -> impl Strategy<Value = u32> + Clone {
    prop_oneof![Just(0), 1u32..300, 1_000u32..5_000, any::<u32>()]
}

fn wide() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![Just(0), any::<u64>()]
}

fn token() -> impl Strategy<Value = Vec<u8>> + Clone {
    prop_oneof![4 => prop::collection::vec(any::<u8>(), 32), 1 => prop::collection::vec(any::<u8>(), 0..32)]
}

fn bid_request() -> impl Strategy<Value = schema::BidRequest> + Clone {
    (wide(), money(), wide(), wide(), money()).prop_map(|(id, campaign, user, key, price_micros)| schema::BidRequest {
        id,
        campaign,
        user,
        key,
        price_micros,
    })
}

fn win() -> impl Strategy<Value = schema::Win> + Clone {
    (token(), money()).prop_map(|(token, price_micros)| schema::Win { token, price_micros })
}

fn bid() -> impl Strategy<Value = schema::Bid> + Clone {
    prop_oneof![
        (money(), prop::collection::vec(any::<u8>(), 32)).prop_map(|(price_micros, token)| schema::Bid {
            price_micros,
            token,
            no_bid: 0
        }),
        (0..8i32).prop_map(|no_bid| schema::Bid { price_micros: 0, token: vec![], no_bid }),
    ]
}

fn items<T: std::fmt::Debug>(item: impl Strategy<Value = T> + Clone) -> impl Strategy<Value = Vec<T>> {
    let vec = prop::collection::vec;
    prop_oneof![4 => vec(item.clone(), 1..20), 1 => vec(item, 200..limits::PACER_ITEMS_MAX + 1)]
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        items(bid_request()).prop_map(|requests| Request::Bids(schema::BidRequests { requests })),
        items(win()).prop_map(|wins| Request::Wins(schema::Wins { wins })),
        items(token()).prop_map(|tokens| Request::Losses(schema::Losses { tokens })),
        (".{0,80}", prop::collection::vec(any::<u8>(), 0..300))
            .prop_map(|(id, plan)| Request::PutCampaign(schema::PutCampaign { id, plan })),
        ".{0,80}".prop_map(|id| Request::EndCampaign(schema::EndCampaign { id })),
    ]
}

fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        items(bid()).prop_map(|bids| Reply::Bids(schema::Bids { bids })),
        items(0..6i32).prop_map(|outcomes| Reply::Outcomes(schema::NoticeOutcomes { outcomes })),
        (any::<u32>(), any::<u64>(), any::<bool>())
            .prop_map(|(number, version, is_new)| Reply::CampaignPut(schema::CampaignPut { number, version, is_new })),
        Just(Reply::CampaignEnded(schema::CampaignEnded {})),
    ]
}

fn request_by_hand(body: &[u8]) -> Result<schema::PacerRequest, DecodeError> {
    let request = match read_request(body)? {
        PacerRequestRef::Bids(bids) => Request::Bids(schema::BidRequests {
            requests: bids
                .map(|BidRequestRef { id, campaign, user, key, price_micros }| schema::BidRequest {
                    id,
                    campaign,
                    user,
                    key,
                    price_micros,
                })
                .collect(),
        }),
        PacerRequestRef::Wins(wins) => Request::Wins(schema::Wins {
            wins: wins
                .map(|WinRef { token, price_micros }| schema::Win { token: token.to_vec(), price_micros })
                .collect(),
        }),
        PacerRequestRef::Losses(tokens) => {
            Request::Losses(schema::Losses { tokens: tokens.map(<[u8]>::to_vec).collect() })
        }
        PacerRequestRef::PutCampaign(PutCampaignRef { id, plan }) => {
            Request::PutCampaign(schema::PutCampaign { id: id.into(), plan: plan.into() })
        }
        PacerRequestRef::EndCampaign(id) => Request::EndCampaign(schema::EndCampaign { id: id.into() }),
    };
    Ok(schema::PacerRequest { request: Some(request) })
}

fn reply_by_hand(body: &[u8]) -> Result<schema::PacerReply, DecodeError> {
    let reply = match read_reply(body)? {
        PacerReplyRef::Bids(bids) => Reply::Bids(schema::Bids {
            bids: bids
                .map(|BidRef { price_micros, token, no_bid }| schema::Bid {
                    price_micros,
                    token: token.to_vec(),
                    no_bid: no_bid as i32,
                })
                .collect(),
        }),
        PacerReplyRef::Outcomes(outcomes) => {
            Reply::Outcomes(schema::NoticeOutcomes { outcomes: outcomes.map(|outcome| outcome as i32).collect() })
        }
        PacerReplyRef::CampaignPut(CampaignPutRef { number, version, is_new }) => {
            Reply::CampaignPut(schema::CampaignPut { number, version, is_new })
        }
        PacerReplyRef::CampaignEnded => Reply::CampaignEnded(schema::CampaignEnded {}),
    };
    Ok(schema::PacerReply { reply: Some(reply) })
}

/// A reason or an outcome that this version does not know counts as unspecified.
fn with_known_numbers(mut reply: schema::PacerReply) -> schema::PacerReply {
    match reply.reply.as_mut().expect("the only case") {
        Reply::Bids(bids) => bids.bids.iter_mut().for_each(|bid| bid.no_bid = bid.no_bid() as i32),
        Reply::Outcomes(outcomes) => outcomes.outcomes.iter_mut().for_each(|outcome| {
            *outcome = NoticeOutcome::try_from(*outcome).unwrap_or_default() as i32;
        }),
        Reply::CampaignPut(_) | Reply::CampaignEnded(_) => {}
    }
    reply
}

fn write_request(out: &mut Vec<u8>, correlation: u64, request: &Request) {
    match request {
        Request::Bids(bids) => {
            let read = |bid: &schema::BidRequest| {
                let schema::BidRequest { id, campaign, user, key, price_micros } = *bid;
                BidRequestRef { id, campaign, user, key, price_micros }
            };
            encode_bid_requests(out, correlation, bids.requests.iter().map(read));
        }
        Request::Wins(wins) => {
            let wins = wins.wins.iter().map(|win| WinRef { token: &win.token, price_micros: win.price_micros });
            encode_wins(out, correlation, wins);
        }
        Request::Losses(losses) => encode_losses(out, correlation, losses.tokens.iter().map(Vec::as_slice)),
        Request::PutCampaign(put) => encode_put_campaign(out, correlation, &put.id, &put.plan),
        Request::EndCampaign(end) => encode_end_campaign(out, correlation, &end.id),
    }
}

fn write_reply(out: &mut Vec<u8>, correlation: u64, reply: &Reply) {
    match reply {
        Reply::Bids(bids) => {
            let mut frame = BidsWriter::begin(out, correlation);
            for bid in &bids.bids {
                match bid.token[..].try_into() {
                    Ok(token) => frame.bid(bid.price_micros, token),
                    Err(_) => frame.no_bid(bid.no_bid()),
                }
            }
            frame.finish();
        }
        Reply::Outcomes(outcomes) => {
            let mut frame = NoticeOutcomesWriter::begin(out, correlation);
            outcomes.outcomes().for_each(|outcome| frame.push(outcome));
            frame.finish();
        }
        // The server writes them with prost.
        Reply::CampaignPut(_) | Reply::CampaignEnded(_) => {
            let body = schema::PacerReply { reply: Some(reply.clone()) }.encode_to_vec();
            encode_room(out, correlation, RoomRef { family: FAMILY, body: &body });
        }
    }
}

/// Fields of a version to come.
fn unknown_fields(number: u32, content: u64) -> Vec<u8> {
    use prost::encoding::{WireType, encode_key, encode_varint};
    let mut extra = vec![];
    encode_key(number, WireType::Varint, &mut extra);
    encode_varint(content, &mut extra);
    encode_key(number, WireType::LengthDelimited, &mut extra);
    extra.extend_from_slice(&[3, 1, 2, 3]);
    encode_key(number, WireType::SixtyFourBit, &mut extra);
    extra.extend_from_slice(&[9; 8]);
    encode_key(number, WireType::ThirtyTwoBit, &mut extra);
    extra.extend_from_slice(&[9; 4]);
    extra
}

/// `message` in a field of number `number`.
fn nested(number: u8, message: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    varint::write(&mut out, message.len() as u64);
    [out, message.to_vec()].concat()
}

proptest! {
    #[test]
    fn requests_of_prost_are_read_by_hand(request in request()) {
        let request = schema::PacerRequest { request: Some(request) };
        prop_assert_eq!(request_by_hand(&request.encode_to_vec()), Ok(request));
    }

    #[test]
    fn replies_of_prost_are_read_by_hand(reply in reply()) {
        let reply = schema::PacerReply { reply: Some(reply) };
        prop_assert_eq!(reply_by_hand(&reply.encode_to_vec()), Ok(reply));
    }

    #[test]
    fn requests_written_by_hand_are_read_by_prost_and_by_hand(correlation in number(), request in request()) {
        let mut out = b"frames before stay".to_vec();
        let before = out.len();
        write_request(&mut out, correlation, &request);
        let frame = only_frame(&out[before..]);
        let Some(request_frame::Body::Room(room)) = RequestFrame::decode(frame).unwrap().body else { panic!("a room") };
        prop_assert_eq!(room.family, FAMILY);
        let expected = schema::PacerRequest { request: Some(request) };
        prop_assert_eq!(&schema::PacerRequest::decode(&room.body[..]).unwrap(), &expected);
        let read = decode_request(frame).unwrap();
        prop_assert_eq!(read.correlation, correlation);
        let BodyRef::Room(RoomRef { family: FAMILY, body }) = read.body else { panic!("a room of the pacer") };
        prop_assert_eq!(request_by_hand(body), Ok(expected));
    }

    #[test]
    fn replies_written_by_hand_are_read_by_prost_and_by_hand(correlation in number(), reply in reply()) {
        let mut out = b"frames before stay".to_vec();
        let before = out.len();
        write_reply(&mut out, correlation, &reply);
        let frame = only_frame(&out[before..]);
        let Some(reply_frame::Body::Room(room)) = ReplyFrame::decode(frame).unwrap().body else { panic!("a room") };
        prop_assert_eq!(room.family, FAMILY);
        let expected = schema::PacerReply { reply: Some(reply) };
        prop_assert_eq!(&schema::PacerReply::decode(&room.body[..]).unwrap(), &expected);
        let read = decode_reply(frame).unwrap();
        prop_assert_eq!(read.correlation, correlation);
        let ReplyBodyRef::Room(RoomRef { family: FAMILY, body }) = read.body else { panic!("a room of the pacer") };
        prop_assert_eq!(reply_by_hand(body), Ok(expected));
    }

    /// Fields in any order, each as often as one likes, and between them those of a version to come.
    #[test]
    fn fields_come_in_any_order(
        requests in prop::collection::vec((bid_request(), bid_request(), any::<u64>()), 1..5),
        unknown in 1_000u32..10_000,
        content in number(),
    ) {
        let extra = unknown_fields(unknown, content);
        let mut packet = vec![];
        for (first, second, shuffle) in &requests {
            // Each encoding of one field alone is a piece.
            let pieces = |r: &schema::BidRequest| {
                [
                    schema::BidRequest { id: r.id, ..Default::default() },
                    schema::BidRequest { campaign: r.campaign, ..Default::default() },
                    schema::BidRequest { user: r.user, ..Default::default() },
                    schema::BidRequest { key: r.key, ..Default::default() },
                    schema::BidRequest { price_micros: r.price_micros, ..Default::default() },
                ].map(|one| one.encode_to_vec())
            };
            let mut all = [pieces(first), pieces(second)].concat();
            all.push(extra.clone());
            let mut shuffle = *shuffle;
            for index in (1..all.len()).rev() {
                all.swap(index, (shuffle % (index as u64 + 1)) as usize);
                shuffle /= index as u64 + 1;
            }
            packet.extend(&extra);
            packet.extend(nested(1, &all.concat()));
        }
        packet.extend(&extra);
        let body = [&extra[..], &nested(1, &packet), &extra].concat();
        prop_assert_eq!(request_by_hand(&body), Ok(schema::PacerRequest::decode(&body[..]).unwrap()));
    }

    /// Bytes that are nearly a message: what we take, prost takes the same; what prost refuses, we refuse.
    #[test]
    fn damage_is_never_read_as_something_else(
        request in request(),
        reply in reply(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let damaged = |mut bytes: Vec<u8>| {
            for (place, byte) in &damage {
                let place = place.index(bytes.len());
                bytes[place] = *byte;
            }
            bytes
        };
        let bytes = damaged(schema::PacerRequest { request: Some(request) }.encode_to_vec());
        if let Ok(ours) = request_by_hand(&bytes) {
            prop_assert_eq!(ours, schema::PacerRequest::decode(&bytes[..]).expect("ours is the stricter one"));
        }
        let bytes = damaged(schema::PacerReply { reply: Some(reply) }.encode_to_vec());
        if let Ok(ours) = reply_by_hand(&bytes) {
            let theirs = schema::PacerReply::decode(&bytes[..]).expect("ours is the stricter one");
            prop_assert_eq!(ours, with_known_numbers(theirs));
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = request_by_hand(&bytes);
        let _ = reply_by_hand(&bytes);
        for case in 1..4 {
            let _ = request_by_hand(&nested(case, &bytes));
            let _ = reply_by_hand(&nested(case, &bytes));
        }
    }
}

#[test]
fn a_packet_has_1_to_256_items() {
    let packet = |case: u8, count: usize| nested(case, &[0x0a, 0].repeat(count));
    for case in 1..=3 {
        assert!(request_by_hand(&packet(case, limits::PACER_ITEMS_MAX)).is_ok());
        for count in [0, limits::PACER_ITEMS_MAX + 1] {
            let refused = request_by_hand(&packet(case, count)).unwrap_err();
            assert_eq!(refused, DecodeError::PacketSizeInvalid, "case {case}, {count} items");
            assert_eq!(refused.code(), "batch_size_invalid");
        }
    }
    assert!(reply_by_hand(&packet(1, limits::PACER_ITEMS_MAX)).is_ok());
    assert!(reply_by_hand(&nested(2, &[0x08, 1].repeat(limits::PACER_ITEMS_MAX))).is_ok());
    for refused in [packet(1, 257), packet(2, 257), nested(2, &[0x08, 1].repeat(257)), nested(2, &nested(1, &[1; 257]))]
    {
        assert_eq!(reply_by_hand(&refused), Err(DecodeError::PacketSizeInvalid));
    }
}

#[test]
fn one_malformed_item_refuses_the_packet() {
    let check = |item: &[u8], error: DecodeError| {
        let good = nested(1, &[0x10, 7]);
        let body = nested(1, &[&good[..], &nested(1, item), &good].concat());
        assert_eq!(request_by_hand(&body), Err(error), "{item:02x?}");
    };
    check(&[0x09, 1, 2, 3], DecodeError::Truncated);
    check(&[0x10], DecodeError::Truncated);
    check(&[0x10, 0x80], DecodeError::Truncated);
    check(&[0x08, 1], DecodeError::WireTypeMismatch);
    check(&[0x1d, 1, 2, 3, 4], DecodeError::WireTypeMismatch);
    check(&[0x0b, 0x0c], DecodeError::TagInvalid);
    check(&[0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02], DecodeError::VarintTooLong);
    for field in [0x10, 0x28] {
        check(&[field, 0x80, 0x80, 0x80, 0x80, 0x10], DecodeError::NumberTooLarge);
    }
    assert_eq!(request_by_hand(&nested(1, &[0x08, 1])), Err(DecodeError::WireTypeMismatch));
    assert_eq!(request_by_hand(&[]), Err(DecodeError::BodyMissing));
    assert_eq!(request_by_hand(&nested(6, &[])), Err(DecodeError::BodyMissing));
    let bids = nested(1, &nested(1, &[0x10, 7]));
    assert_eq!(request_by_hand(&[&bids[..], &bids].concat()), Err(DecodeError::BodyRepeated));
    assert_eq!(request_by_hand(&[0x08, 1]), Err(DecodeError::WireTypeMismatch));
}

/// Every length of the longest packets fits into its two bytes.
#[test]
#[cfg_attr(miri, ignore = "about sizes; nothing new for Miri, and slow there")]
fn the_longest_packets_fit() {
    let most = BidRequestRef { id: 1, campaign: u32::MAX, user: 1, key: 1, price_micros: u32::MAX };
    let mut out = vec![];
    encode_bid_requests(&mut out, u64::MAX, [most; limits::PACER_ITEMS_MAX]);
    let BodyRef::Room(room) = decode_request(only_frame(&out)).unwrap().body else { panic!("a room") };
    let PacerRequestRef::Bids(bids) = read_request(room.body).unwrap() else { panic!("bids") };
    assert!(bids.len() == limits::PACER_ITEMS_MAX && bids.into_iter().all(|bid| bid == most));

    out.clear();
    let mut frame = BidsWriter::begin(&mut out, u64::MAX);
    (0..limits::PACER_ITEMS_MAX).for_each(|_| frame.bid(u32::MAX, &[7; TOKEN_BYTES]));
    frame.finish();
    let ReplyBodyRef::Room(room) = decode_reply(only_frame(&out)).unwrap().body else { panic!("a room") };
    let PacerReplyRef::Bids(bids) = read_reply(room.body).unwrap() else { panic!("bids") };
    assert_eq!(bids.len(), limits::PACER_ITEMS_MAX);
}

/// The bytes that docs/formats/pacer.md prints.
#[test]
fn the_example_of_the_documentation() {
    let mut hex = String::new();
    let mut add = |title: &str, bytes: &[u8]| {
        hex += &format!("{title}:\n");
        for line in bytes.chunks(32) {
            let line: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            hex += &format!("  {}\n", line.join(" "));
        }
    };
    let mut out = vec![];
    let first = BidRequestRef { id: 0x1122_3344, campaign: 7, user: 9, key: 0, price_micros: 0 };
    encode_bid_requests(&mut out, 2, [first, BidRequestRef { campaign: 300, ..first }]);
    add("bid requests", &out);
    out.clear();
    let mut frame = BidsWriter::begin(&mut out, 2);
    frame.bid(2_500, &[0xab; TOKEN_BYTES]);
    frame.no_bid(NoBidReason::Throttled);
    frame.finish();
    add("bids", &out);
    out.clear();
    encode_wins(&mut out, 3, [WinRef { token: &[0xab; TOKEN_BYTES], price_micros: 2_100 }]);
    add("wins", &out);
    out.clear();
    let mut frame = NoticeOutcomesWriter::begin(&mut out, 3);
    frame.push(NoticeOutcome::Taken);
    frame.finish();
    add("outcomes", &out);
    expect_test::expect![[r#"
        bid requests:
          ba 00 08 02 7a b5 00 08 05 12 b0 00 0a ad 00 0a 14 09 44 33 22 11 00 00 00 00 10 07 19 09 00 00
          00 00 00 00 00 0a 15 09 44 33 22 11 00 00 00 00 10 ac 02 19 09 00 00 00 00 00 00 00
        bids:
          b8 00 08 02 7a b3 00 08 05 12 ae 00 0a ab 00 0a 25 08 c4 13 12 20 ab ab ab ab ab ab ab ab ab ab
          ab ab ab ab ab ab ab ab ab ab ab ab ab ab ab ab ab ab ab ab ab ab 0a 02 18 04
        wins:
          b4 00 08 03 7a af 00 08 05 12 aa 00 12 a7 00 0a 25 0a 20 ab ab ab ab ab ab ab ab ab ab ab ab ab
          ab ab ab ab ab ab ab ab ab ab ab ab ab ab ab ab ab ab ab 10 b4 10
        outcomes:
          91 00 08 03 7a 8c 00 08 05 12 87 00 12 84 00 0a 81 00 01
    "#]]
    .assert_eq(&hex);
}

#[test]
#[should_panic(expected = "a packet of 257 items")]
fn more_than_256_items_are_not_written() {
    encode_losses(&mut vec![], 1, [&[][..]; limits::PACER_ITEMS_MAX + 1]);
}
