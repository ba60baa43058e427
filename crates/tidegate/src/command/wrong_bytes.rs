//! Wrong bytes of logs, as commands meet them: read as what was written, as a start would, and told.
//!
//! Why: a last group with a wrong byte, and no mark behind it yet, looks like one that a crash has torn. A command that
//! took it for that would leave out, cut or give up for lost what a start has.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_journal::{MendedByte, Mending};

use crate::output::complain;

/// Those that a command has met, each told once.
#[derive(Clone, Debug, Default)]
pub struct WrongBytes(Arc<Mutex<BTreeSet<(String, u64)>>>);

impl WrongBytes {
    /// For logs that are only read.
    pub fn reading(&self) -> Mending {
        let met = self.clone();
        Mending::of_reader(move |byte| met.tell(&byte))
    }

    /// For logs that are written to.
    pub fn writing(&self) -> Mending {
        let met = self.clone();
        Mending::new(move |byte| met.tell(&byte))
    }

    fn tell(&self, byte: &MendedByte) {
        let MendedByte { segment, offset, found, written, is_durable, .. } = byte;
        let is_new = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert((segment.clone(), *offset));
        let then = match is_durable {
            true => "it is written so again",
            false => "it was read so. A start writes it again, unless the file is archived: replace that by a copy",
        };
        if is_new || *is_durable {
            complain(format_args!(
                "WRONG BYTE: {segment}: the byte at offset {offset} is {found:#04x} and was written as {written:#04x}: \
                 the chain hash proves it, and {then}"
            ));
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
