//! Segments that were moved out of the data directory: what is read from there, and what is missing without them.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::commands::Operator;
use crate::http::Http;
use crate::metrics::metric;
use crate::support::server::command;
use crate::support::within;
use crate::votes::{connect, ids, open_show, votes};
use crate::{Ended, Server, Settings, audit, folder, wait_for};

/// Votes of a request, and requests: some four segments.
const VOTES: usize = 8_000;
const REQUESTS: usize = 24;

fn text(path: &Path) -> &str {
    path.to_str().expect("a test's folder has a plain name")
}

fn archive(data: &Path, to: &str, keep: &str) -> Ended {
    command(&["archive", "--data", text(data), "--to", to, "--keep-segments", keep])
}

/// All segment files below a folder.
fn segments(root: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(root).expect("it is there").flatten() {
        match entry.path() {
            path if path.is_dir() => paths.extend(segments(&path)),
            path => paths.push(path),
        }
    }
    paths.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("segment-")));
    paths.sort();
    paths
}

/// A server whose ledger has several sealed segments.
fn filled(settings: &Settings) -> Server {
    let server = Server::start(settings);
    let mut client = connect(&server);
    open_show(&mut client);
    for number in 0..REQUESTS {
        let ids = ids(&format!("vote-{number}"), VOTES);
        assert!(client.transfers(&votes(&ids)).expect("it serves").iter().all(|outcome| outcome.is_done()));
    }
    server
}

/// Waits until a restart needs only the last sealed segment and what is behind it, which [`archive`] leaves when it is
/// told to keep one: a snapshot stands there, and the ids cover all before it.
///
/// Why from the files' fields and not from when they were written: a manifest is also written for a run that is full,
/// long before the ids cover a snapshot.
fn wait_for_cover(data: &Path) {
    // Offsets: docs/formats/snapshot.md, docs/formats/ids.md.
    let word = |path: &Path, at: usize| {
        let bytes = fs::read(path).ok()?;
        Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().expect("eight bytes")))
    };
    let sealed = segments(&data.join("journal/ledger-0"));
    let kept = sealed[sealed.len() - 2].file_stem().and_then(|name| name.to_str()?.strip_prefix("segment-"));
    let kept: u64 = kept.and_then(|position| position.parse().ok()).expect("a position");
    let (snapshots, manifest) = (data.join("snapshots/ledger-0"), data.join("ids/ledger-0/manifest"));
    wait_for("a snapshot, and ids that cover it", || {
        let paths = fs::read_dir(&snapshots).ok()?.flatten().map(|entry| entry.path());
        let written = paths.filter(|path| path.extension().is_some_and(|extension| extension == "tgs"));
        let stands = written.filter_map(|path| word(&path, 24)).max()?;
        let covered = word(&manifest, 40)?;
        (stands >= kept && covered + 1 >= kept).then_some(())
    });
}

/// The first record of the ledger about this wallet, however far back it is.
fn first_row(server: &Server) -> String {
    let mut http = Http::connect(server.http).expect("the door is open");
    let mut path = "/v1/accounts/wallet:carol/transfers?limit=5".to_owned();
    loop {
        let page = http.get(&path).expect("the door answers");
        assert_eq!(page.status, 200, "{page:?}");
        let rows = page.body["transfers"].as_array().expect("rows").clone();
        match page.body["next"].as_str() {
            Some(next) => path = format!("/v1/accounts/wallet:carol/transfers?limit=5&before={next}"),
            None => return rows.last().expect("a row")["id"].as_str().expect("an id").to_owned(),
        }
    }
}

/// A vote from the first request, asked again: its record is read.
fn repeats(server: &Server) {
    let outcomes = connect(server).transfers(&votes(&ids("vote-0", 3))).expect("it serves");
    assert!(outcomes.iter().all(|outcome| outcome.is_done()), "{outcomes:?}");
}

#[test]
fn what_was_archived_while_serving_is_read_from_there_and_missing_without() {
    let folder = folder();
    let settings = Settings { snapshot_interval_s: 1, ..Settings::new(folder.path()) };
    let store = folder.path().join("store");
    let server = filled(&settings);
    let journal = settings.data.join("journal/ledger-0");
    let before = segments(&journal).len();
    assert!(before >= 4, "{before}");

    let ended = archive(&settings.data, text(&store), "1");
    assert!(ended.status.success() && ended.log.contains(&format!("{} segments", before - 2)), "{ended}");
    assert_eq!((segments(&journal).len(), segments(&store).len()), (2, before - 2));
    assert_eq!(first_row(&server), "wallet:carol");
    repeats(&server);
    assert!(server.terminate().status.success());
    let audited = audit(&settings.data);
    assert!(audited.status.success(), "{audited}");

    // Also after a start, also without anything derived.
    for derived in ["snapshots", "ids"] {
        let path = settings.data.join(derived);
        if path.exists() {
            fs::remove_dir_all(&path).expect("nobody uses it");
        }
    }
    let server = Server::start(&settings);
    assert_eq!(first_row(&server), "wallet:carol");
    repeats(&server);
    let balance = connect(&server).account("candidate:1").expect("it is there").balance;
    assert_eq!(balance, (VOTES * REQUESTS) as i64);

    // A backup has what was archived, and needs no archive when it is restored.
    let (backups, restored) = (folder.path().join("backups"), folder.path().join("restored"));
    let taken = command(&["backup", "--data", text(&settings.data), "--to", text(&backups)]);
    assert!(taken.status.success(), "{taken}");
    server.kill();
    without_its_list(&settings, &store);
    let hidden = folder.path().join("hidden");
    fs::rename(&store, &hidden).expect("nobody uses it");
    let ended = command(&["restore", "--from", text(&backups), "--data", text(&restored)]);
    assert!(ended.status.success(), "{ended}");
    let audited = audit(&restored);
    assert!(audited.status.success(), "{audited}");

    let audited = audit(&settings.data);
    assert!(!audited.status.success() && audited.log.contains(text(&store)), "{audited}");
    // A backup that has none of it needs the archive, too. Both name it, where its name stands, and what to do.
    let anew = folder.path().join("anew");
    let refused = command(&["backup", "--data", text(&settings.data), "--to", text(&anew)]);
    let away = format!(
        "It was moved to the archive {} (`archive.to` of the configuration, or `--to` of `tidegate archive`), which is \
         not there: mount its disk",
        text(&store)
    );
    assert!(!refused.status.success() && refused.log.contains(&away), "{refused}");
    assert!(audited.log.contains(&away), "{audited}");
    fs::rename(&hidden, &store).expect("it is put back");
    // A bit of an archived segment is found, and named with its file; so are two, of which nobody can tell what they
    // were.
    let victim = segments(&store).remove(0);
    let mut bytes = fs::read(&victim).expect("it is there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&victim, &bytes).expect("it can be written");
    let audited = audit(&settings.data);
    let named = format!("WRONG BYTE: {}: ", text(&victim));
    assert!(!audited.status.success() && audited.log.contains(&named), "{audited}");
    bytes[middle + 1] ^= 1;
    fs::write(&victim, &bytes).expect("it can be written");
    let audited = audit(&settings.data);
    let named = format!("{}: damaged at offset", text(&victim));
    assert!(!audited.status.success() && audited.log.contains(&named), "where it is, not where it was: {audited}");
    // A backup says what to do about it, also if its end is missing.
    let whole = bytes.len() as u64;
    for left in [whole, whole / 3] {
        fs::OpenOptions::new().write(true).open(&victim).and_then(|file| file.set_len(left)).expect("it can be cut");
        let refused = command(&["backup", "--data", text(&settings.data), "--to", text(&anew)]);
        let what = format!(
            "It was moved to the archive {} (`archive.to` of the configuration, or `--to` of `tidegate archive`): put \
             it back there from a copy of the archive",
            text(&store)
        );
        let says = refused.log.contains(text(&victim)) && refused.log.contains(&what);
        assert!(!refused.status.success() && says, "{left} of {whole} bytes: {refused}");
    }
}

/// Where no segment was moved, a damaged `ARCHIVE` stops nothing, and nothing says that it would.
#[test]
fn a_damaged_list_of_nothing_is_told_and_stops_no_start() {
    let folder = folder();
    let settings = Settings::new(folder.path());
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    assert!(server.terminate().status.success());
    fs::write(settings.data.join("ARCHIVE"), "tidegate archive\nhalf a l").expect("it can be written");
    for _ in 0..2 {
        let server = Server::start(&settings);
        let told = wait_for("health says so", || {
            let health =
                Http::connect(server.http).and_then(|mut http| http.get("/healthz")).expect("the door answers");
            Some(health.body["directory"].as_str()?.to_owned())
        });
        assert!(
            told.contains("the next start is refused; with a damaged ARCHIVE only if segments were moved"),
            "{told}"
        );
        wait_for("the log says so", || {
            server.log().contains("If none was moved, it is enough to remove it").then_some(())
        });
        assert!(server.terminate().status.success());
    }
    fs::remove_file(settings.data.join("ARCHIVE")).expect("it is there");
    assert!(audit(&settings.data).status.success());
}

/// A start without `ARCHIVE` asks for it and says what to do without; that helps.
fn without_its_list(settings: &Settings, store: &Path) {
    let (list, journal) = (settings.data.join("ARCHIVE"), settings.data.join("journal/ledger-0"));
    let listed = fs::read(&list).expect("it is there");
    fs::remove_file(&list).expect("nobody uses it");
    let refused = Server::refused(settings);
    for words in ["put back the newest ARCHIVE", "/ledger-0/segment-POSITION-….tgj of the archive to journal/ledger-0/"]
    {
        assert!(refused.log.contains(words), "{words:?} is not in: {refused}");
    }
    let moved = segments(store);
    let names = moved.iter().map(|path| path.file_name().expect("a file").to_string_lossy().into_owned());
    let back: Vec<PathBuf> = names.map(|name| journal.join(format!("{}.tgj", &name[..28]))).collect();
    moved.iter().zip(&back).for_each(|(from, to)| _ = fs::copy(from, to).expect("there is room"));
    let server = Server::start(settings);
    assert_eq!(first_row(&server), "wallet:carol");
    server.kill();
    back.iter().for_each(|path| fs::remove_file(path).expect("nobody uses it"));
    fs::write(&list, listed).expect("it can be written");
}

#[test]
fn nothing_is_removed_that_was_not_read_back() {
    let folder = folder();
    let settings = Settings::new(folder.path());
    let server = filled(&settings);
    assert!(server.terminate().status.success());
    let journal = settings.data.join("journal/ledger-0");
    let before = segments(&journal);
    for to in ["gs://bucket/x", "/dev/null/archive"] {
        let refused = archive(&settings.data, to, "0");
        assert!(!refused.status.success() && refused.log.contains(to), "{refused}");
        assert_eq!(segments(&journal), before);
    }
    let inside = archive(&settings.data, text(&settings.data.join("archive")), "0");
    assert!(!inside.status.success() && inside.log.contains("never inside of it"), "{inside}");
    let none = archive(&settings.data, text(&folder.path().join("none")), "1000");
    assert!(none.status.success() && none.log.contains("nothing to move: "), "{none}");
    assert_eq!(segments(&journal), before);
    // A segment that is damaged stays where it is, and is named.
    let mut bytes = fs::read(&before[1]).expect("it is there");
    bytes[5_000] ^= 1;
    fs::write(&before[1], bytes).expect("it can be written");
    let store = folder.path().join("store");
    let refused = archive(&settings.data, text(&store), "0");
    assert!(!refused.status.success() && refused.log.contains(text(&before[1])), "{refused}");
    assert!(refused.log.contains("Segments that were moved before, and are listed: 1"), "{refused}");
    assert_eq!((segments(&journal), segments(&store).len()), (before[1..].to_vec(), 1));
}

#[test]
fn a_start_fetches_nothing_for_seeds_and_one_that_cannot_be_read_is_left_undone() {
    let folder = folder();
    let seeds = "[[seed.account]]\nid = \"source:gifts\"\nasset = \"credit\"\nkind = \"source\"\n\
                 [[seed.account]]\nid = \"wallet:gift\"\nasset = \"credit\"\nkind = \"wallet\"\n\
                 [[seed.transfer]]\nid = \"the-gift\"\ndebit = \"source:gifts\"\ncredit = \"wallet:gift\"\n\
                 amount = 10\n";
    let settings = Settings { snapshot_interval_s: 1, sections: seeds.into(), ..Settings::new(folder.path()) };
    let (store, hidden) = (folder.path().join("store"), folder.path().join("hidden"));
    let gift = |server: &Server| connect(server).account("wallet:gift").expect("it is there").balance;
    let server = filled(&settings);
    wait_for_cover(&settings.data);
    assert!(server.terminate().status.success());
    let first = segments(&settings.data.join("journal/ledger-0")).remove(0);
    let sound = fs::read(&first).expect("it is there");

    // The record of the seed rots, by more than a byte: nobody can tell, and everybody is served.
    let at = sound.windows(8).position(|window| window == b"the-gift").expect("the first segment has it");
    let mut rotten = sound.clone();
    rotten[at..at + 2].fill(b'?');
    fs::write(&first, &rotten).expect("it can be written");
    let server = Server::start(&settings);
    assert_eq!(gift(&server), 10, "it is not made again");
    repeats(&server);
    // A start may seal one more segment, behind which a snapshot stands a second later.
    wait_for_cover(&settings.data);
    let ended = server.terminate();
    let said = "nobody can tell whether the transfer of this seed was made";
    assert!(ended.log.contains(said) && ended.log.contains("segment-00000000000000000000"), "{ended}");
    fs::write(&first, &sound).expect("it can be written");

    // The archive that has it is out of reach: nothing is asked of it.
    let ended = archive(&settings.data, text(&store), "1");
    assert!(ended.status.success(), "{ended}");
    fs::rename(&store, &hidden).expect("nobody uses it");
    let server = Server::start(&settings);
    assert_eq!(gift(&server), 10);
    let ended = server.terminate();
    assert!(!ended.log.contains(said), "{ended}");
}

/// What was moved to an archive that is away for a while is refused, and served again when it is back, without a
/// restart; the log says it in one line.
#[test]
fn an_archive_that_comes_back_is_sound_within_seconds() {
    let folder = folder();
    let settings = Settings { snapshot_interval_s: 1, ..Settings::new(folder.path()) };
    let (store, hidden) = (folder.path().join("store"), folder.path().join("hidden"));
    let server = filled(&settings);
    wait_for_cover(&settings.data);
    assert!(server.terminate().status.success());
    let ended = archive(&settings.data, text(&store), "1");
    assert!(ended.status.success(), "{ended}");
    let server = Server::start(&settings);
    let health =
        || Http::connect(server.http).and_then(|mut http| http.get("/healthz")).expect("the door answers").body;
    assert_eq!(health(), serde_json::json!({"status": "ok"}));
    fs::rename(&store, &hidden).expect("nobody uses it");
    // Many records of one segment.
    let outcomes = connect(&server).transfers(&votes(&ids("vote-1", 900))).expect("it serves");
    let refused = outcomes.iter().filter(|outcome| !outcome.is_done()).count();
    assert!(refused > 0, "what is away is not guessed");
    assert_eq!(health()["status"], "degraded");
    server.says("a file cannot be opened");
    let lines = server.log().matches("a file cannot be opened").count();
    assert!((1..=4).contains(&lines), "one for each file that was asked for: {}", server.log());
    fs::rename(&hidden, &store).expect("it is put back");
    let well = within(Duration::from_secs(60), || (health() == serde_json::json!({"status": "ok"})).then_some(()));
    assert!(well.is_some(), "{}", health());
    let outcomes = connect(&server).transfers(&votes(&ids("vote-1", 900))).expect("it serves");
    assert!(outcomes.iter().all(|outcome| outcome.is_done()), "{:?}", outcomes[0]);
}

/// Keeps everybody from changing the list of what was moved, as `tidegate archive` does.
fn hold_the_list(data: &Path) -> fs::File {
    let file = fs::OpenOptions::new().create(true).truncate(false).write(true).open(data.join("ARCHIVE.lock"));
    let file = file.expect("the directory may be written");
    // SAFETY: the descriptor is open; the call touches no memory of ours.
    assert_eq!(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) }, 0, "nobody has it for long");
    file
}

/// The list of what was moved is lost while it is served: who needs what was moved is refused, everybody else is
/// served, and the server puts the list back as soon as it may.
#[test]
fn a_list_of_what_was_archived_that_is_lost_while_serving_fails_nobody_else() {
    let folder = folder();
    let settings = Settings { snapshot_interval_s: 1, ..Settings::new(folder.path()) };
    let (store, list) = (folder.path().join("store"), settings.data.join("ARCHIVE"));
    let server = filled(&settings);
    wait_for_cover(&settings.data);
    assert!(server.terminate().status.success());
    let ended = archive(&settings.data, text(&store), "1");
    assert!(ended.status.success(), "{ended}");
    let good = fs::read(&list).expect("it is there");
    let mut flipped = good.clone();
    flipped[60] ^= 1;
    let server = Server::start(&settings);
    let health = || {
        let health = Http::connect(server.http).and_then(|mut http| http.get("/healthz")).expect("the door answers");
        assert_eq!(health.status, 200, "{health:?}");
        health.body
    };
    for (number, (lost, bytes)) in
        [("damaged", Some(&flipped[..])), ("damaged", Some(&[][..])), ("missing", None)].into_iter().enumerate()
    {
        let held = hold_the_list(&settings.data);
        match bytes {
            Some(bytes) => fs::write(&list, bytes).expect("it can be written"),
            None => fs::remove_file(&list).expect("it is there"),
        }
        wait_for("health says so", || {
            let directory = health()["directory"].as_str().unwrap_or("").to_owned();
            (directory.starts_with("unwritten: ") && directory.contains("ARCHIVE")).then_some(())
        });
        // Many records of the first segment.
        let outcomes = connect(&server).transfers(&votes(&ids("vote-1", 900))).expect("it serves");
        // What cannot be found is not guessed. A segment that is open since it was last needed is found.
        let is_told = |outcome: &tidegate_client::Outcome| format!("{outcome:?}").contains("\"damaged\"");
        assert!(outcomes.iter().all(|outcome| outcome.is_done() || is_told(outcome)), "{outcomes:?}");
        let mut http = Http::connect(server.http).expect("the door is open");
        let account = http.get("/v1/accounts/wallet:carol").expect("the door answers");
        assert_eq!(account.status, 200, "{account:?}");
        let new = connect(&server).transfers(&votes(&ids(&format!("new-{number}"), 10))).expect("it serves");
        assert!(new.iter().all(|outcome| outcome.is_done()), "{new:?}");
        drop(held);
        let well = within(Duration::from_secs(60), || (health() == serde_json::json!({"status": "ok"})).then_some(()));
        assert!(well.is_some(), "{}", health());
        assert_eq!(fs::read(&list).expect("it is put back"), good);
        let outcomes = connect(&server).transfers(&votes(&ids("vote-1", 900))).expect("it serves");
        assert!(outcomes.iter().all(|outcome| outcome.is_done()), "{:?}", outcomes[0]);
        server.says(&format!("ARCHIVE: it was {lost} while the server runs"));
    }
    assert!(server.terminate().status.success());

    // A start is told what works without a copy of the list.
    fs::write(&list, &flipped).expect("it can be written");
    let refused = Server::refused(&settings);
    for words in [text(&list), "Put back the newest ARCHIVE; without one, remove it, and copy each ID/LOG/segment-"] {
        assert!(refused.log.contains(words), "{words:?} is not in: {refused}");
    }
    for from in segments(&store) {
        let name = from.file_name().expect("a file").to_string_lossy().into_owned();
        let to = settings.data.join(format!("journal/ledger-0/{}.tgj", &name[..28]));
        fs::copy(from, to).expect("there is room");
    }
    fs::remove_file(&list).expect("it is there");
    let server = Server::start(&settings);
    assert_eq!(first_row(&server), "wallet:carol");
}

#[test]
fn a_server_archives_by_itself_at_its_rate_and_says_what_fails() {
    let folder = folder();
    let store = folder.path().join("store");
    let section = |bytes_per_s: u64| {
        let to = text(&store);
        format!("[archive]\nto = {to:?}\nkeep_segments = 1\ninterval_s = 1\nbytes_per_s = {bytes_per_s}\n")
    };
    let settings = Settings { sections: section(1 << 30), ..Settings::new(folder.path()) };
    // The disk of the archive is not mounted: nothing that the start needs is there.
    let server = filled(&settings);
    let health =
        || Http::connect(server.http).and_then(|mut http| http.get("/healthz")).expect("the door answers").body;
    let failing = serde_json::json!({"status": "degraded", "archive": "failing"});
    wait_for("health says so", || (health() == failing).then_some(()));
    assert_eq!(metric(&server, "tidegate_archive_failing"), 1);
    let (exit, shown, _) = Operator::of(&server).run(&["status"]);
    assert!(exit != 0 && shown.contains("archive       failing\n"), "{shown}");
    server.says("there is no such directory. Is its disk mounted?");
    let nowhere =
        Settings { sections: section(1 << 20).replace(text(&store), "ftp://far"), ..Settings::new(folder.path()) };
    let refused = Server::refused(&Settings { data: folder.path().join("other"), ..nowhere });
    assert!(refused.log.contains("archive.to: ftp://far: segments are archived in a directory"), "{refused}");
    fs::create_dir(&store).expect("it can be made");
    let told = server.log().matches("cannot archive").count();
    assert_eq!(told, 1, "the same is said once: {}", server.log());
    wait_for("it is used", || (health() == serde_json::json!({"status": "ok"})).then_some(()));

    let journal = settings.data.join("journal/ledger-0");
    wait_for("all but two segments are moved", || (segments(&journal).len() == 2).then_some(()));
    let moved = segments(&store).len() as u64;
    wait_for("it is counted", || (metric(&server, "tidegate_archive_segments_total") == moved).then_some(()));
    let bytes: u64 = segments(&store).iter().map(|path| fs::metadata(path).expect("it is there").len()).sum();
    assert_eq!(metric(&server, "tidegate_archive_bytes_total"), bytes);
    assert_eq!(metric(&server, "tidegate_archive_waiting_segments"), 0);
    wait_for("it is logged", || server.log().contains("archived segments of the journal").then_some(()));
    assert_eq!(first_row(&server), "wallet:carol");
    repeats(&server);

    // The disk of the archive is not mounted: nothing goes to where it should be.
    let hidden = folder.path().join("hidden");
    fs::rename(&store, &hidden).and_then(|()| fs::create_dir(&store)).expect("nobody uses it");
    let mut client = connect(&server);
    for number in 0..12 {
        client.transfers(&votes(&ids(&format!("more-{number}"), VOTES))).expect("it serves");
    }
    wait_for("it is said", || server.log().contains("is its disk mounted?").then_some(()));
    wait_for("it is counted", || (metric(&server, "tidegate_archive_failures_total") > 1).then_some(()));
    assert_eq!(server.log().matches("cannot archive").count(), told + 1, "the same is said once: {}", server.log());
    assert!(metric(&server, "tidegate_archive_waiting_segments") > 0);
    assert_eq!(fs::read_dir(&store).expect("it is there").count(), 0);
    assert!(server.terminate().status.success());
    fs::remove_dir(&store).and_then(|()| fs::rename(&hidden, &store)).expect("it is put back");

    // Slowly: a stop ends it in the middle of a segment, and nothing is missing.
    let slow = Settings { sections: section(1 << 20), ..settings };
    let server = Server::start(&slow);
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(metric(&server, "tidegate_archive_segments_total"), 0, "a segment takes longer than that");
    assert!(server.terminate().status.success());
    assert_eq!(segments(&store).len() as u64, moved);
    let audited = audit(&slow.data);
    assert!(audited.status.success(), "{audited}");
}
