//! `tidegate backup`: copies a data directory that a server may be using, and verifies copies.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use tidegate_backup::{Moment, Reread, take, verify};
use tidegate_runtime::threads::now_ms;

use crate::extension::{Extension, KnownFamily};
use crate::output::{complain, say, with_bytes_bar};

/// Takes a backup of `data` into the directory of backups `to`.
pub fn run<P>(data: &Path, to: &Path, reread: Reread, extensions: &[&dyn Extension<P>]) -> Result<ExitCode> {
    let known: Vec<_> = KnownFamily::all(extensions).iter().map(|known| known.copied).collect();
    let now = Moment(now_ms().0);
    let taken = with_bytes_bar("copying", |progress| take(data, to, reread, &known, now, progress))?;
    for remark in &taken.remarks {
        complain(format_args!("{remark}"));
    }
    for (log, end) in &taken.logs {
        say(format_args!("{log}: up to sequence {}", end.sequence));
    }
    let (copied, bytes) = (indicatif::HumanBytes(taken.bytes_copied), indicatif::HumanBytes(taken.bytes));
    say(format_args!("backup {} in {}: {copied} copied, {bytes} in all", taken.name, taken.folder.display()));
    Ok(ExitCode::SUCCESS)
}

/// Reads all backups in `from` again; exit 0 only if each is what was taken.
pub fn run_verify(from: &Path) -> Result<ExitCode> {
    let verified = with_bytes_bar("verifying", |progress| verify(from, progress))?;
    for problem in &verified.problems {
        complain(format_args!("WRONG: {problem}"));
    }
    if !verified.problems.is_empty() {
        let (problems, to) = (verified.problems.len(), from.display());
        complain(format_args!(
            "{problems} problem(s) found. What the data directory still has of the segments is copied anew by: \
             tidegate backup --data DIR --to {to} --reread"
        ));
        return Ok(ExitCode::from(2));
    }
    let (backups, bytes) = (verified.backups.len(), indicatif::HumanBytes(verified.bytes));
    say(format_args!("{backups} backup(s), {bytes}: all are what was copied"));
    Ok(ExitCode::SUCCESS)
}
