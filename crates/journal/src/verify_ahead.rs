//! Groups that are read and verified on a thread of their own, while those before them are folded.
//!
//! ```text
//!   files ─▶ thread: read ─▶ thread: verify ─▶ │ part │ part │ ─▶ GroupReader ─▶ fold
//!                                   ▲                                │
//!                                   └──── memory, used again ◀───────┘
//! ```
//!
//! Why: of a start behind a flood, reading and hashing take as long as folding, and a machine has more than one core.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use crate::group::GroupFault;
use crate::groups::{Found, GroupSource};
use crate::limits::{READ_AHEAD_BYTES, VERIFIED_PART_BYTES, VERIFIED_PARTS_MAX};
use crate::{Cursor, JournalError, Position};

/// Groups that follow each other, verified.
#[derive(Default)]
struct Part {
    bytes: Vec<u8>,
    /// Their ranges are of `bytes`.
    groups: VecDeque<Found>,
    /// Why there is none behind them.
    ended: Option<JournalError>,
}

impl Part {
    /// Takes groups from `source`, from `before` on; it is where they end then.
    fn fill(&mut self, source: &mut dyn GroupSource, before: &mut Cursor, up_to: Position, is_first: &mut bool) {
        while before.position < up_to && self.bytes.len() < VERIFIED_PART_BYTES {
            match source.find(before, up_to, *is_first) {
                Ok(found) => {
                    let at = self.bytes.len();
                    self.bytes.extend_from_slice(source.bytes(found.body.clone()));
                    (*before, *is_first) = (found.end, false);
                    self.groups.push_back(Found { body: at..self.bytes.len(), ..found });
                }
                Err(error) => {
                    self.ended = Some(error);
                    break;
                }
            }
        }
    }
}

/// The thread.
struct Verifier {
    parts: Receiver<Part>,
    /// Memory of parts that were read.
    spent: Sender<Vec<u8>>,
    thread: JoinHandle<Box<dyn GroupSource>>,
}

impl Verifier {
    fn start(mut source: Box<dyn GroupSource>, mut before: Cursor, up_to: Position, mut is_first: bool) -> Verifier {
        let (sender, parts) = sync_channel(VERIFIED_PARTS_MAX);
        let (spent, memory) = channel::<Vec<u8>>();
        let thread = thread::spawn(move || {
            let mut has_ended = false;
            while before.position < up_to && !has_ended {
                let mut part = Part { bytes: memory.try_recv().unwrap_or_default(), ..Part::default() };
                part.bytes.clear();
                part.fill(&mut *source, &mut before, up_to, &mut is_first);
                has_ended = part.ended.is_some();
                // If the send fails, nobody wants more.
                has_ended |= sender.send(part).is_err();
            }
            source
        });
        Verifier { parts, spent, thread }
    }

    /// Ends it. The source may be at any place.
    fn stop(self) -> Box<dyn GroupSource> {
        drop((self.parts, self.spent));
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// A source whose groups are verified ahead.
pub(crate) struct VerifiedAhead {
    part: Part,
    /// Up to where groups were asked for.
    up_to: Position,
    verifier: Option<Verifier>,
    /// `None` while the thread has it.
    source: Option<Box<dyn GroupSource>>,
}

impl VerifiedAhead {
    pub fn new(mut source: Box<dyn GroupSource>) -> VerifiedAhead {
        source.prefetch();
        VerifiedAhead { part: Part::default(), up_to: Position(0), verifier: None, source: Some(source) }
    }

    /// Ends the thread and forgets what it has read.
    fn stop(&mut self) -> &mut dyn GroupSource {
        if let Some(verifier) = self.verifier.take() {
            self.source = Some(verifier.stop());
        }
        self.part = Part::default();
        &mut **self.source.as_mut().expect("it is here unless the thread has it")
    }

    /// What `error` says of the group behind `before`, which was found.
    fn say(&mut self, before: &Cursor, error: impl FnOnce(&mut dyn GroupSource) -> JournalError) -> JournalError {
        // A source speaks of the segment in which it is.
        let up_to = self.up_to;
        let source = self.stop();
        match source.find(before, up_to, false) {
            Ok(_) => error(source),
            Err(other) => other,
        }
    }
}

impl GroupSource for VerifiedAhead {
    fn find(&mut self, before: &Cursor, up_to: Position, is_first: bool) -> Result<Found, JournalError> {
        self.up_to = up_to;
        loop {
            if let Some(found) = self.part.groups.pop_front() {
                return Ok(found);
            }
            if let Some(error) = self.part.ended.take() {
                self.stop();
                return Err(error);
            }
            let verifier = match self.verifier.take() {
                Some(verifier) => verifier,
                None => {
                    let source = self.source.take().expect("it is here unless the thread has it");
                    Verifier::start(source, *before, up_to, is_first)
                }
            };
            // If the send fails, it needs no more memory.
            let _ = verifier.spent.send(std::mem::take(&mut self.part.bytes));
            let part = verifier.parts.recv();
            self.verifier = Some(verifier);
            match part {
                Ok(part) => self.part = part,
                // It is where it was to go, and there is more since.
                Err(_) => drop(self.stop()),
            }
        }
    }

    fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.part.bytes[range]
    }

    fn read_ahead(&mut self, bytes: usize) {
        self.stop().read_ahead(bytes);
    }

    fn prefetch(&mut self) {
        self.stop().prefetch();
    }

    fn forget_ahead(&mut self) {
        self.stop().forget_ahead();
    }

    fn held_bytes(&self) -> usize {
        match &self.source {
            Some(source) => source.held_bytes(),
            None => READ_AHEAD_BYTES + (VERIFIED_PARTS_MAX + 2) * self.part.bytes.capacity(),
        }
    }

    fn damaged(&mut self, before: &Cursor, fault: GroupFault) -> JournalError {
        self.say(before, |source| source.damaged(before, fault))
    }

    fn exchanged(&mut self, before: &Cursor, what: String) -> JournalError {
        self.say(before, |source| source.exchanged(before, what))
    }
}

impl Drop for VerifiedAhead {
    fn drop(&mut self) {
        self.stop();
    }
}
