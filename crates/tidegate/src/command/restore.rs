//! `tidegate restore`: makes a new data directory of a backup, or of a beginning of one.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use tidegate_backup::{At, Moment, restore};
use tidegate_runtime::threads::now_ms;

use crate::extension::{Extension, KnownFamily};
use crate::output::{complain, say, with_bytes_bar};

/// Restores the backup of this name, or the newest, into `data`.
pub fn run<P>(
    from: &Path,
    data: &Path,
    backup: Option<&str>,
    at: &At,
    extensions: &[&dyn Extension<P>],
) -> Result<ExitCode> {
    let known: Vec<_> = KnownFamily::all(extensions).iter().map(|known| known.copied).collect();
    let now = Moment(now_ms().0);
    let restored = with_bytes_bar("restoring", |progress| restore(from, data, backup, at, &known, now, progress))?;
    if restored.has_replaced {
        say(format_args!("{}: what an interrupted restore had left there was removed", data.display()));
    }
    if restored.put_right > 0 {
        complain(format_args!(
            "{} byte(s) of the backup had changed since it was taken. In {} they are what was copied; but the disk or \
             the memory of the machine that has the backup harms data",
            restored.put_right,
            data.display()
        ));
    }
    for log in &restored.logs {
        let (name, end, backup_end) = (&log.name, log.end, log.backup_end);
        let left = backup_end.0.saturating_sub(end.0);
        let of = log.time.map_or_else(String::new, |time| format!(" ({time})"));
        match left {
            0 => say(format_args!("{name}: up to sequence {end}{of}, the end of the backup")),
            _ => say(format_args!("{name}: up to sequence {end}{of}; the {left} records behind it are left out")),
        }
        if log.ends_at_snapshot {
            say(format_args!("{name}: that is its snapshot, the earliest place that the backup has of it"));
        } else if log.moved_forward > 0 {
            let moved = log.moved_forward;
            let why = "records of other shards before it rest on them";
            say(format_args!("{name}: its last {moved} records are behind the place that was asked for: {why}"));
        }
        if log.later > 0 {
            let why = "a clock was wrong before, so they may have been written by then, and are kept";
            say(format_args!("{name}: its last {} records say a later time than the place: {why}", log.later));
        }
    }
    let data = data.display();
    say(format_args!("{data} is backup {} of {}, on a timeline of its own", restored.backup, restored.taken_at));
    say(format_args!("check it with: tidegate audit --data {data}"));
    say(format_args!(
        "if the server that was backed up goes on beside this one: what is queued is in both, so both send it on; and \
         a queues.node that the configuration names must be another one here, or queues to which both have links take \
         messages of the one for those of the other"
    ));
    Ok(ExitCode::SUCCESS)
}
