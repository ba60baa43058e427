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
//! A run that is cut short is run again: each step is taken only where its cause is still found.

mod appender;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, anyhow, bail};
use tidegate_broker::TopicsFamily;
use tidegate_journal::directory::Directory;
use tidegate_journal::disk::RealDisk;
use tidegate_journal::notice::NOTICE_TEXT_BYTES_MAX;
use tidegate_journal::witness::{Witness, check_folder};
use tidegate_journal::{
    Cursor, Family, LocalLog, LocalLogs, LogId, Logs, Lost, Notice, NoticeKind, Opened, Options, Sequence,
};
use tidegate_ledger::regain::{KnownCredit, Unregained, known_credits, placed_holds};
use tidegate_ledger::{LEDGER, LedgerFamily, claim_of_ids, loss_in_words};
use tidegate_machines::ledger::{Command, IdSpace, Ledger, LossSide, PeerLoss, losses};
use tidegate_machines::{Decision, Machine, TimeMs};
use tidegate_runtime::recovery::claim_of;
use tidegate_shard::loss::{Examined, examine, fold_to_end};
use tidegate_shard::{Claim, ShardFamily};

use appender::Appender;

use super::audit::snapshots;
use crate::extension::{Extension, KnownFamily};
use crate::output::say;

/// So many transfers between shards are listed one by one.
const LISTED_MAX: usize = 1_000;
/// After so many debits that were written again, the other shard's confirmation is.
const CONFIRM_EVERY: u64 = 1_000;

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

/// Lists what is lost, and accepts it if `yes`. Exit 0 if nothing is lost (any more), 2 if something is and `yes` was
/// not said.
pub fn run<P>(
    data: &Path,
    reason: &str,
    witness: Option<&Path>,
    yes: bool,
    extensions: &[&dyn Extension<P>],
) -> Result<ExitCode> {
    if reason.trim().is_empty() || reason.len() > NOTICE_TEXT_BYTES_MAX {
        bail!("--reason: expected 1 to {NOTICE_TEXT_BYTES_MAX} bytes of text: it is written into the logs");
    }
    let mut others = vec![KnownFamily::of::<TopicsFamily>()];
    others.extend(extensions.iter().flat_map(|extension| extension.families()));
    let families: Vec<Family> = std::iter::once(LEDGER).chain(others.iter().map(|known| known.family)).collect();
    if let Some(folder) = witness {
        check_folder(&RealDisk, folder)?;
    }
    let directory = match yes {
        true => Directory::open_to_write(data, &families)?,
        false => Directory::open(data, &families)?,
    };
    let logs = LocalLogs::new(RealDisk, data, &families);

    let ledger = LedgerLosses::find(data, &directory, &logs, witness)?;
    let mut lost = ledger.logs;
    for known in others {
        lost.extend((known.losses)(data, &directory, &logs, witness)?);
    }
    for lost in &lost {
        let name = families.iter().find(|family| family.number == lost.log.family).map_or("?", |family| family.name);
        lost.proofs.iter().for_each(|proof| say(format_args!("LOST: {name} shard {}: {proof}", lost.log.shard)));
    }
    for (shard, loss) in &ledger.booked {
        let (amount, asset, peer) = (loss.amount.get(), &loss.asset, loss.peer);
        say(format_args!(
            "LOST: ledger shard {shard}: {amount} {asset} between it and shard {peer}; what can be written again \
             is, and the rest is booked against an account source:accepted-loss:{asset}:…"
        ));
    }
    for credit in ledger.known.iter().take(LISTED_MAX) {
        say(format_args!("LOST: {}", words(credit)));
    }
    if let Some(more) = ledger.known.len().checked_sub(LISTED_MAX).filter(|more| *more > 0) {
        say(format_args!("LOST: and {more} more transfers between shards"));
    }
    if lost.is_empty() && ledger.booked.is_empty() {
        say(format_args!("nothing is proven lost"));
        return Ok(ExitCode::SUCCESS);
    }
    if !yes {
        say(format_args!("nothing was changed. To go on without these records for ever, say --yes"));
        return Ok(ExitCode::from(2));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    for lost in &lost {
        accept(&logs, lost, reason, now)?;
    }
    book(&logs, directory.id(), ledger.states, &ledger.known, TimeMs(now))?;
    say(format_args!("accepted: the logs say so, and the server can be started"));
    Ok(ExitCode::SUCCESS)
}

/// What the logs of a family have lost, judged by what is beside each of them.
pub fn losses_of<F: ShardFamily>(
    data: &Path,
    directory: &Directory,
    logs: &LocalLogs<RealDisk>,
    witness: Option<&Path>,
) -> Result<Vec<LostLog>> {
    let mut found = Vec::new();
    for log in directory.logs(F::FAMILY) {
        let examined = examined::<F>(data, logs, log, &witnessed::<F>(witness, log)?)?;
        found.extend((!examined.proofs.is_empty()).then(|| LostLog::of::<F>(log, &examined)));
    }
    Ok(found)
}

/// What the witness of a log says, if there is one.
fn witnessed<F: ShardFamily>(folder: Option<&Path>, log: LogId) -> Result<Vec<Claim>> {
    let Some(folder) = folder else { return Ok(Vec::new()) };
    let witness = Witness::new(RealDisk, folder, &F::FAMILY, log);
    Ok(witness.read()?.map(|testimony| claim_of(&witness, &testimony)).into_iter().collect())
}

fn examined<F: ShardFamily>(data: &Path, logs: &LocalLogs<RealDisk>, log: LogId, claims: &[Claim]) -> Result<Examined> {
    let examined = examine(logs, &snapshots::<F>(data, log), claims);
    examined.map_err(|error| anyhow!("{} shard {}: {error}", F::FAMILY.name, log.shard))
}

impl LostLog {
    fn of<F: ShardFamily>(log: LogId, examined: &Examined) -> LostLog {
        let loss = examined.loss::<F>(log);
        LostLog {
            log,
            since: examined.since,
            end: examined.report.end,
            last: loss.as_ref().and_then(|loss| loss.last()),
            aside: examined.proofs.iter().map(|claim| claim.source.clone()).collect(),
            proofs: loss.map(|loss| loss.what()).into_iter().collect(),
        }
    }
}

/// What the ledger has lost: of each log, and between them.
struct LedgerLosses {
    logs: Vec<LostLog>,
    states: Vec<Ledger>,
    booked: Vec<(u16, PeerLoss)>,
    /// What other shards' logs have of them.
    known: Vec<KnownCredit>,
}

impl LedgerLosses {
    fn find(
        data: &Path,
        directory: &Directory,
        logs: &LocalLogs<RealDisk>,
        witness: Option<&Path>,
    ) -> Result<LedgerLosses> {
        let shards = directory.shards(LEDGER);
        let mut by_shard: BTreeMap<u16, LostLog> = BTreeMap::new();
        let mut states = Vec::new();
        for log in directory.logs(LEDGER) {
            let mut claims = witnessed::<LedgerFamily>(witness, log)?;
            claims.extend(claim_of_ids(data, log.shard));
            let examined = examined::<LedgerFamily>(data, logs, log, &claims)?;
            states.push(fold_to_end(logs, &snapshots::<LedgerFamily>(data, log), shards, &examined)?);
            by_shard.insert(log.shard, LostLog::of::<LedgerFamily>(log, &examined));
        }
        let (mut booked, mut known) = (Vec::new(), Vec::new());
        for here in &states {
            for there in states.iter().filter(|there| there.shard() != here.shard()) {
                let log = by_shard.get_mut(&here.shard().0).expect("each shard was examined");
                for (side, reached, number) in losses(here.exchanged(there.shard()), there.exchanged(here.shard())) {
                    log.proofs.push(loss_in_words(here.shard().0, there.shard().0, side, reached.0, number.0));
                    known.extend(known_credits(logs, directory.id(), (here, there), (side, reached, number), shards)?);
                }
                let found = here.losses_against(there).map_err(|what| anyhow!("{what}: nothing was changed"))?;
                booked.extend(found.into_iter().map(|loss| (here.shard().0, loss)));
            }
        }
        let logs = by_shard.into_values().filter(|lost| !lost.proofs.is_empty()).collect();
        Ok(LedgerLosses { logs, states, booked, known })
    }
}

/// Writes the notice, and renames what is of the timeline before it.
fn accept(logs: &LocalLogs<RealDisk>, lost: &LostLog, reason: &str, now: u64) -> Result<()> {
    let missing = Lost { from: Sequence(lost.end.sequence.0 + 1), to: lost.last };
    let text = reason.to_owned();
    let notice = Notice { kind: NoticeKind::LossAccepted, time_ms: now, lost: Some(missing), text };
    logs.append_notice(lost.log, lost.since, Options::default(), &notice)?;
    say(format_args!("{}: {notice}", lost.log));
    for path in &lost.aside {
        let aside = (0..).map(|number| set_aside(path, number)).find(|aside| !aside.exists()).expect("one is free");
        fs::rename(path, &aside)?;
        say(format_args!("{} is set aside as {}", path.display(), aside.display()));
    }
    Ok(())
}

fn set_aside(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".set-aside");
    if number > 0 {
        name.push(format!("-{number}"));
    }
    name.into()
}

/// Writes into the logs of the shards that lost records what others know of them, again, and books as a loss what
/// cannot be written again. Each record is checked against the fold of its log first.
fn book(
    logs: &LocalLogs<RealDisk>,
    directory: u64,
    mut states: Vec<Ledger>,
    known: &[KnownCredit],
    now: TimeMs,
) -> Result<()> {
    for index in 0..states.len() {
        let (before, rest) = states.split_at_mut(index);
        let (here, after) = rest.split_first_mut().expect("there are so many");
        let others: Vec<&Ledger> = before.iter().chain(after.iter()).collect();
        let losses = |here: &Ledger| -> Result<Vec<PeerLoss>> {
            let each = others.iter().map(|other| here.losses_against(other).map_err(|what| anyhow!("{what}")));
            Ok(each.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
        };
        if losses(here)?.is_empty() {
            continue;
        }
        let log = LEDGER.log(directory, here.shard().0);
        let own: Vec<KnownCredit> = known.iter().filter(|credit| credit.here == here.shard()).cloned().collect();
        let placed = placed_holds(logs, directory, here, &own)?;
        let Opened { log, .. } = logs.open(log, Cursor::START, Options::default())?;
        let mut appender = Appender::new(log);
        for other in &others {
            let of_peer = own.iter().filter(|credit| credit.there == other.shard());
            regain(&mut appender, here, other, of_peer, &placed, now)?;
        }
        // What no record tells of any more.
        for loss in losses(here)? {
            book_loss(&mut appender, here, &loss, now)?;
        }
        appender.close()?;
    }
    Ok(())
}

/// Writes the credits between two shards again, in order.
fn regain<'a>(
    appender: &mut Appender<LocalLog<RealDisk>>,
    here: &mut Ledger,
    there: &Ledger,
    credits: impl Iterator<Item = &'a KnownCredit>,
    placed: &HashMap<Box<str>, Vec<u8>>,
    now: TimeMs,
) -> Result<()> {
    let mut again = 0u64;
    for credit in credits {
        let hold = placed.get(&credit.id).map(|record| Ledger::decode(record)).transpose()?;
        while !credit.is_said(here) {
            match credit.again(here, there, hold.as_ref(), now) {
                Ok(event) => {
                    appender.append(here, &event)?;
                    again += u64::from(credit.is_said(here));
                }
                Err(why) => {
                    let why = match why {
                        Unregained::Refused(refusal) => refusal.code(),
                        Unregained::OutOfPlace => "an account of it is lost",
                    };
                    say(format_args!("{}: it cannot be written again ({why})", words(credit)));
                    book_loss(appender, here, &credit.loss(), now)?;
                }
            }
        }
        // The other shard has what it knows; so many may be unconfirmed.
        if credit.side == LossSide::Sent
            && (again.is_multiple_of(CONFIRM_EVERY) || here.exchanged(credit.there).sent == credit.number)
        {
            let confirm = Command::ConfirmCredits { to: credit.there, number: credit.number };
            if let Decision::Append { event, .. } = here.decide(&confirm, None, now) {
                appender.append(here, &event)?;
            }
        }
    }
    if again > 0 {
        let (here, there) = (here.shard(), there.shard());
        say(format_args!("ledger shard {here}: {again} credits between it and shard {there} are written again"));
    }
    Ok(())
}

/// Books one loss against the account that stands for it.
fn book_loss(
    appender: &mut Appender<LocalLog<RealDisk>>,
    ledger: &mut Ledger,
    loss: &PeerLoss,
    now: TimeMs,
) -> Result<()> {
    let (account, slot) = ledger.accepted_loss_account(&loss.asset);
    // The account is opened first, if this is the first loss of the asset here.
    for _ in 0..if slot.is_some() { 1 } else { 2 } {
        let event = ledger.book_loss(loss, &account, now);
        appender.append(ledger, &event)?;
    }
    let balance = ledger.account(&account).map_or(0, |account| account.balance);
    let (shard, amount, asset) = (ledger.shard(), loss.amount.get(), &loss.asset);
    say(format_args!("ledger shard {shard}: {amount} {asset} are booked as lost: {account} has {balance} {asset}"));
    Ok(())
}

/// A credit between two shards, for the person who has to correct what it changed.
fn words(credit: &KnownCredit) -> String {
    let KnownCredit { here, there, side, posted, id, debit, credit: to, asset, amount, .. } = credit;
    let kind = if *posted { "hold" } else { "transfer" };
    let (space, id) = IdSpace::split(id);
    let space = if space.is_empty() { String::new() } else { format!(" of {space}") };
    let lost = if *side == LossSide::Sent { "debit" } else { "credit" };
    format!(
        "ledger shard {here}: {kind} {id}{space}: {} {asset} from {debit} to {to}: shard {there} knows of it, and its \
         {lost} is lost here",
        amount.get()
    )
}
