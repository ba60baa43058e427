//! The rows of a file, CSV or NDJSON by the end of its name, each with its line and where it begins.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::row::{Fields, Kind};

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

/// Rows, in the order of the file.
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
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::Headers).from_reader(file);
    let head = reader.headers().with_context(|| format!("{name}:1: no head with the names of the columns"))?.clone();
    // All rows would be refused for a column that is none: better said once, before anything is sent.
    let kind = match wanted {
        Some(kind) => kind,
        None => kind_of(&name, 1, |field| head.iter().any(|column| column == field))?,
    };
    if let Some(why) = head.iter().find_map(|column| kind.unknown_field(column)) {
        bail!("{name}:1: {why}");
    }
    Ok(Box::new(reader.into_records().map(move |record| {
        // The words of the CSV reader have the line.
        let record = record.with_context(|| name.clone())?;
        let (line, offset) = record.position().map_or((0, 0), |position| (position.line(), position.byte()));
        // An empty cell is a field that is not there.
        let cells = head.iter().zip(&record).filter(|(_, cell)| !cell.is_empty());
        Ok(Found { line, offset, fields: cells.map(|(name, cell)| (name.to_owned(), cell.into())).collect() })
    })))
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
                let fields = serde_json::from_slice(&text);
                let fields = fields.with_context(|| format!("{}:{line}: not a JSON object", path.display()));
                return Some(fields.map(|fields| Found { line, offset, fields }));
            }
        }
    })
}
