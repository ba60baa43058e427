//! A data directory whose parts are not where they belong: the log of one shard in the place of another, or that of
//! another directory.
//!
//! ```text
//!   ledger-0 ◀─exchanged─▶ ledger-1      ─▶ the start is refused, says whose the file is, and changes nothing
//!   another directory ──▶ ledger-0       ─▶ the same
//!   another directory's file DIRECTORY   ─▶ the same, by the code that opens directories, on the real disk
//!   all of it, under another path        ─▶ opened: a directory is what its files say, wherever it is
//!   snapshots, ids of two shards         ─▶ served: what is derived is set aside, and made again
//! ```
//!
//! Done at the end of a census, when nothing is under way.

use std::path::PathBuf;

use tidegate_journal::directory::{Directory, ShardCount, Wanted};
use tidegate_journal::disk::FakeDisk;
use tidegate_journal::{Logs, StepLogs};
use tidegate_ledger::LEDGER;

use super::LedgerWorld;
use super::rollback::failed;
use crate::harness::{End, RealFolder, Store, StoreName, data};
use crate::ledger::node::DIRECTORY_ID;
use crate::note;
use crate::violation::{Violation, must};

/// What a refusal says of a file that is another's.
const SAYS_WHOSE: &str = "it belongs to";

impl<S: Store> LedgerWorld<S> {
    /// At the end of a census: now and then, parts of the directory are exchanged.
    pub(super) fn exchange_parts(&mut self) -> Result<(), Violation> {
        let unfit = S::NAME != StoreName::Local || self.node.is_none() || self.site.disk.has_stopped();
        if unfit || self.site.is_full() || self.site.may_refuse_for_damage() || !self.site.chance.happens(300) {
            return Ok(());
        }
        let shards = self.load.plan.shards;
        let one = self.site.chance.below(u64::from(shards)) as u16;
        self.open_moved()?;
        if shards == 1 || self.site.chance.happens(300) {
            return self.put_foreign_log(one);
        }
        let other = (one + 1) % shards;
        match self.site.chance.happens(500) {
            true => self.exchange_logs(one, other),
            false => self.exchange_derived(one, other),
        }
    }

    /// The directory under another path, and one whose file DIRECTORY is of another.
    fn open_moved(&mut self) -> Result<(), Violation> {
        let folder = RealFolder::new().map_err(failed)?;
        let count = ShardCount::Fixed { setting: "ledger.shards" };
        let wanted = [Wanted { family: LEDGER, shards: self.load.plan.shards, count }];
        let (moved, foreign) = (folder.path("moved"), folder.path("foreign"));
        self.site.write_out(&moved, DIRECTORY_ID).map_err(failed)?;
        let opened = Directory::open_or_create(&moved, &wanted, 0).map(|directory| directory.id());
        let is_same = opened.as_ref().is_ok_and(|id| *id == DIRECTORY_ID);
        must(is_same, "a directory is the same under another path", || format!("{opened:?}"))?;
        self.site.write_out(&foreign, DIRECTORY_ID + 1).map_err(failed)?;
        let opened = Directory::open_or_create(&foreign, &wanted, 0).map(|directory| directory.id());
        let says = "its file DIRECTORY is another data directory's";
        let is_told = opened.as_ref().is_err_and(|error| error.to_string().contains(says));
        must(is_told, "another directory's DIRECTORY is refused, and said to be that", || format!("{opened:?}"))?;
        self.site.tally.add("a DIRECTORY of another directory that was refused", 1);
        Ok(())
    }

    fn exchange_logs(&mut self, one: u16, other: u16) -> Result<(), Violation> {
        self.end(End::Kill)?;
        if self.site.disk.has_stopped() {
            return Ok(());
        }
        note!(self.site.trace, "the logs of shards {one} and {other} are exchanged");
        let newest = self.site.copy_data().map_err(failed)?;
        self.site.exchange(&log_folder(one), &log_folder(other)).map_err(failed)?;
        self.must_be_refused(&[log_folder(one), log_folder(other)])?;
        self.site.put_data_back(&newest).map_err(failed)
    }

    /// The log of another directory, of the same shard.
    fn put_foreign_log(&mut self, shard: u16) -> Result<(), Violation> {
        self.end(End::Kill)?;
        if self.site.disk.has_stopped() {
            return Ok(());
        }
        note!(self.site.trace, "shard {shard} gets the log of another directory");
        let newest = self.site.copy_data().map_err(failed)?;
        let elsewhere = FakeDisk::new(self.site.chance.number());
        let made = StepLogs::new(elsewhere.clone(), data(), &[LEDGER]).create(LEDGER.log(DIRECTORY_ID + 1, shard));
        made.map_err(|error| Violation::of("a log is made", error.to_string()))?;
        self.site.put_from(&elsewhere, &log_folder(shard)).map_err(failed)?;
        self.must_be_refused(&[log_folder(shard)])?;
        self.site.put_data_back(&newest).map_err(failed)
    }

    fn must_be_refused(&mut self, folders: &[PathBuf]) -> Result<(), Violation> {
        let before = self.site.copy_folders(folders).map_err(failed)?;
        let refusal = self.try_start();
        let told = refusal.as_ref().is_some_and(|words| words.contains(SAYS_WHOSE));
        must(told, "a log in another's place is refused, and said to be another's", || format!("{refusal:?}"))?;
        let is_same = self.site.copy_folders(folders).map_err(failed)? == before;
        must(is_same, "a refused start changes nothing of a log in another's place", String::new)?;
        self.site.tally.add("a log in another's place that was refused", 1);
        Ok(())
    }

    /// What is derived from two logs, exchanged: life goes on with it.
    fn exchange_derived(&mut self, one: u16, other: u16) -> Result<(), Violation> {
        let kind = *self.site.chance.one_of(&["snapshots", "ids"]);
        self.end(End::Kill)?;
        if self.site.disk.has_stopped() {
            return Ok(());
        }
        note!(self.site.trace, "the {kind} of shards {one} and {other} are exchanged");
        let folder = |shard: u16| data().join(kind).join(format!("ledger-{shard}"));
        self.site.exchange(&folder(one), &folder(other)).map_err(failed)?;
        self.site.tally.add("derived files of two shards exchanged", 1);
        Ok(())
    }
}

fn log_folder(shard: u16) -> PathBuf {
    data().join("journal").join(format!("ledger-{shard}"))
}
