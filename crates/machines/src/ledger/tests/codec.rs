//! Encoded events: pinned examples, and damaged ones.

use proptest::prelude::*;

use crate::ledger::{
    AccountKind, AccountRules, AccountSlot, AccountStatus, AccountStep, CreditStep, EVENT_BYTES_MAX, Event, HoldFacts,
    Label, Ledger, LossSide, MetadataPatch, Refusal,
};
use crate::{Amount, Machine, OutboundNumber, RecordPosition, ShardIndex, TimeMs};

fn text(min: usize, max: usize) -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::collection::vec(proptest::char::range(' ', '~'), min..=max).prop_map(String::from_iter),
        proptest::collection::vec(any::<char>(), min..=(max / 4).max(min)).prop_map(String::from_iter),
        Just("x".repeat(max)),
    ]
}

fn step() -> impl Strategy<Value = AccountStep> {
    (any::<u32>(), any::<u64>(), any::<i64>()).prop_map(|(slot, prev, after)| AccountStep {
        slot: AccountSlot(slot),
        prev: RecordPosition(prev),
        after,
    })
}

fn credit() -> impl Strategy<Value = CreditStep> {
    prop_oneof![
        step().prop_map(CreditStep::Here),
        (any::<u32>(), any::<u64>()).prop_map(|(slot, number)| CreditStep::Outbound {
            slot: AccountSlot(slot),
            number: OutboundNumber(number)
        }),
    ]
}

fn patch() -> impl Strategy<Value = Vec<u8>> {
    let entries = proptest::collection::btree_map("[a-z]{1,20}", proptest::option::of(".{0,10}"), 0..16);
    entries.prop_map(|entries| {
        let entries = entries.into_iter().map(|(key, value)| (key.into(), value.map(Into::into))).collect();
        let mut bytes = Vec::new();
        MetadataPatch::write(&entries, &mut bytes).expect("a patch");
        bytes
    })
}

fn refusal() -> impl Strategy<Value = Refusal> {
    prop_oneof![
        any::<u64>().prop_map(|available| Refusal::InsufficientFunds { available }),
        Just(Refusal::DebitAccountNotFound),
        Just(Refusal::CreditAccountNotFound),
        Just(Refusal::AssetMismatch),
        Just(Refusal::CollectorCreditOnly),
        Just(Refusal::Overflow),
        Just(Refusal::LinkedFailed),
        Just(Refusal::DebitAccountFrozen),
        Just(Refusal::CreditAccountFrozen),
        Just(Refusal::DebitAccountClosed),
        Just(Refusal::CreditAccountClosed),
        Just(Refusal::BalanceBelowMin),
        Just(Refusal::BalanceAboveMax),
        Just(Refusal::LimitAcrossShards),
        Just(Refusal::TooManyHolds),
    ]
}

/// Everything that any event may carry.
#[derive(Clone, Debug)]
struct Parts {
    time: TimeMs,
    decided_at: TimeMs,
    id: String,
    account: String,
    asset: String,
    memo: String,
    kind: AccountKind,
    debit: AccountStep,
    credit: CreditStep,
    amount: Amount,
    posted: Amount,
    expires_in_ms: u64,
    digest: [u8; 16],
    refusal: Refusal,
    shard: ShardIndex,
    number: OutboundNumber,
    position: RecordPosition,
    flag: bool,
    patch: Vec<u8>,
}

fn parts() -> impl Strategy<Value = Parts> {
    let time = || (0..1u64 << 48).prop_map(TimeMs);
    let amount = || (1..=i64::MAX as u64).prop_map(|amount| Amount::new(amount).expect("in range"));
    let kind = prop_oneof![Just(AccountKind::Wallet), Just(AccountKind::Source), Just(AccountKind::Collector)];
    (
        (time(), time(), text(1, 64), text(1, 128), text(1, 32), text(0, 256), kind),
        (step(), credit(), amount(), amount(), any::<u64>(), any::<[u8; 16]>(), refusal()),
        (any::<u16>(), any::<u64>(), any::<u64>(), any::<bool>(), patch()),
    )
        .prop_map(|(texts, figures, rest)| {
            let (time, decided_at, id, account, asset, memo, kind) = texts;
            let (debit, credit, amount, posted, expires_in_ms, digest, refusal) = figures;
            let (shard, number, position, flag, patch) = rest;
            let (shard, number, position) = (ShardIndex(shard), OutboundNumber(number), RecordPosition(position));
            Parts {
                time,
                decided_at,
                id,
                account,
                asset,
                memo,
                kind,
                debit,
                credit,
                amount,
                posted,
                expires_in_ms,
                digest,
                refusal,
                shard,
                number,
                position,
                flag,
                patch,
            }
        })
}

impl Parts {
    fn label(&self) -> Label<'_> {
        match self.number.0 % 4 {
            0 => Label::NONE,
            1 => Label { code: self.number.0 as u32 | 1, user_data: "" },
            2 => Label { code: 0, user_data: &self.id },
            _ => Label { code: self.number.0 as u32, user_data: &self.id },
        }
    }

    fn rules(&self) -> AccountRules {
        AccountRules {
            status: AccountStatus::from_number((self.number.0 % 4) as u8).expect("there are four"),
            balance_min: self.flag.then_some(self.debit.after),
            balance_max: self.number.0.is_multiple_of(3).then_some(-self.debit.after.max(-i64::MAX)),
        }
    }

    /// One event of each kind.
    fn events(&self) -> Vec<Event<'_>> {
        let Parts { time, kind, debit, amount, posted, number, digest, refusal, decided_at, .. } = *self;
        let (id, asset, memo) = (&*self.id, &*self.asset, &*self.memo);
        let label = self.label();
        let hold = HoldFacts { id, credit: self.credit.slot(), amount, expires_in_ms: self.expires_in_ms, memo, label };
        vec![
            Event::AccountOpened { time, slot: debit.slot, id: &self.account, asset, kind },
            Event::AccountAdopted { time, slot: debit.slot, id: &self.account, asset, kind, home: self.shard },
            Event::Transferred { time, id, debit, credit: self.credit, amount, memo, label },
            Event::HoldPlaced { time, hold, debit },
            Event::HoldPosted { time, hold, posted, debit, credit: self.credit },
            Event::HoldVoided { time, hold, debit },
            Event::HoldExpired { time, hold, debit },
            Event::Refused { time, id, digest, refusal },
            Event::IdClaimed { time, id, owner: self.shard, digest },
            Event::CreditReceived {
                time,
                from: self.shard,
                number,
                posted: self.flag,
                id,
                debit: &self.account,
                credit: debit,
                amount,
                memo,
                label,
                debit_position: self.position,
                decided_at,
            },
            Event::CreditsConfirmed { time, to: self.shard, number },
            Event::AccountChanged {
                time,
                slot: debit.slot,
                id: &self.account,
                home: self.shard,
                revision: number.0,
                rules: self.rules(),
                metadata: MetadataPatch::read(&self.patch).expect("it was written"),
            },
            Event::AssetDeclared { time, asset, decimals: (number.0 % 19) as u8 },
            Event::TimeMended { time, was: decided_at, memo },
            Event::LossBooked {
                time,
                peer: self.shard,
                side: if self.flag { LossSide::Sent } else { LossSide::Received },
                number,
                account: debit,
                amount,
            },
        ]
    }
}

fn encoded(event: &Event<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    Ledger::encode(event, &mut bytes);
    bytes
}

proptest! {
    #[test]
    fn events_come_back(parts in parts()) {
        for event in parts.events() {
            let bytes = encoded(&event);
            prop_assert!(bytes.len() <= EVENT_BYTES_MAX);
            prop_assert_eq!(Ledger::decode(&bytes), Ok(event));
        }
    }

    #[test]
    fn an_event_cut_short_or_continued_is_none(parts in parts(), cut in any::<prop::sample::Index>()) {
        for event in parts.events() {
            let mut bytes = encoded(&event);
            prop_assert!(Ledger::decode(&bytes[..cut.index(bytes.len())]).is_err());
            bytes.push(0);
            prop_assert!(Ledger::decode(&bytes).is_err());
        }
    }

    #[test]
    fn what_decodes_encodes_to_the_same_bytes(
        parts in parts(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        for event in parts.events() {
            let mut bytes = encoded(&event);
            for (at, to) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *to;
            }
            if let Ok(event) = Ledger::decode(&bytes) {
                prop_assert_eq!(encoded(&event), bytes);
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0..16u8) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = *first & 0xe0 | kind;
        }
        if let Ok(event) = Ledger::decode(&bytes) {
            prop_assert_eq!(encoded(&event), bytes);
        }
    }
}

/// The page shows what the code does. These bytes may never change: journals are made of them.
#[test]
fn bytes_are_as_documented() {
    let amount = |minor| Amount::new(minor).expect("not zero");
    let time = TimeMs(1_800_000_000_123);
    let step = |slot, prev, after| AccountStep { slot: AccountSlot(slot), prev: RecordPosition(prev), after };
    let hold = HoldFacts {
        id: "h1",
        credit: AccountSlot(2),
        amount: amount(4),
        expires_in_ms: 1000,
        memo: "seat",
        label: Label::NONE,
    };
    let outbound = CreditStep::Outbound { slot: AccountSlot(300), number: OutboundNumber(7) };
    let digest = [0xdd; 16];
    let metadata = [("plan".into(), Some("gold".into())), ("seat".into(), None)].into();
    let mut patch = Vec::new();
    let events = [
        Event::AccountOpened {
            time,
            slot: AccountSlot(1),
            id: "wallet:dave",
            asset: "credit",
            kind: AccountKind::Wallet,
        },
        Event::AccountAdopted {
            time,
            slot: AccountSlot(2),
            id: "c",
            asset: "credit",
            kind: AccountKind::Collector,
            home: ShardIndex(3),
        },
        Event::Transferred {
            time,
            id: "t1",
            debit: step(1, 4096, 5),
            credit: CreditStep::Here(step(2, 0, 5)),
            amount: amount(5),
            memo: "",
            label: Label::NONE,
        },
        Event::Transferred {
            time,
            id: "t2",
            debit: step(1, 4096, -5),
            credit: outbound,
            amount: amount(5),
            memo: "hi",
            label: Label { code: 300, user_data: "order-7" },
        },
        Event::HoldPlaced { time, hold, debit: step(1, 4096, 5) },
        Event::HoldPosted {
            time,
            hold,
            posted: amount(3),
            debit: step(1, 4200, 2),
            credit: CreditStep::Here(step(2, 0, 3)),
        },
        Event::HoldPosted {
            time,
            hold: HoldFacts { credit: AccountSlot(300), memo: "", ..hold },
            posted: amount(3),
            debit: step(1, 4200, 2),
            credit: outbound,
        },
        Event::HoldVoided { time, hold, debit: step(1, 4200, 5) },
        Event::HoldVoided {
            time,
            hold: HoldFacts { label: Label { code: 7, user_data: "" }, ..hold },
            debit: step(1, 4200, 5),
        },
        Event::HoldExpired { time, hold, debit: step(1, 4200, 5) },
        Event::Refused { time, id: "t3", digest, refusal: Refusal::InsufficientFunds { available: 5 } },
        Event::Refused { time, id: "t4", digest, refusal: Refusal::LinkedFailed },
        Event::IdClaimed { time, id: "t5", owner: ShardIndex(1), digest },
        Event::CreditReceived {
            time,
            from: ShardIndex(1),
            number: OutboundNumber(7),
            posted: true,
            id: "t2",
            debit: "a",
            credit: step(0, 0, 5),
            amount: amount(5),
            memo: "hi",
            label: Label { code: 0, user_data: "order-7" },
            debit_position: RecordPosition(5000),
            decided_at: time,
        },
        Event::CreditsConfirmed { time, to: ShardIndex(1), number: OutboundNumber(7) },
        Event::AccountChanged {
            time,
            slot: AccountSlot(1),
            id: "a",
            home: ShardIndex(0),
            revision: 2,
            rules: AccountRules { status: AccountStatus::Frozen, balance_min: None, balance_max: Some(1000) },
            metadata: MetadataPatch::write(&metadata, &mut patch).expect("a patch"),
        },
        Event::AssetDeclared { time, asset: "eur", decimals: 2 },
        Event::TimeMended { time, was: TimeMs(1_800_000_000_124), memo: "hi" },
        Event::LossBooked {
            time,
            peer: ShardIndex(1),
            side: LossSide::Sent,
            number: OutboundNumber(7),
            account: step(2, 4200, -5),
            amount: amount(5),
        },
    ];
    let page = include_str!("../../../../../docs/formats/events.md");
    let shown: Vec<String> = page.lines().map(|line| line.replace(' ', "")).collect();
    for event in events {
        let hex: String = encoded(&event).iter().map(|byte| format!("{byte:02x}")).collect();
        let line = format!("{}{hex}", event.name());
        assert!(shown.contains(&line), "the page does not show {line}");
    }
}

#[test]
fn a_plain_transfer_takes_less_than_60_bytes() {
    let time = TimeMs(1_800_000_000_123);
    let step = |slot| AccountStep { slot: AccountSlot(slot), prev: RecordPosition(900_000_000), after: 1_000_000 };
    let (amount, credit) = (Amount::new(100).expect("not zero"), CreditStep::Here(step(9_999)));
    let event = Event::Transferred {
        time,
        id: "0123456789abcdef",
        debit: step(10_000),
        credit,
        amount,
        memo: "",
        label: Default::default(),
    };
    assert_eq!(encoded(&event).len(), 45);
}
