//! One row for each key of a configuration file. The parser, the errors and the documentation all come from it.
//!
//! ```text
//!   owner    config! { struct DataKeys in "data" { shards: Count<u16> = 1, 1..=1_024, restart, "shards …"; } }
//!              │ ROWS, SECTIONS
//!              ▼
//!   binary   Schema::of(&[DataKeys::SECTIONS, …]) ─▶ Document::read ─▶ document.section::<DataKeys>() ─▶ DataKeys
//!              │                                      unknown keys,     ranges, words,                    plain
//!              ▼                                      wrong types       what is missing                   values
//!   pages    the same rows
//! ```
//!
//! Each owner declares its keys with [`config!`] beside the code that uses them. A key has a name, a type, a unit, a
//! default, a range, a meaning, and the word `live` or `restart`: whether a running process takes over a new value. The
//! struct that the macro makes has a plain value for each key, with the default filled in. A [`Schema`] composes the
//! rows of all owners; a crate that the binary did not know when it was written hands in its rows like all others.
//!
//! Why unknown keys are errors: otherwise the author of a misspelt key would believe that it has an effect. Each error
//! names the file and the line, what was written, what was expected, and the nearest known name.
//!
//! Invariant: nothing here knows which keys exist.

mod check;
mod declare;
mod document;
mod error;
mod kind;
mod row;
mod schema;
mod tree;

#[cfg(test)]
mod tests;

pub use check::nearest;
pub use document::{Changed, Document, Keys, Table};
pub use error::ConfigError;
pub use kind::{Address, Bytes, Count, FilePath, Flag, Kind, Milliseconds, NoDefault, Optional, PerSecond, Required};
pub use kind::{Seconds, Text, Texts, Whole, Wrong};
pub use row::{Allowed, Change, DefaultValue, Expected, KeyRow, Section, Value};
pub use schema::{KnownSection, Schema};
