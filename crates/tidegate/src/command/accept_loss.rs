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
//! listed like what is proven. One that cannot be read at all begins anew behind its newest snapshot with `--anew`, if
//! its family may forget.
//!
//! A run that is cut short is run again: each step is taken only where its cause is still found.

mod lost_log;

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
use tidegate_journal::recorded_end::RecordedEnd;
use tidegate_journal::witness::{Reading, WITNESSED, Witness, check_folder};
use tidegate_journal::{Family, JournalError, LocalLogs, LogId, Options, Position, Retention};
use tidegate_ledger::accepted_loss::{PeerLosses, Writing, settle, strangers, words};
use tidegate_ledger::claims::{LostClaim, used_twice};
use tidegate_ledger::histories::compare_credits;
use tidegate_ledger::{LEDGER, LedgerFamily, claim_of_ids};
use tidegate_machines::TimeMs;
use tidegate_machines::ledger::Ledger;
use tidegate_roster::RosterFamily;
use tidegate_runtime::recorded_claim;
use tidegate_runtime::recovery::claim_of;
use tidegate_shard::loss::{Examined, examine, fold_to_end, remains};
use tidegate_shard::{Claim, OpenError, ShardFamily};

pub use lost_log::LostLog;
use lost_log::accept;

use super::audit::snapshots;
use super::reason::check_reason;
use super::way_out::{name_of, way_out, way_without_a_copy};
use super::wrong_bytes::WrongBytes;
use crate::extension::{Extension, KnownFamily};
use crate::output::{complain, say};

/// So many transfers between shards are listed one by one.
const LISTED_MAX: usize = 1_000;

/// What was found of some logs.
#[derive(Default)]
pub struct Judged {
    /// Those that have lost records.
    pub lost: Vec<LostLog>,
    /// Why others cannot be opened, and what can be done.
    pub unread: Vec<anyhow::Error>,
}

impl Judged {
    /// Keeps what was found of a log, if something is lost or wrong.
    fn take(&mut self, found: Result<LostLog>) {
        match found {
            Ok(log) if log.proofs.is_empty() => {}
            Ok(log) => self.lost.push(log),
            Err(error) => self.unread.push(error),
        }
    }
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
    /// Names of those that are to begin anew, because they cannot be read.
    pub anew: &'a [String],
}

/// Lists what is lost, and accepts it if `yes`. Exit 0 if nothing is lost (any more), 2 if something is and `yes` was
/// not said.
pub fn run<P>(asked: &Asked<'_>, reason: &str, yes: bool, extensions: &[&dyn Extension<P>]) -> Result<ExitCode> {
    let Asked { data, witness, cut, anew } = *asked;
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
        true => Directory::open_to_mend(data, &families)?,
        false => Directory::open_to_judge(data, &families)?,
    };
    // A start would refuse the directory nevertheless, and what its snapshots prove cannot be verified.
    let key = check_key(data);
    if yes {
        key.as_ref().map_err(|error| anyhow!("{error}. Do that first: nothing was changed"))?;
    }
    check_names(&directory, &families, ("cut", cut))?;
    check_names(&directory, &families, ("anew", anew))?;
    check_may_forget(&families, anew)?;
    let wrong = WrongBytes::default();
    let logs = LocalLogs::new(RealDisk, data, &families).mending(wrong.reading());
    let dead = dead_witnesses(data, &directory, &families, witness)?;

    let mut judged = Judged::default();
    let ledger = LedgerLosses::find(asked, &directory, &logs, &mut judged);
    for known in others {
        let Judged { lost, unread } = (known.losses)(asked, &directory, &logs);
        judged.lost.extend(lost);
        judged.unread.extend(unread);
    }
    // All of them at once: whoever puts files right wants to know each.
    let unread = judged.unread.iter().map(|error| format!("{error:#}")).reduce(|all, next| format!("{all}\n{next}"));
    if let Some(unread) = unread {
        bail!("{unread}");
    }
    let (lost, ledger) = (judged.lost, ledger?);
    let is_ledger_lost = lost.iter().any(|lost| lost.log.family == LEDGER.number) || !ledger.between.booked.is_empty();
    if is_ledger_lost && ledger.states.len() > 1 {
        check_history(&logs, directory.id(), &ledger.states)?;
    }
    for name in
        anew.iter().filter(|name| !lost.iter().any(|lost| lost.is_begun_anew && lost.is_called(name, &families)))
    {
        say(format_args!("{name} can be read, and does not begin anew"));
    }
    for lost in &lost {
        let name = families.iter().find(|family| family.number == lost.log.family).map_or("?", |family| family.name);
        lost.proofs.iter().for_each(|proof| say(format_args!("LOST: {name} shard {}: {proof}", lost.log.shard)));
        lost.means
            .iter()
            .for_each(|means| say(format_args!("LOST: {name} shard {}: that is, {means}", lost.log.shard)));
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
    if let Some(error) = &ledger.between.claims_unread {
        complain(format_args!("whether claims of ids are lost cannot be told: {error}"));
    }
    let claims: Vec<&LostClaim> = ledger.between.claims.iter().filter(|claim| !claim.is_used_again).collect();
    for claim in claims.iter().take(LISTED_MAX) {
        let LostClaim { home, owner, .. } = claim;
        let id = claim.id_in_words();
        say(format_args!("LOST: ledger shard {home}: the claim of the id {id}, on which shard {owner} has decided"));
    }
    if let Some(more) = claims.len().checked_sub(LISTED_MAX).filter(|more| *more > 0) {
        say(format_args!("LOST: and {more} more claims"));
    }
    used_twice(&ledger.between.claims).iter().take(LISTED_MAX).for_each(|twice| say(format_args!("WRONG: {twice}")));
    for dead in &dead {
        say(format_args!(
            "LOST: the witness {}: nothing proves any more that its log has all its records",
            dead.what()
        ));
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
    let logs = logs.mending(wrong.writing());
    for lost in &lost {
        accept(&logs, lost, reason, now)?;
    }
    let mut writing = Writing {
        options: Options::default(),
        now: TimeMs(now),
        wait: &mut |_| std::thread::yield_now(),
        say: &mut |words| say(format_args!("{words}")),
    };
    settle(&logs, directory.id(), ledger.states, &ledger.between, &mut writing)?;
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
pub fn losses_of<F: ShardFamily>(asked: &Asked<'_>, directory: &Directory, logs: &LocalLogs<RealDisk>) -> Judged {
    let mut judged = Judged::default();
    for log in directory.logs(F::FAMILY) {
        judged.take(loss_of::<F>(asked, logs, log));
    }
    judged
}

/// What a log has lost. One that cannot be opened has lost all that its newest snapshot does not have, if it is to
/// begin anew.
fn loss_of<F: ShardFamily>(asked: &Asked<'_>, logs: &LocalLogs<RealDisk>, log: LogId) -> Result<LostLog> {
    let claims = recorded::<F>(asked.data, asked.witness, log)?;
    let snapshots = snapshots::<F>(asked.data, log);
    let error = match examine(logs, &snapshots, &claims) {
        Ok(examined) => return Ok(LostLog::of::<F>(log, &examined, asked.cut)),
        Err(error) => error,
    };
    let name = name_of(&F::FAMILY, log);
    match wrong_with(&error) {
        Some(JournalError::Damaged { segment, offset, what, lost }) if asked.anew.contains(&name) => {
            let (stand, claims) = remains(&snapshots, &claims)?;
            if let Some(way) = way_without_a_copy(Path::new(segment), *offset, (log, stand.cursor.position)) {
                bail!("--anew {name}: more of this log can be kept.{way}");
            }
            Ok(LostLog::anew::<F>(log, (stand, claims), &format!("{segment}: {what}; lost: {lost}")))
        }
        _ => Err(refusal::<F>(asked.data, log, &error)),
    }
}

/// What is proven lost by what is beside the logs: snapshots, the index of ids, witnesses in this folder. In words.
/// Reads only; what lies between shards of the ledger is not looked at.
pub fn proven(
    data: &Path,
    directory: &Directory,
    logs: &LocalLogs<RealDisk>,
    witness: Option<&Path>,
    families: &[KnownFamily],
) -> Proven {
    let mut proven = Proven::default();
    let asked = Asked { data, witness, cut: &[], anew: &[] };
    for family in families {
        let Judged { lost, unread } = match family.family == LEDGER {
            true => ledger_losses(&asked, directory, logs),
            false => (family.losses)(&asked, directory, logs),
        };
        for LostLog { log, proofs, .. } in lost {
            let words = proofs.iter().map(|proof| format!("{} shard {}: {proof}", family.family.name, log.shard));
            proven.lost.extend(words);
        }
        proven.unread.extend(unread);
    }
    proven
}

/// What was found of all logs.
#[derive(Debug, Default)]
pub struct Proven {
    /// What is proven lost, in words.
    pub lost: Vec<String>,
    /// Why a log cannot be opened, and what can be done.
    pub unread: Vec<anyhow::Error>,
}

/// What shards of the ledger prove lost of each other: credits that one has taken in and the other never sent, or
/// confirmed and does not have, and claims of ids on which one has decided. In words. Reads only. `Err` if they are not
/// of one history; what keeps a single log from being folded is told by whoever reads that log.
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
    let mut found = PeerLosses::find(logs, directory.id(), &states)?;
    if found.proofs.is_empty()
        && let strangers = strangers(&states)
        && !strangers.is_empty()
    {
        bail!("{}. Put back the logs of all shards from one backup", strangers.join("; "));
    }
    found.look_for_claims(logs, directory.id(), &states);
    let PeerLosses { proofs, booked, .. } = found;
    let unbooked = booked.iter().map(|(shard, loss)| {
        let (amount, asset, peer) = (loss.amount.get(), &loss.asset, loss.peer);
        format!("ledger shard {shard}: {amount} {asset} between it and shard {peer}")
    });
    Ok(proofs.iter().map(|(shard, proof)| format!("ledger shard {shard}: {proof}")).chain(unbooked).collect())
}

fn ledger_losses(asked: &Asked<'_>, directory: &Directory, logs: &LocalLogs<RealDisk>) -> Judged {
    let mut judged = Judged::default();
    for log in directory.logs(LEDGER) {
        let examined = examined_with_ids(asked.data, logs, log, asked.witness);
        judged.take(examined.map(|examined| LostLog::of::<LedgerFamily>(log, &examined, asked.cut)));
    }
    judged
}

/// A witness that proves nothing any more.
pub struct DeadWitness {
    witness: Witness<RealDisk>,
    /// In words.
    wrong: String,
}

impl DeadWitness {
    /// Which, and what is wrong with it.
    pub fn what(&self) -> String {
        format!("{} {}", self.witness.path().display(), self.wrong)
    }
}

/// The witnesses that this directory's logs had and that are not in `folder`, or cannot be used.
pub fn dead_witnesses(
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

/// What the last stop and the witness of a log, if it has one, say of where it ends.
fn recorded<F: ShardFamily>(data: &Path, folder: Option<&Path>, log: LogId) -> Result<Vec<Claim>> {
    let recorded = recorded_claim(&RecordedEnd::new(RealDisk, data, &F::FAMILY, log))?;
    let Some(folder) = folder else { return Ok(recorded.into_iter().collect()) };
    let witness = Witness::new(RealDisk, folder, &F::FAMILY, log);
    let witnessed = match witness.read()? {
        Reading::Testimony(testimony) => Some(claim_of(witness.path(), &testimony)),
        Reading::Nothing | Reading::Unusable(_) => None,
    };
    Ok(recorded.into_iter().chain(witnessed).collect())
}

/// Why a log cannot be opened, and what can be done.
fn refusal<F: ShardFamily>(data: &Path, log: LogId, error: &OpenError) -> anyhow::Error {
    let newest = match F::FAMILY.retention {
        Retention::SinceSnapshot => remains(&snapshots::<F>(data, log), &[]).ok(),
        Retention::Whole => None,
    };
    let newest = newest.map_or(Position(0), |(stand, _)| stand.cursor.position);
    let way_out = wrong_with(error).map_or_else(String::new, |wrong| way_out(data, &F::FAMILY, (log, newest), wrong));
    anyhow!("{} shard {}: {error}{way_out}", F::FAMILY.name, log.shard)
}

/// What is wrong with the files of a log.
fn wrong_with(error: &OpenError) -> Option<&JournalError> {
    match error {
        OpenError::Journal(wrong) | OpenError::NoSnapshot { error: wrong, .. } => Some(wrong),
        OpenError::Loss(_) => None,
    }
}

/// A log of the ledger: the index of its ids proves something, too.
fn examined_with_ids(data: &Path, logs: &LocalLogs<RealDisk>, log: LogId, witness: Option<&Path>) -> Result<Examined> {
    let mut claims = recorded::<LedgerFamily>(data, witness, log)?;
    claims.extend(claim_of_ids(data, log));
    let examined = examine(logs, &snapshots::<LedgerFamily>(data, log), &claims);
    examined.map_err(|error| refusal::<LedgerFamily>(data, log, &error))
}

/// That the logs of the ledger are of one history: what is of two, no command can make one of.
fn check_history(logs: &LocalLogs<RealDisk>, directory: u64, states: &[Ledger]) -> Result<()> {
    let strange = compare_credits(logs, directory, states)?.strange;
    if !strange.is_empty() {
        bail!("{}. Put back the logs of all shards from one backup: nothing was changed", strange.join("; "));
    }
    Ok(())
}

/// That the directory has logs of these names.
fn check_names(directory: &Directory, families: &[Family], (option, names): (&str, &[String])) -> Result<()> {
    let names_of = |family: &Family| directory.logs(*family).map(|log| name_of(family, log)).collect::<Vec<_>>();
    let known: Vec<String> = families.iter().flat_map(names_of).collect();
    match names.iter().find(|name| !known.contains(name)) {
        Some(name) => bail!("--{option} {name}: this directory has no such log; it has {}", known.join(", ")),
        None => Ok(()),
    }
}

/// That logs of these names may begin behind a snapshot.
fn check_may_forget(families: &[Family], anew: &[String]) -> Result<()> {
    for family in families.iter().filter(|family| family.retention == Retention::Whole) {
        let is_its = |name: &&String| name.rsplit_once('-').is_some_and(|(its, _)| its == family.name);
        if let Some(name) = anew.iter().find(is_its) {
            bail!(
                "--anew {name}: a log of this family is whole for ever: what it says follows from all of its records, \
                 and no snapshot stands for its beginning. Put its files back, or restore a backup"
            );
        }
    }
    Ok(())
}

/// What the ledger has lost between its logs.
struct LedgerLosses {
    states: Vec<Ledger>,
    between: PeerLosses,
}

impl LedgerLosses {
    /// What each log has lost, and why one cannot be opened, goes into `judged`; `Err` then, too.
    fn find(
        asked: &Asked<'_>,
        directory: &Directory,
        logs: &LocalLogs<RealDisk>,
        judged: &mut Judged,
    ) -> Result<LedgerLosses> {
        let Asked { data, witness, cut, .. } = *asked;
        let shards = directory.shards(LEDGER);
        let mut by_shard: BTreeMap<u16, LostLog> = BTreeMap::new();
        let mut states = Vec::new();
        for log in directory.logs(LEDGER) {
            let folded = examined_with_ids(data, logs, log, witness).and_then(|examined| {
                let state = fold_to_end(logs, &snapshots::<LedgerFamily>(data, log), shards, &examined)?;
                Ok((state, LostLog::of::<LedgerFamily>(log, &examined, cut)))
            });
            match folded {
                Ok((state, lost)) => {
                    states.push(state);
                    by_shard.insert(log.shard, lost);
                }
                Err(error) => judged.unread.push(error),
            }
        }
        if states.len() < shards.into() {
            bail!("not all logs of the ledger can be folded");
        }
        let between = PeerLosses::find_with_claims(logs, directory.id(), &states)?;
        for (shard, proof) in &between.proofs {
            by_shard.get_mut(shard).expect("each shard was examined").proofs.push(proof.clone());
        }
        by_shard.into_values().for_each(|lost| judged.take(Ok(lost)));
        Ok(LedgerLosses { states, between })
    }
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
