//! One file, read and checked: every key in it is known and of its type, and each value can be asked for.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;

use crate::check::check;
use crate::error::ConfigError;
use crate::kind::{Kind, Wrong, one_of};
use crate::row::{Allowed, Change, Expected, KeyRow, Section, Value};
use crate::schema::{KnownSection, Schema};
use crate::tree::{Node, Shape, parse};

/// A configuration file whose keys are all known and whose values are all of their types.
#[derive(Clone)]
pub struct Document {
    name: String,
    text: String,
    root: Node,
    schema: Schema,
    /// Numbers that hold in place of rows' defaults, by their keys.
    derived: BTreeMap<String, u64>,
}

/// A struct that [`crate::config!`] made.
pub trait Keys: Sized {
    /// The sections that it describes.
    const SECTIONS: &'static [Section];

    /// Takes the value of each key from `table`; an error if one is missing or out of its range.
    fn read(table: &Table<'_>) -> Result<Self, ConfigError>;
}

/// One section of a document, written or not.
pub struct Table<'a> {
    document: &'a Document,
    /// `listen`, or `user[1]` for the second of several.
    path: String,
    node: Option<&'a Node>,
}

/// A key whose value differs between two documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// `limits.workers`; for sections in two brackets the section, `seed.account`.
    pub path: String,
    /// Whether the new value can take effect in a running process.
    pub change: Change,
}

impl Document {
    /// Reads the file at `path`. The first key that `schema` does not know, and the first value of another type, is an
    /// error.
    pub fn read(path: &Path, schema: &Schema) -> Result<Document, ConfigError> {
        let name = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Document::of(&name, &text, schema),
            Err(error) => Err(ConfigError { place: name, line: None, message: format!("cannot be read: {error}") }),
        }
    }

    /// The same for a text that is in no file. Errors call it `name`.
    pub fn of(name: &str, text: &str, schema: &Schema) -> Result<Document, ConfigError> {
        let root = parse(text).map_err(|error| ConfigError {
            place: name.to_owned(),
            line: error.span().map(|span| line(text, span.start)),
            message: error.message().to_owned(),
        })?;
        let document = Document {
            name: name.to_owned(),
            text: text.to_owned(),
            root,
            schema: schema.clone(),
            derived: BTreeMap::new(),
        };
        check(&document, schema)?;
        Ok(document)
    }

    /// Numbers of the lines behind byte `from` that have `words` before any comment.
    pub(crate) fn lines_with(&self, words: &str, from: usize) -> Vec<usize> {
        let behind = line(&self.text, from) + 1;
        let numbered = self.text.lines().zip(1..).filter(|(_, number)| *number >= behind);
        let has_words = |text: &str| text.split('#').next().is_some_and(|value| value.contains(words));
        numbered.filter(|(text, _)| has_words(text)).map(|(_, number)| number).collect()
    }

    /// The values of a section, with defaults for what is not written.
    pub fn section<T: Keys>(&self) -> Result<T, ConfigError> {
        self.section_at(T::SECTIONS[0].path)
    }

    /// The values of one of several sections that `T` describes.
    pub fn section_at<T: Keys>(&self, path: &str) -> Result<T, ConfigError> {
        self.assert_declared::<T>(path, false);
        T::read(&Table { document: self, path: path.to_owned(), node: self.root.at(path) })
    }

    /// The values of a section in two brackets, each time that it is written.
    pub fn list<T: Keys>(&self) -> Result<Vec<T>, ConfigError> {
        let path = T::SECTIONS[0].path;
        self.assert_declared::<T>(path, true);
        let table = |(index, node)| {
            let table = Table { document: self, path: format!("{path}[{index}]"), node: Some(node) };
            T::read(&table)
        };
        self.tables(path).iter().enumerate().map(table).collect()
    }

    /// What the file itself says of the key of a number at `path`, such as `limits.workers`; `None` where the default
    /// holds.
    pub fn written_number(&self, path: &str) -> Option<u64> {
        match self.root.at(path)?.value(Expected::Integer) {
            Some(Value::Integer(number)) => Some(number),
            _ => None,
        }
    }

    /// From now on, the key of a number at `path` has this value, or the nearest of its range, where the file says
    /// nothing: a default that only the host knows, such as a part of its memory.
    ///
    /// Panics if there is no such key in a section that is written once.
    pub fn derive_default(&mut self, path: &str, number: u64) {
        let (section, name) = path.rsplit_once('.').expect("a key stands in a section");
        let known = self.schema.section(section).filter(|section| !section.repeated);
        let row = known.and_then(|section| section.rows.iter().find(|row| row.name == name));
        let number = match row.map(|row| row.allowed) {
            Some(Allowed::Numbers { least, most }) => number.clamp(least, most),
            _ => panic!("{path} is no key of a number that stands once"),
        };
        self.derived.insert(path.to_owned(), number);
    }

    /// An error about the value at `path`, such as `listen.http` or `user[1].role`: at its line if it was written, at
    /// its section's if only that was.
    pub fn error_at(&self, path: &str, message: impl Into<String>) -> ConfigError {
        let line = self.root.locate(path).map(|span| line(&self.text, span.start));
        ConfigError { place: self.name.clone(), line, message: message.into() }
    }

    /// What differs in `new`, a later version of the same file with the same schema. A key that is left out has its
    /// default.
    pub fn changes(&self, new: &Document) -> Vec<Changed> {
        self.schema.sections().iter().flat_map(|section| self.changes_of(section, new)).collect()
    }

    fn changes_of(&self, section: &KnownSection, new: &Document) -> Vec<Changed> {
        let differing = section.rows.iter().filter(|row| self.values(section, row) != new.values(section, row));
        if !section.repeated {
            let changed =
                |row: &&KeyRow| Changed { path: format!("{}.{}", section.path, row.name), change: row.change };
            return differing.map(changed).collect();
        }
        // Where one table was put in front of others, all values differ: the section is named, once.
        let changes: Vec<Change> = differing.map(|row| row.change).collect();
        let Some(first) = changes.first() else { return Vec::new() };
        let change = if changes.contains(&Change::Restart) { Change::Restart } else { *first };
        vec![Changed { path: section.path.to_owned(), change }]
    }

    /// The values of a key: one, or one for each table of a section in two brackets.
    fn values(&self, section: &KnownSection, row: &KeyRow) -> Vec<Option<Value<'_>>> {
        match section.repeated {
            true => self.tables(section.path).iter().map(|table| value(Some(table), row)).collect(),
            false => vec![self.value_at(section.path, self.root.at(section.path), row)],
        }
    }

    pub(crate) fn root(&self) -> &Node {
        &self.root
    }

    pub(crate) fn text_of(&self, span: &Range<usize>) -> &str {
        &self.text[span.clone()]
    }

    pub(crate) fn error_in(&self, span: &Range<usize>, message: String) -> ConfigError {
        ConfigError { place: self.name.clone(), line: Some(line(&self.text, span.start)), message }
    }

    fn assert_declared<T: Keys>(&self, path: &str, repeated: bool) {
        let declared = T::SECTIONS.iter().find(|section| section.path == path && section.repeated == repeated);
        let declared = declared.unwrap_or_else(|| panic!("[{path}] is not declared by this struct"));
        let known = self.schema.section(path).map_or(&[][..], |section| &section.rows);
        let is_known = declared.rows.iter().all(|row| known.iter().any(|known| known.name == row.name));
        assert!(is_known, "the keys of [{path}] are not in the schema");
    }

    /// What is written in `table`, at `path`, for the key of `row`, or what holds in its place.
    fn value_at<'a>(&'a self, path: &str, table: Option<&'a Node>, row: &KeyRow) -> Option<Value<'a>> {
        let derived = || self.derived.get(&format!("{path}.{}", row.name)).map(|number| Value::Integer(*number));
        written(table, row).or_else(derived).or_else(|| row.default.value())
    }

    /// All tables written `[[path]]`.
    fn tables(&self, path: &str) -> &[Node] {
        match self.root.at(path).map(|node| &node.shape) {
            Some(Shape::List(tables)) => tables,
            _ => &[],
        }
    }
}

impl fmt::Debug for Document {
    /// Only the name: the text may hold passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Table<'_> {
    /// The value of the key of `row`.
    pub fn key<K: Kind>(&self, row: &KeyRow) -> Result<K::Value, ConfigError> {
        let value = self.document.value_at(&self.path, self.node, row);
        K::settle(value.clone(), row).map_err(|wrong| {
            let path = format!("{}.{}", self.path, row.name);
            let message = match (wrong, value) {
                (Wrong::Expected(expected), Some(value)) => format!("{path} = {value}: expected {expected}"),
                _ => missing(&path, row),
            };
            self.document.error_at(&path, message)
        })
    }
}

fn missing(path: &str, row: &KeyRow) -> String {
    match row.allowed {
        Allowed::Words(words) => format!("{path} is missing: {}; expected {}", row.meaning, one_of(words)),
        _ => format!("{path} is missing: {}", row.meaning),
    }
}

/// What is written in `table` for the key of `row`, or its default.
fn value<'a>(table: Option<&'a Node>, row: &KeyRow) -> Option<Value<'a>> {
    written(table, row).or_else(|| row.default.value())
}

fn written<'a>(table: Option<&'a Node>, row: &KeyRow) -> Option<Value<'a>> {
    table.and_then(|table| table.get(row.name)).and_then(|node| node.value(row.expected))
}

fn line(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}
