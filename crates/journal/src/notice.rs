//! A notice: what an operator, or a tool on his behalf, did to a log besides its writer, written into the log itself.
//!
//! ```text
//!   │ group │ group │ notice │ group │ …       timeline of what stands left of the notice: the one before
//!                       └─ its chain hash is the timeline of everything behind it, up to the next notice
//! ```
//!
//! Why it stands in the log: whoever restores a copy, or goes on without records that were durable, begins another
//! history under the same numbers. What is derived from the log (a snapshot, an index) names the timeline it belongs
//! to, so that what is of an abandoned one is told from what proves a loss. A notice is chained like a group of records
//! and consumes positions, but no sequence; folds pass over it.

use std::fmt;

use crate::{ChainHash, Cursor, Sequence};

/// The longest text of a notice, in bytes.
pub const NOTICE_TEXT_BYTES_MAX: usize = 1024;
/// Bytes of a notice before its text.
pub(crate) const NOTICE_BYTES_MIN: usize = 1 + 1 + 8 + 8 + 8 + 2;
/// Bytes of the longest notice.
pub(crate) const NOTICE_BYTES_MAX: usize = NOTICE_BYTES_MIN + NOTICE_TEXT_BYTES_MAX;
/// The version of a notice's bytes.
const NOTICE_VERSION: u8 = 1;

/// Which history of a log something belongs to: the chain hash of the last notice before it, zeros if there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Timeline(pub ChainHash);

impl Timeline {
    /// That of a log without notices.
    pub const FIRST: Timeline = Timeline(ChainHash([0; 32]));
}

impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Timeline::FIRST => write!(f, "the first timeline"),
            Timeline(chain) => write!(f, "timeline {chain}"),
        }
    }
}

/// The timelines of a log up to a place in it: what a fold of its notices gives.
///
/// At most [`TIMELINES_MAX`] are remembered, the newest. One that was forgotten is taken for unknown, which is the
/// careful side: what is of an unknown timeline may prove a loss, what is of an abandoned one cannot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timelines {
    /// Behind [`Timeline::FIRST`], oldest first.
    begun: Vec<Timeline>,
}

/// How many timelines of a log are remembered, besides [`Timeline::FIRST`].
pub const TIMELINES_MAX: usize = 256;

impl Timelines {
    /// Those of a log in which these begin, in order; `None` if it is more than [`TIMELINES_MAX`], or no history.
    pub fn of(begun: Vec<Timeline>) -> Option<Timelines> {
        let is_history = begun.len() <= TIMELINES_MAX
            && begun.iter().enumerate().all(|(at, one)| *one != Timeline::FIRST && !begun[..at].contains(one));
        is_history.then_some(Timelines { begun })
    }

    /// Those that began with a notice and are remembered, oldest first.
    pub fn begun(&self) -> &[Timeline] {
        &self.begun
    }

    /// The one that goes on.
    pub fn current(&self) -> Timeline {
        self.begun.last().copied().unwrap_or(Timeline::FIRST)
    }

    /// Passes a notice, behind which the log stands at `behind`.
    pub fn begin(&mut self, behind: &Cursor) {
        let begins = Timeline(behind.chain);
        assert!(begins != Timeline::FIRST && !self.begun.contains(&begins), "a chain hash does not come twice");
        if self.begun.len() == TIMELINES_MAX {
            self.begun.remove(0);
        }
        self.begun.push(begins);
    }

    /// Whether the log had this timeline and has begun another since.
    pub fn is_abandoned(&self, timeline: Timeline) -> bool {
        timeline != self.current() && (timeline == Timeline::FIRST || self.begun.contains(&timeline))
    }
}

/// What was done to a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeKind {
    /// Records that were durable are lost, and an operator goes on without them.
    LossAccepted,
    /// The log was put back from a backup, and goes on from there.
    Restored,
}

impl NoticeKind {
    fn number(self) -> u8 {
        match self {
            NoticeKind::LossAccepted => 1,
            NoticeKind::Restored => 2,
        }
    }
}

impl fmt::Display for NoticeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoticeKind::LossAccepted => write!(f, "loss accepted"),
            NoticeKind::Restored => write!(f, "restored"),
        }
    }
}

/// Records that a log no longer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The first of them: one behind the last that the log has; where the log was exchanged for another one, one behind
    /// the last that both are known to have.
    pub from: Sequence,
    /// The last that is proven to have been durable; `None` if nothing proves how many there were.
    pub to: Option<Sequence>,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to {
            Some(to) => write!(f, "records {} to {to}", self.from),
            None => write!(f, "records from {} on", self.from),
        }
    }
}

/// What was done to a log, when, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What.
    pub kind: NoticeKind,
    /// When, in milliseconds since the Unix epoch.
    pub time_ms: u64,
    /// What the log no longer has, if that is known.
    pub lost: Option<Lost>,
    /// The operator's words; at most [`NOTICE_TEXT_BYTES_MAX`] bytes.
    pub text: String,
}

impl Notice {
    /// The notice's bytes. Panics if its text is too long, or what is lost is not one or more records.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.text.len() <= NOTICE_TEXT_BYTES_MAX, "a notice has at most {NOTICE_TEXT_BYTES_MAX} bytes of text");
        let (from, to) = self.lost.map_or((0, 0), |lost| (lost.from.0, lost.to.map_or(0, |to| to.0)));
        assert!(self.lost.is_none() || from > 0 && (to == 0 || to >= from), "what is lost are records");
        let mut bytes = vec![NOTICE_VERSION, self.kind.number()];
        for number in [self.time_ms, from, to] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&(self.text.len() as u16).to_le_bytes());
        bytes.extend_from_slice(self.text.as_bytes());
        bytes
    }

    /// Reads a notice; `None` if the bytes are none.
    pub fn decode(bytes: &[u8]) -> Option<Notice> {
        let (head, text) = bytes.split_first_chunk::<NOTICE_BYTES_MIN>()?;
        let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        let kind = match (head[0], head[1]) {
            (NOTICE_VERSION, 1) => NoticeKind::LossAccepted,
            (NOTICE_VERSION, 2) => NoticeKind::Restored,
            _ => return None,
        };
        let lost = match (number(10), number(18)) {
            (0, 0) => None,
            (0, _) => return None,
            (from, 0) => Some(Lost { from: Sequence(from), to: None }),
            (from, to) if to >= from => Some(Lost { from: Sequence(from), to: Some(Sequence(to)) }),
            _ => return None,
        };
        let text_bytes = usize::from(u16::from_le_bytes([head[26], head[27]]));
        if text.len() != text_bytes || text_bytes > NOTICE_TEXT_BYTES_MAX {
            return None;
        }
        Some(Notice { kind, time_ms: number(2), lost, text: String::from_utf8(text.to_vec()).ok()? })
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} ms", self.kind, self.time_ms)?;
        if let Some(lost) = self.lost {
            write!(f, ", without {lost}")?;
        }
        write!(f, ": {}", self.text)
    }
}

#[cfg(test)]
mod tests;
