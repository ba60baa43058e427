//! What became of each mutant: one line for each trial, appended. The last line of a mutant counts.
//!
//! ```text
//!   NUMBER <tab> killed by TESTS | timeout in TESTS | survived <tab> SECONDS <tab> NAME <tab> which tests were run
//! ```
//!
//! Why a file that grows: all mutants take hours, and a run that was ended goes on where it stopped.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::Context;

/// What became of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A test failed.
    Killed,
    /// A test took too long.
    TimedOut,
    /// All passed.
    Survived,
}

/// The results of earlier runs, and where those of this run go.
pub struct Results {
    file: File,
    /// The last fate of each mutant.
    pub fates: BTreeMap<usize, Fate>,
}

impl Results {
    /// Opens the file, which need not exist. A last line that was cut off is removed.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            text => text.with_context(|| path.display().to_string())?,
        };
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        let file = File::options().append(true).create(true).open(path)?;
        file.set_len(whole.len() as u64)?;
        let fates = whole.lines().map(fate).collect::<anyhow::Result<_>>();
        Ok(Self { file, fates: fates.with_context(|| path.display().to_string())? })
    }

    /// Appends what became of a mutant: `by` says which tests saw it.
    pub fn append(&mut self, number: usize, fate: Fate, by: &str, rest: &str) -> anyhow::Result<()> {
        let word = match fate {
            Fate::Killed => format!("killed by {by}"),
            Fate::TimedOut => format!("timeout in {by}"),
            Fate::Survived => "survived".to_owned(),
        };
        self.fates.insert(number, fate);
        Ok(self.file.write_all(format!("{number}\t{word}\t{rest}\n").as_bytes())?)
    }

    /// How many of these were killed, ran out of time, live.
    pub fn count(&self, numbers: &[usize]) -> [usize; 3] {
        [Fate::Killed, Fate::TimedOut, Fate::Survived]
            .map(|fate| numbers.iter().filter(|number| self.fates.get(number) == Some(&fate)).count())
    }
}

fn fate(line: &str) -> anyhow::Result<(usize, Fate)> {
    let mut words = line.split('\t');
    let (number, word) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let fate = match word.split(' ').next() {
        Some("killed") => Fate::Killed,
        Some("timeout") => Fate::TimedOut,
        Some("survived") => Fate::Survived,
        _ => anyhow::bail!("{line:?}: expected a number and killed, timeout or survived"),
    };
    Ok((number.parse().with_context(|| format!("{line:?}: expected a number"))?, fate))
}

#[cfg(test)]
mod tests;
