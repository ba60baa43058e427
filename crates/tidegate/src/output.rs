//! Prints a command's output.
//!
//! Promise: output that is lost is never taken for success. Where a disk is full, the command says so and its exit code
//! is 1. If the reader stops reading (`| head`), that is no failure, and neither a command nor the server ends by it.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

use indicatif::{ProgressBar, ProgressStyle};

/// Why a text could not be printed, but for a reader that stopped reading.
static LOST: OnceLock<String> = OnceLock::new();

/// Why there is nowhere to print to any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unwritten {
    /// Whoever reads has gone.
    NobodyReads,
    /// The system does not take it: its words.
    Lost(String),
}

/// Prints a text, all of it: nothing of it waits in a buffer when this returns.
pub fn write(text: &str) -> Result<(), Unwritten> {
    write_to(&mut io::stdout().lock(), text).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Unwritten::NobodyReads,
        _ => Unwritten::Lost(LOST.get_or_init(|| error.to_string()).clone()),
    })
}

fn write_to(out: &mut impl Write, text: &str) -> io::Result<()> {
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Prints a line for the person who asked. One that is lost is remembered: [`lost`].
pub fn say(line: Arguments<'_>) {
    let _ = write(&format!("{line}\n"));
}

/// Why some of the output is missing, if it is: a command that printed less than it found has not done what was asked.
pub fn lost() -> Option<&'static str> {
    LOST.get().map(String::as_str)
}

/// What is said when output is lost for this reason.
pub fn lost_words(why: &str) -> String {
    format!(
        "the output cannot be written: {why}; some of it is lost, and what the command was to do may be done \
         nevertheless"
    )
}

/// Prints a line about what is wrong.
pub fn complain(line: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Does what takes a while, with a bar of its bytes: it is told how many of how many are done.
pub fn with_bytes_bar<T>(what: &str, work: impl FnOnce(&mut dyn FnMut(u64, u64)) -> T) -> T {
    let template = format!("{what} {{bar:40}} {{bytes}}/{{total_bytes}} {{bytes_per_sec}} {{eta}}");
    let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(0).with_style(style);
    let done = work(&mut |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    done
}
