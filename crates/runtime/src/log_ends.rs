//! Where the logs of a node end: what the stop before recorded is a claim against each, and a stop records it anew.

use anyhow::{Result, anyhow};
use tidegate_journal::disk::RealDisk;
use tidegate_journal::recorded_end::RecordedEnd;
use tidegate_journal::witness::{Reading, Testimony};
use tidegate_journal::{DurableEnd, Timeline};
use tidegate_shard::Claim;

use crate::recovery::claim_of;

/// A log that is served.
pub(crate) struct LogEnd {
    /// Of which family.
    pub(crate) family: &'static str,
    /// Which of its logs.
    pub(crate) shard: u16,
    /// Where its end is recorded.
    pub(crate) recorded: RecordedEnd<RealDisk>,
    /// How far it is durable.
    pub(crate) end: DurableEnd,
    /// In which timeline; none begins while a log is served.
    pub(crate) timeline: Timeline,
}

impl LogEnd {
    /// Records where it ends, now that it is closed. The next start goes without what cannot be recorded: it has what
    /// was recorded before.
    pub(crate) fn record(&self) {
        let LogEnd { family, shard, timeline, .. } = *self;
        if let Err(error) = self.recorded.write(&Testimony { cursor: self.end.cursor(), timeline }) {
            tracing::warn!(
                family,
                shard,
                %error,
                "where this log ends could not be recorded: if it loses its end before the next start, less proves it"
            );
        }
    }
}

/// What was recorded of a log, as evidence against one that ends before it. A record that cannot be used proves
/// nothing, and is replaced at the next stop: nothing else is lost with it.
pub fn recorded_claim(recorded: &RecordedEnd<RealDisk>) -> Result<Option<Claim>> {
    let read = recorded.read().map_err(|error| {
        anyhow!(
            "{error}. This file says where a log ended at the last stop in order. Make it readable; or, if that cannot \
             be done, move it out of the data directory (its folder, if that is what cannot be read): whether the log \
             has lost its end is then told by less"
        )
    })?;
    match read {
        Reading::Testimony(testimony) => Ok(Some(claim_of(recorded.path(), &testimony))),
        Reading::Nothing => Ok(None),
        Reading::Unusable(what) => {
            let path = recorded.path().display().to_string();
            tracing::warn!(path, what, "passed over what the last stop recorded of the end of a log");
            Ok(None)
        }
    }
}
