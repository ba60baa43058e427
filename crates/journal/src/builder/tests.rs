use std::path::Path;

use crate::disk::FakeDisk;
use crate::step::StepLogs;
use crate::{Cursor, Family, LogStore, Logs, Options, Position, Retention};

#[test]
fn a_group_gives_its_records_and_nothing_where_none_begins() {
    let family = Family { number: 1, name: "ledger", retention: Retention::Whole };
    let logs = StepLogs::new(FakeDisk::new(1), Path::new("data"), &[family]);
    let mut log = logs.open(family.log(7, 0), Cursor::START, Options::small(16 * 1024)).unwrap().log;
    let mut group = log.begin_group();
    let records: [&[u8]; 3] = [&[7], &[0; 40], &[0xff; 9]];
    let places = records.map(|record| group.append(|buffer| buffer.extend_from_slice(record)));
    for (at, record) in places.iter().zip(records) {
        assert_eq!(group.record_at(*at), Some(record));
    }
    // In a record of zeros, where a length would be none, and in one whose bytes are too large for one.
    for nowhere in [places[1].0 + 8, places[2].0 + 8, places[0].0 - 1, 0, u64::MAX] {
        assert_eq!(group.record_at(Position(nowhere)), None, "{nowhere}");
    }
}
