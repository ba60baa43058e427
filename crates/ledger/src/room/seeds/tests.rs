//! What is found wrong with seeds before anything is asked.

use tidegate_machines::RecordPosition;
use tidegate_machines::ledger::AccountStatus;

use super::*;

fn account(id: &str, kind: AccountKind) -> Seed {
    Seed { at: "dev.toml:1".into(), what: SeedKind::Account { id: id.into(), asset: "credit".into(), kind } }
}

fn transfer(id: &str, debit: &str, credit: &str, amount: u64) -> Seed {
    let (id, debit, credit, memo) = (id.into(), debit.into(), credit.into(), "".into());
    Seed { at: "dev.toml:9".into(), what: SeedKind::Transfer { id, debit, credit, amount, memo } }
}

fn checked(more: &[Seed]) -> Result<(), String> {
    checked_after(Before::default(), more)
}

fn checked_after(mut before: Before, more: &[Seed]) -> Result<(), String> {
    let mut seeds = vec![
        account("source", AccountKind::Source),
        account("wallet", AccountKind::Wallet),
        account("collector", AccountKind::Collector),
    ];
    seeds.extend_from_slice(more);
    before.check(&seeds, 1).map_err(|error| error.to_string())
}

#[track_caller]
fn wrong(seeds: &[Seed], says: &str) {
    let said = checked(seeds).expect_err(says);
    assert!(said.contains(says) && said.starts_with("dev.toml:"), "{said}");
}

#[test]
fn what_the_ledger_takes_is_right() {
    let seeds = [transfer("a", "source", "wallet", 10), transfer("b", "wallet", "collector", 10)];
    assert_eq!(checked(&seeds), Ok(()));
}

#[test]
fn what_the_ledger_would_refuse_is_found_before_it_is_asked() {
    wrong(&[transfer("a", "source", "walet", 10)], "there is no account \"walet\"");
    wrong(&[transfer("a", "wallet", "collector", 1)], "\"wallet\" has 0 left, not 1");
    wrong(&[transfer("a", "source", "wallet", 0)], "amount = 0");
    wrong(&[transfer("a", "source", "wallet", u64::MAX)], "amount = 18446744073709551615");
    wrong(&[transfer("a\u{3164}", "source", "wallet", 1)], "is no transfer id");
    wrong(&[transfer("a", "source", "source", 1)], "debit and credit are both");
    wrong(&[transfer("a", "collector", "wallet", 1)], "only credited");
    wrong(&[transfer("a", "source", "wallet", 1), transfer("a", "source", "wallet", 1)], "stands twice");
    wrong(&[account("wallet", AccountKind::Wallet)], "stands twice");
    wrong(&[account("a/b", AccountKind::Wallet)], "is no account id");
    let mut other = account("points", AccountKind::Wallet);
    if let SeedKind::Account { asset, .. } = &mut other.what {
        *asset = "point".into();
    }
    wrong(&[other, transfer("a", "source", "points", 1)], "holds \"point\"");
}

#[test]
fn an_asset_has_its_decimals_for_ever() {
    let asset =
        |name: &str, decimals| Seed { at: "dev.toml:3".into(), what: SeedKind::Asset { name: name.into(), decimals } };
    assert_eq!(checked(&[asset("eur", 2), asset("jpy", 0)]), Ok(()));
    wrong(&[asset("eur", 2), asset("eur", 2)], "the asset \"eur\" stands twice");
    wrong(&[asset("eur", 19)], "decimals = 19: expected 0 to 18");
    wrong(&[asset(" eur", 2)], "is no asset");
    let declared = || Before { decimals: HashMap::from([("eur".into(), 2)]), ..Before::default() };
    assert_eq!(checked_after(declared(), &[asset("eur", 2)]), Ok(()));
    let said = checked_after(declared(), &[asset("eur", 3)]).expect_err("other decimals");
    assert!(said.contains("declared with 2 decimals") && said.contains("nothing was seeded"), "{said}");
}

#[test]
fn bounds_are_those_of_the_ledger_to_the_last_unit() {
    let most = i64::MAX as u64;
    assert_eq!(checked(&[transfer("a", "source", "wallet", most)]), Ok(()));
    let one_more = [transfer("a", "source", "wallet", most), transfer("b", "source", "wallet", 1)];
    wrong(&one_more, "\"source\" has 0 left, not 1");
    wrong(&[transfer("a", "source", "wallet", most + 1)], "amount = 9223372036854775808");
    // On each of two shards a source may issue half of it.
    let mut seeds = vec![account("source", AccountKind::Source), account("wallet", AccountKind::Wallet)];
    seeds.push(transfer("a", "source", "wallet", most / 2));
    assert!(Before::default().check(&seeds, 2).is_ok());
    seeds.push(transfer("b", "source", "wallet", 1));
    assert!(Before::default().check(&seeds, 2).is_err());

    let with_memo = |bytes: usize| {
        let mut seed = transfer("a", "source", "wallet", 1);
        if let SeedKind::Transfer { memo, .. } = &mut seed.what {
            *memo = "x".repeat(bytes).into();
        }
        seed
    };
    assert_eq!(checked(&[with_memo(MEMO_BYTES_MAX)]), Ok(()));
    wrong(&[with_memo(MEMO_BYTES_MAX + 1)], "the memo has");
    let decimals = |decimals| Seed { at: "dev.toml:3".into(), what: SeedKind::Asset { name: "eur".into(), decimals } };
    assert_eq!(checked(&[decimals(ASSET_DECIMALS_MAX.into())]), Ok(()));
}

#[test]
fn what_was_set_on_accounts_holds_for_seeds() {
    let refused = |id: &str, change: fn(&mut Known), seeds: &[Seed]| {
        let mut known = Known::new("credit", if id == "source" { AccountKind::Source } else { AccountKind::Wallet });
        change(&mut known);
        let before = Before { accounts: HashMap::from([(id.into(), known)]), ..Before::default() };
        checked_after(before, seeds).err().unwrap_or_default()
    };
    let gift = [transfer("a", "source", "wallet", 10)];
    let frozen: fn(&mut Known) = |known| known.rules.status = AccountStatus::Frozen;
    assert!(refused("source", frozen, &gift).contains("would be refused: debit_account_frozen; nothing was seeded"));
    assert!(refused("wallet", frozen, &gift).contains("would be refused: credit_account_frozen"));
    let max: fn(&mut Known) = |known| known.rules.balance_max = Some(10);
    assert_eq!(refused("wallet", max, &gift), "");
    let more = [gift[0].clone(), transfer("b", "source", "wallet", 1)];
    assert!(refused("wallet", max, &more).contains("\"wallet\" would have 11, and its balance_max is 10"));
    let min: fn(&mut Known) = |known| known.rules.balance_min = Some(-9);
    assert!(refused("source", min, &gift).contains("less than its balance_min: -10"));
}

#[test]
fn a_used_id_stands_for_its_seed_or_stops_the_start() {
    let known = TransferView {
        id: "gift".into(),
        state: TransferState::Applied,
        debit: "source".into(),
        credit: "wallet".into(),
        amount: 10,
        memo: "".into(),
        code: 0,
        user_data: "".into(),
        time_ms: 1,
        is_credit_pending: false,
        at: RecordPosition(0),
    };
    let check = |known: &TransferView, amount| check_known(known, ("source", "wallet"), amount, "");
    assert_eq!(check(&known, 10), Ok(()));
    let other = check(&known, 11).expect_err("it has another amount");
    assert!(other.contains("id_reused; its id stands for 10 from \"source\""), "{other}");
    assert!(check(&TransferView { code: 1, ..known.clone() }, 10).is_err());
    let state = TransferState::Refused(Refusal::BalanceAboveMax);
    let before = check(&TransferView { state, ..known }, 10).expect_err("it was refused");
    assert!(before.contains("its id was refused at an earlier start"), "{before}");
}

#[test]
fn what_seeds_say_alone_is_checked_without_a_ledger() {
    let seeds = |more: &[Seed]| [&[account("source", AccountKind::Source)], more].concat();
    let checked = |more: &[Seed], is_new| check_alone(&seeds(more), 1, is_new).map_err(|error| error.to_string());
    let gift = transfer("a", "source", "wallet", 1);
    let one = std::slice::from_ref(&gift);
    assert_eq!(checked(one, false), Ok(()), "the wallet may be there");
    assert!(checked(one, true).is_err_and(|error| error.contains("there is no account \"wallet\"")));
    for wrong in [vec![gift.clone(), gift], vec![transfer("a", "source", "wallet", 0)]] {
        assert!(checked(&wrong, false).is_err() && checked(&wrong, true).is_err());
    }
    let spent = [account("wallet", AccountKind::Wallet), transfer("b", "wallet", "source", 1)];
    assert!(checked(&spent, true).is_err() && checked(&spent, false).is_ok(), "it may have something");
}

#[test]
fn an_account_that_is_there_as_another_one_stops_the_start() {
    let known = |asset: &str, kind| Before {
        accounts: HashMap::from([("wallet".into(), Known::new(asset, kind))]),
        ..Before::default()
    };
    assert_eq!(checked_after(known("credit", AccountKind::Wallet), &[]), Ok(()));
    for (asset, kind, words) in [
        ("point", AccountKind::Wallet, "exists already, as a wallet of \"point\"; its kind and asset never change"),
        ("credit", AccountKind::Source, "exists already, as a source of \"credit\"; its kind and asset never change"),
    ] {
        let said = checked_after(known(asset, kind), &[]).expect_err("it is another account");
        assert!(said.contains(words), "{said}");
    }
    let mut nameless = account("points", AccountKind::Wallet);
    if let SeedKind::Account { asset, .. } = &mut nameless.what {
        *asset = " credit".into();
    }
    wrong(&[nameless], "\" credit\" is no asset");
}

#[test]
fn what_was_seeded_before_is_not_weighed_again() {
    let spent = || {
        let wallet = ("wallet".into(), Known::new("credit", AccountKind::Wallet));
        Before { used: HashSet::from(["gift".into()]), accounts: HashMap::from([wallet]), ..Before::default() }
    };
    assert_eq!(checked_after(spent(), &[transfer("gift", "wallet", "collector", 10)]), Ok(()));
    assert!(checked_after(spent(), &[transfer("new", "wallet", "collector", 10)]).is_err());
    let other = [transfer("gift", "source", "wallet", 10), account("x", AccountKind::Wallet)];
    assert_eq!(checked_after(spent(), &other), Ok(()));
}

#[test]
fn a_seed_for_which_the_disk_has_no_room_is_refused_with_what_to_do() {
    let said = unavailable("dev.toml:3", "credit", Unavailable::DiskFull).to_string();
    let says = ["dev.toml:3: ", "\"credit\"", "the disk of the data directory has no room", "Make room", "start again"];
    assert!(says.iter().all(|word| said.contains(word)) && !said.contains("DiskFull"), "{said}");
}
