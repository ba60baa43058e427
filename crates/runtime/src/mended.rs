//! Bytes of logs that were put right: told in the server's log, and counted.
//!
//! Promise: each is told, unless there are very many, which are summed up. A byte that is right in what was read, and
//! not yet in its file, is told and counted once, however often it is read.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate_journal::{LogId, MendedByte};

use crate::damage::PLACES_MAX;

/// Lines of the log in one [`TOLD_EVERY`].
const TOLD_MAX: u32 = 100;
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct MendedBytes(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    counted: HashMap<LogId, usize>,
    /// By log, file and offset, those that are not in their files yet: [`PLACES_MAX`] at most.
    unwritten: HashSet<(LogId, Box<str>, u64)>,
    /// Since when lines are counted.
    since: Option<Instant>,
    told: u32,
    untold: u64,
}

impl MendedBytes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A byte was put right. Whether a line of the log says so.
    pub fn note(&self, byte: &MendedByte, now: Instant) -> bool {
        let MendedByte { log, segment, offset, found, written, is_durable } = byte;
        let mut state = self.state();
        let key = (*log, segment.as_str().into(), *offset);
        let is_new = match is_durable {
            true => !state.unwritten.remove(&key),
            false => state.unwritten.len() < PLACES_MAX && state.unwritten.insert(key),
        };
        *state.counted.entry(*log).or_default() += usize::from(is_new);
        if !is_new && !is_durable {
            return false;
        }
        if state.since.is_none_or(|since| now.duration_since(since) >= TOLD_EVERY) {
            (state.since, state.told) = (Some(now), 0);
        }
        if state.told == TOLD_MAX {
            state.untold += 1;
            return false;
        }
        state.told += 1;
        let untold = std::mem::take(&mut state.untold);
        let (found, written) = (format!("{found:#04x}"), format!("{written:#04x}"));
        let advice = match is_durable {
            true => {
                "a byte of a file was not what had been written, and is again: the chain hash proves it. Nothing is \
                 lost; but the memory, the disk or the cables of this machine harm data: look at them"
            }
            false => {
                "a byte of a file is not what was written; it is read as what the chain hash proves, and nothing is \
                 lost. The next start puts it right in the file, unless that is archived: do not put another file in \
                 its place while the server runs. The memory, the disk or the cables of this machine harm data: look \
                 at them"
            }
        };
        tracing::error!(
            shard = log.shard, file = segment, offset, %found, %written, more_since_the_last_line = untold, "{advice}"
        );
        true
    }

    /// Bytes of a log that were put right since the process started.
    pub fn of(&self, log: LogId) -> usize {
        self.state().counted.get(&log).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: LogId = LogId { directory: 7, family: 1, shard: 0 };

    fn byte(offset: u64, is_durable: bool) -> MendedByte {
        MendedByte { log: LOG, segment: "segment-1".into(), offset, found: 1, written: 3, is_durable }
    }

    #[test]
    fn a_byte_that_is_read_again_is_told_once_and_one_that_flips_again_each_time() {
        let (mended, now) = (MendedBytes::default(), Instant::now());
        let told = |is_durable| (mended.note(&byte(9, is_durable), now), mended.of(LOG));
        assert_eq!(told(false), (true, 1));
        assert_eq!(told(false), (false, 1), "it is not in its file yet");
        assert_eq!(told(true), (true, 1), "it is now");
        assert_eq!(told(true), (true, 2), "it has flipped again");
        assert_eq!(told(false), (true, 3), "and again, where it cannot be written");
        assert_eq!(mended.of(LogId { shard: 1, ..LOG }), 0);
    }

    #[test]
    fn of_very_many_some_are_told_and_all_are_counted() {
        let (mended, now) = (MendedBytes::default(), Instant::now());
        let told = (0..1_000).filter(|offset| mended.note(&byte(*offset, true), now)).count();
        assert_eq!((told, mended.of(LOG)), (TOLD_MAX as usize, 1_000));
        assert!(mended.note(&byte(0, true), now + TOLD_EVERY), "later, others are told");
        for offset in 0..2 * PLACES_MAX as u64 {
            mended.note(&byte(offset, false), now);
        }
        assert_eq!(mended.of(LOG), 1_001 + PLACES_MAX, "memory has a bound");
    }
}
