//! `tidegate import`: the rows of a file as accounts, transfers or holds, many in a request.
//!
//! ```text
//!   file ─▶ rows, each with its line ─▶ batches ─▶ POST ─▶ outcomes ─▶ counts, and a line for each refused row
//!                                          └─ no answer, 503, 429: the same batch again, a little later
//! ```
//!
//! Promise: the ids stand in the file, so a batch whose answer was lost is sent again, and an import that broke off is
//! started again with the same file: nothing is done twice. No row is passed over without a word. The bar shows what
//! the server has answered, not what was read. With several shards, a row is sent when its debit account has what
//! earlier rows paid to it (`credits.rs`).

mod credits;
mod file;
mod quotes;
mod row;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Error, anyhow};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use tidegate_doors::json::Problem;
use tidegate_machines::ledger::Refusal;

use super::door::{Door, encoded};
use super::failure::Failure;
use super::table::{Shown, time};
use crate::command::number::whole;
use crate::output::{complain, say};
use credits::{Credits, Sent, Shards};
use file::{Broken, Found, kind_of};
use row::{Fields, Kind, Row};

/// Rows of one request, at most.
const BATCH_MAX: u64 = 8_190;
/// Bytes of one request, about: half of what a server takes by default.
const BATCH_BYTES_MAX: usize = 1 << 20;
/// How long to wait before a batch is sent again, unless the server says how long.
const PAUSE: Duration = Duration::from_secs(1);
/// How long to wait before it is asked again whether a credit has arrived; each time twice as long, up to [`PAUSE`].
const ARRIVAL_PAUSE_MIN: Duration = Duration::from_millis(1);
/// How long a credit may be on its way at least, however short the patience with a server that is gone.
const ARRIVAL_PATIENCE_MIN: Duration = Duration::from_secs(10);
/// How often to say how far it is where there is no terminal for a bar.
const PROGRESS_LINE_EVERY: Duration = Duration::from_secs(10);

/// What to import.
#[derive(Args)]
pub struct ImportArguments {
    /// CSV with a head, or NDJSON, by the end of the name: .csv, .ndjson, .jsonl. Accounts: id, asset, kind.
    /// Transfers: id, debit, credit, amount, and if you like memo, code, user_data. Holds: the same and expires_in_ms.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The rows are accounts; else the columns say what they are.
    #[arg(long, conflicts_with_all = ["transfers", "holds"])]
    accounts: bool,
    /// The rows are transfers; else the columns say what they are.
    #[arg(long, conflicts_with = "holds")]
    transfers: bool,
    /// The rows are holds; else the columns say what they are.
    #[arg(long)]
    holds: bool,
    /// Rows in one request, at most.
    #[arg(
        long,
        value_name = "N",
        default_value_t = BATCH_MAX,
        value_parser = whole::<u64>(1..=BATCH_MAX, "rows")
    )]
    batch: u64,
    /// Pass over all lines before this one: those that an import before has done. For a ledger of one shard: with
    /// several, what these lines paid may still be on its way, and is not waited for.
    #[arg(long, value_name = "LINE", default_value_t = 1, value_parser = whole::<u64>(1..=u64::MAX, "a line"))]
    from_line: u64,
    /// Go on trying so long when the server is busy, or has answered before and does not now. The same rows are sent
    /// again, and their ids make sure that none is done twice.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = whole::<u64>(0..=u64::MAX, "seconds"))]
    retry_for_s: u64,
    /// The ledger has one shard: no row has to wait for what an earlier one paid. Of use for a token that may not read
    /// the accounts.
    #[arg(long)]
    one_shard: bool,
    /// Check the file and send nothing: what a server would refuse because of its accounts is not found so.
    #[arg(long)]
    dry_run: bool,
}

/// What became of the rows.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    rows: u64,
    applied: u64,
    duplicates: u64,
    /// Among the duplicates, those of batches whose first answer was lost: this import may have applied them.
    sent_twice: u64,
    refused: u64,
}

/// Reads the file, sends it, and says what became of it.
pub(super) fn run(door: &Door, shown: &Shown, arguments: &ImportArguments) -> Result<(), Failure> {
    let file = File::open(&arguments.file).with_context(|| format!("cannot open {}", arguments.file.display()))?;
    let bytes = file.metadata().map_or(0, |metadata| metadata.len());
    let ended = ended_by_signal().context("cannot wait for signals")?;
    let mut import = Import { ended, ..Import::new(door, shown.is_json(), arguments, bytes) };
    let done = import.file(file);
    import.bar.finish_and_clear();
    // Of a file without a row there is nothing to count.
    if done.is_ok() || import.counts.rows > 0 {
        import.summary(done.is_ok());
    }
    done?;
    if import.counts.refused > 0 { Err(Failure::RowsRefused) } else { Ok(()) }
}

/// Is true from the first Ctrl-C on, or SIGTERM. The second one ends the process at once.
fn ended_by_signal() -> std::io::Result<Arc<AtomicBool>> {
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_default(signal, ended.clone())?;
        flag::register(signal, ended.clone())?;
    }
    Ok(ended)
}

struct Import<'a> {
    door: &'a Door,
    arguments: &'a ImportArguments,
    name: String,
    is_json: bool,
    bar: ProgressBar,
    bytes: u64,
    /// When a line said how far it is.
    told_at: Instant,
    counts: Counts,
    /// The last line whose outcome is known, as are those of all before it.
    line_done: u64,
    /// What earlier rows paid, and may not have arrived.
    credits: Credits,
    /// Whether the server ever answered: one that never did is perhaps none.
    has_answered: bool,
    /// Whether somebody ends the import: after the request that is under way.
    ended: Arc<AtomicBool>,
}

impl<'a> Import<'a> {
    fn new(door: &'a Door, is_json: bool, arguments: &'a ImportArguments, bytes: u64) -> Import<'a> {
        Import {
            door,
            arguments,
            name: arguments.file.display().to_string(),
            is_json,
            bar: bar(bytes),
            bytes,
            told_at: Instant::now(),
            counts: Counts::default(),
            line_done: arguments.from_line.saturating_sub(1),
            credits: Credits::new(if arguments.one_shard { Shards::Known(1) } else { Shards::NotAsked }),
            has_answered: false,
            ended: Arc::default(),
        }
    }

    /// `Err` once somebody ends the import.
    fn goes_on(&self) -> Result<(), Failure> {
        match self.ended.load(Ordering::Relaxed) {
            true => Err(anyhow!("{}: ended by a signal", self.name).into()),
            false => Ok(()),
        }
    }

    fn file(&mut self, file: impl Read) -> Result<(), Failure> {
        let ImportArguments { accounts, transfers, holds, .. } = *self.arguments;
        let named = [(accounts, Kind::Accounts), (transfers, Kind::Transfers), (holds, Kind::Holds)];
        let mut kind = named.into_iter().find_map(|(is_named, kind)| is_named.then_some(kind));
        let mut batch: Vec<Row> = Vec::new();
        let (mut batch_bytes, mut last_line) = (0, None);
        for row in file::rows(file, &self.arguments.file, kind)? {
            self.goes_on()?;
            let Found { line, offset, fields } = match row {
                Ok(found) => found,
                // Of a file that is only checked, all that is wrong is told. Of one that is sent, what stands behind
                // may rest on this row: it would be refused, and that stays so for its id.
                Err(error) => {
                    let broken = error.downcast::<Broken>()?;
                    if !self.arguments.dry_run {
                        return Err(Error::from(broken).into());
                    }
                    last_line = Some(broken.line);
                    if broken.line >= self.arguments.from_line {
                        self.counts.rows += 1;
                        self.refuse(broken.line, &broken.what, Map::new());
                    }
                    continue;
                }
            };
            last_line = Some(line);
            if line < self.arguments.from_line {
                continue;
            }
            if self.counts.rows == 0 {
                self.bar.set_position(offset);
                self.bar.reset_eta();
            }
            self.counts.rows += 1;
            let kind = match kind {
                Some(kind) => kind,
                None => *kind.insert(kind_of(&self.name, line, |name| fields.contains_key(name))?),
            };
            let body = match self.body(kind, fields) {
                Ok(body) => body,
                Err(what) => {
                    self.refuse(line, &what, Map::new());
                    continue;
                }
            };
            let bytes = body.to_string().len() + 1;
            if batch.len() as u64 == self.arguments.batch || batch_bytes + bytes > BATCH_BYTES_MAX {
                self.send(kind, &std::mem::take(&mut batch), offset)?;
                batch_bytes = 0;
            }
            if self.must_wait(&body)? {
                self.send(kind, &std::mem::take(&mut batch), offset)?;
                batch_bytes = 0;
                self.wait_for_credits(&body)?;
            }
            batch_bytes += bytes;
            if kind == Kind::Transfers && !self.arguments.dry_run {
                self.credits.queue(&body);
            }
            batch.push(Row { line, body });
        }
        match (kind, last_line) {
            (Some(kind), _) if self.counts.rows > 0 => self.send(kind, &batch, self.bytes),
            // No row is one by its form.
            (None, _) if self.counts.refused > 0 => Ok(()),
            (_, None) => Err(anyhow!("{}: there is no row in it (a head is none); nothing was sent", self.name).into()),
            (_, Some(last)) => {
                let (name, from) = (&self.name, self.arguments.from_line);
                Err(anyhow!("{name}: no row begins in line {from} or behind it, the last one in line {last}").into())
            }
        }
    }

    /// The part of the request for a row. Where no server is asked, what each would refuse is refused here.
    fn body(&self, kind: Kind, fields: Fields) -> Result<Value, String> {
        let body = kind.body(fields)?;
        if self.arguments.dry_run {
            let said = |refusal: Refusal| format!("{}: {}", refusal.code(), Problem::from(refusal).detail());
            kind.check(&body).map_err(said)?;
        }
        Ok(body)
    }

    /// Sends rows, behind which the file has been done up to byte `end`.
    fn send(&mut self, kind: Kind, batch: &[Row], end: u64) -> Result<(), Failure> {
        if !self.arguments.dry_run && !batch.is_empty() {
            self.rows(kind, batch)?;
            self.credits.answered();
        }
        self.line_done = batch.last().map_or(self.line_done, |row| row.line);
        self.bar.set_position(end);
        self.bar.set_message(format!("{} rows, {} refused", self.counts.rows, self.counts.refused));
        if self.bar.is_hidden() && !self.is_json && self.told_at.elapsed() >= PROGRESS_LINE_EVERY {
            let percent = end * 100 / self.bytes.max(1);
            complain(format_args!("tidegate: {}: {percent} %, done up to line {}", self.name, self.line_done));
            self.told_at = Instant::now();
        }
        Ok(())
    }

    /// Sends a batch. One that is refused as a whole because of one row is sent in halves.
    fn rows(&mut self, kind: Kind, batch: &[Row]) -> Result<(), Failure> {
        let rows: Vec<&Value> = batch.iter().map(|row| &row.body).collect();
        let body = json!({ kind.list(): rows });
        match self.ask(|door| door.post(kind.path(), &body)) {
            Ok((answer, is_lost)) => self.outcomes(kind, batch, &answer, is_lost),
            // What does not depend on a row, each of them would meet again.
            Err(Failure::Refused(refusal)) if refusal.is_about_a_row() && !refusal.is_passing() => match batch {
                [row] => {
                    let code = [("code".to_owned(), refusal.code().into())];
                    self.refuse(
                        row.line,
                        &format!("{}: {}", refusal.code(), refusal.detail()),
                        code.into_iter().collect(),
                    );
                    Ok(())
                }
                _ => {
                    let (first, second) = batch.split_at(batch.len() / 2);
                    self.rows(kind, first)?;
                    self.rows(kind, second)
                }
            },
            Err(failure) => Err(failure),
        }
    }

    fn outcomes(&mut self, kind: Kind, batch: &[Row], answer: &Value, is_lost: bool) -> Result<(), Failure> {
        let outcomes = answer["outcomes"].as_array().map(Vec::as_slice).unwrap_or_default();
        if outcomes.len() != batch.len() {
            let (found, sent) = (outcomes.len(), batch.len());
            return Err(anyhow!("the server's answer has {found} outcomes for {sent} rows").into());
        }
        for (row, outcome) in batch.iter().zip(outcomes) {
            let is_before = match outcome["outcome"].as_str() {
                Some("applied") => Some(false),
                Some("duplicate") => Some(true),
                _ => None,
            };
            if let Some(is_before) = is_before.filter(|_| kind == Kind::Transfers) {
                self.credits.applied(row.line, &row.body, is_before);
            }
            match outcome["outcome"].as_str() {
                Some("applied") => self.counts.applied += 1,
                Some("duplicate") => {
                    self.counts.duplicates += 1;
                    self.counts.sent_twice += u64::from(is_lost);
                }
                _ => self.refuse(row.line, &why(outcome), outcome.as_object().cloned().unwrap_or_default()),
            }
        }
        Ok(())
    }

    /// Whether what was read must be sent, and arrive, before this row may be.
    fn must_wait(&mut self, row: &Value) -> Result<bool, Failure> {
        if self.credits.are_awaited(row) && self.credits.shards() == Shards::NotAsked {
            let shards = self.shards()?;
            self.credits.learn(shards);
        }
        Ok(self.credits.are_awaited(row))
    }

    /// How many shards the ledger has, as its audit says.
    fn shards(&mut self) -> Result<Shards, Failure> {
        match self.ask(|door| door.get_once("/v1/audit")) {
            Ok((audit, _)) => {
                let count = audit["shards"].as_array().and_then(|shards| u16::try_from(shards.len()).ok());
                Ok(count.filter(|count| *count > 0).map_or(Shards::Untold, Shards::Known))
            }
            Err(Failure::Refused(refusal)) if !refusal.is_passing() => {
                self.note(
                    "without the right \"audit\" this token cannot see how many shards there are: each credit that a \
                     later row needs is asked for, which takes longer",
                );
                Ok(Shards::Untold)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Waits until the debit account of `row` has what earlier rows paid to it.
    fn wait_for_credits(&mut self, row: &Value) -> Result<(), Failure> {
        let awaited = if self.credits.is_full() { self.credits.take_all() } else { self.credits.take(row) };
        for sent in awaited {
            match self.wait_for_credit(&sent) {
                // It was applied, so it is there: the token may not see it.
                Err(Failure::Refused(refusal)) if matches!(refusal.status, 403 | 404) => {
                    let (name, line) = (&self.name, sent.line);
                    return Err(anyhow!(
                        "{name}:{line}: this token cannot see whether its credit has arrived, and a later row spends \
                         it: with several shards that row might be refused for ever. Give the token the right to read \
                         the accounts, or say --one-shard if the ledger has only one, and begin again: nothing is done \
                         twice"
                    )
                    .into());
                }
                waited => waited?,
            }
        }
        Ok(())
    }

    fn wait_for_credit(&mut self, sent: &Sent) -> Result<(), Failure> {
        let path = format!("/v1/transfers/{}", encoded(&sent.id));
        let patience = Duration::from_secs(self.arguments.retry_for_s).max(ARRIVAL_PATIENCE_MIN);
        let (since, mut pause) = (Instant::now(), ARRIVAL_PAUSE_MIN);
        loop {
            let (state, _) = self.ask(|door| door.get_once(&path))?;
            if state["credit_pending"] != true {
                return Ok(());
            }
            if since.elapsed() > patience {
                let (name, line, seconds) = (&self.name, sent.line, patience.as_secs());
                let what = "its credit is on its way to another shard, and the next row may need it";
                return Err(anyhow!("{name}:{line}: since {seconds} s {what}").into());
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE);
        }
    }

    /// Says something to the person, beside the bar.
    fn note(&self, what: &str) {
        if !self.is_json {
            self.bar.suspend(|| complain(format_args!("tidegate: {what}")));
        }
    }

    /// Asks, and asks again as long as the server is busy, starts, or is gone after it was there. Says besides whether
    /// the rows may have been done before the answer came.
    fn ask(&mut self, question: impl Fn(&Door) -> Result<Value, Failure>) -> Result<(Value, bool), Failure> {
        let (mut failing_since, mut is_lost) = (None, false);
        loop {
            self.goes_on()?;
            let (failure, pause) = match question(self.door) {
                Ok(answer) => {
                    self.has_answered = true;
                    return Ok((answer, is_lost));
                }
                Err(Failure::Refused(refusal)) if refusal.is_passing() => {
                    self.has_answered = true;
                    is_lost |= refusal.code() == "timed_out";
                    let pause = refusal.retry_after.unwrap_or(PAUSE);
                    (Failure::Refused(refusal), pause)
                }
                Err(Failure::Failed(error)) if self.has_answered => {
                    is_lost = true;
                    (Failure::Failed(error), PAUSE)
                }
                Err(failure) => return Err(failure),
            };
            let retry_for = Duration::from_secs(self.arguments.retry_for_s);
            if failing_since.is_none() && !self.is_json {
                let (name, line) = (&self.name, self.line_done + 1);
                self.bar.suspend(|| complain(format_args!("tidegate: {name}:{line}: {failure}; trying again")));
            }
            if failing_since.get_or_insert_with(Instant::now).elapsed() + pause > retry_for {
                return Err(failure);
            }
            self.bar.set_message("waiting for the server");
            std::thread::sleep(pause);
        }
    }

    fn refuse(&mut self, line: u64, detail: &str, mut outcome: Map<String, Value>) {
        self.counts.refused += 1;
        let name = &self.name;
        if self.is_json {
            outcome.extend(
                [("line", line.into()), ("outcome", "refused".into()), ("detail", detail.into())]
                    .map(|(name, value): (&str, Value)| (name.to_owned(), value)),
            );
            self.bar.suspend(|| say(format_args!("{}", Value::Object(outcome))));
        } else {
            self.bar.suspend(|| complain(format_args!("{name}:{line}: {detail}")));
        }
    }

    fn summary(&self, is_whole: bool) {
        let Counts { rows, applied, duplicates, sent_twice, refused } = &self.counts;
        let next = self.line_done + 1;
        let unknown = rows - applied - duplicates - refused;
        if self.is_json {
            let mut summary = json!({
                "rows": rows, "applied": applied, "duplicates": duplicates, "sent_twice": sent_twice,
                "refused": refused, "dry_run": self.arguments.dry_run,
            });
            if !is_whole {
                summary["not_answered"] = unknown.into();
                summary["next_line"] = next.into();
            }
            return say(format_args!("{summary}"));
        }
        if self.arguments.dry_run {
            return say(format_args!("{rows} rows read, {refused} of them not good; nothing was sent"));
        }
        let twice = match sent_twice {
            0 => String::new(),
            _ => format!(" ({sent_twice} of these were sent twice, as the first answer to them was lost)"),
        };
        let rest = match unknown {
            0 => String::new(),
            _ => format!(", {unknown} read and not sent, or not answered"),
        };
        say(format_args!("{rows} rows: {applied} applied, {duplicates} done before{twice}, {refused} refused{rest}"));
        // Of what was paid before that line, a later row might spend what is still on its way to its shard.
        let only_one_shard =
            if self.credits.shards() == Shards::Known(1) { "" } else { " if the ledger has one shard" };
        if !is_whole && applied + duplicates + refused == 0 {
            complain(format_args!("stopped: no row has an answer; begin again: nothing is done twice"));
        } else if !is_whole {
            complain(format_args!(
                "stopped: all before line {next} is done; begin again: nothing is done twice. Or go on with \
                 --from-line {next}{only_one_shard}"
            ));
        }
    }
}

/// Why a row was refused, and what to do if it was decided long ago.
fn why(outcome: &Value) -> String {
    let mut why = outcome["code"].as_str().unwrap_or("refused").to_owned();
    if let Some(available) = outcome["available"].as_u64() {
        why += &format!(": only {available} were available");
    }
    if outcome["remembered"] == true {
        let decided = outcome["decided_at_ms"].as_u64().map_or_else(String::new, |at| format!(" on {}", time(at)));
        why += &format!("; that was decided{decided} and stays so for this id: give the row a new one");
    }
    why
}

fn bar(bytes: u64) -> ProgressBar {
    let template = "importing {bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta} {msg}";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(bytes).with_style(style)
}
