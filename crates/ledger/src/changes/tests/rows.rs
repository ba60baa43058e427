//! What the row of each kind of record says, and to whom.

use tidegate_machines::OutboundNumber;
use tidegate_machines::ledger::{
    AccountRules, AccountStatus, ContentDigest, HoldFacts, LossSide, MetadataPatch, Refusal,
};

use super::*;

const HERE: ShardIndex = ShardIndex(0);
const THERE: ShardIndex = ShardIndex(1);

fn step(slot: u32, after: i64) -> AccountStep {
    AccountStep { slot: AccountSlot(slot), prev: RecordPosition::NONE, after }
}

fn amount(of: u64) -> Amount {
    Amount::new(of).expect("above zero")
}

/// A record of each kind; the accounts are `source` in slot 0, `wallet:1` and `wallet:2`.
fn records() -> Vec<Event<'static>> {
    let time = TimeMs(50);
    let label = Label { code: 3, user_data: "order 7" };
    let hold =
        HoldFacts { id: "hold", credit: AccountSlot(2), amount: amount(5), expires_in_ms: 100, memo: "held", label };
    let changed = |home| Event::AccountChanged {
        time,
        slot: AccountSlot(1),
        id: "wallet:1",
        home,
        revision: 4,
        rules: AccountRules { status: AccountStatus::Frozen, ..AccountRules::default() },
        metadata: MetadataPatch::NONE,
    };
    let received = |debit| Event::CreditReceived {
        time,
        from: THERE,
        number: OutboundNumber(1),
        posted: false,
        id: "received",
        debit,
        credit: step(2, 11),
        amount: amount(6),
        memo: "from there",
        label,
        debit_position: RecordPosition(9),
        decided_at: time,
    };
    let lost = |side| Event::LossBooked {
        time,
        peer: THERE,
        side,
        number: OutboundNumber(8),
        account: step(0, -9),
        amount: amount(9),
    };
    vec![
        changed(HERE),
        changed(THERE),
        Event::AssetDeclared { time, asset: "EUR", decimals: 2 },
        Event::HoldPlaced { time, hold, debit: step(1, 7) },
        Event::HoldPosted { time, hold, posted: amount(4), debit: step(1, 3), credit: CreditStep::Here(step(2, 4)) },
        Event::HoldVoided { time, hold, debit: step(1, 3) },
        Event::HoldExpired { time, hold, debit: step(1, 3) },
        received("far"),
        Event::Refused { time, id: "refused", digest: ContentDigest::default(), refusal: Refusal::DebitAccountFrozen },
        lost(LossSide::Sent),
        lost(LossSide::Received),
        Event::TimeMended { time, was: TimeMs(9), memo: "the clock was wrong" },
        Event::IdClaimed { time, id: "claimed", owner: THERE, digest: ContentDigest::default() },
        Event::CreditsConfirmed { time, to: THERE, number: OutboundNumber(1) },
    ]
}

fn journal() -> Journal {
    let mut journal = Journal::new();
    journal.open_accounts(3);
    let records = records();
    journal.write(1, records.len() as u32, |number, _, _| records[number as usize]);
    journal
}

/// What a reader gets behind the openings of accounts.
fn rows(filter: ChangeFilter) -> Vec<Change> {
    let journal = journal();
    let (rows, _) = rest(&mut journal.read(After::Start, filter).unwrap());
    rows.into_iter().filter(|row| row.kind != ChangeKind::AccountOpened).collect()
}

/// `debit>credit`, each with its balance if that is told.
fn moved(row: &Change) -> String {
    let side = |account: &Option<crate::changes::ChangedAccount>| match account {
        Some(account) => format!("{} {:?}", account.id, account.balance_after),
        None => String::new(),
    };
    format!("{}>{}", side(&row.debit), side(&row.credit))
}

#[test]
fn each_kind_of_record_says_what_it_changed() {
    let rows = rows(all());
    let said = |row: &Change| {
        let (id, account) = (row.id.as_deref().unwrap_or("-"), row.account.as_deref().unwrap_or("-"));
        let (asset, amount) = (row.asset.as_deref().unwrap_or("-"), row.amount.unwrap_or(0));
        format!("{} {} {id} {account} {asset} {amount} {}", row.sequence, row.kind.word(), moved(row))
    };
    assert_eq!(
        rows.iter().map(said).collect::<Vec<_>>(),
        [
            "4 account_changed - wallet:1 credit 0 >",
            "6 asset_declared - - EUR 0 >",
            "7 hold_placed hold - credit 5 wallet:1 Some(7)>wallet:2 None",
            "8 hold_posted hold - credit 4 wallet:1 Some(3)>wallet:2 Some(4)",
            "9 hold_voided hold - credit 5 wallet:1 Some(3)>wallet:2 None",
            "10 hold_expired hold - credit 5 wallet:1 Some(3)>wallet:2 None",
            "11 credit_received received - credit 6 far None>wallet:2 Some(11)",
            "12 refused refused - - 0 >",
            "13 loss_booked accepted-loss:1:8 - credit 9 source Some(-9)>",
            "14 loss_booked accepted-loss:1:8 - credit 9 >source Some(-9)",
            "15 time_mended - - - 0 >",
        ]
    );
    let row = |kind| rows.iter().find(|row| row.kind == kind).expect("there is one of each");
    let settings = row(ChangeKind::AccountChanged).settings.as_ref().expect("they were changed");
    assert_eq!((settings.revision, settings.rules.status), (4, AccountStatus::Frozen));
    assert_eq!(row(ChangeKind::AssetDeclared).decimals, Some(2));
    assert_eq!(row(ChangeKind::HoldPlaced).expires_at_ms, Some(150));
    assert_eq!(row(ChangeKind::HoldPosted).held, Some(5));
    assert_eq!(row(ChangeKind::Refused).refusal, Some(Refusal::DebitAccountFrozen));
    assert_eq!(&*row(ChangeKind::TimeMended).memo, "the clock was wrong");
    for kind in [ChangeKind::HoldPlaced, ChangeKind::CreditReceived] {
        assert_eq!((row(kind).code, &*row(kind).user_data), (3, "order 7"), "{kind:?}");
    }
    assert!(!row(ChangeKind::HoldPlaced).memo.is_empty() && !row(ChangeKind::CreditReceived).memo.is_empty());
}

/// Sequences of what a reader gets who may see and wants these accounts.
fn seen(visible: &'static str, wanted: &'static str, without_account: bool) -> Vec<u64> {
    let interest = move |id: &str| Interest { visible: id.starts_with(visible), wanted: id.starts_with(wanted) };
    let filter = ChangeFilter { interest: Box::new(interest), without_account, kinds: ChangeKind::ALL.to_vec() };
    rows(filter).iter().map(|row| row.sequence).collect()
}

#[test]
fn a_credit_from_elsewhere_is_given_to_who_may_see_either_side() {
    assert_eq!(seen("far", "far", false), [11], "the account that was debited elsewhere");
    assert_eq!(seen("far", "near", false), [0; 0], "it is not wanted");
    assert_eq!(seen("near", "far", false), [0; 0], "it may not be seen");
    assert!(seen("wallet:2", "wallet:2", false).contains(&11));
    assert_eq!(seen("wallet:1", "wallet:1", false), [4, 7, 8, 9, 10]);
}

#[test]
fn what_names_no_account_is_given_only_to_who_asks_for_it() {
    assert_eq!(seen("nobody", "nobody", false), [0; 0]);
    assert_eq!(seen("nobody", "nobody", true), [6, 12, 15]);
    assert_eq!(seen("source", "source", true), [6, 12, 13, 14, 15]);
}

#[test]
fn a_kind_is_found_by_its_name() {
    for kind in ChangeKind::ALL {
        assert_eq!(ChangeKind::parse(kind.word()), Some(*kind));
    }
    assert_eq!(ChangeKind::parse("account"), None);
}
