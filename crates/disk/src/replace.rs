//! A small file that is written anew as a whole.

use std::io;
use std::path::Path;

use crate::{Disk, DiskFile};

/// Makes `bytes` the file at `path`, durably: after a crash it is the one before, or this one. Until then they stand
/// under the name `next` in the same folder, over what a crash has left there.
pub fn replace_file<D: Disk>(disk: &D, path: &Path, next: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().expect("a file is in a folder");
    assert!(next.parent() == Some(folder) && next != path, "both names are in one folder");
    if disk.exists(next)? {
        disk.remove(next)?;
    }
    let written = disk.create_new(next).and_then(|file| file.write_all_at(bytes, 0).and_then(|()| file.sync_data()));
    let written = written.and_then(|()| disk.rename(next, path)).and_then(|()| disk.sync_dir(folder));
    if written.is_err() {
        // It would keep room that others need.
        let _ = disk.remove(next);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FakeDisk;

    #[test]
    fn after_a_crash_at_any_step_there_is_the_one_before_or_the_new_one() {
        let (path, next) = (Path::new("data/file"), Path::new("data/file.next"));
        let mut seen = [false; 2];
        for seed in 0..200 {
            let disk = FakeDisk::new(seed);
            disk.create_dir_all(Path::new("data")).unwrap();
            replace_file(&disk, path, next, b"before").unwrap();
            disk.crash_after_ops(seed % 10);
            let done = replace_file(&disk, path, next, b"and behind").is_ok();
            disk.crash();
            let found = disk.contents(path).expect("one is there");
            assert!(found == b"and behind" || !done && found == b"before", "{seed}: {done}, {found:?}");
            seen[usize::from(found == b"before")] = true;
            replace_file(&disk, path, next, b"again").unwrap();
            assert_eq!(disk.contents(path).unwrap(), b"again");
            assert!(!disk.exists(next).unwrap());
        }
        assert_eq!(seen, [true; 2]);
    }
}
