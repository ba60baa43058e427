//! What one caller may do to others: take their ids, fill the journal, look into the data directory; and seeds that are
//! wrong.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use tidegate_client::{Client, ClientError, Outcome, Transfer};

use crate::http::Http;
use crate::rights::{DAVE, log_in};
use crate::votes::{connect, open_show};
use crate::{PATIENCE, Server, Settings, audit, folder};

fn http(server: &Server, token: &str) -> Http<std::net::TcpStream> {
    let stream = std::net::TcpStream::connect(server.http).expect("the door is open");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes a time-out");
    Http::over(stream, token)
}

#[test]
fn a_viewer_who_floods_fills_no_journal_and_takes_no_id() {
    let folder = folder();
    let settings = Settings { sections: DAVE.into(), ..Settings::new(folder.path()) };
    let server = Server::start(&settings);
    let mut shop = connect(&server);
    open_show(&mut shop);
    let token = log_in(&server, "dave", "dave");
    let (mut web, mut binary) = (http(&server, &token), Client::connect(server.binary, &token).expect("a good token"));
    let (began, mut asked, mut too_many) = (Instant::now(), 0u64, 0u64);
    while began.elapsed() < Duration::from_secs(2) {
        let id = format!("order-{asked}");
        let theft = json!({"id": id, "debit": "wallet:dave", "credit": "candidate:1", "amount": 9_000_000_000u64});
        let answer = web.post("/v1/transfers", &theft).expect("the door answers");
        too_many += u64::from(answer.status == 429);
        asked += 1;
        // Answers that say "too many" take their time at both doors.
        for _ in 0..20 {
            let id = format!("binary-{asked}");
            let theft = Transfer {
                id: &id,
                debit: "wallet:dave",
                credit: "candidate:1",
                amount: 9_000_000_000,
                memo: "",
                code: 0,
                user_data: "",
            };
            match binary.transfer(&theft) {
                Ok(Outcome::Refused { code, .. }) => assert_eq!(code, "insufficient_funds"),
                Err(ClientError::Server(error)) if error.code == "busy" => {
                    assert!(error.retry_after.is_some_and(|wait| wait > Duration::ZERO), "{error:?}");
                    too_many += 1;
                }
                other => panic!("{other:?}"),
            }
            asked += 1;
        }
    }
    let elapsed_s = began.elapsed().as_secs() + 1;
    assert!(asked > 50 && too_many >= 5, "of {asked} requests {too_many} were too many");

    // The shop has its ids, and is served.
    let sale = Transfer {
        id: "order-0",
        debit: "source:shop",
        credit: "wallet:dave",
        amount: 5,
        memo: "",
        code: 0,
        user_data: "",
    };
    assert_eq!(shop.transfer(&sale).expect("the shop sells"), Outcome::Applied);
    assert!(server.terminate().status.success());
    let audited = audit(&settings.data);
    let is_count = |line: &&str| line.starts_with("ledger shard 0: ") && line.contains(" records ");
    let line = audited.log.lines().find(is_count).unwrap_or_else(|| panic!("{audited}"));
    let records: u64 =
        line.split(": ").nth(1).unwrap().split(' ').next().unwrap().replace([',', '_'], "").parse().unwrap();
    let most = 7 + 50 + 2 + 10 * elapsed_s;
    assert!(records <= most, "{records} records of {asked} requests; at most {most}: {line}");
}

#[test]
fn a_remembered_refusal_says_so_at_both_doors() {
    let folder = folder();
    let server = Server::start(&Settings::new(folder.path()));
    let mut client = connect(&server);
    open_show(&mut client);
    let vote = Transfer {
        id: "v",
        debit: "wallet:dave",
        credit: "candidate:1",
        amount: 1_000_001,
        memo: "",
        code: 0,
        user_data: "",
    };
    let Outcome::Refused { available: 1_000_000, remembered: None, .. } = client.transfer(&vote).unwrap() else {
        panic!("the first refusal is none that is remembered")
    };
    let more = Transfer {
        id: "more",
        debit: "source:shop",
        credit: "wallet:dave",
        amount: 100,
        memo: "",
        code: 0,
        user_data: "",
    };
    assert_eq!(client.transfer(&more).unwrap(), Outcome::Applied);
    let Outcome::Refused { code, available, remembered: Some(decided_at) } = client.transfer(&vote).unwrap() else {
        panic!("the id was refused for ever")
    };
    assert_eq!((&*code, available), ("insufficient_funds", 1_000_000), "what was available then");
    let body = json!({"id": "v", "debit": "wallet:dave", "credit": "candidate:1", "amount": 1_000_001});
    let answer = http(&server, crate::SERVICE).post("/v1/transfers", &body).unwrap();
    assert_eq!((answer.status, answer.code()), (409, "insufficient_funds"));
    assert_eq!(answer.body["remembered"], true);
    assert_eq!(answer.body["decided_at_ms"], decided_at);
    assert_eq!(answer.body["available"], 1_000_000);
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).permissions().mode() & 0o777
}

#[test]
fn nobody_else_may_look_into_the_data_directory() {
    let folder = folder();
    let settings = Settings::new(folder.path());
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    assert_eq!(mode(&settings.data), 0o700);
    assert_eq!(mode(&settings.data.join("DIRECTORY")), 0o600);
    assert_eq!(mode(&settings.data.join("journal")), 0o700);
    server.kill();
    fs::set_permissions(&settings.data, fs::Permissions::from_mode(0o755)).unwrap();
    let server = Server::start(&settings);
    assert_eq!(mode(&settings.data), 0o700, "an older directory is closed");
    server.says("had mode 755");
}

#[test]
fn doctor_and_a_port_in_use_leave_no_directory() {
    let folder = folder();
    let settings = Settings::new(folder.path());
    let looked = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["doctor", "--data"])
        .arg(settings.data.join("deeper"))
        .output()
        .expect("the binary was built with the test");
    let said = String::from_utf8_lossy(&looked.stdout);
    assert!(said.lines().any(|line| line.contains("fresh memory") && line.ends_with("us for 4 KiB")), "{said}");
    assert!(!settings.data.exists());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let path = settings.write();
    let ended = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["serve", "--mqtt", "off", "--http", &taken.local_addr().unwrap().to_string(), "--config"])
        .arg(path)
        .arg("--data")
        .arg(&settings.data)
        .output()
        .expect("the binary was built with the test");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && said.contains("another process has it"), "{said}");
    assert!(!settings.data.exists());
}

/// One disk that takes nothing keeps the doctor from none of its other looks.
#[test]
fn the_doctor_tells_of_a_disk_that_takes_no_file_and_goes_on() {
    let folder = folder();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    for (path, mode) in [(folder.path(), 0o755), (&data, 0o555)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let ended = crate::support::server::as_nobody(&["doctor", "--data", &data.display().to_string()]);
    assert!(!ended.status.success(), "{ended}");
    for words in ["!!  fdatasync of 4 KiB", "cannot write to", "mount it writable", "huge pages", "NUMA nodes"] {
        assert!(ended.log.contains(words), "{words}: {ended}");
    }
}

#[test]
fn a_wrong_seed_stops_the_start_and_uses_up_no_id() {
    let folder = folder();
    let accounts = "[[seed.account]]\nid = \"source\"\nasset = \"credit\"\nkind = \"source\"\n\
                    [[seed.account]]\nid = \"wallet\"\nasset = \"credit\"\nkind = \"wallet\"\n";
    let transfer = |credit: &str| {
        format!("{accounts}[[seed.transfer]]\nid = \"gift\"\ndebit = \"source\"\ncredit = \"{credit}\"\namount = 10\n")
    };
    let settings = |sections| Settings { sections, ..Settings::new(folder.path()) };
    let refused = Server::refused(&settings(transfer("walet")));
    let place = format!("{}:", folder.path().join("config.toml").display());
    assert!(refused.log.contains(&place) && refused.log.contains("there is no account \"walet\""), "{refused}");
    assert!(!refused.log.contains("TransferBatch"), "no dump: {refused}");
    let server = Server::start(&settings(transfer("wallet")));
    let answer = Http::connect(server.http).unwrap().get("/v1/accounts/wallet").unwrap();
    assert_eq!(answer.body["balance"], 10, "the id was not used up");
    server.kill();
    Server::start(&settings(transfer("wallet"))).kill();
}
