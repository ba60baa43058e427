//! `tidegate backup`: copies a data directory that a server may be using, and verifies copies.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow, bail};
use tidegate_backup::{BackupError, Moment, Reach, Reread, take, verify};
use tidegate_journal::directory::Directory;
use tidegate_journal::disk::RealDisk;
use tidegate_journal::{Family, JournalError, LocalLogs};
use tidegate_runtime::threads::now_ms;

use super::accept_loss::{proven, proven_between};
use super::way_out::copy_in_a_backup;
use super::wrong_bytes::WrongBytes;
use crate::extension::{Extension, KnownFamily};
use crate::output::{complain, say, with_bytes_bar};

/// Takes a backup of `data` into the directory of backups `to`.
pub fn run<P>(data: &Path, to: &Path, reread: Reread, extensions: &[&dyn Extension<P>]) -> Result<ExitCode> {
    let known: Vec<_> = KnownFamily::all(extensions).iter().map(|known| known.copied).collect();
    refuse_proven_loss(data, extensions)?;
    let now = Moment(now_ms().0);
    let taken = with_bytes_bar("copying", |progress| take(data, to, reread, &known, now, progress));
    let taken = taken.map_err(|error| match error {
        BackupError::Journal(ref damaged @ JournalError::Damaged { ref segment, .. }) => anyhow!(
            "{damaged}. Earlier backups are as they were. Put the file right{}. Without a copy, a server goes on \
             beside the damage, if it starts: who needs what is damaged is refused, and this directory as it is can \
             only be copied whole. What a start would say: `tidegate accept-loss --data {} --reason TEXT`, when no \
             server uses the directory; it changes nothing",
            copy_in_a_backup(Path::new(segment)),
            data.display()
        ),
        other => other.into(),
    })?;
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

/// Refuses a directory that no server uses and whose logs are proven to have lost records, by what is beside each of
/// them or by the other shards: a backup has nothing that proves the one, so that a server made of it would start and
/// say nothing, and no server would start on the other. Of one that is in use, its start has looked.
fn refuse_proven_loss<P>(data: &Path, extensions: &[&dyn Extension<P>]) -> Result<()> {
    let all = KnownFamily::all(extensions);
    let families: Vec<Family> = all.iter().map(|known| known.family).collect();
    // Whatever else is wrong with the directory is said by who copies it.
    let Ok(directory) = Directory::look_at(data, &families) else { return Ok(()) };
    if directory.is_in_use()? {
        return Ok(());
    }
    let wrong = WrongBytes::default();
    let logs = LocalLogs::new(RealDisk, data, &families).mending(wrong.reading());
    // What keeps a log from being read is said by who copies it.
    let mut lost = proven(data, &directory, &logs, None, &all).lost;
    let between = proven_between(data, &directory, &logs);
    lost.extend(between.with_context(|| format!("no backup was taken: {NOT_WHOLE}"))?);
    if wrong.count() > 0 {
        bail!(
            "no backup was taken: {} byte(s) of {} are not what was written, see above. Start the server first: it \
             puts them right, and nothing is lost. To keep the files as they are, copy the whole directory",
            wrong.count(),
            data.display()
        );
    }
    if lost.is_empty() {
        return Ok(());
    }
    lost.iter().for_each(|lost| complain(format_args!("LOST: {lost}")));
    bail!(
        "no backup was taken: {NOT_WHOLE}. Put back the files that are missing, or accept the loss first (tidegate \
         accept-loss --data {} --reason TEXT). To keep the files as they are, copy the whole directory",
        data.display()
    )
}

/// Why a directory that has lost something is not copied.
const NOT_WHOLE: &str = "it would not have what proves this loss, or no server would start on what is restored";

/// Reads all backups in `from` again; exit 0 only if each is what was taken, and can be restored.
pub fn run_verify<P>(from: &Path, extensions: &[&dyn Extension<P>]) -> Result<ExitCode> {
    let known: Vec<_> = KnownFamily::all(extensions).iter().map(|known| known.copied).collect();
    let verified = with_bytes_bar("verifying", |progress| verify(from, &known, progress))?;
    for Reach { backup, logs } in &verified.reach {
        let logs: Vec<String> = logs.iter().map(|(log, end)| format!("{log} up to sequence {end}")).collect();
        say(format_args!("backup {backup}: {}", logs.join(", ")));
    }
    for problem in &verified.problems {
        complain(format_args!("WRONG: {problem}"));
    }
    if !verified.problems.is_empty() {
        let (problems, to) = (verified.problems.len(), from.display());
        complain(format_args!(
            "{problems} problem(s) found. Of segments that are not what was copied, what the data directory still has \
             is copied anew by: tidegate backup --data DIR --to {to} --reread. Without that directory, try the \
             restore: where one byte of a group has changed, it puts that right"
        ));
        return Ok(ExitCode::from(2));
    }
    let (backups, bytes) = (verified.backups.len(), indicatif::HumanBytes(verified.bytes));
    if backups == 0 {
        bail!("{} has no backup that is complete", from.display());
    }
    say(format_args!("{backups} backup(s), {bytes}: all are what was copied, and can be restored"));
    Ok(ExitCode::SUCCESS)
}
