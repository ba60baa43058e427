//! Damage in the journal: start refuses and `tidegate audit` exits non-zero, both with segment and offset. Nothing is
//! cut.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;
use tidegate_journal::group::{GROUP_HEADER_BYTES, GroupHeader, RECORD_HEADER_BYTES, decode, record_checksum};
use tidegate_journal::segment::{MARK_BYTES, Mark, SEGMENT_HEADER_BYTES};
use tidegate_journal::{ChainHash, Position, Sequence};

use crate::http::Http;
use crate::timeline::forget_ends;
use crate::votes::{connect, ids, open_show, votes};
use crate::{Server, Settings, audit, folder, tool, wait_for};

/// A directory with a sealed segment and a last one of many groups, ended gracefully.
fn filled() -> (tempfile::TempDir, Settings) {
    let folder = folder();
    let settings = Settings::new(folder.path());
    let server = Server::start(&settings);
    let mut client = connect(&server);
    open_show(&mut client);
    for number in 0..8 {
        client.transfers(&votes(&ids(&format!("large-{number}"), 8_000))).expect("the server serves");
    }
    for number in 0..50 {
        client.transfers(&votes(&ids(&format!("small-{number}"), 3))).expect("the server serves");
    }
    let ended = server.terminate();
    assert!(ended.status.success(), "{ended}");
    assert_eq!(segments(&settings).len(), 2, "a sealed segment and a last one");
    (folder, settings)
}

fn segments(settings: &Settings) -> Vec<PathBuf> {
    let journal = settings.data.join("journal").join("ledger-0");
    let entries = fs::read_dir(journal).expect("the journal is there").map(|entry| entry.expect("it is read").path());
    let mut paths: Vec<_> = entries.filter(|path| name(path).starts_with("segment-")).collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> String {
    path.file_name().expect("a file").to_string_lossy().into_owned()
}

/// A server starts and has all that [`filled`] was told to be done, and an audit agrees.
fn has_all(settings: &Settings) {
    let server = Server::start(settings);
    assert_eq!(connect(&server).account("candidate:1").expect("it is there").balance, 8 * 8_000 + 50 * 3);
    assert!(server.terminate().status.success());
    assert!(audit(&settings.data).status.success());
}

/// Start and audit both refuse, and name the segment and an offset in `offsets`. Afterwards the file is as it was.
fn is_refused(settings: &Settings, segment: &Path, offsets: std::ops::RangeInclusive<u64>, words: &str) {
    let before = fs::read(segment).expect("it is read");
    for ended in [audit(&settings.data), Server::refused(settings)] {
        assert!(!ended.status.success(), "{ended}");
        let place = format!("{}: damaged at offset ", name(segment));
        let rest = ended.log.split_once(&place).unwrap_or_else(|| panic!("{place:?} is not in: {ended}")).1;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let offset: u64 = digits.parse().expect("an offset");
        assert!(offsets.contains(&offset), "offset {offset} is not in {offsets:?}: {ended}");
        assert!(rest.contains("lost: ") && rest.contains(words), "{words:?} is not in: {ended}");
    }
    assert!(fs::read(segment).expect("it is read") == before, "the damaged file was changed");
}

#[test]
fn damage_in_a_sealed_segment_is_named() {
    let (_folder, settings) = filled();
    let sealed = segments(&settings).remove(0);
    let at = 5 << 20;
    flip(&sealed, at);
    // Named is the group or record with the bit; groups have at most 4 MiB.
    is_refused(&settings, &sealed, (at - (4 << 20))..=at, "");
}

#[test]
fn damage_in_the_middle_of_the_last_segment_is_named() {
    let (_folder, settings) = filled();
    let last = segments(&settings).remove(1);
    let groups = groups_of(&fs::read(&last).expect("it is read"));
    let (offset, header) = groups[groups.len() / 2];
    let at = (offset + header.total_bytes() - 1) as u64;
    flip(&last, at);
    is_refused(&settings, &last, offset as u64..=at, "");
    // Of one byte it follows what it was: an audit names it, and a start writes it again.
    flip_only(&last, at..=at);
    let harmed = fs::read(&last).expect("it is read");
    let audited = audit(&settings.data);
    assert!(!audited.status.success() && audited.log.contains("WRONG BYTE: "), "{audited}");
    assert!(fs::read(&last).expect("it is read") == harmed, "whoever only looks changes nothing");
    let server = Server::start(&settings);
    server.says("a byte of a file was not what had been written, and is again");
    assert_eq!(connect(&server).account("candidate:1").expect("it is there").balance, 8 * 8_000 + 50 * 3);
    assert_eq!(health(&server), json!({"status": "ok"}));
    assert!(server.terminate().status.success());
    assert!(audit(&settings.data).status.success());
    flip(&last, at);
    // Put right again, it serves: nothing was cut.
    flip(&last, at);
    let server = Server::start(&settings);
    assert_eq!(connect(&server).account("candidate:1").expect("it is there").balance, 8 * 8_000 + 50 * 3);
}

/// A log whose newest segment is damaged: nobody can accept that, and both ways out that are named lead out.
#[test]
fn damage_in_the_last_segment_is_no_dead_end() {
    let (folder, settings) = filled();
    let (backups, whole) = (folder.path().join("backups"), 8 * 8_000 + 50 * 3);
    let taken = tool(&settings.data, &["backup", "--to", &backups.display().to_string()]);
    assert!(taken.status.success(), "{taken}");
    let last = segments(&settings).remove(1);
    let groups = groups_of(&fs::read(&last).expect("it is read"));
    let (offset, header) = groups[groups.len() / 2];
    flip(&last, (offset + header.total_bytes() - 1) as u64);
    let damaged = fs::read(&last).expect("it is read");
    let accept = |more: &[&str]| tool(&settings.data, &[&["accept-loss", "--reason", "a bit rotted"], more].concat());

    let refused = accept(&["--yes"]);
    assert!(!refused.status.success() && refused.log.contains("Damage cannot be accepted"), "{refused}");
    assert!(!refused.log.contains("BACKUPS/journal"), "no backup has all of the newest segment: {refused}");
    assert!(fs::read(&last).expect("it is read") == damaged);
    let restored = format!("{}.new", settings.data.display());
    let command = format!("tidegate restore --from BACKUPS --data {restored}");
    assert!(refused.log.contains(&command), "{refused}");
    let made = tool(Path::new(&restored), &["restore", "--from", &backups.display().to_string()]);
    assert!(made.status.success(), "{made}");
    let server = Server::start(&Settings { data: restored.into(), ..settings.clone() });
    assert_eq!(connect(&server).account("candidate:1").expect("it is there").balance, whole);
    assert!(server.terminate().status.success());

    // Without a backup.
    let rest = refused.log.split_once("(truncate -s ").unwrap_or_else(|| panic!("{refused}")).1;
    let (cut, path) = rest.split_once(' ').expect("a size and a path");
    let cut: usize = cut.parse().expect("a size");
    assert!((offset..offset + header.total_bytes()).contains(&cut), "{refused}");
    assert!(path.starts_with(last.to_str().expect("a plain name")), "{refused}");
    fs::write(&last, &damaged[..cut]).expect("it is written");
    let accepted = accept(&["--yes"]);
    assert!(accepted.status.success(), "{accepted}");
    let server = Server::start(&settings);
    let balance = connect(&server).account("candidate:1").expect("it is there").balance;
    assert!((8 * 8_000..whole).contains(&balance), "{balance} of {whole}");
    assert!(server.terminate().status.success());
    assert!(audit(&settings.data).status.success());
}

/// One bit of the last group, and no mark behind it yet: what a kill and one fault leave. No command takes it for a
/// torn tail, and a start has all of it.
#[test]
fn a_wrong_byte_in_the_last_group_is_no_torn_tail_for_any_command() {
    let (folder, settings) = filled();
    let last = segments(&settings).remove(1);
    forget_ends(&settings.data);
    let sound = fs::read(&last).expect("it is read");
    let (offset, header) = *groups_of(&sound).last().expect("it has groups");
    let end = offset + header.total_bytes();
    let mut harmed = sound[..end].to_vec();
    harmed[end - 1] ^= 4;
    fs::write(&last, &harmed).expect("it is written");
    let said = format!("WRONG BYTE: {}: the byte at offset {} is ", last.display(), end - 1);
    let copies = folder.path().join("copies").display().to_string();
    for (command, succeeds, words) in [
        (&["audit"][..], false, "Nothing is lost: a start puts them right"),
        (&["backup", "--to", &copies], false, "no backup was taken: 1 byte(s)"),
        (&["accept-loss", "--reason", "a bit rotted"], true, "nothing is proven lost"),
    ] {
        let ended = tool(&settings.data, command);
        assert_eq!(ended.status.success(), succeeds, "{command:?}: {ended}");
        for words in [&said, words] {
            assert!(ended.log.contains(words), "{words:?}: {ended}");
        }
        assert!(!ended.log.contains("LOST") && !ended.log.contains("torn"), "{ended}");
        assert!(fs::read(&last).expect("it is read") == harmed, "{command:?} changes nothing");
    }
    // Whoever writes behind it writes it right.
    let other = Settings { data: folder.path().join("other"), ..settings.clone() };
    copy_over(&settings.data, &other.data);
    let mended = tool(&other.data, &["mend-time", "--to", "now", "--reason", "a test", "--yes"]);
    assert!(mended.status.success() && mended.log.contains("and it is written so again"), "{mended}");
    for settings in [&settings, &other] {
        has_all(settings);
    }
}

/// A start that is refused for what another log has lost, beside a log with one wrong byte: the way out that it names
/// leads out, and costs nothing of the second one.
#[test]
fn a_wrong_byte_is_no_obstacle_to_accepting_what_is_lost_elsewhere() {
    let (_folder, settings) = filled();
    let ledger = segments(&settings).remove(1);
    let groups = groups_of(&fs::read(&ledger).expect("it is read"));
    let (offset, header) = groups[groups.len() / 2];
    let at = (offset + header.total_bytes() - 1) as u64;
    flip_only(&ledger, at..=at);
    // Of the queues, the end is gone.
    let queues = fs::read_dir(settings.data.join("journal/queues-0")).expect("it is there").flatten().next();
    let queues = queues.expect("it has a segment").path();
    let bytes = fs::read(&queues).expect("it is read");
    let end = groups_of(&bytes).last().expect("it has a group").0;
    fs::write(&queues, &bytes[..end]).expect("it is written");
    let refused = Server::refused(&settings);
    assert!(refused.log.contains("accept-loss"), "{refused}");
    let accepted = tool(&settings.data, &["accept-loss", "--reason", "it is gone", "--yes"]);
    assert!(accepted.status.success() && !accepted.log.contains("LOST: ledger"), "{accepted}");
    has_all(&settings);
}

/// A backup that cannot be taken names the file of the data directory that is damaged or missing, and no other.
#[test]
fn a_backup_of_a_damaged_directory_names_the_file_that_is_wrong() {
    let (folder, settings) = filled();
    let server = Server::start(&settings);
    let mut client = connect(&server);
    for number in 0..8 {
        client.transfers(&votes(&ids(&format!("third-{number}"), 8_000))).expect("the server serves");
    }
    assert!(server.terminate().status.success());
    let all = segments(&settings);
    assert_eq!(all.len(), 3, "two of them are sealed");
    let refused = |number: usize, words: &str| {
        let copies = folder.path().join(format!("copies-{number}"));
        let refused = tool(&settings.data, &["backup", "--to", &copies.display().to_string()]);
        let named = format!("{}: damaged at offset ", all[number].display());
        assert!(!refused.status.success() && refused.log.contains(&named), "{named}: {refused}");
        assert!(refused.log.contains(words) && !refused.log.contains("copies-"), "{words}: {refused}");
    };
    flip(&all[0], 5 << 20);
    refused(0, "does not match its checksum");
    flip(&all[0], 5 << 20);
    let aside = folder.path().join("aside");
    for (missing, words) in [(0, "and ARCHIVE in the data directory does not list it"), (1, "lost: records from ")] {
        fs::rename(&all[missing], &aside).expect("it was there");
        refused(missing, words);
        fs::rename(&aside, &all[missing]).expect("it was there");
    }
}

/// Nothing is lost with the header of the newest segment: nobody is told to cut the file, and a start writes it again.
#[test]
fn a_rotten_header_of_the_last_segment_is_named_and_a_start_writes_it_again() {
    let (_folder, settings) = filled();
    let last = segments(&settings).remove(1);
    let sound = fs::read(&last).expect("it is read");
    flip(&last, 10);
    let audited = audit(&settings.data);
    let place = format!("{}: damaged at offset 0", name(&last));
    assert!(!audited.status.success() && audited.log.contains(&place), "{audited}");
    let listed = tool(&settings.data, &["accept-loss", "--reason", "a bit rotted"]);
    assert!(listed.status.success() && listed.log.contains("nothing is proven lost"), "{listed}");
    let server = Server::start(&settings);
    server.says("a start writes it again");
    assert_eq!(connect(&server).account("candidate:1").expect("it is there").balance, 8 * 8_000 + 50 * 3);
    assert!(server.terminate().status.success());
    assert!(fs::read(&last).expect("it is read")[..SEGMENT_HEADER_BYTES] == sound[..SEGMENT_HEADER_BYTES]);
    assert!(audit(&settings.data).status.success());
}

/// A newest segment that is gone, or has lost all its bytes: the mark of the one before says that it was there.
#[test]
fn a_last_segment_that_is_gone_is_no_dead_end() {
    for is_there in [false, true] {
        let (folder, settings) = filled();
        let all = segments(&settings);
        fs::remove_file(&all[1]).expect("it was there");
        if is_there {
            fs::write(&all[1], "").expect("it is written");
        }
        let accept =
            |more: &[&str]| tool(&settings.data, &[&["accept-loss", "--reason", "a bit rotted"], more].concat());
        let refused = accept(&[]);
        let moved = format!("move {} to another folder", all[1].display());
        assert_eq!(refused.log.contains(&moved), is_there, "{refused}");
        let rest = refused.log.split_once("(truncate -s ").unwrap_or_else(|| panic!("{refused}")).1;
        let (size, path) = rest.split_once(' ').expect("a size and a path");
        assert!(path.starts_with(all[0].to_str().expect("a plain name")), "{refused}");
        assert_eq!(size.parse::<u64>().expect("a size"), mark_of(&all[0]), "{refused}");

        let _ = fs::remove_file(&all[1]);
        let cut = fs::OpenOptions::new().write(true).open(&all[0]).expect("it is there");
        cut.set_len(mark_of(&all[0])).expect("it is cut");
        assert!(refused.log.contains("run this command again with --cut ledger-0"), "{refused}");
        // Nothing is derived of the records that are gone.
        let ids = settings.data.join("ids");
        fs::rename(&ids, folder.path().join("ids")).expect("it was there");
        let proven = accept(&[]);
        assert!(proven.status.code() == Some(2) && proven.log.contains("/ends/ledger-0 was made"), "{proven}");
        forget_ends(&settings.data);
        let unproven = accept(&[]);
        assert!(unproven.status.success() && unproven.log.contains("nothing is proven lost"), "{unproven}");
        let listed = accept(&["--cut", "ledger-0"]);
        assert!(listed.status.code() == Some(2) && listed.log.contains("on are lost: its end was cut"), "{listed}");
        let accepted = accept(&["--cut", "ledger-0", "--yes"]);
        assert!(accepted.status.success(), "{accepted}");
        assert!(accepted.log.contains("loss accepted at"), "{accepted}");
        let again = accept(&["--cut", "ledger-0", "--yes"]);
        assert!(again.status.success() && again.log.contains("nothing is proven lost"), "{again}");
        let audited = audit(&settings.data);
        assert!(audited.status.success() && audited.log.contains("a bit rotted"), "{audited}");
        let server = Server::start(&settings);
        server.says("a bit rotted");
        let balance = connect(&server).account("candidate:1").expect("it is there").balance;
        assert!((1..8 * 8_000 + 50 * 3).contains(&balance), "{balance}");
        assert!(server.terminate().status.success());
        assert!(audit(&settings.data).status.success());
    }
}

/// The index of ids is made of the journal: whatever stands in the place of its files stops no start.
#[test]
fn a_folder_in_the_place_of_a_file_of_the_ids_stops_no_start() {
    let (_folder, settings) = filled();
    let server = Server::start(&settings);
    assert!(server.terminate().status.success());
    for file in ["manifest", "0000000001.run"] {
        let file = settings.data.join("ids").join("ledger-0").join(file);
        fs::create_dir(&file).expect("there is room");
        let server = Server::start(&settings);
        let repeated = connect(&server).transfers(&votes(&ids("small-3", 3))).expect("the server serves");
        assert!(repeated.iter().all(|outcome| *outcome == tidegate_client::Outcome::Duplicate), "{repeated:?}");
        let ended = server.terminate();
        assert!(ended.status.success(), "{ended}");
        assert!(file.with_file_name(format!("{}.set-aside", name(&file))).is_dir(), "it is somebody's");
    }
    assert!(audit(&settings.data).status.success());
}

/// The audit reads every page, and changes nothing: a start builds the index again.
#[test]
fn a_rotten_file_of_the_ids_is_named_by_the_audit_and_built_again_by_a_start() {
    let (_folder, settings) = filled();
    let settings = Settings { snapshot_interval_s: 1, ..settings };
    let folder = settings.data.join("ids").join("ledger-0");
    let server = Server::start(&settings);
    // Before each snapshot the index is to have all records before it in a file.
    wait_for("a file of ids", || folder.join("manifest").exists().then_some(()));
    assert!(server.terminate().status.success());
    let files = || {
        let names = fs::read_dir(&folder).expect("it is there").map(|entry| entry.expect("it is read").path());
        let mut files: Vec<_> = names.map(|path| (fs::read(&path).expect("it is read"), path)).collect();
        files.sort_by(|(_, one), (_, other)| one.cmp(other));
        files
    };
    let sound = files();
    assert!(audit(&settings.data).status.success());
    let runs: Vec<_> = sound.iter().filter(|(_, path)| path.extension().is_some_and(|of| of == "run")).collect();
    assert!(!runs.is_empty(), "{:?}", sound.iter().map(|(_, path)| path).collect::<Vec<_>>());
    for (bytes, path) in runs {
        for at in [0, 5_000, bytes.len() as u64 - 10] {
            flip(path, at);
            let rotten = files();
            let ended = audit(&settings.data);
            let said = format!("{ended}");
            assert_eq!(ended.status.code(), Some(2), "{at}: {said}");
            assert!(said.contains(&path.display().to_string()) && said.contains("rebuilds the index"), "{at}: {said}");
            assert!(files() == rotten, "it has changed nothing");
            flip(path, at);
        }
    }
    assert!(audit(&settings.data).status.success());
}

#[test]
fn a_record_removed_with_its_checksums_repaired_is_caught_by_the_chain() {
    let (_folder, settings) = filled();
    let last = segments(&settings).remove(1);
    let whole = fs::read(&last).expect("it is read");
    let (offset, header) = *groups_of(&whole).iter().rev().nth(20).expect("many groups");
    assert_eq!(header.record_count, 3);

    let removed = remove_record(&whole, offset, Rehash::No);
    fs::write(&last, removed).expect("it is written");
    is_refused(&settings, &last, offset as u64..=offset as u64, "changed on purpose");

    // Even the hash of its own group repaired: then the next group is not its successor.
    let next = offset + header.total_bytes() - record_bytes(&whole, offset);
    fs::write(&last, remove_record(&whole, offset, Rehash::OwnGroup)).expect("it is written");
    is_refused(&settings, &last, next as u64..=next as u64, "chain");

    fs::write(&last, whole).expect("it is written");
    Server::start(&settings).kill();
}

#[test]
fn an_audit_names_the_damage_of_every_segment_in_one_go() {
    let (_folder, settings) = filled();
    let server = Server::start(&settings);
    let mut client = connect(&server);
    for number in 0..8 {
        client.transfers(&votes(&ids(&format!("third-{number}"), 8_000))).expect("the server serves");
    }
    assert!(server.terminate().status.success());
    let all = segments(&settings);
    assert_eq!(all.len(), 3, "two of them are sealed");
    flip(&all[0], 5 << 20);
    flip(&all[1], 7 << 20);
    let ended = audit(&settings.data);
    assert!(!ended.status.success(), "{ended}");
    for segment in &all[..2] {
        assert!(ended.log.contains(&format!("{}: damaged at offset ", name(segment))), "{ended}");
    }
    assert!(!ended.log.contains(&format!("{}: damaged", name(&all[2]))), "{ended}");
    assert!(ended.log.contains("topics shard 0"), "other logs are audited, too: {ended}");
}

/// Where the mark of a sealed segment begins.
fn mark_of(segment: &Path) -> u64 {
    fs::metadata(segment).expect("it is there").len() - MARK_BYTES as u64
}

fn health(server: &Server) -> serde_json::Value {
    Http::connect(server.http).and_then(|mut http| http.get("/healthz")).expect("the door answers").body
}

#[test]
fn a_bit_that_rots_in_the_header_of_a_sealed_segment_stops_no_start() {
    let (_folder, settings) = filled();
    let sealed = segments(&settings).remove(0);
    flip(&sealed, 30);
    let server = Server::start(&settings);
    let mut client = connect(&server);
    server.says("a file is damaged");
    server.says(&name(&sealed));
    assert_eq!(health(&server)["damage"], 1);
    let balance = client.account("candidate:1").expect("it is served").balance;
    assert_eq!(balance, 8 * 8_000 + 50 * 3);
    let young = client.transfers(&votes(&ids("small-49", 3))).expect("the server serves");
    assert!(young.iter().all(|outcome| *outcome == tidegate_client::Outcome::Duplicate), "{young:?}");
    let mut http = Http::connect(server.http).expect("the door is open");
    // Its records are read all the same: the first group says whose they are.
    let of_any = ["x".to_owned()];
    let memo = votes(&of_any)[0].memo;
    let old = json!({"id": "large-0-1", "debit": "wallet:dave", "credit": "candidate:1", "amount": 1, "memo": memo});
    let again = http.post("/v1/transfers", &old).expect("the door answers");
    assert_eq!(again.body["outcome"], json!("duplicate"), "{again:?}");
    assert!(server.terminate().status.success());
    let audited = audit(&settings.data);
    assert!(!audited.status.success() && audited.log.contains("header's checksum"), "{audited}");
    flip(&sealed, 30);
    assert!(audit(&settings.data).status.success(), "put right again");
}

#[test]
fn a_bit_that_rots_in_the_mark_of_a_sealed_segment_is_named_by_audit_and_start() {
    const WORDS: &str = "the mark that seals the segment is damaged";
    let (_folder, settings) = filled();
    let sealed = segments(&settings).remove(0);
    flip(&sealed, mark_of(&sealed) + 20);
    let audited = audit(&settings.data);
    assert!(!audited.status.success() && audited.log.contains(WORDS), "{audited}");
    // It is written again by the start that names it.
    let server = Server::start(&settings);
    server.says(WORDS);
    assert!(server.terminate().status.success());
    let audited = audit(&settings.data);
    assert!(audited.status.success(), "{audited}");
}

/// A server that serves a directory with a sealed segment, in which the record of this vote rots then.
fn with_rot_while_serving(vote: &str) -> (tempfile::TempDir, Settings, Server, PathBuf) {
    let (folder, settings) = filled();
    let settings = Settings { audit_interval_s: 1, ..settings };
    let server = Server::start(&settings);
    let sealed = segments(&settings).remove(0);
    let bytes = fs::read(&sealed).expect("it is read");
    let at = bytes.windows(vote.len()).position(|window| window == vote.as_bytes()).expect("it is in this segment");
    // In place: the server has the file open. Of one byte it would follow what it was.
    let file = fs::OpenOptions::new().write(true).open(&sealed).expect("it is there");
    file.write_all_at(&[bytes[at] ^ 0x10, bytes[at + 1] ^ 0x10], at as u64).expect("it is written");
    (folder, settings, server, sealed)
}

#[test]
fn a_bit_that_rots_while_serving_refuses_who_needs_it_and_nobody_else() {
    const ROTTEN: &str = "large-3-4321";
    let (_folder, _settings, server, sealed) = with_rot_while_serving(ROTTEN);
    let mut http = Http::connect(server.http).expect("the door is open");
    let vote = |http: &mut Http<_>, id: &str| {
        let of_any = ["x".to_owned()];
        let memo = votes(&of_any)[0].memo;
        let body = json!({"id": id, "debit": "wallet:dave", "credit": "candidate:1", "amount": 1, "memo": memo});
        let answer = http.post("/v1/transfers", &body).expect("the door answers");
        (answer.status, answer.body)
    };
    let (status, problem) = vote(&mut http, ROTTEN);
    assert_eq!((status, &problem["code"]), (500, &json!("damaged")), "{problem}");
    let file = format!("journal/ledger-0/{}", name(&sealed));
    assert_eq!(problem["file"], json!(file), "{problem}");
    assert!(problem["offset"].as_u64() > Some(0), "{problem}");
    assert!(problem["lost"].as_str().is_some_and(|lost| lost.starts_with("records ")), "{problem}");
    assert_eq!(vote(&mut http, "large-3-4320").1["outcome"], json!("duplicate"));
    assert_eq!(vote(&mut http, "new").0, 201);

    // Who asks what became of it is told the same.
    for kind in ["transfers", "holds"] {
        let read = http.get(&format!("/v1/{kind}/{ROTTEN}")).expect("the door answers");
        let place = |answer: &serde_json::Value| ["code", "file", "offset", "lost"].map(|key| answer[key].clone());
        assert_eq!((read.status, place(&read.body)), (500, place(&problem)), "{}", read.body);
    }
    let mut client = connect(&server);
    for refused in [client.read_transfer(ROTTEN).err(), client.read_hold(ROTTEN).err()] {
        assert!(format!("{refused:?}").contains("damaged"), "{refused:?}");
    }
    assert_eq!(http.get("/v1/transfers/large-3-4320").expect("the door answers").status, 200);

    // In a batch, each item for itself, at both doors the same code.
    let ids = ["large-3-4319".to_owned(), ROTTEN.to_owned(), "another".to_owned()];
    let outcomes = connect(&server).transfers(&votes(&ids)).expect("the server serves");
    assert!(format!("{:?}", outcomes[1]).contains("\"damaged\""), "{outcomes:?}");
    assert!(outcomes[0].is_done() && outcomes[2].is_done(), "{outcomes:?}");

    // A history is given up to there.
    let (mut rows, mut path) = (0, "/v1/accounts/candidate:1/transfers?limit=1000".to_owned());
    let problem = loop {
        let page = http.get(&path).expect("the door answers");
        if page.status != 200 {
            break page.body;
        }
        rows += page.body["transfers"].as_array().expect("rows").len();
        let next = page.body["next"].as_str().expect("it ends with the damage");
        path = format!("/v1/accounts/candidate:1/transfers?limit=1000&before={next}");
    };
    assert_eq!(problem["code"], json!("damaged"), "{problem}");
    assert!((4 * 8_000..5 * 8_000).contains(&rows), "{rows} rows are newer");

    // Everybody who looks is told; it serves.
    let health = http.get("/healthz").expect("the door answers");
    assert_eq!((health.status, &health.body["status"]), (200, &json!("degraded")));
    assert!(health.body["damage"].as_u64() >= Some(1), "{}", health.body);
    let report = wait_for("the audit tells it", || {
        let report = http.get("/v1/audit").expect("the door answers").body;
        // The auditor's own fold and the reading again, which is told once a second, are two ways to meet it.
        let is_told = report["shards"][0]["scrub"]["damage"].as_array().is_some_and(|places| !places.is_empty());
        (report["state"] == "damaged" && is_told).then_some(report)
    });
    assert_eq!(report["shards"][0]["scrub"]["damage"][0]["file"], json!(file), "{report}");
    assert_eq!((&report["agreed"], &report["shards"][0]["differences"]), (&json!(false), &json!([])));
    let metrics = wait_for("metrics tell it", || {
        let text = http.get("/metrics").expect("the door answers").body;
        let text = text.as_str().expect("text").to_owned();
        text.contains("tidegate_damaged_places{family=\"ledger\",shard=\"0\"} 1").then_some(text)
    });
    assert!(metrics.contains("tidegate_refusals_total"));
    let ended = server.terminate();
    assert!(ended.status.success(), "{ended}");
    assert_eq!(ended.log.matches("a file is damaged").count(), 1, "once: {ended}");
}

/// One byte of a segment that is being written rots under a server: it is read right, and put right by the next start.
#[test]
fn one_byte_of_the_newest_segment_that_rots_while_serving_is_read_right() {
    const ROTTEN: &str = "small-3-1";
    let (_folder, settings) = filled();
    let server = Server::start(&settings);
    let newest = segments(&settings).remove(1);
    let sound = fs::read(&newest).expect("it is read");
    let at = sound.windows(ROTTEN.len()).position(|window| window == ROTTEN.as_bytes()).expect("it is there");
    let file = fs::OpenOptions::new().write(true).open(&newest).expect("it is there");
    file.write_all_at(b"T", at as u64).expect("it is written");
    let mut http = Http::connect(server.http).expect("the door is open");
    for _ in 0..2 {
        let read = http.get(&format!("/v1/transfers/{ROTTEN}")).expect("the door answers");
        assert_eq!((read.status, &read.body["id"]), (200, &json!(ROTTEN)));
    }
    let again = connect(&server).transfers(&votes(&[ROTTEN.to_owned()])).expect("the server serves");
    assert_eq!(again, [tidegate_client::Outcome::Duplicate]);
    assert_eq!(health(&server), json!({"status": "ok"}));
    assert_eq!(fs::read(&newest).expect("it is read")[at], b'T', "the server writes it");
    let ended = server.terminate();
    assert!(ended.status.success() && ended.log.contains("The next start puts it right in the file"), "{ended}");
    assert!(!ended.log.contains("a file is damaged"), "{ended}");
    let server = Server::start(&settings);
    assert!(fs::read(&newest).expect("it is read")[..at + 100] == sound[..at + 100]);
    assert!(server.terminate().status.success());
    assert!(audit(&settings.data).status.success());
}

/// One byte of a sealed segment rots under a server: nobody ever notices but the log.
#[test]
fn one_byte_that_rots_while_serving_is_put_right() {
    const ROTTEN: &str = "large-3-4321";
    let (_folder, settings) = filled();
    let server = Server::start(&Settings { audit_interval_s: 1, ..settings.clone() });
    let sealed = segments(&settings).remove(0);
    let sound = fs::read(&sealed).expect("it is read");
    let at = sound.windows(ROTTEN.len()).position(|window| window == ROTTEN.as_bytes()).expect("it is there");
    let file = fs::OpenOptions::new().write(true).open(&sealed).expect("it is there");
    file.write_all_at(b"T", at as u64).expect("it is written");
    let mut http = Http::connect(server.http).expect("the door is open");
    let read = http.get(&format!("/v1/transfers/{ROTTEN}")).expect("the door answers");
    assert_eq!((read.status, &read.body["id"]), (200, &json!(ROTTEN)));
    assert!(fs::read(&sealed).expect("it is read") == sound, "it is what it was");
    assert_eq!(health(&server), json!({"status": "ok"}));
    wait_for("it is counted", || {
        let text = http.get("/metrics").expect("the door answers").body;
        text.as_str()?.contains("tidegate_mended_bytes_total{family=\"ledger\",shard=\"0\"} 1").then_some(())
    });
    let ended = server.terminate();
    assert!(ended.status.success() && !ended.log.contains("a file is damaged"), "{ended}");
    assert_eq!(ended.log.matches("a byte of a file was not what had been written").count(), 1, "once: {ended}");
}

#[test]
fn rot_that_nobody_asks_for_is_found_by_reading_everything_again() {
    let (_folder, _settings, server, sealed) = with_rot_while_serving("large-5-1234");
    // The first pass may have been over before; a place in it was not due again for long.
    let mut http = Http::connect(server.http).expect("the door is open");
    let report = wait_for("a pass over everything", || {
        let report = http.get("/v1/audit").expect("the door answers").body;
        (report["shards"][0]["scrub"]["last_full_at_ms"].as_u64() > Some(0)).then_some(report)
    });
    let damage = &report["shards"][0]["scrub"]["damage"];
    assert_eq!(damage[0]["file"], json!(format!("journal/ledger-0/{}", name(&sealed))), "{report}");
    assert_eq!(health(&server)["status"], "degraded");
    // The file is put right, long before the next pass is due.
    let at = damage[0]["offset"].as_u64().expect("a number");
    let bytes = fs::read(&sealed).expect("it is read");
    let vote =
        bytes.windows(12).skip(at as usize).position(|bytes| bytes.ends_with(b"rge-5-1234")).expect("it is there");
    let file = fs::OpenOptions::new().write(true).open(&sealed).expect("it is there");
    file.write_all_at(b"la", at + vote as u64).expect("it is written");
    let begun = Instant::now();
    wait_for("it is well", || (health(&server) == json!({"status": "ok"})).then_some(()));
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert!(server.terminate().log.contains("read a whole log again"));
}

#[test]
fn a_segment_that_is_away_is_told_although_nobody_asks_for_it() {
    let (folder, settings) = filled();
    let server = Server::start(&settings);
    // Which finds what is away by itself; the next one is long off.
    wait_for("the first pass over the log", || server.log().contains("ids of its index").then_some(()));
    let (sealed, away) = (segments(&settings).remove(0), folder.path().join("away"));
    fs::rename(&sealed, &away).expect("it can be moved");
    wait_for("health says so", || (health(&server)["status"] == "degraded").then_some(()));
    fs::rename(&away, &sealed).expect("it can be moved");
    wait_for("it is well", || (health(&server) == json!({"status": "ok"})).then_some(()));
    assert!(server.terminate().status.success());
}

/// Whoever reads of other segments meanwhile lists the folder without it.
#[test]
fn a_segment_that_was_away_while_serving_is_read_again_when_it_is_back() {
    let (folder, settings) = filled();
    let server = Server::start(&settings);
    let (sealed, away) = (segments(&settings).remove(0), folder.path().join("away"));
    fs::rename(&sealed, &away).expect("it can be moved");
    let mut client = connect(&server);
    for number in 0..16 {
        client.transfers(&votes(&ids(&format!("third-{number}"), 8_000))).expect("the server serves");
    }
    assert!(segments(&settings).len() >= 3, "two that were not there before, and one is away");
    let mut http = Http::connect(server.http).expect("the door is open");
    let mut statuses = |of: &str| -> Vec<u16> {
        let one = |number| http.get(&format!("/v1/transfers/{of}-{number}")).expect("the door answers").status;
        (0..100).map(one).collect()
    };
    // In a segment that was not there when the server started, and not among the latest 8 MiB, which are in memory.
    for later in ["third-8", "third-9", "third-10"] {
        assert_eq!(statuses(later), vec![200; 100]);
    }
    assert_eq!(statuses("large-1"), vec![500; 100], "what is away is not guessed");
    assert_eq!(health(&server)["status"], "degraded");
    fs::rename(&away, &sealed).expect("it can be moved");
    wait_for("it is well", || (health(&server) == json!({"status": "ok"})).then_some(()));
    assert_eq!(statuses("large-1"), vec![200; 100], "as health says");
    let again = client.transfers(&votes(&ids("large-1", 2_000))).expect("the server serves");
    assert!(again.iter().all(|outcome| *outcome == tidegate_client::Outcome::Duplicate), "{:?}", again[0]);
    assert_eq!(health(&server), json!({"status": "ok"}));
    assert!(server.terminate().status.success());
    assert!(audit(&settings.data).status.success());
}

/// Harms a byte and the one before it; once more, and both are as they were.
fn flip(path: &Path, at: u64) {
    flip_only(path, at.saturating_sub(1)..=at);
}

fn flip_only(path: &Path, places: std::ops::RangeInclusive<u64>) {
    let mut bytes = fs::read(path).expect("it is read");
    places.for_each(|at| bytes[at as usize] ^= 0x10);
    fs::write(path, bytes).expect("it is written");
}

/// All groups of a segment, each with its offset in the file.
pub fn groups_of(segment: &[u8]) -> Vec<(usize, GroupHeader)> {
    let mut groups = Vec::new();
    let mut offset = SEGMENT_HEADER_BYTES;
    while let Ok(group) = decode(&segment[offset..]) {
        groups.push((offset, group.header));
        offset += group.header.total_bytes();
    }
    groups
}

/// Bytes of the first record of the group at `offset`, with its header.
fn record_bytes(segment: &[u8], offset: usize) -> usize {
    let at = offset + GROUP_HEADER_BYTES;
    RECORD_HEADER_BYTES + u32::from_le_bytes(segment[at..at + 4].try_into().expect("four bytes")) as usize
}

/// How far the forger goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rehash {
    /// Repairs checksums and numbers only.
    No,
    /// Computes the chain hash of the changed group anew, too.
    OwnGroup,
}

/// The segment without the first record of the group at `target`. All that follows moves up; every number and checksum
/// that this makes wrong is repaired: counts, lengths, positions, sequences, the checksums of headers, records and the
/// mark.
fn remove_record(segment: &[u8], target: usize, rehash: Rehash) -> Vec<u8> {
    let missing = record_bytes(segment, target);
    let mut forged = segment[..target].to_vec();
    for (offset, header) in groups_of(segment).into_iter().filter(|(offset, _)| *offset >= target) {
        let mut body = segment[offset + GROUP_HEADER_BYTES..offset + header.total_bytes()].to_vec();
        let mut header = header;
        if offset == target {
            body.drain(..missing);
            header.record_count -= 1;
            header.body_bytes -= missing as u32;
        } else {
            header.base = Position(header.base.0 - missing as u64);
            header.first_sequence = Sequence(header.first_sequence.0 - 1);
            header.synced_up_to = header.synced_up_to.min(header.base);
        }
        repair_records(&mut body, header.base);
        if offset == target && rehash == Rehash::OwnGroup {
            let hashed = blake3::Hasher::new().update(&header.encode()[..80]).update(&body).finalize();
            header.chain = ChainHash(*hashed.as_bytes());
        }
        forged.extend_from_slice(&header.encode());
        forged.extend_from_slice(&body);
    }
    let mark_at = forged.len() + missing;
    let mut mark = Mark::decode(&segment[mark_at..]).expect("a graceful stop leaves a mark");
    mark.end.position = Position(mark.end.position.0 - missing as u64);
    mark.end.sequence = Sequence(mark.end.sequence.0 - 1);
    forged.extend_from_slice(&mark.encode());
    forged.extend_from_slice(&segment[mark_at + MARK_BYTES..]);
    forged.resize(segment.len(), 0);
    forged
}

fn repair_records(body: &mut [u8], base: Position) {
    let mut offset = 0;
    while offset < body.len() {
        let length = u32::from_le_bytes(body[offset..offset + 4].try_into().expect("four bytes")) as usize;
        let at = Position(base.0 + (GROUP_HEADER_BYTES + offset) as u64);
        let payload = offset + RECORD_HEADER_BYTES;
        let checksum = record_checksum(at, &body[payload..payload + length]);
        body[offset + 4..offset + 8].copy_from_slice(&checksum.to_le_bytes());
        offset = payload + length;
    }
}

/// All files below `from`, written over those of the same names below `to`, as `cp` does: the same files, shorter.
fn copy_over(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("it can be made");
    for entry in fs::read_dir(from).expect("it is there").flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match from.is_dir() {
            true => copy_over(&from, &to),
            false => _ = fs::copy(&from, &to).expect("there is room"),
        }
    }
}

/// The server has what it wrote in memory, and goes on to write behind it: nobody reads what is gone before the next
/// start does.
#[test]
fn an_older_copy_that_is_laid_over_a_running_server_is_told_within_seconds() {
    let folder = folder();
    let settings = Settings::new(folder.path());
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    assert!(server.terminate().status.success());
    let (journal, copy) = (settings.data.join("journal"), folder.path().join("copy"));
    fs::create_dir_all(copy.join("ledger-0")).expect("it can be made");
    for segment in segments(&settings) {
        fs::copy(&segment, copy.join("ledger-0").join(name(&segment))).expect("there is room");
    }
    let server = Server::start(&settings);
    for number in 0..20 {
        connect(&server).transfers(&votes(&ids(&format!("lost-{number}"), 10))).expect("it serves");
    }
    assert_eq!(health(&server), json!({"status": "ok"}));
    copy_over(&copy, &journal);
    connect(&server).transfers(&votes(&ids("behind", 10))).expect("it serves");
    wait_for("health says so", || (health(&server)["damage"].as_u64() > Some(0)).then_some(()));
    let is_told = |log: String| log.contains("a file is damaged") && log.contains("journal/ledger-0/segment-");
    wait_for("the log says so", || is_told(server.log()).then_some(()));
    // It stays told, whatever is read meanwhile.
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!(health(&server)["status"], "degraded");
    server.kill();
}

#[test]
fn a_snapshot_that_cannot_be_written_is_told_until_one_is() {
    let folder = folder();
    let settings = Settings { snapshot_interval_s: 1, ..Settings::new(folder.path()) };
    let unfinished = settings.data.join("snapshots/ledger-0/unfinished");
    assert!(Server::start(&settings).terminate().status.success());
    // A folder is no file that could be removed.
    fs::create_dir_all(unfinished.join("full")).expect("it can be made");
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    let failing = json!({"status": "degraded", "snapshots": "failing"});
    wait_for("health says so", || (health(&server) == failing).then_some(()));
    let asked = crate::support::server::command(&["status", "--server", &format!("http://{}", server.http)]);
    assert!(!asked.status.success() && asked.log.contains("failing"), "{asked}");
    let metrics = Http::connect(server.http).and_then(|mut http| http.get("/metrics")).expect("the door answers");
    let text = metrics.body.as_str().expect("a text").to_owned();
    assert!(text.contains("tidegate_snapshot_failing{family=\"ledger\",shard=\"0\"} 1"), "{text}");
    server.says("cannot write a snapshot, or compact the log");
    fs::remove_dir_all(&unfinished).expect("nobody uses it");
    wait_for("all is well", || (health(&server) == json!({"status": "ok"})).then_some(()));
}
