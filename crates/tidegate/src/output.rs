//! Prints a command's output. If the reader stops reading (`| head`), or a disk is full, neither a command nor the
//! server ends.

use std::fmt::Arguments;
use std::io::Write;

/// Prints a line for the person who asked.
pub fn say(line: Arguments<'_>) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Prints a line about what is wrong.
pub fn complain(line: Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
