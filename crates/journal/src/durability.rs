//! How far a log is known to be safe, as a value that only the journal makes.
//!
//! Why a type: whoever reads, answers or folds "up to what is durable" then cannot pass a place that merely was
//! submitted.

use crate::{ChainHash, Cursor, Position, Sequence};

/// The end of what no crash can take back: said by a log store, or proven by recovery or a reader. It never becomes
/// less.
#[derive(Clone, Copy, Debug)]
pub struct Durability {
    position: Position,
    sequence: Sequence,
    /// Chain hash of the last durable group, where whoever proved it has seen that group.
    chain: Option<ChainHash>,
}

impl Durability {
    pub(crate) fn at(end: Cursor) -> Durability {
        Durability { position: end.position, sequence: end.sequence, chain: Some(end.chain) }
    }

    pub(crate) fn unchained(position: Position, sequence: Sequence) -> Durability {
        Durability { position, sequence, chain: None }
    }

    /// Sequence of the last durable record; zero when there is none.
    #[inline]
    pub fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// Where the durable part ends: behind its last group.
    #[inline]
    pub fn position(&self) -> Position {
        self.position
    }

    /// The place where it ends, to read on from; `None` where whoever proved it has not seen the last group.
    pub fn cursor(&self) -> Option<Cursor> {
        self.chain.map(|chain| Cursor { position: self.position, sequence: self.sequence, chain })
    }

    /// Whether `place`, which is at this position, is of the same history as far as is known.
    pub(crate) fn agrees_with(&self, place: &Cursor) -> bool {
        assert_eq!(self.position, place.position, "only what is at one place is compared");
        self.sequence == place.sequence && self.chain.is_none_or(|chain| chain == place.chain)
    }

    /// For messages: what the log has at this place.
    pub(crate) fn describe(&self) -> String {
        match self.chain {
            Some(chain) => format!("sequence {}, chain {chain}", self.sequence),
            None => format!("sequence {}", self.sequence),
        }
    }
}

/// Two that speak of the same place are equal, whether or not both know its chain hash.
impl PartialEq for Durability {
    fn eq(&self, other: &Durability) -> bool {
        (self.position, self.sequence) == (other.position, other.sequence)
    }
}

impl Eq for Durability {}

#[cfg(test)]
mod tests;
