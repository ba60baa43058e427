//! Which data directories are refused: one in use, and one of a version that this program does not know.

use std::fs;

use crate::{Server, Settings, audit, folder};

#[test]
fn a_second_process_on_the_same_directory_is_refused_by_name() {
    let folder = folder();
    let settings = Settings::new(folder.path());
    let first = Server::start(&settings);
    let holder = format!("in use by process {}", first.pid());

    let second = Server::refused(&settings);
    assert!(!second.status.success(), "{second}");
    assert!(second.log.contains(&holder), "{second}");
    assert!(second.log.contains(&settings.data.display().to_string()), "{second}");
    let audited = audit(&settings.data);
    assert!(!audited.status.success() && audited.log.contains(&holder), "{audited}");

    // The lock dies with the process, however it ends.
    first.kill();
    Server::start(&settings).kill();
}

#[test]
fn an_unknown_format_version_is_refused() {
    let folder = folder();
    let settings = Settings::new(folder.path());
    assert!(Server::start(&settings).terminate().status.success());
    let path = settings.data.join("DIRECTORY");
    let text = fs::read_to_string(&path).expect("it describes the directory");
    fs::write(&path, text.replace("format_version = 2\n", "format_version = 3\n")).expect("it can be written");

    for ended in [Server::refused(&settings), audit(&settings.data)] {
        assert!(!ended.status.success(), "{ended}");
        assert!(ended.log.contains("format version 3 is unknown: this program knows version 2"), "{ended}");
    }
    // Nothing was touched: the version put right, it serves.
    fs::write(&path, text).expect("it can be written");
    Server::start(&settings).kill();
}

#[test]
fn another_number_of_shards_is_refused() {
    let folder = folder();
    let settings = Settings::new(folder.path());
    assert!(Server::start(&settings).terminate().status.success());
    let refused = Server::refused(&Settings { shards: 2, workers: 2, ..settings });
    assert!(!refused.status.success() && refused.log.contains("created with 1 shards"), "{refused}");
}
