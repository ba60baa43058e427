//! A log that has lost records: what is lost, and how that is accepted.

use std::path::PathBuf;

use anyhow::Result;
use tidegate_journal::disk::RealDisk;
use tidegate_journal::{Cursor, Family, LocalLogs, LogId, Logs, Lost, Notice, NoticeKind, Options, Sequence};
use tidegate_shard::loss::Examined;
use tidegate_shard::{Claim, LossProven, ShardFamily, Stand};

use super::put_aside;
use crate::command::way_out::name_of;
use crate::output::say;

/// What proves that records were there says of none behind them.
const NO_MORE_IS_KNOWN: &str = "; whether there were more, nothing says";

/// A log that has lost records.
pub struct LostLog {
    /// Which.
    pub log: LogId,
    /// The cursor that it can be opened with.
    pub since: Cursor,
    /// Its records that are lost.
    pub missing: Lost,
    /// What is of the timeline that is given up.
    pub aside: Vec<PathBuf>,
    /// In words.
    pub proofs: Vec<String>,
    /// What that means; `None` if no record is lost.
    pub means: Option<&'static str>,
    /// Whether its files cannot be read, and it begins anew at `since`.
    pub is_begun_anew: bool,
}

impl LostLog {
    /// A log that begins anew with what remains of it, because of what is wrong with its files.
    pub fn anew<F: ShardFamily>(log: LogId, (stand, claims): (Stand, Vec<Claim>), wrong: &str) -> LostLog {
        let since = stand.cursor;
        let last = claims.iter().filter_map(|claim| claim.sequence).filter(|last| *last > since.sequence).max();
        let reached = last.map_or_else(String::new, |last| format!("; it reached sequence {last} at least"));
        let from = since.sequence.0 + 1;
        let kept = match since.sequence {
            Sequence(0) => "it has no snapshot that can be used, so that all of it is lost".to_owned(),
            kept => format!(
                "what its snapshot at sequence {kept} has is kept, but not what that needs of the files before, which \
                 are set aside, such as bodies of messages of queues"
            ),
        };
        LostLog {
            log,
            since,
            missing: Lost { from: Sequence(from), to: last },
            aside: claims.into_iter().map(|claim| claim.source).collect(),
            proofs: vec![format!("records from {from} on are lost ({wrong}), as --anew says: {kept}{reached}")],
            means: Some(F::WHEN_LOST),
            is_begun_anew: true,
        }
    }

    /// Whether this is the name of its folder.
    pub fn is_called(&self, name: &str, families: &[Family]) -> bool {
        let family = families.iter().find(|family| family.number == self.log.family);
        family.is_some_and(|family| name_of(family, self.log) == name)
    }

    /// What is proven of a log, or said of it by being named in `cut`; no proof if it has lost nothing.
    pub fn of<F: ShardFamily>(log: LogId, examined: &Examined, cut: &[String]) -> LostLog {
        let loss = examined.loss::<F>(log);
        let is_said = loss.is_none() && cut.contains(&name_of(&F::FAMILY, log));
        let said = is_said.then(|| said_lost(examined)).flatten();
        LostLog {
            log,
            since: examined.since,
            missing: loss.as_ref().map_or_else(|| behind(examined), |loss| loss.lost()),
            aside: examined.proofs.iter().chain(&examined.stranger).map(|claim| claim.source.clone()).collect(),
            means: loss.as_ref().is_none_or(LossProven::has_lost_records).then_some(F::WHEN_LOST),
            proofs: loss.as_ref().map(in_words).into_iter().chain(said).collect(),
            is_begun_anew: false,
        }
    }
}

/// What is lost, and that no more is known of it if that is so.
fn in_words(loss: &LossProven) -> String {
    let is_bound = loss.has_lost_records() && !loss.is_another_log() && loss.lost().to.is_some();
    loss.what() + if is_bound { NO_MORE_IS_KNOWN } else { "" }
}

/// The records behind the end of a log: how many there were, nothing proves.
fn behind(examined: &Examined) -> Lost {
    Lost { from: Sequence(examined.report.end.sequence.0 + 1), to: None }
}

/// What is lost of a log whose end was cut, in words. `None` if that was accepted already.
fn said_lost(examined: &Examined) -> Option<String> {
    let from = behind(examined).from;
    let is_that =
        |notice: &Notice| notice.kind == NoticeKind::LossAccepted && notice.lost.is_some_and(|lost| lost.from == from);
    let is_accepted = examined.notices.last().is_some_and(is_that);
    (!is_accepted).then(|| format!("records from {from} on are lost: its end was cut, as --cut says"))
}

/// Writes the notice, and renames what is of the timeline before it.
pub fn accept(logs: &LocalLogs<RealDisk>, lost: &LostLog, reason: &str, now: u64) -> Result<()> {
    let text = reason.to_owned();
    let notice = Notice { kind: NoticeKind::LossAccepted, time_ms: now, lost: Some(lost.missing), text };
    let options = Options::default();
    if lost.is_begun_anew {
        let aside = logs.begin_anew(lost.log, lost.since, options, &notice)?;
        let files = aside.map_or_else(String::new, |aside| format!("; its files are set aside in {}", aside.display()));
        say(format_args!("{}: begins anew{files}", lost.log));
    } else {
        logs.append_notice(lost.log, lost.since, options, &notice)?;
    }
    say(format_args!("{}: {notice}", lost.log));
    lost.aside.iter().try_for_each(|path| put_aside(path))
}
