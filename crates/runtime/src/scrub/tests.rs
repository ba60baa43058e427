use std::path::{Path, PathBuf};

use tidegate_journal::disk::{Disk, DiskFile, FakeDisk};
use tidegate_journal::group::GROUP_HEADER_BYTES;
use tidegate_journal::segment::{MARK_BYTES, SEGMENT_HEADER_BYTES, parse_segment_name};
use tidegate_journal::step::StepLogs;
use tidegate_journal::{Family, Logs, Options, Retention};

use super::*;

const WHOLE: Family = Family { number: 1, name: "ledger", retention: Retention::Whole };
const LOG: LogId = LogId { directory: 5, family: 1, shard: 0 };

fn logs(disk: &FakeDisk) -> StepLogs<FakeDisk> {
    StepLogs::new(disk.clone(), Path::new("data"), &[WHOLE])
}

/// A log of some sealed segments and a last one, and the paths of all.
fn long_log() -> (FakeDisk, Vec<PathBuf>) {
    let disk = FakeDisk::new(3);
    let records = (0..90).map(|number| vec![number; 400]);
    logs(&disk).write_one_by_one(LOG, Options::small(16 * 1024), records).unwrap();
    let folder = Path::new("data/journal/ledger-0");
    let names = disk.list(folder).unwrap().into_iter().filter(|name| name.starts_with("segment-"));
    let paths: Vec<PathBuf> = names.map(|name| folder.join(name)).collect();
    assert!(paths.len() >= 4, "{paths:?}");
    (disk, paths)
}

/// What a pass in pieces of `bytes` knows to be damaged at its end.
fn pass(scrub: &mut LogScrub<impl LogReader>, bytes: u64) -> Vec<(String, u64)> {
    while !scrub.step(bytes, None, &mut verify) {}
    scrub.damage().iter().map(|place| (place.file.to_string(), place.offset)).collect()
}

#[test]
fn a_pass_looks_at_headers_and_marks_of_sealed_segments_whatever_its_pieces_are() {
    for bytes in [1, 3_000, u64::MAX] {
        let (disk, paths) = long_log();
        let damages = Arc::new(Damages::default());
        let mut scrub = LogScrub::new("ledger", LOG, logs(&disk).reader(LOG).unwrap(), damages);
        assert_eq!(pass(&mut scrub, bytes), vec![], "all is sound");
        let sealed = &paths[..paths.len() - 1];
        let mark = |path: &PathBuf| disk.contents(path).unwrap().len() as u64 - MARK_BYTES as u64;
        for path in sealed {
            for offset in [0, 8, 30, 75, mark(path), mark(path) + 20, mark(path) + 79] {
                disk.flip_bit(path, offset, 1);
                let at = if offset < 4_096 { 0 } else { mark(path) };
                let named = (path.strip_prefix("data").unwrap().display().to_string(), at);
                assert_eq!(pass(&mut scrub, bytes), vec![named], "{} at {offset}", path.display());
                disk.flip_bit(path, offset, 1);
                assert_eq!(pass(&mut scrub, bytes), vec![], "put right again");
            }
        }
        // Behind a group that cannot be read they are looked at, too.
        disk.flip_bit(&sealed[1], 5_000, 1);
        disk.flip_bit(&sealed[1], mark(&sealed[1]) + 20, 1);
        disk.flip_bit(&sealed[2], 30, 1);
        assert_eq!(pass(&mut scrub, bytes).len(), 3);
    }
}

/// The place that the damage of `error`, met at a record, is told at.
fn judged(damages: &Damages, reader: &impl LogReader, at: Position) -> Option<(String, u64)> {
    match damages.read(reader, ("ledger", LOG), at, &mut Vec::new()) {
        Ok(()) => None,
        Err(Unreadable::Damaged(place)) => Some((place.file.to_string(), place.offset)),
        other => panic!("{other:?}"),
    }
}

fn record_at(reader: &impl LogReader, at: Position) -> Vec<u8> {
    let mut record = Vec::new();
    reader.read(at, &mut record).expect("it is sound");
    record
}

/// A record with one wrong byte is read as it was written by whoever needs it, and nobody is refused.
#[test]
fn who_needs_a_record_that_is_put_right_gets_it() {
    let (disk, paths) = long_log();
    let damages = Arc::new(Damages::default());
    let reader = logs(&disk).mending(damages.mending()).reader(LOG).unwrap();
    let first = parse_segment_name(paths[1].file_name().unwrap().to_str().unwrap()).unwrap();
    let at = Position(first.0 + GROUP_HEADER_BYTES as u64);
    let written = record_at(&reader, at);
    let offset = (SEGMENT_HEADER_BYTES + GROUP_HEADER_BYTES) as u64;
    // Of its length, of its checksum, and of what it says.
    for byte in [0, 2, 5, 8, 20] {
        assert!(disk.flip_bit(&paths[1], offset + byte, 4));
        let mut record = Vec::new();
        damages.read(&reader, ("ledger", LOG), at, &mut record).expect("it was put right");
        assert_eq!((record, damages.count()), (written.clone(), 0), "{byte}");
    }
    assert_eq!(damages.mended_of(LOG), 5);
}

#[test]
fn what_reads_well_again_is_sound_without_another_pass() {
    let (disk, paths) = long_log();
    let (damages, reader) = (Arc::new(Damages::default()), logs(&disk).reader(LOG).unwrap());
    let mut scrub = LogScrub::new("ledger", LOG, reader.another().unwrap(), damages.clone());
    let name = paths[1].strip_prefix("data").unwrap().display().to_string();
    let first = parse_segment_name(paths[1].file_name().unwrap().to_str().unwrap()).unwrap();
    // The first group's record, and another one of the same segment.
    let one = Position(first.0 + GROUP_HEADER_BYTES as u64);
    let next = reader.groups(reader.begins_at_or_before(one).unwrap(), &reader.settled_end().unwrap());
    let mut next = next.unwrap();
    next.next_group().unwrap();
    let other = Position(next.cursor().position.0 + GROUP_HEADER_BYTES as u64);
    // A reader keeps files open: these are read by another one.
    let sound = |at| reader.another().unwrap().read(at, &mut Vec::new()).is_ok();
    assert!(sound(one) && sound(other), "records stand there");

    // All that is asked of a file that is away is one place: the file.
    let away = PathBuf::from("data/away");
    disk.rename(&paths[1], &away).unwrap();
    for at in [one, other, one] {
        assert_eq!(judged(&damages, &reader, at), Some((name.clone(), 0)));
    }
    assert_eq!(damages.count(), 1);
    let said = damages.find(&name, 0).unwrap().to_string();
    assert!(said.contains("cannot open: ") && !said.contains("damaged") && !said.contains("nothing"), "{said}");
    assert!(!scrub.look_again() && damages.count() == 1, "it is still away");
    let error = reader.read(one, &mut Vec::new()).unwrap_err();
    disk.rename(&away, &paths[1]).unwrap();
    assert!(scrub.look_again() && damages.count() == 0);

    // It is back before anybody looks around it: whoever asked gets it, and nothing is wrong now.
    let mut record = Vec::new();
    assert!(damages.judge(&reader, ("ledger", LOG), (one, &mut record), error).is_none());
    assert_eq!((record, damages.count()), (record_at(&reader, one), 0));

    // A record that the disk does not give is named by its offset in its file, not in the log.
    let offset = SEGMENT_HEADER_BYTES as u64 + other.0 - first.0;
    assert!(disk.spoil_sector(&paths[1], offset));
    assert_eq!(judged(&damages, &reader, other), Some((name.clone(), offset)));
    assert!(!scrub.look_again());
    disk.mend_sectors();
    assert!(scrub.look_again() && damages.count() == 0);

    // What stood behind the end of a file that was cut is missing from that end on.
    let bytes = disk.contents(&paths[1]).unwrap();
    let cut = offset - 9;
    disk.open(&paths[1]).unwrap().set_len(cut).unwrap();
    assert_eq!(judged(&damages, &reader, other), Some((name, cut)));
    disk.open(&paths[1]).unwrap().write_all_at(&bytes[cut as usize..], cut).unwrap();
    assert!(scrub.look_again() && damages.count() == 0);
    assert!(!scrub.look_again(), "there is nothing to look at");
}

/// What health says is what somebody would find who has no file open and no list of the folder.
#[test]
fn what_is_away_stays_told_until_everybody_can_read_it() {
    let (disk, paths) = long_log();
    for path in [&paths[0], &paths[1]] {
        let (damages, reader) = (Arc::new(Damages::default()), logs(&disk).reader(LOG).unwrap());
        let mut scrub = LogScrub::new("ledger", LOG, reader.another().unwrap(), damages.clone());
        let first = parse_segment_name(path.file_name().unwrap().to_str().unwrap()).unwrap();
        let at = Position(first.0 + GROUP_HEADER_BYTES as u64);
        // The reading has the file open, and goes on to read it.
        scrub.reader.read(at, &mut Vec::new()).unwrap();
        let away = PathBuf::from("data/away");
        disk.rename(path, &away).unwrap();
        scrub.reader.read(at, &mut Vec::new()).unwrap();
        // Whoever lists the folder now finds no such segment.
        let late = logs(&disk).reader(LOG).unwrap();
        judged(&damages, &late, at).unwrap();
        assert!(!scrub.look_again() && damages.count() >= 1, "{path:?} is still away");
        let error = late.read(at, &mut Vec::new()).unwrap_err();
        disk.rename(&away, path).unwrap();
        assert!(scrub.look_again() && damages.count() == 0);
        late.read(at, &mut Vec::new()).unwrap();
        // It came back before anybody looked around it: the cursor of whoever asked is not to blame.
        if path == &paths[0] {
            let mut record = Vec::new();
            assert!(damages.judge(&late, ("ledger", LOG), (at, &mut record), error).is_none());
            assert_eq!((record, damages.count()), (record_at(&late, at), 0));
        }
    }
}

#[test]
fn a_file_that_nobody_asks_for_is_told_when_it_is_away_and_when_it_is_back() {
    let (disk, paths) = long_log();
    for path in &paths[..3] {
        let damages = Arc::new(Damages::default());
        let mut scrub = LogScrub::new("ledger", LOG, logs(&disk).reader(LOG).unwrap(), damages.clone());
        let away = PathBuf::from("data/away");
        disk.rename(path, &away).unwrap();
        for _ in 0..2 {
            assert!(!scrub.look_again());
            let of: Vec<_> = scrub.damage().iter().map(|place| (place.file.to_string(), place.is_away)).collect();
            assert_eq!(of, vec![(path.strip_prefix("data").unwrap().display().to_string(), true)]);
        }
        disk.rename(&away, path).unwrap();
        assert!(scrub.look_again() && damages.count() == 0);
    }
}

/// A reading of the log, and whom it tells.
fn scrub_of(disk: &FakeDisk) -> (LogScrub<impl LogReader + use<>>, Arc<Damages>) {
    let damages = Arc::new(Damages::default());
    (LogScrub::new("ledger", LOG, logs(disk).reader(LOG).unwrap(), damages.clone()), damages)
}

#[test]
fn what_a_pass_has_found_is_forgotten_when_it_is_put_right_and_not_before_the_next_pass_only() {
    let (disk, paths) = long_log();
    let (mut scrub, damages) = scrub_of(&disk);
    let mark = disk.contents(&paths[2]).unwrap().len() as u64 - MARK_BYTES as u64;
    // A group, a header and a mark, in segments of their own.
    let flips = [(&paths[0], 5_000), (&paths[1], 30), (&paths[2], mark + 20)];
    flips.iter().for_each(|(path, offset)| assert!(disk.flip_bit(path, *offset, 1)));
    assert_eq!(pass(&mut scrub, u64::MAX).len(), 3);
    assert!(!scrub.look_again() && damages.count() == 3, "all are as they were");
    for (left, (path, offset)) in flips.iter().enumerate().map(|(nth, flip)| (2 - nth, flip)) {
        assert!(disk.flip_bit(path, *offset, 1));
        assert!(scrub.look_again(), "{} at {offset}", path.display());
        assert_eq!(damages.count(), left);
    }
    assert!(!scrub.look_again(), "there is nothing to look at");
}

#[test]
fn a_pass_forgets_nothing_that_it_has_not_read() {
    let (disk, paths) = long_log();
    let (mut scrub, damages) = scrub_of(&disk);
    let newest = paths.last().unwrap();
    let first = parse_segment_name(newest.file_name().unwrap().to_str().unwrap()).unwrap();
    let at = Position(first.0 + GROUP_HEADER_BYTES as u64);
    let reader = logs(&disk).reader(LOG).unwrap();
    for is_damaged in [true, false] {
        assert!(disk.flip_bit(newest, SEGMENT_HEADER_BYTES as u64 + GROUP_HEADER_BYTES as u64 + 20, 1));
        assert_eq!(judged(&damages, &reader, at).is_some(), is_damaged);
        for _ in 0..2 {
            assert_eq!(pass(&mut scrub, u64::MAX).len(), 1, "it stands in a segment that is still being written");
        }
        assert_eq!((scrub.look_again(), damages.count()), (!is_damaged, usize::from(is_damaged)));
    }
}

#[test]
fn more_damage_than_is_looked_at_at_a_time_is_looked_at_in_turns() {
    let (disk, paths) = long_log();
    let (mut scrub, damages) = scrub_of(&disk);
    disk.flip_bit(&paths[2], 5_000, 1);
    assert_eq!(pass(&mut scrub, u64::MAX).len(), 1);
    // As many as fill two turns, at a place where no record begins.
    for offset in 0..130 {
        let place = (paths[0].to_str().unwrap(), offset);
        let met = Met::Record(Position(u64::MAX / 4 + offset));
        damages.note_at("ledger", LOG, place, ("rot".into(), "records".into()), Some(met));
    }
    disk.flip_bit(&paths[2], 5_000, 1);
    let looks = (0..4).filter(|_| scrub.look_again()).count();
    assert_eq!((looks, damages.count()), (1, 130));
}

#[test]
fn a_record_is_read_from_the_file_that_took_the_name_of_a_damaged_one() {
    let (disk, paths) = long_log();
    let reader = logs(&disk).reader(LOG).unwrap();
    let at = Position(GROUP_HEADER_BYTES as u64);
    reader.read(at, &mut Vec::new()).expect("it is sound");
    let good = disk.contents(&paths[0]).unwrap();
    disk.flip_bit(&paths[0], SEGMENT_HEADER_BYTES as u64 + at.0 + 20, 1);
    assert!(reader.read(at, &mut Vec::new()).is_err());
    let copy = PathBuf::from("data/copy");
    let file = disk.create_new(&copy).unwrap();
    file.write_all_at(&good, 0).and_then(|()| file.sync_data()).unwrap();
    disk.rename(&copy, &paths[0]).unwrap();
    reader.read(at, &mut Vec::new()).expect("what was open is another file");
}

/// How many segments are sealed says the newest one. While it cannot be read, those that were sealed before still are.
#[test]
fn a_newest_segment_that_cannot_be_read_keeps_none_before_it_from_being_read() {
    let (disk, paths) = long_log();
    let (mut scrub, damages) = scrub_of(&disk);
    let (newest, last) = paths.split_last().map(|(newest, sealed)| (newest, &sealed[sealed.len() - 1])).unwrap();
    let name = |path: &PathBuf| path.strip_prefix("data").unwrap().display().to_string();
    assert_eq!(pass(&mut scrub, 1), vec![]);
    let (whole, mut read) = (scrub.facts().bytes, scrub.facts().bytes);
    disk.spoil_sector(newest, 0);
    disk.flip_bit(last, 5_000, 1);
    for bytes in [1, 3_000, u64::MAX] {
        let found: Vec<_> = pass(&mut scrub, bytes).into_iter().map(|(file, _)| file).collect();
        assert_eq!(found, [name(last), name(newest)]);
        assert!(scrub.facts().bytes - read > whole / 2, "all before it were read");
        read = scrub.facts().bytes;
    }
    disk.mend_sectors();
    assert!(scrub.look_again() && damages.count() == 1, "the newest one is sound again");

    // Nothing was known before: that is no pass, and forgets nothing.
    let (mut scrub, damages) = scrub_of(&disk);
    disk.flip_bit(last, 5_000, 1);
    damages.note_at("ledger", LOG, (paths[0].to_str().unwrap(), 9), ("rot".into(), "records".into()), None);
    disk.spoil_sector(newest, 0);
    assert_eq!((pass(&mut scrub, u64::MAX).len(), scrub.facts().passes), (2, 0));
    disk.mend_sectors();
    assert_eq!((pass(&mut scrub, u64::MAX), scrub.facts().passes), (vec![], 1));
}
