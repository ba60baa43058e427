//! What a program knows of the records of one family of logs.

use tidegate_journal::Family;
use tidegate_machines::{Machine, RecordPosition, ShardIndex, Tie, TimeMs};
use tidegate_shard::ShardFamily;

/// The times that a record says.
#[derive(Clone, Copy, Default)]
pub(crate) struct Stamp {
    /// When it was decided.
    pub decided_at: Option<TimeMs>,
    /// For one that sets the time of its log: the time before.
    pub mended_from: Option<TimeMs>,
}

/// Tells how a record of a shard is tied to others.
type Ties = fn(&[u8], ShardIndex, &mut dyn FnMut(Tie)) -> Result<(), String>;

/// A family, and what its machine says about single records.
#[derive(Clone, Copy)]
pub struct Known {
    /// Whose logs.
    pub family: Family,
    /// When a record was decided, if it says so.
    pub(crate) decided_at: fn(&[u8]) -> Option<TimeMs>,
    /// The same, and whether it sets the time of its log.
    pub(crate) stamp: fn(&[u8]) -> Stamp,
    /// How a record of a shard is tied to other shards; `Err`, in words, for one that is none of the machine's.
    pub(crate) ties: Ties,
    /// The oldest record that the state of a snapshot's body still reads, if it reads any; `Err` says in words why the
    /// body is no state of the machine.
    pub(crate) snapshot: fn(&[u8]) -> Result<Option<RecordPosition>, String>,
}

impl Known {
    /// The family whose logs fold into the machine of `F`.
    pub const fn of<F: ShardFamily>() -> Known {
        Known {
            family: F::FAMILY,
            decided_at: decided_at::<F>,
            stamp: stamp::<F>,
            ties: ties::<F>,
            snapshot: snapshot::<F>,
        }
    }
}

fn decided_at<F: ShardFamily>(record: &[u8]) -> Option<TimeMs> {
    F::Machine::decided_at(&F::Machine::decode(record).ok()?)
}

fn stamp<F: ShardFamily>(record: &[u8]) -> Stamp {
    F::Machine::decode(record).map_or(Stamp::default(), |event| Stamp {
        decided_at: F::Machine::decided_at(&event),
        mended_from: F::Machine::mended_from(&event),
    })
}

fn ties<F: ShardFamily>(record: &[u8], shard: ShardIndex, each: &mut dyn FnMut(Tie)) -> Result<(), String> {
    let event = F::Machine::decode(record).map_err(|error| error.to_string())?;
    F::Machine::ties(&event, shard, each);
    Ok(())
}

fn snapshot<F: ShardFamily>(body: &[u8]) -> Result<Option<RecordPosition>, String> {
    F::Machine::read_snapshot(body).map(|state| state.keeps_since()).map_err(|error| error.to_string())
}
