//! More connections than the process may have files open.

use std::net::{SocketAddr, TcpStream};

use tidegate_client::Outcome;

use crate::http::Http;
use crate::votes::{connect, ids, open_show, votes};
use crate::{Server, Settings, folder, wait_for};

/// Few, as a host gives that nobody has set up.
const OPEN_FILES_MAX: u64 = 640;
fn files_open(server: &Server) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("it runs").count()
}

fn silent(door: SocketAddr, count: usize) -> Vec<TcpStream> {
    (0..count).filter_map(|_| TcpStream::connect(door).ok()).collect()
}

#[test]
fn silent_strangers_leave_the_ledger_its_files() {
    let folder = folder();
    let mut settings = Settings { open_files_max: Some(OPEN_FILES_MAX), mqtt: true, ..Settings::new(folder.path()) };
    settings.sections = "[mqtt]\nhandshake_timeout_ms = 600000\n".into();
    let server = Server::start(&settings);
    server.says("fewer than configured, by the limit of open files");
    let mut shop = connect(&server);
    open_show(&mut shop);
    let before = files_open(&server);
    let strangers: Vec<_> =
        [server.http, server.binary, server.mqtt()].into_iter().map(|door| silent(door, 400)).collect();
    wait_for("strangers are taken", || (files_open(&server) > before + 100).then_some(()));
    assert!(files_open(&server) + 20 < OPEN_FILES_MAX as usize, "{} files are open", files_open(&server));

    // Two segments more. What was connected before goes on, and journals have their files.
    let segments = || {
        let names = std::fs::read_dir(settings.data.join("journal/ledger-0")).expect("the journal is there");
        names
            .filter(|name| name.as_ref().is_ok_and(|name| name.file_name().to_string_lossy().starts_with("segment-")))
            .count()
    };
    for batch in 0.. {
        if segments() >= 3 {
            break;
        }
        let ids = ids(&format!("batch-{batch}"), 4_000);
        let outcomes = shop.transfers(&votes(&ids)).expect("the ledger decides");
        assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Applied), "in batch {batch}");
    }
    drop(strangers);
    let mut web = wait_for("somebody new is served", || {
        let mut web = Http::connect(server.http).ok()?;
        web.get("/healthz").ok().filter(|answer| answer.status == 200).map(|_| web)
    });
    assert_eq!(web.get("/healthz").expect("an answer").body["status"], "ok");
    assert!(server.terminate().status.success());
}
