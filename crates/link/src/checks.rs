//! What the keys of all links are checked for.

use std::collections::HashSet;
use std::path::PathBuf;

use anyhow::{Error, Result, anyhow};
use tidegate_config::Document;
use tidegate_queue::machine::is_queue_name;

use crate::target::NAME_BYTES_MAX;

/// Checks the links of one kind.
pub struct Checks<'a> {
    document: &'a Document,
    section: &'static str,
    names: HashSet<Box<str>>,
}

/// Checks one of them, and says where it is wrong.
pub struct Row<'a> {
    document: &'a Document,
    section: &'static str,
    index: usize,
}

impl<'a> Checks<'a> {
    /// Of the links in `[[section]]`.
    pub fn new(document: &'a Document, section: &'static str) -> Checks<'a> {
        Checks { document, section, names: HashSet::new() }
    }

    /// The next one: its name is its own, and it has a queue.
    pub fn row(&mut self, index: usize, name: &str, from: &str) -> Result<Row<'a>> {
        let row = Row { document: self.document, section: self.section, index };
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
            return Err(row.wrong("name", format!("expected 1 to {NAME_BYTES_MAX} bytes without control characters")));
        }
        if !self.names.insert(name.into()) {
            return Err(row.wrong("name", format!("another {} has this name", self.section)));
        }
        row.queue("from", from)?;
        Ok(row)
    }
}

impl Row<'_> {
    /// Says what is wrong with a key.
    pub fn wrong(&self, key: &str, what: impl std::fmt::Display) -> Error {
        let Row { document, section, index } = self;
        anyhow!(document.error_at(&format!("{section}[{index}].{key}"), format!("{section}.{key}: {what}")))
    }

    /// A key that names a queue.
    pub fn queue(&self, key: &str, queue: &str) -> Result<()> {
        let what = "expected the name of a queue: 1 to 80 letters, digits, and characters of \"-_.:{}\", \
            not all of them \".\"";
        if is_queue_name(queue) { Ok(()) } else { Err(self.wrong(key, what)) }
    }

    /// A key that says where the other side is.
    pub fn address(&self, key: &str, address: &str) -> Result<()> {
        let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        match port.is_some_and(|port| port > 0) {
            true => Ok(()),
            false => Err(self.wrong(key, "expected HOST:PORT, such as \"10.0.0.2:7420\"")),
        }
    }

    /// A secret that stands in one of two keys: itself, or the file that has it.
    pub fn secret(&self, key: &str, secret: Option<Box<str>>, file: Option<PathBuf>) -> Result<Box<str>> {
        match (secret, file) {
            (Some(secret), None) => Ok(secret),
            (None, Some(file)) => {
                let text = std::fs::read_to_string(&file).map_err(|error| {
                    self.wrong(&format!("{key}_file"), format!("cannot read {}: {error}", file.display()))
                })?;
                Ok(text.trim().into())
            }
            _ => Err(self.wrong("name", format!("expected {key} or {key}_file"))),
        }
    }
}
