//! The comments of `config/dev.toml` and the tables of `docs/configuration.md` are what the rows say. `UPDATE_EXPECT=1
//! cargo test -p tidegate config` writes both.

use std::fmt::Write;

use expect_test::expect_file;
use tidegate_config::{Allowed, Change, DefaultValue, KeyRow, KnownSection, Schema};

use super::*;

const COLUMNS: usize = 120;

#[test]
fn the_page_lists_every_key() {
    let mut page = String::from(PREFACE);
    for section in schema(&[]).sections() {
        let brackets = if section.repeated { format!("[[{}]]", section.path) } else { format!("[{}]", section.path) };
        write!(page, "\n## `{brackets}`\n\n{HEAD}").unwrap();
        for row in &section.rows {
            let change = if row.change == Change::Live { "yes" } else { "" };
            let cells =
                [&format!("`{}`", row.name), row.kind, row.unit, &default(row), &range(row), row.meaning, change];
            let cells = cells
                .map(|cell| if cell.is_empty() { String::new() } else { format!(" {}", cell.replace('|', "\\|")) });
            writeln!(page, "|{} |", cells.join(" |")).unwrap();
        }
    }
    expect_file!["../../../../../docs/configuration.md"].assert_eq(&page);
}

#[test]
fn the_comments_of_dev_toml_are_those_of_the_rows() {
    let (_, text) = shipped("dev.toml");
    let mut commented = Commented::default();
    text.lines().for_each(|line| commented.take(line, &schema(&[])));
    for section in schema(&[]).sections() {
        for row in &section.rows {
            let is_documented = commented.rows.iter().any(|known| std::ptr::eq(*known, *row));
            assert!(is_documented, "[{}] {} is not in config/dev.toml", section.path, row.name);
        }
    }
    expect_file!["../../../../../config/dev.toml"].assert_eq(&commented.text);
}

/// A file whose lines above each key, where the key first stands, are replaced by what its row says.
#[derive(Default)]
struct Commented {
    text: String,
    /// Comments that may belong to the next key.
    pending: String,
    section: Option<KnownSection>,
    rows: Vec<&'static KeyRow>,
}

impl Commented {
    fn take(&mut self, line: &str, schema: &Schema) {
        let commented_out = line.strip_prefix("# ");
        let code = commented_out.unwrap_or(line);
        let is_section = code.starts_with('[') && code.ends_with(']');
        if is_section {
            // What follows a section that is commented out is an example, or how a section is written that is not
            // used here.
            let path = code.trim_matches(['[', ']']);
            self.section = schema.sections().iter().find(|section| section.path == path).cloned();
        }
        if let Some((section, row)) = self.new_key(code) {
            self.pending.clear();
            self.text += &comment(&section, row, code, schema);
            self.rows.push(row);
        } else if commented_out.is_some() && !is_section {
            self.pending += line;
            self.pending.push('\n');
            return;
        }
        self.text += &std::mem::take(&mut self.pending);
        self.text += line;
        self.text.push('\n');
    }

    /// The key that `code` writes, if it has no comment yet.
    fn new_key(&self, code: &str) -> Option<(KnownSection, &'static KeyRow)> {
        let section = self.section.clone()?;
        let (name, _) = code.split_once(" = ")?;
        let row = section.rows.iter().find(|row| row.name == name).copied()?;
        let is_new = self.rows.iter().all(|known| !std::ptr::eq(*known, row));
        is_new.then_some((section, row))
    }
}

/// What the row of a key says that is written as `code`, in lines of a comment.
fn comment(section: &KnownSection, row: &KeyRow, code: &str, schema: &Schema) -> String {
    let mut letters = row.meaning.chars();
    let first = letters.next().expect("a meaning has letters").to_uppercase();
    let mut words = format!("{first}{}.", letters.as_str());
    match row.allowed {
        Allowed::Any => {}
        Allowed::Numbers { .. } => write!(words, " Range: {}.", range(row)).unwrap(),
        Allowed::Words(_) => write!(words, " One of {}.", range(row)).unwrap(),
    }
    let is_default = !section.repeated && {
        let document = |text: &str| Document::of("dev.toml", text, schema).unwrap();
        document("").changes(&document(&format!("[{}]\n{code}", section.path))).is_empty()
    };
    match row.default {
        DefaultValue::Absent => words += " No default.",
        DefaultValue::Required => words += " Required.",
        _ if is_default => {}
        _ => write!(words, " Default: {}.", default(row)).unwrap(),
    }
    if row.change == Change::Live {
        words += " (live)";
    }
    wrapped(&words)
}

fn wrapped(words: &str) -> String {
    let mut lines = String::new();
    let mut line = String::from("#");
    for word in words.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines += &line;
            lines += "\n";
            line = String::from("#");
        }
        line.push(' ');
        line += word;
    }
    lines + &line + "\n"
}

fn default(row: &KeyRow) -> String {
    match row.default {
        DefaultValue::Absent => "none".to_owned(),
        DefaultValue::Required => "required".to_owned(),
        DefaultValue::Integer(written) => match number(row, written) {
            shown if shown == written.to_string() => shown,
            shown => format!("{written} ({shown})"),
        },
        default => default.value().expect("it has one").to_string(),
    }
}

fn range(row: &KeyRow) -> String {
    match row.allowed {
        Allowed::Any => String::new(),
        Allowed::Numbers { least, most } => format!("{} to {}", number(row, least), number(row, most)),
        Allowed::Words(words) => {
            let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
            let (last, others) = words.split_last().expect("it has words");
            format!("{} or {last}", others.join(", "))
        }
    }
}

/// Bytes as `16 MiB` where that is exact.
fn number(row: &KeyRow, number: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let exact =
        units.into_iter().find(|(shift, _)| row.unit == "bytes" && number > 0 && number.is_multiple_of(1 << shift));
    exact.map_or_else(|| number.to_string(), |(shift, unit)| format!("{} {unit}", number >> shift))
}

const PREFACE: &str = "\
# Configuration

Every key of the file that `tidegate serve --config FILE` reads, in TOML. A section in two brackets, `[[acl]]`, may be
written several times. An unknown key is an error that names the nearest known one. `config/dev.toml` has every key with
an example and `config/production.toml` is a template. Flags win over the file: `--data`, `--http`, `--binary`,
`--mqtt`, `--mqtts`, `--log`.

A key that is *live* takes effect when the process gets SIGHUP. All others wait for a restart; a reload logs a warning
that names those that have changed. A file with an error changes nothing.

Each key is declared once, in `crates/tidegate/src/config/`. This page is made from the declarations (`UPDATE_EXPECT=1
cargo test -p tidegate config`).
";

const HEAD: &str = "\
| Key | Type | Unit | Default | Range | Meaning | Live |
|---|---|---|---|---|---|---|
";
