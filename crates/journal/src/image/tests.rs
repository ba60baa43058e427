use std::path::Path;

use super::*;
use crate::disk::{Disk, FakeDisk, FakeFile};

fn file_of(content: &[u8]) -> (FakeDisk, FakeFile) {
    let disk = FakeDisk::new(1);
    disk.create_dir_all(Path::new("d")).unwrap();
    let file = disk.create_new(Path::new("d/f")).unwrap();
    file.write_all_at(content, 0).and_then(|()| file.sync_data()).unwrap();
    (disk, file)
}

fn content(disk: &FakeDisk) -> Vec<u8> {
    disk.contents(Path::new("d/f")).unwrap()
}

fn put(image: &mut Image, bytes: &[u8]) {
    image.put(bytes.len(), |memory| memory.extend_from_slice(bytes));
}

#[test]
fn what_shares_a_block_is_written_again_as_it_was() {
    let before: Vec<u8> = (0..5_000_u32).map(|n| n as u8).collect();
    let (disk, file) = file_of(&before);
    let mut image = Image::behind(&file, 5_000).unwrap();
    let mut expected = before;
    for round in 0..40_u8 {
        assert!(image.is_empty() && image.offset() == expected.len() as u64);
        let piece = vec![round; usize::from(round) * 331 + 1];
        put(&mut image, &piece);
        assert_eq!(image.bytes(), piece.len());
        image.write_to(&file).unwrap();
        expected.extend_from_slice(&piece);
        let there = content(&disk);
        assert_eq!(there[..expected.len()], expected);
        assert!(there.len().is_multiple_of(BLOCK_BYTES) && there[expected.len()..].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn a_mark_stands_where_the_next_bytes_go_also_across_the_end_of_a_block() {
    for end in [4_096, 4_100, 8_191] {
        let (disk, file) = file_of(&vec![5; end]);
        let mut image = Image::behind(&file, end as u64).unwrap();
        image.write_mark_to(&file, &[9; 80]).unwrap();
        assert_eq!(content(&disk)[end - 1..end + 81], [&[5][..], &[9; 80], &[0]].concat());
        put(&mut image, &[6; 10]);
        image.write_to(&file).unwrap();
        assert_eq!(content(&disk)[end - 1..end + 10], [&[5][..], &[6; 10]].concat());
        let in_its_block = (end + 10).next_multiple_of(BLOCK_BYTES).min(end + 80) - end;
        assert!(content(&disk)[end + 10..end + in_its_block].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn a_crash_while_a_block_is_written_again_leaves_what_was_durable() {
    for seed in 0..200 {
        let disk = FakeDisk::new(seed);
        disk.create_dir_all(Path::new("d")).unwrap();
        let file = disk.create_new(Path::new("d/f")).unwrap();
        disk.sync_dir(Path::new("d")).unwrap();
        let durable: Vec<u8> = (0..4_700_u32).map(|n| (n % 251) as u8).collect();
        file.write_all_at(&durable, 0).and_then(|()| file.sync_data()).unwrap();
        let mut image = Image::behind(&file, durable.len() as u64).unwrap();
        put(&mut image, &[3; 9_000]);
        if seed % 2 == 0 {
            disk.crash_after_ops(0);
        }
        let _ = image.write_to(&file);
        disk.crash();
        assert_eq!(content(&disk)[..durable.len()], durable, "seed {seed}");
    }
}

#[test]
fn it_goes_on_in_another_file() {
    let (_, file) = file_of(&[5; 100]);
    let mut image = Image::behind(&file, 100).unwrap();
    image.move_to(4_096);
    assert!(image.is_empty() && image.offset() == 4_096);
    put(&mut image, &[1]);
    let (disk, next) = file_of(&[7; 4_096]);
    image.write_to(&next).unwrap();
    assert_eq!(content(&disk)[4_095..4_098], [7, 1, 0]);
}
