use tidegate_disk::{Disk, FakeDisk};

use super::super::hash::RunKey;
use super::super::run_filter::{FilterRoom, FilterShape};
use super::*;
use tidegate_journal::Position;

/// More than two pieces, as the end of a run of a million ids has.
#[test]
fn the_end_of_a_large_run_is_written_read_and_checked_piece_by_piece() {
    let random_filter = FilterShape::best(2_000_000, FilterRoom::beside(0, 3 << 20));
    let header = RunHeader {
        number: 7,
        tier: 9,
        entries: 1_000,
        first: Position(1),
        last: Position(2),
        ordered: 0,
        times: (0, 0),
        random_filter,
        ordered_filter: FilterShape::default(),
    };
    let mut index = RunIndex::new(&header);
    for page in 0..header.pages() {
        index.note(page, true, RunKey { key: page << 40, tail: 0 });
    }
    let (disk, path) = (FakeDisk::new(1), Path::new("data/run"));
    disk.create_dir_all(Path::new("data")).expect("the disk works");
    disk.create_new(path).expect("it is new");
    let file = disk.open(path).expect("it is there");
    write(&file, path, &header, &index).expect("the disk works");
    let again = read(&file, path, &header).expect("it is whole");
    assert_eq!(again.fences.keys, index.fences.keys);
    let words = |index: &RunIndex| index.filters.random.filter().expect("it is large enough").words().to_vec();
    assert!(words(&again) == words(&index));

    let check_by = |bytes_max| {
        let (mut check, mut read) = (TailCheck::new(&header), Vec::new());
        loop {
            match check.read_on(&file, path, bytes_max)? {
                0 => return Ok::<_, IdsError>(read),
                bytes => read.push(bytes),
            }
            assert!(read.len() < 100, "it ends");
        }
    };
    let check = || check_by(u64::MAX);
    let pieces = check().expect("it is whole");
    assert!(pieces.len() >= 3 && pieces.iter().all(|bytes| *bytes <= (PIECE_BYTES + CHECKSUM_BYTES) as u64));
    assert_eq!(pieces.iter().sum::<u64>(), header.file_bytes() - header.tail_offset());
    let smaller = check_by(1 << 17).expect("it is whole");
    assert!(smaller.iter().all(|bytes| *bytes <= (1 << 17) + CHECKSUM_BYTES as u64), "{smaller:?}");
    assert_eq!(smaller.iter().sum::<u64>(), pieces.iter().sum::<u64>());
    for offset in [header.tail_offset(), header.tail_offset() + (5 << 18), header.file_bytes() - 1] {
        assert!(disk.flip_bit(path, offset, 3));
        assert!(matches!(check(), Err(IdsError::Damaged { .. })), "byte {offset}");
        assert!(disk.flip_bit(path, offset, 3));
    }
}
