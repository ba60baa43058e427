//! Checks that each key of a file is known, that each value has the key's type, and that no template's placeholder is
//! left.

use std::ops::Range;

use crate::document::Document;
use crate::error::ConfigError;
use crate::row::KeyRow;
use crate::schema::{KnownSection, Schema};
use crate::tree::{Entry, Node, Shape};

/// Names this unlike are not suggested.
const SIMILARITY_MIN: f64 = 0.7;

/// What a template has where only its reader knows the value.
const PLACEHOLDER: &str = "CHANGE ME";

/// The first key that is unknown or has a value of another type, or a placeholder, is an error.
pub(crate) fn check(document: &Document, schema: &Schema) -> Result<(), ConfigError> {
    Check { document, schema }.table("", document.root().entries().unwrap_or_default())
}

struct Check<'a> {
    document: &'a Document,
    schema: &'a Schema,
}

impl Check<'_> {
    /// A table at `path`, which is empty for the whole file: a section, a group of sections, or both.
    fn table(&self, path: &str, entries: &[Entry]) -> Result<(), ConfigError> {
        let section = self.schema.section(path);
        for entry in entries {
            let row = section.and_then(|section| section.rows.iter().find(|row| row.name == entry.name));
            let inner = if path.is_empty() { entry.name.clone() } else { format!("{path}.{}", entry.name) };
            match row {
                Some(row) if entry.node.value(row.expected).is_some() => self.replaced(&inner, entry, row)?,
                Some(row) => {
                    let written = self.document.text_of(&entry.node.span);
                    let message = format!("{inner} = {written}: expected {}: {}", row.expected.words(), row.meaning);
                    return Err(self.document.error_in(&entry.node.span, message));
                }
                None => self.inner(path, &inner, section, entry)?,
            }
        }
        Ok(())
    }

    /// An error if the value is still a placeholder.
    fn replaced(&self, path: &str, entry: &Entry, row: &KeyRow) -> Result<(), ConfigError> {
        let written = self.document.text_of(&entry.node.span);
        if !written.contains(PLACEHOLDER) {
            return Ok(());
        }
        // So that one look at the file is enough.
        let others = self.document.lines_with(PLACEHOLDER, entry.node.span.end);
        let also = match &others[..] {
            [] => String::new(),
            [line] => format!(" (also in line {line})"),
            [lines @ .., last] => {
                let lines: Vec<_> = lines.iter().map(usize::to_string).collect();
                format!(" (also in lines {} and {last})", lines.join(", "))
            }
        };
        let message = format!("{path} = {written}: put your own in place of {PLACEHOLDER}{also}: {}", row.meaning);
        Err(self.document.error_in(&entry.node.span, message))
    }

    /// What is no key: a section or a group of them, or unknown.
    fn inner(&self, path: &str, inner: &str, around: Option<&KnownSection>, entry: &Entry) -> Result<(), ConfigError> {
        if let Some(section) = self.schema.section(inner) {
            return self.section(section, &entry.node);
        }
        if self.schema.below(inner).next().is_none() {
            let keys = around.into_iter().flat_map(|section| section.rows.iter().map(|row| row.name));
            return Err(self.unknown(&entry.name, inner, &entry.name_span, keys.chain(self.schema.below(path))));
        }
        match entry.node.entries() {
            Some(entries) => self.table(inner, entries),
            None => Err(self.document.error_in(&entry.node.span, format!("{inner}: expected a section, [{inner}]"))),
        }
    }

    fn section(&self, section: &KnownSection, node: &Node) -> Result<(), ConfigError> {
        let path = section.path;
        let wrong = |node: &Node, message| Err(self.document.error_in(&node.span, message));
        match &node.shape {
            Shape::Table(entries) if !section.repeated => self.table(path, entries),
            Shape::List(tables) if section.repeated => tables.iter().try_for_each(|table| match table.entries() {
                Some(entries) => self.table(path, entries),
                None => wrong(table, format!("{path}: expected sections, [[{path}]]")),
            }),
            _ if section.repeated => {
                wrong(node, format!("{path}: expected [[{path}]], in two brackets, as there may be several"))
            }
            _ => wrong(node, format!("{path}: expected a section, [{path}]")),
        }
    }

    fn unknown<'n>(
        &self,
        key: &str,
        path: &str,
        span: &Range<usize>,
        known: impl Iterator<Item = &'n str>,
    ) -> ConfigError {
        let message = match nearest(key, known) {
            Some(nearest) => format!("unknown key {path:?}; did you mean {nearest:?}?"),
            None => format!("unknown key {path:?}; {} documents every key", self.schema.documented_in()),
        };
        self.document.error_in(span, message)
    }
}

/// The word of `known` that whoever wrote `word` may have meant; `None` if it is like none of them.
pub fn nearest<'n>(word: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let alike = known.map(|known| (strsim::jaro_winkler(known, word), known));
    let alike = alike.filter(|(likeness, _)| *likeness >= SIMILARITY_MIN);
    alike.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, nearest)| nearest)
}
