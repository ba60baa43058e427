use super::*;
use crate::disk::{FakeDisk, RealDisk};

const FAMILY: Family = Family { number: 1, name: "ledger", retention: Retention::Whole };
const LOG: LogId = FAMILY.log(7, 0);

fn begins(position: u64) -> Cursor {
    Cursor { position: Position(position), ..Cursor::START }
}

#[test]
fn a_header_that_has_rotted_says_whether_records_may_be_left() {
    let disk = FakeDisk::new(1);
    let folder = Folder::new(disk.clone(), Path::new("data"), &FAMILY, LOG);
    disk.create_dir_all(&folder.path).unwrap();
    let path = folder.segment_path(Position(0));
    disk.create_new(&path).unwrap();
    let said = || folder.open_rotten(Position(0)).unwrap().1.unwrap_err().to_string();
    assert!(said().contains("all records of this segment: the file is empty"), "{}", said());
    disk.overwrite(&path, 0, &[7; 20]).unwrap();
    let cut = "all records of this segment: the file ends after 20 bytes, within its header";
    assert!(said().contains(cut), "{}", said());
    disk.overwrite(&path, 0, &[7; 2 * SEGMENT_HEADER_BYTES]).unwrap();
    assert!(said().contains("nothing, if its groups follow it: only the segment's header is bad"), "{}", said());
    disk.overwrite(&path, 0, &SegmentHeader { log: LOG, first: Cursor::START }.encode()).unwrap();
    assert_eq!(folder.open_rotten(Position(0)).unwrap().1.unwrap(), Cursor::START);
}

/// A move out of the directory that was cut short leaves a segment in both places.
#[test]
fn a_segment_that_is_here_and_in_the_archive_is_listed_once() {
    let data = tempfile::tempdir().unwrap();
    let folder = Folder::new(RealDisk, data.path(), &FAMILY, LOG);
    std::fs::create_dir_all(&folder.path).unwrap();
    for position in [200, 300] {
        std::fs::write(folder.segment_path(Position(position)), "").unwrap();
    }
    let moved = |first: u64, end: u64| {
        let (first, end, at) = (begins(first), begins(end), format!("/far/{first}"));
        Archived { log: "ledger-0".into(), first, end, bytes: 1, hash: [0; 32], at }
    };
    Archive { segments: vec![moved(0, 100), moved(100, 200), moved(200, 300)] }.write(data.path()).unwrap();
    let listed: Vec<u64> = folder.list_segments().unwrap().into_iter().map(|first| first.0).collect();
    assert_eq!(listed, [0, 100, 200, 300]);
    // It is read where it is, and the others where they were moved to.
    assert_eq!(folder.segment_place(Position(200)), folder.segment_path(Position(200)));
    assert_eq!(folder.segment_place(Position(100)), Path::new("/far/100"));
}
