//! What SQS says of a queue and no other door needs: kept in the notes of its settings, as JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Tags of one queue, as in SQS.
pub const TAGS_MAX: usize = 50;

/// The notes of a queue. What a later version adds is ignored, and lost with the next change by this one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Noted {
    /// Whether a message without an id has the hash of its body for one.
    #[serde(skip_serializing_if = "is_default")]
    pub content_based_deduplication: bool,
    /// How long a receiver waits that does not say, in seconds.
    #[serde(skip_serializing_if = "is_default")]
    pub receive_wait_s: u64,
    /// When the queue was made through SQS, in seconds since 1970; zero if it was not.
    #[serde(skip_serializing_if = "is_default")]
    pub created_s: u64,
    /// When its attributes were changed last through SQS.
    #[serde(skip_serializing_if = "is_default")]
    pub changed_s: u64,
    /// Its tags.
    #[serde(skip_serializing_if = "is_default")]
    pub tags: BTreeMap<Box<str>, Box<str>>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Noted {
    /// Reads notes; what is none is as if nothing was noted.
    pub fn read(notes: &[u8]) -> Noted {
        serde_json::from_slice(notes).unwrap_or_default()
    }

    /// The notes.
    pub fn write(&self) -> Box<[u8]> {
        match is_default(self) {
            true => Box::default(),
            false => serde_json::to_vec(self).expect("numbers and texts are JSON").into(),
        }
    }
}
