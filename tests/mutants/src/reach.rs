//! Which tests reach which mutants, and how long each test takes: a mutant is tried by those alone.
//!
//! ```text
//!   test binary ─▶ --list ─▶ each test alone, with the mutant `reached` ─▶ MILLISECONDS TEST NUMBERS …
//! ```
//!
//! Milliseconds are of processor time: by the clock, all tests are slow while others use the machine.
//! Why: most mutants are reached by few tests, and the one that sees a mutant is nearly always quick. The whole of a
//! crate's tests for each mutant takes ten times as long.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use clap::Args;

use crate::running::{self, Bounds, End};

/// Whose tests.
#[derive(Args)]
pub struct Options {
    /// A test binary of the woven tree
    #[arg(long)]
    binary: PathBuf,
    /// The folder in which its tests run
    #[arg(long)]
    folder: PathBuf,
    /// What to write
    #[arg(long)]
    out: PathBuf,
    /// Only tests whose name holds none of these
    #[arg(long)]
    skip: Vec<String>,
    #[command(flatten)]
    bounds: Bounds,
}

/// The tests of a binary, the quickest first.
pub struct Reach {
    /// The binary.
    pub binary: PathBuf,
    /// The folder in which its tests run.
    pub folder: PathBuf,
    /// Its tests.
    pub tests: Vec<Test>,
}

/// A test.
pub struct Test {
    /// How much processor time it takes without a mutant.
    pub millis: u64,
    /// Its path, as the binary lists it.
    pub name: String,
    /// The mutants that it reaches, in order.
    pub reached: Vec<u32>,
}

/// Runs each test alone and writes which mutants it reaches. A test that fails or takes too long is left out and
/// printed. The file appears when it is whole.
pub fn write(options: &Options) -> anyhow::Result<()> {
    let (binary, folder) = (options.binary.canonicalize()?, options.folder.canonicalize()?);
    let listed = Command::new(&binary).args(["--list", "--format", "terse"]).output()?;
    let listed = String::from_utf8(listed.stdout).context("names of tests")?;
    let named = listed.lines().filter_map(|line| line.strip_suffix(": test"));
    let names = named.filter(|name| !options.skip.iter().any(|part| name.contains(part)));
    let part = options.out.with_extension("part");
    let mut out = std::fs::File::create(&part)?;
    // The tests run in another folder.
    let numbers = part.canonicalize()?.with_extension("numbers");
    writeln!(out, "{}\t{}", binary.display(), folder.display())?;
    for name in names {
        let _ = std::fs::remove_file(&numbers);
        let before = running::children_millis();
        let variables = [("TIDEGATE_MUTANT", "reached"), ("TIDEGATE_REACHED", numbers.to_str().context("a path")?)];
        let command = format!("exec {} --exact {name} -q", binary.display());
        let end = running::run(&command, &folder, &variables, 0, &options.bounds);
        if end != End::Passed {
            let what = if end == End::Failed { "fails" } else { "takes too long" };
            println!("{name} {what} without a mutant, and tries none");
            continue;
        }
        let millis = running::children_millis() - before;
        let reached = std::fs::read_to_string(&numbers).unwrap_or_default();
        writeln!(out, "{millis}\t{name}\t{}", reached.split_whitespace().collect::<Vec<_>>().join(" "))?;
    }
    let _ = std::fs::remove_file(&numbers);
    Ok(std::fs::rename(&part, &options.out)?)
}

/// Reads what [`write`] wrote.
pub fn read(path: &Path) -> anyhow::Result<Reach> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let mut lines = text.lines();
    let (binary, folder) = lines.next().and_then(|line| line.split_once('\t')).context("a binary and a folder")?;
    let mut tests: Vec<Test> = lines.map(test).collect::<anyhow::Result<_>>()?;
    tests.sort_by_key(|test| test.millis);
    Ok(Reach { binary: binary.into(), folder: folder.into(), tests })
}

fn test(line: &str) -> anyhow::Result<Test> {
    let mut words = line.split('\t');
    let (Some(millis), Some(name), Some(numbers)) = (words.next(), words.next(), words.next()) else {
        anyhow::bail!("{line:?}: expected milliseconds, a test and numbers");
    };
    let mut reached: Vec<u32> = numbers.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    reached.sort_unstable();
    Ok(Test { millis: millis.parse()?, name: name.to_owned(), reached })
}
