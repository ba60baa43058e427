//! Which data directories are refused: one in use, and one of a version that this program does not know.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tidegate_journal::Cursor;
use tidegate_journal::segment::segment_name;

use crate::support::server::as_nobody;
use crate::votes::{connect, open_show};
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
    for version in ["4", "2", "1"] {
        let other = text.replace("format_version = 3\n", &format!("format_version = {version}\n"));
        fs::write(&path, other).expect("it can be written");
        for ended in [Server::refused(&settings), audit(&settings.data)] {
            assert!(!ended.status.success(), "{ended}");
            let words =
                format!("format version {version} is unknown: this program knows version 3 and converts nothing");
            assert!(ended.log.contains(&words), "{ended}");
        }
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
    assert!(refused.log.contains("Set data.shards = 1"), "{refused}");
}

#[test]
fn a_journal_of_the_format_before_is_refused_by_name_and_left_as_it_is() {
    let folder = folder();
    let settings = Settings::new(folder.path());
    assert!(Server::start(&settings).terminate().status.success());
    let path = settings.data.join("journal/ledger-0").join(segment_name(Cursor::START.position));
    let written = fs::read(&path).expect("it is read");
    let mut older = written.clone();
    // Two bytes of version, low byte first, then the shard; the checksum is over the 72 bytes before it.
    older[8..12].copy_from_slice(&[1, 0, 0, 0]);
    let checksum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &older[..72]) as u32;
    older[72..76].copy_from_slice(&checksum.to_le_bytes());
    fs::write(&path, &older).expect("it can be written");
    for ended in [Server::refused(&settings), audit(&settings.data)] {
        assert!(!ended.status.success(), "{ended}");
        assert!(ended.log.contains("format version 1 is unknown: this program knows version 2"), "{ended}");
        assert!(ended.log.contains("begin a new one with this program"), "{ended}");
    }
    assert!(fs::read(&path).expect("it is read") == older, "nothing was changed");
    fs::write(&path, written).expect("it can be written");
    Server::start(&settings).kill();
}

/// Takes the right to write from everybody, or gives it back to the owner.
fn set_writable(path: &Path, writable: bool) {
    let is_folder = path.is_dir();
    let mode = match (is_folder, writable) {
        (true, true) => 0o755,
        (true, false) => 0o555,
        (false, true) => 0o644,
        (false, false) => 0o444,
    };
    if is_folder {
        for entry in fs::read_dir(path).expect("it is there") {
            set_writable(&entry.expect("it can be read").path(), writable);
        }
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

#[test]
fn a_directory_that_may_only_be_read_is_audited_and_left_as_it_is() {
    let folder = folder();
    // Nobody may go through the folder of somebody else's test.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    let settings = Settings::new(folder.path());
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    server.kill();
    let lock = settings.data.join("LOCK");
    let holder = fs::read(&lock).expect("it is there");
    set_writable(&settings.data, false);
    let audited = as_nobody(&["audit", "--data", settings.data.to_str().expect("a plain name")]);
    assert!(audited.status.success() && audited.log.contains("all agree"), "{audited}");
    assert_eq!(fs::read(&lock).expect("it is there"), holder, "nothing was written");
    // What would write says at once that it may not, and why.
    let data = settings.data.to_str().expect("a plain name");
    for writes in [
        &["mend-time", "--to", "now", "--data", data][..],
        &["accept-loss", "--reason", "none", "--yes", "--data", data],
        &["serve", "--http", "off", "--binary", "off", "--mqtt", "off", "--data", data],
    ] {
        let refused = as_nobody(writes);
        let words = "its file LOCK, which keeps others out, cannot be written: Permission denied";
        assert!(refused.status.code() == Some(1) && refused.log.contains(words), "{writes:?}: {refused}");
    }

    // Damage is named by its path, and a server that uses the directory by its process.
    let segment = settings.data.join("journal/ledger-0").join(segment_name(Cursor::START.position));
    let good = fs::read(&segment).expect("it is read");
    let mut bad = good.clone();
    bad[4_300] ^= 1;
    set_writable(&settings.data, true);
    fs::write(&segment, bad).expect("it can be written");
    set_writable(&settings.data, false);
    let audited = as_nobody(&["audit", "--data", settings.data.to_str().expect("a plain name")]);
    assert!(!audited.status.success() && audited.log.contains(segment.to_str().expect("plain")), "{audited}");
    set_writable(&settings.data, true);
    fs::write(&segment, good).expect("it can be written");
    let server = Server::start(&settings);
    set_writable(&settings.data, false);
    let audited = as_nobody(&["audit", "--data", settings.data.to_str().expect("a plain name")]);
    let words = format!("in use by process {}", server.pid());
    assert!(!audited.status.success() && audited.log.contains(&words), "{audited}");
    set_writable(&settings.data, true);
    server.kill();
}
