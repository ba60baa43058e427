//! The text of a file, with the line of every value: checks that each key is known and each value of its type.

use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::ConfigError;
use super::raw::{Expected, RawConfig, SECTIONS, Section};

/// Names this unlike are not suggested.
const SIMILARITY_MIN: f64 = 0.7;

/// A file and its text.
pub struct Source {
    name: String,
    text: String,
}

impl Source {
    /// Reads the file at `path`.
    pub fn read(path: &Path) -> Result<Source, ConfigError> {
        let name = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Source { name, text }),
            Err(error) => Err(ConfigError { place: name, line: None, message: format!("cannot be read: {error}") }),
        }
    }

    /// A text that is in no file: the defaults, and tests.
    pub fn new(name: &str, text: &str) -> Source {
        Source { name: name.to_owned(), text: text.to_owned() }
    }

    /// The keys and values, all known and of their types.
    pub fn parse(&self) -> Result<RawConfig, ConfigError> {
        let table = DeTable::parse(&self.text).map_err(|error| self.syntax_error(&error))?;
        self.check_root(table.get_ref())?;
        let values = toml::de::Deserializer::from(table);
        RawConfig::deserialize(values).map_err(|error| self.syntax_error(&error))
    }

    /// An error about the value at `path`, such as `listen.http` or `user[1].role`: at its line if it was written, at its
    /// section's if only that was.
    pub fn error_at(&self, path: &str, message: impl Into<String>) -> ConfigError {
        let span = DeTable::parse(&self.text).ok().and_then(|table| locate(table.get_ref(), path));
        ConfigError { place: self.name.clone(), line: span.map(|span| self.line(span.start)), message: message.into() }
    }

    fn check_root(&self, root: &DeTable<'_>) -> Result<(), ConfigError> {
        for (name, value) in root {
            let key: &str = name.get_ref();
            if let Some(section) = SECTIONS.iter().find(|section| section.path == key) {
                self.check_section(section, value)?;
                continue;
            }
            let inner = SECTIONS.iter().filter(|section| section.path.split('.').next() == Some(key));
            if inner.clone().count() == 0 {
                let known = SECTIONS.iter().map(|section| section.path.split('.').next().unwrap_or(section.path));
                return Err(self.unknown(key, "", name.span(), known));
            }
            self.check_group(key, value)?;
        }
        Ok(())
    }

    /// A section that only holds sections: `seed` with `seed.account`.
    fn check_group(&self, group: &str, value: &Spanned<DeValue<'_>>) -> Result<(), ConfigError> {
        let DeValue::Table(table) = value.get_ref() else {
            return Err(self.at(value.span(), format!("{group}: expected a section, [{group}]")));
        };
        for (name, value) in table {
            let path = format!("{group}.{}", name.get_ref());
            let Some(section) = SECTIONS.iter().find(|section| section.path == path) else {
                let known = SECTIONS.iter().filter_map(|section| section.path.strip_prefix(&format!("{group}.")));
                return Err(self.unknown(name.get_ref(), group, name.span(), known));
            };
            self.check_section(section, value)?;
        }
        Ok(())
    }

    fn check_section(&self, section: &Section, value: &Spanned<DeValue<'_>>) -> Result<(), ConfigError> {
        match value.get_ref() {
            DeValue::Table(table) if !section.repeated => self.check_keys(section, table),
            DeValue::Array(tables) if section.repeated => tables.iter().try_for_each(|table| match table.get_ref() {
                DeValue::Table(keys) => self.check_keys(section, keys),
                _ => Err(self.at(table.span(), format!("{0}: expected sections, [[{0}]]", section.path))),
            }),
            _ if section.repeated => {
                let message = format!("{0}: expected [[{0}]], in two brackets, as there may be several", section.path);
                Err(self.at(value.span(), message))
            }
            _ => Err(self.at(value.span(), format!("{0}: expected a section, [{0}]", section.path))),
        }
    }

    fn check_keys(&self, section: &Section, table: &DeTable<'_>) -> Result<(), ConfigError> {
        for (name, value) in table {
            let Some(key) = section.keys.iter().find(|key| key.name == name.get_ref().as_ref()) else {
                let known = section.keys.iter().map(|key| key.name);
                return Err(self.unknown(name.get_ref(), section.path, name.span(), known));
            };
            if !is(key.expected, value.get_ref()) {
                let written = &self.text[value.span()];
                let (expected, meaning) = (key.expected.words(), key.meaning);
                let message = format!("{}.{} = {written}: expected {expected}: {meaning}", section.path, key.name);
                return Err(self.at(value.span(), message));
            }
        }
        Ok(())
    }

    fn unknown<'a>(
        &self,
        key: &str,
        section: &str,
        span: Range<usize>,
        known: impl Iterator<Item = &'a str>,
    ) -> ConfigError {
        let nearest = known
            .map(|known| (strsim::jaro_winkler(known, key), known))
            .filter(|(likeness, _)| *likeness >= SIMILARITY_MIN)
            .max_by(|(one, _), (other, _)| one.total_cmp(other));
        let what = if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") };
        let message = match nearest {
            Some((_, nearest)) => format!("unknown key {what:?}; did you mean {nearest:?}?"),
            None => format!("unknown key {what:?}; config/dev.toml documents every key"),
        };
        self.at(span, message)
    }

    fn syntax_error(&self, error: &toml::de::Error) -> ConfigError {
        let line = error.span().map(|span| self.line(span.start));
        ConfigError { place: self.name.clone(), line, message: error.message().to_owned() }
    }

    fn at(&self, span: Range<usize>, message: String) -> ConfigError {
        ConfigError { place: self.name.clone(), line: Some(self.line(span.start)), message }
    }

    fn line(&self, offset: usize) -> usize {
        1 + self.text.as_bytes()[..offset.min(self.text.len())].iter().filter(|byte| **byte == b'\n').count()
    }
}

fn is(expected: Expected, value: &DeValue<'_>) -> bool {
    match (expected, value) {
        (Expected::Integer, DeValue::Integer(integer)) => {
            // TOML's integers are signed 64-bit; ours count things.
            u64::from_str_radix(integer.as_str(), integer.radix()).is_ok_and(|number| i64::try_from(number).is_ok())
        }
        (Expected::Text, DeValue::String(_)) | (Expected::Flag, DeValue::Boolean(_)) => true,
        (Expected::TextList, DeValue::Array(items)) => {
            items.iter().all(|item| matches!(item.get_ref(), DeValue::String(_)))
        }
        _ => false,
    }
}

/// Where the value at `path` stands, or the nearest section around it.
fn locate(root: &DeTable<'_>, path: &str) -> Option<Range<usize>> {
    let mut table = root;
    let mut best = None;
    for step in path.split('.') {
        let (name, index) = match step.strip_suffix(']').and_then(|step| step.split_once('[')) {
            Some((name, index)) => (name, index.parse().unwrap_or(0)),
            None => (step, 0usize),
        };
        let Some(value) = table.get(name) else { return best };
        best = Some(value.span());
        table = match value.get_ref() {
            DeValue::Table(inner) => inner,
            DeValue::Array(items) => match items.get(index).map(|item| (item.span(), item.get_ref())) {
                Some((span, DeValue::Table(inner))) => {
                    best = Some(span);
                    inner
                }
                Some((span, _)) => return Some(span),
                None => return best,
            },
            _ => return best,
        };
    }
    best
}
