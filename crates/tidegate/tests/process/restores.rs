//! Restores that do not come to their end: what they leave, and what comes after them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::backup::{backup, restore, restored, text, verified};
use crate::full_disk::{DISK_BYTES, SmallDisk, allocate};
use crate::support::server::BINARY;
use crate::votes::{connect, ids, open_show, votes};
use crate::{Server, Settings, audit, folder, wait_for};

/// Votes of one request: some 3 MiB of journal.
const VOTES: usize = 8_000;
const REQUESTS: usize = 6;
/// Less than what is restored, and enough to begin.
const ROOM_BYTES: u64 = 6 << 20;
/// A restore may come to its end before it is killed.
const ATTEMPTS: usize = 20;

/// A backup of many votes.
struct Show {
    folder: TempDir,
    settings: Settings,
    backups: PathBuf,
}

impl Show {
    fn backed_up() -> Show {
        let folder = folder();
        let settings = Settings::new(folder.path());
        let backups = folder.path().join("backups");
        let server = Server::start(&settings);
        let mut client = connect(&server);
        open_show(&mut client);
        for request in 0..REQUESTS {
            client.transfers(&votes(&ids(&format!("vote-{request}"), VOTES))).expect("they are taken");
        }
        backup(&settings.data, &backups);
        server.kill();
        let ended = verified(&backups);
        assert!(ended.status.success(), "{ended}");
        Show { folder, settings, backups }
    }

    /// What is restored has all votes, and a server starts on it.
    fn is_served(&self, data: &Path) {
        let server = Server::start(&Settings { data: data.to_path_buf(), ..self.settings.clone() });
        let balance = connect(&server).account("candidate:1").expect("it is there").balance;
        assert_eq!(usize::try_from(balance), Ok(REQUESTS * VOTES));
        server.kill();
    }
}

#[test]
fn a_restore_onto_a_full_disk_leaves_nothing_and_is_done_again_when_there_is_room() {
    let show = Show::backed_up();
    let disk = match SmallDisk::mount(show.folder.path().join("disk")) {
        Ok(disk) => disk,
        Err(error) => {
            eprintln!("SKIPPED: a small disk cannot be mounted here ({error}); run as root to test a full disk");
            return;
        }
    };
    let (ballast, data, inside) = (disk.0.join("ballast"), disk.0.join("data"), disk.0.join("empty"));
    allocate(&ballast, DISK_BYTES - ROOM_BYTES).expect("the disk has room for it");
    fs::create_dir(&inside).expect("it is made");
    for data in [&data, &inside] {
        let ended = restore(&show.backups, data, &[]);
        assert!(!ended.status.success() && ended.log.contains("No space left"), "{ended}");
    }
    assert!(!data.exists(), "nothing is left");
    assert_eq!(fs::read_dir(&inside).expect("it was there before").count(), 0);
    fs::remove_file(&ballast).expect("it is there");
    restored(&show.backups, &data, &[]);
    show.is_served(&data);
}

#[test]
fn a_restore_that_was_killed_is_refused_by_a_start_and_replaced_by_another_restore() {
    let show = Show::backed_up();
    let data = (0..ATTEMPTS).map(|attempt| show.folder.path().join(format!("restored-{attempt}"))).find(|data| {
        let mut command = Command::new(BINARY);
        command.args(["restore", "--from", text(&show.backups), "--data", text(data)]);
        let mut restoring = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        wait_for("a log is filled", || data.join("journal/ledger-0").is_dir().then_some(()));
        restoring.kill().expect("it was started");
        restoring.wait().expect("it was killed");
        !data.join("DIRECTORY").exists()
    });
    let data = data.expect("one is killed before its end");
    let words = "a restore was writing it and did not come to its end";
    let refused = Server::refused(&Settings { data: data.clone(), ..show.settings.clone() });
    for ended in [refused, audit(&data)] {
        assert!(!ended.status.success() && ended.log.contains(words), "{ended}");
        assert!(ended.log.contains("restore into it again") && ended.log.contains(text(&data)), "{ended}");
    }
    // Nothing is removed for a backup that is not there.
    let refused = restore(&show.backups, &data, &["--backup", "none"]);
    assert!(!refused.status.success() && data.join("RESTORE-UNFINISHED").exists(), "{refused}");
    restored(&show.backups, &data, &[]);
    assert!(!data.join("RESTORE-UNFINISHED").exists());
    show.is_served(&data);
}
