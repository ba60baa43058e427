//! `tidegate pacer replay`: bids come through the binary port, and the record says why others did not.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use jiff::Timestamp;
use serde_json::json;
use tidegate_client::{BidRequest, Client};

use crate::pacing::{bid, connect, fund, put};
use crate::seeing::metrics;
use crate::{Server, Settings, folder, votes, wait_for};

const FUNDS: u64 = 1_000_000;

fn settings(folder: &Path) -> Settings {
    let sections = "[pacing]\nlease_ms = 200\ndecision_sample_one_in = 50\n".to_owned();
    Settings { sections, ..Settings::new(folder) }
}

/// A packet of requests for two campaigns, answered.
fn ask(exchange: &mut Client<TcpStream>, campaigns: [u64; 2], first: u64) {
    let request = |id: u64| BidRequest {
        id,
        campaign: campaigns[(id % 2) as usize] as u32,
        user: id % 9 + 1,
        key: id % 3,
        ..BidRequest::default()
    };
    let packet: Vec<BidRequest> = (first..first + 200).map(request).collect();
    exchange.bids(&packet).expect("bids are answered");
}

/// What is asked of the record: of a campaign, at a time in UTC.
struct Asking {
    data: PathBuf,
    at: Timestamp,
}

impl Asking {
    /// Exit code, standard output, standard error.
    fn of(&self, campaign: &str) -> (i32, String, String) {
        let at = self.at.to_zoned(jiff::tz::TimeZone::UTC);
        let (time, date) = (at.strftime("%H:%M:%S").to_string(), at.strftime("%Y-%m-%d").to_string());
        let data = self.data.to_str().expect("text");
        let asked = ["pacer", "replay", "--data", data, "--campaign", campaign, "--at", &time, "--date", &date];
        let Output { status, stdout, stderr } =
            Command::new(env!("CARGO_BIN_EXE_tidegate")).args(asked).output().expect("it runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (status.code().expect("no signal"), text(stdout), text(stderr))
    }
}

/// The newest file of the record.
fn newest(data: &Path) -> PathBuf {
    let files = fs::read_dir(data.join("pacer-decisions")).expect("there is a record");
    files.map(|file| file.expect("a file").path()).max().expect("there is one")
}

#[test]
fn the_record_says_why_there_was_no_bid_and_decides_the_same_again() {
    let folder = folder();
    let server = Server::start(&settings(folder.path()));
    let mut http = connect(&server);
    let now = Timestamp::now();
    let hour = 3_600_000;
    let flights = json!([{"starts_ms": now.as_millisecond() - hour, "ends_ms": now.as_millisecond() + hour}]);
    fund(&mut http, "shoes", FUNDS);
    fund(&mut http, "hats", FUNDS);
    let shoes = put(&mut http, "shoes", &json!({"strategy": {"name": "even"}, "flights": flights}));
    let hats = put(&mut http, "hats", &json!({"keys": [1], "frequency": {"bids_max": 2, "window_s": 3_600}}));
    bid(&mut http, shoes);
    let mut exchange = votes::connect(&server);
    let data = folder.path().join("data");
    let mut first = 1_000;
    // Counts are written each ten seconds.
    let (asking, of_shoes, of_hats) = wait_for("the record tells of both campaigns", || {
        ask(&mut exchange, [shoes, hats], first);
        first += 200;
        let asking = Asking { data: data.clone(), at: Timestamp::now() };
        let (code, said, _) = asking.of("shoes");
        let tells = ["requests from ", "throttled", "worker ", "sampled requests: ", "version 1"];
        let (code_of_hats, of_hats, _) = asking.of("hats");
        let is_told = tells.iter().all(|words| said.contains(words)) && of_hats.contains("requests from ");
        (code == 0 && code_of_hats == 0 && is_told).then_some((asking, said, of_hats))
    });
    assert!(of_shoes.contains("strategy: even.") && of_shoes.contains("no bid, throttled; chance"), "{of_shoes}");
    assert!(of_shoes.contains("throttle in force: since") && !of_shoes.contains(" 0 the same"), "{of_shoes}");
    assert!(of_hats.contains("not_targeted") && of_hats.contains("too often"), "{of_hats}");
    for said in [&of_shoes, &of_hats] {
        assert!(said.contains(", 0 different\n"), "{said}");
    }
    assert!(metrics(&server).contains("tidegate_pacer_decisions_dropped_total 0\n"));

    // What a kill leaves is read, and says the same twice; what is torn behind it is passed over, and that is said.
    server.kill();
    let whole = asking.of("shoes");
    assert_eq!(whole.0, 0);
    assert_eq!(asking.of("shoes"), whole);
    let long_ago = Asking { data: data.clone(), at: asking.at - jiff::SignedDuration::from_hours(48) };
    let (code, _, error) = long_ago.of("shoes");
    let reach = format!("the record reaches from {}", now.to_zoned(jiff::tz::TimeZone::UTC).strftime("%Y-%m-%d"));
    assert!(code == 1 && error.contains(&reach), "{error}");
    let mut file = fs::OpenOptions::new().append(true).open(newest(&asking.data)).expect("it is there");
    file.write_all(&[90, 0, 0, 0, 1, 2, 3, 4, 3]).expect("there is room");
    let (code, said, error) = asking.of("shoes");
    assert_eq!((code, &said), (0, &whole.1));
    assert!(error.contains("are a record that a kill has cut off"), "{error}");
    // One that is whole, and was changed, is no work of a kill.
    file.write_all(&[0; 100]).expect("there is room");
    let (code, said, error) = asking.of("shoes");
    assert_eq!((code, &said), (1, &whole.1));
    assert!(error.contains("were not read: the file is damaged"), "{error}");
    // A record that was changed ends what is read, and nothing is taken for what it is not.
    let path = newest(&asking.data);
    let mut bytes = fs::read(&path).expect("it is there");
    bytes[16 + 9] ^= 1;
    fs::write(&path, bytes).expect("there is room");
    let (code, _, error) = asking.of("shoes");
    assert!(code == 1 && error.contains("knows no campaign \"shoes\""), "{error}");
    let (code, _, error) = Asking { data: folder.path().join("other"), ..asking }.of("shoes");
    assert!(code == 1 && error.contains("has no record of decisions"), "{error}");
}

#[test]
fn a_record_that_cannot_be_written_holds_up_no_bid() {
    let folder = folder();
    let server = Server::start(&settings(folder.path()));
    // The folder cannot be made: a file has its name.
    fs::write(folder.path().join("data/pacer-decisions"), "").expect("there is room");
    let mut http = connect(&server);
    fund(&mut http, "shoes", FUNDS);
    let number = put(&mut http, "shoes", &json!({}));
    bid(&mut http, number);
    server.says("decisions of the pacer are not recorded; bidding goes on");
    wait_for("it is counted", || {
        let shown = metrics(&server);
        let dropped = shown.lines().find_map(|line| line.strip_prefix("tidegate_pacer_decisions_dropped_total "));
        (dropped.expect("it is shown") != "0").then_some(())
    });
    bid(&mut http, number);
    let ended = server.terminate();
    assert!(ended.status.success());
    assert_eq!(ended.log.matches("are not recorded; bidding").count(), 1, "{ended}");
}
