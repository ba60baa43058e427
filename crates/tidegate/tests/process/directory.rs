//! Which data directories are refused: one in use, and one of a version that this program does not know.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use tidegate_journal::Cursor;
use tidegate_journal::segment::segment_name;

use crate::moved::directory_fault;
use crate::support::server::{as_nobody, command};
use crate::votes::{connect, ids, open_show, votes};
use crate::{Server, Settings, audit, folder, tool, wait_for};

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
fn a_second_process_is_refused_although_the_lock_was_removed() {
    let folder = folder();
    let settings = Settings::new(folder.path());
    let first = Server::start(&settings);
    open_show(&mut connect(&first));
    let lock = settings.data.join("LOCK");
    fs::remove_file(&lock).expect("it was there");
    let second = Server::refused(&settings);
    assert!(!second.status.success() && second.log.contains("it is in use by"), "{second}");
    wait_for("the lock is made anew", || lock.exists().then_some(()));
    wait_for("the log says so", || first.log().contains("LOCK: it was removed or replaced").then_some(()));
    let holder = format!("in use by process {}", first.pid());
    let audited = audit(&settings.data);
    assert!(!audited.status.success() && audited.log.contains(&holder), "{audited}");
    assert!(first.terminate().status.success());
    let audited = audit(&settings.data);
    assert!(audited.status.success(), "{audited}");
}

#[test]
fn tools_say_of_a_directory_without_its_description_what_a_start_says() {
    let folder = folder();
    let settings = Settings::new(folder.path());
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    assert!(server.terminate().status.success());
    fs::remove_file(settings.data.join("DIRECTORY")).expect("it was there");
    let copies = folder.path().join("copies").display().to_string();
    let tools: [&[&str]; 4] =
        [&["audit"], &["accept-loss", "--reason", "x"], &["mend-time", "--to", "now"], &["backup", "--to", &copies]];
    for arguments in tools {
        let refused = tool(&settings.data, arguments);
        assert!(!refused.status.success(), "{refused}");
        assert!(refused.log.contains("every backup has it, as backups/NAME/DIRECTORY"), "{arguments:?}: {refused}");
    }
    // The folder around it was never a data directory.
    let around = audit(folder.path());
    assert!(around.log.contains("not a data directory, or one that never started"), "{around}");
}

#[test]
fn a_key_and_a_description_that_are_lost_under_a_server_are_put_back() {
    let folder = folder();
    let settings = Settings { snapshot_interval_s: 1, ..Settings::new(folder.path()) };
    let server = Server::start(&settings);
    let mut client = connect(&server);
    open_show(&mut client);
    let snapshots = settings.data.join("snapshots/ledger-0");
    let is_snapshot = |name: &str| name.starts_with("snapshot-") && name.ends_with(".tgs");
    let listed = || -> Vec<String> {
        let entries = fs::read_dir(&snapshots).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    client.transfers(&votes(&ids("first", 100))).expect("the server serves");
    wait_for("there is a snapshot", || listed().iter().any(|name| is_snapshot(name)).then_some(()));
    let (key, description) = (settings.data.join("KEY"), settings.data.join("DIRECTORY"));
    let was = [&key, &description].map(|path| fs::read(path).expect("it is there"));
    fs::remove_file(&key).expect("it was there");
    fs::remove_file(&description).expect("it was there");
    let before = listed();
    client.transfers(&votes(&ids("second", 100))).expect("the server serves");
    wait_for("there is another snapshot", || (listed() != before).then_some(()));
    wait_for("both are put back", || (key.exists() && description.exists()).then_some(()));
    assert_eq!([&key, &description].map(|path| fs::read(path).expect("it is there")), was);
    wait_for("the log says so", || server.log().contains("KEY: it was missing while the server runs").then_some(()));
    assert_eq!(directory_fault(&server), "", "nothing is left to do");
    let names = listed();
    assert!(names.iter().all(|name| is_snapshot(name) || name == "unfinished"), "none is set aside: {names:?}");
    // The newest of them is of use, however the server ends.
    server.kill();
    let server = Server::start(&settings);
    assert!(!server.log().contains("passed over"), "{}", server.log());
    assert!(server.terminate().status.success());
    let audited = audit(&settings.data);
    assert!(audited.status.success(), "{audited}");
}

#[test]
fn what_is_wrong_with_a_key_is_said_by_backup_and_audit() {
    let folder = folder();
    let settings = Settings::new(folder.path());
    assert!(Server::start(&settings).terminate().status.success());
    let key = settings.data.join("KEY");
    let mut bytes = fs::read(&key).expect("it is there");
    bytes[6] ^= 1;
    fs::write(&key, bytes).expect("it can be written");
    let backups = folder.path().join("backups");
    let [data, to] = [&settings.data, &backups].map(|path| path.to_str().expect("a plain name"));
    for ended in [command(&["backup", "--data", data, "--to", to]), audit(&settings.data), Server::refused(&settings)] {
        assert!(!ended.status.success() && ended.log.contains("KEY: cannot read: it is damaged"), "{ended}");
    }
    assert!(!backups.exists());
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

/// Whether this test may do what only root may.
fn is_root() -> bool {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// All below a folder, with their owners, but what is locked and unlocked.
fn owners(folder: &Path, found: &mut Vec<(String, u32)>) {
    for entry in fs::read_dir(folder).expect("it is there").flatten() {
        let owner = entry.metadata().expect("it is there").uid();
        found.push((entry.path().display().to_string(), owner));
        if entry.path().is_dir() {
            owners(&entry.path(), found);
        }
    }
    found.sort();
}

fn give_to(path: &Path, uid: u32) {
    chown(path, Some(uid), Some(uid)).expect("root may");
    if path.is_dir() {
        fs::read_dir(path).expect("it is there").flatten().for_each(|entry| give_to(&entry.path(), uid));
    }
}

/// What another user writes, the owner could not read: nothing is begun.
#[test]
fn a_directory_of_another_user_is_refused_by_all_that_writes_and_left_as_it_is() {
    if !is_root() {
        eprintln!("only root can give a directory to somebody else");
        return;
    }
    let folder = folder();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    let settings = Settings { snapshot_interval_s: 1, ..Settings::new(folder.path()) };
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    let manifest = settings.data.join("ids/ledger-0/manifest");
    wait_for("a manifest of ids", || manifest.exists().then_some(()));
    assert!(server.terminate().status.success());
    let (data, store) = (settings.data.to_str().expect("a plain name"), folder.path().join("store"));
    fs::remove_file(settings.data.join("LOCK")).expect("nobody uses it");
    give_to(&settings.data, 65_534);
    let found = || {
        let mut found = Vec::new();
        owners(&settings.data, &mut found);
        found
    };
    let before = found();
    fs::create_dir(&store).expect("it can be made");
    let to = store.to_str().expect("a plain name");
    for writes in [
        &["archive", "--data", data, "--to", to, "--keep-segments", "0"][..],
        &["mend-time", "--to", "now", "--data", data],
        &["accept-loss", "--reason", "none", "--yes", "--data", data],
        &["serve", "--http", "off", "--binary", "off", "--mqtt", "off", "--data", data],
    ] {
        let refused = command(writes);
        for words in ["(uid 65534), and this is run by root (uid 0)", "Run it as that user: put `sudo -u "] {
            assert!(refused.status.code() == Some(1) && refused.log.contains(words), "{writes:?}: {refused}");
        }
        assert_eq!(found(), before, "{writes:?}");
    }
    // Who only reads may do so, and makes no file that the owner could not lock.
    for reads in [&["audit", "--data", data][..], &["accept-loss", "--reason", "none", "--data", data]] {
        let read = command(reads);
        assert!(read.status.success(), "{reads:?}: {read}");
        assert_eq!(found(), before, "{reads:?}");
    }
    let audited = as_nobody(&["audit", "--data", data]);
    assert!(audited.status.success(), "{audited}");

    // What is denied is said with its owner, once.
    give_to(&manifest, 0);
    let refused = as_nobody(&["serve", "--http", "off", "--binary", "off", "--mqtt", "off", "--data", data]);
    let words =
        "manifest: Permission denied (os error 13): it belongs to root (uid 0) with mode 600, and this is run by ";
    assert!(!refused.status.success() && refused.log.contains(words), "{refused}");
    assert_eq!(refused.log.matches("os error 13").count(), 1, "{refused}");
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
        let words = match is_root() {
            true => "Nothing was changed. Run it as that user: put `sudo -u root` before the command",
            false => "its file LOCK, which keeps others out, cannot be written: Permission denied",
        };
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
