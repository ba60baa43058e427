//! The mutants as cargo-mutants lists them.

use std::collections::{BTreeMap, BTreeSet};
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

/// Prints the numbers of a list whose mutants have these numbers in another one: those of the same file, function and
/// change, wherever they stand. Where several are alike, and not as many in both lists, none is printed.
///
/// Why: that a mutant does not build is found out by building, and most code is as it was.
pub fn carry(from: &Path, to: &Path, numbers: &Path) -> anyhow::Result<()> {
    let (from, to) = (alike(&read(from)?), alike(&read(to)?));
    let numbers: BTreeSet<usize> = std::fs::read_to_string(numbers)
        .with_context(|| numbers.display().to_string())?
        .lines()
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    for (what, old) in from {
        let new = to.get(&what).filter(|new| new.len() == old.len());
        for (_, new) in old.iter().zip(new.into_iter().flatten()).filter(|(old, _)| numbers.contains(old)) {
            println!("{new}");
        }
    }
    Ok(())
}

/// The numbers of mutants by what they change, without the place.
fn alike(mutants: &[Mutant]) -> BTreeMap<String, Vec<usize>> {
    let mut alike: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (number, mutant) in mutants.iter().enumerate() {
        let change = mutant.name.split_once(": ").map_or(mutant.name.as_str(), |(_, change)| change);
        alike.entry(format!("{} {} {change}", mutant.file, mutant.genre)).or_default().push(number);
    }
    alike
}
