use std::io::Write;

use super::*;
use crate::{BLOCK_BYTES, Blocks};

fn blocks_of(byte: u8, count: usize) -> Blocks {
    let mut blocks = Blocks::default();
    blocks.append(count * BLOCK_BYTES, |memory| memory.resize(memory.len() + count * BLOCK_BYTES, byte));
    blocks
}

/// Writes blocks, and reads them by another handle, which reads through the cache.
fn write_and_read(dir: &Path) -> io::Result<()> {
    let path = dir.join("blocks");
    let file = RealDisk.create_new(&path)?;
    DiskFile::write_all_at(&file, &[1; 100], 0)?;
    file.allocate(64 * BLOCK_BYTES as u64)?;
    file.bypass_cache();
    // More than one piece of a write into the cache.
    let many = PIECE_BYTES_MAX / BLOCK_BYTES + 3;
    for (byte, count, at) in [(2, 2, 0), (3, 1, 1), (4, many, 2)] {
        file.write_blocks_at(&blocks_of(byte, count), at * BLOCK_BYTES as u64)?;
        DiskFile::sync_data(&file)?;
        // A reader that has the block in the cache sees what is written later.
        let mut read = vec![0; count * BLOCK_BYTES];
        DiskFile::read_exact_at(&RealDisk.open(&path)?, &mut read, at * BLOCK_BYTES as u64)?;
        assert!(read.iter().all(|there| *there == byte), "block {at} of {}", path.display());
    }
    assert_eq!(std::fs::metadata(&path)?.len(), 64.max(many as u64 + 2) * BLOCK_BYTES as u64);
    Ok(())
}

#[test]
fn blocks_that_bypass_the_cache_are_seen_by_readers_at_once() -> io::Result<()> {
    // Where this program was built: on a disk, which the folder for temporary files need not be.
    let program = std::env::current_exe()?;
    let on_disk = program.parent().expect("a program is in a folder");
    write_and_read(tempfile::tempdir_in(on_disk)?.path())
}

/// As a directory is that was copied by a tool which leaves zeros out: a full disk would be met where room was claimed.
#[test]
fn a_file_that_was_copied_without_its_zeros_claims_them_again() -> io::Result<()> {
    let dir = tempfile::tempdir()?;
    let file = RealDisk.create_new(&dir.path().join("sparse"))?;
    DiskFile::write_all_at(&file, b"begins", 0)?;
    file.set_len(1 << 20)?;
    let claimed = |file: &File| Ok::<_, io::Error>(file.metadata()?.blocks() * STAT_BLOCK_BYTES);
    assert!(claimed(&file)? < 1 << 20, "it has holes");
    file.allocate(1 << 20)?;
    assert!(claimed(&file)? >= 1 << 20);
    let mut begins = [0; 6];
    DiskFile::read_exact_at(&file, &mut begins, 0)?;
    assert_eq!((&begins, DiskFile::len(&file)?), (b"begins", 1 << 20));
    Ok(())
}

/// In memory, where some kernels know no cache to bypass.
#[test]
fn a_file_system_that_cannot_bypass_its_cache_takes_blocks_into_it() -> io::Result<()> {
    match tempfile::tempdir_in("/dev/shm") {
        Ok(dir) => write_and_read(dir.path()),
        Err(_) => write_and_read(tempfile::tempdir()?.path()),
    }
}

/// On a disk, and in memory, where some kernels know no other way to read.
#[test]
fn what_is_read_once_is_what_stands_there() -> io::Result<()> {
    for dir in [tempfile::tempdir(), tempfile::tempdir_in("/dev/shm")].into_iter().flatten() {
        let file = RealDisk.create_new(&dir.path().join("log"))?;
        let bytes: Vec<u8> = (0..100_000_u32).map(|n| (n * 7 / 3) as u8).collect();
        DiskFile::write_all_at(&file, &bytes, 0)?;
        for (offset, len) in [(0, 100_000), (4_095, 8_194), (99_990, 100), (100_000, 10), (200_000, 10)] {
            let mut found = vec![0; len];
            let read = file.read_once_at(&mut found, offset as u64)?;
            let expected = &bytes[offset.min(bytes.len())..bytes.len().min(offset + len)];
            assert_eq!(&found[..read], expected, "{len} bytes at {offset}");
        }
    }
    Ok(())
}

/// A pipe takes the flag for another meaning, or refuses it: the write says what is wrong.
#[test]
fn what_is_no_file_is_said() {
    let (reader, mut writer) = io::pipe().expect("a process may open files");
    writer.write_all(b"x").expect("its buffer is empty");
    drop(reader);
    let pipe = File::from(std::os::fd::OwnedFd::from(writer));
    pipe.bypass_cache();
    assert!(pipe.write_blocks_at(&blocks_of(1, 1), 0).is_err());
}
