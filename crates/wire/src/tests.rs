//! The handwritten codec compared with the one that prost generates, for random messages in both directions, and for
//! random bytes.

mod frames;
mod pacer;

use crate::proto::*;
use crate::*;
use proptest::prelude::*;
use prost::Message;

/// Texts as they come, and some that are empty, long or not ASCII.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z0-9:-]{1,40}",
        1 => Just(String::new()),
        1 => "\\PC{0,20}",
        1 => "[a-z]{120,300}",
    ]
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1u64..300, any::<u64>()]
}

prop_compose! {
    fn transfer()(
        id in text(), debit in text(), credit in text(), amount in number(), memo in text(),
        code in prop_oneof![3 => Just(0), 1 => any::<u32>()],
        user_data in prop_oneof![3 => Just(String::new()), 1 => text()],
    ) -> proto::Transfer {
        Transfer { id, debit, credit, amount, memo, code, user_data }
    }
}

prop_compose! {
    fn hold()(transfer in transfer(), expires_in_ms in number()) -> Hold {
        let Transfer { id, debit, credit, amount, memo, code, user_data } = transfer;
        Hold { id, debit, credit, amount, expires_in_ms, memo, code, user_data }
    }
}

prop_compose! {
    fn outcome()(kind in 0..4i32, code in text(), available in number(), at in prop::option::of(number())) -> Outcome {
        let refused = kind == OutcomeKind::Refused as i32;
        let (code, available, at) = if refused { (code, available, at) } else { Default::default() };
        let (remembered, decided_at_ms) = (at.is_some(), at.unwrap_or(0));
        Outcome { id: String::new(), outcome: kind, code, available, remembered, decided_at_ms }
    }
}

prop_compose! {
    fn change_account()(
        id in text(),
        if_revision in prop::option::of(number()),
        status in 0..6i32,
        balance_min in prop::option::of(any::<i64>()),
        balance_max in prop::option::of(any::<i64>()),
        remove_balance_min in any::<bool>(),
        remove_balance_max in any::<bool>(),
        metadata in prop::collection::hash_map(text(), text(), 0..4),
        remove_metadata in prop::collection::vec(text(), 0..4),
    ) -> ChangeAccount {
        ChangeAccount {
            id,
            if_revision,
            status,
            balance_min,
            balance_max,
            remove_balance_min,
            remove_balance_max,
            metadata,
            remove_metadata,
        }
    }
}

fn request_body() -> impl Strategy<Value = request_frame::Body> {
    use request_frame::Body;
    let items = 0..20usize;
    prop_oneof![
        (prop::collection::vec(transfer(), items.clone()), any::<bool>())
            .prop_map(|(transfers, linked)| Body::Transfers(Transfers { transfers, linked })),
        (prop::collection::vec(hold(), items.clone()), any::<bool>())
            .prop_map(|(holds, linked)| Body::Holds(Holds { holds, linked })),
        (text(), prop::option::of(text())).prop_map(|(id, id_space)| Body::ReadTransfer(ReadTransfer { id, id_space })),
        (text(), prop::option::of(text())).prop_map(|(id, id_space)| Body::ReadHold(ReadHold { id, id_space })),
        (text(), text(), any::<u32>()).prop_map(|(account, after, limit)| Body::ListHolds(ListHolds {
            account,
            after,
            limit
        })),
        change_account().prop_map(Body::ChangeAccount),
        (text(), any::<u32>()).prop_map(|(asset, decimals)| Body::DeclareAsset(DeclareAsset { asset, decimals })),
        Just(Body::ListAssets(ListAssets {})),
        (prop::collection::vec((text(), prop::option::of(number())), items.clone()), prop::option::of(text()))
            .prop_map(|(posts, id_space)| {
                let posts = posts.into_iter().map(|(id, amount)| PostHold { id, amount }).collect();
                Body::PostHolds(PostHolds { posts, id_space })
            }),
        (prop::collection::vec(text(), items.clone()), prop::option::of(text()))
            .prop_map(|(ids, id_space)| Body::VoidHolds(VoidHolds { ids, id_space })),
        prop::collection::vec((text(), text(), 0..5i32), items).prop_map(|accounts| {
            let open = |(id, asset, kind)| OpenAccount { id, asset, kind };
            Body::OpenAccounts(OpenAccounts { accounts: accounts.into_iter().map(open).collect() })
        }),
        text().prop_map(|token| Body::Hello(Hello { token })),
        (text(), text(), 0..5i32).prop_map(|(id, asset, kind)| Body::OpenAccount(OpenAccount { id, asset, kind })),
        text().prop_map(|id| Body::ReadAccount(ReadAccount { id })),
        (text(), text(), any::<u32>()).prop_map(|(prefix, after, limit)| Body::ListAccounts(ListAccounts {
            prefix,
            after,
            limit
        })),
        (text(), text(), any::<u32>(), prop::option::of(number()), prop::option::of(number())).prop_map(
            |(id, before, limit, from_ms, to_ms)| Body::ReadHistory(ReadHistory { id, before, limit, from_ms, to_ms })
        ),
        Just(Body::ReadAudit(ReadAudit {})),
        Just(Body::Ping(Ping {})),
        (any::<u32>(), prop::collection::vec(any::<u8>(), 0..200))
            .prop_map(|(family, body)| Body::Room(RoomFrame { family, body })),
    ]
}

/// What was decoded by hand, as the generated types, reading every batch to its end.
fn to_proto(frame: &[u8]) -> Result<RequestFrame, DecodeError> {
    use request_frame::Body;
    let RequestRef { correlation, body } = decode_request(frame).map_err(|bad| bad.error)?;
    let owned = str::to_owned;
    let body = match body {
        BodyRef::Hello { token } => Body::Hello(Hello { token: owned(token) }),
        BodyRef::OpenAccount { id, asset, kind } => Body::OpenAccount(OpenAccount {
            id: owned(id),
            asset: owned(asset),
            kind: kind.map_or(0, |kind| kind as i32),
        }),
        BodyRef::OpenAccounts(batch) => {
            let mut accounts = vec![];
            batch.read(|open| {
                accounts.push(OpenAccount {
                    id: owned(open.id.of(frame)),
                    asset: owned(open.asset.of(frame)),
                    kind: open.kind.map_or(0, |kind| kind as i32),
                });
            })?;
            Body::OpenAccounts(OpenAccounts { accounts })
        }
        BodyRef::Transfers(batch) => {
            let mut transfers = vec![];
            let linked = batch.read(|item| {
                transfers.push(Transfer {
                    id: owned(item.id.of(frame)),
                    debit: owned(item.debit.of(frame)),
                    credit: owned(item.credit.of(frame)),
                    amount: item.amount,
                    memo: owned(item.memo.of(frame)),
                    code: item.code,
                    user_data: owned(item.user_data.of(frame)),
                });
            })?;
            Body::Transfers(Transfers { transfers, linked })
        }
        BodyRef::Holds(batch) => {
            let mut holds = vec![];
            let linked = batch.read(|hold| {
                holds.push(Hold {
                    id: owned(hold.id),
                    debit: owned(hold.debit),
                    credit: owned(hold.credit),
                    amount: hold.amount,
                    expires_in_ms: hold.expires_in_ms,
                    memo: owned(hold.memo),
                    code: hold.code,
                    user_data: owned(hold.user_data),
                });
            })?;
            Body::Holds(Holds { holds, linked })
        }
        BodyRef::PostHolds(batch) => {
            let mut posts = vec![];
            batch.read(|id, amount| posts.push(PostHold { id: owned(id), amount }))?;
            Body::PostHolds(PostHolds { posts, id_space: batch.id_space()?.map(owned) })
        }
        BodyRef::VoidHolds(batch) => {
            let mut ids = vec![];
            batch.read(|id| ids.push(owned(id)))?;
            Body::VoidHolds(VoidHolds { ids, id_space: batch.id_space()?.map(owned) })
        }
        BodyRef::ReadAccount { id } => Body::ReadAccount(ReadAccount { id: owned(id) }),
        BodyRef::ListAccounts { prefix, after, limit } => {
            Body::ListAccounts(ListAccounts { prefix: owned(prefix), after: owned(after), limit })
        }
        BodyRef::ReadHistory { id, before, limit, from_ms, to_ms } => {
            Body::ReadHistory(ReadHistory { id: owned(id), before: owned(before), limit, from_ms, to_ms })
        }
        BodyRef::ReadTransfer { id, id_space } => {
            Body::ReadTransfer(ReadTransfer { id: owned(id), id_space: id_space.map(owned) })
        }
        BodyRef::ReadHold { id, id_space } => Body::ReadHold(ReadHold { id: owned(id), id_space: id_space.map(owned) }),
        BodyRef::ListHolds { account, after, limit } => {
            Body::ListHolds(ListHolds { account: owned(account), after: owned(after), limit })
        }
        BodyRef::ChangeAccount(change) => {
            let change = change.read()?;
            Body::ChangeAccount(ChangeAccount {
                id: owned(change.id),
                if_revision: change.if_revision,
                status: change.status,
                balance_min: change.balance_min,
                balance_max: change.balance_max,
                remove_balance_min: change.remove_balance_min,
                remove_balance_max: change.remove_balance_max,
                metadata: change.metadata.into_iter().map(|(key, value)| (owned(key), owned(value))).collect(),
                remove_metadata: change.remove_metadata.into_iter().map(owned).collect(),
            })
        }
        BodyRef::DeclareAsset { asset, decimals } => Body::DeclareAsset(DeclareAsset { asset: owned(asset), decimals }),
        BodyRef::ListAssets => Body::ListAssets(ListAssets {}),
        BodyRef::ReadAudit => Body::ReadAudit(ReadAudit {}),
        BodyRef::Ping => Body::Ping(Ping {}),
        BodyRef::Room(RoomRef { family, body }) => Body::Room(RoomFrame { family, body: body.to_vec() }),
    };
    Ok(RequestFrame { correlation, body: Some(body) })
}

/// An account kind that this version does not know counts as none.
fn with_known_kind(mut body: request_frame::Body) -> request_frame::Body {
    match &mut body {
        request_frame::Body::OpenAccount(open) => open.kind = open.kind() as i32,
        request_frame::Body::OpenAccounts(batch) => {
            batch.accounts.iter_mut().for_each(|open| open.kind = open.kind() as i32);
        }
        _ => {}
    }
    body
}

fn encode_by_hand(out: &mut Vec<u8>, correlation: u64, body: &request_frame::Body) {
    use request_frame::Body;
    match body {
        Body::Transfers(batch) => {
            let mut frame = TransfersEncoder::begin(out, correlation, batch.linked);
            batch.transfers.iter().for_each(|transfer| frame.push(&transfer.into()));
            frame.finish();
        }
        Body::OpenAccounts(batch) => {
            let mut frame = OpenAccountsEncoder::begin(out, correlation);
            for open in &batch.accounts {
                // A kind that nobody knows is written by nobody.
                frame.push(open.id.as_bytes(), open.asset.as_bytes(), open.kind());
            }
            frame.finish();
        }
        Body::Holds(batch) => {
            let mut frame = HoldsEncoder::begin(out, correlation, batch.linked);
            for hold in &batch.holds {
                let Hold { id, debit, credit, amount, expires_in_ms, memo, code, user_data } = hold.clone();
                let transfer = Transfer { id, debit, credit, amount, memo, code, user_data };
                frame.push(&(&transfer).into(), expires_in_ms);
            }
            frame.finish();
        }
        Body::PostHolds(batch) => {
            let mut frame = PostHoldsEncoder::begin(out, correlation);
            batch.posts.iter().for_each(|post| frame.push(post.id.as_bytes(), post.amount));
            batch.id_space.iter().for_each(|id_space| frame.in_space(id_space.as_bytes()));
            frame.finish();
        }
        Body::Room(RoomFrame { family, body }) => encode_room(out, correlation, RoomRef { family: *family, body }),
        other => encode_request(out, correlation, other.clone()),
    }
}

/// The only frame in `bytes`.
fn only_frame(bytes: &[u8]) -> &[u8] {
    let Ok(Split::Frame(range)) = split(bytes, limits::FRAME_BYTES_MAX) else { panic!("{bytes:02x?}") };
    assert_eq!(range.end, bytes.len());
    &bytes[range]
}

proptest! {
    #[test]
    fn requests_of_prost_are_read_by_hand(correlation in number(), body in request_body()) {
        let body = with_known_kind(body);
        let frame = RequestFrame { correlation, body: Some(body) };
        prop_assert_eq!(to_proto(&frame.encode_to_vec()), Ok(frame));
    }

    #[test]
    fn requests_written_by_hand_are_read_by_prost(correlation in number(), body in request_body()) {
        let body = with_known_kind(body);
        let mut out = b"frames before stay".to_vec();
        let before = out.len();
        encode_by_hand(&mut out, correlation, &body);
        let frame = only_frame(&out[before..]);
        prop_assert_eq!(RequestFrame::decode(frame).unwrap(), RequestFrame { correlation, body: Some(body) });
    }

    #[test]
    fn outcomes_are_the_same_by_hand_and_by_prost(
        correlation in number(),
        outcomes in prop::collection::vec(outcome(), 0..40),
    ) {
        let frame = ReplyFrame { correlation, body: Some(reply_frame::Body::Outcomes(Outcomes { outcomes })) };
        let Some(reply_frame::Body::Outcomes(Outcomes { outcomes })) = &frame.body else { unreachable!() };
        let bytes = frame.encode_to_vec();
        let reply = decode_reply(&bytes).unwrap();
        let ReplyBodyRef::Outcomes(read) = reply.body else { panic!("outcomes") };
        prop_assert_eq!(reply.correlation, correlation);
        prop_assert_eq!(&read.to_proto().unwrap().outcomes, outcomes);

        // The server never says "unspecified".
        let said: Vec<_> = outcomes.iter().filter(|outcome| outcome.outcome != 0).cloned().collect();
        let mut out = vec![];
        let mut encoder = OutcomesEncoder::begin(&mut out, correlation, said.len());
        for outcome in &said {
            match outcome.outcome() {
                OutcomeKind::Applied => encoder.applied(),
                OutcomeKind::Duplicate => encoder.duplicate(),
                _ if outcome.remembered => {
                    encoder.refused_before(&outcome.code, outcome.available, outcome.decided_at_ms);
                }
                _ => encoder.refused(&outcome.code, outcome.available),
            }
        }
        encoder.finish();
        let expected = ReplyFrame { correlation, body: Some(reply_frame::Body::Outcomes(Outcomes { outcomes: said })) };
        prop_assert_eq!(ReplyFrame::decode(only_frame(&out)).unwrap(), expected);
    }

    #[test]
    fn other_replies_are_read_as_prost_wrote_them(
        correlation in number(), id in text(), next in text(), n in number(),
    ) {
        use reply_frame::Body;
        let account = Account { id: id.clone(), credited: n.to_string(), balance: n as i64, ..Default::default() };
        let row = HistoryRow { id: id.clone(), amount: n, balance_after: -(n as i32 as i64), ..Default::default() };
        let report = AuditReport { sequence: n, differences: vec![AuditDifference::default()], ..Default::default() };
        for body in [
            Body::Welcome(Welcome { server: id.clone(), ..Default::default() }),
            Body::AccountOpened(AccountOpened { created: true, account: Some(account.clone()) }),
            Body::Account(account.clone()),
            Body::Accounts(Accounts { accounts: vec![account; 3], next: "wallet:9".into() }),
            Body::History(History { rows: vec![row; 3], next, held: Some(0) }),
            Body::Audit(Audit { shards: vec![report; 2], conservation: Vec::new() }),
            Body::Pong(Pong {}),
            Body::TransferState(TransferState { id: id.clone(), amount: n, ..Default::default() }),
            Body::HoldState(HoldState { id: id.clone(), state: 1, remaining: n, ..Default::default() }),
            Body::OpenHolds(OpenHolds { holds: vec![HoldState::default(); 3], next: "7".into() }),
            Body::AccountChanged(AccountChanged { changed: true, account: None }),
            Body::AssetDeclared(AssetDeclared { created: true }),
            Body::Assets(Assets { assets: vec![Asset { name: id.clone(), ..Default::default() }; 2] }),
            Body::Error(Error { code: id, detail: String::new(), retry_after_ms: n as u32 }),
        ] {
            let mut out = vec![];
            encode_reply(&mut out, correlation, body.clone());
            let reply = decode_reply(only_frame(&out)).unwrap();
            prop_assert_eq!(reply.correlation, correlation);
            let ReplyBodyRef::Other(read) = reply.body else { panic!("not outcomes") };
            prop_assert_eq!(read, body);
        }
    }

    /// Fields of a version to come, in any place, are passed over.
    #[test]
    fn unknown_fields_change_nothing(body in request_body(), unknown in 1_000u32..10_000, content in number()) {
        use prost::encoding::{encode_key, encode_varint, WireType};
        let body = with_known_kind(body);
        let frame = RequestFrame { correlation: 7, body: Some(body) };
        let mut extra = vec![];
        encode_key(unknown, WireType::Varint, &mut extra);
        encode_varint(content, &mut extra);
        encode_key(unknown, WireType::LengthDelimited, &mut extra);
        extra.extend_from_slice(&[3, 1, 2, 3]);
        encode_key(unknown, WireType::SixtyFourBit, &mut extra);
        extra.extend_from_slice(&[9; 8]);
        encode_key(unknown, WireType::ThirtyTwoBit, &mut extra);
        extra.extend_from_slice(&[9; 4]);
        let bytes = [&extra[..], &frame.encode_to_vec(), &extra].concat();
        prop_assert_eq!(to_proto(&bytes), Ok(frame));
    }

    /// Bytes that are nearly a request: what prost takes, we take the same or refuse; what prost refuses, we refuse.
    #[test]
    fn damage_is_never_read_as_something_else(
        body in request_body(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = RequestFrame { correlation: 7, body: Some(body) }.encode_to_vec();
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Ok(ours) = to_proto(&bytes) {
            let mut theirs = RequestFrame::decode(&bytes[..]).expect("ours is the stricter one");
            theirs.body = theirs.body.map(with_known_kind);
            prop_assert_eq!(ours, theirs);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = split(&bytes, limits::FRAME_BYTES_MAX);
        let _ = to_proto(&bytes);
        if let Ok(ReplyRef { body: ReplyBodyRef::Outcomes(outcomes), .. }) = decode_reply(&bytes) {
            // Each outcome takes two bytes at least, and the first error is the last item.
            prop_assert!(outcomes.count() <= bytes.len());
        }
    }
}
