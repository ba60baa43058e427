//! Those of one kind by name: what a change makes of them, and whether a record follows.

use std::collections::BTreeMap;

use crate::limits::NAME_BYTES_MAX;
use crate::machine::{Outcome, Refusal};
use crate::member::Member;

/// A member, and which record changed it last.
pub(crate) trait Keeps {
    /// Its kind.
    type Member: Member;

    /// How many there may be, whatever the configuration says.
    const MAX: usize;

    /// The one that the record of this sequence made so.
    fn of(changed: u64, member: Self::Member) -> Self;

    /// The sequence of that record.
    fn changed(&self) -> u64;

    /// The member.
    fn member(&self) -> &Self::Member;
}

/// All of a kind.
pub(crate) type Table<K> = BTreeMap<Box<str>, K>;

/// What a change does: the sequence of the change that it replaces, what is from then on, and what to answer.
pub(crate) type Decided<M> = Result<(u64, Option<M>, Outcome), Refusal>;

/// What `after`, which sees what there is of this name, makes of it. At most `max` there may be.
pub(crate) fn decide<K: Keeps>(
    table: &Table<K>,
    (name, max): (&str, usize),
    after: impl FnOnce(Option<&K::Member>) -> Result<Option<K::Member>, Refusal>,
) -> Decided<K::Member> {
    let kept = table.get(name);
    let before = kept.map_or(0, Keeps::changed);
    let after = after(kept.map(Keeps::member))?;
    let outcome = match (kept, &after) {
        (_, Some(member)) if !is_within_bounds(name, member) => return Err(Refusal::Invalid),
        (Some(kept), Some(member)) if kept.member() == member => Outcome::Unchanged { since: before },
        (Some(_), Some(_)) => Outcome::Changed,
        (None, Some(_)) if table.len() >= max.min(K::MAX) => return Err(Refusal::TooMany),
        (None, Some(_)) => Outcome::Made,
        (Some(_), None) => Outcome::Deleted,
        (None, None) => return Err(Refusal::NotFound),
    };
    Ok((before, after, outcome))
}

/// Whether a change that replaces `before` may be the next one of this name.
pub(crate) fn follows<K: Keeps>(table: &Table<K>, name: &str, before: u64, after: Option<&K::Member>) -> bool {
    let has_room = before > 0 || table.len() < K::MAX;
    before == table.get(name).map_or(0, Keeps::changed)
        && match after {
            Some(member) => has_room && is_within_bounds(name, member),
            None => before > 0,
        }
}

/// Takes over a change that follows, of the record of this sequence.
pub(crate) fn apply<K: Keeps>(table: &mut Table<K>, name: &str, sequence: u64, after: Option<&K::Member>) {
    match after {
        Some(member) => drop(table.insert(name.into(), K::of(sequence, member.clone()))),
        None => drop(table.remove(name)),
    }
}

/// Whether all are within bounds and were changed by records up to the one of this sequence.
pub(crate) fn is_sound<K: Keeps>(table: &Table<K>, sequence: u64) -> bool {
    let mut all = table.iter();
    table.len() <= K::MAX
        && all.all(|(name, kept)| (1..=sequence).contains(&kept.changed()) && is_within_bounds(name, kept.member()))
}

fn is_within_bounds(name: &str, member: &impl Member) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && member.is_within_bounds()
}
