//! `tidegate accept-loss`: lets a server start whose logs have lost records for ever, and makes the logs say so.
//!
//! ```text
//!   examine each log ─▶ list what is proven lost ─▶ --yes ─┬─▶ notice in the log: a new timeline begins
//!                                                          ├─▶ what is of the old one is renamed: ….set-aside
//!                                                          └─▶ ledger: what peers have of it is written again,
//!                                                              and the rest is booked as a loss
//! ```
//!
//! Why a command of its own, and not an option of `serve`: who accepts a loss decides for everybody who was told that
//! something is done. The start must never do that by itself.
//!
//! A witness that is gone, or cannot be used, is accepted in the same way: what is there is renamed, and the next start
//! begins it anew.
//!
//! A log whose end an operator has cut, because it was damaged, may look like one that ends there. With `--cut` it is
//! listed like what is proven.
//!
//! A run that is cut short is run again: each step is taken only where its cause is still found.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, anyhow, bail};
use tidegate_broker::TopicsFamily;
use tidegate_journal::directory::{Directory, check_key};
use tidegate_journal::disk::RealDisk;
use tidegate_journal::notice::NOTICE_TEXT_BYTES_MAX;
use tidegate_journal::segment::{SEGMENT_HEADER_BYTES, parse_segment_name};
use tidegate_journal::witness::{Reading, WITNESSED, Witness, check_folder};
use tidegate_journal::{
    Cursor, Family, JournalError, LocalLogs, LogId, Logs, Lost, Notice, NoticeKind, Options, Sequence,
};
use tidegate_ledger::accepted_loss::{PeerLosses, Writing, settle, strangers, words};
use tidegate_ledger::{LEDGER, LedgerFamily, claim_of_ids};
use tidegate_machines::TimeMs;
use tidegate_machines::ledger::Ledger;
use tidegate_roster::RosterFamily;
use tidegate_runtime::recovery::claim_of;
use tidegate_shard::loss::{Examined, examine, fold_to_end};
use tidegate_shard::{Claim, OpenError, ShardFamily};

use super::audit::snapshots;
use super::reason::check_reason;
use crate::extension::{Extension, KnownFamily};
use crate::output::{complain, say};

/// So many transfers between shards are listed one by one.
const LISTED_MAX: usize = 1_000;

/// A log that has lost records.
pub struct LostLog {
    log: LogId,
    /// The cursor that it can be opened with.
    since: Cursor,
    end: Cursor,
    last: Option<Sequence>,
    /// What is of the timeline that is given up.
    aside: Vec<PathBuf>,
    /// In words.
    proofs: Vec<String>,
}

/// Where to look for what is lost.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// The data directory.
    pub data: &'a Path,
    /// The folder of the witnesses.
    pub witness: Option<&'a Path>,
    /// Names of the logs whose ends were cut.
    pub cut: &'a [String],
}

/// Lists what is lost, and accepts it if `yes`. Exit 0 if nothing is lost (any more), 2 if something is and `yes` was
/// not said.
pub fn run<P>(asked: &Asked<'_>, reason: &str, yes: bool, extensions: &[&dyn Extension<P>]) -> Result<ExitCode> {
    let Asked { data, witness, cut } = *asked;
    if reason.trim().is_empty() {
        bail!("--reason: expected 1 to {NOTICE_TEXT_BYTES_MAX} bytes of text: it is written into the logs");
    }
    check_reason(reason, NOTICE_TEXT_BYTES_MAX)?;
    let mut others = vec![KnownFamily::of::<TopicsFamily>(), KnownFamily::of::<RosterFamily>()];
    others.extend(extensions.iter().flat_map(|extension| extension.families()));
    let families: Vec<Family> = std::iter::once(LEDGER).chain(others.iter().map(|known| known.family)).collect();
    if let Some(folder) = witness {
        check_folder(&RealDisk, folder)?;
    }
    let directory = match yes {
        true => Directory::open_to_write(data, &families)?,
        false => Directory::open(data, &families)?,
    };
    // A start would refuse the directory nevertheless, and what its snapshots prove cannot be verified.
    let key = check_key(data);
    if yes {
        key.as_ref().map_err(|error| anyhow!("{error}. Do that first: nothing was changed"))?;
    }
    check_names(&directory, &families, cut)?;
    let logs = LocalLogs::new(RealDisk, data, &families);
    let dead = dead_witnesses(data, &directory, &families, witness)?;

    let ledger = LedgerLosses::find(asked, &directory, &logs)?;
    let mut lost = ledger.logs;
    for known in others {
        lost.extend((known.losses)(asked, &directory, &logs)?);
    }
    for lost in &lost {
        let name = families.iter().find(|family| family.number == lost.log.family).map_or("?", |family| family.name);
        lost.proofs.iter().for_each(|proof| say(format_args!("LOST: {name} shard {}: {proof}", lost.log.shard)));
    }
    for (shard, loss) in &ledger.between.booked {
        let (amount, asset, peer) = (loss.amount.get(), &loss.asset, loss.peer);
        say(format_args!(
            "LOST: ledger shard {shard}: {amount} {asset} between it and shard {peer}; what can be written again \
             is, and the rest is booked against an account source:accepted-loss:{asset}:…"
        ));
    }
    for credit in ledger.between.known.iter().take(LISTED_MAX) {
        say(format_args!("LOST: {}", words(credit)));
    }
    if let Some(more) = ledger.between.known.len().checked_sub(LISTED_MAX).filter(|more| *more > 0) {
        say(format_args!("LOST: and {more} more transfers between shards"));
    }
    for DeadWitness { witness, wrong } in &dead {
        let path = witness.path().display();
        say(format_args!("LOST: the witness {path} {wrong}: nothing proves any more that its log has all its records"));
    }
    let is_unasked = witness.is_none() && has_witnesses(data)?;
    if is_unasked {
        let noted = data.join(WITNESSED);
        complain(format_args!(
            "the logs of this directory have witnesses, and they were not asked: what only a witness proves is not \
             listed. Say --witness FOLDER, the folder that data.witness names in the configuration. If there are to be \
             none any more, remove {}",
            noted.display()
        ));
    }
    if yes && is_unasked {
        // What they prove would be lost without being named anywhere.
        complain(format_args!("nothing was changed"));
        return Ok(ExitCode::from(2));
    }
    if let Err(error) = &key {
        complain(format_args!("no server starts on this directory: {error}"));
    }
    if lost.is_empty() && ledger.between.booked.is_empty() && dead.is_empty() {
        say(format_args!("nothing is proven lost{}", if is_unasked { " by the data directory alone" } else { "" }));
        return Ok(if key.is_ok() && !is_unasked { ExitCode::SUCCESS } else { ExitCode::from(2) });
    }
    if !yes {
        say(format_args!("nothing was changed. To go on without these records for ever, say --yes"));
        return Ok(ExitCode::from(2));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    for lost in &lost {
        accept(&logs, lost, reason, now)?;
    }
    let mut writing = Writing {
        options: Options::default(),
        now: TimeMs(now),
        wait: &mut |_| std::thread::yield_now(),
        say: &mut |words| say(format_args!("{words}")),
    };
    settle(&logs, directory.id(), ledger.states, &ledger.between.known, &mut writing)?;
    // Those that were set aside just now are among them.
    for DeadWitness { witness, .. } in dead_witnesses(data, &directory, &families, witness)? {
        if witness.path().exists() {
            put_aside(witness.path())?;
        }
        witness.give_up_in(data)?;
        say(format_args!("the witness {} is begun anew by the next start", witness.path().display()));
    }
    say(format_args!("accepted: the logs say so, and the server can be started"));
    Ok(ExitCode::SUCCESS)
}

/// What the logs of a family have lost, judged by what is beside each of them.
pub fn losses_of<F: ShardFamily>(
    asked: &Asked<'_>,
    directory: &Directory,
    logs: &LocalLogs<RealDisk>,
) -> Result<Vec<LostLog>> {
    let mut found = Vec::new();
    for log in directory.logs(F::FAMILY) {
        let examined = examined::<F>(asked.data, logs, log, &witnessed::<F>(asked.witness, log)?)?;
        found.push(LostLog::of::<F>(log, &examined, asked.cut));
    }
    found.retain(|lost| !lost.proofs.is_empty());
    Ok(found)
}

/// What is proven lost by what is beside the logs: snapshots, the index of ids, witnesses in this folder. In words.
/// Reads only; what lies between shards of the ledger is not looked at.
pub fn proven(
    data: &Path,
    directory: &Directory,
    logs: &LocalLogs<RealDisk>,
    witness: Option<&Path>,
    families: &[KnownFamily],
) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let asked = Asked { data, witness, cut: &[] };
    for family in families {
        let lost = match family.family == LEDGER {
            true => ledger_losses(&asked, directory, logs)?,
            false => (family.losses)(&asked, directory, logs)?,
        };
        for LostLog { log, proofs, .. } in lost {
            words.extend(proofs.iter().map(|proof| format!("{} shard {}: {proof}", family.family.name, log.shard)));
        }
    }
    Ok(words)
}

/// What shards of the ledger prove lost of each other: credits that one has taken in and the other never sent, or
/// confirmed and does not have. In words. Reads only. `Err` if they are not of one history; what keeps a single log
/// from being folded is told by whoever reads that log.
pub fn proven_between(data: &Path, directory: &Directory, logs: &LocalLogs<RealDisk>) -> Result<Vec<String>> {
    let shards = directory.shards(LEDGER);
    if shards < 2 {
        return Ok(Vec::new());
    }
    let fold = |log| {
        let examined = examined_with_ids(data, logs, log, None).ok()?;
        fold_to_end(logs, &snapshots::<LedgerFamily>(data, log), shards, &examined).ok()
    };
    let Some(states) = directory.logs(LEDGER).map(fold).collect::<Option<Vec<Ledger>>>() else { return Ok(Vec::new()) };
    let PeerLosses { proofs, booked, .. } = PeerLosses::find(logs, directory.id(), &states)?;
    if proofs.is_empty()
        && let strangers = strangers(&states)
        && !strangers.is_empty()
    {
        bail!("{}. Put back the logs of all shards from one backup", strangers.join("; "));
    }
    let unbooked = booked.iter().map(|(shard, loss)| {
        let (amount, asset, peer) = (loss.amount.get(), &loss.asset, loss.peer);
        format!("ledger shard {shard}: {amount} {asset} between it and shard {peer}")
    });
    Ok(proofs.iter().map(|(shard, proof)| format!("ledger shard {shard}: {proof}")).chain(unbooked).collect())
}

fn ledger_losses(asked: &Asked<'_>, directory: &Directory, logs: &LocalLogs<RealDisk>) -> Result<Vec<LostLog>> {
    let mut lost = Vec::new();
    for log in directory.logs(LEDGER) {
        let examined = examined_with_ids(asked.data, logs, log, asked.witness)?;
        lost.push(LostLog::of::<LedgerFamily>(log, &examined, asked.cut));
    }
    lost.retain(|lost| !lost.proofs.is_empty());
    Ok(lost)
}

/// A witness that proves nothing any more.
struct DeadWitness {
    witness: Witness<RealDisk>,
    /// In words.
    wrong: String,
}

/// The witnesses that this directory's logs had and that are not in `folder`, or cannot be used.
fn dead_witnesses(
    data: &Path,
    directory: &Directory,
    families: &[Family],
    folder: Option<&Path>,
) -> Result<Vec<DeadWitness>> {
    let mut dead = Vec::new();
    for (folder, family) in folder.iter().flat_map(|folder| families.iter().map(move |family| (folder, family))) {
        for log in directory.logs(*family) {
            let witness = Witness::new(RealDisk, folder, family, log);
            let wrong = match witness.read()? {
                Reading::Unusable(what) => format!("cannot be used ({what})"),
                Reading::Nothing if witness.is_gone(data)? => "is gone".into(),
                _ => continue,
            };
            dead.push(DeadWitness { witness, wrong });
        }
    }
    Ok(dead)
}

/// Whether the directory notes that a log has a witness.
pub fn has_witnesses(data: &Path) -> Result<bool> {
    let noted = data.join(WITNESSED);
    match fs::read_dir(&noted) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(false),
        Err(cause) => Err(anyhow!("cannot read {}: {cause}", noted.display())),
    }
}

/// What the witness of a log says, if there is one.
fn witnessed<F: ShardFamily>(folder: Option<&Path>, log: LogId) -> Result<Vec<Claim>> {
    let Some(folder) = folder else { return Ok(Vec::new()) };
    let witness = Witness::new(RealDisk, folder, &F::FAMILY, log);
    Ok(match witness.read()? {
        Reading::Testimony(testimony) => vec![claim_of(&witness, &testimony)],
        Reading::Nothing | Reading::Unusable(_) => Vec::new(),
    })
}

fn examined<F: ShardFamily>(data: &Path, logs: &LocalLogs<RealDisk>, log: LogId, claims: &[Claim]) -> Result<Examined> {
    let examined = examine(logs, &snapshots::<F>(data, log), claims);
    examined.map_err(|error| {
        let way_out = match &error {
            OpenError::Journal(damaged) | OpenError::NoSnapshot { error: damaged, .. } => way_out(data, damaged),
            OpenError::Loss(_) => String::new(),
        };
        anyhow!("{} shard {}: {error}{way_out}", F::FAMILY.name, log.shard)
    })
}

/// What to do about damage, which nobody can accept: records behind it may still be read, and who was told of them
/// could be told so.
fn way_out(data: &Path, damaged: &JournalError) -> String {
    let JournalError::Damaged { segment, offset, .. } = damaged else { return String::new() };
    format!(
        ". Damage cannot be accepted: only a missing end can. Put the file right, or restore the newest backup into a \
         new directory: tidegate restore --from BACKUPS --data {}.{}",
        data.with_extension("new").display(),
        way_to_a_missing_end(Path::new(segment), *offset).unwrap_or_default()
    )
}

/// How to make a missing end of what is damaged in the newest segment; `None` in any other, where all that is behind it
/// would be lost as well.
fn way_to_a_missing_end(segment: &Path, offset: u64) -> Option<String> {
    let position = |path: &Path| parse_segment_name(&path.file_name()?.to_string_lossy());
    let first = position(segment)?;
    let entries = fs::read_dir(segment.parent()?).ok()?;
    let others = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path != segment);
    let before = others.filter_map(|path| Some((position(&path)?, path))).max();
    if before.as_ref().is_some_and(|(other, _)| *other > first) {
        return None;
    }
    let log = segment.parent()?.file_name()?.to_string_lossy();
    let (name, then) = (segment.display(), format!("and run this command again with --cut {log}"));
    if offset >= SEGMENT_HEADER_BYTES as u64 {
        return Some(format!(
            " Without a backup: keep a copy of {name}, cut it before the damage (truncate -s {offset} {name}), {then}; \
             all records from there on are"
        ));
    }
    let start = match segment.exists() {
        true => " If only its header is bad, a start writes it again: start the server first.",
        false => "",
    };
    // The mark of the segment before says that there is this one. Without it, the log ends there.
    let cut = before.map(|(other, path)| {
        let (end, path) = (first.0 - other.0 + SEGMENT_HEADER_BYTES as u64, path.display());
        let away = match segment.exists() {
            true => format!("move {name} to another folder, "),
            false => String::new(),
        };
        format!(
            " Without a backup: {away}cut the mark that says that there is such a file (truncate -s {end} {path}), \
             {then}; all records of {name} are"
        )
    });
    Some(format!("{start}{}", cut.unwrap_or_default()))
}

/// A log of the ledger: the index of its ids proves something, too.
fn examined_with_ids(data: &Path, logs: &LocalLogs<RealDisk>, log: LogId, witness: Option<&Path>) -> Result<Examined> {
    let mut claims = witnessed::<LedgerFamily>(witness, log)?;
    claims.extend(claim_of_ids(data, log));
    examined::<LedgerFamily>(data, logs, log, &claims)
}

/// That the directory has logs of these names.
fn check_names(directory: &Directory, families: &[Family], names: &[String]) -> Result<()> {
    let names_of = |family: &Family| directory.logs(*family).map(|log| name_of(family, log)).collect::<Vec<_>>();
    let known: Vec<String> = families.iter().flat_map(names_of).collect();
    match names.iter().find(|name| !known.contains(name)) {
        Some(name) => bail!("--cut {name}: this directory has no such log; it has {}", known.join(", ")),
        None => Ok(()),
    }
}

/// What the folder of a log is called.
fn name_of(family: &Family, log: LogId) -> String {
    format!("{}-{}", family.name, log.shard)
}

impl LostLog {
    /// What is proven of a log, or said of it by being named in `cut`; no proof if it has lost nothing.
    fn of<F: ShardFamily>(log: LogId, examined: &Examined, cut: &[String]) -> LostLog {
        let loss = examined.loss::<F>(log);
        let is_said = loss.is_none() && cut.contains(&name_of(&F::FAMILY, log));
        let said = is_said.then(|| said_lost(examined)).flatten();
        LostLog {
            log,
            since: examined.since,
            end: examined.report.end,
            last: loss.as_ref().and_then(|loss| loss.last()),
            aside: examined.proofs.iter().map(|claim| claim.source.clone()).collect(),
            proofs: loss.map(|loss| loss.what()).into_iter().chain(said).collect(),
        }
    }
}

/// What is lost of a log whose end was cut, in words. `None` if that was accepted already.
fn said_lost(examined: &Examined) -> Option<String> {
    let from = Sequence(examined.report.end.sequence.0 + 1);
    let is_that =
        |notice: &Notice| notice.kind == NoticeKind::LossAccepted && notice.lost.is_some_and(|lost| lost.from == from);
    let is_accepted = examined.notices.last().is_some_and(is_that);
    (!is_accepted).then(|| format!("records from {from} on are lost: its end was cut, as --cut says"))
}

/// What the ledger has lost: of each log, and between them.
struct LedgerLosses {
    logs: Vec<LostLog>,
    states: Vec<Ledger>,
    between: PeerLosses,
}

impl LedgerLosses {
    fn find(asked: &Asked<'_>, directory: &Directory, logs: &LocalLogs<RealDisk>) -> Result<LedgerLosses> {
        let Asked { data, witness, cut } = *asked;
        let shards = directory.shards(LEDGER);
        let mut by_shard: BTreeMap<u16, LostLog> = BTreeMap::new();
        let mut states = Vec::new();
        for log in directory.logs(LEDGER) {
            let examined = examined_with_ids(data, logs, log, witness)?;
            states.push(fold_to_end(logs, &snapshots::<LedgerFamily>(data, log), shards, &examined)?);
            by_shard.insert(log.shard, LostLog::of::<LedgerFamily>(log, &examined, cut));
        }
        let between = PeerLosses::find(logs, directory.id(), &states)?;
        for (shard, proof) in &between.proofs {
            by_shard.get_mut(shard).expect("each shard was examined").proofs.push(proof.clone());
        }
        let logs = by_shard.into_values().filter(|lost| !lost.proofs.is_empty()).collect();
        Ok(LedgerLosses { logs, states, between })
    }
}

/// Writes the notice, and renames what is of the timeline before it.
fn accept(logs: &LocalLogs<RealDisk>, lost: &LostLog, reason: &str, now: u64) -> Result<()> {
    let missing = Lost { from: Sequence(lost.end.sequence.0 + 1), to: lost.last };
    let text = reason.to_owned();
    let notice = Notice { kind: NoticeKind::LossAccepted, time_ms: now, lost: Some(missing), text };
    logs.append_notice(lost.log, lost.since, Options::default(), &notice)?;
    say(format_args!("{}: {notice}", lost.log));
    lost.aside.iter().try_for_each(|path| put_aside(path))
}

/// Renames it, so that whoever wants to know what was can look.
fn put_aside(path: &Path) -> Result<()> {
    let aside = (0..).map(|number| name_aside(path, number)).find(|aside| !aside.exists()).expect("one is free");
    fs::rename(path, &aside)?;
    say(format_args!("{} is set aside as {}", path.display(), aside.display()));
    Ok(())
}

fn name_aside(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".set-aside");
    if number > 0 {
        name.push(format!("-{number}"));
    }
    name.into()
}
