//! A restore to a place in the past: `tidegate restore --at SEQUENCE`, from a backup that was taken while the process
//! served.
//!
//! ```text
//!   census: copy of what clients know ─▶ life ─▶ backup: each log up to its tail ─▶ life ─▶ killed
//!                 └─ each log of the backup is cut at its end of then, a notice follows ◀──────┘
//!                      └─▶ life on the new timeline; what is derived of the longer one lies around, or does not
//! ```
//!
//! Why at the place of a census: nothing was under way then, so it is known what clients had been told.

use tidegate_journal::disk::FakeDisk;
use tidegate_journal::{Cursor, LocalLogs, LogFiles, Logs, Lost, Notice, NoticeKind, Sequence};
use tidegate_ledger::LEDGER;

use super::LedgerWorld;
use super::rollback::{OldCopy, failed};
use crate::harness::{End, LogFiles as Files, Store, data};
use crate::ledger::node::log_id;
use crate::note;
use crate::violation::{Violation, must};

/// For so many ticks the process goes on before a backup is taken, and for as many behind it, at most.
const TICKS_MAX: u64 = 200;

/// A backup: the files of all logs, and how far each goes.
struct Backup {
    files: Files,
    ends: Vec<Cursor>,
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
        let backup = self.back_up()?;
        let is_here = self.live_on()?;
        self.end(End::Kill)?;
        if !is_here || self.site.disk.has_stopped() {
            self.load.copy = Some(copy);
            return Ok(());
        }
        let empty = self.site.chance.happens(400);
        note!(self.site.trace, "a backup is restored at {:?}; the directory is empty: {empty}", copy.ends);
        if empty {
            self.site.clear_data().map_err(failed)?;
        }
        self.site.put_back(&backup.files, None).map_err(failed)?;
        for shard in 0..self.load.plan.shards {
            self.cut_and_notice(shard, Sequence(copy.ends[usize::from(shard)]), backup.ends[usize::from(shard)])?;
        }
        self.site.disk.kill();
        let refusal = self.try_start();
        must(refusal.is_none(), "what was restored is served", || format!("{refusal:?}"))?;
        self.site.tally.add("a restore at a sequence", 1);
        self.roll_clients_back(&copy);
        Ok(())
    }

    /// What `tidegate backup` copies, while the process has its logs open.
    fn back_up(&mut self) -> Result<Backup, Violation> {
        note!(self.site.trace, "a backup is taken");
        let tail = |shard: u16| self.files(shard).tail(Cursor::START).map(|tail| tail.end);
        let ends = (0..self.load.plan.shards).map(tail).collect::<Result<_, _>>().map_err(broken)?;
        Ok(Backup { files: self.site.copy_logs().map_err(failed)?, ends })
    }

    fn files(&self, shard: u16) -> LogFiles<FakeDisk> {
        LocalLogs::new(self.site.disk.clone(), data(), &[LEDGER]).files(log_id(shard))
    }

    /// What `tidegate restore` does to a log that it has copied: it ends at this sequence, with a notice that says so.
    fn cut_and_notice(&mut self, shard: u16, at: Sequence, end: Cursor) -> Result<(), Violation> {
        let files = self.files(shard);
        let mut groups = files.groups(Cursor::START, end).map_err(broken)?;
        let mut cut = Cursor::START;
        while cut.sequence < at && groups.next_group().map_err(broken)?.is_some() {
            cut = groups.cursor();
        }
        must(cut.sequence == at, "what was durable is in a backup", || format!("shard {shard}: {cut:?}, {at:?}"))?;
        let behind =
            files.segments().map_err(broken)?.into_iter().filter(|first| *first >= cut.position && first.0 > 0);
        let behind: Vec<_> = behind.map(|first| files.path(first)).collect();
        self.site.remove_files(&behind).map_err(failed)?;
        files.cut(cut).map_err(broken)?;
        let lost = (cut.sequence < end.sequence).then(|| Lost { from: Sequence(at.0 + 1), to: Some(end.sequence) });
        let (kind, time_ms) = (NoticeKind::Restored, self.site.clock.now_ms());
        let notice = Notice { kind, time_ms, lost, text: "from a backup".into() };
        let options = self.load.plan.journal;
        self.site.store.logs().append_notice(log_id(shard), Cursor::START, options, &notice).map_err(broken)?;
        Ok(())
    }
}
