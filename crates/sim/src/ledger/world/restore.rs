//! A restore to a place in the past: `tidegate backup` while the process serves, and `tidegate restore --at`, by the
//! code that does them, on files of the real disk.
//!
//! ```text
//!   census: copy of what clients know ─▶ life ─▶ backup ─▶ life ─▶ perhaps another backup ─▶ killed
//!                 └─ the first backup is restored at the place, or the time, of then ◀────────┘
//!                      └─▶ life on the new timeline; what is derived of the longer one lies around, or does not
//! ```
//!
//! Why at the place of a census: nothing was under way then, so it is known what clients had been told.

use tidegate_backup::{At, BackupError, Known, Moment, Reread, Restored, restore, take};
use tidegate_journal::Sequence;
use tidegate_ledger::LedgerFamily;

use super::LedgerWorld;
use super::rollback::{OldCopy, failed};
use crate::harness::{End, LogFiles, RealFolder, Store};
use crate::ledger::node::DIRECTORY_ID;
use crate::note;
use crate::violation::{Violation, must};

/// For so many ticks the process goes on before a backup is taken, and for as many behind it, at most.
const TICKS_MAX: u64 = 200;

const KNOWN: [Known; 1] = [Known::of::<LedgerFamily>()];

/// Backups, and the name of the first.
struct Backups {
    folder: RealFolder,
    first: String,
}

fn broken(error: impl ToString) -> Violation {
    Violation::of("a backup can be taken while the process serves, and restored", error.to_string())
}

impl<S: Store> LedgerWorld<S> {
    /// Life goes on for a while, with its faults; whether the process lives, and nothing is wrong with its disk.
    fn live_on(&mut self) -> Result<bool, Violation> {
        for _ in 0..self.site.chance.within(0..=TICKS_MAX) {
            self.tick()?;
        }
        let unfit = self.node.is_none() || self.site.disk.has_stopped();
        Ok(!unfit && !self.site.is_full() && !self.site.may_refuse_for_damage())
    }

    /// Restores what a census has seen from a backup that is taken now.
    pub(super) fn restore_at(&mut self, copy: OldCopy) -> Result<(), Violation> {
        if !self.live_on()? {
            self.load.copy = Some(copy);
            return Ok(());
        }
        let folder = RealFolder::new().map_err(failed)?;
        let first = self.back_up(&folder)?;
        let is_here = self.live_on()?;
        if is_here && self.site.chance.happens(300) {
            self.back_up(&folder)?;
        }
        self.end(End::Kill)?;
        if !is_here || self.site.disk.has_stopped() {
            self.load.copy = Some(copy);
            return Ok(());
        }
        let restored = self.restore_from(&Backups { folder, first }, &copy)?;
        let empty = self.site.chance.happens(400);
        note!(self.site.trace, "a backup is restored at {:?}; the directory is empty: {empty}", copy.ends);
        if empty {
            self.site.clear_data().map_err(failed)?;
        }
        self.site.put_back(&restored, None).map_err(failed)?;
        let refusal = self.try_start();
        must(refusal.is_none(), "what was restored is served", || format!("{refusal:?}"))?;
        self.site.tally.add("a restore at a place", 1);
        self.roll_clients_back(&copy);
        Ok(())
    }

    /// `tidegate backup`, while the process has its logs open. The name of the backup.
    fn back_up(&mut self, folder: &RealFolder) -> Result<String, Violation> {
        let (data, now) = (folder.path("data"), self.site.clock.right_ms());
        if data.exists() {
            std::fs::remove_dir_all(&data).map_err(failed)?;
        }
        self.site.write_out(&data, DIRECTORY_ID).map_err(failed)?;
        let reread = if self.site.chance.happens(500) { Reread::All } else { Reread::Open };
        let taken =
            take(&data, &folder.path("backups"), reread, &KNOWN, Moment(now), &mut |_, _| {}).map_err(broken)?;
        note!(self.site.trace, "a backup is taken: {:?}", taken.logs);
        self.site.tally.add("a backup", 1);
        Ok(taken.name)
    }

    /// `tidegate restore --at`, by sequences or, where the clock is right, by the time: both are the same place.
    fn restore_from(&mut self, backups: &Backups, copy: &OldCopy) -> Result<LogFiles, Violation> {
        let sequences = (0u16..).zip(copy.ends.iter().map(|end| Sequence(*end))).collect();
        let mut at = At::Sequences(sequences);
        if let Some(at_ms) = copy.at_ms.filter(|_| self.site.chance.happens(800)) {
            let by_time = self.try_restore(backups, &At::Time(Moment(at_ms)), "by-time");
            let is_told = matches!(&by_time, Err(BackupError::Refused(words)) if self.is_untold(copy, words));
            match by_time {
                Ok(restored) => return self.check_restored(backups, &restored, copy, "by-time"),
                Err(error) => must(is_told, "a backup can be restored at a time", || error.to_string())?,
            }
            self.site.tally.add("a restore at a time that nobody can tell", 1);
        }
        // Of logs that have not begun, nobody can ask for a place.
        if copy.ends.iter().all(|end| *end == 0) {
            at = At::End;
        }
        let restored = self.try_restore(backups, &at, "restored").map_err(broken)?;
        self.check_restored(backups, &restored, copy, "restored")
    }

    /// Whether a clock was mended since, so that what was decided by a time is told by nobody.
    fn is_untold(&self, copy: &OldCopy, words: &str) -> bool {
        self.load.model.mends() > copy.mends() || words.contains("before the history begins")
    }

    fn try_restore(&self, backups: &Backups, at: &At, to: &str) -> Result<Restored, BackupError> {
        let (from, to) = (backups.folder.path("backups"), backups.folder.path(to));
        let now = Moment(self.site.clock.right_ms());
        restore(&from, &to, Some(&backups.first), at, &KNOWN, now, &mut |_, _| {})
    }

    /// It has what was there at the place that was asked for, and nothing else.
    fn check_restored(
        &mut self,
        backups: &Backups,
        restored: &Restored,
        copy: &OldCopy,
        name: &'static str,
    ) -> Result<LogFiles, Violation> {
        let ends: Vec<u64> = restored.logs.iter().map(|log| log.end.0).collect();
        must(ends == copy.ends, "what was there at a place is restored, and nothing else", || {
            format!("{:?}, {name}: {restored:?}", copy.ends)
        })?;
        self.site.tally.add(if name == "by-time" { "a restore at a time" } else { "a restore at a sequence" }, 1);
        self.site.read_in(&backups.folder.path(name)).map_err(failed)
    }
}
