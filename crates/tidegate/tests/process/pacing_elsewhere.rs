//! Pacers of several servers that spend the money of one account in the ledger of another server.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use serde_json::{Value, json};

use crate::http::Http;
use crate::links::free_address;
use crate::metrics::metric;
use crate::pacing::{Kept, balance, bid, campaign, connect, fund, put, win};
use crate::reload::reload;
use crate::services::{ok, said};
use crate::timeline::copy;
use crate::{Server, Settings, audit, folder, tool, wait_for};

/// What the account has: four wins.
const FUNDS: u64 = 4_000;
const PRICE: u64 = 1_000;
const TOKEN: &str = "a-token-of-pacers";

fn settings_of(folder: &Path, name: &str, sections: String) -> Settings {
    let root = folder.join(name);
    std::fs::create_dir_all(&root).expect("the folder is there");
    Settings { sections, ..Settings::new(&root) }
}

const GRANTS: [&str; 4] = ["debit:campaign:*", "credit:spend:*", "holds:settle", "read:campaign:*"];

/// The server that has the ledger.
fn ledger(folder: &Path, binary: SocketAddr) -> Settings {
    ledger_granting(folder, binary, &GRANTS)
}

/// One that lets pacers do no more than this.
fn ledger_granting(folder: &Path, binary: SocketAddr, grants: &[&str]) -> Settings {
    let service = format!("[[service]]\nname = \"pacers\"\ntoken = \"{TOKEN}\"\ngrants = {grants:?}\n");
    Settings { binary: binary.to_string(), ..settings_of(folder, "ledger", service) }
}

/// A server that has a pacer.
fn pacer(folder: &Path, name: &str, ledger: SocketAddr, token: &str) -> Settings {
    let pacing = "[pacing]\nlease_ms = 200\nwin_deadline_ms = 1000\n";
    settings_of(folder, name, format!("{pacing}\n[pacing.ledger]\naddress = \"{ledger}\"\ntoken = \"{token}\"\n"))
}

/// Asks for a bid, and why there is none.
fn no_bid(http: &mut Http<TcpStream>, number: u64) -> Value {
    let answer = ok(http.post("/v1/bids", &json!({"requests": [{"id": 7, "campaign": number}]})));
    answer["bids"][0]["no_bid"].clone()
}

fn stopped(http: &mut Http<TcpStream>) -> Value {
    campaign(http, "shoes")["pace"]["stopped"].clone()
}

#[test]
fn pacers_of_two_servers_spend_one_account_and_never_more_than_it_has() {
    let folder = folder();
    let address = free_address();
    let of_ledger = ledger(folder.path(), address);
    let mut bank = Server::start(&of_ledger);
    let mut money = connect(&bank);
    fund(&mut money, "shoes", FUNDS);
    let settings = ["one", "two"].map(|name| pacer(folder.path(), name, address, TOKEN));
    let mut servers: Vec<Server> = settings.iter().map(Server::start).collect();
    let mut doors = [connect(&servers[0]), connect(&servers[1])];
    // Each of the two might spend all of it.
    let budget = json!({"budget_micros": FUNDS});
    let numbers = doors.each_mut().map(|http| put(http, "shoes", &budget));

    let offered = bid(&mut doors[0], numbers[0]);
    assert_eq!(win(&mut doors[0], &offered, PRICE), "taken");
    wait_for("the first win is paid", || {
        (balance(&mut money, "spend:shoes").0 == PRICE && balance(&mut money, "campaign:shoes").1 == 0).then_some(())
    });

    // A pacer that is killed has leases open; the next process pays what was won of them.
    let offered = bid(&mut doors[1], numbers[1]);
    assert_eq!(win(&mut doors[1], &offered, PRICE), "taken");
    servers.remove(1).kill();
    servers.push(Server::start(&settings[1]));
    doors[1] = connect(&servers[1]);
    wait_for("the second win is paid", || {
        (balance(&mut money, "spend:shoes").0 == 2 * PRICE && balance(&mut money, "campaign:shoes").1 == 0)
            .then_some(())
    });

    // While the ledger is away nobody bids longer than a lease lasts; what was won is paid when it is there again.
    let offered = bid(&mut doors[0], numbers[0]);
    bank.kill();
    assert_eq!(win(&mut doors[0], &offered, PRICE), "taken");
    wait_for("there is no lease any more", || (no_bid(&mut doors[0], numbers[0]) == "no_lease").then_some(()));
    let health = |http: &mut Http<TcpStream>| ok(http.get("/healthz"))["rooms"].clone();
    wait_for("an operator sees it", || {
        no_bid(&mut doors[0], numbers[0]);
        (health(&mut doors[0]) == json!({"pacing": "ledger_away"})).then_some(())
    });
    bank = Server::start(&of_ledger);
    money = connect(&bank);
    wait_for("and that it is back", || {
        no_bid(&mut doors[0], numbers[0]);
        health(&mut doors[0]).is_null().then_some(())
    });
    wait_for("the third win is paid", || {
        (balance(&mut money, "spend:shoes").0 == 3 * PRICE && balance(&mut money, "campaign:shoes").1 == 0)
            .then_some(())
    });

    // One win is left, whoever gets it.
    let offered = bid(&mut doors[1], numbers[1]);
    assert_eq!(win(&mut doors[1], &offered, PRICE), "taken");
    wait_for("the account is spent", || (balance(&mut money, "campaign:shoes") == (0, 0)).then_some(()));
    wait_for("both are told", || {
        let mut told = doors.iter_mut().zip(numbers).map(|(http, number)| {
            assert_eq!(no_bid(http, number), "no_lease");
            stopped(http)
        });
        told.all(|why| why == "insufficient_funds").then_some(())
    });
    assert_eq!(balance(&mut money, "spend:shoes").0, FUNDS);
    for (server, name) in servers.into_iter().chain([bank]).zip(["one", "two", "ledger"]) {
        assert!(server.terminate().status.success(), "{name}");
        let audited = audit(&folder.path().join(name).join("data"));
        assert!(audited.status.success(), "{name}: {audited}");
    }
}

#[test]
fn a_wrong_token_and_an_account_that_is_not_there_are_said() {
    let folder = folder();
    let address = free_address();
    let bank = Server::start(&ledger(folder.path(), address));
    let right = Server::start(&pacer(folder.path(), "right", address, TOKEN));
    let mut http = connect(&right);
    let number = put(&mut http, "shoes", &json!({}));
    wait_for("the ledger has no such account", || {
        (no_bid(&mut http, number) == "no_lease" && stopped(&mut http) == "ledger_refused").then_some(())
    });
    let wrong = Server::start(&pacer(folder.path(), "wrong", address, "another-token"));
    let mut http = connect(&wrong);
    let number = put(&mut http, "shoes", &json!({}));
    wait_for("the log says who is not let in", || {
        let has_none = no_bid(&mut http, number) == "no_lease";
        let log = wrong.log();
        let said = ["which has the ledger", "A server shows the token of a [[service]] there: `token` or `token_file`"];
        (has_none && said.iter().all(|said| log.contains(said))).then_some(())
    });
    wait_for("the campaign says so, too", || (stopped(&mut http) == "unavailable").then_some(()));
    assert_eq!(said(http.get("/v1/accounts/campaign:shoes")), "404 account_not_found");
    [bank, right, wrong].into_iter().for_each(|server| assert!(server.terminate().status.success()));
}

#[test]
fn an_account_that_the_token_may_not_use_stops_its_own_campaign_alone() {
    let folder = folder();
    let address = free_address();
    let grants = ["debit:campaign:shoes", "credit:spend:*", "holds:settle"];
    let bank = Server::start(&ledger_granting(folder.path(), address, &grants));
    let mut money = connect(&bank);
    ["shoes", "hats", "coats"].into_iter().for_each(|campaign| fund(&mut money, campaign, FUNDS));
    let server = Server::start(&pacer(folder.path(), "one", address, TOKEN));
    let mut http = connect(&server);
    let others = ["hats", "coats"].map(|campaign| put(&mut http, campaign, &json!({})));
    wait_for("the token may not use their accounts", || {
        let are_refused = others.iter().all(|number| no_bid(&mut http, *number) == "no_lease");
        let said = ["hats", "coats"].map(|name| campaign(&mut http, name)["pace"]["stopped"].clone());
        (are_refused && said == ["ledger_refused", "ledger_refused"]).then_some(())
    });
    let number = put(&mut http, "shoes", &json!({}));
    let offered = bid(&mut http, number);
    assert_eq!(win(&mut http, &offered, PRICE), "taken");
    wait_for("it is paid beside those that are refused", || {
        others.iter().for_each(|number| drop(no_bid(&mut http, *number)));
        (balance(&mut money, "spend:shoes").0 == PRICE && balance(&mut money, "campaign:shoes").1 == 0).then_some(())
    });
    [bank, server].into_iter().for_each(|server| assert!(server.terminate().status.success()));
}

/// As behind a loss of the end of the pacer's log. The other server says what was paid, where the token may read it.
#[test]
fn what_the_other_server_has_paid_for_leases_of_a_lost_log_counts() {
    for (may_read, spent) in [(true, 1_600), (false, 700)] {
        let folder = folder();
        let address = free_address();
        // Of the account that is looked at first, it may not.
        let grants = [&GRANTS[..3], if may_read { &["read:campaign:shoes"] } else { &[] }].concat();
        let bank = Server::start(&ledger_granting(folder.path(), address, &grants));
        let mut money = connect(&bank);
        ["boots", "shoes"].into_iter().for_each(|campaign| fund(&mut money, campaign, 100 * FUNDS));
        let settings = pacer(folder.path(), "one", address, TOKEN);
        let server = Server::start(&settings);
        let mut http = connect(&server);
        let boots = put(&mut http, "boots", &json!({}));
        let number = put(&mut http, "shoes", &json!({"budget_micros": 10_000}));
        let first = bid(&mut http, number);
        assert_eq!(win(&mut http, &first, 700), "taken");
        wait_for("it is paid", || (balance(&mut money, "spend:shoes").0 == 700).then_some(()));
        server.kill();
        let kept = Kept::of(&settings, "campaigns", folder.path());
        let server = Server::start(&settings);
        let mut http = connect(&server);
        let later = bid(&mut http, number);
        assert_eq!(win(&mut http, &later, 900), "taken");
        wait_for("it is paid, too", || (balance(&mut money, "spend:shoes").0 == 1_600).then_some(()));
        server.kill();
        kept.put_back();
        let server = Server::start(&settings);
        server.says("may not read what was paid out of this account, and perhaps others");
        if may_read {
            server.says("leases that are not known here: it counts against the budget of campaign shoes");
        }
        let mut http = connect(&server);
        wait_for("what is known counts", || (campaign(&mut http, "shoes")["spent_micros"] == spent).then_some(()));
        let offered = bid(&mut http, number);
        assert_eq!(win(&mut http, &offered, 100), "taken");
        wait_for("and bids go on", || (balance(&mut money, "spend:shoes").0 == 1_700).then_some(()));
        assert_eq!(campaign(&mut http, "shoes")["spent_micros"], spent + 100, "nothing counts twice");
        bid(&mut http, boots);
        [bank, server].into_iter().for_each(|server| assert!(server.terminate().status.success()));
    }
}

/// What the ledger does not settle stays held, and is within the budget. When an operator gives it back, bids go on.
#[test]
fn a_campaign_whose_leases_are_not_settled_holds_no_more_than_its_budget() {
    let folder = folder();
    let address = free_address();
    let may_not_settle = ["debit:campaign:*", "credit:spend:*"];
    let mut bank = Server::start(&ledger_granting(folder.path(), address, &may_not_settle));
    let mut money = connect(&bank);
    fund(&mut money, "shoes", 100 * FUNDS);
    let server = Server::start(&pacer(folder.path(), "one", address, TOKEN));
    let mut http = connect(&server);
    let number = put(&mut http, "shoes", &json!({"budget_micros": FUNDS}));
    wait_for("all that the budget has was leased, and is closed", || {
        let answer = ok(http.post("/v1/bids", &json!({"requests": [{"id": 7, "campaign": number}]})));
        let offered = &answer["bids"][0];
        if offered["token"].is_string() {
            assert_eq!(win(&mut http, offered, 1), "taken");
        }
        let view = campaign(&mut http, "shoes");
        let is_closed = view["exposed_micros"] == 0 && view["unreleased_micros"] == 0;
        (is_closed && view["pace"]["stopped"] == "leases_unreleased").then_some(())
    });
    let (funds, held) = balance(&mut money, "campaign:shoes");
    assert!(funds == 100 * FUNDS && held > 0 && held <= FUNDS, "{held} is held, and {funds} there");
    server.says("this token may not post holds");
    // Of what the ledger does not hold, there is nothing to give back.
    let hats = put(&mut http, "hats", &json!({}));
    for _ in 0..20 {
        wait_for("it has no account", || {
            (no_bid(&mut http, hats) == "no_lease"
                && campaign(&mut http, "hats")["pace"]["stopped"] == "ledger_refused")
                .then_some(())
        });
    }
    assert_eq!(campaign(&mut http, "hats")["pace"]["unsettled_micros"], 0);
    wait_for("an operator sees it", || {
        let view = campaign(&mut http, "shoes");
        let unsettled = held - view["spent_micros"].as_u64().expect("a sum");
        let health = ok(http.get("/healthz"));
        let is_shown = health["status"] == "degraded" && health["rooms"] == json!({"pacing": "ledger_refuses"});
        let is_counted = metric(&server, "tidegate_pacer_leases_unsettled") > 0;
        (view["pace"]["unsettled_micros"] == unsettled && is_shown && is_counted).then_some(())
    });
    for hold in ok(money.get("/v1/accounts/campaign:shoes/holds"))["holds"].as_array().expect("a list") {
        let id = hold["id"].as_str().expect("an id");
        ok(money.post(&format!("/v1/holds/{id}/void"), &json!({})));
    }
    bank.kill();
    bank = Server::start(&ledger(folder.path(), address));
    server.says("of which it holds nothing");
    bid(&mut http, number);
    assert!(metric(&server, "tidegate_pacer_leases_unpaid") > 0);
    ok(http.delete("/v1/campaigns/shoes"));
    wait_for("who ends a campaign has moved what is owed", || {
        let is_gone = said(http.get("/v1/campaigns/shoes")) == "404 campaign_not_found";
        let owed = metric(&server, "tidegate_pacer_leases_unpaid");
        (is_gone && owed == 0 && ok(http.get("/healthz"))["rooms"] == Value::Null).then_some(())
    });
    [bank, server].into_iter().for_each(|server| assert!(server.terminate().status.success()));
}

/// An older ledger comes under a pacer that goes on: it owes what was won, and holds nothing for it.
#[test]
fn a_hold_that_the_ledger_does_not_know_any_more_is_not_counted_as_held() {
    let folder = folder();
    let address = free_address();
    let of_bank = ledger(folder.path(), address);
    let mut bank = Server::start(&of_bank);
    fund(&mut connect(&bank), "shoes", 100 * FUNDS);
    bank.kill();
    let older = folder.path().join("older");
    copy(&of_bank.data, &older);
    bank = Server::start(&of_bank);
    let server = Server::start(&pacer(folder.path(), "one", address, TOKEN));
    let mut http = connect(&server);
    let number = put(&mut http, "shoes", &json!({}));
    let offered = bid(&mut http, number);
    bank.kill();
    std::fs::remove_dir_all(&of_bank.data).expect("it is there");
    std::fs::rename(&older, &of_bank.data).expect("it is there");
    assert_eq!(win(&mut http, &offered, PRICE), "taken");
    bank = Server::start(&of_bank);
    server.says("campaign shoes: ");
    server.says("of which it finds no hold: it is of an older backup, or another ledger than before");
    bid(&mut http, number);
    wait_for("nobody asks, and only what was won is owed", || {
        let view = campaign(&mut http, "shoes");
        let gauges = ["unpaid", "leases_unpaid", "leases_unsettled"];
        let owed = gauges.map(|name| metric(&server, &format!("tidegate_pacer_{name}")));
        let is_shown =
            view["pace"]["unpaid_micros"] == PRICE && ok(http.get("/healthz"))["rooms"] == json!({"pacing": "unpaid"});
        (view["pace"]["unsettled_micros"] == 0 && is_shown && owed == [PRICE, 1, 0]).then_some(())
    });
    [bank, server].into_iter().for_each(|server| assert!(server.terminate().status.success()));
}

#[test]
fn a_lease_that_the_ledger_has_settled_otherwise_ends_with_a_word() {
    let folder = folder();
    let address = free_address();
    let bank = Server::start(&ledger(folder.path(), address));
    let mut money = connect(&bank);
    fund(&mut money, "shoes", FUNDS);
    let mut settings = pacer(folder.path(), "one", address, TOKEN);
    settings.sections = settings.sections.replace("win_deadline_ms = 1000", "win_deadline_ms = 5000");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    let number = put(&mut http, "shoes", &json!({}));
    let offered = bid(&mut http, number);
    server.kill();
    let older = folder.path().join("older");
    copy(&settings.data, &older);
    let server = Server::start(&settings);
    assert_eq!(win(&mut connect(&server), &offered, PRICE), "taken");
    wait_for("the win is paid", || (balance(&mut money, "spend:shoes").0 == PRICE).then_some(()));
    assert!(server.terminate().status.success());
    // The copy has the lease, and not the win.
    std::fs::remove_dir_all(&settings.data).expect("it is there");
    std::fs::rename(&older, &settings.data).expect("it is there");
    let server = Server::start(&settings);
    server.says("the greater of the two counts");
    wait_for("what was paid counts", || {
        (campaign(&mut connect(&server), "shoes")["spent_micros"] == PRICE).then_some(())
    });
    wait_for("it is counted", || (metric(&server, "tidegate_pacer_leases_paid_otherwise_total") == 1).then_some(()));
    wait_for("nothing is asked for ever", || (campaign(&mut connect(&server), "shoes")["leases"] == 0).then_some(()));
    assert_eq!(balance(&mut money, "spend:shoes").0, PRICE, "the ledger is right");
    [bank, server].into_iter().for_each(|server| assert!(server.terminate().status.success()));
}

/// The ledger is put back as it was before the last win was paid, under a pacer that goes on.
#[test]
fn an_older_state_of_the_ledger_is_not_asked_until_the_right_one_is_back() {
    let folder = folder();
    let address = free_address();
    let of_bank = ledger(folder.path(), address);
    let mut bank = Server::start(&of_bank);
    let mut money = connect(&bank);
    fund(&mut money, "shoes", FUNDS);
    let server = Server::start(&pacer(folder.path(), "one", address, TOKEN));
    let mut http = connect(&server);
    let number = put(&mut http, "shoes", &json!({}));
    let win_one = |http: &mut Http<TcpStream>| {
        let offered = bid(http, number);
        assert_eq!(win(http, &offered, PRICE), "taken");
    };
    let is_paid = |money: &mut Http<TcpStream>, spent: u64| {
        wait_for("what was won is paid, and nothing is held", || {
            let held = balance(money, "campaign:shoes").1;
            (balance(money, "spend:shoes").0 == spent && held == 0).then_some(())
        });
    };
    win_one(&mut http);
    is_paid(&mut money, PRICE);
    bank.kill();
    let (older, newer) = (folder.path().join("older"), folder.path().join("newer"));
    copy(&of_bank.data, &older);
    bank = Server::start(&of_bank);
    money = connect(&bank);
    win_one(&mut http);
    is_paid(&mut money, 2 * PRICE);
    // What is won on a lease that the older one does not have is paid where its money is held.
    win_one(&mut http);
    bank.kill();
    std::fs::rename(&of_bank.data, &newer).expect("it is there");
    std::fs::rename(&older, &of_bank.data).expect("it is there");
    bank = Server::start(&of_bank);
    money = connect(&bank);
    let health = |http: &mut Http<TcpStream>| ok(http.get("/healthz"))["rooms"].clone();
    wait_for("an operator sees it", || (health(&mut http) == json!({"pacing": "ledger_other"})).then_some(()));
    server.says("it is another ledger than before, or an older state of it");
    server.says("`tidegate pacer accept-ledger --data DIR`");
    wait_for("the lease is over", || (no_bid(&mut http, number) == "no_lease").then_some(()));
    assert_eq!(balance(&mut money, "spend:shoes").0, PRICE, "nothing is paid in it");
    assert_eq!(balance(&mut money, "campaign:shoes"), (FUNDS - PRICE, 0), "and nothing held");
    // The pacer knows it also behind a start of its own.
    assert!(server.terminate().status.success());
    let server = Server::start(&pacer(folder.path(), "one", address, TOKEN));
    http = connect(&server);
    wait_for("it is told again", || (health(&mut http) == json!({"pacing": "ledger_other"})).then_some(()));
    bank.kill();
    std::fs::rename(&of_bank.data, &older).expect("it is there");
    std::fs::rename(&newer, &of_bank.data).expect("it is there");
    bank = Server::start(&of_bank);
    money = connect(&bank);
    wait_for("the right one is known", || health(&mut http).is_null().then_some(()));
    is_paid(&mut money, 3 * PRICE);
    win_one(&mut http);
    is_paid(&mut money, FUNDS);
    [bank, server].into_iter().for_each(|server| assert!(server.terminate().status.success()));
}

/// By a mistake in its configuration a pacer finds the ledger of another bank, which has the same accounts.
#[test]
fn another_ledger_is_taken_when_an_operator_says_so() {
    let folder = folder();
    let addresses = [free_address(), free_address()];
    let bank = Server::start(&ledger(folder.path(), addresses[0]));
    let other = Settings { binary: addresses[1].to_string(), ..settings_of(folder.path(), "other", String::new()) };
    let other = Settings { sections: ledger(folder.path(), addresses[1]).sections, ..other };
    let other = Server::start(&other);
    let mut accounts = [connect(&bank), connect(&other)];
    accounts.each_mut().into_iter().for_each(|money| fund(money, "shoes", FUNDS));
    let settings = addresses.map(|address| pacer(folder.path(), "one", address, TOKEN));
    let server = Server::start(&settings[0]);
    let mut http = connect(&server);
    let number = put(&mut http, "shoes", &json!({}));
    let offered = bid(&mut http, number);
    assert_eq!(win(&mut http, &offered, PRICE), "taken");
    let is_paid = |money: &mut Http<TcpStream>| (balance(money, "spend:shoes").0 == PRICE).then_some(());
    wait_for("the win is paid", || is_paid(&mut accounts[0]));
    assert!(server.terminate().status.success());

    // Nor is the ledger of its own server taken without a word.
    let here = Settings { sections: "[pacing]\n".to_owned(), ..Settings::new(&folder.path().join("one")) };
    let server = Server::start(&here);
    server.says("this pacer had its money in the ledger of another server");
    assert!(server.terminate().status.success());

    let server = Server::start(&settings[1]);
    server.says("it is another ledger than before");
    http = connect(&server);
    assert_eq!(no_bid(&mut http, number), "no_lease");
    assert_eq!(balance(&mut accounts[1], "campaign:shoes"), (FUNDS, 0));
    let accept = |more: &[&str]| tool(&settings[1].data, &[&["pacer", "accept-ledger"], more].concat());
    assert_eq!(accept(&["--yes"]).status.code(), Some(1), "a server has the directory");
    assert!(server.terminate().status.success());
    let listed = accept(&[]);
    assert_eq!(listed.status.code(), Some(2), "{listed}");
    assert!(listed.log.contains("which was posted"), "{listed}");
    assert_eq!(accept(&["--yes"]).status.code(), Some(0));
    assert_eq!(accept(&[]).status.code(), Some(0), "nothing is left to forget");

    let server = Server::start(&settings[1]);
    http = connect(&server);
    let offered = bid(&mut http, number);
    assert_eq!(win(&mut http, &offered, PRICE), "taken");
    wait_for("the other one pays", || is_paid(&mut accounts[1]));
    [bank, other, server].into_iter().for_each(|server| assert!(server.terminate().status.success()));
}

#[test]
fn a_ledger_that_is_away_is_told_before_somebody_bids() {
    let folder = folder();
    let address = free_address();
    let server = Server::start(&pacer(folder.path(), "one", address, TOKEN));
    let mut http = connect(&server);
    let away = json!({"pacing": "ledger_away"});
    wait_for("nobody is there", || (ok(http.get("/healthz"))["rooms"] == away).then_some(()));
    server.says("no money of campaigns can be held");
    let bank = Server::start(&ledger(folder.path(), address));
    wait_for("somebody is", || ok(http.get("/healthz"))["rooms"].is_null().then_some(()));
    [bank, server].into_iter().for_each(|server| assert!(server.terminate().status.success()));
}

/// The ledger's server lets the pacer ask for few holds at once, and more leases than that wait for it.
#[test]
fn a_pacer_asks_for_no_more_at_once_than_its_service_may() {
    const CAMPAIGNS: usize = 9;
    let folder = folder();
    let address = free_address();
    let of_bank = ledger(folder.path(), address);
    let bounds = "requests_per_s = 1000\nrequests_burst = 4\n";
    let of_bank = Settings { sections: format!("{}{bounds}", of_bank.sections), ..of_bank };
    let mut bank = Server::start(&of_bank);
    let mut money = connect(&bank);
    let names: Vec<String> = (0..CAMPAIGNS).map(|number| format!("c{number}")).collect();
    names.iter().for_each(|name| fund(&mut money, name, FUNDS));
    let server = Server::start(&pacer(folder.path(), "one", address, TOKEN));
    let mut http = connect(&server);
    let numbers: Vec<u64> = names.iter().map(|name| put(&mut http, name, &json!({}))).collect();
    // All of them want a lease before one has it.
    numbers.iter().for_each(|number| drop(no_bid(&mut http, *number)));
    let offered: Vec<Value> = numbers.iter().map(|number| bid(&mut http, *number)).collect();
    bank.kill();
    // While the ledger is away, the leases of all end.
    offered.iter().for_each(|offered| drop(win(&mut http, offered, PRICE)));
    wait_for("there is no lease any more", || {
        numbers.iter().all(|number| no_bid(&mut http, *number) == "no_lease").then_some(())
    });
    bank = Server::start(&of_bank);
    money = connect(&bank);
    wait_for("what was won is paid", || {
        let is_paid = names.iter().all(|name| {
            let spent = campaign(&mut http, name)["spent_micros"].as_u64().expect("a sum");
            balance(&mut money, &format!("spend:{name}")).0 == spent
        });
        (is_paid && metric(&server, "tidegate_pacer_leases_unpaid") == 0).then_some(())
    });
    [bank, server].into_iter().for_each(|server| assert!(server.terminate().status.success()));
}

/// The operator of the ledger gives the pacer's service another space of ids, live, and takes it back.
#[test]
fn another_space_of_ids_loses_no_lease() {
    let folder = folder();
    let address = free_address();
    let of_bank = ledger(folder.path(), address);
    let bank = Server::start(&of_bank);
    let mut money = connect(&bank);
    fund(&mut money, "shoes", FUNDS);
    let mut settings = pacer(folder.path(), "one", address, TOKEN);
    settings.sections = settings.sections.replace("win_deadline_ms = 1000", "win_deadline_ms = 20000");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    let number = put(&mut http, "shoes", &json!({}));
    let offered = bid(&mut http, number);
    assert_eq!(win(&mut http, &offered, PRICE), "taken");
    wait_for("it is paid", || (balance(&mut money, "spend:shoes").0 == PRICE).then_some(()));
    let offered = bid(&mut http, number);
    let other_space = format!("{}id_space = \"x\"\n", of_bank.sections);
    Settings { sections: other_space, ..ledger(folder.path(), address) }.write();
    reload(&bank, 1, "reloaded");
    // Its hold is in the space of before.
    assert_eq!(win(&mut http, &offered, PRICE), "taken");
    server.says("or has another id_space");
    of_bank.write();
    reload(&bank, 2, "reloaded");
    wait_for("it is paid in its own space", || (balance(&mut money, "spend:shoes").0 == 2 * PRICE).then_some(()));
    wait_for("nothing is owed", || {
        (metric(&server, "tidegate_pacer_leases_unpaid") == 0 && ok(http.get("/healthz"))["rooms"].is_null())
            .then_some(())
    });
    [bank, server].into_iter().for_each(|server| assert!(server.terminate().status.success()));
}
