use std::fs;

use super::*;
use crate::disk::RealDisk;
use crate::{ChainHash, Family, LocalLogs, LogId, LogReader, Logs, Lost, NoticeKind, Position, Retention, Sequence};

const TOPICS: Family = Family { number: 2, name: "topics", retention: Retention::SinceSnapshot };
const LOG: LogId = LogId { directory: 7, family: 2, shard: 0 };

fn notice(from: u64) -> Notice {
    let lost = Some(Lost { from: Sequence(from), to: None });
    Notice { kind: NoticeKind::LossAccepted, time_ms: 5, lost, text: "gone".into() }
}

#[test]
fn a_log_begins_anew_behind_a_snapshot_and_its_files_are_kept_aside() {
    let data = tempfile::tempdir().unwrap();
    let logs = LocalLogs::new(RealDisk, data.path(), &[TOPICS]);
    let path = data.path().join("journal/topics-0");
    let since = Cursor { position: Position(5_000), sequence: Sequence(40), chain: ChainHash([3; 32]) };
    // Cut short, before it had its name.
    fs::create_dir_all(data.path().join("journal/topics-0.anew")).unwrap();
    fs::write(data.path().join("journal/topics-0.anew/segment-00000000000000000009.tgj"), "half").unwrap();
    assert_eq!(logs.begin_anew(LOG, since, Options::default(), &notice(41)).unwrap(), None);
    for number in 0..2 {
        assert!(!data.path().join("journal/topics-0.anew").exists());
        let report = logs.inspect(LOG, since).unwrap();
        assert_eq!((report.begins, report.end.sequence, report.segments), (Position(5_000), Sequence(40), 1));
        let mut groups = logs.reader(LOG).unwrap().groups(since, &report.durability()).unwrap();
        assert_eq!(groups.next_group().unwrap().unwrap().notice, Some(notice(41)));
        assert!(logs.inspect(LOG, Cursor::START).is_err(), "nothing is before the snapshot");

        fs::write(path.join("torn"), "all that is there").unwrap();
        let aside = logs.begin_anew(LOG, since, Options::default(), &notice(41)).unwrap().unwrap();
        let named = ["journal/topics-0.set-aside", "journal/topics-0.set-aside-1"][number];
        assert_eq!(aside, data.path().join(named));
        assert!(aside.join("torn").exists());
    }
}
