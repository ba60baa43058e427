//! What a command prints. Whoever reads it may stop reading (`| head`), and a disk that takes it may be full: that ends
//! no command and no server.

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
