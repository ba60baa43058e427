//! Snapshots of topics: written while a shard serves, and what is left when the machine stops or a file is damaged
//! meanwhile.

use tidegate_journal::segment::{parse_segment_name, segment_name};
use tidegate_journal::{LogReader, Notice, NoticeKind};
use tidegate_shard::{Stand, compact_to, covers_all_sealed};

use super::*;

/// A shard whose log has at least `segments` segments, and what it was asked.
fn long(disk: &FakeDisk, segments: usize) -> (Tested, Vec<Command>) {
    let (mut shard, _) = open(disk).unwrap();
    let mut asked = Vec::new();
    extend(disk, &mut shard, &mut asked, segments);
    (shard, asked)
}

/// Goes on until the log has `more` segments more.
fn extend(disk: &FakeDisk, shard: &mut Tested, asked: &mut Vec<Command>, more: usize) {
    let wanted = segments(disk).len().max(1) - 1 + more;
    while segments(disk).len() < wanted {
        let command = nth(asked.len(), 300);
        shard.call(asked.len(), command.clone());
        asked.push(command);
        settle(shard);
    }
    all_released(shard);
}

/// Bytes of log that two sealed segments hold at least, and one never.
const TWO_SEGMENTS: u64 = 20_000;

fn folder() -> std::path::PathBuf {
    data().join("journal/topics-2")
}

fn segments(disk: &FakeDisk) -> Vec<Position> {
    match disk.exists(&folder()).unwrap() {
        true => disk.list(&folder()).unwrap().iter().filter_map(|name| parse_segment_name(name)).collect(),
        false => Vec::new(),
    }
}

const RULE: CompactionRule = CompactionRule { floor_bytes: TWO_SEGMENTS, ratio: 0 };

fn compact_while(disk: &FakeDisk, go_on: impl FnMut() -> bool) -> Result<Option<Compaction>, String> {
    compact_by(disk, RULE, go_on)
}

fn compact_by(
    disk: &FakeDisk,
    rule: CompactionRule,
    go_on: impl FnMut() -> bool,
) -> Result<Option<Compaction>, String> {
    let reader = logs(disk).reader(LOG).map_err(|error| error.to_string())?;
    compact(&snapshots_on(disk), &reader, SHARDS, rule, go_on).map_err(|error| error.to_string())
}

/// What is done as long as the disk is full.
fn make_room(disk: &FakeDisk) -> Result<usize, String> {
    if let Some(done) = compact_by(disk, RULE.under(Pressure::Full), || true)? {
        return Ok(done.forgotten.segments);
    }
    let reader = logs(disk).reader(LOG).map_err(|error| error.to_string())?;
    let end = reader.settled_end().map_err(|error| error.to_string())?;
    let forgotten = forget_covered(&snapshots_on(disk), &reader, &end).map_err(|error| error.to_string())?;
    Ok(forgotten.segments)
}

pub fn compact_now(disk: &FakeDisk) -> Result<Option<Compaction>, String> {
    compact_while(disk, || true)
}

/// Snapshot files, oldest first.
fn snapshots(disk: &FakeDisk) -> Vec<std::path::PathBuf> {
    let on_disk = snapshots_on(disk);
    disk.files().into_iter().map(|(path, _)| path).filter(|path| path.starts_with(on_disk.folder())).collect()
}

fn newest(disk: &FakeDisk) -> Cursor {
    snapshots_on(disk).newest_header(Position(u64::MAX)).unwrap().unwrap().cursor
}

#[track_caller]
fn check(disk: &FakeDisk, asked: &[Command]) -> ReplayReport {
    let (shard, report) = open(disk).unwrap();
    assert_eq!(shard.appended().0, asked.len() as u64);
    assert_eq!(bytes_of(shard.state_ahead()), bytes_of(&model(asked)));
    report
}

#[test]
fn two_sealed_segments_make_a_snapshot_worth_it_and_the_second_one_lets_the_log_forget() {
    let disk = FakeDisk::new(1);
    let (mut shard, mut asked) = long(&disk, 2);
    assert!(compact_now(&disk).unwrap().is_none(), "one sealed segment is not worth it");
    extend(&disk, &mut shard, &mut asked, 2);
    let first = compact_now(&disk).unwrap().unwrap();
    assert_eq!(first.cursor.position, *segments(&disk).last().unwrap());
    assert_eq!(
        (first.events, first.forgotten.segments),
        (first.cursor.sequence.0, 0),
        "it has nothing to fall back to"
    );
    assert!(compact_now(&disk).unwrap().is_none());

    extend(&disk, &mut shard, &mut asked, 3);
    let second = compact_now(&disk).unwrap().unwrap();
    assert_eq!(second.events, second.cursor.sequence.0 - first.cursor.sequence.0);
    assert!(second.forgotten.segments >= 2);
    assert_eq!(segments(&disk)[0], first.cursor.position, "as far as the older one");
    assert_eq!(snapshots(&disk).len(), 2);

    // The shard serves on and need not know.
    extend(&disk, &mut shard, &mut asked, 3);
    compact_now(&disk).unwrap().unwrap();
    assert_eq!(snapshots(&disk).len(), 2);
    let newest = newest(&disk);
    assert_eq!(check(&disk, &asked).snapshot_sequence, newest.sequence.0);
}

/// A shard with two snapshots and a log that has forgotten, stopped.
fn compacted(disk: &FakeDisk) -> Vec<Command> {
    let (mut shard, mut asked) = long(disk, 4);
    compact_now(disk).unwrap().unwrap();
    extend(disk, &mut shard, &mut asked, 3);
    assert!(compact_now(disk).unwrap().unwrap().forgotten.segments > 0);
    shard.into_log().close().unwrap();
    asked
}

#[test]
fn a_damaged_snapshot_is_passed_over_and_two_are_refused_in_words() {
    let disk = FakeDisk::new(1);
    let asked = compacted(&disk);
    let [older, newer] = <[_; 2]>::try_from(snapshots(&disk)).unwrap();
    disk.flip_bit(&newer, 100, 3);
    let report = check(&disk, &asked);
    assert_eq!(report.snapshots_passed_over.len(), 1);
    assert!(report.snapshots_passed_over[0].contains("its hash does not verify"), "{report:?}");
    disk.flip_bit(&older, 100, 3);
    let refused = open(&disk).err().unwrap();
    assert!(refused.contains("the segment file is missing; lost: records from 1 (position 0)"), "{refused}");
    // What must be restored is one of these, and not what was forgotten on purpose.
    assert!(
        refused.contains("no snapshot can be used") && refused.matches("its hash does not verify").count() == 2,
        "{refused}"
    );
}

#[test]
fn a_compaction_from_an_older_snapshot_replaces_the_damaged_one() {
    let disk = FakeDisk::new(1);
    let asked = compacted(&disk);
    // Harmed in its header, so that it does not look young.
    disk.flip_bit(&snapshots(&disk)[1], 0, 1);
    let (mut shard, _) = open(&disk).unwrap();
    let mut asked = asked;
    extend(&disk, &mut shard, &mut asked, 2);
    let made = compact_now(&disk).unwrap().unwrap();
    assert_eq!(made.passed_over.len(), 1);
    assert_eq!(check(&disk, &asked).snapshot_sequence, made.cursor.sequence.0);
}

/// Files that look newer than all that the shard will have for long: rubbish, a snapshot of another directory, and one
/// of another state with a good hash at a place that the log does not have.
fn unusable(disk: &FakeDisk, commands: &[Command]) {
    let rubbish = data().join("snapshots/topics-2/snapshot-00000000009999999998.tgs");
    let file = disk.create_new(&rubbish).unwrap();
    file.write_all_at(b"junk", 0).and_then(|()| file.sync_data()).unwrap();
    disk.sync_dir(rubbish.parent().unwrap()).unwrap();
    let far = Cursor { position: Position(1 << 40), sequence: Sequence(9_999_999_999), ..Cursor::START };
    let elsewhere: Snapshots<TopicsFamily, _> = Snapshots::new(disk.clone(), Path::new("elsewhere"), TOPICS.log(8, 2));
    let far = Stand { cursor: far, ..Stand::default() };
    elsewhere.write(&far, &model(commands), |_| Ok(true)).unwrap();
    let foreign = disk.files().into_iter().find(|(path, _)| path.starts_with("elsewhere/snapshots")).unwrap().0;
    disk.rename(&foreign, &data().join("snapshots/topics-2").join(foreign.file_name().unwrap())).unwrap();
}

#[test]
fn snapshots_of_no_use_with_higher_numbers_never_cost_those_that_are() {
    let disk = FakeDisk::new(1);
    let mut asked = compacted(&disk);
    unusable(&disk, &asked[..50]);
    for round in 0..4 {
        let (mut shard, _) = open(&disk).unwrap();
        extend(&disk, &mut shard, &mut asked, 3);
        let made = compact_now(&disk).unwrap().unwrap();
        assert_eq!(made.written.set_aside.len(), if round == 0 { 2 } else { 0 }, "{:?}", made.written.set_aside);
        shard.into_log().close().unwrap();
        assert_eq!(check(&disk, &asked).snapshot_sequence, made.cursor.sequence.0);
        // Should the newest turn out damaged, there is one to fall back to.
        let newest = data().join("snapshots/topics-2").join(made.written.path.file_name().unwrap());
        disk.flip_bit(&newest, 90, 1);
        check(&disk, &asked);
        disk.flip_bit(&newest, 90, 1);
    }
}

#[test]
fn a_log_that_ends_before_its_snapshot_is_refused() {
    let disk = FakeDisk::new(1);
    let asked = compacted(&disk);
    let ahead = Cursor { position: Position(1 << 40), sequence: Sequence(1 << 30), ..Cursor::START };
    let stand = Stand { cursor: ahead, ..Stand::default() };
    snapshots_on(&disk).write(&stand, &model(&asked), |_| Ok(true)).unwrap();
    let before = disk.files();
    let refused = open(&disk).err().unwrap();
    let last = asked.len();
    assert!(
        refused.starts_with(&format!("records {} to 1073741824 are lost: journal/topics-2 ends", last + 1)),
        "{refused}"
    );
    assert!(refused.contains("snapshot-00000000001073741824.tgs was made when the log reached"), "{refused}");
    assert_eq!(disk.files(), before, "nothing was changed");

    // Once somebody has accepted it in the log, what is of the abandoned timeline is set aside, and the rest goes on.
    let since = snapshots_on(&disk).newest_header(Position(1 << 39)).unwrap().unwrap().cursor;
    let notice = Notice { kind: NoticeKind::LossAccepted, time_ms: 7, lost: None, text: "a test".into() };
    logs(&disk).append_notice(LOG, since, SMALL, &notice).unwrap();
    let (shard, report) = open(&disk).unwrap();
    assert!(report.snapshots_passed_over[0].contains("it is set aside as"), "{:?}", report.snapshots_passed_over);
    assert_eq!((report.notices, report.timelines.begun().len()), (vec![notice], 1));
    drop(shard);
    check(&disk, &asked);
}

#[test]
fn a_snapshot_that_the_key_of_the_directory_does_not_verify_is_never_served() {
    let disk = FakeDisk::new(1);
    let asked = compacted(&disk);
    let key = data().join("KEY");
    let right = disk.contents(&key).unwrap();
    disk.overwrite(&key, 0, &[9; 32]).unwrap();
    let refused = open(&disk).err().unwrap();
    assert!(refused.contains("KEY: cannot read: it is damaged: its checksum does not match"), "{refused}");
    // To a directory with another key, these are the snapshots of a forger.
    disk.open(&key).unwrap().set_len(32).unwrap();
    let refused = open(&disk).err().unwrap();
    assert!(refused.contains("no snapshot can be used") && refused.contains("verify with the KEY"), "{refused}");
    disk.rename(&key, &data().join("elsewhere")).unwrap();
    let refused = open(&disk).err().unwrap();
    assert!(refused.contains("there is no file KEY in the data directory"), "{refused}");
    disk.rename(&data().join("elsewhere"), &key).unwrap();
    disk.overwrite(&key, 0, &right).unwrap();
    check(&disk, &asked);
}

#[test]
fn a_crash_at_any_operation_of_a_compaction_loses_nothing() {
    let mut cut_short = 0;
    for operations in 0..60 {
        let disk = FakeDisk::new(operations);
        let (mut shard, mut asked) = long(&disk, 4);
        compact_now(&disk).unwrap().unwrap();
        extend(&disk, &mut shard, &mut asked, 3);
        shard.into_log().close().unwrap();
        disk.crash_after_ops(operations);
        cut_short += u32::from(compact_now(&disk).is_err());
        disk.crash();
        check(&disk, &asked);
        // Whatever was left, the next one gets on with it.
        let (mut shard, _) = open(&disk).unwrap();
        extend(&disk, &mut shard, &mut asked, 3);
        compact_now(&disk).unwrap().unwrap();
        check(&disk, &asked);
    }
    assert!(cut_short >= 8, "the crash must hit the compaction: {cut_short}");
}

#[test]
fn a_compaction_that_is_stopped_leaves_everything_as_it_was() {
    let disk = FakeDisk::new(1);
    let (shard, asked) = long(&disk, 4);
    shard.into_log().close().unwrap();
    let before = disk.files();
    let mut groups = 0;
    let stopped = compact_while(&disk, || {
        groups += 1;
        groups < 3
    });
    assert!(stopped.unwrap().is_none());
    assert_eq!(disk.files(), before);
    check(&disk, &asked);
}

#[test]
fn the_audit_refolds_what_is_there_and_compares_the_snapshots() {
    let disk = FakeDisk::new(1);
    let asked = compacted(&disk);
    let audit = |disk: &FakeDisk| -> Result<Findings<Topics>, OpenError> {
        tidegate_shard::audit(&logs(disk), &snapshots_on(disk), SHARDS, |_, _| {})
    };
    let found = audit(&disk).unwrap();
    assert_eq!((&found.problems[..], found.snapshots_compared), (&[][..], 2));
    assert_eq!(found.begins_after.0 + found.records, asked.len() as u64);
    assert!(found.begins_after > Sequence(0));
    assert_eq!(bytes_of(&found.state.unwrap()), bytes_of(&model(&asked)));

    // A snapshot with a good hash of another state.
    let newest = newest(&disk);
    disk.remove(&snapshots(&disk)[1]).unwrap();
    let mut other: Vec<Command> = asked[..newest.sequence.0 as usize].to_vec();
    other[3] = retain(49, 20);
    let newest = Stand { cursor: newest, ..Stand::default() };
    snapshots_on(&disk).write(&newest, &model(&other), |_| Ok(true)).unwrap();
    let problems = audit(&disk).unwrap().problems;
    assert_eq!(problems, [format!("the snapshot at sequence {} is not what the log gives", newest.cursor.sequence)]);

    disk.flip_bit(&snapshots(&disk)[1], 200, 0);
    let problems = audit(&disk).unwrap().problems;
    assert!(matches!(&problems[..], [problem] if problem.contains("its hash does not verify")), "{problems:?}");

    // A record that was changed, with its segment whole otherwise.
    let sealed = folder().join(segment_name(segments(&disk)[0]));
    disk.flip_bit(&sealed, 4096 + 120 + 20, 2);
    let problems = audit(&disk).unwrap().problems;
    assert!(problems.iter().any(|problem| problem.contains("does not match its checksum")), "{problems:?}");
}

#[test]
fn a_disk_that_runs_full_waits_for_no_second_segment() {
    let disk = FakeDisk::new(1);
    let (mut shard, mut asked) = long(&disk, 2);
    assert!(compact_now(&disk).unwrap().is_none(), "one sealed segment is not worth it");
    assert_eq!(make_room(&disk).unwrap(), 0, "there is no older snapshot to fall back to");
    let covered = newest(&disk);
    assert_eq!(covered.position, *segments(&disk).last().unwrap());
    assert_eq!(make_room(&disk).unwrap(), 1, "what the only snapshot covers");
    assert_eq!((segments(&disk), snapshots(&disk).len()), (vec![covered.position], 1));
    assert_eq!(make_room(&disk).unwrap(), 0, "nothing is left");
    extend(&disk, &mut shard, &mut asked, 2);
    make_room(&disk).unwrap();
    make_room(&disk).unwrap();
    assert_eq!((segments(&disk).len(), snapshots(&disk).len()), (1, 1));
    check(&disk, &asked);
}

/// What makes the sealed segments of no use stands in the last one.
#[test]
fn on_a_full_disk_a_snapshot_is_of_all_that_is_durable() {
    let disk = FakeDisk::new(1);
    let (mut shard, mut asked) = long(&disk, 3);
    let reader = logs(&disk).reader(LOG).unwrap();
    let end = logs(&disk).inspect(LOG, Cursor::START).unwrap().durability();
    assert!(end.position() > reader.settled_end().unwrap().position(), "something stands in the last segment");
    let rule = RULE.under(Pressure::Full);
    let to_the_end = || compact_to(&snapshots_on(&disk), &reader, SHARDS, &end, rule, || true).unwrap();
    let done = to_the_end().expect("there is something to cover");
    assert_eq!((done.cursor.position, done.cursor.sequence.0), (end.position(), asked.len() as u64));
    assert!(to_the_end().is_none(), "nothing is left");
    let forgotten = forget_covered(&snapshots_on(&disk), &reader, &end).unwrap();
    assert_eq!((forgotten.segments, segments(&disk).len(), snapshots(&disk).len()), (2, 1, 1));
    // With room again, nothing is to be done for what is sealed, until the place of that snapshot is.
    assert!(covers_all_sealed(&snapshots_on(&disk), &reader, &end).unwrap());
    let covered = asked.len() as u64;
    extend(&disk, &mut shard, &mut asked, 4);
    let end = logs(&disk).inspect(LOG, done.cursor).unwrap().durability();
    assert!(!covers_all_sealed(&snapshots_on(&disk), &reader, &end).unwrap());
    let next = compact_now(&disk).unwrap().unwrap();
    assert_eq!(next.events, next.cursor.sequence.0 - covered, "it begins from that one");
    check(&disk, &asked);
}

/// A disk that is filled by what could be forgotten gets free by itself, if something was left for the snapshot.
#[test]
fn a_log_that_has_filled_its_disk_is_compacted_out_of_the_reserve() {
    for (reserve_bytes, goes_on) in [(1 << 20, true), (0, false)] {
        let disk = FakeDisk::new(1);
        disk.set_capacity(640 << 10);
        let (mut shard, _) = open_with(&disk, Options { reserve_bytes, ..SMALL }).unwrap();
        let mut asked = Vec::new();
        let full = loop {
            let command = retain(asked.len(), 300);
            shard.call(asked.len(), command.clone());
            settle(&mut shard);
            match &all_released(&mut shard)[..] {
                [(_, Ok(_))] => asked.push(command),
                [(_, Err(Unavailable::DiskFull))] => break command,
                other => panic!("{other:?}"),
            }
        };
        assert!(segments(&disk).len() > 10);
        let made = make_room(&disk).and_then(|_| make_room(&disk));
        assert_eq!(made.is_ok(), goes_on, "{made:?}");
        let unfinished = disk.files().iter().any(|(path, _)| path.ends_with("unfinished"));
        assert!(!unfinished, "what was not written takes no room");
        settle(&mut shard);
        shard.call(0, full.clone());
        settle(&mut shard);
        assert_eq!(matches!(&all_released(&mut shard)[..], [(_, Ok(_))]), goes_on);
        if goes_on {
            asked.push(full);
        }
        check(&disk, &asked);
    }
}
