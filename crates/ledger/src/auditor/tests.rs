//! What of the fold from the first record a report takes over.

use std::path::Path;

use tidegate_disk::FakeDisk;
use tidegate_journal::{Logs, Options, StepLogs};
use tidegate_shard::OpenShard;

use super::*;

/// The auditor of a log without records.
fn auditor() -> ShardAuditor<FakeDisk, impl LogReader> {
    let (disk, data, log) = (FakeDisk::new(1), Path::new("/data"), LEDGER.log(1, 0));
    let logs = StepLogs::new(disk.clone(), data, &[LEDGER]);
    logs.create(log).expect("the disk is new");
    let snapshots: Snapshots<LedgerFamily, FakeDisk> = Snapshots::new(disk, data, log);
    let open = OpenShard::open(&logs, snapshots.clone(), Options::small(1 << 20)).expect("it was created");
    let recovered = open.recovered().durability();
    ShardAuditor::open(snapshots, logs.reader(log).expect("the disk works"), &recovered, 1)
}

/// What an auditor reports of a figure that differs.
pub(crate) fn difference(figure: &'static str) -> AuditDifference {
    AuditDifference {
        account: "wallet".into(),
        figure,
        live: 1,
        journal: 2,
        agreed_at_sequence: 0,
        hold: None,
        texts: None,
    }
}

#[test]
fn a_report_counts_what_differs_in_the_round_and_in_the_snapshot_it_began_from() {
    let mut auditor = auditor();
    auditor.round.differences = Differences { named: vec![difference("balance")], more: 2 };
    let differences = Differences { named: vec![difference("balance")], more: 3 };
    auditor.first_fold = FirstFold::Differs { differences, sequence: 0 };
    let report = auditor.report(7, None);
    assert_eq!((report.differences.len(), report.differences_more, report.finished_at_ms), (2, 5, 7));
}

#[test]
fn a_report_names_what_interrupts_the_fold_from_the_first_record() {
    let mut auditor = auditor();
    auditor.first_fold = FirstFold::Interrupted { why: "it rotted".into(), sequence: 0 };
    assert_eq!(auditor.report(7, None).damage.as_deref(), Some("it rotted"));
    assert_eq!(auditor.report(7, Some("so did this".into())).damage.as_deref(), Some("so did this"));
    auditor.first_fold = FirstFold::Agreed { sequence: 0 };
    assert_eq!(auditor.report(7, None).damage, None);
}

/// Nothing behind records that are missing is folded as if they were there.
#[test]
fn records_that_cannot_be_read_interrupt_the_fold_from_the_first_record() {
    let (disk, log) = (FakeDisk::new(1), LEDGER.log(1, 0));
    let logs = StepLogs::new(disk, Path::new("/data"), &[LEDGER]);
    logs.write_one_by_one(log, Options::small(16 << 10), (0..60).map(|n| vec![n; 400])).expect("the disk works");
    let reader = logs.reader(log).expect("the disk works");
    let second = reader.next_readable(Position(0)).expect("the disk works").expect("there are several segments");
    let mut groups = reader.groups(second, &reader.settled_end().expect("it has one")).expect("it is of this log");
    let mut fold = FirstFold::begin(log, 1);
    assert!(fold.read(&mut groups, &mut IdsCompared::default()).expect("it is sound"), "the reading goes on");
    let FirstFold::Interrupted { why, sequence: 0 } = fold else { panic!("it folds") };
    assert_eq!(why, format!("records 1 to {} cannot be read", second.sequence));
}
