use std::path::{Path, PathBuf};

use tidegate_journal::disk::{Disk, FakeDisk};
use tidegate_journal::segment::MARK_BYTES;
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
