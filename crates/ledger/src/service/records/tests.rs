//! What a job reads of a log on a disk in memory.

use std::path::Path;

use tidegate_disk::FakeDisk;
use tidegate_journal::step::Step;
use tidegate_journal::{Cursor, Logs, Opened, Options, StepLogs};
use tidegate_machines::ledger::Ledger;
use tidegate_machines::{Machine, OutboundNumber, ShardIndex, TimeMs};

use super::*;

#[test]
fn a_record_that_is_no_event_is_damaged_and_keeps_no_other_from_being_read() {
    let (disk, id) = (FakeDisk::new(1), LEDGER.log(1, 0));
    let logs = StepLogs::new(disk, Path::new("data"), &[LEDGER]);
    let Opened { mut log, .. } = logs.open(id, Cursor::START, Options::small(16 << 10)).expect("it is new");
    let event = Event::CreditsConfirmed { time: TimeMs(1), to: ShardIndex(1), number: OutboundNumber(2) };
    let mut encoded = Vec::new();
    Ledger::encode(&event, &mut encoded);
    let mut group = log.begin_group();
    let mut append = |record: &[u8]| group.try_append(|bytes| bytes.extend_from_slice(record)).expect("there is room");
    let positions = vec![append(&encoded), append(b"no event"), append(&encoded)];
    log.submit(group).expect("it takes one");
    while log.step().expect("the disk works") != Step::Synced {}

    let damages = Arc::default();
    let reader = logs.reader(id).expect("it is there");
    let Fetched::Records(Ok(records)) = RecordsJob::new(positions.clone(), id, &damages).run(&reader) else {
        panic!("the disk works")
    };
    let [Ok(first), Err(place), Ok(last)] = &records[..] else { panic!("{records:?}") };
    assert_eq!((&**first, &**last), (&*encoded, &*encoded));
    assert!(place.what.contains("no event of a ledger"), "{place:?}");
    assert_eq!(damages.count(), 1);
}
