//! A copy of `DIRECTORY` that stands apart from the logs: whether a directory made of both would be opened.
//!
//! Why: a start looks at the description before everything else. A copy of it that is damaged, or that lists other logs
//! than were copied, is found while there is still another copy.

use std::path::Path;

use super::description::Description;
use super::{DIRECTORY, agree, refuse, unknown_family};
use crate::disk::RealDisk;
use crate::{Family, JournalError, LogId};

/// That the file `DIRECTORY` in `folder` describes a directory of exactly these `logs`, in `families` that a program
/// knows. Refuses one that is damaged, of another version or of another directory.
pub fn check_description(folder: &Path, families: &[Family], logs: &[LogId]) -> Result<(), JournalError> {
    let description = Description::read(&RealDisk, &folder.join(DIRECTORY))?;
    for listed in &description.families {
        let known = families.iter().find(|family| family.number == listed.number);
        agree(folder, listed, known.ok_or_else(|| refuse(folder, unknown_family(listed)))?)?;
        for shard in 0..listed.shards {
            let log = LogId { directory: description.id, family: listed.number, shard };
            if !logs.contains(&log) {
                let name = &listed.name;
                return Err(refuse(
                    folder,
                    format!("its file {DIRECTORY} lists {name}-{shard} ({log}), which is missing"),
                ));
            }
        }
    }
    let is_listed = |log: &&LogId| log.directory == description.id && log.shard < description.shards(log.family);
    match logs.iter().find(|log| !is_listed(log)) {
        Some(log) => Err(refuse(folder, format!("its file {DIRECTORY} does not list {log}, which is there"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::{Directory, ShardCount, Wanted};
    use super::*;
    use crate::Retention;

    const LEDGER: Family = Family { number: 1, name: "ledger", retention: Retention::Whole };
    const TOPICS: Family = Family { number: 2, name: "topics", retention: Retention::SinceSnapshot };

    #[test]
    fn a_copied_description_is_good_with_its_own_logs_only() {
        let data = tempfile::tempdir().unwrap();
        let wanted = |family, shards| Wanted { family, shards, count: ShardCount::Kept };
        let directory = Directory::open_or_create(data.path(), &[wanted(LEDGER, 2), wanted(TOPICS, 1)], 7).unwrap();
        let logs: Vec<LogId> = directory.logs(LEDGER).chain(directory.logs(TOPICS)).collect();
        drop(directory);
        let copy = tempfile::tempdir().unwrap();
        fs::copy(data.path().join(DIRECTORY), copy.path().join(DIRECTORY)).unwrap();
        let check = |families: &[Family], logs: &[LogId]| {
            check_description(copy.path(), families, logs).map_err(|error| error.to_string())
        };
        let both = [LEDGER, TOPICS];
        check(&both, &logs).unwrap();
        let more: Vec<LogId> = logs.iter().copied().chain([LogId { shard: 1, ..logs[2] }]).collect();
        let foreign: Vec<LogId> = logs.iter().map(|log| LogId { directory: log.directory ^ 1, ..*log }).collect();
        let forgetting = Family { retention: Retention::SinceSnapshot, ..LEDGER };
        for (families, logs, words) in [
            (&both[..], &logs[1..], "lists ledger-0"),
            (&both, &more, "does not list log 2/1"),
            (&both, &foreign, "lists ledger-0"),
            (&both[..1], &logs[..2], "it has a family 2 \"topics\" (1 shards) that this program does not serve"),
            (&[forgetting, TOPICS], &logs, "keeps its logs whole for ever"),
        ] {
            let refused = check(families, logs).unwrap_err();
            assert!(refused.contains(words) && refused.contains(&copy.path().display().to_string()), "{refused}");
        }
        let mut bytes = fs::read(copy.path().join(DIRECTORY)).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(copy.path().join(DIRECTORY), bytes).unwrap();
        let refused = check(&both, &logs).unwrap_err();
        assert!(refused.contains("its file DIRECTORY is damaged"), "{refused}");
    }
}
