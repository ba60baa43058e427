//! `tidegate import`: the rows of a file as accounts or transfers, many in a request.
//!
//! ```text
//!   file ─▶ rows, each with its line ─▶ batches ─▶ POST ─▶ outcomes ─▶ counts, and a line for each refused row
//!                                          └─ 503: the same batch again, a little later
//! ```
//!
//! Promise: the ids stand in the file, so an import that broke off is started again with the same file: what was
//! applied is counted as a duplicate, and nothing is done twice. No row is passed over without a word.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};

use super::door::{Door, Failure};
use super::{Connection, Output, REFUSED};
use crate::output::{complain, say};

/// Transfers of one request, at most.
const BATCH_MAX: u64 = 8_190;
/// Bytes of one request, about: half of what a server takes by default.
const BATCH_BYTES_MAX: usize = 1 << 20;
/// How often a server that is busy, or starting, is asked again for the same batch.
const ATTEMPTS_MAX: u32 = 60;
/// How long to wait before that.
const PAUSE: Duration = Duration::from_secs(1);

/// What to import.
#[derive(Args)]
pub struct ImportArguments {
    /// CSV with a head, or NDJSON. Transfers: id, debit, credit, amount, memo (may be absent). Accounts: id, asset,
    /// kind.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The rows are accounts; else the columns say it.
    #[arg(long, conflicts_with = "transfers")]
    accounts: bool,
    /// The rows are transfers; else the columns say it.
    #[arg(long)]
    transfers: bool,
    /// Transfers in one request, at most.
    #[arg(
        long,
        value_name = "N",
        default_value_t = BATCH_MAX,
        value_parser = clap::value_parser!(u64).range(1..=BATCH_MAX)
    )]
    batch: u64,
    /// Pass over all lines before this one: those that an import before has done.
    #[arg(long, value_name = "LINE", default_value_t = 1)]
    from_line: u64,
    /// Check the file and send nothing.
    #[arg(long)]
    dry_run: bool,
}

/// What the rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Accounts,
    Transfers,
}

/// A row, and where it stands.
#[derive(Debug, PartialEq)]
struct Row {
    line: u64,
    body: Value,
}

/// What became of the rows.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    rows: u64,
    applied: u64,
    duplicates: u64,
    refused: u64,
}

/// Reads the file, sends it, and says what became of it.
pub fn run(connection: &Connection, arguments: ImportArguments) -> Result<ExitCode> {
    let file = File::open(&arguments.file).with_context(|| format!("cannot open {}", arguments.file.display()))?;
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let bar = progress(length);
    let door = Door::new(connection)?;
    let mut import = Import {
        door: &door,
        name: arguments.file.display().to_string(),
        output: connection.output,
        dry_run: arguments.dry_run,
        bar: &bar,
        counts: Counts::default(),
        line_done: 0,
    };
    let done = import.file(bar.wrap_read(file), &arguments);
    bar.finish_and_clear();
    import.summary();
    if let Err(error) = done {
        let from = import.line_done + 1;
        return Err(
            error.context(format!("stopped; nothing is done twice if you start again, with --from-line {from}"))
        );
    }
    Ok(if import.counts.refused > 0 { ExitCode::from(REFUSED) } else { ExitCode::SUCCESS })
}

struct Import<'a> {
    door: &'a Door,
    name: String,
    output: Output,
    dry_run: bool,
    bar: &'a ProgressBar,
    counts: Counts,
    /// The last line whose outcome is known, as are those of all before it.
    line_done: u64,
}

impl Import<'_> {
    fn file(&mut self, file: impl Read, arguments: &ImportArguments) -> Result<()> {
        let wanted = match (arguments.accounts, arguments.transfers) {
            (true, _) => Some(Kind::Accounts),
            (_, true) => Some(Kind::Transfers),
            _ => None,
        };
        let mut kind = wanted;
        let mut batch: Vec<Row> = Vec::new();
        let mut batch_bytes = 0;
        for row in rows(file, &arguments.file)? {
            let (line, fields) = row?;
            if line < arguments.from_line {
                continue;
            }
            self.counts.rows += 1;
            let kind = *kind.get_or_insert(kind_of(&fields).with_context(|| {
                format!(
                    "{}:{line}: neither an account (id, asset, kind) nor a transfer (id, debit, credit, amount)",
                    self.name
                )
            })?);
            let body = match body(kind, fields) {
                Ok(body) => body,
                Err(what) => {
                    self.refuse(line, "", &what);
                    continue;
                }
            };
            let bytes = body.to_string().len() + 1;
            if batch.len() as u64 == arguments.batch || batch_bytes + bytes > BATCH_BYTES_MAX {
                self.send(kind, &std::mem::take(&mut batch))?;
                batch_bytes = 0;
            }
            batch_bytes += bytes;
            batch.push(Row { line, body });
        }
        match kind {
            Some(kind) => self.send(kind, &batch),
            None => Ok(()),
        }
    }

    fn send(&mut self, kind: Kind, batch: &[Row]) -> Result<()> {
        if !self.dry_run && !batch.is_empty() {
            match kind {
                Kind::Accounts => batch.iter().try_for_each(|row| self.account(row))?,
                Kind::Transfers => self.transfers(batch)?,
            }
        }
        self.line_done = batch.last().map_or(self.line_done, |row| row.line);
        Ok(())
    }

    fn account(&mut self, row: &Row) -> Result<()> {
        match self.ask("/v1/accounts", &row.body) {
            // The door does not say whether it was open already: that is no difference to an import.
            Ok(_) => self.counts.applied += 1,
            Err(Failure::Refused(refusal)) => self.refuse(row.line, refusal.code(), &refusal.to_string()),
            Err(failure) => return Err(given_up(failure)),
        }
        self.line_done = row.line;
        Ok(())
    }

    /// Sends a batch. One that is refused as a whole because of one row is sent in halves.
    fn transfers(&mut self, batch: &[Row]) -> Result<()> {
        let transfers: Vec<&Value> = batch.iter().map(|row| &row.body).collect();
        match self.ask("/v1/transfers", &json!({ "transfers": transfers })) {
            Ok(answer) => self.outcomes(batch, &answer),
            Err(Failure::Refused(refusal)) if batch.len() == 1 => {
                self.refuse(batch[0].line, refusal.code(), &refusal.to_string());
                Ok(())
            }
            // What does not depend on a row, each of them would meet again.
            Err(Failure::Refused(refusal))
                if !["forbidden", "token_missing", "token_invalid", "token_expired"].contains(&refusal.code()) =>
            {
                let (first, second) = batch.split_at(batch.len() / 2);
                self.transfers(first)?;
                self.transfers(second)
            }
            Err(failure) => Err(given_up(failure)),
        }
    }

    fn outcomes(&mut self, batch: &[Row], answer: &Value) -> Result<()> {
        let outcomes = answer["outcomes"].as_array().map(Vec::as_slice).unwrap_or_default();
        ensure!(
            outcomes.len() == batch.len(),
            "the server's answer has {} outcomes for {} rows",
            outcomes.len(),
            batch.len()
        );
        for (row, outcome) in batch.iter().zip(outcomes) {
            match outcome["outcome"].as_str() {
                Some("applied") => self.counts.applied += 1,
                Some("duplicate") => self.counts.duplicates += 1,
                _ => {
                    let code = outcome["code"].as_str().unwrap_or("").to_owned();
                    let detail = match outcome["available"].as_u64() {
                        Some(available) => format!("{code}: only {available} were available"),
                        None => code.clone(),
                    };
                    self.refuse(row.line, &code, &detail);
                }
            }
        }
        Ok(())
    }

    /// Asks, and asks again as long as the server is busy or starts.
    fn ask(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            match self.door.post(path, body) {
                Err(Failure::Refused(refusal)) if refusal.is_passing() && attempts < ATTEMPTS_MAX => {
                    self.bar.set_message(refusal.code().to_owned());
                    std::thread::sleep(PAUSE);
                }
                answer => return answer,
            }
        }
    }

    fn refuse(&mut self, line: u64, code: &str, detail: &str) {
        self.counts.refused += 1;
        let name = &self.name;
        match self.output {
            Output::Table => self.bar.suspend(|| complain(format_args!("{name}:{line}: {detail}"))),
            Output::Json => {
                let row = json!({ "line": line, "outcome": "refused", "code": code, "detail": detail });
                self.bar.suspend(|| say(format_args!("{row}")));
            }
        }
    }

    fn summary(&self) {
        let Counts { rows, applied, duplicates, refused } = &self.counts;
        match (self.output, self.dry_run) {
            (Output::Json, dry_run) => say(format_args!(
                "{}",
                json!({ "rows": rows, "applied": applied, "duplicates": duplicates, "refused": refused,
                        "dry_run": dry_run })
            )),
            (Output::Table, true) => {
                say(format_args!("{rows} rows read, {refused} of them not good; nothing was sent"))
            }
            (Output::Table, false) => {
                say(format_args!("{rows} rows: {applied} applied, {duplicates} done before, {refused} refused"));
            }
        }
    }
}

fn given_up(failure: Failure) -> anyhow::Error {
    match failure {
        Failure::Refused(refusal) => anyhow::anyhow!("{refusal}"),
        Failure::Failed(error) => error,
        Failure::NobodyReads => anyhow::anyhow!("nobody reads the output"),
    }
}

/// The fields of a row.
type Fields = Map<String, Value>;
/// Rows with their lines.
type Rows<'a> = Box<dyn Iterator<Item = Result<(u64, Fields)>> + 'a>;

/// The rows of a file, by the end of its name.
fn rows<'a>(file: impl Read + 'a, path: &'a Path) -> Result<Rows<'a>> {
    let name = path.display();
    match path.extension().and_then(|end| end.to_str()) {
        Some("csv") => {
            let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::Headers).from_reader(file);
            let head =
                reader.headers().with_context(|| format!("{name}:1: no head with the names of the columns"))?.clone();
            Ok(Box::new(reader.into_records().map(move |record| {
                // The words of the CSV reader have the line.
                let record = record.with_context(|| name.to_string())?;
                let line = record.position().map_or(0, csv::Position::line);
                // An empty cell is a field that is not there.
                let cells = head.iter().zip(&record).filter(|(_, cell)| !cell.is_empty());
                Ok((line, cells.map(|(name, cell)| (name.to_owned(), cell.into())).collect()))
            })))
        }
        Some("ndjson" | "jsonl") => {
            let lines = BufReader::new(file).lines().zip(1..);
            let lines = lines.filter(|(line, _)| line.as_ref().map_or(true, |line| !line.trim().is_empty()));
            Ok(Box::new(lines.map(move |(line, number)| {
                let fields =
                    serde_json::from_str(&line?).with_context(|| format!("{name}:{number}: not a JSON object"))?;
                Ok((number, fields))
            })))
        }
        _ => bail!("{name}: expected a name that ends with .csv, .ndjson or .jsonl"),
    }
}

fn kind_of(fields: &Fields) -> Option<Kind> {
    match (fields.contains_key("debit"), fields.contains_key("kind")) {
        (true, false) => Some(Kind::Transfers),
        (false, true) => Some(Kind::Accounts),
        _ => None,
    }
}

/// The request for a row, or what is wrong with it.
fn body(kind: Kind, fields: Fields) -> Result<Value, String> {
    let (needed, allowed): (&[&str], &[&str]) = match kind {
        Kind::Accounts => (&["id", "asset", "kind"], &[]),
        Kind::Transfers => (&["id", "debit", "credit", "amount"], &["memo"]),
    };
    let mut body = Fields::new();
    for (name, value) in fields {
        if !needed.contains(&&*name) && !allowed.contains(&&*name) {
            return Err(format!("{name:?} is no field of it; there are {}", [needed, allowed].concat().join(", ")));
        }
        let value = match (&*name, value) {
            ("amount", Value::String(text)) => match text.trim().parse::<u64>() {
                Ok(amount) => amount.into(),
                Err(_) => return Err(format!("amount = {text:?}: expected a whole number of minor units")),
            },
            ("amount", value) if !value.is_u64() => {
                return Err(format!("amount = {value}: expected a whole number of minor units"));
            }
            ("amount", value) => value,
            (_, value @ Value::String(_)) => value,
            (name, value) => return Err(format!("{name} = {value}: expected a text")),
        };
        body.insert(name, value);
    }
    if let Some(missing) = needed.iter().find(|name| !body.contains_key(**name)) {
        return Err(format!("{missing:?} is missing"));
    }
    if body.get("amount").is_some_and(|amount| *amount == 0) {
        return Err("amount = 0: expected 1 or more minor units".to_owned());
    }
    Ok(Value::Object(body))
}

fn progress(length: u64) -> ProgressBar {
    let template = "importing {bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta} {msg}";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length).with_style(style)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str) -> Vec<String> {
        let rows = rows(text.as_bytes(), Path::new(name)).expect("a file of a known kind");
        let show = |(line, fields): (u64, Fields)| match kind_of(&fields).map(|kind| body(kind, fields)) {
            None => format!("{line}: no kind"),
            Some(Ok(body)) => format!("{line}: {body}"),
            Some(Err(what)) => format!("{line}: WRONG {what}"),
        };
        rows.map(|row| row.map_or_else(|error| format!("{error:#}"), show)).collect()
    }

    #[test]
    fn each_row_has_its_line_and_what_is_wrong_with_it() {
        let csv = "id, debit ,credit,amount,memo\n\
                   t1,a,b,5,\"two\nlines, and a comma\"\n\
                   t2,a,b,0,\n\
                   t3,a,,1,\n\
                   t4,a,b,1.5,\n\
                   t5,a,b,18446744073709551616,\n\
                   t6,a,b\n";
        let rows = read("x.csv", csv);
        assert_eq!(rows[0], r#"2: {"amount":5,"credit":"b","debit":"a","id":"t1","memo":"two\nlines, and a comma"}"#);
        assert_eq!(rows[1], "4: WRONG amount = 0: expected 1 or more minor units");
        assert_eq!(rows[2], "5: WRONG \"credit\" is missing");
        assert!(rows[3].starts_with("6: WRONG amount = \"1.5\""), "{}", rows[3]);
        assert!(rows[4].starts_with("7: WRONG amount = \"18446744073709551616\""), "{}", rows[4]);
        assert!(rows[5].contains("line: 8"), "{}", rows[5]);

        let lines = "{\"id\":\"a\",\"asset\":\"x\",\"kind\":\"wallet\"}\n\n\
                     {\"id\":\"a\",\"asset\":7,\"kind\":\"wallet\"}\n\
                     {\"id\":\"a\",\"asset\":\"x\",\"kind\":\"wallet\",\"colour\":\"red\"}\n\
                     {\"id\":\"t\",\"debit\":\"a\",\"credit\":\"b\",\"amount\":-1}\nnonsense\n";
        let rows = read("x.ndjson", lines);
        assert_eq!(rows[0], r#"1: {"asset":"x","id":"a","kind":"wallet"}"#);
        assert_eq!(rows[1], "3: WRONG asset = 7: expected a text");
        assert_eq!(rows[2], "4: WRONG \"colour\" is no field of it; there are id, asset, kind");
        assert_eq!(rows[3], "5: WRONG amount = -1: expected a whole number of minor units");
        assert!(rows[4].starts_with("x.ndjson:6: not a JSON object"), "{}", rows[4]);
        assert!(super::rows("".as_bytes(), Path::new("x.txt")).is_err());
    }
}
