//! `tidegate audit`: checks a data directory that no server is using, and names what is wrong with it.

use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use tidegate_doors::http::time::rfc3339;
use tidegate_journal::directory::{Directory, check_key};
use tidegate_journal::disk::RealDisk;
use tidegate_journal::recorded_end::RecordedEnd;
use tidegate_journal::witness::{Reading, check_folder};
use tidegate_journal::{Family, LocalLogs, LogId, Sequence};
use tidegate_ledger::audit::{audit_between, audit_shard};
use tidegate_ledger::claims::{lost_claims, proofs_of, used_twice};
use tidegate_ledger::histories::{Histories, compare_credits};
use tidegate_ledger::ids::VerifiedIndex;
use tidegate_ledger::{LEDGER, LedgerFamily, verify_ids};
use tidegate_machines::ledger::{ACCEPTED_LOSS_PREFIX, Ledger};
use tidegate_shard::{Findings, OpenError, ShardFamily, Snapshots, audit};

use super::accept_loss::{Proven, dead_witnesses, has_witnesses, proven};
use super::wrong_bytes::WrongBytes;
use crate::extension::{Extension, KnownFamily};
use crate::output::{complain, say};

/// Audits every shard of the ledger, what lies between them, and every shard of all other families. Reads only; exit 0
/// only if all agree. `witness`: the folder of the logs' witnesses.
pub fn run<P>(data: &Path, witness: Option<&Path>, extensions: &[&dyn Extension<P>]) -> Result<ExitCode> {
    let all = KnownFamily::all(extensions);
    let families: Vec<Family> = all.iter().map(|known| known.family).collect();
    if let Some(folder) = witness {
        check_folder(&RealDisk, folder)?;
    }
    let directory = Directory::open_to_judge(data, &families)?;
    let wrong = WrongBytes::default();
    let logs = LocalLogs::new(RealDisk, data, &families).mending(wrong.reading());
    let mut problems = Vec::new();
    problems.extend(check_key(data).err().map(|error| error.to_string()));
    audit_ledger(data, &directory, &logs, &mut problems);
    for known in all.iter().filter(|known| known.family != LEDGER) {
        (known.audit)(data, &directory, &logs, &mut problems);
    }
    let is_sound = problems.is_empty();
    if wrong.count() > 0 {
        problems.push(format!(
            "{} byte(s) of logs are not what was written; see above. Nothing is lost: a start puts them right, but in \
             archived files",
            wrong.count()
        ));
    }
    let ways = format!("tidegate accept-loss --data {} --reason TEXT lists what can be done", data.display());
    for dead in dead_witnesses(data, &directory, &families, witness)? {
        problems.push(format!(
            "the witness {}: nothing proves any more that its log has all its records; {ways}",
            dead.what()
        ));
    }
    let Proven { lost, unread } = proven(data, &directory, &logs, witness, &all);
    problems.extend(lost.iter().map(|lost| format!("LOST: {lost}. A start refuses; {ways}")));
    // What cannot be read was said above.
    problems.extend(unread.iter().filter(|_| is_sound).map(|error| format!("{error:#}")));
    for family in directory.others(&families) {
        say(format_args!("logs of family \"{family}\" were not looked at: this program does not know it"));
    }
    tell_unusable_ends(data, &directory, &families);
    for problem in &problems {
        complain(format_args!("WRONG: {problem}"));
    }
    if problems.is_empty() {
        if witness.is_none() && has_witnesses(data)? {
            complain(format_args!(
                "the witnesses of these logs were not asked. Say --witness FOLDER, the folder that data.witness names \
                 in the configuration"
            ));
        }
        say(format_args!("all agree"));
        return Ok(ExitCode::SUCCESS);
    }
    complain(format_args!("{} problem(s) found", problems.len()));
    if !unread.is_empty() {
        complain(format_args!("a start refuses what cannot be opened; {ways}, and changes nothing without --yes"));
    }
    Ok(ExitCode::from(2))
}

/// What the last stop recorded of the ends of logs, where that cannot be used. Nothing is lost with it, but it proves
/// nothing.
fn tell_unusable_ends(data: &Path, directory: &Directory, families: &[Family]) {
    for (family, log) in families.iter().flat_map(|family| directory.logs(*family).map(move |log| (family, log))) {
        let recorded = RecordedEnd::new(RealDisk, data, family, log);
        if let Ok(Reading::Unusable(what)) = recorded.read() {
            let path = recorded.path().display();
            complain(format_args!("{path} cannot be used: {what}. So it cannot tell whether its log has lost its end"));
        }
    }
}

/// The ledger: each shard, credits on their way between shards, and the sums of each asset.
fn audit_ledger(data: &Path, directory: &Directory, logs: &LocalLogs<RealDisk>, problems: &mut Vec<String>) {
    let mut findings = Vec::new();
    for log in directory.logs(LEDGER) {
        let snapshots = snapshots::<LedgerFamily>(data, log);
        let audited =
            with_bar(|bar| audit_shard(logs, &snapshots, directory.shards(LEDGER), |at, end| tell(bar, at, end)));
        if let Some(audited) = keep::<LedgerFamily>(data, log, audited, problems) {
            report_money(&audited);
            findings.push(audited);
        }
        audit_ids(data, log, problems);
    }
    let folder = data.join("journal");
    let between = audit_between(&findings);
    if between.is_empty() {
        audit_ties(directory, logs, findings, problems);
    }
    problems.extend(between.iter().map(|problem| format!("{}: {problem}", folder.display())));
}

/// What records of a shard rest upon in the logs of others, if all could be read: each credit between shards stands in
/// the logs of both, and each decision on an id has its claim.
fn audit_ties(
    directory: &Directory,
    logs: &LocalLogs<RealDisk>,
    findings: Vec<Findings<Ledger>>,
    problems: &mut Vec<String>,
) {
    let states: Vec<Ledger> = findings.into_iter().filter_map(|found| found.state).collect();
    if states.len() != usize::from(directory.shards(LEDGER)) {
        return;
    }
    match compare_credits(logs, directory.id(), &states) {
        Ok(Histories { credits, strange }) if strange.is_empty() && credits > 0 => {
            say(format_args!("ledger: {credits} credits between shards compared"));
        }
        Ok(Histories { strange, .. }) => problems.extend(strange),
        Err(error) => problems.push(format!("credits between shards could not be compared: {error}")),
    }
    match lost_claims(logs, directory.id(), &states) {
        Ok(lost) => {
            problems.extend(proofs_of(&lost).into_iter().map(|(_, proof)| proof));
            problems.extend(used_twice(&lost));
        }
        Err(error) => problems.push(format!("claims of ids could not be compared with decisions: {error}")),
    }
}

/// The index of ids beside a log of the ledger. It follows from the log, so a damaged one loses nothing.
fn audit_ids(data: &Path, log: LogId, problems: &mut Vec<String>) {
    let VerifiedIndex { runs, entries, damaged } = verify_ids(data, log);
    problems.extend(damaged.iter().map(|error| format!("{} shard {}: {error}", LEDGER.name, log.shard)));
    if runs > 0 {
        say(format_args!("{} shard {}: {entries} ids in {runs} files verified", LEDGER.name, log.shard));
    }
}

/// All logs of a family whose shards have nothing in common.
pub fn audit_family<F: ShardFamily>(
    data: &Path,
    directory: &Directory,
    logs: &LocalLogs<RealDisk>,
    problems: &mut Vec<String>,
) {
    let shards = directory.shards(F::FAMILY);
    for log in directory.logs(F::FAMILY) {
        let snapshots = snapshots::<F>(data, log);
        let audited = with_bar(|bar| audit(logs, &snapshots, shards, |at, end| tell(bar, at, end)));
        keep::<F>(data, log, audited, problems);
    }
}

pub(crate) fn snapshots<F: ShardFamily>(data: &Path, log: LogId) -> Snapshots<F, RealDisk> {
    Snapshots::new(RealDisk, data, log)
}

/// Says what was found on one shard, whatever its family, and keeps what is wrong.
fn keep<F: ShardFamily>(
    data: &Path,
    log: LogId,
    audited: Result<Findings<F::Machine>, OpenError>,
    problems: &mut Vec<String>,
) -> Option<Findings<F::Machine>> {
    let name = format!("{} shard {}", F::FAMILY.name, log.shard);
    let folder = data.join("journal").join(format!("{}-{}", F::FAMILY.name, log.shard));
    let mut wrong = |problem: &dyn Display| problems.push(format!("{name}, {}: {problem}", folder.display()));
    let audited = audited.map_err(|damage| wrong(&damage)).ok()?;
    audited.problems.iter().for_each(|problem| wrong(problem));
    for notice in &audited.notices {
        let (kind, at, text) = (notice.kind, rfc3339(notice.time_ms / 1_000), &notice.text);
        let lost = notice.lost.map_or_else(String::new, |lost| format!(", without {lost}"));
        say(format_args!("{name}: an operator wrote: {kind} at {at}{lost}: {text}"));
    }
    if audited.log.bytes_cut > 0 {
        let cut = audited.log.bytes_cut;
        say(format_args!(
            "{name}: {cut} bytes at the tail are no whole group, and nothing shows that they were ever durable; the \
             next start cuts them"
        ));
    }
    let begins = match audited.begins_after.0 {
        0 => String::new(),
        snapshot => format!(" behind the snapshot at {snapshot}"),
    };
    say(format_args!(
        "{name}: {} records verified and refolded{begins}, {} snapshots compared",
        audited.records, audited.snapshots_compared
    ));
    Some(audited)
}

fn report_money(findings: &Findings<Ledger>) {
    let Some(ledger) = &findings.state else { return };
    let shard = findings.shard;
    say(format_args!("ledger shard {shard}: {} accounts", ledger.slots()));
    for account in ledger.figures(0, u32::MAX).filter(|account| account.id.starts_with(ACCEPTED_LOSS_PREFIX)) {
        let (id, balance, asset) = (&account.id, account.balance, &account.asset);
        say(format_args!("ledger shard {shard}: accepted loss: {id} has {balance} {asset}"));
    }
    for totals in ledger.totals() {
        let (asset, balances, imbalance) = (&totals.asset, totals.balances, totals.imbalance());
        say(format_args!("ledger shard {shard}: asset {asset}: balances {balances}, imbalance {imbalance}"));
    }
}

/// Progress of one shard; its end is known when the first group is read.
fn with_bar<T>(audit: impl FnOnce(&ProgressBar) -> T) -> T {
    let template = "auditing {bar:40} {human_pos}/{human_len} records {per_sec} {eta}";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(0).with_style(style);
    let audited = audit(&bar);
    bar.finish_and_clear();
    audited
}

fn tell(bar: &ProgressBar, reached: Sequence, end: Sequence) {
    bar.set_length(end.0);
    bar.set_position(reached.0);
}
