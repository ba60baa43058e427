//! The rows of a file, CSV or NDJSON by the end of its name, each with its line and where it begins.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, Error, Result, anyhow, bail};
use csv::ErrorKind;

use super::quotes::{QuoteFault, Quotes, RowStart, RowStarts};
use super::row::{Fields, Kind, Once};

/// A row as it stands in the file.
#[derive(Debug)]
pub struct Found {
    /// Its line, from 1.
    pub line: u64,
    /// Bytes before it.
    pub offset: u64,
    /// What it says.
    pub fields: Fields,
}

/// A row that is none by its form; the next one begins behind it.
#[derive(Debug, thiserror::Error)]
#[error("{name}:{line}: {what}")]
pub struct Broken {
    name: String,
    /// Its line, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub what: String,
}

/// Rows, in the order of the file. What is [`Broken`] is an error, and not the end.
pub type Rows<'a> = Box<dyn Iterator<Item = Result<Found>> + 'a>;

/// The rows of a file. Nothing is read yet but the head of a CSV file.
pub fn rows<'a>(file: impl Read + 'a, path: &'a Path, wanted: Option<Kind>) -> Result<Rows<'a>> {
    match path.extension().and_then(|end| end.to_str()) {
        Some("csv") => csv(file, path, wanted),
        Some("ndjson" | "jsonl") => Ok(Box::new(ndjson(file, path))),
        _ => bail!("{}: expected a name that ends with .csv, .ndjson or .jsonl", path.display()),
    }
}

/// What the rows of a file are that begins with these fields.
pub fn kind_of(name: &str, line: u64, is_there: impl Fn(&str) -> bool) -> Result<Kind> {
    Kind::of(is_there).with_context(|| {
        format!(
            "{name}:{line}: neither accounts (id, asset, kind) nor transfers (id, debit, credit, amount) nor holds \
             (these and expires_in_ms)"
        )
    })
}

fn csv<'a>(file: impl Read + 'a, path: &'a Path, wanted: Option<Kind>) -> Result<Rows<'a>> {
    let name = path.display().to_string();
    let quotes = Quotes::new(file);
    let starts = quotes.starts();
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::Headers).from_reader(quotes);
    let head = reader.headers().map_err(|error| unreadable(&name, &starts, error))?.clone();
    let kind = kind_of_head(&name, &head, wanted)?;
    // All rows would be refused for a column that is none: better said once, before anything is sent.
    if let Some(why) = head.iter().find_map(|column| kind.unknown_field(column)) {
        bail!("{name}:1: {why}");
    }
    if let Some(twice) = head.iter().enumerate().find(|(place, column)| head.iter().take(*place).any(|c| c == *column))
    {
        bail!("{name}:1: there are two columns {:?}", twice.1);
    }
    Ok(Box::new(reader.into_records().map(move |record| {
        let record = record.map_err(|error| unreadable(&name, &starts, error))?;
        let start = record.position().and_then(|position| starts.from(position.byte()));
        let RowStart { line, offset } = start.expect("a row that was read begins somewhere");
        // An empty cell is a field that is not there.
        let cells = head.iter().zip(&record).filter(|(_, cell)| !cell.is_empty());
        Ok(Found { line, offset, fields: cells.map(|(name, cell)| (name.to_owned(), cell.into())).collect() })
    })))
}

/// What the rows are below this head.
fn kind_of_head(name: &str, head: &csv::StringRecord, wanted: Option<Kind>) -> Result<Kind> {
    if head.is_empty() {
        bail!("{name}: the file is empty; expected a head with the names of the columns, and rows below it");
    }
    if let [column] = head.iter().collect::<Vec<_>>()[..]
        && let Some(sign) = column.chars().find(|sign| matches!(sign, ';' | '\t' | '|'))
    {
        bail!("{name}:1: the columns are separated by {sign:?}; expected commas");
    }
    match wanted {
        Some(kind) => Ok(kind),
        None => kind_of(name, 1, |field| head.iter().any(|column| column == field)),
    }
}

/// What is wrong, with its line.
fn unreadable(name: &str, starts: &RowStarts, error: csv::Error) -> Error {
    let start = error.position().and_then(|position| starts.from(position.byte()));
    let line = start.map_or(1, |start| start.line);
    let broken = |what| Error::from(Broken { name: name.to_owned(), line, what });
    match error.into_kind() {
        ErrorKind::Io(error) => match error.get_ref().and_then(|inner| inner.downcast_ref::<QuoteFault>()) {
            Some(fault) => anyhow!("{name}:{}: {fault}", fault.line),
            None => anyhow!("cannot read {name}: {error}"),
        },
        ErrorKind::UnequalLengths { expected_len, len, .. } => {
            broken(format!("this row has {len} cells, and the head has {expected_len}"))
        }
        ErrorKind::Utf8 { err, .. } => broken(format!("cell {} is not UTF-8", err.field() + 1)),
        other => anyhow!("{name}:{line}: {other:?}"),
    }
}

fn ndjson<'a>(file: impl Read + 'a, path: &'a Path) -> impl Iterator<Item = Result<Found>> + 'a {
    let (mut file, mut line, mut end, mut text) = (BufReader::new(file), 0, 0, Vec::new());
    std::iter::from_fn(move || {
        loop {
            text.clear();
            let offset = end;
            match file.read_until(b'\n', &mut text) {
                Ok(0) => return None,
                Ok(bytes) => (line, end) = (line + 1, end + bytes as u64),
                Err(error) => return Some(Err(error).with_context(|| format!("cannot read {}", path.display()))),
            }
            if !text.trim_ascii().is_empty() {
                let fields = serde_json::from_slice(&text).map(|Once(fields)| fields).map_err(|error| {
                    // Its words have a line, too: that of this text, which is always 1.
                    let said = error.to_string();
                    let what = said.split(" at line ").next().unwrap_or(&said);
                    let what = format!("not a JSON object: {what}, in column {}", error.column());
                    Broken { name: path.display().to_string(), line, what }.into()
                });
                return Some(fields.map(|fields| Found { line, offset, fields }));
            }
        }
    })
}
