//! The mutants as cargo-mutants lists them.

use std::path::Path;

use anyhow::Context;
use serde::Deserialize;

/// One mutant. Its number is its place in the list.
#[derive(Deserialize)]
pub struct Mutant {
    /// Its file, from the root of the tree.
    pub file: String,
    /// `BinaryOperator`, `FnValue` and so on.
    pub genre: String,
    /// File, line, column and what is changed.
    pub name: String,
    /// What stands there instead; empty for what is deleted.
    pub replacement: String,
    /// What is replaced.
    pub span: Span,
}

/// A part of a file.
#[derive(Deserialize)]
pub struct Span {
    /// Its first character.
    pub start: Place,
}

/// A place in a file; lines and columns are counted from one.
#[derive(Clone, Copy, Deserialize, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Its line.
    pub line: usize,
    /// Its column, in characters.
    pub column: usize,
}

/// Reads the list.
pub fn read(list: &Path) -> anyhow::Result<Vec<Mutant>> {
    let text = std::fs::read(list).with_context(|| format!("{}: expected a list of mutants", list.display()))?;
    serde_json::from_slice(&text)
        .with_context(|| format!("{}: not what `cargo mutants --list --json` prints", list.display()))
}
