//! Prints a command's output. If the reader stops reading (`| head`), or a disk is full, neither a command nor the
//! server ends.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};
use std::sync::OnceLock;

use indicatif::{ProgressBar, ProgressStyle};

/// Why a line could not be printed, but for a reader that stopped reading.
static LOST: OnceLock<String> = OnceLock::new();

/// Prints a line for the person who asked.
pub fn say(line: Arguments<'_>) {
    if let Err(error) = writeln!(std::io::stdout(), "{line}")
        && error.kind() != ErrorKind::BrokenPipe
    {
        let _ = LOST.set(error.to_string());
    }
}

/// Why some of the output is missing, if it is: a command that printed less than it found has not done what was asked.
pub fn lost() -> Option<&'static str> {
    LOST.get().map(String::as_str)
}

/// Prints a line about what is wrong.
pub fn complain(line: Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{line}");
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
