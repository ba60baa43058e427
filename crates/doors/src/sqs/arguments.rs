//! Numbers, names and batches in requests.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use super::Done;
use super::error::{AwsError, codes};

/// Entries of one batch.
const ENTRIES_MAX: usize = 10;
/// Characters of the id of an entry.
const ENTRY_ID_CHARS_MAX: usize = 80;

/// A number that must lie in a range, if it is given.
pub fn within(name: &str, given: Option<i64>, range: RangeInclusive<i64>) -> Done<Option<u64>> {
    match given {
        None => Ok(None),
        Some(number) if range.contains(&number) => Ok(Some(number.unsigned_abs())),
        Some(number) => {
            Err(AwsError::parameter(name, format!("expected {} to {}, not {number}", range.start(), range.end())))
        }
    }
}

/// An entry of a batch.
pub trait Entry {
    /// What the client calls it.
    fn id(&self) -> Option<&str>;
}

/// Checks that there are one to ten entries, with ids of their own.
pub fn check_entries<T: Entry>(entries: &[T]) -> Done<()> {
    if entries.is_empty() {
        return Err(AwsError::new(codes::EMPTY_BATCH, "a batch has at least one entry"));
    }
    if entries.len() > ENTRIES_MAX {
        let detail = format!("a batch has at most {ENTRIES_MAX} entries, not {}", entries.len());
        return Err(AwsError::new(codes::TOO_MANY_ENTRIES, detail));
    }
    let mut ids = HashSet::new();
    for entry in entries {
        let id = entry.id().ok_or_else(|| AwsError::missing("Id"))?;
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if id.is_empty() || id.len() > ENTRY_ID_CHARS_MAX || !id.bytes().all(is_letter) {
            let detail = "the Id of an entry has 1 to 80 letters, digits, hyphens and underscores";
            return Err(AwsError::new(codes::INVALID_ENTRY_ID, detail));
        }
        if !ids.insert(id) {
            return Err(AwsError::new(codes::IDS_NOT_DISTINCT, format!("two entries have the Id {id:?}")));
        }
    }
    Ok(())
}

/// What became of the entries of a batch.
#[derive(Default)]
pub struct Entries {
    successful: Vec<serde_json::Value>,
    failed: Vec<serde_json::Value>,
}

impl Entries {
    /// This one was done; `answer` is an object with its `Id`.
    pub fn done(&mut self, answer: serde_json::Value) {
        self.successful.push(answer);
    }

    /// This one was not.
    pub fn failed(&mut self, id: &str, error: &AwsError) {
        self.failed.push(serde_json::json!({
            "Id": id,
            "SenderFault": error.is_of_sender(),
            "Code": error.code.query,
            "Message": error.message,
        }));
    }

    /// The answer.
    pub fn answer(self) -> serde_json::Value {
        serde_json::json!({ "Successful": self.successful, "Failed": self.failed })
    }
}
