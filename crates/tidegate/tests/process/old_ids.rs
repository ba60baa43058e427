//! An account that an older build opened, when its id could have a `*`: it goes on, and no right reaches further by it.

use std::net::TcpStream;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use tidegate_client::{AccountKind, Client, ClientError, Hold, Outcome, Transfer};
use tidegate_journal::directory::Directory;
use tidegate_journal::disk::RealDisk;
use tidegate_journal::{Cursor, LocalLogs, LogStore, Logs, Opened, Options};
use tidegate_ledger::LEDGER;
use tidegate_machines::ledger::{AccountSlot, Event, Ledger};
use tidegate_machines::{Machine, TimeMs};

use crate::http::Http;
use crate::rights::{DAVE, log_in};
use crate::support::server::command;
use crate::votes::{connect, open_show};
use crate::{Server, Settings, audit, folder};

/// Looks like a pattern of all wallets.
const OLD: &str = "wallet:*";

/// Writes what an older build wrote when it opened the account; four were opened before.
fn open_as_an_older_build(settings: &Settings) {
    let directory = Directory::open_to_write(&settings.data, &[LEDGER]).expect("nobody serves it");
    let logs = LocalLogs::new(RealDisk, &settings.data, &[LEDGER]);
    let log = directory.logs(LEDGER).next().expect("it has a shard");
    let Opened { mut log, .. } = logs.open(log, Cursor::START, Options::default()).expect("it opens");
    let time = TimeMs(SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later").as_millis() as u64);
    let kind = tidegate_machines::ledger::AccountKind::Wallet;
    let event = Event::AccountOpened { time, slot: AccountSlot(4), id: OLD, asset: "credit", kind };
    let mut group = log.begin_group();
    group.append(|record| Ledger::encode(&event, record));
    log.submit(group).expect("the disk works");
    while log.poll_durable().expect("the disk works").sequence() < log.last_sequence() {}
    log.close().expect("it ends in order");
}

fn transfer<'a>(id: &'a str, debit: &'a str, credit: &'a str, amount: u64) -> Transfer<'a> {
    Transfer { id, debit, credit, amount, memo: "", code: 0, user_data: "" }
}

fn code_of<T: std::fmt::Debug>(answer: Result<T, ClientError>) -> String {
    match answer {
        Err(ClientError::Server(error)) => error.code,
        other => panic!("a refusal expected, {other:?}"),
    }
}

#[test]
fn an_old_account_with_an_asterisk_goes_on_and_no_right_reaches_further_by_it() {
    let folder = folder();
    // What an older configuration may have: a viewer whose wallet it is. And a service that may use all wallets, and
    // one that has only another one.
    let sections = DAVE.replace("wallet:dave", OLD)
        + "[[service]]\nname = \"all\"\ntoken = \"a-token-for-all-wallets\"\n\
           grants = [\"read:wallet:*\", \"debit:wallet:*\", \"credit:candidate:1\"]\n\
           [[service]]\nname = \"one\"\ntoken = \"a-token-for-one-wallet-x\"\n\
           grants = [\"read:wallet:carol\", \"debit:wallet:carol\", \"credit:candidate:1\"]\n";
    let settings = Settings { sections, ..Settings::new(folder.path()) };
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    assert!(server.terminate().status.success());
    open_as_an_older_build(&settings);

    let server = Server::start(&settings);
    let mut shop = connect(&server);
    // It is read, spent, held, listed, changed.
    assert_eq!(shop.transfer(&transfer("gift", "source:shop", OLD, 100)).expect("decided"), Outcome::Applied);
    assert_eq!(shop.transfer(&transfer("vote", OLD, "candidate:1", 3)).expect("decided"), Outcome::Applied);
    let hold = Hold { transfer: transfer("hold", OLD, "candidate:1", 10), expires_in_ms: 600_000 };
    assert_eq!(shop.hold(&hold).expect("decided"), Outcome::Applied);
    assert_eq!(shop.post("hold", Some(4)).expect("decided"), Outcome::Applied);
    assert_eq!(shop.account(OLD).expect("it is there").balance, 93);
    assert_eq!(shop.history(OLD, "", 10).expect("it has some").rows.len(), 4);
    let listed: Vec<_> =
        shop.accounts("wallet:", "", 0).expect("a list").into_iter().map(|account| account.id).collect();
    assert_eq!(listed, [OLD, "wallet:carol", "wallet:dave"]);
    let mut http = Http::connect(server.http).expect("the door is open");
    for path in ["/v1/accounts/wallet:*", "/v1/accounts/wallet:%2A"] {
        assert_eq!(http.get(path).expect("an answer").body["balance"], 93, "{path}");
    }
    let changed = http.patch("/v1/accounts/wallet:*", &json!({"metadata": {"plan": "old"}})).expect("an answer");
    assert_eq!((changed.status, &changed.body["revision"]), (200, &json!(1)), "{changed:?}");
    // Nobody opens another one; to open this one again is no error.
    let open = |client: &mut Client<_>, id: &str| client.open_account(id, "credit", AccountKind::Wallet);
    assert!(open(&mut shop, OLD).is_ok());
    assert_eq!(code_of(open(&mut shop, "wallet:d*")), "account_id_invalid");

    // A viewer whose wallet it is has this one, and not those that a pattern of this form means.
    let token = log_in(&server, "dave", "dave");
    let mut dave = Client::connect(server.binary, &token).expect("the token is good");
    assert_eq!(dave.transfer(&transfer("his", OLD, "candidate:1", 1)).expect("decided"), Outcome::Applied);
    assert_eq!(code_of(dave.transfer(&transfer("theft", "wallet:carol", "candidate:1", 1))), "forbidden");
    assert_eq!(code_of(dave.account("wallet:carol")), "account_not_found");
    let seen: Vec<_> = dave.accounts("", "", 0).expect("a list").into_iter().map(|account| account.id).collect();
    assert_eq!(seen, ["candidate:1", OLD]);
    let of_dave = Http::over(TcpStream::connect(server.http).expect("the door is open"), &token)
        .get("/v1/changes?accounts=wallet:*&limit=1000");
    let of_dave = of_dave.expect("an answer").body.to_string();
    assert!(of_dave.contains("\"his\"") && !of_dave.contains("wallet:carol"), "{of_dave}");
    // A pattern means it as well, and a right to another account does not.
    let mut all = Client::connect(server.binary, "a-token-for-all-wallets").expect("the token is good");
    for wallet in [OLD, "wallet:carol"] {
        let id = format!("by all from {wallet}");
        assert_eq!(all.transfer(&transfer(&id, wallet, "candidate:1", 1)).expect("decided"), Outcome::Applied);
    }
    let mut one = Client::connect(server.binary, "a-token-for-one-wallet-x").expect("the token is good");
    assert_eq!(code_of(one.account(OLD)), "forbidden");
    assert_eq!(code_of(one.transfer(&transfer("by one", OLD, "candidate:1", 1))), "forbidden");

    // A copy of it has it, too, and all agree.
    assert!(server.terminate().status.success());
    let text = |path: &std::path::Path| path.to_str().expect("a plain name").to_owned();
    let (backups, restored) = (folder.path().join("backups"), folder.path().join("restored"));
    let taken = command(&["backup", "--data", &text(&settings.data), "--to", &text(&backups)]);
    assert!(taken.status.success(), "{taken}");
    let ended = command(&["restore", "--from", &text(&backups), "--data", &text(&restored)]);
    assert!(ended.status.success(), "{ended}");
    let settings = Settings { data: restored, ..settings };
    assert!(audit(&settings.data).status.success());
    let server = Server::start(&settings);
    assert_eq!(connect(&server).account(OLD).expect("it is there").balance, 91);
}
