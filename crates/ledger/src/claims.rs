//! The claims that decisions rest upon: an id whose home is another shard is claimed there before it is decided.
//!
//! ```text
//!   A's log, home of x293:  id claimed: x293, for B   ◀── is it there? ──   B's log:  transferred x293: …
//! ```
//!
//! Why: whoever looks for the id asks its home. Where that has lost the claim, what was decided is not found, and the
//! id is free for another transfer. No number between shards tells it, because most decisions pass no credit on.
//!
//! A claim without a decision is no loss: a crash may have come between the two.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use tidegate_journal::{JournalError, Logs};
use tidegate_machines::IdSpace;
use tidegate_machines::ShardIndex;
use tidegate_machines::ledger::{ContentDigest, Event, Ledger, shard_of};

use crate::regain::read_all;

/// Claims that one pass over the logs keeps in memory: some 150 MB.
const CLAIMS_AT_A_TIME: usize = 8 << 20;

/// A decision whose claim the id's home does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostClaim {
    /// Transfer or hold id, with its space.
    pub id: Box<str>,
    /// The id's home.
    pub home: ShardIndex,
    /// The shard that has decided.
    pub owner: ShardIndex,
    /// What was asked.
    pub digest: ContentDigest,
    /// Whether something else stands under the id at its home: it was used again after the claim was lost.
    pub is_used_again: bool,
}

/// The id that an event of the log of `owner` decides on, and its home, if that is another shard: a claim of the id
/// stands there.
pub(crate) fn resting<'a>(owner: ShardIndex, event: &Event<'a>, shards: u16) -> Option<(&'a str, ShardIndex)> {
    let id = event.decides()?;
    let home = shard_of(id, shards);
    (home != owner).then_some((id, home))
}

impl LostClaim {
    /// Whether `home` is to claim the id again.
    pub fn is_regained_by(&self, home: &Ledger) -> bool {
        self.home == home.shard() && !self.is_used_again
    }

    /// The id, for a person.
    pub fn id_in_words(&self) -> String {
        id_in_words(&self.id)
    }
}

/// The claims that shards have lost, judged by what others have decided. `states` are the folds of all shards' logs in
/// order. Reads all logs, which nobody writes, as often as their claims do not fit into memory.
pub fn lost_claims<G: Logs>(logs: &G, directory: u64, states: &[Ledger]) -> Result<Vec<LostClaim>, JournalError> {
    lost_claims_in_passes(logs, directory, states, CLAIMS_AT_A_TIME)
}

/// The same, with so many claims in memory at a time.
pub fn lost_claims_in_passes<G: Logs>(
    logs: &G,
    directory: u64,
    states: &[Ledger],
    claims_at_a_time: usize,
) -> Result<Vec<LostClaim>, JournalError> {
    let shards = states.len() as u16;
    let mut lost = Vec::new();
    if shards < 2 {
        return Ok(lost);
    }
    let hasher = RandomState::new();
    let key = |home: ShardIndex, owner: ShardIndex, id: &str| hasher.hash_one((home, owner, id));
    let mut from = 0;
    loop {
        // The keys of one pass: those from `from` to `upto`, as far as they fit.
        let (mut upto, mut claims) = (u64::MAX, HashSet::new());
        for state in states {
            read_all(logs, directory, state.shard(), &mut |_, event| {
                let Event::IdClaimed { id, owner, .. } = *event else { return };
                let key = key(state.shard(), owner, id);
                if (from..=upto).contains(&key) {
                    claims.insert(key);
                }
                if claims.len() > claims_at_a_time {
                    upto = from + (upto - from) / 2;
                    claims.retain(|key| *key <= upto);
                }
            })?;
        }
        for state in states {
            read_all(logs, directory, state.shard(), &mut |_, event| {
                let owner = state.shard();
                let Some((id, home)) = resting(owner, event, shards) else { return };
                let key = key(home, owner, id);
                if (from..=upto).contains(&key)
                    && !claims.contains(&key)
                    && let Some(digest) = state.digest_of(event)
                {
                    lost.push(LostClaim { id: id.into(), home, owner, digest, is_used_again: false });
                }
            })?;
        }
        if upto == u64::MAX {
            break;
        }
        from = upto + 1;
    }
    mark_used_again(logs, directory, &mut lost)?;
    Ok(lost)
}

/// Looks for other records under the same ids at their homes.
fn mark_used_again<G: Logs>(logs: &G, directory: u64, lost: &mut [LostClaim]) -> Result<(), JournalError> {
    let mut places: HashMap<(ShardIndex, Box<str>), usize> =
        lost.iter().enumerate().map(|(place, claim)| ((claim.home, claim.id.clone()), place)).collect();
    let homes: HashSet<ShardIndex> = lost.iter().map(|claim| claim.home).collect();
    for home in homes {
        read_all(logs, directory, home, &mut |_, event| {
            if let Some(place) = event.id().and_then(|id| places.remove(&(home, id.into()))) {
                lost[place].is_used_again = true;
            }
        })?;
    }
    Ok(())
}

/// What the claims are worth, in words: by the shard that lost some, how that is known. Ids that were used again since
/// prove nothing more: nobody can make that undone.
pub fn proofs_of(lost: &[LostClaim]) -> Vec<(u16, String)> {
    let mut pairs: BTreeMap<(u16, u16), (u64, &LostClaim)> = BTreeMap::new();
    for claim in lost.iter().filter(|claim| !claim.is_used_again) {
        pairs.entry((claim.home.0, claim.owner.0)).or_insert((0, claim)).0 += 1;
    }
    pairs.into_iter().map(|((home, owner), (count, first))| (home, proof(home, owner, count, first))).collect()
}

fn proof(home: u16, owner: u16, count: u64, first: &LostClaim) -> String {
    proof_in_words(home, owner, &format!("{count} of its ids, such as {},", first.id_in_words()))
}

/// What a decision proves whose claim is not there, in words.
pub(crate) fn proof_in_words(home: u16, owner: u16, ids: &str) -> String {
    format!(
        "records of ledger shard {home} are lost: shard {owner} has decided on {ids} whose claims \
         journal/ledger-{home} does not have: another transfer could use these ids again"
    )
}

/// An id, for a person.
pub(crate) fn id_in_words(id: &str) -> String {
    let (space, id) = IdSpace::split(id);
    if space.is_empty() { format!("{id:?}") } else { format!("{id:?} of {space}") }
}

/// Ids that were used twice, in words.
pub fn used_twice(lost: &[LostClaim]) -> Vec<String> {
    let again = lost.iter().filter(|claim| claim.is_used_again);
    let in_words = again.map(|claim| {
        format!(
            "the id {} was decided by ledger shard {}, and stands for something else at its home, ledger shard {}, \
             which has lost its claim",
            claim.id_in_words(),
            claim.owner,
            claim.home
        )
    });
    in_words.collect()
}
